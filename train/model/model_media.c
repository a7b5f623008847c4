/* train/model/model_media.c - rows of features in place of the embeddings of media tokens;
 * model_media.h says more. */
#include "config.h"

#include "train/model/model_media.h"

#include <string.h>

#include <assert.h>
#include <stdlib.h>

#include "base/size.h"
#include "kernels/reach.h"
#include "train/model/model_cross.h"
#include "train/model/model_internal.h"
#include "train/model/model_stored.h"
#include "train/model/mrope.h"

struct media_state {
    struct model_media source;
    size_t rows;      /* that memory was planned for */
    size_t used;      /* of the batch; in recorded passes all, which are alike */
    void *span;       /* MODEL_SPAN elements in the format of the rows on the device */
    int32_t *at;      /* rows; of those that a batch does not have: -1 */
    int32_t *numbers; /* one per row of a batch */
    struct mrope_image *images; /* rows: more than a batch has */
    int32_t (*positions)[ROPE_AXES];
    int32_t *ahead; /* of each slot: rows of its prompt beyond the next position */
    /* angles by position, for sequences of the same rope_reach; by row of a batch */
    struct rope_table by_position, by_row;
    size_t angles_reach;
    int32_t *reach; /* one per row of a batch, of models whose images see themselves */
};

static struct rope_table make_table(const struct shape_buffer *b)
{
    return (struct rope_table) { .data = b->step > 0 ? memory_alloc(b->step) : NULL,
                                 .rows = b->rows,
                                 .columns = b->cols };
}

struct media_state *model_media_new(const struct model *model)
{
    const struct shape_buffer *buffers = model->shapes.buffers;
    const size_t rows = buffers[BUFFER_MEDIA_AT].cols, all = model->shapes.rows;
    struct media_state *state;

    if (rows == 0)
        return NULL;
    state = memory_alloc(sizeof(*state));
    *state = (struct media_state) {
        .rows = rows,
        .span = memory_alloc(MODEL_SPAN * format_info(model->shapes.compute)->bytes),
        .at = memory_alloc(rows * sizeof(*state->at)),
        .numbers = memory_alloc(all * sizeof(*state->numbers)),
        .angles_reach = SIZE_MAX,
    };
    if (model->config->media.blocks)
        state->reach = memory_alloc(all * sizeof(*state->reach));
    if (!media_config_has_grids(&model->config->media))
        return state;
    state->images = memory_alloc(rows * sizeof(*state->images));
    state->positions = memory_alloc(all * sizeof(*state->positions));
    state->ahead = memory_alloc((model->shapes.slots + 1) * sizeof(*state->ahead));
    state->by_position = make_table(&buffers[BUFFER_ROPE]);
    state->by_row = make_table(&buffers[BUFFER_ROPE_ROWS]);
    return state;
}

void model_media_free(struct media_state *state)
{
    if (!state)
        return;
    free(state->span);
    free(state->at);
    free(state->numbers);
    free(state->reach);
    free(state->images);
    free(state->positions);
    free(state->ahead);
    free(state->by_position.data);
    free(state->by_row.data);
    free(state);
}

void model_set_media(struct model *model, const struct model_media *media)
{
    if (model->media)
        model->media->source = *media;
}

/* ---- Upload ---- */

static bool check_rows(const struct model *m, const struct batch *batch,
                       struct error *err)
{
    if (!m->media || !m->media->source.feature)
        return error_set(err, ERROR_SYSTEM,
                         "a batch with images or sounds, but the model has no rows of "
                         "features for them");
    if (m->config->architecture->numbers)
        return error_set(err, ERROR_SYSTEM,
                         "a batch with images, but the model has left out the layers "
                         "that read them");
    if (batch->media_rows > m->media->rows)
        return error_set(
            err, ERROR_SYSTEM,
            "a batch with %zu rows of features, but memory was planned for %zu",
            batch->media_rows, m->media->rows);
    return true;
}

/* Return how many elements of a file make a row of features. */
static size_t elements_per_row(const struct model *m)
{
    return m->shapes.projects ? m->config->media.projector.in : m->config->hidden_size;
}

/* Rows of an encoder may be several for one of features. */
static bool check_feature(const struct model *m, const struct media_item *item,
                          const struct feature *f, struct error *err)
{
    const size_t deep = m->config->media.deep, width = elements_per_row(m);
    const size_t times = f->width > 0 ? width / f->width : 0;

    if (f->width == 0 || width % f->width != 0 || (times > 1 && !m->shapes.projects))
        return error_set(err, ERROR_DATA,
                         "the rows of features of %s have %zu columns, but the model has "
                         "%zu; are they the output of the %s?",
                         item->key, f->width, width,
                         m->shapes.projects ? "encoder, which a trained projector reads"
                                            : "projector");
    if (f->count != item->rows * times)
        return error_set(err, ERROR_DATA, "%s has %zu rows of features, not %zu",
                         item->key, f->count, item->rows * times);
    for (size_t k = 0; k < deep; k++)
        if (!f->deep[k])
            return error_set(err, ERROR_DATA,
                             "%s has %zu sets of rows for the first layers (#deep0 ..), "
                             "but the model has %zu",
                             item->key, k, deep);
    return deep == 0 || f->deep_width == m->config->hidden_size ||
           error_set(
               err, ERROR_DATA,
               "the rows for the first layers of %s have %zu columns, but the model "
               "has %zu",
               item->key, f->deep_width, m->config->hidden_size);
}

/* Rows of features: `count` from the row `first` of a buffer on, which has that many
 * elements for each. */
struct place {
    struct tensor to;
    size_t first, count, elements;
};

static void upload_rows(const struct pass *pass, const struct place *place,
                        const void *from, enum format format)
{
    const struct tensor to = place->to;
    const size_t bytes = format_info(to.format)->bytes, item = format_info(format)->bytes;
    const size_t total = place->count * place->elements;
    char *out = (char *)to.data + place->first * place->elements * bytes;

    if (format == to.format) {
        pass->ops->upload(pass->be, out, from, total * bytes);
        return;
    }
    for (size_t at = 0, count; at < total; at += count) {
        void *span = pass->model->media->span;

        count = total - at < MODEL_SPAN ? total - at : MODEL_SPAN;
        format_convert(span, to.format, (const char *)from + at * item, format, count);
        pass->ops->upload(pass->be, out + at * bytes, span, count * bytes);
    }
}

static enum buffer input_of(const struct model *m)
{
    return m->shapes.projects ? model_projector_input(m) : BUFFER_MEDIA_ROWS;
}

/* A projector computes rows that no row of the batch takes, too: from 0; and so do the layers
 * of keys and values. */
static void zero_unused(const struct pass *pass, size_t rows)
{
    const struct model *m = pass->model;
    struct tensor x = pass_buffer(pass, input_of(m), 0);
    const size_t times = elements_per_row(m) / x.cols;

    if ((m->shapes.projects || m->cross) && rows < m->media->used)
        pass->ops->zero(
            pass->be,
            &(struct op_zero) {
                .out = tensor_rows(x, rows * times, (m->media->used - rows) * times) });
}

static bool upload_medium(const struct pass *pass, const struct batch_medium *medium,
                          struct error *err)
{
    const struct model *m = pass->model;
    const struct media_item *item = medium->item;
    const struct model_media *source = &m->media->source;
    struct feature f = { 0 };
    struct place place;

    if (!source->feature(source->context, item, &f, err) ||
        !check_feature(m, item, &f, err))
        return false;
    place = (struct place) { pass_buffer(pass, input_of(m), 0), medium->first, item->rows,
                             elements_per_row(m) };
    upload_rows(pass, &place, f.rows, f.format);
    for (size_t k = 0; k < m->config->media.deep; k++) {
        place = (struct place) { pass_buffer(pass, BUFFER_MEDIA_DEEP, 0),
                                 k * m->media->rows + medium->first, item->rows,
                                 m->config->hidden_size };
        upload_rows(pass, &place, f.deep[k], f.format);
    }
    return true;
}

static bool place_image(const struct model *m, const struct batch *batch,
                        const struct batch_medium *medium, struct mrope_image *out,
                        struct error *err)
{
    const struct media_item *item = medium->item;
    const int32_t merge = (int32_t)m->config->media.merge;

    *out = (struct mrope_image) { .at = (size_t)batch->media_at[medium->first] };
    return mrope_image_of(item->grid, merge, out) == item->rows ||
           error_set(err, ERROR_DATA,
                     "%s: a grid of %d x %d x %d patches does not have %u rows of "
                     "features",
                     item->key, item->grid[0], item->grid[1], item->grid[2], item->rows);
}

static size_t longest_of(const struct batch *batch)
{
    int32_t most = 0;

    for (size_t i = 0; i < batch->sequences; i++)
        if (batch->offsets[i + 1] - batch->offsets[i] > most)
            most = batch->offsets[i + 1] - batch->offsets[i];
    return (size_t)most;
}

/* Upload a row of angles for each row of the batch. */
static bool upload_angles(const struct pass *pass, const struct batch *batch,
                          struct error *err)
{
    const struct model *m = pass->model;
    struct media_state *s = m->media;
    const size_t length = longest_of(batch);
    const size_t reach = rope_reach(&m->config->rope, length);
    struct tensor table = pass_buffer(pass, BUFFER_ROPE_ROWS, 0);

    for (size_t i = 0; i < batch->media_count; i++)
        if (!place_image(m, batch, &batch->media[i], &s->images[i], err))
            return false;
    if (reach != s->angles_reach)
        rope_fill(&m->config->rope, length, &s->by_position);
    s->angles_reach = reach;
    mrope_positions(batch->offsets, batch->sequences, s->images, batch->media_count,
                    s->positions);
    s->by_row.rows = batch->rows;
    rope_fill_rows(&m->config->media.axes, &s->by_position,
                   (const int32_t(*)[ROPE_AXES])s->positions, &s->by_row);
    pass->ops->upload(pass->be, table.data, s->by_row.data,
                      batch->rows * table.cols * sizeof(float));
    for (size_t i = 0; i < batch->rows; i++)
        s->numbers[i] = (int32_t)i;
    pass->ops->upload(pass->be, pass_buffer(pass, BUFFER_ROPE_AT, 0).data, s->numbers,
                      batch->rows * sizeof(*s->numbers));
    return true;
}

/* The rows of an image see each other.  They are adjacent. */
static void upload_reach(const struct pass *pass, const struct batch *batch)
{
    struct media_state *s = pass->model->media;
    const size_t bytes = batch->rows * sizeof(*s->numbers);

    reach_causal(s->reach, batch->rows);
    for (size_t i = 0; i < batch->media_count; i++) {
        const struct batch_medium *medium = &batch->media[i];
        const size_t first = (size_t)batch->media_at[medium->first];

        reach_join(s->reach, first, first + medium->item->rows);
    }
    assert(reach_holds(s->reach, batch->offsets, batch->sequences));
    reach_since(s->numbers, s->reach, batch->rows);
    pass->ops->upload(pass->be, pass_buffer(pass, BUFFER_REACH, 0).data, s->reach, bytes);
    pass->ops->upload(pass->be, pass_buffer(pass, BUFFER_SINCE, 0).data, s->numbers,
                      bytes);
}

bool model_media_upload(const struct pass *pass, const struct batch *batch,
                        struct error *err)
{
    const struct model *m = pass->model;
    const struct model_media *source;

    if (!pass->media)
        return true;
    if (!check_rows(m, batch, err))
        return false;
    source = &m->media->source;
    if (source->begin &&
        !source->begin(source->context, pass->training ? &pass->draw : NULL, err))
        return false;
    for (size_t i = 0; i < batch->media_count; i++)
        if (!upload_medium(pass, &batch->media[i], err))
            return false;
    m->media->used = pass->ops->begin ? m->media->rows : batch->media_rows;
    zero_unused(pass, batch->media_rows);
    for (size_t i = 0; i < m->media->rows; i++)
        m->media->at[i] = i < batch->media_rows ? batch->media_at[i] : -1;
    pass->ops->upload(pass->be, pass_buffer(pass, BUFFER_MEDIA_AT, 0).data, m->media->at,
                      m->media->rows * sizeof(*m->media->at));
    model_cross_upload(pass, batch, m->media->used);
    if (m->config->media.blocks)
        upload_reach(pass, batch);
    return !media_config_has_grids(&m->config->media) || upload_angles(pass, batch, err);
}

/* ---- Operations ---- */

static bool has_grids(const struct pass *pass)
{
    return pass->model->media && media_config_has_grids(&pass->model->config->media);
}

enum buffer model_media_angles(const struct pass *pass, enum buffer angles)
{
    return pass->media && has_grids(pass) ? BUFFER_ROPE_ROWS : angles;
}

void model_media_see(const struct pass *pass, struct op_attention *op)
{
    if (!pass->media || !pass->model->config->media.blocks)
        return;
    op->reach = pass_buffer(pass, BUFFER_REACH, 0).data;
    op->since = pass_buffer(pass, BUFFER_SINCE, 0).data;
}

/* Rows that follow a prompt have text's positions, but not those that its rows count. */
enum buffer model_media_positions(const struct pass *pass)
{
    return (pass->media || pass->decoding) && has_grids(pass) ? BUFFER_ROPE_AT
                                                              : BUFFER_POSITIONS;
}

void model_media_started(const struct pass *pass, const struct batch *prompt)
{
    struct media_state *s = pass->model->media;

    model_cross_started(pass);
    if (has_grids(pass))
        s->ahead[pass->slot] =
            pass->media
                ? (int32_t)prompt->rows -
                      mrope_next((const int32_t(*)[ROPE_AXES])s->positions, prompt->rows)
                : 0;
}

void model_media_decode(const struct pass *pass, const int32_t *lengths)
{
    struct media_state *s = pass->model->media;

    model_cross_decode(pass);
    if (!has_grids(pass))
        return;
    for (size_t i = 0; i < pass->sequences; i++)
        s->numbers[i] = lengths[i] > s->ahead[i] ? lengths[i] - s->ahead[i] : 0;
    pass->ops->upload(pass->be, pass_buffer(pass, BUFFER_ROPE_AT, 0).data, s->numbers,
                      pass->sequences * sizeof(*s->numbers));
}

void model_media_embed(const struct pass *pass, struct tensor x)
{
    if (!pass->media)
        return;
    if (pass->model->shapes.projects)
        model_projector_forward(pass, pass->model->media->used);
    if (pass->model->cross) /* the rows are not part of the residual */
        return;
    pass->ops->place_rows(
        pass->be,
        &(struct op_place_rows) { .x = x,
                                  .rows = pass_buffer(pass, BUFFER_MEDIA_ROWS, 0),
                                  .at = pass_buffer(pass, BUFFER_MEDIA_AT, 0).data });
}

void model_media_embed_backward(const struct pass *pass, struct tensor dx)
{
    const struct shapes *shapes = &pass->model->shapes;
    const bool projects = shapes->trains_projector || shapes->trains_encoder;
    struct op_place_rows_backward op = { .dx = dx };

    if (!pass->media) {
        if (projects)
            model_projector_skip(pass);
        return;
    }
    if (pass->model->cross) {
        model_cross_rows_backward(pass);
    } else {
        op.at = pass_buffer(pass, BUFFER_MEDIA_AT, 0).data;
        op.count = pass->model->media->rows;
        if (projects)
            op.drows = pass_buffer(pass, BUFFER_MEDIA_ROWS, 0);
        pass->ops->place_rows_backward(pass->be, &op);
    }
    if (projects)
        model_projector_backward(pass, pass->model->media->used);
}

static struct tensor deep_rows(const struct pass *pass, size_t layer)
{
    const size_t rows = pass->model->media->rows;

    return tensor_rows(pass_buffer(pass, BUFFER_MEDIA_DEEP, 0), layer * rows, rows);
}

void model_media_add(const struct pass *pass, size_t layer, struct tensor delta)
{
    if (!pass->media || layer >= pass->model->config->media.deep)
        return;
    pass->ops->place_rows(pass->be, &(struct op_place_rows) {
                                        .x = delta,
                                        .rows = deep_rows(pass, layer),
                                        .at = pass_buffer(pass, BUFFER_MEDIA_AT, 0).data,
                                        .add = true });
}

/* The rows are not read again. */
void model_media_add_backward(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;

    if (!pass->media || !m->shapes.trains_encoder || layer >= m->config->media.deep)
        return;
    pass->ops->place_rows_backward(
        pass->be, &(struct op_place_rows_backward) {
                      .dx = tensor_columns(pass_buffer(pass, BUFFER_DX, 0), 0,
                                           m->config->hidden_size),
                      .drows = deep_rows(pass, layer),
                      .at = pass_buffer(pass, BUFFER_MEDIA_AT, 0).data,
                      .count = m->media->rows,
                      .add = true });
}

/* ---- A trained encoder ---- */

void model_encoder_weights(const struct model *model, struct encoder_weights *out)
{
    for (size_t i = 0; i < model->shapes.count; i++) {
        const struct parameter *p = &model->parameters[i];

        if (p->tensor)
            out[p->tensor - model->config->encoder.list] =
                (struct encoder_weights) { model_matmul_operand(p), p->weight, p->grad };
    }
}

const struct lora *model_encoder_adapters(const struct model *model,
                                          struct encoder_adapter *out)
{
    memset(out, 0, model->config->encoder.count * sizeof(*out));
    for (size_t i = 0; i < model->shapes.count; i++) {
        const struct shape_parameter *shape = &model->shapes.parameters[i];
        const struct parameter *p = &model->parameters[i];

        if (shape->module != MODULE_ENCODER)
            continue;
        if (shape->part == PART_LORA_A) {
            out[shape->expert].a = model_matmul_operand(p);
            out[shape->expert].da = p->grad;
        } else if (shape->part == PART_LORA_B) {
            out[shape->expert].b = model_matmul_operand(p);
            out[shape->expert].db = p->grad;
        }
    }
    return &model->shapes.lora;
}

static bool download(const struct model *m, struct tensor from, float *to,
                     struct error *err)
{
    const size_t count = from.rows * from.cols;
    void *packed = from.format == FORMAT_FP32 ? to : malloc(tensor_bytes(from) + 1);
    bool ok;

    if (!packed)
        return error_set(err, ERROR_SYSTEM, "no memory for %zu gradients", count);
    m->be->ops->download(m->be, packed, from.data, tensor_bytes(from));
    ok = m->be->ops->sync(m->be, err);
    if (packed != to) {
        if (ok)
            format_convert(to, FORMAT_FP32, packed, from.format, count);
        free(packed);
    }
    return ok;
}

bool model_media_gradients(const struct model *model, const struct batch_medium *medium,
                           struct model_media_gradients *out, struct error *err)
{
    const struct pass pass = { .model = (struct model *)model };
    const struct tensor all = pass_buffer(&pass, model_projector_gradient(model), 0);
    const size_t times = elements_per_row(model) / all.cols, rows = medium->item->rows;
    bool ok = download(model, tensor_rows(all, medium->first * times, rows * times),
                       out->rows, err);

    for (size_t k = 0; ok && k < model->config->media.deep; k++)
        ok = download(model, tensor_rows(deep_rows(&pass, k), medium->first, rows),
                      out->deep[k], err);
    return ok;
}
