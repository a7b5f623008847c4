/* train/model/model_reward.c - head and loss of a reward model. */
#include "config.h"

#include "train/model/model.h"

#include "train/chat/template.h"
#include "train/model/model_internal.h"
#include "train/model/model_linear.h"
#include "train/model/model_loss.h"

/* As transformers finds the last token that is no padding; an answer of nothing else has
 * its score in the last row. */
static int32_t scored_row(const struct model *m, const struct batch *batch, size_t run)
{
    int32_t first = batch->offsets[run], last = batch->offsets[run + 1] - 1, n = last;

    while (n >= first && batch->tokens[n] == m->config->score_end)
        n--;
    return n < first ? last : n;
}

const int32_t *model_score_targets(struct model *m, const struct batch *batch)
{
    for (size_t n = 0; n < batch->rows; n++)
        m->score_targets[n] = LABEL_NONE;
    for (size_t run = 0; run < batch->sequences; run++)
        if (batch->offsets[run + 1] > batch->offsets[run])
            m->score_targets[scored_row(m, batch, run)] = 0;
    return m->score_targets;
}

/* A row (1, N) as a column. */
static struct tensor column(struct tensor row, size_t rows)
{
    return tensor_of(row.data, row.format, rows, 1);
}

static struct op_preference loss_of(const struct pass *pass, struct tensor scores)
{
    const struct preference *p = &pass->model->plan->preference;
    struct tensor pairs = pass_buffer(pass, BUFFER_PAIRS, 0);

    return (struct op_preference) {
        .pairs = tensor_of(pairs.data, pairs.format, pass->pairs, PREFERENCE_VALUES),
        .losses = scores,
        .weights = pass_buffer(pass, BUFFER_WEIGHTS, 0).data,
        .targets = pass_buffer(pass, BUFFER_TARGETS, 0).data,
        .offsets = pass_buffer(pass, BUFFER_OFFSETS, 0).data,
        .kind = PREFERENCE_REWARD,
        .center = (float)p->center,
        .scale = pass->training ? &pass->scalars->grad_scale : NULL,
    };
}

/* The head computes the score of each row, of which the loss reads one in a sequence. */
void model_reward_loss(const struct pass *pass)
{
    const struct model *m = pass->model;
    struct tensor x = pass_buffer(pass, BUFFER_H_LAST, 0);
    struct tensor dh = pass_buffer(pass, BUFFER_DH, 0);
    struct tensor scores = pass_losses(pass, BUFFER_LOSSES), dscores;
    const struct op_preference loss = loss_of(pass, scores);

    linear_forward(pass, &m->score, x, column(scores, pass->rows), 1, 0);
    pass->ops->preference(pass->be, &loss);
    if (!pass->training)
        return;
    dscores = column(pass_buffer(pass, BUFFER_DSCORES, 0), pass->rows);
    pass->ops->convert(
        pass->be, &(struct op_convert) {
                      .out = dscores,
                      .x = column(pass_buffer(pass, BUFFER_WEIGHTS, 0), pass->rows) });
    linear_weight_gradient(pass, &m->score, x, dscores, 1, false);
    linear_input_gradient(pass, &m->score, dscores,
                          tensor_of(dh.data, dh.format, x.rows, x.cols), 1, 0);
}
