/*
 * tests/unit/test_tensorboard.c - event files, read by a small reader: every record is
 * complete, and the curves of a killed run match those of an uninterrupted one.
 * tests/cli/tensorboard.t reads them with TensorBoard, if it is installed.
 */
#include "config.h"

#include "tests/unit/unit.h"

#include <dirent.h>
#include <math.h>

#include "base/crc32c.h"
#include "train/metrics.h"
#include "train/files/tensorboard.h"

/* Contents of a folder as TensorBoard reads it. */
struct point {
    char tag[64];
    int64_t step;
    float value;
};
struct reading {
    struct point points[512];
    size_t count, starts, texts;
    char text[256]; /* the last one */
};

static uint64_t little(const char *data, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)(unsigned char)data[i] << 8 * i;
    return value;
}

/* One field of a message: its number and its value or bytes. */
struct field {
    int number, wire;
    uint64_t value;
    const char *bytes;
};

static uint64_t varint(const char **at)
{
    uint64_t value = 0;
    int shift = 0;

    do
        value |= (uint64_t)(**at & 0x7f) << shift;
    while (shift += 7, *(*at)++ & 0x80);
    return value;
}

static bool next_field(const char **at, const char *end, struct field *out)
{
    uint64_t key;

    if (*at >= end)
        return false;
    key = varint(at);
    *out = (struct field) { .number = (int)(key >> 3), .wire = (int)(key & 7) };
    switch (out->wire) {
    case 0:
        out->value = varint(at);
        break;
    case 1:
        out->value = little(*at, 8);
        *at += 8;
        break;
    case 2:
        out->value = varint(at);
        out->bytes = *at;
        *at += out->value;
        break;
    case 5:
        out->value = little(*at, 4);
        *at += 4;
        break;
    default:
        fail_msg("wire type %d", out->wire);
    }
    assert_true(*at <= end);
    return true;
}

static void read_tensor(struct reading *reading, const struct field *tensor)
{
    const char *at = tensor->bytes, *end = at + tensor->value;
    struct field f;

    while (next_field(&at, end, &f)) {
        if (f.number == 1)
            assert_int_equal(f.value, 7); /* DT_STRING */
        if (f.number == 8)
            snprintf(reading->text, sizeof(reading->text), "%.*s", (int)f.value, f.bytes);
    }
    reading->texts++;
}

static void read_value(struct reading *reading, int64_t step, const struct field *value)
{
    const char *at = value->bytes, *end = at + value->value;
    struct point point = { .step = step };
    bool simple = false;
    struct field f;

    while (next_field(&at, end, &f)) {
        uint32_t bits = (uint32_t)f.value;

        if (f.number == 1)
            snprintf(point.tag, sizeof(point.tag), "%.*s", (int)f.value, f.bytes);
        if (f.number == 2) {
            simple = true;
            memcpy(&point.value, &bits, 4);
        }
        if (f.number == 8)
            read_tensor(reading, &f);
    }
    assert_true(reading->count < sizeof(reading->points) / sizeof(reading->points[0]));
    if (simple)
        reading->points[reading->count++] = point;
}

/* Discard everything from this step on, as TensorBoard does at SessionLog.START. */
static void forget(struct reading *reading, int64_t step)
{
    size_t kept = 0;

    for (size_t i = 0; i < reading->count; i++)
        if (reading->points[i].step < step)
            reading->points[kept++] = reading->points[i];
    reading->count = kept;
    reading->starts++;
}

static void read_event(struct reading *reading, const char *at, const char *end,
                       bool first)
{
    const char *inner;
    int64_t step = 0;
    double when = 0;
    struct field f, value;

    while (next_field(&at, end, &f)) {
        if (f.number == 1)
            memcpy(&when, &f.value, 8);
        if (f.number == 2)
            step = (int64_t)f.value;
        if (f.number == 3) {
            assert_true(first);
            assert_int_equal(f.value, 13);
            assert_memory_equal(f.bytes, "brain.Event:2", 13);
        }
        if (f.number == 5)
            for (inner = f.bytes; next_field(&inner, f.bytes + f.value, &value);)
                read_value(reading, step, &value);
        if (f.number == 7)
            forget(reading, step);
    }
    assert_true(when > 1.7e9 && when < 1e10);
}

static void read_file(struct reading *reading, const char *name)
{
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    if (!file_read(name, 1 << 20, &text, NULL, &err))
        fail_msg("%s", err.text);
    for (size_t at = 0; at < text.len;) {
        const char *record = text.data + at;
        size_t len;

        assert_true(text.len - at >= 16);
        len = little(record, 8);
        assert_true(text.len - at - 16 >= len);
        assert_int_equal(little(record + 8, 4), crc32c_masked(record, 8));
        assert_int_equal(little(record + 12 + len, 4), crc32c_masked(record + 12, len));
        read_event(reading, record + 12, record + 12 + len, at == 0);
        at += 16 + len;
    }
    text_clear(&text);
}

static int is_events(const struct dirent *entry)
{
    return strstr(entry->d_name, "tfevents") != NULL;
}

/* Read all files of a folder in the order of their names; return their number. */
static int read_folder(struct reading *reading, const char *dir)
{
    struct dirent **list;
    int count = scandir(dir, &list, is_events, alphasort);

    *reading = (struct reading) { 0 };
    for (int i = 0; i < count; i++) {
        char *name = path_join(dir, list[i]->d_name);

        read_file(reading, name);
        free(name);
        free(list[i]);
    }
    free(list);
    return count;
}

static const struct point *find(const struct reading *reading, const char *tag,
                                int64_t step)
{
    const struct point *found = NULL;

    for (size_t i = 0; i < reading->count; i++)
        if (strcmp(reading->points[i].tag, tag) == 0 && reading->points[i].step == step) {
            assert_null(found); /* only one */
            found = &reading->points[i];
        }
    return found;
}

static struct metrics *open_run(const char *dir, int64_t step)
{
    char *name = path_join(dir, "metrics.jsonl");
    struct error err = { 0 };
    struct metrics *metrics = metrics_open(name, step > 0 ? step : -1, NULL, &err);

    assert_non_null(metrics);
    metrics_open_tensorboard(metrics, dir, step > 0 ? step + 1 : 0, "of **this**");
    free(name);
    return metrics;
}

static void write_steps(struct metrics *metrics, int64_t from, int64_t to, double loss)
{
    for (int64_t step = from; step <= to; step++) {
        metrics_step(metrics,
                     &(struct metric) { .step = step, .loss = loss, .tokens = 7 });
        if (step % 4 == 0)
            metrics_eval(metrics, step, 0.5, &(struct evaluation) { .loss = 2 * loss });
    }
}

static void test_tensorboard_has_the_metrics_under_their_names(void **state)
{
    static const char *const tags[] = { "train/loss",          "train/grad_norm",
                                        "train/learning_rate", "train/epoch",
                                        "train/loss_scale",    "train/skipped",
                                        "train/tokens",        "train/tokens_per_second",
                                        "train/memory",        "eval/loss",
                                        "eval/perplexity" };
    char *dir = unit_dir_new();
    struct metrics *metrics = open_run(dir, 0);
    struct metric metric = { .step = 3,
                             .epoch = 0.25,
                             .loss = 1.5,
                             .grad_norm = INFINITY,
                             .learning_rate = NAN,
                             .loss_scale = 65536,
                             .skipped = 1,
                             .tokens = 1000,
                             .tokens_per_second = 12.5,
                             .memory = 1 << 30 };
    struct reading reading;

    (void)state;
    metrics_step(metrics, &metric);
    metrics_eval(metrics, 3, 0.25, &(struct evaluation) { .loss = 2 });
    metrics_close(metrics);
    assert_int_equal(read_folder(&reading, dir), 1);
    assert_int_equal(reading.starts, 1);
    assert_int_equal(reading.texts, 1);
    assert_string_equal(reading.text, "of **this**");
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
        if (find(&reading, tags[i], 3) == NULL)
            fail_msg("no %s", tags[i]);
    assert_int_equal(reading.count, sizeof(tags) / sizeof(tags[0]));
    assert_true(find(&reading, "train/loss", 3)->value == 1.5F);
    assert_true(isinf(find(&reading, "train/grad_norm", 3)->value));
    assert_true(isnan(find(&reading, "train/learning_rate", 3)->value));
    assert_true(find(&reading, "train/memory", 3)->value == 0x1p30F);
    assert_true(find(&reading, "eval/loss", 3)->value == 2);
    assert_true(fabsf(find(&reading, "eval/perplexity", 3)->value - 7.389056F) < 1e-5F);
    assert_null(find(&reading, "train/step", 3));
    unit_dir_free(dir);
}

/* Killed at 7 and 9, each time with its last checkpoint at 4, all within a second. */
static void test_tensorboard_resumed_has_each_step_once(void **state)
{
    char *dir = unit_dir_new();
    struct metrics *metrics = open_run(dir, 0);
    struct reading reading;

    (void)state;
    metrics_eval(metrics, 0, 0, &(struct evaluation) { .loss = 9 });
    write_steps(metrics, 1, 7, 1);
    metrics_close(metrics);
    metrics = open_run(dir, 4);
    write_steps(metrics, 5, 9, 2);
    metrics_close(metrics);
    metrics = open_run(dir, 4);
    write_steps(metrics, 5, 10, 3);
    metrics_close(metrics);
    assert_int_equal(read_folder(&reading, dir), 3);
    assert_int_equal(reading.starts, 3);
    for (int64_t step = 1; step <= 10; step++) {
        assert_non_null(find(&reading, "train/loss", step));
        assert_true(find(&reading, "train/loss", step)->value == (step < 5 ? 1 : 3));
    }
    assert_true(find(&reading, "eval/loss", 0)->value == 9);
    assert_true(find(&reading, "eval/loss", 4)->value == 2);
    assert_true(find(&reading, "eval/loss", 8)->value == 6);

    metrics = open_run(
        dir, 0); /* a new run discards everything, including the first evaluation */
    write_steps(metrics, 1, 2, 4);
    metrics_close(metrics);
    assert_int_equal(read_folder(&reading, dir), 4);
    assert_null(find(&reading, "eval/loss", 0));
    assert_null(find(&reading, "train/loss", 3));
    assert_true(find(&reading, "train/loss", 1)->value == 4);
    unit_dir_free(dir);
}

/* If a file has a time in the future (the clock was set back), the next name sorts after
 * it. */
static void test_tensorboard_files_follow_each_other(void **state)
{
    char *dir = unit_dir_new(),
         *late = path_join(dir, "events.out.tfevents.4000000000.x");
    struct error err = { 0 };
    struct tensorboard *board;

    (void)state;
    assert_true(file_create(late, "", 0, 0644, &err));
    board = tensorboard_open(dir, 0, &err);
    assert_non_null(board);
    tensorboard_close(board);
    free(late);
    late = path_join(dir, "events.out.tfevents.4000000001.trainspool");
    assert_true(file_exists(late));
    free(late);
    unit_dir_free(dir);
}

static void test_tensorboard_full_disk_leaves_complete_records(void **state)
{
    json_t *object = json_pack("{s:i,s:f}", "step", 1, "loss", 0.5);
    char *dir = unit_dir_new();
    struct error err = { 0 };
    struct tensorboard *board = tensorboard_open(dir, 0, &err);
    struct reading reading;

    (void)state;
    assert_non_null(board);
    unit_disk_full(100);
    for (int i = 0; i < 4; i++) {
        struct error lost = { 0 };

        if (!tensorboard_metrics(board, object, &lost))
            err = lost;
    }
    unit_disk_free();
    assert_int_equal(err.code, ERROR_SYSTEM);
    json_object_set_new(object, "step", json_integer(2));
    error_clear(&err);
    assert_true(tensorboard_metrics(board, object, &err)); /* there is space again */
    tensorboard_close(board);
    read_folder(&reading, dir);
    assert_non_null(find(&reading, "train/loss", 2));
    json_decref(object);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensorboard_has_the_metrics_under_their_names),
        cmocka_unit_test(test_tensorboard_resumed_has_each_step_once),
        cmocka_unit_test(test_tensorboard_files_follow_each_other),
        cmocka_unit_test(test_tensorboard_full_disk_leaves_complete_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
