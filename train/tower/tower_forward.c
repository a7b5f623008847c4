/*
 * train/tower/tower_forward.c - from patches or frames to rows of the text model.
 *
 * The residual stream is in fp32.  A block is
 *   x += out(attention(norm 1(x)));  x += down(act(up(norm 2(x))))
 */
#include "config.h"

#include "train/tower/tower_conformer.h"
#include "train/tower/tower_layers.h"

#include <math.h>

static struct tensor buffer(const struct tower_pass *pass, enum tower_buffer which)
{
    return tower_pass_buffer(pass, which);
}

static void activate(const struct tower_pass *pass, enum activation kind, struct tensor x)
{
    pass->be->ops->activation(pass->be,
                              &(struct op_activation) { .out = x, .x = x, .kind = kind });
}

static void encoder_norm(const struct tower_pass *pass, enum tower_layer layer,
                         size_t index, struct tensor delta, struct tensor out)
{
    tower_norm(pass, &(struct tower_norm) { .layer = layer,
                                            .index = index,
                                            .x = buffer(pass, TOWER_X),
                                            .delta = delta,
                                            .out = out,
                                            .rms = pass->config->rms,
                                            .eps = pass->config->eps });
}

static void add_to_x(const struct tower_pass *pass, struct tensor delta)
{
    const struct tensor x = buffer(pass, TOWER_X);

    pass->be->ops->add(pass->be, &(struct op_add) { .out = x, .a = x, .b = delta });
}

/* ---- The input ---- */

static void convolve(const struct tower_pass *pass, enum tower_layer layer,
                     enum tower_buffer taps, struct tensor x, struct tensor y)
{
    struct tensor columns = buffer(pass, TOWER_UNFOLDED);

    columns = tensor_of(columns.data, columns.format, y.rows, 3 * x.cols);
    pass->be->ops->unfold(
        pass->be, &(struct op_unfold) {
                      .out = columns, .x = x, .taps = pass->buffers[taps], .size = 3 });
    tower_linear(pass, layer, 0, columns, y);
    activate(pass, pass->config->activation, y);
}

/* The second convolution halves the frames; its last row may read frames that are not there. */
static void embed_sound(const struct tower_pass *pass)
{
    const struct tensor first = buffer(pass, TOWER_CONVOLVED);
    struct tensor second = buffer(pass, TOWER_H);

    second.rows = (first.rows - 1) / 2 + 1;
    convolve(pass, TOWER_CONV_1, TOWER_TAPS_1, buffer(pass, TOWER_INPUT), first);
    convolve(pass, TOWER_CONV_2, TOWER_TAPS_2, first, second);
    pass->be->ops->add(pass->be,
                       &(struct op_add) { .out = buffer(pass, TOWER_X),
                                          .a = tensor_rows(second, 0, pass->size.rows),
                                          .b = buffer(pass, TOWER_PLACES) });
}

void tower_embed_patches(const struct tower_pass *pass)
{
    const struct tensor x = buffer(pass, TOWER_X), places = buffer(pass, TOWER_PLACES);
    const size_t first = pass->config->family->encoder->has_class;

    tower_linear(pass, TOWER_PATCHES, 0, buffer(pass, TOWER_INPUT),
                 tensor_rows(x, first, x.rows - first));
    if (first > 0)
        pass->be->ops->zero(pass->be,
                            &(struct op_zero) { .out = tensor_rows(x, 0, first) });
    if (places.rows > 0)
        add_to_x(pass, places);
}

/* Return the values of patches, after their norm if there is one. */
static struct tensor patch_values(const struct tower_pass *pass)
{
    const struct tensor values = buffer(pass, TOWER_INPUT);
    const struct tensor normed = buffer(pass, TOWER_INPUT_NORMED);

    if (!normed.data)
        return values;
    tower_norm(pass, &(struct tower_norm) { .layer = TOWER_PATCHES_NORM,
                                            .x = values,
                                            .out = normed,
                                            .eps = pass->config->eps });
    return normed;
}

static void embed_image(const struct tower_pass *pass)
{
    if (pass->config->family->encoder->norm_first) {
        const struct tensor x = buffer(pass, TOWER_X);

        tower_linear(pass, TOWER_PATCHES, 0, patch_values(pass), x);
        encoder_norm(pass, TOWER_FIRST_NORM, 0, (struct tensor) { 0 }, x);
        add_to_x(pass, buffer(pass, TOWER_PLACES));
        return;
    }
    tower_embed_patches(pass);
    if (tower_config_has(pass->config, TOWER_FIRST_NORM))
        encoder_norm(pass, TOWER_FIRST_NORM, 0, (struct tensor) { 0 },
                     buffer(pass, TOWER_X));
}

static void zero(const struct tower_pass *pass, struct tensor x)
{
    if (x.rows > 0)
        pass->be->ops->zero(pass->be, &(struct op_zero) { .out = x });
}

/* The tiles of the image, then what is not of it: the padding of all tiles, whose rows start
 * as zeros, and the tiles after those of the image, which have no pixels. */
void tower_embed_tiles(const struct tower_pass *pass)
{
    const struct tower_config *c = pass->config;
    const struct tensor x = buffer(pass, TOWER_X), patches = buffer(pass, TOWER_INPUT);
    const size_t of_tile = c->tile_rows - 1;

    zero(pass, x);
    for (size_t t = 0; t * c->tile_rows < pass->size.read; t++)
        tower_linear(pass, TOWER_PATCHES, 0, tensor_rows(patches, t * of_tile, of_tile),
                     tensor_rows(x, t * c->tile_rows + 1, of_tile));
    add_to_x(pass, buffer(pass, TOWER_PLACES));
}

static void embed_tiles(const struct tower_pass *pass)
{
    const struct tower_config *c = pass->config;
    const struct tensor x = buffer(pass, TOWER_X);

    tower_embed_tiles(pass);
    encoder_norm(pass, TOWER_FIRST_NORM, 0, (struct tensor) { 0 }, x);
    zero(pass, tensor_rows(x, pass->size.read, c->tiles * c->tile_padding));
}

/* ---- A block ---- */

size_t tower_attention_parts(const struct tower_pass *pass)
{
    return pass->config->tiles > 0 && pass->size.rows > pass->size.read ? 2 : 1;
}

/* The rows of the image see all rows; the others, in part 1, see only those of the image
 * (_prepare_aspect_ratio_attention_mask). */
static void choose_part(const struct tower_pass *pass, size_t part,
                        struct op_attention *op)
{
    const size_t of_image = pass->size.read, all = pass->size.rows;
    const size_t first = part * of_image, rows = part ? all - of_image : of_image;
    const size_t keys = part ? of_image : all;

    op->q = tensor_rows(op->q, first, rows);
    op->out = tensor_rows(op->out, first, rows);
    op->k = tensor_rows(op->k, 0, keys);
    op->v = tensor_rows(op->v, 0, keys);
    op->lse = tensor_of((float *)op->lse.data + op->heads * first, FORMAT_FP32, op->heads,
                        rows);
    op->offsets = pass->buffers[part ? TOWER_OTHER_OFFSETS : TOWER_WINDOW_OFFSETS];
    op->key_offsets = pass->buffers[part ? TOWER_WINDOW_OFFSETS : TOWER_OFFSETS];
    op->reach = op->since = NULL;
    op->longest = rows;
}

struct op_attention tower_attention(const struct tower_pass *pass, size_t block,
                                    size_t part, struct tensor out)
{
    const struct tower_config *c = pass->config;
    struct op_attention op;
    const struct tensor heads = buffer(pass, TOWER_HEADS);
    const bool windows = pass->size.windows > 0 && !c->whole[block];

    op = (struct op_attention) {
        .out = out,
        .lse = buffer(pass, TOWER_LSE),
        .q = tensor_columns(heads, 0, c->width),
        .k = tensor_columns(heads, c->width, c->width),
        .v = tensor_columns(heads, 2 * c->width, c->width),
        .offsets = pass->buffers[windows ? TOWER_WINDOW_OFFSETS : TOWER_OFFSETS],
        .reach = pass->buffers[windows ? TOWER_WINDOW_REACH : TOWER_REACH],
        .since = pass->buffers[windows ? TOWER_WINDOW_SINCE : TOWER_SINCE],
        .sequences = windows ? pass->size.windows : 1,
        .heads = c->heads,
        .kv_heads = c->heads,
        .head_size = c->head_size,
        .longest = pass->size.rows,
        .distances = { pass->buffers[TOWER_DISTANCE_TABLE], c->distances },
        .scale = (float)(1 / sqrt((double)c->head_size)),
    };
    if (c->tiles > 0)
        choose_part(pass, part, &op);
    return op;
}

void tower_turn(const struct tower_pass *pass, struct tensor heads, bool inverse)
{
    const struct tower_config *c = pass->config;

    if (c->family->encoder->rope)
        pass->be->ops->rope(
            pass->be, &(struct op_rope) { .x = tensor_columns(heads, 0, 2 * c->width),
                                          .table = buffer(pass, TOWER_ANGLES),
                                          .positions = pass->buffers[TOWER_ANGLE_ROWS],
                                          .heads = 2 * c->heads,
                                          .interleaved = c->family->encoder->rope ==
                                                         TOWER_ROPE_PAIRS,
                                          .inverse = inverse });
}

void tower_attend(const struct tower_pass *pass, size_t block, struct tensor h,
                  struct tensor out)
{
    const struct tensor heads = buffer(pass, TOWER_HEADS);

    tower_linear(pass, TOWER_QKV, block, h, heads);
    if (tower_config_has(pass->config, TOWER_QK_NORM))
        tower_norm_heads(pass, block, heads);
    tower_turn(pass, heads, false);
    for (size_t i = 0; i < tower_attention_parts(pass); i++) {
        const struct op_attention attention = tower_attention(pass, block, i, out);

        pass->be->ops->attention(pass->be, &attention);
    }
}

/* Keep the residual stream after `done` blocks for the backward pass. */
static void keep_x(const struct tower_pass *pass, size_t done)
{
    if (pass->size.trains)
        pass->be->ops->convert(pass->be,
                               &(struct op_convert) { .out = tower_kept(pass, done),
                                                      .x = buffer(pass, TOWER_X) });
}

static void feed_forward(const struct tower_pass *pass, size_t block, struct tensor h,
                         struct tensor out)
{
    const struct tower_config *c = pass->config;
    const struct tensor inner = buffer(pass, TOWER_INNER);
    struct tensor gated = buffer(pass, TOWER_GATED);

    tower_linear(pass, TOWER_UP, block, h, inner);
    if (!c->family->encoder->gated) {
        activate(pass, c->activation, inner);
        gated = inner;
    } else {
        pass->be->ops->swiglu(
            pass->be,
            &(struct op_swiglu) { .out = gated,
                                  .gate = tensor_columns(inner, 0, c->inner),
                                  .up = tensor_columns(inner, c->inner, c->inner),
                                  .kind = c->activation });
    }
    tower_linear(pass, TOWER_DOWN, block, gated, out);
}

/* delta: what the block before has not added yet. */
static void run_block(const struct tower_pass *pass, size_t block, struct tensor delta)
{
    const struct tensor h = tensor_rows(buffer(pass, TOWER_H), 0, pass->size.rows);
    const struct tensor next = buffer(pass, TOWER_DELTA);

    encoder_norm(pass, TOWER_NORM_1, block, delta, h);
    keep_x(pass, block);
    tower_attend(pass, block, h, h);
    tower_linear(pass, TOWER_ATTENTION_OUT, block, h, next);
    tower_gate(pass, TOWER_ATTENTION_GATE, block, next);
    encoder_norm(pass, TOWER_NORM_2, block, next, h);
    feed_forward(pass, block, h, next);
    tower_gate(pass, TOWER_DOWN_GATE, block, next);
}

/* ---- The output ---- */

/* The output of `done` layers, if the projector reads it. */
static void keep_chosen(const struct tower_pass *pass, size_t done)
{
    const struct tower_config *c = pass->config;
    const struct tensor x = buffer(pass, TOWER_X), read = buffer(pass, TOWER_READ);

    for (size_t i = 0; i < c->chosen; i++)
        if (c->chosen_at[i] == done)
            pass->be->ops->convert(
                pass->be, &(struct op_convert) {
                              .out = tensor_columns(read, i * c->width, c->width),
                              .x = tensor_rows(x, c->drops_class, read.rows) });
}

/* The norm of DeepStack is that of a whole row: of `group` rows of x.  The mergers need not be
 * in the order of the layers, but their rows are. */
static void keep_deep(const struct tower_pass *pass, size_t done)
{
    const struct tower_config *c = pass->config;
    const struct tensor x = tower_joined(buffer(pass, TOWER_X), c->group);
    const struct tensor h = tower_joined(buffer(pass, TOWER_H), c->group);
    struct tensor middle = buffer(pass, TOWER_MIDDLE);
    size_t earlier = 0;

    middle = tensor_of(middle.data, middle.format, h.rows, h.cols);
    for (size_t i = 0; i < c->deep; i++)
        earlier += c->deep_after[i] < done;
    for (size_t i = 0; i < c->deep; i++) {
        if (c->deep_after[i] != done)
            continue;
        tower_norm(
            pass,
            &(struct tower_norm) {
                .layer = TOWER_DEEP_NORM, .index = i, .x = x, .out = h, .eps = c->eps });
        tower_linear(pass, TOWER_DEEP_1, i, h, middle);
        activate(pass, ACTIVATION_GELU, middle);
        tower_linear(pass, TOWER_DEEP_2, i, middle,
                     tensor_rows(buffer(pass, TOWER_STACKED), earlier * h.rows, h.rows));
    }
}

static bool is_kept(const struct tower_config *c, size_t done)
{
    for (size_t i = 0; i < c->chosen; i++)
        if (c->chosen_at[i] == done)
            return true;
    for (size_t i = 0; i < c->deep; i++)
        if (c->deep_after[i] == done)
            return true;
    return done == c->run || done == c->local;
}

static void pool(const struct tower_pass *pass, struct tensor x, struct tensor out)
{
    pass->be->ops->pool_rows(
        pass->be,
        &(struct op_pool_rows) { .out = out, .x = x, .group = pass->config->group });
}

static void last_norm(const struct tower_pass *pass, struct tensor x, struct tensor out)
{
    tower_norm(pass, &(struct tower_norm) { .layer = TOWER_LAST_NORM,
                                            .x = x,
                                            .out = out,
                                            .rms = pass->config->family->encoder->rms,
                                            .eps = pass->config->eps });
}

/* Rows that become one follow each other already. */
static void join(const struct tower_pass *pass, struct tensor x, struct tensor out)
{
    const struct tensor rows = tensor_rows(x, x.rows - out.rows, out.rows);

    if (tower_config_has(pass->config, TOWER_LAST_NORM))
        last_norm(pass, rows, out);
    else
        pass->be->ops->convert(pass->be, &(struct op_convert) { .out = out, .x = rows });
}

/* x has the outputs of all layers; the chosen ones of them are kept already. */
static void make_rows(const struct tower_pass *pass)
{
    const struct tensor x = buffer(pass, TOWER_X), read = buffer(pass, TOWER_READ);
    const struct tensor h = tensor_rows(buffer(pass, TOWER_H), 0, x.rows);
    struct tensor means = buffer(pass, TOWER_PLACES);

    switch (pass->config->family->rows) {
    case TOWER_ROWS_PAIRS:
        means.rows = read.rows;
        pool(pass, x, means);
        last_norm(pass, means, read);
        break;
    case TOWER_ROWS_JOINED: /* x itself, unless that has a norm or a class */
        if (read.data)
            join(pass, x, tower_parted(read, x.cols));
        break;
    case TOWER_ROWS_POOLED:
        last_norm(pass, x, h);
        pool(pass, h, read);
        break;
    case TOWER_ROWS_SAME: /* of a Conformer */
    case TOWER_ROWS_CHOSEN:
    case TOWER_ROWS_TILES:
        break;
    }
}

/* What is between the layers within tiles and the global ones. */
static void start_global(const struct tower_pass *pass)
{
    const struct tensor x = buffer(pass, TOWER_X);

    keep_x(pass, pass->config->run + 1);
    last_norm(pass, x, x);
    add_to_x(pass, buffer(pass, TOWER_PLACES_LAST));
}

bool tower_forward(const struct tower_pass *pass)
{
    const struct tower_config *c = pass->config;
    struct tensor delta = { 0 };

    if (c->family->encoder->conformer)
        return conformer_forward(pass);
    if (c->family->encoder->sound)
        embed_sound(pass);
    else if (c->tiles > 0)
        embed_tiles(pass);
    else
        embed_image(pass);
    keep_chosen(pass, 0);
    for (size_t i = 0; i < c->run; i++) {
        if (!heartbeat_tick(pass->heartbeat))
            return false;
        run_block(pass, i, delta);
        delta = buffer(pass, TOWER_DELTA);
        if (!is_kept(c, i + 1))
            continue;
        add_to_x(pass, delta);
        delta = (struct tensor) { 0 };
        keep_chosen(pass, i + 1);
        keep_deep(pass, i + 1);
        if (c->tiles > 0 && i + 1 == c->local)
            start_global(pass);
    }
    keep_x(pass, c->run);
    make_rows(pass);
    return true;
}

struct tensor tower_rows_read(const struct tower_pass *pass)
{
    const struct tensor read = buffer(pass, TOWER_READ);

    return read.data ? read : tower_joined(buffer(pass, TOWER_X), pass->config->group);
}

/* The norm of the projector is that of each row of the encoder, or of those side by side. */
static struct tensor normed(const struct tower_pass *pass, struct tensor rows)
{
    const struct tower_config *c = pass->config;
    const size_t each = c->family->norm_joined ? 1 : rows.cols / c->width;
    const struct tensor x = tower_parted(rows, rows.cols / each);
    struct tensor h = buffer(pass, TOWER_H);

    if (!tower_config_has(c, TOWER_PROJECTOR_NORM))
        return rows;
    h = tensor_of(h.data, h.format, x.rows, x.cols);
    tower_norm(pass, &(struct tower_norm) { .layer = TOWER_PROJECTOR_NORM,
                                            .x = x,
                                            .out = h,
                                            .rms = c->family->rms_projector,
                                            .eps = c->projector_eps,
                                            .offset = c->family->norm_offset });
    return tower_joined(h, each);
}

/* The middle of GLM-4V's projector: a norm, an activation, and a gated layer.  The norm reads
 * fp32. */
static struct tensor expand(const struct tower_pass *pass, struct tensor middle)
{
    const struct tower_config *c = pass->config;
    const struct tensor inner = buffer(pass, TOWER_EXPANDED);
    const struct tensor gated = buffer(pass, TOWER_EXPANDED_GATED);
    const struct tensor wide = buffer(pass, TOWER_MIDDLE_WIDE);

    pass->be->ops->convert(pass->be, &(struct op_convert) { .out = wide, .x = middle });
    tower_norm(pass, &(struct tower_norm) { .layer = TOWER_PROJECTOR_NORM_2,
                                            .x = wide,
                                            .out = middle,
                                            .eps = c->projector_eps });
    activate(pass, c->projector_activation, middle);
    tower_linear(pass, TOWER_PROJECTOR_UP, 0, middle, inner);
    pass->be->ops->swiglu(
        pass->be,
        &(struct op_swiglu) { .out = gated,
                              .gate = tensor_columns(inner, 0, c->expanded),
                              .up = tensor_columns(inner, c->expanded, c->expanded),
                              .kind = c->activation });
    return gated;
}

static struct tensor merge(const struct tower_pass *pass, struct tensor x)
{
    const struct tower_config *c = pass->config;
    const struct tensor merged = buffer(pass, TOWER_MERGED);

    if (!tower_config_has(c, TOWER_PROJECTOR_MERGE))
        return x;
    tower_linear(pass, TOWER_PROJECTOR_MERGE, 0, x, merged);
    if (c->family->merge_adapts)
        activate(pass, c->projector_activation, merged);
    return merged;
}

/* The first of two layers, and what follows it. */
static struct tensor adapt(const struct tower_pass *pass, struct tensor x)
{
    const struct tower_config *c = pass->config;
    struct tensor middle = buffer(pass, TOWER_MIDDLE);

    middle = tensor_of(middle.data, middle.format, x.rows, c->middle);
    tower_linear(pass, TOWER_PROJECTOR_1, 0, x, middle);
    if (tower_config_has(c, TOWER_PROJECTOR_UP))
        return expand(pass, middle);
    activate(pass, c->projector_activation, middle);
    return middle;
}

struct tensor tower_encoded(const struct tower_pass *pass)
{
    const struct tower_family *family = pass->config->family;
    const struct tensor x = tower_rows_read(pass);

    if (tower_family_projects(family, TOWER_PROJECTOR_MERGE))
        return x;
    return tower_family_projects(family, TOWER_PROJECTOR_1) ? merge(pass, x)
                                                            : adapt(pass, merge(pass, x));
}

struct tensor tower_project(const struct tower_pass *pass)
{
    const struct tensor x = merge(pass, normed(pass, tower_rows_read(pass)));
    const struct tensor out = buffer(pass, TOWER_PROJECTED);

    if (tower_config_has(pass->config, TOWER_PROJECTOR_2))
        tower_linear(pass, TOWER_PROJECTOR_2, 0, adapt(pass, x), out);
    else
        tower_linear(pass, TOWER_PROJECTOR_1, 0, x, out);
    return out;
}
