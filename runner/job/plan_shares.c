/* runner/job/plan_shares.c - the lines of `plan` about ranks. */
#include "config.h"

#include "runner/job/plan_shares.h"

#include <inttypes.h>

static int64_t stage_of(const struct plan *plan)
{
    return plan->zero_stage > 1 ? plan->zero_stage : 1;
}

/* Each link transfers each gradient once: per step, or from stage 2 on per micro-batch. */
static void add_gradients(const struct plan *plan, uint64_t trainable, struct text *out)
{
    const struct format_info *format = format_info(plan_sent_gradients(plan));
    uint64_t times = stage_of(plan) > 1 ? (uint64_t)plan->gradient_accumulation_steps : 1;
    char bytes[16];

    memory_text(trainable * format->bytes * times, bytes);
    text_addf(out, "              links: %s of gradients per step, in %s%s\n", bytes,
              format->name,
              format->bytes > 2 ? "; reduce_dtype: bf16 sends half of that" : "");
}

void plan_shares_text(const struct plan *plan, uint64_t trainable, struct text *out)
{
    size_t ranks = plan_ranks(plan);

    if (plan->external || ranks == 1)
        return;
    text_addf(out,
              "              zero_stage %" PRId64 ": each of %zu ranks has 1/%zu of %s\n",
              stage_of(plan), ranks, ranks, plan_divides(plan));
    if (plan_trains(plan))
        add_gradients(plan, trainable, out);
}
