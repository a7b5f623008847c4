/* train/tower/tower_load.c - reads, rounds and uploads the weights of an encoder. */
#include "config.h"

#include "train/tower/tower_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/tower/tower_tiles.h"

/* As if the model had been loaded in that format. */
static void round_to(enum format format, float *values, size_t count)
{
    enum { PIECE = 1 << 12 };
    uint16_t rounded[PIECE];

    if (format != FORMAT_FP16 && format != FORMAT_BF16)
        return;
    for (size_t i = 0; i < count; i += PIECE) {
        const size_t n = size_min(PIECE, count - i);

        format_convert(rounded, format, values + i, FORMAT_FP32, n);
        format_convert(values + i, FORMAT_FP32, rounded, format, n);
    }
}

/* Files have the columns of Mistral 3's merger by channel, then by patch (torch's unfold); the
 * rows here have whole patches. */
static void order_merger(const struct tower_config *c, const struct tower_parameter *p,
                         float *values)
{
    float *row = memory_resize(NULL, p->cols, sizeof(*row));

    for (size_t i = 0; i < p->rows; i++) {
        float *to = values + i * p->cols;

        memcpy(row, to, p->cols * sizeof(*row));
        for (size_t k = 0; k < c->group; k++)
            for (size_t j = 0; j < c->width; j++)
                to[k * c->width + j] = row[j * c->group + k];
    }
    free(row);
}

/* The output of a layer with a gate is multiplied by its tanh, or by the gate itself if there
 * is one for each column: rows of the matrix. */
static bool apply_gate(const struct tower_load *load, const struct tower_parameter *p,
                       float *values, struct error *err)
{
    const enum tower_layer layer =
        p->layer == TOWER_ATTENTION_OUT ? TOWER_ATTENTION_GATE : TOWER_DOWN_GATE;
    const struct tower_parameter *gate =
        !load->gated && (p->layer == TOWER_ATTENTION_OUT || p->layer == TOWER_DOWN)
            ? tower_parameters_find(load->parameters, layer, p->index, false)
            : NULL;
    float *value = gate ? tower_load_values(load, gate, err) : NULL;

    for (size_t i = 0; value && i < p->rows * p->cols; i++)
        values[i] *= load->config->family->encoder->scaled
                         ? value[p->bias ? i : i / p->cols]
                         : tanhf(value[0]);
    free(value);
    return !gate || value;
}

/* Files have the columns of the matrix after a Conformer's convolutions by channel, then by
 * mel bin; the rows here have the channels of each bin. */
static void order_embed(const struct tower_config *c, const struct tower_parameter *p,
                        float *values)
{
    const size_t bins = p->cols / c->channels;
    float *row = memory_resize(NULL, p->cols, sizeof(*row));

    for (size_t i = 0; i < p->rows; i++) {
        float *to = values + i * p->cols;

        memcpy(row, to, p->cols * sizeof(*row));
        for (size_t k = 0; k < bins; k++)
            for (size_t j = 0; j < c->channels; j++)
                to[k * c->channels + j] = row[j * bins + k];
    }
    free(row);
}

/* Files have the taps of each column. */
static void order_filter(const struct tower_parameter *p, float *values)
{
    const size_t count = p->rows * p->cols;
    float *from = memory_resize(NULL, count, sizeof(*from));

    memcpy(from, values, count * sizeof(*from));
    for (size_t k = 0; k < p->rows; k++)
        for (size_t j = 0; j < p->cols; j++)
            values[k * p->cols + j] = from[j * p->rows + k];
    free(from);
}

/* Two more biases, of the value and of the gate. */
static bool shift_glu(const struct tower_load *load, const struct tower_parameter *p,
                      float *values, struct error *err)
{
    const struct tower_parameter *by =
        tower_parameters_find(load->parameters, TOWER_GLU_SHIFT, p->index, false);
    float *shift = tower_load_values(load, by, err);

    for (size_t i = 0; shift && i < p->cols; i++)
        values[i] += shift[i];
    free(shift);
    return shift != NULL;
}

/* From the order of the files, rounded already, to that of a pass. */
static bool arrange(const struct tower_load *load, const struct tower_parameter *p,
                    float *values, struct error *err)
{
    const struct tower_config *c = load->config;

    switch (p->layer) {
    case TOWER_PROJECTOR_MERGE:
        if (!p->bias && !c->family->merge_adapts)
            order_merger(c, p, values);
        return true;
    case TOWER_PROJECTOR_1:
        if (!p->bias && c->tiles > 0)
            tower_tiles_order(c, values, p->rows, sizeof(*values), true);
        return true;
    case TOWER_EMBED:
        if (!p->bias)
            order_embed(c, p, values);
        return true;
    case TOWER_FILTER_1:
    case TOWER_FILTER_2:
    case TOWER_TIME:
        if (!p->bias)
            order_filter(p, values);
        return true;
    case TOWER_IN_DOWN:
    case TOWER_DOWN: /* a Conformer adds half of them */
        for (size_t i = 0; c->family->encoder->conformer && i < p->rows * p->cols; i++)
            values[i] /= 2;
        return true;
    case TOWER_GLU:
        return !p->bias || shift_glu(load, p, values, err);
    default:
        return true;
    }
}

float *tower_load_values(const struct tower_load *load,
                         const struct tower_parameter *parameter, struct error *err)
{
    const struct tower_config *c = load->config;
    const size_t count = parameter->rows * parameter->cols,
                 each = count / parameter->parts;
    const bool rounded =
        parameter->layer != TOWER_POSITIONS || !c->family->encoder->fp32_positions;
    float *out = calloc(count, sizeof(*out));

    if (!out) {
        error_set(err, ERROR_SYSTEM, "no memory for %zu elements of an encoder", count);
        return NULL;
    }
    if (tower_family_names(c->family, parameter->layer)->made) {
        for (size_t i = 0; i < count; i++)
            out[i] = 1;
        return out;
    }
    for (size_t part = 0; part < parameter->parts; part++) {
        const struct stored_tensor *t;

        if (parameter->bias && !tower_config_has_bias(c, parameter->layer, part))
            continue;
        t = tower_parameter_stored(load->files, c, parameter, part, err);
        if (t)
            format_convert(out + part * each, FORMAT_FP32, t->data, t->format, each);
        if (!t || (load->merge && !tower_merge_add(load->merge, c, parameter, part,
                                                   out + part * each, err))) {
            free(out);
            return NULL;
        }
    }
    if (rounded)
        round_to(load->frozen, out, count);
    if (!arrange(load, parameter, out, err) || !apply_gate(load, parameter, out, err)) {
        free(out);
        return NULL;
    }
    return out;
}

static bool upload(const struct tower_load *load, const struct tower_parameter *p,
                   struct error *err)
{
    const struct backend_ops *ops = load->backend->ops;
    const size_t count = p->rows * p->cols, bytes = count * format_info(p->format)->bytes;
    float *values = tower_load_values(load, p, err);
    void *packed = values && p->format != FORMAT_FP32 ? malloc(bytes) : NULL;

    if (!values)
        return false;
    if (packed)
        format_convert(packed, p->format, values, FORMAT_FP32, count);
    if (packed || p->format == FORMAT_FP32)
        ops->upload(load->backend, load->block + p->at, packed ? packed : values, bytes);
    else
        error_set(err, ERROR_SYSTEM, "no memory for %zu elements of an encoder", count);
    free(packed);
    free(values);
    return err->code == ERROR_NONE;
}

bool tower_load_block(const struct tower_load *load, struct error *err)
{
    for (size_t i = 0; i < load->parameters->count; i++) {
        const struct tower_parameter *p = &load->parameters->list[i];

        if (!heartbeat_continue(load->heartbeat, "loading the encoder", err) ||
            (p->at != TOWER_ON_HOST && !upload(load, p, err)))
            return false;
        safetensors_release(load->files);
    }
    return load->backend->ops->sync(load->backend, err);
}
