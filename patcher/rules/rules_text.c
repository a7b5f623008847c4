/* patcher/rules/rules_text.c - the text of the job: encoding, YAML syntax, and values
 * that YAML readers interpret differently. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

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

static void rule_pyyaml_numbers(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct node *root = context->document->root;

    if (rule_version_at_least(context, PACKAGE_LLAMAFACTORY, "0.9.3"))
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
static void rule_pyyaml_words(struct rule_context *context)
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

static const struct rule rows[] = {
    { .id = "TS001",
      .title = "the text is not UTF-8",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .explain =
          "A job must be UTF-8 without NUL bytes. UTF-16 and Latin-1 files come from "
          "some editors.\n\n"
          "Nothing is converted here, because a wrong guess would change names and "
          "paths silently. Save the file as UTF-8 in your editor, or use iconv.",
      .source = "YAML 1.2, 5.2 Character Encodings" },
    { .id = "TS002",
      .title = "the file begins with a byte order mark",
      .severity = SEVERITY_INFO,
      .explain =
          "Some editors put the three bytes EF BB BF before a UTF-8 text. They do no "
          "harm, and they stay: a patch keeps every byte it does not mean to change.",
      .source = "YAML 1.2, 5.2 Character Encodings" },
    { .id = "TS003",
      .title = "lines end in CR LF, or in several ways",
      .severity = SEVERITY_INFO,
      .explain =
          "The file was written on Windows, or by several editors. Line ends stay as "
          "they are, and a line that a patch adds ends as the one before it, so that a "
          "diff shows the change and nothing else.",
      .source = "ruamel.yaml ticket 566, where such files were damaged" },
    { .id = "TS004",
      .title = "a tab in the indentation",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .explain =
          "YAML forbids tabs before a key, since nobody can tell how wide they are. "
          "Replace them by blanks.",
      .source = "YAML 1.2, 6.1 Indentation Spaces" },
    { .id = "TS005",
      .title = "a key is given twice",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .explain =
          "Most readers of YAML silently take the last one, others refuse the file, so "
          "two tools would train two different jobs from the same text. The same goes "
          "for a key and its other name, as torch_dtype and model_dtype.\n\n"
          "Which one is meant is for you to say: delete the other.",
      .source = "PyYAML takes the last one; OmegaConf raises" },
    { .id = "TS006",
      .title = "several documents in one file",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .explain =
          "A line `---` in the middle begins a second document. A job is one document; "
          "put the second into a file of its own.",
      .source = "YAML 1.2, 9.1 Documents" },
    { .id = "TS007",
      .title = "an edit would go into an anchor, an alias or a merge",
      .severity = SEVERITY_WARNING,
      .explain = "The value is shared by name (&x, *x, <<). To change it in one place "
                 "changes it in all, and to write it out takes it away from the others, "
                 "so a patch leaves it alone and says what it would have changed. Edit "
                 "it by hand.",
      .source = "mikefarah/yq#877, #2404: edits that went into the wrong place" },
    { .id = "TS008",
      .title = "a value holds ${...}",
      .severity = SEVERITY_WARNING,
      .firm = true,
      .explain = "OmegaConf and shells fill such a hole in; nothing does here. In a key "
                 "that has an effect it is an error, since nobody knows the value; "
                 "where an edit would go, the edit is left to you.",
      .source = "OmegaConf interpolation" },
    { .id = "TS009",
      .title = "no job: empty, too large, or not YAML",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .explain =
          "A job is a mapping of keys to values, of at most 1 MiB, 32 levels, 20,000 "
          "events, 100 aliases and 4 KiB a value. The limits are far above any real "
          "job; they keep a hostile or broken file from costing minutes: libyaml needs "
          "28 seconds for 200 kB of opening brackets.",
      .source = "measured with libyaml 0.2.5; `billion laughs`" },
    { .id = "TS010",
      .title = "the file changed while it was being patched",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .explain =
          "Between reading and replacing, somebody else wrote the file: an editor, or a "
          "copy that still runs. It is read once more; if it changes again it is left "
          "as it is. Patch it when the writer is done.",
      .source = "inode, time and digest are compared before the rename" },
    { .id = "TS011",
      .title = "the file is not replaced: a link, read-only, or of another owner",
      .severity = SEVERITY_WARNING,
      .firm = true,
      .explain =
          "A patch replaces the file as a whole, by a rename, so that no reader ever "
          "sees half of it. That would cut a symbolic or hard link off from its other "
          "end, change the owner, or override a read-only mark. Patch the file itself.",
      .source = "rename(2)" },
    { .id = "TS012",
      .title = "yes, no, on, off, 1_000, 017, 12:30: readers of YAML differ",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_pyyaml_words,
      .explain =
          "YAML 1.1 takes yes and off for booleans, 017 for 15 and 12:30 for 750; YAML "
          "1.2 takes them for texts, or for 17. Python's PyYAML is of the first kind, "
          "so that is how they are read here.\n\n"
          "Words are rewritten as true or false, which mean the same everywhere. "
          "Numbers are left to you.\n\n"
          "The other way round, `eval_strategy: no` is the text no here, as the key "
          "wants one, and the boolean false for a program that reads the job with "
          "PyYAML or OmegaConf: TrainingArguments stops there, `False is not a valid "
          "IntervalStrategy`. In a job of another program such a text is put in quotes; "
          "where it is none of the key's own words, with --unsafe.",
      .source = "yaml.org/type/bool.html, int.html; PyYAML, tried" },
    { .id = "TS013",
      .title = "a number that PyYAML takes for a text",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_pyyaml_numbers,
      .target = RULE_EXTERNAL,
      .explain =
          "For PyYAML `2e-5` and `1.0e4` are texts: it wants a point and a signed "
          "exponent. The text then fails deep in the optimizer. For target: external "
          "the number is written out, 2.0e-5; here both are the same number, and "
          "nothing is changed. LLaMA-Factory reads by OmegaConf from 0.9.3 on, which "
          "takes them for numbers: where that version is known, nothing is said.",
      .source = "LLaMA-Factory#4149, #4014; its hparams/parser.py, v0.9.3; trl#1450" },
    { .id = "TS014",
      .title = "a number or a boolean in quotes",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .explain =
          "In quotes it is a text for most tools. The key says what is wanted, so it is "
          "read here as meant. `patch --unsafe` takes the quotes away.",
      .source = "the type of the key decides" },
};

const struct rules rules_text = { rows, TS_COUNT(rows) };
