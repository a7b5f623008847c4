/* runner/job/child_environment.c - a list of names and beginnings of names. */
#include "config.h"

#include "runner/job/child_environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "base/text.h"
#include "runner/cluster/world.h"

extern char **environ;

/* The user, the language, the terminal; then GPUs, NCCL, thread libraries, oneDNN, memory
 * allocation; then what instruments a build. An underscore at the end: all that begin so. */
static const char *const kept[] = {
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "PWD",
    "LANG",
    "LANGUAGE",
    "LC_",
    "TZ",
    "TMPDIR",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "COLUMNS",
    "XDG_",
    "TRAINSPOOL_",
    "CUDA_",
    "NVIDIA_",
    "NCCL_",
    "SLURM_CONF",
    "LD_LIBRARY_PATH",
    "OMP_",
    "GOMP_",
    "KMP_",
    "DNNL_",
    "ONEDNN_",
    "MALLOC_",
    "GLIBC_TUNABLES",
    "ASAN_OPTIONS",
    "LSAN_OPTIONS",
    "UBSAN_OPTIONS",
    "TSAN_OPTIONS",
    "GCOV_",
    "LLVM_PROFILE_FILE",
};

bool child_variable_is_kept(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(kept); i++)
        if (text_ends(kept[i], "_") ? text_starts(name, kept[i])
                                    : strcmp(name, kept[i]) == 0)
            return true;
    return false;
}

static bool is_kept(const char *variable, bool rank)
{
    char name[64];
    size_t len = strcspn(variable, "=");

    if (len >= sizeof(name)) /* longer than any that is kept whole */
        len = sizeof(name) - 1;
    memcpy(name, variable, len);
    name[len] = 0;
    return child_variable_is_kept(name) || (rank && world_is_variable(name));
}

/* Variables that name folders and the like of one user. */
static bool is_personal(const char *variable)
{
    static const char *const beginnings[] = { "HOME=", "USER=",   "LOGNAME=",
                                              "PWD=",  "TMPDIR=", "XDG_" };

    for (size_t i = 0; i < TS_COUNT(beginnings); i++)
        if (text_starts(variable, beginnings[i]))
            return true;
    return false;
}

/* Append NAME=VALUE to the list, which has room for the text at its end. */
static void add_text(char **list, size_t *count, char **room, const char *name,
                     const char *value)
{
    list[(*count)++] = *room;
    *room += sprintf(*room, "%s=%s", name, value) + 1;
}

static char **make_environment(const struct user *user, bool rank)
{
    const bool other = user && !user_is_own(user->id);
    size_t all = 0, count = 0;
    char **list, *room;

    while (environ[all])
        all++;
    list = memory_alloc((all + 4) * sizeof(*list) +
                        (other ? sizeof(user->home) + 2 * sizeof(user->name) + 32 : 0));
    room = (char *)(list + all + 4);
    for (size_t i = 0; i < all; i++)
        if (is_kept(environ[i], rank) && !(other && is_personal(environ[i])))
            list[count++] = environ[i];
    if (other)
        add_text(list, &count, &room, "HOME", user->home[0] ? user->home : "/");
    if (other && user->name[0]) {
        add_text(list, &count, &room, "USER", user->name);
        add_text(list, &count, &room, "LOGNAME", user->name);
    }
    return list;
}

char **child_environment(const struct user *user)
{
    return make_environment(user, false);
}

char **child_environment_of_rank(void)
{
    return make_environment(NULL, true);
}
