/* patcher/patcher.c - entry points: texts and files in; findings, plans and new files
 * out. */
#include "config.h"

#include "patcher/patcher.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "patcher/history/backup.h"
#include "patcher/history/jobfile.h"
#include "patcher/history/journal.h"
#include "patcher/rules/rules.h"
#include "patcher/script/script.h"
#include "patcher/setting.h"
#include "patcher/convergence.h"

enum { TRIES = 2 }; /* TS010: a file that changes is read again, once */

static bool check(const char *data, size_t len, const struct patch_options *options,
                  bool edit, struct patch *out, struct error *err)
{
    struct analyzer analyzer = { .options = options,
                                 .checkpoint = FORMAT_COUNT,
                                 .teacher = { .format = FORMAT_COUNT } };

    *out = (struct patch) { .arena = arena_new(), .job = options->job };
    analyzer.arena = out->arena;
    if (options->set && script_is_name(options->job))
        return error_set(err, ERROR_USAGE, "%s is a script: --set changes only jobs",
                         options->job);
    fault_clear();
    return setting_apply(options->set, out->arena, &data, &len, err) &&
           converge_text(&analyzer, data, len, edit, out, err) &&
           (!options->will_run || fault_none(err));
}

bool patcher_check(const char *data, size_t len, const struct patch_options *options,
                   struct patch *out, struct error *err)
{
    return check(data, len, options, true, out, err);
}

/* ---- Files ---- */

/* Check the file without editing it, and add the reason as a finding. */
static bool report_unchanged(const struct jobfile *file,
                             const struct patch_options *options, const char *id,
                             const char *why, struct patch *out, struct error *err)
{
    const struct rule *rule = rules_find(id);

    patch_clear(out);
    if (!check(file->text.data, file->text.len, options, false, out, err))
        return false;
    findings_add(
        &out->findings,
        &(struct finding) {
            .rule = rule->id,
            .severity = rule->severity,
            .apply = APPLY_MANUAL,
            .message = arena_printf(out->arena, "the file was not changed: %s", why) });
    if (rule->severity == SEVERITY_ERROR)
        out->rejected = true;
    findings_sort(&out->findings);
    return true;
}

bool patcher_check_file(const struct patch_options *options, struct patch *out,
                        struct error *err)
{
    struct jobfile file;
    const char *barrier;
    bool ok;

    *out = (struct patch) { .job = options->job };
    ok = jobfile_read(&file, options->job, err) &&
         check(file.text.data, file.text.len, options, true, out, err);
    if (ok && out->changed && !options->set && (barrier = jobfile_barrier(&file)))
        ok = report_unchanged(&file, options, "TS011", barrier, out, err);
    jobfile_clear(&file);
    return ok;
}

void patcher_too_large(size_t bytes, const struct patch_options *options,
                       struct patch *out)
{
    const struct rule *rule = rules_find("TS009");

    *out = (struct patch) {
        .arena = arena_new(), .job = options->job, .text = "", .rejected = true
    };
    findings_init(&out->findings, out->arena);
    findings_init(&out->ignored, out->arena);
    document_read("", bytes, out->arena, &out->document); /* checks only the size */
    findings_add(&out->findings,
                 &(struct finding) { .rule = rule->id,
                                     .severity = rule->severity,
                                     .apply = APPLY_MANUAL,
                                     .at = out->document.remarks[0].at,
                                     .message = out->document.remarks[0].text });
}

/* Return the rules whose edits were made, without duplicates; the list ends with NULL. */
static const char *const *made_rules(const struct patch *patch)
{
    const char **rules =
        arena_array(patch->arena, patch->findings.count + 1, sizeof(*rules));
    size_t count = 0;

    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];
        size_t at = 0;

        if (!finding->resolved || !finding->new_text)
            continue;
        while (at < count && strcmp(rules[at], finding->rule) != 0)
            at++;
        rules[at] = finding->rule;
        count += at == count;
    }
    return rules;
}

static bool write_journal(const struct patch *patch, const struct patch_options *options,
                          struct error *err)
{
    struct journal_entry entry = {
        .action = "patch",
        .before = patch->before,
        .after = patch->after,
        .rules = made_rules(patch),
        .findings = &patch->findings,
        .policy = policy_names[patch->plan.policy],
        .device = options->device ? options->device->name : NULL,
        .backup = path_base(patch->backup),
    };

    return journal_add(options->job, &entry, err);
}

/* Write backup, file and journal in this order, each flushed before the next. */
static bool write_file(const struct jobfile *file, const struct patch_options *options,
                       struct patch *out, bool *stale, struct error *err)
{
    char *backup;

    if (!backup_write(options->job, file->text.data, file->text.len, &backup, err))
        return false;
    out->backup = arena_strdup(out->arena, backup);
    free(backup);
    if (!jobfile_replace(file, out->text, out->len, stale, err))
        return false;
    if (*stale)
        return true;
    for (size_t i = 0; i < out->findings.count; i++)
        out->findings.list[i].fixed = out->findings.list[i].resolved;
    return write_journal(out, options, err);
}

static bool write_locked(const struct jobfile *file, const struct patch_options *options,
                         struct patch *out, bool *stale, struct error *err)
{
    int lock = jobfile_lock(options->job, err);
    bool ok = true;

    if (lock < 0)
        return false;
    *stale = !jobfile_is_same(file);
    if (!*stale)
        ok = write_file(file, options, out, stale, err);
    jobfile_unlock(options->job, lock);
    return ok;
}

static bool patch_once(const struct patch_options *options, bool last, struct patch *out,
                       bool *stale, struct error *err)
{
    struct jobfile file;
    const char *barrier;
    bool ok = jobfile_read(&file, options->job, err) &&
              check(file.text.data, file.text.len, options, true, out, err);

    *stale = false;
    if (ok && out->changed) {
        barrier = jobfile_barrier(&file);
        ok = barrier ? report_unchanged(&file, options, "TS011", barrier, out, err)
                     : write_locked(&file, options, out, stale, err);
        if (ok && *stale && last)
            ok = report_unchanged(
                &file, options, "TS010",
                "it changed while it was being patched; try again when the other program "
                "has finished",
                out, err);
    }
    jobfile_clear(&file);
    return ok;
}

bool patcher_patch_file(const struct patch_options *options, struct patch *out,
                        struct error *err)
{
    struct patch_options unset = *options;
    bool stale = true, ok = true;

    unset.set = NULL;
    *out = (struct patch) { .job = options->job };
    for (int i = 1; ok && stale && i <= TRIES; i++) {
        patch_clear(out);
        ok = patch_once(&unset, i == TRIES, out, &stale, err);
    }
    return ok;
}

bool patcher_read(const struct patch_options *options, struct patch *out,
                  struct error *err)
{
    struct jobfile file;
    bool ok;

    *out = (struct patch) { .job = options->job };
    ok = jobfile_read(&file, options->job, err) &&
         check(file.text.data, file.text.len, options, false, out, err);
    jobfile_clear(&file);
    return ok;
}

bool patcher_read_text(const char *data, size_t len, const struct patch_options *options,
                       struct patch *out, struct error *err)
{
    return check(data, len, options, false, out, err);
}

void patch_clear(struct patch *patch)
{
    arena_free(patch->arena);
    *patch = (struct patch) { .job = patch->job };
}

bool patch_rejected(const struct patch *patch)
{
    return patch->rejected;
}
