/* kernels/cpu/cpu_policy.c - the loss of each sampled answer, and its gradient by the loss
 * of each token. */
#include "config.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/policy_math.h"

static struct policy_sequence sequence_of(const struct op_policy *op, size_t at)
{
    struct policy_sequence s = {
        .advantage = (double)((const float *)op->advantages.data)[at],
        .factor = (double)((const float *)op->factors.data)[at],
    };
    double rows = 0;

    if (!op->by_sequence)
        return s;
    for (int32_t n = op->offsets[at]; n < op->offsets[at + 1]; n++) {
        if (op->targets[n] < 0)
            continue;
        s.mean += policy_log_ratio(op, (size_t)n);
        s.kl += policy_kl(policy_closer(op, (size_t)n));
        rows++;
    }
    s.mean /= fmax(rows, 1.0);
    s.kl /= fmax(rows, 1.0);
    return s;
}

/* Process a sequence; the last task handles the rows after all of them. */
static void sequence_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_policy *op = context;
    size_t sequences = op->values.rows;
    float *values = (float *)op->values.data + task * op->values.stride;
    struct policy_sequence s;
    double sums[POLICY_VALUES] = { 0 };

    (void)worker;
    if (task == sequences) {
        for (size_t n = (size_t)op->offsets[sequences]; n < op->losses.cols; n++)
            op->weights[n] = 0;
        return;
    }
    s = sequence_of(op, task);
    for (int32_t n = op->offsets[task]; n < op->offsets[task + 1]; n++) {
        struct policy_token token;

        op->weights[n] = 0;
        if (op->targets[n] < 0)
            continue;
        token = policy_token_of(op, (size_t)n, &s);
        op->weights[n] = (float)token.weight;
        sums[POLICY_LOSS] += token.loss;
        sums[POLICY_KL] += token.kl;
        sums[POLICY_CLIPPED] += token.clipped;
        sums[POLICY_ROWS]++;
    }
    sums[POLICY_LOSS] *= s.factor;
    for (size_t i = 0; i < POLICY_VALUES; i++)
        values[i] = (float)sums[i];
}

void cpu_policy(struct backend *be, const struct op_policy *op)
{
    cpu_backend_run(be, op->values.rows + 1, sequence_task, (void *)op);
}
