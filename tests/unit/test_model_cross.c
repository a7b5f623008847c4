/* tests/unit/test_model_cross.c - layers of cross-attention in batches of text, in jobs that
 * are continued, and with adapters that they cannot have.  test_model_media.c compares them
 * with transformers. */
#include "config.h"

#include "train/model/model_cross.h"

#include "tests/unit/unit_media_run.h"
#include "train/model/lora_config.h"

static bool is_cross(const struct parameter *p)
{
    return strstr(p->name, "cross_attn") != NULL;
}

/* The first record alone has images. */
static void add_text_of(struct run *r, struct batch *out)
{
    const size_t first = (size_t)r->batch.offsets[1];

    unit_batch_add(out, r->batch.tokens + first, r->batch.rows - first);
}

/* Text does not read the layers: the loss is that of the model without them, and their
 * gradients are 0, also after a batch that had others. */
static void test_cross_leaves_text_as_it_is(void **state)
{
    double losses[2];

    (void)state;
    for (int joined = 0; joined < 2; joined++) {
        struct batch text = { 0 };
        size_t crossed = 0;
        struct run r;

        open_run(&r, rows_case("models", "mllama"));
        if (!joined) {
            unit_must(model_config_read(r.dir, r.u.arena, &r.u.config, NULL), NULL);
            r.u.media_rows = 0;
        }
        start_run(&r, 1);
        add_text_of(&r, &text);
        if (joined)
            unit_train(&r.u, &r.batch);
        losses[joined] = unit_train(&r.u, &text);
        for (size_t i = 0; i < model_parameters(r.u.model); i++) {
            const struct parameter *p = model_parameter(r.u.model, i);

            if (p->trainable && is_cross(p)) {
                assert_true(norm_of(p->grad) == 0);
                crossed++;
            }
        }
        assert_int_equal(crossed, joined ? 2 * 8 : 0);
        unit_batch_free(&text);
        close_run(&r);
    }
    assert_true(losses[0] == losses[1]);
}

/* Rows of a text next to one with images see nothing, and change nothing for it. */
static void test_cross_keeps_records_apart(void **state)
{
    struct batch text = { 0 };
    struct run r;
    double all, alone, text_loss;
    size_t trained;

    (void)state;
    open_run(&r, rows_case("models", "mllama"));
    start_run(&r, 2);
    all = unit_loss(&r.u, &r.batch) * (double)r.batch.trained;
    trained = r.batch.trained;
    add_text_of(&r, &text);
    text_loss = unit_loss(&r.u, &text) * (double)text.trained;
    r.batch.sequences = 1;
    r.batch.rows = (size_t)r.batch.offsets[1];
    r.batch.trained -= text.trained;
    r.batch.weight = (double)r.batch.trained;
    alone = unit_loss(&r.u, &r.batch) * (double)r.batch.trained;
    assert_int_equal(trained, r.batch.trained + text.trained);
    assert_true(fabs(all - alone - text_loss) < 1e-5 * all);
    r.batch.sequences = 2; /* for close_run */
    unit_batch_free(&text);
    close_run(&r);
}

static void test_cross_refuses_other_adapters(void **state)
{
    (void)state;
    for (int oft = 0; oft < 2; oft++) {
        struct error err = { 0 };
        struct shapes shapes;
        struct run r;

        open_run(&r, rows_case("models", "mllama"));
        r.u.plan.method = oft ? METHOD_OFT : METHOD_LORA;
        r.u.plan.lora_target = "k_proj";
        r.u.plan.lora_rank = 4;
        r.u.plan.use_dora = !oft;
        r.u.plan.oft_block_size = 8;
        assert_false(shapes_make(&r.u.plan, &r.u.config, 8, 1, r.u.arena, &shapes, &err));
        if (!strstr(err.text, "is not supported with images"))
            fail_msg("%s", err.text);
        unit_media_free(&r.media);
        unit_batch_free(&r.batch);
        unit_dir_free(r.dir);
        arena_free(r.u.arena);
    }
}

/* A batch with images must not reach a model without the layers. */
static void test_cross_refuses_images_without_layers(void **state)
{
    struct error err = { 0 };
    double loss;
    struct run r;

    (void)state;
    open_run(&r, rows_case("models", "mllama"));
    unit_must(model_config_read(r.dir, r.u.arena, &r.u.config, &err), &err);
    start_run(&r, 1);
    assert_false(model_evaluate(r.u.model, &r.batch, &loss, &err));
    assert_non_null(strstr(err.text, "left out the layers"));
    close_run(&r);
}

/* In the last layer, and between frozen ones, they have the gradients that they have in a whole
 * model, with each way to keep activations. */
static void test_cross_trains_alone(void **state)
{
    (void)state;
    for (int recomputes = 0; recomputes < 2; recomputes++) {
        struct run whole, alone;
        size_t trained = 0;

        open_run(&whole, rows_case("models", "mllama"));
        open_run(&alone, rows_case("models", "mllama"));
        alone.u.plan.freeze_language_model = true;
        alone.u.plan.freeze_multi_modal_projector = true;
        alone.u.plan.train_cross_attention = true;
        alone.u.plan.gradient_checkpointing = recomputes;
        start_run(&whole, 1);
        start_run(&alone, 1);
        unit_train(&whole.u, &whole.batch);
        unit_train(&alone.u, &alone.batch);
        for (size_t i = 0; i < model_parameters(alone.u.model); i++) {
            const struct parameter *p = model_parameter(alone.u.model, i), *of;
            const bool cross =
                strstr(p->name, ".layers.1.") || strstr(p->name, ".layers.3.");

            if (p->trainable != cross)
                fail_msg("%s is %s", p->name, p->trainable ? "trained" : "frozen");
            if (!cross)
                continue;
            of = unit_parameter(&whole.u, p->name);
            assert_memory_equal(p->grad.data, of->grad.data,
                                p->rows * p->cols * sizeof(float));
            assert_true(norm_of(p->grad) > 0);
            trained++;
        }
        assert_int_equal(trained, 2 * 13);
        assert_int_equal(model_trained_parameters(alone.u.model), trained);
        close_run(&whole);
        close_run(&alone);
    }
}

/* Write the configuration of an adapter on these targets. */
static void put_adapter(const char *dir, const char *targets)
{
    json_t *json = json_pack("{s s, s i, s s}", "peft_type", "LORA", "r", 4,
                             "target_modules", targets);

    put_json(json, dir, "adapter_config.json");
    json_decref(json);
}

/* Adapters on all layers of cross-attention and no others are read; other choices are not. */
static void test_cross_reads_adapters_of_its_layers(void **state)
{
#define UP    "layers\\.(1|3)\\.mlp\\.up_proj"
#define CROSS "layers\\.\\d+\\.cross_attn\\.q_proj"
    static const struct {
        const char *targets, *says; /* NULL: read */
        bool only;
    } cases[] = {
        { UP, NULL, true },
        { UP "|" CROSS, NULL, true },
        { CROSS, NULL, false },
        { "layers\\.\\d+\\.mlp\\.up_proj|" CROSS, NULL, false },
        { "layers\\.1\\.mlp\\.up_proj", "on up_proj in 1 of 4 layers", false },
        { "layers\\.(0|2)\\.mlp\\.up_proj", "on up_proj in 2 of 4 layers", false },
        { "layers\\.(1|2|3)\\.mlp\\.up_proj", "on up_proj in 3 of 4 layers", false },
        { UP "|layers\\.\\d+\\.self_attn\\.q_proj", "on up_proj in 2 of 4 layers",
          false },
        { UP "|layers\\.\\d+\\.mlp\\.down_proj", "on up_proj in 2 of 4 layers", false },
    };
    struct run r;
    char *dir = unit_dir_new();

    (void)state;
    open_run(&r, rows_case("models", "mllama"));
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *pattern =
            arena_printf(r.u.arena, ".*language_model\\.(%s)", cases[i].targets);
        struct error err = { 0 };
        struct lora lora;
        bool ok;

        put_adapter(dir, pattern);
        ok = lora_config_read(dir, &r.u.config, &lora, &err);
        if (ok != !cases[i].says || (!ok && !strstr(err.text, cases[i].says)) ||
            (ok && (lora.only != NULL) != cases[i].only))
            fail_msg("%s: %s", pattern, err.text);
    }
    unit_media_free(&r.media);
    unit_batch_free(&r.batch);
    unit_dir_free(r.dir);
    unit_dir_free(dir);
    arena_free(r.u.arena);
#undef UP
#undef CROSS
}

/* A job that trains these layers alone does not continue an adapter that is on others. */
static void test_cross_refuses_adapters_of_other_layers(void **state)
{
#define IN(layers) ".*language_model\\.layers\\.(" layers ")\\."
    static const struct {
        const char *targets;
        bool freezes, refused;
    } cases[] = {
        { IN("1|3") "mlp\\.up_proj", true, false },
        { IN("\\d+") "cross_attn\\.q_proj", true, false },
        { IN("\\d+") "mlp\\.up_proj", true, true },
        { IN("\\d+") "(?:cross_attn|self_attn)\\.q_proj", true, true },
        { IN("\\d+") "mlp\\.up_proj", false, false },
    };
    struct run r;
    char *dir = unit_dir_new();

    (void)state;
    open_run(&r, rows_case("models", "mllama"));
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct plan plan = { .method = METHOD_LORA,
                                   .adapter_name_or_path = dir,
                                   .freeze_vision_tower = true,
                                   .freeze_language_model = cases[i].freezes,
                                   .train_cross_attention = cases[i].freezes };
        struct error err = { 0 };
        struct lora lora;
        bool ok;

        put_adapter(dir, cases[i].targets);
        ok = lora_read(&plan, &r.u.config, &lora, &err);
        if (ok == cases[i].refused ||
            (!ok && !strstr(err.text, "of layers without cross-attention")))
            fail_msg("%s: %s", cases[i].targets, err.text);
    }
    unit_media_free(&r.media);
    unit_batch_free(&r.batch);
    unit_dir_free(r.dir);
    unit_dir_free(dir);
    arena_free(r.u.arena);
#undef IN
}

static int setup(void **state)
{
    return media_setup(state, "tests/golden/media_rows.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cross_leaves_text_as_it_is),
        cmocka_unit_test(test_cross_keeps_records_apart),
        cmocka_unit_test(test_cross_trains_alone),
        cmocka_unit_test(test_cross_reads_adapters_of_its_layers),
        cmocka_unit_test(test_cross_refuses_adapters_of_other_layers),
        cmocka_unit_test(test_cross_refuses_other_adapters),
        cmocka_unit_test(test_cross_refuses_images_without_layers),
    };

    return cmocka_run_group_tests(tests, setup, media_teardown);
}
