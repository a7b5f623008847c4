/* patcher/rules/torch_setup.c - read the keys of an external job that determine its
 * memory. */
#include "config.h"

#include "patcher/rules/torch_setup.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "base/text.h"
#include "patcher/schema/scalar.h"

enum { DEEPSPEED_MAX = 1 << 20 };

static const char *text_of(const struct entry *entry)
{
    const struct node *value = entry ? node_value(entry->value) : NULL;

    return value && value->kind == NODE_SCALAR && !node_is_null(value) ? value->text : "";
}

static const char *text(const struct document *document, const char *key)
{
    return text_of(document_find(document, key));
}

static const char *offload_device(const json_t *zero, const char *key)
{
    const char *device =
        json_string_value(json_object_get(json_object_get(zero, key), "device"));

    return device ? device : "none";
}

static void read_zero(const json_t *zero, struct torch_setup *out)
{
    int64_t stage = json_integer_value(json_object_get(zero, "stage"));

    out->zero_stage = stage >= 0 && stage <= 3 ? (int)stage : 0;
    out->offload_optimizer = strcmp(offload_device(zero, "offload_optimizer"), "none");
    out->offload_weights = strcmp(offload_device(zero, "offload_param"), "none");
}

static void read_deepspeed_file(const char *dir, const char *name,
                                struct torch_setup *out)
{
    char *path = *name == '/' ? memory_strdup(name) : path_join(dir, name);
    struct error ignored = { 0 };
    json_t *root =
        file_exists(path) ? json_read_file(path, DEEPSPEED_MAX, &ignored) : NULL;

    out->sharding_unknown = !root;
    read_zero(json_object_get(root, "zero_optimization"), out);
    json_decref(root);
    free(path);
}

static void read_deepspeed_map(const struct node *map, struct torch_setup *out)
{
    const struct entry *zero = node_find(map, "zero_optimization"), *found;
    const struct node *block = zero ? node_value(zero->value) : NULL;
    static const char *const offloads[] = { "offload_optimizer", "offload_param" };
    bool *const into[] = { &out->offload_optimizer, &out->offload_weights };

    if (!block || block->kind != NODE_MAP)
        return;
    out->zero_stage = atoi(text_of(node_find(block, "stage")));
    for (size_t i = 0; i < 2; i++) {
        found = node_find(block, offloads[i]);
        if (found && node_value(found->value)->kind == NODE_MAP)
            *into[i] = strcmp(text_of(node_find(node_value(found->value), "device")),
                              "none") != 0;
    }
}

static void read_deepspeed(const struct document *document, const char *dir,
                           struct torch_setup *out)
{
    const struct entry *entry = document_find(document, "deepspeed");
    const struct node *value = entry ? node_value(entry->value) : NULL;

    if (!value || node_is_null(value))
        return;
    out->deepspeed = true;
    if (value->kind == NODE_MAP)
        read_deepspeed_map(value, out);
    else if (value->kind == NODE_SCALAR)
        read_deepspeed_file(dir, value->text, out);
    if (out->zero_stage < 0 || out->zero_stage > 3)
        out->zero_stage = 0;
}

/* Return whether a word is in a string, or in an item of a list. */
static bool mentions(const struct node *value, const char *word)
{
    if (value->kind == NODE_SCALAR)
        return strstr(value->text, word) != NULL;
    for (size_t i = 0; value->kind == NODE_LIST && i < value->count; i++)
        if (mentions(node_value(value->items[i]), word))
            return true;
    return false;
}

/* FSDPOption of transformers; hybrid_shard divides among the ranks of a machine. */
static int fsdp_stage(const struct node *value)
{
    static const struct {
        const char *word;
        int stage;
    } strategies[] = {
        { "shard_grad_op", 2 }, { "hybrid_shard_zero2", 2 }, { "no_shard", 0 },
        { "NO_SHARD", 0 },      { "SHARD_GRAD_OP", 2 },      { "HYBRID_SHARD_ZERO2", 2 },
    };

    for (size_t i = 0; i < TS_COUNT(strategies); i++)
        if (mentions(value, strategies[i].word))
            return strategies[i].stage;
    return 3;
}

static void read_fsdp(const struct document *document, struct torch_setup *out)
{
    const struct entry *entry = document_find(document, "fsdp");
    const struct node *value = entry ? node_value(entry->value) : NULL;
    bool on = true;

    if (!value || node_is_null(value) ||
        (value->kind == NODE_LIST && value->count == 0) ||
        (value->kind == NODE_SCALAR && !*value->text) ||
        (scalar_bool(entry->value, &on) != SCALAR_WRONG && !on))
        return;
    out->zero_stage = fsdp_stage(value);
    out->offload_weights = out->offload_optimizer = mentions(value, "offload");
}

/* ---- Optimizers that LLaMA-Factory selects by a key ---- */

enum { RANK_LLAMAFACTORY = 16, RANK_TRANSFORMERS = 128 }; /* the defaults */

static bool is_on(const struct document *document, const char *key)
{
    const struct entry *entry = document_find(document, key);
    bool on = false;

    return entry && scalar_bool(entry->value, &on) != SCALAR_WRONG && on;
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* Return the row of train/torch_optimizers.c for GaLore with the optimizer that `optim`
 * names: _create_galore_optimizer. */
static const char *galore_name(const char *optim, bool layerwise)
{
    static const char *const bits8[] = { "adamw_bnb_8bit", "adamw_8bit",
                                         "paged_adamw_8bit", NULL };

    if (is_one_of(optim, bits8))
        return layerwise ? "galore_adamw_8bit_layerwise" : "galore_adamw_8bit";
    if (strcmp(optim, "adafactor") == 0)
        return layerwise ? "galore_adafactor_layerwise" : "galore_adafactor";
    return layerwise ? "galore_adamw_layerwise" : "galore_adamw";
}

static int64_t rank_of(const struct document *document, const char *key)
{
    const long long rank = atoll(text(document, key));

    return rank > 0 ? rank : RANK_LLAMAFACTORY;
}

/* The matrices that are projected; a list of some is not counted. */
static bool targets_all(const struct document *document, const char *key)
{
    static const char *const all[] = { "", "all", "all-linear", "all_linear", NULL };
    const struct entry *entry = document_find(document, key);

    return (!entry || node_value(entry->value)->kind == NODE_SCALAR) &&
           is_one_of(text(document, key), all);
}

/* The order of create_custom_optimizer in LLaMA-Factory's train/trainer_utils.py. */
static void read_llamafactory_optimizer(const struct document *document,
                                        struct torch_setup *out)
{
    if (is_on(document, "use_galore")) {
        out->optim =
            galore_name(text(document, "optim"), is_on(document, "galore_layerwise"));
        out->rank = rank_of(document, "galore_rank");
        out->partly_covered = !targets_all(document, "galore_target");
    } else if (is_on(document, "use_apollo")) {
        out->optim = is_on(document, "apollo_layerwise") ? "apollo_adamw_layerwise"
                                                         : "apollo_adamw";
        out->rank = rank_of(document, "apollo_rank");
        out->partly_covered = !targets_all(document, "apollo_target");
    } else if (is_on(document, "use_badam")) {
        out->optim = "use_badam";
        out->partly_covered = strcmp(text(document, "badam_mode"), "ratio") == 0;
    } else if (is_on(document, "use_adam_mini")) {
        out->optim = "use_adam_mini";
    } else if (is_on(document, "use_muon")) {
        out->optim = "use_muon";
    }
}

/* "rank=64, update_proj_gap=100": Trainer.get_optimizer_cls_and_kwargs. */
static void read_optim_args(const struct document *document, struct torch_setup *out)
{
    const char *rank = strstr(text(document, "optim_args"), "rank=");
    const long long value = rank ? atoll(rank + strlen("rank=")) : 0;

    out->rank = value > 0 ? value : RANK_TRANSFORMERS;
    out->partly_covered = !targets_all(document, "optim_target_modules");
}

static void read_optimizer(const struct document *document, struct arena *arena,
                           struct torch_setup *out)
{
    const char *optim = text(document, "optim");

    out->optim = *optim ? arena_strdup(arena, optim) : NULL;
    if (text_starts(optim, "galore_") || text_starts(optim, "apollo_"))
        read_optim_args(document, out);
    read_llamafactory_optimizer(document, out);
}

/* ---- Stages ---- */

/* create_ref_model: a job with adapters compares with the model without them, unless it
 * names a reference. orpo and simpo compare with nothing. */
static bool loads_reference(const struct document *document)
{
    static const char *const whole[] = { "full", "freeze", NULL };
    static const char *const alone[] = { "orpo", "simpo", NULL };

    if (is_one_of(text(document, "pref_loss"), alone))
        return false;
    return *text(document, "ref_model") ||
           is_one_of(text(document, "finetuning_type"), whole);
}

static bool says_no(const char *value)
{
    return *value == 0 || strcmp(value, "no") == 0;
}

void torch_setup_read(const struct document *document, const char *dir,
                      struct arena *arena, struct torch_setup *out)
{
    const char *stage = text(document, "stage");
    const struct entry *block = document_find(document, "trainspool");
    int bits = atoi(text(document, "quantization_bit"));

    if (is_on(document, "load_in_4bit")) /* transformers, and ModelConfig of TRL */
        bits = 4;
    else if (is_on(document, "load_in_8bit"))
        bits = 8;

    *out = (struct torch_setup) {
        .quantization_bit = bits == 4 || bits == 8 ? bits : 0,
        .plain_attention = strcmp(text(document, "flash_attn"), "disabled") == 0,
        .evaluates = !says_no(text(document, "eval_strategy")) ||
                     !says_no(text(document, "evaluation_strategy")),
        .ranks_given = block && *text_of(node_find(node_value(block->value), "ranks")),
    };
    if (*stage && strcmp(stage, "sft") != 0 && strcmp(stage, "pt") != 0)
        out->stage = arena_strdup(arena, stage);
    out->reference = out->stage && loads_reference(document);
    read_optimizer(document, arena, out);
    read_deepspeed(document, dir, out);
    read_fsdp(document, out);
}
