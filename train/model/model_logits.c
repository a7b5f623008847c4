/* train/model/model_logits.c - the logits of rows, on the host. */
#include "config.h"

#include "train/model/model.h"

#include <math.h>

#include "train/model/model_internal.h"

void pass_logits(const struct pass *pass, struct tensor h, float *out)
{
    const struct tensor all = pass_buffer(pass, BUFFER_LOGITS, 0);
    struct tensor head = pass_weight(pass, pass->model->head_weight);
    struct tensor bias = pass_head_bias(pass);

    for (size_t row = 0; row < h.rows; row += all.rows) {
        size_t rows = h.rows - row < all.rows ? h.rows - row : all.rows;
        struct tensor logits = /* without gaps, because they are downloaded */
            tensor_of(all.data, all.format, rows, pass->model->config->vocab_size);

        pass->ops->matmul(pass->be, &(struct op_matmul) { .out = logits,
                                                          .a = tensor_rows(h, row, rows),
                                                          .b = head,
                                                          .bias = bias,
                                                          .trans_b = true,
                                                          .alpha = 1 });
        pass->ops->download(pass->be, out + row * logits.cols, logits.data,
                            tensor_bytes(logits));
    }
}

bool pass_finish_logits(const struct pass *pass, float *logits, size_t rows,
                        struct error *err)
{
    const struct model_config *c = pass->model->config;

    if (!pass->ops->sync(pass->be, err))
        return false;
    for (size_t i = 0; c->logit_softcap > 0 && i < rows * c->vocab_size; i++)
        logits[i] = (float)(c->logit_softcap * tanh(logits[i] / c->logit_softcap));
    return true;
}

bool model_logits(struct model *model, const struct batch *batch, float *out,
                  struct error *err)
{
    struct pass pass;
    struct tensor h;

    if (!pass_open(model, batch, &pass, err))
        return false;
    model_forward(&pass);
    h = pass_buffer(&pass, BUFFER_H_LAST, 0);
    for (size_t i = 0; i < batch->sequences; i++)
        pass_logits(&pass, tensor_rows(h, (size_t)batch->offsets[i + 1] - 1, 1),
                    out + i * model->config->vocab_size);
    return pass_finish_logits(&pass, out, batch->sequences, err);
}
