/* patcher/suppress.c - matches findings with what the job ignores, and tells what fits
 * none. */
#include "config.h"

#include "patcher/suppress.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "patcher/dialect.h"
#include "patcher/directive.h"
#include "patcher/nearest.h"
#include "patcher/propose.h"
#include "patcher/rules.h"
#include "patcher/schema.h"

/* One ID that is to be ignored. */
struct wish {
    const char *text;
    char id[6]; /* upper case; a family where it is shorter than a rule */
    struct mark at;
    size_t bytes;
    const struct directive *directive; /* NULL: of trainspool.ignore, the whole job */
    bool used, refused;
};

struct suppressing {
    const struct document *document;
    const struct patch_options *options;
    struct findings *findings;
    struct arena *arena;
    struct directive *directives;
    size_t directive_count;
    struct wish *wishes;
    size_t wish_count, wish_room;
    bool *hidden; /* of each finding */
};

/* ---- What is to be ignored ---- */

static void add_wish(struct suppressing *all, const struct wish *wish)
{
    struct wish *old = all->wishes, *added;

    if (all->wish_count == all->wish_room) {
        all->wish_room = all->wish_room ? 2 * all->wish_room : 16;
        all->wishes = arena_array(all->arena, all->wish_room, sizeof(*old));
        if (old)
            memcpy(all->wishes, old, all->wish_count * sizeof(*old));
    }
    added = &all->wishes[all->wish_count++];
    *added = *wish;
    for (size_t i = 0; i + 1 < sizeof(added->id) && wish->text[i]; i++)
        added->id[i] = (char)toupper((unsigned char)wish->text[i]);
    if (strlen(wish->text) >= sizeof(added->id))
        added->id[0] = 0; /* no rule's */
}

static void read_comments(struct suppressing *all)
{
    all->directive_count = directives_read(all->document, all->arena, &all->directives);
    for (size_t i = 0; i < all->directive_count; i++) {
        const struct directive *directive = &all->directives[i];

        for (size_t j = 0; j < directive->count; j++)
            add_wish(all, &(struct wish) { .text = directive->words[j].text,
                                           .at = directive->words[j].at,
                                           .bytes = directive->words[j].bytes,
                                           .directive = directive });
    }
}

static const struct node *block_list(const struct document *document, const char *name)
{
    const struct entry *block = document_find(document, "trainspool");
    const struct entry *entry = block ? node_find(node_value(block->value), name) : NULL;

    return entry ? node_value(entry->value) : NULL;
}

/* Where a word of a scalar stands; the whole scalar, where it is not written as it reads.
 */
static void find_word(const struct suppressing *all, const struct node *node, size_t from,
                      size_t len, struct finding *out)
{
    size_t quote = node->style == STYLE_SINGLE || node->style == STYLE_DOUBLE;

    out->at = node->at;
    out->cut = node->bytes;
    if (node->bytes != node->len + 2 * quote)
        return;
    out->at = document_mark(all->document, node->at.byte + quote + from);
    out->cut = len;
}

/* "TS3, TS708" in one scalar. */
static void read_scalar(struct suppressing *all, const struct node *node)
{
    const char *at = node->text;
    struct finding place;

    while (*(at += strspn(at, ", "))) {
        size_t len = strcspn(at, ", ");

        find_word(all, node, (size_t)(at - node->text), len, &place);
        add_wish(all, &(struct wish) { .text = arena_copy(all->arena, at, len),
                                       .at = place.at,
                                       .bytes = place.cut });
        at += len;
    }
}

static void read_block(struct suppressing *all)
{
    const struct node *list = block_list(all->document, "ignore");

    if (list && list->kind == NODE_SCALAR)
        read_scalar(all, list);
    for (size_t i = 0; list && list->kind == NODE_LIST && i < list->count; i++)
        if (node_value(list->items[i])->kind == NODE_SCALAR)
            read_scalar(all, node_value(list->items[i]));
}

/* ---- Which findings that hides ---- */

static bool is_family(const char *id)
{
    return strlen(id) < 5 && strncmp(id, "TS", strlen(id) < 2 ? strlen(id) : 2) == 0;
}

static bool names_rule(const struct wish *wish, const char *rule)
{
    if (strcmp(wish->id, rule) == 0)
        return true;
    return !wish->directive && wish->id[0] && is_family(wish->id) &&
           strncmp(wish->id, rule, strlen(wish->id)) == 0;
}

static bool is_beside(const struct suppressing *all, const struct finding *finding,
                      const struct wish *wish)
{
    if (finding->entry)
        return directive_is_beside(wish->directive, all->document, finding->entry);
    return !wish->directive->alone && finding->at.line == wish->directive->at.line;
}

static bool is_firm(const struct finding *finding)
{
    const struct rule *rule = rules_find(finding->rule);

    return rule && rule->firm && finding->severity == SEVERITY_ERROR;
}

/* Wishes that fit are used, whether or not another fits too. */
static bool is_wished(struct suppressing *all, const struct finding *finding)
{
    bool hidden = false, firm = is_firm(finding);

    for (size_t i = 0; i < all->wish_count; i++) {
        struct wish *wish = &all->wishes[i];

        if (!names_rule(wish, finding->rule) ||
            (wish->directive && !is_beside(all, finding, wish)))
            continue;
        wish->used |= !firm || is_family(wish->id);
        wish->refused |= firm && !is_family(wish->id);
        hidden |= !firm;
    }
    return hidden;
}

static bool same_group(const struct finding *a, const struct finding *b)
{
    return a->group && a->group == b->group;
}

static void mark_hidden(struct suppressing *all)
{
    const struct findings *findings = all->findings;

    all->hidden = arena_array(all->arena, findings->count + 1, sizeof(bool));
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];

        if (!is_wished(all, finding))
            continue;
        for (size_t j = 0; j < findings->count; j++)
            if (j == i || (same_group(finding, &findings->list[j]) &&
                           strcmp(finding->rule, findings->list[j].rule) == 0))
                all->hidden[j] = true;
    }
}

/* ---- What suppresses nothing ---- */

/* May another device, another machine or another model change what the rule finds? */
static bool looks_around(const char *rule)
{
    static const char *const around[] = { "TS007", "TS008", "TS010", "TS011", "TS713" };

    for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++)
        if (strncmp(rule, around[i], strlen(rule)) == 0)
            return true;
    return strlen(rule) < 3 || !strchr("067", rule[2]);
}

static bool is_known(const char *id, bool family)
{
    if (strlen(id) == 5)
        return rules_find(id) != NULL;
    for (size_t i = 0; family && is_family(id) && i < rules_count(); i++)
        if (strncmp(rules_at(i)->id, id, strlen(id)) == 0)
            return true;
    return false;
}

/* "TS1O4", "104", "ts-104" are meant to be TS104. */
const char *suppress_meant(const char *text)
{
    static const char digits[] = "OoIlLSsBZz", meant[] = "0011155822";
    char id[6] = "TS";
    size_t len = 2;

    if (strncasecmp(text, "TS", 2) == 0)
        text += 2;
    text += strspn(text, "-_ .");
    for (; *text; text++) {
        const char *like = strchr(digits, *text);

        if (len == 5)
            return NULL;
        id[len++] = like ? meant[like - digits] : *text;
    }
    id[len] = 0;
    return rules_find(id) ? rules_find(id)->id : NULL;
}

/* The rule that a wish for none may mean: one that its row has, or one spelt alike. */
static const char *find_meant(const struct suppressing *all, const struct wish *wish)
{
    const char *meant = suppress_meant(wish->text);

    for (size_t i = 0; !meant && i < all->findings->count; i++) {
        const struct finding *finding = &all->findings->list[i];

        if ((!wish->directive || is_beside(all, finding, wish)) &&
            nearest_distance(wish->text, finding->rule, 2) <= 2)
            meant = finding->rule;
    }
    return meant;
}

/* Why a wish hides nothing; NULL: it does.  *severity grows to what that is worth. */
static const char *trouble(const struct suppressing *all, const struct wish *wish,
                           enum severity *severity)
{
    const char *where = wish->directive ? "this row" : "this job", *meant;

    if (wish->used && !wish->refused)
        return NULL;
    if (wish->refused || !is_known(wish->id, !wish->directive) || !looks_around(wish->id))
        *severity = SEVERITY_WARNING;
    if (wish->refused)
        return arena_printf(all->arena,
                            "%s cannot be ignored: a run would fail, or do something "
                            "else than the job says",
                            wish->id);
    if (is_known(wish->id, !wish->directive))
        return arena_printf(
            all->arena, "%s finds nothing in %s%s", wish->id, where,
            looks_around(wish->id) && all->options->device
                ? arena_printf(all->arena, " on %s", all->options->device->name)
                : "");
    if (is_known(wish->id, true))
        return arena_printf(
            all->arena, "%s is a family of rules: a comment names whole rules", wish->id);
    meant = find_meant(all, wish);
    return meant ? arena_printf(all->arena, "there is no rule %s; did you mean %s?",
                                wish->text, meant)
                 : arena_printf(all->arena,
                                "there is no rule %s; trainspool explain lists them",
                                wish->text);
}

/* May the word go?  What another device may need stays. */
static bool is_removable(const struct wish *wish)
{
    return !wish->used && !wish->refused &&
           (!is_known(wish->id, false) || !looks_around(wish->id));
}

/* The list without the words that may go; "" if none is left. */
static const char *words_left(const struct suppressing *all,
                              const struct directive *directive)
{
    const char *left = "";

    for (size_t i = 0; i < all->wish_count; i++) {
        const struct wish *wish = &all->wishes[i];

        if (wish->directive == directive && !is_removable(wish))
            left =
                arena_printf(all->arena, "%s%s%s", left, *left ? ", " : "", wish->text);
    }
    return left;
}

/* The edit that takes out what suppresses nothing: words, or the comment. */
static void propose_shorter(const struct suppressing *all,
                            const struct directive *directive, struct finding *finding)
{
    const struct directive_word *first = directive->words;
    const struct directive_word *last = first + directive->count - 1;
    const char *left = words_left(all, directive);
    const char *data = all->document->data;
    size_t from, to;

    if (directive->alone || (!*left && !directive->last))
        return;
    if (*left) {
        from = first->at.byte;
        to = last->at.byte + last->bytes;
    } else {
        from = directive->at.byte;
        to = from + directive->bytes;
        while (from > 0 && (data[from - 1] == ' ' || data[from - 1] == '\t'))
            from--;
        while (to < all->document->len && data[to] != '\n' && data[to] != '\r')
            to++;
        finding->label = "(nothing)";
    }
    if (strlen(left) == to - from && memcmp(left, data + from, to - from) == 0)
        return;
    finding->apply = APPLY_UNSAFE;
    finding->at = document_mark(all->document, from);
    finding->cut = to - from;
    finding->was = arena_copy(all->arena, data + from, to - from);
    finding->now = left;
}

static struct finding base_of(struct mark at, size_t bytes)
{
    return (struct finding) {
        .rule = "TS714", .severity = SEVERITY_WARNING, .at = at, .cut = bytes
    };
}

static void tell_directive(const struct suppressing *all,
                           const struct directive *directive)
{
    struct finding finding = base_of(directive->at, directive->bytes);
    const char *message = NULL;

    finding.severity = SEVERITY_INFO;
    for (size_t i = 0; i < all->wish_count; i++) {
        const char *why = all->wishes[i].directive == directive
                              ? trouble(all, &all->wishes[i], &finding.severity)
                              : NULL;

        if (why)
            message = message ? arena_printf(all->arena, "%s; %s", message, why) : why;
    }
    if (!message)
        return;
    finding.message = message;
    propose_shorter(all, directive, &finding);
    findings_add(all->findings, &finding);
}

/* A directive that can have no effect, however it is meant. */
static const char *fault(const struct suppressing *all, const struct directive *directive)
{
    if (directive->kind == DIRECTIVE_MISSPELT)
        return arena_printf(all->arena, "this has no effect: did you mean %s%s?",
                            directive->meant,
                            strcmp(directive->meant, "ignore") == 0 ? "[...]" : "");
    if (directive->alone)
        return directive->kind == DIRECTIVE_KEEP
                   ? "on a line of its own this keeps nothing: put it behind the value, "
                     "or name the key in trainspool.keep"
                   : "on a line of its own this ignores nothing: put it behind the "
                     "value, or name the rule in trainspool.ignore";
    if (directive->kind == DIRECTIVE_IGNORE && directive->count == 0)
        return "this names no rule: write ignore[TS104]";
    return NULL;
}

static void tell_kept(const struct suppressing *all, const struct node *node, size_t from,
                      size_t len)
{
    const char *name = arena_copy(all->arena, node->text + from, len), *near[2];
    struct finding finding = base_of(node->at, node->bytes);
    bool exact;

    if (schema_find(name) || document_find(all->document, name))
        return;
    find_word(all, node, from, len, &finding);
    finding.message =
        schema_nearest(name, near, 2, &exact) == 1
            ? arena_printf(all->arena,
                           "keep names %.60s, which is no key; did you mean %s?", name,
                           near[0])
            : arena_printf(all->arena, "keep names %.60s, which is no key", name);
    findings_add(all->findings, &finding);
}

/* trainspool.keep names keys, in a list or in one text. */
static void tell_keep(const struct suppressing *all)
{
    const struct node *list = block_list(all->document, "keep");
    const char *at = list && list->kind == NODE_SCALAR ? list->text : "";

    while (*(at += strspn(at, ", "))) {
        size_t len = strcspn(at, ", ");

        tell_kept(all, list, (size_t)(at - list->text), len);
        at += len;
    }
    for (size_t i = 0; list && list->kind == NODE_LIST && i < list->count; i++)
        if (node_value(list->items[i])->kind == NODE_SCALAR)
            tell_kept(all, node_value(list->items[i]), 0,
                      node_value(list->items[i])->len);
}

static void tell_block(const struct suppressing *all)
{
    for (size_t i = 0; i < all->wish_count; i++) {
        const struct wish *wish = &all->wishes[i];
        struct finding finding = base_of(wish->at, wish->bytes);

        finding.severity = SEVERITY_INFO;
        finding.message = wish->directive ? NULL : trouble(all, wish, &finding.severity);
        if (finding.message)
            findings_add(all->findings, &finding);
    }
}

/* A wish for TS714 itself is there for what this finds. */
static void tell_unused(struct suppressing *all)
{
    for (size_t i = 0; i < all->wish_count; i++)
        all->wishes[i].used |= strcmp(all->wishes[i].id, "TS714") == 0;
    for (size_t i = 0; i < all->directive_count; i++) {
        const struct directive *directive = &all->directives[i];
        struct finding finding = base_of(directive->at, directive->bytes);

        finding.message = fault(all, directive);
        if (finding.message)
            findings_add(all->findings, &finding);
        else
            tell_directive(all, directive);
    }
    tell_block(all);
    tell_keep(all);
}

/* ---- Selection ---- */

/* Characters of the longest prefix in the list that the rule has; -1: none. */
static int longest(const char *const *list, const char *rule)
{
    int most = -1;

    for (; list && *list; list++)
        if (strncmp(*list, rule, strlen(*list)) == 0 && (int)strlen(*list) > most)
            most = (int)strlen(*list);
    return most;
}

bool suppress_selects(const char *const *select, const char *const *ignore,
                      const char *rule)
{
    int chosen = select ? longest(select, rule) : 0;

    return chosen >= 0 && chosen > longest(ignore, rule);
}

/* What a text that is no job has is told whoever asks. */
static bool is_selected(const struct suppressing *all, const struct finding *finding)
{
    return !all->document->root ||
           suppress_selects(all->options->select, all->options->ignore, finding->rule);
}

/* ---- The whole ---- */

/* All edits of a group or none. */
static void withdraw_group(struct findings *findings, int group)
{
    for (size_t i = 0; group && i < findings->count; i++)
        if (findings->list[i].group == group)
            propose_withdraw(&findings->list[i]);
}

static void sort_out(struct suppressing *all, struct findings *ignored)
{
    struct findings *findings = all->findings;
    size_t kept = 0;

    for (size_t i = 0; i < findings->count; i++) {
        const struct finding finding = findings->list[i];
        bool selected = is_selected(all, &finding);

        if (all->hidden[i] || !selected)
            withdraw_group(findings, finding.group);
        if (all->hidden[i] && selected)
            findings_add(ignored, &finding);
        if (!all->hidden[i] && selected)
            findings->list[kept++] = findings->list[i];
    }
    findings->count = kept;
}

static bool is_job(const struct document *document)
{
    const struct entry *marker;

    return document->root && dialect_find(document, &marker) == DIALECT_NATIVE;
}

void suppress(const struct document *document, const struct patch_options *options,
              struct findings *findings, struct findings *ignored)
{
    struct suppressing all = { .document = document,
                               .options = options,
                               .findings = findings,
                               .arena = findings->arena };

    if (is_job(document)) {
        read_comments(&all);
        read_block(&all);
        mark_hidden(&all);
        tell_unused(&all);
    }
    mark_hidden(&all); /* TS714 too */
    sort_out(&all, ignored);
}
