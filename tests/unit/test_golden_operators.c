/*
 * tests/unit/test_golden_operators.c - operations and their gradients match PyTorch in
 * float64 (tests/golden/operators.py): to 1e-5 in fp32, to 1e-2 in bf16 and to 2e-3 in
 * fp16, relative to the largest element of a tensor, and to its norm.
 */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/json.h"
#include "base/size.h"
#include "kernels/reach.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"
#include "train/model/shapes.h"

OPERATION(activation)
OPERATION(activation_backward)
OPERATION(attention)
OPERATION(attention_backward)
OPERATION(classifier)
OPERATION(embedding)
OPERATION(embedding_backward)
OPERATION(conv)
OPERATION(conv_backward)
OPERATION(decay)
OPERATION(decay_backward)
OPERATION(delta)
OPERATION(delta_backward)
OPERATION(scan)
OPERATION(scan_backward)
OPERATION(headnorm)
OPERATION(headnorm_backward)
OPERATION(layernorm)
OPERATION(layernorm_backward)
OPERATION(matmul)
OPERATION(rmsnorm)
OPERATION(rmsnorm_backward)
OPERATION(rope)
OPERATION(sum_rows)
OPERATION(swiglu)
OPERATION(swiglu_backward)

enum { OPERANDS_MOST = 24, TOKENS_MOST = 512, RUNS_MOST = 8 };

static const struct {
    enum format format;
    double relative;
} formats[] = { { FORMAT_FP32, 1e-5 }, { FORMAT_FP16, 2e-3 }, { FORMAT_BF16, 1e-2 } };

/* A case of the file, in one format on one backend. */
struct golden_case {
    const json_t *row;
    enum format compute;
    double relative;
    struct backend *be;
    struct {
        const char *name; /* NULL: nothing to compare it with */
        struct operand operand;
    } held[OPERANDS_MOST];
    size_t count;
    int32_t *ids; /* TOKENS_MOST in backend memory, and as many again */
};

/* ---- The formula of operators.py ---- */

static uint32_t bits(uint64_t seed, uint64_t i)
{
    uint32_t x = (uint32_t)(i * 2654435761u + seed * 2246822519u);

    x ^= x >> 16;
    x *= 0x45d9f3bu;
    return x ^ x >> 16;
}

static double setting(const struct golden_case *c, const char *key)
{
    return json_number_value(json_object_get(json_object_get(c->row, "settings"), key));
}

static struct operand *hold(struct golden_case *c, const char *name,
                            struct operand operand)
{
    assert_true(c->count < OPERANDS_MOST);
    c->held[c->count].name = name;
    c->held[c->count].operand = operand;
    return &c->held[c->count++].operand;
}

/* An input as described in the file; a vector is one row. */
static struct operand *take(struct golden_case *c, const char *name, enum format format)
{
    const json_t *shape = json_object_get(json_object_get(c->row, "in"), name);
    size_t last = json_array_size(shape) - 1;
    uint64_t seed = (uint64_t)json_integer_value(json_array_get(shape, 0));
    double scale = json_number_value(json_array_get(shape, 1));
    size_t cols = (size_t)json_integer_value(json_array_get(shape, last));
    size_t rows =
        last > 2 ? (size_t)json_integer_value(json_array_get(shape, last - 1)) : 1;
    struct operand *x = hold(c, NULL, operand_filled(format, rows, cols, 0));

    assert_non_null(shape);
    for (size_t i = 0; i < x->numbers; i++)
        x->real[i] = ((double)(bits(seed, i) % 129) - 64) / 32 * scale;
    operand_write(x);
    return x;
}

/* An output; an accumulated one starts at zero. */
static struct operand *make(struct golden_case *c, const char *name, enum format format,
                            size_t rows, size_t cols)
{
    return hold(c, name, operand_filled(format, rows, cols, 0));
}

/* ---- The operations ---- */

static void product(struct golden_case *c, const struct op_matmul *op)
{
    machine_run(c->be, run_matmul, op);
}

static void run_linear_case(struct golden_case *c)
{
    struct operand *x = take(c, "x", c->compute), *w = take(c, "w", c->compute);
    struct operand *b = take(c, "b", FORMAT_FP32), *dy = take(c, "dy", c->compute);
    size_t rows = x->tensor.rows, ins = x->tensor.cols, outs = w->tensor.rows;
    struct tensor y = make(c, "y", c->compute, rows, outs)->tensor;
    struct tensor dx = make(c, "dx", c->compute, rows, ins)->tensor;
    struct tensor dw = make(c, "dw", FORMAT_FP32, outs, ins)->tensor;
    struct tensor db = make(c, "db", FORMAT_FP32, 1, outs)->tensor;

    product(c, &(struct op_matmul) { .out = y,
                                     .a = x->tensor,
                                     .b = w->tensor,
                                     .bias = b->tensor,
                                     .trans_b = true,
                                     .alpha = 1 });
    product(c, &(struct op_matmul) {
                   .out = dx, .a = dy->tensor, .b = w->tensor, .alpha = 1 });
    product(c, &(struct op_matmul) { .out = dw,
                                     .a = dy->tensor,
                                     .trans_a = true,
                                     .b = x->tensor,
                                     .alpha = 1,
                                     .beta = 1 });
    machine_run(c->be, run_sum_rows,
                &(struct op_sum_rows) { .out = db, .x = dy->tensor });
}

static void run_rmsnorm_case(struct golden_case *c)
{
    struct operand *x = take(c, "x", FORMAT_FP32), *w = take(c, "w", c->compute);
    struct operand *delta = take(c, "delta", c->compute);
    struct operand *dout = take(c, "dout", c->compute);
    size_t rows = x->tensor.rows, cols = x->tensor.cols;
    struct tensor sum = make(c, "sum", FORMAT_FP32, rows, cols)->tensor;
    struct tensor rstd = make(c, NULL, FORMAT_FP32, 1, rows)->tensor;
    struct op_rmsnorm op = { .out = make(c, "out", c->compute, rows, cols)->tensor,
                             .sum = sum,
                             .rstd = rstd,
                             .x = x->tensor,
                             .delta = delta->tensor,
                             .weight = w->tensor,
                             .eps = (float)setting(c, "eps"),
                             .offset = (float)setting(c, "offset") };
    struct op_rmsnorm_backward back = {
        .dx = make(c, "dx", FORMAT_FP32, rows, cols)->tensor,
        .dweight = make(c, "dw", FORMAT_FP32, 1, cols)->tensor,
        .dout = dout->tensor,
        .x = sum,
        .weight = w->tensor,
        .rstd = rstd,
        .offset = op.offset,
    };

    machine_run(c->be, run_rmsnorm, &op);
    machine_run(c->be, run_rmsnorm_backward, &back);
}

static void run_layernorm_case(struct golden_case *c)
{
    struct tensor x = take(c, "x", FORMAT_FP32)->tensor;
    struct tensor w = take(c, "w", c->compute)->tensor;
    struct tensor sum = make(c, "sum", FORMAT_FP32, x.rows, x.cols)->tensor;
    struct tensor stats = make(c, NULL, FORMAT_FP32, 2, x.rows)->tensor;
    struct op_layernorm op = {
        .out = make(c, "out", c->compute, x.rows, x.cols)->tensor,
        .sum = sum,
        .stats = stats,
        .x = x,
        .delta = take(c, "delta", c->compute)->tensor,
        .weight = w,
        .bias = take(c, "b", c->compute)->tensor,
        .eps = (float)setting(c, "eps"),
    };
    struct op_layernorm_backward back = {
        .dx = make(c, "dx", FORMAT_FP32, x.rows, x.cols)->tensor,
        .dweight = make(c, "dw", FORMAT_FP32, 1, x.cols)->tensor,
        .dbias = make(c, "db", FORMAT_FP32, 1, x.cols)->tensor,
        .dout = take(c, "dout", c->compute)->tensor,
        .x = sum,
        .weight = w,
        .stats = stats,
    };

    machine_run(c->be, run_layernorm, &op);
    machine_run(c->be, run_layernorm_backward, &back);
}

static void run_headnorm_case(struct golden_case *c)
{
    struct tensor x = take(c, "x", c->compute)->tensor;
    struct tensor w = take(c, "w", c->compute)->tensor;
    size_t heads = (size_t)setting(c, "heads");
    struct op_headnorm op = {
        .out = make(c, "out", c->compute, x.rows, x.cols)->tensor,
        .rstd = make(c, NULL, FORMAT_FP32, x.rows, heads)->tensor,
        .x = x,
        .weight = w,
        .eps = (float)setting(c, "eps"),
        .offset = (float)setting(c, "offset"),
        .heads = heads,
    };
    struct op_headnorm_backward back = {
        .dx = make(c, "dx", c->compute, x.rows, x.cols)->tensor,
        .dweight = make(c, "dw", FORMAT_FP32, 1, w.cols)->tensor,
        .dout = take(c, "dout", c->compute)->tensor,
        .x = x,
        .weight = w,
        .rstd = op.rstd,
        .offset = op.offset,
        .heads = heads,
    };

    machine_run(c->be, run_headnorm, &op);
    machine_run(c->be, run_headnorm_backward, &back);
}

static struct rope rope_of(const struct golden_case *c)
{
    const char *kind =
        json_string_value(json_object_get(json_object_get(c->row, "settings"), "kind"));

    return (struct rope) {
        .kind = strcmp(kind, "linear") == 0   ? ROPE_LINEAR
                : strcmp(kind, "llama3") == 0 ? ROPE_LLAMA3
                                              : ROPE_DEFAULT,
        .theta = setting(c, "theta"),
        .factor = setting(c, "factor"),
        .low_freq_factor = setting(c, "low_freq_factor"),
        .high_freq_factor = setting(c, "high_freq_factor"),
        .original_max_positions = setting(c, "original_max_position_embeddings"),
    };
}

/* out and dx are computed in place. */
static void run_rope_case(struct golden_case *c)
{
    enum { POSITIONS = 256 };
    struct operand *x = take(c, "x", c->compute), *dx = take(c, "dout", c->compute);
    size_t heads = (size_t)setting(c, "heads"), rotary = (size_t)setting(c, "rotary");
    size_t size = rotary ? rotary : x->tensor.cols / heads;
    struct operand *table = make(c, NULL, FORMAT_FP32, POSITIONS, size);
    float *rows = calloc(POSITIONS * size, sizeof(*rows));
    struct rope rope = rope_of(c);
    struct op_rope op = { .x = x->tensor,
                          .table = table->tensor,
                          .positions = c->ids,
                          .heads = heads,
                          .rotary = rotary };

    rope_fill(&rope, 1, &(struct rope_table) { rows, POSITIONS, size });
    for (size_t i = 0; i < table->numbers; i++)
        table->real[i] = (double)rows[i];
    operand_write(table);
    for (size_t i = 0; i < x->tensor.rows; i++)
        c->ids[i] = (int32_t)(i * 3 % POSITIONS);
    machine_run(c->be, run_rope, &op);
    op.x = dx->tensor;
    op.inverse = true;
    machine_run(c->be, run_rope, &op);
    c->held[0].name = "out";
    c->held[1].name = "dx";
    free(rows);
}

static void run_swiglu_case(struct golden_case *c)
{
    struct tensor gate = take(c, "gate", c->compute)->tensor;
    struct tensor up = take(c, "up", c->compute)->tensor;
    struct tensor dout = take(c, "dout", c->compute)->tensor;
    size_t rows = gate.rows, cols = gate.cols;
    struct op_swiglu op = { .out = make(c, "out", c->compute, rows, cols)->tensor,
                            .gate = gate,
                            .up = up,
                            .kind = (enum activation)setting(c, "kind") };
    struct op_swiglu_backward back = {
        .dgate = make(c, "dgate", c->compute, rows, cols)->tensor,
        .dup = make(c, "dup", c->compute, rows, cols)->tensor,
        .dout = dout,
        .gate = gate,
        .up = up,
        .kind = op.kind,
    };

    machine_run(c->be, run_swiglu, &op);
    machine_run(c->be, run_swiglu_backward, &back);
}

static void run_activation_case(struct golden_case *c)
{
    struct tensor x = take(c, "x", c->compute)->tensor;
    struct op_activation op = { .out = make(c, "out", c->compute, x.rows, x.cols)->tensor,
                                .x = x,
                                .kind = (enum activation)setting(c, "kind") };
    struct op_activation_backward back = {
        .dx = make(c, "dx", c->compute, x.rows, x.cols)->tensor,
        .dout = take(c, "dout", c->compute)->tensor,
        .x = x,
        .kind = op.kind,
    };

    machine_run(c->be, run_activation, &op);
    machine_run(c->be, run_activation_backward, &back);
}

/* Let the rows of each block of the setting see each other, if the case has it. */
static void join_rows(struct golden_case *c, struct op_attention *op)
{
    const json_t *blocks = json_object_get(json_object_get(c->row, "settings"), "joined");
    int32_t *reach = c->ids + TOKENS_MOST, *since = c->ids + RUNS_MOST + 1;

    if (!blocks)
        return;
    assert_true(op->sequences <= RUNS_MOST && op->q.rows < TOKENS_MOST - RUNS_MOST);
    reach_causal(reach, op->q.rows);
    for (size_t i = 0; i < json_array_size(blocks); i++) {
        const json_t *block = json_array_get(blocks, i);

        reach_join(reach, (size_t)json_integer_value(json_array_get(block, 0)),
                   (size_t)json_integer_value(json_array_get(block, 1)));
    }
    reach_since(since, reach, op->q.rows);
    op->reach = reach;
    op->since = since;
}

static struct op_attention attention_of(struct golden_case *c)
{
    const json_t *offsets =
        json_object_get(json_object_get(c->row, "settings"), "offsets");
    struct tensor q = take(c, "q", c->compute)->tensor;
    struct op_attention op = {
        .q = q,
        .k = take(c, "k", c->compute)->tensor,
        .v = take(c, "v", c->compute)->tensor,
        .out = make(c, "out", c->compute, q.rows, q.cols)->tensor,
        .offsets = c->ids,
        .sequences = json_array_size(offsets) - 1,
        .heads = (size_t)setting(c, "heads"),
        .kv_heads = (size_t)setting(c, "kv_heads"),
        .window = (size_t)setting(c, "window"),
        .softcap = (float)setting(c, "softcap"),
    };

    op.lse = make(c, NULL, FORMAT_FP32, op.heads, q.rows)->tensor;
    op.head_size = q.cols / op.heads;
    op.scale = (float)(1 / sqrt((double)op.head_size));
    for (size_t i = 0; i <= op.sequences; i++)
        c->ids[i] = (int32_t)json_integer_value(json_array_get(offsets, i));
    join_rows(c, &op);
    return op;
}

static void run_attention_case(struct golden_case *c)
{
    struct op_attention op = attention_of(c);
    size_t rows = op.q.rows;
    struct op_attention_backward back = {
        .dq = make(c, "dq", c->compute, rows, op.q.cols)->tensor,
        .dk = make(c, "dk", c->compute, rows, op.k.cols)->tensor,
        .dv = make(c, "dv", c->compute, rows, op.v.cols)->tensor,
        .delta = make(c, NULL, FORMAT_FP32, op.heads, rows)->tensor,
        .dout = take(c, "dout", c->compute)->tensor,
        .forward = op,
    };

    machine_run(c->be, run_attention, &op);
    machine_run(c->be, run_attention_backward, &back);
}

/* Token i of n in a vocabulary. */
static void put_tokens(int32_t *ids, size_t n, size_t words)
{
    assert_true(n <= TOKENS_MOST);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(bits(n, i) % words);
}

static void run_embedding_case(struct golden_case *c)
{
    struct tensor table = take(c, "table", c->compute)->tensor;
    struct tensor dout = take(c, "dout", FORMAT_FP32)->tensor;
    struct tensor out = make(c, "out", FORMAT_FP32, dout.rows, dout.cols)->tensor;
    struct tensor dtable = make(c, "dtable", FORMAT_FP32, table.rows, table.cols)->tensor;

    put_tokens(c->ids, dout.rows, table.rows);
    machine_run(c->be, run_embedding,
                &(struct op_embedding) { .out = out,
                                         .table = table,
                                         .tokens = c->ids,
                                         .scale = (float)setting(c, "scale") });
    machine_run(c->be, run_embedding_backward,
                &(struct op_embedding_backward) { .dtable = dtable,
                                                  .dout = dout,
                                                  .tokens = c->ids,
                                                  .scale = (float)setting(c, "scale") });
}

static void run_classifier_case(struct golden_case *c)
{
    enum { CHUNK = 10 };
    struct tensor x = take(c, "x", c->compute)->tensor;
    struct tensor w = take(c, "w", c->compute)->tensor;
    struct operand *weights = make(c, NULL, FORMAT_FP32, 1, x.rows);
    size_t every = (size_t)setting(c, "every");
    struct op_classifier op = {
        .losses = make(c, "losses", FORMAT_FP32, 1, x.rows)->tensor,
        .dx = make(c, "dx", c->compute, x.rows, x.cols)->tensor,
        .dw = make(c, "dw", FORMAT_FP32, w.rows, w.cols)->tensor,
        .x = x,
        .w = w,
        .logits = make(c, NULL, FORMAT_FP32, CHUNK, w.rows)->tensor,
        .dlogits = make(c, NULL, c->compute, CHUNK, w.rows)->tensor,
        .gathered = make(c, NULL, c->compute, CHUNK, x.cols)->tensor,
        .dgathered = make(c, NULL, c->compute, CHUNK, x.cols)->tensor,
        .targets = c->ids,
        .weights = setting(c, "weighted") != 0 ? weights->tensor.data : NULL,
        .rows = c->ids + TOKENS_MOST,
        .grad_scale = (float)setting(c, "scale"),
        .smoothing = (float)setting(c, "smoothing"),
        .softcap = (float)setting(c, "softcap"),
        .kind = (enum token_loss)setting(c, "kind"),
        .alpha = (float)setting(c, "alpha"),
    };

    for (size_t i = 0; i < x.rows; i++)
        weights->real[i] = (double)(i % 4) / 2;
    operand_write(weights);
    put_tokens(c->ids, x.rows, w.rows);
    for (size_t i = 0; every && i < x.rows; i += every)
        c->ids[i] = -100;
    machine_run(c->be, run_classifier, &op);
}

/* Return how many sequences a case has; their offsets are in c->ids. */
static size_t put_offsets(struct golden_case *c)
{
    const json_t *offsets =
        json_object_get(json_object_get(c->row, "settings"), "offsets");

    for (size_t i = 0; i < json_array_size(offsets); i++)
        c->ids[i] = (int32_t)json_integer_value(json_array_get(offsets, i));
    return json_array_size(offsets) - 1;
}

static void run_conv_case(struct golden_case *c)
{
    struct tensor x = take(c, "x", c->compute)->tensor;
    struct tensor w = take(c, "w", FORMAT_FP32)->tensor;
    struct op_conv op = { .out = make(c, "out", c->compute, x.rows, x.cols)->tensor,
                          .x = x,
                          .weight = w,
                          .offsets = c->ids,
                          .sequences = put_offsets(c) };

    machine_run(c->be, run_conv, &op);
    machine_run(c->be, run_conv_backward,
                &(struct op_conv_backward) {
                    .dx = make(c, "dx", c->compute, x.rows, x.cols)->tensor,
                    .dweight = make(c, "dw", FORMAT_FP32, w.rows, w.cols)->tensor,
                    .dout = take(c, "dout", c->compute)->tensor,
                    .x = x,
                    .weight = w,
                    .offsets = op.offsets,
                    .sequences = op.sequences });
}

static void run_gated_conv(struct golden_case *c)
{
    struct tensor x = take(c, "x", c->compute)->tensor;
    struct tensor w = take(c, "w", FORMAT_FP32)->tensor;
    struct op_conv op = { .out = make(c, "out", c->compute, x.rows, x.cols)->tensor,
                          .x = x,
                          .weight = w,
                          .before = take(c, "b", c->compute)->tensor,
                          .after = take(c, "c", c->compute)->tensor,
                          .bias = take(c, "bias", FORMAT_FP32)->tensor,
                          .offsets = c->ids,
                          .sequences = put_offsets(c) };

    machine_run(c->be, run_conv, &op);
    machine_run(c->be, run_conv_backward,
                &(struct op_conv_backward) {
                    .dx = make(c, "dx", c->compute, x.rows, x.cols)->tensor,
                    .dweight = make(c, "dw", FORMAT_FP32, w.rows, w.cols)->tensor,
                    .dbefore = make(c, "db", c->compute, x.rows, x.cols)->tensor,
                    .dafter = make(c, "dc", c->compute, x.rows, x.cols)->tensor,
                    .dbias = make(c, "dbias", FORMAT_FP32, 1, x.cols)->tensor,
                    .dout = take(c, "dout", c->compute)->tensor,
                    .x = x,
                    .weight = w,
                    .before = op.before,
                    .after = op.after,
                    .bias = op.bias,
                    .offsets = op.offsets,
                    .sequences = op.sequences });
}

static void run_decay_case(struct golden_case *c)
{
    struct tensor a = take(c, "a", c->compute)->tensor;
    struct tensor b = take(c, "b", c->compute)->tensor;
    struct op_decay op = { .decay = make(c, "decay", FORMAT_FP32, a.rows, a.cols)->tensor,
                           .beta = make(c, "beta", FORMAT_FP32, a.rows, a.cols)->tensor,
                           .a = a,
                           .b = b,
                           .a_log = take(c, "a_log", FORMAT_FP32)->tensor,
                           .bias = take(c, "bias", FORMAT_FP32)->tensor };

    machine_run(c->be, run_decay, &op);
    machine_run(c->be, run_decay_backward,
                &(struct op_decay_backward) {
                    .da = make(c, "da", c->compute, a.rows, a.cols)->tensor,
                    .db = make(c, "db", c->compute, a.rows, a.cols)->tensor,
                    .da_log = make(c, "da_log", FORMAT_FP32, 1, a.cols)->tensor,
                    .dbias = make(c, "dbias", FORMAT_FP32, 1, a.cols)->tensor,
                    .ddecay = take(c, "ddecay", FORMAT_FP32)->tensor,
                    .dbeta = take(c, "dbeta", FORMAT_FP32)->tensor,
                    .a = a,
                    .b = b,
                    .a_log = op.a_log,
                    .bias = op.bias });
}

/* (x + 2) * by, for x of the file */
static struct tensor take_gate(struct golden_case *c, const char *name, double by)
{
    struct operand *x = take(c, name, FORMAT_FP32);

    for (size_t i = 0; i < x->numbers; i++)
        x->real[i] = (x->real[i] + 2) * by;
    operand_write(x);
    return x->tensor;
}

static void run_delta_case(struct golden_case *c)
{
    struct tensor q = take(c, "q", c->compute)->tensor;
    struct tensor v = take(c, "v", c->compute)->tensor;
    struct op_delta op = { .out = make(c, "out", c->compute, v.rows, v.cols)->tensor,
                           .q = q,
                           .k = take(c, "k", c->compute)->tensor,
                           .v = v,
                           .decay = take_gate(c, "decay", -1.0 / 8),
                           .beta = take_gate(c, "beta", 1.0 / 4),
                           .offsets = c->ids,
                           .sequences = put_offsets(c),
                           .heads = (size_t)setting(c, "heads"),
                           .key_heads = (size_t)setting(c, "key_heads") };
    size_t chunks = op_delta_chunks(q.rows, op.sequences);
    size_t states = op.heads * (q.cols / op.key_heads) * (v.cols / op.heads);

    machine_run(c->be, run_delta, &op);
    machine_run(c->be, run_delta_backward,
                &(struct op_delta_backward) {
                    .dq = make(c, "dq", c->compute, q.rows, q.cols)->tensor,
                    .dk = make(c, "dk", c->compute, q.rows, q.cols)->tensor,
                    .dv = make(c, "dv", c->compute, v.rows, v.cols)->tensor,
                    .ddecay = make(c, "ddecay", FORMAT_FP32, v.rows, op.heads)->tensor,
                    .dbeta = make(c, "dbeta", FORMAT_FP32, v.rows, op.heads)->tensor,
                    .dout = take(c, "dout", c->compute)->tensor,
                    .states = make(c, NULL, FORMAT_FP32, chunks, states)->tensor,
                    .dstates = make(c, NULL, FORMAT_FP32, chunks, states)->tensor,
                    .forward = op });
}

static void run_scan_case(struct golden_case *c)
{
    struct tensor x = take(c, "x", c->compute)->tensor;
    struct tensor b = take(c, "b", c->compute)->tensor;
    struct op_scan op = { .out = make(c, "out", c->compute, x.rows, x.cols)->tensor,
                          .x = x,
                          .b = b,
                          .c = take(c, "c", c->compute)->tensor,
                          .dt = take(c, "dt", c->compute)->tensor,
                          .a_log = take(c, "a_log", FORMAT_FP32)->tensor,
                          .bias = take(c, "bias", FORMAT_FP32)->tensor,
                          .skip = take(c, "skip", FORMAT_FP32)->tensor,
                          .offsets = c->ids,
                          .sequences = put_offsets(c),
                          .heads = (size_t)setting(c, "heads"),
                          .groups = (size_t)setting(c, "groups"),
                          .low = (float)setting(c, "low"),
                          .high = (float)setting(c, "high") };
    size_t chunks = op_scan_chunks(x.rows, op.sequences);
    size_t states = x.cols * (b.cols / op.groups);

    machine_run(c->be, run_scan, &op);
    machine_run(c->be, run_scan_backward,
                &(struct op_scan_backward) {
                    .dx = make(c, "dx", c->compute, x.rows, x.cols)->tensor,
                    .db = make(c, "db", c->compute, b.rows, b.cols)->tensor,
                    .dc = make(c, "dc", c->compute, b.rows, b.cols)->tensor,
                    .ddt = make(c, "ddt", c->compute, x.rows, op.heads)->tensor,
                    .da_log = make(c, "da_log", FORMAT_FP32, 1, op.heads)->tensor,
                    .dbias = make(c, "dbias", FORMAT_FP32, 1, op.heads)->tensor,
                    .dskip = make(c, "dskip", FORMAT_FP32, 1, op.heads)->tensor,
                    .dout = take(c, "dout", c->compute)->tensor,
                    .states = make(c, NULL, FORMAT_FP32, chunks, states)->tensor,
                    .dstates = make(c, NULL, FORMAT_FP32, chunks, states)->tensor,
                    .sums = make(c, NULL, FORMAT_FP32, chunks, 3 * op.heads)->tensor,
                    .forward = op });
}

static const struct {
    const char *op;
    void (*run)(struct golden_case *c);
} runs[] = {
    { "layernorm", run_layernorm_case }, { "linear", run_linear_case },
    { "rmsnorm", run_rmsnorm_case },     { "rope", run_rope_case },
    { "swiglu", run_swiglu_case },       { "attention", run_attention_case },
    { "embedding", run_embedding_case }, { "classifier", run_classifier_case },
    { "headnorm", run_headnorm_case },   { "activation", run_activation_case },
    { "conv", run_conv_case },           { "decay", run_decay_case },
    { "delta", run_delta_case },         { "scan", run_scan_case },
    { "gated_conv", run_gated_conv },
};

/* ---- The comparison ---- */

static void assert_close(const struct golden_case *c, const char *name, const char *what,
                         double is, double wanted, double of)
{
    if (!(fabs(is - wanted) <= c->relative * of))
        fail_msg("%s (%s, inputs %s): %s of %s is %.9g, but PyTorch has %.9g",
                 json_string_value(json_object_get(c->row, "op")),
                 format_info(c->compute)->name,
                 json_dumps(json_object_get(c->row, "in"), JSON_COMPACT), what, name, is,
                 wanted);
}

static void compare(const struct golden_case *c, const char *name, uint64_t seed,
                    const json_t *wanted, struct operand *is)
{
    const json_t *places = json_object_get(wanted, "at");
    double most = json_number_value(json_object_get(wanted, "most"));
    double norm = json_number_value(json_object_get(wanted, "norm"));
    double squares = 0, sum = 0, largest = 0;

    operand_read(is);
    for (size_t i = 0; i < is->numbers; i++) {
        largest = fmax(largest, fabs(is->real[i]));
        squares += is->real[i] * is->real[i];
        sum += bits(seed, i) & 1 ? is->real[i] : -is->real[i];
    }
    assert_close(c, name, "largest element", largest, most, most);
    assert_close(c, name, "norm", sqrt(squares), norm, norm);
    assert_close(c, name, "signed sum", sum,
                 json_number_value(json_object_get(wanted, "sum")), norm);
    for (size_t i = 0; i < json_array_size(places); i++) {
        size_t at = (size_t)json_integer_value(json_array_get(places, i));
        double value =
            json_number_value(json_array_get(json_object_get(wanted, "is"), i));

        assert_true(at < is->numbers);
        assert_close(c, name, "an element", is->real[at], value, most);
    }
}

/* Every output in the file is one of the case's. */
static void compare_all(struct golden_case *c, size_t index)
{
    uint64_t seed = (index + 1) * 16;
    const char *name;
    json_t *wanted;

    json_object_foreach(json_object_get(c->row, "out"), name, wanted)
    {
        size_t i = 0;

        while (i < c->count && !(c->held[i].name && strcmp(c->held[i].name, name) == 0))
            i++;
        assert_true(i < c->count);
        compare(c, name, seed++, wanted, &c->held[i].operand);
    }
}

static void run_case(struct golden_case *c, size_t index)
{
    const char *op = json_string_value(json_object_get(c->row, "op"));
    size_t i = 0;

    while (i < TS_COUNT(runs) && strcmp(runs[i].op, op) != 0)
        i++;
    if (i == TS_COUNT(runs))
        fail_msg("unknown operation %s", op);
    machine_enter(c->be);
    c->count = 0;
    runs[i].run(c);
    compare_all(c, index);
    for (size_t j = 0; j < c->count; j++)
        operand_clear(&c->held[j].operand);
}

static json_t *read_golden(const char *path)
{
    char *name = unit_source(path);
    struct error err = { 0 };
    json_t *golden = json_read_file(name, (size_t)1 << 20, &err);

    if (golden == NULL)
        fail_msg("%s", err.text);
    free(name);
    return golden;
}

static size_t compare_file(struct machines *machines, const char *path)
{
    json_t *golden = read_golden(path), *row;
    int32_t *ids = machines_memory(2 * TOKENS_MOST * sizeof(*ids));
    size_t index;

    json_array_foreach(json_object_get(golden, "cases"), index, row)
    {
        for (size_t f = 0; f < TS_COUNT(formats); f++)
            for (size_t m = 0; m < machines->count; m++) {
                /* emulated: one machine per case and format, in turn */
                if (machines->slow && m != (index + f) % machines->count)
                    continue;
                run_case(&(struct golden_case) { .row = row,
                                                 .compute = formats[f].format,
                                                 .relative = formats[f].relative,
                                                 .be = machines->backends[m],
                                                 .ids = ids },
                         index);
            }
    }
    machines_memory_free(ids);
    json_decref(golden);
    return index;
}

static void test_operations_match_pytorch(void **state)
{
    assert_true(compare_file(*state, "tests/golden/operators.json") > 40);
}

static void test_losses_match_llamafactory(void **state)
{
    assert_int_equal(compare_file(*state, "tests/golden/token_losses.json"), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations_match_pytorch),
        cmocka_unit_test(test_losses_match_llamafactory),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
