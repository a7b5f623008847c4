/* train/tower/tower_encoders.c - the encoders of sound and images: settings and names. */
#include "config.h"

#include "train/tower/tower_encoders.h"

#define WHISPER_SIZES                                                                 \
    "\"hidden_size\": 1280, \"intermediate_size\": 5120, \"num_hidden_layers\": 32, " \
    "\"num_attention_heads\": 20, \"hidden_act\": \"gelu\", \"num_mel_bins\": 128, "  \
    "\"max_source_positions\": 1500"

#define WHISPER_NAMES                                                            \
    .sound = true, .width_key = "hidden_size", .inner_key = "intermediate_size", \
    .eps = 1e-5, .blocks = "layers.", .defaults = "{" WHISPER_SIZES "}",         \
    .names = {                                                                   \
        [TOWER_CONV_1] = AFFINE("conv1"),                                        \
        [TOWER_CONV_2] = AFFINE("conv2"),                                        \
        [TOWER_POSITIONS] = WEIGHT("embed_positions"),                           \
        [TOWER_NORM_1] = AFFINE("self_attn_layer_norm"),                         \
        [TOWER_QKV] = { NAMED("self_attn.q_proj", "self_attn.k_proj",            \
                              "self_attn.v_proj"),                               \
                        .biases = 5 },                                           \
        [TOWER_ATTENTION_OUT] = AFFINE("self_attn.out_proj"),                    \
        [TOWER_NORM_2] = AFFINE("final_layer_norm"),                             \
        [TOWER_UP] = AFFINE("fc1"),                                              \
        [TOWER_DOWN] = AFFINE("fc2"),                                            \
        [TOWER_LAST_NORM] = AFFINE("layer_norm"),                                \
    }

const struct tower_encoder tower_whisper = {
    .types = { "qwen2_audio_encoder", "audioflamingo3_encoder" },
    WHISPER_NAMES,
};

/* transformers does not round the positions of Voxtral (_keep_in_fp32_modules_strict). */
const struct tower_encoder tower_voxtral_whisper = {
    .types = { "voxtral_encoder" },
    .fp32_positions = true,
    WHISPER_NAMES,
};

/* hidden_size of a published file is the width of the text model. */
const struct tower_encoder tower_qwen2_vision = {
    .types = { "qwen2_vl_vision", "qwen2_vl" },
    .defaults = "{\"embed_dim\": 1280, \"mlp_ratio\": 4, \"num_hidden_layers\": 32, "
                "\"num_attention_heads\": 16, \"hidden_size\": 3584, "
                "\"hidden_act\": \"quick_gelu\", \"patch_size\": 14, "
                "\"spatial_merge_size\": 2, \"temporal_patch_size\": 2}",
    .width_key = "embed_dim",
    .eps = 1e-6,
    .rope = TOWER_ROPE_AXES,
    .blocks = "blocks.",
    .names = {
        [TOWER_PATCHES] = WEIGHT("patch_embed.proj"),
        [TOWER_NORM_1] = AFFINE("norm1"),
        [TOWER_QKV] = AFFINE("attn.qkv"),
        [TOWER_ATTENTION_OUT] = AFFINE("attn.proj"),
        [TOWER_NORM_2] = AFFINE("norm2"),
        [TOWER_UP] = AFFINE("mlp.fc1"),
        [TOWER_DOWN] = AFFINE("mlp.fc2"),
    },
};

const struct tower_encoder tower_qwen2_5_vision = {
    .types = { "qwen2_5_vl_vision", "qwen2_5_vl" },
    .defaults = "{\"hidden_size\": 3584, \"intermediate_size\": 3420, "
                "\"num_hidden_layers\": 32, \"num_attention_heads\": 16, "
                "\"out_hidden_size\": 3584, \"hidden_act\": \"silu\", \"patch_size\": 14, "
                "\"spatial_merge_size\": 2, \"temporal_patch_size\": 2, "
                "\"window_size\": 112, \"fullatt_block_indexes\": [7, 15, 23, 31]}",
    .width_key = "hidden_size",
    .inner_key = "intermediate_size",
    .eps = 1e-6,
    .rms = true,
    .gated = true,
    .windows = true,
    .rope = TOWER_ROPE_AXES,
    .blocks = "blocks.",
    .names = {
        [TOWER_PATCHES] = WEIGHT("patch_embed.proj"),
        [TOWER_NORM_1] = WEIGHT("norm1"),
        [TOWER_QKV] = AFFINE("attn.qkv"),
        [TOWER_ATTENTION_OUT] = AFFINE("attn.proj"),
        [TOWER_NORM_2] = WEIGHT("norm2"),
        [TOWER_UP] = { NAMED("mlp.gate_proj", "mlp.up_proj"), .biases = 3 },
        [TOWER_DOWN] = AFFINE("mlp.down_proj"),
    },
};

const struct tower_encoder tower_qwen3_vision = {
    .types = { "qwen3_vl_vision", "qwen3_vl", "qwen3_vl_moe_vision", "qwen3_vl_moe" },
    .defaults = "{\"hidden_size\": 1152, \"intermediate_size\": 4304, "
                "\"num_hidden_layers\": 27, \"num_attention_heads\": 16, "
                "\"out_hidden_size\": 3584, \"hidden_act\": \"gelu_pytorch_tanh\", "
                "\"patch_size\": 16, \"spatial_merge_size\": 2, "
                "\"temporal_patch_size\": 2, \"num_position_embeddings\": 2304, "
                "\"deepstack_visual_indexes\": [8, 16, 24]}",
#define QWEN3_VISION                                                           \
    .width_key = "hidden_size", .inner_key = "intermediate_size", .eps = 1e-6, \
    .interpolated = true, .positions_key = "num_position_embeddings",          \
    .rope = TOWER_ROPE_AXES, .blocks = "blocks.",                              \
    .names = {                                                                 \
        [TOWER_PATCHES] = AFFINE("patch_embed.proj"),                          \
        [TOWER_POSITIONS] = WEIGHT("pos_embed"),                               \
        [TOWER_NORM_1] = AFFINE("norm1"),                                      \
        [TOWER_QKV] = AFFINE("attn.qkv"),                                      \
        [TOWER_ATTENTION_OUT] = AFFINE("attn.proj"),                           \
        [TOWER_NORM_2] = AFFINE("norm2"),                                      \
        [TOWER_UP] = AFFINE("mlp.linear_fc1"),                                 \
        [TOWER_DOWN] = AFFINE("mlp.linear_fc2"),                               \
        [TOWER_DEEP_NORM] = AFFINE("deepstack_merger_list.%zu.norm"),          \
        [TOWER_DEEP_1] = AFFINE("deepstack_merger_list.%zu.linear_fc1"),       \
        [TOWER_DEEP_2] = AFFINE("deepstack_merger_list.%zu.linear_fc2"),       \
    }
    QWEN3_VISION,
};

const struct tower_encoder tower_glm4_vision = {
    .types = { "glm4v_vision", "glm4v" },
    .defaults = "{\"hidden_size\": 1536, \"intermediate_size\": 13696, "
                "\"out_hidden_size\": 4096, \"num_hidden_layers\": 24, "
                "\"num_attention_heads\": 12, \"hidden_act\": \"silu\", "
                "\"layer_norm_eps\": 1e-5, \"image_size\": 336, \"patch_size\": 14, "
                "\"spatial_merge_size\": 2, \"temporal_patch_size\": 2}",
    .width_key = "hidden_size",
    .inner_key = "out_hidden_size",
    .biases_key = "attention_bias",
    .rms = true,
    .gated = true,
    .interpolated = true,
    .bicubic = true,
    .norm_first = true,
    .rope = TOWER_ROPE_AXES,
    .blocks = "blocks.",
    .names = {
        [TOWER_PATCHES] = AFFINE("patch_embed.proj"),
        [TOWER_POSITIONS] = WEIGHT("embeddings.position_embedding"),
        [TOWER_FIRST_NORM] = WEIGHT("post_conv_layernorm"),
        [TOWER_NORM_1] = WEIGHT("norm1"),
        [TOWER_QKV] = AFFINE("attn.qkv"),
        [TOWER_ATTENTION_OUT] = WEIGHT("attn.proj"),
        [TOWER_NORM_2] = WEIGHT("norm2"),
        [TOWER_UP] = { NAMED("mlp.gate_proj", "mlp.up_proj") },
        [TOWER_DOWN] = WEIGHT("mlp.down_proj"),
        [TOWER_LAST_NORM] = WEIGHT("post_layernorm"),
    },
};

const struct tower_encoder tower_qwen3_5_vision = {
    .types = { "qwen3_5_vision", "qwen3_5", "qwen3_5_moe_vision", "qwen3_5_moe" },
    .defaults = "{\"hidden_size\": 1152, \"intermediate_size\": 4304, "
                "\"num_hidden_layers\": 27, \"num_attention_heads\": 16, "
                "\"out_hidden_size\": 3584, \"hidden_act\": \"gelu_pytorch_tanh\", "
                "\"patch_size\": 16, \"spatial_merge_size\": 2, "
                "\"temporal_patch_size\": 2, \"num_position_embeddings\": 2304}",
    QWEN3_VISION,
};

#define VIT_NAMES                                                                      \
    [TOWER_POSITIONS] = WEIGHT("embeddings.position_embedding"),                       \
    [TOWER_NORM_1] = AFFINE("layer_norm1"),                                            \
    [TOWER_QKV] = { NAMED("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), \
                    .biases = 7 },                                                     \
    [TOWER_ATTENTION_OUT] = AFFINE("self_attn.out_proj"),                              \
    [TOWER_NORM_2] = AFFINE("layer_norm2"), [TOWER_UP] = AFFINE("mlp.fc1"),            \
    [TOWER_DOWN] = AFFINE("mlp.fc2"), [TOWER_LAST_NORM] = AFFINE("post_layernorm")

const struct tower_encoder tower_clip = {
    .types = { "clip_vision_model" },
    .defaults = "{\"hidden_size\": 768, \"intermediate_size\": 3072, "
                "\"num_hidden_layers\": 12, \"num_attention_heads\": 12, "
                "\"hidden_act\": \"quick_gelu\", \"layer_norm_eps\": 1e-5, "
                "\"image_size\": 224, \"patch_size\": 32}",
    .width_key = "hidden_size",
    .inner_key = "intermediate_size",
    .has_class = true,
    .blocks = "encoder.layers.",
    .names = {
        [TOWER_PATCHES] = WEIGHT("embeddings.patch_embedding"),
        [TOWER_CLASS] = BARE("embeddings.class_embedding"),
        [TOWER_FIRST_NORM] = AFFINE("pre_layrnorm"), /* sic */
        VIT_NAMES,
    },
};

const struct tower_encoder tower_siglip = {
    .types = { "siglip_vision_model" },
    .defaults = "{\"hidden_size\": 768, \"intermediate_size\": 3072, "
                "\"num_hidden_layers\": 12, \"num_attention_heads\": 12, "
                "\"hidden_act\": \"gelu_pytorch_tanh\", \"layer_norm_eps\": 1e-6, "
                "\"image_size\": 224, \"patch_size\": 16}",
    .width_key = "hidden_size",
    .inner_key = "intermediate_size",
    .blocks = "encoder.layers.",
    .names = {
        [TOWER_PATCHES] = AFFINE("embeddings.patch_embedding"),
        VIT_NAMES,
    },
};

const struct tower_encoder tower_siglip2 = {
    .types = { "siglip2_vision_model" },
    .defaults = "{\"hidden_size\": 768, \"intermediate_size\": 3072, "
                "\"num_hidden_layers\": 12, \"num_attention_heads\": 12, "
                "\"hidden_act\": \"gelu_pytorch_tanh\", \"layer_norm_eps\": 1e-6, "
                "\"num_patches\": 256, \"patch_size\": 16}",
    .width_key = "hidden_size",
    .inner_key = "intermediate_size",
    .interpolated = true,
    .smoothed = true,
    .positions_key = "num_patches",
    .flat_patches = true,
    .blocks = "encoder.layers.",
    .names = {
        [TOWER_PATCHES] = AFFINE("embeddings.patch_embedding"),
        VIT_NAMES,
    },
};

const struct tower_encoder tower_paddleocr_vision = {
    .types = { "paddleocr_vl_vision", "paddleocr_vl" },
    .defaults = "{\"hidden_size\": 1152, \"intermediate_size\": 4304, "
                "\"num_hidden_layers\": 27, \"num_attention_heads\": 16, "
                "\"hidden_act\": \"gelu_pytorch_tanh\", \"layer_norm_eps\": 1e-6, "
                "\"image_size\": 384, \"patch_size\": 14, \"spatial_merge_size\": 2}",
    .width_key = "hidden_size",
    .inner_key = "intermediate_size",
    .interpolated = true,
    .centered = true,
    .rope = TOWER_ROPE_AXES,
    .blocks = "encoder.layers.",
    .names = {
        [TOWER_PATCHES] = AFFINE("embeddings.patch_embedding"),
        VIT_NAMES,
    },
};

const struct tower_encoder tower_pixtral = {
    .types = { "pixtral" },
    .defaults = "{\"hidden_size\": 1024, \"intermediate_size\": 4096, "
                "\"num_hidden_layers\": 24, \"num_attention_heads\": 16, "
                "\"hidden_act\": \"gelu\", \"image_size\": 1024, \"patch_size\": 16}",
    .width_key = "hidden_size",
    .inner_key = "intermediate_size",
    .eps = 1e-5,
    .rms = true,
    .gated = true,
    .rope = TOWER_ROPE_ALTERNATING,
    .blocks = "transformer.layers.",
    .names = {
        [TOWER_PATCHES] = WEIGHT("patch_conv"),
        [TOWER_FIRST_NORM] = WEIGHT("ln_pre"),
        [TOWER_NORM_1] = WEIGHT("attention_norm"),
        [TOWER_QKV] = { NAMED("attention.q_proj", "attention.k_proj", "attention.v_proj") },
        [TOWER_ATTENTION_OUT] = WEIGHT("attention.o_proj"),
        [TOWER_NORM_2] = WEIGHT("ffn_norm"),
        [TOWER_UP] = { NAMED("feed_forward.gate_proj", "feed_forward.up_proj") },
        [TOWER_DOWN] = WEIGHT("feed_forward.down_proj"),
    },
};

/* Not an encoder: patches are projected, and know where they are. */
const struct tower_encoder tower_gemma4_unified = {
    .types = { "gemma4_unified_vision" },
    .defaults = "{\"mm_embed_dim\": 3840, \"mm_posemb_size\": 1120, \"patch_size\": 16, "
                "\"pooling_kernel_size\": 3}",
    .width_key = "mm_embed_dim",
    .eps = 1e-5,
    .norm_first = true,
    .axes_key = "mm_posemb_size",
    .pool_key = "pooling_kernel_size",
    .flat_patches = true,
    .names = {
        [TOWER_PATCHES_NORM] = AFFINE("patch_ln1"),
        [TOWER_PATCHES] = AFFINE("patch_dense"),
        [TOWER_POSITIONS] = BARE("pos_embedding"),
        [TOWER_FIRST_NORM] = AFFINE("patch_ln2"),
        [TOWER_LAST_NORM] = AFFINE("pos_norm"),
    },
};

const struct tower_encoder tower_llama4_vision = {
    .types = { "llama4_vision_model" },
    .defaults = "{\"hidden_size\": 768, \"intermediate_size\": 5632, "
                "\"num_hidden_layers\": 34, \"num_attention_heads\": 16, "
                "\"hidden_act\": \"gelu\", \"image_size\": 448, \"patch_size\": 14, "
                "\"vision_output_dim\": 7680, \"projector_input_dim\": 4096, "
                "\"projector_output_dim\": 4096}",
    .width_key = "hidden_size",
    .inner_key = "intermediate_size",
    .eps = 1e-5,
    .has_class = true,
    .class_last = true,
    .rope = TOWER_ROPE_PAIRS,
    .flat_patches = true,
    .blocks = "model.layers.",
    .names = {
        [TOWER_PATCHES] = WEIGHT("patch_embedding.linear"),
        [TOWER_CLASS] = BARE("class_embedding"),
        [TOWER_POSITIONS] = BARE("positional_embedding_vlm"),
        [TOWER_FIRST_NORM] = AFFINE("layernorm_pre"),
        [TOWER_NORM_1] = AFFINE("input_layernorm"),
        [TOWER_QKV] = { NAMED("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
                        .biases = 7 },
        [TOWER_ATTENTION_OUT] = AFFINE("self_attn.o_proj"),
        [TOWER_NORM_2] = AFFINE("post_attention_layernorm"),
        [TOWER_UP] = AFFINE("mlp.fc1"),
        [TOWER_DOWN] = AFFINE("mlp.fc2"),
        [TOWER_LAST_NORM] = AFFINE("layernorm_post"),
    },
};

/* The layers' norm_eps is that of the other norms, which is not a setting. */
const struct tower_encoder tower_mllama_vision = {
    .types = { "mllama_vision_model" },
    .defaults = "{\"hidden_size\": 1280, \"intermediate_size\": 5120, "
                "\"num_hidden_layers\": 32, \"num_global_layers\": 8, "
                "\"attention_heads\": 16, \"hidden_act\": \"gelu\", \"norm_eps\": 1e-5, "
                "\"image_size\": 448, \"patch_size\": 14, \"max_num_tiles\": 4, "
                "\"vision_output_dim\": 7680, "
                "\"intermediate_layers_indices\": [3, 7, 15, 23, 30]}",
    .width_key = "hidden_size",
    .inner_key = "intermediate_size",
    .eps = 1e-5,
    .has_class = true,
    .blocks = "transformer.layers.",
    .global_blocks = "global_transformer.layers.",
    .names = {
        [TOWER_PATCHES] = WEIGHT("patch_embedding"),
        [TOWER_CLASS] = BARE("class_embedding"),
        [TOWER_POSITIONS] = BARE("gated_positional_embedding.embedding"),
        [TOWER_POSITIONS_GATE] = BARE("gated_positional_embedding.gate"),
        [TOWER_TILE_POSITIONS] = WEIGHT("gated_positional_embedding.tile_embedding"),
        [TOWER_TILES_FIRST] = WEIGHT("pre_tile_positional_embedding.embedding"),
        [TOWER_TILES_FIRST_GATE] = BARE("pre_tile_positional_embedding.gate"),
        [TOWER_FIRST_NORM] = AFFINE("layernorm_pre"),
        [TOWER_NORM_1] = AFFINE("input_layernorm"),
        [TOWER_QKV] = { NAMED("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj") },
        [TOWER_ATTENTION_OUT] = WEIGHT("self_attn.o_proj"),
        [TOWER_ATTENTION_GATE] = BARE("gate_attn"),
        [TOWER_NORM_2] = AFFINE("post_attention_layernorm"),
        [TOWER_UP] = AFFINE("mlp.fc1"),
        [TOWER_DOWN_GATE] = BARE("gate_ffn"),
        [TOWER_DOWN] = AFFINE("mlp.fc2"),
        [TOWER_LAST_NORM] = AFFINE("layernorm_post"),
        [TOWER_TILES_LAST] = WEIGHT("post_tile_positional_embedding.embedding"),
        [TOWER_TILES_LAST_GATE] = BARE("post_tile_positional_embedding.gate"),
    },
};

/* A config.json says which of these an encoder has: TOWER_QK_NORM, TOWER_LAST_NORM, biases,
 * and whether norms are RMSNorm. */
const struct tower_encoder tower_internvl = {
    .types = { "internvl_vision" },
    .defaults = "{\"hidden_size\": 1024, \"intermediate_size\": 4096, "
                "\"num_hidden_layers\": 24, \"num_attention_heads\": 16, "
                "\"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-6, "
                "\"image_size\": 448, \"patch_size\": 14}",
    .width_key = "hidden_size",
    .inner_key = "intermediate_size",
    .biases_key = "attention_bias",
    .scaled = true,
    .has_class = true,
    .blocks = "encoder.layer.",
    .names = {
        [TOWER_PATCHES] = AFFINE("embeddings.patch_embeddings.projection"),
        [TOWER_CLASS] = SHAPED("embeddings.cls_token", 2),
        [TOWER_POSITIONS] = SHAPED("embeddings.position_embeddings", 1),
        [TOWER_NORM_1] = AFFINE("layernorm_before"),
        [TOWER_QKV] = { NAMED("attention.q_proj", "attention.k_proj", "attention.v_proj"),
                        .biases = 7 },
        [TOWER_QK_NORM] = { NAMED("attention.q_norm", "attention.k_norm") },
        [TOWER_ATTENTION_OUT] = AFFINE("attention.projection_layer"),
        [TOWER_ATTENTION_GATE] = BARE("lambda_1"),
        [TOWER_NORM_2] = AFFINE("layernorm_after"),
        [TOWER_UP] = AFFINE("mlp.fc1"),
        [TOWER_DOWN_GATE] = BARE("lambda_2"),
        [TOWER_DOWN] = AFFINE("mlp.fc2"),
        [TOWER_LAST_NORM] = AFFINE("layernorm"),
    },
};

/* Three halvings of the frames, and of the mel bins. */
#define CONFORMER                                                               \
    .sound = true, .conformer = true, .width_key = "hidden_size",               \
    .inner_key = "intermediate_size", .eps = 1e-5, .blocks = "encoders.",       \
    .defaults = "{\"hidden_size\": 1024, \"intermediate_size\": 1536, "         \
                "\"num_hidden_layers\": 24, \"num_attention_heads\": 16, "      \
                "\"hidden_act\": \"swish\", \"conv_activation\": \"swish\", "   \
                "\"conv_glu_type\": \"swish\", \"nemo_activation\": \"relu\", " \
                "\"nemo_conv_channels\": 1024, \"kernel_size\": 3, "            \
                "\"input_size\": 80, \"bias_max_distance\": 1000}"
#define CONFORMER_NAMES                                                                 \
    [TOWER_MEAN] = BARE("encoder_embedding.global_mean"),                               \
    [TOWER_FACTOR] = BARE("encoder_embedding.global_invstd"),                           \
    [TOWER_CONV_1] = AFFINE("embed.conv.0"), [TOWER_FILTER_1] = AFFINE("embed.conv.2"), \
    [TOWER_POINTS_1] = AFFINE("embed.conv.3"),                                          \
    [TOWER_FILTER_2] = AFFINE("embed.conv.5"),                                          \
    [TOWER_POINTS_2] = AFFINE("embed.conv.6"), [TOWER_EMBED] = AFFINE("embed.out"),     \
    [TOWER_DISTANCES] = WEIGHT("relative_attention_bias_layer.bias_values"),            \
    [TOWER_IN_NORM] = AFFINE("feed_forward_in.layer_norm"),                             \
    [TOWER_NORM_1] = AFFINE("layer_norm_att"),                                          \
    [TOWER_CONV_NORM] = AFFINE("conv.layer_norm"),                                      \
    [TOWER_GLU] = AFFINE("conv.glu.ext_pw_conv_1d"),                                    \
    [TOWER_GLU_SHIFT] = { NAMED("conv.glu.b1", "conv.glu.b2"), .bare = true },          \
    [TOWER_TIME] = AFFINE("conv.dw_sep_conv_1d.dw_conv"),                               \
    [TOWER_POINTS] = AFFINE("conv.dw_sep_conv_1d.pw_conv"),                             \
    [TOWER_CONV_OUT] = AFFINE("conv.ext_pw_conv_1d"),                                   \
    [TOWER_NORM_2] = AFFINE("feed_forward_out.layer_norm"),                             \
    [TOWER_BLOCK_NORM] = AFFINE("layer_norm")

const struct tower_encoder tower_conformer = {
    .types = { "phi4_multimodal_audio" },
    CONFORMER,
    .names = {
        CONFORMER_NAMES,
        [TOWER_IN_UP] = AFFINE("feed_forward_in.gate_up_proj"),
        [TOWER_IN_DOWN] = AFFINE("feed_forward_in.down_proj"),
        [TOWER_QKV] = { NAMED("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
                        .biases = 7 },
        [TOWER_ATTENTION_OUT] = AFFINE("self_attn.o_proj"),
        [TOWER_UP] = AFFINE("feed_forward_out.gate_up_proj"),
        [TOWER_DOWN] = AFFINE("feed_forward_out.down_proj"),
    },
};

/* The names of the published files, which the code that comes with them reads. */
const struct tower_encoder tower_published_conformer = {
    CONFORMER,
    .names = {
        CONFORMER_NAMES,
        [TOWER_IN_UP] = AFFINE("feed_forward_in.net.0.linear"),
        [TOWER_IN_DOWN] = AFFINE("feed_forward_in.net.2"),
        [TOWER_QKV] = { NAMED("self_attn.linear_q", "self_attn.linear_k",
                              "self_attn.linear_v"),
                        .biases = 7 },
        [TOWER_ATTENTION_OUT] = AFFINE("self_attn.linear_out"),
        [TOWER_UP] = AFFINE("feed_forward_out.net.0.linear"),
        [TOWER_DOWN] = AFFINE("feed_forward_out.net.2"),
    },
};
