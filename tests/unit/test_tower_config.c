/* tests/unit/test_tower_config.c - encoders that config.json describes: the values of published
 * models, spellings, and errors. */
#include "config.h"

#include "train/tower/tower_config.h"

#include "tests/unit/unit.h"

#include "base/size.h"
#include "train/tower/tower_order.h"
#include "train/tower/tower_parameters.h"

static bool parse(const char *text, size_t width, struct arena *arena,
                  struct tower_config *out, struct error *err)
{
    json_t *root = json_read_text(text, strlen(text), "config.json", 1, err);
    bool ok = root && tower_config_parse(root, "config.json", width, arena, out, err);

    json_decref(root);
    return ok;
}

/* What published files leave to the defaults of their classes, and the number of elements of
 * encoder and projector, as transformers counts them. */
static void test_tower_config_has_the_sizes_of_published_models(void **state)
{
    static const struct {
        const char *text;
        size_t text_width;
        size_t layers, run, width, inner, heads, group, row_width;
        size_t elements;
    } cases[] = {
        /* Qwen2-Audio-7B */
        { "{\"model_type\": \"qwen2_audio\", \"audio_config\": {\"model_type\": "
          "\"qwen2_audio_encoder\", \"encoder_layers\": 32, \"d_model\": 1280, "
          "\"encoder_attention_heads\": 20, \"encoder_ffn_dim\": 5120}}",
          4096, 32, 32, 1280, 5120, 20, 2, 1280, 642215936 },
        { "{\"model_type\": \"voxtral\", \"audio_config\": {}, \"text_config\": {}}",
          3072, 32, 32, 1280, 5120, 20, 4, 5120, 662134784 },
        /* Llava 1.5: the last layer is not computed */
        { "{\"model_type\": \"llava\", \"vision_config\": {\"hidden_size\": 1024, "
          "\"image_size\": 336, \"intermediate_size\": 4096, \"model_type\": "
          "\"clip_vision_model\", \"num_attention_heads\": 16, \"num_hidden_layers\": 24, "
          "\"patch_size\": 14}}",
          4096, 24, 23, 1024, 4096, 16, 1, 1024, 311888896 },
        { "{\"model_type\": \"llava\"}", 4096, 24, 23, 1024, 4096, 16, 1, 1024,
          311888896 },
        /* Gemma 3 4B */
        { "{\"model_type\": \"gemma3\", \"mm_tokens_per_image\": 256, \"vision_config\": "
          "{\"hidden_size\": 1152, \"image_size\": 896, \"intermediate_size\": 4304, "
          "\"model_type\": \"siglip_vision_model\", \"num_attention_heads\": 16, "
          "\"num_hidden_layers\": 27, \"patch_size\": 14, \"vision_use_head\": false}}",
          2560, 27, 27, 1152, 4304, 16, 16, 1152, 419816304 },
        /* Qwen2-VL-7B */
        { "{\"model_type\": \"qwen2_vl\", \"vision_config\": {\"depth\": 32, \"embed_dim\": "
          "1280, \"mlp_ratio\": 4, \"num_heads\": 16, \"in_chans\": 3, \"hidden_size\": 3584, "
          "\"patch_size\": 14, \"spatial_merge_size\": 2, \"spatial_patch_size\": 14, "
          "\"temporal_patch_size\": 2}}",
          3584, 32, 32, 1280, 5120, 16, 4, 5120, 675759104 },
        /* Qwen2.5-VL-7B */
        { "{\"model_type\": \"qwen2_5_vl\", \"vision_config\": {\"depth\": 32, "
          "\"hidden_act\": \"silu\", \"hidden_size\": 1280, \"intermediate_size\": 3420, "
          "\"num_heads\": 16, \"out_hidden_size\": 3584}}",
          3584, 32, 32, 1280, 3420, 16, 4, 5120, 676550144 },
        /* Qwen3-VL-4B */
        { "{\"model_type\": \"qwen3_vl\", \"vision_config\": {\"deepstack_visual_indexes\": "
          "[5, 11, 17], \"depth\": 24, \"hidden_size\": 1024, \"intermediate_size\": 4096, "
          "\"num_heads\": 16, \"out_hidden_size\": 2560}}",
          2560, 24, 24, 1024, 4096, 16, 4, 4096, 415347712 },
        /* Mistral Small 3.1 */
        { "{\"model_type\": \"mistral3\", \"text_config\": {\"rms_norm_eps\": 1e-5}, "
          "\"vision_config\": {\"model_type\": \"pixtral\", \"head_dim\": 64, \"hidden_act\": "
          "\"silu\", \"image_size\": 1540, \"patch_size\": 14}}",
          5120, 24, 24, 1024, 4096, 16, 4, 4096, 438958080 },
        /* Llama 3.2 Vision 11B */
        { "{\"model_type\": \"mllama\", \"vision_config\": {\"attention_heads\": 16, "
          "\"image_size\": 560, \"intermediate_layers_indices\": [3, 7, 15, 23, 30], "
          "\"model_type\": \"mllama_vision_model\", \"supported_aspect_ratios\": [[1, 1], "
          "[1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]}}",
          4096, 40, 40, 1280, 5120, 16, 1, 7680, 895028755 },
        /* Phi-4-multimodal in transformers, and as it is published */
        { "{\"model_type\": \"phi4_multimodal\", \"audio_config\": {}}", 3072, 24, 24,
          1024, 1536, 16, 1, 1024, 453843360 },
        { "{\"model_type\": \"phi4mm\", \"audio_processor\": {\"name\": \"cascades\", "
          "\"config\": {\"activation\": \"swish\", \"attention_dim\": 1024, "
          "\"attention_heads\": 16, \"chunk_size\": -1, \"input_size\": 80, "
          "\"kernel_size\": 3, \"linear_units\": 1536, \"num_blocks\": 24, "
          "\"nemo_conv_settings\": {\"conv_channels\": 1024}, \"time_reduction\": 8, "
          "\"relative_attention_bias_args\": {\"t5_bias_max_distance\": 500, \"type\": "
          "\"t5\"}}}}",
          3072, 24, 24, 1024, 1536, 16, 1, 1024, 453843360 - 1000 * 16 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct arena *arena = arena_new();
        struct tower_parameters parameters;
        struct tower_config c;
        struct error err = { 0 };

        if (!parse(cases[i].text, cases[i].text_width, arena, &c, &err))
            fail_msg("%s", err.text);
        assert_int_equal(c.layers, cases[i].layers);
        assert_int_equal(c.run, cases[i].run);
        assert_int_equal(c.width, cases[i].width);
        assert_int_equal(c.inner, cases[i].inner);
        assert_int_equal(c.heads, cases[i].heads);
        assert_int_equal(c.group, cases[i].group);
        assert_int_equal(c.row_width, cases[i].row_width);
        assert_int_equal(c.projected, cases[i].text_width);
        tower_parameters_list(&c, true, FORMAT_BF16, 64, arena, &parameters);
        assert_int_equal(parameters.elements, cases[i].elements);
        arena_free(arena);
    }
}

#define QWEN2_5 \
    "\"model_type\": \"qwen2_5_vl\", \"vision_config\": {\"hidden_size\": 1280, "

static void test_tower_config_refuses_what_does_not_fit(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { "{\"model_type\": \"llama\"}",
          "config.json: encoders of models of type \"llama\" are not supported" },
        { "{\"model_type\": \"llava\", \"vision_config\": {\"model_type\": \"dinov2\"}}",
          "config.json: an encoder of type \"dinov2\" is not supported in llava" },
        { "{\"model_type\": \"qwen2_audio\", \"audio_config\": {\"d_model\": 0}}",
          "config.json: hidden_size must be a number from 1 to 65536" },
        { "{\"model_type\": \"qwen2_audio\", \"audio_config\": {\"encoder_layers\": 1e3}}",
          "config.json: num_hidden_layers must be an integer" },
        { "{\"model_type\": \"qwen2_audio\", \"audio_config\": {\"encoder_layers\": 4000}}",
          "config.json: num_hidden_layers must be a number from 1 to 512" },
        { "{\"model_type\": \"qwen2_audio\", \"audio_config\": {\"d_model\": 1290}}",
          "config.json: hidden_size, 1290, must be a multiple of the 20 heads" },
        { "{\"model_type\": \"qwen2_audio\", \"audio_config\": {\"activation_function\": "
          "\"snake\"}}",
          "snake" },
        { "{\"model_type\": \"phi4_multimodal\", \"audio_config\": {\"chunk_size\": 18}}",
          "config.json: chunk_size must be -1, not 18" },
        { "{\"model_type\": \"phi4_multimodal\", \"audio_config\": {\"time_reduction\": "
          "4}}",
          "config.json: time_reduction must be 8, not 4" },
        { "{\"model_type\": \"phi4mm\", \"audio_processor\": {\"config\": "
          "{\"depthwise_seperable_out_channel\": 512}}}",
          "config.json: depthwise_seperable_out_channel must be 1024, not 512" },
        { "{\"model_type\": \"phi4mm\", \"audio_processor\": {\"config\": "
          "{\"relative_attention_bias_args\": {\"t5_bias_max_distance\": 0}}}}",
          "config.json: bias_max_distance must be a number from 1 to 65536" },
        { "{\"model_type\": \"voxtral\", \"audio_config\": {\"intermediate_size\": 5121}}",
          "config.json: intermediate_size, 5121, must be a multiple of hidden_size, 1280" },
        { "{\"model_type\": \"voxtral\", \"audio_config\": {\"intermediate_size\": 128}}",
          "config.json: intermediate_size, 128, must be a multiple of hidden_size, 1280" },
        { "{\"model_type\": \"voxtral\", \"audio_config\": {\"max_source_positions\": 1501}}",
          "config.json: max_source_positions must be a multiple of 4" },
        { "{" QWEN2_5 "\"out_hidden_size\": 2048}}",
          "config.json: out_hidden_size of vision_config is 2048, but the text model has 3584 "
          "columns" },
        { "{" QWEN2_5 "\"num_heads\": 640}}",
          "config.json: heads of 2 columns are not supported in vision_config" },
        { "{" QWEN2_5 "\"in_channels\": 4}}", "config.json: in_channels must be 3" },
        { "{" QWEN2_5 "\"patch_size\": [14, 15]}}",
          "config.json: patch_size must be one number, or equal ones" },
        { "{" QWEN2_5 "\"window_size\": 20}}",
          "config.json: window_size must be at least 28" },
        { "{" QWEN2_5 "\"fullatt_block_indexes\": [-1]}}",
          "config.json: fullatt_block_indexes must be layers" },
        { "{\"model_type\": \"qwen3_vl\", \"vision_config\": {\"num_position_embeddings\": "
          "2303}}",
          "config.json: num_position_embeddings must be a square, not 2303" },
        { "{\"model_type\": \"qwen3_vl\", \"vision_config\": {\"deepstack_visual_indexes\": "
          "[27]}}",
          "config.json: deepstack_visual_indexes must be layers of the encoder" },
        { "{\"model_type\": \"qwen3_vl\", \"vision_config\": {\"deepstack_visual_indexes\": "
          "[1, 1]}}",
          "config.json: deepstack_visual_indexes must name each layer once" },
        { "{\"model_type\": \"qwen3_vl\", \"vision_config\": {\"deepstack_visual_indexes\": "
          "[1, 2, 3, 4, 5]}}",
          "config.json: deepstack_visual_indexes must have at most 4 layers" },
        { "{\"model_type\": \"llava\", \"vision_feature_layer\": -26}",
          "config.json: vision_feature_layer must be layers of the encoder" },
        { "{\"model_type\": \"llava\", \"vision_feature_layer\": []}",
          "config.json: vision_feature_layer must name a layer" },
        { "{\"model_type\": \"llava\", \"vision_feature_select_strategy\": \"cls\"}",
          "config.json: vision_feature_select_strategy must be \"default\" or \"full\"" },
        { "{\"model_type\": \"llava\", \"vision_config\": {\"model_type\": "
          "\"siglip_vision_model\"}}",
          "config.json: vision_feature_select_strategy must be \"full\" for an encoder "
          "without a class token" },
        { "{\"model_type\": \"internvl\", \"downsample_ratio\": 0.3}",
          "config.json: downsample_ratio must be 1, 1/2, 1/4 and so on" },
        { "{\"model_type\": \"internvl\", \"vision_feature_layer\": -2}",
          "config.json: vision_feature_layer must be -1" },
        { "{\"model_type\": \"internvl\", \"vision_feature_select_strategy\": \"full\"}",
          "config.json: vision_feature_select_strategy must be \"default\"" },
        { "{\"model_type\": \"internvl\", \"vision_config\": {\"norm_type\": \"group\"}}",
          "config.json: norm_type must be \"layer_norm\" or \"rms_norm\"" },
        { "{\"model_type\": \"internvl\", \"vision_config\": {\"hidden_size\": 16384, "
          "\"num_attention_heads\": 128, \"use_qk_norm\": true}}",
          "config.json: use_qk_norm requires at most 8192 columns" },
        { "{\"model_type\": \"internvl\", \"vision_config\": "
          "{\"use_absolute_position_embeddings\": false}}",
          "config.json: use_absolute_position_embeddings must be true" },
        { "{\"model_type\": \"lfm2_vl\", \"vision_config\": {\"num_patches\": 255}}",
          "config.json: num_patches must be a square, not 255" },
        { "{\"model_type\": \"lfm2_vl\", \"downsample_factor\": 0}",
          "config.json: downsample_factor must be a number from 1 to 64" },
        { "{\"model_type\": \"lfm2_vl\", \"projector_hidden_size\": 0}",
          "config.json: projector_hidden_size must be a number from 1 to 262144" },
        { "{\"model_type\": \"paddleocr_vl\", \"vision_config\": {\"spatial_merge_size\": 0}}",
          "config.json: spatial_merge_size must be a number from 1 to 64" },
        { "{\"model_type\": \"gemma3\", \"mm_tokens_per_image\": 255}",
          "config.json: mm_tokens_per_image must be the square of a divisor of the 14 patches "
          "of a side" },
        { "{\"model_type\": \"gemma3\", \"mm_tokens_per_image\": 25}",
          "config.json: mm_tokens_per_image must be the square of a divisor" },
        { "{\"model_type\": \"gemma4_unified\", \"vision_config\": {\"pooling_kernel_size\": 9}}",
          "config.json: pooling_kernel_size must be a number from 1 to 128" },
        { "{\"model_type\": \"gemma4_unified\", \"vision_config\": {\"mm_posemb_size\": 0}}",
          "config.json: mm_posemb_size must be a number from 1 to 4096" },
        { "{\"model_type\": \"gemma4_unified\", \"vision_config\": {\"rms_norm_eps\": 0}}",
          "config.json: rms_norm_eps must be a number above 0" },
        { "{\"model_type\": \"llama4\", \"vision_config\": {\"pixel_shuffle_ratio\": 0.3}}",
          "config.json: pixel_shuffle_ratio must be 1, 1/2, 1/4 and so on" },
        { "{\"model_type\": \"llama4\", \"vision_config\": {\"vision_output_dim\": 7680}}",
          "config.json: vision_output_dim must be projector_output_dim, 4096" },
        { "{\"model_type\": \"llama4\", \"vision_config\": {\"hidden_size\": 1024, "
          "\"vision_output_dim\": 4096}}",
          "config.json: intermediate_size must be 4096, the columns of the rows that are "
          "joined, not 5632" },
        { "{\"model_type\": \"mllama\", \"vision_config\": {\"norm_eps\": 1e-6}}",
          "config.json: norm_eps must be 1e-05" },
        { "{\"model_type\": \"mllama\", \"vision_config\": {\"max_num_tiles\": 17}}",
          "config.json: max_num_tiles must be a number from 1 to 16" },
        { "{\"model_type\": \"mllama\", \"vision_config\": {\"vision_output_dim\": 6400}}",
          "config.json: vision_output_dim must be 7680: hidden_size, once and for each of "
          "intermediate_layers_indices" },
        { "{\"model_type\": \"mllama\", \"vision_config\": "
          "{\"intermediate_layers_indices\": [32]}}",
          "config.json: intermediate_layers_indices must be layers of the encoder" },
        { "{\"model_type\": \"mllama\", \"vision_config\": {\"max_num_tiles\": 2, "
          "\"supported_aspect_ratios\": [[1, 1], [2, 1], [1, 2]]}}",
          "config.json: supported_aspect_ratios must be all shapes of up to 2 tiles" },
        { "{\"model_type\": \"mllama\", \"vision_config\": {\"num_global_layers\": 0}}",
          "config.json: num_global_layers must be a number from 1 to 512" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct arena *arena = arena_new();
        struct tower_config c;
        struct error err = { 0 };

        assert_false(parse(cases[i].text, 3584, arena, &c, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i].error))
            fail_msg("%s: %s", cases[i].text, err.text);
        arena_free(arena);
    }
}

/* Windows of 2 x 2 blocks over 3 x 4 of them: patches of a block, and blocks of a window,
 * follow each other. */
static void test_tower_order_follows_windows(void **state)
{
    static const char text[] =
        "{\"model_type\": \"qwen2_5_vl\", \"vision_config\": {\"hidden_size\": 64, "
        "\"num_heads\": 2, \"patch_size\": 4, \"window_size\": 16}}";
    static const uint32_t blocks[] = { 0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 10, 11 };
    static const int32_t ends[] = { 16, 32, 40, 48 };
    struct arena *arena = arena_new();
    struct tower_config c;
    struct tower_order order;
    struct error err = { 0 };

    (void)state;
    if (!parse(text, 3584, arena, &c, &err) || !tower_order_make(&c, 6, 8, &order, &err))
        fail_msg("%s", err.text);
    assert_int_equal(order.count, 48);
    assert_int_equal(order.rows, 12);
    assert_int_equal(order.windows, 4);
    assert_memory_equal(order.to, blocks, sizeof(blocks));
    assert_memory_equal(order.window_end, ends, sizeof(ends));
    for (size_t i = 0; i < order.count; i++) {
        size_t block = blocks[i / 4];

        assert_int_equal(order.at[i][0], block / 4 * 2 + i % 4 / 2);
        assert_int_equal(order.at[i][1], block % 4 * 2 + i % 2);
        assert_int_equal(order.from[i], order.at[i][0] * 8 + order.at[i][1]);
    }
    tower_order_clear(&order);
    assert_false(tower_order_make(&c, 6, 7, &order, &err));
    assert_string_equal(err.text,
                        "the patches of an image, 7 x 6, must be multiples of 2");
    err = (struct error) { 0 };
    assert_false(tower_order_make(&c, SIZE_MAX / 2, 4, &order, &err));
    assert_non_null(strstr(err.text, "cannot be encoded"));
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tower_config_has_the_sizes_of_published_models),
        cmocka_unit_test(test_tower_config_refuses_what_does_not_fit),
        cmocka_unit_test(test_tower_order_follows_windows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
