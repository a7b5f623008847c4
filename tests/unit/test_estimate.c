/* tests/unit/test_estimate.c - the estimate equals the memory that a run takes. */
#include "config.h"

#include "train/estimate.h"

#include "base/size.h"
#include "patcher/patcher.h"
#include "precision/probe.h"
#include "tests/unit/unit.h"
#include "train/run.h"

#define ALPACA "data/datasets/llamafactory/alpaca_en_demo.json"

static const char *const models[] = {
    "data/stories260K/hf", "data/stories260K/hf-qwen2", "data/made-here/qwen2",
    "data/slm4096/hf",     "data/made-here/gpt_neox",
};
static const char *const methods[] = {
    "finetuning_type: full\n",
    "finetuning_type: lora\nlora_rank: 8\n",
    "finetuning_type: lora\nlora_rank: 4\nlora_dropout: 0.1\n",
    "finetuning_type: freeze\nfreeze_trainable_layers: 1\n",
};
static const char *const precisions[] = { "", "fp16: true\n", "bf16: true\n",
                                          "pure_bf16: true\n" };
static const char *const checkpoints[] = { "gradient_checkpointing: true\n",
                                           "gradient_checkpointing: false\n" };
static const char *const packings[] = { "", "packing: true\n", "neat_packing: true\n" };

/* Return a job of the tables above on the CPU; skip the test without the shared data. */
static char *job_text(const char *model, const char *more)
{
    char *folder = unit_shared(model), *data = unit_shared(ALPACA);
    struct text text;

    if (!folder || !data) {
        print_message("# SKIP the shared data are not here\n");
        skip();
    }
    text_init(&text, 0);
    text_addf(&text,
              "model_name_or_path: %s\ndataset: %s\ntemplate: alpaca\ncutoff_len: 96\n"
              "max_samples: 24\nper_device_train_batch_size: 3\n"
              "gradient_accumulation_steps: 2\nmax_steps: 1\n%s",
              folder, data, more);
    free(folder);
    free(data);
    return text_detach(&text, NULL);
}

static void read_plan(const char *dir, const char *job, size_t ranks,
                      const struct device *cpu, struct patch *patch)
{
    char *name = path_join(dir, "job.yaml");
    struct patch_options options = { .job = name, .device = cpu };
    struct error err = { 0 };

    if (!patcher_read_text(job, strlen(job), &options, patch, &err) || !patch->has_plan)
        fail_msg("%s", err.text);
    patch->plan.ranks = (int64_t)ranks;
    patch->plan.threads = 1;
    free(name);
}

/* Check that the tensors of the model are within the estimated block and fill it. */
static void check_table(const struct run *run, const struct memory_use *use)
{
    uint64_t trained = 0, frozen = 0, copies = 0;

    for (size_t i = 0; i < model_parameters(run->model); i++) {
        const struct parameter *p = model_parameter(run->model, i);
        uint64_t numbers = (uint64_t)p->rows * p->cols;
        uint64_t bytes = numbers * format_info(p->weight.format)->bytes;

        *(p->trainable ? &trained : &frozen) += bytes;
        copies += p->copy.data ? 2 * numbers : 0;
    }
    assert_true(trained + frozen + copies <= use->weights);
    /* padding: less than SHAPES_ALIGNMENT for each piece of three kinds */
    assert_true(use->weights - (trained + frozen + copies) <=
                3 * 256 * model_parameters(run->model));
    assert_true(use->gradients >= model_trainable_elements(run->model) * sizeof(float));
}

static void check_bytes(const struct memory_use *is, const struct memory_use *estimate)
{
    assert_int_equal(is->weights, estimate->weights);
    assert_int_equal(is->gradients, estimate->gradients);
    assert_int_equal(is->optimizer, estimate->optimizer);
    assert_int_equal(is->activations, estimate->activations);
    /* low is the block; the rest belongs to the backend */
    assert_int_equal(is->low, estimate->total);
    assert_int_equal(estimate->low, estimate->total);
    assert_int_equal(estimate->high, estimate->total);
}

/* Rank 0 of a group lays out its shard before it joins, so one process is enough to
 * measure it. */
static void check_job(const char *dir, const char *job, size_t ranks)
{
    struct trainer_options options = { 0 };
    struct run run = { .options = &options };
    struct estimate_data data;
    struct memory_use use, full;
    struct run_sizes sizes;
    struct device cpu;
    struct patch patch;
    struct error err = { 0 };

    probe_cpu(&cpu);
    read_plan(dir, job, ranks, &cpu, &patch);
    run.plan = &patch.plan;
    if (!run_open(&run, &err))
        fail_msg("%s\n%s", err.text, job);
    sizes = run_measure(&patch.plan, &run.config, run.train, run.eval);
    data = (struct estimate_data) { .rows = sizes.rows, .sequences = sizes.sequences };
    assert_true(estimate_memory(&patch.plan, &run.config, &data, &use, &err));
    check_bytes(model_memory(run.model), &use);
    check_table(&run, &use);
    assert_true(estimate_memory(&patch.plan, &run.config, NULL, &full, &err));
    assert_true(full.low <= use.total && use.total <= full.high);
    run_close(&run);
    patch_clear(&patch);
}

static void test_estimate_equals_the_memory_of_a_run(void **state)
{
    char *dir;

    (void)state;
    for (size_t m = 0; m < TS_COUNT(models); m++)
        unit_need_shared(models[m]);
    dir = unit_dir_new();
    for (size_t m = 0; m < TS_COUNT(models); m++)
        for (size_t f = 0; f < TS_COUNT(methods); f++)
            for (size_t p = 0; p < TS_COUNT(precisions); p++)
                for (size_t c = 0; c < TS_COUNT(checkpoints); c++) {
                    struct text more;
                    char *job;

                    text_init(&more, 0);
                    text_addf(&more, "%s%s%s%s", methods[f], precisions[p],
                              checkpoints[c], packings[(f + p + c) % 3]);
                    job = job_text(models[m], more.data);
                    check_job(dir, job, 1);
                    text_clear(&more);
                    free(job);
                }
    unit_dir_free(dir);
}

/* With several ranks, each keeps its share of the moments. */
static void test_estimate_equals_the_memory_of_each_rank(void **state)
{
    char *dir;

    (void)state;
    for (size_t m = 0; m < TS_COUNT(models); m++)
        unit_need_shared(models[m]);
    dir = unit_dir_new();
    for (size_t f = 0; f < TS_COUNT(methods); f++)
        for (size_t ranks = 2; ranks <= 3; ranks++) {
            char *job = job_text(models[0], methods[f]);

            check_job(dir, job, ranks);
            free(job);
        }
    unit_dir_free(dir);
}

/* With several GPUs, each also has NCCL, and its share of the moments; a CPU has neither
 * a driver nor NCCL. */
static void test_estimate_counts_nccl(void **state)
{
    char *dir, *job;
    struct device gpu = { .kind = DEVICE_CUDA, .major = 9 };
    const struct memory_range group = memory_group_overhead(&gpu, 2, 2);
    struct model_config config;
    struct error err = { 0 };
    struct memory_use use[2];
    struct patch patch;

    (void)state;
    unit_need_shared(models[0]);
    dir = unit_dir_new();
    job = job_text(models[0], methods[0]);
    for (size_t i = 0; i < 2; i++) {
        struct device cpu;

        probe_cpu(&cpu);
        read_plan(dir, job, i + 1, &cpu, &patch);
        patch.plan.device = gpu;
        if (!model_config_read(patch.plan.model_name_or_path, patch.arena, &config,
                               &err) ||
            !estimate_memory(&patch.plan, &config, NULL, &use[i], &err))
            fail_msg("%s", err.text);
        patch_clear(&patch);
    }
    assert_int_equal(use[1].workspace, use[0].workspace + group.expected);
    assert_true(use[1].optimizer < use[0].optimizer);
    assert_int_equal(use[1].high - use[1].total,
                     use[0].high - use[0].total + group.high - group.expected);
    free(job);
    unit_dir_free(dir);
}

/* An evaluation with larger batches uses no more memory than training. */
static void test_estimate_counts_the_evaluation(void **state)
{
    char *dir, *job;

    (void)state;
    unit_need_shared(models[0]);
    dir = unit_dir_new();
    job = job_text(models[0], "finetuning_type: full\nval_size: 6\n"
                              "eval_strategy: epoch\n"
                              "per_device_eval_batch_size: 8\n");
    check_job(dir, job, 1);
    free(job);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimate_equals_the_memory_of_a_run),
        cmocka_unit_test(test_estimate_equals_the_memory_of_each_rank),
        cmocka_unit_test(test_estimate_counts_nccl),
        cmocka_unit_test(test_estimate_counts_the_evaluation),
    };

    return cmocka_run_group_tests_name("estimate", tests, NULL, NULL);
}
