/* runner/job/outputs.c - walks the keys of a plan that are paths. */
#include "config.h"

#include "runner/job/outputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/group.h"
#include "patcher/document/document.h"

void outputs_bind_plan(const struct job *job, const struct text *text,
                       struct arena *arena, struct plan *plan)
{
    struct document document;
    char *dir = path_dir(job->path);

    *plan = (struct plan) { .job = job->path,
                            .dir = arena_strdup(arena, dir),
                            .run_dir = job->run_dir,
                            .keep_days = -1 };
    free(dir);
    document_read(text->data, text->len, arena, &document);
    if (document.root)
        schema_bind(&document, arena, plan);
}

static void each_of(const struct plan *plan, const struct vocabulary *of,
                    outputs_path *each, void *context)
{
    const struct key *key;

    for (size_t i = 0; (key = schema_at(of, i)); i++) {
        const char *path;

        if (key->use != KEY_USED || key->into == 0 ||
            (key->type != KEY_PATH && key->type != KEY_BOOL_OR_TEXT))
            continue;
        path = *(const char *const *)((const char *)plan + key->into);
        if (path && *path)
            each(context, key, path);
    }
}

void outputs_each_path(const struct plan *plan, outputs_path *each, void *context)
{
    each_of(plan, &schema_job, each, context);
    each_of(plan, &schema_block, each, context);
}

bool outputs_is_file(const char *path)
{
    return text_ends(path, ".safetensors");
}

struct check {
    const struct roots *roots;
    const char *run_dir;
    struct error *err;
};

static void check_path(void *context, const struct key *key, const char *path)
{
    struct check *check = context;
    char where[PATH_MAX];
    enum roots_answer answer;

    if (!key->written || strcmp(path, check->run_dir) == 0 ||
        (outputs_is_file(path) && file_exists(path))) /* it is read */
        return;
    answer = roots_check(check->roots, path, where);
    if (answer == ROOTS_UNKNOWN && !fault_none(check->err))
        return;
    if (answer != ROOTS_ALLOW)
        error_set(check->err, ERROR_JOB,
                  "%s now leads to %s, where the job may not write (TS710)", key->name,
                  where[0] ? where : path);
}

bool outputs_check(const struct job *job, const struct text *text,
                   const struct roots *roots, struct error *err)
{
    struct arena *arena = arena_new();
    struct error cause = { 0 };
    struct roots below = *roots;
    struct check check = { &below, job->run_dir, &cause };
    char *dir = path_dir(job->path);
    struct plan plan;

    if (!below.home)
        below.home = dir;
    outputs_bind_plan(job, text, arena, &plan);
    fault_clear();
    outputs_each_path(&plan, check_path, &check);
    arena_free(arena);
    free(dir);
    return cause.code == ERROR_NONE || error_set(err, cause.code, "%s", cause.text);
}

static void create_path(void *context, const struct key *key, const char *path)
{
    (void)context;
    if (key->written && !outputs_is_file(path))
        file_make_dirs(path, 0777, NULL);
}

void outputs_create(const struct plan *plan)
{
    outputs_each_path(plan, create_path, NULL);
}

struct sharing {
    gid_t group;
    struct error *err;
};

static void share_path(void *context, const struct key *key, const char *path)
{
    const struct sharing *sharing = context;

    if (key->written && !outputs_is_file(path))
        group_make_dirs(path, sharing->group, sharing->err);
}

bool outputs_share(const struct job *job, const struct text *text, const char *group,
                   struct error *err)
{
    struct sharing sharing = { GROUP_NONE, err };
    struct arena *arena;
    struct plan plan;

    if (!group_open(group, &sharing.group, err))
        return false;
    if (sharing.group == GROUP_NONE)
        return true;
    arena = arena_new();
    outputs_bind_plan(job, text, arena, &plan);
    outputs_each_path(&plan, share_path, &sharing);
    arena_free(arena);
    return !err || err->code == ERROR_NONE;
}
