/* patcher/rules/rules_device.c - the device: code for it, device_map, ranks, unequal
 * GPUs, memory in use. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include "base/size.h"
#include "precision/probe.h"

/* At trainspool.device, ranks or target, or at no line. */
static void report_of_device(struct rule_context *context, const struct finding *base)
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
                         "--with-cuda-archs=%d%s, or say device: cpu",
                         device->name, rule_capability(context),
                         row && row->cuda13 ? "" : " with a toolkit of CUDA 12");
    } else {
        return;
    }
    report_of_device(context, &finding);
}

/* ---- Placement ---- */

static bool is_distributed(const struct rule_context *context)
{
    return plan_ranks(context->plan) > 1 || rule_entry(context, "deepspeed") ||
           (rule_entry(context, "fsdp") &&
            *node_value(rule_entry(context, "fsdp")->value)->text);
}

static void unused_device_map(struct rule_context *context)
{
    rule_report(context,
                &(struct finding) {
                    .rule = "TS206",
                    .severity = SEVERITY_INFO,
                    .message =
                        "device_map has no effect here: the model lies on the device it "
                        "trains on",
                    .note = "it is neither cause nor cure of the loss scaler's error" },
                "device_map");
}

static void refused_device_map(struct rule_context *context, const char *key,
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
                                   "%s does not go with distributed training: each "
                                   "process holds the model on a GPU of its own",
                                   key)
                    : arena_printf(context->arena,
                                   "%s does not go with training on quantised weights, "
                                   "which must lie on the GPU that trains",
                                   key),
            .note = "leave the key out; it is no cure for the loss scaler's error" },
        key);
}

/* A native run places the model itself; another program may refuse to start. */
static void rule_device_map(struct rule_context *context)
{
    bool distributed = is_distributed(context), quantised = rule_is_quantized(context);

    if (!context->plan->external) {
        if (rule_entry(context, "device_map"))
            unused_device_map(context);
        return;
    }
    if ((distributed || quantised) && rule_entry(context, "device_map"))
        refused_device_map(context, "device_map", distributed);
    if (quantised && rule_entry(context, "quantization_device_map"))
        refused_device_map(context, "quantization_device_map", false);
}

/* ---- Which device, and how many ---- */

static void rule_unknown_device(struct rule_context *context)
{
    const char *why = context->options->no_device;
    struct finding finding = { .rule = "TS208", .severity = SEVERITY_WARNING };

    if (context->device || rule_on_cpu(context))
        return;
    if (!why)
        why = context->plan->external ? "another program may run this job elsewhere"
                                      : "no device is named";
    finding.message = arena_printf(
        context->arena, "what depends on the device is not looked at: %s", why);
    finding.note = context->plan->external
                       ? "name the card: trainspool: {device: T4}, or --device T4"
                       : "--device T4 looks at the job for a card that is not here";
    report_of_device(context, &finding);
}

static void rule_unequal_gpus(struct rule_context *context)
{
    const struct device *device = context->device;
    char memory[16], capability[16];

    if (!rule_on_gpu(context) || !device->unlike[0])
        return;
    memory_text(device->memory, memory);
    device_capability_text(device, capability);
    report_of_device(
        context,
        &(struct finding) {
            .rule = "TS209",
            .severity = SEVERITY_WARNING,
            .because = arena_printf(context->arena, "%s beside %s", device->name,
                                    device->unlike),
            .message = arena_printf(context->arena,
                                    "the GPUs of this job are not alike: the least of "
                                    "them counts, compute capability %s and %s",
                                    capability, memory),
            .note = "the slowest sets the pace; device: cuda:N,M names equal ones" });
}

static const char *ranks_trouble(const struct rule_context *context)
{
    const struct plan *plan = context->plan;
    long long ranks = plan->ranks;
    size_t named = probe_named(plan->device_wanted);

    if (named > 0 && (int64_t)named != plan->ranks)
        return arena_printf(context->arena, "ranks: %lld, but device: %s names %zu",
                            ranks, plan->device_wanted, named);
    if (rule_on_gpu(context) && context->device->peers > 0 &&
        context->device->peers < plan->ranks)
        return arena_printf(
            context->arena,
            "ranks: %lld wants as many GPUs of one kind, and this machine has %d", ranks,
            context->device->peers);
    return NULL;
}

static void rule_too_many_ranks(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_block_entry(context, "ranks");
    const char *trouble = entry ? ranks_trouble(context) : NULL;

    if (trouble)
        propose_remark(
            &to,
            &(struct finding) {
                .rule = "TS207",
                .severity = SEVERITY_ERROR,
                .message = trouble,
                .note = "fewer ranks with more gradient_accumulation_steps make the "
                        "same steps; device: cpu has room for any number" },
            entry);
}

/* ---- TS210: what others hold ---- */

static void rule_device_memory_in_use(struct rule_context *context)
{
    const struct device *device = context->device;
    uint64_t held, own = MEMORY_CUDA_CONTEXT + MEMORY_CUDA_CONTEXT_SPREAD;
    char taken[16], all[16];

    if (!rule_on_gpu(context) || !device->here || device->available > device->memory)
        return;
    held = device->memory - device->available;
    if (held <= own || held - own <= device->memory / 10)
        return;
    memory_text(held - own, taken);
    memory_text(device->memory, all);
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS210",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(context->arena,
                                    "other programs hold about %s of the device's %s",
                                    taken, all),
            .note = "nvidia-smi shows which; the job is planned for what is free" },
        NULL);
}

static const struct rule rows[] = {
    { .id = "TS201",
      .title = "a GPU that this build has no code for",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_no_gpu_code,
      .explain =
          "A program has code for the compute capabilities it was built for, and runs "
          "on no other. CUDA 13 makes none for P100, V100 and GTX 10xx any more, CUDA "
          "12 does: configure with `--with-cuda=DIR` of such a toolkit and "
          "`--with-cuda-archs` of the card. A job that asks for the card by device: "
          "cuda is refused; one that leaves the choice (auto) runs on the CPU, with a "
          "warning. `trainspool devices` shows what the build can use. Only a card "
          "found in this machine counts, not one named by --device.",
      .source = "CUDA 13.0 release notes; kaggle-cli#1151" },
    { .id = "TS206",
      .title = "device_map",
      .severity = SEVERITY_INFO,
      .run = rule_device_map,
      .explain =
          "device_map spreads a model over GPUs for inference. It has no effect on a "
          "native run. In a script it cannot go with distributed training, where each "
          "process holds the model on a GPU of its own (Accelerate raises), nor with "
          "training on quantised weights (LLaMA-Factory raises): an error for target: "
          "external.\n\n"
          "It is neither cause nor cure of `Attempting to unscale FP16 gradients`, "
          "which comes from float16 weights that are trained (TS105).",
      .source =
          "accelerate, Accelerator.prepare_model; LLaMA-Factory, hparams/parser.py" },
    { .id = "TS207",
      .title = "more ranks than GPUs",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_too_many_ranks,
      .target = RULE_NATIVE,
      .explain =
          "Each rank trains on a GPU of its own, and GPUs that train together are of "
          "one compute capability. Two processes on one GPU would take turns and need "
          "twice the memory. To keep the batch of a step with fewer ranks, multiply "
          "gradient_accumulation_steps by what ranks is divided by.",
      .source = "trainspool-job(5)" },
    { .id = "TS208",
      .title = "the device is not known",
      .severity = SEVERITY_WARNING,
      .run = rule_unknown_device,
      .explain =
          "What a card can do decides most of the rules TS1xx and TS2xx. A native job "
          "runs here, so the device is this machine's, and known. It is not known where "
          "the job asks for a GPU that is not in this machine (device: cuda), and for "
          "target: external on a machine without a GPU: a launcher says nothing of "
          "where the script will run. The rules of the device are then left out, with "
          "this one remark in their place.\n\n"
          "Name the card: `--device \"RTX 3090\"` for one look, or, for target: "
          "external, trainspool: {device: \"RTX 3090\"} in the job. `trainspool devices "
          "--known` lists the names; sm_86:24GiB stands for any.",
      .source = "axolotl#1924: checks that tested the launcher's GPU" },
    { .id = "TS209",
      .title = "GPUs that are not alike",
      .severity = SEVERITY_WARNING,
      .run = rule_unequal_gpus,
      .explain =
          "Processes that train one model do the same on every GPU, so the weakest one "
          "bounds them all: its compute capability decides the formats, its free memory "
          "the batch, its speed the pace.\n\n"
          "A native run takes GPUs of one compute capability, by themselves those with "
          "the most memory free; they may differ in size. For target: external all GPUs "
          "of this machine count, as torchrun would use them. device: cuda:0,1 picks "
          "equal ones.",
      .source = "precision/probe.h; trainspool-job(5)" },
    { .id = "TS210",
      .title = "other programs hold memory of the device",
      .severity = SEVERITY_WARNING,
      .run = rule_device_memory_in_use,
      .explain =
          "More than a tenth of the device's memory is not free: another job, a "
          "notebook that was left open, a desktop. What a job may use is counted from "
          "what is free (95 % of it, or memory_limit), not from what the card was sold "
          "with, so the job is planned for the smaller number, and may not fit though "
          "the card is large enough.\n\n"
          "nvidia-smi shows who holds it. A notebook gives memory back when its kernel "
          "is shut down, not when its cell has ended. Nothing of the job is changed for "
          "it.",
      .source = "cudaMemGetInfo, as trainspool-train --probe tells it; the probe's own "
                "context is taken off" },
};

const struct rules rules_device = { rows, TS_COUNT(rows) };
