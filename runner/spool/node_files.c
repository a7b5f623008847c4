/* runner/spool/node_files.c - lines of text; the count at both ends shows that a beat is
 * whole. */
#include "config.h"

#include "runner/spool/node_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "base/walk.h"

enum { BEAT_BYTES = 64 << 10 };

char *node_file(const char *spool, const char *node, const char *ending)
{
    char *dir = path_join(spool, NODE_FILES);
    struct text path;

    text_init(&path, 0);
    text_addf(&path, "%s/%s%s", dir, node, ending);
    free(dir);
    return text_detach(&path, NULL);
}

void node_files_each(const char *spool, void (*node)(void *context, const char *name),
                     void *context)
{
    char *path = path_join(spool, NODE_FILES);
    DIR *dir = opendir(path);
    const struct dirent *entry;

    free(path);
    while (dir && (entry = readdir(dir))) {
        const size_t len = strlen(entry->d_name);
        char name[256];

        if (entry->d_name[0] == '.' || !text_ends(entry->d_name, ".beat"))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(len - strlen(".beat")), entry->d_name);
        node(context, name);
    }
    if (dir)
        closedir(dir);
}

void node_files_remove(const char *spool, const char *node)
{
    static const char *const endings[] = { ".beat", ".json", ".probe", ".alive" };

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        char *file = node_file(spool, node, endings[i]);

        walk_unlink(file);
        free(file);
    }
}

void node_machine(char out[40])
{
    struct text text;

    text_init(&text, 0);
    out[0] = 0;
    if (file_read("/etc/machine-id", 4096, &text, NULL, NULL) && text.len > 0)
        snprintf(out, 40, "%.*s", (int)strspn(text.data, "0123456789abcdef"), text.data);
    text_clear(&text);
}

void node_beat_add(struct node_beat *beat, uid_t user, size_t running)
{
    beat->user = memory_resize(beat->user, beat->users + 1, sizeof(*beat->user));
    beat->user[beat->users++] = (struct node_user) { user, running };
}

void node_beat_clear(struct node_beat *beat)
{
    free(beat->user);
    beat->user = NULL;
    beat->users = 0;
}

bool node_beat_write(int fd, const struct node_beat *beat)
{
    struct text text;
    bool ok;

    text_init(&text, BEAT_BYTES);
    text_addf(&text, "beat %" PRIu64 "\nstart %" PRIu64 "\nmachine %s\n", beat->count,
              beat->start, beat->machine[0] ? beat->machine : "-");
    for (size_t i = 0; i < beat->users; i++)
        text_addf(&text, "user %ju %zu\n", (uintmax_t)beat->user[i].id,
                  beat->user[i].running);
    text_addf(&text, "end %" PRIu64 "\n", beat->count);
    ok = pwrite(fd, text.data, text.len, 0) == (ssize_t)text.len &&
         ftruncate(fd, (off_t)text.len) == 0;
    text_clear(&text);
    return ok;
}

static bool parse(char *text, struct node_beat *out)
{
    uint64_t end = 0;
    bool whole = false;

    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        uintmax_t user;
        size_t running;

        if (sscanf(line, "beat %" SCNu64, &out->count) == 1)
            whole = false;
        else if (sscanf(line, "start %" SCNu64, &out->start) == 1)
            ;
        else if (sscanf(line, "machine %39s", out->machine) == 1)
            out->machine[0] = out->machine[0] == '-' ? 0 : out->machine[0];
        else if (sscanf(line, "user %ju %zu", &user, &running) == 2)
            node_beat_add(out, (uid_t)user, running);
        else if (sscanf(line, "end %" SCNu64, &end) == 1)
            whole = end == out->count;
    }
    return whole;
}

bool node_beat_read(const char *spool, const char *node, struct node_beat *out)
{
    char *path = node_file(spool, node, ".beat"), *buffer;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    ssize_t got;
    bool ok = false;

    free(path);
    if (fd < 0)
        return false;
    buffer = memory_alloc(BEAT_BYTES + 1);
    got = read(fd, buffer, BEAT_BYTES);
    *out = (struct node_beat) { .count = 0 };
    if (got > 0) {
        buffer[got] = 0;
        ok = parse(buffer, out);
    }
    free(buffer);
    close(fd);
    errno = EAGAIN;
    return ok;
}

static const char uses_cpu[] = "cpu yes\n", leaves_cpu[] = "cpu no\n";

bool node_probe_write(const char *node, const struct probe *probe, bool cpu,
                      struct error *err)
{
    char *file = node_file(".", node, ".probe");
    struct text text;
    bool ok;

    text_init(&text, 0);
    text_adds(&text, cpu ? uses_cpu : leaves_cpu);
    probe_write(probe, &text);
    ok = file_replace(file, text.data, text.len, 0644, err);
    text_clear(&text);
    free(file);
    return ok;
}

bool node_probe_read(const char *spool, const char *node, struct probe *out, bool *cpu)
{
    char *file = node_file(spool, node, ".probe");
    struct text text;
    bool ok;

    text_init(&text, 0);
    ok = file_read(file, BEAT_BYTES, &text, NULL, NULL) && text.len > 0;
    *cpu = ok && text_starts(text.data, uses_cpu);
    ok = ok && (*cpu || text_starts(text.data, leaves_cpu)) &&
         probe_read(strchr(text.data, '\n') + 1, out, NULL);
    text_clear(&text);
    free(file);
    return ok;
}
