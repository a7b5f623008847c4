/* tests/unit/test_tower.c - rows of encoders and projectors, compared with transformers'
 * (tests/golden/towers.py). */
#include "config.h"

#include "train/tower/tower.h"

#include "tests/unit/unit_tower.h"

/* fp32 on both sides: only the order of sums differs. */
#define CLOSE 1e-5

static void test_tower_computes_rows_of_transformers(void **state)
{
    struct unit_tower u = unit_tower_setup();

    (void)state;
    for (size_t i = 0; i < unit_tower_models(&u); i++) {
        const struct unit_tower_case *one = unit_tower_case(&u, i);

        unit_tower_open(&u, one, (struct tower_options) { .project = true });
        for (size_t k = 0; k < one->items; k++) {
            struct tower_output out;

            unit_tower_run(&u, one, k, &out);
            unit_tower_compare(&u, one, k, "rows", out.rows, &out, out.width, CLOSE);
            for (size_t d = 0; d < out.deep; d++) {
                char part[32];

                snprintf(part, sizeof(part), "deep%zu", d);
                unit_tower_compare(&u, one, k, part, out.deep_rows[d], &out,
                                   out.deep_width, CLOSE);
            }
            tower_output_clear(&out);
        }
        unit_tower_close(&u);
    }
    unit_tower_teardown(&u);
}

/* Without the projector: what it reads. */
static void test_tower_computes_rows_before_the_projector(void **state)
{
    struct unit_tower u = unit_tower_setup();
    size_t compared = 0;

    (void)state;
    for (size_t i = 0; i < unit_tower_models(&u); i++) {
        const struct unit_tower_case *one = unit_tower_case(&u, i);

        unit_tower_open(&u, one, (struct tower_options) { 0 });
        for (size_t k = 0; k < one->items; k++) {
            struct tower_output out;

            unit_tower_run(&u, one, k, &out);
            if (unit_tower_has(&u, one, k, "read")) {
                unit_tower_compare(&u, one, k, "read", out.rows, &out, out.width, CLOSE);
                compared++;
            }
            tower_output_clear(&out);
        }
        unit_tower_close(&u);
    }
    assert_true(compared >= 10);
    unit_tower_teardown(&u);
}

/*
 * In 16 bits each row of the residual stream adds the outputs of two sublayers per block, of
 * which each is rounded a few times: the error is a few epsilons of the largest value.
 */
static void test_tower_rounds_to_16_bits(void **state)
{
    static const struct {
        enum format format;
        double close;
    } formats[] = { { FORMAT_BF16, 16.0 / 256 }, { FORMAT_FP16, 16.0 / 2048 } };
    struct unit_tower u = unit_tower_setup();

    (void)state;
    for (size_t i = 0; i < unit_tower_models(&u); i++)
        for (size_t f = 0; f < TS_COUNT(formats); f++) {
            const struct unit_tower_case *one = unit_tower_case(&u, i);
            struct tower_output out;

            unit_tower_open(&u, one,
                            (struct tower_options) { .project = true,
                                                     .compute = formats[f].format,
                                                     .frozen = formats[f].format });
            unit_tower_run(&u, one, 0, &out);
            assert_int_equal(out.format, formats[f].format);
            unit_tower_compare(&u, one, 0, "rows", out.rows, &out, out.width,
                               formats[f].close);
            tower_output_clear(&out);
            unit_tower_close(&u);
        }
    unit_tower_teardown(&u);
}

static void test_tower_rows_do_not_depend_on_threads(void **state)
{
    struct unit_tower u = unit_tower_setup();

    (void)state;
    for (size_t i = 0; i < unit_tower_models(&u); i++) {
        const struct unit_tower_case *one = unit_tower_case(&u, i);
        struct tower_output out[2];

        for (int k = 0; k < 2; k++) {
            u.threads = k + 1;
            unit_tower_open(&u, one, (struct tower_options) { .project = true });
            unit_tower_run(&u, one, 0, &out[k]);
            unit_tower_close(&u);
        }
        assert_int_equal(out[0].count, out[1].count);
        assert_memory_equal(out[0].rows, out[1].rows,
                            out[0].count * out[0].width * sizeof(float));
        tower_output_clear(&out[0]);
        tower_output_clear(&out[1]);
    }
    unit_tower_teardown(&u);
}

/* Names that files may have instead: modules of transformers 5, and without vision_model. */
static void test_tower_reads_other_names(void **state)
{
    static const struct {
        const char *model, *old, *new;
    } names[] = {
        { "qwen2_audio", "", "model." },
        { "llava", "vision_tower.vision_model.", "vision_tower." },
        { "llava", "vision_tower.vision_model.", "model.vision_tower.vision_model." },
        { "gemma3", "vision_tower.vision_model.", "model.vision_tower." },
        { "mllama", "", "model." },
        { "internvl", "vision_tower.", "model.vision_tower." },
        { "internvl", "multi_modal_projector.", "model.multi_modal_projector." },
        { "glm4v", "visual.", "model.visual." },
        { "lfm2_vl", "vision_tower.vision_model.", "model.vision_tower.vision_model." },
        { "paddleocr_vl", "visual.vision_model.", "model.visual.vision_model." },
        { "qwen2_5_vl", "visual.", "model.visual." },
    };
    struct unit_tower u = unit_tower_setup();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        const struct unit_tower_case *one = unit_tower_named(&u, names[i].model);
        struct tower_output out;

        u.old_prefix = names[i].old;
        u.new_prefix = names[i].new;
        unit_tower_open(&u, one, (struct tower_options) { .project = true });
        unit_tower_run(&u, one, 0, &out);
        unit_tower_compare(&u, one, 0, "rows", out.rows, &out, out.width, CLOSE);
        tower_output_clear(&out);
        unit_tower_close(&u);
    }
    unit_tower_teardown(&u);
}

/* A tensor that is missing, or has another shape. */
static void test_tower_names_a_tensor_that_does_not_fit(void **state)
{
    static const struct {
        const char *model, *tensor, *error;
        bool cut;
    } cases[] = {
        { "qwen2_audio", "audio_tower.layers.1.self_attn.v_proj.bias",
          "the model's files have no tensor audio_tower.layers.1.self_attn.v_proj.bias",
          false },
        { "llava", "multi_modal_projector.linear_2.weight",
          "the model's files have no tensor multi_modal_projector.linear_2.weight",
          false },
        { "qwen2_vl", "visual.patch_embed.proj.weight",
          "tensor visual.patch_embed.proj.weight has the shape 31 x 3 x 2 x 2 x 2, but "
          "config.json requires 32 x 3 x 2 x 2 x 2",
          true },
    };
    struct unit_tower u = unit_tower_setup();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct unit_tower_case *one = unit_tower_named(&u, cases[i].model);
        struct error err = { 0 };

        u.changed = cases[i].tensor;
        u.cut = cases[i].cut;
        assert_false(
            unit_tower_try(&u, one, (struct tower_options) { .project = true }, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i].error))
            fail_msg("%s", err.text);
        /* also without the weights */
        error_clear(&err);
        assert_false(tower_check(u.dir, true, &err));
        assert_non_null(strstr(err.text, cases[i].error));
        unit_tower_close(&u);
    }
    unit_tower_open(&u, unit_tower_named(&u, "llava"),
                    (struct tower_options) { .project = true });
    assert_true(tower_check(u.dir, true, NULL));
    unit_tower_close(&u);
    unit_tower_teardown(&u);
}

static void test_tower_refuses_inputs_that_do_not_fit(void **state)
{
    float values[20 * 1024] = { 0 };
    size_t heard[1] = { 2 };
    static const struct {
        const char *model, *error;
        struct media_input input;
    } cases[] = {
        { "qwen2_audio",
          "the sound is too short for the encoder",
          { .rows = 40, .columns = 12, .windows = 1 } },
        { "qwen2_audio",
          "the encoder reads windows of 40 frames of 12 mel bins",
          { .rows = 38, .columns = 12, .windows = 1 } },
        { "qwen2_audio",
          "the encoder of this model reads sound",
          { .rows = 36, .columns = 48, .height = 6, .width = 6 } },
        { "llava",
          "the encoder of this model reads images",
          { .rows = 40, .columns = 12, .windows = 1 } },
        { "llava",
          "the encoder reads images of 6 x 6 patches, not 6 x 5",
          { .rows = 30, .columns = 48, .height = 5, .width = 6 } },
        { "llava",
          "the encoder reads patches of 48 values, not 12",
          { .rows = 36, .columns = 12, .height = 6, .width = 6 } },
        { "qwen2_vl",
          "must be multiples of 2",
          { .rows = 12, .columns = 24, .height = 3, .width = 4 } },
        { "mllama",
          "the encoder reads up to 4 tiles of 3 x 3 patches, not an image of 4 x 3 patches",
          { .rows = 12, .columns = 48, .height = 3, .width = 4 } },
        { "mllama",
          "the encoder reads up to 4 tiles of 3 x 3 patches, not an image of 9 x 6 patches",
          { .rows = 54, .columns = 48, .height = 6, .width = 9 } },
    };
    struct unit_tower u = unit_tower_setup();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct media_input input = cases[i].input;
        struct tower_output out;
        struct error err = { 0 };

        input.values = values;
        input.heard = heard;
        unit_tower_open(&u, unit_tower_named(&u, cases[i].model),
                        (struct tower_options) { .project = true });
        assert_false(tower_run(u.tower, &input, &out, &err));
        assert_null(out.rows);
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i].error))
            fail_msg("%s", err.text);
        unit_tower_close(&u);
    }
    unit_tower_teardown(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tower_computes_rows_of_transformers),
        cmocka_unit_test(test_tower_computes_rows_before_the_projector),
        cmocka_unit_test(test_tower_rounds_to_16_bits),
        cmocka_unit_test(test_tower_rows_do_not_depend_on_threads),
        cmocka_unit_test(test_tower_reads_other_names),
        cmocka_unit_test(test_tower_names_a_tensor_that_does_not_fit),
        cmocka_unit_test(test_tower_refuses_inputs_that_do_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
