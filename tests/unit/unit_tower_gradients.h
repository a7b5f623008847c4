/*
 * tests/unit/unit_tower_gradients.h - gradients of the tiny encoders of unit_tower.h, compared
 * with transformers' (tests/golden/tower_gradients.py).
 */
#ifndef TESTS_UNIT_UNIT_TOWER_GRADIENTS_H
#define TESTS_UNIT_UNIT_TOWER_GRADIENTS_H

#include "tests/unit/unit_tower.h"

#ifndef GOLDEN_GRADIENTS
#define GOLDEN_GRADIENTS "tests/golden/tower_gradients.safetensors"
#endif

/* Differences of small gradients are compared with this part of the largest of the model. */
#define UNIT_TOWER_SMALL 1e-2
/* Below this part of it a gradient is zero but for rounding, as that of the keys' bias is.  Then
 * the measure is the gradient of the queries, whose terms have about the same size. */
#define UNIT_TOWER_ZERO 1e-6

enum { UNIT_TOWER_SAMPLES = 24 };

static inline float *unit_tower_given(const struct unit_tower *u,
                                      const struct unit_tower_case *one, size_t item,
                                      const char *part, size_t count)
{
    const char *name = arena_printf(u->arena, "%s %zu %s", one->name, item, part);
    float *out = arena_array(u->arena, count, sizeof(*out));

    for (size_t i = 0; i < count; i++)
        out[i] = (float)hashed(name, i);
    return out;
}

static inline void unit_tower_pass_back(const struct unit_tower *u,
                                        const struct unit_tower_case *one, size_t item)
{
    struct media_input in = unit_tower_input(u, one, item);
    struct tower_row_gradients given = { 0 };
    struct tower_output out;
    struct error err = { 0 };

    unit_tower_must(tower_run(u->tower, &in, &out, &err), &err);
    given.rows = unit_tower_given(u, one, item, "read", out.count * out.width);
    for (size_t i = 0; i < out.deep; i++)
        given.deep_rows[i] =
            unit_tower_given(u, one, item, arena_printf(u->arena, "deep%zu", i),
                             out.count * out.deep_width);
    tower_output_clear(&out);
    unit_tower_must(tower_backward(u->tower, &in, &given, &err), &err);
    free(in.values);
    free(in.heard);
}

/* Return the gradient of a parameter. */
static inline float *unit_tower_gradient(const struct unit_tower *u, size_t index)
{
    const struct tensor t = tower_gradient(u->tower, index);
    float *out = arena_array(u->arena, t.rows * t.cols, sizeof(*out));
    struct error err = { 0 };

    u->be->ops->download(u->be, out, t.data, tensor_bytes(t));
    unit_tower_must(u->be->ops->sync(u->be, &err), &err);
    return out;
}

static inline const struct stored_tensor *
unit_tower_golden(const struct unit_tower *u, const struct safetensors *results,
                  const struct unit_tower_case *one, const struct tower_parameter *p,
                  size_t part)
{
    const struct stored_tensor *found = NULL;
    struct text name;

    text_init(&name, 0);
    text_addf(&name, "%s.", one->name);
    if (tower_parameter_name(tower_config_of(u->tower), p, part, &name))
        found = safetensors_find(results, name.data);
    text_clear(&name);
    return found;
}

static inline double unit_tower_largest(const struct stored_tensor *t)
{
    const float *x = t->data;
    double out = 0;

    for (size_t i = 1; i < t->shape[0]; i++)
        out = fmax(out, fabs((double)x[i]));
    return out;
}

/* Compare the norm, and the elements that the file has. */
static inline void unit_tower_compare_gradient(const struct unit_tower_case *one,
                                               const struct stored_tensor *want,
                                               const float *got, size_t count,
                                               double least, double close)
{
    const float *expected = want->data;
    const double scale = fmax(unit_tower_largest(want), least);
    double norm = 0, far = 0;

    assert_int_equal(want->shape[0],
                     1 + (count < UNIT_TOWER_SAMPLES ? count : UNIT_TOWER_SAMPLES));
    for (size_t i = 0; i < count; i++)
        norm += (double)got[i] * got[i];
    for (size_t k = 0; k + 1 < want->shape[0]; k++) {
        const size_t at =
            count <= UNIT_TOWER_SAMPLES
                ? k
                : k * count / UNIT_TOWER_SAMPLES + k * 7 % (count / UNIT_TOWER_SAMPLES);

        far = fmax(far, fabs((double)got[at] - expected[k + 1]));
    }
    if (!(far <= close * scale))
        fail_msg("%s, %s: %g of %g", one->name, want->name, far, scale);
    if (!(fabs(sqrt(norm) - expected[0]) <=
          close * fmax(expected[0], least * sqrt((double)count))))
        fail_msg("%s, %s: norm %g, not %g", one->name, want->name, sqrt(norm),
                 (double)expected[0]);
}

/* Return the least scale of a part's differences. */
static inline double unit_tower_least(const struct unit_tower *u,
                                      const struct safetensors *results,
                                      const struct unit_tower_case *one,
                                      const struct tower_parameter *p, size_t part,
                                      double largest)
{
    const struct stored_tensor *want = unit_tower_golden(u, results, one, p, part);
    const struct stored_tensor *queries = unit_tower_golden(u, results, one, p, 0);

    if (p->parts == 3 && part == 1 &&
        unit_tower_largest(want) <= UNIT_TOWER_ZERO * largest)
        return fmax(UNIT_TOWER_SMALL * largest, unit_tower_largest(queries));
    return UNIT_TOWER_SMALL * largest;
}

/* Return how many tensors were compared. */
static inline size_t unit_tower_compare_all(const struct unit_tower *u,
                                            const struct safetensors *results,
                                            const struct unit_tower_case *one,
                                            double close)
{
    const struct tower_parameters *list = tower_parameters_of(u->tower);
    double largest = 0;
    size_t compared = 0;

    for (size_t i = 0; i < list->count; i++)
        for (size_t part = 0; part < list->list[i].parts; part++) {
            const struct stored_tensor *want =
                unit_tower_golden(u, results, one, &list->list[i], part);

            largest = want ? fmax(largest, unit_tower_largest(want)) : largest;
        }
    for (size_t i = 0; i < list->count; i++) {
        const struct tower_parameter *p = &list->list[i];
        const size_t count = p->rows * p->cols / p->parts;
        const float *got =
            tower_gradient(u->tower, i).data ? unit_tower_gradient(u, i) : NULL;

        for (size_t part = 0; part < p->parts; part++) {
            const struct stored_tensor *want =
                unit_tower_golden(u, results, one, p, part);

            if (!want)
                continue;
            assert_non_null(got);
            unit_tower_compare_gradient(
                one, want, got + part * count, count,
                unit_tower_least(u, results, one, p, part, largest), close);
            compared++;
        }
    }
    return compared;
}

static inline struct safetensors *unit_tower_open_gradients(void)
{
    char *path = unit_source(GOLDEN_GRADIENTS);
    struct error err = { 0 };
    struct safetensors *results = safetensors_open(path, "model", false, &err);

    unit_tower_must(results != NULL, &err);
    free(path);
    return results;
}

static inline size_t unit_tower_count(const struct safetensors *results,
                                      const char *model)
{
    char prefix[64];
    size_t count = 0;

    snprintf(prefix, sizeof(prefix), "%s.", model);
    for (size_t i = 0; i < safetensors_count(results); i++)
        count += text_starts(safetensors_at(results, i)->name, prefix);
    return count;
}

/* Encoders that have scales, or a norm before positions are not trained. */
static inline bool unit_tower_trains(const struct unit_tower_case *one)
{
    return strcmp(one->name, "glm4v") != 0 && strcmp(one->name, "gemma4_unified") != 0 &&
           strcmp(one->name, "llama4") != 0 && !text_starts(one->name, "internvl") &&
           !text_starts(one->name, "phi4");
}

/* Compute the gradients of a model for all its items, and compare all tensors. */
static inline void unit_tower_check_gradients(struct unit_tower *u,
                                              const struct unit_tower_case *one,
                                              const struct safetensors *results,
                                              enum format compute, double close)
{
    unit_tower_open(
        u, one,
        (struct tower_options) { .trains = true, .compute = compute, .frozen = compute });
    for (size_t k = 0; k < one->items; k++)
        unit_tower_pass_back(u, one, k);
    assert_int_equal(unit_tower_compare_all(u, results, one, close),
                     unit_tower_count(results, one->name));
    unit_tower_close(u);
}

#endif
