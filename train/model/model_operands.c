/* train/model/model_operands.c - the operands of a pass: its buffers, its weights in the
 * format of the computation, and operations on single tensors. */
#include "config.h"

#include "train/model/model_internal.h"
#include "train/model/model_stored.h"

struct tensor pass_buffer(const struct pass *pass, enum buffer buffer, size_t layer)
{
    const struct shape_buffer *b = &pass->model->shapes.buffers[buffer];
    size_t rows = b->rows_are_n ? pass->rows : b->rows;
    size_t cols = b->cols_are_n ? pass->rows : b->cols;
    size_t instance = b->count <= 1 ? 0 : b->index ? b->index[layer] : layer;
    char *data = pass->model->buffers + b->at + instance * b->step;

    if (b->step == 0)
        return (struct tensor) { 0 };
    return tensor_of(data, b->format, rows, cols);
}

struct tensor pass_weight(const struct pass *pass, struct tensor weight)
{
    const struct shapes *s = &pass->model->shapes;
    struct tensor scratch;

    if (weight.format == s->compute ||
        (s->rounds_in_matmul && weight.format == FORMAT_FP32))
        return weight;
    scratch = pass_buffer(pass, BUFFER_WEIGHT, 0);
    scratch = tensor_of(scratch.data, scratch.format, weight.rows, weight.cols);
    pass->ops->convert(pass->be, &(struct op_convert) { .out = scratch, .x = weight });
    return scratch;
}

void model_dequantize_linear(const struct model *model, const struct linear *linear)
{
    const struct parameter *p = linear->quantized;

    /* between those of experts, there may be trained ones */
    for (size_t i = 0; i < linear->quantized_count; p++) {
        if (!p->quantized.codes)
            continue;
        model_dequantize(model, p);
        i++;
    }
}

struct tensor pass_linear_weight(const struct pass *pass, const struct linear *linear)
{
    model_dequantize_linear(pass->model, linear);
    return pass_weight(pass, linear->weight);
}

static struct rounded_matrix room_of(const struct pass *pass, enum buffer buffer,
                                     size_t layer, size_t at)
{
    char *rooms = pass_buffer(pass, buffer, layer).data;

    return (struct rounded_matrix) { .room = rooms ? rooms + at : NULL };
}

struct rounded_matrix pass_rounded_weight(const struct pass *pass, const struct linear *p,
                                          bool ready)
{
    struct rounded_matrix r = { 0 };

    if (p->fp8 && pass->training)
        r = room_of(pass, BUFFER_ROUNDED_W, p->layer, p->w_room);
    r.ready = r.room && (ready || !pass->fills || (!p->grad.data && !pass->fills_frozen));
    return r;
}

struct rounded_matrix pass_rounded_input(const struct pass *pass, const struct linear *p,
                                         bool ready)
{
    struct rounded_matrix r = { 0 };

    if (p->rounds_x && pass->training)
        r = room_of(pass, BUFFER_ROUNDED_X, p->layer, p->x_room);
    r.turned_only = true;
    r.ready = r.room && ready;
    r.measured = r.room && p->measures_x;
    return r;
}

struct rounded_matrix pass_rounded_gradient(const struct pass *pass,
                                            const struct linear *p, bool ready)
{
    struct rounded_matrix r = { 0 };

    if (p->fp8 && p->grad.data)
        r = room_of(pass, BUFFER_ROUNDED_DY, 0, p->dy_room);
    r.turned_only = true;
    r.ready = r.room && ready;
    r.measured = r.room && p->measures_dy;
    return r;
}

struct tensor pass_bias(const struct pass *pass, struct tensor bias)
{
    struct tensor scratch;

    if (!bias.data || bias.format == FORMAT_FP32)
        return bias;
    scratch = pass_buffer(pass, BUFFER_BIAS, 0);
    scratch = tensor_of(scratch.data, FORMAT_FP32, bias.rows, bias.cols);
    pass->ops->convert(pass->be, &(struct op_convert) { .out = scratch, .x = bias });
    return scratch;
}

struct tensor pass_head_bias(const struct pass *pass)
{
    const struct parameter *bias = pass->model->head_bias;

    return bias ? pass_bias(pass, bias->weight) : (struct tensor) { 0 };
}

void pass_dropout(const struct pass *pass, double p, uint32_t stream, struct tensor x,
                  struct tensor out)
{
    const struct op_dropout op = {
        .out = out,
        .x = x,
        .p = (float)p,
        .seed = (uint64_t)pass->model->plan->seed,
        .draw = &pass->scalars->draw,
        .rows = &pass->scalars->rows,
        .stream = stream,
    };

    pass->ops->dropout(pass->be, &op);
}

void pass_scale(const struct pass *pass, double factor, struct tensor x,
                struct tensor out)
{
    if (factor != 1 || x.data != out.data)
        pass->ops->scale(
            pass->be, &(struct op_scale) { .out = out, .x = x, .factor = (float)factor });
}
