/* tests/unit/test_generate.c - greedy completions are those recorded of the same weights;
 * sampled ones are the same whatever is generated beside them. */
#include "config.h"

#include "train/generation/generate.h"

#include "tests/unit/unit_model.h"
#include "train/chat/chat.h"

struct heard {
    char *texts[64];
    size_t lens[64], counts[64];
    enum completion_end ends[64];
    uint32_t *ids[64];
    size_t count;
};

static bool hear(void *context, const struct completion *c, struct error *err)
{
    struct heard *heard = context;

    (void)err;
    assert_true(c->index < 64);
    assert_null(heard->ids[c->index]);
    heard->texts[c->index] = memory_alloc(c->len + 1);
    memcpy(heard->texts[c->index], c->text, c->len);
    heard->lens[c->index] = c->len;
    heard->counts[c->index] = c->count;
    heard->ends[c->index] = c->end;
    heard->ids[c->index] = memory_alloc((c->count + 1) * sizeof(uint32_t));
    memcpy(heard->ids[c->index], c->ids, c->count * sizeof(uint32_t));
    heard->count++;
    return true;
}

static void forget(struct heard *heard)
{
    for (size_t i = 0; i < 64; i++) {
        free(heard->texts[i]);
        free(heard->ids[i]);
    }
    *heard = (struct heard) { 0 };
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

/* All that the model's folder records of greedy decoding. */
static void check_greedy(struct unit_model *u)
{
    json_t *root = reference(u);
    const json_t *greedy = json_object_get(root, "greedy"),
                 *list = json_object_get(greedy, "ids"),
                 *start = json_object_get(greedy, "start_ids");
    struct error err = { 0 };
    struct tokenizer *tokenizer = chat_tokenizer_open(u->plan.model_name_or_path, &err);
    size_t count = json_array_size(list);
    size_t asked = start ? json_array_size(start)
                         : count - json_array_size(json_object_get(greedy, "new_ids"));
    uint32_t ids[256];
    struct heard heard = { 0 };
    struct prompt prompt = { .ids = ids, .count = asked };
    struct generate_options options = { .tokenizer = tokenizer,
                                        .how = &u->plan.generation,
                                        .done = hear,
                                        .context = &heard };

    unit_must(tokenizer != NULL, &err);
    assert_true(asked > 0 && count > asked && count <= TS_COUNT(ids));
    ids_of(list, count, ids);
    u->plan.generation = (struct generation) { .on = true,
                                               .slots = 3,
                                               .prompt_max = (int64_t)asked,
                                               .max_new_tokens = (int64_t)(count - asked),
                                               .repetition_penalty = 1 };
    unit_model_start(u, asked, 1, 2);
    options.model = u->model;
    unit_must(generate_run(&options, &prompt, 1, &err), &err);
    assert_int_equal(heard.counts[0], count - asked);
    assert_memory_equal(heard.ids[0], ids + asked, (count - asked) * sizeof(*ids));
    forget(&heard);
    tokenizer_close(tokenizer);
    json_decref(root);
}

static void test_greedy_is_what_was_recorded(void **state)
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
            print_message("# SKIP %s: %s\n", names[i], dir ? err.text : "not here");
        }
        unit_model_stop(&u);
        free(dir);
    }
    if (done == 0)
        skip();
}

enum { PROMPTS = 9 };

/* Prompts of different lengths through so many slots, each in the order of `order`. */
static void sample(struct unit_model *u, const struct tokenizer *tokenizer,
                   const size_t order[PROMPTS], struct heard *out)
{
    static const uint32_t ids[] = { 1, 403, 407, 261, 378, 432, 383, 286, 261, 376 };
    struct prompt prompts[PROMPTS];
    struct heard heard = { 0 };
    struct error err = { 0 };
    struct generate_options options = { .model = u->model,
                                        .tokenizer = tokenizer,
                                        .how = &u->plan.generation,
                                        .seed = 5,
                                        .done = hear,
                                        .context = &heard };

    prompt_ends_add(&options.ends, 2);
    prompt_ends_add(&options.ends, 426); /* a full stop */
    for (size_t i = 0; i < PROMPTS; i++)
        prompts[i] = (struct prompt) { ids, 1 + order[i], (uint32_t)order[i] };
    unit_must(generate_run(&options, prompts, PROMPTS, &err), &err);
    assert_int_equal(heard.count, PROMPTS);
    for (size_t i = 0; i < PROMPTS; i++) {
        size_t to = order[i];

        out->texts[to] = heard.texts[i];
        out->ids[to] = heard.ids[i];
        out->counts[to] = heard.counts[i];
        out->ends[to] = heard.ends[i];
    }
}

/* Not by order, neighbours or threads; the number of slots is part of the settings. */
static void test_samples_do_not_go_by_what_is_beside_them(void **state)
{
    static const size_t orders[][PROMPTS] = { { 0, 1, 2, 3, 4, 5, 6, 7, 8 },
                                              { 8, 3, 1, 7, 5, 0, 2, 6, 4 } };
    struct heard wanted = { 0 };
    bool ended = false, cut = false;

    (void)state;
    for (int threads = 1; threads <= 2; threads++)
        for (size_t o = 0; o < TS_COUNT(orders); o++) {
            struct unit_model u = unit_model_shared("data/stories260K/hf");
            struct error err = { 0 };
            struct tokenizer *tokenizer =
                chat_tokenizer_open(u.plan.model_name_or_path, &err);
            struct heard heard = { 0 };

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
            sample(&u, tokenizer, orders[o], &heard);
            for (size_t i = 0; i < PROMPTS && wanted.ids[0]; i++) {
                assert_int_equal(heard.counts[i], wanted.counts[i]);
                assert_memory_equal(heard.ids[i], wanted.ids[i],
                                    heard.counts[i] * sizeof(uint32_t));
                assert_string_equal(heard.texts[i], wanted.texts[i]);
                ended = ended || heard.ends[i] == END_TOKEN;
                cut = cut || heard.ends[i] == END_LENGTH;
            }
            if (!wanted.ids[0])
                wanted = heard;
            else
                forget(&heard);
            tokenizer_close(tokenizer);
            unit_model_stop(&u);
        }
    assert_true(ended && cut);
    forget(&wanted);
}

/* The text ends before the string; an answer is no longer than the model's context. */
static void test_completions_end_where_they_should(void **state)
{
    static const uint32_t ids[] = { 1, 403, 407, 261 };
    static const char *const stops[] = { "Lily", "zebra", NULL };
    struct unit_model u = unit_model_shared("data/stories260K/hf");
    struct error err = { 0 };
    struct tokenizer *tokenizer = chat_tokenizer_open(u.plan.model_name_or_path, &err);
    struct heard heard = { 0 };
    struct prompt prompt = { ids, TS_COUNT(ids), 0 }, none = { ids, 0, 0 };
    struct generate_options options = { .tokenizer = tokenizer,
                                        .how = &u.plan.generation,
                                        .stops = stops,
                                        .done = hear,
                                        .context = &heard };

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
    assert_int_equal(model_room(u.model), 60);
    unit_must(generate_run(&options, &prompt, 1, &err), &err);
    assert_int_equal(heard.ends[0], END_STOP);
    assert_int_equal(heard.lens[0], strlen(heard.texts[0]));
    assert_null(strstr(heard.texts[0], "Lily"));
    assert_non_null(strstr(heard.texts[0], "little girl named "));
    forget(&heard);
    options.stops = NULL;
    unit_must(generate_run(&options, &prompt, 1, &err), &err);
    assert_int_equal(heard.ends[0], END_LENGTH);
    assert_int_equal(heard.counts[0], 60 + 1 - TS_COUNT(ids));
    forget(&heard);
    assert_false(generate_run(&options, &none, 1, &err));
    assert_int_equal(err.code, ERROR_DATA);
    tokenizer_close(tokenizer);
    unit_model_stop(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_is_what_was_recorded),
        cmocka_unit_test(test_samples_do_not_go_by_what_is_beside_them),
        cmocka_unit_test(test_completions_end_where_they_should),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
