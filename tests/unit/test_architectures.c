/* tests/unit/test_architectures.c - compares tiny models of every architecture, and
 * adapters on them, with transformers and PEFT. */
#include "config.h"

#include "tests/unit/unit_architectures.h"

#include <unistd.h>

#include "train/model/weights.h"

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

/* Check the norm of every gradient, and that there are no other parameters.  A bias of
 * keys that are not rotated adds the same to all scores of a row, so its gradient is only
 * the rounding of zero. */
static void check_gradients(struct unit_model *u, const json_t *one)
{
    json_t *norms = json_object_get(one, "norms"), *norm;
    size_t trained = 0;
    double nothing = 0;
    const char *name;

    json_object_foreach(norms, name, norm)
    {
        nothing = fmax(nothing, 1e-7 * json_number_value(norm));
    }
    for (size_t i = 0; i < model_parameters(u->model); i++) {
        const struct parameter *p = model_parameter(u->model, i);
        const json_t *expected = json_object_get(norms, p->name);

        if (!p->trainable)
            continue;
        if (!expected)
            fail_msg("%s has no reference gradient", p->name);
        if (json_number_value(expected) < nothing)
            assert_true(norm_of(p->grad) < nothing);
        else
            unit_assert_near(p->name, norm_of(p->grad), json_number_value(expected),
                             5e-5);
        trained++;
    }
    assert_int_equal(trained, json_object_size(norms));
}

/* Ten steps; the losses before each. */
static void check_steps(struct unit_model *u, const json_t *one)
{
    const json_t *losses = json_object_get(one, "losses");

    for (size_t i = 0; i < json_array_size(losses); i++) {
        double expected = json_number_value(json_array_get(losses, i));

        unit_assert_near(json_string_value(json_object_get(one, "name")),
                         unit_train(u, &batch), expected, i == 0 ? 2e-6 : 2e-4);
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
        bool decays = p->trainable;

        for (size_t j = 0; j < json_array_size(undecayed); j++)
            decays = decays && strcmp(json_string_value(json_array_get(undecayed, j)),
                                      p->name) != 0;
        assert_true(p->decays == decays);
    }
}

/* The keys of `norms` are in the order of named_parameters(). */
static void check_order(struct unit_model *u, const json_t *one)
{
    json_t *norms = json_object_get(one, "norms"), *norm;
    size_t *order = memory_alloc(json_object_size(norms) * sizeof(*order)), at = 0;
    const char *name;

    assert_int_equal(model_trained_parameters(u->model), json_object_size(norms));
    model_torch_order(u->model, order);
    json_object_foreach(norms, name, norm)
        assert_string_equal(model_parameter(u->model, order[at++])->name, name);
    free(order);
}

/* Check the names and shapes that transformers writes, and the values that were
 * loaded. */
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
        float *expected = memory_alloc(t->bytes);

        if (!shape || json_array_size(shape) != t->rank)
            fail_msg("%s is not a tensor that transformers writes", t->name);
        for (size_t j = 0; j < t->rank; j++)
            assert_int_equal(t->shape[j], shape_of(shape, j));
        read_made(&made, 0, expected, &err);
        assert_memory_equal(expected, t->data, t->bytes);
        free(expected);
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
    check_order(&u, one);
    check_logits(&u, one);
    check_steps(&u, one);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

static void test_architectures_match_transformers(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_model(json_string_value(json_object_get(json_array_get(cases, i), "name")),
                    false);
}

static void test_architectures_match_with_checkpointing(void **state)
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
    check_order(&u, one);
    check_logits(&u, one);
    check_steps(&u, one);
    unit_model_stop(&u);
    unit_dir_free(dir);
    unit_dir_free(adapter);
}

static void test_architectures_adapters_match_peft(void **state)
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
        /* next to it, an adapter that has learned nothing yet */
        u.plan.create_new_adapter = true;
        start(&u);
        check_logits(&u, one);
        unit_model_stop(&u);
        unit_dir_free(dir);
        unit_dir_free(adapter);
        unit_dir_free(merged);
    }
}

/* Files of the model without its head, as GPT-2 was published, including masks. */
static void test_architectures_read_bare_files(void **state)
{
    static const struct {
        const char *name, *base;
    } cases[] = { { "gpt2", "transformer." },
                  { "gpt_neo", "transformer." },
                  { "gpt_neox", "gpt_neox." },
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

/* A job's coefficient turns the load balancing loss on, as config.json does; the loss of an
 * evaluation includes it, too. */
static void test_architectures_balance_as_the_job_says(void **state)
{
    const json_t *one = find_case("models", "mixtral-balanced");
    json_t *config = json_deep_copy(json_object_get(one, "config"));
    double coefficient = real(config, "router_aux_loss_coef"), loss;
    char *dir = folder_of(one, NULL);
    struct unit_model u;

    (void)state;
    batch.weight = (double)batch.trained;
    json_object_set_new(config, "output_router_logits", json_false());
    put_json(config, dir, "config.json");
    loss = json_number_value(json_array_get(json_object_get(one, "losses"), 0));
    u = open_folder(dir);
    start(&u);
    assert_true(unit_loss(&u, &batch) < loss - 0.1);
    unit_model_stop(&u);
    u = open_folder(dir);
    u.plan.moe_aux_loss_coef = coefficient;
    start(&u);
    unit_assert_near("evaluation", unit_loss(&u, &batch), loss, 2e-6);
    check_steps(&u, one);
    unit_model_stop(&u);
    json_decref(config);
    unit_dir_free(dir);
}

/* ---- The matrices of all experts in one tensor, as transformers 5 has them ---- */

enum { JOINED_EXPERTS = 6, JOINED_MAX = 64 };

/* One tensor of a file that is joined from the matrices in another. */
struct joined {
    const struct safetensors *from;
    const char *stem, *parts[2]; /* the second may be NULL */
};

static const struct stored_tensor *part_of(const struct joined *j, size_t expert,
                                           size_t part)
{
    const struct stored_tensor *t;
    struct text name;

    text_init(&name, 0);
    text_addf(&name, "%s.%zu.%s.weight", j->stem, expert, j->parts[part]);
    t = safetensors_find(j->from, name.data);
    text_clear(&name);
    assert_non_null(t);
    return t;
}

static bool read_joined(const void *context, size_t experts, void *to, struct error *err)
{
    const struct joined *j = context;
    char *out = to;

    (void)err;
    for (size_t i = 0; i < experts; i++)
        for (size_t k = 0; k < 2 && j->parts[k]; k++) {
            const struct stored_tensor *t = part_of(j, i, k);

            memcpy(out, t->data, t->bytes);
            out += t->bytes;
        }
    return true;
}

static bool read_stored(const void *context, size_t index, void *to, struct error *err)
{
    const struct stored_tensor *t = safetensors_at(context, index);

    (void)err;
    memcpy(to, t->data, t->bytes);
    return true;
}

static struct tensor_source joined_source(struct arena *arena, const struct joined *j,
                                          const char *leaf, size_t experts)
{
    struct joined *kept = arena_alloc(arena, sizeof(*kept));
    const struct stored_tensor *first = part_of(j, 0, 0);

    *kept = *j;
    return (struct tensor_source) {
        .name = arena_printf(arena, "%s.%s", j->stem, leaf),
        .format = FORMAT_FP32,
        .rank = 3,
        .shape = { experts, first->shape[0] * (j->parts[1] ? 2 : 1), first->shape[1] },
        .read = read_joined,
        .context = kept,
        .index = experts
    };
}

/* Replace the file of a folder by one with joined tensors, of the first `experts`. */
static void join_experts(const char *dir, size_t layers, size_t experts)
{
    struct tensor_source sources[JOINED_MAX];
    struct arena *arena = arena_new();
    char *path = path_join(dir, "model.safetensors");
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(dir, "model", false, &err);
    size_t count = 0;

    unit_must(set != NULL, &err);
    for (size_t i = 0; i < safetensors_count(set); i++) {
        const struct stored_tensor *t = safetensors_at(set, i);

        if (strstr(t->name, ".experts."))
            continue;
        sources[count] = (struct tensor_source) { .name = t->name,
                                                  .format = t->format,
                                                  .rank = t->rank,
                                                  .read = read_stored,
                                                  .context = set,
                                                  .index = i };
        memcpy(sources[count++].shape, t->shape, t->rank * sizeof(*t->shape));
    }
    for (size_t l = 0; l < layers; l++) {
        const char *stem = arena_printf(arena, "model.layers.%zu.mlp.experts", l);
        const struct joined up = { set, stem, { "gate_proj", "up_proj" } };
        const struct joined down = { set, stem, { "down_proj", NULL } };

        sources[count++] = joined_source(arena, &up, "gate_up_proj", experts);
        sources[count++] = joined_source(arena, &down, "down_proj", experts);
    }
    unlink(path); /* the set keeps it mapped */
    unit_must(safetensors_write(path, sources, count, &err), &err);
    safetensors_close(set);
    arena_free(arena);
    free(path);
}

static void assert_same_tensors(const char *dir, const char *other)
{
    struct error err = { 0 };
    struct safetensors *a = safetensors_open(dir, "model", false, &err),
                       *b = safetensors_open(other, "model", false, &err);

    unit_must(a && b, &err);
    assert_int_equal(safetensors_count(a), safetensors_count(b));
    for (size_t i = 0; i < safetensors_count(a); i++) {
        const struct stored_tensor *t = safetensors_at(a, i);
        const struct stored_tensor *found = safetensors_find(b, t->name);

        assert_true(found && found->rank == t->rank && found->bytes == t->bytes);
        assert_memory_equal(found->shape, t->shape, t->rank * sizeof(*t->shape));
        assert_memory_equal(found->data, t->data, t->bytes);
    }
    safetensors_close(a);
    safetensors_close(b);
}

/* Return a copy of a case whose files have one more tensor, of 3 rows. */
static json_t *with_tensor(const char *name, const char *tensor)
{
    json_t *one = json_deep_copy(find_case("models", name));

    json_object_set_new(json_object_get(one, "tensors"), tensor,
                        json_pack("[i, i]", 3, 5));
    return one;
}

/* Published files have keys and values of layers that use those of others. */
static void test_architectures_drop_keys_that_no_layer_reads(void **state)
{
    json_t *one = with_tensor("towers-gemma4_e",
                              "model.language_model.layers.3.self_attn.k_proj.weight");
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);

    (void)state;
    start(&u);
    check_saved(&u, find_case("models", "towers-gemma4_e"), "model");
    unit_model_stop(&u);
    unit_dir_free(dir);
    json_decref(one);
}

/* The block after the last one, which predicts a further token, stays in the folder; any
 * other is an error. */
static void test_architectures_keep_the_block_that_predicts(void **state)
{
    json_t *one = with_tensor("glm4_moe", "model.layers.3.eh_proj.weight");
    json_t *other = with_tensor("glm4_moe", "model.layers.4.eh_proj.weight");
    char *dir = folder_of(one, NULL), *wrong = folder_of(other, NULL);
    struct unit_model u = open_folder(dir);
    struct error err = { 0 };

    (void)state;
    start(&u);
    check_saved(&u, one, "model");
    check_logits(&u, one);
    unit_model_stop(&u);
    u = open_folder(wrong);
    unit_model_open_backend(&u, 1);
    unit_model_make(&u, batch.rows, batch.sequences);
    assert_false(model_load(u.model, &err));
    assert_non_null(strstr(err.text, "model.layers.4.eh_proj.weight is not part of"));
    unit_model_stop(&u);
    json_decref(one);
    json_decref(other);
    unit_dir_free(dir);
    unit_dir_free(wrong);
}

/* Its experts, of any number, may be in one tensor, where those of the model are not. */
static void test_architectures_keep_joined_experts_of_that_block(void **state)
{
    static const char name[] = "model.layers.3.mlp.experts.gate_up_proj";
    static const size_t experts[] = { 8, 2 };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        json_t *one = with_tensor("glm4_moe", name);
        char *dir;
        struct unit_model u;
        struct error err = { 0 };

        json_object_set_new(json_object_get(one, "tensors"), name,
                            json_pack("[i, i, i]", (int)experts[i], 40, 24));
        dir = folder_of(one, NULL);
        u = open_folder(dir);
        unit_must(weights_check(dir, &u.config, &err), &err);
        start(&u);
        check_saved(&u, one, "model");
        check_logits(&u, one);
        unit_model_stop(&u);
        json_decref(one);
        unit_dir_free(dir);
    }
}

/* transformers keeps it in fp32, whatever the dtype of the weights. */
static void test_architectures_keep_the_correction_of_routers_in_fp32(void **state)
{
    static const char name[] = "model.layers.1.mlp.gate.e_score_correction_bias";
    char *dir = folder_of(find_case("models", "glm4_moe"), NULL), *to = unit_dir_new();
    struct unit_model u = open_folder(dir);
    const struct stored_tensor *t, *router;
    struct safetensors *set;
    struct error err = { 0 };

    (void)state;
    u.plan.method = METHOD_LORA;
    u.plan.infer_dtype = INFER_BFLOAT16;
    u.plan.export_dir = to;
    start(&u);
    unit_must(model_export(u.model, to, &err), &err);
    unit_model_stop(&u);
    set = safetensors_open(to, "model", false, &err);
    unit_must(set != NULL, &err);
    t = safetensors_find(set, name);
    router = safetensors_find(set, "model.layers.1.mlp.gate.weight");
    assert_true(t && router);
    assert_int_equal(router->format, FORMAT_BF16);
    assert_int_equal(t->format, FORMAT_FP32);
    safetensors_close(set);
    unit_dir_free(dir);
    unit_dir_free(to);
}

/* They are read, and saved, in the form of the files. */
static void test_architectures_read_joined_experts(void **state)
{
    const json_t *one = find_case("models", "qwen3_moe");
    char *dir = folder_of(one, NULL), *saved = unit_dir_new();
    struct unit_model u;
    struct error err = { 0 };

    (void)state;
    join_experts(dir, 2, JOINED_EXPERTS);
    u = open_folder(dir);
    unit_must(weights_check(dir, &u.config, &err), &err);
    start(&u);
    check_logits(&u, one);
    unit_must(model_save(u.model, saved, &err), &err);
    assert_same_tensors(dir, saved);
    check_steps(&u, one);
    unit_model_stop(&u);
    unit_dir_free(dir);
    unit_dir_free(saved);
}

static void test_architectures_reject_joined_experts_of_others(void **state)
{
    char *dir = folder_of(find_case("models", "qwen3_moe"), NULL);
    struct unit_model u;
    struct error err = { 0 };

    (void)state;
    join_experts(dir, 2, JOINED_EXPERTS - 1);
    u = open_folder(dir);
    assert_false(weights_check(dir, &u.config, &err));
    assert_non_null(strstr(err.text, "config.json requires [6, "));
    arena_free(u.arena);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_architectures_match_transformers),
        cmocka_unit_test(test_architectures_match_with_checkpointing),
        cmocka_unit_test(test_architectures_adapters_match_peft),
        cmocka_unit_test(test_architectures_merge_adapters),
        cmocka_unit_test(test_architectures_drop_keys_that_no_layer_reads),
        cmocka_unit_test(test_architectures_read_bare_files),
        cmocka_unit_test(test_architectures_balance_as_the_job_says),
        cmocka_unit_test(test_architectures_keep_the_block_that_predicts),
        cmocka_unit_test(test_architectures_keep_joined_experts_of_that_block),
        cmocka_unit_test(test_architectures_keep_the_correction_of_routers_in_fp32),
        cmocka_unit_test(test_architectures_read_joined_experts),
        cmocka_unit_test(test_architectures_reject_joined_experts_of_others),
    };

    return cmocka_run_group_tests(tests, architectures_setup_all, architectures_teardown);
}
