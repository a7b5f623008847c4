/*
 * tests/unit/unit_packed.h - folders of tiny models whose weights are in few bits: the bytes
 * of their tensors are in a golden file (tests/golden/fp8.py, mxfp4.py), with the logits.
 */
#ifndef TESTS_UNIT_UNIT_PACKED_H
#define TESTS_UNIT_UNIT_PACKED_H

#include "tests/unit/unit_architectures.h"

#include <sys/stat.h>

#include "train/model/weights.h"

/* Return the bytes that a string has in hexadecimal digits. */
static unsigned char *unhex(const json_t *text, size_t *count)
{
    const char *hex = json_string_value(text);
    unsigned char *out;

    *count = strlen(hex) / 2;
    out = memory_alloc(*count + 1);
    for (size_t i = 0; i < *count; i++) {
        unsigned byte;

        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (unsigned char)byte;
    }
    return out;
}

static bool read_bytes(const void *context, size_t index, void *to, struct error *err)
{
    size_t count;
    unsigned char *bytes = unhex(context, &count);

    (void)index;
    (void)err;
    memcpy(to, bytes, count);
    free(bytes);
    return true;
}

/* Change a source before it is written; returns whether it is. */
typedef bool (*edit)(struct tensor_source *source);

static void put_bytes(const json_t *one, const char *dir, const char *file, edit change)
{
    json_t *all = json_object_get(one, "bytes"), *tensor;
    struct tensor_source *sources =
        memory_alloc(json_object_size(all) * sizeof(*sources));
    char *path = path_join(dir, file);
    struct error err = { 0 };
    size_t count = 0;
    const char *name;

    json_object_foreach(all, name, tensor)
    {
        struct tensor_source *s = &sources[count];
        const json_t *shape = json_object_get(tensor, "shape");

        *s = (struct tensor_source) { .name = name,
                                      .dtype = json_string_value(
                                          json_object_get(tensor, "dtype")),
                                      .rank = json_array_size(shape),
                                      .read = read_bytes,
                                      .context = json_object_get(tensor, "hex") };
        for (size_t i = 0; i < s->rank; i++)
            s->shape[i] = shape_of(shape, i);
        count += !change || change(s);
    }
    unit_must(safetensors_write(path, sources, count, &err), &err);
    free(sources);
    free(path);
}

static void add_to_map(json_t *map, const char *dir, const char *file)
{
    char *path = path_join(dir, file);
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(path, NULL, true, &err);

    unit_must(set != NULL, &err);
    for (size_t i = 0; i < safetensors_count(set); i++)
        json_object_set_new(map, safetensors_at(set, i)->name, json_string(file));
    safetensors_close(set);
    free(path);
}

/* Write the folder of a case in two files, the bytes in the second. */
static char *packed_folder(const json_t *one, edit change)
{
    static const char *const files[] = { "model-00001-of-00002.safetensors",
                                         "model-00002-of-00002.safetensors" };
    char *dir = unit_dir_new();
    json_t *index = json_object(), *map = json_object();

    put_json(json_object_get(one, "config"), dir, "config.json");
    put_tensors(one, dir, files[0], NULL);
    put_bytes(one, dir, files[1], change);
    add_to_map(map, dir, files[0]);
    add_to_map(map, dir, files[1]);
    json_object_set_new(index, "weight_map", map);
    put_json(index, dir, "model.safetensors.index.json");
    json_decref(index);
    return dir;
}

static void check_logits(struct unit_model *u, const json_t *one)
{
    size_t vocabulary = u->config.vocab_size;
    float *logits = memory_alloc(batch.sequences * vocabulary * sizeof(*logits));
    struct error err = { 0 };

    unit_must(model_logits(u->model, &batch, logits, &err), &err);
    for (size_t i = 0; i < batch.sequences; i++)
        for (size_t v = 0; v < vocabulary; v++) {
            const json_t *row = json_array_get(json_object_get(one, "logits"), i);
            double expected = json_number_value(json_array_get(row, v));

            if (!(fabs((double)logits[i * vocabulary + v] - expected) <=
                  CLOSE * (1 + fabs(expected))))
                fail_msg("%s: logit %zu of sequence %zu is %.8g, expected %.8g",
                         json_string_value(json_object_get(one, "name")), v, i,
                         (double)logits[i * vocabulary + v], expected);
        }
    free(logits);
}

static bool is_quantized(const char *dir)
{
    char *path = path_join(dir, "config.json");
    struct error err = { 0 };
    json_t *root = json_read_file(path, (size_t)1 << 20, &err);
    bool found;

    unit_must(root != NULL, &err);
    found = json_object_get(root, "quantization_config") != NULL;
    json_decref(root);
    free(path);
    return found;
}

static double loss_of(const json_t *one)
{
    return json_number_value(json_array_get(json_object_get(one, "losses"), 0));
}

static struct unit_model open_adapter(const char *dir)
{
    struct unit_model u = open_folder(dir);

    u.plan.method = METHOD_LORA;
    u.plan.lora_target = "all";
    u.plan.lora_rank = 2;
    u.plan.lora_alpha = 4;
    return u;
}

/* Its logits and loss are those of the case, also of what is saved, which is not quantized. */
static void check_packed(const json_t *one)
{
    char *dir = packed_folder(one, NULL), *to = unit_dir_new();
    struct unit_model u = open_folder(dir);
    struct error err = { 0 };

    assert_true(u.config.packed.enabled && is_quantized(dir));
    assert_false(u.config.quantized.enabled);
    unit_must(weights_check(dir, &u.config, &err), &err);
    start(&u);
    check_logits(&u, one);
    unit_assert_near("loss", unit_train(&u, &batch), loss_of(one), 2e-6);
    unit_must(model_save(u.model, to, &err), &err);
    unit_model_stop(&u);
    assert_false(is_quantized(to));
    u = open_folder(to);
    assert_false(u.config.packed.enabled);
    start(&u);
    check_logits(&u, one);
    unit_model_stop(&u);
    unit_dir_free(dir);
    unit_dir_free(to);
}

/* Start a model with an adapter, and return the files of its export in `to`. */
static struct safetensors *export_packed(struct unit_model *u, const json_t *one,
                                         const char *to)
{
    char *path = path_join(to, "out");
    struct error err = { 0 };
    struct safetensors *set;

    u->plan.export_dir = to;
    start(u);
    check_logits(u, one);
    assert_int_equal(mkdir(path, 0700), 0);
    unit_must(model_export(u->model, path, &err), &err);
    unit_model_stop(u);
    assert_false(is_quantized(path));
    set = safetensors_open(path, "model", false, &err);
    unit_must(set != NULL, &err);
    free(path);
    return set;
}

/* Codes of NF4 are made from the dequantized values: the loss is close to theirs, and falls. */
static void check_packed_in_nf4(const json_t *one)
{
    char *dir = packed_folder(one, NULL);
    struct unit_model u = open_adapter(dir);
    double first;

    u.plan.learning_rate = 0.01;
    u.plan.quantization_bit = 4;
    start(&u);
    first = unit_train(&u, &batch);
    unit_assert_near("loss", first, loss_of(one), 0.05);
    assert_true(first != loss_of(one));
    for (int64_t i = 1; i <= 5; i++) {
        unit_train(&u, &batch);
        unit_step(&u, i);
    }
    assert_true(unit_loss(&u, &batch) < first);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

#endif
