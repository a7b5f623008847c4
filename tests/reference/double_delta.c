/* tests/reference/double_delta.c - the operands of the operations of kernels/ops_conv.h and
 * ops_delta.h in double, passed to the loops of reference.h. */
#include "config.h"

#include "tests/reference/double_operand.h"

#include "tests/reference/reference.h"

void double_conv(struct backend *be, const struct op_conv *op)
{
    struct reference_conv r = {
        .rows = op->x.rows,
        .cols = op->x.cols,
        .taps = op->weight.cols,
        .sequences = op->sequences,
        .offsets = op->offsets,
        .resumes = op->resumes,
        .x = take(be, op->x),
        .weight = take(be, op->weight),
        .out = room(be, op->x.rows * op->x.cols),
        .state = take(be, op->state),
        .before = take(be, op->before),
        .after = take(be, op->after),
        .bias = take(be, op->bias),
    };

    reference_conv(&r);
    put(be, op->out, r.out);
    put(be, op->state, r.state);
    done(be);
}

void double_conv_backward(struct backend *be, const struct op_conv_backward *op)
{
    struct reference_conv r = {
        .rows = op->x.rows,
        .cols = op->x.cols,
        .taps = op->weight.cols,
        .sequences = op->sequences,
        .offsets = op->offsets,
        .x = take(be, op->x),
        .weight = take(be, op->weight),
        .dout = take(be, op->dout),
        .dx = room(be, op->x.rows * op->x.cols),
        .dweight = op->dweight.data ? take(be, op->dweight)
                                    : room(be, op->x.cols * op->weight.cols),
        .before = take(be, op->before),
        .after = take(be, op->after),
        .bias = take(be, op->bias),
        .dbefore = room(be, op->x.rows * op->x.cols),
        .dafter = room(be, op->x.rows * op->x.cols),
        .dbias = op->dbias.data ? take(be, op->dbias) : room(be, op->x.cols),
    };

    reference_conv_backward(&r);
    put(be, op->dx, r.dx);
    put(be, op->dbefore, r.dbefore);
    put(be, op->dafter, r.dafter);
    put(be, op->dbias, r.dbias);
    put(be, op->dweight, r.dweight);
    done(be);
}

void double_decay(struct backend *be, const struct op_decay *op)
{
    size_t count = op->a.rows * op->a.cols;
    struct reference_decay r = {
        .rows = op->a.rows,
        .heads = op->a.cols,
        .a = take(be, op->a),
        .b = take(be, op->b),
        .a_log = take(be, op->a_log),
        .bias = take(be, op->bias),
        .decay = room(be, count),
        .beta = room(be, count),
    };

    reference_decay(&r);
    put(be, op->decay, r.decay);
    put(be, op->beta, r.beta);
    done(be);
}

void double_decay_backward(struct backend *be, const struct op_decay_backward *op)
{
    size_t heads = op->a.cols, count = op->a.rows * heads;
    struct reference_decay r = {
        .rows = op->a.rows,
        .heads = heads,
        .a = take(be, op->a),
        .b = take(be, op->b),
        .a_log = take(be, op->a_log),
        .bias = take(be, op->bias),
        .ddecay = take(be, op->ddecay),
        .dbeta = take(be, op->dbeta),
        .da = room(be, count),
        .db = room(be, count),
        .da_log = op->da_log.data ? take(be, op->da_log) : room(be, heads),
        .dbias = op->dbias.data ? take(be, op->dbias) : room(be, heads),
    };

    reference_decay_backward(&r);
    put(be, op->da, r.da);
    put(be, op->db, r.db);
    put(be, op->da_log, r.da_log);
    put(be, op->dbias, r.dbias);
    done(be);
}

static struct reference_delta delta_of(struct backend *be, const struct op_delta *op)
{
    return (struct reference_delta) {
        .rows = op->q.rows,
        .sequences = op->sequences,
        .heads = op->heads,
        .key_heads = op->key_heads,
        .key = op->q.cols / op->key_heads,
        .value = op->v.cols / op->heads,
        .offsets = op->offsets,
        .resumes = op->resumes,
        .q = take(be, op->q),
        .k = take(be, op->k),
        .v = take(be, op->v),
        .decay = take(be, op->decay),
        .beta = take(be, op->beta),
        .state = take(be, op->state),
    };
}

void double_delta(struct backend *be, const struct op_delta *op)
{
    struct reference_delta r = delta_of(be, op);

    r.out = room(be, op->v.rows * op->v.cols);
    reference_delta(&r);
    put(be, op->out, r.out);
    put(be, op->state, r.state);
    done(be);
}

void double_delta_backward(struct backend *be, const struct op_delta_backward *op)
{
    struct reference_delta r = delta_of(be, &op->forward);
    size_t rows = r.rows;

    r.dout = take(be, op->dout);
    r.dq = room(be, rows * op->dq.cols);
    r.dk = room(be, rows * op->dk.cols);
    r.dv = room(be, rows * op->dv.cols);
    r.ddecay = room(be, rows * r.heads);
    r.dbeta = room(be, rows * r.heads);
    reference_delta_backward(&r);
    put(be, op->dq, r.dq);
    put(be, op->dk, r.dk);
    put(be, op->dv, r.dv);
    put(be, op->ddecay, r.ddecay);
    put(be, op->dbeta, r.dbeta);
    done(be);
}
