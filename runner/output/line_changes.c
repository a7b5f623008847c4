/* runner/output/line_changes.c - keeps the lines sorted, to find them again. */
#include "config.h"

#include "runner/output/line_changes.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Split a text at its line ends, which become zero bytes. */
static char **split(char *text, size_t *count)
{
    char **lines = NULL;
    size_t room = 0;

    *count = 0;
    for (char *end; (end = strchr(text, '\n')); text = end + 1) {
        if (*count == room) {
            room = room ? 2 * room : 64;
            lines = memory_resize(lines, room, sizeof(*lines));
        }
        *end = 0;
        lines[(*count)++] = text;
    }
    return lines;
}

static bool is_new(const struct line_changes *changes, const char *line)
{
    return changes->count == 0 || !bsearch(&line, changes->lines, changes->count,
                                           sizeof(*changes->lines), by_text);
}

void line_changes_write(struct line_changes *changes, const char *text,
                        struct report *report)
{
    struct line_changes now = { .last = memory_strdup(text) };
    struct text out;

    now.lines = split(now.last, &now.count);
    text_init(&out, 0);
    for (size_t i = 0; i < now.count; i++)
        if (is_new(changes, now.lines[i]))
            text_addf(&out, "%s\n", now.lines[i]);
    report_write(report, &out);
    text_clear(&out);
    line_changes_clear(changes);
    *changes = now;
    if (now.count > 0)
        qsort(now.lines, now.count, sizeof(*now.lines), by_text);
}

void line_changes_clear(struct line_changes *changes)
{
    free(changes->lines);
    free(changes->last);
    *changes = (struct line_changes) { 0 };
}
