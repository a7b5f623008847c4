/*
 * tests/unit/unit.h - included by every unit test: cmocka with the headers it requires
 * before it, and a private directory for tests that write files.
 */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

/* Create a new directory under $TMPDIR; return its malloc'ed name. */
static inline char *unit_dir_new(void)
{
    const char *parent = getenv("TMPDIR");
    struct text name;

    text_init(&name, 0);
    text_addf(&name, "%s/trainspool-test-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(name.data))
        fail_msg("cannot create the directory %s", name.data);
    return text_detach(&name, NULL);
}

/* Remove it with everything in it and free the name. */
static inline void unit_dir_free(char *dir)
{
    struct error err = { 0 };

    if (!file_remove_tree(dir, &err))
        fail_msg("%s", err.text);
    free(dir);
}

/*
 * Simulate a full disk: no file can grow past `bytes` until unit_disk_free().  Never use
 * /dev/full to test code that replaces or removes a file: as root, it would remove the
 * device.
 */
static inline void unit_disk_full(size_t bytes)
{
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static inline void unit_disk_free(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_DFL);
}

/* Return a file of the source tree, or below the shared data; NULL if it is absent.
 * malloc'ed. */
static inline char *unit_source(const char *name)
{
    const char *top = getenv("top_srcdir");

    return path_join(top ? top : ".", name);
}

static inline char *unit_shared(const char *name)
{
    const char *shared = getenv("TRAINSPOOL_SHARED");
    char *path = path_join(shared ? shared : "../shared", name);

    if (file_exists(path))
        return path;
    free(path);
    return NULL;
}

/* Skip the test if this is not in the shared data; call it before the test allocates
 * anything, because a skipped test frees nothing. */
static inline void unit_need_shared(const char *name)
{
    char *path = unit_shared(name);

    if (!path) {
        print_message("# SKIP %s is not in the shared data\n", name);
        skip();
    }
    free(path);
}

#endif
