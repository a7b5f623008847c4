/* kernels/cpu/cpu_loss.c - the last matmul, the loss and their gradients, a chunk of rows
 * at a time, so that the logits of all rows never exist at once. */
#include "config.h"

#include "kernels/cpu/cpu_loss.h"

/* logits = e^(logits - max), unless `keep` asks to leave them unchanged; return their
 * sum. */
static double loss_exponentials(float *logits, size_t cols, float max, bool keep)
{
    size_t whole = cols / LANES * LANES;
    double sum = 0;
    vec last;

    for (size_t begin = 0; begin < whole; begin += LOSS_RUN) {
        vec part = {};

        for (size_t i = begin; i < size_min(begin + LOSS_RUN, whole); i += LANES) {
            vec e = vec_exp(vec_get(logits + i) - max);

            if (!keep)
                vec_put(logits + i, e);
            part += e;
        }
        sum += vec_sum_wide(part);
    }
    if (whole == cols)
        return sum;
    last = vec_exp(vec_load(logits, FORMAT_FP32, whole, cols - whole) - max);
    if (!keep)
        vec_store(logits, FORMAT_FP32, whole, cols - whole, last);
    for (size_t i = 0; i < cols - whole; i++)
        sum += (double)last[i];
    return sum;
}

/* A row whose gradient is computed. */
struct loss_slope {
    size_t target;
    float scale; /* grad_scale and the weight of the row */
    double sum;  /* of its exponentials */
    void *dlogits;
};

/* dlogits = weight * grad_scale * (e / sum - (1 - s) onehot - s / V) */
static void loss_gradient(const struct op_classifier *op, const float *e,
                          const struct loss_slope *row)
{
    size_t cols = op->w.rows, target = row->target;
    float scale = row->scale;
    enum format format = op->dlogits.format;
    float factor = (float)(1 / row->sum), even = op->smoothing / (float)cols;
    float wanted = (e[target] * factor - (1 - op->smoothing) - even) * scale;
    vec one = {};

    one[0] = wanted;
    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec p = vec_load(e, FORMAT_FP32, i, count) * factor;

        vec_store(row->dlogits, format, i, count, (p - even) * scale);
    }
    vec_store(row->dlogits, format, target, 1, one);
}

/* The same for capped logits l, times the cap's slope 1 - (l / c)^2. */
static void loss_capped_gradient(const struct op_classifier *op, const float *logits,
                                 float max, const struct loss_slope *row)
{
    size_t cols = op->w.rows, target = row->target;
    float scale = row->scale, down = 1 / op->softcap;
    enum format format = op->dlogits.format;
    float factor = (float)(1 / row->sum), even = op->smoothing / (float)cols;
    vec at = vec_all(logits[target]), t = at * down;
    vec one =
        (vec_exp(at - max) * factor - (1 - op->smoothing) - even) * scale * (1 - t * t);

    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec l = vec_load(logits, FORMAT_FP32, i, count), p = vec_exp(l - max) * factor;

        t = l * down;
        vec_store(row->dlogits, format, i, count, (p - even) * scale * (1 - t * t));
    }
    vec_store(row->dlogits, format, target, 1, one);
}

/* The largest logits of a row so far; `least` is the smallest of them. */
struct loss_largest {
    float at[EAFT_TOKENS];
    size_t count, least;
};

static void loss_keep(struct loss_largest *kept, float logit)
{
    if (kept->count < EAFT_TOKENS)
        kept->at[kept->count++] = logit;
    else if (logit > kept->at[kept->least])
        kept->at[kept->least] = logit;
    else
        return;
    kept->least = 0;
    for (size_t i = 1; i < kept->count; i++)
        if (kept->at[i] < kept->at[kept->least])
            kept->least = i;
}

/* The entropy of the softmax over the largest logits, of which `max` is one. */
static double loss_entropy(const float *logits, size_t cols, float max)
{
    struct loss_largest kept = { .count = 0 };
    double sum = 0, mean = 0;

    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);

        if (count == LANES && kept.count == EAFT_TOKENS &&
            vec_max_of(vec_get(logits + i)) <= kept.at[kept.least])
            continue;
        for (size_t k = 0; k < count; k++)
            loss_keep(&kept, logits[i + k]);
    }
    for (size_t i = 0; i < kept.count; i++) {
        double down = (double)kept.at[i] - (double)max, e = exp(down);

        sum += e;
        mean += e > 0 ? e * down : 0;
    }
    return log(sum) - mean / sum;
}

/* The factor that depends on the kind of loss; `logits` before their exponentials. */
static double loss_factor(const struct op_classifier *op, const float *logits, float max)
{
    return op->kind == TOKEN_LOSS_EAFT
               ? pow(loss_entropy(logits, op->w.rows, max) / 3, (double)op->alpha)
               : 1;
}

static void loss_row_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct loss *loss = context;
    const struct op_classifier *op = loss->op;
    size_t row = (size_t)loss->rows[task], target = (size_t)op->targets[row];
    size_t cols = op->w.rows;
    float *logits = cpu_row(loss->logits, task), max, wanted;
    bool capped = op->softcap > 0;
    double mean, sum, all, smoothing = (double)op->smoothing, weight;
    struct loss_slope slope;

    (void)worker;
    if (capped)
        loss_cap(logits, cols, op->softcap);
    max = loss_max(logits, cols);
    wanted = logits[target];
    mean = op->smoothing != 0 ? loss_mean(logits, cols) : 0;
    weight = (double)loss_weight(op, row) * loss_factor(op, logits, max);
    sum = loss_exponentials(logits, cols, max, capped);
    all = (double)max + log(sum);
    if (op->kind == TOKEN_LOSS_DFT)
        weight *= exp((double)wanted - all);
    if (op->hits)
        op->hits[row] = wanted == max;
    ((float *)op->losses.data)[row] =
        (float)(((1 - smoothing) * (all - (double)wanted) + smoothing * (all - mean)) *
                weight);
    if (!op->dx.data)
        return;
    slope = (struct loss_slope) { target, loss->grad_scale * (float)weight, sum,
                                  cpu_row(loss->dlogits, task) };
    if (capped)
        loss_capped_gradient(op, logits, max, &slope);
    else
        loss_gradient(op, logits, &slope);
}

void CPU_OP(classifier)(struct backend *be, const struct op_classifier *op)
{
    struct loss loss = { .op = op,
                         .grad_scale = op->grad_scale * (op->scale ? *op->scale : 1) };
    size_t row = 0, most = size_min(op->logits.rows, LOSS_ROWS);

    assert(most > 0);
    loss_clear(be, op);
    while (row < op->x.rows) {
        row = loss_next(&loss, row, most);
        if (loss.count == 0)
            continue;
        loss_logits(be, &loss);
        cpu_backend_run(be, loss.count, loss_row_task, &loss);
        loss_back(be, &loss);
    }
}
