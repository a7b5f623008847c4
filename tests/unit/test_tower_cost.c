/* tests/unit/test_tower_cost.c - what encoders of published models take. */
#include "config.h"

#include "train/tower/tower_cost.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "base/size.h"

#define WHISPER                                                                        \
    "\"audio_config\": {\"model_type\": \"qwen2_audio_encoder\", \"encoder_layers\": " \
    "32, \"d_model\": 1280, \"encoder_attention_heads\": 20, \"encoder_ffn_dim\": 5120}"
#define QWEN2_AUDIO "{\"model_type\": \"qwen2_audio\", " WHISPER "}"
#define VOXTRAL     "{\"model_type\": \"voxtral\", \"audio_config\": {}}"
#define LLAVA       "{\"model_type\": \"llava\"}"
#define GEMMA3                                                                       \
    "{\"model_type\": \"gemma3\", \"mm_tokens_per_image\": 256, \"vision_config\": " \
    "{\"hidden_size\": 1152, \"image_size\": 896, \"intermediate_size\": 4304, "     \
    "\"num_attention_heads\": 16, \"num_hidden_layers\": 27, \"patch_size\": 14}}"
#define MLLAMA "{\"model_type\": \"mllama\", \"vision_config\": {\"image_size\": 560}}"
#define QWEN2_5_VL                                                                   \
    "{\"model_type\": \"qwen2_5_vl\", \"vision_config\": {\"depth\": 32, "           \
    "\"hidden_act\": \"silu\", \"hidden_size\": 1280, \"intermediate_size\": 3420, " \
    "\"num_heads\": 16, \"out_hidden_size\": 3584}}"

#define INTERNVL "{\"model_type\": \"internvl\"}"
#define PHI4     "{\"model_type\": \"phi4_multimodal\", \"audio_config\": {}}"

static struct tower_cost cost_with(const char *text, size_t width, size_t rows,
                                   struct tower_cost_options options)
{
    json_t *root = json_loads(text, 0, NULL);
    struct arena *arena = arena_new();
    struct error err = { 0 };
    struct tower_config config;
    struct tower_cost cost;

    if (!tower_config_parse(root, "config.json", width, arena, &config, &err))
        fail_msg("%s: %s", text, err.text);
    options.compute = FORMAT_FP16;
    options.alignment = 256;
    tower_cost_of(&config, &options, rows, &cost);
    arena_free(arena);
    json_decref(root);
    return cost;
}

static struct tower_cost cost_of(const char *text, size_t width, size_t rows,
                                 bool project)
{
    return cost_with(text, width, rows,
                     (struct tower_cost_options) { .project = project });
}

/* A block of Phi-4's encoder has two layers of inner columns, twice as many before their gates;
 * four matrices of attention, and four, and 3 taps, of its convolution. */
static double conformer(double n)
{
    const double w = 1024, input = 2 * w *
                                   (4 * n * 40 * 9 + 2 * n * 20 * (9 + w) +
                                    n * 10 * (9 + w) + n * 10 * w);

    return input + 24 * (2 * n * (2 * (3 * 1536 * w) + 4 * w * w + 4 * w * w + 3 * w) +
                         4 * n * n * w);
}

/* Per layer 2 n (4 C C + 2 C I) and 4 n n C, with n rows, C columns and I inner ones. */
static double layers(double count, double n, double width, double inner, double span)
{
    return count * (2 * n * (4 * width * width + inner * width) + 4 * n * span * width);
}

static void test_tower_cost_counts_operations(void **state)
{
    /* convolutions of 3000 frames with 128 bands, and of 1500 rows */
    const double convolutions = 2. * 3000 * 3 * 128 * 1280 + 2. * 1500 * 3 * 1280 * 1280;
    const struct {
        const char *name, *text;
        size_t width, rows;
        double expected;
    } cases[] = {
        { "30 s of Qwen2-Audio", QWEN2_AUDIO, 4096, 750,
          layers(32, 1500, 1280, 2 * 5120, 1500) + convolutions +
              2. * 750 * 1280 * 4096 },
        /* a short sound is padded to a window, which all rows see */
        { "30 s of Voxtral", VOXTRAL, 3072, 375,
          layers(32, 1500, 1280, 2 * 5120, 1500) + convolutions +
              2. * 375 * (5120. * 3072 + 3072. * 3072) },
        { "60 s of Voxtral", VOXTRAL, 3072, 750,
          2 * (layers(32, 1500, 1280, 2 * 5120, 1500) + convolutions +
               2. * 375 * (5120. * 3072 + 3072. * 3072)) },
        { "30 s of Phi-4", PHI4, 3072, 375,
          conformer(375) + 2. * 375 * (1024. * 3072 + 3072. * 3072) },
        { "80 s of Phi-4, in two pieces", PHI4, 3072, 1000,
          2 * (conformer(500) + 2. * 500 * (1024. * 3072 + 3072. * 3072)) },
        { "Llava", LLAVA, 4096, 576,
          layers(23, 577, 1024, 2 * 4096, 577) + 2. * 577 * 588 * 1024 +
              2. * 576 * (1024. * 4096 + 4096. * 4096) },
        { "Gemma 3", GEMMA3, 2560, 256,
          layers(27, 4096, 1152, 2 * 4304, 4096) + 2. * 4096 * 588 * 1152 +
              2. * 256 * 1152 * 2560 },
        /* four tiles of 40 x 40 patches and a class, padded to 1608 rows */
        { "Llama 3.2 Vision", MLLAMA, 4096, 6404,
          layers(40, 6432, 1280, 2 * 5120, 6432) + 2. * 6432 * 588 * 1280 +
              2. * 6404 * 7680 * 4096 },
        /* 12 crops and the whole, each of 32 x 32 patches and a class */
        { "InternVL", INTERNVL, 3584, 13 * 256,
          13 * (layers(24, 1025, 1024, 2 * 4096, 1025) + 2. * 1025 * 588 * 1024 +
                2. * 256 * (4096. * 3584 + 3584. * 3584)) },
        /* 784^2 pixels: 56 x 56 patches, windows of 8 x 8 in 28 of 32 layers */
        { "Qwen2.5-VL", QWEN2_5_VL, 3584, 784,
          layers(28, 3136, 1280, 3 * 3420, 64) + layers(4, 3136, 1280, 3 * 3420, 3136) +
              2. * 3136 * 1176 * 1280 + 2. * 784 * (5120. * 5120 + 5120. * 3584) },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const double got =
            cost_of(cases[i].text, cases[i].width, cases[i].rows, true).operations;

        if (fabs(got / cases[i].expected - 1) > 1e-3)
            fail_msg("%s: %g operations instead of %g", cases[i].name, got,
                     cases[i].expected);
    }
}

static void test_tower_cost_counts_bytes(void **state)
{
    const struct tower_cost whole = cost_of(QWEN2_AUDIO, 4096, 750, true);
    const struct tower_cost alone = cost_of(QWEN2_AUDIO, 4096, 750, false);
    const struct tower_cost shorter = cost_of(QWEN2_AUDIO, 4096, 75, true);

    (void)state;
    /* matrices in 2 bytes, vectors in 4; the learned positions are on the host */
    assert_true(whole.weights > (uint64_t)642215936 * 2 - 1500 * 1280 * 2);
    assert_true(whole.weights < (uint64_t)642215936 * 2 * 1.01);
    assert_int_equal(whole.weights - alone.weights, 1280 * 4096 * 2 + 4096 * 4);
    /* the residual stream, heads and inner columns of 1500 rows, and the unfolded input */
    assert_true(whole.buffers >
                (uint64_t)1500 * (4 * 1280 + 2 * 3 * 1280 + 2 * 5120 + 2 * 3 * 1280));
    assert_true(whole.buffers < (uint64_t)128 << 20);
    assert_true(shorter.buffers * 9 < whole.buffers);
    assert_true(shorter.operations * 9 < whole.operations);
    assert_int_equal(shorter.weights, whole.weights);
}

/* tower_run and tower_backward: of the matmuls of a block two passes forward, one that computes
 * again what gradients read, all but the last; two gradients; five matmuls of attention. */
static void test_tower_cost_counts_training(void **state)
{
    const double n = 1500, c = 1280, i = 5120;
    const double block =
        2 * n * (4 * c * c * 5 + c * i * 5 + c * i * 4) + 4 * n * n * c * (2 + 1 + 2.5);
    const double audio =
        32 * block + 2. * 3000 * 3 * 128 * c * 4 + 2. * n * 3 * c * c * 5;
    const double m = 577, w = 1024;
    const double llava =
        23 * (2 * m * (4 * w * w * 5 + 4 * w * w * 9) + 4 * m * m * w * (2 + 1 + 2.5)) +
        2. * m * 588 * w * 4;
    const double adapted = 32 * (2 * n * (4 * c * c * 4 + c * i * 4 + c * i * 3) +
                                 4 * n * n * c * (2 + 1 + 2.5)) +
                           2 * (2. * 3000 * 3 * 128 * c + 2. * n * 3 * c * c);
    const struct {
        const char *text;
        size_t width, rows, rank;
        double expected;
    } cases[] = { { QWEN2_AUDIO, 4096, 750, 0, audio },
                  { QWEN2_AUDIO, 4096, 750, 16, adapted },
                  { LLAVA, 4096, 576, 0, llava } };

    (void)state;
    for (size_t k = 0; k < TS_COUNT(cases); k++) {
        const struct tower_cost_options options = { .trains = true,
                                                    .rank = cases[k].rank };
        const double got =
            cost_with(cases[k].text, cases[k].width, cases[k].rows, options).operations;

        if (fabs(got / cases[k].expected - 1) > 1e-3)
            fail_msg("%s: %g operations instead of %g", cases[k].text, got,
                     cases[k].expected);
    }
}

static void test_tower_cost_counts_bytes_of_training(void **state)
{
    const struct tower_cost alone = cost_of(QWEN2_AUDIO, 4096, 750, false);
    const struct tower_cost trains =
        cost_with(QWEN2_AUDIO, 4096, 750, (struct tower_cost_options) { .trains = true });
    const uint64_t more = trains.buffers - alone.buffers, row = 1500 * 1280;

    (void)state;
    assert_int_equal(trains.weights, alone.weights);
    /* of Qwen2-Audio's 642 million, the projector has 1280 * 4096 + 4096 */
    assert_int_equal(alone.trained, 0);
    assert_int_equal(trains.trained, 642215936 - 1280 * 4096 - 4096);
    /* A of 6 matrices with 1280 columns and of one with 5120; B of so many outputs */
    assert_int_equal(cost_with(QWEN2_AUDIO, 4096, 750,
                               (struct tower_cost_options) { .trains = true, .rank = 8 })
                         .trained,
                     32 * 8 * (5 * 1280 + 5120 + 4 * 1280 + 5120 + 1280));
    /* the residual stream before each of 32 blocks and after the last, and its gradient */
    assert_true(more > row * 34 * 4);
    /* and in 16 bits: what a block computes again, and gradients of it; the convolutions */
    assert_true(more < row * 34 * 4 + row * 2 * (4 + 3 + 4 + 4 + 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tower_cost_counts_operations),
        cmocka_unit_test(test_tower_cost_counts_bytes),
        cmocka_unit_test(test_tower_cost_counts_training),
        cmocka_unit_test(test_tower_cost_counts_bytes_of_training),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
