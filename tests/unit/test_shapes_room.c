/* tests/unit/test_shapes_room.c - how the layout uses the room of a device: what is kept, the
 * chunks of logits, the rows of sequences and of generation. */
#include "config.h"

#include "train/model/shapes.h"

#include "base/size.h"
#include "tests/unit/unit_shapes.h"

static void check_kept(bool qkv, bool gate_up, bool down)
{
    const struct shapes s = made();

    assert_int_equal(s.buffers[BUFFER_H1].count, qkv ? 5 : 1);
    assert_int_equal(s.buffers[BUFFER_H2].count, gate_up ? 5 : 1);
    assert_int_equal(s.buffers[BUFFER_ACT].count, down ? 5 : 1);
    assert_int_equal(s.buffers[BUFFER_DACT].step > 0, down);
}

/* Half of the memory that the job may use, whatever is free. */
static void test_shapes_keep_inputs_where_a_gpu_has_room(void **state)
{
    struct shapes s;
    struct error err = { 0 };
    uint64_t kept;

    (void)state;
    plan.device.kind = DEVICE_CUDA;
    check_kept(false, false, false); /* unknown */
    plan.device.memory = (uint64_t)1 << 30;
    plan.device.available = 1;
    check_kept(true, true, true);
    kept = made().total;
    plan.memory_limit = "256MiB";
    check_kept(true, true, true);
    plan.memory_limit = "100%";
    plan.device.memory = 2 * kept;
    check_kept(true, true, true);
    plan.device.memory = 2 * kept - 2;
    check_kept(true, true, false);
    assert_true(made().total < kept);
    assert_true(shapes_make(&plan, &config, 16, 1, arena, &s, &err)); /* short data */
    assert_int_equal(s.buffers[BUFFER_ACT].count, 1);
    plan.device.memory = kept;
    check_kept(false, false, false);
    plan.device.memory = (uint64_t)1 << 30;
    plan.gradient_checkpointing = true;
    check_kept(false, false, false);
    plan.gradient_checkpointing = false;
    plan.method = METHOD_LORA;
    plan.lora_target = "q_proj,down_proj";
    check_kept(true, false, true);
    plan.generation.alone = true;
    assert_int_equal(made().buffers[BUFFER_H1].count, 1);
}

static void check_rounded(bool dy, bool w, bool x)
{
    const struct shapes s = made();

    assert_int_equal(s.buffers[BUFFER_ROUNDED_DY].step > 0, dy);
    assert_int_equal(s.buffers[BUFFER_ROUNDED_W].step > 0, w);
    assert_int_equal(s.buffers[BUFFER_ROUNDED_X].step > 0, x);
    assert_int_equal(s.buffers[BUFFER_ROUNDED_W].count, 5);
}

static void test_shapes_round_once_where_a_gpu_has_room(void **state)
{
    uint64_t all;

    (void)state;
    plan.device.kind = DEVICE_CUDA;
    plan.device.memory = (uint64_t)1 << 30;
    plan.memory_limit = "100%";
    plan.precision.compute = FORMAT_BF16;
    check_rounded(false, false, false);
    plan.precision.fp8 = true;
    check_rounded(true, true, true);
    all = made().total;
    plan.device.memory = 2 * all;
    check_rounded(true, true, true);
    plan.device.memory = 2 * all - 2;
    check_rounded(true, false, true);
    plan.device.memory = all;
    check_rounded(false, false, false);
    plan.device.memory = (uint64_t)1 << 30;
    plan.gradient_checkpointing = true;
    check_rounded(true, true, false);
    plan.method = METHOD_LORA;
    check_rounded(false, true, false);
}

/* As few chunks as 32 MiB of logits in fp32 allow, of equal size, in multiples of
 * sixteen. */
static void test_shapes_chunks_of_logits_are_equal(void **state)
{
    static const struct {
        size_t vocabulary, rows, chunk;
    } cases[] = {
        { 50257, 256, 128 }, /* 166 fit */
        { 50257, 160, 160 },  { 50257, 166, 96 },  { 50257, 1000, 144 },
        { 32000, 2048, 256 }, { 8000, 1040, 528 }, { 100, 3000, 1008 },
        { 1000000, 100, 16 }, { 50257, 5, 5 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct shapes s;
        struct error err = { 0 };

        config.vocab_size = cases[i].vocabulary;
        assert_true(shapes_make(&plan, &config, cases[i].rows, 1, arena, &s, &err));
        assert_int_equal(s.buffers[BUFFER_LOGITS].rows, cases[i].chunk);
    }
}

/* On a GPU, rows start at multiples of 128 bytes in 16 bits, and chunks count these
 * rows.  On a CPU there are no gaps. */
static void test_shapes_rows_of_logits_are_aligned(void **state)
{
    static const struct {
        enum device_kind kind;
        size_t vocabulary, cols, rows, chunk;
    } cases[] = {
        { DEVICE_CPU, 50257, 50257, 256, 128 },
        { DEVICE_CUDA, 50257, 50304, 256, 256 },
        { DEVICE_CUDA, 32000, 32000, 8192, 4096 },
        { DEVICE_CUDA, 32001, 32064, 8192, 4096 },
        { DEVICE_CUDA, 133150, 133184, 1008, 512 }, /* 1007 fit, 1008 without gaps */
        { DEVICE_CUDA, 60, 64, 16, 16 },
    };

    (void)state;
    plan.precision.compute = FORMAT_BF16;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct shapes s;
        struct error err = { 0 };

        config.vocab_size = cases[i].vocabulary;
        plan.device.kind = cases[i].kind;
        assert_true(shapes_make(&plan, &config, cases[i].rows, 1, arena, &s, &err));
        assert_int_equal(s.buffers[BUFFER_LOGITS].cols, cases[i].cols);
        assert_int_equal(s.buffers[BUFFER_DLOGITS].cols, cases[i].cols);
        assert_int_equal(s.buffers[BUFFER_LOGITS].rows, cases[i].chunk);
        assert_int_equal(s.buffers[BUFFER_DLOGITS].rows, cases[i].chunk);
    }
}

/* On a GPU with room, 2 GiB of logits, or a 32nd of its memory. */
static void test_shapes_chunks_are_large_where_a_gpu_has_room(void **state)
{
    static const struct {
        uint64_t mib;
        size_t vocabulary, rows, chunk;
    } cases[] = {
        { 81920, 128256, 8192, 4096 },
        { 81920, 50257, 16384, 8192 },
        { 81920, 100, 16000, 16000 },
        { 40960, 128256, 8192, 2048 },
        { 16384, 128256, 8192, 1024 },
        { 256, 128256, 8192, 16 }, /* too small for more: a 64th */
    };

    (void)state;
    plan.precision.compute = FORMAT_BF16;
    plan.device.kind = DEVICE_CUDA;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct shapes s;
        struct error err = { 0 };

        config.vocab_size = cases[i].vocabulary;
        plan.device.memory = cases[i].mib << 20;
        assert_true(shapes_make(&plan, &config, cases[i].rows, 1, arena, &s, &err));
        assert_int_equal(s.buffers[BUFFER_LOGITS].rows, cases[i].chunk);
    }
    plan.stage = STAGE_DISTILL; /* a teacher needs memory, too */
    plan.device.memory = (uint64_t)80 << 30;
    config.vocab_size = 128256;
    assert_int_equal(made().buffers[BUFFER_LOGITS].rows, 128);
}

/* On GPUs of any size, also those whose half is between what a run takes with and without
 * its moments. */
static void test_shapes_chunks_do_not_depend_on_where_moments_are(void **state)
{
    size_t most, step, rows, usual = 0, large = 0;
    struct shapes s;

    (void)state;
    plan.device.kind = DEVICE_CUDA;
    plan.device.memory = (uint64_t)1 << 40;
    plan.precision.compute = FORMAT_BF16;
    plan.cutoff_len = 4096;
    config.vocab_size = 128256;
    s = made();
    most = 3 * s.total;
    step = s.moments_bytes / 2;
    for (size_t memory = step; memory < most; memory += step) {
        plan.device.memory = memory;
        plan.offload_optimizer = CHOICE_NO;
        rows = made().buffers[BUFFER_LOGITS].rows;
        usual += rows * sizeof(float) * 128256 <= memory / 64;
        large += rows * sizeof(float) * 128256 > memory / 64;
        plan.offload_optimizer = CHOICE_YES;
        s = made();
        assert_true(s.offloads);
        assert_int_equal(s.buffers[BUFFER_LOGITS].rows, rows);
    }
    assert_true(usual > 0 && large > 0);
}

/* What does not change the bits is not taken from others. */
static void test_shapes_keep_inputs_if_they_are_free(void **state)
{
    struct shapes s;

    (void)state;
    plan.device.kind = DEVICE_CUDA;
    plan.device.memory = plan.device.available = (uint64_t)40 << 30;
    plan.precision.compute = FORMAT_BF16;
    plan.cutoff_len = 4096;
    config.vocab_size = 128256;
    s = made();
    assert_true(s.keeps[STACK_QKV] && s.keeps[STACK_DOWN]);
    plan.device.available = s.total;
    assert_false(made().keeps[0]);
    assert_int_equal(made().buffers[BUFFER_LOGITS].rows, s.buffers[BUFFER_LOGITS].rows);
    plan.device.available = 2 * s.total;
    assert_true(made().keeps[0]);
}

/* Stage grpo: an answer ends where the model has no more positions. */
static void test_shapes_end_answers_at_the_last_position(void **state)
{
    (void)state;
    plan.stage = STAGE_GRPO;
    plan.per_device_train_batch_size = 2;
    plan.grpo.max_completion_length = 50;
    plan.gradient_accumulation_steps = plan.grpo.steps_per_generation = 1;
    plan.grpo.num_iterations = 1;
    config.max_positions = 0;
    assert_int_equal(made().rows, 2 * (64 + 50));
    config.max_positions = 100;
    assert_int_equal(made().rows, 2 * 100);
    plan.stage = STAGE_SFT;
    config.max_positions = 50;
    assert_int_equal(made().rows, 2 * 64);
}

static void test_shapes_gradients_overwrite_logits(void **state)
{
    (void)state;
    assert_int_equal(made().buffers[BUFFER_DLOGITS].step, 0);
    plan.stage = STAGE_DISTILL; /* reads logits again while it writes gradients */
    assert_int_equal(made().buffers[BUFFER_DLOGITS].rows, 128);
    plan.stage = STAGE_PT;
    plan.precision.compute = FORMAT_BF16;
    assert_int_equal(made().buffers[BUFFER_DLOGITS].rows, 128);
}

/* Keys and values of every row of every slot, rotations for all positions, and no
 * more. */
static void test_shapes_count_the_cache(void **state)
{
    struct shapes without = made(), with;
    size_t kv = config.kv_heads * config.head_size, cache, rotations;

    (void)state;
    plan.generation =
        (struct generation) { .slots = 3, .prompt_max = 100, .max_new_tokens = 200 };
    with = made();
    assert_int_equal(with.total, without.total);
    plan.generation.on = true;
    with = made();
    cache = size_round(3 * 300 * kv * sizeof(float), SHAPES_ALIGNMENT);
    rotations = (300 - 128) * config.head_size * sizeof(float);
    assert_int_equal(with.buffers[BUFFER_ROPE].rows, 300);
    assert_int_equal(with.total, without.total + 2 * config.layers * cache +
                                     size_round(rotations, SHAPES_ALIGNMENT));
    plan.generation.prompt_max = 0;
    assert_int_equal(made().slot_rows, (size_t)plan.cutoff_len + 200);
}

/* A GPU runs multiples of sixteen rows, and one more sequence. */
static void test_shapes_have_room_for_padding(void **state)
{
    struct shapes shapes;
    struct error err = { 0 };

    (void)state;
    for (enum device_kind kind = DEVICE_CPU; kind <= DEVICE_CUDA; kind++) {
        bool gpu = kind == DEVICE_CUDA;

        plan.device.kind = kind;
        assert_true(shapes_make(&plan, &config, 113, 3, arena, &shapes, &err));
        assert_int_equal(shapes.rows, gpu ? 128 : 113);
        assert_int_equal(shapes.buffers[BUFFER_TOKENS].cols, shapes.rows);
        assert_int_equal(shapes.buffers[BUFFER_OFFSETS].cols, gpu ? 5 : 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shapes_keep_inputs_where_a_gpu_has_room,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_round_once_where_a_gpu_has_room,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_chunks_are_large_where_a_gpu_has_room,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_shapes_chunks_do_not_depend_on_where_moments_are, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_keep_inputs_if_they_are_free, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_chunks_of_logits_are_equal, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_rows_of_logits_are_aligned, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_end_answers_at_the_last_position,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_gradients_overwrite_logits, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_shapes_count_the_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shapes_have_room_for_padding, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
