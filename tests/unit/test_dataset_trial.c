/* tests/unit/test_dataset_trial.c - what is wrong inside media is found while data are counted, in
 * files and in records, as far as there is time. */
#include "config.h"

#include "train/dataset/dataset_trial.h"

#include <dirent.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "tests/unit/unit_media_data.h"
#include "tests/unit/unit_media_file.h"

/* Files of 56 x 56 pixels: 4 rows each. */
enum { SIDE = 56 };

static char *dir;
static struct tokenizer *tokenizer;
static size_t reported;

static int start(void **state)
{
    (void)state;
    dir = unit_dir_new();
    tokenizer = unit_media_model(dir, "{\"model_type\": \"qwen2_vl\"}");
    unit_write_string(dir, "preprocessor_config.json",
                      "{\"image_processor_type\": \"Qwen2VLImageProcessor\"}");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    unit_dir_free(dir);
    return 0;
}

static bool supported(void)
{
#ifdef HAVE_PNG
    return true;
#else
    return false;
#endif
}

/* Return a PNG; its pixels end early if it is damaged. */
static struct text png(const char *name, bool damaged)
{
    char *path = unit_media_image(dir, name, SIDE, SIDE);
    struct error err = { 0 };
    struct text out;

    text_init(&out, 0);
    if (!file_read(path, (size_t)1 << 20, &out, NULL, &err))
        fail_msg("%s", err.text);
    if (damaged)
        memset(out.data + out.len / 2, 0x55, 40);
    free(path);
    return out;
}

static void add_record(struct text *records, const char *image)
{
    text_addf(
        records,
        "{\"instruction\": \"<image>\", \"output\": \"A.\", \"images\": [\"%s\"]}\n",
        image);
}

/* Add a record with a file. */
static void add_file(struct text *records, const char *name, bool damaged)
{
    struct text image = png(name, damaged);

    unit_write(dir, name, &image);
    add_record(records, name);
    text_clear(&image);
}

/* Add a record with the contents of one. */
static void add_contents(struct text *records, const char *name, bool damaged)
{
    struct text image = png(name, damaged), encoded;

    text_init(&encoded, 0);
    text_adds(&encoded, "data:image/png;base64,");
    base64_encode(image.data, image.len, &encoded);
    add_record(records, encoded.data);
    text_clear(&encoded);
    text_clear(&image);
}

static struct plan plan_of(const char *data)
{
    return (struct plan) {
        .stage = STAGE_SFT,
        .model_name_or_path = dir,
        .dataset = data,
        .dataset_dir = dir,
        .template_name = "qwen2_vl",
        .image_max_pixels = 768 * 768,
        .image_min_pixels = 32 * 32,
        .audio_sampling_rate = 16000,
        .cutoff_len = 4000,
        .data_seed = -1,
    };
}

static void count_fault(const struct error *fault)
{
    assert_int_equal(fault->code, ERROR_DATA);
    reported++;
}

/* Read the data and try their files, with this time for decoding. */
static struct dataset_trial try(const char *data, double seconds, struct error *err)
{
    const struct plan plan = plan_of(data);
    struct dataset_trial trial = { .faults.report = count_fault, .seconds = seconds };
    struct dataset *dataset;

    reported = 0;
    dataset = dataset_open_to_count(&plan, SPLIT_TRAIN, tokenizer, &trial, err);
    if (dataset)
        dataset_trial_files(&trial, dataset, &plan, err);
    dataset_close(dataset);
    assert_int_equal(reported, trial.faults.count);
    return trial;
}

static void test_dataset_trial_decodes_files_and_contents(void **state)
{
    struct dataset_trial trial;
    struct error err = { 0 };
    struct text records;

    (void)state;
    if (!supported())
        skip();
    text_init(&records, 0);
    add_file(&records, "a.png", false);
    add_contents(&records, "b", false);
    unit_write(dir, "data.jsonl", &records);
    trial = try("data.jsonl", 60, &err);
    assert_int_equal(err.code, ERROR_NONE);
    assert_int_equal(trial.skipped, 0);
    assert_true(trial.seconds < 60 && trial.seconds > 0);
    /* damage in a file */
    add_file(&records, "c.png", true);
    unit_write(dir, "data.jsonl", &records);
    trial = try("data.jsonl", 60, &err);
    assert_int_equal(trial.faults.count, 1);
    assert_int_equal(err.at.line, 3);
    assert_non_null(strstr(err.text, "c.png"));
    /* and in contents, which are read first */
    add_contents(&records, "d", true);
    unit_write(dir, "data.jsonl", &records);
    error_clear(&err);
    trial = try("data.jsonl", 60, &err);
    assert_int_equal(trial.faults.count, 1);
    assert_int_equal(err.at.line, 4);
    assert_non_null(strstr(err.text, "the bytes of a medium"));
    text_clear(&records);
}

static void test_dataset_trial_counts_what_it_does_not_decode(void **state)
{
    struct dataset_trial trial;
    struct error err = { 0 };
    struct text records, image;

    (void)state;
    if (!supported())
        skip();
    text_init(&records, 0);
    add_file(&records, "a.png", true);
    add_contents(&records, "b", true);
    add_contents(&records, "c", false);
    unit_write(dir, "data.jsonl", &records);
    trial = try("data.jsonl", 0, &err);
    assert_int_equal(err.code, ERROR_NONE);
    assert_int_equal(trial.skipped, 3);
    /* a large one is not decoded: this file has no pixels */
    text_reset(&records);
    add_file(&records, "large.png", false);
    image = png("large.png", false);
    image.len = 29;
    image.data[17] = image.data[21] = 1; /* 65592 pixels a side */
    unit_write(dir, "large.png", &image);
    unit_write(dir, "data.jsonl", &records);
    trial = try("data.jsonl", 60, &err);
    assert_int_equal(err.code, ERROR_DATA); /* beyond the limit of all images */
    image.data[17] = image.data[21] = 0;
    image.data[18] = image.data[22] = 0x20; /* 8248 */
    unit_write(dir, "large.png", &image);
    error_clear(&err);
    trial = try("data.jsonl", 60, &err);
    assert_int_equal(err.code, ERROR_NONE);
    assert_int_equal(trial.skipped, 1);
    text_clear(&image);
    text_clear(&records);
}

/* The image of tests/golden/media_bytes.py is the start of one. */
static void test_dataset_trial_decodes_tables(void **state)
{
    char *golden = unit_source("tests/golden/media_bytes.parquet");
    struct dataset_trial trial;
    struct error err = { 0 };

    (void)state;
    trial = try(golden, 60, &err);
    assert_int_equal(trial.faults.count, 1);
    assert_non_null(strstr(err.file, "media_bytes.parquet"));
    assert_int_equal(err.at.line, 1);
    error_clear(&err);
    trial = try(golden, 0, &err);
    assert_int_equal(err.code, ERROR_NONE);
    assert_int_equal(trial.skipped, 1);
    free(golden);
}

/* Make all files old: tokens are saved only if nothing that they depend on is new. */
static void age(void)
{
    const struct timespec times[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
    DIR *files = opendir(dir);
    const struct dirent *entry;

    assert_non_null(files);
    while ((entry = readdir(files)))
        assert_return_code(utimensat(dirfd(files), entry->d_name, times, 0), errno);
    closedir(files);
}

/* A run has saved the contents and the tokens. */
static void test_dataset_trial_decodes_what_a_run_has_saved(void **state)
{
    char *saved = path_join(dir, "saved");
    struct dataset_trial trial = { .faults.report = count_fault, .seconds = 60 };
    struct plan plan = plan_of("data.jsonl");
    struct error err = { 0 };
    struct dataset *dataset;
    struct text records;

    (void)state;
    if (!supported())
        skip();
    plan.tokenized_path = saved;
    text_init(&records, 0);
    add_contents(&records, "a", false);
    add_contents(&records, "b", true);
    unit_write(dir, "data.jsonl", &records);
    age();
    dataset = dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err);
    assert_non_null(dataset);
    dataset_close(dataset);
    dataset = dataset_open_to_count(&plan, SPLIT_TRAIN, tokenizer, &trial, &err);
    assert_non_null(dataset);
    assert_non_null(strstr(dataset_origin(dataset), "tokens mapped from "));
    assert_false(dataset_trial_files(&trial, dataset, &plan, &err));
    dataset_close(dataset);
    assert_int_equal(trial.faults.count, 1);
    assert_int_equal(err.at.line, 2);
    text_clear(&records);
    free(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_trial_decodes_files_and_contents),
        cmocka_unit_test(test_dataset_trial_counts_what_it_does_not_decode),
        cmocka_unit_test(test_dataset_trial_decodes_tables),
        cmocka_unit_test(test_dataset_trial_decodes_what_a_run_has_saved),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
