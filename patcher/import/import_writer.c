/* patcher/import/import_writer.c - write the job: lines in the usual order, comments, and
 * the list of keys that were not carried over. */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "base/yaml_quote.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

#define WIDTH 90

/* Every key that an import writes, with the heading before it. */
static const struct line_key {
    const char *key, *section;
} order[] = {
    { "model_name_or_path", "model" },
    { "adapter_name_or_path", NULL },
    { "teacher_model_name_or_path", NULL },
    { "stage", "method" },
    { "add_tokens", NULL },
    { "finetuning_type", NULL },
    { "freeze_trainable_layers", NULL },
    { "freeze_trainable_modules", NULL },
    { "freeze_vision_tower", NULL },
    { "freeze_multi_modal_projector", NULL },
    { "freeze_language_model", NULL },
    { "lora_rank", NULL },
    { "lora_alpha", NULL },
    { "lora_dropout", NULL },
    { "lora_target", NULL },
    { "lora_target_parameters", NULL },
    { "additional_target", NULL },
    { "use_rslora", NULL },
    { "use_dora", NULL },
    { "pissa_init", NULL },
    { "loraplus_lr_ratio", NULL },
    { "quantization_bit", NULL },
    { "double_quantization", NULL },
    { "kd_ratio", NULL },
    { "kd_temperature", NULL },
    { "kd_beta", NULL },
    { "ref_model", NULL },
    { "pref_loss", NULL },
    { "pref_beta", NULL },
    { "pref_ftx", NULL },
    { "dpo_label_smoothing", NULL },
    { "simpo_gamma", NULL },
    { "center_rewards_coefficient", NULL },
    { "kto_chosen_weight", NULL },
    { "kto_rejected_weight", NULL },
    { "use_dft_loss", NULL },
    { "use_eaft_loss", NULL },
    { "eaft_alpha", NULL },
    { "reward_funcs", NULL },
    { "reward_weights", NULL },
    { "num_generations", NULL },
    { "max_completion_length", NULL },
    { "num_iterations", NULL },
    { "steps_per_generation", NULL },
    { "loss_type", NULL },
    { "beta", NULL },
    { "use_bias_correction_kl", NULL },
    { "epsilon", NULL },
    { "epsilon_high", NULL },
    { "importance_sampling_level", NULL },
    { "scale_rewards", NULL },
    { "multi_objective_aggregation", NULL },
    { "mask_truncated_completions", NULL },
    { "temperature", NULL },
    { "top_p", NULL },
    { "top_k", NULL },
    { "repetition_penalty", NULL },
    { "dataset", "dataset" },
    { "eval_dataset", NULL },
    { "val_size", NULL },
    { "template", NULL },
    { "default_system", NULL },
    { "cutoff_len", NULL },
    { "image_max_pixels", NULL },
    { "image_min_pixels", NULL },
    { "crop_to_patches", NULL },
    { "packing", NULL },
    { "neat_packing", NULL },
    { "train_on_prompt", NULL },
    { "disable_shuffling", NULL },
    { "dataloader_drop_last", NULL },
    { "bf16", "precision and memory" },
    { "fp16", NULL },
    { "pure_bf16", NULL },
    { "tf32", NULL },
    { "model_dtype", NULL },
    { "gradient_checkpointing", NULL },
    { "use_cpu", NULL },
    { "per_device_train_batch_size", "train" },
    { "gradient_accumulation_steps", NULL },
    { "num_train_epochs", NULL },
    { "max_steps", NULL },
    { "optim", NULL },
    { "use_muon", NULL },
    { "learning_rate", NULL },
    { "weight_decay", NULL },
    { "adam_beta1", NULL },
    { "adam_beta2", NULL },
    { "adam_epsilon", NULL },
    { "max_grad_norm", NULL },
    { "neftune_noise_alpha", NULL },
    { "lr_scheduler_type", NULL },
    { "lr_scheduler_kwargs", NULL },
    { "warmup_steps", NULL },
    { "warmup_ratio", NULL },
    { "seed", NULL },
    { "eval_strategy", "eval" },
    { "eval_steps", NULL },
    { "eval_on_start", NULL },
    { "per_device_eval_batch_size", NULL },
    { "load_best_model_at_end", NULL },
    { "metric_for_best_model", NULL },
    { "greater_is_better", NULL },
    { "early_stopping_steps", NULL },
    { "output_dir", "output" },
    { "logging_steps", NULL },
    { "save_strategy", NULL },
    { "save_steps", NULL },
    { "save_total_limit", NULL },
    { "save_only_model", NULL },
    { "resume_from_checkpoint", NULL },
    { "run_name", NULL },
    { "trainspool", NULL },
};
_Static_assert(TS_COUNT(order) <= IMPORT_LINES, "a line for every key");

static size_t line_index(const char *key)
{
    for (size_t i = 0; i < TS_COUNT(order); i++)
        if (strcmp(order[i].key, key) == 0)
            return i;
    assert(!"a key without a position in the job");
    return 0;
}

bool import_has_line(const char *key)
{
    for (size_t i = 0; i < TS_COUNT(order); i++)
        if (strcmp(order[i].key, key) == 0)
            return true;
    return false;
}

/* ---- values ---- */

/* Return whether a reader without the schema would take the text for another type. */
static bool reads_as_other_type(const char *text)
{
    struct node node = { .kind = NODE_SCALAR, .text = text, .len = strlen(text) };
    double number;
    bool truth;

    return node_is_null(&node) || scalar_bool(&node, &truth) != SCALAR_WRONG ||
           scalar_number(&node, &number) != SCALAR_WRONG;
}

static bool reads_plain(struct arena *arena, const char *text)
{
    const char *line = arena_printf(arena, "k: %s  # n\n", text);
    struct document document;
    const struct entry *entry;

    document_read(line, strlen(line), arena, &document);
    entry = document.remark_count == 0 ? document_find(&document, "k") : NULL;
    return entry && document.root->count == 1 && entry->value->kind == NODE_SCALAR &&
           entry->value->style == STYLE_PLAIN && !entry->value->tag &&
           !entry->value->anchor && !node_is_null(entry->value) &&
           strcmp(entry->value->text, text) == 0;
}

static const char *in_quotes(struct arena *arena, const char *text, char quote)
{
    const char *copy;
    struct text out;

    text_init(&out, 0);
    if (quote == '"') {
        yaml_quote(&out, text);
    } else {
        text_addc(&out, quote);
        for (; *text; text++)
            text_adds(&out, *text == '\'' ? "''" : (char[]) { *text, 0 });
        text_addc(&out, quote);
    }
    copy = arena_strdup(arena, out.data);
    text_clear(&out);
    return copy;
}

static bool has_forbidden(const char *text)
{
    for (; *text; text++)
        if (yaml_is_forbidden(text))
            return true;
    return false;
}

const char *import_yaml(struct arena *arena, const char *text)
{
    if (has_forbidden(text))
        return in_quotes(arena, text, '"');
    return reads_plain(arena, text) ? text : in_quotes(arena, text, '\'');
}

const char *import_yaml_inside(struct arena *arena, const char *text)
{
    const char *yaml = import_yaml(arena, text);

    return yaml == text && strpbrk(text, "{}[],:\"'") ? in_quotes(arena, text, '\'')
                                                      : yaml;
}

void import_set_yaml(struct importing *im, const char *key, const char *yaml,
                     const char *note)
{
    struct import_line *line = &im->lines[line_index(key)];

    line->value = yaml;
    line->note = note;
}

void import_set(struct importing *im, const char *key, const char *value,
                const char *note)
{
    const struct key *known = schema_find(key);
    bool is_text;

    if (!value)
        return; /* import_text has set an error */
    is_text =
        known->type == KEY_TEXT || known->type == KEY_PATH || known->type == KEY_LIST;

    import_set_yaml(im, key,
                    is_text && reads_as_other_type(value) && !has_forbidden(value)
                        ? in_quotes(im->arena, value, '\'')
                        : import_yaml(im->arena, value),
                    note);
}

void import_set_default(struct importing *im, const char *key, const char *value,
                        const char *note)
{
    if (!import_value(im, key))
        import_set(im, key, value, note);
}

void import_remark(struct importing *im, const char *key, const char *fmt, ...)
{
    struct import_line *line = &im->lines[line_index(key)];
    char text[8192];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    line->remarks = line->remarks ? arena_printf(im->arena, "%s\n%s", line->remarks, text)
                                  : arena_strdup(im->arena, text);
}

const char *import_value(const struct importing *im, const char *key)
{
    return im->lines[line_index(key)].value;
}

/* ---- the text ---- */

/* Add text to a comment, without line ends and characters that YAML does not allow. */
static void add_comment_text(struct text *out, const char *text, size_t len)
{
    struct text shown;

    text_init(&shown, 0);
    text_add_visible(&shown, text, len);
    for (const char *at = shown.data; *at; at++)
        if (yaml_is_forbidden(at)) {
            text_addc(out, '?');
            at += yaml_forbidden_length(at) - 1;
        } else {
            text_addc(out, *at);
        }
    text_clear(&shown);
}

/* Add "# words", wrapped.  A line that starts with blanks is a command or a text to
 * copy, so it is not wrapped. */
static void add_comment(struct text *out, const char *text, size_t len)
{
    size_t column = 1;

    text_addc(out, '#');
    if (len > 0 && text[0] == ' ') {
        text_addc(out, ' ');
        add_comment_text(out, text, len);
        text_addc(out, '\n');
        return;
    }
    for (size_t at = 0; at < len;) {
        size_t word = strcspn(text + at, " \n");

        word = word < len - at ? word : len - at;
        if (column > 1 && column + 1 + word > WIDTH) {
            text_adds(out, "\n#  ");
            column = 3;
        }
        text_addc(out, ' ');
        add_comment_text(out, text + at, word);
        column += 1 + word;
        at += word;
        at += at < len;
    }
    text_addc(out, '\n');
}

static void add_comments(struct text *out, const char *text)
{
    while (text && *text) {
        size_t len = strcspn(text, "\n");

        add_comment(out, text, len);
        text += len;
        text += *text != 0;
    }
}

static void add_line(struct text *out, const char *key, const struct import_line *line)
{
    const char *note = line->note;
    bool on_same_line =
        note && strlen(key) + strlen(line->value) + strlen(note) + 6 <= WIDTH;

    add_comments(out, line->remarks);
    if (note && !on_same_line)
        add_comment(out, note, strlen(note));
    text_addf(out, "%s: %s", key, line->value);
    if (on_same_line) {
        text_adds(out, "  # ");
        add_comment_text(out, note, strlen(note));
    }
    text_addc(out, '\n');
}

/* Add "# not carried over: a, b (why)" for all keys with the same outcome and reason. */
static void add_group(struct text *out, const struct import_key *keys, size_t count,
                      size_t first)
{
    struct text line;

    text_init(&line, 0);
    text_adds(&line, "not carried over: ");
    for (size_t i = first; i < count; i++)
        if (keys[i].outcome == keys[first].outcome &&
            strcmp(keys[i].why, keys[first].why) == 0)
            text_addf(&line, "%s%s", i > first ? ", " : "", keys[i].name);
    text_addf(&line, " (%s)", keys[first].why);
    add_comment(out, line.data, line.len);
    text_clear(&line);
}

static bool is_listed(const struct import_key *keys, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (keys[i].outcome == keys[at].outcome && strcmp(keys[i].why, keys[at].why) == 0)
            return true;
    return false;
}

static void add_outcome_list(const struct importing *im, enum import_outcome outcome,
                             const char *heading, struct text *out)
{
    const struct import_key *keys;
    size_t count = import_keys(im, &keys);
    bool any = false;

    for (size_t i = 0; i < count; i++) {
        if (keys[i].outcome != outcome || is_listed(keys, i))
            continue;
        if (!any)
            text_addf(out, "\n### %s\n", heading);
        any = true;
        add_group(out, keys, count, i);
    }
}

void import_write(const struct importing *im, struct text *out)
{
    const char *section = NULL, *last_section = NULL;
    const char *first = arena_printf(im->arena, "imported by trainspool from %s (%s)",
                                     path_base(im->file), im->tool);

    add_comment(out, first, strlen(first));
    for (size_t i = 0; i < TS_COUNT(order); i++) {
        section = order[i].section ? order[i].section : section;
        if (!im->lines[i].value)
            continue;
        if (section != last_section)
            text_addf(out, "\n### %s\n", section);
        last_section = section;
        add_line(out, order[i].key, &im->lines[i]);
    }
    add_outcome_list(
        im, IMPORT_DIFFERS,
        arena_printf(im->arena,
                     "%s settings that this job does not have; the result may differ",
                     im->tool),
        out);
    add_outcome_list(im, IMPORT_IDLE, "settings that this job does not require", out);
}
