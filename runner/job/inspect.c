/* runner/job/inspect.c - reads a job, chooses its device, then passes it to the
 * patcher. */
#include "config.h"

#include "runner/job/inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/job/cluster_device.h"
#include "runner/job/repository.h"

/* The device that a check is for; without one, *out says why. */
static bool choose_checked(const struct inspect_options *options, const char *data,
                           struct inspection *out, struct error *err)
{
    struct repository repository;

    if (!repository_find(options->job, &repository, err))
        return false;
    if (machine_check_device(options->machine, data, repository.device, &out->storage,
                             &out->no_device))
        out->device = &out->storage.device;
    return true;
}

/* Choose the device of a job that Slurm runs.  False: it is another job. */
static bool choose_cluster(const struct inspect_options *options, const char *data,
                           size_t len, struct inspection *out)
{
    const struct cluster_job job = {
        .machine = options->machine, .data = data, .len = len, .set = options->set
    };

    if ((options->place == INSPECT_HERE && !options->submits) || options->frozen ||
        options->launched || !cluster_job_is_due(&job))
        return false;
    if (cluster_device_find(&job, &out->storage, &out->no_device))
        out->device = &out->storage.device;
    return true;
}

static bool choose_device(const struct inspect_options *options, const char *data,
                          size_t len, struct inspection *out, struct error *err)
{
    if (choose_cluster(options, data, len, out))
        return true;
    if (options->place != INSPECT_HERE)
        return choose_checked(options, data, out, err);
    if (!machine_device(options->machine, data, len, &out->storage.device,
                        options->will_run ? err : &out->no_device))
        return !options->will_run;
    out->device = &out->storage.device;
    return true;
}

/* The CPU of the machine that the job runs on, if that is this one. */
static const struct device *find_host(const struct inspect_options *options,
                                      const struct inspection *inspection)
{
    const struct device *device = inspection->device;

    if (options->machine->named || inspection->storage.elsewhere ||
        (device && !device->here && device->kind != DEVICE_CPU))
        return NULL;
    return &options->machine->probe.devices[0];
}

/* A job that cannot be opened is the caller's mistake, unlike an I/O error. */
static bool readable(const char *job, struct stat *st, struct error *err)
{
    int fd = open(job, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0 && fstat(fd, st) == 0) {
        close(fd);
        return true;
    }
    if (fd >= 0) {
        error_errno(err, "cannot examine %s", job);
        close(fd);
        return false;
    }
    if (errno == ENOENT && strcmp(job, "-") == 0)
        return error_set(err, ERROR_DATA,
                         "cannot read a job from standard input: - is not a job; name a "
                         "file");
    return error_errno_data(err, "cannot open the job %s", job);
}

static struct patch_options patch_options(const struct inspect_options *options,
                                          const struct inspection *inspection)
{
    const struct selection *selection = options->selection;
    bool by_option =
        options->machine->source && strcmp(options->machine->source, "--device") == 0;
    const struct program *program = options->program;

    return (struct patch_options) {
        .select = selection ? selection->select : NULL,
        .ignore = selection ? selection->ignore : NULL,
        .job = options->job,
        .device = inspection->device,
        .device_source =
            inspection->device && !by_option ? inspection->storage.source : NULL,
        .guessed = options->place == INSPECT_ANYWHERE && inspection->storage.guessed,
        .host = find_host(options, inspection),
        .no_device = inspection->no_device.code ? inspection->no_device.text : NULL,
        .unsafe = options->unsafe,
        .will_run = options->will_run,
        .spooled = options->spooled,
        .frozen = options->frozen,
        .launched = options->launched,
        .roots = options->spooled ? options->roots : NULL,
        .owner = options->owner,
        .resume = options->resume,
        .heal = options->heal,
        .origin = options->origin,
        .set = options->set,
        .target = program ? program->target : NULL,
        .versions = program ? program->versions : NULL
    };
}

/* ---- Findings that depend on the data ---- */

/* Return whether a finding, or the choice of a stage, assumes samples of cutoff_len tokens:
 * the data may be shorter.  Only trainspool-train reads them, and only for a native
 * job. */
static bool assumes_lengths(const struct inspect_options *options,
                            const struct patch *patch)
{
    if (!patch->has_plan || patch->plan.external || plan_merges(&patch->plan))
        return false;
    if (options->heal || (patch->plan.stage_chosen && patch->plan.zero_stage > 1))
        return true;
    for (size_t i = 0; i < patch->findings.count; i++)
        if (strcmp(patch->findings.list[i].rule, "TS301") == 0 ||
            strcmp(patch->findings.list[i].rule, "TS305") == 0)
            return true;
    return false;
}

/* Count the data if a finding of the patch assumes their lengths. *again: the patch must
 * be made again, with *data. A run must not be refused because the machine failed here. */
static bool count_data(const struct inspect_options *options, struct inspection *out,
                       struct estimate_data *data, bool *again, struct error *err)
{
    const struct steps_job what = { options->job, options->set, options->frozen };
    struct error why = { 0 };

    *again = false;
    if (!options->counts || !assumes_lengths(options, &out->patch))
        return true;
    out->has_steps = steps_query(&what, &out->steps, &why);
    if (options->will_run && why.code == ERROR_FAULT)
        return error_set(err, why.code, "%s", why.text);
    *data = steps_data(&out->steps);
    *again = data->rows > 0; /* also if the run would refuse the data otherwise */
    return true;
}

static bool patch_text(const struct inspect_options *options, const char *data,
                       size_t len, const struct patch_options *how,
                       struct inspection *out, struct error *err)
{
    return options->edit == INSPECT_AS_IS
               ? patcher_read_text(data, len, how, &out->patch, err)
               : patcher_check(data, len, how, &out->patch, err);
}

bool inspect_text(const struct inspect_options *options, const char *data, size_t len,
                  struct inspection *out, struct error *err)
{
    struct estimate_data counted;
    struct patch_options how;
    bool again;

    *out = (struct inspection) { .set = options->set };
    if (!choose_device(options, data, len, out, err))
        return false;
    how = patch_options(options, out);
    if (!patch_text(options, data, len, &how, out, err) ||
        !count_data(options, out, &counted, &again, err))
        return false;
    if (!again)
        return true;
    patch_clear(&out->patch);
    how.data = &counted;
    return patch_text(options, data, len, &how, out, err);
}

static bool (*const doors[])(const struct patch_options *, struct patch *,
                             struct error *) = {
    [INSPECT_LOOK] = patcher_check_file,
    [INSPECT_WRITE] = patcher_patch_file,
    [INSPECT_AS_IS] = patcher_read,
};

/* Inspect the file, twice if its data decide.  A file is written only once. */
static bool patch_file(const struct inspect_options *options, struct patch_options *how,
                       struct inspection *out, struct error *err)
{
    const bool writes = options->edit == INSPECT_WRITE;
    struct estimate_data data;
    bool again;

    if (!doors[writes ? INSPECT_LOOK : options->edit](how, &out->patch, err) ||
        !count_data(options, out, &data, &again, err))
        return false;
    /* a file that needs no edit is not read and checked once more */
    if (!again && (!writes || (!out->patch.changed && !how->set)))
        return true;
    patch_clear(&out->patch);
    how->data = again ? &data : NULL;
    return doors[options->edit](how, &out->patch, err);
}

bool inspect_job(const struct inspect_options *options, struct inspection *out,
                 struct error *err)
{
    struct patch_options how;
    struct stat st;
    struct text text;
    bool ok, large;

    *out = (struct inspection) { .set = options->set };
    if (!readable(options->job, &st, err))
        return false;
    large = S_ISREG(st.st_mode) && (uintmax_t)st.st_size > DOCUMENT_MAX_BYTES;
    text_init(&text, 0);
    ok = (large || file_read(options->job, DOCUMENT_MAX_BYTES, &text, NULL, err)) &&
         choose_device(options, text.data, text.len, out, err);
    text_clear(&text);
    if (!ok)
        return false;
    how = patch_options(options, out);
    if (large)
        patcher_too_large((size_t)st.st_size, &how, &out->patch);
    return large || patch_file(options, &how, out, err);
}

void inspect_clear(struct inspection *inspection)
{
    if (inspection->patch.arena)
        patch_clear(&inspection->patch);
    checked_device_clear(&inspection->storage);
    *inspection = (struct inspection) { 0 };
}
