/* train/model/model_gguf.c - the names of tensors and of settings in GGUF, and what differs
 * in the layout of weights.
 *
 * Sources: ggml-org/llama.cpp, convert_hf_to_gguf.py and gguf-py/gguf/constants.py; the
 * classes LlamaModel, Qwen2Model, Qwen3Model, GemmaModel, Gemma2Model, Gemma3Model and
 * Phi3MiniModel.
 */
#include "config.h"

#include "train/model/model_gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "train/model/gguf_tokenizer.h"

/* Models of a type, by llama.cpp's name of their architecture. */
struct family {
    const char *model_type, *name;
    enum activation activation;
    bool permuted;             /* columns 2 i and 2 i + 1 of a head turn together */
    bool qkv_bias, all_biases; /* may have them */
    double shift;              /* added to weights of norms */
    size_t windows;            /* all but each of this number of layers have one */
    size_t other_scores;       /* layers of the model whose scores differ */
};

static const struct family families[] = {
    { "llama", "llama", ACTIVATION_SILU, true, true, true, 0, 0, 0 },
    { "mistral", "llama", ACTIVATION_SILU, true, false, false, 0, 0, 0 },
    { "qwen2", "qwen2", ACTIVATION_SILU, false, true, false, 0, 0, 0 },
    { "qwen3", "qwen3", ACTIVATION_SILU, false, false, false, 0, 0, 0 },
    { "phi3", "phi3", ACTIVATION_SILU, false, false, false, 0, 0, 0 },
    { "gemma", "gemma", ACTIVATION_GELU_TANH, false, false, false, 1, 0, 0 },
    { "gemma2", "gemma2", ACTIVATION_GELU_TANH, false, false, false, 1, 2, 46 },
    { "gemma3_text", "gemma3", ACTIVATION_GELU_TANH, false, false, false, 1, 6, 62 },
};

static const char *const names[MODULES] = {
    [MODULE_EMBED] = "token_embd",   [MODULE_NORM1] = "attn_norm",
    [MODULE_QKV] = "attn_qkv",       [MODULE_Q] = "attn_q",
    [MODULE_K] = "attn_k",           [MODULE_V] = "attn_v",
    [MODULE_Q_NORM] = "attn_q_norm", [MODULE_K_NORM] = "attn_k_norm",
    [MODULE_O] = "attn_output",      [MODULE_POST1] = "post_attention_norm",
    [MODULE_NORM2] = "ffn_norm",     [MODULE_GATE_UP] = "ffn_up",
    [MODULE_GATE] = "ffn_gate",      [MODULE_UP] = "ffn_up",
    [MODULE_DOWN] = "ffn_down",      [MODULE_POST2] = "post_ffw_norm",
    [MODULE_NORM] = "output_norm",   [MODULE_HEAD] = "output",
};

/* Of each enum export_gguf: the format of matrices, llama.cpp's number of the format of a
 * file (LLAMA_FTYPE_), and the name of the file. */
static const struct {
    enum gguf_type type;
    uint32_t number;
    const char *file;
} formats[] = {
    [EXPORT_GGUF_F16] = { GGUF_F16, 1, "model-F16.gguf" },
    [EXPORT_GGUF_BF16] = { GGUF_BF16, 32, "model-BF16.gguf" },
    [EXPORT_GGUF_Q8_0] = { GGUF_Q8_0, 7, "model-Q8_0.gguf" },
};

/* What is written. */
struct output {
    const struct model_gguf *from;
    const struct family *family;
    struct model_config config;
    struct safetensors *files;
    struct gguf_tensor *tensors;
    size_t count;
    struct arena *arena;
};

/* A tensor of the folder. */
struct weight {
    const struct stored_tensor *stored;
    const struct output *output;
    size_t heads; /* whose rows are reordered; 0: none are */
    double shift;
};

static const struct family *find_family(const struct model_config *config)
{
    for (size_t i = 0; i < TS_COUNT(families) && !config->multimodal; i++)
        if (strcmp(families[i].model_type, config->architecture->model_type) == 0)
            return &families[i];
    return NULL;
}

static bool refuse(struct error *err, const char *what)
{
    return error_set(err, ERROR_DATA, "export_gguf: llama.cpp does not have %s", what);
}

/* llama.cpp knows the factor of scores, and the layers with windows, by the family. */
static bool check_scores(const struct model_config *c, const struct family *family,
                         struct error *err)
{
    double size = family->other_scores == c->layers
                      ? (double)c->hidden_size / (double)c->heads
                      : (double)c->head_size;

    if (fabs(c->score_scale * sqrt(size) - 1) > 1e-6)
        return refuse(err, "this factor of attention scores (query_pre_attn_scalar)");
    for (size_t i = 0; family->windows > 0 && i < c->layers; i++)
        if (!c->windowed || c->windowed[i] != ((i + 1) % family->windows != 0))
            return refuse(err, "attention windows in other layers than usual");
    return true;
}

/* llama.cpp computes yarn as transformers does without settings of its own, and has the
 * divisors of longrope for Phi 3. */
static bool check_rope(const struct model_config *c, const struct family *family,
                       struct error *err)
{
    const struct rope *rope = &c->rope;

    switch (rope->kind) {
    case ROPE_DEFAULT:
    case ROPE_LINEAR:
    case ROPE_LLAMA3:
        return true;
    case ROPE_YARN:
        return (rope->truncate &&
                fabs(rope->attention_factor - (0.1 * log(rope->factor) + 1)) < 1e-6) ||
               refuse(err, "this attention_factor, mscale or truncate of yarn");
    case ROPE_LONGROPE:
        return (strcmp(family->name, "phi3") == 0 && rope->short_scale == 0) ||
               refuse(err, "longrope in models of this type");
    default:
        return error_set(err, ERROR_DATA,
                         "export_gguf supports only the types linear, llama3, yarn and "
                         "longrope of rope_scaling");
    }
}

bool model_gguf_check(const struct model_config *c, const char *dir, struct error *err)
{
    const struct family *family = find_family(c);

    if (!family)
        return error_set(err, ERROR_DATA,
                         "export_gguf supports models of type llama, mistral, qwen2, "
                         "qwen3, phi3, gemma, gemma2 and gemma3_text, not %s",
                         c->multimodal ? "models with towers"
                                       : c->architecture->model_type);
    if (c->scores)
        return error_set(err, ERROR_DATA,
                         "export_gguf: a reward model (stage: rm) has no head of tokens, "
                         "which llama.cpp needs");
    if (c->activation != family->activation)
        return refuse(err, "this activation in models of this type");
    if ((c->qkv_bias && !family->qkv_bias) ||
        ((c->output_bias || c->mlp_bias) && !family->all_biases))
        return refuse(err, "these biases in models of this type");
    return check_rope(c, family, err) && check_scores(c, family, err) &&
           gguf_tokenizer_check(dir, err);
}

/* Return the row of the folder that is row `row` of the file: of each head, the rows of
 * both halves take turns. */
static size_t permuted(size_t row, size_t head_rows)
{
    size_t in_head = row % head_rows;

    return row - in_head + in_head % 2 * (head_rows / 2) + in_head / 2;
}

static bool read_row(const struct gguf_tensor *tensor, size_t row, float *to,
                     struct error *err)
{
    const struct weight *w = tensor->context;
    const struct stored_tensor *t = w->stored;
    size_t bytes = format_info(t->format)->bytes;
    size_t heads = w->heads, from = row;
    const char *data = t->data;

    (void)err;
    if (row % 1024 == 0) {
        heartbeat_tick(w->output->from->heartbeat);
        safetensors_release(w->output->files);
    }
    if (heads > 0 && tensor->rank == 2)
        from = permuted(row, tensor->rows / heads);
    for (size_t i = 0; i < tensor->cols && heads > 0 && tensor->rank == 1; i++)
        format_convert(to + i, FORMAT_FP32,
                       data + permuted(i, tensor->cols / heads) * bytes, t->format, 1);
    if (heads == 0 || tensor->rank == 2)
        format_convert(to, FORMAT_FP32, data + from * tensor->cols * bytes, t->format,
                       tensor->cols);
    for (size_t i = 0; w->shift != 0 && i < tensor->cols; i++)
        to[i] += (float)w->shift;
    return true;
}

static bool is_norm(enum module module)
{
    return module == MODULE_NORM1 || module == MODULE_NORM2 || module == MODULE_NORM ||
           module == MODULE_POST1 || module == MODULE_POST2 || module == MODULE_Q_NORM ||
           module == MODULE_K_NORM;
}

/* Vectors are in fp32, and so are matrices whose rows have no whole blocks in fp16. */
static enum gguf_type type_of(const struct output *out, const struct stored_tensor *t)
{
    enum gguf_type type = formats[out->from->format].type;

    if (t->rank < 2)
        return GGUF_F32;
    return type == GGUF_Q8_0 && t->shape[1] % GGUF_BLOCK != 0 ? GGUF_F16 : type;
}

static void add_tensor(struct output *out, const struct module_place *at,
                       const struct stored_tensor *t, const char *suffix)
{
    const struct model_config *c = &out->config;
    struct weight *w = arena_alloc(out->arena, sizeof(*w));
    const char *name = arena_printf(out->arena, "%s.%s", names[at->module], suffix);

    *w = (struct weight) { .stored = t, .output = out };
    if (out->family->permuted && at->module == MODULE_Q)
        w->heads = c->heads;
    if (out->family->permuted && at->module == MODULE_K)
        w->heads = c->kv_heads;
    if (is_norm(at->module))
        w->shift = out->family->shift;
    if (module_in_block(at->module))
        name = arena_printf(out->arena, "blk.%zu.%s", at->layer, name);
    out->tensors[out->count++] =
        (struct gguf_tensor) { .name = name,
                               .type = type_of(out, t),
                               .rank = t->rank,
                               .rows = t->rank > 1 ? t->shape[0] : 1,
                               .cols = t->shape[t->rank - 1],
                               .read = read_row,
                               .context = w };
}

/* Add the weight and the bias of a module, if the architecture has it. */
static bool add_module(struct output *out, const struct module_place *at,
                       struct error *err)
{
    static const char *const suffixes[] = { "weight", "bias" };
    const struct architecture *a = out->config.architecture;
    struct text name;
    bool ok = true;

    if (!a->paths[at->module] || (at->module == MODULE_HEAD && out->config.tied))
        return true;
    for (size_t i = 0; ok && i < TS_COUNT(suffixes); i++) {
        const struct stored_tensor *t;

        text_init(&name, 0);
        architecture_name(a, at, &name);
        text_addf(&name, ".%s", suffixes[i]);
        t = safetensors_find(out->files, name.data);
        if (t && (t->rank < 1 || t->rank > 2 || t->format == FORMAT_COUNT))
            ok = error_set(err, ERROR_DATA, "export_gguf: %s has the type %s", name.data,
                           t->dtype);
        else if (t)
            add_tensor(out, at, t, suffixes[i]);
        else if (i == 0)
            ok = error_set(err, ERROR_DATA, "export_gguf: there is no %s", name.data);
        text_clear(&name);
    }
    return ok;
}

/* The divisors of the frequencies, which llama.cpp reads as a tensor. */
static bool read_divisors(const struct gguf_tensor *tensor, size_t row, float *to,
                          struct error *err)
{
    const struct output *out = tensor->context;
    const struct rope *rope = &out->config.rope;

    (void)row, (void)err;
    for (size_t i = 0; i < tensor->cols; i++) {
        double plain = pow(rope->theta, -2.0 * (double)i / (double)out->config.rotary);

        to[i] = (float)(plain / rope_frequency(rope, out->config.rotary, 1, i));
    }
    return true;
}

static bool read_long_factors(const struct gguf_tensor *tensor, size_t row, float *to,
                              struct error *err)
{
    const double *factors = tensor->context;

    (void)row, (void)err;
    for (size_t i = 0; i < tensor->cols; i++)
        to[i] = (float)factors[i];
    return true;
}

/* A vector of half the columns that are rotated. */
static void add_divisors(struct output *out, struct gguf_tensor tensor)
{
    tensor.type = GGUF_F32;
    tensor.rank = tensor.rows = 1;
    tensor.cols = out->config.rotary / 2;
    out->tensors[out->count++] = tensor;
}

static void add_rope_tensors(struct output *out)
{
    const struct rope *rope = &out->config.rope;

    if (rope->kind == ROPE_LLAMA3)
        add_divisors(out, (struct gguf_tensor) { .name = "rope_freqs.weight",
                                                 .read = read_divisors,
                                                 .context = out });
    if (rope->kind != ROPE_LONGROPE)
        return;
    add_divisors(out, (struct gguf_tensor) { .name = "rope_factors_long.weight",
                                             .read = read_long_factors,
                                             .context = rope->long_factors });
    add_divisors(out, (struct gguf_tensor) { .name = "rope_factors_short.weight",
                                             .read = read_long_factors,
                                             .context = rope->short_factors });
}

static bool add_tensors(struct output *out, struct error *err)
{
    const size_t layers = out->config.layers;
    bool ok = true;

    out->tensors = memory_alloc((layers + 1) * 2 * MODULES * sizeof(*out->tensors));
    for (size_t layer = 0; ok && layer < layers; layer++)
        for (enum module m = 0; ok && m < MODULES; m++)
            if (names[m] && (module_in_block(m) || (m == MODULE_EMBED && layer == 0)))
                ok = add_module(out, &(struct module_place) { m, layer, 0 }, err);
    ok = ok && add_module(out, &(struct module_place) { MODULE_NORM, 0, 0 }, err) &&
         add_module(out, &(struct module_place) { MODULE_HEAD, 0, 0 }, err);
    if (ok)
        add_rope_tensors(out);
    return ok;
}

static const char *key(const struct output *out, const char *name)
{
    return arena_printf(out->arena, "%s.%s", out->family->name, name);
}

static void add_rope(const struct output *out, struct gguf_values *values)
{
    static const char *const types[] = { [ROPE_LINEAR] = "linear", [ROPE_YARN] = "yarn" };
    const struct rope *rope = &out->config.rope;

    gguf_add_float32(values, key(out, "rope.freq_base"), rope->theta);
    if (rope->kind == ROPE_LINEAR || rope->kind == ROPE_YARN) {
        gguf_add_string(values, key(out, "rope.scaling.type"), types[rope->kind]);
        gguf_add_float32(values, key(out, "rope.scaling.factor"), rope->factor);
    }
    if (rope->kind == ROPE_YARN) {
        gguf_add_float32(values, key(out, "rope.scaling.yarn_beta_fast"),
                         rope->beta_fast);
        gguf_add_float32(values, key(out, "rope.scaling.yarn_beta_slow"),
                         rope->beta_slow);
    }
    if (rope->kind == ROPE_LONGROPE)
        gguf_add_float32(values, key(out, "rope.scaling.attn_factor"),
                         rope->attention_factor > 0 ? rope->attention_factor : 1);
    if (rope->kind == ROPE_YARN || rope->kind == ROPE_LONGROPE)
        gguf_add_uint32(values, key(out, "rope.scaling.original_context_length"),
                        (uint64_t)rope->original_max_positions);
}

static void add_settings(const struct output *out, struct gguf_values *values)
{
    const struct model_config *c = &out->config;
    const struct {
        const char *name;
        size_t value;
    } sizes[] = {
        { "block_count", c->layers },
        { "context_length", c->max_positions },
        { "embedding_length", c->hidden_size },
        { "feed_forward_length", c->intermediate_size },
        { "attention.head_count", c->heads },
        { "attention.head_count_kv", c->kv_heads },
        { "attention.key_length", c->head_size },
        { "attention.value_length", c->head_size },
        { "rope.dimension_count", c->rotary },
        { "vocab_size", c->vocab_size },
    };

    for (size_t i = 0; i < TS_COUNT(sizes); i++)
        gguf_add_uint32(values, key(out, sizes[i].name), sizes[i].value);
    gguf_add_float32(values, key(out, "attention.layer_norm_rms_epsilon"), c->norm_eps);
    add_rope(out, values);
    if (c->has_local)
        gguf_add_float32(values, key(out, "rope.freq_base_swa"), c->rope_local.theta);
    if (out->family->windows > 0)
        gguf_add_uint32(values, key(out, "attention.sliding_window"), c->sliding_window);
    if (c->score_softcap != 0)
        gguf_add_float32(values, key(out, "attn_logit_softcapping"), c->score_softcap);
    if (c->logit_softcap != 0)
        gguf_add_float32(values, key(out, "final_logit_softcapping"), c->logit_softcap);
}

static bool write_file(struct output *out, struct error *err)
{
    const struct model_gguf *from = out->from;
    char *name = path_join(from->dir, formats[from->format].file);
    struct gguf_values values;
    bool ok;

    gguf_init(&values);
    gguf_add_string(&values, "general.architecture", out->family->name);
    gguf_add_string(&values, "general.type", "model");
    gguf_add_string(&values, "general.name", from->name);
    gguf_add_uint32(&values, "general.quantization_version", 2);
    gguf_add_uint32(&values, "general.file_type", formats[from->format].number);
    add_settings(out, &values);
    ok = gguf_tokenizer_add(from->dir, &out->config, &values, err) &&
         add_tensors(out, err) &&
         gguf_write(name, &values, out->tensors, out->count, err);
    gguf_clear(&values);
    free(name);
    return ok;
}

bool model_gguf_write(const struct model_gguf *from, struct error *err)
{
    struct output out = { .from = from, .arena = arena_new() };
    bool ok = model_config_read(from->dir, out.arena, &out.config, err) &&
              model_gguf_check(&out.config, from->dir, err);

    if (ok) {
        out.family = find_family(&out.config);
        out.files = safetensors_open(from->dir, "model", false, err);
        ok = out.files && write_file(&out, err);
    }
    free(out.tensors);
    safetensors_close(out.files);
    arena_free(out.arena);
    return ok;
}
