/* tests/unit/test_memory_fit.c - the chosen change fits and keeps the effective batch,
 * and no smaller change fits. */
#include "config.h"

#include "patcher/rules/memory_fit.h"

#include "base/random.h"
#include "base/size.h"
#include "patcher/rules/alternatives.h"
#include "tests/unit/unit.h"
#include "train/torch_memory.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 2048, \"hidden_size\": "
    "256,\"intermediate_size\": 704, \"num_hidden_layers\": 6, \"num_attention_heads\": "
    "8,\"num_key_value_heads\": 4}";

enum { CASES = 600 };

static struct arena *arena;
static struct model_config config;
static struct device cpu, card;

static int setup(void **state)
{
    struct error err = { 0 };

    (void)state;
    arena = arena_new();
    return device_find("cpu", &cpu, &err) && device_find("RTX 3090", &card, &err) &&
                   model_config_parse(llama, sizeof(llama) - 1, "config.json", arena,
                                      &config, &err)
               ? 0
               : -1;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

/* Return the n-th random number of a case, less than `end`. */
static uint64_t draw(int number, uint64_t n, uint64_t end)
{
    return random_bits(11, RANDOM_ORDER, (uint32_t)number, n) % end;
}

static const int64_t batches[] = { 1, 2, 3, 6, 7, 8, 12, 16, 24, 30 };
static const int64_t lengths[] = { 8, 64, 512 };

struct trial {
    struct plan plan;
    struct torch_setup setup;
    struct memory_fit_case the;
};

/* Make a job from a number, with a limit between zero and twice what it takes. */
static void make_trial(int number, struct trial *t)
{
    struct memory_use use;

    *t = (struct trial) { .setup = { .evaluates = draw(number, 0, 2) } };
    t->plan = (struct plan) {
        .method = draw(number, 1, 2) ? METHOD_FULL : METHOD_LORA,
        .external = draw(number, 2, 2),
        .gradient_checkpointing = draw(number, 3, 2),
        .per_device_train_batch_size = batches[draw(number, 4, 10)],
        .per_device_eval_batch_size = batches[draw(number, 5, 10)],
        .gradient_accumulation_steps = 1 + (int64_t)draw(number, 6, 4),
        .cutoff_len = lengths[draw(number, 7, 3)],
        .lora_rank = 8,
        .lora_target = "all",
        .request = { .bf16 = draw(number, 8, 2) ? CHOICE_YES : CHOICE_NO,
                     .model_dtype = draw(number, 9, 2) ? DTYPE_FLOAT32 : DTYPE_AUTO },
    };
    /* for an external job, it is already decided */
    t->plan.precision = (struct precision) {
        .mode = t->plan.request.bf16 == CHOICE_YES ? MODE_BF16_MIXED : MODE_FP32,
        .compute = t->plan.request.bf16 == CHOICE_YES ? FORMAT_BF16 : FORMAT_FP32,
        .frozen =
            t->plan.request.model_dtype == DTYPE_FLOAT32 ? FORMAT_FP32 : FORMAT_BF16,
    };
    t->plan.torch = t->plan.external ? &t->setup : NULL;
    t->the = (struct memory_fit_case) { .plan = &t->plan,
                                        .model = &config,
                                        .device = draw(number, 10, 2) ? &cpu : &card,
                                        .available = 1 };
    assert_true(memory_fit_estimate(&t->the, &(struct memory_fit) { 0 }, &use, NULL));
    t->the.available = 1 + use.total * draw(number, 11, 1000) / 500;
}

static bool fits(const struct trial *t, const struct memory_fit *fit)
{
    struct memory_use use;

    assert_true(memory_fit_estimate(&t->the, fit, &use, NULL));
    assert_int_equal(use.fits, use.total <= t->the.available);
    return use.fits;
}

/* The same with the next larger divisor, or with the original batch. */
static struct memory_fit larger(const struct trial *t, const struct memory_fit *fit)
{
    const int64_t batch = t->plan.per_device_train_batch_size;
    struct memory_fit more = *fit;

    do
        more.batch++;
    while (batch % more.batch != 0);
    more.accumulation = t->plan.gradient_accumulation_steps * (batch / more.batch);
    return more;
}

static void check_smaller_changes(const struct trial *t, const struct memory_fit *fit)
{
    struct memory_fit less = *fit;

    if (fit->checkpointing) {
        less.checkpointing = false;
        assert_false(fits(t, &less));
    }
    less = *fit;
    if (fit->frozen) {
        less.frozen = false;
        assert_false(fits(t, &less));
    }
    if (fit->batch) {
        less = larger(t, fit);
        assert_false(fits(t, &less));
    }
    less = *fit;
    if (fit->eval_batch) {
        do
            less.eval_batch++;
        while (t->plan.per_device_eval_batch_size % less.eval_batch != 0);
        assert_false(fits(t, &less));
    }
}

static void check_effective_batch(const struct trial *t, const struct memory_fit *fit)
{
    if (!fit->batch)
        return;
    assert_int_equal(fit->batch * fit->accumulation,
                     t->plan.per_device_train_batch_size *
                         t->plan.gradient_accumulation_steps);
    assert_true(fit->batch < t->plan.per_device_train_batch_size);
}

static void test_memory_fit_finds_the_smallest_change(void **state)
{
    int found = 0, none = 0, casts = 0;

    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct trial t;
        struct memory_fit fit;

        make_trial(i, &t);
        if (memory_fit_find(&t.the, &fit)) {
            assert_true(fits(&t, &fit));
            check_effective_batch(&t, &fit);
            check_smaller_changes(&t, &fit);
            casts += fit.frozen;
            found++;
        } else {
            struct memory_fit all = { .checkpointing = true,
                                      .frozen = t.plan.precision.frozen == FORMAT_FP32 &&
                                                t.plan.precision.compute == FORMAT_BF16 &&
                                                t.plan.external &&
                                                t.plan.method == METHOD_LORA,
                                      .batch = 1,
                                      .accumulation = t.plan.per_device_train_batch_size *
                                                      t.plan.gradient_accumulation_steps,
                                      .eval_batch = 1 };

            assert_false(fits(&t, &all));
            none++;
        }
    }
    assert_true(found > CASES / 4 && none > CASES / 20 && casts > 0); /* all were tried */
}

/* A job that fits does not change. */
static void test_memory_fit_keeps_a_job_that_fits(void **state)
{
    struct trial t;
    struct memory_fit fit;

    (void)state;
    for (int i = 0; i < 50; i++) {
        make_trial(i, &t);
        t.the.available = (uint64_t)1 << 40;
        assert_true(memory_fit_find(&t.the, &fit));
        assert_false(fit.checkpointing || fit.frozen || fit.batch || fit.eval_batch);
    }
}

/* A loss that compares samples of a batch forbids the split. */
static void test_memory_fit_does_not_split_a_whole_batch(void **state)
{
    struct trial t;
    struct memory_fit fit;

    (void)state;
    for (int i = 0; i < CASES; i++) {
        make_trial(i, &t);
        t.the.whole_batch = true;
        if (memory_fit_find(&t.the, &fit))
            assert_int_equal(fit.batch, 0);
    }
}

/* Check the longest length that fits with all other changes made. */
static void check_length(const struct trial *t, int64_t length)
{
    struct trial other = *t;
    const struct memory_fit all = { .checkpointing = true,
                                    .batch = 1,
                                    .accumulation = t->plan.per_device_train_batch_size *
                                                    t->plan.gradient_accumulation_steps,
                                    .frozen =
                                        t->plan.external &&
                                        t->plan.method == METHOD_LORA &&
                                        t->plan.request.model_dtype == DTYPE_FLOAT32 &&
                                        t->plan.request.bf16 == CHOICE_YES,
                                    .eval_batch = 1 };

    other.the.plan = &other.plan;
    assert_int_equal(length % 8, 0);
    other.plan.cutoff_len = length;
    assert_true(fits(&other, &all));
    other.plan.cutoff_len = length + 8;
    assert_false(fits(&other, &all));
}

static void test_memory_fit_names_what_would_fit(void **state)
{
    int lengths_named = 0, cards = 0, loras = 0;

    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct trial t;
        struct memory_fit fit;
        struct last_resort last;

        make_trial(i, &t);
        if (memory_fit_find(&t.the, &fit))
            continue;
        memory_fit_last_resort(&t.the, &last);
        if (last.cutoff_len)
            check_length(&t, last.cutoff_len);
        lengths_named += last.cutoff_len > 0;
        cards += last.card != NULL;
        loras += last.lora;
        assert_int_equal(last.limit, 0); /* the job has no limit */
        assert_true(last.rank < t.plan.lora_rank);
    }
    assert_true(lengths_named > 0 && cards > 0 && loras > 0);
}

/* No smaller card fits. */
static void test_memory_fit_names_the_smallest_card(void **state)
{
    const struct device_row *rows;
    size_t count = device_rows(&rows);
    struct trial t;
    struct last_resort last;
    struct memory_use use;

    (void)state;
    make_trial(1, &t);
    t.plan.external = false;
    t.plan.torch = NULL;
    t.plan.method = METHOD_FULL;
    t.plan.per_device_train_batch_size = 512;
    t.plan.cutoff_len = 512;
    t.plan.gradient_checkpointing = false;
    t.the.device = &card;
    assert_true(memory_fit_estimate(&t.the, &(struct memory_fit) { 0 }, &use, NULL));
    assert_true(use.total > (uint64_t)12 << 30); /* more than the smallest cards have */
    t.the.available = (uint64_t)1 << 28;
    memory_fit_last_resort(&t.the, &last);
    assert_non_null(last.card);
    assert_true((uint64_t)last.card->gib << 30 >= use.total);
    for (size_t i = 0; i < count; i++)
        if (rows[i].major >= 8 && rows[i].gib < last.card->gib)
            assert_true((double)((uint64_t)rows[i].gib << 30) * 0.95 <
                        1.05 * (double)use.total);
}

static bool alternative_fits(const struct memory_fit_case *request,
                             const struct alternative *row)
{
    struct alternative_result result;

    alternative_try(request, row, &result);
    assert_true(result.why_not || (result.known && result.time > 0));
    return !result.why_not && result.use.total <= request->available;
}

/* The named row fits, and no advised row above it does, alone or with the edits. */
static void test_alternatives_advise_the_first_that_fits(void **state)
{
    const struct alternative *rows;
    const size_t count = alternatives(&rows);
    int named[32] = { 0 }, kinds = 0, none = 0;

    (void)state;
    assert_true(count < TS_COUNT(named));
    for (int i = 0; i < CASES; i++) {
        struct trial t;
        struct memory_fit fit;
        struct memory_fit_case with_edits;
        struct alternative_advice advice;
        struct plan smallest, before;
        size_t end = count;

        make_trial(i, &t);
        if (memory_fit_find(&t.the, &fit))
            continue;
        before = t.plan;
        smallest = memory_fit_smallest(&t.the);
        with_edits = t.the;
        with_edits.plan = &smallest;
        if (alternative_advise(&t.the, &advice)) {
            end = (size_t)(advice.row - rows);
            assert_true(advice.row->advised && advice.use.total <= t.the.available);
            assert_true(
                alternative_fits(advice.with_edits ? &with_edits : &t.the, advice.row));
            named[end]++;
        } else {
            none++;
        }
        for (size_t j = 0; j < end; j++)
            if (rows[j].advised)
                assert_false(alternative_fits(&t.the, &rows[j]) ||
                             alternative_fits(&with_edits, &rows[j]));
        assert_memory_equal(&before, &t.plan, sizeof(before));
    }
    for (size_t j = 0; j < count; j++)
        kinds += named[j] > 0;
    assert_true(kinds >= 4 && none > 0);
}

/* A full job of LLaMA-Factory whose moments are what does not fit. */
static void test_alternatives_quantize_the_optimizer_first(void **state)
{
    struct trial t;
    struct alternative_advice advice;
    struct memory_use use;

    (void)state;
    make_trial(1, &t);
    t.setup = (struct torch_setup) { 0 };
    t.plan.external = true;
    t.plan.trainer = "llamafactory";
    t.plan.torch = &t.setup;
    t.plan.method = METHOD_FULL;
    t.plan.gradient_checkpointing = true;
    t.plan.per_device_train_batch_size = 1;
    t.plan.cutoff_len = 8;
    t.plan.precision = (struct precision) { .mode = MODE_BF16_MIXED,
                                            .compute = FORMAT_BF16,
                                            .frozen = FORMAT_BF16 };
    t.the.device = &card;
    assert_true(memory_fit_estimate(&t.the, &(struct memory_fit) { 0 }, &use, NULL));
    t.the.available = use.total - use.optimizer / 2;
    assert_true(alternative_advise(&t.the, &advice));
    assert_string_equal(advice.row->setting, "optim: adamw_8bit");
    assert_false(advice.with_edits);
    t.setup.optim = "adamw_8bit"; /* it has done that already */
    t.the.available = use.total - use.optimizer * 7 / 8;
    assert_true(alternative_advise(&t.the, &advice));
    assert_string_equal(advice.row->setting, "pure_bf16: true");
}

static void test_alternatives_need_no_second_copy_of_the_model(void **state)
{
    static const struct {
        const char *model, *reference, *reference_adapter, *adapter;
        bool create_new_adapter, full, same;
    } cases[] = {
        { "m", "m", NULL, NULL, false, false, true },
        { "m", "./m/", NULL, NULL, false, false, true },
        { "./m", "m", NULL, "a", false, false, true },
        { "m//", "m", NULL, NULL, false, false, true },
        { "m", "m", NULL, "a", true, false, false },
        { "m", "m", "a", NULL, false, false, false },
        { "m", "n", NULL, NULL, false, false, false },
        { "m", "mm", NULL, NULL, false, false, false },
        { "m", NULL, NULL, NULL, false, false, false },
        { "m", "m", NULL, NULL, false, true, false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct plan plan = {
            .method = cases[i].full ? METHOD_FULL : METHOD_LORA,
            .model_name_or_path = cases[i].model,
            .adapter_name_or_path = cases[i].adapter,
            .create_new_adapter = cases[i].create_new_adapter,
            .preference = { .reference = cases[i].reference,
                            .adapter = cases[i].reference_adapter },
        };

        if (alternative_reference_is_base(&plan) != cases[i].same)
            fail_msg("case %zu", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_fit_finds_the_smallest_change),
        cmocka_unit_test(test_memory_fit_keeps_a_job_that_fits),
        cmocka_unit_test(test_memory_fit_does_not_split_a_whole_batch),
        cmocka_unit_test(test_memory_fit_names_what_would_fit),
        cmocka_unit_test(test_memory_fit_names_the_smallest_card),
        cmocka_unit_test(test_alternatives_advise_the_first_that_fits),
        cmocka_unit_test(test_alternatives_quantize_the_optimizer_first),
        cmocka_unit_test(test_alternatives_need_no_second_copy_of_the_model),
    };

    return cmocka_run_group_tests_name("remedy", tests, setup, teardown);
}
