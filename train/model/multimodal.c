/* train/model/multimodal.c - the table of models with towers. */
#include "config.h"

#include "train/model/multimodal.h"

#include <string.h>

#include "base/size.h"

/* Sources: transformers/models/NAME/modeling_NAME.py and conversion_mapping.py (5.24),
 * which maps the names of published files to those of modules. */
static const struct text_names llava_names[] = {
    { "model.language_model.", "lm_head", false },
    { "language_model.model.", "language_model.lm_head", false },
    { NULL, NULL, false },
};
static const struct text_names qwen2_vl_names[] = {
    { "model.language_model.", "lm_head", false },
    { "model.", "lm_head", false },
    { NULL, NULL, false },
};
static const struct text_names qwen3_vl_names[] = {
    { "model.language_model.", "lm_head", false },
    { NULL, NULL, false },
};

static const struct text_names llama4_names[] = {
    { "language_model.model.", "language_model.lm_head", false },
    { NULL, NULL, false },
};

/* Files that come with their code have adapters of the model's own, for speech and for
 * vision. */
static const struct text_names phi4_names[] = {
    { "model.", "lm_head", false },
    { "model.", "lm_head", true },
    { NULL, NULL, false },
};

static const char *const llama4_towers[] = { "vision_model.", "multi_modal_projector.",
                                             NULL };
static const char *const llava_towers[] = {
    "vision_tower.",
    "multi_modal_projector.",
    "image_newline",
    "model.vision_tower.",
    "model.multi_modal_projector.",
    "model.image_newline",
    NULL,
};
static const char *const mllama_towers[] = {
    "vision_model.",
    "multi_modal_projector.",
    "model.vision_model.",
    "model.multi_modal_projector.",
    NULL,
};
static const char *const gemma4_towers[] = {
    "model.vision_tower.", "model.embed_vision.",    "model.audio_tower.",
    "model.embed_audio.",  "model.vision_embedder.", NULL,
};
static const char *const audio_towers[] = {
    "audio_tower.",
    "multi_modal_projector.",
    "model.audio_tower.",
    "model.multi_modal_projector.",
    NULL,
};
static const char *const paddle_towers[] = { "visual.", "mlp_AR.", "model.visual.",
                                             "model.projector.", NULL };
static const char *const phi4_towers[] = { "model.embed_tokens_extend.", ".lora_A.",
                                           ".lora_B.", NULL };
static const char *const qwen_towers[] = { "visual.", "model.visual.", NULL };
/* mtp: layers that predict further tokens, which transformers does not have */
static const char *const qwen3_5_towers[] = { "model.visual.", "mtp.", NULL };

static const struct multimodal rows[] = {
    { .model_type = "audioflamingo3",
      .text_type = "qwen2",
      .names = llava_names,
      .towers = audio_towers },
    { .model_type = "gemma3",
      .text_type = "gemma3_text",
      .tied = true,
      .names = llava_names,
      .towers = llava_towers },
    { .model_type = "gemma4",
      .text_type = "gemma4_text",
      .fixed_text = true,
      .tied = true,
      .names = qwen3_vl_names,
      .towers = gemma4_towers },
    { .model_type = "gemma4_unified",
      .text_type = "gemma4_unified_text",
      .fixed_text = true,
      .tied = true,
      .names = qwen3_vl_names,
      .towers = gemma4_towers },
    { .model_type = "glm4v",
      .text_type = "glm4v_text",
      .fixed_text = true,
      .names = qwen3_vl_names,
      .towers = qwen_towers },
    { .model_type = "internvl",
      .text_type = "qwen2",
      .names = llava_names,
      .towers = llava_towers },
    { .model_type = "lfm2_vl",
      .text_type = "lfm2",
      .tied = true,
      .names = llava_names,
      .towers = llava_towers },
    { .model_type = "llama4",
      .text_type = "llama4_text",
      .fixed_text = true,
      .names = llama4_names,
      .towers = llama4_towers },
    { .model_type = "llava",
      .text_type = "llama",
      .names = llava_names,
      .towers = llava_towers },
    { .model_type = "llava_next",
      .text_type = "llama",
      .names = llava_names,
      .towers = llava_towers },
    { .model_type = "llava_onevision",
      .text_type = "qwen2",
      .names = llava_names,
      .towers = llava_towers },
    { .model_type = "mistral3",
      .text_type = "mistral",
      .names = llava_names,
      .towers = llava_towers },
    { .model_type = "mllama",
      .text_type = "mllama_text_model",
      .fixed_text = true,
      .crosses = true,
      .names = llava_names,
      .towers = mllama_towers },
    { .model_type = "musicflamingo",
      .text_type = "qwen2",
      .names = llava_names,
      .towers = audio_towers },
    { .model_type = "paddleocr_vl",
      .text_type = "paddleocr_vl_text",
      .fixed_text = true,
      .flat = true,
      .tied = true,
      .names = qwen2_vl_names,
      .towers = paddle_towers,
      .projector = "mlp_AR" },
    { .model_type = "phi4_multimodal",
      .text_type = "phi4_multimodal",
      .fixed_text = true,
      .flat = true,
      .names = phi4_names,
      .towers = phi4_towers },
    { .model_type = "phi4mm",
      .text_type = "phi4_multimodal",
      .fixed_text = true,
      .flat = true,
      .names = phi4_names,
      .towers = phi4_towers },
    { .model_type = "qwen2_5_vl",
      .text_type = "qwen2_5_vl_text",
      .fixed_text = true,
      .flat = true,
      .names = qwen2_vl_names,
      .towers = qwen_towers },
    { .model_type = "qwen2_audio",
      .text_type = "qwen2",
      .names = llava_names,
      .towers = audio_towers },
    { .model_type = "qwen2_vl",
      .text_type = "qwen2_vl_text",
      .fixed_text = true,
      .flat = true,
      .names = qwen2_vl_names,
      .towers = qwen_towers },
    { .model_type = "qwen3_5",
      .text_type = "qwen3_5_text",
      .fixed_text = true,
      .names = qwen3_vl_names,
      .towers = qwen3_5_towers },
    { .model_type = "qwen3_5_moe",
      .text_type = "qwen3_5_moe_text",
      .fixed_text = true,
      .names = qwen3_vl_names,
      .towers = qwen3_5_towers },
    { .model_type = "qwen3_vl",
      .text_type = "qwen3_vl_text",
      .fixed_text = true,
      .names = qwen3_vl_names,
      .towers = qwen_towers },
    { .model_type = "qwen3_vl_moe",
      .text_type = "qwen3_vl_moe_text",
      .fixed_text = true,
      .names = qwen3_vl_names,
      .towers = qwen_towers },
    { .model_type = "voxtral",
      .text_type = "voxtral_text",
      .fixed_text = true,
      .names = llava_names,
      .towers = audio_towers },
};

/* The values of a text_config that it need not have, and which architecture it is.  Sources:
 * transformers/models/NAME/configuration_NAME.py. */
static const struct text_type {
    const char *model_type, *architecture;
    const char *defaults; /* JSON */
    const char *ignored;  /* key that the class does not read; NULL: none */
    const char *dropout;  /* its key for attention_dropout; NULL: the same */
} text_types[] = {
    { .model_type = "gemma3_text",
      .architecture = "gemma3_text",
      .defaults =
          "{\"vocab_size\": 262208, \"hidden_size\": 2304, \"intermediate_size\": 9216, "
          "\"num_hidden_layers\": 26, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, "
          "\"max_position_embeddings\": 131072}" },
#define GEMMA4                                                                     \
    "\"vocab_size\": 262144, \"hidden_size\": 2304, \"intermediate_size\": 9216, " \
    "\"num_hidden_layers\": 30, \"num_attention_heads\": 8, "                      \
    "\"num_key_value_heads\": 4"
    { .model_type = "gemma4_text",
      .architecture = "gemma4_text",
      .defaults = "{" GEMMA4 ", \"max_position_embeddings\": 131072}" },
    { .model_type = "gemma4_unified_text",
      .architecture = "gemma4_unified_text",
      .defaults =
          "{" GEMMA4 ", \"max_position_embeddings\": 262144, \"sliding_window\": 1024}" },
    { .model_type = "glm4v_text",
      .architecture = "glm4",
      .defaults =
          "{\"vocab_size\": 151552, \"hidden_size\": 4096, \"intermediate_size\": 13696, "
          "\"num_hidden_layers\": 40, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 2, \"max_position_embeddings\": 32768, "
          "\"rms_norm_eps\": 1e-5, \"head_dim\": null}" },
    { .model_type = "lfm2",
      .architecture = "lfm2",
      .defaults =
          "{\"vocab_size\": 65536, \"hidden_size\": 2560, \"intermediate_size\": 12288, "
          "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 8, \"max_position_embeddings\": 128000}" },
    { .model_type = "llama",
      .architecture = "llama",
      .defaults =
          "{\"vocab_size\": 32000, \"hidden_size\": 4096, \"intermediate_size\": 11008, "
          "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
          "\"max_position_embeddings\": 2048}" },
    { .model_type = "llama4_text",
      .architecture = "llama4_text",
      .defaults =
          "{\"vocab_size\": 202048, \"hidden_size\": 5120, \"intermediate_size_mlp\": 16384, "
          "\"num_hidden_layers\": 48, \"num_attention_heads\": 40, "
          "\"num_key_value_heads\": 8, \"max_position_embeddings\": 131072}" },
    { .model_type = "mistral",
      .architecture = "mistral",
      .defaults =
          "{\"vocab_size\": 32000, \"hidden_size\": 4096, \"intermediate_size\": 14336, "
          "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 8, \"max_position_embeddings\": 131072}",
      .ignored = "layer_types" },
    { .model_type = "mistral4",
      .architecture = "mistral4",
      .defaults =
          "{\"vocab_size\": 131072, \"hidden_size\": 4096, \"intermediate_size\": 12288, "
          "\"num_hidden_layers\": 36, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 32, \"max_position_embeddings\": 1048576, "
          "\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, "
          "\"factor\": 128.0, \"original_max_position_embeddings\": 8192, "
          "\"beta_fast\": 32.0, \"beta_slow\": 1.0, \"mscale\": 1.0, "
          "\"mscale_all_dim\": 1.0, \"llama_4_scaling_beta\": 0.1}}" },
    /* its class never ties the embeddings, which have more rows than the head */
    { .model_type = "mllama_text_model",
      .architecture = "llama",
      .defaults =
          "{\"vocab_size\": 128256, \"hidden_size\": 4096, \"intermediate_size\": 14336, "
          "\"num_hidden_layers\": 40, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 8, \"max_position_embeddings\": 131072, "
          "\"rms_norm_eps\": 1e-5, \"rope_theta\": 500000.0, \"dropout\": 0.0, "
          "\"bos_token_id\": 128000, \"eos_token_id\": 128001, \"pad_token_id\": 128004, "
          "\"cross_attention_layers\": [3, 8, 13, 18, 23, 28, 33, 38]}",
      .ignored = "tie_word_embeddings",
      .dropout = "dropout" },
    { .model_type = "ministral3",
      .architecture = "ministral3",
      .defaults =
          "{\"vocab_size\": 131072, \"hidden_size\": 4096, \"intermediate_size\": 14336, "
          "\"num_hidden_layers\": 34, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 8, \"max_position_embeddings\": 262144, "
          "\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 1000000.0, "
          "\"factor\": 16.0, \"original_max_position_embeddings\": 16384, "
          "\"beta_fast\": 32.0, \"beta_slow\": 1.0, \"mscale\": 1.0, "
          "\"mscale_all_dim\": 1.0, \"llama_4_scaling_beta\": 0.1}}" },
    { .model_type = "paddleocr_vl_text",
      .architecture = "paddleocr_vl_text",
      .defaults =
          "{\"vocab_size\": 103424, \"hidden_size\": 1024, \"intermediate_size\": 3072, "
          "\"num_hidden_layers\": 18, \"num_attention_heads\": 16, "
          "\"num_key_value_heads\": 2, \"max_position_embeddings\": 131072, "
          "\"pad_token_id\": 0, \"bos_token_id\": 1, \"eos_token_id\": 2}" },
    { .model_type = "phi4_multimodal",
      .architecture = "phi3",
      .defaults =
          "{\"vocab_size\": 200064, \"hidden_size\": 3072, \"intermediate_size\": 8192, "
          "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 8, \"max_position_embeddings\": 131072, "
          "\"rms_norm_eps\": 1e-5, \"pad_token_id\": 199999}" },
    { .model_type = "qwen2",
      .architecture = "qwen2",
      .defaults =
          "{\"vocab_size\": 151936, \"hidden_size\": 4096, \"intermediate_size\": 22016, "
          "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 32, \"max_position_embeddings\": 32768}" },
#define QWEN2_VL                                                                     \
    "{\"vocab_size\": 152064, \"hidden_size\": 8192, \"intermediate_size\": 29568, " \
    "\"num_hidden_layers\": 80, \"num_attention_heads\": 64, "                       \
    "\"num_key_value_heads\": 8, \"max_position_embeddings\": 32768, "               \
    "\"rms_norm_eps\": 1e-5, \"rope_theta\": 1000000.0, \"max_window_layers\": 80, " \
    "\"bos_token_id\": 151643, \"eos_token_id\": 151645}"
    { .model_type = "qwen2_5_vl_text", .architecture = "qwen2", .defaults = QWEN2_VL },
    { .model_type = "qwen2_vl_text", .architecture = "qwen2", .defaults = QWEN2_VL },
    { .model_type = "qwen3",
      .architecture = "qwen3",
      .defaults =
          "{\"vocab_size\": 151936, \"hidden_size\": 4096, \"intermediate_size\": 22016, "
          "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 32, \"max_position_embeddings\": 32768}" },
    { .model_type = "qwen3_5_text",
      .architecture = "qwen3_5_text",
      .defaults =
          "{\"vocab_size\": 248320, \"hidden_size\": 4096, \"intermediate_size\": 12288, "
          "\"num_hidden_layers\": 32, \"num_attention_heads\": 16, "
          "\"num_key_value_heads\": 4, \"max_position_embeddings\": 32768}" },
    { .model_type = "qwen3_5_moe_text",
      .architecture = "qwen3_5_moe_text",
      .defaults =
          "{\"vocab_size\": 248320, \"hidden_size\": 2048, \"num_hidden_layers\": 40, "
          "\"moe_intermediate_size\": 512, \"num_attention_heads\": 16, "
          "\"num_key_value_heads\": 2, \"max_position_embeddings\": 32768}" },
    { .model_type = "qwen3_vl_moe_text",
      .architecture = "qwen3_vl_moe_text",
      .defaults =
          "{\"vocab_size\": 151936, \"hidden_size\": 2048, \"intermediate_size\": 5632, "
          "\"num_hidden_layers\": 24, \"num_attention_heads\": 16, "
          "\"num_key_value_heads\": 16, \"max_position_embeddings\": 128000}" },
    { .model_type = "qwen3_vl_text",
      .architecture = "qwen3",
      .defaults =
          "{\"vocab_size\": 151936, \"hidden_size\": 4096, \"intermediate_size\": 22016, "
          "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 32, \"max_position_embeddings\": 128000, "
          "\"rope_theta\": 500000.0}" },
    /* a llama with the values of VoxtralConfig */
    { .model_type = "voxtral_text",
      .architecture = "llama",
      .defaults =
          "{\"vocab_size\": 131072, \"hidden_size\": 3072, \"intermediate_size\": 8192, "
          "\"num_hidden_layers\": 30, \"num_attention_heads\": 32, "
          "\"num_key_value_heads\": 8, \"head_dim\": 128, \"rms_norm_eps\": 1e-5, "
          "\"rope_theta\": 100000000.0, \"max_position_embeddings\": 131072}" },
};

/* Keys of the whole model that apply to its text model.  tie_word_embeddings may be in both:
 * transformers 4 used the text model's; 5 uses that of the whole model, and always saves it
 * if it is true. */
static const char *const shared[] = {
    "tie_word_embeddings", "dtype",        "torch_dtype",       "quantization_config",
    "bos_token_id",        "eos_token_id", "initializer_range",
};

const struct multimodal *multimodal_at(size_t index)
{
    return index < TS_COUNT(rows) ? &rows[index] : NULL;
}

const struct multimodal *multimodal_find(const char *model_type)
{
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        if (strcmp(rows[i].model_type, model_type) == 0)
            return &rows[i];
    return NULL;
}

static bool is_given(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return value && !json_is_null(value);
}

static void add_shared(const struct multimodal *row, const json_t *root, json_t *text)
{
    for (size_t i = 0; i < TS_COUNT(shared); i++)
        if (!is_given(text, shared[i]) && is_given(root, shared[i]))
            json_object_set(text, shared[i], json_object_get(root, shared[i]));
    if (json_is_true(json_object_get(root, "tie_word_embeddings")))
        json_object_set_new(text, "tie_word_embeddings", json_true());
    if (!is_given(text, "tie_word_embeddings"))
        json_object_set_new(text, "tie_word_embeddings", json_boolean(row->tied));
}

/* Set the architecture, and the values that the text model's class has by default. */
static void add_defaults(const struct multimodal *row, json_t *text)
{
    const char *type = json_string_value(json_object_get(text, "model_type"));

    if (row->fixed_text || !type)
        type = row->text_type;
    for (size_t i = 0; i < TS_COUNT(text_types); i++)
        if (strcmp(text_types[i].model_type, type) == 0) {
            json_t *defaults = json_loads(text_types[i].defaults, 0, NULL);

            json_object_update_missing(text, defaults);
            json_decref(defaults);
            if (text_types[i].ignored)
                json_object_del(text, text_types[i].ignored);
            if (text_types[i].dropout)
                json_object_set(text, "attention_dropout",
                                json_object_get(text, text_types[i].dropout));
            type = text_types[i].architecture;
        }
    json_object_set_new(text, "model_type", json_string(type));
}

json_t *multimodal_text(const struct multimodal *row, const json_t *root,
                        const char *file, struct error *err)
{
    const json_t *from = json_object_get(root, "text_config");
    json_t *text;

    if (!json_is_object(from) && row->flat)
        from = root;
    if (!json_is_object(from)) {
        error_set(err, ERROR_DATA, "%s: a model of type %s must have a text_config", file,
                  row->model_type);
        return NULL;
    }
    text = json_deep_copy(from);
    add_shared(row, root, text);
    add_defaults(row, text);
    return text;
}

const struct architecture *
multimodal_architecture(const struct multimodal *row, const struct architecture *text,
                        const struct projector_config *projector, struct arena *arena)
{
    struct architecture *out = arena_alloc(arena, sizeof(*out));
    const struct text_names *names = &row->names[0];
    size_t skip = strlen(text->base);

    *out = *text;
    out->base = names->base;
    out->blocks = arena_printf(arena, "%s%s", names->base, text->blocks + skip);
    for (enum module i = 0; i < MODULES; i++)
        if (text->paths[i] && !module_in_block(i))
            out->paths[i] = i == MODULE_HEAD ? names->head
                                             : arena_printf(arena, "%s%s", names->base,
                                                            text->paths[i] + skip);
    out->has_towers = true;
    out->projector = projector->path;
    for (enum module i = MODULE_PROJECTOR_NORM; i <= MODULE_PROJECTOR_LAST; i++) {
        const char *name = projector_config_name(projector, i);

        out->paths[i] =
            name ? arena_printf(arena, "%s%s%s", projector->path, *name ? "." : "", name)
                 : NULL;
    }
    return out;
}

/* Files without the prefix of the whole model are those of transformers before 4.52. */
const char *multimodal_projector(const struct multimodal *row,
                                 const struct text_names *names, const char *path)
{
    static const char prefix[] = "model.";

    if (strcmp(names->base, row->names[0].base) == 0)
        return path;
    return row->projector ? row->projector : path + strlen(prefix);
}

bool multimodal_is_tower(const struct multimodal *row, const char *name)
{
    for (size_t i = 0; row->towers[i]; i++)
        if (row->towers[i][0] == '.' ? strstr(name, row->towers[i]) != NULL
                                     : text_starts(name, row->towers[i]))
            return true;
    return false;
}
