/* kernels/cpu/cpu_preference.c - the loss of each preference pair, and its gradient by
 * the loss of each token. */
#include "config.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/preference_math.h"

static struct pair_answer answer_of(const struct op_preference *op, size_t run)
{
    const float *losses = op->losses.data, *reference = op->reference.data;
    struct pair_answer answer = { 0 };

    for (int32_t n = op->offsets[run]; n < op->offsets[run + 1]; n++) {
        if (op->targets[n] < 0)
            continue;
        answer.losses += (double)losses[n];
        answer.reference += reference ? (double)reference[n] : 0;
        answer.rows++;
    }
    return answer;
}

static void set_weights(const struct op_preference *op, size_t run, double weight)
{
    weight *= op->scale ? (double)*op->scale : 1;
    for (int32_t n = op->offsets[run]; n < op->offsets[run + 1]; n++)
        op->weights[n] = op->targets[n] < 0 ? 0 : (float)weight;
}

/* Sum over all pairs in every task: they are few. */
static struct pair feedback_pair(const struct op_preference *op, size_t p)
{
    struct feedback all = { .pairs = (double)op->pairs.rows };

    for (size_t i = 0; i < op->pairs.rows; i++) {
        struct pair_answer other = answer_of(op, 2 * i + 1);

        all.divergence += other.reference - other.losses;
        all.good += feedback_is_good(op, i);
    }
    return feedback_of(op, answer_of(op, 2 * p), feedback_is_good(op, p), &all);
}

/* Process a pair; the last task handles the rows after all of them. */
static void pair_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_preference *op = context;
    size_t pairs = op->pairs.rows;
    struct pair pair;

    (void)worker;
    if (task == pairs) {
        for (size_t n = (size_t)op->offsets[2 * pairs]; n < op->losses.cols; n++)
            op->weights[n] = 0;
        return;
    }
    if (op->kind == PREFERENCE_KTO)
        pair = feedback_pair(op, task);
    else if (op->kind == PREFERENCE_REWARD)
        pair = pair_of_scores(op, answer_of(op, 2 * task), answer_of(op, 2 * task + 1));
    else
        pair = pair_of(op, answer_of(op, 2 * task), answer_of(op, 2 * task + 1));
    for (size_t i = 0; i < PREFERENCE_VALUES; i++)
        ((float *)op->pairs.data)[task * op->pairs.stride + i] = (float)pair.numbers[i];
    set_weights(op, 2 * task, pair.chosen);
    set_weights(op, 2 * task + 1, pair.rejected);
}

void cpu_preference(struct backend *be, const struct op_preference *op)
{
    cpu_backend_run(be, op->pairs.rows + 1, pair_task, (void *)op);
}
