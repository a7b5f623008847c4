/* patcher/convergence_report.c - the final findings after the last edit: each with its
 * own edits, and which of them are resolved. */
#include "config.h"

#include "patcher/convergence_internal.h"
#include "patcher/rules/rules.h"

#include <string.h>

/* Return the row before an inserted line, or NULL.  It is reported as the reason for the
 * insert unless the edit's group changes something else. */
static const struct node *line_before(const struct convergence *convergence, size_t byte)
{
    const struct node *root = convergence->first->document.root, *found = NULL;

    for (size_t i = 0; root && i < root->count; i++)
        if (root->entries[i].key->at.byte < byte)
            found = root->entries[i].value->bytes ? root->entries[i].value
                                                  : root->entries[i].key;
    return found;
}

static void report_at_reason(const struct convergence *convergence,
                             const struct edit_log_entry *edit, struct finding *remark)
{
    const struct finding *owner = &convergence->merged.list[edit->owner];
    const struct node *before = line_before(convergence, edit->at);

    for (size_t i = 0; owner->group && i < convergence->merged.count; i++) {
        const struct finding *other = &convergence->merged.list[i];

        if (other->group == owner->group && other->new_text && other->cut > 0) {
            remark->at = other->at;
            remark->cut = other->cut;
            return;
        }
    }
    if (before) {
        remark->at = before->at;
        remark->cut = before->bytes;
    }
}

/* A finding without an edit about an inserted line is reported at the reason for the
 * insert: the original text does not have the line. */
static void position_remarks(struct convergence *convergence)
{
    const struct edit_log_entry *edits;
    size_t count = edit_log_entries(convergence->edit_log, &edits);

    for (size_t i = 0; i < convergence->merged.count; i++) {
        struct finding *finding = &convergence->merged.list[i];

        for (size_t j = 0;
             !finding->new_text && finding->at.line && finding->cut == 0 && j < count;
             j++)
            if (edits[j].at == finding->at.byte && edits[j].cut == 0 &&
                strpbrk(edits[j].new_text, "\r\n"))
                report_at_reason(convergence, &edits[j], finding);
    }
}

static void assign_edits(struct convergence *convergence)
{
    const struct edit_log_entry *edits;
    size_t count = edit_log_entries(convergence->edit_log, &edits);

    for (size_t i = 0; i < convergence->merged.count; i++) {
        struct finding *finding = &convergence->merged.list[i];

        if (convergence->outcomes[i] != EDIT_NONE || finding->resolved)
            finding->old_text = finding->new_text = NULL;
    }
    for (size_t i = 0; i < count; i++) {
        struct finding *finding = &convergence->merged.list[edits[i].owner];
        const char *original = convergence->first->document.data + edits[i].at;

        finding->at = document_mark(&convergence->first->document, edits[i].at);
        finding->cut = edits[i].cut;
        finding->old_text = arena_copy(convergence->arena, original, edits[i].cut);
        finding->new_text = edits[i].new_text;
    }
    for (size_t i = 0; i < convergence->merged.count; i++)
        if (!convergence->merged.list[i].new_text)
            convergence->merged.list[i].label = NULL;
    position_remarks(convergence);
}

static void mark_resolved(struct convergence *convergence)
{
    const struct findings *remaining = &convergence->last->findings;
    bool *persists =
        arena_array(convergence->arena, convergence->merged.count + 1, sizeof(*persists));

    for (size_t i = 0; i < remaining->count; i++) {
        const struct finding *finding = &remaining->list[i];
        size_t origin = finding->at.line
                            ? edit_log_origin(convergence->edit_log, finding->at.byte)
                            : finding->at.byte;

        persists[convergence_find(convergence, finding, origin, true, persists)] = true;
    }
    for (size_t i = 0; i < convergence->merged.count; i++)
        convergence->merged.list[i].resolved =
            convergence->outcomes[i] == EDIT_MADE || !persists[i];
}

/* Return whether the finding describes a text that the edits have changed. */
static bool is_outdated(const struct finding *finding)
{
    return finding->resolved && !finding->new_text &&
           rules_find(finding->rule)->after_edits;
}

/* Put findings with edits first, in the order of their edits: sorting keeps the order of
 * lines inserted at one position. */
static void order_by_edits(struct convergence *convergence)
{
    const struct edit_log_entry *edits;
    size_t count = edit_log_entries(convergence->edit_log, &edits);
    bool *taken =
        arena_array(convergence->arena, convergence->merged.count + 1, sizeof(*taken));
    struct findings ordered;

    findings_init(&ordered, convergence->arena);
    for (size_t i = 0; i < count; i++) {
        if (!taken[edits[i].owner])
            findings_add(&ordered, &convergence->merged.list[edits[i].owner]);
        taken[edits[i].owner] = true;
    }
    for (size_t i = 0; i < convergence->merged.count; i++)
        if (!taken[i] && !is_outdated(&convergence->merged.list[i]))
            findings_add(&ordered, &convergence->merged.list[i]);
    convergence->merged = ordered;
}

void convergence_report(struct convergence *convergence)
{
    mark_resolved(convergence);
    assign_edits(convergence);
    order_by_edits(convergence);
}
