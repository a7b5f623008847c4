/* runner/commands/dry_run.c - admits a job in memory. */
#include "config.h"

#include "runner/commands/dry_run.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/job/admit.h"
#include "runner/job/batch_script.h"
#include "runner/job/cluster_trial.h"
#include "runner/job/plan_slurm.h"

/* Print the lines, each after `before`, with control characters made visible. */
static void print_script(struct report *report, const char *before,
                         const struct text *script)
{
    struct text out;

    text_init(&out, 0);
    for (char *at = script->data, *end; *at; at = end + 1) {
        end = strchr(at, '\n');
        *end = '\0';
        text_adds(&out, *at ? before : "");
        report_visible(&out, at);
        text_addc(&out, '\n');
    }
    report_write(report, &out);
    text_clear(&out);
}

/* Print the script of a job in the working directory, unless Slurm would refuse it. */
static bool show_script(const struct options *options, struct report *report,
                        const char *before, struct patch *patch, struct error *err)
{
    struct text script;
    bool silent = false, ok;

    cluster_trial_add(options, NULL, &silent, patch);
    if (patch_rejected(patch))
        return true;
    text_init(&script, 0);
    ok = batch_script_preview(options, patch->job, &patch->plan, patch->text, patch->len,
                              &script, err);
    if (ok)
        print_script(report, before, &script);
    text_clear(&script);
    return ok;
}

/* ---- run ---- */

static bool preview(const struct options *options, struct report *report,
                    struct inspection *inspection, struct error *err)
{
    struct patch *patch = &inspection->patch;
    bool ok = true;

    if (!patch_rejected(patch) && plan_slurm_is_due(&patch->plan))
        ok = show_script(options, report, "", patch, err);
    else if (!patch_rejected(patch))
        report_line(report, "%s would run on %s", patch->job, patch->plan.device.name);
    if (patch_rejected(patch)) {
        report_findings(report, patch);
        report_summary(report, patch);
    }
    return ok;
}

int dry_run_of_run(const struct options *options)
{
    struct inspection inspection = { 0 };
    struct error err = { 0 };
    struct machine machine;
    struct report report;
    struct job job;
    struct admit_options how = { .machine = &machine,
                                 .set = options->set,
                                 .no_patch = options->no_patch,
                                 .resume = options->resume };
    int status;

    job_init(&job, options->operands[0]);
    report_init(&report, options);
    if (machine_open(NULL, &machine, &err) &&
        admit_settings_are_valid(&job, &how, &err) &&
        admit_preview(&job, &how, &inspection, &err) &&
        preview(options, &report, &inspection, &err)) {
        status = !patch_rejected(&inspection.patch) ? EXIT_FINE
                 : inspection.patch.is_job          ? EXIT_FINDINGS
                                                    : EXIT_NO_JOB;
    } else {
        report_error(options->program, &err);
        status = report_exit(err.code);
    }
    inspect_clear(&inspection);
    job_clear(&job);
    return status;
}

/* ---- submit ---- */

static bool is_left(const struct finding *finding)
{
    return finding->severity == SEVERITY_ERROR && !finding->fixed && !finding->resolved;
}

/* The first error for which the watch would reject the job. */
static bool refuse(const struct patch *patch, struct error *err)
{
    for (size_t i = 0; i < patch->findings.count; i++)
        if (is_left(&patch->findings.list[i]))
            return error_at(err, ERROR_JOB, patch->job, patch->findings.list[i].at,
                            "%s: %s", patch->findings.list[i].rule,
                            patch->findings.list[i].message);
    return error_set(err, ERROR_JOB, "%s is not a job", patch->job);
}

/* A model or data may be missing: submit has checked that an earlier job will write them. */
static bool show_here(const struct options *options, const char *name,
                      const struct relocation *moved, struct report *report,
                      struct error *err)
{
    struct machine machine;
    struct inspection inspection = { 0 };
    const struct inspect_options how = { .machine = &machine,
                                         .job = name,
                                         .counts = true,
                                         .submits = true,
                                         .edit = INSPECT_LOOK };
    bool ok = machine_open(NULL, &machine, err) &&
              inspect_text(&how, moved->text, moved->len, &inspection, err);

    if (ok && inspection.patch.has_plan && plan_slurm_is_due(&inspection.patch.plan))
        ok = show_script(options, report, "    ", &inspection.patch, err) &&
             (!patch_rejected(&inspection.patch) || refuse(&inspection.patch, err));
    inspect_clear(&inspection);
    return ok;
}

bool dry_run_of_submit(const struct options *options, const char *name,
                       const struct relocation *moved, struct report *report,
                       struct error *err)
{
    const char *spool = options->operands[0];
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool ok =
        (here >= 0 && chdir(spool) == 0) || error_errno(err, "cannot enter %s", spool);

    ok = ok && show_here(options, name, moved, report, err);
    if (here >= 0 && fchdir(here) != 0 && ok)
        ok = error_errno(err, "cannot return to the working directory");
    if (here >= 0)
        close(here);
    return ok;
}
