/* tests/unit/test_media_runs.c - runs with sounds: batches of other forms and other orders give the
 * same losses, and what happens to files meanwhile ends with a clear error. */
#include "config.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "tests/unit/unit_media_job.h"

static void test_losses_do_not_depend_on_how_records_are_batched(void **state)
{
    static const struct {
        const char *what, *job, *order;
    } rows[] = {
        { "accumulated",
          "per_device_train_batch_size: 1\ngradient_accumulation_steps: 5\nmax_steps: 3\n",
          "01234" },
        { "packed",
          "per_device_train_batch_size: 1\npacking: true\nneat_packing: true\nmax_steps: 3\n",
          "01234" },
        { "in another order", MEDIA_JOB_WHOLE "disable_shuffling: true\n", "42013" },
        { "with checkpointing", MEDIA_JOB_WHOLE "gradient_checkpointing: true\n",
          "01234" },
    };
    double losses[MEDIA_JOB_STEPS], others[MEDIA_JOB_STEPS];

    (void)state;
    if (!curve_supported("qwen2_audio"))
        skip();
    assert_int_equal(media_job_losses(MEDIA_JOB_WHOLE, "01234", losses), 3);
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        assert_int_equal(media_job_losses(rows[i].job, rows[i].order, others), 3);
        media_job_same(rows[i].what, others, losses, 3);
    }
    /* a sound less makes a difference */
    assert_int_equal(media_job_losses("per_device_train_batch_size: 4\nmax_steps: 3\n",
                                      "0124", others),
                     3);
    assert_true(fabs(others[0] - losses[0]) > 1e-4 * losses[0]);
}

/* The loss of an evaluation is that of a step on the same records, also without training. */
static void test_evaluations_read_the_same_features(void **state)
{
    double loss[MEDIA_JOB_STEPS], eval[MEDIA_JOB_STEPS];
    struct media_job job;

    (void)state;
    if (!curve_supported("qwen2_audio"))
        skip();
    media_job_open(&job, MEDIA_JOB_WHOLE
                   "eval_dataset: data.jsonl\neval_strategy: steps\neval_steps: 1\n"
                   "per_device_eval_batch_size: 2\n");
    media_job_run(&job, (struct training) { 0 });
    assert_int_equal(media_job_values(&job, "loss", loss), 3);
    assert_int_equal(media_job_values(&job, "eval_loss", eval),
                     4); /* the first before step 1 */
    media_job_same("evaluation", eval, loss, 3);
    media_job_close(&job);
    media_job_open(&job, "eval_dataset: data.jsonl\ndo_train: false\ndo_eval: true\n"
                         "per_device_eval_batch_size: 3\n");
    media_job_run(&job, (struct training) { .evaluates = true });
    assert_int_equal(media_job_values(&job, "eval_loss", eval), 1);
    media_job_same("evaluation alone", eval, loss, 1);
    media_job_close(&job);
}

/* Write a job that continues this text, in the folder of the other. */
static void job_with_adapters(struct media_job *job, const char *more)
{
    job->text = arena_printf(
        job->u.arena,
        "model_name_or_path: %s\ndataset_dir: %s\ntemplate: qwen2_audio\n"
        "finetuning_type: lora\nlora_target: q_proj,v_proj\nlora_rank: 4\nlearning_rate: 0.02\n"
        "lr_scheduler_type: constant\nlogging_steps: 1\ncutoff_len: 512\n"
        "per_device_train_batch_size: 5\n%s",
        job->u.dir, job->u.dir, more);
}

static bool has_projector(const struct media_job *job, const char *folder)
{
    char *path = path_join(job->u.dir, folder);
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(path, "adapter_model", true, &err);
    bool found = false;

    unit_tower_must(set != NULL, &err);
    for (size_t i = 0; i < safetensors_count(set); i++)
        found = found || strstr(safetensors_at(set, i)->name, "projector");
    safetensors_close(set);
    free(path);
    return found;
}

static void write_pairs(const struct media_job *job)
{
    curve_write(
        job->u.dir, "pairs.jsonl",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"<audio>What is it?\"}], "
        "\"chosen\": {\"role\": \"assistant\", \"content\": \"It is 1.\"}, "
        "\"rejected\": {\"role\": \"assistant\", \"content\": \"No.\"}, \"audios\": "
        "[\"0.wav\"]}\n");
    curve_write(
        job->u.dir, "dataset_info.json",
        "{\"pairs\": {\"file_name\": \"pairs.jsonl\", \"formatting\": \"sharegpt\", "
        "\"ranking\": true, \"columns\": {\"messages\": \"messages\", \"chosen\": "
        "\"chosen\", \"rejected\": \"rejected\", \"audios\": \"audios\"}, \"tags\": "
        "{\"role_tag\": \"role\", \"content_tag\": \"content\", \"user_tag\": "
        "\"user\", \"assistant_tag\": \"assistant\"}}}");
}

/* The projector that an adapter has trained is merged under a new one, and frozen or trained
 * further there; it is also that of the reference without the new adapter. */
static void test_new_adapters_keep_the_projector_of_the_one_before(void **state)
{
    double loss[MEDIA_JOB_STEPS], other[MEDIA_JOB_STEPS], base[MEDIA_JOB_STEPS];
    const char *text;
    struct media_job job;

    (void)state;
    if (!curve_supported("qwen2_audio"))
        skip();
    media_job_open(&job, "");
    text = arena_printf(job.u.arena,
                        "dataset: data.jsonl\nstage: sft\nmax_steps: 4\n"
                        "additional_target: multi_modal_projector\n"
                        "output_dir: %s/first\neval_dataset: data.jsonl\n"
                        "eval_strategy: steps\neval_steps: 4\n",
                        job.u.dir);
    job_with_adapters(&job, text);
    media_job_run(&job, (struct training) { 0 });
    assert_true(has_projector(&job, "first"));
    assert_int_equal(media_job_values(&job, "loss", base), 4);
    assert_int_equal(media_job_values(&job, "eval_loss", loss), 2);
    for (int trained = 0; trained < 2; trained++) {
        text = arena_printf(job.u.arena,
                            "dataset: data.jsonl\nstage: sft\nmax_steps: 2\n"
                            "adapter_name_or_path: %s/first\ncreate_new_adapter: true\n"
                            "output_dir: %s/second%d\n%s",
                            job.u.dir, job.u.dir, trained,
                            trained ? "additional_target: multi_modal_projector\n" : "");
        job_with_adapters(&job, text);
        media_job_run(&job, (struct training) { 0 });
        assert_int_equal(media_job_values(&job, "loss", other), 2);
        media_job_same("a new adapter", other, loss + 1, 1);
        assert_true(other[1] < other[0] && fabs(other[0] - base[0]) > 1e-3);
        assert_int_equal(has_projector(&job, trained ? "second1" : "second0"), trained);
    }
    write_pairs(&job);
    text = arena_printf(job.u.arena,
                        "dataset: pairs\nstage: dpo\nmax_steps: 2\n"
                        "adapter_name_or_path: %s/first\ncreate_new_adapter: true\n"
                        "output_dir: %s/preferred\n",
                        job.u.dir, job.u.dir);
    job_with_adapters(&job, text);
    media_job_run(&job, (struct training) { 0 });
    assert_int_equal(media_job_values(&job, "loss", other), 2);
    assert_true(fabs(other[0] - log(2)) < 1e-6 && other[1] < other[0]);
    media_job_close(&job);
}

/* ---- Files ---- */

static void touch_sound(struct training *training)
{
    char *path = path_join(training->dir, "1.wav");
    const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

    if (media_job_encodes(training))
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    free(path);
}

/* Its features would be found under the digest of what it was before. */
static void test_files_that_change_while_they_are_encoded_are_errors(void **state)
{
    struct training training = { .on_tick = touch_sound };
    struct error err = { 0 };
    struct media_job job;

    (void)state;
    if (!curve_supported("qwen2_audio"))
        skip();
    media_job_open(&job, MEDIA_JOB_WHOLE);
    media_job_give(&job, &training);
    assert_false(training_run(&training, &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_int_equal(err.at.line, 2);
    assert_non_null(strstr(err.text, "1.wav has changed since the data were read"));
    training.on_tick = NULL;
    training_must(&training);
    media_job_close(&job);
}

static void touch_after_a_step(void *context, const struct trainer_progress *progress)
{
    struct training *training = context;
    char *path = path_join(training->dir, "2.wav");
    const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

    training->steps = progress->step;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    free(path);
}

/* It reads them in its steps. */
static void test_files_of_trained_encoders_are_decoded_before_the_first_step(void **state)
{
    struct training training = { .on_step = touch_after_a_step };
    struct error err = { 0 };
    struct media_job job;

    (void)state;
    if (!curve_supported("qwen2_audio"))
        skip();
    media_job_open(
        &job, "per_device_train_batch_size: 1\nmax_steps: 5\ndisable_shuffling: true\n"
              "freeze_vision_tower: false\n");
    media_job_give(&job, &training);
    media_job_nan(&job, "2.wav", 1600);
    assert_false(training_run(&training, &err));
    assert_int_equal(training.steps, 0);
    assert_int_equal(err.at.line, 3);
    assert_non_null(strstr(err.text, "2.wav: the sample at 0.1 s is nan"));
    /* one that changes later is an error of its record, too */
    media_job_sounds(&job);
    error_clear(&err);
    assert_false(training_run(&training, &err));
    assert_int_equal(training.steps, 2);
    assert_int_equal(err.at.line, 3);
    assert_non_null(strstr(err.text, "2.wav has changed since the data were read"));
    media_job_close(&job);
}

/* Return the first loss of a job with adapters that are zero still, on weights of 4 bits. */
static double first_loss_in_4_bits(const char *more)
{
    double losses[MEDIA_JOB_STEPS];
    struct media_job job;
    char text[200];

    snprintf(text, sizeof(text),
             MEDIA_JOB_WHOLE "lora_rank: 4\nlora_target: all\nquantization_bit: 4\n%s",
             more);
    media_job_open(&job, text);
    memcpy(strstr(job.text, "type: full") + 6, "lora", 4);
    media_job_run(&job, (struct training) { 0 });
    assert_int_equal(media_job_values(&job, "loss", losses), 3);
    media_job_close(&job);
    return losses[0];
}

/* A model whose encoder is trained includes the projector, and does not quantize it. */
static void test_encoders_train_next_to_4_bits(void **state)
{
    double frozen, trained;

    (void)state;
    if (!curve_supported("qwen2_audio"))
        skip();
    frozen = first_loss_in_4_bits("");
    trained = first_loss_in_4_bits("freeze_vision_tower: false\n");
    media_job_same("trained encoder", &trained, &frozen, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_do_not_depend_on_how_records_are_batched),
        cmocka_unit_test(test_evaluations_read_the_same_features),
        cmocka_unit_test(test_new_adapters_keep_the_projector_of_the_one_before),
        cmocka_unit_test(
            test_files_of_trained_encoders_are_decoded_before_the_first_step),
        cmocka_unit_test(test_files_that_change_while_they_are_encoded_are_errors),
        cmocka_unit_test(test_encoders_train_next_to_4_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
