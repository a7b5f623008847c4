/* patcher/rules_file.c - how numbers are written; the rest of the text is analysis.c's. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

#include <string.h>

/*
 * What PyYAML takes for a number: digits, a point, and an exponent with its sign
 * (yaml/resolver.py).  `2e-5` and `1.0e4` are texts for it.
 */
static const char *with_point_and_sign(const char *text, struct arena *arena)
{
    size_t digits = strspn(text, "+-0123456789"), part = 0;
    const char *exponent, *rest = text + digits;
    bool sign;

    if (*rest == '.')
        part = 1 + strspn(rest + 1, "0123456789");
    exponent = rest + part;
    if (digits == 0 || (*exponent != 'e' && *exponent != 'E'))
        return NULL;
    sign = exponent[1] == '+' || exponent[1] == '-';
    if (part > 0 && sign)
        return NULL;
    return arena_printf(arena, "%.*s%s%c%s%s", (int)(digits + part), text,
                        part == 0 ? ".0" : "", *exponent, sign ? "" : "+", exponent + 1);
}

void rule_exponents(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct node *root = context->document->root;

    if (rule_version_from(context, PACKAGE_LLAMAFACTORY, "0.9.3"))
        return; /* reads by OmegaConf, which knows such numbers */
    for (size_t i = 0; i < root->count; i++) {
        const struct entry *entry = &root->entries[i];
        const struct node *value = node_value(entry->value);
        const struct key *key =
            entry->key->kind == NODE_SCALAR ? schema_find(entry->key->text) : NULL;
        const char *full;

        if (!key || key->type != KEY_REAL || value->kind != NODE_SCALAR ||
            value->style != STYLE_PLAIN ||
            !(full = with_point_and_sign(value->text, context->arena)))
            continue;
        propose_value(
            &to,
            &(struct finding) {
                .rule = "TS013",
                .severity = SEVERITY_WARNING,
                .apply = APPLY_SAFE,
                .message = arena_printf(context->arena,
                                        "%s: %s is a text for PyYAML, which wants a "
                                        "point and a signed exponent",
                                        key->name, value->text),
                .note = "the same number" },
            entry, full);
    }
}

/* ---- TS012: texts that another reader of YAML takes for something else ---- */

/* PyYAML's booleans (yaml/resolver.py): y and n are none. */
static bool is_word(const char *text)
{
    static const char *const words[] = { "yes", "no", "on", "off", "true", "false" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* One of the key's own words: there is no doubt what is meant. */
static bool is_own(const struct key *key, const char *text)
{
    for (size_t i = 0; key->values && key->values[i]; i++)
        if (strcmp(key->values[i], text) == 0)
            return true;
    return false;
}

static void check_text(struct rule_context *context, const struct key *key,
                       const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    const char *text = entry->value->text;
    bool word = is_word(text);
    double number;

    if (!word && scalar_number(entry->value, &number) == SCALAR_WRONG)
        return;
    propose_value(
        &to,
        &(struct finding) {
            .rule = "TS012",
            .severity = SEVERITY_WARNING,
            .apply = is_own(key, text) ? APPLY_SAFE : APPLY_UNSAFE,
            .message = arena_printf(context->arena,
                                    "%s: %s is a %s for PyYAML, and the key wants a text",
                                    key->name, text, word ? "boolean" : "number"),
            .note = "in quotes it is one for every reader" },
        entry, arena_printf(context->arena, "\"%s\"", text));
}

/* Here the key decides (scalar.h); a program that reads the job by itself asks YAML. */
void rule_texts(struct rule_context *context)
{
    const struct node *root = context->document->root;

    if (!context->plan->external)
        return;
    for (size_t i = 0; i < root->count; i++) {
        const struct entry *entry = &root->entries[i];
        const struct key *key =
            entry->key->kind == NODE_SCALAR ? schema_find(entry->key->text) : NULL;

        if (key && key->use == KEY_RENAMED)
            key = schema_find(key->now);
        if (key && (key->type == KEY_TEXT || key->type == KEY_ENUM) &&
            entry->value->kind == NODE_SCALAR && entry->value->style == STYLE_PLAIN &&
            !entry->value->tag && !node_is_null(entry->value))
            check_text(context, key, entry);
    }
}
