/* tests/unit/test_optimizer_file.c - a tensor whose parts are in several files is read only
 * if they are all of it. */
#include "config.h"

#include "train/checkpoint/optimizer_file.h"

#include <string.h>

#include "base/size.h"
#include "tests/unit/unit.h"

enum { COUNT = 6 };

static const float values[COUNT] = { 1, -2, 3, -4, 5, -6 };

/* A part of the tensor: elements from `first` on, under any name. */
struct stored_part {
    const char *name;
    size_t first, count;
};

static bool read_part(const void *context, size_t index, void *to, struct error *err)
{
    const struct stored_part *part = context;

    (void)index;
    (void)err;
    memcpy(to, values + part->first, part->count * sizeof(*values));
    return true;
}

/* Write each part to a file of its own, with an index. */
static char *folder_of(const struct stored_part *parts, size_t count)
{
    char *dir = unit_dir_new(), *index = path_join(dir, "trainspool_optimizer.safetensors"
                                                        ".index.json");
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    text_adds(&text, "{\"weight_map\": {");
    for (size_t i = 0; i < count; i++) {
        const struct tensor_source source = { .name = parts[i].name,
                                              .format = FORMAT_FP32,
                                              .rank = 2,
                                              .shape = { 1, parts[i].count },
                                              .read = read_part,
                                              .context = &parts[i] };
        char base[64], *name;

        snprintf(base, sizeof(base), "part-%zu.safetensors", i);
        name = path_join(dir, base);
        assert_true(safetensors_write(name, &source, 1, &err));
        text_addf(&text, "%s\"%s\": \"%s\"", i > 0 ? ", " : "", parts[i].name, base);
        free(name);
    }
    text_adds(&text, "}}\n");
    assert_true(file_create(index, text.data, text.len, 0644, &err));
    text_clear(&text);
    free(index);
    return dir;
}

/* Read w.master, two rows of three, from such a folder. */
static bool read_weight(const struct stored_part *parts, size_t count, bool *found,
                        struct error *err)
{
    const struct parameter p = {
        .name = "w", .rows = 2, .cols = 3, .weight = tensor_of(NULL, FORMAT_FP32, 2, 3)
    };
    char *dir = folder_of(parts, count);
    struct optimizer_file *file = optimizer_file_open(dir, err);
    struct optimizer_weight weight = { 0 };
    bool ok;

    assert_true(optimizer_file_exists(dir));
    assert_non_null(file);
    ok = optimizer_file_weight(file, &p, &weight, err);
    *found = ok && weight.data;
    if (*found)
        assert_memory_equal(weight.data, values, sizeof(values));
    free(weight.copy);
    optimizer_file_close(file);
    unit_dir_free(dir);
    return ok;
}

static void test_optimizer_file_joins_parts(void **state)
{
    /* in any order, next to names that only look like them */
    static const struct stored_part parts[] = { { "w.master[4:6]", 4, 2 },
                                                { "w.master[0:1]", 0, 1 },
                                                { "w.master2[0:6]", 0, 6 },
                                                { "w.maste[0:3]", 0, 3 },
                                                { "w.master[1:4]", 1, 3 } };
    static const struct stored_part whole = { "w.master", 0, COUNT };
    static const struct stored_part other = { "v.master[0:6]", 0, COUNT };
    struct error err = { 0 };
    bool found;

    (void)state;
    assert_true(read_weight(parts, TS_COUNT(parts), &found, &err));
    assert_true(found);
    assert_true(read_weight(&whole, 1, &found, &err));
    assert_true(found);
    assert_true(read_weight(&other, 1, &found, &err));
    assert_false(found);
}

static void test_optimizer_file_refuses_parts_that_are_not_all(void **state)
{
    static const struct {
        struct stored_part parts[3];
        size_t count;
    } cases[] = {
        { { { "w.master[0:4]", 0, 4 } }, 1 },                            /* no end */
        { { { "w.master[2:6]", 2, 4 } }, 1 },                            /* no start */
        { { { "w.master[0:2]", 0, 2 }, { "w.master[3:6]", 3, 3 } }, 2 }, /* a gap */
        { { { "w.master[0:4]", 0, 4 }, { "w.master[3:6]", 3, 3 } }, 2 }, /* twice */
        { { { "w.master[0:7]", 0, 6 } }, 1 },                            /* too long */
        { { { "w.master[0:6]", 0, 5 } }, 1 }, /* fewer than the name says */
        { { { "w.master[0:3]", 0, 3 }, { "w.master[3:6]", 3, 2 } }, 2 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        bool found;

        if (read_weight(cases[i].parts, cases[i].count, &found, &err))
            fail_msg("case %zu is read", i);
        assert_int_equal(err.code, ERROR_DATA);
        assert_non_null(strstr(err.text, "w.master"));
    }
}

/* Names that are no parts are names of whole tensors. */
static void test_optimizer_file_reads_only_numbers(void **state)
{
    static const char *const names[] = { "w.master[:6]",   "w.master[0:]",
                                         "w.master[a:6]",  "w.master[0-6]",
                                         "w.master[0:6]x", "w.master[6:0]",
                                         "w.master[-0:6]", "[0:6" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        const struct stored_part part = { names[i], 0, COUNT };
        struct error err = { 0 };
        bool found;

        assert_true(read_weight(&part, 1, &found, &err));
        assert_false(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizer_file_joins_parts),
        cmocka_unit_test(test_optimizer_file_refuses_parts_that_are_not_all),
        cmocka_unit_test(test_optimizer_file_reads_only_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
