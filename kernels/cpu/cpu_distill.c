/* kernels/cpu/cpu_distill.c - the last matmul of a student, its loss, its divergence from
 * the teacher, and their gradients, in the classifier's chunks. */
#include "config.h"

#include "kernels/cpu/cpu_loss.h"

enum distill_kind { DISTILL_FORWARD, DISTILL_REVERSE, DISTILL_MIXED };

struct distill {
    struct loss loss; /* the student's chunk */
    const struct op_distill *op;
    struct tensor logits; /* the teacher's */
    enum distill_kind kind;
    float cold;    /* 1 / T */
    size_t shared; /* V' */
};

/* Softmax of the logits x over T:  log p = (x - top) cold - log_sum,  p = e^(log p) */
struct softmax {
    double sum; /* of e^((x - top) cold) */
    float top, cold, log_sum, factor;
};

/* The row being processed. */
struct distill_row {
    const struct distill *distill;
    const float *z, *t;  /* logits; t is NULL with stored teacher logits, */
    const float *values; /* k of them */
    const int32_t *ids;
    struct softmax data, student, teacher; /* data: of z over all tokens */
    double factor;                         /* of CE, by the kind of its loss */
    double weight, wanted;                 /* beta 1: D; between: sum p log(p / m) */
    float hard, soft; /* factors of the gradients by z: of CE, and of D by z / T */
    float down;       /* 1 / the cap of z; 0: no cap */
};

static double distill_sum(const float *x, size_t cols, float top, float cold)
{
    double sum = 0;

    for (size_t begin = 0; begin < cols; begin += LOSS_RUN) {
        size_t end = size_min(begin + LOSS_RUN, cols);
        vec part = {};

        for (size_t i = begin; i < end; i += LANES) {
            size_t count = vec_count(i, end);
            vec e = vec_exp((vec_load(x, FORMAT_FP32, i, count) - top) * cold);

            for (size_t k = count; k < LANES; k++)
                e[k] = 0;
            part += e;
        }
        sum += vec_sum_wide(part);
    }
    return sum;
}

static struct softmax distill_softmax(const float *x, size_t cols, float cold)
{
    struct softmax s = { .top = loss_max(x, cols), .cold = cold };

    s.sum = distill_sum(x, cols, s.top, cold);
    s.log_sum = (float)log(s.sum);
    s.factor = (float)(1 / s.sum);
    return s;
}

CPU_INLINE vec distill_log(const struct softmax *s, vec x)
{
    return (x - s->top) * s->cold - s->log_sum;
}

CPU_INLINE vec distill_share(const struct softmax *s, vec x)
{
    return vec_exp((x - s->top) * s->cold) * s->factor;
}

/* p times a logarithm, which is infinite where p is 0 */
CPU_INLINE vec distill_times(vec p, vec log)
{
    return vec_select(p == 0, p, p * log);
}

/* log(p / m) and log(q / m), for d = log(p / q): never divides by the larger of p
 * and q. */
CPU_INLINE vec distill_mixture(vec d, float beta, vec *log_q)
{
    ivec larger = d > 0;
    vec less = vec_exp(vec_select(larger, -d, d));
    vec all =
        vec_log(vec_select(larger, (1 - beta) + beta * less, beta + (1 - beta) * less));

    *log_q = vec_select(larger, -d - all, -all);
    return vec_select(larger, -all, d - all);
}

/* Contribution of some tokens to the two halves of D. */
struct halves {
    vec student, teacher;
};

CPU_INLINE struct halves distill_halves(const struct distill_row *row, vec z, vec log_q,
                                        vec q, enum distill_kind kind)
{
    struct halves h = { .student = {}, .teacher = {} };
    vec p = distill_share(&row->student, z), log_p = distill_log(&row->student, z),
        log_qm;

    if (kind == DISTILL_FORWARD) {
        h.teacher = distill_times(q, log_q - log_p);
    } else if (kind == DISTILL_REVERSE) {
        h.student = distill_times(p, log_p - log_q);
    } else {
        h.student = distill_times(
            p, distill_mixture(log_p - log_q, row->distill->op->beta, &log_qm));
        h.teacher = distill_times(q, log_qm);
    }
    return h;
}

/* Gradient of D by z / T. */
CPU_INLINE vec distill_slope(const struct distill_row *row, vec z, vec log_q, vec q,
                             enum distill_kind kind)
{
    float beta = row->distill->op->beta, wanted = (float)row->wanted;
    vec p = distill_share(&row->student, z), log_p = distill_log(&row->student, z),
        unused;

    if (kind == DISTILL_FORWARD)
        return p - q;
    if (kind == DISTILL_REVERSE)
        return distill_times(p, log_p - log_q - wanted);
    return (1 - beta) *
           distill_times(p, distill_mixture(log_p - log_q, beta, &unused) - wanted);
}

/* A token whose teacher logit is not stored: q is 0. */
static vec distill_none(void)
{
    return vec_all(-INFINITY);
}

CPU_INLINE void distill_add_dense(const struct distill_row *row, double sums[2],
                                  enum distill_kind kind)
{
    size_t cols = row->distill->shared;

    for (size_t begin = 0; begin < cols; begin += LOSS_RUN) {
        size_t end = size_min(begin + LOSS_RUN, cols);
        struct halves part = { .student = {}, .teacher = {} };

        for (size_t i = begin; i < end; i += LANES) {
            size_t count = vec_count(i, end);
            vec t = vec_load(row->t, FORMAT_FP32, i, count);
            struct halves h = distill_halves(row, vec_load(row->z, FORMAT_FP32, i, count),
                                             distill_log(&row->teacher, t),
                                             distill_share(&row->teacher, t), kind);

            for (size_t k = count; k < LANES; k++)
                h.student[k] = h.teacher[k] = 0;
            part.student += h.student;
            part.teacher += h.teacher;
        }
        sums[0] += vec_sum_wide(part.student);
        sums[1] += vec_sum_wide(part.teacher);
    }
}

/* Sum over the stored tokens; for all others log(p / m) is the same value. */
static void distill_add_kept(const struct distill_row *row, double sums[2])
{
    const struct distill *d = row->distill;
    double left = 1;

    for (size_t k = 0; k < d->op->values.cols; k++) {
        vec z = vec_all(row->z[row->ids[k]]), t = vec_all(row->values[k]);
        struct halves h = distill_halves(row, z, distill_log(&row->teacher, t),
                                         distill_share(&row->teacher, t), d->kind);

        left -= (double)distill_share(&row->student, z)[0];
        sums[0] += (double)h.student[0];
        sums[1] += (double)h.teacher[0];
    }
    if (d->kind == DISTILL_MIXED)
        sums[0] -= (left > 0 ? left : 0) * log1p(-(double)d->op->beta);
}

/* Compute D and the values its gradient needs. */
static double distill_distance(struct distill_row *row)
{
    const struct distill *d = row->distill;
    double beta = (double)d->op->beta, sums[2] = { 0 };

    if (!row->t)
        distill_add_kept(row, sums);
    else if (d->kind == DISTILL_FORWARD)
        distill_add_dense(row, sums, DISTILL_FORWARD);
    else if (d->kind == DISTILL_REVERSE)
        distill_add_dense(row, sums, DISTILL_REVERSE);
    else
        distill_add_dense(row, sums, DISTILL_MIXED);
    row->wanted = sums[0];
    return d->kind == DISTILL_MIXED ? beta * sums[1] + (1 - beta) * sums[0]
                                    : sums[0] + sums[1];
}

/* ---- Gradients ---- */

static vec distill_hard(const struct distill_row *row, vec z)
{
    const struct op_classifier *op = row->distill->loss.op;

    return (distill_share(&row->data, z) - op->smoothing / (float)op->w.rows) * row->hard;
}

/* Gradient by the student's logit before its cap: times 1 - (z / c)^2. */
CPU_INLINE vec distill_uncapped(const struct distill_row *row, vec z, vec slope)
{
    vec t = z * row->down;

    return row->down > 0 ? slope * (1 - t * t) : slope;
}

CPU_INLINE void distill_put_dense(const struct distill_row *row, void *out,
                                  enum format format, enum distill_kind kind)
{
    size_t cols = row->distill->shared;

    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec z = vec_load(row->z, FORMAT_FP32, i, count), q = {}, log_q = distill_none();

        if (row->t) {
            vec t = vec_load(row->t, FORMAT_FP32, i, count);

            q = distill_share(&row->teacher, t);
            log_q = distill_log(&row->teacher, t);
        }
        vec_store(
            out, format, i, count,
            distill_uncapped(row, z,
                             distill_hard(row, z) +
                                 row->soft * distill_slope(row, z, log_q, q, kind)));
    }
}

/* Tokens for which the teacher has no logits. */
static void distill_put_rest(const struct distill_row *row, void *out, enum format format)
{
    size_t cols = row->distill->loss.op->w.rows;

    for (size_t i = row->distill->shared; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);

        vec z = vec_load(row->z, FORMAT_FP32, i, count);

        vec_store(out, format, i, count, distill_uncapped(row, z, distill_hard(row, z)));
    }
}

/* One token, with its teacher logit, or NULL. */
static void distill_put_word(const struct distill_row *row, size_t word,
                             const float *logit, bool target, void *out,
                             enum format format)
{
    const struct distill *d = row->distill;
    vec z = vec_all(row->z[word]), q = {}, log_q = distill_none();
    vec x = distill_hard(row, z);

    if (logit) {
        q = distill_share(&row->teacher, vec_all(*logit));
        log_q = distill_log(&row->teacher, vec_all(*logit));
    }
    if (target)
        x = (distill_share(&row->data, z) -
             ((1 - d->loss.op->smoothing) +
              d->loss.op->smoothing / (float)d->loss.op->w.rows)) *
            row->hard;
    if (word < d->shared)
        x += row->soft * distill_slope(row, z, log_q, q, d->kind);
    vec_store(out, format, word, 1, distill_uncapped(row, z, x));
}

/* The stored tokens, and the target. */
static void distill_put_words(const struct distill_row *row, size_t target, void *out,
                              enum format format)
{
    const struct distill *d = row->distill;
    const float *logit = row->t && target < d->shared ? row->t + target : NULL;

    for (size_t k = 0; !row->t && k < d->op->values.cols; k++) {
        size_t word = (size_t)row->ids[k];

        distill_put_word(row, word, &row->values[k], false, out, format);
        if (word == target)
            logit = &row->values[k];
    }
    distill_put_word(row, target, logit, true, out, format);
}

static void distill_gradient(const struct distill_row *row, size_t target, void *out)
{
    const struct distill *d = row->distill;
    enum format format = d->loss.dlogits.format;

    if (d->kind == DISTILL_FORWARD)
        distill_put_dense(row, out, format, DISTILL_FORWARD);
    else if (d->kind == DISTILL_REVERSE)
        distill_put_dense(row, out, format, DISTILL_REVERSE);
    else
        distill_put_dense(row, out, format, DISTILL_MIXED);
    distill_put_rest(row, out, format);
    distill_put_words(row, target, out, format);
}

/* ---- Rows and chunks ---- */

static double distill_cross_entropy(const struct distill_row *row, size_t target)
{
    const struct op_classifier *op = row->distill->loss.op;
    double smoothing = (double)op->smoothing;
    double all = (double)row->data.top + log(row->data.sum);
    double mean = smoothing != 0 ? loss_mean(row->z, op->w.rows) : 0;

    return (1 - smoothing) * (all - (double)row->z[target]) + smoothing * (all - mean);
}

static struct distill_row distill_row_of(const struct distill *d, size_t task)
{
    const struct op_distill *op = d->op;
    size_t place = (size_t)d->loss.rows[task], k = op->values.cols;
    struct distill_row row = { .distill = d, .z = cpu_row(d->loss.logits, task) };

    if (d->loss.op->softcap > 0) {
        loss_cap(cpu_row(d->loss.logits, task), d->loss.op->w.rows, d->loss.op->softcap);
        row.down = 1 / d->loss.op->softcap;
    }
    row.weight = (double)loss_weight(d->loss.op, place);
    row.soft = (float)row.weight * d->loss.grad_scale * op->ratio * op->temperature;
    row.data = distill_softmax(row.z, d->loss.op->w.rows, 1);
    row.factor = 1;
    if (d->loss.op->kind == TOKEN_LOSS_DFT)
        row.factor =
            exp((double)row.z[d->loss.op->targets[place]] - (double)row.data.top) /
            row.data.sum;
    row.hard = (float)(row.weight * row.factor) * d->loss.grad_scale * (1 - op->ratio);
    row.student = distill_softmax(row.z, d->shared, d->cold);
    if (op->values.data) {
        row.values = cpu_row(op->values, place);
        row.ids = op->ids + place * k;
        row.teacher = distill_softmax(row.values, k, d->cold);
    } else {
        row.t = cpu_row(d->logits, task);
        if (op->softcap > 0)
            loss_cap(cpu_row(d->logits, task), d->shared, op->softcap);
        row.teacher = distill_softmax(row.t, d->shared, d->cold);
    }
    return row;
}

static void distill_row_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct distill *d = context;
    struct distill_row row = distill_row_of(d, task);
    size_t place = (size_t)d->loss.rows[task];
    size_t target = (size_t)d->loss.op->targets[place];
    double warm = (double)d->op->temperature, weight = row.weight;

    (void)worker;
    ((float *)d->loss.op->losses.data)[place] =
        (float)(weight * row.factor * distill_cross_entropy(&row, target));
    ((float *)d->op->kd_losses.data)[place] =
        (float)(weight * warm * warm * distill_distance(&row));
    if (d->loss.op->dx.data)
        distill_gradient(&row, target, cpu_row(d->loss.dlogits, task));
}

/* Compute the teacher's logits of the same rows. */
static void distill_teach(struct backend *be, struct distill *d)
{
    const struct op_distill *op = d->op;
    struct tensor x;

    if (op->values.data)
        return;
    x = loss_view(&d->loss, op->x, op->gathered);
    d->logits = tensor_rows(op->logits, 0, d->loss.count);
    if (!d->loss.together)
        loss_copy(be, &d->loss, op->x, x, false);
    be->ops->matmul(be, &(struct op_matmul) { .out = d->logits,
                                              .a = x,
                                              .b = op->w,
                                              .bias = op->bias,
                                              .trans_b = true,
                                              .alpha = 1 });
}

static void distill_clear_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_distill *op = context;

    (void)task;
    (void)worker;
    for (size_t row = 0; row < op->student.x.rows; row++)
        if (op->student.targets[row] < 0)
            ((float *)op->kd_losses.data)[row] = 0;
}

void CPU_OP(distill)(struct backend *be, const struct op_distill *op)
{
    const struct op_classifier *student = &op->student;
    struct distill d = {
        .loss = { .op = student,
                  .grad_scale =
                      student->grad_scale * (student->scale ? *student->scale : 1) },
        .op = op,
        .kind = op->beta == 0   ? DISTILL_FORWARD
                : op->beta == 1 ? DISTILL_REVERSE
                                : DISTILL_MIXED,
        .cold = 1 / op->temperature,
        .shared = op->values.data ? op->words : op->w.rows,
    };
    size_t row = 0, most = size_min(student->logits.rows, LOSS_ROWS);

    if (!op->values.data)
        most = size_min(most, op->logits.rows);
    assert(most > 0 && d.shared <= student->w.rows &&
           (!op->values.data || d.kind != DISTILL_REVERSE));
    loss_clear(be, student);
    cpu_backend_run(be, 1, distill_clear_task, (void *)op);
    while (row < student->x.rows) {
        row = loss_next(&d.loss, row, most);
        if (d.loss.count == 0)
            continue;
        loss_logits(be, &d.loss);
        distill_teach(be, &d);
        cpu_backend_run(be, d.loss.count, distill_row_task, &d);
        loss_back(be, &d.loss);
    }
}
