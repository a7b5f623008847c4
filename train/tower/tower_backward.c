/*
 * train/tower/tower_backward.c - from the gradients of the rows that a projector reads to those
 * of an encoder's parameters.
 *
 * The forward pass has kept the residual stream before each block; what a block computes from
 * it is computed again.  TOWER_DX, in fp32, is the gradient of the residual stream.
 */
#include "config.h"

#include "train/tower/tower_layers.h"

static struct tensor buffer(const struct tower_pass *pass, enum tower_buffer which)
{
    return tower_pass_buffer(pass, which);
}

static struct tensor rows_of(const struct tower_pass *pass, enum tower_buffer which)
{
    return tensor_rows(buffer(pass, which), 0, pass->size.rows);
}

static void zero(const struct tower_pass *pass, struct tensor out)
{
    pass->be->ops->zero(pass->be, &(struct op_zero) { .out = out });
}

static void copy(const struct tower_pass *pass, struct tensor x, struct tensor out)
{
    pass->be->ops->convert(pass->be, &(struct op_convert) { .out = out, .x = x });
}

/* Return TOWER_DX in the format of matmuls. */
static struct tensor dout_of(const struct tower_pass *pass)
{
    const struct tensor out = buffer(pass, TOWER_DOUT);

    copy(pass, buffer(pass, TOWER_DX), out);
    return out;
}

static struct tower_norm norm_of(const struct tower_pass *pass, enum tower_layer layer,
                                 size_t index, struct tensor x, struct tensor out)
{
    return (struct tower_norm) {
        .layer = layer,
        .index = index,
        .x = x,
        .out = out,
        .rms = pass->config->family->encoder->rms,
        .eps = pass->config->eps,
    };
}

/* ---- A block ---- */

/* Return the gradient of the output of a layer, before its gate if it has one; x: its input. */
static struct tensor output_gradient(const struct tower_pass *pass,
                                     enum tower_layer layer, size_t block,
                                     struct tensor x)
{
    const enum tower_layer gate =
        layer == TOWER_DOWN ? TOWER_DOWN_GATE : TOWER_ATTENTION_GATE;
    const struct tensor out = buffer(pass, TOWER_DELTA), dout = buffer(pass, TOWER_DOUT);

    if (!tower_has_gate(pass, gate, block))
        return dout_of(pass);
    tower_linear(pass, layer, block, x, out);
    tower_gate_backward(pass, gate, block, out, buffer(pass, TOWER_DX), dout);
    return dout;
}

/* The same of the last layer, whose input is computed again; h: the rows after the second
 * norm.  No layer of an encoder with gates is gated otherwise. */
static struct tensor down_gradient(const struct tower_pass *pass, size_t block,
                                   struct tensor h)
{
    const struct tensor inner = buffer(pass, TOWER_INNER);
    const struct tensor active = buffer(pass, TOWER_GATED);

    if (tower_has_gate(pass, TOWER_DOWN_GATE, block)) {
        tower_linear(pass, TOWER_UP, block, h, inner);
        pass->be->ops->activation(
            pass->be, &(struct op_activation) {
                          .out = active, .x = inner, .kind = pass->config->activation });
    }
    return output_gradient(pass, TOWER_DOWN, block, active);
}

/* h: the rows after the second norm.  Return their gradient. */
static struct tensor feed_forward_backward(const struct tower_pass *pass, size_t block,
                                           struct tensor h, struct tensor dout)
{
    const struct tower_config *c = pass->config;
    const struct tensor inner = buffer(pass, TOWER_INNER);
    const struct tensor gated = buffer(pass, TOWER_GATED); /* first its gradient */
    const struct tensor dh = buffer(pass, TOWER_DELTA);

    tower_linear(pass, TOWER_UP, block, h, inner);
    tower_input_gradient(pass, TOWER_DOWN, block, dout, gated);
    if (c->family->encoder->gated) {
        const struct tensor gate = tensor_columns(inner, 0, c->inner);
        const struct tensor up = tensor_columns(inner, c->inner, c->inner);

        pass->be->ops->swiglu_backward(
            pass->be, &(struct op_swiglu_backward) { .dgate = gate,
                                                     .dup = up,
                                                     .out = gated,
                                                     .dout = gated,
                                                     .gate = gate,
                                                     .up = up,
                                                     .kind = c->activation });
    } else {
        pass->be->ops->activation_backward(
            pass->be, &(struct op_activation_backward) { .dx = inner,
                                                         .out = gated,
                                                         .dout = gated,
                                                         .x = inner,
                                                         .kind = c->activation });
    }
    tower_weight_gradient(pass, TOWER_DOWN, block, gated, dout);
    tower_weight_gradient(pass, TOWER_UP, block, h, inner);
    tower_input_gradient(pass, TOWER_UP, block, inner, dh);
    return dh;
}

/* The keys and values of the image's rows have gradients of both parts. */
static void attend_backward(const struct tower_pass *pass, size_t block,
                            struct tensor dout, struct tensor dheads)
{
    const size_t width = pass->config->width;
    const struct tensor more = buffer(pass, TOWER_DKEYS);
    const struct tensor dkeys = tensor_columns(dheads, width, 2 * width);
    struct tensor delta = buffer(pass, TOWER_DATTENTION);
    size_t first = 0;

    for (size_t part = 0; part < tower_attention_parts(pass); part++) {
        const struct op_attention forward =
            tower_attention(pass, block, part, buffer(pass, TOWER_ATTENDED));
        const struct tensor dkv = part ? more : tensor_rows(dkeys, 0, forward.k.rows);

        delta = tensor_of(delta.data, delta.format, delta.rows, forward.q.rows);
        pass->be->ops->attention_backward(
            pass->be, &(struct op_attention_backward) {
                          .dq = tensor_rows(tensor_columns(dheads, 0, width), first,
                                            forward.q.rows),
                          .dk = tensor_columns(dkv, 0, width),
                          .dv = tensor_columns(dkv, width, width),
                          .delta = delta,
                          .dout = tensor_rows(dout, first, forward.q.rows),
                          .forward = forward });
        first += forward.q.rows;
    }
    if (tower_attention_parts(pass) > 1) {
        const struct tensor dkv = tensor_rows(dkeys, 0, more.rows);

        pass->be->ops->add(pass->be,
                           &(struct op_add) { .out = dkv, .a = dkv, .b = more });
    }
}

/* h: the rows after the first norm.  Return their gradient. */
static struct tensor attention_backward(const struct tower_pass *pass, size_t block,
                                        struct tensor h, struct tensor dout)
{
    const struct tensor attended = buffer(pass, TOWER_ATTENDED);
    const struct tensor dheads = buffer(pass, TOWER_DHEADS);
    const struct tensor dh = buffer(pass, TOWER_DELTA);

    tower_weight_gradient(pass, TOWER_ATTENTION_OUT, block, attended, dout);
    tower_input_gradient(pass, TOWER_ATTENTION_OUT, block, dout, dh);
    attend_backward(pass, block, dh, dheads);
    tower_turn(pass, dheads, true);
    tower_weight_gradient(pass, TOWER_QKV, block, h, dheads);
    tower_input_gradient(pass, TOWER_QKV, block, dheads, dh);
    return dh;
}

static void block_backward(const struct tower_pass *pass, size_t block)
{
    const struct tensor h = rows_of(pass, TOWER_H), dx = buffer(pass, TOWER_DX);
    const struct tower_norm first =
        norm_of(pass, TOWER_NORM_1, block, tower_kept(pass, block), h);
    struct tower_norm second =
        norm_of(pass, TOWER_NORM_2, block, first.x, buffer(pass, TOWER_NORMED));
    struct tensor dout;

    second.second = true;
    second.sum = buffer(pass, TOWER_X);
    second.delta = buffer(pass, TOWER_DELTA);
    tower_norm(pass, &first);
    tower_attend(pass, block, h, buffer(pass, TOWER_ATTENDED));
    tower_linear(pass, TOWER_ATTENTION_OUT, block, buffer(pass, TOWER_ATTENDED),
                 second.delta);
    tower_gate(pass, TOWER_ATTENTION_GATE, block, second.delta);
    tower_norm(pass, &second);
    dout = down_gradient(pass, block, second.out);
    tower_norm_backward(pass, &second,
                        feed_forward_backward(pass, block, second.out, dout), dx);
    dout =
        output_gradient(pass, TOWER_ATTENTION_OUT, block, buffer(pass, TOWER_ATTENDED));
    tower_norm_backward(pass, &first, attention_backward(pass, block, h, dout), dx);
}

/* ---- The output ---- */

/* TOWER_DX = the gradient of the output of all blocks, but for what is chosen of it. */
static void rows_backward(const struct tower_pass *pass)
{
    const struct tower_config *c = pass->config;
    const struct tensor dx = buffer(pass, TOWER_DX), dread = buffer(pass, TOWER_DREAD);
    const struct tensor h = rows_of(pass, TOWER_H), dh = buffer(pass, TOWER_DELTA);
    const struct tensor each = tensor_of(dread.data, dread.format, dx.rows, dx.cols);
    struct tensor means = tensor_rows(buffer(pass, TOWER_X), 0, dread.rows);
    struct tensor x = tower_kept(pass, c->run);
    struct tower_norm last = norm_of(pass, TOWER_LAST_NORM, 0, x, h);

    zero(pass, dx);
    switch (c->family->rows) {
    case TOWER_ROWS_PAIRS:
        last.x = buffer(pass, TOWER_PLACES);
        last.x.rows = last.out.rows = dread.rows;
        pass->be->ops->pool_rows(
            pass->be,
            &(struct op_pool_rows) { .out = last.x, .x = x, .group = c->group });
        tower_norm(pass, &last);
        zero(pass, means);
        tower_norm_backward(pass, &last, dread, means);
        pass->be->ops->pool_rows_backward(
            pass->be, &(struct op_pool_rows_backward) {
                          .dx = dx, .dout = means, .group = c->group });
        break;
    case TOWER_ROWS_JOINED:
        if (!tower_config_has(c, TOWER_LAST_NORM)) {
            copy(pass, each, dx);
            break;
        }
        tower_norm(pass, &last);
        tower_norm_backward(pass, &last, each, dx);
        break;
    case TOWER_ROWS_POOLED:
        pass->be->ops->pool_rows_backward(
            pass->be, &(struct op_pool_rows_backward) {
                          .dx = dh, .dout = dread, .group = c->group });
        tower_norm(pass, &last);
        tower_norm_backward(pass, &last, dh, dx);
        break;
    case TOWER_ROWS_SAME: /* of a Conformer, which is not trained */
    case TOWER_ROWS_CHOSEN:
    case TOWER_ROWS_TILES:
        break;
    }
}

/* TOWER_DX += the gradient of the output of `done` blocks, if the projector reads it. */
static void chosen_backward(const struct tower_pass *pass, size_t done)
{
    const struct tower_config *c = pass->config;
    const struct tensor dread = buffer(pass, TOWER_DREAD);
    const struct tensor dx =
        tensor_rows(buffer(pass, TOWER_DX), c->drops_class, dread.rows);

    for (size_t i = 0; i < c->chosen; i++)
        if (c->chosen_at[i] == done)
            pass->be->ops->add(
                pass->be,
                &(struct op_add) { .out = dx,
                                   .a = dx,
                                   .b = tensor_columns(dread, i * c->width, c->width) });
}

/* The same for the merger of DeepStack `index`, whose rows follow those of `earlier` others. */
static void merger_backward(const struct tower_pass *pass, size_t index, size_t earlier)
{
    const struct tower_config *c = pass->config;
    const struct tensor h = tower_joined(rows_of(pass, TOWER_H), c->group);
    const struct tensor dh = tower_joined(buffer(pass, TOWER_DELTA), c->group);
    const struct tensor dout =
        tensor_rows(buffer(pass, TOWER_DSTACKED), earlier * h.rows, h.rows);
    const struct tensor active = buffer(pass, TOWER_DMIDDLE); /* first its gradient */
    struct tensor middle = buffer(pass, TOWER_MIDDLE);
    struct tower_norm norm =
        norm_of(pass, TOWER_DEEP_NORM, index,
                tower_joined(tower_kept(pass, c->deep_after[index]), c->group), h);

    norm.rms = false;
    middle = tensor_of(middle.data, middle.format, h.rows, h.cols);
    tower_norm(pass, &norm);
    tower_linear(pass, TOWER_DEEP_1, index, h, middle);
    tower_input_gradient(pass, TOWER_DEEP_2, index, dout, active);
    pass->be->ops->activation_backward(
        pass->be, &(struct op_activation_backward) { .dx = middle,
                                                     .out = active,
                                                     .dout = active,
                                                     .x = middle,
                                                     .kind = ACTIVATION_GELU });
    tower_weight_gradient(pass, TOWER_DEEP_2, index, active, dout);
    tower_weight_gradient(pass, TOWER_DEEP_1, index, h, middle);
    tower_input_gradient(pass, TOWER_DEEP_1, index, middle, dh);
    tower_norm_backward(pass, &norm, dh, tower_joined(buffer(pass, TOWER_DX), c->group));
}

static void deep_backward(const struct tower_pass *pass, size_t done)
{
    const struct tower_config *c = pass->config;
    size_t earlier = 0;

    for (size_t i = 0; i < c->deep; i++)
        earlier += c->deep_after[i] < done;
    for (size_t i = 0; i < c->deep; i++)
        if (c->deep_after[i] == done)
            merger_backward(pass, i, earlier);
}

/* ---- The input ---- */

static struct tensor unfolded(const struct tower_pass *pass, enum tower_buffer taps,
                              struct tensor x, size_t rows)
{
    struct tensor columns = buffer(pass, TOWER_UNFOLDED);

    columns = tensor_of(columns.data, columns.format, rows, 3 * x.cols);
    pass->be->ops->unfold(
        pass->be, &(struct op_unfold) {
                      .out = columns, .x = x, .taps = pass->buffers[taps], .size = 3 });
    return columns;
}

/* dx = dout * act'(x), over dout */
static void activation_backward(const struct tower_pass *pass, struct tensor x,
                                struct tensor dout)
{
    pass->be->ops->activation_backward(
        pass->be,
        &(struct op_activation_backward) {
            .dx = dout, .dout = dout, .x = x, .kind = pass->config->activation });
}

/* Rows have the learned positions from the first on. */
static void sound_places_backward(const struct tower_pass *pass)
{
    const struct tensor dx = buffer(pass, TOWER_DX);
    struct tensor dtable = tower_gradient_of(pass, TOWER_POSITIONS, 0, false);

    if (!dtable.data)
        return;
    dtable = tensor_rows(dtable, 0, dx.rows);
    pass->be->ops->add(pass->be,
                       &(struct op_add) { .out = dtable, .a = dtable, .b = dx });
}

static void sound_backward(const struct tower_pass *pass)
{
    const struct tensor in = buffer(pass, TOWER_INPUT);
    const struct tensor first = buffer(pass, TOWER_CONV_X);
    const struct tensor second = buffer(pass, TOWER_CONV_X_2);
    const struct tensor middle = buffer(pass, TOWER_CONVOLVED);
    struct tensor dsecond = buffer(pass, TOWER_H), columns;

    dsecond.rows = second.rows;
    columns = unfolded(pass, TOWER_TAPS_1, in, first.rows);
    tower_linear(pass, TOWER_CONV_1, 0, columns, first);
    pass->be->ops->activation(
        pass->be, &(struct op_activation) {
                      .out = middle, .x = first, .kind = pass->config->activation });
    columns = unfolded(pass, TOWER_TAPS_2, middle, second.rows);
    tower_linear(pass, TOWER_CONV_2, 0, columns, second);

    sound_places_backward(pass);
    zero(pass, dsecond);
    copy(pass, buffer(pass, TOWER_DX), tensor_rows(dsecond, 0, pass->size.rows));
    activation_backward(pass, second, dsecond);
    tower_weight_gradient(pass, TOWER_CONV_2, 0, columns, dsecond);
    tower_input_gradient(pass, TOWER_CONV_2, 0, dsecond, columns);
    pass->be->ops->unfold_backward(
        pass->be, &(struct op_unfold_backward) { .dx = middle,
                                                 .dout = columns,
                                                 .uses = pass->buffers[TOWER_TAPS_USED],
                                                 .size = 3,
                                                 .most = TOWER_USES });
    activation_backward(pass, first, middle);
    tower_weight_gradient(pass, TOWER_CONV_1, 0,
                          unfolded(pass, TOWER_TAPS_1, in, first.rows), middle);
}

/* Interpolated positions are a matmul of their weights and the table. */
static void places_backward(const struct tower_pass *pass)
{
    const struct tensor dx = buffer(pass, TOWER_DX);
    const struct tensor dtable = tower_gradient_of(pass, TOWER_POSITIONS, 0, false);
    const struct tensor dclass = tower_gradient_of(pass, TOWER_CLASS, 0, false);

    if (dclass.data)
        pass->be->ops->sum_rows(
            pass->be,
            &(struct op_sum_rows) { .out = dclass, .x = tensor_rows(dx, 0, 1) });
    if (!dtable.data)
        return;
    if (pass->config->family->encoder->interpolated)
        pass->be->ops->matmul(
            pass->be, &(struct op_matmul) { .out = dtable,
                                            .a = buffer(pass, TOWER_PLACE_WEIGHTS),
                                            .b = dx,
                                            .trans_a = true,
                                            .alpha = 1,
                                            .beta = 1 });
    else
        pass->be->ops->embedding_backward(
            pass->be, &(struct op_embedding_backward) {
                          .dtable = dtable,
                          .dout = dx,
                          .tokens = pass->buffers[TOWER_PLACE_ROWS] });
}

/* Back through a norm that is computed again: TOWER_DX, from its output to its input. */
static void norm_again(const struct tower_pass *pass, enum tower_layer layer,
                       struct tensor x)
{
    const struct tower_norm norm = norm_of(pass, layer, 0, x, rows_of(pass, TOWER_H));
    const struct tensor dx = buffer(pass, TOWER_DX);
    struct tensor dout;

    tower_norm(pass, &norm);
    dout = dout_of(pass);
    zero(pass, dx);
    tower_norm_backward(pass, &norm, dout, dx);
}

static void image_backward(const struct tower_pass *pass)
{
    const size_t first = pass->config->family->encoder->has_class;
    struct tensor dout;

    if (tower_config_has(pass->config, TOWER_FIRST_NORM)) {
        tower_embed_patches(pass);
        norm_again(pass, TOWER_FIRST_NORM, buffer(pass, TOWER_X));
    }
    places_backward(pass);
    dout = dout_of(pass);
    tower_weight_gradient(pass, TOWER_PATCHES, 0, buffer(pass, TOWER_INPUT),
                          tensor_rows(dout, first, dout.rows - first));
}

/* ---- Tiles ---- */

/* What is between the layers within tiles and the global ones. */
static bool global_backward(const struct tower_pass *pass)
{
    if (pass->gradients && !tower_tiles_backward_last(pass))
        return false;
    norm_again(pass, TOWER_LAST_NORM, tower_kept(pass, pass->config->run + 1));
    return true;
}

/* The rows of padding are zeros whatever they were. */
static bool tiles_backward(const struct tower_pass *pass)
{
    const struct tower_config *c = pass->config;
    const struct tensor patches = buffer(pass, TOWER_INPUT);
    const size_t of_tile = c->tile_rows - 1, padding = c->tiles * c->tile_padding;
    struct tensor dout;

    if (padding > 0)
        zero(pass, tensor_rows(buffer(pass, TOWER_DX), pass->size.read, padding));
    tower_embed_tiles(pass);
    norm_again(pass, TOWER_FIRST_NORM, buffer(pass, TOWER_X));
    if (!tower_tiles_backward(pass))
        return false;
    dout = dout_of(pass);
    for (size_t t = 0; t * c->tile_rows < pass->size.read; t++)
        tower_weight_gradient(pass, TOWER_PATCHES, 0,
                              tensor_rows(patches, t * of_tile, of_tile),
                              tensor_rows(dout, t * c->tile_rows + 1, of_tile));
    return true;
}

bool tower_backward_pass(const struct tower_pass *pass)
{
    const struct tower_config *c = pass->config;

    rows_backward(pass);
    for (size_t done = c->run; done > 0; done--) {
        if (!heartbeat_tick(pass->heartbeat))
            return false;
        if (c->tiles > 0 && done == c->local && !global_backward(pass))
            return false;
        chosen_backward(pass, done);
        deep_backward(pass, done);
        block_backward(pass, done - 1);
    }
    chosen_backward(pass, 0);
    if (!pass->gradients) /* adapters are in blocks */
        return true;
    if (c->tiles > 0)
        return tiles_backward(pass);
    if (c->family->encoder->sound)
        sound_backward(pass);
    else
        image_backward(pass);
    return true;
}
