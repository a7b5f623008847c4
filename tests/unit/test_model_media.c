/* tests/unit/test_model_media.c - models with rows of features in place of media tokens,
 * compared with transformers and PEFT (tests/golden/media_rows.py). */
#include "config.h"

#include "train/model/model_media.h"

#include "tests/unit/unit_media_run.h"

static void check_all(const char *list, bool checkpointing)
{
    const json_t *cases = json_object_get(rows_golden, list), *one;
    size_t i;

    json_array_foreach((json_t *)cases, i, one) check_case(one, checkpointing);
}

static void test_model_media_matches_transformers(void **state)
{
    (void)state;
    check_all("models", false);
}

static void test_model_media_matches_with_checkpointing(void **state)
{
    (void)state;
    check_all("models", true);
}

static void test_model_media_adapters_match_peft(void **state)
{
    (void)state;
    check_all("adapters", false);
    check_all("adapters", true);
}

/* Among the tokens of text. */
static int32_t largest_of(const float *logits)
{
    size_t best = 0;

    for (size_t i = 1; i < 36; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* Greedy tokens of both records, which take turns. */
static void check_generated(struct run *r)
{
    enum { SLOTS = 2, NEW = 12 };
    const size_t vocabulary = r->u.config.vocab_size;
    const json_t *expected = json_object_get(r->one, "generated");
    float *logits = memory_alloc(SLOTS * vocabulary * sizeof(*logits));
    int32_t tokens[SLOTS], lengths[SLOTS];
    struct error err = { 0 };

    for (size_t s = 0; s < SLOTS; s++) {
        const int32_t first = r->batch.offsets[s];
        struct batch_medium list[MEDIA_MAX];
        int32_t at[64];
        struct question_media media = { .media = list, .media_at = at };

        for (size_t i = 0; i < r->batch.media_count; i++) {
            struct batch_medium medium = r->batch.media[i];

            if (medium.sequence != s)
                continue;
            for (size_t j = 0; j < medium.item->rows; j++)
                at[media.media_rows + j] = r->batch.media_at[medium.first + j] - first;
            medium.first = (uint32_t)media.media_rows;
            list[media.media_count++] = medium;
            media.media_rows += medium.item->rows;
        }
        lengths[s] = r->batch.offsets[s + 1] - first;
        unit_must(model_prefill_media(r->u.model, s, r->batch.tokens + first,
                                      (size_t)lengths[s], &media, logits + s * vocabulary,
                                      &err),
                  &err);
    }
    for (size_t i = 0;; i++) {
        for (size_t s = 0; s < SLOTS; s++) {
            tokens[s] = largest_of(logits + s * vocabulary);
            if (tokens[s] !=
                json_integer_value(json_array_get(json_array_get(expected, s), i)))
                fail_msg("%s: token %zu after record %zu is %d", name_of(r), i, s,
                         tokens[s]);
        }
        if (i + 1 == NEW)
            break;
        unit_must(model_decode_step(r->u.model, tokens, lengths, logits, &err), &err);
        for (size_t s = 0; s < SLOTS; s++)
            lengths[s]++;
    }
    free(logits);
}

static void test_model_media_generates_as_transformers(void **state)
{
    const json_t *cases = json_object_get(rows_golden, "models"), *one;
    size_t i;

    (void)state;
    json_array_foreach((json_t *)cases, i, one)
    {
        struct run r;

        open_run(&r, one);
        r.u.plan.generation =
            (struct generation) { .on = true, .slots = 2, .max_new_tokens = 12 };
        r.u.plan.generation.prompt_max = 32;
        start_run(&r, 1);
        check_generated(&r);
        close_run(&r);
    }
}

/* Losses and all gradients of one training pass. */
struct outcome {
    double loss;
    size_t count;
    float *gradients;
};

static struct outcome train_once(struct run *r, const struct batch *on)
{
    struct outcome out = { .loss = unit_train(&r->u, on) };
    struct tensor g = model_gradients(r->u.model);

    out.count = g.cols;
    out.gradients = memory_alloc(tensor_bytes(g));
    memcpy(out.gradients, g.data, tensor_bytes(g));
    return out;
}

static void assert_same(struct outcome a, struct outcome b)
{
    assert_true(a.loss == b.loss);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.gradients, b.gradients, a.count * sizeof(float));
    free(a.gradients);
    free(b.gradients);
}

static void test_model_media_gives_the_same_bits_with_more_threads(void **state)
{
    struct outcome outcomes[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct run r;

        open_run(&r, rows_case("models", "llava"));
        start_run(&r, 1 + i);
        outcomes[i] = train_once(&r, &r.batch);
        close_run(&r);
    }
    assert_same(outcomes[0], outcomes[1]);
}

/* Batches of text give the bits of a model without memory for rows, also after a batch with
 * rows; and without that memory, the block is as large as that of a text model. */
static void test_model_media_does_not_change_text(void **state)
{
    struct outcome outcomes[2];
    size_t totals[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct batch text = { 0 };
        struct run r;

        open_run(&r, rows_case("models", "llava"));
        if (i == 0)
            r.u.media_rows = 0;
        start_run(&r, 1);
        totals[i] = (size_t)model_memory(r.u.model)->total;
        if (i == 1)
            unit_train(&r.u, &r.batch);
        unit_batch_random(&text, 9, 30, 1);
        outcomes[i] = train_once(&r, &text);
        unit_batch_free(&text);
        close_run(&r);
    }
    assert_same(outcomes[0], outcomes[1]);
    assert_true(totals[0] < totals[1]);
}

/* Rows that are the embeddings of some tokens give the losses of these tokens. */
static void test_model_media_rows_are_like_embeddings(void **state)
{
    struct batch text = { 0 };
    struct run r;
    double loss;

    (void)state;
    open_run(&r, rows_case("models", "llava"));
    start_run(&r, 1);
    for (size_t i = 0; i < r.batch.sequences; i++)
        unit_batch_add(&text, r.batch.tokens + r.batch.offsets[i],
                       (size_t)(r.batch.offsets[i + 1] - r.batch.offsets[i]));
    for (size_t i = 0, at = 0; i < r.media.count; i++)
        for (size_t j = 0; j < r.media.items[i].rows; j++, at++) {
            const size_t width = r.u.config.hidden_size, token = at % 30;
            struct tensor e =
                unit_parameter(&r.u, "model.language_model.embed_tokens.weight")->weight;

            memcpy(r.media.values[i][0] + j * width,
                   (const float *)e.data + token * width, width * sizeof(float));
            text.tokens[r.batch.media_at[at]] = (int32_t)token;
        }
    memcpy(text.targets, r.batch.targets, text.rows * sizeof(*text.targets));
    loss = unit_loss(&r.u, &text);
    assert_true(unit_loss(&r.u, &r.batch) == loss);
    unit_batch_free(&text);
    close_run(&r);
}

/* Rows of a file in 16 bits are those in fp32, rounded. */
static void test_model_media_reads_other_formats(void **state)
{
    static const enum format formats[] = { FORMAT_FP16, FORMAT_BF16 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(formats); i++) {
        struct run r;
        void *narrow[MEDIA_MAX];
        double loss;

        open_run(&r, rows_case("models", "qwen2_audio"));
        start_run(&r, 1);
        for (size_t k = 0; k < r.media.count; k++) {
            struct feature *f = &r.media.features[k];
            const size_t count = f->count * f->width;

            narrow[k] = memory_alloc(2 * count);
            format_convert(narrow[k], formats[i], f->rows, FORMAT_FP32, count);
            format_convert(r.media.values[k][0], FORMAT_FP32, narrow[k], formats[i],
                           count);
        }
        loss = unit_loss(&r.u, &r.batch);
        for (size_t k = 0; k < r.media.count; k++) {
            r.media.features[k].rows = narrow[k];
            r.media.features[k].format = formats[i];
        }
        assert_true(unit_loss(&r.u, &r.batch) == loss);
        for (size_t k = 0; k < r.media.count; k++)
            free(narrow[k]);
        close_run(&r);
    }
}

static void check_fails(struct run *r, const char *says)
{
    struct error err = { 0 };
    double sum = 0;

    assert_false(model_evaluate(r->u.model, &r->batch, &sum, &err));
    if (!strstr(err.text, says))
        fail_msg("%s", err.text);
}

static void test_model_media_rejects_other_rows(void **state)
{
    struct run r;

    (void)state;
    open_run(&r, rows_case("models", "llava"));
    start_run(&r, 1);
    r.media.features[1].width = 32;
    check_fails(&r,
                "the rows of features of b have 32 columns, but the model has 24; are "
                "they the output of the projector?");
    r.media.features[1].width = 24;
    r.media.features[2].count = 3;
    check_fails(&r, "c has 3 rows of features, not 4");
    close_run(&r);
    open_run(&r, rows_case("models", "llava"));
    r.u.media_rows = 10;
    start_run(&r, 1);
    check_fails(&r, "a batch with 11 rows of features, but memory was planned for 10");
    close_run(&r);
    open_run(&r, rows_case("models", "llava"));
    r.u.media = NULL;
    start_run(&r, 1);
    check_fails(&r, "the model has no rows of features for them");
    close_run(&r);
    open_run(&r, rows_case("models", "qwen3_vl"));
    start_run(&r, 1);
    r.media.features[0].deep[0] = NULL;
    check_fails(&r,
                "a has 0 sets of rows for the first layers (#deep0 ..), but the model "
                "has 1");
    r.media.features[0].deep[0] = r.media.values[0][1];
    r.media.items[0].grid[1] = 6;
    check_fails(&r, "a: a grid of 1 x 6 x 6 patches does not have 6 rows of features");
    close_run(&r);
}

static int setup(void **state)
{
    return media_setup(state, "tests/golden/media_rows.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_media_matches_transformers),
        cmocka_unit_test(test_model_media_matches_with_checkpointing),
        cmocka_unit_test(test_model_media_adapters_match_peft),
        cmocka_unit_test(test_model_media_generates_as_transformers),
        cmocka_unit_test(test_model_media_gives_the_same_bits_with_more_threads),
        cmocka_unit_test(test_model_media_does_not_change_text),
        cmocka_unit_test(test_model_media_rows_are_like_embeddings),
        cmocka_unit_test(test_model_media_reads_other_formats),
        cmocka_unit_test(test_model_media_rejects_other_rows),
    };

    return cmocka_run_group_tests(tests, setup, media_teardown);
}
