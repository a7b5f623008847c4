/* runner/job/batch_script.c - finds what the script of a job names. */
#include "config.h"

#include "runner/job/batch_script.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/digest.h"
#include "base/path.h"
#include "base/spawn.h"
#include "runner/cluster/slurm_submission.h"

enum { WORDS = 20 };

/* Return the full name of the folder, also of one that does not exist yet.  malloc'ed;
 * NULL: its parent does not exist. */
static char *find_run_dir(const struct job *job)
{
    char *parent = path_dir(job->run_dir), *full = realpath(job->run_dir, NULL), *dir;

    if (!full && (dir = realpath(parent, NULL))) {
        full = path_join(dir, path_base(job->run_dir));
        free(dir);
    }
    free(parent);
    return full;
}

/* Return the command of a rank, with a NULL at its end; free() the list. */
static const char **make_words(const struct batch_script *script, const char *program)
{
    const struct options *options = script->options;
    size_t roots = 0, n = 0;
    const char **words;

    while (options->root && options->root[roots])
        roots++;
    words = memory_alloc((roots * 2 + WORDS) * sizeof(*words));
    words[n++] = program;
    words[n++] = "--frozen";
    words[n++] = "--spooled";
    words[n++] = "--lease";
    words[n++] = script->name;
    if (script->digest[0]) {
        words[n++] = "--digest";
        words[n++] = script->digest;
    }
    for (size_t i = 0; i < roots; i++) {
        words[n++] = "--root";
        words[n++] = options->root[i];
    }
    if (options->group) {
        words[n++] = "--group";
        words[n++] = options->group;
    }
    if (options->no_sandbox)
        words[n++] = "--no-sandbox";
    words[n++] = "--";
    words[n++] = script->job->path;
    words[n] = NULL;
    return words;
}

bool batch_script_write(const struct batch_script *script, struct text *out,
                        struct error *err)
{
    char *run_dir = find_run_dir(script->job), *dir = realpath(".", NULL), *program;
    const char **words;
    bool ok = run_dir && dir;

    if (!ok) {
        error_errno(err, "cannot find the folder of %s", script->job->path);
    } else {
        program = spawn_sibling("trainspool-train");
        words = make_words(script, program);
        slurm_script_write(&(struct slurm_script) { .plan = script->plan,
                                                    .name = script->name,
                                                    .run_dir = run_dir,
                                                    .dir = dir,
                                                    .words = words },
                           out);
        free(words);
        free(program);
    }
    free(dir);
    free(run_dir);
    return ok;
}

static bool fill_tasks(const struct batch_array *array, const char *program,
                       struct slurm_script_task *tasks, struct error *err)
{
    for (size_t i = 0; i < array->count; i++) {
        const struct batch_script *script = &array->list[i];

        tasks[i] = (struct slurm_script_task) { .name = script->name,
                                                .run_dir = find_run_dir(script->job),
                                                .words = make_words(script, program) };
        if (!tasks[i].run_dir)
            return error_errno(err, "cannot find the folder of %s", script->job->path);
    }
    return true;
}

bool batch_script_write_array(const struct batch_array *array, struct text *out,
                              struct error *err)
{
    struct slurm_script_task *tasks = memory_alloc(array->count * sizeof(*tasks));
    const struct slurm_script_tasks all = { array->id, tasks, array->count };
    char *program = spawn_sibling("trainspool-train"), *dir = realpath(".", NULL);
    bool ok = fill_tasks(array, program, tasks, err);

    if (ok && !dir)
        ok = error_errno(err, "cannot find the working directory");
    if (ok)
        slurm_script_write(&(struct slurm_script) { .plan = array->list[0].plan,
                                                    .name = array->name,
                                                    .dir = dir,
                                                    .tasks = &all },
                           out);
    for (size_t i = 0; i < array->count; i++) {
        free((char *)tasks[i].run_dir);
        free((const char **)tasks[i].words);
    }
    free(tasks);
    free(dir);
    free(program);
    return ok;
}

bool batch_script_preview(const struct options *options, const char *path,
                          const struct plan *plan, const char *text, size_t len,
                          struct text *out, struct error *err)
{
    char name[SLURM_NAME], digest[DIGEST_TEXT];
    struct job job;
    bool ok;

    job_init(&job, path);
    slurm_submission_example(job.name, name);
    digest_bytes(text, len, digest);
    ok = batch_script_write(&(struct batch_script) { .options = options,
                                                     .job = &job,
                                                     .plan = plan,
                                                     .name = name,
                                                     .digest = digest },
                            out, err);
    job_clear(&job);
    return ok;
}
