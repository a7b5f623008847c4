/* tests/unit/test_generate.c - greedy completions match those recorded for the same
 * weights; sampled ones do not depend on the other prompts of the batch. */
#include "config.h"

#include "train/generation/generate.h"

#include "tests/unit/unit_model.h"
#include "train/chat/chat.h"

struct results {
    char *texts[64];
    size_t lens[64], counts[64];
    enum completion_end ends[64];
    uint32_t *ids[64];
    size_t count;
};

static bool record(void *context, const struct completion *c, struct error *err)
{
    struct results *results = context;

    (void)err;
    assert_true(c->index < 64);
    assert_null(results->ids[c->index]);
    results->texts[c->index] = memory_alloc(c->len + 1);
    memcpy(results->texts[c->index], c->text, c->len);
    results->lens[c->index] = c->len;
    results->counts[c->index] = c->count;
    results->ends[c->index] = c->end;
    results->ids[c->index] = memory_alloc((c->count + 1) * sizeof(uint32_t));
    memcpy(results->ids[c->index], c->ids, c->count * sizeof(uint32_t));
    results->count++;
    return true;
}

static void results_clear(struct results *results)
{
    for (size_t i = 0; i < 64; i++) {
        free(results->texts[i]);
        free(results->ids[i]);
    }
    *results = (struct results) { 0 };
}

static json_t *reference(const struct unit_model *u)
{
    char *name = path_join(u->plan.model_name_or_path, "reference.json");
    struct error err = { 0 };
    json_t *root = json_read_file(name, (size_t)4 << 20, &err);

    unit_must(root != NULL, &err);
    free(name);
    return root;
}

static void ids_of(const json_t *list, size_t count, uint32_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (uint32_t)json_integer_value(json_array_get(list, i));
}

/* Compare greedy decoding with the completion recorded in the model's folder. */
static void check_greedy(struct unit_model *u)
{
    json_t *root = reference(u);
    const json_t *greedy = json_object_get(root, "greedy"),
                 *list = json_object_get(greedy, "ids"),
                 *start = json_object_get(greedy, "start_ids");
    struct error err = { 0 };
    struct tokenizer *tokenizer = chat_tokenizer_open(u->plan.model_name_or_path, &err);
    size_t count = json_array_size(list);
    size_t prompt_len = start
                            ? json_array_size(start)
                            : count - json_array_size(json_object_get(greedy, "new_ids"));
    uint32_t ids[256];
    struct results results = { 0 };
    struct prompt prompt = { .ids = ids, .count = prompt_len };
    struct generate_options options = { .tokenizer = tokenizer,
                                        .settings = &u->plan.generation,
                                        .on_completion = record,
                                        .context = &results };

    unit_must(tokenizer != NULL, &err);
    assert_true(prompt_len > 0 && count > prompt_len && count <= TS_COUNT(ids));
    ids_of(list, count, ids);
    u->plan.generation =
        (struct generation) { .on = true,
                              .slots = 3,
                              .prompt_max = (int64_t)prompt_len,
                              .max_new_tokens = (int64_t)(count - prompt_len),
                              .repetition_penalty = 1 };
    unit_model_start(u, prompt_len, 1, 2);
    options.model = u->model;
    unit_must(generate_run(&options, &prompt, 1, &err), &err);
    assert_int_equal(results.counts[0], count - prompt_len);
    assert_memory_equal(results.ids[0], ids + prompt_len,
                        (count - prompt_len) * sizeof(*ids));
    results_clear(&results);
    tokenizer_close(tokenizer);
    json_decref(root);
}

static void test_greedy_matches_recorded_completions(void **state)
{
    static const char *const names[] = { "stories260K/hf", "stories260K/hf-qwen2",
                                         "made-here/qwen2", "made-here/gpt_neox",
                                         "made-here/gpt_neo" };
    size_t done = 0;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        char path[64], *dir;
        struct unit_model u = { .arena = arena_new() };
        struct error err = { 0 };

        snprintf(path, sizeof(path), "data/%s", names[i]);
        dir = unit_shared(path);
        u.plan = unit_plan(dir ? arena_strdup(u.arena, dir) : "");
        if (dir && model_config_read(dir, u.arena, &u.config, &err)) {
            check_greedy(&u);
            done++;
        } else {
            print_message("# SKIP %s: %s\n", names[i],
                          dir ? err.text : "not in the shared data");
        }
        unit_model_stop(&u);
        free(dir);
    }
    if (done == 0)
        skip();
}

enum { PROMPTS = 9 };

/* Generate completions for prompts of different lengths, submitted in this order. */
static void sample(struct unit_model *u, const struct tokenizer *tokenizer,
                   const size_t order[PROMPTS], struct results *out)
{
    static const uint32_t ids[] = { 1, 403, 407, 261, 378, 432, 383, 286, 261, 376 };
    struct prompt prompts[PROMPTS];
    struct results results = { 0 };
    struct error err = { 0 };
    struct generate_options options = { .model = u->model,
                                        .tokenizer = tokenizer,
                                        .settings = &u->plan.generation,
                                        .seed = 5,
                                        .on_completion = record,
                                        .context = &results };

    prompt_ends_add(&options.ends, 2);
    prompt_ends_add(&options.ends, 426); /* a full stop */
    for (size_t i = 0; i < PROMPTS; i++)
        prompts[i] = (struct prompt) { .ids = ids,
                                       .count = 1 + order[i],
                                       .sequence = (uint32_t)order[i] };
    unit_must(generate_run(&options, prompts, PROMPTS, &err), &err);
    assert_int_equal(results.count, PROMPTS);
    for (size_t i = 0; i < PROMPTS; i++) {
        size_t index = order[i];

        out->texts[index] = results.texts[i];
        out->ids[index] = results.ids[i];
        out->counts[index] = results.counts[i];
        out->ends[index] = results.ends[i];
    }
}

/* Samples do not depend on order, other prompts or threads; the number of slots is a
 * setting of the job. */
static void test_samples_do_not_depend_on_other_prompts(void **state)
{
    static const size_t orders[][PROMPTS] = { { 0, 1, 2, 3, 4, 5, 6, 7, 8 },
                                              { 8, 3, 1, 7, 5, 0, 2, 6, 4 } };
    struct results expected = { 0 };
    bool ended = false, cut = false;

    (void)state;
    for (int threads = 1; threads <= 2; threads++)
        for (size_t o = 0; o < TS_COUNT(orders); o++) {
            struct unit_model u = unit_model_shared("data/stories260K/hf");
            struct error err = { 0 };
            struct tokenizer *tokenizer =
                chat_tokenizer_open(u.plan.model_name_or_path, &err);
            struct results results = { 0 };

            unit_must(tokenizer != NULL, &err);
            u.plan.generation = (struct generation) { .on = true,
                                                      .slots = 4,
                                                      .prompt_max = 10,
                                                      .max_new_tokens = 12,
                                                      .do_sample = true,
                                                      .temperature = 1.2,
                                                      .top_p = 0.95,
                                                      .top_k = 100,
                                                      .repetition_penalty = 1.1 };
            unit_model_start(&u, 16, 1, threads);
            sample(&u, tokenizer, orders[o], &results);
            for (size_t i = 0; i < PROMPTS && expected.ids[0]; i++) {
                assert_int_equal(results.counts[i], expected.counts[i]);
                assert_memory_equal(results.ids[i], expected.ids[i],
                                    results.counts[i] * sizeof(uint32_t));
                assert_string_equal(results.texts[i], expected.texts[i]);
                ended = ended || results.ends[i] == END_TOKEN;
                cut = cut || results.ends[i] == END_LENGTH;
            }
            if (!expected.ids[0])
                expected = results;
            else
                results_clear(&results);
            tokenizer_close(tokenizer);
            unit_model_stop(&u);
        }
    assert_true(ended && cut);
    results_clear(&expected);
}

/* A completion ends before a stop string and is no longer than the model's context. */
static void test_completions_end_at_stop_strings_and_the_context(void **state)
{
    static const uint32_t ids[] = { 1, 403, 407, 261 };
    static const char *const stops[] = { "Lily", "zebra", NULL };
    struct unit_model u = unit_model_shared("data/stories260K/hf");
    struct error err = { 0 };
    struct tokenizer *tokenizer = chat_tokenizer_open(u.plan.model_name_or_path, &err);
    struct results results = { 0 };
    struct prompt prompt = { .ids = ids, .count = TS_COUNT(ids) }, none = { .ids = ids };
    struct generate_options options = { .tokenizer = tokenizer,
                                        .settings = &u.plan.generation,
                                        .stop_strings = stops,
                                        .on_completion = record,
                                        .context = &results };

    (void)state;
    unit_must(tokenizer != NULL, &err);
    u.config.max_positions = 60;
    u.plan.generation = (struct generation) { .on = true,
                                              .slots = 2,
                                              .prompt_max = 10,
                                              .max_new_tokens = 100,
                                              .repetition_penalty = 1 };
    unit_model_start(&u, 16, 1, 1);
    options.model = u.model;
    assert_int_equal(model_slot_rows(u.model), 60);
    unit_must(generate_run(&options, &prompt, 1, &err), &err);
    assert_int_equal(results.ends[0], END_STOP);
    assert_int_equal(results.lens[0], strlen(results.texts[0]));
    assert_null(strstr(results.texts[0], "Lily"));
    assert_non_null(strstr(results.texts[0], "little girl named "));
    results_clear(&results);
    options.stop_strings = NULL;
    unit_must(generate_run(&options, &prompt, 1, &err), &err);
    assert_int_equal(results.ends[0], END_LENGTH);
    assert_int_equal(results.counts[0], 60 + 1 - TS_COUNT(ids));
    results_clear(&results);
    assert_false(generate_run(&options, &none, 1, &err));
    assert_int_equal(err.code, ERROR_DATA);
    tokenizer_close(tokenizer);
    unit_model_stop(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_matches_recorded_completions),
        cmocka_unit_test(test_samples_do_not_depend_on_other_prompts),
        cmocka_unit_test(test_completions_end_at_stop_strings_and_the_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
