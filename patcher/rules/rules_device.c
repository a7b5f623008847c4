/* patcher/rules/rules_device.c - the device: code for it, device_map, ranks, unequal
 * GPUs, memory in use. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include "base/size.h"
#include "patcher/schema/slurm_values.h"
#include "precision/probe.h"

/* Report at trainspool.device, ranks or target, or without a line. */
static void report_on_device(struct rule_context *context, const struct finding *base)
{
    static const char *const positions[] = { "device", "ranks", "target" };
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = NULL;

    for (size_t i = 0; i < TS_COUNT(positions) && !entry; i++)
        entry = rule_block_entry(context, positions[i]);
    propose_remark(&to, base, entry);
}

static void rule_no_gpu_code(struct rule_context *context)
{
    const struct device *device = context->device;
    const struct capability_row *row = device ? device_capability(device) : NULL;
    struct arena *arena = context->arena;
    struct finding finding = { .rule = "TS201", .because = rule_device_text(context) };

    if (!device || context->plan->external)
        return;
    if (device->passed_over[0]) {
        finding.severity = SEVERITY_WARNING;
        finding.message =
            arena_printf(arena, "this build has no code for %s: the job runs on the CPU",
                         device->passed_over);
    } else if (rule_on_gpu(context) && device->here && !device->runnable) {
        finding.severity = SEVERITY_ERROR;
        finding.message =
            arena_printf(arena,
                         "this build has no code for %s: configure "
                         "--with-cuda-archs=%d%s, or set device: cpu",
                         device->name, rule_capability(context),
                         row && row->cuda13 ? "" : " with a CUDA 12 toolkit");
    } else {
        return;
    }
    report_on_device(context, &finding);
}

static bool is_distributed(const struct rule_context *context)
{
    return plan_ranks(context->plan) > 1 || rule_entry(context, "deepspeed") ||
           (rule_entry(context, "fsdp") &&
            *node_value(rule_entry(context, "fsdp")->value)->text);
}

static void report_unused_device_map(struct rule_context *context)
{
    rule_report(context,
                &(struct finding) {
                    .rule = "TS206",
                    .severity = SEVERITY_INFO,
                    .message =
                        "device_map has no effect here: the model is on the device that "
                        "trains it",
                    .note = "it neither causes nor solves the loss scaler's error" },
                "device_map");
}

static void report_refused_device_map(struct rule_context *context, const char *key,
                                      bool distributed)
{
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS206",
            .severity = SEVERITY_ERROR,
            .message =
                distributed
                    ? arena_printf(context->arena,
                                   "%s cannot be combined with distributed training: "
                                   "each process holds the model on its own GPU",
                                   key)
                    : arena_printf(context->arena,
                                   "%s cannot be combined with training on quantized "
                                   "weights, which must be on the GPU that trains",
                                   key),
            .note = "remove the key; it does not solve the loss scaler's error" },
        key);
}

/* A native run places the model; another program may refuse to start. */
static void rule_device_map(struct rule_context *context)
{
    bool distributed = is_distributed(context), quantized = rule_is_quantized(context);

    if (!context->plan->external) {
        if (rule_entry(context, "device_map"))
            report_unused_device_map(context);
        return;
    }
    /* a script on one GPU may pass it: only a launcher with several processes fails */
    if ((distributed || (quantized && !context->document->script)) &&
        rule_entry(context, "device_map"))
        report_refused_device_map(context, "device_map", distributed);
    if (quantized && rule_entry(context, "quantization_device_map"))
        report_refused_device_map(context, "quantization_device_map", false);
}

/* Return the formats of which this much is known, "fp16, bf16"; NULL: none. */
static const char *list_formats(const struct rule_context *context,
                                const struct accelerator_row *row, enum known which)
{
    const struct {
        const char *name;
        enum known known;
    } formats[] = { { "fp16", row->fp16 }, { "bf16", row->bf16 }, { "fp8", row->fp8 } };
    const char *list = NULL;

    for (size_t i = 0; i < TS_COUNT(formats); i++)
        if (formats[i].known == which)
            list = arena_printf(context->arena, "%s%s%s", list ? list : "",
                                list ? ", " : "", formats[i].name);
    return list;
}

/* "192 GiB; it has fp16, bf16; no fp8; memory is estimated as on CUDA" */
static const char *describe_accelerator(const struct rule_context *context,
                                        const struct accelerator_row *row)
{
    const char *yes = list_formats(context, row, KNOWN_YES),
               *no = list_formats(context, row, KNOWN_NO),
               *unknown = list_formats(context, row, NOT_KNOWN);
    char memory[16];

    memory_text(context->device->memory, memory);
    return arena_printf(
        context->arena, "%s%s%s%s%s%s%s%s%s%s%s",
        row->gib ? memory : "its memory is not known", row->remark ? " (" : "",
        row->remark ? row->remark : "", row->remark ? ")" : "", yes ? "; it has " : "",
        yes ? yes : "", no ? "; no " : "", no ? no : "", unknown ? "; not known: " : "",
        unknown ? unknown : "", row->gib ? "; memory is estimated as on CUDA" : "");
}

static void report_accelerator(struct rule_context *context,
                               const struct accelerator_row *row)
{
    report_on_device(
        context,
        &(struct finding) {
            .rule = "TS208",
            .severity = SEVERITY_INFO,
            .message = arena_printf(
                context->arena,
                "device rules are skipped: they know only NVIDIA devices, and %s is made by "
                "%s%s",
                context->device->name, row->maker,
                context->plan->external
                    ? ""
                    : " (trainspool itself trains on NVIDIA GPUs and CPUs only)"),
            .note = describe_accelerator(context, row) });
}

static void rule_unknown_device(struct rule_context *context)
{
    const struct accelerator_row *accelerator = rule_accelerator(context);
    const char *why = context->options->no_device;
    struct finding finding = { .rule = "TS208", .severity = SEVERITY_WARNING };

    if (accelerator) {
        report_accelerator(context, accelerator);
        return;
    }
    if (context->device || rule_on_cpu(context) || rule_is_submitted(context)) /* TS211 */
        return;
    if (!why)
        why = context->plan->external ? "another program may run this job elsewhere"
                                      : "no device is given";
    finding.message = arena_printf(
        context->arena, "rules that depend on the device are skipped: %s", why);
    finding.note = context->plan->external
                       ? "name the card: trainspool: {device: T4}, or --device T4"
                       : "--device T4 checks the job for a card that is not in this "
                         "machine";
    report_on_device(context, &finding);
}

static void rule_unequal_gpus(struct rule_context *context)
{
    const struct device *device = context->device;
    char memory[16], capability[16];

    if (!rule_on_gpu(context) || !device->unlike[0])
        return;
    memory_text(device->memory, memory);
    device_capability_text(device, capability);
    report_on_device(
        context,
        &(struct finding) {
            .rule = "TS209",
            .severity = SEVERITY_WARNING,
            .because =
                arena_printf(context->arena, "%s and %s", device->name, device->unlike),
            .message = arena_printf(context->arena,
                                    "the GPUs of this job differ: the weakest properties "
                                    "count, compute capability %s and %s",
                                    capability, memory),
            .note =
                rule_is_submitted(context)
                    ? "the slowest GPU limits the speed; name a model in gres, as in "
                      "gpu:a100:4, or set constraint"
                    : "the slowest GPU limits the speed; set device: cuda:N,M to select "
                      "equal ones" });
}

/* Return what is wrong with the ranks of a node and the GPUs that Slurm gives it. */
static const char *node_error(const struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const long long local = (long long)plan_local_ranks(plan);
    struct slurm_gpus gpus;

    if (!rule_is_submitted(context) || !rule_on_gpu(context) || !plan->slurm.gres ||
        !slurm_read_gres(plan->slurm.gres, &gpus) || !gpus.any || gpus.count >= local)
        return NULL;
    return arena_printf(
        context->arena,
        "ranks: %lld requires %lld GPUs of each node, but gres: %s has %lld",
        (long long)plan->ranks, local, plan->slurm.gres, (long long)gpus.count);
}

static long long local_ranks(const struct rule_context *context)
{
    return (long long)plan_local_ranks(context->plan);
}

/* More than trainspool runs on one machine, even on a CPU. */
static bool is_over_maximum(const struct rule_context *context)
{
    return local_ranks(context) > DEVICE_RANKS_MAX;
}

static const char *ranks_error(const struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const char *where = plan->nodes > 1 ? " on each machine" : "";
    long long local = local_ranks(context);
    size_t named = probe_count_named(plan->device_wanted);

    if (named > 0 && (long long)named != local)
        return arena_printf(context->arena, "ranks: %lld%s, but device: %s names %zu",
                            local, where, plan->device_wanted, named);
    if (node_error(context))
        return node_error(context);
    if (is_over_maximum(context))
        return arena_printf(context->arena,
                            "ranks: %lld%s, but at most %d run on one machine", local,
                            where, DEVICE_RANKS_MAX);
    if (rule_on_gpu(context) && context->device->peers > 0 &&
        context->device->peers < local)
        return arena_printf(context->arena,
                            "ranks: %lld%s requires that many GPUs of one kind, but this "
                            "machine has %d",
                            local, where, context->device->peers);
    return NULL;
}

static const char *ranks_remedy(const struct rule_context *context)
{
    if (node_error(context))
        return "ask for more GPUs in gres or for more nodes, or use fewer ranks with more "
               "gradient_accumulation_steps";
    if (is_over_maximum(context))
        return "distribute the ranks among more nodes, or use fewer ranks with more "
               "gradient_accumulation_steps";
    return "use fewer ranks with more gradient_accumulation_steps to keep the batch of a "
           "step; device: cpu allows up to 16 ranks on a machine";
}
_Static_assert(DEVICE_RANKS_MAX == 16, "named in ranks_remedy");

static void rule_too_many_ranks(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_block_entry(context, "ranks");
    const char *trouble = entry ? ranks_error(context) : NULL;

    if (trouble)
        propose_remark(&to,
                       &(struct finding) { .rule = "TS207",
                                           .severity = SEVERITY_ERROR,
                                           .message = trouble,
                                           .note = ranks_remedy(context) },
                       entry);
}

static void rule_device_memory_in_use(struct rule_context *context)
{
    const struct device *device = context->device;
    uint64_t used, context_bytes = MEMORY_CUDA_CONTEXT + MEMORY_CUDA_CONTEXT_SPREAD;
    char taken[16], all[16];

    if (!rule_on_gpu(context) || !device->here || device->available > device->memory)
        return;
    used = device->memory - device->available;
    if (used <= context_bytes || used - context_bytes <= device->memory / 10)
        return;
    memory_text(used - context_bytes, taken);
    memory_text(device->memory, all);
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS210",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(context->arena,
                                    "other programs use about %s of the device's %s",
                                    taken, all),
            .note = "nvidia-smi lists them; the job is planned for the free memory" },
        NULL);
}

static const struct rule rows[] = {
    { .id = "TS201",
      .title = "GPU that this build has no code for",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_no_gpu_code,
      .explain =
          "A program contains code for the compute capabilities it was built for and "
          "runs on no other. CUDA 13 no longer generates code for P100, V100 and GTX "
          "10xx; CUDA 12 does: configure with `--with-cuda=DIR` for such a toolkit and "
          "`--with-cuda-archs` for the card. A job that asks for the card with device: "
          "cuda is rejected; a job that leaves the choice open (auto) runs on the CPU, "
          "with a warning. `trainspool devices` shows what the build can use. Only a "
          "card found in this machine counts, not one named with --device.",
      .source = "CUDA 13.0 release notes; kaggle-cli#1151" },
    { .id = "TS206",
      .title = "device_map",
      .severity = SEVERITY_INFO,
      .run = rule_device_map,
      .explain =
          "device_map distributes a model over several GPUs for inference. It has no "
          "effect on a native run. In a script it cannot be combined with distributed "
          "training, where each process holds the model on its own GPU (Accelerate "
          "raises an error), nor with training on quantized weights (LLaMA-Factory "
          "raises an error). Both are errors for target: external.\n\n"
          "It neither causes nor solves `Attempting to unscale FP16 gradients`, which "
          "is caused by trained float16 weights (TS105).",
      .source =
          "accelerate, Accelerator.prepare_model; LLaMA-Factory, hparams/parser.py" },
    { .id = "TS207",
      .title = "more ranks than GPUs",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_too_many_ranks,
      .target = RULE_NATIVE,
      .explain =
          "Each rank trains on its own GPU, and GPUs that train together must have the "
          "same compute capability. Two processes on one GPU would take turns and need "
          "twice the memory. To keep the batch of a step with fewer ranks, multiply "
          "gradient_accumulation_steps by the factor that ranks is divided by.",
      .source = "trainspool-job(5)" },
    { .id = "TS208",
      .title = "unknown device",
      .severity = SEVERITY_WARNING,
      .run = rule_unknown_device,
      .explain =
          "Most of the rules TS1xx and TS2xx depend on what the card can do. A native "
          "job runs on this machine, so its device is known. It is unknown if the job "
          "asks for a GPU that this machine does not have (device: cuda), and for "
          "target: external on a machine without a GPU: a launcher does not show where "
          "the script will run. The rules that depend on the device are then skipped, "
          "and this finding is reported instead.\n\n"
          "A native job is checked for this machine too, but a file under version control "
          "rarely runs where it is committed. If this machine has no GPU and nothing "
          "names a device, check and patch make no safe edit that depends on the device, "
          "report such errors as warnings, and an info explains it. run and watch, which "
          "train here, make those edits; so does patch for a job with use_cpu: true or "
          "device: cpu.\n\n"
          "Name the device: `--device \"RTX 3090\"` for a single check, "
          "TRAINSPOOL_DEVICE in the environment, trainspool: {check_device: \"RTX "
          "3090\"} in the job (for target: external also device), or device = \"RTX "
          "3090\" in .trainspool.toml at the root of the repository. `trainspool devices "
          "--known` lists the names; sm_86:24GiB describes any card, and auto is this "
          "machine.\n\n"
          "Devices of other makers (MI300X, Apple M2, Arc A770, Ascend 910B, Gaudi2, TPU "
          "v5e; or rocm, mps, xpu, npu, hpu and tpu for any other) have names too. The "
          "device rules know only NVIDIA cards and are skipped there, and an info reports "
          "what is known: memory, fp16, bf16 and fp8 in matmuls. All other rules apply, and "
          "the memory that PyTorch needs on CUDA is compared with that of the device.",
      .source = "axolotl#1924: checks that tested the launcher's GPU; "
                "precision/accelerator_table.c" },
    { .id = "TS209",
      .title = "unequal GPUs",
      .severity = SEVERITY_WARNING,
      .run = rule_unequal_gpus,
      .explain =
          "Processes that train one model do the same work on every GPU, so the weakest "
          "one limits them all: its compute capability decides the formats, its free "
          "memory the batch, and its speed the speed of the run.\n\n"
          "A native run uses GPUs of one compute capability and by default selects "
          "those with the most free memory; they may differ in size. For target: "
          "external all GPUs of this machine count, as torchrun would use them. device: "
          "cuda:0,1 selects equal ones.",
      .source = "precision/probe.h; trainspool-job(5)" },
    { .id = "TS210",
      .title = "device memory in use by other programs",
      .severity = SEVERITY_WARNING,
      .run = rule_device_memory_in_use,
      .explain =
          "More than a tenth of the device's memory is not free: another job, an open "
          "notebook, or a desktop uses it. The memory that a job may use is computed "
          "from what is free (95 % of it, or memory_limit), not from the size of the "
          "card. The job is planned for the smaller value and may not fit although the "
          "card is large enough.\n\n"
          "nvidia-smi shows which programs use the memory. A notebook releases it when "
          "its kernel is shut down, not when its cell has finished. The job is not "
          "changed.",
      .source = "cudaMemGetInfo, as trainspool-train --probe reports it, without the "
                "context of the probe" },
};

const struct rules rules_device = { rows, TS_COUNT(rows) };
