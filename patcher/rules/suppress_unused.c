/* patcher/rules/suppress_unused.c - TS714: suppressions that hide nothing. */
#include "config.h"

#include "patcher/rules/suppress_state.h"

#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "base/nearest.h"
#include "patcher/findings/propose.h"
#include "patcher/rules/rules.h"
#include "patcher/schema/schema.h"

/* Return whether another device, machine or model may change what the rule finds. */
static bool depends_on_surroundings(const char *rule)
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

/* "TS1O4", "104" and "ts-104" mean TS104. */
const char *suppress_suggest_rule(const char *text)
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

/* Find the rule that an unknown ID may mean: one reported for its line, or one with a
 * similar ID. */
static const char *find_meant(const struct suppress_state *state,
                              const struct suppression *suppression)
{
    const char *meant = suppress_suggest_rule(suppression->text);

    for (size_t i = 0; !meant && i < state->findings->count; i++) {
        const struct finding *finding = &state->findings->list[i];

        if (nearest_distance(suppression->text, finding->rule, 2) <= 2 &&
            (!suppression->directive ||
             suppress_matches_line(state, finding, suppression)))
            meant = finding->rule;
    }
    return meant;
}

/* Explain why a suppression hides nothing; NULL: it does. *severity is raised
 * accordingly. */
static const char *why_unused(const struct suppress_state *state,
                              const struct suppression *suppression,
                              enum severity *severity)
{
    const char *where = suppression->directive ? "this line" : "this job", *meant;

    if (suppression->used && !suppression->refused)
        return NULL;
    if (suppression->refused || !is_known(suppression->id, !suppression->directive) ||
        !depends_on_surroundings(suppression->id))
        *severity = SEVERITY_WARNING;
    if (suppression->refused)
        return arena_printf(state->arena,
                            "%s cannot be ignored: the run would fail, or do something "
                            "other than what the job says",
                            suppression->id);
    if (is_known(suppression->id, !suppression->directive))
        return arena_printf(
            state->arena, "%s finds nothing in %s%s", suppression->id, where,
            depends_on_surroundings(suppression->id) && state->options->device
                ? arena_printf(state->arena, " on %s", state->options->device->name)
                : "");
    if (is_known(suppression->id, true))
        return arena_printf(state->arena,
                            "%s is a family of rules: a comment must name whole rules",
                            suppression->id);
    meant = find_meant(state, suppression);
    return meant ? arena_printf(state->arena, "there is no rule %s; did you mean %s?",
                                suppression->text, meant)
                 : arena_printf(state->arena,
                                "there is no rule %s; trainspool explain lists them",
                                suppression->text);
}

/* Return whether the word can be removed.  A suppression that another device may need
 * stays. */
static bool is_removable(const struct suppression *suppression)
{
    return !suppression->used && !suppression->refused &&
           (!is_known(suppression->id, false) ||
            !depends_on_surroundings(suppression->id));
}

/* List the words that must stay; "" if none is left. */
static const char *remaining_words(const struct suppress_state *state,
                                   const struct directive *directive)
{
    const char *left = "";

    for (size_t i = 0; i < state->suppression_count; i++) {
        const struct suppression *suppression = &state->suppressions[i];

        if (suppression->directive == directive && !is_removable(suppression))
            left = arena_printf(state->arena, "%s%s%s", left, *left ? ", " : "",
                                suppression->text);
    }
    return left;
}

/* Propose to remove what suppresses nothing: words, or the whole comment. */
static void propose_shorter(const struct suppress_state *state,
                            const struct directive *directive, struct finding *finding)
{
    const struct directive_word *first = directive->words;
    const struct directive_word *last = first + directive->count - 1;
    const char *left = remaining_words(state, directive);
    const char *data = state->document->data;
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
        while (to < state->document->len && data[to] != '\n' && data[to] != '\r')
            to++;
        finding->label = "(nothing)";
    }
    if (strlen(left) == to - from && memcmp(left, data + from, to - from) == 0)
        return;
    finding->apply = APPLY_UNSAFE;
    finding->at = document_mark(state->document, from);
    finding->cut = to - from;
    finding->old_text = arena_copy(state->arena, data + from, to - from);
    finding->new_text = left;
}

static struct finding base_finding(struct mark at, size_t bytes)
{
    return (struct finding) {
        .rule = "TS714", .severity = SEVERITY_WARNING, .at = at, .cut = bytes
    };
}

static void report_directive(const struct suppress_state *state,
                             const struct directive *directive)
{
    struct finding finding = base_finding(directive->at, directive->bytes);
    const char *message = NULL;

    finding.severity = SEVERITY_INFO;
    for (size_t i = 0; i < state->suppression_count; i++) {
        const char *why =
            state->suppressions[i].directive == directive
                ? why_unused(state, &state->suppressions[i], &finding.severity)
                : NULL;

        if (why)
            message = message ? arena_printf(state->arena, "%s; %s", message, why) : why;
    }
    if (!message)
        return;
    finding.message = message;
    propose_shorter(state, directive, &finding);
    findings_add(state->findings, &finding);
}

/* Explain why a directive can have no effect, whatever it means. */
static const char *why_ineffective(const struct suppress_state *state,
                                   const struct directive *directive)
{
    if (directive->kind == COMMENT_MISSPELLED)
        return arena_printf(state->arena, "this has no effect: did you mean %s%s?",
                            directive->meant,
                            strcmp(directive->meant, "ignore") == 0 ? "[...]" : "");
    if (directive->alone)
        return directive->kind == COMMENT_KEEP
                   ? "on its own line this keeps nothing: put it after the value, or "
                     "name the key in trainspool.keep"
                   : "on its own line this ignores nothing: put it after the value, or "
                     "name the rule in trainspool.ignore";
    if (directive->kind == COMMENT_IGNORE && directive->count == 0)
        return "this names no rule: write ignore[TS104]";
    return NULL;
}

static void report_kept(const struct suppress_state *state, const struct node *node,
                        size_t from, size_t len)
{
    const char *name = arena_copy(state->arena, node->text + from, len), *near[2];
    struct finding finding = base_finding(node->at, node->bytes);
    bool exact;

    if (schema_find(name) || document_find(state->document, name))
        return;
    propose_word(state->document, node, from, len, &finding);
    finding.message =
        schema_nearest(name, near, 2, &exact) == 1
            ? arena_printf(state->arena,
                           "keep lists %.60s, which is not a key; did you mean %s?", name,
                           near[0])
            : arena_printf(state->arena, "keep lists %.60s, which is not a key", name);
    findings_add(state->findings, &finding);
}

/* trainspool.keep names keys, in a list or in one string. */
static void report_keep(const struct suppress_state *state)
{
    const struct node *list = suppress_list(state->document, "keep");
    const char *at = list && list->kind == NODE_SCALAR ? list->text : "";
    size_t most = list && list->count < SUPPRESSIONS_MAX ? list->count : SUPPRESSIONS_MAX;

    while (*(at += strspn(at, ", "))) { /* a scalar holds at most 4096 bytes */
        size_t len = strcspn(at, ", ");

        report_kept(state, list, (size_t)(at - list->text), len);
        at += len;
    }
    for (size_t i = 0; list && list->kind == NODE_LIST && i < most; i++)
        if (node_value(list->items[i])->kind == NODE_SCALAR)
            report_kept(state, node_value(list->items[i]), 0,
                        node_value(list->items[i])->len);
}

static void report_block(const struct suppress_state *state)
{
    for (size_t i = 0; i < state->suppression_count; i++) {
        const struct suppression *suppression = &state->suppressions[i];
        struct finding finding = base_finding(suppression->at, suppression->bytes);

        finding.severity = SEVERITY_INFO;
        finding.message = suppression->directive
                              ? NULL
                              : why_unused(state, suppression, &finding.severity);
        if (finding.message)
            findings_add(state->findings, &finding);
    }
}

/* Suppressions beyond the limit hide nothing. */
static void report_too_many(const struct suppress_state *state)
{
    bool words = state->suppression_count == SUPPRESSIONS_MAX;
    struct finding finding;

    if (!words && state->directive_count < DIRECTIVES_MAX)
        return;
    finding = words ? base_finding(state->suppressions[SUPPRESSIONS_MAX - 1].at,
                                   state->suppressions[SUPPRESSIONS_MAX - 1].bytes)
                    : base_finding(state->directives[DIRECTIVES_MAX - 1].at,
                                   state->directives[DIRECTIVES_MAX - 1].bytes);
    finding.message =
        arena_printf(state->arena, "only the first %d %s are read; more have no effect",
                     words ? SUPPRESSIONS_MAX : DIRECTIVES_MAX,
                     words ? "rules to ignore" : "comments for trainspool");
    findings_add(state->findings, &finding);
}

/* A suppression of TS714 itself counts as used: it applies to these findings. */
void suppress_report_unused(struct suppress_state *state)
{
    for (size_t i = 0; i < state->suppression_count; i++)
        state->suppressions[i].used |= strcmp(state->suppressions[i].id, "TS714") == 0;
    for (size_t i = 0; i < state->directive_count; i++) {
        const struct directive *directive = &state->directives[i];
        struct finding finding = base_finding(directive->at, directive->bytes);

        finding.message = why_ineffective(state, directive);
        if (finding.message)
            findings_add(state->findings, &finding);
        else
            report_directive(state, directive);
    }
    report_block(state);
    report_keep(state);
    report_too_many(state);
}

static const struct rule rows[] = {
    { .id = "TS714",
      .title = "unused suppression",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .explain =
          "A comment `# trainspool: ignore[TS104]` after a value suppresses a finding of "
          "this rule there; `trainspool: {ignore: [TS708, TS3]}` does so for the whole "
          "job, also for a family. `# trainspool: keep` and trainspool.keep forbid "
          "edits, but findings are still reported. A suppression that matches no finding "
          "(or no longer does), names no rule, or is in a position where it has no "
          "effect hides nothing today and may hide a new mistake tomorrow.\n\n"
          "Rules that depend on the device, the model or the data may find something on "
          "another machine: for them this is an info, and the comment stays. For the "
          "other rules `patch --unsafe` removes the comment. A plain patch does not, "
          "since a person wrote the comment.\n\n"
          "Errors that would make a run fail, or do something other than what the job "
          "says, cannot be ignored (trainspool explain shows which): remove the line "
          "instead.",
      .source = "unused `noqa` comments are ruff's RUF100" },
};

const struct rules rules_suppress_unused = { rows, TS_COUNT(rows) };
