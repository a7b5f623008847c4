/* patcher/rules_file.c - how numbers are written; the rest of the text is look.c's. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "patcher/schema.h"

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
