/* train/run_measure.c - the sizes of the batches of a run. */
#include "config.h"

#include "train/run.h"

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The loss is a mean over tokens and does not depend on the batch size, so an evaluation
 * that would require more memory than training uses smaller batches.  Not in stage kto,
 * whose losses compare with the mean of a batch. */
static size_t eval_size(const struct plan *plan, const struct dataset *eval, size_t rows)
{
    size_t size = (size_t)plan->per_device_eval_batch_size;

    while (size > 1 && plan->stage != STAGE_KTO && dataset_rows_max(eval, size) > rows)
        size /= 2;
    return size;
}

/* Of stage grpo, whose evaluations compute no loss. */
static struct run_sizes measure_answers(const struct plan *plan,
                                        const struct model_config *config,
                                        const struct dataset *train,
                                        const struct dataset *eval)
{
    size_t size = (size_t)plan->per_device_train_batch_size;
    size_t answer = (size_t)plan->grpo.max_completion_length;
    size_t longest = dataset_question_max(train, SIZE_MAX, NULL);
    size_t positions = model_config_positions(config), rows;

    if (eval)
        longest =
            largest(longest, dataset_question_max(eval, (size_t)plan->cutoff_len, NULL));
    rows = longest + answer;
    if (positions > 0 && rows > positions)
        rows = largest(positions, longest); /* answers end there */
    return (struct run_sizes) { .rows = size * rows, .sequences = size };
}

struct run_sizes run_measure(const struct plan *plan, const struct model_config *config,
                             const struct dataset *train, const struct dataset *eval)
{
    size_t size = (size_t)plan->per_device_train_batch_size;
    struct run_sizes sizes = { 0 };

    if (train && plan->stage == STAGE_GRPO)
        return measure_answers(plan, config, train, eval);
    if (train)
        sizes = (struct run_sizes) { .rows = dataset_rows_max(train, size),
                                     .sequences = dataset_sequences_max(train, size),
                                     .media_rows = dataset_media_rows_max(train, size) };
    if (!eval)
        return sizes;
    size = sizes.eval_size = train ? eval_size(plan, eval, sizes.rows)
                                   : (size_t)plan->per_device_eval_batch_size;
    sizes.sequences = largest(sizes.sequences, dataset_sequences_max(eval, size));
    sizes.rows = largest(sizes.rows, dataset_rows_max(eval, size));
    sizes.media_rows = largest(sizes.media_rows, dataset_media_rows_max(eval, size));
    return sizes;
}
