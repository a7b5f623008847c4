/* train/model/gptq_tensors.c - compares tensors of GPTQ and AWQ with their matrix. */
#include "config.h"

#include "train/model/gptq_tensors.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"

struct shape {
    const char *dtype; /* NULL: F16, BF16 or F32 */
    size_t rank, rows, cols;
};

static bool tensor_fits(const struct stored_tensor *t, const struct shape *expected,
                        struct error *err)
{
    const char *dtype = expected->dtype;
    size_t rank = expected->rank, rows = expected->rows, cols = expected->cols;
    bool is_scale = !dtype && t->format < FORMAT_COUNT;

    if (!is_scale && (!dtype || strcmp(t->dtype, dtype) != 0))
        return error_set(err, ERROR_DATA,
                         "%s: %s is %s, but must be %s; fetch the model again", t->file,
                         t->name, t->dtype, dtype ? dtype : "F16, BF16 or F32");
    if (t->rank == rank && t->shape[0] == rows && (rank == 1 || t->shape[1] == cols) &&
        t->bytes == rows * cols * safetensors_dtype_bytes(t->dtype))
        return true;
    if (rank == 1)
        return error_set(err, ERROR_DATA,
                         "%s: %s has %zu bytes, config.json requires the shape [%zu]; "
                         "fetch the model again",
                         t->file, t->name, t->bytes, rows);
    return error_set(err, ERROR_DATA,
                     "%s: %s has %zu bytes in %zu rows, config.json requires the shape "
                     "[%zu, %zu]; fetch the model again",
                     t->file, t->name, t->bytes, t->rank > 0 ? t->shape[0] : 0, rows,
                     cols);
}

/* Return the words that `codes` codes take; 0: they do not end at the end of a word. */
static size_t words_of(const struct quantized_config *how, size_t codes)
{
    return codes * how->bits % GPTQ_WORD_BITS == 0 ? codes * how->bits / GPTQ_WORD_BITS
                                                   : 0;
}

bool gptq_tensors_fit(const struct quantized_config *how,
                      const struct stored_tensor *const tensors[], const char *name,
                      size_t rows, size_t cols, struct error *err)
{
    bool gptq = how->by == QUANTIZER_GPTQ;
    size_t in = words_of(how, cols), out = words_of(how, rows);
    size_t groups = affine_groups(how->affine, cols);
    const struct shape shapes[] = {
        [GPTQ_WEIGHT] = { "I32", 2, gptq ? in : cols, gptq ? rows : out },
        [GPTQ_ZEROS] = { "I32", 2, groups, out },
        [GPTQ_SCALES] = { NULL, 2, groups, rows },
        [GPTQ_COLUMNS] = { "I32", 1, cols, 1 },
    };

    if (out == 0 || (gptq && in == 0))
        return error_set(err, ERROR_DATA,
                         "%s: a matrix of [%zu, %zu] cannot be packed into words of 32 "
                         "bits with %u bits each; use the model that it was made from",
                         name, rows, cols, how->bits);
    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        if (tensors[i] && !tensor_fits(tensors[i], &shapes[i], err))
            return false;
    return true;
}
