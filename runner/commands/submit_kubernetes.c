/* runner/commands/submit_kubernetes.c - reads the options, and writes what was made. */
#include "config.h"

#include "runner/commands/submit_kubernetes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/path.h"
#include "patcher/document/document.h"
#include "runner/job/cluster_device.h"
#include "runner/job/kubernetes_request.h"
#include "runner/output/report.h"

#define DEFAULT_IMAGE "trainspool:" PACKAGE_VERSION

struct submission {
    const struct options *options;
    struct machine machine;
    struct report report; /* of findings, on standard error */
    struct text out;      /* the manifests, unless there is a folder for them */
    bool gpu;             /* of any job */
};

/* ---- Options ---- */

static bool check_mount(const char *mount, struct error *err)
{
    size_t bad;

    if (strcmp(mount, "/") == 0 || strchr(mount, ':'))
        return error_set(
            err, ERROR_USAGE,
            "the folder of --mount must not be / and must have no colon, not "
            "%s",
            mount);
    return text_is_utf8(mount, strlen(mount), &bad) ||
           error_set(err, ERROR_USAGE, "the folder of --mount must be UTF-8");
}

static bool check_options(const struct options *options, struct error *err)
{
    if (options->force || options->as_is || options->dry_run)
        return error_set(
            err, ERROR_USAGE,
            "--k8s copies no job: --force, --as-is and --dry-run exclude it");
    if (options->claim && !kubernetes_is_name(options->claim))
        return error_set(
            err, ERROR_USAGE,
            "--claim must be the name of a claim, of a-z, 0-9, - and ., not %s",
            options->claim);
    if (options->image && (!options->image[0] || strpbrk(options->image, " \t\n")))
        return error_set(err, ERROR_USAGE,
                         "--image must be the name of an image, not '%s'",
                         options->image);
    return true;
}

/* ---- One job ---- */

/* The pods have the paths that the job has here, by their names. */
static bool find_paths(const struct options *options, const char *job, char **path,
                       char **mount, struct error *err)
{
    size_t bad;

    *path = path_absolute(job);
    *mount = options->mount ? path_absolute(options->mount) : path_dir(*path);
    if (!text_is_utf8(*path, strlen(*path), &bad))
        return error_set(err, ERROR_USAGE, "the path of the job must be UTF-8");
    return check_mount(*mount, err);
}

/* Settings for the pods: those of --set; the keys for Slurm have no effect there. */
static const char **pod_settings(const struct submission *submission, const char *job,
                                 const char *more)
{
    static const char *const none[] = { NULL };
    const char *const *set = submission->options->set ? submission->options->set : none;
    /* also with --device auto, which only says what the job is checked for */
    const struct machine any = { .target = submission->machine.target };
    struct cluster_job what = { .machine = &any, .set = set };
    const char **list;
    size_t count = 0;
    struct text text;

    while (set[count])
        count++;
    list = memory_alloc((count + 2) * sizeof(*list));
    memcpy(list, set, count * sizeof(*list));
    text_init(&text, 0);
    if (more || (file_read(job, DOCUMENT_MAX_BYTES, &text, NULL, NULL) &&
                 (what.data = text.data, what.len = text.len, cluster_job_is_due(&what))))
        list[count++] = more ? more : "trainspool.backend=local";
    list[count] = NULL;
    text_clear(&text);
    return list;
}

static bool write_file(const char *folder, const char *name, const struct text *text,
                       struct error *err)
{
    char *path = path_join(folder, name);
    const bool ok = file_replace(path, text->data, text->len, 0644, err);

    if (ok)
        printf("%s\n", path);
    free(path);
    return ok;
}

/* The manifest of the last job goes to its file, or after the others. */
static bool place(struct submission *submission, const struct kubernetes_job *job,
                  struct error *err)
{
    char name[KUBERNETES_NAME], file[KUBERNETES_NAME + 8];
    struct text text;
    bool ok = true;

    if (!submission->options->output) {
        text_adds(&submission->out, submission->out.len > 0 ? "---\n" : "");
        kubernetes_manifest(job, &submission->out);
        return true;
    }
    kubernetes_name(job->path, name);
    snprintf(file, sizeof(file), "%s.yaml", name);
    text_init(&text, 0);
    kubernetes_manifest(job, &text);
    ok = write_file(submission->options->output, file, &text, err);
    text_clear(&text);
    return ok;
}

static int make(struct submission *submission, const struct inspection *inspection,
                struct kubernetes_job *job, struct error *err)
{
    const struct patch *patch = &inspection->patch;

    report_findings(&submission->report, patch);
    if (patch->findings.count > 0)
        report_summary(&submission->report, patch);
    if (patch_rejected(patch) || !patch->has_plan)
        return patch->is_job ? EXIT_FINDINGS : EXIT_NO_JOB;
    if (!kubernetes_request(inspection, job, err) || !place(submission, job, err))
        return report_exit(err->code);
    submission->gpu |= job->gpus > 0;
    return EXIT_FINE;
}

/* The job is inspected as one of Slurm, whose keys say what a machine must have. */
static int submit(struct submission *submission, const char *name, struct error *err)
{
    const struct options *options = submission->options;
    const char **inspected = pod_settings(submission, name, "trainspool.backend=slurm");
    const char **set = pod_settings(submission, name, NULL);
    const struct inspect_options how = { .machine = &submission->machine,
                                         .job = name,
                                         .set = inspected,
                                         .counts = true,
                                         .place = INSPECT_NAMED };
    char *path, *mount;
    struct inspection inspection = { 0 };
    int status = EXIT_NO_JOB;

    if (find_paths(options, name, &path, &mount, err)) {
        struct kubernetes_job job = { .path = path,
                                      .mount = mount,
                                      .claim =
                                          options->claim ? options->claim : "trainspool",
                                      .image =
                                          options->image ? options->image : DEFAULT_IMAGE,
                                      .set = set };

        status = inspect_job(&how, &inspection, err)
                     ? make(submission, &inspection, &job, err)
                     : report_exit(err->code);
    }
    inspect_clear(&inspection);
    free(path);
    free(mount);
    free(set);
    free(inspected);
    return status;
}

/* ---- All ---- */

static bool finish(struct submission *submission, struct error *err)
{
    struct text text;
    bool ok;

    if (!submission->options->output) {
        fwrite(submission->out.data, 1, submission->out.len, stdout);
        return true;
    }
    text_init(&text, 0);
    kubernetes_container_file(submission->gpu, &text);
    ok = write_file(submission->options->output, "Containerfile", &text, err);
    text_clear(&text);
    return ok;
}

static bool begin(struct submission *submission, struct error *err)
{
    const struct options *options = submission->options;

    report_init(&submission->report, options);
    submission->report.out = stderr;
    if (!check_options(options, err))
        return false;
    if (options->output && !file_make_dirs(options->output, 0777, err))
        return false;
    return machine_open_check(options->device, &submission->machine, err);
}

int submit_kubernetes(const struct options *options)
{
    struct submission submission = { .options = options };
    struct error err = { 0 };
    int worst = EXIT_FINE;

    if (!begin(&submission, &err)) {
        report_error(options->program, &err);
        return report_exit(err.code);
    }
    text_init(&submission.out, 0);
    for (size_t i = 0; i < options->operand_count; i++) {
        int status;

        error_clear(&err);
        status = submit(&submission, options->operands[i], &err);
        if (err.code)
            report_error(options->program, &err);
        worst = status > worst ? status : worst;
    }
    error_clear(&err);
    if (worst == EXIT_FINE && !finish(&submission, &err)) {
        report_error(options->program, &err);
        worst = report_exit(err.code);
    }
    text_clear(&submission.out);
    return worst;
}
