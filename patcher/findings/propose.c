/* patcher/findings/propose.c - propose edits unless the job forbids them. */
#include "config.h"

#include "patcher/findings/propose.h"

#include <string.h>

static void set_position(struct finding *finding, const struct node *node)
{
    finding->at = node->at;
    finding->cut = node->bytes;
}

static void set_position_in(struct finding *finding, const struct entry *entry)
{
    set_position(finding, entry->value->bytes > 0 ? entry->value : entry->key);
}

/* A line that is not inserted after all is reported at the row that it would follow: the
 * next line may be anything, or not exist. */
void propose_withdraw(struct finding *finding)
{
    if (finding->new_text && finding->cut == 0 && finding->entry)
        set_position_in(finding, finding->entry);
    finding->apply = APPLY_MANUAL;
    finding->old_text = finding->new_text = finding->label = NULL;
    finding->group = 0;
}

/* Return whether the list "a, b" contains `key`. */
static bool list_contains(const char *list, const char *key)
{
    size_t len = strlen(key);

    while (*list) {
        size_t next;

        list += strspn(list, ", ");
        next = strcspn(list, ", ");
        if (next == len && strncmp(list, key, len) == 0)
            return true;
        list += next;
    }
    return false;
}

/* Return the row of trainspool.keep, or NULL. */
static const struct entry *keep_entry(const struct document *document)
{
    const struct entry *block = document_find(document, "trainspool");

    return block ? node_find(node_value(block->value), "keep") : NULL;
}

static bool is_named(const struct document *document, const char *key)
{
    const struct entry *entry = keep_entry(document);
    const struct node *keep;

    if (!entry)
        return false;
    keep = node_value(entry->value);
    if (keep->kind == NODE_SCALAR)
        return list_contains(keep->text, key);
    for (size_t i = 0; keep->kind == NODE_LIST && i < keep->count; i++)
        if (strcmp(node_value(keep->items[i])->text, key) == 0)
            return true;
    return false;
}

static bool line_is_kept(const struct document *document, const struct entry *entry)
{
    return document_line_keeps(document, entry->key->at) ||
           document_line_keeps(document, entry->value->at);
}

void propose_word(const struct document *document, const struct node *node, size_t from,
                  size_t len, struct finding *out)
{
    size_t quote = node->style == STYLE_SINGLE || node->style == STYLE_DOUBLE;

    set_position(out, node);
    if (node->bytes != node->len + 2 * quote)
        return;
    out->at = document_mark(document, node->at.byte + quote + from);
    out->cut = len;
}

struct finding *propose_key_remark(const struct proposal *to, const struct finding *base,
                                   const struct entry *entry)
{
    struct finding finding = *base;

    finding.apply = APPLY_MANUAL;
    finding.entry = entry;
    finding.group = 0;
    if (entry) {
        set_position(&finding, entry->key);
        if (!finding.key && entry->key->kind == NODE_SCALAR)
            finding.key = entry->key->text;
    }
    return findings_add(to->findings, &finding);
}

struct finding *propose_remark(const struct proposal *to, const struct finding *base,
                               const struct entry *entry)
{
    struct finding *added = propose_key_remark(to, base, entry);

    if (added && entry && entry->value->bytes > 0)
        set_position(added, entry->value);
    return added;
}

/* Add the finding without an edit, for a person to act on, with the reason. */
static struct finding *add_without_edit(const struct proposal *to,
                                        const struct finding *base,
                                        const struct entry *entry, const char *why)
{
    struct finding finding = *base;
    struct finding *added;

    if (why)
        finding.note = why;
    added = propose_remark(to, &finding, entry);
    if (added && base->group) {
        added->group = base->group; /* propose_resolve_groups withdraws the others */
        added->old_text = NULL;
    }
    return added;
}

/* Return whether the same finding is on the value already, as for ${...} where it has an
 * effect. */
static bool is_reported(const struct findings *findings, const char *rule,
                        const struct node *value)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->list[i].at.byte == value->at.byte &&
            strcmp(findings->list[i].rule, rule) == 0)
            return true;
    return false;
}

/* Advise a manual edit after an edit that cannot be made. */
static const char *hand_note(struct arena *arena, const char *line, const char *note)
{
    return arena_printf(arena, "write `%s` by hand%s%s", line, note ? "; " : "",
                        note ? note : "");
}

/* Report an edit that the text does not allow; `line` is what a person should write, or
 * NULL. */
static struct finding *report_refused(const struct proposal *to,
                                      const struct finding *base,
                                      const struct entry *entry, enum rewrite_fault fault,
                                      const char *line)
{
    struct finding why = { .severity = SEVERITY_WARNING, .key = base->key };
    struct finding *added;
    const char *note = NULL;

    if (fault == REWRITE_SHAPE)
        note = "the layout does not allow a safe edit: edit it by hand";
    else if (fault != REWRITE_TWICE && line)
        note = hand_note(to->findings->arena, line, base->note);
    added = add_without_edit(to, base, entry, note);
    if (!added || fault == REWRITE_TWICE || fault == REWRITE_SHAPE)
        return added;
    why.rule = fault == REWRITE_ANCHOR ? "TS007" : "TS008";
    if (entry && is_reported(to->findings, why.rule, entry->value))
        return added;
    why.message =
        fault == REWRITE_ANCHOR
            ? "this comes from an anchor, an alias or a merge, where an edit could "
              "change other keys: edit it by hand"
            : "this contains ${...}, which another program fills in: edit it by hand";
    propose_remark(to, &why, entry);
    return added;
}

bool propose_keeps(const struct document *document, const char *key,
                   const struct entry *entry)
{
    const char *name = entry && entry->key->kind == NODE_SCALAR ? entry->key->text : key;

    return (name && is_named(document, name)) || (key && is_named(document, key)) ||
           (entry && line_is_kept(document, entry));
}

static const char *const kept_note = "the job keeps this value";

typedef enum rewrite_fault (*rewriter)(const struct rewrite *rewrite,
                                       const struct entry *entry, const char *value);

static struct finding *propose(const struct proposal *to, const struct finding *base,
                               const struct entry *entry, const char *value,
                               rewriter make)
{
    struct finding finding = *base;
    struct rewrite rewrite = { to->document, to->findings->arena, &finding };
    enum rewrite_fault fault;

    finding.entry = entry;
    if (!finding.key && entry->key->kind == NODE_SCALAR)
        finding.key = entry->key->text;
    if (propose_keeps(to->document, finding.key, entry))
        return add_without_edit(to, &finding, entry, kept_note);
    fault = make(&rewrite, entry, value);
    if (fault != REWRITE_OK)
        return report_refused(
            to, &finding, entry, fault,
            make == rewrite_value && finding.key
                ? arena_printf(rewrite.arena, "%s: %s", finding.key, value)
                : NULL);
    return findings_add(to->findings, &finding);
}

struct finding *propose_value(const struct proposal *to, const struct finding *base,
                              const struct entry *entry, const char *value)
{
    return propose(to, base, entry, value, rewrite_value);
}

/* Unlike rewrite_value, which keeps quotes, remove them. */
static enum rewrite_fault unquote(const struct rewrite *rewrite,
                                  const struct entry *entry, const char *value)
{
    struct finding *out = rewrite->out;
    const struct node *node = entry->value;
    enum rewrite_fault fault = rewrite_value(rewrite, entry, value);

    if (fault != REWRITE_OK)
        return fault;
    if (node->tag)
        return REWRITE_SHAPE;
    set_position(out, node);
    out->old_text =
        arena_copy(rewrite->arena, rewrite->document->data + node->at.byte, node->bytes);
    out->new_text = arena_strdup(rewrite->arena, value);
    out->label = NULL;
    return REWRITE_OK;
}

struct finding *propose_unquoted(const struct proposal *to, const struct finding *base,
                                 const struct entry *entry)
{
    return propose(to, base, entry, entry->value->text, unquote);
}

struct finding *propose_name(const struct proposal *to, const struct finding *base,
                             const struct entry *entry, const char *name)
{
    return propose(to, base, entry, name, rewrite_key);
}

struct finding *propose_removal(const struct proposal *to, const struct finding *base,
                                const struct entry *entry)
{
    return propose(to, base, entry, base->rule, rewrite_remove);
}

struct finding *propose_line(const struct proposal *to, const struct finding *base,
                             const struct entry *after, const char *value)
{
    struct finding finding = *base;
    struct rewrite rewrite = { to->document, to->findings->arena, &finding };
    enum rewrite_fault fault;

    finding.entry = after;
    if (is_named(to->document, base->key))
        return add_without_edit(to, base, keep_entry(to->document), kept_note);
    fault = rewrite_insert(&rewrite, after, base->key, value);
    if (fault != REWRITE_OK)
        return report_refused(to, base, after, fault,
                              arena_printf(rewrite.arena, "%s: %s", base->key, value));
    return findings_add(to->findings, &finding);
}

/* Return the line that the edit would have written. */
static const char *edited_line(const struct finding *finding, struct arena *arena)
{
    const char *text = finding->label ? finding->label : finding->new_text;
    size_t len;

    text += strspn(text, "\r\n ");
    len = strcspn(text, "\r\n");
    return finding->cut == 0 || !finding->key
               ? arena_copy(arena, text, len)
               : arena_printf(arena, "%s: %.*s", finding->key, (int)len, text);
}

/* Withdraw the edits of a group.  They are not needed if the job keeps a value of the
 * group; otherwise a person can write them. */
static void withdraw_group(struct findings *findings, int group, bool kept)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct finding *finding = &findings->list[i];

        if (finding->group != group)
            continue;
        if (finding->new_text && !kept)
            finding->note = hand_note(
                findings->arena, edited_line(finding, findings->arena), finding->note);
        propose_withdraw(finding);
    }
}

void propose_resolve_groups(struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        int group = findings->list[i].group;
        bool broken = false, kept = false;

        for (size_t j = 0; group && j < findings->count; j++) {
            const struct finding *finding = &findings->list[j];

            broken |= finding->group == group && !finding->old_text;
            kept |= finding->group == group && finding->note == kept_note;
            if (finding->group == group && finding->apply < findings->list[i].apply)
                findings->list[i].apply = finding->apply;
        }
        if (broken)
            withdraw_group(findings, group, kept);
    }
}
