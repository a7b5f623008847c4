/* train/model/model_conv.c - short convolutions between two gates, forward and backward;
 * model_internal.h has the formulas. */
#include "config.h"

#include "train/model/model_mixers.h"

/* The columns of a buffer of the first stack, or of its gradients. */
struct conv_inputs {
    struct tensor before, after, x;
};

static struct conv_inputs inputs_of(const struct pass *pass, struct tensor whole)
{
    size_t cols = pass->model->config->hidden_size;

    return (struct conv_inputs) { .before = tensor_columns(whole, 0, cols),
                                  .after = tensor_columns(whole, cols, cols),
                                  .x = tensor_columns(whole, 2 * cols, cols) };
}

static struct tensor part_of(const struct parameter *p, bool gradient)
{
    if (!p)
        return (struct tensor) { 0 };
    return gradient ? p->grad : p->weight;
}

void model_run_conv(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;
    const struct block *b = &pass->model->blocks[layer];
    const struct conv_inputs in = inputs_of(pass, pass_buffer(pass, BUFFER_QKV, layer));
    struct tensor out = pass_buffer(pass, BUFFER_ATT, layer);

    pass->ops->conv(pass->be, &(struct op_conv) {
                                  .out = tensor_columns(out, 0, c->hidden_size),
                                  .x = in.x,
                                  .weight = b->conv->weight,
                                  .state = model_cached_rows(pass, BUFFER_CONV_STATE,
                                                             layer, c->delta.taps - 1),
                                  .before = in.before,
                                  .after = in.after,
                                  .bias = part_of(b->conv_bias, false),
                                  .offsets = pass_buffer(pass, BUFFER_OFFSETS, 0).data,
                                  .sequences = pass->sequences,
                                  .resumes = pass->decoding });
}

void model_conv_backward(const struct pass *pass, size_t layer, struct tensor dout)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct conv_inputs in = inputs_of(pass, pass_buffer(pass, BUFFER_QKV, layer));
    const struct conv_inputs d = inputs_of(pass, pass_buffer(pass, BUFFER_DQKV, 0));

    pass->ops->conv_backward(
        pass->be,
        &(struct op_conv_backward) { .dx = d.x,
                                     .dweight = b->conv->grad,
                                     .dout = dout,
                                     .x = in.x,
                                     .weight = b->conv->weight,
                                     .dbefore = d.before,
                                     .dafter = d.after,
                                     .dbias = part_of(b->conv_bias, true),
                                     .before = in.before,
                                     .after = in.after,
                                     .bias = part_of(b->conv_bias, false),
                                     .offsets = pass_buffer(pass, BUFFER_OFFSETS, 0).data,
                                     .sequences = pass->sequences });
}
