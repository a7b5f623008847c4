/* runner/job/cluster_trial.c - passes the script to sbatch in memory: a check writes no
 * file. */
#include "config.h"

#include "runner/job/cluster_trial.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/size.h"
#include "patcher/rules/rules.h"
#include "patcher/rules/suppress.h"
#include "runner/cluster/slurm.h"
#include "runner/job/batch_script.h"
#include "runner/job/plan_slurm.h"

static const char rule_id[] = "TS729";

bool cluster_trial_ask(const struct text *script, bool *silent, struct error *err)
{
    enum slurm_answer answer = SLURM_UNSURE;
    struct error own = { 0 };
    char name[32];
    int fd;

    if (*silent)
        return true;
    fd = memfd_create("script", 0); /* sbatch inherits it */
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    if (fd >= 0 && file_write_all(fd, script->data, script->len, &own))
        answer = slurm_test(name, &own);
    if (fd >= 0)
        close(fd);
    *silent = answer == SLURM_UNSURE;
    return answer != SLURM_NO || error_set(err, own.code, "%s", own.text);
}

/* Return the key that the words of sbatch are about. */
static const char *key_of(const char *words)
{
    static const struct {
        const char *part, *key;
    } rows[] = {
        { "partition", "partition" },
        { "account", "account" },
        { "QOS", "qos" },
        { "reservation", "reservation" },
        { "feature", "constraint" },
        { "time limit", "time" },
    };

    for (size_t i = 0; i < TS_COUNT(rows); i++)
        if (strcasestr(words, rows[i].part))
            return rows[i].key;
    return "backend";
}

static const struct entry *find_entry(const struct patch *patch, const char *key)
{
    const struct entry *block = document_find(&patch->document, "trainspool");
    const struct node *map = block ? node_value(block->value) : NULL;
    const struct entry *entry = map ? node_find(map, key) : NULL;

    return entry || !map ? entry : node_find(map, "backend");
}

static void add_finding(const struct error *why, struct patch *patch)
{
    const struct entry *entry = find_entry(patch, key_of(why->text));

    findings_add(&patch->findings,
                 &(struct finding) {
                     .rule = rules_find(rule_id)->id,
                     .severity = SEVERITY_ERROR,
                     .apply = APPLY_MANUAL,
                     .key = entry ? entry->key->text : "trainspool",
                     .at = entry ? entry->value->at : (struct mark) { 0 },
                     .cut = entry ? entry->value->bytes : 0,
                     .message = arena_printf(patch->arena,
                                             "Slurm would refuse the job: %s", why->text),
                     .because = "sbatch --test-only on this machine" });
    findings_sort(&patch->findings);
    patch->rejected = true;
}

void cluster_trial_add(const struct options *options, const struct selection *selection,
                       bool *silent, struct patch *patch)
{
    struct error why = { 0 };
    struct text script;

    if (*silent || !patch->has_plan || patch->rejected ||
        !plan_slurm_is_due(&patch->plan) ||
        (selection && !suppress_selects(selection->select, NULL, rule_id)))
        return;
    text_init(&script, 0);
    if (batch_script_preview(options, patch->job, &patch->plan, patch->text, patch->len,
                             &script, &why) &&
        !cluster_trial_ask(&script, silent, &why))
        add_finding(&why, patch);
    text_clear(&script);
}
