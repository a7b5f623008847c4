/* runner/spool/submission.c - runs the rules about paths, in the folder of the watch. */
#include "config.h"

#include "runner/spool/submission.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/job/inspect.h"
#include "runner/spool/listing.h"

/* Return whether a path is the folder or below it. */
static bool is_below(const char *path, const char *folder)
{
    size_t len = folder ? strlen(folder) : 0;

    return len > 0 && strncmp(path, folder, len) == 0 && (!path[len] || path[len] == '/');
}

/* Return whether a job of the spool writes to this path, by its text. */
static bool writes_to(const char *name, const char *path)
{
    struct patch_options how = { .job = name, .spooled = true };
    struct patch patch = { 0 };
    bool writes =
        patcher_check_file(&how, &patch, NULL) &&
        (is_below(path, patch.plan.output_dir) || is_below(path, patch.plan.export_dir));

    patch_clear(&patch);
    return writes;
}

/* Return whether a job that has not ended will write to this path. */
static bool will_exist(const char *path)
{
    struct listing listing = { 0 };
    struct listed job;
    bool found = false;

    listing_add_folder(&listing, ".", NULL);
    for (size_t i = 0; i < listing.count && !found; i++)
        if (listing_read(&listing, i, &job)) {
            enum job_state state = job.record.state;

            found = (state == JOB_NEW || state == JOB_READY || state == JOB_RUNNING) &&
                    writes_to(job.path, path);
            listed_clear(&job);
        }
    listing_clear(&listing);
    return found;
}

static bool is_about_paths(const struct finding *finding)
{
    return finding->severity == SEVERITY_ERROR && !finding->fixed && finding->entry &&
           (strcmp(finding->rule, "TS713") == 0 || strcmp(finding->rule, "TS710") == 0);
}

/* Copy the path that a finding is about, without quotes. */
static char *path_of(const struct finding *finding, const char *data)
{
    const char *from = data + finding->at.byte;
    size_t len = finding->cut;
    struct text path;

    if (len >= 2 && (*from == '"' || *from == '\'') && from[len - 1] == *from) {
        from++;
        len -= 2;
    }
    text_init(&path, 0);
    text_add(&path, from, len);
    return text_detach(&path, NULL);
}

static bool check_finding(const char *name, const struct finding *finding,
                          const char *data, struct error *err)
{
    char *path = path_of(finding, data);
    bool later = strcmp(finding->rule, "TS713") == 0 && path[0] != '/' &&
                 !file_exists(path) && will_exist(path);

    free(path);
    return later || error_at(err, ERROR_JOB, name, finding->at, "%s: %s%s%s",
                             finding->rule, finding->message, finding->note ? "; " : "",
                             finding->note ? finding->note : "");
}

static bool check_here(const char *name, const char *data, size_t len, struct error *err)
{
    struct machine machine;
    struct inspect_options how = { .machine = &machine,
                                   .job = name,
                                   .will_run = true,
                                   .spooled = true,
                                   .edit = INSPECT_AS_IS };
    struct inspection inspection = { 0 };
    bool ok = machine_open("cpu", &machine, err) &&
              inspect_text(&how, data, len, &inspection, err);

    for (size_t i = 0; ok && i < inspection.patch.findings.count; i++) {
        const struct finding *finding = &inspection.patch.findings.list[i];

        if (is_about_paths(finding))
            ok = check_finding(name, finding, data, err);
    }
    inspect_clear(&inspection);
    return ok;
}

bool submission_check(const char *spool, const char *name, const char *data, size_t len,
                      struct error *err)
{
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool ok =
        (here >= 0 && chdir(spool) == 0) || error_errno(err, "cannot enter %s", spool);

    ok = ok && check_here(name, data, len, err);
    if (here >= 0 && fchdir(here) != 0 && ok)
        ok = error_errno(err, "cannot return to the working directory");
    if (here >= 0)
        close(here);
    return ok;
}
