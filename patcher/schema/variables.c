/* patcher/schema/variables.c - a list of names that a job must not set. */
#include "config.h"

#include "patcher/schema/variables.h"

#include <ctype.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

/*
 * The names that glibc removes from the environment of set-user-ID programs
 * (sysdeps/generic/unsecvars.h); then those that make CUDA, NCCL, NVTX or OpenMP load a
 * library, or that let a contained process write into further folders
 * (runner/job/contained_paths.c); then those that belong to the user, to this program, and to
 * what instruments a build. An asterisk stands for any text.
 */
static const struct {
    const char *pattern, *why;
} refused[] = {
    { "LD_*", "loads code into the process" },
    { "GCONV_PATH", "loads code into the process" },
    { "GETCONF_DIR", "leads the C library to other files" },
    { "GLIBC_TUNABLES", "changes how the C library protects the process" },
    { "HOSTALIASES", "leads the C library to other files" },
    { "LOCALDOMAIN", "leads the C library to other files" },
    { "LOCPATH", "leads the C library to other files" },
    { "MALLOC_*", "changes how the C library protects the process" },
    { "NIS_PATH", "leads the C library to other files" },
    { "NLSPATH", "leads the C library to other files" },
    { "RESOLV_HOST_CONF", "leads the C library to other files" },
    { "RES_OPTIONS", "leads the C library to other files" },
    { "TMPDIR", "leads the C library to other files" },
    { "TZDIR", "leads the C library to other files" },
    { "*INJECTION*", "loads code into the process" },
    { "*_PLUGIN", "loads code into the process" },
    { "OMP_TOOL*", "loads code into the process" },
    { "CUDA_CACHE_PATH", "lets the process write to another folder" },
    { "CUDA_COREDUMP_*", "lets the process write to another folder" },
    { "CUDA_MPS_*", "lets the process write to another folder" },
    { "CUDA_VISIBLE_DEVICES",
      "changes which GPU has which number; use trainspool.device" },
    { "CUDA_DEVICE_ORDER", "changes which GPU has which number; use trainspool.device" },
    { "PATH", "belongs to the user" },
    { "HOME", "belongs to the user" },
    { "USER", "belongs to the user" },
    { "LOGNAME", "belongs to the user" },
    { "SHELL", "belongs to the user" },
    { "PWD", "belongs to the user" },
    { "XDG_*", "belongs to the user" },
    { "TRAINSPOOL_*", "belongs to trainspool" },
    { "*SAN_OPTIONS", "belongs to the build" },
    { "GCOV_*", "belongs to the build" },
    { "LLVM_PROFILE_FILE", "belongs to the build" },
};

static bool matches(const char *pattern, const char *name)
{
    for (; *pattern != '*'; pattern++, name++)
        if (*pattern != *name)
            return false;
        else if (!*pattern)
            return true;
    for (pattern++; !matches(pattern, name); name++)
        if (!*name)
            return false;
    return true;
}

static const char *reason_to_refuse(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(refused); i++)
        if (matches(refused[i].pattern, name))
            return refused[i].why;
    return NULL;
}

/* As in POSIX.1-2024, XBD 8.1. */
static bool is_name(const struct node *node)
{
    size_t len = 0;

    if (node->kind != NODE_SCALAR || isdigit((unsigned char)node->text[0]))
        return false;
    while (isalnum((unsigned char)node->text[len]) || node->text[len] == '_')
        len++;
    return len > 0 && len == node->len;
}

bool variable_check(const struct entry *entry, struct error *err)
{
    const struct node *value = node_value(entry->value);
    const char *name = entry->key->text, *why;

    if (!is_name(entry->key))
        return error_set(
            err, ERROR_JOB,
            "the name of a variable has letters, digits and _ only, and does "
            "not begin with a digit");
    why = reason_to_refuse(name);
    if (why)
        return error_set(err, ERROR_JOB, "a job must not set %.80s, which %s", name, why);
    if (node_is_null(entry->value) || value->kind != NODE_SCALAR ||
        strlen(value->text) != value->len)
        return error_set(err, ERROR_JOB, "%.80s must have a text or a number", name);
    if (strstr(value->text, "${"))
        return error_set(err, ERROR_JOB, "%.80s contains ${...}, which is not expanded",
                         name);
    return true;
}

static const struct node *find_map(const struct document *document)
{
    const struct entry *block =
        document->root ? document_find(document, "trainspool") : NULL;
    const struct entry *env = block ? node_find(node_value(block->value), "env") : NULL;
    const struct entry *target =
        block ? node_find(node_value(block->value), "target") : NULL;

    if (!env || node_value(env->value)->kind != NODE_MAP ||
        (target && strcmp(node_value(target->value)->text, "native") != 0))
        return NULL;
    return node_value(env->value);
}

void variables_read(const struct document *document, struct arena *arena,
                    struct variables *out)
{
    const struct node *map = find_map(document);
    struct plan_variable *list;

    *out = (struct variables) { 0 };
    if (!map)
        return;
    list = arena_array(arena, VARIABLES_MAX, sizeof(*list));
    for (size_t i = 0; i < map->count && out->count < VARIABLES_MAX; i++)
        /* of a name that is given twice, which another rule refuses, only one */
        if (variable_check(&map->entries[i], NULL) &&
            node_find(map, map->entries[i].key->text) == &map->entries[i])
            list[out->count++] =
                (struct plan_variable) { map->entries[i].key->text,
                                         node_value(map->entries[i].value)->text };
    out->list = list;
}
