/*
 * train/model/model_prequantized.c - loads matrices that the base's files have in 4 bits,
 * without changing a bit.
 *
 * For each matrix, a file of bitsandbytes has NAME, the codes, and
 *
 *     NAME.absmax               fp32 factors of the blocks, or a byte each
 *     NAME.quant_map            the 16 values
 *     NAME.quant_state....      description: train/model/quant_state.h
 *     NAME.nested_absmax        if absmax has bytes: fp32 factors of 256 blocks each,
 *     NAME.nested_quant_map     and the value of each byte
 *
 * The rows are those of the file, outputs first: if a file has inputs first (GPT-2),
 * transformers transposes the matrix before it quantizes it.
 */
#include "config.h"

#include "train/model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "precision/nf4.h"
#include "train/model/gptq_tensors.h"
#include "train/model/model_exchange.h"
#include "train/model/model_internal.h"
#include "train/model/model_stored.h"
#include "train/model/quant_state.h"

#define STATE ".quant_state."

/* Of bitsandbytes, next to the codes. */
enum { ABSMAX, MAP, QUANT_STATE, GROUPS, GROUP_MAP };

static const struct quant_names {
    const char *ends[QUANT_TENSORS];
    bool instead;    /* of .weight, not after it */
    const char *key; /* of quantization_config, for layers that are not quantized */
} quant_names[QUANTIZERS] = {
    [QUANTIZER_BITSANDBYTES] = { { [ABSMAX] = ".absmax",
                                   [MAP] = ".quant_map",
                                   [QUANT_STATE] = STATE "bitsandbytes__nf4",
                                   [GROUPS] = ".nested_absmax",
                                   [GROUP_MAP] = ".nested_quant_map" },
                                 false,
                                 "llm_int8_skip_modules" },
    [QUANTIZER_GPTQ] = { GPTQ_ENDINGS, true, "modules_in_block_to_quantize" },
    [QUANTIZER_AWQ] = { GPTQ_ENDINGS, true, "modules_to_not_convert" },
};

static const struct quant_names *names_of(const struct model *m)
{
    return &quant_names[m->config->quantized.by];
}

void model_add_quant_name(const struct model *m, const struct parameter *p, size_t which,
                          struct text *out)
{
    const struct quant_names *names = names_of(m);
    size_t len = strlen(p->name) - (names->instead ? strlen(".weight") : 0);

    text_addf(out, "%.*s%s", (int)len, p->name, names->ends[which]);
}

/* Return whether the parameter has a bias in the model. */
static bool has_bias(const struct model *m, const struct parameter *p)
{
    const struct shape_parameter *shape = &m->shapes.parameters[p - m->parameters];

    return m->slots[model_slot(shape->module, PART_BIAS, shape->layer)] != NULL;
}

const struct stored_tensor *
model_find_quant_tensor(const struct model *m, const struct parameter *p, size_t which)
{
    const struct stored_tensor *found;
    struct text text;

    if (strcmp(names_of(m)->ends[which], ".bias") == 0 && has_bias(m, p))
        return NULL;
    text_init(&text, 0);
    model_add_quant_name(m, p, which, &text);
    found = model_find_tensor(m, text.data);
    text_clear(&text);
    return found;
}

size_t model_count_quant_tensors(const struct model *m, const struct parameter *p)
{
    size_t count = 0;

    for (size_t i = 0; i < QUANT_TENSORS && p->quantized.codes; i++)
        count += model_find_quant_tensor(m, p, i) != NULL;
    return count;
}

bool model_is_quant_tensor(const struct model *m, const struct parameter *p,
                           const struct stored_tensor *t)
{
    for (size_t i = 0; i < QUANT_TENSORS && p->quantized.codes; i++)
        if (text_ends(t->name, names_of(m)->ends[i]) &&
            model_find_quant_tensor(m, p, i) == t)
            return true;
    return false;
}

/* ---- Errors in files ---- */

static bool is_quant_name(const char *name)
{
    for (enum quantizer by = 0; by < QUANTIZERS; by++)
        for (size_t i = 0; i < QUANT_TENSORS; i++)
            if (text_ends(name, quant_names[by].ends[i]) && !text_ends(name, ".bias"))
                return true;
    return strstr(name, STATE) || text_ends(name, ".SCB") ||
           text_ends(name, ".weight_format");
}

bool model_check_quant_tensor(const struct model *m, const struct stored_tensor *t,
                              struct error *err)
{
    if (!is_quant_name(t->name))
        return true;
    if (text_ends(t->name, ".SCB") || text_ends(t->name, ".weight_format"))
        return error_set(
            err, ERROR_DATA,
            "%s: the tensor %s belongs to 8-bit weights, which are not supported, "
            "only 4-bit ones (nf4); use the model that they were made from",
            t->file, t->name);
    if (strstr(t->name, STATE) && !text_ends(t->name, STATE "bitsandbytes__nf4"))
        return error_set(err, ERROR_DATA,
                         "%s: the tensor %s is not nf4; quantize the model with "
                         "bnb_4bit_quant_type nf4, or use the one that it was made from",
                         t->file, t->name);
    if (!m->config->quantized.enabled)
        return error_set(
            err, ERROR_DATA,
            "%s: the tensor %s belongs to quantized weights, but config.json has no "
            "quantization_config; restore the config.json that was saved with them",
            t->file, t->name);
    return error_set(
        err, ERROR_DATA,
        "%s: the tensor %s belongs to quantized weights, but according to config.json "
        "this layer is not quantized: that is supported in linear layers of the blocks, "
        "as %s says",
        t->file, t->name, names_of(m)->key);
}

/* A matrix while it is loaded: the tensors it consists of. */
struct prequantized {
    const struct parameter *p;
    const struct stored_tensor *codes, *quant[QUANT_TENSORS];
    struct quant_state state;
    size_t elements, blocks;
};

static bool check_sizes(const struct prequantized *t, struct error *err)
{
    size_t groups = nf4_groups(t->blocks);
    bool double_quant = t->state.double_quant;
    const struct {
        const char *dtype; /* NULL: bitsandbytes stores codes in elements of any format */
        size_t bytes;
    } expected[QUANT_TENSORS] = {
        [ABSMAX] = { double_quant ? "U8" : "F32",
                     t->blocks * (double_quant ? 1 : sizeof(float)) },
        [MAP] = { "F32", NF4_NUMBERS * sizeof(float) },
        [QUANT_STATE] = { "U8", t->quant[QUANT_STATE]->bytes },
        [GROUPS] = { "F32", groups * sizeof(float) },
        [GROUP_MAP] = { "F32", NF4_MAP * sizeof(float) },
    };

    if (t->codes->bytes != nf4_bytes(t->elements))
        return error_set(
            err, ERROR_DATA,
            "%s: %s has %zu bytes, but %zu x %zu elements in 4 bits take %zu; fetch "
            "the model again",
            t->codes->file, t->codes->name, t->codes->bytes, t->p->rows, t->p->cols,
            nf4_bytes(t->elements));
    for (size_t i = 0; i < (double_quant ? QUANT_TENSORS : GROUPS); i++) {
        const struct stored_tensor *b = t->quant[i];

        if (strcmp(b->dtype, expected[i].dtype) != 0 || b->bytes != expected[i].bytes)
            return error_set(
                err, ERROR_DATA,
                "%s: %s has %zu bytes of %s, expected %zu of %s; fetch the model again",
                b->file, b->name, b->bytes, b->dtype, expected[i].bytes,
                expected[i].dtype);
    }
    return true;
}

/* Check the 16 values, but not their last digits: bitsandbytes' kernels use slightly
 * different ones. */
static bool check_map(const struct stored_tensor *map, struct error *err)
{
    float numbers[NF4_NUMBERS];

    memcpy(numbers, map->data, sizeof(numbers));
    for (size_t i = 0; i < NF4_NUMBERS; i++)
        if (!(fabsf(numbers[i] - nf4_numbers[i]) <= 1e-4f))
            return error_set(
                err, ERROR_DATA,
                "%s: %s has %g as value %zu, but nf4 has %g; quantize the model with "
                "bnb_4bit_quant_type nf4",
                map->file, map->name, (double)numbers[i], i, (double)nf4_numbers[i]);
    return true;
}

static bool check_state(const struct model *m, const struct prequantized *t,
                        struct error *err)
{
    const struct stored_tensor *from = t->quant[QUANT_STATE];

    if (t->state.rows != t->p->rows || t->state.cols != t->p->cols)
        return error_set(err, ERROR_DATA,
                         "%s: %s has the shape [%zu, %zu], "
                         "config.json requires [%zu, %zu]",
                         from->file, from->name, t->state.rows, t->state.cols, t->p->rows,
                         t->p->cols);
    return t->state.double_quant == m->config->quantized.double_quant ||
           error_set(err, ERROR_DATA,
                     "%s: %s is %s double quantization, but "
                     "config.json says bnb_4bit_use_double_quant: %s; "
                     "restore the config.json that was saved with it",
                     from->file, from->name, t->state.double_quant ? "with" : "without",
                     t->state.double_quant ? "false" : "true");
}

static bool find_all(const struct model *m, struct prequantized *t, struct error *err)
{
    const char *dir = m->plan->model_name_or_path, *name = t->p->name;
    size_t needed = m->config->quantized.double_quant ? QUANT_TENSORS : GROUPS;

    t->codes = model_find_tensor(m, name);
    if (!t->codes)
        return error_set(err, ERROR_DATA, "%s: the tensor %s is missing", dir, name);
    for (size_t i = 0; i < QUANT_TENSORS; i++)
        t->quant[i] = model_find_quant_tensor(m, t->p, i);
    if (t->codes->format < FORMAT_COUNT && !t->quant[QUANT_STATE] && !t->quant[ABSMAX])
        return error_set(
            err, ERROR_DATA,
            "%s: %s is %s, but config.json has it in 4 bits; add its layer to "
            "llm_int8_skip_modules there",
            t->codes->file, name, t->codes->dtype);
    for (size_t i = 0; i < needed; i++)
        if (!t->quant[i])
            return error_set(err, ERROR_DATA, "%s: the tensor %s%s is missing", dir, name,
                             names_of(m)->ends[i]);
    return true;
}

static bool read_state(const struct stored_tensor *from, struct quant_state *out,
                       struct error *err)
{
    struct text name;
    bool ok;

    text_init(&name, 0);
    text_addf(&name, "%s: %s", from->file, from->name);
    ok = quant_state_parse(from->data, from->bytes, name.data, out, err);
    text_clear(&name);
    return ok;
}

/* ---- Copying ---- */

static void copy_to_layout(const struct prequantized *t, const struct nf4_layout *parts,
                           char *data)
{
    const struct stored_tensor *absmax =
        t->quant[t->state.double_quant ? GROUPS : ABSMAX];

    memcpy(data, t->codes->data, t->codes->bytes);
    memcpy(data + parts->absmax, absmax->data, absmax->bytes);
    if (!t->state.double_quant)
        return;
    memcpy(data + parts->bytes, t->quant[ABSMAX]->data, t->blocks);
    memcpy(data + parts->map, t->quant[GROUP_MAP]->data, NF4_MAP * sizeof(float));
    memcpy(data + parts->map + NF4_MAP * sizeof(float), &t->state.absmax_mean,
           sizeof(float));
}

bool model_load_prequantized(struct model *model, struct parameter *p, struct error *err)
{
    struct prequantized t = { .p = p, .elements = p->rows * p->cols };
    struct nf4_layout parts;
    char *data;

    t.blocks = nf4_blocks(t.elements);
    if (!find_all(model, &t, err) || !read_state(t.quant[QUANT_STATE], &t.state, err) ||
        !check_state(model, &t, err) || !check_sizes(&t, err) ||
        !check_map(t.quant[MAP], err))
        return false;
    parts = nf4_layout(t.elements, t.state.double_quant);
    data = calloc(1, parts.total);
    if (!data)
        return error_set(err, ERROR_SYSTEM, "no memory for %s", p->name);
    copy_to_layout(&t, &parts, data);
    p->dequantized_format = t.state.dtype;
    model_upload_frozen(model, p, (void *)p->quantized.codes, data, parts.total);
    free(data);
    return true;
}
