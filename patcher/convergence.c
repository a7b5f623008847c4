/* patcher/convergence.c - from findings to a text that needs no further edit. */
#include "config.h"

#include "patcher/convergence_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/size.h"
#include "patcher/document/edits.h"

enum { MAX_PASSES = 8 };

/* ---- Which edits are made ---- */

/* The order in which families of rules may edit, by the digit behind TS: names first,
 * then facts of the device, precision, clipping, and memory, which needs the final
 * formats.  From TS707 on the seventh is of what names stand for. */
static const char family_order[] = "07672143589";
enum { NAME_FAMILIES = 3 }; /* the first of them */

static size_t family(const struct finding *finding)
{
    const char *at = strchr(family_order, finding->rule[2]);

    if (finding->rule[2] == '7' && strcmp(finding->rule, "TS707") >= 0)
        return NAME_FAMILIES;
    return at ? (size_t)(at - family_order) : sizeof(family_order);
}

struct choice_list {
    const struct findings *findings;
    enum fate *fates;
    struct edits *edits;
    size_t *made; /* indices in the order they were accepted */
    size_t count;
};

static bool may_edit(const struct looker *looker, const struct look *look,
                     const struct finding *finding)
{
    enum apply least = looker->options->unsafe ? APPLY_UNSAFE : APPLY_SAFE;

    /* what is not run here is not patched for this machine either */
    if (look->plan.external && looker->options->will_run)
        return false;
    return look->plan.policy != POLICY_REPORT && finding->now && finding->was &&
           finding->apply >= least;
}

/* The key that an edit brings in: of a new line, or the new name of a key; else *len is
 * 0. */
static const char *new_key(const struct document *document, const struct finding *finding,
                           size_t *len)
{
    const char *now = finding->now;

    *len = 0;
    if (finding->cut == 0 && finding->key) {
        *len = strlen(finding->key);
        return finding->key;
    }
    for (size_t i = 0; i < document->root->count; i++) {
        const struct node *key = document->root->entries[i].key;

        if (key->at.byte != finding->at.byte || key->bytes != finding->cut)
            continue;
        now += *now == '"' || *now == '\'';
        *len = strcspn(now, "\"'");
    }
    return now;
}

/* Two rules may ask for the same new line, or one for a line and one for a key of that
 * name. */
static bool is_brought_in(const struct settle *settle, const struct choice_list *list,
                          const struct finding *finding)
{
    const struct document *document = &settle->last->document;
    size_t len, other_len;
    const char *key = new_key(document, finding, &len);

    for (size_t i = 0; len > 0 && i < list->count; i++) {
        const char *other =
            new_key(document, &list->findings->list[list->made[i]], &other_len);

        if (len == other_len && memcmp(key, other, len) == 0)
            return true;
    }
    return false;
}

static bool fits(const struct settle *settle, const struct choice_list *list,
                 const struct finding *finding)
{
    return edits_fit(list->edits, finding->at.byte, finding->cut) &&
           !is_brought_in(settle, list, finding);
}

/* All of a group, or this one alone. */
static bool group_fits(const struct settle *settle, const struct choice_list *list,
                       size_t at)
{
    const struct finding *finding = &list->findings->list[at];

    for (size_t i = 0; finding->group && i < list->findings->count; i++) {
        const struct finding *other = &list->findings->list[i];

        if (other->group == finding->group && other->now &&
            !(may_edit(settle->looker, settle->last, other) && fits(settle, list, other)))
            return false;
    }
    return fits(settle, list, finding);
}

static void accept(struct choice_list *list, size_t at)
{
    const struct finding *finding = &list->findings->list[at];

    if (!edits_replace(list->edits, finding->at.byte, finding->cut, finding->now, NULL))
        return;
    list->fates[at] = FATE_MADE;
    list->made[list->count++] = at;
}

static void choose_one(const struct settle *settle, struct choice_list *list, size_t at)
{
    const struct finding *finding = &list->findings->list[at];

    if (list->fates[at] != FATE_TOLD || !may_edit(settle->looker, settle->last, finding))
        return;
    if (!group_fits(settle, list, at)) {
        list->fates[at] = FATE_CLASHED;
        return;
    }
    for (size_t i = 0; i < list->findings->count; i++) {
        const struct finding *other = &list->findings->list[i];

        if (i == at || (finding->group && other->group == finding->group && other->now))
            accept(list, i);
    }
}

/* Does a key get a name that this look did not know it by? */
static bool names_a_key(const struct choice_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *rule = list->findings->list[list->made[i]].rule;

        if (strcmp(rule, "TS701") == 0 || strcmp(rule, "TS702") == 0)
            return true;
    }
    return false;
}

/* What follows from a job's facts is left to the next look where a name is mended: then
 * one more of them is known.  How many families were heard. */
static size_t choose(const struct settle *settle, struct choice_list *list)
{
    size_t order = 0;

    for (; order <= sizeof(family_order); order++) {
        if (order == NAME_FAMILIES && names_a_key(list))
            break;
        for (size_t i = 0; i < list->findings->count; i++)
            if (family(&list->findings->list[i]) == order)
                choose_one(settle, list, i);
    }
    return order;
}

/* ---- Findings of several passes ---- */

static bool same_key(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

size_t settle_find(const struct settle *settle, const struct finding *finding,
                   size_t origin, bool told, const bool *taken)
{
    for (size_t i = 0; i < settle->merged.count; i++) {
        const struct finding *other = &settle->merged.list[i];

        if (taken[i] || strcmp(other->rule, finding->rule) != 0 ||
            !same_key(other->key, finding->key) || other->at.byte != origin)
            continue;
        if (!told || settle->fates[i] != FATE_MADE ||
            strcmp(other->message, finding->message) == 0)
            return i;
    }
    return settle->merged.count;
}

static size_t add_merged(struct settle *settle, const struct finding *finding,
                         enum fate fate)
{
    if (settle->merged.count == settle->fate_room) {
        settle->fate_room = settle->fate_room ? 2 * settle->fate_room : 32;
        settle->fates =
            memory_resize(settle->fates, settle->fate_room, sizeof(*settle->fates));
    }
    settle->fates[settle->merged.count] = fate;
    findings_add(&settle->merged, finding);
    return settle->merged.count - 1;
}

/* Are the bytes of the finding's span in the first text too, or written by an edit? */
static bool is_in_first(const struct settle *settle, const struct finding *finding)
{
    const struct document *first = &settle->first->document;
    const struct document *last = &settle->last->document;
    size_t origin = ledger_origin(settle->ledger, finding->at.byte);

    return origin + finding->cut <= first->len &&
           memcmp(first->data + origin, last->data + finding->at.byte, finding->cut) == 0;
}

/* Is it, or one of its group, an edit of what only a patch will write? */
static bool is_of_edited(const struct settle *settle, const struct finding *finding)
{
    const struct findings *findings = &settle->last->findings;

    if (finding->at.line && !is_in_first(settle, finding))
        return true;
    for (size_t i = 0; finding->group && i < findings->count; i++)
        if (findings->list[i].group == finding->group && findings->list[i].at.line &&
            !is_in_first(settle, &findings->list[i]))
            return true;
    return false;
}

/* What is still so after the edits is told with the numbers of then. */
static void retell(struct finding *told, const struct finding *now)
{
    told->severity = now->severity;
    told->message = now->message;
    told->because = now->because;
    told->note = now->note;
}

/* Takes the findings of the last look, of the first `heard` families; *owners says which
 * merged finding each became. */
static void merge(struct settle *settle, const enum fate *fates, size_t heard,
                  size_t *owners)
{
    const struct findings *findings = &settle->last->findings;
    bool *taken = arena_array(settle->arena, settle->merged.count + findings->count + 1,
                              sizeof(*taken));

    for (size_t i = 0; i < findings->count; i++) {
        struct finding finding = findings->list[i];
        size_t origin = ledger_origin(settle->ledger, finding.at.byte), at;
        bool of_edited = is_of_edited(settle, &finding);

        if (family(&finding) >= heard)
            continue;
        at = settle_find(settle, &finding, finding.at.line ? origin : finding.at.byte,
                         fates[i] == FATE_TOLD, taken);
        if (finding.at.line && !is_in_first(settle, &finding))
            finding.cut = 0;
        if (fates[i] == FATE_TOLD && of_edited) {
            finding.apply = APPLY_MANUAL;
            finding.was = finding.now = finding.label = NULL;
        }
        finding.group += finding.group ? settle->groups : 0;
        if (finding.at.line)
            finding.at = document_mark(&settle->first->document, origin);
        if (at == settle->merged.count) {
            at = add_merged(settle, &finding, fates[i]);
        } else if (fates[i] == FATE_MADE || settle->fates[at] == FATE_CLASHED) {
            settle->merged.list[at] = finding;
            settle->fates[at] = fates[i];
        } else if (settle->fates[at] == FATE_TOLD) {
            retell(&settle->merged.list[at], &finding);
        }
        taken[at] = true;
        owners[i] = at;
    }
    settle->groups += (int)findings->count + 1; /* rule_group counts no further */
}

/* ---- One pass ---- */

static bool comes_before(const struct finding *a, const struct finding *b)
{
    if (a->at.byte != b->at.byte)
        return a->at.byte < b->at.byte;
    return a->cut == 0 && b->cut > 0;
}

/* By place; those at one place in the order they were accepted. */
static void sort_made(struct choice_list *list)
{
    for (size_t i = 1; i < list->count; i++) {
        size_t moved = list->made[i], at = i;

        for (; at > 0 && comes_before(&list->findings->list[moved],
                                      &list->findings->list[list->made[at - 1]]);
             at--)
            list->made[at] = list->made[at - 1];
        list->made[at] = moved;
    }
}

/* Where the text has no final newline, only the first line appended needs one before
 * it. */
static void drop_newlines(const struct settle *settle, const struct choice_list *list)
{
    bool first = true;

    for (size_t i = 0; i < list->count; i++) {
        struct finding *finding = &list->findings->list[list->made[i]];

        if (finding->at.byte != settle->len || finding->cut > 0)
            continue;
        if (!first)
            finding->now += strspn(finding->now, "\r\n");
        first = false;
    }
}

/* The comment that a removed line becomes has the line as its owner wrote it, whatever an
 * edit before has made of it. */
static const char *as_written(const struct settle *settle, const struct finding *finding)
{
    static const char mark[] = " removed: ";
    const char *tail = finding->label && strcmp(finding->label, "removed") == 0
                           ? strstr(finding->now, mark)
                           : NULL;
    size_t from, to;
    const char *line;

    if (!tail || strchr(tail, '\n'))
        return finding->now;
    tail += sizeof(mark) - 1;
    from = ledger_origin(settle->ledger, finding->at.byte);
    to = ledger_origin_end(settle->ledger, finding->at.byte + finding->cut);
    line = arena_copy(settle->arena, settle->first->document.data + from, to - from);
    if (strpbrk(line, "\r\n"))
        return finding->now;
    return arena_printf(settle->arena, "%.*s%s", (int)(tail - finding->now), finding->now,
                        line);
}

/* From the last to the first, so that the places of this text hold. */
static void record(struct settle *settle, struct choice_list *list, const size_t *owners)
{
    for (size_t i = 0; i < list->count; i++) {
        struct finding *finding = &list->findings->list[list->made[i]];

        finding->now = as_written(settle, finding);
    }
    sort_made(list);
    drop_newlines(settle, list);
    for (size_t i = list->count; i-- > 0;) {
        const struct finding *finding = &list->findings->list[list->made[i]];

        ledger_replace(settle->ledger,
                       &(struct ledger_edit) { finding->at.byte, finding->cut,
                                               finding->now, owners[list->made[i]] });
    }
    settle->text = ledger_text(settle->ledger, &settle->len);
}

struct names {
    const char **list;
    size_t count;
};

/* The top-level keys whose rows lie in the bytes from..to, or end where nothing is
 * cut. */
static void add_names(struct names *names, const struct document *document, size_t from,
                      size_t to)
{
    for (size_t i = 0; document->root && i < document->root->count; i++) {
        const struct entry *entry = &document->root->entries[i];
        size_t begin = entry->key->at.byte;
        size_t end = entry->value->at.byte + entry->value->bytes;

        if (from < to ? from < end && to > begin : begin < from && from <= end)
            names->list[names->count++] = entry->key->text;
    }
}

/* The keys that the accepted edits are about, in both texts. */
static struct names announced(const struct settle *settle, const struct choice_list *list,
                              const struct document *now)
{
    const struct document *was = &settle->last->document;
    size_t rows = was->root->count + (now->root ? now->root->count : 0);
    struct names names = { .count = 0 };
    size_t shift = 0; /* modulo the word: it may be below zero */

    names.list = arena_array(settle->arena, rows * list->count + 1, sizeof(*names.list));
    for (size_t i = 0; i < list->count; i++) {
        const struct finding *finding = &list->findings->list[list->made[i]];
        size_t at = finding->at.byte, len = strlen(finding->now);

        add_names(&names, was, at, at + finding->cut);
        add_names(&names, now, at + shift, at + shift + len);
        shift += len - finding->cut;
    }
    return names;
}

/* The new text must be the old one but for what was announced. */
static bool verify(const struct settle *settle, const struct choice_list *list,
                   const struct look *next, struct error *err)
{
    const struct document *was = &settle->last->document, *now = &next->document;
    const struct finding *first = &list->findings->list[list->made[0]];
    struct names names = announced(settle, list, now);

    if (now->remark_count <= was->remark_count && document_same_but(was, now, names.list))
        return true;
    if (now->remark_count > 0 && now->remarks[0].fault == DOCUMENT_LIMIT)
        return error_set(err, ERROR_JOB,
                         "the edits leave no room below a limit: %s; shorten the file "
                         "first, it is left alone",
                         now->remarks[0].text);
    return error_set(
        err, ERROR_SYSTEM,
        "internal error: the edit of %s (%s) and those with it would change more than "
        "they should; the file is left alone",
        first->rule, first->key ? first->key : "the file");
}

static bool settle_pass(struct settle *settle, bool edit, bool *again, struct error *err)
{
    struct findings *findings = &settle->last->findings;
    size_t room = findings->count + 1;
    struct choice_list list = { .findings = findings, .edits = edits_new() };
    size_t *owners = arena_array(settle->arena, room, sizeof(*owners));
    size_t heard = sizeof(family_order) + 1;
    struct look *next;
    bool ok = true;

    list.fates = arena_array(settle->arena, room, sizeof(*list.fates));
    list.made = arena_array(settle->arena, room, sizeof(*list.made));
    if (edit)
        heard = choose(settle, &list);
    edits_free(list.edits);
    merge(settle, list.fates, heard, owners);
    *again = list.count > 0;
    if (*again) {
        record(settle, &list, owners);
        next = arena_alloc(settle->arena, sizeof(*next));
        look_at(settle->looker, settle->text, settle->len, next);
        ok = verify(settle, &list, next, err);
        settle->last = next;
    }
    return ok;
}

/* ---- The whole ---- */

static void fill_patch(struct settle *settle, struct patch *out)
{
    const struct look *first = settle->first, *last = settle->last;

    if (last != first) {
        settle_left(settle);
    }
    findings_sort(&settle->merged);
    out->document = first->document;
    out->findings = settle->merged;
    out->ignored = first->ignored;
    out->plan = last->plan;
    out->is_job = first->is_job;
    out->has_plan = last->has_plan;
    out->rejected = !last->has_plan || findings_worst(&last->findings) == SEVERITY_ERROR;
    out->text = settle->text;
    out->len = settle->len;
    digest_bytes(settle->text, settle->len, out->after);
    out->changed = last != first && strcmp(out->before, out->after) != 0;
    out->plan.job_digest = arena_strdup(settle->arena, out->after);
    if (out->has_plan)
        look_decide(settle->looker, settle->last, &out->plan);
}

bool settle_text(struct looker *looker, const char *data, size_t len, bool edit,
                 struct patch *out, struct error *err)
{
    struct settle settle = { .looker = looker, .arena = looker->arena, .len = len };
    bool again = true, ok = true;

    settle.text = arena_copy(looker->arena, data, len);
    settle.first = settle.last = arena_alloc(looker->arena, sizeof(*settle.first));
    settle.ledger = ledger_new(settle.text, len, looker->arena);
    findings_init(&settle.merged, looker->arena);
    digest_bytes(data, len, out->before);
    look_at(looker, data, len, settle.first);
    for (int pass = 0; ok && again; pass++) {
        ok = settle_pass(&settle, edit, &again, err);
        if (ok && again && pass == MAX_PASSES)
            ok = error_set(
                err, ERROR_SYSTEM,
                "internal error: %s asks for edits without end; the file is left alone",
                settle.last->findings.count ? settle.last->findings.list[0].rule
                                            : "a rule");
    }
    if (ok)
        fill_patch(&settle, out);
    free(settle.fates);
    return ok;
}
