/* train/trained_encoder.c - passes of the encoder before and after those of the model. */
#include "config.h"

#include "train/trained_encoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/media_item.h"
#include "train/tower/tower.h"
#include "train/tower/tower_trained.h"

/* A medium of the batch; several samples may have it. */
struct encoded {
    const struct media_item *item;
    struct media_input input;
    struct tower_output rows;
    struct tower_row_gradients sums; /* of all samples; NULL: not yet */
};

struct trained_encoder {
    struct trained_encoder_options options;
    struct encoder_weights *weights; /* of the model, or adapters in it */
    struct tower_adapters adapters;
    struct tower_adapter *adapter_list;
    double dropout; /* of these, in training */
    struct media_reader *reader;
    struct tower *tower;
    struct encoded *media;
    size_t count, room;
};

static bool open_reader(struct trained_encoder *e, struct error *err)
{
    const struct plan *plan = e->options.plan;
    const struct media_reader_options options = {
        .model_dir = plan->model_name_or_path,
        .model_type = e->options.config->multimodal->model_type,
        .kind = e->options.kind,
        .limits = { plan->image_max_pixels, plan->image_min_pixels,
                    plan->crop_to_patches },
    };

    e->reader = media_reader_open(&options, err);
    return e->reader != NULL;
}

/* The encoder has frozen weights of its own, and the model's adapters. */
static void set_adapters(struct trained_encoder *e)
{
    const struct tower_parameters *parameters = tower_parameters_of(e->tower);
    const size_t count = e->options.config->encoder.count;
    struct encoder_adapter *adapters = memory_resize(NULL, count + 1, sizeof(*adapters));
    const struct lora *lora = model_encoder_adapters(e->options.model, adapters);
    const size_t parts = parameters->count * TOWER_PARTS_MAX;

    e->adapter_list = memory_resize(NULL, parts, sizeof(*e->adapter_list));
    memset(e->adapter_list, 0, parts * sizeof(*e->adapter_list));
    tower_trained_adapters(tower_config_of(e->tower), parameters, adapters,
                           e->adapter_list);
    e->dropout = lora->dropout;
    e->adapters = (struct tower_adapters) { .rank = lora->rank,
                                            .scale = lora->scale,
                                            .draw = { .dropout = lora->dropout },
                                            .list = e->adapter_list };
    free(adapters);
}

static bool open_tower(struct trained_encoder *e, struct error *err)
{
    const struct plan *plan = e->options.plan;
    struct tower_options options = {
        .model_dir = plan->model_name_or_path,
        .backend = model_backend(e->options.model),
        .compute = plan->precision.compute == FORMAT_TF32 ? FORMAT_FP32
                                                          : plan->precision.compute,
        .trains = true,
        .merged = { plan_merged_adapter(plan), e->options.config },
        .heartbeat = e->options.heartbeat,
    };

    if (plan_adapts(plan)) {
        options.frozen = plan->precision.frozen;
        options.adapters = &e->adapters;
    } else {
        e->weights = memory_resize(NULL, e->options.config->encoder.count + 1,
                                   sizeof(*e->weights));
        model_encoder_weights(e->options.model, e->weights);
        options.weights = e->weights;
    }
    e->tower = tower_open(&options, err);
    if (e->tower && plan_adapts(plan))
        set_adapters(e);
    return e->tower && tower_reserve(e->tower, e->options.rows, err);
}

struct trained_encoder *
trained_encoder_open(const struct trained_encoder_options *options, struct error *err)
{
    struct trained_encoder *e = memory_alloc(sizeof(*e));

    *e = (struct trained_encoder) { .options = *options };
    if (open_reader(e, err) && open_tower(e, err))
        return e;
    trained_encoder_close(e);
    return NULL;
}

size_t trained_encoder_elements(const struct trained_encoder *encoder)
{
    return tower_elements(encoder->tower);
}

static void clear_medium(struct encoded *m)
{
    media_input_clear(&m->input);
    tower_output_clear(&m->rows);
    free((float *)m->sums.rows);
    for (size_t i = 0; i < TOWER_DEEP_MAX; i++)
        free((float *)m->sums.deep_rows[i]);
    *m = (struct encoded) { 0 };
}

static void forget(struct trained_encoder *e)
{
    while (e->count > 0)
        clear_medium(&e->media[--e->count]);
}

void trained_encoder_close(struct trained_encoder *encoder)
{
    if (!encoder)
        return;
    forget(encoder);
    tower_free(encoder->tower);
    media_reader_close(encoder->reader);
    free(encoder->weights);
    free(encoder->adapter_list);
    free(encoder->media);
    free(encoder);
}

/* ---- Before the model's pass ---- */

bool trained_encoder_begin(struct trained_encoder *encoder, const uint64_t *draw,
                           struct error *err)
{
    forget(encoder);
    encoder->adapters.draw = (struct tower_draw) { .dropout = draw ? encoder->dropout : 0,
                                                   .index = draw ? *draw : 0 };
    return tower_refresh(encoder->tower, err);
}

static struct encoded *find(const struct trained_encoder *e,
                            const struct media_item *item)
{
    for (size_t i = 0; i < e->count; i++)
        if (memcmp(e->media[i].item->digest, item->digest, sizeof(item->digest)) == 0)
            return &e->media[i];
    return NULL;
}

/* The masks of an item depend on its content, not on its place among those of the batch. */
static void select_masks(struct trained_encoder *e, const struct media_item *item)
{
    uint64_t digest;

    memcpy(&digest, item->digest, sizeof(digest));
    e->adapters.draw.seed = (uint64_t)e->options.plan->seed ^ digest;
}

static bool encode(struct trained_encoder *e, struct encoded *m, struct error *err)
{
    const struct media_item *item = m->item;
    struct error why = { 0 }, named = { 0 };

    select_masks(e, item);
    if (!media_item_read(e->reader, item, &m->input, err))
        return false;
    if (!tower_run(e->tower, &m->input, &m->rows, &why))
        error_set(&named, why.code, "%s: %s", item->path, why.text);
    else if (m->rows.count != item->rows)
        error_set(&named, ERROR_DATA,
                  "%s: the encoder returns %zu rows, but the data have %u positions for "
                  "them; config.json and the processor's settings do not belong together",
                  item->path, m->rows.count, item->rows);
    return named.code == ERROR_NONE || media_item_fail(item, &named, err);
}

static struct encoded *add(struct trained_encoder *e, const struct media_item *item,
                           struct error *err)
{
    struct encoded *m;

    if (e->count == e->room) {
        e->room = 2 * e->room + 8;
        e->media = memory_resize(e->media, e->room, sizeof(*e->media));
    }
    m = &e->media[e->count];
    *m = (struct encoded) { .item = item };
    if (encode(e, m, err)) {
        e->count++;
        return m;
    }
    clear_medium(m);
    return NULL;
}

bool trained_encoder_rows(struct trained_encoder *encoder, const struct media_item *item,
                          struct feature *out, struct error *err)
{
    const struct encoded *m = find(encoder, item);

    if (!m)
        m = add(encoder, item, err);
    if (!m)
        return false;
    *out = (struct feature) { .rows = m->rows.rows,
                              .format = m->rows.format,
                              .count = m->rows.count,
                              .width = m->rows.width,
                              .deep_width = m->rows.deep_width };
    memcpy(out->grid, item->grid, sizeof(out->grid));
    for (size_t i = 0; i < m->rows.deep; i++)
        out->deep[i] = m->rows.deep_rows[i];
    return true;
}

/* ---- After it ---- */

static void add_values(const float **sum, float *values, size_t count)
{
    float *to = (float *)*sum;

    if (!to) {
        *sum = values;
        return;
    }
    for (size_t i = 0; i < count; i++)
        to[i] += values[i];
    free(values);
}

/* Add the gradients of a medium's rows to those of the same one in other samples. */
static bool add_gradients(const struct trained_encoder *e, const struct batch_medium *one,
                          struct error *err)
{
    struct encoded *m = find(e, one->item);
    const size_t count = m->rows.count * m->rows.width,
                 deep_count = m->rows.count * m->rows.deep_width;
    struct model_media_gradients out = {
        .rows = memory_resize(NULL, count, sizeof(float)),
    };
    bool ok;

    for (size_t i = 0; i < m->rows.deep; i++)
        out.deep[i] = memory_resize(NULL, deep_count, sizeof(float));
    ok = model_media_gradients(e->options.model, one, &out, err);
    add_values(&m->sums.rows, out.rows, count);
    for (size_t i = 0; i < m->rows.deep; i++)
        add_values(&m->sums.deep_rows[i], out.deep[i], deep_count);
    return ok;
}

bool trained_encoder_backward(struct trained_encoder *encoder, const struct batch *batch,
                              struct error *err)
{
    bool ok = true;

    for (size_t i = 0; ok && i < batch->media_count; i++)
        ok = add_gradients(encoder, &batch->media[i], err);
    for (size_t i = 0; ok && batch->media_count > 0 && i < encoder->count; i++) {
        select_masks(encoder, encoder->media[i].item);
        ok = tower_backward(encoder->tower, &encoder->media[i].input,
                            &encoder->media[i].sums, err);
    }
    return ok;
}
