/* patcher/rules/rules_ranks.c - keys that say where other programs keep a model: they start
 * several processes, of which one process needs none and trainspool.ranks starts several
 * here, or move the experts to the CPU. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "patcher/rules/torch_setup.h"
#include "patcher/schema/schema.h"

#define RANKS_NAMED 64 /* more workers are not a number of GPUs of one machine */

static const char *const launch_keys[] = {
    "deepspeed",
    "fsdp",
    "fp8_enable_fsdp_float8_all_gather",
    "use_ray",
    "ray_num_workers",
    "parallelism_config",
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "virtual_pipeline_model_parallel_size",
    "expert_model_parallel_size",
    "context_parallel_size",
    "sequence_parallel",
    "use_kt",
};

/* Return "{ranks: 8, zero_stage: 3}" for the job, as far as its settings are known. */
static const char *ranks_block(const struct rule_context *context,
                               const struct torch_setup *setup)
{
    const int gpus = context->device ? context->device->peers : 0;
    double workers = 0;
    const char *count = "N";

    if (gpus > 1)
        count = arena_printf(context->arena, "%d", gpus);
    else if (rule_number(context, "ray_num_workers", &workers) && workers > 1 &&
             workers <= RANKS_NAMED)
        count = arena_printf(context->arena, "%.0f", workers);
    return arena_printf(
        context->arena, "{ranks: %s%s%s}", count,
        setup->zero_stage > 0
            ? arena_printf(context->arena, ", zero_stage: %d", setup->zero_stage)
            : "",
        setup->offload_optimizer ? ", offload_optimizer: true" : "");
}

static const char *advice(const struct rule_context *context,
                          const struct torch_setup *setup)
{
    if (plan_ranks(context->plan) == 1)
        return arena_printf(
            context->arena,
            "to train on several GPUs of this machine, set trainspool: %s",
            ranks_block(context, setup));
    return "the ranks of the block trainspool divide the work";
}

/* KTransformers starts no processes: the experts are computed elsewhere. */
static bool moves_experts(const char *key)
{
    return strcmp(key, "use_kt") == 0;
}

static const char *reason(const struct rule_context *context, const char *key)
{
    if (moves_experts(key))
        return "experts are trained on the device of the job";
    return plan_ranks(context->plan) == 1 ? "one process trains the job"
                                          : "trainspool starts the processes";
}

/* `None` is a string in YAML, which TS704 reports. */
static bool is_none(const struct entry *entry)
{
    return entry && strcmp(node_value(entry->value)->text, "None") == 0;
}

static void rule_launch_keys(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const char *dir = context->plan->dir ? context->plan->dir : ".";
    struct torch_setup setup;

    torch_setup_read(context->document, dir, context->arena, &setup);
    for (size_t i = 0; i < TS_COUNT(launch_keys); i++) {
        const char *key = launch_keys[i];

        if (!rule_is_set(context, key) || is_none(rule_entry(context, key)))
            continue;
        propose_removal(
            &to,
            &(struct finding) {
                .rule = "TS724",
                .severity = SEVERITY_WARNING,
                .apply = APPLY_UNSAFE,
                .key = key,
                .message =
                    arena_printf(context->arena, "%s (%s) has no effect here: %s", key,
                                 schema_find(key)->help, reason(context, key)),
                .note =
                    moves_experts(key)
                        ? "quantization_bit: 4, or trainspool: {ranks: N, zero_stage: "
                          "3}, saves memory of the device; TS301 says whether the "
                          "model fits"
                        : advice(context, &setup) },
            rule_entry(context, key));
    }
}

static const struct rule rows[] = {
    { .id = "TS724",
      .title = "key that places a model on devices in another program",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .target = RULE_NATIVE,
      .run = rule_launch_keys,
      .explain =
          "deepspeed, fsdp, parallelism_config, the parallel sizes of Megatron, use_ray and "
          "ray_num_workers say how another program divides a model among processes. None "
          "of them changes what a sample contributes to a step, and one process needs "
          "none, so the job is trained without them.\n\n"
          "A job runs in one process unless trainspool.ranks says otherwise; a step then "
          "has fewer samples than in a program that starts a process for each GPU. To "
          "train on several GPUs, set trainspool: {ranks: N}. zero_stage has the meaning "
          "of DeepSpeed's, which the rule reads from its file or map if it can; "
          "full_shard of FSDP is stage 3, shard_grad_op stage 2. An optimizer or a "
          "schedule in DeepSpeed's file has no effect: set optim and lr_scheduler_type. "
          "use_kt keeps the experts on the CPU with KTransformers; here they are on the "
          "device of the job, and the settings of KTransformers have no effect. "
          "A model that does not fit without them is reported by TS301.\n\n"
          "With --unsafe, the line becomes a comment; a file that other programs also "
          "read should keep it.",
      .source = "DeepSpeed runtime/config.py; transformers FSDPOption; "
                "llamafactory hparams/training_args.py" },
};

const struct rules rules_ranks = { rows, TS_COUNT(rows) };
