/*
 * tests/unit/test_trainer_rollout.c - stage grpo: on given answers it computes the losses
 * and gradients of TRL's GRPOTrainer, and what it samples and learns is the same with any
 * number of threads and after a stop.
 */
#include "config.h"

#include "tests/unit/training.h"
#include "tests/unit/unit_formula_adapter.h"

#include <math.h>

#include "train/rollout.h"
#include "train/step.h"

#define LIMIT ((size_t)1 << 20)
#define MODEL "data/stories260K/hf"

/* ---- Comparison with TRL ---- */

/* Write a file of records into a folder. */
static void write_prompts(const char *dir, const json_t *prompts)
{
    char *name = path_join(dir, "prompts.jsonl");
    struct error err = { 0 };
    struct text out;
    json_t *prompt;
    size_t i;

    text_init(&out, LIMIT);
    json_array_foreach(prompts, i, prompt)
        text_addf(&out, "{\"prompt\": \"%s\", \"response\": \"Yes.\"}\n",
                  json_string_value(prompt));
    unit_must(file_replace(name, out.data, out.len, 0644, &err), &err);
    text_clear(&out);
    free(name);
}

static void read_answer(struct rollout_answer *out, const json_t *answer, bool both)
{
    const json_t *ids = json_object_get(answer, "ids"),
                 *rewards = json_object_get(answer, "rewards");

    out->question = (size_t)json_integer_value(json_object_get(answer, "question"));
    out->count = json_array_size(ids);
    out->ids = memory_resize(NULL, out->count, sizeof(*out->ids));
    for (size_t i = 0; i < out->count; i++)
        out->ids[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    out->end = out->ids[out->count - 1] == 2 ? END_TOKEN : END_LENGTH;
    for (size_t i = 0; i < 2; i++)
        out->reward.parts[i] = json_number_value(json_array_get(rewards, i));
    out->reward.sum = out->reward.parts[0] + (both ? 0.5 * out->reward.parts[1] : 0);
}

/* Replace sampling: use the answers of the golden run. */
static void give_answers(struct run *run, const json_t *generations, int64_t step)
{
    struct rollout *r = run->rollout;
    int64_t generation = step / plan_generation_uses(run->plan);
    const json_t *answers = json_array_get(generations, (size_t)generation);
    struct error err = { 0 };

    if (r->generation == generation)
        return;
    rollout_forget(r);
    assert_int_equal(json_array_size(answers), r->count);
    for (size_t i = 0; i < r->count; i++)
        read_answer(&r->answers[i], json_array_get(answers, i),
                    reward_rule_count(r->rule) == 2);
    rollout_reward(r);
    unit_must(rollout_keep_losses(run, &err), &err);
    r->generation = generation;
}

static void check_near(const char *what, size_t step, double is, double expected,
                       double room)
{
    if (!(fabs(is - expected) <= 1e-4 * fabs(expected) + room))
        fail_msg("step %zu: %s is %.9g, TRL has %.9g", step + 1, what, is, expected);
}

static void check_step(struct run *run, const json_t *wanted, size_t step)
{
    struct progress *p = &run->progress;

    check_near("loss", step, p->window_loss,
               json_number_value(json_object_get(wanted, "loss")), 2e-6);
    check_near("grad_norm", step, run->grad_norm,
               json_number_value(json_object_get(wanted, "grad_norm")), 1e-5);
    for (int i = 0; i < SAMPLED; i++)
        check_near(sampled_names[i], step, p->window_rewards.values[i],
                   json_number_value(json_object_get(wanted, sampled_names[i])), 2e-6);
    p->window_loss = 0;
    p->window_rewards = (struct rewards) { 0 };
}

/* Texts that are not the answers of the run leave none. */
static void check_damaged(struct rollout *r)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{\"generation\": 0, \"answers\": []}",
        "{\"generation\": 0, \"answers\": [3, 3, 3, 3, 3, 3, 3, 3]}",
        "{\"generation\": 0, \"answers\": [{\"question\": 1, \"ids\": [-1], \"end\": 0, "
        "\"old\": [1], \"parts\": [1]}, 1, 1, 1, 1, 1, 1, 1]}",
        "{\"generation\": 0, \"answers\": [{\"question\": 9, \"ids\": [], \"end\": 0, "
        "\"old\": [], \"parts\": [1]}, 1, 1, 1, 1, 1, 1, 1]}",
        "{\"generation\": 0, \"answers\": [{\"question\": 1, \"ids\": [5], \"end\": 7, "
        "\"old\": [1], \"parts\": [1]}, 1, 1, 1, 1, 1, 1, 1]}",
    };

    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        struct error err = { 0 };

        assert_false(rollout_read(r, texts[i], strlen(texts[i]), "answers.json", &err));
        assert_int_equal(err.code, ERROR_DATA);
        assert_int_equal(r->generation, -1);
    }
}

/* Answers to other prompts, or of other settings, are forgotten; their own are read. */
static void check_purpose(struct rollout *r)
{
    const struct plan *plan = r->plan;
    struct plan other = *plan;
    char *text = rollout_text(r, 1), *at;
    struct error err = { 0 };

    if (!text)
        return; /* the next step does not use them */
    other.grpo.punish_cache++;
    r->plan = &other;
    unit_must(rollout_read(r, text, strlen(text), "answers.json", &err), &err);
    assert_int_equal(r->generation, -1);
    r->plan = plan;
    at = strstr(text, "\"question\":");
    assert_non_null(at);
    at += strcspn(at, "0123456789");
    *at = *at == '0' ? '1' : '0';
    unit_must(rollout_read(r, text, strlen(text), "answers.json", &err), &err);
    assert_int_equal(r->generation, -1);
    free(text);
}

/* The reason why no tensor has a gradient. */
static void check_idle(struct rollout *r)
{
    const struct plan *plan = r->plan;
    struct plan other = *plan;

    for (size_t i = 0; i < r->count; i++)
        r->advantages[i] = 0;
    assert_non_null(strstr(rollout_idle(r), "the same reward"));
    r->advantages[1] = -1;
    assert_null(rollout_idle(r));
    other.grpo.masks_truncated = true;
    for (size_t i = 0; i < r->count; i++)
        r->answers[i].end = i % 2 ? END_LENGTH : END_BROKEN;
    r->plan = &other;
    assert_non_null(strstr(rollout_idle(r), "did not end"));
    r->plan = plan;
    rollout_forget(r);
    assert_null(rollout_idle(r));
}

/* Run the steps of a golden run with its answers. */
static void follow(const struct plan *plan, const json_t *golden)
{
    const json_t *curve = json_object_get(golden, "curve");
    struct heartbeat heartbeat = { 0 };
    struct trainer_options options = { .heartbeat = &heartbeat };
    struct run run = { .plan = plan, .options = &options };
    struct error err = { 0 };

    unit_must(run_open(&run, &err), &err);
    check_damaged(run.rollout);
    for (size_t i = 0; i < json_array_size(curve); i++) {
        give_answers(&run, json_object_get(golden, "generations"), (int64_t)i);
        unit_must(step_run(&run, &err), &err);
        check_step(&run, json_array_get(curve, i), i);
    }
    give_answers(&run, json_object_get(golden, "generations"), 0);
    check_purpose(run.rollout);
    rollout_forget(run.rollout);
    give_answers(&run, json_object_get(golden, "generations"), 0);
    check_idle(run.rollout);
    run_close(&run);
}

static char *job_of(const json_t *run)
{
    char *model = unit_shared(MODEL);
    struct text text;

    text_init(&text, LIMIT);
    text_addf(&text,
              "stage: grpo\nmodel_name_or_path: %s\ndataset: prompts.jsonl\n"
              "template: default\ndisable_shuffling: true\nlr_scheduler_type: constant\n"
              "%s%strainspool:\n  answer_tag: a\n",
              model, json_string_value(json_object_get(run, "job")),
              strstr(json_string_value(json_object_get(run, "job")), "finetuning_type")
                  ? ""
                  : "finetuning_type: full\n");
    free(model);
    return text_detach(&text, NULL);
}

static void try_run(const json_t *golden, const char *name)
{
    const json_t *run = json_object_get(json_object_get(golden, "runs"), name),
                 *adapter = json_object_get(golden, "adapter");
    bool adapted = strcmp(name, "lora") == 0;
    char *dir = unit_dir_new(), *folder = NULL, *job = job_of(run),
         *file = path_join(dir, "job.yaml");
    struct device device;
    struct patch patch;
    struct patch_options options = { .job = file, .device = &device, .will_run = true };
    struct error err = { 0 };

    if (adapted)
        folder = unit_adapter_new(adapter,
                                  json_number_value(json_object_get(adapter, "scale")));
    probe_cpu(&device);
    write_prompts(dir, json_object_get(golden, "prompts"));
    unit_must(file_replace(file, job, strlen(job), 0644, &err), &err);
    unit_must(patcher_read(&options, &patch, &err), &err);
    patch.plan.device = device;
    patch.plan.threads = 1;
    patch.plan.adapter_name_or_path = folder;
    print_message("%s\n", name);
    follow(&patch.plan, run);
    patch_clear(&patch);
    free(job);
    free(file);
    unit_dir_free(dir);
    if (folder)
        unit_dir_free(folder);
}

static void test_trainer_rollout_matches_trl(void **state)
{
    static const char *const names[] = { "dapo",   "grpo kl",  "bnpo", "dr_grpo",
                                         "reused", "sequence", "gdpo", "lora" };
    char *file = unit_source("tests/golden/policy_curve.json");
    struct error err = { 0 };
    json_t *golden;

    (void)state;
    unit_need_shared(MODEL);
    golden = json_read_file(file, LIMIT, &err);
    unit_must(golden != NULL, &err);
    for (size_t i = 0; i < TS_COUNT(names); i++)
        try_run(golden, names[i]);
    json_decref(golden);
    free(file);
}

/* ---- Rewards ---- */

static struct plan rewarded(const char *rewards, const char *weights)
{
    return (struct plan) { .stage = STAGE_GRPO,
                           .answer_marker = "####",
                           .grpo = { .rewards = rewards,
                                     .weights = weights,
                                     .pattern = "[0-9]+ kg",
                                     .max_completion_length = 10,
                                     .punish_cache = 4,
                                     .num_generations = 2 } };
}

static void test_rewards_of_an_answer(void **state)
{
    static const struct {
        const char *text;
        size_t tokens;
        double parts[4];
    } cases[] = {
        { "That is\n#### 12", 6, { 1, 1, 0, 0 } },
        { "#### 12.0\nor 12 kg", 7, { 1, 1, 1, -0.25 } },
        { "12 kg", 8, { 0, 0, 1, -0.5 } },
        { "#### 13", 10, { 0, 1, 0, -1 } },
    };
    struct plan plan = rewarded("answer, format,pattern, length", "1, 0.5, 2, 4");
    struct error err = { 0 };
    struct reward_rule *rule = reward_rule_new(&plan, NULL, &err);

    (void)state;
    unit_must(rule != NULL, &err);
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const double *p = cases[i].parts;
        struct scored scored =
            reward_judge(rule, &(struct reward_answer) { .text = cases[i].text,
                                                         .len = strlen(cases[i].text),
                                                         .expected = "2 x 6 #### 12",
                                                         .expected_len = 13,
                                                         .tokens = cases[i].tokens });

        for (size_t k = 0; k < 4; k++)
            assert_true(scored.parts[k] == p[k]);
        assert_true(fabs(scored.sum - (p[0] + p[1] / 2 + 2 * p[2] + 4 * p[3])) < 1e-12);
    }
    reward_rule_free(rule);
}

/* A group without differences teaches nothing, whatever its size and reward. */
static void test_rewards_that_are_equal(void **state)
{
    static const double sums[] = { 0.1, 1.0 / 3, -0.7, 1 };
    struct plan plan = rewarded("answer", NULL);
    struct error err = { 0 };
    struct scored scored[6];
    double advantages[6];

    (void)state;
    plan.grpo.num_generations = 6;
    for (int scale = 0; scale < 4; scale++) {
        struct reward_rule *rule;

        plan.grpo.scale = scale < 3 ? (enum reward_scale)scale : SCALE_GROUP;
        plan.grpo.aggregation =
            scale < 3 ? AGGREGATE_SUM_FIRST : AGGREGATE_NORMALIZE_FIRST;
        rule = reward_rule_new(&plan, NULL, &err);
        unit_must(rule != NULL, &err);
        for (size_t k = 0; k < TS_COUNT(sums); k++) {
            for (size_t i = 0; i < 6; i++)
                scored[i] = (struct scored) { .parts = { sums[k] }, .sum = sums[k] };
            reward_advantages(rule, scored, 6, advantages);
            for (size_t i = 0; i < 6; i++)
                assert_true(advantages[i] == 0);
        }
        reward_rule_free(rule);
    }
}

static void test_rewards_that_are_wrong(void **state)
{
    static const struct {
        const char *rewards, *weights, *key;
    } cases[] = {
        { "", NULL, "reward_funcs" },
        { "answer, python", NULL, "reward_funcs" },
        { "answer, length", "1", "reward_weights" },
        { "answer", "one", "reward_weights" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = rewarded(cases[i].rewards, cases[i].weights);
        struct error err = { 0 };
        const char *key;

        assert_null(reward_rule_new(&plan, &key, &err));
        assert_int_equal(err.code, ERROR_JOB);
        assert_string_equal(key, cases[i].key);
    }
}

/* ---- The same bits ---- */

/* The reward counts how many answers have a word, which some of the first ones have. */
#define SAMPLED_JOB                                                                    \
    "stage: grpo\ndataset: prompts.jsonl\ntemplate: default\nfinetuning_type: full\n"  \
    "per_device_train_batch_size: 16\nnum_generations: 8\nmax_completion_length: 12\n" \
    "learning_rate: 2.0e-3\nlr_scheduler_type: constant\nlogging_steps: 1\n"           \
    "reward_funcs: pattern\ntrainspool:\n  reward_pattern: \"[Ss]he\"\n"

static json_t *four_prompts(void)
{
    return json_pack("[s, s, s, s]", "What did the kettle do?", "Who is Tom?", "Count.",
                     "Was Lily happy?");
}

/* Open a folder with the prompts and return the text of a job there. */
static char *sampled_job(const char *dir, const char *more)
{
    char *model = unit_shared(MODEL);
    json_t *prompts = four_prompts();
    struct text text;

    write_prompts(dir, prompts);
    json_decref(prompts);
    text_init(&text, LIMIT);
    text_addf(&text, "model_name_or_path: %s\n%s%s", model, more, SAMPLED_JOB);
    free(model);
    return text_detach(&text, NULL);
}

static void run_and_digest(struct training *training, char out[DIGEST_TEXT])
{
    training_must(training);
    training_digest(training->dir, "job.run/model.safetensors", out);
}

/* The answers, their rewards, the losses and the weights. */
static void test_trainer_rollout_does_not_depend_on_threads(void **state)
{
    static const char more[] = "max_steps: 4\nsave_strategy: \"no\"\nbeta: 0.05\n";
    char one[DIGEST_TEXT], two[DIGEST_TEXT];
    struct training training = { 0 }, other = { .threads = 2 };
    char *job, *dir, *dir2;

    (void)state;
    unit_need_shared(MODEL);
    training.dir = dir = unit_dir_new();
    other.dir = dir2 = unit_dir_new();
    training.job = other.job = job = sampled_job(dir, more);
    free(sampled_job(dir2, more));
    run_and_digest(&training, one);
    run_and_digest(&other, two);
    assert_string_equal(one, two);
    assert_string_equal(training.logged, other.logged);
    free(job);
    unit_dir_free(dir);
    unit_dir_free(dir2);
}

/* Stop after a step whose answers later steps use, and inside the generation of others. */
static void test_trainer_rollout_resumes_with_the_same_bits(void **state)
{
    static const char more[] =
        "max_steps: 7\nnum_iterations: 3\nbeta: 0.05\nloss_type: grpo\n"
        "save_steps: 100\n";
    char whole[DIGEST_TEXT], resumed[DIGEST_TEXT];
    struct training training = { 0 }, again = { .stop_after = 4 };
    struct error err = { 0 };
    char *job, *dir, *dir2, *answers;

    (void)state;
    unit_need_shared(MODEL);
    training.dir = dir = unit_dir_new();
    again.dir = dir2 = unit_dir_new();
    training.job = again.job = job = sampled_job(dir, more);
    free(sampled_job(dir2, more));
    run_and_digest(&training, whole);
    assert_false(training_run(&again, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    answers = path_join(dir2, "job.run/checkpoint-4/" CHECKPOINT_ANSWERS);
    assert_true(file_exists(answers));
    again.stop_after = 6; /* the answers of step 7 are new */
    again.stop = 0;
    again.resume = true;
    err = (struct error) { 0 };
    assert_false(training_run(&again, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    free(answers);
    answers = path_join(dir2, "job.run/checkpoint-6/" CHECKPOINT_ANSWERS);
    assert_false(file_exists(answers));
    again.stop_after = again.stop = 0;
    again.ticks = 0;
    run_and_digest(&again, resumed);
    assert_string_equal(whole, resumed);
    free(answers);
    free(job);
    unit_dir_free(dir);
    unit_dir_free(dir2);
}

static void test_trainer_rollout_names_cutoff_len(void **state)
{
    struct training training = { 0 };
    struct error err = { 0 };
    char *job, *dir;

    (void)state;
    unit_need_shared(MODEL);
    training.dir = dir = unit_dir_new();
    training.job = job = sampled_job(dir, "max_steps: 1\ncutoff_len: 6\n");
    assert_false(training_run(&training, &err));
    assert_int_equal(err.code, ERROR_JOB);
    assert_non_null(strstr(err.text, "cutoff_len is 6, and all 4 prompts are longer"));
    free(job);
    unit_dir_free(dir);
}

/* A stop while answers are sampled abandons the step. */
static void test_trainer_rollout_stops_while_it_samples(void **state)
{
    static const char more[] = "max_steps: 3\nsave_steps: 100\n";
    char whole[DIGEST_TEXT], resumed[DIGEST_TEXT];
    struct training training = { 0 }, again = { 0 };
    struct error err = { 0 };
    char *job, *dir, *dir2;

    (void)state;
    unit_need_shared(MODEL);
    training.dir = dir = unit_dir_new();
    again.dir = dir2 = unit_dir_new();
    training.job = again.job = job = sampled_job(dir, more);
    free(sampled_job(dir2, more));
    run_and_digest(&training, whole);
    again.stop_at_tick = training.ticks / 2;
    assert_false(training_run(&again, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    again.stop_at_tick = again.stop = 0;
    again.resume = true;
    run_and_digest(&again, resumed);
    assert_string_equal(whole, resumed);
    free(job);
    unit_dir_free(dir);
    unit_dir_free(dir2);
}

/* ---- Learning ---- */

static void test_trainer_rollout_learns_to_be_rewarded(void **state)
{
    struct training training = { 0 };
    double before, after;
    char *job, *dir;

    (void)state;
    unit_need_shared(MODEL);
    training.dir = dir = unit_dir_new();
    training.job = job =
        sampled_job(dir, "max_steps: 16\nsave_strategy: \"no\"\neval_dataset: "
                         "prompts.jsonl\neval_strategy: steps\neval_steps: 16\n");
    training_must(&training);
    before = training_value(&training, "'eval_reward'", 0);
    after = training_value(&training, "'eval_reward'", 1);
    print_message("reward %g, then %g\n", before, after);
    assert_true(before < 0.6 && after > 0.8);
    free(job);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rewards_of_an_answer),
        cmocka_unit_test(test_rewards_that_are_equal),
        cmocka_unit_test(test_rewards_that_are_wrong),
        cmocka_unit_test(test_trainer_rollout_matches_trl),
        cmocka_unit_test(test_trainer_rollout_does_not_depend_on_threads),
        cmocka_unit_test(test_trainer_rollout_resumes_with_the_same_bits),
        cmocka_unit_test(test_trainer_rollout_names_cutoff_len),
        cmocka_unit_test(test_trainer_rollout_stops_while_it_samples),
        cmocka_unit_test(test_trainer_rollout_learns_to_be_rewarded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
