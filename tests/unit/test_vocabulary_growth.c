/*
 * tests/unit/test_vocabulary_growth.c - new tokens of a job, and those of an adapter, whose
 * tokenizer and embeddings the next job uses without naming them again.
 */
#include "config.h"

#include "tests/unit/unit_model.h"
#include "tests/unit/unit_tokenizer.h"
#include "base/file.h"
#include "train/model/adapter_check.h"
#include "train/model/model_internal.h"
#include "train/model/plan_config.h"
#include "train/model/vocabulary_growth.h"

#define MODEL "data/stories260K/hf"

enum { ROWS = 512, GROWN = 576, FIRST = 512 };

/* Read the configuration and open the tokenizer as a run does. */
static bool open_plan(struct unit_model *u, struct tokenizer **tokenizer,
                      struct error *err)
{
    const char *dir = u->plan.model_name_or_path;
    struct new_tokens more;

    *tokenizer = NULL;
    if (!plan_config_read(&u->plan, dir, u->arena, &u->config, err))
        return false;
    more = plan_new_tokens(&u->plan, &u->config);
    *tokenizer = tokenizer_open_with(dir, &more, err);
    return *tokenizer != NULL;
}

static void expect_error(struct unit_model *u, const char *expected)
{
    struct tokenizer *tokenizer;
    struct error err = { 0 };

    if (open_plan(u, &tokenizer, &err) || !strstr(err.text, expected))
        fail_msg("\"%s\", not \"%s\"", err.text, expected);
    tokenizer_close(tokenizer);
}

static void expect_token(const struct tokenizer *tokenizer, const char *name, int64_t id)
{
    if (tokenizer_find(tokenizer, name) != id)
        fail_msg("%s has the id %lld, not %lld", name,
                 (long long)tokenizer_find(tokenizer, name), (long long)id);
}

/* The loss of a text with new tokens. */
static double loss_of(struct unit_model *u)
{
    static const int32_t ids[] = { 1, 300, FIRST, 305, FIRST + 1, 310, 315 };
    struct batch b = { 0 };
    double loss;

    unit_batch_add(&b, ids, TS_COUNT(ids));
    loss = unit_loss(u, &b);
    unit_batch_free(&b);
    return loss;
}

/* Train an adapter with the tokens <a> and <|b|> in a new folder; *loss is set to its. */
static char *train(const char *whole, double *loss)
{
    struct unit_model u = unit_model_shared(MODEL);
    static const int32_t ids[] = { 1, 300, FIRST, 305, FIRST + 1, 310 };
    struct template_saving saving;
    struct tokenizer *tokenizer;
    struct error err = { 0 };
    struct batch b = { 0 };
    char *dir = unit_dir_new();

    u.plan.method = METHOD_LORA;
    u.plan.lora_target = "q_proj,v_proj";
    u.plan.additional_target = whole;
    u.plan.add_tokens = "<a>";
    u.plan.add_special_tokens = "<|b|>";
    u.plan.learning_rate = 0.1;
    unit_must(open_plan(&u, &tokenizer, &err), &err);
    unit_model_start(&u, 8, 1, 1);
    unit_batch_add(&b, ids, TS_COUNT(ids));
    unit_train(&u, &b);
    unit_step(&u, 1);
    *loss = loss_of(&u);
    template_saving_make(tokenizer, NULL, NULL, &saving);
    model_set_saving(u.model, &saving);
    unit_must(model_save(u.model, dir, &err), &err);
    template_saving_clear(&saving);
    tokenizer_close(tokenizer);
    unit_batch_free(&b);
    unit_model_stop(&u);
    return dir;
}

/* A plan that continues an adapter, or only generates with it. */
static struct unit_model with_adapter(const char *dir, bool alone)
{
    struct unit_model u = unit_model_shared(MODEL);

    u.plan.method = METHOD_LORA;
    u.plan.adapter_name_or_path = dir;
    u.plan.generation = (struct generation) {
        .on = alone, .alone = alone, .slots = 1, .max_new_tokens = 4
    };
    return u;
}

static void test_names_that_exist_add_nothing(void **state)
{
    struct unit_model u = unit_model_shared(MODEL);
    struct tokenizer *tokenizer, *plain;
    struct error err = { 0 };

    (void)state;
    plain = tokenizer_open(u.plan.model_name_or_path, &err);
    unit_must(plain != NULL, &err);
    u.plan.add_tokens = "</s>, ing";
    u.plan.add_special_tokens = "<s>,</s>";
    unit_must(open_plan(&u, &tokenizer, &err), &err);
    assert_int_equal(tokenizer_size(tokenizer), tokenizer_size(plain));
    expect_token(tokenizer, "</s>", 2);
    expect_token(tokenizer, "ing", tokenizer_find(plain, "ing"));
    assert_int_equal(u.config.vocab_size, ROWS);
    assert_int_equal(u.config.new_token_count, 0);
    tokenizer_close(tokenizer);
    tokenizer_close(plain);
    arena_free(u.arena);
}

/* Training further, generating, and merging: without add_tokens, or with. */
static void test_an_adapter_brings_its_tokens(void **state)
{
    double trained;
    char *dir = train(NULL, &trained);

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct unit_model u = with_adapter(dir, i % 2);
        struct tokenizer *tokenizer;
        struct error err = { 0 };

        u.plan.add_tokens = i < 2 ? NULL : "<a>";
        u.plan.add_special_tokens = i < 2 ? NULL : "<|b|>";
        unit_must(open_plan(&u, &tokenizer, &err), &err);
        assert_int_equal(u.config.vocab_size, GROWN);
        expect_token(tokenizer, "<a>", FIRST);
        expect_token(tokenizer, "<|b|>", FIRST + 1);
        assert_int_equal(json_array_size(tokenizer_new_tokens(tokenizer)), 2);
        unit_must(adapter_check(dir, &u.config, &err), &err);
        unit_model_start(&u, 8, 1, 1);
        unit_assert_near("the loss", loss_of(&u), trained, 1e-5);
        tokenizer_close(tokenizer);
        unit_model_stop(&u);
    }
    unit_dir_free(dir);
}

static void test_an_adapter_knows_no_other_tokens(void **state)
{
    double trained;
    char *dir = train(NULL, &trained);
    struct unit_model u = with_adapter(dir, false);

    (void)state;
    u.plan.add_tokens = "<a>,<c>";
    expect_error(&u, "trained without the token <c>");
    u.plan.create_new_adapter = true;
    expect_error(&u, "trained without the token <c>");
    arena_free(u.arena);
    unit_dir_free(dir);
}

/* Replace one text in a file of a folder. */
static void replace(const char *dir, const char *name, const char *old, const char *with)
{
    char *path = path_join(dir, name), *at;
    struct error err = { 0 };
    struct text text, changed;

    text_init(&text, 0);
    text_init(&changed, 0);
    unit_must(file_read(path, SIZE_MAX, &text, NULL, &err), &err);
    at = strstr(text.data, old);
    assert_non_null(at);
    text_add(&changed, text.data, (size_t)(at - text.data));
    text_adds(&changed, with);
    text_adds(&changed, at + strlen(old));
    unit_write(dir, name, &changed);
    text_clear(&changed);
    text_clear(&text);
    free(path);
}

static void test_ids_of_an_adapter_are_compared(void **state)
{
    double trained;
    char *dir = train(NULL, &trained);
    struct unit_model u = with_adapter(dir, false);

    (void)state;
    replace(dir, "tokenizer.json", "513", "514");
    expect_error(&u, "gives the token <|b|> the id 514, but here it has the id 513");
    arena_free(u.arena);
    unit_dir_free(dir);
}

#define SMALL(rows)                                                                \
    "{\"model_type\": \"llama\", \"vocab_size\": " #rows ", \"hidden_size\": 32, " \
    "\"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": 4}"

/* Save a random model, or an adapter of it that has its embeddings. */
static void save(const char *config, const char *base, const char *dir)
{
    struct unit_model u = unit_model_text(config, unit_plan(base));
    struct error err = { 0 };

    if (base == dir) {
        u.plan.train_from_scratch = true;
    } else {
        u.plan.method = METHOD_LORA;
        u.plan.lora_target = "q_proj";
        u.plan.additional_target = "embed_tokens,lm_head";
    }
    unit_model_start(&u, 8, 1, 1);
    unit_must(model_save(u.model, dir, &err), &err);
    unit_model_stop(&u);
}

/* The rows of PEFT's resize_token_embeddings are not rounded, and may be fewer than those
 * of a model whose vocabulary is larger than its tokenizer's. */
static void test_an_adapter_gives_the_number_of_rows(void **state)
{
    static const struct {
        const char *config;
        size_t rows;
    } cases[] = { { SMALL(325), 325 }, { SMALL(270), 270 }, { SMALL(260), 0 } };
    char *base = unit_dir_new();

    (void)state;
    unit_tokenizer_write(base, UNIT_SPECIALS, false);
    save(SMALL(320), base, base);
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *other = unit_dir_new(), *dir = unit_dir_new();
        struct unit_model u = unit_model_text(SMALL(320), unit_plan(base));
        struct error err = { 0 };

        save(cases[i].config, other, other);
        save(cases[i].config, other, dir);
        u.plan.method = METHOD_LORA;
        u.plan.adapter_name_or_path = dir;
        if (cases[i].rows == 0) {
            expect_error(&u, "embeddings for 260 tokens, but the tokenizer has 266");
            arena_free(u.arena);
        } else {
            unit_must(plan_config_read(&u.plan, base, u.arena, &u.config, &err), &err);
            unit_model_start(&u, 8, 1, 1);
            assert_int_equal(u.model->embed->rows, cases[i].rows);
            unit_model_stop(&u);
        }
        unit_dir_free(other);
        unit_dir_free(dir);
    }
    unit_dir_free(base);
}

/* An adapter without embeddings uses those of the model. */
static void test_an_adapter_without_embeddings_adds_nothing(void **state)
{
    double trained;
    char *dir = train("norm", &trained);
    struct unit_model u = with_adapter(dir, false);
    struct tokenizer *tokenizer;
    struct error err = { 0 };

    (void)state;
    unit_must(open_plan(&u, &tokenizer, &err), &err);
    assert_int_equal(u.config.vocab_size, ROWS);
    expect_token(tokenizer, "<a>", -1);
    tokenizer_close(tokenizer);
    arena_free(u.arena);
    unit_dir_free(dir);
}

/* A checkpoint of another job, say. */
static void test_tokens_of_a_checkpoint_are_compared(void **state)
{
    double trained;
    char *dir = train(NULL, &trained);
    struct unit_model u = unit_model_shared(MODEL);
    struct tokenizer *tokenizer;
    struct error err = { 0 };

    (void)state;
    u.plan.add_tokens = "<|b|>,<a>";
    unit_must(open_plan(&u, &tokenizer, &err), &err);
    assert_false(new_tokens_agree(tokenizer, dir, &err));
    assert_non_null(strstr(err.text, "<a> the id 512, but here it has the id 513"));
    error_clear(&err);
    tokenizer_close(tokenizer);
    u.plan.add_tokens = "<a>";
    unit_must(open_plan(&u, &tokenizer, &err), &err);
    assert_false(new_tokens_agree(tokenizer, dir, &err));
    assert_non_null(strstr(err.text, "has the token <|b|>"));
    tokenizer_close(tokenizer);
    arena_free(u.arena);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_that_exist_add_nothing),
        cmocka_unit_test(test_an_adapter_brings_its_tokens),
        cmocka_unit_test(test_an_adapter_knows_no_other_tokens),
        cmocka_unit_test(test_ids_of_an_adapter_are_compared),
        cmocka_unit_test(test_an_adapter_gives_the_number_of_rows),
        cmocka_unit_test(test_an_adapter_without_embeddings_adds_nothing),
        cmocka_unit_test(test_tokens_of_a_checkpoint_are_compared),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
