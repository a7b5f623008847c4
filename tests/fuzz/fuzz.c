/* tests/fuzz/fuzz.c - assertions, temporary files and input parsing of the fuzz
 * targets. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"

void fuzz_broken(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: this does not hold: %s\n", file, line, condition);
    abort();
}

static char folder[256];
static pid_t owner;

static void remove_folder(void)
{
    if (getpid() == owner)
        file_remove_tree(folder, NULL);
}

const char *fuzz_dir(void)
{
    const char *above = getenv("TMPDIR");
    bool memory = !above && access("/dev/shm", W_OK) == 0;

    if (folder[0])
        return folder;
    snprintf(folder, sizeof(folder), "%s/trainspool-fuzz-XXXXXX",
             above    ? above
             : memory ? "/dev/shm"
                      : "/tmp");
    FUZZ_HOLDS(mkdtemp(folder));
    owner = getpid();
    atexit(remove_folder);
    return folder;
}

const char *fuzz_file(const char *name, const void *data, size_t len)
{
    static char path[512];
    struct error err = { 0 };
    int fd;

    snprintf(path, sizeof(path), "%s/%s", fuzz_dir(), name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_HOLDS(fd >= 0);
    FUZZ_HOLDS(file_write_all(fd, data, len, &err));
    close(fd);
    return path;
}

struct fuzz_part fuzz_take(struct fuzz_part *rest, char end)
{
    const char *at = rest->len > 0 ? memchr(rest->data, end, rest->len) : NULL;
    struct fuzz_part part = { rest->data, at ? (size_t)(at - rest->data) : rest->len };
    size_t taken = at ? part.len + 1 : part.len;

    if (taken > 0)
        rest->data += taken;
    rest->len -= taken;
    return part;
}

char *fuzz_word(struct fuzz_part part)
{
    char *word = memory_alloc(part.len + 1);

    for (size_t i = 0; i < part.len && part.data[i]; i++)
        word[i] = part.data[i];
    return word;
}
