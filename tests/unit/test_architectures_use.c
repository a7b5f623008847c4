/* tests/unit/test_architectures_use.c - other uses of models of every architecture:
 * initialization, training in 16 bits, generation, and distillation from themselves. */
#include "config.h"

#include "tests/unit/unit_architectures.h"
#include "train/model/shapes.h"
#include "train/teacher/teacher_plan.h"

static double deviation(const struct parameter *p)
{
    return norm_of(p->weight) / sqrt((double)(p->rows * p->cols));
}

/* Return whether element `index` of a vector is an initial one; those of linear attention
 * are the same for all norms of a model. */
static bool is_initial(const char *name, size_t index, double value, double middle)
{
    if (text_ends(name, ".mamba.A_log"))
        return value == (double)(float)log((double)index + 1);
    if (text_ends(name, ".A_log")) /* of a uniform value from 0.01 to 16 */
        return value >= log(0.01) - 1e-6 && value <= log(16);
    if (text_ends(name, ".dt_bias") || text_ends(name, ".D") ||
        text_ends(name, ".linear_attn.norm.weight"))
        return value == 1;
    if (text_ends(name, ".sinks") || text_ends(name, ".router.bias"))
        return value != 0 && fabs(value) < 5 * 0.2; /* normal, of initializer_range */
    if (text_ends(name, ".act_fn.alpha_p") || text_ends(name, ".act_fn.alpha_n"))
        return fabs(log1p(exp(value)) - (text_ends(name, "_p") ? 0.8 : 0.3)) < 1e-6;
    if (text_ends(name, ".bias") || text_ends(name, "_correction_bias") ||
        text_ends(name, ".expert_bias"))
        middle = 0;
    return value == middle;
}

/* Initial weights: matrices have the configured deviation, and those of GPT-2 that add to
 * the residual are smaller by sqrt(2 L); norms and biases change nothing, except that the
 * norms of Nemotron double, as in transformers. */
static void check_initial(const json_t *one)
{
    char *text = json_dumps(json_object_get(one, "config"), 0);
    struct unit_model u = unit_model_text(text, unit_plan(NULL));
    bool small = u.config.architecture->small_outputs;
    double range = u.config.initializer_range, middle = 1 - real(one, "offset");

    if (u.config.architecture->norm == NORM_LAYER_1)
        middle = 1;
    u.plan.train_from_scratch = true;
    start(&u);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);
        bool adds = text_ends(p->name, "c_proj.weight");
        bool norm = text_ends(p->name, "_norm.weight"); /* some have two dimensions */
        const float *w = p->weight.data;

        for (size_t j = 0; text_ends(p->name, "embed_tokens.weight") && j < p->cols; j++)
            assert_true(u.config.padding < 0 ||
                        w[(size_t)u.config.padding * p->cols + j] == 0);
        for (size_t j = 0; (p->rank == 1 || norm) && j < p->rows * p->cols; j++)
            assert_true(is_initial(p->name, j, (double)w[j], middle));
        /* the deviation of n values is known to 1 / sqrt(2 n); allow 4 of that */
        for (size_t j = 0; text_ends(p->name, "_correction_bias") && j < p->cols; j++)
            assert_true(w[j] == 0);
        if (norm || text_ends(p->name, "_correction_bias"))
            continue;
        if (p->rank == 2 && text_ends(p->name, "embed_tokens.weight"))
            unit_assert_near(p->name, deviation(p), u.config.embedding_range,
                             4 / sqrt(2 * (double)(p->rows * p->cols)));
        else if (p->rank == 2)
            unit_assert_near(p->name, deviation(p), small && adds ? range / 2 : range,
                             4 / sqrt(2 * (double)(p->rows * p->cols)));
    }
    unit_model_stop(&u);
    free(text);
}

static void test_architectures_initialize_like_transformers(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_initial(json_array_get(cases, i));
}

/* 16-bit activations and weights: the loss, a mean, changes by a few epsilons of the
 * format, and gradients by a few more; memory is as estimated. */
static void check_16_bits(const json_t *one, enum format compute)
{
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    double epsilon = format_info(compute)->epsilon, loss, norm, expected = 0;
    const json_t *norms = json_object_get(one, "norms");
    struct memory_use estimate;
    struct error err = { 0 };
    const char *name;
    json_t *each;

    json_object_foreach((json_t *)norms, name, each) expected +=
        json_number_value(each) * json_number_value(each);
    u.plan.precision.compute = compute;
    unit_must(
        shapes_memory(&u.plan, &u.config, batch.rows, batch.sequences, &estimate, &err),
        &err);
    start(&u);
    loss = unit_train(&u, &batch);
    norm = unit_norm(&u);
    assert_int_equal(model_memory(u.model)->low, estimate.total);
    name = json_string_value(json_object_get(one, "name"));
    unit_assert_near(name, loss,
                     json_number_value(json_array_get(json_object_get(one, "losses"), 0)),
                     2 * epsilon);
    unit_assert_near(name, norm, sqrt(expected), 4 * epsilon);
    for (int64_t i = 1; i <= 5; i++) {
        unit_train(&u, &batch);
        unit_step(&u, i);
    }
    assert_true(unit_loss(&u, &batch) < loss);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

/* Matmuls of blocks in 8 bits, as in test_model_determinism.c. */
static void check_in_8_bits(const json_t *one)
{
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    double loss = json_number_value(json_array_get(json_object_get(one, "losses"), 0)),
           is;

    u.plan.precision.mode = MODE_BF16_MIXED;
    u.plan.precision.compute = FORMAT_BF16;
    u.plan.precision.fp8 = true;
    start(&u);
    is = unit_train(&u, &batch);
    assert_true(is != loss);
    unit_assert_near(json_string_value(json_object_get(one, "name")), is, loss, 0x1p-4);
    for (int64_t i = 1; i <= 5; i++) {
        unit_step(&u, i);
        unit_train(&u, &batch);
    }
    assert_true(unit_loss(&u, &batch) < is);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

/* Biases of layers that were trained as a whole are saved with an adapter: compare the
 * logits of a model in training with those of one that only generates. */
static void test_architectures_generate_with_trained_biases(void **state)
{
    char *dir = folder_of(find_case("models", "qwen2"), NULL), *adapter = unit_dir_new();
    float *logits[2];
    struct error err = { 0 };
    size_t count = 0;

    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        struct unit_model u = open_folder(dir);

        count = batch.sequences * u.config.vocab_size;
        logits[alone] = memory_alloc(count * sizeof(float));
        u.plan.method = METHOD_LORA;
        u.plan.additional_target = "k_proj";
        u.plan.learning_rate = 0.1;
        u.plan.adapter_name_or_path = alone ? adapter : NULL;
        u.plan.generation.alone = alone;
        start(&u);
        for (int64_t i = 1; !alone && i <= 2; i++) {
            unit_train(&u, &batch);
            unit_step(&u, i);
        }
        if (!alone)
            unit_must(model_save(u.model, adapter, &err), &err);
        unit_must(model_logits(u.model, &batch, logits[alone], &err), &err);
        unit_model_stop(&u);
    }
    for (size_t i = 0; i < count; i++)
        assert_true(fabs((double)logits[0][i] - logits[1][i]) < CLOSE);
    free(logits[0]);
    free(logits[1]);
    unit_dir_free(dir);
    unit_dir_free(adapter);
}

static void test_architectures_in_8_bits_are_close(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_in_8_bits(json_array_get(cases, i));
}

/* Return whether config.json has a probability or a jitter above 0; that of DBRX is in an
 * object of its own. */
static bool draws(json_t *config, const char *key)
{
    for (void *at = json_object_iter(config); at;
         at = json_object_iter_next(config, at)) {
        json_t *value = json_object_iter_value(at);

        if ((strstr(json_object_iter_key(at), key) && json_number_value(value) > 0) ||
            (json_is_object(value) && draws(value, key)))
            return true;
    }
    return false;
}

static void test_architectures_in_16_bits_are_close(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        if (draws(json_object_get(json_array_get(cases, i), "config"), "jitter"))
            continue; /* rounding changes which experts are sampled */
        check_16_bits(json_array_get(cases, i), FORMAT_BF16);
        check_16_bits(json_array_get(cases, i), FORMAT_FP16);
    }
}

/* Return the last logits of each sequence; its first tokens are run at once and the
 * others one by one. */
static void check_generation(const json_t *one, bool alone)
{
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    size_t vocabulary = u.config.vocab_size, prompt = 3;
    float *logits = memory_alloc(vocabulary * sizeof(*logits));
    const json_t *expected = json_object_get(one, "logits");
    struct error err = { 0 };

    u.plan.generation = (struct generation) { .on = true,
                                              .alone = alone,
                                              .slots = 1,
                                              .prompt_max = (int64_t)prompt,
                                              .max_new_tokens = (int64_t)batch.longest };
    start(&u);
    for (size_t s = 0; s < batch.sequences; s++) {
        const int32_t *tokens = batch.tokens + batch.offsets[s];
        int32_t end = batch.offsets[s + 1] - batch.offsets[s];

        unit_must(model_prefill(u.model, 0, tokens, prompt, logits, &err), &err);
        for (int32_t i = (int32_t)prompt; i < end; i++)
            unit_must(model_decode_step(u.model, &tokens[i], &i, logits, &err), &err);
        for (size_t v = 0; v < vocabulary; v++) {
            double want =
                json_number_value(json_array_get(json_array_get(expected, s), v));

            if (!(fabs(logits[v] - want) <= CLOSE * (1 + fabs(want))))
                fail_msg("%s: logit %zu of sequence %zu is %.8g, expected %.8g",
                         json_string_value(json_object_get(one, "name")), v, s, logits[v],
                         want);
        }
    }
    free(logits);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

static void test_architectures_generate_token_by_token(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        for (int alone = 0; alone < 2; alone++)
            check_generation(json_array_get(cases, i), alone);
}

/* Generation ends where the learned positions end, and the cache is no longer. */
static void test_architectures_generate_up_to_the_last_position(void **state)
{
    const json_t *one = find_case("models", "gpt2");
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    int32_t places = (int32_t)u.config.max_positions, token = 1;
    float *logits = memory_alloc(u.config.vocab_size * sizeof(*logits));
    struct error err = { 0 };

    (void)state;
    u.plan.generation = (struct generation) {
        .on = true, .slots = 1, .prompt_max = 3, .max_new_tokens = 100
    };
    start(&u);
    assert_int_equal(model_slot_rows(u.model), places);
    unit_must(model_prefill(u.model, 0, batch.tokens, 3, logits, &err), &err);
    for (int32_t i = 3; i < places; i++)
        unit_must(model_decode_step(u.model, &token, &i, logits, &err), &err);
    assert_false(model_decode_step(u.model, &token, &places, logits, &err));
    free(logits);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

/* Learned positions have an end. */
static void test_architectures_reject_positions_beyond_the_last(void **state)
{
    const json_t *one = find_case("models", "gpt2");
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    struct batch long_one = { 0 };
    struct error err = { 0 };
    double sum = 0;

    (void)state;
    unit_batch_random(&long_one, u.config.max_positions + 1, u.config.vocab_size, 1);
    unit_model_start(&u, long_one.rows, 1, 1);
    assert_false(model_evaluate(u.model, &long_one, &sum, &err));
    assert_non_null(strstr(err.text, "lower cutoff_len to 16"));
    unit_batch_free(&long_one);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

/* A model that is its own teacher learns nothing, with all logits or the largest ones,
 * and the data's loss counts half. */
static void check_own_teacher(const json_t *one, size_t kept)
{
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    struct teacher_plan teacher;
    struct model_options options = { .plan = &teacher.plan, .config = &teacher.config };
    double loss = json_number_value(json_array_get(json_object_get(one, "losses"), 0));
    const json_t *norms = json_object_get(one, "norms");
    double expected = 0, is;
    struct error err = { 0 };
    struct model *other;
    const char *name;
    json_t *each;

    json_object_foreach((json_t *)norms, name, each) expected +=
        json_number_value(each) * json_number_value(each);
    u.plan.stage = STAGE_DISTILL;
    u.plan.quantization_bit = 4; /* does not apply to the teacher */
    u.plan.kd = (struct distillation_settings) { .teacher = dir,
                                                 .config = &u.config,
                                                 .format = FORMAT_FP32,
                                                 .ratio = 0.5,
                                                 .temperature = 2,
                                                 .topk = (int64_t)kept };
    start(&u);
    unit_must(teacher_plan_make(&u.plan, false, u.arena, &teacher, &err), &err);
    options.backend = u.be;
    options.rows_max = batch.rows;
    options.sequences_max = batch.sequences;
    other = model_new(&options, &err);
    unit_must(other != NULL && model_load(other, &err), &err);
    model_set_teacher(u.model, other);
    is = unit_train(&u, &batch);
    name = json_string_value(json_object_get(one, "name"));
    unit_assert_near(name, is, loss / 2, 1e-5);
    unit_assert_near(name, unit_norm(&u), sqrt(expected) / 2, 1e-4);
    model_free(other);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

static void test_architectures_learn_nothing_from_themselves(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        json_t *config = json_object_get(one, "config");

        if (draws(config, "drop") || draws(config, "jitter"))
            continue; /* a teacher has none */
        if (json_is_true(json_object_get(config, "output_router_logits")))
            continue; /* nor does a distillation have a load balancing loss */
        check_own_teacher(one, 0);
        check_own_teacher(one, 40);
    }
}

/* Return whether a part of the module is in a layer. */
static bool has_part(const struct shapes *shapes, enum module module, enum part part,
                     size_t layer)
{
    for (size_t i = 0; i < shapes->count; i++) {
        const struct shape_parameter *p = &shapes->parameters[i];

        if (p->module == module && p->part == part && p->layer == layer)
            return true;
    }
    return false;
}

static void check_adapted(const json_t *one, enum method method, enum part part)
{
    const char *name = json_string_value(json_object_get(one, "name"));
    char *text = json_dumps(json_object_get(one, "config"), 0);
    struct unit_model u = unit_model_text(text, unit_plan(NULL));
    struct error err = { 0 };
    struct shapes shapes;

    u.plan.method = method;
    u.plan.lora_target = u.plan.oft_target = "all";
    u.plan.oft_block_size = 2;
    if (!shapes_make(&u.plan, &u.config, 8, 1, u.arena, &shapes, &err)) {
        if (method != METHOD_OFT ||
            !(strstr(err.text, "of experts") || strstr(err.text, "Conv1D")))
            fail_msg("%s: %s", name, err.text);
        shapes.count = 0;
    }
    for (size_t i = 0; i < shapes.count; i++) {
        const struct shape_parameter *p = &shapes.parameters[i];

        if (p->part == PART_WEIGHT && shapes.lora.adapted[p->module] &&
            !has_part(&shapes, p->module, part, p->layer))
            fail_msg("%s: %s has no adapter", name, p->name);
    }
    arena_free(u.arena);
    free(text);
}

static void test_architectures_have_adapters_on_all_targets(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        check_adapted(json_array_get(cases, i), METHOD_LORA, PART_LORA_A);
        check_adapted(json_array_get(cases, i), METHOD_LORA, PART_LORA_B);
        check_adapted(json_array_get(cases, i), METHOD_OFT, PART_OFT_R);
    }
}

/* A weight-decomposed adapter changes nothing at first: the magnitudes are the norms of all
 * layers that have one, whose sizes may differ. */
static void test_architectures_begin_with_the_norms_of_weights(void **state)
{
    static const char *const names[] = { "llama", "falcon_h1", "gemma4_e",
                                         "gemma4_e-shared" };
    static const double drops[] = { 0, 0.25 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names) * TS_COUNT(drops); i++) {
        const json_t *one = find_case("models", names[i / TS_COUNT(drops)]);
        char *dir = folder_of(one, NULL);
        struct unit_model u = open_folder(dir);

        u.plan.method = METHOD_LORA;
        u.plan.lora_rank = 4;
        u.plan.lora_alpha = 8;
        u.plan.lora_dropout = drops[i % TS_COUNT(drops)];
        u.plan.use_dora = true;
        start(&u);
        unit_assert_near(
            names[i / TS_COUNT(drops)], unit_train(&u, &batch),
            json_number_value(json_array_get(json_object_get(one, "losses"), 0)), 1e-5);
        unit_model_stop(&u);
        unit_dir_free(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_architectures_begin_with_the_norms_of_weights),
        cmocka_unit_test(test_architectures_initialize_like_transformers),
        cmocka_unit_test(test_architectures_in_16_bits_are_close),
        cmocka_unit_test(test_architectures_in_8_bits_are_close),
        cmocka_unit_test(test_architectures_generate_with_trained_biases),
        cmocka_unit_test(test_architectures_generate_token_by_token),
        cmocka_unit_test(test_architectures_generate_up_to_the_last_position),
        cmocka_unit_test(test_architectures_reject_positions_beyond_the_last),
        cmocka_unit_test(test_architectures_learn_nothing_from_themselves),
        cmocka_unit_test(test_architectures_have_adapters_on_all_targets),
    };

    return cmocka_run_group_tests(tests, architectures_setup, architectures_teardown);
}
