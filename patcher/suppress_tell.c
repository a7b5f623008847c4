/* patcher/suppress_tell.c - TS714: what suppresses nothing, and what may have been
 * meant. */
#include "config.h"

#include "patcher/suppress_parts.h"

#include <string.h>
#include <strings.h>

#include "base/nearest.h"
#include "patcher/findings/propose.h"
#include "patcher/rules.h"
#include "patcher/schema/schema.h"

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
    for (size_t i = 0; family && suppress_is_family(id) && i < rules_count(); i++)
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

        if (nearest_distance(wish->text, finding->rule, 2) <= 2 &&
            (!wish->directive || suppress_is_beside(all, finding, wish)))
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
    if (directive->kind == COMMENT_MISSPELT)
        return arena_printf(all->arena, "this has no effect: did you mean %s%s?",
                            directive->meant,
                            strcmp(directive->meant, "ignore") == 0 ? "[...]" : "");
    if (directive->alone)
        return directive->kind == COMMENT_KEEP
                   ? "on a line of its own this keeps nothing: put it behind the value, "
                     "or name the key in trainspool.keep"
                   : "on a line of its own this ignores nothing: put it behind the "
                     "value, or name the rule in trainspool.ignore";
    if (directive->kind == COMMENT_IGNORE && directive->count == 0)
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
    propose_word(all->document, node, from, len, &finding);
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
    const struct node *list = suppress_list(all->document, "keep");
    const char *at = list && list->kind == NODE_SCALAR ? list->text : "";
    size_t most = list && list->count < WISHES_MAX ? list->count : WISHES_MAX;

    while (*(at += strspn(at, ", "))) { /* a scalar holds at most 4096 bytes */
        size_t len = strcspn(at, ", ");

        tell_kept(all, list, (size_t)(at - list->text), len);
        at += len;
    }
    for (size_t i = 0; list && list->kind == NODE_LIST && i < most; i++)
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

/* What is not looked at hides nothing. */
static void tell_too_many(const struct suppressing *all)
{
    bool words = all->wish_count == WISHES_MAX;
    struct finding finding;

    if (!words && all->directive_count < DIRECTIVES_MAX)
        return;
    finding =
        words ? base_of(all->wishes[WISHES_MAX - 1].at, all->wishes[WISHES_MAX - 1].bytes)
              : base_of(all->directives[DIRECTIVES_MAX - 1].at,
                        all->directives[DIRECTIVES_MAX - 1].bytes);
    finding.message =
        arena_printf(all->arena, "only the first %d %s are read; more have no effect",
                     words ? WISHES_MAX : DIRECTIVES_MAX,
                     words ? "rules to ignore" : "comments for trainspool");
    findings_add(all->findings, &finding);
}

/* A wish for TS714 itself is there for what this finds. */
void suppress_tell(struct suppressing *all)
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
    tell_too_many(all);
}
