/*
 * tests/unit/unit_media_run.h - runs of models with rows of features, and their comparison with
 * transformers.
 */
#ifndef TESTS_UNIT_UNIT_MEDIA_RUN_H
#define TESTS_UNIT_UNIT_MEDIA_RUN_H

#define GOLDEN_FILE "tests/golden/multimodal.json"
#include "tests/unit/unit_media.h"
#include "train/model/model_internal.h"
#include "train/model/model_stored.h"

static json_t *rows_golden;

/* A case with its model's folder, batch and features. */
struct run {
    const json_t *one;
    char *dir, *adapter;
    struct unit_media media;
    struct batch batch;
    struct unit_model u;
};

static inline const json_t *rows_case(const char *list, const char *name)
{
    const json_t *cases = json_object_get(rows_golden, list);

    for (size_t i = 0; i < json_array_size(cases); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(cases, i), "name")),
                   name) == 0)
            return json_array_get(cases, i);
    fail_msg("no %s", name);
    return NULL;
}

static inline void open_run(struct run *r, const json_t *one)
{
    const char *base = json_string_value(json_object_get(one, "base"));

    *r = (struct run) { .one = one, .dir = folder_of(find_case("models", base), NULL) };
    r->u = open_folder(r->dir);
    r->u.plan.learning_rate = real(rows_golden, "lr");
    r->u.plan.weight_decay = real(rows_golden, "weight_decay");
    r->u.plan.freeze_multi_modal_projector = !json_object_get(one, "encoder");
    unit_media_join(one, &r->u);
    unit_media_batch(one, r->u.config.hidden_size, &r->media, &r->batch);
    r->u.media_rows = r->media.rows;
    r->u.media = &r->media.source;
    if (!json_object_get(one, "tensors"))
        return;
    r->adapter = unit_dir_new();
    put_json(json_object_get(one, "config"), r->adapter, "adapter_config.json");
    put_tensors(one, r->adapter, "adapter_model.safetensors", NULL);
    r->u.plan.method = METHOD_LORA;
    r->u.plan.adapter_name_or_path = r->adapter;
}

static inline void start_run(struct run *r, int threads)
{
    unit_model_start(&r->u, r->batch.rows, r->batch.sequences, threads);
}

static inline void close_run(struct run *r)
{
    unit_model_stop(&r->u);
    unit_media_free(&r->media);
    unit_batch_free(&r->batch);
    unit_dir_free(r->dir);
    if (r->adapter)
        unit_dir_free(r->adapter);
}

static inline const char *name_of(const struct run *r)
{
    return json_string_value(json_object_get(r->one, "name"));
}

static inline void check_logits(struct run *r)
{
    size_t vocabulary = r->u.config.vocab_size;
    float *logits = memory_alloc(r->batch.sequences * vocabulary * sizeof(*logits));
    struct error err = { 0 };

    unit_must(model_logits(r->u.model, &r->batch, logits, &err), &err);
    for (size_t i = 0; i < r->batch.sequences; i++)
        for (size_t v = 0; v < vocabulary; v++) {
            const json_t *of = json_array_get(json_object_get(r->one, "logits"), i);
            double is = logits[i * vocabulary + v];
            double want = json_number_value(json_array_get(of, v));

            if (!(fabs(is - want) <= 1e-5 * (1 + fabs(want))))
                fail_msg("%s: logit %zu of sequence %zu is %.8g, expected %.8g",
                         name_of(r), v, i, is, want);
        }
    free(logits);
}

/* The projection of a gradient, as files store the parameter, on a vector that the script
 * makes of the name. */
static inline double projection(const struct model *m, const struct parameter *p)
{
    const size_t count = p->rows * p->cols;
    char *of = memory_alloc(strlen(p->name) + 8);
    float *g = memory_alloc(count * sizeof(*g));
    struct error err = { 0 };
    double sum = 0;

    sprintf(of, "probe.%s", p->name);
    memcpy(g, p->grad.data, count * sizeof(*g));
    unit_must(model_rows_to_stored(m, p, FORMAT_FP32, g, &err), &err);
    for (size_t i = 0; i < count; i++)
        sum += g[i] * (double)(float)(0.35 * hashed(of, i));
    free(of);
    free(g);
    return sum;
}

/* Norms and projections of all gradients; the latter within a fraction of the norm. */
static inline void check_gradients(struct run *r)
{
    const json_t *probes = json_object_get(r->one, "probes");
    double most = 0;
    json_t *probe;
    const char *name;

    assert_int_equal(model_trained_parameters(r->u.model), json_object_size(probes));
    json_object_foreach((json_t *)probes, name, probe) most =
        fmax(most, json_number_value(json_array_get(probe, 0)));
    json_object_foreach((json_t *)probes, name, probe)
    {
        const struct parameter *p = unit_parameter(&r->u, name);
        double norm = json_number_value(json_array_get(probe, 0));
        double along = json_number_value(json_array_get(probe, 1));

        if (!p || !p->trainable)
            fail_msg("%s: %s is not trained", name_of(r), name);
        if (!(fabs(norm_of(p->grad) - norm) <= 1e-4 * norm + 1e-7 * most))
            fail_msg("%s: the gradient of %s has the norm %.8g, expected %.8g",
                     name_of(r), name, norm_of(p->grad), norm);
        if (!(fabs(projection(r->u.model, p) - along) <= 1e-4 * norm + 1e-7 * most))
            fail_msg("%s: the projection of %s is %.8g, expected %.8g", name_of(r), name,
                     projection(r->u.model, p), along);
    }
}

/* Thirty steps; the losses before each. */
static inline void check_steps(struct run *r)
{
    const json_t *losses = json_object_get(r->one, "losses");

    assert_int_equal(json_array_size(losses), 30);
    for (size_t i = 0; i < json_array_size(losses); i++) {
        double expected = json_number_value(json_array_get(losses, i));

        unit_assert_near(name_of(r), unit_train(&r->u, &r->batch), expected,
                         i == 0 ? 1e-5 : 1e-3);
        if (i == 0)
            check_gradients(r);
        unit_step(&r->u, (int64_t)i + 1);
    }
}

static inline void check_case(const json_t *one, bool checkpointing)
{
    struct run r;

    open_run(&r, one);
    r.u.plan.gradient_checkpointing = checkpointing;
    start_run(&r, 1);
    check_logits(&r);
    check_steps(&r);
    close_run(&r);
}

static inline int media_setup(void **state, const char *file)
{
    char *path = unit_source(file);
    struct error err = { 0 };

    rows_golden = json_read_file(path, (size_t)1 << 20, &err);
    unit_must(rows_golden != NULL, &err);
    free(path);
    return architectures_setup(state);
}

static inline int media_teardown(void **state)
{
    json_decref(rows_golden);
    return architectures_teardown(state);
}

#endif
