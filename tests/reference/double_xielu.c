/* tests/reference/double_xielu.c - the activation with learned slopes, in double. */
#include "config.h"

#include "tests/reference/double_operand.h"

#include <math.h>

struct scalars {
    double p, n, beta, eps, dp, dn;
};

static struct scalars scalars_of(struct backend *be, const struct xielu *by)
{
    double alpha_p = *take(be, by->alpha_p), alpha_n = *take(be, by->alpha_n);
    double beta = *take(be, by->beta);

    return (struct scalars) {
        log1p(exp(alpha_p)), beta + log1p(exp(alpha_n)), beta,
        *take(be, by->eps),  1 / (1 + exp(-alpha_p)),    1 / (1 + exp(-alpha_n))
    };
}

static double curve(const struct scalars *s, double x)
{
    return x > 0 ? x * x : expm1(x < s->eps ? x : s->eps) - x;
}

static double value(const struct scalars *s, double x)
{
    return (x > 0 ? s->p : s->n) * curve(s, x) + s->beta * x;
}

void double_xielu(struct backend *be, const struct op_xielu *op)
{
    const struct scalars s = scalars_of(be, &op->by);
    const double *x = take(be, op->x);
    double *out = room(be, numbers_of(op->out));

    for (size_t i = 0; i < numbers_of(op->out); i++)
        out[i] = value(&s, x[i]);
    put(be, op->out, out);
    done(be);
}

void double_xielu_backward(struct backend *be, const struct op_xielu_backward *op)
{
    const struct scalars s = scalars_of(be, &op->by);
    const double *x = take(be, op->x), *dout = take(be, op->dout);
    size_t count = numbers_of(op->dout);
    double *dx = room(be, count), *out = room(be, count);
    double *dp = take(be, op->dalpha_p), *dn = take(be, op->dalpha_n);
    double right = 0, left = 0;

    for (size_t i = 0; i < count; i++) {
        double growth = x[i] < s.eps ? expm1(x[i]) : -1;

        dx[i] = dout[i] * ((x[i] > 0 ? 2 * s.p * x[i] : s.n * growth) + s.beta);
        out[i] = value(&s, x[i]);
        *(x[i] > 0 ? &right : &left) += dout[i] * curve(&s, x[i]);
    }
    if (dp)
        *dp += right * s.dp;
    if (dn)
        *dn += left * s.dn;
    put(be, op->dx, dx);
    put(be, op->out, out);
    put(be, op->dalpha_p, dp);
    put(be, op->dalpha_n, dn);
    done(be);
}
