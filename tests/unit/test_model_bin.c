/* tests/unit/test_model_bin.c - a model and its adapter in files of torch.save give the
 * logits that their safetensors give. */
#include "config.h"

#include <unistd.h>

#include "tests/unit/unit_model.h"
#include "tests/unit/unit_tokenizer.h"
#include "train/files/safetensors.h"
#include "train/files/torch_file.h"
#include "train/model/adapter_check.h"
#include "train/model/weights.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 50, \"hidden_size\": 32,"
    "\"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
    "\"num_key_value_heads\": 2, \"initializer_range\": 0.2}";
static struct batch batch;

static void start(struct unit_model *u)
{
    unit_model_start(u, batch.rows, batch.sequences, 1);
}

static float *logits_of(struct unit_model *u)
{
    float *out = memory_alloc(batch.sequences * u->config.vocab_size * sizeof(*out));
    struct error err = { 0 };

    unit_must(model_logits(u->model, &batch, out, &err), &err);
    return out;
}

/* Make a folder with a random model. */
static char *base_new(void)
{
    struct unit_model u = unit_model_text(llama, unit_plan(NULL));
    char *dir = unit_dir_new();
    struct error err = { 0 };

    u.plan.train_from_scratch = true;
    u.plan.seed = 1;
    u.plan.model_name_or_path = dir;
    unit_write_string(dir, "tokenizer.json", "{}");
    start(&u);
    unit_must(model_save(u.model, dir, &err), &err);
    unit_model_stop(&u);
    return dir;
}

static struct unit_model open_lora(const char *dir)
{
    struct unit_model u = { .arena = arena_new(), .plan = unit_plan(dir) };
    struct error err = { 0 };

    unit_must(model_config_read(dir, u.arena, &u.config, &err), &err);
    u.plan.method = METHOD_LORA;
    u.plan.learning_rate = 1e-2;
    return u;
}

static bool read_stored(const void *context, size_t index, void *to, struct error *err)
{
    const struct stored_tensor *t = context;

    (void)index, (void)err;
    memcpy(to, t->data, t->bytes);
    return true;
}

/* Replace the safetensors of a folder by a file of torch.save. */
static void save_as_torch(const char *dir, const char *stem, const char *base)
{
    char *name = path_join(dir, base);
    struct torch_file *file = torch_file_new();
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(dir, stem, false, &err);

    unit_must(set != NULL, &err);
    pickle_open(torch_file_pickle(file), PICKLE_DICT);
    for (size_t i = 0; i < safetensors_count(set); i++) {
        const struct stored_tensor *t = safetensors_at(set, i);
        struct tensor_source source = {
            .format = t->format, .rank = t->rank, .read = read_stored, .context = t
        };

        memcpy(source.shape, t->shape, t->rank * sizeof(*t->shape));
        pickle_text(torch_file_pickle(file), t->name);
        torch_file_add_tensor(file, &source);
    }
    pickle_close(torch_file_pickle(file), PICKLE_DICT);
    unit_must(torch_file_write(file, name, &err), &err);
    torch_file_free(file);
    safetensors_close(set);
    free(name);
    name = path_join(dir, strcmp(stem, "model") == 0 ? "model.safetensors"
                                                     : "adapter_model.safetensors");
    assert_int_equal(unlink(name), 0);
    free(name);
}

/* A base and its adapter give the same logits from files of torch.save. */
static void test_model_loads_files_of_torch(void **state)
{
    char *dir = base_new(), *adapter = unit_dir_new();
    struct error err = { 0 };
    struct unit_model u;
    float *before, *after;

    (void)state;
    unit_batch_random(&batch, 11, 50, 1);
    unit_batch_random(&batch, 7, 50, 2);
    u = open_lora(dir);
    start(&u);
    unit_train(&u, &batch);
    unit_step(&u, 1);
    before = logits_of(&u);
    unit_must(model_save(u.model, adapter, &err), &err);
    unit_model_stop(&u);
    save_as_torch(dir, "model", "pytorch_model.bin");
    save_as_torch(adapter, "adapter_model", "adapter_model.bin");
    u = open_lora(dir);
    u.plan.adapter_name_or_path = adapter;
    unit_must(weights_check(dir, &u.config, &err), &err);
    unit_must(adapter_check(adapter, &u.config, &err), &err);
    start(&u);
    after = logits_of(&u);
    assert_memory_equal(before, after, 2 * 50 * sizeof(float));
    unit_model_stop(&u);
    free(before);
    free(after);
    unit_batch_free(&batch);
    unit_dir_free(dir);
    unit_dir_free(adapter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_loads_files_of_torch),
    };

    return cmocka_run_group_tests_name("model_bin", tests, NULL, NULL);
}
