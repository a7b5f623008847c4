/* tests/unit/test_stage_choice.c - the stage that a job of several ranks gets. */
#include "config.h"

#include "patcher/patcher.h"

#include "base/arena.h"
#include "base/size.h"
#include "precision/device.h"
#include "tests/unit/unit.h"
#include "train/estimate.h"

#define MIB ((uint64_t)1 << 20)

static const char config[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 32000, \"hidden_size\": 512, "
    "\"intermediate_size\": 1376, \"num_hidden_layers\": 8, \"num_attention_heads\": 8, "
    "\"tie_word_embeddings\": false}";

static const char job[] =
    "model_name_or_path: .\ntrain_from_scratch: true\nstage: pt\n"
    "finetuning_type: full\nbf16: true\ncutoff_len: 1024\ndataset: text.txt\n"
    "per_device_train_batch_size: 8\ntrainspool: {device: cuda, ranks: 2}\n";

/* A card of this machine (`here`: its driver's context exists) or another. */
struct trial {
    char *name; /* of the job */
    bool here;
    const struct estimate_data *data;
};

static int64_t stage_in(const struct trial *trial, uint64_t memory)
{
    struct device device;
    struct patch_options options = { .job = trial->name,
                                     .device = &device,
                                     .data = trial->data };
    struct error err = { 0 };
    struct patch patch;
    int64_t stage;

    assert_true(device_find("A100", &device, &err));
    device.here = trial->here;
    device.memory = device.available = memory;
    if (!patcher_read_text(job, strlen(job), &options, &patch, &err))
        fail_msg("%s", err.text);
    assert_true(patch.has_plan);
    stage = patch.plan.zero_stage;
    assert_true(patch.plan.stage_chosen);
    patch_clear(&patch);
    return stage;
}

enum { STEP = 16 };

/* Return the least memory of a card, in MiB, that stage 1 fits into.  In less, a job gets a
 * higher stage; and stage 1 again in far less, which no stage fits into. */
static uint64_t least_memory(const struct trial *trial)
{
    uint64_t memory = 4096;

    while (memory > 1024 && stage_in(trial, memory * MIB) == 1)
        memory -= STEP;
    assert_true(memory > 1024 && memory < 4096);
    return memory + STEP;
}

static char *folder_new(void)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "config.json");
    struct error err = { 0 };

    assert_true(file_create(name, config, strlen(config), 0644, &err));
    free(name);
    return dir;
}

/* The context of the driver takes its memory whether it exists while the job is checked or
 * not.  One is compared with 95 % of a card, the other taken off before. */
static void test_stage_choice_counts_the_context_of_the_driver(void **state)
{
    char *dir = folder_new();
    struct trial trial = { .name = path_join(dir, "job.yaml"), .here = true };
    uint64_t here = least_memory(&trial), there;

    (void)state;
    trial.here = false;
    there = least_memory(&trial);
    if (there + STEP < here || there > here + (uint64_t)(400 / 0.95 - 400) + STEP)
        fail_msg("stage 1 fits into %d MiB here, and into %d elsewhere", (int)here,
                 (int)there);
    free(trial.name);
    unit_dir_free(dir);
}

/* Data that are shorter than cutoff_len take less memory. */
static void test_stage_choice_follows_the_data(void **state)
{
    const struct estimate_data data = {
        .rows = 256, .sequences = 8, .longest = 32, .batch = 8
    };
    char *dir = folder_new();
    struct trial trial = { .name = path_join(dir, "job.yaml") };
    uint64_t full = least_memory(&trial), counted;

    (void)state;
    trial.data = &data;
    counted = least_memory(&trial);
    if (counted + 256 > full) /* 8192 rows of 8 layers take 400 MiB */
        fail_msg("stage 1 fits into %d MiB, and with short data into %d", (int)full,
                 (int)counted);
    free(trial.name);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stage_choice_counts_the_context_of_the_driver),
        cmocka_unit_test(test_stage_choice_follows_the_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
