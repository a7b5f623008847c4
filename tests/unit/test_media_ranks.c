/* tests/unit/test_media_ranks.c - several ranks with sounds give the same losses, and end
 * when one of them does, also while rank 0 encodes. */
#include "config.h"

#include <time.h>

#include "tests/unit/unit_media_job.h"
#include "tests/unit/unit_job_ranks.h"

/* The losses of steps of four batches, and the norms of the gradients. */
enum { STEPS = 4 };
struct steps {
    double losses[MEDIA_JOB_STEPS], norms[MEDIA_JOB_STEPS];
};

static void read_steps(const struct media_job *job, struct steps *out)
{
    assert_int_equal(media_job_values(job, "loss", out->losses), STEPS);
    assert_int_equal(media_job_values(job, "grad_norm", out->norms), STEPS);
}

/* Run a job with these lines and records in one process, or in two with half the batches. */
static void run_steps(const char *more, const char *records, size_t processes,
                      struct steps *out)
{
    struct training training = { 0 };
    struct unit_ranks ranks;
    struct error err = { 0 };
    struct media_job job;
    char text[300];

    snprintf(text, sizeof(text),
             "per_device_train_batch_size: 1\nmax_steps: %d\n"
             "gradient_accumulation_steps: %d\n%s",
             STEPS, processes == 1 ? 4 : 2, more);
    media_job_open(&job, text);
    media_job_records(&job, records);
    if (strstr(more, "lora_rank"))
        memcpy(strstr(job.text, "type: full") + 6, "lora", 4);
    media_job_give(&job, &training);
    if (processes == 1) {
        training_must(&training);
    } else {
        unit_tower_must(unit_job_ranks(&training, &ranks, &err), &err);
        unit_ranks_join(&ranks);
    }
    read_steps(&job, out);
    media_job_close(&job);
}

static void compare(const char *more, const char *records, const char *two)
{
    char text[200];
    struct steps a, b;

    if (!curve_supported("qwen2_audio"))
        skip();
    run_steps(more, records, 1, &a);
    snprintf(text, sizeof(text), "%s%s", more, two);
    run_steps(text, records, 2, &b);
    media_job_same(text, b.losses, a.losses, STEPS);
    for (size_t i = 0; i < STEPS; i++)
        if (!(fabs(a.norms[i] - b.norms[i]) <= 1e-5 * a.norms[i]))
            fail_msg("%s: the norm of step %zu is %.9g, not %.9g", text, i + 1,
                     b.norms[i], a.norms[i]);
}

static void test_two_ranks_train_as_one(void **state)
{
    (void)state;
    compare("", "01234", "");
}

static void test_two_ranks_train_an_encoder_as_one(void **state)
{
    static const char trained[] = "freeze_vision_tower: false\n";
    static const char *const stages[] = { "", "trainspool: {zero_stage: 2}\n",
                                          "trainspool: {zero_stage: 3}\n" };

    (void)state;
    /* rank 1 has no batch in the second window, or fewer than rank 0 */
    for (size_t i = 0; i < TS_COUNT(stages); i++) {
        compare(trained, "01234", stages[i]);
        compare(trained, "0123401", stages[i]);
    }
}

static void test_two_ranks_adapt_an_encoder_as_one(void **state)
{
    static const char trained[] =
        "freeze_vision_tower: false\nlora_rank: 4\nlora_target: all\n";

    (void)state;
    compare(trained, "01234", "trainspool: {zero_stage: 2}\n");
}

/* Wait until a process has ended, for at most 20 s. */
static bool ends(pid_t pid, int *status)
{
    for (int i = 0; i < 2000; i++) {
        if (waitpid(pid, status, WNOHANG) == pid)
            return true;
        nanosleep(&(struct timespec) { .tv_nsec = 10000000 }, NULL);
    }
    return false;
}

#define WAITED                                                 \
    "waiting for rank 0, which encodes images or sounds: the " \
    "process at the other end has ended"

static void test_other_ranks_end_when_a_file_cannot_be_encoded(void **state)
{
    struct training training = { 0 };
    struct unit_ranks ranks;
    struct error err = { 0 };
    struct media_job job;
    int status = 0;
    char *said;

    (void)state;
    if (!curve_supported("qwen2_audio"))
        skip();
    media_job_open(&job, MEDIA_JOB_WHOLE);
    media_job_nan(&job, "2.wav", 1600);
    media_job_give(&job, &training);
    assert_false(unit_job_ranks(&training, &ranks, &err));
    /* what the file has is named by its record, and where it is */
    assert_int_equal(err.code, ERROR_DATA);
    assert_non_null(strstr(err.file, "data.jsonl"));
    assert_int_equal(err.at.line, 3);
    assert_non_null(strstr(err.text, "2.wav: the sample at 0.1 s is nan"));
    close(ranks.links[0]); /* as the end of its process does */
    assert_true(ends(ranks.children[1], &status));
    assert_int_equal(WEXITSTATUS(status), 1);
    said = media_job_read(&job, "rank1");
    assert_string_equal(said, WAITED);
    free(said);
    media_job_close(&job);
}

static void kill_rank_0(struct training *training)
{
    if (training->group->rank == 0 && media_job_encodes(training))
        raise(SIGKILL);
}

static void test_other_ranks_end_when_rank_0_is_killed(void **state)
{
    struct training training = { .on_tick = kill_rank_0 };
    struct unit_ranks ranks;
    struct error err = { 0 };
    struct media_job job;
    int status = 0;
    pid_t pid;
    char *said;

    (void)state;
    if (!curve_supported("qwen2_audio"))
        skip();
    media_job_open(&job, MEDIA_JOB_WHOLE);
    media_job_give(&job, &training);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* of rank 1 */
    pid = fork();
    if (pid == 0) {
        unit_job_ranks(&training, &ranks, &err);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_true(ends(-1, &status));
    assert_int_equal(WEXITSTATUS(status), 1);
    said = media_job_read(&job, "rank1");
    assert_string_equal(said, WAITED);
    free(said);
    media_job_close(&job);
}

static void kill_rank_1(struct training *training)
{
    const struct unit_ranks *ranks = (const void *)training->group;

    if (training->group->rank > 0 || !media_job_encodes(training))
        return;
    kill(ranks->children[1], SIGKILL);
    waitpid(ranks->children[1], NULL, 0);
    training->on_tick = NULL;
}

/* It does not encode the other files first. */
static void test_rank_0_stops_encoding_when_another_rank_is_killed(void **state)
{
    struct training training = { .on_tick = kill_rank_1 };
    struct unit_ranks ranks;
    struct error err = { 0 };
    struct media_job job;
    char *log;
    int fd;

    (void)state;
    if (!curve_supported("qwen2_audio"))
        skip();
    media_job_open(&job, MEDIA_JOB_WHOLE);
    media_job_give(&job, &training);
    log = path_join(job.u.dir, "log");
    fd = open(log, O_WRONLY | O_CREAT, 0600);
    training.log = log_new(fd, LOG_INFO);
    free(log);
    assert_false(unit_job_ranks(&training, &ranks, &err));
    log_free(training.log);
    close(fd);
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_non_null(strstr(err.text, "rank 1 ended without reporting an error"));
    log = media_job_read(&job, "log");
    assert_non_null(strstr(log, "media: encoding 4 of 4 files"));
    assert_null(strstr(log, "media: encoded"));
    free(log);
    close(ranks.links[0]);
    media_job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks_train_as_one),
        cmocka_unit_test(test_two_ranks_train_an_encoder_as_one),
        cmocka_unit_test(test_two_ranks_adapt_an_encoder_as_one),
        cmocka_unit_test(test_other_ranks_end_when_a_file_cannot_be_encoded),
        cmocka_unit_test(test_other_ranks_end_when_rank_0_is_killed),
        cmocka_unit_test(test_rank_0_stops_encoding_when_another_rank_is_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
