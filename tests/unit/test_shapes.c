/* tests/unit/test_shapes.c - tests counts, formats and layout of parameters and
 * buffers. */
#include "config.h"

#include "train/model/shapes.h"

#include "base/size.h"
#include "tests/unit/unit_shapes.h"

static const struct shape_parameter *find(const struct shapes *shapes, const char *name)
{
    for (size_t i = 0; i < shapes->count; i++)
        if (strcmp(shapes->parameters[i].name, name) == 0)
            return &shapes->parameters[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

/* The number that the authors give for this model: shared data, README. */
static void test_shapes_count_matches_the_authors(void **state)
{
    struct shapes s = made();
    struct memory_use use;

    (void)state;
    assert_int_equal(s.elements, 260032);
    assert_int_equal(s.trainable_elements, 260032);
    assert_int_equal(s.count, 1 + 5 * 9 + 1);
    assert_int_equal(s.rows, 128);
    assert_int_equal(s.frozen_bytes, 0);
    assert_int_equal(s.copy_bytes, 0);
    assert_true(s.segment >= 260032 && s.segment < 260032 + 64 * 128);
    shapes_use(&s, &use);
    assert_int_equal(use.weights, 4 * s.segment);
    assert_int_equal(use.gradients, 4 * s.segment);
    assert_int_equal(use.optimizer, 8 * s.segment);
    assert_int_equal(use.weights + use.gradients + use.optimizer + use.activations +
                         use.workspace,
                     use.total);
}

static void test_shapes_stack_layers_over_one_input(void **state)
{
    struct shapes s = made();
    const struct shape_parameter *q = find(&s, "model.layers.1.self_attn.q_proj.weight");
    const struct shape_parameter *k = find(&s, "model.layers.1.self_attn.k_proj.weight");
    const struct shape_parameter *v = find(&s, "model.layers.1.self_attn.v_proj.weight");
    const struct shape_parameter *up = find(&s, "model.layers.4.mlp.up_proj.weight");

    (void)state;
    assert_int_equal(q->at % (SHAPES_ALIGNMENT / 2), 0);
    assert_int_equal(k->at, q->at + 64 * 64);
    assert_int_equal(v->at, k->at + 32 * 64);
    assert_int_equal(up->at, (up - 1)->at + 172 * 64);
    assert_true(q->decays);
    assert_false(find(&s, "model.norm.weight")->decays);
}

/* A range of one of the segments. */
struct piece {
    char where; /* weights, copies, frozen */
    size_t begin, end, room;
};

static void test_shapes_pieces_do_not_overlap(void **state)
{
    struct shapes s;
    struct piece pieces[400];
    size_t count = 0, at = 0;

    (void)state;
    plan.method = METHOD_LORA;
    plan.additional_target = "embed_tokens,k_proj";
    plan.precision.compute = plan.precision.frozen = FORMAT_BF16;
    s = made();
    for (size_t i = 0; i < s.count; i++) {
        const struct shape_parameter *p = &s.parameters[i];
        size_t size = p->rows * p->cols;

        assert_true(count + 2 <= TS_COUNT(pieces));
        if (p->trainable)
            pieces[count++] = (struct piece) { 'w', p->at, p->at + size, s.segment };
        else
            pieces[count++] =
                (struct piece) { 'f', p->at, p->at + size * format_info(p->format)->bytes,
                                 s.frozen_bytes };
        if (p->copy != FORMAT_COUNT)
            pieces[count++] =
                (struct piece) { p->folded ? 'f' : 'c', p->copy_at, p->copy_at + 2 * size,
                                 p->folded ? s.frozen_bytes : s.copy_bytes };
    }
    for (size_t i = 0; i < count; i++) {
        assert_true(pieces[i].end <= pieces[i].room);
        for (size_t j = 0; j < i; j++)
            assert_true(pieces[i].where != pieces[j].where ||
                        pieces[i].end <= pieces[j].begin ||
                        pieces[j].end <= pieces[i].begin);
    }
    for (enum buffer i = 0; i < BUFFERS; i++) {
        const struct shape_buffer *b = &s.buffers[i];

        assert_true(b->at == at && b->at % SHAPES_ALIGNMENT == 0);
        assert_true(b->step >= b->rows * b->cols * format_info(b->format)->bytes);
        at += b->step * b->count;
    }
    assert_int_equal(at, s.buffer_bytes);
}

static void test_shapes_formats_of_mixed_modes(void **state)
{
    struct shapes s;

    (void)state;
    plan.device.kind = DEVICE_CUDA;
    plan.precision.compute = FORMAT_BF16;
    s = made();
    assert_int_equal(find(&s, "model.layers.0.mlp.down_proj.weight")->format,
                     FORMAT_FP32);
    assert_int_equal(find(&s, "model.layers.0.mlp.down_proj.weight")->copy, FORMAT_BF16);
    assert_int_equal(find(&s, "model.norm.weight")->copy, FORMAT_COUNT);
    assert_int_equal(find(&s, "model.embed_tokens.weight")->copy, FORMAT_BF16);
    assert_int_equal(s.buffers[BUFFER_H1].format, FORMAT_BF16);
    assert_int_equal(s.buffers[BUFFER_X_IN].format, FORMAT_FP32);
    config.tied = false;
    s = made();
    assert_int_equal(find(&s, "model.embed_tokens.weight")->copy, FORMAT_COUNT);
    assert_int_equal(find(&s, "lm_head.weight")->copy, FORMAT_BF16);
    plan.precision.compute = plan.precision.trainable = FORMAT_FP16;
    s = made();
    assert_int_equal(s.weight_bytes, 2 * s.segment);
    assert_int_equal(s.gradient_bytes, 4 * s.segment);
    assert_int_equal(s.moment_bytes[MOMENT_2], 2 * s.segment);
    assert_int_equal(s.copy_bytes, 0);
}

/* bitsandbytes keeps fp32 moments of parameters with fewer than 4096 elements; blocks of
 * codes begin where their parameter does. */
static void test_shapes_of_moments_in_8_bits(void **state)
{
    struct shapes s;
    struct memory_use use;
    size_t codes = 0;

    (void)state;
    plan.optimizer = optimizer_find("adamw_8bit");
    s = made();
    assert_int_equal(s.segment % 256, 0);
    for (size_t i = 0; i < s.count; i++) {
        const struct shape_parameter *p = &s.parameters[i];
        bool small = p->rows * p->cols < 4096 || p->module == MODULE_EMBED;
        const struct shape_moment *m = &p->moments[MOMENT_1];

        assert_int_equal(m->format, small ? FORMAT_FP32 : FORMAT_CODES);
        assert_int_equal(m->count, p->rows * p->cols);
        assert_int_equal(m->at, p->moments[MOMENT_2].at);
        assert_int_equal(p->moments[MOMENT_3].count, small ? 0 : m->count / 256);
        assert_true(small || p->at % 256 == 0);
        codes += small ? 0 : m->count;
    }
    assert_int_equal(codes, 5 * (2 * 64 * 64 + 3 * 172 * 64));
    shapes_use(&s, &use);
    assert_true(use.optimizer >=
                2 * codes + 8 * (260032 - codes) + 2 * sizeof(float) * codes / 256);
    assert_true(use.optimizer < 2 * codes + 8 * (260032 - codes) + (1 << 15));
    plan.precision.trainable = plan.precision.compute = FORMAT_BF16;
    assert_int_equal(made().moments_bytes, s.moments_bytes);
}

static void test_shapes_of_frozen_weights(void **state)
{
    const struct shape_parameter *v, *a;
    struct shapes s;

    (void)state;
    plan.method = METHOD_LORA;
    plan.lora_target = "q_proj,v_proj";
    plan.precision.compute = FORMAT_BF16;
    plan.precision.frozen = FORMAT_FP32;
    s = made();
    /* r times the sum of inputs and outputs: q 64 to 64, v 64 to 32 */
    assert_int_equal(s.trainable_elements, 5 * 8 * (64 + 64 + 64 + 32));
    assert_int_equal(find(&s, "model.layers.0.mlp.up_proj.weight")->format, FORMAT_BF16);
    assert_int_equal(find(&s, "model.embed_tokens.weight")->format, FORMAT_FP32);
    assert_int_equal(find(&s, "model.embed_tokens.weight")->copy, FORMAT_BF16);
    assert_int_equal(find(&s, "model.norm.weight")->format, FORMAT_FP32);
    assert_int_equal(s.buffers[BUFFER_U_QKV].cols, 0); /* folded */
    assert_int_equal(s.buffers[BUFFER_QKV].cols, 64 + 2 * 32 + 2 * 8);
    assert_int_equal(s.buffers[BUFFER_U_O].cols, 0);
    v = find(&s, "model.layers.2.self_attn.v_proj.weight");
    a = find(&s, "base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight");
    assert_int_equal(a->copy_at, v->at + 2 * 32 * 64);
    a = find(&s, "base_model.model.model.layers.2.self_attn.v_proj.lora_A.weight");
    assert_int_equal(a->copy_at, v->at + 2 * (32 + 8) * 64);
    assert_non_null(
        find(&s, "base_model.model.model.layers.4.self_attn.v_proj.lora_B.weight"));
    plan.precision.compute = FORMAT_FP32;
    plan.precision.frozen = FORMAT_BF16;
    s = made();
    assert_int_equal(find(&s, "model.layers.0.mlp.up_proj.weight")->format, FORMAT_BF16);
    assert_int_equal(s.buffers[BUFFER_WEIGHT].cols, 512 * 64);
    assert_int_equal(s.buffers[BUFFER_U_QKV].cols, 16);
}

static void test_shapes_of_frozen_layers(void **state)
{
    struct shapes s;

    (void)state;
    plan.method = METHOD_FREEZE;
    plan.precision.frozen = FORMAT_FP32;
    plan.freeze_trainable_layers = 2;
    plan.freeze_trainable_modules = "mlp";
    s = made();
    assert_int_equal(s.trainable_elements, 2 * 3 * 64 * 172);
    assert_true(find(&s, "model.layers.3.mlp.up_proj.weight")->trainable);
    assert_false(find(&s, "model.layers.2.mlp.up_proj.weight")->trainable);
    plan.freeze_trainable_layers = -1;
    plan.freeze_trainable_modules = "all";
    s = made();
    assert_true(find(&s, "model.layers.0.input_layernorm.weight")->trainable);
    assert_false(find(&s, "model.layers.1.input_layernorm.weight")->trainable);
}

/* LLaMA-Factory, model/adapter.py: of 5 layers and 1, the last; of each group, its last. */
static void test_shapes_of_expanded_layers(void **state)
{
    const size_t before = config.layers;
    struct shapes s;

    (void)state;
    plan.method = METHOD_FREEZE;
    plan.precision.frozen = FORMAT_FP32;
    plan.use_llama_pro = true;
    plan.freeze_trainable_layers = 2;
    plan.freeze_trainable_modules = "all";
    config.layers = 6;
    s = made();
    for (size_t l = 0; l < 6; l++) {
        char name[64];

        snprintf(name, sizeof(name), "model.layers.%zu.mlp.up_proj.weight", l);
        assert_int_equal(find(&s, name)->trainable, l == 2 || l == 5);
    }
    config.layers = before;
}

static void test_shapes_reject_layers_that_were_not_expanded(void **state)
{
    static const struct {
        enum method method;
        int64_t layers;
        const char *says;
    } cases[] = {
        { METHOD_FREEZE, 2, "the 5 layers of the model with use_llama_pro, not be 2" },
        { METHOD_FREEZE, -1, "not be -1" },
        { METHOD_FREEZE, 0, "not be 0" },
        { METHOD_LORA, 1, "freeze, not lora" },
        { METHOD_FULL, 1, "freeze, not full" },
    };

    (void)state;
    plan.use_llama_pro = true;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct memory_use use;

        plan.method = cases[i].method;
        plan.freeze_trainable_layers = cases[i].layers;
        assert_false(shapes_memory(&plan, &config, 0, 0, &use, &err));
        if (!strstr(err.text, cases[i].says))
            fail_msg("\"%s\" does not contain \"%s\"", err.text, cases[i].says);
    }
}

static void test_shapes_checkpointing_keeps_block_inputs(void **state)
{
    struct shapes with, without = made();

    (void)state;
    plan.gradient_checkpointing = true;
    with = made();
    assert_int_equal(without.buffers[BUFFER_GATE_UP].count, 5);
    assert_int_equal(with.buffers[BUFFER_GATE_UP].count, 1);
    assert_int_equal(with.buffers[BUFFER_X_IN].count, 5);
    assert_true(with.total < without.total);
}

/* A CPU's matmuls round them from fp32.  In fp16 the diagnosis of overflows needs the
 * copies, and 8-bit values are made from 16-bit ones. */
static void test_shapes_have_no_bf16_copies_on_a_cpu(void **state)
{
    struct shapes s;

    (void)state;
    plan.precision.compute = FORMAT_BF16;
    s = made();
    assert_true(s.rounds_in_matmul);
    assert_int_equal(s.copy_bytes, 0);
    assert_int_equal(find(&s, "model.layers.0.mlp.down_proj.weight")->format,
                     FORMAT_FP32);
    plan.precision.fp8 = true;
    s = made();
    assert_false(s.rounds_in_matmul);
    assert_int_equal(find(&s, "model.embed_tokens.weight")->copy, FORMAT_BF16);
    plan.precision.fp8 = false;
    plan.precision.compute = FORMAT_FP16;
    s = made();
    assert_false(s.rounds_in_matmul);
    assert_int_equal(find(&s, "model.embed_tokens.weight")->copy, FORMAT_FP16);
}

/* The backward pass recomputes them from what is kept. */
static void test_shapes_keep_no_outputs_of_norms_and_activations(void **state)
{
    static const enum method methods[] = { METHOD_FULL, METHOD_LORA, METHOD_FREEZE };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(methods); i++) {
        struct shapes s;

        plan.method = methods[i];
        plan.freeze_trainable_layers = 1;
        s = made();
        assert_int_equal(s.buffers[BUFFER_H1].count, 1);
        assert_int_equal(s.buffers[BUFFER_H2].count, 1);
        assert_int_equal(s.buffers[BUFFER_ACT].count, 1);
        assert_int_equal(s.buffers[BUFFER_X_MID].count, 5);
        assert_int_equal(s.buffers[BUFFER_GATE_UP].count, 5);
    }
}

static void test_shapes_reject_what_cannot_train(void **state)
{
    static const struct {
        enum method method;
        const char *target, *additional, *says;
    } cases[] = {
        { METHOD_LORA, "q_prod", NULL, "there are q_proj, k_proj" },
        { METHOD_LORA, "lm_head", NULL, "q_proj" },
        { METHOD_LORA, ",", NULL, "at least one layer" },
        { METHOD_LORA, "all", "lm_head", "embed_tokens" },
        { METHOD_LORA, "all", "heads", "lm_head" },
        { METHOD_FREEZE, NULL, NULL, "freeze_trainable_layers" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct memory_use use;

        plan.method = cases[i].method;
        plan.lora_target = cases[i].target;
        plan.additional_target = cases[i].additional;
        assert_false(shapes_memory(&plan, &config, 0, 0, &use, &err));
        assert_int_equal(err.code, ERROR_JOB);
        if (!strstr(err.text, cases[i].says))
            fail_msg("\"%s\" does not contain \"%s\"", err.text, cases[i].says);
    }
}

/* Linear layers of blocks in 4 bits start at multiples of the alignment; they are
 * adjacent in the buffer that they are dequantized into; nothing is folded. */
static void test_shapes_of_quantized_weights(void **state)
{
    size_t blocks = 64 * 64 / 64, q = 64 * 64 / 2, fixed = 257 * 4, kv = q / 2;
    const struct shape_parameter *p;
    struct shapes s;

    (void)state;
    plan.method = METHOD_LORA;
    plan.precision.compute = plan.precision.frozen = FORMAT_BF16;
    plan.quantization_bit = 4;
    for (int twice = 0; twice < 2; twice++) {
        plan.double_quantization = twice;
        s = made();
        p = find(&s, "model.layers.1.self_attn.q_proj.weight");
        assert_true(p->quantized && p->copy_at == 0 && p->at % SHAPES_ALIGNMENT == 0);
        assert_int_equal(
            p[1].at - p->at,
            size_round(q + (twice ? blocks + fixed + 4 : blocks * 4), SHAPES_ALIGNMENT));
        assert_int_equal(p[1].copy_at, 2 * 64 * 64);
        assert_int_equal(p[2].at - p[1].at,
                         size_round(kv + (twice ? blocks / 2 + fixed + 4 : blocks * 2),
                                    SHAPES_ALIGNMENT));
        assert_int_equal(p[2].copy_at, 2 * (64 + 32) * 64);
        assert_int_equal(s.buffers[BUFFER_WEIGHT].cols, 2 * 172 * 64);
        assert_int_equal(s.buffers[BUFFER_QKV].cols, 64 + 2 * 32);
        assert_int_equal(find(&s, "model.embed_tokens.weight")->format, FORMAT_BF16);
        assert_false(find(&s, "model.embed_tokens.weight")->quantized);
        assert_int_equal(find(&s, "model.norm.weight")->format, FORMAT_FP32);
    }
    plan.external = true;
    assert_false(made().quantized);
    plan.external = false;
    plan.method = METHOD_FULL;
    assert_false(made().quantized);
}

/* No gradients, no moments, and the activations of one block. */
static void test_shapes_of_generation_alone(void **state)
{
    struct shapes s;
    struct memory_use use;

    (void)state;
    plan.generation = (struct generation) { .on = true, .alone = true, .slots = 1 };
    s = made();
    shapes_use(&s, &use);
    assert_int_equal(s.trainable_elements, 0);
    assert_int_equal(use.gradients + use.optimizer, 0);
    assert_int_equal(s.buffers[BUFFER_DQKV].step, 0);
    assert_int_equal(s.buffers[BUFFER_X_IN].count, 1);
    assert_int_equal(s.buffers[BUFFER_KEYS].count, config.layers);
}

static void test_shapes_reject_contradictions(void **state)
{
    struct memory_use use;
    struct error err = { 0 };

    (void)state;
    plan.method = METHOD_FREEZE;
    plan.freeze_trainable_layers = 1;
    plan.freeze_trainable_modules = "mlp,attn";
    assert_false(shapes_memory(&plan, &config, 0, 0, &use, &err));
    assert_non_null(strstr(err.text, "\"attn\""));
    error_clear(&err);
    plan.method = METHOD_FULL;
    plan.adapter_name_or_path = "adapter";
    assert_false(shapes_memory(&plan, &config, 0, 0, &use, &err));
    assert_non_null(strstr(err.text, "finetuning_type: lora"));
    error_clear(&err);
    plan.method = METHOD_LORA;
    plan.adapter_name_or_path = NULL;
    plan.train_from_scratch = true;
    assert_false(shapes_memory(&plan, &config, 0, 0, &use, &err));
    assert_non_null(strstr(err.text, "train_from_scratch"));
}

static void test_shapes_detect_overflow(void **state)
{
    struct error err = { 0 };
    struct memory_use use;

    (void)state;
    config.hidden_size = config.intermediate_size = (size_t)1 << 30;
    plan.cutoff_len = (int64_t)1 << 40;
    assert_false(shapes_memory(&plan, &config, 0, 0, &use, &err));
    assert_non_null(strstr(err.text, "too large"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shapes_count_matches_the_authors, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_stack_layers_over_one_input, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_pieces_do_not_overlap, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_formats_of_mixed_modes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_of_moments_in_8_bits, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_of_frozen_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_of_frozen_layers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_of_expanded_layers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_reject_layers_that_were_not_expanded,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_have_no_bf16_copies_on_a_cpu, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_shapes_keep_no_outputs_of_norms_and_activations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_checkpointing_keeps_block_inputs,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_of_generation_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_of_quantized_weights, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_reject_what_cannot_train, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_reject_contradictions, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_detect_overflow, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
