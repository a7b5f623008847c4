/* patcher/rules/memory_advice.c - writes the advice of TS301. */
#include "config.h"

#include "patcher/rules/memory_advice.h"

#include <inttypes.h>
#include <string.h>

#include "patcher/rules/rules_context.h"
#include "patcher/rules/trainer_settings.h"
#include "precision/memory.h"
#include "train/torch_memory.h"

const char *memory_advice_bytes(const struct rule_context *context, uint64_t bytes)
{
    char text[16];

    memory_text(bytes, text);
    return arena_strdup(context->arena, text);
}

static const char *join_or(const struct rule_context *context, const char *list,
                           const char *next)
{
    return *list ? arena_printf(context->arena, "%s, or %s", list, next) : next;
}

static const char *unchanged_fit(const struct rule_context *context,
                                 const struct last_resort *last)
{
    const struct device_row *card = last->card;
    const char *list = "";

    if (last->limit)
        list = arena_printf(context->arena, "memory_limit: %" PRIu64 "MiB",
                            (last->limit >> 20) + 1);
    if (card)
        list = join_or(context, list,
                       arena_printf(context->arena, "a card like %s (%u GiB)", card->name,
                                    card->gib));
    return list;
}

static const char *reduced_fit(const struct rule_context *context,
                               const struct last_resort *last)
{
    const char *list = "";

    if (last->cutoff_len)
        list =
            arena_printf(context->arena, "%s: %" PRId64,
                         trainer_settings_name(context, "cutoff_len"), last->cutoff_len);
    if (last->lora)
        list = join_or(context, list,
                       trainer_settings_name(context, "finetuning_type: lora"));
    if (last->rank)
        list = join_or(context, list,
                       arena_printf(context->arena, "%s: %" PRId64,
                                    trainer_settings_name(context, "lora_rank"),
                                    last->rank));
    if (last->bits)
        list = join_or(context, list,
                       trainer_settings_name(context, last->bits == 4
                                                          ? "quantization_bit: 4"
                                                          : "quantization_bit: 8"));
    return list;
}

static const char *setup_text(const struct rule_context *context)
{
    return context->plan->gradient_checkpointing ? "with a batch of 1"
                                                 : "with checkpointing and a batch of 1";
}

/* Name the first change that fits, its memory and its cost. */
static const char *advice_text(const struct rule_context *context,
                               const struct alternative_advice *advice)
{
    if (!advice)
        return "";
    return arena_printf(context->arena, "it fits with %s%s%s (%s)%s: %s; ",
                        alternative_setting(advice->row, context->plan),
                        advice->with_edits ? " " : "",
                        advice->with_edits ? setup_text(context) : "",
                        memory_advice_bytes(context, advice->use.total),
                        advice->row->unsafe_edit && plan_adapts(context->plan)
                            ? ", which keeps the base in 16 bits"
                            : "",
                        advice->row->cost);
}

static const char *fit_text(const struct rule_context *context,
                            const struct last_resort *last, bool has_advice)
{
    const char *same = unchanged_fit(context, last), *small = reduced_fit(context, last);
    const char *setup = setup_text(context);

    if (*same && *small)
        return arena_printf(
            context->arena,
            "the unchanged job would fit with %s; %s, it would fit with %s", same, setup,
            small);
    if (*same)
        return arena_printf(context->arena, "the unchanged job would fit with %s", same);
    if (*small)
        return arena_printf(context->arena, "%s, the job would fit with %s", setup,
                            small);
    if (has_advice)
        return "no other known change would make it fit";
    return "no known change would make it fit: use a smaller model, or another device";
}

/* Describe the part that neither batch nor length reduces. */
static const char *fixed_part_text(const struct rule_context *context,
                                   const struct memory_use *use)
{
    uint64_t fixed = use->weights + use->gradients + use->optimizer;

    if (use->limit > fixed)
        return "";
    return arena_printf(context->arena,
                        "weights, gradients and optimizer alone need %s; ",
                        memory_advice_bytes(context, fixed));
}

/* Teacher logits from a file: the teacher and the student are not in memory together. */
static const char *teacher_logits_note(const struct rule_context *context,
                                       const struct memory_fit_case *request)
{
    struct plan plan = *request->plan;
    struct memory_fit_case with_logits = *request;
    struct memory_use use;

    if (plan.external || plan.stage != STAGE_DISTILL || plan.kd.logits || !plan.kd.config)
        return "";
    plan.kd.logits = "teacher-logits.safetensors";
    plan.kd.topk = plan.kd.topk > 0 ? plan.kd.topk : 64;
    with_logits.plan = &plan;
    if (!memory_fit_estimate(&with_logits, &(struct memory_fit) { 0 }, &use, NULL) ||
        use.total > use.limit)
        return "";
    return arena_printf(context->arena,
                        "; with a file of the teacher's logits the unchanged job would "
                        "fit (trainspool: {teacher_logits: %s}%s)",
                        plan.kd.logits,
                        request->plan->kd.topk > 0 ? "" : ", and a kd_topk");
}

/* Say whether edits would suffice if the job did not keep the keys. */
static const char *kept_note(const struct memory_fit_case *request)
{
    struct memory_fit_case unkept = *request;
    struct memory_fit ignored;

    memset(&unkept.kept, 0, sizeof(unkept.kept));
    return memory_fit_find(&unkept, &ignored)
               ? "an edit would suffice, but the job keeps the key; "
               : "";
}

const char *memory_advice(const struct rule_context *context,
                          const struct memory_fit_case *request,
                          const struct memory_use *use,
                          const struct alternative_advice *advice)
{
    struct last_resort last;

    memory_fit_last_resort(request, &last);
    return arena_printf(context->arena, "%s%s%s%s%s", kept_note(request),
                        fixed_part_text(context, use), advice_text(context, advice),
                        fit_text(context, &last, advice != NULL),
                        teacher_logits_note(context, request));
}

/* ---- Estimates that may be too high ---- */

/* The most ranks that advice names: eight machines of eight cards. */
enum { ADVISED_RANKS_MAX = 64 };

/* Return the smallest power of two that fits as `ranks`; 0: none up to ADVISED_RANKS_MAX. */
static int64_t fitting_ranks(const struct memory_fit_case *request)
{
    struct memory_fit_case sharded = *request;
    struct plan plan = *request->plan;
    struct memory_use use;

    sharded.plan = &plan;
    for (plan.ranks = 2; plan.ranks <= ADVISED_RANKS_MAX; plan.ranks *= 2)
        if (memory_fit_estimate(&sharded, &(struct memory_fit) { 0 }, &use, NULL) &&
            use.fits)
            return plan.ranks;
    return 0;
}

static const char *ranks_note(const struct rule_context *context, int64_t ranks)
{
    return arena_printf(
        context->arena,
        "the estimate assumes one rank, but this job shards its state across "
        "ranks: set `ranks` in the trainspool block; the job fits with "
        "ranks: %" PRId64 " or more",
        ranks);
}

const char *memory_advice_doubt(const struct rule_context *context,
                                const struct memory_fit_case *request)
{
    const char *doubt =
        rule_lacks_defaults(context)
            ? "the estimate lacks TRL's defaults, which depend on its version"
        : context->plan->external ? torch_memory_doubt(request->plan)
                                  : NULL;
    int64_t ranks;

    if (!doubt)
        return NULL;
    if (!torch_memory_lacks_ranks(request->plan))
        return arena_printf(context->arena,
                            "the job may need less memory, so this is a warning: %s",
                            doubt);
    ranks = fitting_ranks(request);
    return ranks ? ranks_note(context, ranks) : NULL;
}
