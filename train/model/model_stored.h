/* train/model/model_stored.h - parameters as files have them: layouts, values, quantized
 * matrices. */
#ifndef TRAIN_MODEL_MODEL_STORED_H
#define TRAIN_MODEL_MODEL_STORED_H

#include "train/model/model_internal.h"

/* Return how files store a parameter, with `item` bytes per element.  A bias is a
 * column. */
struct matrix_layout model_matrix_layout(const struct model *model,
                                         const struct parameter *p, size_t item);
/* Replace the rows of a whole parameter, as the model has them, by what files store. */
bool model_rows_to_stored(const struct model *model, const struct parameter *p,
                          enum format format, void *data, struct error *err);
/* Return the tensor of a parameter in the base's files, or NULL. */
const struct stored_tensor *model_find_tensor(const struct model *model,
                                              const char *name);

/* model_init.c: elements first .. first + count of a parameter, initialized from the
 * plan's seed: of the base as transformers does, of an adapter as PEFT does. */
void model_init_weights(const struct model *model, size_t index, size_t first,
                        size_t count, float *out);
void model_init_adapter(const struct model *model, size_t index, size_t first,
                        size_t count, float *out);

/* model_quantized.c: dequantize a 4-bit matrix into its copy. */
void model_dequantize(const struct model *model, const struct parameter *p);
/* model_operands.c: dequantize the 4-bit matrices of a layer. */
void model_dequantize_linear(const struct model *model, const struct linear *linear);
/* Quantize a matrix of the base's files; values and packed have room for a span. */
bool model_quantize(struct model *model, struct parameter *p, float *values, void *packed,
                    struct error *err);

/* model_prequantized.c, and model_gptq.c for GPTQ and AWQ: load a matrix that the files
 * have in 4 bits, or 8, without changing a value. */
bool model_load_prequantized(struct model *model, struct parameter *p, struct error *err);
bool model_load_gptq(struct model *model, struct parameter *p, struct error *err);
/* Tensors of a matrix in the files, and an expert's or a layer's bias that the model has
 * not. */
enum { QUANT_TENSORS = 5 };
/* Return tensor `which` of a matrix, in the order of the quantizer's list; NULL: none.
 * And append its name. */
const struct stored_tensor *model_find_quant_tensor(const struct model *model,
                                                    const struct parameter *p,
                                                    size_t which);
void model_add_quant_name(const struct model *model, const struct parameter *p,
                          size_t which, struct text *out);
/* Return how many quantization tensors (absmax, map, ...) the files have for a parameter,
 * and whether a tensor is one of them. */
size_t model_count_quant_tensors(const struct model *model, const struct parameter *p);
bool model_is_quant_tensor(const struct model *model, const struct parameter *p,
                           const struct stored_tensor *t);
/* For a tensor that is not part of the model: ERROR_DATA with the reason if it belongs to
 * weights of 8 bits or less; otherwise true. */
bool model_check_quant_tensor(const struct model *model, const struct stored_tensor *t,
                              struct error *err);

/* Elements that are converted at a time, so that memory never holds a tensor twice. */
#define MODEL_SPAN ((size_t)1 << 20)
/* Return how many rows of a parameter fit into a span, at least 1 (of a quantized one
 * whole blocks), and the largest number of elements in a span. */
size_t model_span_rows(const struct parameter *p);
size_t model_span_elements(const struct model *model);
/* Rows of a parameter in fp32. */
struct model_rows {
    const struct parameter *parameter;
    size_t first, count;
    float *values;
};

/* Read rows of a parameter of the base from its files. */
bool model_read(const struct model *model, const struct model_rows *rows,
                struct error *err);
/* Decode a matrix that a file has in few bits into its format. */
bool model_unpack(const struct stored_tensor *t, void *to, struct error *err);
/* Round frozen weights as if the model had been loaded in precision.frozen. */
void model_round_frozen(const struct model *model, float *values, void *packed,
                        size_t count);
/* Like model_read, with a merged adapter added; or initialized from the seed. */
bool model_read_original(const struct model *model, const struct model_rows *rows,
                         struct error *err);
/* rows (count, cols) += scale B A, B (count, r), A (r, cols); with magnitudes (count), each
 * row then gets its magnitude as its norm. */
struct merged_parts {
    const float *a, *b, *magnitudes; /* NULL: plain LoRA */
};
void model_merge(const struct model_rows *rows, const struct lora *lora,
                 struct merged_parts parts);

/* model_add_adapter.c: download rows of a parameter in fp32, malloc'ed; NULL: an error. */
float *model_read_values(const struct model *model, size_t index, size_t row, size_t rows,
                         struct error *err);
/* Add this run's adapter, if there is one, to rows of the base. */
bool model_add_adapter(const struct model *model, const struct model_rows *rows,
                       struct error *err);

/* Rows of A or B of an adapter of the matrices of all experts (expert_adapters.h). */
struct expert_factor {
    enum module module;
    enum part part;
    size_t layer, row, rows;
};
struct expert_factors {
    bool (*read)(const void *context, const struct expert_factor *at, float *to,
                 struct error *err);
    const void *context;
};

/* model_joined.c: the same for rows of a matrix of an expert, if it has such an adapter. */
bool model_merge_joined(const struct model *model, const struct model_rows *rows,
                        const struct lora *lora, const struct expert_factors *factors,
                        struct error *err);

#endif
