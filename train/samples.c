/* train/samples.c - a small file of prompts and answers, replaced as a whole. */
#include "config.h"

#include "train/samples.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"

#define FILE_MAX_BYTES ((size_t)256 << 20)

struct sample_line {
    json_t *prompt, *expected, *before, *correct_before;
    json_t *now, *correct; /* of this evaluation */
};

struct samples {
    char *name;
    struct sample_line *lines;
    size_t count;
};

static void set(json_t **to, json_t *value)
{
    json_decref(*to);
    *to = value;
}

/* Read the answer from before training, written by an earlier attempt. */
static bool read_line(struct sample_line *line, const char *data, size_t len,
                      const char *name, struct error *err)
{
    json_t *object = json_read_text(data, len, name, 1, err);

    if (!object)
        return false;
    line->before = json_incref(json_object_get(object, "before"));
    line->correct_before = json_incref(json_object_get(object, "correct_before"));
    json_decref(object);
    return true;
}

static void read_before(struct samples *samples)
{
    struct error ignored = { 0 };
    struct text text;
    const char *at, *end;

    text_init(&text, FILE_MAX_BYTES);
    if (!file_exists(samples->name) ||
        !file_read(samples->name, FILE_MAX_BYTES, &text, NULL, &ignored))
        text_reset(&text);
    at = text.data;
    for (size_t i = 0; i < samples->count && (end = strchr(at, '\n')); i++, at = end + 1)
        if (!read_line(&samples->lines[i], at, (size_t)(end - at), samples->name,
                       &ignored))
            break; /* a broken line has no answer to keep */
    text_clear(&text);
}

struct samples *samples_open(const char *name, size_t count, bool resume,
                             struct error *err)
{
    struct samples *samples = memory_alloc(sizeof(*samples));

    (void)err;
    samples->name = memory_strdup(name);
    samples->count = count;
    samples->lines = memory_alloc((count + 1) * sizeof(*samples->lines));
    if (resume)
        read_before(samples);
    return samples;
}

void samples_close(struct samples *samples)
{
    if (!samples)
        return;
    for (size_t i = 0; i < samples->count; i++) {
        struct sample_line *line = &samples->lines[i];
        json_t *all[] = { line->prompt, line->expected,       line->before,
                          line->now,    line->correct_before, line->correct };

        for (size_t j = 0; j < sizeof(all) / sizeof(*all); j++)
            json_decref(all[j]);
    }
    free(samples->lines);
    free(samples->name);
    free(samples);
}

void samples_put(struct samples *samples, size_t index,
                 const struct sample_answer *answer)
{
    struct sample_line *line = &samples->lines[index];

    /* the output of a model may be invalid UTF-8 */
    set(&line->prompt, json_visible(answer->prompt->data, answer->prompt->len));
    set(&line->expected, json_visible(answer->expected->data, answer->expected->len));
    set(&line->now, json_visible(answer->text, answer->len));
    set(&line->correct, json_boolean(answer->correct));
}

static void set_or_null(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value ? json_incref(value) : json_null());
}

static void write_line(const struct sample_line *line, int64_t step, struct text *out)
{
    json_t *object = json_object();

    set_or_null(object, "prompt", line->prompt);
    set_or_null(object, "expected", line->expected);
    set_or_null(object, "before", line->before);
    set_or_null(object, "after", step > 0 ? line->now : NULL);
    set_or_null(object, "correct_before", line->correct_before);
    set_or_null(object, "correct", step > 0 ? line->correct : NULL);
    json_object_set_new(object, "step", json_integer(step));
    json_write(object, out);
    text_addc(out, '\n');
    json_decref(object);
}

bool samples_write(struct samples *samples, int64_t step, struct error *err)
{
    struct text text;
    bool ok;

    text_init(&text, FILE_MAX_BYTES);
    for (size_t i = 0; i < samples->count; i++) {
        struct sample_line *line = &samples->lines[i];

        if (!line->prompt)
            continue;
        if (step == 0) {
            set(&line->before, json_incref(line->now));
            set(&line->correct_before, json_incref(line->correct));
        }
        write_line(line, step, &text);
    }
    ok = file_replace(samples->name, text.data, text.len, 0666, err);
    text_clear(&text);
    return ok;
}
