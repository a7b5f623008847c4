/* patcher/rules/suppress.c - which findings the job ignores, and which the caller
 * selects. */
#include "config.h"

#include "patcher/rules/suppress_state.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "patcher/profiles/trainer_view.h"
#include "patcher/schema/dialect.h"
#include "patcher/findings/propose.h"
#include "patcher/rules/rules.h"

static void add_suppression(struct suppress_state *state,
                            const struct suppression *suppression)
{
    struct suppression *old = state->suppressions, *added;

    if (state->suppression_count == SUPPRESSIONS_MAX)
        return; /* suppress_report_unused reports it */
    if (state->suppression_count == state->suppression_room) {
        state->suppression_room =
            state->suppression_room ? 2 * state->suppression_room : 16;
        state->suppressions =
            arena_array(state->arena, state->suppression_room, sizeof(*old));
        if (old)
            memcpy(state->suppressions, old, state->suppression_count * sizeof(*old));
    }
    added = &state->suppressions[state->suppression_count++];
    *added = *suppression;
    for (size_t i = 0; i + 1 < sizeof(added->id) && suppression->text[i]; i++)
        added->id[i] = (char)toupper((unsigned char)suppression->text[i]);
    if (strlen(suppression->text) >= sizeof(added->id))
        added->id[0] = 0; /* not the ID of a rule */
}

static void read_comments(struct suppress_state *state)
{
    state->directive_count =
        directives_read(state->document, state->arena, &state->directives);
    for (size_t i = 0; i < state->directive_count; i++) {
        const struct directive *directive = &state->directives[i];

        for (size_t j = 0; j < directive->count; j++)
            add_suppression(state,
                            &(struct suppression) { .text = directive->words[j].text,
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
static void read_scalar(struct suppress_state *state, const struct node *node)
{
    const char *at = node->text;
    struct finding position;

    while (*(at += strspn(at, ", "))) {
        size_t len = strcspn(at, ", ");

        propose_word(state->document, node, (size_t)(at - node->text), len, &position);
        add_suppression(state,
                        &(struct suppression) { .text = arena_copy(state->arena, at, len),
                                                .at = position.at,
                                                .bytes = position.cut });
        at += len;
    }
}

static void read_block(struct suppress_state *state)
{
    const struct node *list = suppress_list(state->document, "ignore");

    if (list && list->kind == NODE_SCALAR)
        read_scalar(state, list);
    for (size_t i = 0; list && list->kind == NODE_LIST && i < list->count; i++)
        if (node_value(list->items[i])->kind == NODE_SCALAR)
            read_scalar(state, node_value(list->items[i]));
}

bool suppress_is_family(const char *id)
{
    return strlen(id) < 5 && strncmp(id, "TS", strlen(id) < 2 ? strlen(id) : 2) == 0;
}

static bool matches_rule(const struct suppression *suppression, const char *rule)
{
    if (strcmp(suppression->id, rule) == 0)
        return true;
    return !suppression->directive && suppression->id[0] &&
           suppress_is_family(suppression->id) &&
           strncmp(suppression->id, rule, strlen(suppression->id)) == 0;
}

bool suppress_matches_line(const struct suppress_state *state,
                           const struct finding *finding,
                           const struct suppression *suppression)
{
    if (finding->entry)
        return directive_applies_to(suppression->directive, state->document,
                                    finding->entry);
    return !suppression->directive->alone &&
           finding->at.line == suppression->directive->at.line;
}

static bool is_mandatory(const struct finding *finding)
{
    const struct rule *rule = rules_find(finding->rule);

    return rule && rule->mandatory && finding->severity == SEVERITY_ERROR;
}

/* All suppressions that match count as used, not only the first. */
static bool is_suppressed(struct suppress_state *state, const struct finding *finding)
{
    bool hidden = false, mandatory = is_mandatory(finding);

    for (size_t i = 0; i < state->suppression_count; i++) {
        struct suppression *suppression = &state->suppressions[i];

        if (!matches_rule(suppression, finding->rule) ||
            (suppression->directive &&
             !suppress_matches_line(state, finding, suppression)))
            continue;
        suppression->used |= !mandatory || suppress_is_family(suppression->id);
        suppression->refused |= mandatory && !suppress_is_family(suppression->id);
        hidden |= !mandatory;
    }
    return hidden;
}

static bool same_group(const struct finding *a, const struct finding *b)
{
    return a->group && a->group == b->group;
}

/* Return whether a finding of the same group is ignored with another: it has the same
 * rule, or exists only through it. */
static bool follows(const struct finding *finding, const struct finding *ignored)
{
    return strcmp(finding->rule, ignored->rule) == 0 ||
           text_equal(finding->through, ignored->rule);
}

static void mark_hidden(struct suppress_state *state)
{
    const struct findings *findings = state->findings;

    state->hidden = arena_array(state->arena, findings->count + 1, sizeof(bool));
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];

        if (!is_suppressed(state, finding))
            continue;
        for (size_t j = 0; j < findings->count; j++)
            if (j == i || (same_group(finding, &findings->list[j]) &&
                           follows(&findings->list[j], finding)))
                state->hidden[j] = true;
    }
}

/* Return the length of the longest prefix of the rule in the list; -1: none. */
static int longest_prefix(const char *const *list, const char *rule)
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
    int chosen = select ? longest_prefix(select, rule) : 0;

    return chosen >= 0 && chosen > longest_prefix(ignore, rule);
}

/* Findings about a text that is not a job are always reported. */
static bool is_selected(const struct suppress_state *state, const struct finding *finding)
{
    return !state->document->root ||
           (suppress_selects(state->options->select, state->options->ignore,
                             finding->rule) &&
            (!finding->through ||
             suppress_selects(state->options->select, state->options->ignore,
                              finding->through)));
}

/* Withdraw all edits of a group: they are made together or not at all. */
static void withdraw_group(struct findings *findings, int group)
{
    for (size_t i = 0; group && i < findings->count; i++)
        if (findings->list[i].group == group)
            propose_withdraw(&findings->list[i]);
}

static void move_findings(struct suppress_state *state, struct findings *ignored)
{
    struct findings *findings = state->findings;
    size_t kept = 0;

    for (size_t i = 0; i < findings->count; i++) {
        const struct finding finding = findings->list[i];
        bool selected = is_selected(state, &finding);

        if (state->hidden[i] || !selected)
            withdraw_group(findings, finding.group);
        if (state->hidden[i] && selected)
            findings_add(ignored, &finding);
        if (!state->hidden[i] && selected)
            findings->list[kept++] = findings->list[i];
    }
    findings->count = kept;
}

void suppress(const struct document *document, const struct patch_options *options,
              struct findings *findings, struct findings *ignored)
{
    struct suppress_state state = { .document = document,
                                    .options = options,
                                    .findings = findings,
                                    .arena = findings->arena };

    if (dialect_is_job(document, trainer_of_target(document, options->target))) {
        read_comments(&state);
        read_block(&state);
        mark_hidden(&state);
        suppress_report_unused(&state);
    }
    mark_hidden(&state); /* includes TS714 */
    move_findings(&state, ignored);
}
