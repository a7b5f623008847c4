/* tests/reference/double_ops.c - the operations' operands in double, passed to the loops
 * of reference.h. */
#include "config.h"

#include "tests/reference/double_operand.h"

#include <math.h>

#include "base/random.h"
#include "kernels/dropout.h"
#include "tests/reference/reference.h"

/* ---- Operations, in the order of kernels/ops.h ---- */

void double_matmul(struct backend *be, const struct op_matmul *op)
{
    struct reference_matmul r = {
        .rows = op->out.rows,
        .cols = op->out.cols,
        .depth = op->trans_a ? op->a.rows : op->a.cols,
        .a = take(be, op->a),
        .b = take(be, op->b),
        .bias = take(be, op->bias),
        .trans_a = op->trans_a,
        .trans_b = op->trans_b,
        .alpha = (double)op->alpha,
        .beta = (double)op->beta,
        .out = take(be, op->out),
    };

    assert(!op->round_a && !op->round_b);
    reference_matmul(&r);
    put(be, op->out, r.out);
    done(be);
}

void double_sum_rows(struct backend *be, const struct op_sum_rows *op)
{
    double *x = take(be, op->x), *out = take(be, op->out);

    for (size_t i = 0; i < numbers_of(op->x); i++)
        out[i % op->x.cols] += x[i];
    put(be, op->out, out);
    done(be);
}

static double scale_of(float scale)
{
    return scale == 0 ? 1 : (double)scale;
}

void double_embedding(struct backend *be, const struct op_embedding *op)
{
    double *table = take(be, op->table), *out = take(be, op->out);
    size_t cols = op->out.cols;

    for (size_t i = 0; i < numbers_of(op->out); i++)
        out[i] =
            scale_of(op->scale) * table[(size_t)op->tokens[i / cols] * cols + i % cols];
    put(be, op->out, out);
    done(be);
}

void double_embedding_backward(struct backend *be, const struct op_embedding_backward *op)
{
    double *dtable = take(be, op->dtable), *dout = take(be, op->dout);
    size_t cols = op->dout.cols;

    for (size_t i = 0; i < numbers_of(op->dout); i++)
        if (!op->padded || op->tokens[i / cols] != op->padding)
            dtable[(size_t)op->tokens[i / cols] * cols + i % cols] +=
                scale_of(op->scale) * dout[i];
    put(be, op->dtable, dtable);
    done(be);
}

void double_rmsnorm(struct backend *be, const struct op_rmsnorm *op)
{
    struct reference_norm r = {
        .rows = op->x.rows,
        .cols = op->x.cols,
        .eps = (double)op->eps,
        .offset = (double)op->offset,
        .x = take(be, op->x),
        .delta = take(be, op->delta),
        .weight = op->out.data ? take(be, op->weight) : room(be, op->x.cols),
        .sum = room(be, numbers_of(op->x)),
        .out = room(be, numbers_of(op->x)),
        .rstd = room(be, op->x.rows),
    };

    reference_norm(&r);
    if (op->delta.data)
        put(be, op->sum, r.sum);
    put(be, op->out, r.out);
    put(be, op->rstd, r.rstd);
    done(be);
}

void double_rmsnorm_backward(struct backend *be, const struct op_rmsnorm_backward *op)
{
    struct reference_norm_backward r = {
        .rows = op->x.rows,
        .cols = op->x.cols,
        .offset = (double)op->offset,
        .x = take(be, op->x),
        .weight = take(be, op->weight),
        .rstd = take(be, op->rstd),
        .dout = take(be, op->dout),
        .dx = take(be, op->dx),
        .dweight = take(be, op->dweight),
    };

    reference_norm_backward(&r);
    put(be, op->dx, r.dx);
    put(be, op->dcopy, r.dx);
    put(be, op->dweight, r.dweight);
    done(be);
}

void double_layernorm(struct backend *be, const struct op_layernorm *op)
{
    struct reference_layernorm r = {
        .rows = op->x.rows,
        .cols = op->x.cols,
        .eps = (double)op->eps,
        .offset = (double)op->offset,
        .x = take(be, op->x),
        .delta = take(be, op->delta),
        .weight = op->out.data ? take(be, op->weight) : room(be, op->x.cols),
        .bias = take(be, op->bias),
        .sum = room(be, numbers_of(op->x)),
        .out = room(be, numbers_of(op->x)),
        .stats = room(be, 2 * op->x.rows),
    };

    reference_layernorm(&r);
    if (op->delta.data)
        put(be, op->sum, r.sum);
    put(be, op->out, r.out);
    put(be, op->stats, r.stats);
    done(be);
}

void double_layernorm_backward(struct backend *be, const struct op_layernorm_backward *op)
{
    struct reference_layernorm_backward r = {
        .rows = op->x.rows,
        .cols = op->x.cols,
        .offset = (double)op->offset,
        .x = take(be, op->x),
        .weight = take(be, op->weight),
        .stats = take(be, op->stats),
        .dout = take(be, op->dout),
        .dx = take(be, op->dx),
        .dweight = op->dweight.data ? take(be, op->dweight) : room(be, op->x.cols),
        .dbias = op->dbias.data ? take(be, op->dbias) : room(be, op->x.cols),
    };

    reference_layernorm_backward(&r);
    put(be, op->dx, r.dx);
    put(be, op->dcopy, r.dx);
    put(be, op->dweight, r.dweight);
    put(be, op->dbias, r.dbias);
    done(be);
}

void double_headnorm(struct backend *be, const struct op_headnorm *op)
{
    struct reference_headnorm r = {
        .rows = op->x.rows,
        .heads = op->heads,
        .size = op->x.cols / op->heads,
        .eps = (double)op->eps,
        .offset = (double)op->offset,
        .x = take(be, op->x),
        .weight = take(be, op->weight),
        .out = room(be, numbers_of(op->x)),
        .rstd = room(be, numbers_of(op->rstd)),
    };

    reference_headnorm(&r);
    put(be, op->out, r.out);
    put(be, op->rstd, r.rstd);
    done(be);
}

void double_headnorm_backward(struct backend *be, const struct op_headnorm_backward *op)
{
    size_t size = op->x.cols / op->heads;
    struct reference_headnorm r = {
        .rows = op->x.rows,
        .heads = op->heads,
        .size = size,
        .offset = (double)op->offset,
        .x = take(be, op->x),
        .weight = take(be, op->weight),
        .dout = take(be, op->dout),
        .rstd = take(be, op->rstd),
        .dx = room(be, numbers_of(op->x)),
        .dweight = op->dweight.data ? take(be, op->dweight) : room(be, size),
    };

    reference_headnorm_backward(&r);
    put(be, op->dx, r.dx);
    put(be, op->dweight, r.dweight);
    done(be);
}

/* Uses the table, which is an operand; reference_rope computes its own. */
void double_rope(struct backend *be, const struct op_rope *op)
{
    double *x = take(be, op->x), *table = take(be, op->table);
    size_t size = op->x.cols / op->heads, rotary = op->rotary ? op->rotary : size;

    for (size_t i = 0; i < op->x.rows * op->heads; i++)
        for (size_t d = 0; d < rotary / 2; d++) {
            const double *row =
                table + (size_t)op->positions[i / op->heads] * op->table.cols;
            double *x1 = &x[i * size + (op->interleaved ? 2 * d : d)];
            double *x2 = x1 + (op->interleaved ? 1 : rotary / 2), left = *x1;
            double c = row[d], s = row[d + rotary / 2] * (op->inverse ? -1 : 1);

            *x1 = left * c - *x2 * s;
            *x2 = *x2 * c + left * s;
        }
    put(be, op->x, x);
    done(be);
}

static struct reference_attention attention_of(struct backend *be,
                                               const struct op_attention *op)
{
    return (struct reference_attention) {
        .rows = op->q.rows,
        .sequences = op->sequences,
        .heads = op->heads,
        .kv_heads = op->kv_heads,
        .head_size = op->head_size,
        .window = op->window,
        .offsets = op->offsets,
        .reach = op->reach,
        .keys = op->k.rows,
        .key_offsets = op->key_offsets,
        .scale = (double)op->scale,
        .softcap = (double)op->softcap,
        .slopes_most = (double)op->slopes.most,
        .slopes_factor = (double)op->slopes.factor,
        .distances = op->distances.values,
        .distances_most = op->distances.most,
        .threshold = dropout_threshold(op->dropout.p),
        .bits = { .seed = op->dropout.seed,
                  .draw = op->dropout.draw ? *op->dropout.draw : 0,
                  .stream = op->dropout.stream },
        .q = take(be, op->q),
        .k = take(be, op->k),
        .v = take(be, op->v),
        .out = take(be, op->out),
        .lse = take(be, op->lse),
    };
}

void double_attention(struct backend *be, const struct op_attention *op)
{
    struct reference_attention r = attention_of(be, op);

    reference_attention(&r);
    put(be, op->out, r.out);
    put(be, op->lse, r.lse);
    done(be);
}

void double_attention_backward(struct backend *be, const struct op_attention_backward *op)
{
    struct reference_attention r = attention_of(be, &op->forward);

    r.dout = take(be, op->dout);
    r.dq = room(be, numbers_of(op->dq));
    r.dk = room(be, numbers_of(op->dk));
    r.dv = room(be, numbers_of(op->dv));
    reference_attention_backward(&r);
    put(be, op->dq, r.dq);
    put(be, op->dk, r.dk);
    put(be, op->dv, r.dv);
    done(be);
}

void double_activation(struct backend *be, const struct op_activation *op)
{
    double *x = take(be, op->x), slope;

    for (size_t i = 0; i < numbers_of(op->x); i++)
        reference_activation(op->kind, x[i], &x[i], &slope);
    put(be, op->out, x);
    done(be);
}

void double_activation_backward(struct backend *be,
                                const struct op_activation_backward *op)
{
    double *x = take(be, op->x), *dout = take(be, op->dout), value, slope;

    for (size_t i = 0; i < numbers_of(op->x); i++) {
        reference_activation(op->kind, x[i], &value, &slope);
        dout[i] *= slope;
        x[i] = value;
    }
    put(be, op->dx, dout);
    put(be, op->out, x);
    done(be);
}

void double_swiglu(struct backend *be, const struct op_swiglu *op)
{
    struct reference_swiglu r = {
        .numbers = numbers_of(op->gate),
        .kind = op->kind,
        .gate = take(be, op->gate),
        .up = take(be, op->up),
        .out = room(be, numbers_of(op->gate)),
    };

    reference_swiglu(&r);
    put(be, op->out, r.out);
    done(be);
}

void double_swiglu_backward(struct backend *be, const struct op_swiglu_backward *op)
{
    struct reference_swiglu r = {
        .numbers = numbers_of(op->gate),
        .kind = op->kind,
        .gate = take(be, op->gate),
        .up = take(be, op->up),
        .dout = take(be, op->dout),
        .out = room(be, numbers_of(op->gate)),
        .dgate = room(be, numbers_of(op->gate)),
        .dup = room(be, numbers_of(op->gate)),
    };

    reference_swiglu(&r);
    put(be, op->dgate, r.dgate);
    put(be, op->dup, r.dup);
    put(be, op->out, r.out);
    done(be);
}

/* A row of values that is not a tensor. */
static struct tensor row_of(const float *data, size_t count)
{
    return (struct tensor) { .data = (void *)(uintptr_t)data,
                             .format = FORMAT_FP32,
                             .rows = 1,
                             .cols = count,
                             .stride = count };
}

static struct reference_classifier classifier_of(struct backend *be,
                                                 const struct op_classifier *op)
{
    return (struct reference_classifier) {
        .rows = op->x.rows,
        .cols = op->x.cols,
        .words = op->w.rows,
        .x = take(be, op->x),
        .w = take(be, op->w),
        .bias = take(be, op->bias),
        .targets = op->targets,
        .weights = take(be, row_of(op->weights, op->x.rows)),
        .grad_scale = (double)op->grad_scale * (op->scale ? (double)*op->scale : 1),
        .smoothing = (double)op->smoothing,
        .softcap = (double)op->softcap,
        .kind = op->kind,
        .alpha = (double)op->alpha,
        .losses = room(be, op->x.rows),
        .dx = op->dx.data ? room(be, numbers_of(op->x)) : NULL,
        .dw = op->dw.data   ? take(be, op->dw)
              : op->dx.data ? room(be, numbers_of(op->w))
                            : NULL,
        .dbias = take(be, op->dbias),
    };
}

static void put_classifier(struct backend *be, const struct op_classifier *op,
                           const struct reference_classifier *r)
{
    put(be, op->losses, r->losses);
    put(be, op->dx, r->dx);
    put(be, op->dw, r->dw);
    put(be, op->dbias, r->dbias);
}

void double_classifier(struct backend *be, const struct op_classifier *op)
{
    struct reference_classifier r = classifier_of(be, op);

    reference_classifier(&r);
    put_classifier(be, op, &r);
    for (size_t n = 0; n < r.rows; n++)
        double_of(be)->loss += r.losses[n];
    done(be);
}

void double_distill(struct backend *be, const struct op_distill *op)
{
    struct reference_distill r = {
        .student = classifier_of(be, &op->student),
        .shared = op->values.data ? op->words : op->w.rows,
        .cols = op->x.cols,
        .kept = op->values.cols,
        .x = take(be, op->x),
        .w = take(be, op->w),
        .bias = take(be, op->bias),
        .values = take(be, op->values),
        .ids = op->ids,
        .ratio = (double)op->ratio,
        .temperature = (double)op->temperature,
        .beta = (double)op->beta,
        .softcap = (double)op->softcap,
        .kd_losses = room(be, op->student.x.rows),
    };

    reference_distill(&r);
    put_classifier(be, &op->student, &r.student);
    put(be, op->kd_losses, r.kd_losses);
    for (size_t n = 0; n < r.student.rows; n++)
        double_of(be)->loss +=
            (1 - r.ratio) * r.student.losses[n] + r.ratio * r.kd_losses[n];
    done(be);
}

void double_preference(struct backend *be, const struct op_preference *op)
{
    struct reference_preference r = {
        .pairs = op->pairs.rows,
        .rows = op->losses.cols,
        .losses = take(be, op->losses),
        .reference = take(be, op->reference),
        .targets = op->targets,
        .offsets = op->offsets,
        .kind = op->kind,
        .beta = (double)op->beta,
        .ftx = (double)op->ftx,
        .smoothing = (double)op->smoothing,
        .margin = (double)op->margin,
        .center = (double)op->center,
        .scale = op->scale ? (double)*op->scale : 0,
        .chosen_weight = (double)op->chosen_weight,
        .rejected_weight = (double)op->rejected_weight,
        .out = room(be, numbers_of(op->pairs)),
        .weights = room(be, op->losses.cols),
    };

    reference_preference(&r);
    put(be, op->pairs, r.out);
    put(be, row_of(op->weights, r.rows), r.weights);
    for (size_t p = 0; p < r.pairs; p++)
        double_of(be)->preference += r.out[p * PREFERENCE_VALUES + PREFERENCE_LOSS];
    done(be);
}

void double_add(struct backend *be, const struct op_add *op)
{
    double *a = take(be, op->a), *b = take(be, op->b);

    for (size_t i = 0; i < numbers_of(op->out); i++)
        a[i] += b[i];
    put(be, op->out, a);
    done(be);
}

void double_scale(struct backend *be, const struct op_scale *op)
{
    double *x = take(be, op->x), *by = op->by.data ? take(be, op->by) : NULL;

    for (size_t i = 0; i < numbers_of(op->out); i++)
        x[i] *= (double)op->factor * (by ? *by : 1);
    put(be, op->out, x);
    done(be);
}

void double_convert(struct backend *be, const struct op_convert *op)
{
    put(be, op->out, take(be, op->x));
    done(be);
}

void double_noise(struct backend *be, const struct op_noise *op)
{
    double *x = take(be, op->x);
    uint64_t first = *op->draw * *op->rows * op->x.cols;

    for (size_t i = 0; i < numbers_of(op->x); i++)
        x[i] += (double)op->factor * (double)*op->magnitude *
                (2 * random_uniform(op->seed, RANDOM_NOISE, 0, first + i) - 1);
    put(be, op->x, x);
    done(be);
}

void double_jitter(struct backend *be, const struct op_jitter *op)
{
    double *x = take(be, op->x);
    uint64_t first = 2 * *op->draw * *op->rows * op->x.cols;

    for (size_t i = 0; i < 2 * numbers_of(op->x); i += op->twice ? 1 : 2)
        x[i / 2] *=
            1 +
            (double)op->size *
                (2 * random_uniform(op->seed, RANDOM_NOISE, op->stream, first + i) - 1);
    put(be, op->x, x);
    done(be);
}

void double_dora_norm(struct backend *be, const struct op_dora_norm *op)
{
    double *w = take(be, op->w), *a = take(be, op->a), *b = take(be, op->b);
    double *norm = room(be, op->w.rows);
    size_t cols = op->w.cols, rank = op->a.rows;

    for (size_t o = 0; o < op->w.rows; o++) {
        for (size_t i = 0; i < cols; i++) {
            double value = w[o * cols + i];

            for (size_t k = 0; k < rank; k++)
                value += (double)op->scale * b[o * rank + k] * a[k * cols + i];
            norm[o] += value * value;
        }
        norm[o] = sqrt(norm[o]);
    }
    put(be, op->norm, norm);
    done(be);
}

void double_dora_scale(struct backend *be, const struct op_dora_scale *op)
{
    double *x = take(be, op->x), *magnitude = take(be, op->magnitude);
    double *norm = take(be, op->norm), *bias = take(be, op->bias);
    double *out = take(be, op->out);
    size_t cols = op->x.cols;

    for (size_t i = 0; i < numbers_of(op->x); i++) {
        double factor = magnitude ? magnitude[i % cols] / norm[i % cols] : 1;

        out[i] = (op->beta != 0 ? out[i] : 0) + x[i] * (factor + (double)op->offset) +
                 (bias ? bias[i % cols] : 0);
    }
    put(be, op->out, out);
    done(be);
}

void double_dora_scale_backward(struct backend *be,
                                const struct op_dora_scale_backward *op)
{
    double *dout = take(be, op->dout), *x = take(be, op->x), *norm = take(be, op->norm);
    double *magnitude = take(be, op->magnitude), *sums = take(be, op->dmagnitude);
    size_t cols = op->dout.cols;

    for (size_t i = 0; i < numbers_of(op->dout); i++) {
        double factor = magnitude ? magnitude[i % cols] / norm[i % cols] : 1;

        if (sums)
            sums[i % cols] += dout[i] * x[i] / norm[i % cols];
        dout[i] *= factor + (double)op->offset;
    }
    put(be, op->dx, dout);
    put(be, op->dmagnitude, sums);
    done(be);
}

void double_zero(struct backend *be, const struct op_zero *op)
{
    put(be, op->out, room(be, numbers_of(op->out)));
    done(be);
}

void double_dropout(struct backend *be, const struct op_dropout *op)
{
    double *x = take(be, op->x);
    uint64_t step = op->step + (op->draw ? *op->draw : 0);
    uint64_t size = (op->rows ? *op->rows : op->x.rows) * op->x.cols;

    for (size_t i = 0; i < numbers_of(op->x); i++) {
        bool kept = random_uniform(op->seed, RANDOM_DROPOUT, op->stream,
                                   step * size + i) >= (double)op->p;

        x[i] = kept ? x[i] / (1 - (double)op->p) : 0;
    }
    put(be, op->out, x);
    done(be);
}
