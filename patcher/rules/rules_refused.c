/* patcher/rules/rules_refused.c - settings that another trainer refuses (refusals.h). */
#include "config.h"

#include "patcher/rules/refusals.h"

#include <ctype.h>
#include <string.h>

#include "base/size.h"
#include "patcher/rules/rules_context.h"
#include "patcher/rules/trainer_file.h"
#include "patcher/rules/typed_value.h"
#include "patcher/schema/schema_value.h"

static const struct refusals *const tables[] = {
    &refusals_llamafactory, &refusals_llamafactory_trainer,
    &refusals_transformers, &refusals_accelerate,
    &refusals_trl,          &refusals_axolotl,
    &refusals_torchtune,    &refusals_lightning,
};

/* 0.9.4.dev0 -> 0.9.4 */
static const char *release(const struct rule_context *context, const char *version)
{
    const char *dev = strstr(version, ".dev0");

    return dev ? arena_copy(context->arena, version, (size_t)(dev - version)) : version;
}

/* Return whether the known version checks the row; true if the version is unknown. */
static bool is_checked(const struct rule_context *context,
                       const struct refusals *refusals, const struct refusal *row)
{
    enum package package = refusals->package;

    return !rule_version_below(context, package, refusals->oldest) &&
           !(row->since && rule_version_below(context, package, row->since)) &&
           !(row->before && rule_version_at_least(context, package, row->before));
}

/* Return "LLaMA-Factory"; if the version is unknown, "LLaMA-Factory before 0.9.4". */
static const char *program_text(const struct rule_context *context,
                                const struct refusals *refusals,
                                const struct refusal *row)
{
    const char *name = refusals->program;

    if (versions_know(context->versions, refusals->package) ||
        (!row->since && !row->before))
        return name;
    if (!row->since)
        return arena_printf(context->arena, "%s before %s", name,
                            release(context, row->before));
    if (!row->before)
        return arena_printf(context->arena, "%s since %s", name,
                            release(context, row->since));
    return arena_printf(context->arena, "%s since %s and before %s", name,
                        release(context, row->since), release(context, row->before));
}

static bool is_reported(const struct rule_context *context, const struct refusal *row)
{
    const struct findings *findings = context->findings;

    for (size_t i = 0; row->reported && i < findings->count; i++)
        if (findings->list[i].severity == SEVERITY_ERROR &&
            value_is_listed(row->reported, findings->list[i].rule))
            return true;
    return false;
}

/* Names of other trainers' files have no aliases. */
static const struct entry *find_line(const struct rule_context *context, const char *key)
{
    return trainer_file_is_foreign(context) ? document_find(context->document, key)
                                            : rule_line(context, key);
}

/* Return the first key of the condition that the job has, or NULL: the program refuses the job
 * for a missing key. */
static const char *culprit(const struct rule_context *context, const struct refusal *row)
{
    for (size_t i = 0; i < REFUSAL_TERMS && row->when[i].test != REFUSAL_END; i++) {
        const char *key = row->when[i].key;
        const char *top = key ? arena_copy(context->arena, key, strcspn(key, ".")) : NULL;

        if (top && find_line(context, top))
            return top;
    }
    return NULL;
}

/* Return whether the version is unknown and only some versions refuse a job without the key: a
 * warning would be wrong for most jobs. */
static bool is_guess(const struct rule_context *context, const struct refusals *refusals,
                     const struct refusal *row)
{
    return (row->since || row->before) && !culprit(context, row) &&
           !versions_know(context->versions, refusals->package);
}

/* Report at the first key of the condition that the file has, also in a block. */
static void report_path(struct rule_context *context, const struct finding *finding,
                        const struct refusal *row)
{
    const struct proposal to = rule_proposal(context);

    for (size_t i = 0; i < REFUSAL_TERMS && row->when[i].test != REFUSAL_END; i++) {
        const struct entry *entry =
            row->when[i].key ? trainer_file_entry(context, row->when[i].key) : NULL;

        if (entry) {
            propose_remark(&to, finding, entry);
            return;
        }
    }
    rule_report(context, finding, NULL);
}

static void report(struct rule_context *context, const struct refusals *refusals,
                   const struct refusal *row)
{
    const enum package package = refusals->package;
    bool known = versions_know(context->versions, package);
    const char *says = row->said && rule_version_below(context, package, row->reworded)
                           ? row->said
                           : row->says;
    const struct finding finding = {
        .rule = "TS812",
        .severity =
            known || (!row->since && !row->before) ? SEVERITY_ERROR : SEVERITY_WARNING,
        .because = rule_version_text(context, package),
        .message = arena_printf(context->arena, "%s raises \"%s\"",
                                program_text(context, refusals, row), says),
        .note = row->advice
    };
    if (trainer_file_is_foreign(context))
        report_path(context, &finding, row);
    else
        rule_report(context, &finding, culprit(context, row));
}

/* A program stops at the first failed check, so each message is reported once. */
static void check_table(struct rule_context *context, const struct refusals *refusals)
{
    const char *last = NULL;

    for (size_t i = 0; i < refusals->count; i++) {
        const struct refusal *row = &refusals->rows[i];

        if ((last && strcmp(last, row->says) == 0) ||
            !is_checked(context, refusals, row) ||
            !refusal_holds(context, refusals, row) || is_reported(context, row) ||
            is_guess(context, refusals, row))
            continue;
        report(context, refusals, row);
        last = row->says;
    }
}

/* ---- Types ---- */

/* Copy the text in lower case and without the blanks around it; "?" if it is too long. */
static void text_fold(const char *text, char *out, size_t size)
{
    size_t len;

    text += strspn(text, " \t\n");
    len = strlen(text);
    while (len > 0 && strchr(" \t\n", text[len - 1]))
        len--;
    if (len >= size) {
        text = "?";
        len = 1;
    }
    for (size_t i = 0; i < len; i++)
        out[i] = (char)tolower((unsigned char)text[i]);
    out[len] = 0;
}

static const char *type_advice(const struct rule_context *context,
                               const struct profile_key *key,
                               const struct python_value *value)
{
    if (key->values)
        return arena_printf(context->arena, "the values are %s%s", key->values,
                            key->types & PROFILE_BOOL ? ", true and false" : "");
    return value->kind == PYTHON_BOOL ? "YAML reads this word as a boolean: quote it"
                                      : NULL;
}

/* unsloth_cli/config.py, _lower_str and _normalize_gradient_checkpointing, of 2026.9.14;
 * not of 2026.8.22. */
static bool is_normalized(const struct rule_context *context,
                          const struct profile_key *key, const struct python_value *value)
{
    bool checkpointing = strcmp(key->name, "training.gradient_checkpointing") == 0;
    char word[16];

    if (context->view->trainer != TRAINER_UNSLOTH || !key->values ||
        rule_version_below(context, PACKAGE_UNSLOTH, "2026.9.0.dev0"))
        return false;
    if (value->kind != PYTHON_TEXT)
        return checkpointing && value->kind == PYTHON_BOOL;
    text_fold(value->text, word, sizeof(word));
    return value_is_listed(key->values, word) ||
           (checkpointing && (!*word || value_is_listed("1 0 yes no false off", word)));
}

static void check_value(struct rule_context *context, const struct entry *entry,
                        const char *path)
{
    const struct profile *profile = profile_at(context->view->trainer);
    const struct profile_key *key = profile_find(context->view, path);
    const struct python_value value =
        python_value_read(path, entry->value, python_reader_of(context));
    const char *says = key ? typed_value_refusal(profile->typing, key, &value) : NULL;
    const struct proposal to = rule_proposal(context);

    if (!says || is_normalized(context, key, &value))
        return;
    propose_remark(&to,
                   &(struct finding) {
                       .rule = "TS812",
                       .severity = versions_know(context->versions, profile->package)
                                       ? SEVERITY_ERROR
                                       : SEVERITY_WARNING,
                       .because = rule_version_text(context, profile->package),
                       .message = arena_printf(context->arena, "%s raises \"%s: %s\"",
                                               profile->title, path, says),
                       .note = type_advice(context, key, &value) },
                   entry);
}

/* path: the block with its dot; "" is the file. */
static void check_values(struct rule_context *context, const struct node *map,
                         const char *path)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct entry *entry = &map->entries[i];
        const char *name;

        if (entry->key->kind != NODE_SCALAR || node_find(map, entry->key->text) != entry)
            continue;
        name = arena_printf(context->arena, "%s%s", path, entry->key->text);
        if (profile_has_block(context->view, name) &&
            node_value(entry->value)->kind == NODE_MAP)
            check_values(context, node_value(entry->value),
                         arena_printf(context->arena, "%s.", name));
        else
            check_value(context, entry, name);
    }
}

static void rule_refused(struct rule_context *context)
{
    if (profile_at(context->view->trainer)->typing != TYPING_NONE &&
        profile_is_closed(context->view))
        check_values(context, context->document->root, "");
    for (size_t i = 0; i < TS_COUNT(tables); i++)
        if (tables[i]->applies(context))
            check_table(context, tables[i]);
}

static const struct rule rows[] = {
    { .id = "TS812",
      .title = "settings that another trainer refuses",
      .severity = SEVERITY_ERROR,
      .target = RULE_EXTERNAL,
      .run = rule_refused,
      .explain =
          "LLaMA-Factory, TrainingArguments of transformers, Accelerate, TRL, Axolotl, "
          "torchtune's recipes and Lightning reject contradictory settings with an exception, usually "
          "before they load a model: quantization with full fine-tuning, LoRA with GaLore, streaming with a "
          "fractional val_size, reduce_lr_on_plateau without an evaluation. The rule "
          "makes the same checks and quotes the exception. It reads values as the program "
          "does, and an absent key has the program's default.\n\n"
          "Axolotl, Unsloth and Lightning check the types of values, too: "
          "`save_strategy: no` is a boolean for YAML, and refused.\n\n"
          "Accelerate 0.30 to 1.10 refuses fp16 on an Apple GPU; later releases require "
          "PyTorch 2.8 for it.\n\n"
          "The checks depend on the version. If the version is unknown, a check of some "
          "versions only is a warning that names them.",
      .source =
          "LLaMA-Factory hparams/ 0.9.0 to 0.9.5; transformers training_args.py, "
          "trainer.py and trainer_callback.py 4.37 to 5.24; trl/trainer/ 0.9.2 to "
          "1.16; Axolotl utils/schemas 0.5.2 to 0.21.0; recipes/ of torchtune 0.1 to "
          "0.6.1; Lightning 2.0 to 2.6; unsloth_cli/config.py 2026.3 to 2026.10; "
          "compared by tests/differential/refusals.py, axolotl_files.py and "
          "recipe_files.py; accelerate accelerator.py 0.20 to 1.15" },
};

const struct rules rules_refused = { rows, TS_COUNT(rows) };
