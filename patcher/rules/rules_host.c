/* patcher/rules/rules_host.c - the host's memory that a job on a GPU takes. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include "base/size.h"
#include "patcher/rules/memory_advice.h"
#include "patcher/rules/memory_case.h"
#include "train/estimate.h"

/* Return the bytes of the optimizer of all ranks that are in the memory of one host. */
static uint64_t offloaded(const struct memory_fit_case *request)
{
    struct memory_use use;

    return memory_fit_estimate(request, &(struct memory_fit) { 0 }, &use, NULL)
               ? use.host * plan_local_ranks(request->plan)
               : 0;
}

static void rule_host_memory(struct rule_context *context)
{
    const struct device *host = context->options->host;
    struct memory_fit_case request;
    uint64_t needed, optimizer;

    if (!host || host->available == 0 || !memory_case_read(context, &request))
        return;
    optimizer = offloaded(&request);
    needed = estimate_loading(request.plan, context->model) + optimizer;
    if (needed <= host->available)
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS314",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(
                context->arena, "%s about %s of the host's memory, but %s are free",
                optimizer > 0 ? "loading the model and the moments of the optimizer need"
                              : "loading the model needs",
                memory_advice_bytes(context, needed),
                memory_advice_bytes(context, host->available)),
            .note = optimizer > 0
                        ? "the moments are there because of offload_optimizer or a paged "
                          "optimizer: turn that off, or close other programs"
                    : request.plan->external && request.plan->ranks > 1
                        ? "each process loads the whole model: use fewer ranks, or a "
                          "smaller model_dtype"
                        : "close other programs, or use a machine with more memory" },
        "model_name_or_path");
}

static const struct rule rows[] = {
    { .id = "TS314",
      .title = "not enough host memory",
      .severity = SEVERITY_WARNING,
      .run = rule_host_memory,
      .explain =
          "PyTorch loads a model into the host's memory before it moves it to the "
          "device, in the format of its files or, with model_dtype: float32, in float32; "
          "and each process of a run does so separately. The kernel kills a process that "
          "exceeds the memory, often without a log message (`Killed`, status 137).\n\n"
          "A native run maps the files and reads them tensor by tensor, so that it needs "
          "room for one tensor and its conversion only, regardless of the size of the "
          "model; with `offload_optimizer: true`, or a paged optimizer that does not fit on "
          "the GPU, also for the moments of every rank. The estimate is compared with the free memory of this machine; if the "
          "job is checked for a card of another machine, the host is unknown.",
      .source = "train/model/model_load.c; train/torch_memory.h" },
};

const struct rules rules_host = { rows, TS_COUNT(rows) };
