/*
 * runner/commands/cmd_submit.c - submit: copies a job into a spool by rename, so that it
 * is complete at once, with paths that mean the same there.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include <stdlib.h>

#include "base/file.h"
#include "patcher/document/document.h"
#include "patcher/relocation.h"
#include "runner/commands/dry_run.h"
#include "runner/commands/submit_kubernetes.h"
#include "runner/output/report.h"
#include "runner/spool/drop.h"
#include "runner/spool/spool.h"
#include "runner/spool/submission.h"

static int cmd_submit(const struct options *options);

const struct command command_submit = {
    .name = "submit",
    .operands = "DIR JOB...",
    .min_operands = 1,
    .max_operands = -1,
    .options =
        (const enum option_id[]) { OPTION_FORCE, OPTION_AS_IS, OPTION_DRY_RUN, OPTION_K8S,
                                   OPTION_DEVICE, OPTION_SET, OPTION_IMAGE, OPTION_CLAIM,
                                   OPTION_MOUNT, OPTION_OUTPUT_FOLDER, OPTION_END },
    .help = "copy jobs into a watched folder, each complete at once",
    .details =
        "A relative path of an input that exists next to the job, or in the working "
        "directory, becomes a full path, and so does an output outside the job's folder; "
        "each is shown.  Other relative paths are relative to the watched folder.  A job "
        "whose model or data exist nowhere is refused with status 1, unless a job of the "
        "folder will write them.\n\n"
        "With --dry-run, nothing is copied: it shows the paths, and the batch script of a job "
        "that Slurm runs.\n\n"
        "With --k8s, all operands are jobs, and nothing is copied: it checks each for the "
        "device of the cluster, and prints a manifest that runs it on Kubernetes.",
    .run = cmd_submit,
};

static void show_moves(struct report *report, const struct relocation *moved)
{
    for (size_t i = 0; i < moved->count; i++)
        report_line(report, "    %s: %s -> %s", moved->list[i].key, moved->list[i].from,
                    moved->list[i].to);
}

/* Write the job, with the paths of `moved`. */
static bool place(const struct options *options, const char *target,
                  const struct relocation *moved, struct report *report,
                  struct error *err)
{
    if (!file_replace(target, moved->text, moved->len, 0644, err))
        return false;
    if (options->quiet)
        return true;
    report_line(report, "%s", target);
    show_moves(report, moved);
    return true;
}

static bool submit_text(const struct options *options, const char *job,
                        const struct text *text, struct report *report, struct error *err)
{
    const char *spool = options->operands[0];
    char *dir = path_dir(job), *target = path_join(spool, path_base(job));
    struct relocation moved = { .text = text->data, .len = text->len };
    bool ok = options->as_is ||
              (relocate(text->data, text->len, dir, &moved, err) &&
               submission_check(spool, path_base(job), moved.text, moved.len, err));

    if (ok && options->dry_run) {
        report_line(report, "%s", target);
        show_moves(report, &moved);
        ok = dry_run_of_submit(options, path_base(job), &moved, report, err);
    } else {
        ok = ok && place(options, target, &moved, report, err);
    }
    relocation_clear(&moved);
    free(target);
    free(dir);
    return ok;
}

static bool submit(const struct options *options, const char *job, struct report *report,
                   struct error *err)
{
    char *target = path_join(options->operands[0], path_base(job));
    struct text text;
    bool ok;

    text_init(&text, DOCUMENT_MAX_BYTES);
    if (!drop_name_is_valid(path_base(job)))
        ok = error_set(err, ERROR_USAGE,
                       "%s: the name of a job must end in .yaml or .yml", job);
    else if (!options->force && file_exists(target))
        ok =
            error_set(err, ERROR_USAGE, "%s already exists; --force replaces it", target);
    else
        ok = file_read(job, DOCUMENT_MAX_BYTES, &text, NULL, err) &&
             submit_text(options, job, &text, report, err);
    text_clear(&text);
    free(target);
    return ok;
}

/* Check the command line, without --k8s. */
static bool check_operands(const struct options *options, struct error *err)
{
    const char *dir = options->operands[0];

    if (options->device || options->set || options->image || options->claim ||
        options->mount || options->output)
        return error_set(
            err, ERROR_USAGE,
            "--device, --set, --image, --claim, --mount and --output require "
            "--k8s");
    if (!file_is_dir(dir))
        return error_set(err, ERROR_USAGE, "%s is not a folder", dir);
    return options->operand_count > 1 ||
           error_set(err, ERROR_USAGE, "no job given; trainspool submit %s JOB", dir);
}

static int cmd_submit(const struct options *options)
{
    const char *dir = options->operands[0];
    struct error err = { 0 };
    struct report report;
    int worst = EXIT_FINE;
    bool any = false;

    if (options->k8s)
        return submit_kubernetes(options);
    report_init(&report, options);
    if (!check_operands(options, &err)) {
        report_error(options->program, &err);
        return report_exit(err.code);
    }
    for (size_t i = 1; i < options->operand_count; i++) {
        int status;

        error_clear(&err);
        if (!submit(options, options->operands[i], &report, &err))
            report_error(options->program, &err);
        status = report_exit(err.code);
        any |= status == EXIT_FINE;
        worst = status > worst ? status : worst;
    }
    if (any && !options->quiet && !options->dry_run && !spool_is_watched(dir))
        report_line(&report, "no watch is running on %s yet: trainspool watch %s", dir,
                    dir);
    return worst;
}
