/* train/score_file.c - writes the scores of pairs, one a line. */
#include "config.h"

#include "train/score_file.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"

#define FILE_MAX_BYTES ((size_t)4 << 30)

struct scored_pair {
    double chosen, rejected;
    bool set;
};

struct score_file {
    size_t count;
    struct scored_pair *pairs;
};

struct score_file *score_file_new(size_t pairs)
{
    struct score_file *file = memory_alloc(sizeof(*file));

    file->count = pairs;
    file->pairs = memory_alloc((pairs + 1) * sizeof(*file->pairs));
    return file;
}

void score_file_free(struct score_file *file)
{
    if (!file)
        return;
    free(file->pairs);
    free(file);
}

void score_file_put(struct score_file *file, size_t index, double chosen, double rejected)
{
    if (index < file->count)
        file->pairs[index] = (struct scored_pair) { chosen, rejected, true };
}

bool score_file_write(const struct score_file *file, const char *name, struct error *err)
{
    struct text text;
    bool ok = true;

    text_init(&text, FILE_MAX_BYTES);
    for (size_t i = 0; ok && i < file->count; i++) {
        json_t *line;

        if (!file->pairs[i].set)
            continue;
        line = json_pack("{s:o, s:o}", "chosen", json_number(file->pairs[i].chosen),
                         "rejected", json_number(file->pairs[i].rejected));
        ok = json_write(line, &text) && text_addc(&text, '\n');
        json_decref(line);
    }
    ok = ok ? file_replace(name, text.data, text.len, 0666, err)
            : error_set(err, ERROR_SYSTEM, "%s would have more than 4 GiB", name);
    text_clear(&text);
    return ok;
}
