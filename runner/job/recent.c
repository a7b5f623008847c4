/* runner/job/recent.c - reads lines of JSON from the end of a file. */
#include "config.h"

#include "runner/job/recent.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"

static const size_t manifest_max = 4 << 20;

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Lines of evaluations have no loss.  After a resume, steps are repeated: the newer
 * ones count. */
static void take_line(struct recent *recent, const json_t *line)
{
    double step = number(line, "step"), loss = number(line, "loss");

    if (!json_object_get(line, "loss") || isnan(step))
        return;
    while (recent->count > 0 && recent->steps[recent->count - 1] >= step)
        recent->count--;
    if (recent->count == recent->room) {
        recent->room = recent->room ? 2 * recent->room : 64;
        recent->steps =
            memory_resize(recent->steps, recent->room, sizeof(*recent->steps));
        recent->losses =
            memory_resize(recent->losses, recent->room, sizeof(*recent->losses));
    }
    recent->steps[recent->count] = step;
    recent->losses[recent->count++] = loss;
    recent->tokens = number(line, "tokens");
    recent->tokens_per_second = number(line, "tokens_per_second");
    recent->memory = number(line, "memory");
}

void recent_read(const struct job *job, size_t bytes, struct recent *out)
{
    struct text text;

    *out = (struct recent) { .tokens = NAN, .tokens_per_second = NAN, .memory = NAN };
    text_init(&text, bytes);
    if (file_read_end_at(AT_FDCWD, job->metrics, bytes, &text, NULL))
        for (char *line = text.data, *end; (end = strchr(line, '\n')); line = end + 1) {
            json_t *object =
                json_read_text(line, (size_t)(end - line), job->metrics, 1, NULL);

            take_line(out, object);
            json_decref(object);
        }
    text_clear(&text);
}

void recent_clear(struct recent *recent)
{
    free(recent->steps);
    free(recent->losses);
    *recent = (struct recent) { 0 };
}

double recent_planned_bytes(const struct job *job)
{
    char *name = path_join(job->run_dir, "run.json");
    struct text text;
    double bytes = NAN;

    text_init(&text, manifest_max);
    if (file_read_at(AT_FDCWD, name, manifest_max, &text, NULL, NULL)) {
        json_t *facts = json_read_text(text.data, text.len, name, 1, NULL);

        bytes = number(json_object_get(facts, "memory"), "total");
        json_decref(facts);
    }
    text_clear(&text);
    free(name);
    return bytes;
}
