/* tests/unit/test_rope_models.c - compares tiny models with each type of rotary scaling
 * with transformers: logits, gradients and generated tokens. */
#include "config.h"

#define GOLDEN_FILE "tests/golden/rope.json"

#include "tests/unit/unit_architectures.h"
#include "train/chat/chat.h"
#include "train/generation/generate.h"

static void check_logits(struct unit_model *u, const json_t *one)
{
    size_t vocabulary = u->config.vocab_size;
    float *logits = memory_alloc(batch.sequences * vocabulary * sizeof(*logits));
    const json_t *expected = json_object_get(one, "logits");
    struct error err = { 0 };

    unit_must(model_logits(u->model, &batch, logits, &err), &err);
    for (size_t i = 0; i < batch.sequences; i++)
        for (size_t v = 0; v < vocabulary; v++) {
            double is = logits[i * vocabulary + v];
            double want =
                json_number_value(json_array_get(json_array_get(expected, i), v));

            if (!(fabs(is - want) <= CLOSE * (1 + fabs(want))))
                fail_msg("%s: logit %zu of sequence %zu is %.8g, expected %.8g",
                         json_string_value(json_object_get(one, "name")), v, i, is, want);
        }
    free(logits);
}

static void check_gradients(struct unit_model *u, const json_t *one)
{
    const json_t *norms = json_object_get(one, "norms");

    unit_assert_near(json_string_value(json_object_get(one, "name")),
                     unit_train(u, &batch), real(one, "loss"), 2e-6);
    assert_int_equal(model_parameters(u->model), json_object_size(norms));
    for (size_t i = 0; i < model_parameters(u->model); i++) {
        const struct parameter *p = model_parameter(u->model, i);

        unit_assert_near(p->name, norm_of(p->grad), real(norms, p->name), 5e-5);
    }
}

/* All of them: also angles that change with the length of the sequence must be those of
 * this batch and not of an earlier one. */
static void test_rope_models_match_transformers(void **state)
{
    const json_t *cases = json_object_get(golden, "models");
    struct batch small = { 0 };

    (void)state;
    unit_batch_add(&small, batch.tokens, 5);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        char *dir = folder_of(one, NULL);
        struct unit_model u = open_folder(dir);
        double loss;

        start(&u);
        loss = unit_loss(&u, &small);
        check_logits(&u, one);
        check_gradients(&u, one);
        assert_true(unit_loss(&u, &small) == loss);
        unit_model_stop(&u);
        unit_dir_free(dir);
    }
    unit_batch_free(&small);
}

static bool compare_ids(void *context, const struct completion *c, struct error *err)
{
    const json_t *one = context, *expected = json_object_get(one, "tokens");

    (void)err;
    assert_int_equal(c->count, json_array_size(expected));
    for (size_t i = 0; i < c->count; i++)
        if (c->ids[i] != (uint32_t)json_integer_value(json_array_get(expected, i)))
            fail_msg("%s: token %zu is %u",
                     json_string_value(json_object_get(one, "name")), i, c->ids[i]);
    return true;
}

/* The same prompt in two slots. */
static void check_generation(const json_t *one, const struct tokenizer *tokenizer)
{
    size_t answer = json_array_size(json_object_get(one, "tokens"));
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    struct prompt prompts[2];
    struct generate_options options = { .tokenizer = tokenizer,
                                        .settings = &u.plan.generation,
                                        .on_completion = compare_ids,
                                        .context = (void *)one };
    struct error err = { 0 };

    for (size_t i = 0; i < TS_COUNT(prompts); i++)
        prompts[i] = (struct prompt) { .ids = (const uint32_t *)batch.tokens,
                                       .count = (size_t)batch.offsets[1] };
    u.plan.generation = (struct generation) { .on = true,
                                              .slots = 2,
                                              .prompt_max = (int64_t)prompts[0].count,
                                              .max_new_tokens = (int64_t)answer,
                                              .repetition_penalty = 1 };
    unit_model_start(&u, prompts[0].count, 1, 1);
    options.model = u.model;
    unit_must(generate_run(&options, prompts, TS_COUNT(prompts), &err), &err);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

static void test_rope_models_generate_the_same_tokens(void **state)
{
    const json_t *cases = json_object_get(golden, "models");
    char *folder = unit_source("jobs/samples/models/units-1m");
    struct error err = { 0 };
    struct tokenizer *tokenizer = chat_tokenizer_open(folder, &err);

    (void)state;
    unit_must(tokenizer != NULL, &err);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_generation(json_array_get(cases, i), tokenizer);
    tokenizer_close(tokenizer);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope_models_match_transformers),
        cmocka_unit_test(test_rope_models_generate_the_same_tokens),
    };

    return cmocka_run_group_tests(tests, architectures_setup, architectures_teardown);
}
