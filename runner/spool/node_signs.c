/* runner/spool/node_signs.c - the ages of the beats, by the clock of the server that keeps
 * them. */
#include "config.h"

#include "runner/spool/node_signs.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/shared_files.h"
#include "runner/spool/node_files.h"

bool node_sign_is_shown(const char *file)
{
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    int fd = open(file, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    bool shown = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;

    if (fd >= 0)
        close(fd);
    return shown;
}

struct signs {
    struct node_sign *list;
    size_t count, room;
};

static void add(void *context, const char *name)
{
    struct signs *signs = context;

    if (signs->count == signs->room) {
        signs->room = signs->room ? 2 * signs->room : 8;
        signs->list = memory_resize(signs->list, signs->room, sizeof(*signs->list));
    }
    signs->list[signs->count] = (struct node_sign) { .age = NAN };
    snprintf(signs->list[signs->count++].name, NODE_NAME_ROOM, "%s", name);
}

static int by_name(const void *a, const void *b)
{
    const struct node_sign *one = a, *two = b;

    return strcmp(one->name, two->name);
}

/* Return when the node gave its last sign of life; NaN: not known. Opening the file asks the
 * server. */
static double last_beat(const char *spool, const char *name)
{
    char *file = node_file(spool, name, ".beat");
    int fd = open(file, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    double beat = NAN;

    if (fd >= 0 && fstat(fd, &st) == 0)
        beat = (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec / 1e9;
    if (fd >= 0)
        close(fd);
    free(file);
    return beat;
}

static bool is_held(const char *spool, const char *name)
{
    char *lock = node_file(spool, name, ".lock");
    char *sign = node_file(spool, name, ".alive");
    const bool held = file_is_locked(lock) || node_sign_is_shown(sign);

    free(lock);
    free(sign);
    return held;
}

/* Read the last beats into `age`; return the newest; NaN: there is none. */
static double read_beats(const char *spool, const struct signs *signs)
{
    double newest = NAN;

    for (size_t i = 0; i < signs->count; i++) {
        signs->list[i].age = last_beat(spool, signs->list[i].name);
        newest = fmax(newest, signs->list[i].age);
    }
    return newest;
}

/* Return the time of the server now, as the beats show it. */
static double server_time(const char *spool, const struct signs *signs)
{
    static const struct timespec wait = { .tv_sec = 2 * NODE_BEAT_SECONDS,
                                          .tv_nsec = 200000000 };
    double newest = read_beats(spool, signs), now = clock_wall(), later;

    if (isnan(newest) || fabs(now - newest) < nodes_silence())
        return now;
    nanosleep(&wait, NULL);
    later = read_beats(spool, signs);
    return later > newest ? later : fmax(clock_wall(), later);
}

size_t node_signs_read(const char *spool, struct node_sign **out)
{
    struct signs signs = { NULL };
    int fd = open(spool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool local = fd >= 0 && !shared_files(fd);
    double now;

    if (fd >= 0)
        close(fd);
    node_files_each(spool, add, &signs);
    if (signs.count > 0)
        qsort(signs.list, signs.count, sizeof(*signs.list), by_name);
    if (local) {
        read_beats(spool, &signs);
        now = clock_wall();
    } else {
        now = server_time(spool, &signs);
    }
    for (size_t i = 0; i < signs.count; i++) {
        struct node_sign *sign = &signs.list[i];

        sign->age = fmax(now - sign->age, 0);
        sign->alive =
            sign->age < nodes_silence() && (!local || is_held(spool, sign->name));
    }
    *out = signs.list;
    return signs.count;
}
