/* train/tower/tower_family.c - the table of models that have encoders. */
#include "config.h"

#include "train/tower/tower_family.h"

#include <string.h>

#include "base/size.h"
#include "train/tower/tower_encoders.h"

static const char *const audio_prefixes[] = { "audio_tower.", "model.audio_tower.",
                                              NULL };
/* transformers 5 saves models that it made itself without `vision_model.` */
static const char *const vision_prefixes[] = { "vision_tower.vision_model.",
                                               "vision_tower.",
                                               "model.vision_tower.vision_model.",
                                               "model.vision_tower.", NULL };
static const char *const plain_prefixes[] = { "vision_tower.", "model.vision_tower.",
                                              NULL };
static const char *const projector_prefixes[] = { "multi_modal_projector.",
                                                  "model.multi_modal_projector.", NULL };
static const char *const mllama_prefixes[] = { "vision_model.", "model.vision_model.",
                                               NULL };
static const char *const whole_prefixes[] = { "", "model.", NULL };
static const char *const embedder_prefixes[] = { "model.vision_embedder.", NULL };
static const char *const embedding_prefixes[] = { "model.embed_vision.", NULL };
static const char *const paddle_prefixes[] = { "visual.vision_model.",
                                               "model.visual.vision_model.", NULL };
static const char *const paddle_projector_prefixes[] = { "mlp_AR.", "model.projector.",
                                                         NULL };
static const char *const phi4_prefixes[] = {
    "model.embed_tokens_extend.audio_embed.encoder.", NULL
};
static const char *const phi4_projector_prefixes[] = {
    "model.embed_tokens_extend.audio_embed.", NULL
};
static const char *const visual_prefixes[] = { "visual.", "model.visual.", NULL };

#define SOUND                                              \
    .section = "audio_config", .prefixes = audio_prefixes, \
    .projector_prefixes = projector_prefixes
#define VISION                                               \
    .section = "vision_config", .prefixes = vision_prefixes, \
    .projector_prefixes = projector_prefixes
#define VISUAL                                                        \
    .section = "vision_config", .prefixes = visual_prefixes,          \
    .projector_prefixes = visual_prefixes, .rows = TOWER_ROWS_JOINED, \
    .patches_in_blocks = true, .output_width = true, .fixed = true
#define TWO_LINEARS \
    [TOWER_PROJECTOR_1] = AFFINE("linear_1"), [TOWER_PROJECTOR_2] = AFFINE("linear_2")
#define QWEN2_MERGER                                                    \
    [TOWER_PROJECTOR_1] = AFFINE("merger.mlp.0"), [TOWER_PROJECTOR_2] = \
                                                      AFFINE("merger.mlp.2")
#define QWEN3_MERGER                                       \
    .projector = {                                         \
        [TOWER_PROJECTOR_NORM] = AFFINE("merger.norm"),    \
        [TOWER_PROJECTOR_1] = AFFINE("merger.linear_fc1"), \
        [TOWER_PROJECTOR_2] = AFFINE("merger.linear_fc2"), \
    }
#define LLAVA                                                                   \
    VISION, .rows = TOWER_ROWS_CHOSEN, .bias_key = "multimodal_projector_bias", \
            .biases = true, .projector = { TWO_LINEARS }

static const struct tower_family families[] = {
    { .model_type = "audioflamingo3",
      SOUND,
      .encoder = &tower_whisper,
      .is_default = true,
      .rows = TOWER_ROWS_PAIRS,
      .masked = true,
      .bias_key = "projector_bias",
      .biases = true,
      .projector = { TWO_LINEARS } },
    { .model_type = "gemma3",
      VISION,
      .encoder = &tower_siglip,
      .fixed = true,
      .rows = TOWER_ROWS_POOLED,
      .transposed = true,
      .rms_projector = true,
      .norm_offset = 1,
      .projector = { [TOWER_PROJECTOR_NORM] = WEIGHT("mm_soft_emb_norm"),
                     [TOWER_PROJECTOR_1] = BARE("mm_input_projection_weight") } },
    { .model_type = "gemma4_unified",
      .section = "vision_config",
      .prefixes = embedder_prefixes,
      .projector_prefixes = embedding_prefixes,
      .encoder = &tower_gemma4_unified,
      .fixed = true,
      .rows = TOWER_ROWS_JOINED,
      .rms_projector = true,
      .projector_eps_key = "rms_norm_eps",
      .projector = { [TOWER_PROJECTOR_NORM] = { NAMED("pre_projection_norm"),
                                                .made = true },
                     [TOWER_PROJECTOR_1] = WEIGHT("embedding_projection") } },
    { .model_type = "glm4v",
      VISUAL,
      .encoder = &tower_glm4_vision,
      .merge_conv = true,
      .projects_from = TOWER_PROJECTOR_1,
      .projector_eps = 1e-5,
      .projector = { [TOWER_PROJECTOR_MERGE] = AFFINE("downsample"),
                     [TOWER_PROJECTOR_1] = WEIGHT("merger.proj"),
                     [TOWER_PROJECTOR_NORM_2] = AFFINE("merger.post_projection_norm"),
                     [TOWER_PROJECTOR_UP] = { NAMED("merger.gate_proj",
                                                    "merger.up_proj") },
                     [TOWER_PROJECTOR_2] = WEIGHT("merger.down_proj") } },
    { .model_type = "internvl",
      .section = "vision_config",
      .prefixes = plain_prefixes,
      .projector_prefixes = projector_prefixes,
      .encoder = &tower_internvl,
      .is_default = true,
      .rows = TOWER_ROWS_JOINED,
      .ratio_key = "downsample_ratio",
      .norm_joined = true,
      .projector_eps = 1e-5,
      .projector = { [TOWER_PROJECTOR_NORM] = AFFINE("layer_norm"), TWO_LINEARS } },
    { .model_type = "lfm2_vl",
      VISION,
      .encoder = &tower_siglip2,
      .is_default = true,
      .rows = TOWER_ROWS_JOINED,
      .factor_key = "downsample_factor",
      .norm_key = "projector_use_layernorm",
      .middle_key = "projector_hidden_size",
      .bias_key = "projector_bias",
      .biases = true,
      .norm_joined = true,
      .projector_eps = 1e-5,
      .projector = { [TOWER_PROJECTOR_NORM] = AFFINE("layer_norm"), TWO_LINEARS } },
    { .model_type = "llama4",
      .section = "vision_config",
      .prefixes = mllama_prefixes,
      .projector_prefixes = whole_prefixes,
      .encoder = &tower_llama4_vision,
      .fixed = true,
      .rows = TOWER_ROWS_JOINED,
      .ratio_key = "pixel_shuffle_ratio",
      .merge_inside = true,
      .merge_adapts = true,
      .projects_from = TOWER_PROJECTOR_2,
      .projector = { [TOWER_PROJECTOR_MERGE] =
                         WEIGHT("vision_model.vision_adapter.mlp.fc1"),
                     [TOWER_PROJECTOR_1] = WEIGHT("vision_model.vision_adapter.mlp.fc2"),
                     [TOWER_PROJECTOR_2] = WEIGHT("multi_modal_projector.linear_1") } },
    { .model_type = "llava",
      LLAVA,
      .encoder = &tower_clip,
      .is_default = true,
      .absent = "{\"hidden_size\": 1024, \"intermediate_size\": 4096, "
                "\"num_hidden_layers\": 24, \"num_attention_heads\": 16, "
                "\"image_size\": 336, \"patch_size\": 14}" },
    { .model_type = "llava", LLAVA, .encoder = &tower_siglip },
    { .model_type = "llava", LLAVA, .encoder = &tower_pixtral },
    { .model_type = "mistral3",
      VISION,
      .encoder = &tower_pixtral,
      .is_default = true,
      .rows = TOWER_ROWS_JOINED,
      .absent = "{\"image_size\": 1540, \"patch_size\": 14}",
      .bias_key = "multimodal_projector_bias",
      .rms_projector = true,
      .projector = { [TOWER_PROJECTOR_NORM] = WEIGHT("norm"),
                     [TOWER_PROJECTOR_MERGE] = WEIGHT("patch_merger.merging_layer"),
                     TWO_LINEARS } },
    { .model_type = "mllama",
      .section = "vision_config",
      .prefixes = mllama_prefixes,
      .projector_prefixes = whole_prefixes,
      .encoder = &tower_mllama_vision,
      .fixed = true,
      .rows = TOWER_ROWS_TILES,
      .projector = { [TOWER_PROJECTOR_1] = AFFINE("multi_modal_projector") } },
    { .model_type = "paddleocr_vl",
      .section = "vision_config",
      .prefixes = paddle_prefixes,
      .projector_prefixes = paddle_projector_prefixes,
      .encoder = &tower_paddleocr_vision,
      .fixed = true,
      .rows = TOWER_ROWS_JOINED,
      .merge_inside = true,
      .square = true,
      .projector_eps = 1e-5,
      .projector = { [TOWER_PROJECTOR_NORM] = AFFINE("pre_norm"), TWO_LINEARS } },
    { .model_type = "phi4_multimodal",
      .section = "audio_config",
      .encoder = &tower_conformer,
      .fixed = true,
      .rows = TOWER_ROWS_SAME,
      .prefixes = phi4_prefixes,
      .projector_prefixes = phi4_projector_prefixes,
      .projector = { [TOWER_PROJECTOR_1] = AFFINE("up_proj_for_speech"),
                     [TOWER_PROJECTOR_2] = AFFINE("down_proj_for_speech") } },
    { .model_type = "phi4mm",
      .section = "audio_processor",
      .inner = "config",
      .encoder = &tower_published_conformer,
      .fixed = true,
      .rows = TOWER_ROWS_SAME,
      .prefixes = phi4_prefixes,
      .projector_prefixes = phi4_projector_prefixes,
      .projector = { [TOWER_PROJECTOR_1] = AFFINE("audio_projection.speech.0"),
                     [TOWER_PROJECTOR_2] = AFFINE("audio_projection.speech.2") } },
    { .model_type = "qwen2_audio",
      SOUND,
      .encoder = &tower_whisper,
      .is_default = true,
      .rows = TOWER_ROWS_PAIRS,
      .masked = true,
      .projector = { [TOWER_PROJECTOR_1] = AFFINE("linear") } },
    { .model_type = "qwen2_vl",
      VISUAL,
      .encoder = &tower_qwen2_vision,
      .projector = { [TOWER_PROJECTOR_NORM] = AFFINE("merger.ln_q"), QWEN2_MERGER } },
    { .model_type = "qwen2_5_vl",
      VISUAL,
      .encoder = &tower_qwen2_5_vision,
      .rms_projector = true,
      .projector = { [TOWER_PROJECTOR_NORM] = WEIGHT("merger.ln_q"), QWEN2_MERGER } },
    { .model_type = "qwen3_vl", VISUAL, .encoder = &tower_qwen3_vision, QWEN3_MERGER },
    { .model_type = "qwen3_vl_moe",
      VISUAL,
      .encoder = &tower_qwen3_vision,
      QWEN3_MERGER },
    { .model_type = "qwen3_5", VISUAL, .encoder = &tower_qwen3_5_vision, QWEN3_MERGER },
    { .model_type = "qwen3_5_moe",
      VISUAL,
      .encoder = &tower_qwen3_5_vision,
      QWEN3_MERGER },
    { .model_type = "voxtral",
      SOUND,
      .encoder = &tower_voxtral_whisper,
      .is_default = true,
      .rows = TOWER_ROWS_JOINED,
      .projector = { [TOWER_PROJECTOR_1] = WEIGHT("linear_1"),
                     [TOWER_PROJECTOR_2] = WEIGHT("linear_2") } },
};

const struct tower_family *tower_family_at(size_t index)
{
    return index < TS_COUNT(families) ? &families[index] : NULL;
}

static bool has_type(const struct tower_encoder *encoder, const char *type)
{
    for (size_t i = 0; i < TS_COUNT(encoder->types) && encoder->types[i]; i++)
        if (strcmp(encoder->types[i], type) == 0)
            return true;
    return false;
}

const struct tower_family *tower_family_find(const char *model_type,
                                             const char *tower_type)
{
    for (size_t i = 0; i < TS_COUNT(families); i++) {
        const struct tower_family *row = &families[i];

        if (strcmp(row->model_type, model_type) == 0 &&
            (row->fixed ||
             (tower_type ? has_type(row->encoder, tower_type) : row->is_default)))
            return row;
    }
    return NULL;
}

bool tower_layer_projects(enum tower_layer layer)
{
    return layer >= TOWER_PROJECTOR_NORM;
}

bool tower_family_projects(const struct tower_family *family, enum tower_layer layer)
{
    return tower_layer_projects(layer) && layer >= family->projects_from;
}

const struct tower_names *tower_family_names(const struct tower_family *family,
                                             enum tower_layer layer)
{
    return tower_layer_projects(layer) ? &family->projector[layer]
                                       : &family->encoder->names[layer];
}
