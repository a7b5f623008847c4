/* patcher/convergence.c - apply edits until a text requires no further edit. */
#include "config.h"

#include "patcher/convergence_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/size.h"
#include "patcher/document/edits.h"

enum { MAX_PASSES = 8 };

/* ---- Choose edits ---- */

/*
 * The order in which families of rules may edit, by the digit after TS: names first, then
 * facts of the device, precision, clipping, and memory, which requires the final formats.
 * From TS707 on, family 7 is about the values of keys and comes after the name families.
 */
static const char family_order[] = "07672143589";
enum { NAME_FAMILIES = 3 }; /* the families before this index are about names */

static size_t family(const struct finding *finding)
{
    const char *at = strchr(family_order, finding->rule[2]);

    if (finding->rule[2] == '7' && strcmp(finding->rule, "TS707") >= 0)
        return NAME_FAMILIES;
    return at ? (size_t)(at - family_order) : sizeof(family_order);
}

struct choice_list {
    const struct findings *findings;
    enum edit_outcome *outcomes;
    struct edits *edits;
    size_t *accepted; /* indices in the order they were accepted */
    size_t count;
};

static bool may_edit(const struct analyzer *analyzer, const struct analysis *analysis,
                     const struct finding *finding)
{
    enum apply least = analyzer->options->unsafe ? APPLY_UNSAFE : APPLY_SAFE;

    /* a job that does not run here is not patched for this machine */
    if (analysis->plan.external && analyzer->options->will_run)
        return false;
    return analysis->plan.policy != POLICY_REPORT && finding->new_text &&
           finding->old_text && finding->apply >= least;
}

/* Return the key that an edit adds: of a new line, or the new name of a key; otherwise
 * set *len to 0. */
static const char *new_key(const struct document *document, const struct finding *finding,
                           size_t *len)
{
    const char *name = finding->new_text;

    *len = 0;
    if (finding->cut == 0 && finding->key) {
        *len = strlen(finding->key);
        return finding->key;
    }
    for (size_t i = 0; i < document->root->count; i++) {
        const struct node *key = document->root->entries[i].key;

        if (key->at.byte != finding->at.byte || key->bytes != finding->cut)
            continue;
        name += *name == '"' || *name == '\'';
        *len = strcspn(name, "\"'");
    }
    return name;
}

/* Two rules may add the same line, or one may add a line and the other rename a key to
 * it. */
static bool adds_same_key(const struct convergence *convergence,
                          const struct choice_list *list, const struct finding *finding)
{
    const struct document *document = &convergence->last->document;
    size_t len, other_len;
    const char *key = new_key(document, finding, &len);

    for (size_t i = 0; len > 0 && i < list->count; i++) {
        const char *other =
            new_key(document, &list->findings->list[list->accepted[i]], &other_len);

        if (len == other_len && memcmp(key, other, len) == 0)
            return true;
    }
    return false;
}

static bool fits(const struct convergence *convergence, const struct choice_list *list,
                 const struct finding *finding)
{
    return edits_fit(list->edits, finding->at.byte, finding->cut) &&
           !adds_same_key(convergence, list, finding);
}

/* Return whether the edits of the finding's group, or this one alone, can be made. */
static bool group_fits(const struct convergence *convergence,
                       const struct choice_list *list, size_t at)
{
    const struct finding *finding = &list->findings->list[at];

    for (size_t i = 0; finding->group && i < list->findings->count; i++) {
        const struct finding *other = &list->findings->list[i];

        if (other->group == finding->group && other->new_text &&
            !(may_edit(convergence->analyzer, convergence->last, other) &&
              fits(convergence, list, other)))
            return false;
    }
    return fits(convergence, list, finding);
}

static void accept(struct choice_list *list, size_t at)
{
    const struct finding *finding = &list->findings->list[at];

    if (!edits_replace(list->edits, finding->at.byte, finding->cut, finding->new_text,
                       NULL))
        return;
    list->outcomes[at] = EDIT_MADE;
    list->accepted[list->count++] = at;
}

static void choose_one(const struct convergence *convergence, struct choice_list *list,
                       size_t at)
{
    const struct finding *finding = &list->findings->list[at];

    if (list->outcomes[at] != EDIT_NONE ||
        !may_edit(convergence->analyzer, convergence->last, finding))
        return;
    if (!group_fits(convergence, list, at)) {
        list->outcomes[at] = EDIT_CONFLICTED;
        return;
    }
    for (size_t i = 0; i < list->findings->count; i++) {
        const struct finding *other = &list->findings->list[i];

        if (i == at ||
            (finding->group && other->group == finding->group && other->new_text))
            accept(list, i);
    }
}

/* Return whether an edit renames a key, so that this analysis did not know the key's
 * meaning. */
static bool names_a_key(const struct choice_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *rule = list->findings->list[list->accepted[i]].rule;

        if (strcmp(rule, "TS701") == 0 || strcmp(rule, "TS702") == 0)
            return true;
    }
    return false;
}

/* Choose the edits.  If one of them renames a key, leave the rules about values to the
 * next analysis, which then knows the key.  Return the number of families processed. */
static size_t choose(const struct convergence *convergence, struct choice_list *list)
{
    size_t order = 0;

    for (; order <= sizeof(family_order); order++) {
        if (order == NAME_FAMILIES && names_a_key(list))
            break;
        for (size_t i = 0; i < list->findings->count; i++)
            if (family(&list->findings->list[i]) == order)
                choose_one(convergence, list, i);
    }
    return order;
}

/* ---- Findings of several passes ---- */

size_t convergence_find(const struct convergence *convergence,
                        const struct finding *finding, size_t origin, bool reported,
                        const bool *taken)
{
    for (size_t i = 0; i < convergence->merged.count; i++) {
        const struct finding *other = &convergence->merged.list[i];

        if (taken[i] || strcmp(other->rule, finding->rule) != 0 ||
            !text_equal(other->key, finding->key) || other->at.byte != origin)
            continue;
        if (!reported || convergence->outcomes[i] != EDIT_MADE ||
            strcmp(other->message, finding->message) == 0)
            return i;
    }
    return convergence->merged.count;
}

static size_t add_merged(struct convergence *convergence, const struct finding *finding,
                         enum edit_outcome outcome)
{
    if (convergence->merged.count == convergence->outcome_room) {
        convergence->outcome_room =
            convergence->outcome_room ? 2 * convergence->outcome_room : 32;
        convergence->outcomes =
            memory_resize(convergence->outcomes, convergence->outcome_room,
                          sizeof(*convergence->outcomes));
    }
    convergence->outcomes[convergence->merged.count] = outcome;
    findings_add(&convergence->merged, finding);
    return convergence->merged.count - 1;
}

/* Return whether the span of the finding is unchanged from the original text, not written
 * by an edit. */
static bool is_in_original(const struct convergence *convergence,
                           const struct finding *finding)
{
    const struct document *first = &convergence->first->document;
    const struct document *last = &convergence->last->document;
    size_t origin = edit_log_origin(convergence->edit_log, finding->at.byte);

    return origin + finding->cut <= first->len &&
           memcmp(first->data + origin, last->data + finding->at.byte, finding->cut) == 0;
}

/* Return whether the finding, or one of its group, is about text that only the patch
 * writes. */
static bool concerns_edit(const struct convergence *convergence,
                          const struct finding *finding)
{
    const struct findings *findings = &convergence->last->findings;

    if (finding->at.line && !is_in_original(convergence, finding))
        return true;
    for (size_t i = 0; finding->group && i < findings->count; i++)
        if (findings->list[i].group == finding->group && findings->list[i].at.line &&
            !is_in_original(convergence, &findings->list[i]))
            return true;
    return false;
}

/* A finding that remains after the edits is reported with the values of the edited
 * text. */
static void update_report(struct finding *reported, const struct finding *current)
{
    reported->severity = current->severity;
    reported->message = current->message;
    reported->because = current->because;
    reported->note = current->note;
}

/* Merge the findings of the last analysis, from the first `family_count` families;
 * *owners maps each to its merged finding. */
static void merge(struct convergence *convergence, const enum edit_outcome *outcomes,
                  size_t family_count, size_t *owners)
{
    const struct findings *findings = &convergence->last->findings;
    bool *taken =
        arena_array(convergence->arena, convergence->merged.count + findings->count + 1,
                    sizeof(*taken));

    for (size_t i = 0; i < findings->count; i++) {
        struct finding finding = findings->list[i];
        size_t origin = edit_log_origin(convergence->edit_log, finding.at.byte), at;
        bool edited = concerns_edit(convergence, &finding);

        if (family(&finding) >= family_count)
            continue;
        at = convergence_find(convergence, &finding,
                              finding.at.line ? origin : finding.at.byte,
                              outcomes[i] == EDIT_NONE, taken);
        if (finding.at.line && !is_in_original(convergence, &finding))
            finding.cut = 0;
        if (outcomes[i] == EDIT_NONE && edited) {
            finding.apply = APPLY_MANUAL;
            finding.old_text = finding.new_text = finding.label = NULL;
        }
        finding.group += finding.group ? convergence->groups : 0;
        if (finding.at.line)
            finding.at = document_mark(&convergence->first->document, origin);
        if (at == convergence->merged.count) {
            at = add_merged(convergence, &finding, outcomes[i]);
        } else if (outcomes[i] == EDIT_MADE ||
                   convergence->outcomes[at] == EDIT_CONFLICTED) {
            convergence->merged.list[at] = finding;
            convergence->outcomes[at] = outcomes[i];
        } else if (convergence->outcomes[at] == EDIT_NONE) {
            update_report(&convergence->merged.list[at], &finding);
        }
        taken[at] = true;
        owners[i] = at;
    }
    convergence->groups += (int)findings->count + 1; /* upper bound of rule_group */
}

/* ---- One pass ---- */

static bool comes_before(const struct finding *a, const struct finding *b)
{
    if (a->at.byte != b->at.byte)
        return a->at.byte < b->at.byte;
    return a->cut == 0 && b->cut > 0;
}

/* Sort by position; edits at one position stay in the order they were accepted. */
static void sort_accepted(struct choice_list *list)
{
    for (size_t i = 1; i < list->count; i++) {
        size_t moved = list->accepted[i], at = i;

        for (; at > 0 && comes_before(&list->findings->list[moved],
                                      &list->findings->list[list->accepted[at - 1]]);
             at--)
            list->accepted[at] = list->accepted[at - 1];
        list->accepted[at] = moved;
    }
}

/* If the text has no final newline, only the first appended line requires one before
 * it. */
static void drop_newlines(const struct convergence *convergence,
                          const struct choice_list *list)
{
    bool first = true;

    for (size_t i = 0; i < list->count; i++) {
        struct finding *finding = &list->findings->list[list->accepted[i]];

        if (finding->at.byte != convergence->len || finding->cut > 0)
            continue;
        if (!first)
            finding->new_text += strspn(finding->new_text, "\r\n");
        first = false;
    }
}

/* A removed line becomes a comment.  Return it with the line as the user wrote it, even
 * if an earlier edit changed it. */
static const char *as_written(const struct convergence *convergence,
                              const struct finding *finding)
{
    static const char mark[] = " removed: ";
    const char *tail = finding->label && strcmp(finding->label, "removed") == 0
                           ? strstr(finding->new_text, mark)
                           : NULL;
    size_t from, to;
    const char *line;

    if (!tail || strchr(tail, '\n'))
        return finding->new_text;
    tail += sizeof(mark) - 1;
    from = edit_log_origin(convergence->edit_log, finding->at.byte);
    to = edit_log_origin_end(convergence->edit_log, finding->at.byte + finding->cut);
    line = arena_copy(convergence->arena, convergence->first->document.data + from,
                      to - from);
    if (strpbrk(line, "\r\n"))
        return finding->new_text;
    return arena_printf(convergence->arena, "%.*s%s", (int)(tail - finding->new_text),
                        finding->new_text, line);
}

/* Record the edits from last to first, so that positions in this text stay valid. */
static void record(struct convergence *convergence, struct choice_list *list,
                   const size_t *owners)
{
    for (size_t i = 0; i < list->count; i++) {
        struct finding *finding = &list->findings->list[list->accepted[i]];

        finding->new_text = as_written(convergence, finding);
    }
    sort_accepted(list);
    drop_newlines(convergence, list);
    for (size_t i = list->count; i-- > 0;) {
        const struct finding *finding = &list->findings->list[list->accepted[i]];

        edit_log_replace(convergence->edit_log,
                         &(struct edit_log_entry) { finding->at.byte, finding->cut,
                                                    finding->new_text,
                                                    owners[list->accepted[i]] });
    }
    convergence->text = edit_log_text(convergence->edit_log, &convergence->len);
}

struct names {
    const char **list;
    size_t count;
};

/* Return whether an edit overlaps a node.  In a script, key and value may be far apart. */
static bool touches(const struct node *node, size_t from, size_t to)
{
    size_t begin = node->at.byte, end = node->at.byte + node->bytes;

    return from < to ? from < end && to > begin : begin <= from && from <= end;
}

/* Add the top-level keys whose rows overlap the bytes from..to; of an empty range, the
 * row that it touches. */
static void add_names(struct names *names, const struct document *document, size_t from,
                      size_t to)
{
    for (size_t i = 0; document->root && i < document->root->count; i++) {
        const struct entry *entry = &document->root->entries[i];
        size_t begin = entry->key->at.byte;
        size_t end = entry->value->at.byte + entry->value->bytes;

        if (document->script
                ? touches(entry->key, from, to) || touches(entry->value, from, to)
            : from < to ? from < end && to > begin
                        : begin < from && from <= end)
            names->list[names->count++] = entry->key->text;
    }
}

/* Return the keys that the accepted edits concern, in both texts. */
static struct names expected_keys(const struct convergence *convergence,
                                  const struct choice_list *list,
                                  const struct document *current)
{
    const struct document *previous = &convergence->last->document;
    size_t rows = previous->root->count + (current->root ? current->root->count : 0);
    struct names names = { .count = 0 };
    size_t shift = 0; /* modulo SIZE_MAX + 1, because it may be negative */

    names.list =
        arena_array(convergence->arena, rows * list->count + 1, sizeof(*names.list));
    for (size_t i = 0; i < list->count; i++) {
        const struct finding *finding = &list->findings->list[list->accepted[i]];
        size_t at = finding->at.byte, len = strlen(finding->new_text);

        add_names(&names, previous, at, at + finding->cut);
        add_names(&names, current, at + shift, at + shift + len);
        shift += len - finding->cut;
    }
    return names;
}

/* Check that only the expected keys changed between the two texts. */
static bool verify(const struct convergence *convergence, const struct choice_list *list,
                   const struct analysis *next, struct error *err)
{
    const struct document *previous = &convergence->last->document,
                          *current = &next->document;
    const struct finding *first = &list->findings->list[list->accepted[0]];
    struct names names = expected_keys(convergence, list, current);

    if (current->remark_count <= previous->remark_count &&
        document_same_but(previous, current, names.list))
        return true;
    if (current->remark_count > 0 && current->remarks[0].fault == DOCUMENT_LIMIT)
        return error_set(
            err, ERROR_JOB,
            "the edits would exceed a limit: %s; shorten the file first (it was not "
            "changed)",
            current->remarks[0].text);
    return error_set(
        err, ERROR_SYSTEM,
        "internal error: the edit of %s (%s) and those with it would change more than "
        "intended; the file was not changed",
        first->rule, first->key ? first->key : "the file");
}

static bool converge_pass(struct convergence *convergence, bool edit, bool *again,
                          struct error *err)
{
    struct findings *findings = &convergence->last->findings;
    size_t room = findings->count + 1;
    struct choice_list list = { .findings = findings, .edits = edits_new() };
    size_t *owners = arena_array(convergence->arena, room, sizeof(*owners));
    size_t family_count = sizeof(family_order) + 1;
    struct analysis *next;
    bool ok = true;

    list.outcomes = arena_array(convergence->arena, room, sizeof(*list.outcomes));
    list.accepted = arena_array(convergence->arena, room, sizeof(*list.accepted));
    if (edit)
        family_count = choose(convergence, &list);
    edits_free(list.edits);
    merge(convergence, list.outcomes, family_count, owners);
    *again = list.count > 0;
    if (*again) {
        record(convergence, &list, owners);
        next = arena_alloc(convergence->arena, sizeof(*next));
        analyze_text(convergence->analyzer, convergence->text, convergence->len, next);
        ok = verify(convergence, &list, next, err);
        convergence->last = next;
    }
    return ok;
}

/* ---- All passes ---- */

static void fill_patch(struct convergence *convergence, struct patch *out)
{
    struct analysis *first = convergence->first, *last = convergence->last;
    /* another program reads the file as it is, whatever a patch would make of it */
    struct analysis *planned = first->misread ? first : last;

    if (last != first) {
        convergence_report(convergence);
    }
    findings_sort(&convergence->merged);
    out->document = first->document;
    out->findings = convergence->merged;
    out->ignored = first->ignored;
    out->plan = planned->plan;
    out->is_job = first->is_job;
    out->has_plan = last->has_plan;
    out->rejected = !last->has_plan || findings_worst(&last->findings) == SEVERITY_ERROR;
    out->text = convergence->text;
    out->len = convergence->len;
    digest_bytes(convergence->text, convergence->len, out->after);
    out->changed = last != first && strcmp(out->before, out->after) != 0;
    out->plan.job_digest = arena_strdup(convergence->arena, out->after);
    if (out->has_plan)
        analysis_decide(convergence->analyzer, planned, &out->plan);
}

bool converge_text(struct analyzer *analyzer, const char *data, size_t len, bool edit,
                   struct patch *out, struct error *err)
{
    struct convergence convergence = { .analyzer = analyzer,
                                       .arena = analyzer->arena,
                                       .len = len };
    bool again = true, ok = true;

    convergence.text = arena_copy(analyzer->arena, data, len);
    convergence.first = convergence.last =
        arena_alloc(analyzer->arena, sizeof(*convergence.first));
    convergence.edit_log = edit_log_new(convergence.text, len, analyzer->arena);
    findings_init(&convergence.merged, analyzer->arena);
    digest_bytes(data, len, out->before);
    analyze_text(analyzer, data, len, convergence.first);
    for (int pass = 0; ok && again; pass++) {
        ok = converge_pass(&convergence, edit, &again, err);
        if (ok && again && pass == MAX_PASSES)
            ok = error_set(
                err, ERROR_SYSTEM,
                "internal error: the edits of %s do not converge; the file was not "
                "changed",
                convergence.last->findings.count ? convergence.last->findings.list[0].rule
                                                 : "a rule");
    }
    if (ok)
        fill_patch(&convergence, out);
    free(convergence.outcomes);
    return ok;
}
