/* patcher/rules/trainer_settings.c - translates keys of TRL, and binds the defaults of a
 * trainer's version. */
#include "config.h"

#include "patcher/rules/trainer_settings.h"

#include <string.h>

#include "base/size.h"
#include "patcher/rules/rules_context.h"
#include "patcher/schema/schema.h"

/* Keys of a program under which it has a setting of ours: trainer/model_config.py and
 * trainer/sft_config.py of TRL. */
static const struct translation {
    enum trainer trainer;
    const char *theirs, *ours;
    const char *is, *means; /* a value with another name; NULL: none */
} translations[] = {
    { TRAINER_TRL, "max_seq_length", "cutoff_len", NULL, NULL },
    { TRAINER_TRL, "max_length", "cutoff_len", NULL, NULL },
    { TRAINER_TRL, "lora_r", "lora_rank", NULL, NULL },
    { TRAINER_TRL, "lora_target_modules", "lora_target", "all-linear", "all" },
    { TRAINER_TRL, "lora_modules_to_save", "additional_target", NULL, NULL },
    { TRAINER_TRL, "load_in_4bit", "quantization_bit", "true", "4" },
    { TRAINER_TRL, "load_in_8bit", "quantization_bit", "true", "8" },
    { TRAINER_TRL, "beta", "pref_beta", NULL, NULL },
    /* settings with a value, which only advice names */
    { TRAINER_TRL, "load_in_4bit: true", "quantization_bit: 4", NULL, NULL },
    { TRAINER_TRL, "load_in_8bit: true", "quantization_bit: 8", NULL, NULL },
    { TRAINER_TRL, "use_peft: true", "finetuning_type: lora", NULL, NULL },
};

/* Settings whose default depends on other keys or is computed elsewhere: LLaMA-Factory
 * replaces gradient_checkpointing by disable_gradient_checkpointing; stored_weights.c
 * decides what a missing dtype means. */
static const char *const computed[] = {
    "gradient_checkpointing",
    "model_dtype",
    "output_dir",
    "eval_steps",
    "optim",
    "do_train",
    "use_cpu",
    "finetuning_type",
    "quantization_bit",
    "warmup_ratio",
};

static bool is_computed(const char *key)
{
    for (size_t i = 0; i < TS_COUNT(computed); i++)
        if (strcmp(computed[i], key) == 0)
            return true;
    return false;
}

static void set(const struct rule_context *context, const char *key, const char *value,
                struct plan *plan)
{
    struct error ignored = { 0 };

    schema_set(key, value, context->arena, plan, &ignored);
    error_clear(&ignored);
}

/* Return the text of a value; the elements of a list with commas; NULL for a map. */
static const char *text_of(const struct rule_context *context, const struct node *node)
{
    const char *text = NULL;

    if (node->kind == NODE_SCALAR)
        return node->text;
    for (size_t i = 0; node->kind == NODE_LIST && i < node->count; i++)
        text = arena_printf(context->arena, "%s%s%s", text ? text : "", text ? "," : "",
                            node_value(node->items[i])->text);
    return text;
}

/* A script's arguments have our names, and LoraConfig is called in place of TRL's
 * ModelConfig: of the defaults only that of max_length applies. */
static bool has_default(const struct rule_context *context, const struct translation *row)
{
    return !context->document->script ||
           (strcmp(row->ours, "cutoff_len") == 0 && !rule_line(context, row->ours));
}

static void bind_translated(const struct rule_context *context,
                            const struct translation *row, struct plan *plan)
{
    const struct entry *entry = rule_entry(context, row->theirs);
    const char *text = entry ? text_of(context, node_value(entry->value)) : NULL;

    if (!entry && has_default(context, row))
        text = profile_default(context->view, row->theirs);
    if (!text || strcmp(text, "null") == 0)
        return;
    if (row->is && strcasecmp(row->is, text) == 0)
        text = row->means;
    else if (row->is && strcmp(row->is, "true") == 0)
        return;
    set(context, row->ours, text, plan);
}

/* Return whether the version of the program is known, so that its defaults are. */
static bool knows_defaults(const struct rule_context *context)
{
    return profile_is_complete(context->view) &&
           context->view->own != PROFILE_ANY_VERSION;
}

static void bind_default(const struct rule_context *context, const char *key,
                         struct plan *plan)
{
    const char *value = profile_default(context->view, key);

    if (value && strcmp(value, "null") != 0 && strcmp(value, "''") != 0 &&
        !rule_entry(context, key))
        set(context, key, value, plan);
}

/* If the job names no modules, PEFT adapts queries and values, or the matrix that has
 * both (PEFT, utils/constants.py). */
static void bind_lora_target(const struct rule_context *context, struct plan *plan)
{
    const char *fused;

    if (context->view->trainer != TRAINER_TRL || !context->model ||
        rule_entry(context, "lora_target_modules") ||
        (context->document->script && rule_entry(context, "lora_target")))
        return;
    fused = context->model->architecture->paths[MODULE_QKV];
    set(context, "lora_target", fused ? strrchr(fused, '.') + 1 : "q_proj,v_proj", plan);
}

const char *trainer_settings_name(const struct rule_context *context, const char *ours)
{
    const char *name = ours;

    for (size_t i = 0; i < TS_COUNT(translations); i++)
        if (translations[i].trainer == context->view->trainer &&
            strcmp(translations[i].ours, ours) == 0 &&
            (strchr(ours, ':') || profile_find(context->view, translations[i].theirs)))
            name = translations[i].theirs;
    return name;
}

bool trainer_settings_bf16(const struct rule_context *context)
{
    return context->view->trainer == TRAINER_TRL && knows_defaults(context) &&
           !rule_entry(context, "bf16") && context->plan->request.fp16 != CHOICE_YES;
}

void trainer_settings_bind(const struct rule_context *context, struct plan *plan)
{
    const struct key *key;
    const char *checkpointing;

    for (size_t i = 0; i < TS_COUNT(translations); i++)
        if (translations[i].trainer == context->view->trainer)
            bind_translated(context, &translations[i], plan);
    if (!knows_defaults(context))
        return;
    if (!rule_entry(context, "eval_steps"))
        plan->eval_steps = 0; /* then logging_steps */
    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++)
        if (key->use == KEY_USED && key->into != 0 && !is_computed(key->name))
            bind_default(context, key->name, plan);
    checkpointing = profile_default(context->view, "gradient_checkpointing");
    if (context->view->trainer != TRAINER_LLAMAFACTORY && checkpointing &&
        !rule_entry(context, "gradient_checkpointing"))
        plan->gradient_checkpointing = strcmp(checkpointing, "true") == 0;
    if (trainer_settings_bf16(context)) /* __post_init__: bf16 = not fp16 */
        plan->request.bf16 = CHOICE_YES;
    bind_lora_target(context, plan);
}
