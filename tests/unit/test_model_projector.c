/* tests/unit/test_model_projector.c - trained projectors, from rows of an encoder's output,
 * compared with transformers and PEFT (tests/golden/media_projector.py). */
#include "config.h"

#include "train/model/model_projector.h"

#include "tests/unit/unit_media_run.h"
#include "tests/unit/unit_ranks.h"

/* The keys of `probes` are in the order of named_parameters(). */
static void check_order(struct run *r)
{
    json_t *probes = json_object_get(r->one, "probes"), *probe;
    size_t *order = memory_alloc(json_object_size(probes) * sizeof(*order)), at = 0;
    const char *name;

    assert_int_equal(model_trained_parameters(r->u.model), json_object_size(probes));
    model_torch_order(r->u.model, order);
    json_object_foreach(probes, name, probe)
        assert_string_equal(model_parameter(r->u.model, order[at++])->name, name);
    free(order);
}

/* Names, shapes and values that were loaded. */
static void check_saved(struct run *r)
{
    const json_t *of =
        r->adapter
            ? r->one
            : find_case("models", json_string_value(json_object_get(r->one, "base")));
    const json_t *tensors = json_object_get(of, "tensors");
    char *dir = unit_dir_new();
    struct error err = { 0 };
    struct safetensors *set;

    unit_must(model_save(r->u.model, dir, &err), &err);
    set = safetensors_open(dir, r->adapter ? "adapter_model" : "model", false, &err);
    unit_must(set != NULL, &err);
    assert_int_equal(safetensors_count(set), json_object_size(tensors));
    for (size_t i = 0; i < safetensors_count(set); i++) {
        const struct stored_tensor *t = safetensors_at(set, i);
        const json_t *shape = json_object_get(tensors, t->name);
        struct made made = { t->name, t->rank, t->bytes / sizeof(float),
                             real(of, "offset") };
        float *expected = memory_alloc(t->bytes);

        if (!shape || json_array_size(shape) != t->rank)
            fail_msg("%s is not a tensor of %s", t->name, name_of(r));
        for (size_t j = 0; j < t->rank; j++)
            assert_int_equal(t->shape[j], shape_of(shape, j));
        read_made(&made, 0, expected, &err);
        assert_memory_equal(expected, t->data, t->bytes);
        free(expected);
    }
    safetensors_close(set);
    unit_dir_free(dir);
}

static void check_list(const char *list, bool checkpointing)
{
    const json_t *cases = json_object_get(rows_golden, list), *one;
    size_t i;

    json_array_foreach((json_t *)cases, i, one)
    {
        struct run r;

        open_run(&r, one);
        r.u.plan.gradient_checkpointing = checkpointing;
        start_run(&r, 1);
        check_order(&r);
        check_saved(&r);
        check_logits(&r);
        check_steps(&r);
        close_run(&r);
    }
}

static void test_model_projector_matches_transformers(void **state)
{
    (void)state;
    check_list("models", false);
    check_list("models", true);
}

static void test_model_projector_next_to_adapters_matches_peft(void **state)
{
    (void)state;
    check_list("adapters", false);
}

/* Return the gradients of a window of two micro-batches, in this order. */
static float *window_gradients(struct run *r, const struct batch *const batches[2],
                               size_t *count)
{
    struct step_scalars scalars = unit_numbers(&r->u, 1, 1);
    struct error err = { 0 };
    struct tensor g;
    float *out;
    double sum;

    model_begin(r->u.model, &scalars);
    for (size_t i = 0; i < 2; i++)
        unit_must(model_train(r->u.model, batches[i], i, &err), &err);
    unit_must(model_end(r->u.model, &scalars, &sum, &err), &err);
    g = model_gradients(r->u.model);
    *count = g.cols;
    out = memory_alloc(tensor_bytes(g));
    memcpy(out, g.data, tensor_bytes(g));
    return out;
}

/* A window that begins with a batch of text does not keep the gradients of the last one. */
static void test_model_projector_sums_windows_with_text(void **state)
{
    struct batch text = { 0 };
    float *first, *last;
    double largest = 0;
    size_t count;
    struct run r;

    (void)state;
    open_run(&r, rows_case("models", "qwen2_vl"));
    start_run(&r, 1);
    unit_batch_random(&text, 9, 30, 1);
    first = window_gradients(&r, (const struct batch *[]) { &r.batch, &text }, &count);
    last = window_gradients(&r, (const struct batch *[]) { &text, &r.batch }, &count);
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(first[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs(first[i] - last[i]) <= 1e-5 * largest))
            fail_msg("gradient %zu is %g or %g", i, first[i], last[i]);
    free(first);
    free(last);
    unit_batch_free(&text);
    close_run(&r);
}

static void test_model_projector_gives_the_same_bits_with_more_threads(void **state)
{
    float *gradients[2];
    size_t count;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct run r;

        open_run(&r, rows_case("models", "qwen3_vl"));
        start_run(&r, 1 + i);
        gradients[i] =
            window_gradients(&r, (const struct batch *[]) { &r.batch, &r.batch }, &count);
        close_run(&r);
    }
    assert_memory_equal(gradients[0], gradients[1], count * sizeof(float));
    free(gradients[0]);
    free(gradients[1]);
}

/* The merged model has the projector of the adapter, under the names of its files. */
static void test_model_projector_is_merged_with_adapters(void **state)
{
    static const char name[] = "multi_modal_projector.linear.weight",
                      saved[] = "base_model.model.model.multi_modal_projector.linear."
                                "weight";
    const struct stored_tensor *t;
    char *dir = unit_dir_new();
    struct error err = { 0 };
    struct safetensors *set;
    struct run r;

    (void)state;
    open_run(&r, rows_case("adapters", "qwen2_audio-lora"));
    start_run(&r, 1);
    unit_must(model_export(r.u.model, dir, &err), &err);
    set = safetensors_open(dir, "model", false, &err);
    unit_must(set != NULL, &err);
    t = safetensors_find(set, name);
    if (!t)
        t = safetensors_find(set, "model.multi_modal_projector.linear.weight");
    assert_non_null(t);
    for (size_t i = 0; i < t->bytes / sizeof(float); i++)
        assert_true(((const float *)t->data)[i] == (float)(0.35 * hashed(saved, i)));
    safetensors_close(set);
    close_run(&r);
    unit_dir_free(dir);
}

static void test_model_projector_rejects_its_own_output(void **state)
{
    struct error err = { 0 };
    double sum = 0;
    struct run r;

    (void)state;
    open_run(&r, rows_case("models", "qwen2_audio"));
    start_run(&r, 1);
    r.media.features[0].width = 24;
    assert_false(model_evaluate(r.u.model, &r.batch, &sum, &err));
    assert_string_equal(err.text,
                        "the rows of features of a have 24 columns, but the model has 8; "
                        "are they the output of the encoder, which a trained projector "
                        "reads?");
    close_run(&r);
}

/* A window of a batch with images and one of text, which the ranks share; return the norm of
 * the gradients. */
static double norm_of_window(const struct unit_ranks *ranks, int64_t zero_stage)
{
    const size_t count = (size_t)ranks->group.ranks;
    struct step_scalars scalars;
    struct batch text = { 0 };
    struct error err = { 0 };
    struct run r;
    double sum;

    open_run(&r, rows_case("models", "qwen2_5_vl"));
    r.u.plan.ranks = (int64_t)count;
    r.u.plan.zero_stage = zero_stage;
    if (count > 1)
        r.u.group = &ranks->group;
    unit_batch_random(&text, 9, 30, 1);
    start_run(&r, 1);
    for (int64_t step = 1; step <= 2; step++) {
        scalars = unit_numbers(&r.u, 1, step);
        model_begin(r.u.model, &scalars);
        model_expect_batches(r.u.model, 2 / count, 2 / count);
        for (size_t i = 0; i < 2; i++)
            if (i % count == (size_t)ranks->group.rank)
                unit_must(model_train(r.u.model, i ? &text : &r.batch, i, &err), &err);
        unit_must(optimizer_step(r.u.model, &r.u.plan, &err), &err);
        unit_must(model_end(r.u.model, &scalars, &sum, &err), &err);
    }
    unit_batch_free(&text);
    close_run(&r);
    return scalars.norm;
}

/* A rank without images adds nothing to the gradients of the projector. */
static void test_model_projector_is_trained_by_ranks(void **state)
{
    struct unit_ranks alone = { .group = { .rank = 0, .ranks = 1 } };
    const double expected = norm_of_window(&alone, 1);

    (void)state;
    for (int64_t stage = 1; stage <= 3; stage++) {
        struct unit_ranks ranks;
        double norm;

        unit_ranks_fork(&ranks, 2);
        norm = norm_of_window(&ranks, stage);
        if (ranks.group.rank > 0)
            _exit(0);
        unit_ranks_join(&ranks);
        unit_assert_near("norm", norm, expected, 1e-5);
    }
}

/* With a frozen language model, only the projector is trained. */
static void test_model_projector_is_trained_alone(void **state)
{
    struct run r;

    (void)state;
    open_run(&r, rows_case("models", "llava"));
    r.u.plan.freeze_language_model = true;
    start_run(&r, 1);
    assert_int_equal(model_trained_parameters(r.u.model), 4);
    for (size_t i = 0; i < 4; i++) {
        const struct parameter *p = model_trained(r.u.model, i);

        unit_train(&r.u, &r.batch);
        assert_non_null(strstr(p->name, "multi_modal_projector"));
        unit_assert_near(
            p->name, norm_of(p->grad),
            json_number_value(json_array_get(
                json_object_get(json_object_get(r.one, "probes"), p->name), 0)),
            1e-4);
    }
    close_run(&r);
}

/* Compare what was downloaded with the norm and the projection of the golden gradient. */
static void check_rows(const struct run *r, const char *key, size_t index,
                       const float *values, size_t count)
{
    const json_t *probe =
        json_array_get(json_object_get(json_object_get(r->one, "rows"), key), index);
    const double norm = json_number_value(json_array_get(probe, 0));
    const double along = json_number_value(json_array_get(probe, 1));
    double squares = 0, sum = 0;
    char of[64];

    snprintf(of, sizeof(of), "probe.encoder.%s.%zu", key, index);
    for (size_t i = 0; i < count; i++) {
        squares += (double)values[i] * values[i];
        sum += values[i] * (double)(float)(0.35 * hashed(of, i));
    }
    assert_true(norm > 0);
    if (!(fabs(sqrt(squares) - norm) <= 1e-4 * norm) ||
        !(fabs(sum - along) <= 1e-4 * norm))
        fail_msg("%s: the gradients of rows %zu of %s have the norm %.8g and the "
                 "projection %.8g, expected %.8g and %.8g",
                 name_of(r), index, key, sqrt(squares), sum, norm, along);
}

static void check_row_gradients(struct run *r)
{
    const size_t width = r->u.config.media.projector.in, hidden = r->u.config.hidden_size;
    struct error err = { 0 };

    unit_train(&r->u, &r->batch);
    for (size_t i = 0; i < r->batch.media_count; i++) {
        const struct batch_medium *medium = &r->batch.media[i];
        const size_t rows = medium->item->rows;
        struct model_media_gradients out = { memory_alloc(rows * width * sizeof(float)),
                                             { NULL } };

        for (size_t k = 0; k < r->u.config.media.deep; k++)
            out.deep[k] = memory_alloc(rows * hidden * sizeof(float));
        unit_must(model_media_gradients(r->u.model, medium, &out, &err), &err);
        check_rows(r, medium->item->key, 0, out.rows, rows * width);
        free(out.rows);
        for (size_t k = 0; k < r->u.config.media.deep; k++) {
            check_rows(r, medium->item->key, 1 + k, out.deep[k], rows * hidden);
            free(out.deep[k]);
        }
    }
}

/* Of a trained and of a frozen projector, and next to a frozen language model. */
static void test_model_projector_returns_the_gradients_of_rows(void **state)
{
    const json_t *cases = json_object_get(rows_golden, "models"), *one;
    size_t i;

    (void)state;
    json_array_foreach((json_t *)cases, i, one) for (int frozen = 0; frozen < 3; frozen++)
    {
        struct run r;

        open_run(&r, one);
        r.u.plan.freeze_vision_tower = false;
        r.u.plan.freeze_multi_modal_projector = frozen == 1;
        r.u.plan.freeze_language_model = frozen == 2;
        r.u.plan.gradient_checkpointing = frozen == 1;
        start_run(&r, 1);
        check_row_gradients(&r);
        close_run(&r);
    }
}

static int setup(void **state)
{
    return media_setup(state, "tests/golden/media_projector.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_projector_matches_transformers),
        cmocka_unit_test(test_model_projector_next_to_adapters_matches_peft),
        cmocka_unit_test(test_model_projector_sums_windows_with_text),
        cmocka_unit_test(test_model_projector_gives_the_same_bits_with_more_threads),
        cmocka_unit_test(test_model_projector_is_merged_with_adapters),
        cmocka_unit_test(test_model_projector_rejects_its_own_output),
        cmocka_unit_test(test_model_projector_is_trained_by_ranks),
        cmocka_unit_test(test_model_projector_is_trained_alone),
        cmocka_unit_test(test_model_projector_returns_the_gradients_of_rows),
    };

    return cmocka_run_group_tests(tests, setup, media_teardown);
}
