/* tests/unit/test_dataset_cache.c - cached tokens give the same batches as the texts;
 * changed, truncated or damaged data are read again. */
#include "config.h"

#include "train/dataset/dataset_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/size.h"
#include "tests/unit/unit_dataset.h"

static char *kept_dir, *kept;

static int start(void **state)
{
    unit_dataset_start(state);
    kept_dir = path_join(dir, "kept");
    kept = path_join(kept_dir, "train.tokens");
    return 0;
}

static int stop(void **state)
{
    free(kept);
    free(kept_dir);
    return unit_dataset_stop(state);
}

/* Make data older than the cache made of them. */
static void put_old(const char *name, const char *text, double seconds)
{
    char *path = path_join(dir, name);
    struct timespec times[2] = { 0 };

    unit_write_string(dir, name, text);
    times[0].tv_sec = times[1].tv_sec = (time_t)(clock_wall() - seconds);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    free(path);
}

static const char conversation[] =
    "{\"prompt\": \"one\", \"response\": \"two\"}\n"
    "{\"prompt\": \"three\", \"response\": null}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
    "\"assistant\", \"content\": \"bb\", \"loss_weight\": 0.5}]}\n"
    "{\"prompt\": \"four\", \"response\": \"five\", \"system\": \"six\"}\n";

static struct plan cached_plan(void)
{
    struct plan plan = unit_dataset_plan("talk.jsonl");

    plan.tokenized_path = kept_dir;
    return plan;
}

static void begin(void)
{
    struct error err = { 0 };

    file_remove_tree(kept_dir, &err);
    put_old("talk.jsonl", conversation, 100);
}

/* Describe everything that training reads from the data, and everything the user sees. */
static void describe(const struct dataset *dataset, struct text *out)
{
    struct batch batch = { 0 };

    text_reset(out);
    for (uint64_t i = 0; dataset_batch(dataset, 1, i, 2, &batch); i++) {
        for (size_t row = 0; row < batch.rows; row++)
            text_addf(out, "%d:%d:%d:%g ", batch.tokens[row], batch.positions[row],
                      batch.targets[row], batch.weights ? (double)batch.weights[row] : 1);
        for (size_t run = 0; run <= batch.sequences; run++)
            text_addf(out, "%d ", batch.offsets[run]);
        text_addf(out, "%zu %g\n", batch.trained, batch.weight);
    }
    text_addf(out, "%u %zu %zu\n", dataset_token_max(dataset), dataset_samples(dataset),
              (size_t)dataset_tokens(dataset));
    for (size_t i = 0; dataset_note(dataset, i); i++)
        text_addf(out, "%s\n", dataset_note(dataset, i));
    batch_clear(&batch);
}

static bool is_cached(const struct dataset *dataset)
{
    return text_starts(dataset_origin(dataset), "tokens mapped from");
}

/* Open the dataset and compare it with `expected`, or fill that if it is empty; return
 * whether the tokens came from the cache. */
static bool open_as(const struct plan *plan, enum split split, struct text *expected)
{
    struct dataset *dataset = unit_dataset_open(plan, split);
    bool from = is_cached(dataset);
    struct text got;

    text_init(&got, 0);
    describe(dataset, &got);
    if (expected->len > 0)
        assert_string_equal(got.data, expected->data);
    else
        text_add(expected, got.data, got.len);
    text_clear(&got);
    dataset_close(dataset);
    return from;
}

static void test_dataset_cache_gives_the_same_batches_as_the_texts(void **state)
{
    struct plan plans[5];
    struct text expected;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(plans); i++)
        plans[i] = cached_plan();
    plans[1].packing = CHOICE_YES;
    plans[2].val_size = 1;
    plans[3].stage = STAGE_PT;
    plans[3].dataset = "text.jsonl";
    plans[3].cutoff_len = 5;
    plans[4] = plans[3];
    plans[4].dataset = "text.jsonl,text.jsonl";
    plans[4].mix_strategy = MIX_INTERLEAVE_OVER;
    put_old("text.jsonl", "{\"text\": \"abcdefgh\"}\n{\"text\": \"ijk\"}\n", 100);
    text_init(&expected, 0);
    for (size_t i = 0; i < TS_COUNT(plans); i++) {
        begin();
        text_reset(&expected);
        assert_false(open_as(&plans[i], SPLIT_TRAIN, &expected));
        assert_true(open_as(&plans[i], SPLIT_TRAIN, &expected));
        assert_true(open_as(&plans[i], SPLIT_TRAIN, &expected));
    }
    text_clear(&expected);
}

/* The selection of samples does not affect the cached tokens: one file serves all. */
static void test_dataset_cache_is_independent_of_the_selection(void **state)
{
    struct plan plan = cached_plan();
    struct text first, second;

    (void)state;
    begin();
    text_init(&first, 0);
    text_init(&second, 0);
    assert_false(open_as(&plan, SPLIT_TRAIN, &first));
    plan.val_size = 0.3;
    plan.seed = 7;
    plan.packing = CHOICE_YES;
    plan.disable_shuffling = true;
    text_reset(&first);
    plan.packing = CHOICE_AUTO;
    assert_true(open_as(&plan, SPLIT_TRAIN, &first));
    assert_true(open_as(&plan, SPLIT_EVAL, &second));
    assert_string_not_equal(first.data, second.data);
    text_clear(&first);
    text_clear(&second);
}

static void expect_origin(const struct plan *plan, const char *message)
{
    struct dataset *dataset = unit_dataset_open(plan, SPLIT_TRAIN);

    if (!strstr(dataset_origin(dataset), message))
        fail_msg("\"%s\" does not contain \"%s\"", dataset_origin(dataset), message);
    dataset_close(dataset);
}

static void test_dataset_cache_depends_on_its_options(void **state)
{
    static const char *const message[] = { "cutoff_len",     "train_on_prompt",
                                           "mask_history",   "template",
                                           "default_system", "max_samples",
                                           "sources" };
    struct plan plans[TS_COUNT(message)];
    const struct plan plan = cached_plan();

    (void)state;
    put_old("other.jsonl", conversation, 100);
    for (size_t i = 0; i < TS_COUNT(plans); i++)
        plans[i] = plan;
    plans[0].cutoff_len = 63;
    plans[1].train_on_prompt = true;
    plans[2].mask_history = true;
    plans[3].template_name = "vicuna";
    plans[4].default_system = "x";
    plans[5].max_samples = 3;
    plans[6].dataset = "other.jsonl";
    for (size_t i = 0; i < TS_COUNT(plans); i++) {
        begin();
        expect_origin(&plan, "texts read");
        expect_origin(&plan, "tokens mapped from");
        expect_origin(&plans[i], message[i]);
        expect_origin(&plans[i], "tokens mapped from"); /* has replaced it */
    }
}

static void test_dataset_cache_depends_on_its_files(void **state)
{
    struct plan plan = cached_plan();
    struct text other;

    (void)state;
    begin();
    expect_origin(&plan, "texts read");
    put_old("talk.jsonl", conversation, 50); /* touched */
    expect_origin(&plan, "tokens mapped from");
    text_init(&other, 0);
    text_adds(&other, conversation);
    other.data[13] = 'x'; /* one letter */
    put_old("talk.jsonl", other.data, 40);
    expect_origin(&plan, "talk.jsonl has changed");
    expect_origin(&plan, "tokens mapped from");
    other.data[13] = 'y'; /* within the clock's resolution, with the same time */
    put_old("talk.jsonl", other.data, 1);
    expect_origin(&plan, "talk.jsonl has changed");
    expect_origin(&plan, "tokens mapped from");
    text_adds(&other, "{\"prompt\": \"q\", \"response\": \"a\"}\n");
    put_old("talk.jsonl", other.data, 30);
    expect_origin(&plan, "talk.jsonl has changed");
    put_old("talk.jsonl", conversation,
            -100); /* its clock is ahead: it may still be written */
    expect_origin(&plan, "talk.jsonl has changed");
    expect_origin(&plan, "talk.jsonl has changed");
    text_clear(&other);
}

/* Change each byte, and truncate at each position, a few of them per file. */
static void test_dataset_cache_detects_damage(void **state)
{
    struct plan plan = cached_plan();
    struct text expected, whole, broken;
    struct error err = { 0 };

    (void)state;
    begin();
    text_init(&expected, 0);
    text_init(&whole, 0);
    text_init(&broken, 0);
    assert_false(open_as(&plan, SPLIT_TRAIN, &expected));
    assert_true(file_read(kept, 1 << 20, &whole, NULL, &err));
    for (size_t i = 0; i < 2 * whole.len; i += 7) {
        struct dataset *dataset;
        struct text got;

        text_reset(&broken);
        text_add(&broken, whole.data, i < whole.len ? whole.len : i - whole.len);
        if (i < whole.len)
            broken.data[i] ^= 1;
        assert_true(file_replace(kept, broken.data, broken.len, 0644, &err));
        dataset = dataset_open_readonly(&plan, SPLIT_TRAIN, tokenizer, &err);
        assert_non_null(dataset);
        if (is_cached(dataset))
            fail_msg("damage of byte %zu of %zu is not detected", i, whole.len);
        text_init(&got, 0);
        describe(dataset, &got);
        assert_string_equal(got.data, expected.data);
        text_clear(&got);
        dataset_close(dataset);
    }
    assert_false(open_as(&plan, SPLIT_TRAIN, &expected)); /* is repaired */
    assert_true(open_as(&plan, SPLIT_TRAIN, &expected));
    text_clear(&expected);
    text_clear(&whole);
    text_clear(&broken);
}

/* A complete file with indexes outside it: each number of the first sample and of its
 * sequence is set very large, with a correct digest. */
static void test_dataset_cache_refuses_indexes_outside_the_file(void **state)
{
    struct plan plan = cached_plan();
    struct text expected, whole, odd;
    struct error err = { 0 };
    uint64_t header;
    size_t sample, run;

    (void)state;
    begin();
    text_init(&expected, 0);
    text_init(&whole, 0);
    text_init(&odd, 0);
    assert_false(open_as(&plan, SPLIT_TRAIN, &expected));
    assert_true(file_read(kept, 1 << 20, &whole, NULL, &err));
    memcpy(&header, whole.data + 8, sizeof(header));
    sample = 16 + (size_t)header;
    run = sample + 3 * sizeof(struct sample);
    for (size_t i = 0; i < sizeof(struct sample) + sizeof(struct label_span); i += 4) {
        size_t place =
            i < sizeof(struct sample) ? sample + i : run + i - sizeof(struct sample);
        bool unused = i == offsetof(struct sample, unused);
        uint32_t large = 0xfffffff0u;
        struct dataset *dataset;
        char digest[DIGEST_TEXT];

        text_reset(&odd);
        text_add(&odd, whole.data, whole.len - (DIGEST_TEXT - 1));
        memcpy(odd.data + place, &large, sizeof(large));
        digest_bytes(odd.data, odd.len, digest);
        text_adds(&odd, digest);
        assert_true(file_replace(kept, odd.data, odd.len, 0644, &err));
        dataset = dataset_open_readonly(&plan, SPLIT_TRAIN, tokenizer, &err);
        assert_non_null(dataset);
        /* half a weight is still a weight, and unused fields do not matter */
        if (is_cached(dataset) && !unused && i != offsetof(struct sample, weight))
            fail_msg("damage of value %zu of a sample and its span is not detected",
                     i / 4);
        dataset_close(dataset);
    }
    text_clear(&expected);
    text_clear(&whole);
    text_clear(&odd);
}

/* A file left by a killed process is overwritten; a file that another process is writing
 * is left alone. */
static void test_dataset_cache_is_written_by_one_process(void **state)
{
    struct plan plan = cached_plan();
    char *beside = path_join(kept_dir, "train.tokens.new");
    struct error err = { 0 };
    int fd;

    (void)state;
    begin();
    assert_true(file_make_dir(kept_dir, 0755, &err));
    unit_write_string(kept_dir, "train.tokens.new", "a part of one that was killed");
    expect_origin(&plan, "texts read");
    assert_false(file_exists(beside));
    expect_origin(&plan, "tokens mapped from");
    plan.overwrite_cache = true;
    expect_origin(&plan, "texts read");
    unit_write_string(kept_dir, "train.tokens.new", "being written");
    fd = open(beside, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(unlink(kept), 0);
    expect_origin(&plan, "texts read");
    assert_false(file_exists(kept));
    assert_true(file_exists(beside));
    close(fd);
    free(beside);
}

static void test_dataset_cache_is_not_written_by_a_readonly_open(void **state)
{
    struct plan plan = cached_plan();
    struct error err = { 0 };
    struct dataset *dataset;

    (void)state;
    begin();
    dataset = dataset_open_readonly(&plan, SPLIT_TRAIN, tokenizer, &err);
    assert_non_null(dataset);
    dataset_close(dataset);
    assert_false(file_exists(kept_dir));
}

/* More than 100000 tokens. */
static void put_many(void)
{
    struct text many;

    text_init(&many, 0);
    for (size_t i = 0; i < 3000; i++)
        text_adds(&many, "{\"prompt\": \"0123456789012345678901234567\", \"response\": "
                         "\"0123456789\"}\n");
    put_old("talk.jsonl", many.data, 100);
    text_clear(&many);
}

/* Reading few tokens again is faster than caching them; if they cannot be cached, the run
 * continues and logs it. */
static void test_dataset_cache_is_written_only_for_larger_data(void **state)
{
    struct plan plan = cached_plan();

    (void)state;
    begin();
    plan.run_dir = plan.tokenized_path;
    plan.tokenized_path = NULL;
    expect_origin(&plan, "texts read");
    assert_false(file_exists(kept_dir));
    put_many();
    expect_origin(&plan, "texts read");
    expect_origin(&plan, "tokens mapped from");
    put_old("talk.jsonl", conversation, 100);
    expect_origin(&plan, "talk.jsonl has changed");
    assert_false(file_exists(kept)); /* a file that will not be read again is removed */
    plan.run_dir = "/dev/null/run";
    put_many();
    {
        struct dataset *dataset = unit_dataset_open(&plan, SPLIT_TRAIN);

        assert_non_null(strstr(dataset_note(dataset, 0), "not saved for the next run"));
        dataset_close(dataset);
    }
}

static void test_dataset_cache_refuses_a_hugging_face_folder(void **state)
{
    struct plan plan = cached_plan();
    struct error err = { 0 };

    (void)state;
    begin();
    assert_true(file_make_dir(kept_dir, 0755, &err));
    unit_write_string(kept_dir, "dataset_dict.json", "{}");
    assert_null(dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err));
    assert_non_null(strstr(err.text, "saved by Hugging Face datasets"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_cache_gives_the_same_batches_as_the_texts),
        cmocka_unit_test(test_dataset_cache_is_independent_of_the_selection),
        cmocka_unit_test(test_dataset_cache_depends_on_its_options),
        cmocka_unit_test(test_dataset_cache_depends_on_its_files),
        cmocka_unit_test(test_dataset_cache_detects_damage),
        cmocka_unit_test(test_dataset_cache_refuses_indexes_outside_the_file),
        cmocka_unit_test(test_dataset_cache_is_written_by_one_process),
        cmocka_unit_test(test_dataset_cache_is_not_written_by_a_readonly_open),
        cmocka_unit_test(test_dataset_cache_is_written_only_for_larger_data),
        cmocka_unit_test(test_dataset_cache_refuses_a_hugging_face_folder),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
