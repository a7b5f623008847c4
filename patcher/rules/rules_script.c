/*
 * patcher/rules/rules_script.c - TS613: the script of an external job, where it calls
 * Trainer in a way that its transformers does not accept.  The script is never run.
 */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "patcher/script/script.h"

#define SCRIPT_MAX ((size_t)1 << 20)

/* calls of Trainer whose arguments are scanned; calls may be nested */
#define CALLS_MAX 100

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Return the end of a string in quotes or of a comment; `at` if there is none. */
static const char *skip_text(const char *at)
{
    char quote = *at;
    bool three;

    if (quote == '#')
        return at + strcspn(at, "\n");
    if (quote != '"' && quote != '\'')
        return at;
    three = at[1] == quote && at[2] == quote;
    at += three ? 3 : 1;
    for (; *at; at++) {
        if (*at == '\\' && at[1])
            at++;
        else if (*at == quote && (!three || (at[1] == quote && at[2] == quote)))
            return at + (three ? 3 : 1);
        else if (*at == '\n' && !three)
            return at;
    }
    return at;
}

/* Return whether `tokenizer=` is among the arguments after this opening bracket. */
static bool passes_tokenizer(const char *at)
{
    const size_t len = strlen("tokenizer");
    int depth = 1;

    for (at++; *at && depth > 0;) {
        const char *end = skip_text(at);

        if (end != at) {
            at = end;
            continue;
        }
        if (depth == 1 && !is_name(at[-1]) && at[-1] != '.' &&
            strncmp(at, "tokenizer", len) == 0) {
            const char *equals = at + len + strspn(at + len, " ");

            if (equals[0] == '=' && equals[1] != '=')
                return true;
        }
        depth += strchr("([{", *at) != NULL;
        depth -= strchr(")]}", *at) != NULL;
        at++;
    }
    return false;
}

/* Trainer and Seq2SeqTrainer; the arguments of a MyTrainer are unknown. */
static bool is_transformers_class(const char *text, const char *at)
{
    static const char other[] = "Seq2Seq";
    const size_t len = strlen(other);

    if ((size_t)(at - text) >= len && strncmp(at - len, other, len) == 0)
        at -= len;
    return at == text || !is_name(at[-1]);
}

/* Find a call of Trainer or SFTTrainer with a tokenizer; return its line, from 1, or
 * 0. */
static size_t find_call(const char *text, bool *of_transformers)
{
    static const char name[] = "Trainer";
    const char *at = text;
    size_t line = 1, calls = 0;

    while (*at && calls < CALLS_MAX) {
        const char *end = skip_text(at);
        bool is_call =
            end == at && strncmp(at, name, strlen(name)) == 0 && at[strlen(name)] == '(';

        calls += is_call;
        if (is_call && passes_tokenizer(at + strlen(name))) {
            *of_transformers = is_transformers_class(text, at);
            return line;
        }
        if (end == at)
            end++;
        for (; at < end; at++)
            line += *at == '\n';
    }
    return 0;
}

static bool is_script(const char *word)
{
    return text_ends(word, ".py") && !strchr(word, '$') && !strstr(word, "..");
}

/* Return the first word of trainspool.command that is a Python file, in the arena; or
 * NULL. */
static const char *find_script(struct rule_context *context, const struct node *command)
{
    const char *at = command->text;

    for (size_t i = 0; command->kind == NODE_LIST && i < command->count; i++)
        if (is_script(node_value(command->items[i])->text))
            return node_value(command->items[i])->text;
    while (command->kind == NODE_SCALAR && *at) {
        size_t len = strcspn(at, " \t\n");
        const char *word = arena_copy(context->arena, at, len);

        if (is_script(word))
            return word;
        at += len + strspn(at + len, " \t\n");
    }
    return NULL;
}

static void report_call(struct rule_context *context, const struct entry *entry,
                        const char *script, size_t line, bool of_transformers)
{
    const struct proposal to = rule_proposal(context);
    bool stops = of_transformers &&
                 rule_version_at_least(context, PACKAGE_TRANSFORMERS, "5.0.0.dev0");

    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS613",
            .severity = stops ? SEVERITY_ERROR : SEVERITY_WARNING,
            .message = arena_printf(context->arena,
                                    "%s passes a tokenizer to Trainer in line %zu, which "
                                    "transformers 5 does not accept",
                                    script, line),
            .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
            .note = "write processing_class= there instead of tokenizer=" },
        entry);
}

/* The keyword itself, in a script that is checked like a job. */
static void report_keyword(struct rule_context *context)
{
    const struct script_facts *facts = script_facts_of(context->document);
    bool stops = facts->tokenizer_of_transformers &&
                 rule_version_at_least(context, PACKAGE_TRANSFORMERS, "5.0.0.dev0");
    struct mark at = document_mark(context->document, facts->tokenizer_at);
    bool keeps = document_line_keeps(context->document, at);
    bool known = rule_version_at_least(context, PACKAGE_TRANSFORMERS, "4.46.0.dev0");

    if (rule_version_below(context, PACKAGE_TRANSFORMERS, "4.46.0.dev0"))
        return;
    if (facts->tokenizer_bytes == 0)
        return;
    findings_add(
        context->findings,
        &(struct finding) {
            .rule = "TS613",
            .severity = stops ? SEVERITY_ERROR : SEVERITY_WARNING,
            .apply = keeps   ? APPLY_MANUAL
                     : known ? APPLY_SAFE
                             : APPLY_UNSAFE,
            .key = "tokenizer",
            .at = at,
            .cut = facts->tokenizer_bytes,
            .old_text = keeps ? NULL : arena_strdup(context->arena, "tokenizer"),
            .new_text = keeps ? NULL : "processing_class",
            .message =
                "this Trainer is passed a tokenizer, which transformers 5 does not "
                "accept",
            .because = rule_version_text(context, PACKAGE_TRANSFORMERS),
            .note = "the name is valid from transformers 4.46 and TRL 0.12 on" });
}

static void rule_script_tokenizer(struct rule_context *context)
{
    const struct entry *block = document_find(context->document, "trainspool");
    const struct entry *entry =
        block ? node_find(node_value(block->value), "command") : NULL;
    const char *script;
    struct text text;
    struct error ignored = { 0 };
    char *path;
    size_t line;
    bool of_transformers;

    if (context->document->script)
        report_keyword(context);
    if (!context->plan->external || !entry ||
        rule_version_below(context, PACKAGE_TRANSFORMERS, "4.46.0.dev0"))
        return;
    script = find_script(context, node_value(entry->value));
    if (!script)
        return;
    path = path_input(context->plan->dir ? context->plan->dir : ".", script);
    text_init(&text, 0);
    if (file_read(path, SCRIPT_MAX, &text, NULL, &ignored) &&
        (line = find_call(text.data, &of_transformers)) > 0)
        report_call(context, entry, script, line, of_transformers);
    error_clear(&ignored);
    text_clear(&text);
    free(path);
}

static const struct rule rows[] = {
    { .id = "TS613",
      .title = "script passes a tokenizer to Trainer",
      .severity = SEVERITY_WARNING,
      .run = rule_script_tokenizer,
      .explain =
          "`Trainer(..., tokenizer=tokenizer)` became `processing_class=tokenizer` in "
          "transformers 4.46, and version 5 raises a TypeError. The rule reads the "
          "script if trainspool.command names one next to the job, without changing it. "
          "Where the script itself is checked, the keyword is renamed; with "
          "an unknown version only by `--unsafe`.\n\n"
          "Write processing_class=tokenizer instead. A custom Trainer class that accepts "
          "a tokenizer and passes it on is not affected.",
      .source = "transformers MIGRATION_GUIDE_V5.md; a user report" },
};

const struct rules rules_script = { rows, TS_COUNT(rows) };
