/* patcher/rules/rules_text.c - the text of the job: encoding, YAML syntax, and words
 * that YAML readers interpret differently. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

/* PyYAML's booleans (yaml/resolver.py) do not include y and n. */
static bool is_yaml_boolean(const char *text)
{
    static const char *const words[] = { "yes", "no", "on", "off", "true", "false" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* Return whether the key lists the value: its meaning is then certain. */
static bool is_listed_value(const struct key *key, const char *text)
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
    bool word = is_yaml_boolean(text);
    double number;

    if (!word && scalar_number(entry->value, &number) == SCALAR_WRONG)
        return;
    propose_value(
        &to,
        &(struct finding) {
            .rule = "TS012",
            /* False is not a valid IntervalStrategy */
            .severity = is_listed_value(key, text) ? SEVERITY_ERROR : SEVERITY_WARNING,
            .apply = is_listed_value(key, text) ? APPLY_SAFE : APPLY_UNSAFE,
            .message = arena_printf(context->arena,
                                    "%s: %s is a %s for PyYAML, but the key requires a "
                                    "string",
                                    key->name, text, word ? "boolean" : "number"),
            .note = "in quotes it is a string for every reader" },
        entry, arena_printf(context->arena, "\"%s\"", text));
}

/* trainspool reads a value by the type of its key (scalar.h); other programs read it
 * by the rules of YAML. */
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
      .title = "text is not UTF-8",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .explain =
          "A job must be UTF-8 text without NUL bytes. Some editors write UTF-16 or "
          "Latin-1.\n\n"
          "The patch converts nothing: a wrong guess would silently change names and "
          "paths. Save the file as UTF-8 in your editor, or use iconv.",
      .source = "YAML 1.2, 5.2 Character Encodings" },
    { .id = "TS002",
      .title = "file begins with a byte order mark",
      .severity = SEVERITY_INFO,
      .explain =
          "Some editors write the three bytes EF BB BF before UTF-8 text. They are "
          "harmless and stay in the file: a patch keeps every byte that it does not need "
          "to change.",
      .source = "YAML 1.2, 5.2 Character Encodings" },
    { .id = "TS003",
      .title = "CRLF or mixed line endings",
      .severity = SEVERITY_INFO,
      .explain =
          "The file was written on Windows, or by several editors. Line endings stay "
          "unchanged, and a line that a patch adds ends like the line before it, so "
          "that a diff shows only the change.",
      .source = "ruamel.yaml ticket 566, which damaged such files" },
    { .id = "TS005",
      .title = "duplicate key",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .explain =
          "Most YAML readers silently use the last value, others reject the file, so "
          "two tools would train two different jobs from the same text. A key and its "
          "alias, such as torch_dtype and model_dtype, count as duplicates, too.\n\n"
          "Only you know which value you meant: delete the other one. Until then a patch "
          "edits nothing in a file that gives two values to a key of a job, since edits "
          "depend on each other: the format on the policy, the loss scale on the format. "
          "A duplicate key in the block trainspool: has its default.",
      .source = "PyYAML takes the last one; OmegaConf raises an error" },
    { .id = "TS006",
      .title = "several documents in one file",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .explain =
          "A line `---` in the middle of the file starts a second document. A job is a "
          "single document; put the second one into its own file.",
      .source = "YAML 1.2, 9.1 Documents" },
    { .id = "TS007",
      .title = "edit would change an anchor, an alias or a merge",
      .severity = SEVERITY_WARNING,
      .explain =
          "The value is shared by name (&x, *x, <<). Changing it in one position changes "
          "it everywhere, and replacing the alias by a value separates it from the "
          "others. The patch leaves it alone and reports what it would have changed. "
          "Edit it by hand.",
      .source = "mikefarah/yq#877, #2404: edits applied at the wrong position" },
    { .id = "TS008",
      .title = "value contains ${...} or {{ }}",
      .severity = SEVERITY_WARNING,
      .mandatory = true,
      .explain =
          "OmegaConf and shells expand such a placeholder; trainspool does not. In a "
          "key that has an effect this is an error, since the value is unknown; where "
          "an edit would be made, the edit is left to you. {{ }} in a name or number is the "
          "mark of a template (Jinja, Helm): check what the template becomes.",
      .source = "OmegaConf interpolation; Jinja" },
    { .id = "TS009",
      .title = "not a job: empty, too large, or invalid YAML",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .explain =
          "A job is a mapping from keys to values, with at most 1 MiB, 32 levels, "
          "20,000 events, 100 aliases and 4 KiB per value. The limits are far above any "
          "real job. They keep a hostile or broken file from costing minutes: libyaml "
          "needs 28 seconds for 200 kB of opening brackets.",
      .source = "measured with libyaml 0.2.5; `billion laughs`" },
    { .id = "TS010",
      .title = "file changed while it was being patched",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .explain =
          "Another program, such as an editor or a running copy, wrote the file after "
          "trainspool read it and before it was replaced. The file is read once more; "
          "if it changes again, it is left unchanged. Patch it when the other program "
          "is done.",
      .source = "inode, time and digest are compared before the rename" },
    { .id = "TS011",
      .title = "file cannot be replaced: a link, read-only, or another owner",
      .severity = SEVERITY_WARNING,
      .mandatory = true,
      .explain =
          "A patch replaces the whole file with a rename, so that no reader ever sees a "
          "partly written one. This would detach a symbolic or hard link from its "
          "target, change the owner, or override a read-only permission. Patch the "
          "target file instead.",
      .source = "rename(2)" },
    { .id = "TS012",
      .title = "value that YAML readers interpret differently",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_pyyaml_words,
      .explain =
          "YAML 1.1 reads yes and off as booleans, 017 as 15 and 12:30 as 750; YAML 1.2 "
          "reads them as strings, or as 17. Python's PyYAML implements 1.1, so "
          "trainspool reads them that way.\n\n"
          "The patch rewrites such words as true or false, which mean the same in every "
          "reader. Numbers are left to you.\n\n"
          "The opposite case also occurs: in `eval_strategy: no` the value is the "
          "string no, as the key requires, but a program that reads the job with PyYAML "
          "or OmegaConf gets the boolean false. TrainingArguments then fails with "
          "`False is not a valid IntervalStrategy`. In an external job the patch quotes "
          "such a string; if it is not one of the values that the key lists, only with "
          "--unsafe.",
      .source = "yaml.org/type/bool.html, int.html; PyYAML, tested" },
};

const struct rules rules_text = { rows, TS_COUNT(rows) };
