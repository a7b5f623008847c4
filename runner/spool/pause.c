/* runner/spool/pause.c - reads and writes .trainspool/paused. */
#include "config.h"

#include "runner/spool/pause.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

enum { INNER_MODE = 0700 };

bool pause_read(int dir, const char *inner, struct pause *out, struct error *err)
{
    char *file = path_join(inner, "paused"), line[NOTE_ROOM];
    bool ok = note_read(dir, file, &out->on, line, err);

    out->reason[0] = 0;
    if (out->on)
        snprintf(out->reason, sizeof(out->reason), "paused%s%s", line[0] ? " " : "",
                 line);
    free(file);
    return ok;
}

bool pause_changed(struct pause *pause, int inner)
{
    struct pause now;
    bool changed = pause_read(inner, ".", &now, NULL) && now.on != pause->on;

    if (changed)
        *pause = now;
    return changed;
}

bool pause_begin(const char *inner, const char *why, struct error *err)
{
    char *file = path_join(inner, "paused");
    bool ok = file_make_dir(inner, INNER_MODE, err) && note_write(file, why, err);

    free(file);
    return ok;
}

bool pause_end(const char *inner, struct error *err)
{
    char *file = path_join(inner, "paused");
    bool ok = !file_is_dir(inner) || note_remove(file, err);

    free(file);
    return ok;
}
