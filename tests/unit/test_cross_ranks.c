/* tests/unit/test_cross_ranks.c - jobs of Llama 3.2 Vision, some of whose texts have no image:
 * several ranks, of which not all run the layers of cross-attention, have the losses of one, and a
 * job resumes in either.  Models are those of tests/golden/tower_training.py. */
#include "config.h"

#define GOLDEN_TOWERS "tests/golden/tower_training"
#include "tests/unit/unit_curve.h"
#include "tests/unit/unit_job_ranks.h"

enum { STEPS = 6 };

/* Records 1 and 3 lose their images; record 2 has two. */
static void write_records(const struct curve *curve)
{
    static const char *const before[] = { "<image>", "", "<image>and <image>", "" };
    static const char *const images[] = { "\"0\"", "", "\"2\", \"3\"", "" };
    struct text out;

    text_init(&out, 0);
    for (int i = 0; i < 4; i++)
        text_addf(
            &out,
            "{\"messages\": [{\"role\": \"user\", \"content\": \"%sWhat is %d?\"}, "
            "{\"role\": \"assistant\", \"content\": \"It is %d.\"}], \"images\": [%s]}\n",
            before[i], i, i, images[i]);
    curve_write(curve->u.dir, "data.jsonl", out.data);
    text_clear(&out);
}

static void open_job(struct curve *curve, const char *keys)
{
    curve_open(curve, "mllama", "full",
               "per_device_train_batch_size: 1\nmax_steps: 6\nsave_steps: 2\n");
    write_records(curve);
    curve->job = arena_printf(curve->u.arena, "%s%s", curve->job, keys);
}

/* Train with one rank, or two. */
static void train(struct curve *curve, size_t ranks, int64_t stop_after, bool resume)
{
    struct training training = {
        .dir = curve->u.dir,
        .job = arena_printf(curve->u.arena, "%sgradient_accumulation_steps: %d\n",
                            curve->job, ranks == 1 ? 2 : 1),
        .stop_after = stop_after,
        .resume = resume
    };
    struct error err = { 0 };
    struct unit_ranks group;
    bool ok;

    ok = ranks == 1 ? training_run(&training, &err)
                    : unit_job_ranks(&training, &group, &err);
    if (ranks > 1 && ok)
        unit_ranks_join(&group);
    if (!ok && (stop_after == 0 || err.code != ERROR_STOPPED))
        fail_msg("%s", err.text);
}

static void same(const char *what, const double *got, const double *want)
{
    for (size_t i = 0; i < STEPS; i++)
        if (!(fabs(got[i] - want[i]) <= 2e-6 * fabs(want[i])))
            fail_msg("%s: the loss of step %zu is %.9g, not %.9g", what, i + 1, got[i],
                     want[i]);
}

/* Ranks have the losses of one, also after a resume with another number of ranks: steps 1 and 2
 * with two, and the rest with one. */
static void check(const char *what, const char *keys, const char *stage)
{
    struct curve one, two;

    if (!curve_supported("mllama"))
        skip();
    open_job(&one, keys);
    train(&one, 1, 0, false);
    assert_int_equal(curve_read_losses(&one), STEPS);
    open_job(&two, arena_printf(one.u.arena, "%s%s", keys, stage));
    train(&two, 2, 0, false);
    assert_int_equal(curve_read_losses(&two), STEPS);
    same(what, two.losses, one.losses);
    curve_close(&two);
    open_job(&two, arena_printf(one.u.arena, "%s%s", keys, stage));
    train(&two, 2, 2, false);
    train(&two, 1, 0, true);
    assert_int_equal(curve_read_losses(&two), STEPS);
    same(arena_printf(one.u.arena, "%s, resumed", what), two.losses, one.losses);
    curve_close(&two);
    curve_close(&one);
}

static void test_two_ranks_have_the_losses_of_one(void **state)
{
    (void)state;
    check("two ranks", "", "");
}

static void test_ranks_that_share_gradients_have_the_losses_of_one(void **state)
{
    (void)state;
    check("zero_stage 2", "", "trainspool: {zero_stage: 2}\n");
}

static void test_ranks_that_share_weights_have_the_losses_of_one(void **state)
{
    (void)state;
    check("zero_stage 3", "", "trainspool: {zero_stage: 3}\n");
}

static void
test_ranks_that_train_only_cross_attention_have_the_losses_of_one(void **state)
{
    (void)state;
    check("cross-attention alone",
          "freeze_language_model: true\n"
          "trainspool: {train_cross_attention: true}\n",
          "");
}

static void test_ranks_that_train_the_encoder_have_the_losses_of_one(void **state)
{
    (void)state;
    check("fusion",
          "freeze_language_model: true\nfreeze_vision_tower: false\n"
          "freeze_multi_modal_projector: false\n"
          "trainspool: {train_cross_attention: true}\n",
          "");
}

static void test_ranks_that_share_weights_train_the_encoder(void **state)
{
    (void)state;
    check("zero_stage 3 with the encoder",
          "freeze_vision_tower: false\nfreeze_multi_modal_projector: false\n",
          "trainspool: {zero_stage: 3}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks_have_the_losses_of_one),
        cmocka_unit_test(test_ranks_that_share_gradients_have_the_losses_of_one),
        cmocka_unit_test(test_ranks_that_share_weights_have_the_losses_of_one),
        cmocka_unit_test(
            test_ranks_that_train_only_cross_attention_have_the_losses_of_one),
        cmocka_unit_test(test_ranks_that_train_the_encoder_have_the_losses_of_one),
        cmocka_unit_test(test_ranks_that_share_weights_train_the_encoder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
