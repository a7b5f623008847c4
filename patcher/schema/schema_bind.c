/* patcher/schema/schema_bind.c - stores the values of keys in struct plan. */
#include "config.h"

#include "patcher/schema/schema_value.h"
#include "patcher/schema/variables.h"

#include "base/file.h"
#include "base/size.h"
#include "train/model/optimizer_table.h"
#include "train/reinforcement.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_NAME "trainspool"

/* Answers that stage grpo generates at once: each slot has keys and values of a sequence. */
enum { MAX_SLOTS = 32 };

struct binding {
    struct arena *arena;
    struct plan *plan;
};

/* Resolve a relative path against the folder of the job, an input also against the working
 * directory. */
static const char *resolve_path(const struct binding *binding, const struct key *key,
                                const char *path)
{
    char *joined;
    const char *copy;

    if (!path || *path == 0 || *path == '/' || !binding->plan->dir)
        return path;
    joined = key->written ? path_join(binding->plan->dir, path)
                          : path_input(binding->plan->dir, path);
    copy = arena_strdup(binding->arena, joined);
    free(joined);
    return copy;
}

/* ---- Keys that share a field or have no field of their type ---- */

static void bind_no_checkpointing(const struct binding *binding,
                                  const struct value *value)
{
    binding->plan->gradient_checkpointing = value->number == 0;
}

static void bind_checkpointing(const struct binding *binding, const struct value *value)
{
    binding->plan->gradient_checkpointing = value->number != 0;
}

static void bind_use_cpu(const struct binding *binding, const struct value *value)
{
    if (value->number != 0)
        binding->plan->device_wanted = "cpu";
}

static void bind_train(const struct binding *binding, const struct value *value)
{
    binding->plan->do_train = value->number != 0 ? CHOICE_YES : CHOICE_NO;
}

static void bind_sampling(const struct binding *binding, const struct value *value)
{
    if (strcmp(value->text, "sequential") == 0)
        binding->plan->disable_shuffling = true;
}

static void bind_target(const struct binding *binding, const struct value *value)
{
    binding->plan->external = strcmp(value->text, "native") != 0;
}

static void bind_sweep(const struct binding *binding, const struct value *value)
{
    (void)value;
    binding->plan->sweep = true;
}

static const struct special {
    const char *name;
    void (*bind)(const struct binding *binding, const struct value *value);
} specials[] = {
    { "disable_gradient_checkpointing", bind_no_checkpointing },
    { "gradient_checkpointing", bind_checkpointing },
    { "use_cpu", bind_use_cpu },
    { "do_train", bind_train },
    { "train_sampling_strategy", bind_sampling },
    { "target", bind_target },
    { "sweep", bind_sweep },
};

static void bind_special(const struct binding *binding, const struct key *key,
                         const struct value *value)
{
    for (size_t i = 0; i < TS_COUNT(specials); i++)
        if (strcmp(specials[i].name, key->name) == 0)
            specials[i].bind(binding, value);
}

/* ---- One key ---- */

static void bind_scale(struct plan *plan, const struct value *value)
{
    plan->request.loss_scale = 0;
    if (!value->text) {
        plan->request.loss_scaling = CHOICE_YES;
        plan->request.loss_scale = value->number;
    } else {
        plan->request.loss_scaling =
            strcmp(value->text, "none") == 0 ? CHOICE_NO : CHOICE_AUTO;
    }
}

/* Store the value in the field of the plan, whose C type follows from the key type. */
static void bind_field(const struct binding *binding, const struct key *key,
                       const struct value *value)
{
    void *into = (char *)binding->plan + key->into;

    switch (key->type) {
    case KEY_BOOL:
        *(bool *)into = value->number != 0;
        break;
    case KEY_CHOICE:
        *(enum choice *)into = (enum choice)value->number;
        break;
    case KEY_INT:
        *(int64_t *)into = (int64_t)value->number;
        break;
    case KEY_REAL:
    case KEY_SECONDS:
        *(double *)into = value->number;
        break;
    case KEY_ENUM:
        *(int *)into = value->index;
        break;
    case KEY_SCALE:
        bind_scale(binding->plan, value);
        break;
    case KEY_PATH:
        *(const char **)into = resolve_path(binding, key, value->text);
        break;
    case KEY_BOOL_OR_TEXT:
        *(const char **)into = value->text && strcmp(value->text, "true") != 0
                                   ? resolve_path(binding, key, value->text)
                                   : value->text;
        break;
    case KEY_TEXT:
    case KEY_LIST:
    case KEY_SIZE:
        *(const char **)into = value->text;
        break;
    case KEY_MAP:
    case KEY_ANY:
        break;
    }
}

static void bind_members(const struct binding *binding, const struct vocabulary *of,
                         const struct node *map);

static void bind_node(const struct binding *binding, const struct key *key,
                      const struct node *node)
{
    struct node null = { .kind = NODE_SCALAR, .text = key->null };
    struct value value = value_read(key, node, binding->arena);

    if (value.state == VALUE_NULL && key->null) {
        null.len = strlen(key->null);
        value = value_read(key, &null, binding->arena);
    }
    if (value.state != VALUE_GOOD && value.state != VALUE_NO_EFFECT)
        return;
    if (key->members)
        bind_members(binding, key->members, value_map(node, binding->arena));
    else if (key->into == 0)
        bind_special(binding, key, &value);
    else if (key->type != KEY_ENUM || value.index >= 0)
        bind_field(binding, key, &value);
}

/* Unknown keys have no effect; schema_check reports them. */
static void bind_members(const struct binding *binding, const struct vocabulary *of,
                         const struct node *map)
{
    const struct entry *entry;
    const struct key *key;

    for (size_t i = 0; map && (key = schema_at(of, i)); i++)
        if (key->use == KEY_USED && (entry = node_find(map, key->name)))
            bind_node(binding, key, entry->value);
}

static void bind_text(const struct binding *binding, const struct key *key,
                      const char *text)
{
    struct node node = { .kind = NODE_SCALAR, .text = text, .len = strlen(text) };

    bind_node(binding, key, &node);
}

static void bind_defaults(const struct binding *binding, const struct vocabulary *of)
{
    const struct key *key;

    for (size_t i = 0; (key = schema_at(of, i)); i++)
        if (key->use == KEY_USED && key->default_value && key->type != KEY_MAP)
            bind_text(binding, key, key->default_value);
    binding->plan->gradient_checkpointing = true; /* as in LLaMA-Factory */
    binding->plan->do_train = CHOICE_AUTO;
    binding->plan->schedule_power = 1;
    binding->plan->schedule_warmup_lr_rate = -1;
    binding->plan->plateau = (struct plateau_settings) {
        .factor = 0.1, .threshold = 1e-4, .eps = 1e-8, .patience = 10
    };
    binding->plan->schedule_lr_end = 1e-7; /* transformers/optimization.py, polynomial */
}

/* Turn off settings that do not apply to pairs, as LLaMA-Factory does
 * (train/dpo/trainer.py and data/processor/pairwise.py); TS909 reports them. */
static void derive_pairs(struct plan *plan)
{
    plan->packing = CHOICE_NO;
    plan->neat_packing = plan->train_on_prompt = plan->mask_history = false;
    plan->compute_accuracy = plan->generation.on = false;
    plan->label_smoothing = 0;
    if (plan->stage == STAGE_RM) /* nothing is compared with a reference */
        return;
    plan->lora_dropout = 0;
    plan->disable_dropout = true;
}

/* ASFT is DFT + a KL(reference || model), which is 1 + a times a distillation of ratio
 * a / (1 + a) with temperature 1 and kd_beta 0. */
static void derive_anchor(struct plan *plan)
{
    plan->anchor = plan->asft_alpha;
    plan->token_loss = TOKEN_LOSS_DFT;
    if (plan->asft_alpha <= 0)
        return;
    plan->stage = STAGE_DISTILL;
    plan->kd = (struct distillation_settings) {
        .teacher = plan->preference.reference ? plan->preference.reference
                                              : plan->model_name_or_path,
        .adapter = plan->preference.reference ? plan->preference.adapter : NULL,
        .ratio = plan->anchor / (1 + plan->anchor),
        .temperature = 1,
    };
}

/* As in LLaMA-Factory (train/sft/trainer.py): DFT is asked for first, and neither smooths
 * labels; TS712 reports keys without effect. */
static void derive_token_loss(struct plan *plan)
{
    if (plan->stage != STAGE_SFT)
        return;
    plan->token_loss = plan->use_dft_loss    ? TOKEN_LOSS_DFT
                       : plan->use_eaft_loss ? TOKEN_LOSS_EAFT
                                             : TOKEN_LOSS_PLAIN;
    if (plan->token_loss == TOKEN_LOSS_PLAIN && plan->use_asft_loss && !plan->external)
        derive_anchor(plan);
    if (plan->token_loss != TOKEN_LOSS_PLAIN && !plan->external)
        plan->label_smoothing = 0;
}

/* Stage kto has one loss, without what belongs to those of stage dpo (TS908). */
static void derive_feedback(struct plan *plan)
{
    plan->preference.loss = PREFERENCE_KTO;
    plan->preference.label_smoothing = plan->preference.simpo_gamma = 0;
}

/* Stage rm has one loss, of scores. */
static void derive_scores(struct plan *plan)
{
    derive_feedback(plan);
    plan->preference.loss = PREFERENCE_REWARD;
    plan->preference.ftx = 0;
    plan->preference.reference = plan->preference.adapter = NULL;
}

/* The answers of stage grpo: sampled, and neither packed nor smoothed.  Dropout and noise
 * would make their likelihoods differ from those that they were sampled with. */
static void derive_answers(struct plan *plan)
{
    int64_t slots = plan->per_device_train_batch_size * plan->gradient_accumulation_steps;

    plan->grpo.loss = 0;
    while (plan->grpo.loss < POLICY_LOSSES &&
           strcmp(plan->grpo.loss_type, policy_loss_names[plan->grpo.loss]) != 0)
        plan->grpo.loss++;
    plan->packing = CHOICE_NO;
    plan->neat_packing = plan->train_on_prompt = plan->mask_history = false;
    plan->compute_accuracy = false;
    plan->label_smoothing = plan->lora_dropout = plan->neftune_alpha = 0;
    plan->disable_dropout = true;
    plan->generation.on = true;
    plan->generation.max_new_tokens = plan->grpo.max_completion_length;
    plan->generation.slots = slots < MAX_SLOTS ? slots : MAX_SLOTS;
}

/* LLaMA-Factory, train/trainer_utils.py: create_custom_optimizer */
static int optimizer_index(const struct plan *plan)
{
    if (plan->use_galore || plan->use_apollo)
        return optimizer_find(plan->use_galore ? "galore" : "apollo");
    if (plan->method == METHOD_LORA && plan->loraplus_lr_ratio > 0)
        return optimizer_first_name(plan->optim);
    if (plan->use_adam_mini)
        return optimizer_find("adam_mini");
    if (plan->use_muon)
        return optimizer_find("muon");
    return optimizer_first_name(plan->optim);
}

/* Set fields that depend on several keys.  Is called again after a key has changed. */
static void derive(struct plan *plan)
{
    plan->optimizer = optimizer_index(plan);
    if (plan->save_total_limit < 0) /* keep all, as in transformers */
        plan->save_total_limit = 0;
    if (!plan->output_dir)
        plan->output_dir = plan->run_dir;
    if (!plan->media_dir)
        plan->media_dir = plan->dataset_dir;
    if (plan->eval_steps <= 0)
        plan->eval_steps = plan->logging_steps;
    plan->generation.slots = plan->per_device_eval_batch_size;
    plan->generation.on =
        plan->predict_with_generate && plan->stage != STAGE_PT && plan_evaluates(plan);
    plan->request.all_trainable = plan->method == METHOD_FULL;
    plan->request.has_frozen = plan->method != METHOD_FULL;
    plan->request.policy = plan->policy;
    derive_token_loss(plan);
    if (plan->stage == STAGE_KTO)
        derive_feedback(plan);
    if (plan->stage == STAGE_RM)
        derive_scores(plan);
    if (plan_prefers(plan) && !plan->external)
        derive_pairs(plan);
    if (plan->stage == STAGE_GRPO && !plan->external)
        derive_answers(plan);
}

/* Stage grpo samples as TRL does unless the job says otherwise (GRPOConfig). */
static void bind_sampled(const struct binding *binding, const struct node *map)
{
    struct generation *g = &binding->plan->generation;

    if (binding->plan->stage != STAGE_GRPO)
        return;
    if (!map || !node_find(map, "temperature"))
        g->temperature = 1;
    if (!map || !node_find(map, "top_p"))
        g->top_p = 1;
    if (!map || !node_find(map, "top_k"))
        g->top_k = 0;
}

/* Bind in the order of the table: of two keys that share a field, the later wins.  A key
 * of the block that is given twice keeps its default. */
static void bind_map(const struct binding *binding, const struct node *map,
                     const struct vocabulary *of)
{
    const struct key *key;

    for (size_t i = 0; (key = schema_at(of, i)); i++) {
        const struct entry *entry = of == &schema_block ? node_find_clear(map, key->name)
                                                        : node_find(map, key->name);

        if (!entry || (key->use != KEY_USED && key->use != KEY_RENAMED))
            continue;
        if (key->use == KEY_RENAMED) {
            if (node_find(map, key->now))
                continue;
            key = schema_find(key->now);
        }
        if (key && key->use == KEY_USED)
            bind_node(binding, key, entry->value);
    }
}

void schema_bind(const struct document *document, struct arena *arena, struct plan *plan)
{
    struct binding binding = { arena, plan };
    struct variables variables;
    const struct entry *block;

    bind_defaults(&binding, &schema_job);
    bind_defaults(&binding, &schema_block);
    if (document->root) {
        block = node_find_clear(document->root, BLOCK_NAME);
        bind_map(&binding, document->root, &schema_job);
        if (block && node_value(block->value)->kind == NODE_MAP)
            bind_map(&binding, node_value(block->value), &schema_block);
        bind_sampled(&binding, document->root);
    }
    variables_read(document, arena, &variables);
    plan->variables = variables.list;
    plan->variable_count = variables.count;
    derive(plan);
}

/* ---- The command line ---- */

static const struct key *find_for_set(const char *name)
{
    const size_t block = strlen(BLOCK_NAME ".");
    const struct key *key;

    if (strncmp(name, BLOCK_NAME ".", block) == 0)
        return schema_find_in(&schema_block, name + block);
    key = schema_find(name);
    if (key && key->use == KEY_RENAMED)
        key = schema_find(key->now);
    return key ? key : schema_find_in(&schema_block, name);
}

bool schema_set(const char *key, const char *value, struct arena *arena,
                struct plan *plan, struct error *err)
{
    struct binding binding = { arena, plan };
    const struct key *row = find_for_set(key);
    struct node node = { .kind = NODE_SCALAR, .text = arena_strdup(arena, value) };
    struct value read;
    const char *near = NULL;
    bool exact;

    if (!row) {
        bool any = schema_nearest(key, &near, 1, &exact) > 0;

        return error_set(err, ERROR_USAGE, "%s is not a key of a job%s%s%s", key,
                         any ? "; did you mean " : "", any ? near : "", any ? "?" : "");
    }
    if (row->use != KEY_USED || row->type == KEY_MAP)
        return error_set(err, ERROR_USAGE, "cannot set %s: it has no effect here", key);
    node.len = strlen(value);
    read = value_read(row, &node, arena);
    if (read.state != VALUE_GOOD && read.state != VALUE_NULL &&
        read.state != VALUE_NO_EFFECT)
        return error_set(err, ERROR_USAGE, "%s must be %s, not '%s'", key,
                         value_expected_with_bound(row, &node, arena),
                         row->secret ? "..." : value);
    if (read.state == VALUE_NULL && !row->null)
        bind_text(&binding, row, row->default_value ? row->default_value : "null");
    else
        bind_node(&binding, row, &node);
    derive(plan);
    return true;
}
