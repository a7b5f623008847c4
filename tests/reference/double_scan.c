/* tests/reference/double_scan.c - the operands of the operations of kernels/ops_scan.h in
 * double, passed to the loops of reference.h. */
#include "config.h"

#include "tests/reference/double_operand.h"

#include "tests/reference/reference.h"

static struct reference_scan scan_of(struct backend *be, const struct op_scan *op)
{
    return (struct reference_scan) {
        .rows = op->x.rows,
        .sequences = op->sequences,
        .heads = op->heads,
        .groups = op->groups,
        .size = op->x.cols / op->heads,
        .depth = op->b.cols / op->groups,
        .offsets = op->offsets,
        .resumes = op->resumes,
        .low = (double)op->low,
        .high = (double)op->high,
        .x = take(be, op->x),
        .b = take(be, op->b),
        .c = take(be, op->c),
        .dt = take(be, op->dt),
        .a_log = take(be, op->a_log),
        .bias = take(be, op->bias),
        .skip = take(be, op->skip),
        .state = take(be, op->state),
    };
}

void double_scan(struct backend *be, const struct op_scan *op)
{
    struct reference_scan r = scan_of(be, op);

    r.out = room(be, op->x.rows * op->x.cols);
    reference_scan(&r);
    put(be, op->out, r.out);
    put(be, op->state, r.state);
    done(be);
}

/* Return what a gradient is added to. */
static double *sum_of(struct backend *be, struct tensor x, size_t heads)
{
    return x.data ? take(be, x) : room(be, heads);
}

void double_scan_backward(struct backend *be, const struct op_scan_backward *op)
{
    struct reference_scan r = scan_of(be, &op->forward);

    r.dout = take(be, op->dout);
    r.dx = room(be, r.rows * op->dx.cols);
    r.db = room(be, r.rows * op->db.cols);
    r.dc = room(be, r.rows * op->dc.cols);
    r.ddt = room(be, r.rows * r.heads);
    r.da_log = sum_of(be, op->da_log, r.heads);
    r.dbias = sum_of(be, op->dbias, r.heads);
    r.dskip = sum_of(be, op->dskip, r.heads);
    reference_scan_backward(&r);
    put(be, op->dx, r.dx);
    put(be, op->db, r.db);
    put(be, op->dc, r.dc);
    put(be, op->ddt, r.ddt);
    put(be, op->da_log, r.da_log);
    put(be, op->dbias, r.dbias);
    put(be, op->dskip, r.dskip);
    done(be);
}
