/* tests/unit/test_torch_weights.c - files of torch.save give torch's tensors; hostile
 * pickles and archives are refused by name, and nothing in them is executed. */
#include "config.h"

#include "train/files/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"
#include "train/files/torch_file.h"
#include "train/files/zip_write.h"

static void put(const char *dir, const char *base, const void *data, size_t len)
{
    char *name = path_join(dir, base);
    struct error err = { 0 };

    if (!file_replace(name, data, len, 0600, &err))
        fail_msg("%s", err.text);
    free(name);
}

static void add_hex(struct text *out, const char *hex)
{
    for (unsigned byte; sscanf(hex, "%2x", &byte) == 1; hex += 2)
        text_addc(out, (char)byte);
}

static void expect_tensor(const char *name, const json_t *golden,
                          const struct safetensors *set)
{
    const char *tensor = json_string_value(json_object_get(golden, "name"));
    const json_t *shape = json_object_get(golden, "shape");
    const struct stored_tensor *t = safetensors_find(set, tensor);
    struct text data;

    text_init(&data, 0);
    add_hex(&data, json_string_value(json_object_get(golden, "data")));
    if (!t)
        fail_msg("%s: the tensor %s is missing", name, tensor);
    assert_string_equal(t->dtype, json_string_value(json_object_get(golden, "dtype")));
    assert_int_equal(t->rank, json_array_size(shape));
    for (size_t i = 0; i < t->rank; i++)
        assert_int_equal(t->shape[i], json_integer_value(json_array_get(shape, i)));
    assert_int_equal(t->bytes, data.len);
    if (t->bytes > 0 && memcmp(t->data, data.data, data.len) != 0)
        fail_msg("%s: the tensor %s has other values", name, tensor);
    text_clear(&data);
}

static void expect_case(const char *dir, const json_t *golden)
{
    const char *name = json_string_value(json_object_get(golden, "name"));
    const char *why = json_string_value(json_object_get(golden, "error"));
    const json_t *tensors = json_object_get(golden, "tensors");
    struct error err = { 0 };
    struct safetensors *set;
    struct text file;

    text_init(&file, 0);
    add_hex(&file, json_string_value(json_object_get(golden, "file")));
    put(dir, "pytorch_model.bin", file.data, file.len);
    text_clear(&file);
    set = safetensors_open(dir, "model", false, &err);
    if (why) {
        if (set || !strstr(err.text, why) || !strstr(err.text, "pytorch_model.bin"))
            fail_msg("%s: \"%s\", not \"%s\"", name, err.text, why);
        assert_int_equal(err.code, ERROR_DATA);
        return;
    }
    if (!set)
        fail_msg("%s: %s", name, err.text);
    assert_int_equal(safetensors_count(set), json_array_size(tensors));
    for (size_t i = 0; i < json_array_size(tensors); i++)
        expect_tensor(name, json_array_get(tensors, i), set);
    safetensors_release(set); /* which must not drop copies */
    for (size_t i = 0; i < json_array_size(tensors); i++)
        expect_tensor(name, json_array_get(tensors, i), set);
    safetensors_close(set);
    set = safetensors_open(dir, "model", true, &err);
    assert_int_equal(safetensors_count(set), json_array_size(tensors));
    for (size_t i = 0; i < safetensors_count(set); i++)
        assert_null(safetensors_at(set, i)->data);
    safetensors_close(set);
}

static void test_torch_weights_are_those_of_torch(void **state)
{
    char *path = unit_source("tests/golden/torch_weights.json"), *dir = unit_dir_new();
    struct error err = { 0 };
    json_t *golden = json_read_file(path, (size_t)4 << 20, &err);
    const json_t *cases = json_object_get(golden, "cases");

    (void)state;
    if (!golden)
        fail_msg("%s", err.text);
    assert_true(json_array_size(cases) >= 28);
    for (size_t i = 0; i < json_array_size(cases); i++)
        expect_case(dir, json_array_get(cases, i));
    assert_false(file_exists("executed"));
    json_decref(golden);
    free(path);
    unit_dir_free(dir);
}

/* Write an archive with this pickle and one storage of 8 bytes. */
static void put_pickle(const char *dir, const struct text *pickle)
{
    char *name = path_join(dir, "pytorch_model.bin");
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct error err = { 0 };
    struct zip zip;

    zip_init(&zip, fd);
    assert_true(zip_add(&zip, "x/data.pkl", pickle->data, pickle->len, &err));
    assert_true(zip_add(&zip, "x/data/0", "12345678", 8, &err));
    assert_true(zip_finish(&zip, &err));
    zip_clear(&zip);
    close(fd);
    free(name);
}

static void expect_refusal(const char *dir, const struct text *pickle, const char *why)
{
    struct error err = { 0 };
    struct safetensors *set;

    put_pickle(dir, pickle);
    set = safetensors_open(dir, "model", true, &err);
    if (set || !strstr(err.text, why) || !strstr(err.text, "pytorch_model.bin: "))
        fail_msg("\"%s\", not \"%s\"", err.text, why);
    assert_int_equal(err.code, ERROR_DATA);
}

#define PICKLE(string) string, sizeof(string) - 1

static void test_torch_weights_refuse_hostile_pickles(void **state)
{
    static const struct {
        const char *pickle;
        size_t len;
        const char *why;
    } rows[] = {
        { PICKLE("cos\nsystem\n(X\1\0\0\0atR."), "names os.system, which" },
        { PICKLE("cposix\nsystem\n."), "names posix.system, which" },
        { PICKLE("c__builtin__\neval\n."), "names __builtin__.eval, which" },
        { PICKLE("ctorch\nload\n."), "names torch.load, which" },
        { PICKLE("cother\nOrderedDict\n."), "names other.OrderedDict, which" },
        { PICKLE("ctorch.hub\n\x1b[31m\n."), "names torch.hub.\\x1b[31m, which" },
        { PICKLE("c\n\n."), "names ., which" },
        { PICKLE("cos"), "name of a global" },
        { PICKLE("(ios\nsystem\n."), "opcode 0x69" },
        { PICKLE("(o."), "opcode 0x6f" },
        { PICKLE("\x81."), "opcode 0x81" },
        { PICKLE("\x82\1."), "opcode 0x82" },
        { PICKLE("\x93."), "opcode 0x93" },
        { PICKLE("P0\n."), "opcode 0x50" },
        { PICKLE("S'a'\n."), "opcode 0x53" },
        { PICKLE("\x80\5."), "protocol 5 is not supported" },
        { PICKLE("\x80"), "ends too early" },
        { PICKLE(""), "ends too early" },
        { PICKLE("."), "does not end with one value" },
        { PICKLE("}}."), "does not end with one value" },
        { PICKLE("}(."), "does not end with one value" },
        { PICKLE("N."), "not a dict" },
        { PICKLE("t."), "a mark is missing" },
        { PICKLE("u."), "a mark is missing" },
        { PICKLE("\x87."), "a value is missing" },
        { PICKLE("N(\x85."), "a value is missing" },
        { PICKLE("R."), "a value is missing" },
        { PICKLE("NN(R."), "a value is missing" },
        { PICKLE("Q."), "a value is missing" },
        { PICKLE("NQ."), "not that of a storage" },
        { PICKLE(")Q."), "not that of a storage" },
        { PICKLE("N)R."), "a call has no function" },
        { PICKLE("ctorch\nFloatStorage\n)R."), "a call has no function" },
        { PICKLE("ccollections\nOrderedDict\nNR."), "a call has no function" },
        { PICKLE("ccollections\nOrderedDict\n(NtR."), "OrderedDict has arguments" },
        { PICKLE("ctorch._utils\n_rebuild_tensor_v2\n)R."), "a tensor has no storage" },
        { PICKLE("ctorch._utils\n_rebuild_parameter\n)R."), "a parameter has no tensor" },
        { PICKLE("ctorch._utils\n_rebuild_parameter\n(NNNtR."),
          "a parameter has no tensor" },
        { PICKLE("N}b."), "other than a dict has attributes" },
        { PICKLE("}b."), "other than a dict has attributes" },
        { PICKLE("}NNNs."), "no container" },
        { PICKLE("NNNs."), "no container" },
        { PICKLE("](NNu."), "no container" },
        { PICKLE("}(Nu."), "no container" },
        { PICKLE("(NNu."), "no container" },
        { PICKLE("}Na."), "no container" },
        { PICKLE("}q\1."), "memo" },
        { PICKLE("}r\xff\xff\xff\xff."), "memo" },
        { PICKLE("q\0."), "memo" },
        { PICKLE("h\0."), "memo is missing" },
        { PICKLE("j\xff\xff\xff\xff."), "memo is missing" },
        { PICKLE("X\xff\xff\xff\xff."), "ends too early" },
        { PICKLE("X\2\0\0\0a\0."), "has a NUL" },
        { PICKLE("X\1\0\0\0\xff."), "not UTF-8" },
        { PICKLE("\x8a\x09"
                 "123456789."),
          "more than 64 bits" },
        { PICKLE("}X\1\0\0\0a}s."), "\"a\" is not a tensor" },
        { PICKLE("}NNs."), "name of a tensor is not a string" },
    };
    char *dir = unit_dir_new();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct text pickle = { .data = (char *)rows[i].pickle, .len = rows[i].len };

        expect_refusal(dir, &pickle, rows[i].why);
    }
    unit_dir_free(dir);
}

/* A tensor of the storage, with any numbers. */
static void add_tensor(struct text *out, const int64_t numbers[6])
{
    pickle_begin(out);
    pickle_open(out, PICKLE_DICT);
    pickle_text(out, "a");
    pickle_global(out, "torch._utils", "_rebuild_tensor_v2");
    pickle_open(out, PICKLE_TUPLE);
    pickle_open(out, PICKLE_TUPLE);
    pickle_text(out, "storage");
    pickle_global(out, "torch", "FloatStorage");
    pickle_text(out, "0");
    pickle_text(out, "cpu");
    pickle_int(out, numbers[0]);
    pickle_close(out, PICKLE_TUPLE);
    pickle_persistent(out);
    pickle_int(out, numbers[1]);
    for (size_t i = 2; i < 6; i += 2) {
        pickle_open(out, PICKLE_TUPLE);
        pickle_int(out, numbers[i]);
        pickle_int(out, numbers[i + 1]);
        pickle_close(out, PICKLE_TUPLE);
    }
    pickle_bool(out, false);
    pickle_none(out);
    pickle_close(out, PICKLE_TUPLE);
    pickle_call(out);
    pickle_close(out, PICKLE_DICT);
    pickle_end(out);
}

static void test_torch_weights_check_every_extent(void **state)
{
    const int64_t huge = INT64_MAX;
    const struct {
        int64_t numbers[6]; /* elements, offset, shape, strides */
        const char *why;
    } rows[] = {
        { { 3, 0, 1, 2, 2, 1 }, "smaller than its pickle says" },
        { { huge, 0, 1, 2, 2, 1 }, "smaller than its pickle says" },
        { { -1, 0, 1, 2, 2, 1 }, "not that of a storage" },
        { { 2, 1, 1, 2, 2, 1 }, "not inside its storage" },
        { { 2, -1, 1, 2, 2, 1 }, "a tensor has no storage" },
        { { 2, huge, 1, 2, 2, 1 }, "not inside its storage" },
        { { 2, 0, 2, 2, 2, 1 }, "not inside its storage" },
        { { 2, 0, huge, huge, 0, 0 }, "not inside its storage" },
        { { 2, 0, huge, 1, 1, 1 }, "not inside its storage" },
        { { 2, 0, 1, 2, 1, huge }, "not inside its storage" },
        { { 2, 0, 2, 2, huge, huge }, "not inside its storage" },
        { { 2, 0, huge, 1, 0, 1 }, "repeats elements" },
        { { 2, 0, 1, 2, 2, -1 }, "negative" },
        { { 2, 0, 1, -2, 2, 1 }, "negative" },
    };
    char *dir = unit_dir_new();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct text pickle;

        text_init(&pickle, 0);
        add_tensor(&pickle, rows[i].numbers);
        expect_refusal(dir, &pickle, rows[i].why);
        text_clear(&pickle);
    }
    unit_dir_free(dir);
}

/* Deep nesting, shared lists that would be exponential if they were walked, and many
 * values. */
static void test_torch_weights_take_time_in_proportion(void **state)
{
    char *dir = unit_dir_new();
    struct text pickle;

    (void)state;
    text_init(&pickle, 0);
    for (size_t i = 0; i < (size_t)1 << 20; i++)
        text_addc(&pickle, '(');
    text_add(&pickle, "N.", 2);
    expect_refusal(dir, &pickle, "does not end with one value");
    text_reset(&pickle);
    text_add(&pickle, "}X\1\0\0\0a]q\0", 10);
    for (int i = 0; i < 200; i++) {
        text_add(&pickle, "](h", 3);
        text_addc(&pickle, (char)i);
        text_addc(&pickle, 'h');
        text_addc(&pickle, (char)i);
        text_addc(&pickle, 'e');
        text_addc(&pickle, 'q');
        text_addc(&pickle, (char)(i + 1));
    }
    for (int i = 0; i < 200; i++)
        text_addc(&pickle, 'a');
    text_add(&pickle, "s.", 2);
    expect_refusal(dir, &pickle, "\"a\" is not a tensor");
    text_reset(&pickle);
    for (size_t i = 0; i < ((size_t)4 << 20) + 1; i++)
        text_addc(&pickle, ')');
    expect_refusal(dir, &pickle, "too many values");
    text_clear(&pickle);
    unit_dir_free(dir);
}

static bool read_source(const void *context, size_t index, void *to, struct error *err)
{
    (void)err;
    memcpy(to, context, index);
    return true;
}

/* Make a file with the writer that checkpoints use. */
static void put_file(const char *dir, const char *base, const char *tensor,
                     const float *values, size_t count)
{
    const struct tensor_source source = { .format = FORMAT_FP32,
                                          .rank = 1,
                                          .shape = { count },
                                          .read = read_source,
                                          .context = values,
                                          .index = count * sizeof(*values) };
    struct torch_file *file = torch_file_new();
    char *name = path_join(dir, base);
    struct error err = { 0 };

    pickle_open(torch_file_pickle(file), PICKLE_DICT);
    pickle_text(torch_file_pickle(file), tensor);
    torch_file_add_tensor(file, &source);
    pickle_close(torch_file_pickle(file), PICKLE_DICT);
    if (!torch_file_write(file, name, &err))
        fail_msg("%s", err.text);
    torch_file_free(file);
    free(name);
}

/* Every cut and every changed byte gives a refusal, or tensors inside the file. */
static void test_torch_weights_survive_damage(void **state)
{
    static const float values[] = { 1, 2, 3 };
    char *dir = unit_dir_new(), *name = path_join(dir, "pytorch_model.bin");
    volatile unsigned sum = 0;
    struct text whole;
    struct error err = { 0 };

    (void)state;
    put_file(dir, "pytorch_model.bin", "a", values, 3);
    text_init(&whole, 0);
    assert_true(file_read(name, 1 << 20, &whole, NULL, &err));
    for (size_t i = 0; i < 2 * whole.len; i++) {
        struct safetensors *set;
        size_t at = i / 2;

        whole.data[at] ^= i % 2 ? 0x80 : 0;
        put(dir, "pytorch_model.bin", whole.data, i % 2 ? whole.len : at);
        whole.data[at] ^= i % 2 ? 0x80 : 0;
        error_clear(&err);
        set = safetensors_open(name, NULL, false, &err);
        assert_true(set || err.code == ERROR_DATA);
        assert_true(i % 2 || !set);
        for (size_t k = 0; set && k < safetensors_count(set); k++)
            for (size_t n = 0; n < safetensors_at(set, k)->bytes; n++)
                sum += ((const unsigned char *)safetensors_at(set, k)->data)[n];
        safetensors_close(set);
    }
    text_clear(&whole);
    free(name);
    unit_dir_free(dir);
}

/* Replace every occurrence. */
static void forge(struct text *file, const void *old, const void *new, size_t len)
{
    size_t count = 0;

    for (size_t at = 0; at + len <= file->len; at++)
        if (memcmp(file->data + at, old, len) == 0) {
            memcpy(file->data + at, new, len);
            count++;
        }
    assert_true(count > 0);
}

/* The directory and the pickle agree on a storage that is larger than the file. */
static void test_torch_weights_refuse_a_forged_size(void **state)
{
    static const float values[] = { 1, 2, 3 };
    char *dir = unit_dir_new(), *name = path_join(dir, "pytorch_model.bin");
    struct error err = { 0 };
    struct text file;

    (void)state;
    put_file(dir, "pytorch_model.bin", "a", values, 3);
    text_init(&file, 0);
    assert_true(file_read(name, 1 << 20, &file, NULL, &err));
    forge(&file, "J\3\0\0\0", "J\0\0\4\0", 5);
    forge(&file, "\14\0\0\0\0\0\0\0\14\0\0\0\0\0\0\0",
          "\0\0\20\0\0\0\0\0\0\0\20\0\0\0\0\0", 16);
    put(dir, "pytorch_model.bin", file.data, file.len);
    assert_null(safetensors_open(name, NULL, false, &err));
    assert_non_null(strstr(err.text, "is outside it"));
    text_clear(&file);
    free(name);
    unit_dir_free(dir);
}

/* The command against an old format must not execute what an index calls a file. */
static void test_torch_weights_print_a_harmless_command(void **state)
{
    static const struct {
        const char *base, *command;
    } rows[] = {
        { "model-1_of_2.bin", "f = 'model-1_of_2.bin'; torch" },
        { "$(id).bin", "f = 'FILE'; torch" },
        { "`id`.bin", "f = 'FILE'; torch" },
        { "a'.bin", "f = 'FILE'; torch" },
        { "a\\.bin", "f = 'FILE'; torch" },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
          "a.bin",
          "f = 'FILE'; torch" },
    };
    char *dir = unit_dir_new();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        json_t *index = json_pack("{s:{s:s}}", "weight_map", "a", rows[i].base);
        char *text = json_dumps(index, 0);
        struct error err = { 0 };

        put(dir, "model.safetensors.index.json", text, strlen(text));
        put(dir, rows[i].base, "\x80\x02}q\0.......", 12);
        assert_null(safetensors_open(dir, "model", false, &err));
        if (!strstr(err.text, "before 1.6") || !strstr(err.text, rows[i].command))
            fail_msg("row %zu: %s", i, err.text);
        free(text);
        json_decref(index);
    }
    unit_dir_free(dir);
}

static void expect_first(const char *dir, const char *stem, const char *tensor,
                         float first)
{
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(dir, stem, false, &err);
    float value;

    if (!set)
        fail_msg("%s", err.text);
    assert_true(safetensors_exist(dir, stem));
    assert_non_null(safetensors_find(set, tensor));
    memcpy(&value, safetensors_find(set, tensor)->data, sizeof(value));
    assert_true(value == first);
    safetensors_close(set);
}

/* As in transformers: safetensors before .bin, a whole file before an index. */
static void test_torch_weights_give_way_to_safetensors(void **state)
{
    static const float values[] = { 1, 2, 3, 4 };
    static const char index[] = "{\"metadata\": {}, \"weight_map\": {"
                                "\"a\": \"pytorch_model-00001-of-00002.bin\", "
                                "\"b\": \"pytorch_model-00002-of-00002.bin\"}}";
    const struct tensor_source source = { .name = "a",
                                          .format = FORMAT_FP32,
                                          .rank = 1,
                                          .shape = { 1 },
                                          .read = read_source,
                                          .context = &values[3],
                                          .index = sizeof(float) };
    char *dir = unit_dir_new(), *name = path_join(dir, "model.safetensors");
    struct error err = { 0 };

    (void)state;
    assert_false(safetensors_exist(dir, "model"));
    assert_null(safetensors_open(dir, "model", false, &err));
    assert_non_null(strstr(err.text, "model.safetensors"));
    error_clear(&err);
    put_file(dir, "pytorch_model-00001-of-00002.bin", "a", &values[0], 1);
    put_file(dir, "pytorch_model-00002-of-00002.bin", "b", &values[1], 1);
    put(dir, "pytorch_model.bin.index.json", index, strlen(index));
    expect_first(dir, "model", "a", 1);
    expect_first(dir, "model", "b", 2);
    put_file(dir, "pytorch_model.bin", "a", &values[2], 1);
    expect_first(dir, "model", "a", 3);
    assert_true(safetensors_write(name, &source, 1, &err));
    expect_first(dir, "model", "a", 4);
    assert_false(safetensors_exist(dir, "adapter_model"));
    put_file(dir, "adapter_model.bin", "a", &values[1], 1);
    expect_first(dir, "adapter_model", "a", 2);
    free(name);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch_weights_are_those_of_torch),
        cmocka_unit_test(test_torch_weights_refuse_hostile_pickles),
        cmocka_unit_test(test_torch_weights_check_every_extent),
        cmocka_unit_test(test_torch_weights_take_time_in_proportion),
        cmocka_unit_test(test_torch_weights_survive_damage),
        cmocka_unit_test(test_torch_weights_refuse_a_forged_size),
        cmocka_unit_test(test_torch_weights_print_a_harmless_command),
        cmocka_unit_test(test_torch_weights_give_way_to_safetensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
