/* tests/unit/test_dataset_media_files.c - where the files of media are found, what is wrong
 * with them, and when saved tokens can be used. */
#include "config.h"

#include "train/dataset/dataset.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/digest.h"
#include "base/landlock.h"
#include "base/size.h"
#include "tests/unit/unit_media_data.h"

#define QWEN      "{\"model_type\": \"qwen2_vl\"}"
#define PROCESSOR "{\"image_processor_type\": \"Qwen2VLImageProcessor\"}"

static char *dir, *data_dir, *run_dir;
static struct tokenizer *tokenizer;

static void set_time(const char *name, time_t seconds)
{
    const struct timespec times[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };
    char *path = path_join(dir, name);

    assert_return_code(utimensat(AT_FDCWD, path, times, 0), errno);
    free(path);
}

/* Tokens are not saved if a file of the model was written just before. */
static void age_model(void)
{
    DIR *files = opendir(dir);
    struct dirent *entry;

    assert_non_null(files);
    while ((entry = readdir(files)))
        if (strchr(entry->d_name, '.') != entry->d_name)
            set_time(entry->d_name, 1000000);
    closedir(files);
}

static int start(void **state)
{
    char *media;

    (void)state;
    dir = unit_dir_new();
    data_dir = path_join(dir, "data");
    run_dir = path_join(dir, "run");
    media = path_join(dir, "media");
    assert_return_code(mkdir(data_dir, 0700), errno);
    assert_return_code(mkdir(media, 0700), errno);
    tokenizer = unit_media_model(dir, QWEN);
    unit_write_string(dir, "preprocessor_config.json", PROCESSOR);
    age_model();
    free(media);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    free(data_dir);
    free(run_dir);
    unit_dir_free(dir);
    return 0;
}

/* The start of a PNG, which has its size: 28 x 28 pixels become one row. */
static void png(uint32_t width, uint32_t height, struct text *out)
{
    static const char head[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

    text_init(out, 0);
    text_add(out, head, 16);
    for (int i = 0; i < 2; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            text_addc(out, (char)((i ? height : width) >> shift));
}

static void write_png(const char *name, uint32_t width, uint32_t height)
{
    struct text text;

    png(width, height, &text);
    unit_write(dir, name, &text);
    text_clear(&text);
}

/* A record with these images. */
static void write_record(const char *images, size_t count)
{
    struct text text;

    text_init(&text, 0);
    text_adds(&text, "{\"instruction\": \"");
    for (size_t i = 0; i < count; i++)
        text_adds(&text, "<image>");
    text_addf(&text, "\", \"output\": \"A.\", \"images\": %s}\n", images);
    unit_write(data_dir, "data.jsonl", &text);
    text_clear(&text);
}

static struct plan plan_of(void)
{
    return (struct plan) {
        .stage = STAGE_SFT,
        .model_name_or_path = dir,
        .dataset = "data.jsonl",
        .dataset_dir = data_dir,
        .template_name = "qwen2_vl",
        .run_dir = run_dir,
        .image_max_pixels = 768 * 768,
        .image_min_pixels = 32 * 32,
        .audio_sampling_rate = 16000,
        .cutoff_len = 4000,
        .data_seed = -1,
    };
}

static struct dataset *open_plan(const struct plan *plan)
{
    struct error err = { 0 };
    struct dataset *dataset = dataset_open(plan, SPLIT_TRAIN, tokenizer, &err);

    if (!dataset)
        fail_msg("%s:%u: %s", err.file, err.at.line, err.text);
    return dataset;
}

static void expect_item(const struct dataset *dataset, size_t index, const char *folder,
                        const char *name, uint32_t rows)
{
    const struct media_item *item = dataset_medium(dataset, index);
    char *path = path_join(folder, name), digest[DIGEST_TEXT], *got;
    struct error err = { 0 };
    struct text hex;

    assert_string_equal(item->path, path);
    assert_int_equal(item->rows, rows);
    assert_true(digest_file(path, digest, &err));
    text_init(&hex, 0);
    for (size_t i = 0; i < sizeof(item->digest); i++)
        text_addf(&hex, "%02x", item->digest[i]);
    got = hex.data;
    assert_string_equal(got, digest);
    text_clear(&hex);
    free(path);
}

static void test_dataset_media_files_are_found(void **state)
{
    char *media = path_join(dir, "media"), *given = path_join(dir, "given.png");
    struct plan plan = plan_of();
    struct dataset *dataset;
    struct text images;

    (void)state;
    write_png("data/a.png", 56, 84);
    write_png("media/a.png", 56, 56);
    write_png("given.png", 84, 84);
    text_init(&images, 0);
    text_addf(&images, "[\"a.png\", \"%s\", \"file://%s\", \"a.png\"]", given, given);
    write_record(images.data, 4);
    dataset = open_plan(&plan); /* dataset_dir is the default of media_dir */
    assert_int_equal(dataset_media(dataset), 2);
    expect_item(dataset, 0, data_dir, "a.png", 6);
    expect_item(dataset, 1, dir, "given.png", 9);
    assert_int_equal(dataset_medium(dataset, 0)->grid[1], 6);
    assert_int_equal(dataset_medium(dataset, 0)->grid[2], 4);
    assert_string_equal(dataset_medium(dataset, 0)->key, "a.png");
    assert_null(dataset_note(dataset, 0));
    dataset_close(dataset);
    plan.media_dir = media;
    dataset = open_plan(&plan);
    expect_item(dataset, 0, media, "a.png", 4);
    dataset_close(dataset);
    plan.image_max_pixels = 28 * 28 * 4; /* a job's limits count */
    dataset = open_plan(&plan);
    assert_int_equal(dataset_medium(dataset, 1)->rows, 4);
    dataset_close(dataset);
    text_clear(&images);
    free(given);
    free(media);
}

/* A path of the working directory is used, and noted. */
static void test_dataset_media_files_of_the_working_directory_are_noted(void **state)
{
    struct plan plan = plan_of();
    char was[4096];
    struct dataset *dataset;

    (void)state;
    assert_non_null(getcwd(was, sizeof(was)));
    write_png("here.png", 56, 56);
    write_record("\"here.png\"", 1);
    assert_return_code(chdir(dir), errno);
    dataset = open_plan(&plan);
    assert_return_code(chdir(was), errno);
    assert_string_equal(dataset_medium(dataset, 0)->path, "here.png");
    assert_string_equal(
        dataset_note(dataset, 0),
        "1 image is not in media_dir; its path is used as given: here.png");
    dataset_close(dataset);
}

static void expect_error(const char *images, const char *says)
{
    struct plan plan = plan_of();
    struct error err = { 0 };
    struct dataset *dataset;

    write_record(images, 1);
    dataset = dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err);
    if (dataset)
        fail_msg("not refused: %s", says);
    if (err.code != ERROR_DATA || !strstr(err.text, says))
        fail_msg("%s, not: %s", err.text, says);
    assert_int_equal(err.at.line, 1);
    assert_non_null(strstr(err.file, "data.jsonl"));
}

static void test_dataset_media_files_that_cannot_be_read_have_a_position(void **state)
{
    (void)state;
    unit_write_string(data_dir, "empty.png", "");
    unit_write_string(data_dir, "text.png", "not an image");
    write_png("data/flat.png", 0, 28);
    expect_error("\"none.png\"", "none.png does not exist in media_dir (");
    expect_error("\"/none.png\"", "the image /none.png does not exist; correct its path");
    expect_error("\"https://a/b.png\"",
                 "https://a/b.png, and trainspool downloads nothing");
    expect_error("\".\"", "does not exist in media_dir");
    expect_error("\"empty.png\"", "empty.png is empty");
    expect_error("\"text.png\"", "not an image: it must be a JPEG, PNG or WebP file");
    expect_error("\"flat.png\"", "flat.png");
    expect_error("\"data:image/png;base64,%%%\"", "are not base64");
    expect_error("{\"bytes\": \"text\", \"path\": null}", "not an image");
    expect_error("{\"bytes\": \"\", \"path\": \"a.png\"}", "a.png: there are no bytes");
}

static void allow(const struct landlock *list, const char *file)
{
    char *path = path_join(dir, file);
    struct error err = { 0 };

    if (!landlock_allow(list, path, LANDLOCK_WRITE, &err))
        _exit(1);
    free(path);
}

/* Read a record in a process that may read the data and the model alone; fail with 2 if the error
 * is another one. */
static void read_in_sandbox(const char *images, const char *says)
{
    const struct plan plan = plan_of();
    struct error err = { 0 };
    struct landlock list;

    write_record(images, 1);
    if (!landlock_open(&list, false, &err))
        _exit(1);
    allow(&list, "data");
    allow(&list, "config.json");
    allow(&list, "preprocessor_config.json");
    if (!landlock_enter(&list, &err))
        _exit(1);
    if (!dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err) && err.code == ERROR_DATA &&
        err.at.line == 1 && strstr(err.text, says))
        _exit(0);
    fprintf(stderr, "%s, not: %s\n", err.text, says);
    _exit(2);
}

static void test_dataset_media_files_outside_the_sandbox_say_what_to_do(void **state)
{
    static const char *const rows[][2] = {
        { "\"linked.png\"", "the image linked.png is at /" },
        { "\"linked.png\"",
          "/other.png, outside the folders that a run may read; copy the "
          "file to media_dir, or set media_dir to a folder that "
          "contains it" },
        { "\"../other.png\"", "/other.png, outside the folders that a run may read" },
    };
    char *link = path_join(data_dir, "linked.png");
    int status;

    (void)state;
    if (landlock_version() == 0)
        skip();
    write_png("other.png", 28, 28);
    assert_return_code(symlink("../other.png", link), errno);
    free(link);
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        const pid_t pid = fork();

        if (pid == 0)
            read_in_sandbox(rows[i][0], rows[i][1]);
        assert_return_code(pid, errno);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

/* Bytes in a record are saved under their digest, once. */
static void test_dataset_media_files_of_bytes_are_saved(void **state)
{
    struct plan plan = plan_of();
    struct dataset *dataset;
    struct text bytes, images;
    char digest[DIGEST_TEXT], *folder = path_join(run_dir, "media");

    (void)state;
    png(84, 56, &bytes);
    digest_bytes(bytes.data, bytes.len, digest);
    text_init(&images, 0);
    text_adds(&images, "[\"data:image/png;base64,");
    base64_encode(bytes.data, bytes.len, &images);
    text_addf(&images, "\", {\"bytes\": {\"binary_bytes\": %zu, \"base64\": \"",
              bytes.len);
    base64_encode(bytes.data, bytes.len, &images);
    text_adds(&images, "\"}, \"path\": \"x.png\"}]");
    write_record(images.data, 2);
    dataset = open_plan(&plan);
    assert_int_equal(dataset_media(dataset), 1);
    expect_item(dataset, 0, folder, digest, 6);
    dataset_close(dataset);
    text_clear(&images);
    text_clear(&bytes);
    free(folder);
}

/* The same for a table, whose rows have a list of parts (media_bytes.py). */
static void test_dataset_media_files_of_tables_are_saved(void **state)
{
    struct plan plan = plan_of();
    struct dataset *dataset;
    struct text bytes;
    char digest[DIGEST_TEXT], *folder = path_join(run_dir, "media");
    char *golden = unit_source("tests/golden/media_bytes.parquet");

    (void)state;
    png(84, 56, &bytes);
    text_add(&bytes, "\x08\x02\0\0\0", 5);
    digest_bytes(bytes.data, bytes.len, digest);
    plan.dataset = golden;
    dataset = open_plan(&plan);
    assert_int_equal(dataset_media(dataset), 1);
    expect_item(dataset, 0, folder, digest, 6);
    dataset_close(dataset);
    text_clear(&bytes);
    free(golden);
    free(folder);
}

/* Write the messages that torchtune makes of The Cauldron's records (cauldron.py). */
static void write_messages(void)
{
    static const char *const images[] = { "\"a.png\"", "\"b.png\", \"c.png\"", "" };
    static const char *const parts[] = { "{\"messages\": [", "], \"images\": [", "]}\n" };
    char *path = unit_source("tests/golden/cauldron.json");
    struct error err = { 0 };
    json_t *records = json_read_file(path, 1 << 20, &err);
    struct text text;

    if (!records)
        fail_msg("%s", err.text);
    assert_int_equal(json_array_size(records), TS_COUNT(images));
    text_init(&text, 0);
    for (size_t i = 0; i < TS_COUNT(images); i++) {
        const json_t *list = json_array_get(records, i);

        text_adds(&text, parts[0]);
        for (size_t k = 0; k < json_array_size(list); k++) {
            json_t *from = json_array_get(list, k);
            json_t *message = json_pack("{s O, s O}", "role", json_array_get(from, 0),
                                        "content", json_array_get(from, 1));

            text_adds(&text, k > 0 ? ", " : "");
            json_write(message, &text);
            json_decref(message);
        }
        text_addf(&text, "%s%s%s", parts[1], images[i], parts[2]);
    }
    unit_write(data_dir, "data.jsonl", &text);
    text_clear(&text);
    json_decref(records);
    free(path);
}

/* A table of The Cauldron's form becomes the tokens of torchtune's messages. */
static void test_dataset_media_files_of_the_cauldron(void **state)
{
    static const uint32_t sizes[][2] = { { 84, 56 }, { 56, 84 }, { 84, 84 } };
    static const char *const names[] = { "data/a.png", "data/b.png", "data/c.png" };
    char *golden = unit_source("tests/golden/cauldron.parquet");
    struct batch batches[2] = { { 0 }, { 0 } };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(sizes); i++)
        write_png(names[i], sizes[i][0], sizes[i][1]);
    write_messages();
    for (size_t i = 0; i < 2; i++) {
        struct plan plan = plan_of();
        struct dataset *dataset;

        plan.dataset = i == 0 ? "data.jsonl" : golden;
        dataset = open_plan(&plan);
        assert_int_equal(dataset_samples(dataset), 3);
        assert_int_equal(dataset_media(dataset), 3);
        assert_true(dataset_batch(dataset, 0, 0, 3, &batches[i]));
        assert_int_equal(batches[i].media_rows, 6 + 6 + 9);
        dataset_close(dataset);
    }
    assert_int_equal(batches[0].rows, batches[1].rows);
    assert_memory_equal(batches[0].tokens, batches[1].tokens,
                        batches[0].rows * sizeof(*batches[0].tokens));
    assert_memory_equal(batches[0].media_at, batches[1].media_at,
                        batches[0].media_rows * sizeof(*batches[0].media_at));
    for (size_t i = 0; i < 2; i++)
        batch_clear(&batches[i]);
    free(golden);
}

/* Return whether the tokens come from the file of the last run. */
static bool is_mapped(const struct plan *plan)
{
    struct dataset *dataset = open_plan(plan);
    bool mapped = strstr(dataset_origin(dataset), "tokens mapped from ") != NULL;

    assert_int_equal(dataset_media(dataset), 1);
    dataset_close(dataset);
    return mapped;
}

static void test_dataset_media_files_decide_about_saved_tokens(void **state)
{
    struct plan plan = plan_of();
    char *saved = path_join(dir, "saved");

    (void)state;
    plan.tokenized_path = saved;
    write_png("data/c.png", 56, 84);
    write_record("\"c.png\"", 1);
    set_time("data/c.png", 1000000);
    set_time("data/data.jsonl", 1000000);
    assert_false(is_mapped(&plan));
    assert_true(is_mapped(&plan));
    set_time("data/c.png", 1000001); /* the same content */
    assert_true(is_mapped(&plan));
    write_png("data/c.png", 84, 56);
    set_time("data/c.png", 1000000);
    assert_true(is_mapped(&plan)); /* the same size and time */
    set_time("data/c.png", 1000001);
    assert_false(is_mapped(&plan));
    assert_true(is_mapped(&plan));
    plan.image_max_pixels = 28 * 28 * 4;
    assert_false(is_mapped(&plan));
    free(saved);
}

/* Not flushed to the disk: it is written many times. */
static void overwrite(const char *name, const struct text *text)
{
    FILE *file = fopen(name, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text->data, 1, text->len, file), text->len);
    assert_int_equal(fclose(file), 0);
}

/* A file of tokens whose numbers of media lie is not used, or does no harm: each is set very
 * large, or to another small one, with a correct digest. */
static void test_dataset_media_files_survive_damaged_tokens(void **state)
{
    static const uint32_t values[] = { 0xfffffff0u, 0, 1, 2, 7 };
    struct plan plan = plan_of();
    char *saved = path_join(dir, "saved"), *name = path_join(saved, "train.tokens");
    struct text whole, odd;
    struct error err = { 0 };
    size_t used = 0, refused = 0;
    uint64_t header;

    (void)state;
    plan.tokenized_path = saved;
    write_png("data/c.png", 56, 84);
    write_record("[\"c.png\", \"c.png\"]", 2);
    set_time("data/c.png", 1000000);
    set_time("data/data.jsonl", 1000000);
    assert_false(is_mapped(&plan));
    text_init(&whole, 0);
    text_init(&odd, 0);
    assert_true(file_read(name, 1 << 20, &whole, NULL, &err));
    memcpy(&header, whole.data + 8, sizeof(header));
    for (size_t at = 16 + (size_t)header; at + 4 < whole.len - DIGEST_TEXT; at += 4)
        for (size_t v = 0; v < TS_COUNT(values); v++) {
            struct dataset *dataset;
            struct batch batch = { 0 };
            char digest[DIGEST_TEXT];

            text_reset(&odd);
            text_add(&odd, whole.data, whole.len - (DIGEST_TEXT - 1));
            memcpy(odd.data + at, &values[v], sizeof(values[v]));
            digest_bytes(odd.data, odd.len, digest);
            text_adds(&odd, digest);
            overwrite(name, &odd);
            dataset = dataset_open_readonly(&plan, SPLIT_TRAIN, tokenizer, &err);
            assert_non_null(dataset);
            assert_true(dataset_batch(dataset, 0, 0, 1, &batch));
            for (size_t i = 0; i < batch.media_count; i++)
                assert_non_null(batch.media[i].item->key);
            for (size_t i = 0; i < batch.media_rows; i++)
                assert_true((size_t)batch.media_at[i] < batch.rows);
            (strstr(dataset_origin(dataset), "mapped") ? &used : &refused)[0]++;
            batch_clear(&batch);
            dataset_close(dataset);
        }
    assert_true(used > 0 && refused > 0);
    text_clear(&whole);
    text_clear(&odd);
    free(name);
    free(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_media_files_are_found),
        cmocka_unit_test(test_dataset_media_files_of_the_working_directory_are_noted),
        cmocka_unit_test(test_dataset_media_files_that_cannot_be_read_have_a_position),
        cmocka_unit_test(test_dataset_media_files_outside_the_sandbox_say_what_to_do),
        cmocka_unit_test(test_dataset_media_files_of_bytes_are_saved),
        cmocka_unit_test(test_dataset_media_files_of_tables_are_saved),
        cmocka_unit_test(test_dataset_media_files_of_the_cauldron),
        cmocka_unit_test(test_dataset_media_files_decide_about_saved_tokens),
        cmocka_unit_test(test_dataset_media_files_survive_damaged_tokens),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
