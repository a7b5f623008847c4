/* patcher/suppress.c - matches findings with what the job ignores and what is
 * selected. */
#include "config.h"

#include "patcher/suppress_parts.h"

#include <ctype.h>
#include <string.h>

#include "patcher/schema/dialect.h"
#include "patcher/findings/propose.h"
#include "patcher/rules.h"

/* ---- What is to be ignored ---- */

static void add_wish(struct suppressing *all, const struct wish *wish)
{
    struct wish *old = all->wishes, *added;

    if (all->wish_count == WISHES_MAX)
        return; /* suppress_tell says so */
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

const struct node *suppress_list(const struct document *document, const char *name)
{
    const struct entry *block = document_find(document, "trainspool");
    const struct entry *entry = block ? node_find(node_value(block->value), name) : NULL;

    return entry ? node_value(entry->value) : NULL;
}

/* "TS3, TS708" in one scalar. */
static void read_scalar(struct suppressing *all, const struct node *node)
{
    const char *at = node->text;
    struct finding place;

    while (*(at += strspn(at, ", "))) {
        size_t len = strcspn(at, ", ");

        propose_word(all->document, node, (size_t)(at - node->text), len, &place);
        add_wish(all, &(struct wish) { .text = arena_copy(all->arena, at, len),
                                       .at = place.at,
                                       .bytes = place.cut });
        at += len;
    }
}

static void read_block(struct suppressing *all)
{
    const struct node *list = suppress_list(all->document, "ignore");

    if (list && list->kind == NODE_SCALAR)
        read_scalar(all, list);
    for (size_t i = 0; list && list->kind == NODE_LIST && i < list->count; i++)
        if (node_value(list->items[i])->kind == NODE_SCALAR)
            read_scalar(all, node_value(list->items[i]));
}

/* ---- Which findings that hides ---- */

bool suppress_is_family(const char *id)
{
    return strlen(id) < 5 && strncmp(id, "TS", strlen(id) < 2 ? strlen(id) : 2) == 0;
}

static bool names_rule(const struct wish *wish, const char *rule)
{
    if (strcmp(wish->id, rule) == 0)
        return true;
    return !wish->directive && wish->id[0] && suppress_is_family(wish->id) &&
           strncmp(wish->id, rule, strlen(wish->id)) == 0;
}

bool suppress_is_beside(const struct suppressing *all, const struct finding *finding,
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
            (wish->directive && !suppress_is_beside(all, finding, wish)))
            continue;
        wish->used |= !firm || suppress_is_family(wish->id);
        wish->refused |= firm && !suppress_is_family(wish->id);
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
        suppress_tell(&all);
    }
    mark_hidden(&all); /* TS714 too */
    sort_out(&all, ignored);
}
