/* train/model/model_gptq.c - loads matrices that the base's files have in the formats of
 * GPTQ and AWQ. */
#include "config.h"

#include "train/model/model.h"

#include <stdlib.h>

#include "base/text.h"
#include "precision/affine.h"
#include "train/model/gptq_matrix.h"
#include "train/model/model_exchange.h"
#include "train/model/model_internal.h"
#include "train/model/model_stored.h"

static bool report_missing(const struct model *model, const struct parameter *p,
                           const struct gptq_matrix *m, size_t which, struct error *err)
{
    const struct stored_tensor *whole = model_find_tensor(model, p->name);
    struct text name;

    if (whole && !m->tensors[GPTQ_WEIGHT])
        return error_set(
            err, ERROR_DATA,
            "%s: %s is %s, but config.json has it in the format of %s; exclude its layer "
            "there (%s)",
            whole->file, whole->name, whole->dtype, quantizer_name(m->how->by),
            m->how->by == QUANTIZER_GPTQ ? "modules_in_block_to_quantize"
                                         : "modules_to_not_convert");
    text_init(&name, 0);
    model_add_quant_name(model, p, which, &name);
    error_set(err, ERROR_DATA, "%s: the tensor %s is missing; fetch the model again",
              model->plan->model_name_or_path, name.data);
    text_clear(&name);
    return false;
}

static bool find_all(const struct model *model, const struct parameter *p,
                     struct gptq_matrix *m, struct error *err)
{
    for (size_t i = 0; i < QUANT_TENSORS; i++)
        m->tensors[i] = model_find_quant_tensor(model, p, i);
    for (size_t i = 0; i <= (m->how->sorts ? GPTQ_COLUMNS : GPTQ_SCALES); i++)
        if (!m->tensors[i])
            return report_missing(model, p, m, i, err);
    return true;
}

bool model_load_gptq(struct model *model, struct parameter *p, struct error *err)
{
    const struct quantized_config *how = &model->config->quantized;
    const size_t bytes = affine_layout(how->affine, p->rows, p->cols).total;
    struct gptq_matrix m = { p->name, how, { 0 }, p->rows, p->cols };
    void *data;

    if (!find_all(model, p, &m, err) || !gptq_matrix_check(&m, err))
        return false;
    data = calloc(1, bytes);
    if (!data)
        return error_set(err, ERROR_SYSTEM, "no memory for %s", p->name);
    if (!gptq_matrix_unpack(&m, data))
        p->quantized.columns = NULL;
    p->dequantized_format = FORMAT_FP32; /* exact: rounded once, to the compute format */
    model_upload_frozen(model, p, (void *)p->quantized.codes, data, bytes);
    free(data);
    return true;
}
