/* tests/unit/test_architectures.c - tiny models of every architecture, and adapters on
 * them, against what transformers and PEFT compute (tests/golden/architectures.py). */
#include "config.h"

#include "tests/unit/unit_model.h"
#include "train/safetensors.h"
#include "train/shapes.h"
#include "train/teacher_plan.h"

static json_t *golden;
static struct batch batch;

/* The hash of the script: uniform in [-1, 1). */
static double hashed(const char *name, size_t i)
{
    uint32_t x = 2166136261u;

    for (; *name; name++)
        x = (x ^ (unsigned char)*name) * 16777619u;
    x += (uint32_t)i * 0x9E3779B9u;
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    x ^= x >> 16;
    return (double)(x >> 8) / (1 << 23) - 1;
}

static double real(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static size_t shape_of(const json_t *shape, size_t at)
{
    return (size_t)json_integer_value(json_array_get(shape, at));
}

/* What a tensor of the file is made from. */
struct made {
    const char *name;
    size_t rank, count;
    double offset;
};

static bool read_made(const void *context, size_t index, void *to, struct error *err)
{
    const struct made *made = (const struct made *)context + index;
    double middle = text_ends(made->name, ".bias") ? 0 : 1 - made->offset;
    float *out = to;

    (void)err;
    for (size_t i = 0; i < made->count; i++)
        out[i] = (float)(made->rank == 2 ? 0.35 * hashed(made->name, i)
                                         : 0.2 * hashed(made->name, i) + middle);
    return true;
}

/* The tensors of a case as a file of a folder; what `names` begin with can be cut off. */
static void put_tensors(const json_t *one, const char *dir, const char *file,
                        const char *cut)
{
    json_t *tensors = json_object_get(one, "tensors"), *shape;
    size_t count = 0;
    struct made *made = memory_alloc(json_object_size(tensors) * sizeof(*made));
    struct tensor_source *sources =
        memory_alloc(json_object_size(tensors) * sizeof(*sources));
    char *path = path_join(dir, file);
    struct error err = { 0 };
    const char *name;

    json_object_foreach(tensors, name, shape)
    {
        size_t rank = json_array_size(shape), rows = shape_of(shape, 0),
               cols = rank == 2 ? shape_of(shape, 1) : 1;

        made[count] = (struct made) { name, rank, rows * cols, real(one, "offset") };
        sources[count] = (struct tensor_source) { .name = name,
                                                  .format = FORMAT_FP32,
                                                  .rank = rank,
                                                  .shape = { rows, cols },
                                                  .read = read_made,
                                                  .context = made,
                                                  .index = count };
        if (cut && text_starts(name, cut))
            sources[count].name += strlen(cut);
        count++;
    }
    unit_must(safetensors_write(path, sources, count, &err), &err);
    free(path);
    free(sources);
    free(made);
}

static void put_json(const json_t *value, const char *dir, const char *file)
{
    char *path = path_join(dir, file), *text = json_dumps(value, 0);
    struct error err = { 0 };

    unit_must(file_replace(path, text, strlen(text), 0600, &err), &err);
    free(text);
    free(path);
}

static const json_t *find_case(const char *list, const char *name)
{
    const json_t *cases = json_object_get(golden, list);

    for (size_t i = 0; i < json_array_size(cases); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(cases, i), "name")),
                   name) == 0)
            return json_array_get(cases, i);
    fail_msg("there is no %s among the %s", name, list);
    return NULL;
}

static char *folder_of(const json_t *one, const char *cut)
{
    char *dir = unit_dir_new();

    put_json(json_object_get(one, "config"), dir, "config.json");
    put_tensors(one, dir, "model.safetensors", cut);
    return dir;
}

static struct unit_model open_folder(const char *dir)
{
    struct unit_model u = { .arena = arena_new(), .plan = unit_plan(dir) };
    struct error err = { 0 };

    unit_must(model_config_read(dir, u.arena, &u.config, &err), &err);
    u.plan.learning_rate = real(golden, "lr");
    u.plan.weight_decay = real(golden, "weight_decay");
    return u;
}

static void start(struct unit_model *u)
{
    unit_model_start(u, batch.rows, batch.sequences, 1);
}

/* fp32 on both sides, a few hundred operations deep: what differs is the order of sums.
 */
#define CLOSE 2e-5

static void check_logits(struct unit_model *u, const json_t *one)
{
    size_t vocabulary = u->config.vocab_size;
    float *logits = memory_alloc(batch.sequences * vocabulary * sizeof(*logits));
    const json_t *wanted = json_object_get(one, "logits");
    struct error err = { 0 };

    unit_must(model_logits(u->model, &batch, logits, &err), &err);
    for (size_t i = 0; i < batch.sequences; i++)
        for (size_t v = 0; v < vocabulary; v++) {
            double is = logits[i * vocabulary + v];
            double want = json_number_value(json_array_get(json_array_get(wanted, i), v));

            if (!(fabs(is - want) <= CLOSE * (1 + fabs(want))))
                fail_msg("%s: logit %zu of run %zu is %.8g, wanted %.8g",
                         json_string_value(json_object_get(one, "name")), v, i, is, want);
        }
    free(logits);
}

static double norm_of(struct tensor t)
{
    const float *g = t.data;
    double sum = 0;

    for (size_t i = 0; i < t.rows * t.cols; i++)
        sum += (double)g[i] * g[i];
    return sqrt(sum);
}

/* Every gradient's norm, and no parameter besides. */
static void check_gradients(struct unit_model *u, const json_t *one)
{
    const json_t *norms = json_object_get(one, "norms");
    size_t trained = 0;

    for (size_t i = 0; i < model_parameters(u->model); i++) {
        const struct parameter *p = model_parameter(u->model, i);
        const json_t *wanted = json_object_get(norms, p->name);

        if (!p->trainable)
            continue;
        if (!wanted)
            fail_msg("%s has no gradient there", p->name);
        unit_near(p->name, norm_of(p->grad), json_number_value(wanted), 5e-5);
        trained++;
    }
    assert_int_equal(trained, json_object_size(norms));
}

/* Ten steps; the losses before each. */
static void check_steps(struct unit_model *u, const json_t *one)
{
    const json_t *losses = json_object_get(one, "losses");

    for (size_t i = 0; i < json_array_size(losses); i++) {
        double wanted = json_number_value(json_array_get(losses, i));

        unit_near(json_string_value(json_object_get(one, "name")), unit_train(u, &batch),
                  wanted, i == 0 ? 2e-6 : 2e-4);
        if (i == 0)
            check_gradients(u, one);
        unit_step(u, (int64_t)i + 1);
    }
}

static void check_decay(struct unit_model *u, const json_t *one)
{
    const json_t *undecayed = json_object_get(one, "undecayed");

    for (size_t i = 0; i < model_parameters(u->model); i++) {
        const struct parameter *p = model_parameter(u->model, i);
        bool decays = true;

        for (size_t j = 0; j < json_array_size(undecayed); j++)
            decays = decays && strcmp(json_string_value(json_array_get(undecayed, j)),
                                      p->name) != 0;
        assert_true(p->decays == decays);
    }
}

/* The names and shapes that transformers writes, and the numbers that were read. */
static void check_saved(struct unit_model *u, const json_t *one, const char *stem)
{
    json_t *tensors = json_object_get(one, "tensors");
    char *dir = unit_dir_new();
    struct error err = { 0 };
    struct safetensors *set;

    unit_must(model_save(u->model, dir, &err), &err);
    set = safetensors_open(dir, stem, false, &err);
    unit_must(set != NULL, &err);
    assert_int_equal(safetensors_count(set), json_object_size(tensors));
    for (size_t i = 0; i < safetensors_count(set); i++) {
        const struct stored_tensor *t = safetensors_at(set, i);
        const json_t *shape = json_object_get(tensors, t->name);
        struct made made = { t->name, t->rank, t->bytes / sizeof(float),
                             real(one, "offset") };
        float *wanted = memory_alloc(t->bytes);

        if (!shape || json_array_size(shape) != t->rank)
            fail_msg("%s is not what transformers writes", t->name);
        for (size_t j = 0; j < t->rank; j++)
            assert_int_equal(t->shape[j], shape_of(shape, j));
        read_made(&made, 0, wanted, &err);
        assert_memory_equal(wanted, t->data, t->bytes);
        free(wanted);
    }
    safetensors_close(set);
    unit_dir_free(dir);
}

static void check_model(const char *name, bool checkpointing)
{
    const json_t *one = find_case("models", name);
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);

    u.plan.gradient_checkpointing = checkpointing;
    start(&u);
    check_saved(&u, one, "model");
    check_decay(&u, one);
    check_logits(&u, one);
    check_steps(&u, one);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

static void test_architectures_agree_with_transformers(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_model(json_string_value(json_object_get(json_array_get(cases, i), "name")),
                    false);
}

static void test_architectures_agree_when_blocks_are_computed_again(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_model(json_string_value(json_object_get(json_array_get(cases, i), "name")),
                    true);
}

static void check_adapter(const json_t *one)
{
    const char *base = json_string_value(json_object_get(one, "base"));
    char *dir = folder_of(find_case("models", base), NULL), *adapter = unit_dir_new();
    struct unit_model u = open_folder(dir);

    put_json(json_object_get(one, "config"), adapter, "adapter_config.json");
    put_tensors(one, adapter, "adapter_model.safetensors", NULL);
    u.plan.method = METHOD_LORA;
    u.plan.adapter_name_or_path = adapter;
    start(&u);
    check_saved(&u, one, "adapter_model");
    check_logits(&u, one);
    check_steps(&u, one);
    unit_model_stop(&u);
    unit_dir_free(dir);
    unit_dir_free(adapter);
}

static void test_architectures_adapters_agree_with_peft(void **state)
{
    const json_t *cases = json_object_get(golden, "adapters");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_adapter(json_array_get(cases, i));
}

/* A merged adapter gives the logits of the adapted model. */
static void test_architectures_merge_adapters(void **state)
{
    const json_t *cases = json_object_get(golden, "adapters");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        const char *base = json_string_value(json_object_get(one, "base"));
        char *dir = folder_of(find_case("models", base), NULL);
        char *adapter = unit_dir_new(), *merged = unit_dir_new();
        struct unit_model u = open_folder(dir);
        struct error err = { 0 };

        put_json(json_object_get(one, "config"), adapter, "adapter_config.json");
        put_tensors(one, adapter, "adapter_model.safetensors", NULL);
        u.plan.method = METHOD_LORA;
        u.plan.adapter_name_or_path = adapter;
        start(&u);
        unit_must(model_export(u.model, merged, &err), &err);
        unit_model_stop(&u);
        u = open_folder(merged);
        start(&u);
        check_logits(&u, one);
        unit_model_stop(&u);
        u = open_folder(dir);
        u.plan.method = METHOD_LORA;
        u.plan.adapter_name_or_path = adapter;
        u.plan.create_new_adapter = true; /* beside it, with nothing learned yet */
        start(&u);
        check_logits(&u, one);
        unit_model_stop(&u);
        unit_dir_free(dir);
        unit_dir_free(adapter);
        unit_dir_free(merged);
    }
}

/* Files of the model below the head alone, as GPT-2 was published, with masks in them. */
static void test_architectures_read_bare_files(void **state)
{
    static const struct {
        const char *name, *base;
    } cases[] = { { "gpt2", "transformer." },
                  { "gpt_neo", "transformer." },
                  { "gemma", "model." } };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const json_t *one = find_case("models", cases[i].name);
        char *dir = folder_of(one, cases[i].base);
        struct unit_model u = open_folder(dir);

        start(&u);
        check_logits(&u, one);
        check_saved(&u, one, "model");
        unit_model_stop(&u);
        unit_dir_free(dir);
    }
}

static double deviation(const struct parameter *p)
{
    return norm_of(p->weight) / sqrt((double)(p->rows * p->cols));
}

/* Fresh weights: matrices of the deviation that is asked for, those that add to the
 * stream of GPT-2 by sqrt(2 L) smaller; a norm changes nothing, a bias adds nothing. */
static void check_fresh(const json_t *one)
{
    char *text = json_dumps(json_object_get(one, "config"), 0);
    struct unit_model u = unit_model_text(text, unit_plan(NULL));
    bool small = u.config.architecture->small_outputs;
    double range = u.config.initializer_range, middle = 1 - real(one, "offset");

    u.plan.train_from_scratch = true;
    start(&u);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);
        bool adds = text_ends(p->name, "c_proj.weight");
        const float *w = p->weight.data;

        for (size_t j = 0; p->rank == 1 && j < p->cols; j++)
            assert_true(w[j] == (text_ends(p->name, ".bias") ? 0 : middle));
        if (p->rank == 2) /* of n numbers it is known to 1 / sqrt(2 n); 4 of that */
            unit_near(p->name, deviation(p), small && adds ? range / 2 : range,
                      4 / sqrt(2 * (double)(p->rows * p->cols)));
    }
    unit_model_stop(&u);
    free(text);
}

static void test_architectures_begin_as_in_transformers(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_fresh(json_array_get(cases, i));
}

/* 16-bit activations and weights: the loss, a mean, moves by less than the epsilon of the
 * format times a few, gradients by a few more; and what was estimated is what is taken.
 */
static void check_narrow(const json_t *one, enum format compute)
{
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    double epsilon = format_info(compute)->epsilon, loss, norm, wanted = 0;
    const json_t *norms = json_object_get(one, "norms");
    struct memory_use estimate;
    struct error err = { 0 };
    const char *name;
    json_t *each;

    json_object_foreach((json_t *)norms, name, each) wanted +=
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
    unit_near(name, loss,
              json_number_value(json_array_get(json_object_get(one, "losses"), 0)),
              2 * epsilon);
    unit_near(name, norm, sqrt(wanted), 4 * epsilon);
    for (int64_t i = 1; i <= 5; i++) {
        unit_train(&u, &batch);
        unit_step(&u, i);
    }
    assert_true(unit_loss(&u, &batch) < loss);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

static void test_architectures_in_16_bits_stay_in_their_band(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        check_narrow(json_array_get(cases, i), FORMAT_BF16);
        check_narrow(json_array_get(cases, i), FORMAT_FP16);
    }
}

/* The last logits of each run, its first tokens read at once and the others one by one.
 */
static void check_growth(const json_t *one)
{
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    size_t vocabulary = u.config.vocab_size, prompt = 3;
    float *logits = memory_alloc(vocabulary * sizeof(*logits));
    const json_t *wanted = json_object_get(one, "logits");
    struct error err = { 0 };

    u.plan.generation = (struct generation) { .on = true,
                                              .slots = 1,
                                              .prompt_max = (int64_t)prompt,
                                              .max_new_tokens = (int64_t)batch.longest };
    start(&u);
    for (size_t s = 0; s < batch.sequences; s++) {
        const int32_t *tokens = batch.tokens + batch.offsets[s];
        int32_t end = batch.offsets[s + 1] - batch.offsets[s];

        unit_must(model_prefill(u.model, 0, tokens, prompt, logits, &err), &err);
        for (int32_t i = (int32_t)prompt; i < end; i++)
            unit_must(model_grow(u.model, &tokens[i], &i, logits, &err), &err);
        for (size_t v = 0; v < vocabulary; v++) {
            double want = json_number_value(json_array_get(json_array_get(wanted, s), v));

            if (!(fabs(logits[v] - want) <= CLOSE * (1 + fabs(want))))
                fail_msg("%s: logit %zu of run %zu is %.8g, wanted %.8g",
                         json_string_value(json_object_get(one, "name")), v, s, logits[v],
                         want);
        }
    }
    free(logits);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

static void test_architectures_grow_by_a_token(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_growth(json_array_get(cases, i));
}

/* Learned positions have an end. */
static void test_architectures_refuse_places_they_have_not_learned(void **state)
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

/* Of a model that is its own teacher: nothing is to be learned of it, with all logits or
 * the largest, and the data's loss counts half. */
static void check_own_teacher(const json_t *one, size_t kept)
{
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    struct teacher_plan teacher;
    struct model_options options = { .plan = &teacher.plan, .config = &teacher.config };
    double loss = json_number_value(json_array_get(json_object_get(one, "losses"), 0));
    const json_t *norms = json_object_get(one, "norms");
    double wanted = 0, is;
    struct error err = { 0 };
    struct model *other;
    const char *name;
    json_t *each;

    json_object_foreach((json_t *)norms, name, each) wanted +=
        json_number_value(each) * json_number_value(each);
    u.plan.stage = STAGE_DISTILL;
    u.plan.kd = (struct distillation) { .teacher = dir,
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
    model_teach(u.model, other);
    is = unit_train(&u, &batch);
    name = json_string_value(json_object_get(one, "name"));
    unit_near(name, is, loss / 2, 1e-5);
    unit_near(name, unit_norm(&u), sqrt(wanted) / 2, 1e-4);
    model_free(other);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

static void test_architectures_learn_nothing_of_themselves(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        check_own_teacher(json_array_get(cases, i), 0);
        check_own_teacher(json_array_get(cases, i), 40);
    }
}

static int setup(void **state)
{
    char *path = unit_source("tests/golden/architectures.json");
    struct error err = { 0 };
    const json_t *runs;

    (void)state;
    golden = json_read_file(path, (size_t)4 << 20, &err);
    unit_must(golden != NULL, &err);
    runs = json_object_get(golden, "batch");
    for (size_t i = 0; i < json_array_size(runs); i++)
        unit_batch_json(&batch, json_array_get(runs, i));
    free(path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unit_batch_free(&batch);
    json_decref(golden);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_architectures_agree_with_transformers),
        cmocka_unit_test(test_architectures_agree_when_blocks_are_computed_again),
        cmocka_unit_test(test_architectures_adapters_agree_with_peft),
        cmocka_unit_test(test_architectures_merge_adapters),
        cmocka_unit_test(test_architectures_read_bare_files),
        cmocka_unit_test(test_architectures_begin_as_in_transformers),
        cmocka_unit_test(test_architectures_in_16_bits_stay_in_their_band),
        cmocka_unit_test(test_architectures_grow_by_a_token),
        cmocka_unit_test(test_architectures_learn_nothing_of_themselves),
        cmocka_unit_test(test_architectures_refuse_places_they_have_not_learned),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
