/* tests/unit/test_matmul_choices.c - choices as text: whole lines come back, others do
 * not. */
#include "config.h"

#include "kernels/matmul_choices.h"

#include "base/size.h"
#include "precision/format.h"
#include "tests/unit/unit.h"

static const char *const about = "Some Card, 9.0, 132 multiprocessors, cuBLASLt 13.1.0";

static struct matmul_key key_of(size_t rows)
{
    struct matmul_key key = { 0 };

    key.rows = rows;
    key.cols = 2048;
    key.depth = 16384;
    key.a_stride = 16384;
    key.b_stride = 2048;
    key.out_stride = 2056;
    key.trans_b = true;
    key.a_format = FORMAT_FP8_E5M2;
    key.b_format = FORMAT_FP8_E4M3;
    key.out_format = FORMAT_FP32;
    key.bias = true;
    key.a_aligned = 6;
    key.b_aligned = 4;
    key.out_aligned = key.bias_aligned = 7;
    return key;
}

static struct matmul_choices *table_of(size_t count)
{
    struct matmul_choices *choices = matmul_choices_new(about);

    assert_non_null(choices);
    for (size_t i = 1; i <= count; i++) {
        struct matmul_key key = key_of(i);

        assert_true(matmul_choices_use(choices, &key, 0x1234 * i));
    }
    return choices;
}

static uint64_t algorithm_of(struct matmul_choices *choices, size_t rows)
{
    struct matmul_key key = key_of(rows);
    const struct matmul_choice *choice = matmul_choices_find(choices, &key);

    return choice ? choice->algorithm : 0;
}

static void text_of(size_t count, struct text *out)
{
    struct matmul_choices *choices = table_of(count);

    text_init(out, 0);
    assert_int_equal(matmul_choices_write(choices, false, out), count);
    matmul_choices_free(choices);
}

static struct matmul_choices_text read_into(struct matmul_choices *choices,
                                            const struct text *text)
{
    return matmul_choices_read(choices, text->data, text->len, false);
}

static void test_matmul_choices_come_back(void **state)
{
    struct matmul_choices *choices = table_of(0);
    struct matmul_choices_text found;
    struct text text, again;

    (void)state;
    text_of(100, &text);
    found = read_into(choices, &text);
    assert_true(found.headed && !found.foreign);
    assert_int_equal(found.read, 100);
    assert_int_equal(found.damaged, 0);
    for (size_t i = 1; i <= 100; i++)
        assert_int_equal(algorithm_of(choices, i), 0x1234 * i);
    assert_int_equal(algorithm_of(choices, 101), 0);
    text_init(&again, 0);
    assert_int_equal(matmul_choices_write(choices, false, &again), 0);
    text_reset(&again);
    assert_int_equal(matmul_choices_write(choices, true, &again), 100);
    assert_string_equal(text.data, again.data);
    text_clear(&text);
    text_clear(&again);
    matmul_choices_free(choices);
}

/* Shapes that differ in one byte are different. */
static void test_matmul_choices_tell_shapes_apart(void **state)
{
    struct matmul_choices *choices = table_of(1);
    struct text text;

    (void)state;
    for (size_t i = 0; i < offsetof(struct matmul_key, none); i++) {
        struct matmul_key key = key_of(1);

        ((unsigned char *)&key)[i] ^= 1;
        assert_null(matmul_choices_find(choices, &key));
        assert_true(matmul_choices_use(choices, &key, i));
    }
    text_init(&text, 0);
    matmul_choices_write(choices, false, &text);
    matmul_choices_free(choices);
    choices = table_of(0);
    assert_int_equal(read_into(choices, &text).read,
                     1 + offsetof(struct matmul_key, none));
    text_clear(&text);
    matmul_choices_free(choices);
}

/* Any byte changed, or the text cut off anywhere: only the line with it is lost. */
static void test_matmul_choices_leave_damaged_lines_out(void **state)
{
    struct text text;

    (void)state;
    text_of(3, &text);
    for (size_t i = 0; i < text.len; i++) {
        struct matmul_choices *choices = table_of(0), *cut = table_of(0);
        struct matmul_choices_text found;

        found = matmul_choices_read(cut, text.data, i, false);
        assert_true(found.read <= 3 && found.read + found.damaged <= 4);
        text.data[i] ^= 1;
        found = read_into(choices, &text);
        text.data[i] ^= 1;
        assert_true(found.foreign ? found.read == 0 : found.damaged > 0);
        for (size_t rows = 1; rows <= 3; rows++) {
            uint64_t algorithm = algorithm_of(choices, rows);

            assert_true(algorithm == 0 || algorithm == 0x1234 * rows);
            algorithm = algorithm_of(cut, rows);
            assert_true(algorithm == 0 || algorithm == 0x1234 * rows);
        }
        assert_true(matmul_choices_count(choices) >= (found.headed ? 1 : 0));
        matmul_choices_free(choices);
        matmul_choices_free(cut);
    }
    text_clear(&text);
}

static void test_matmul_choices_of_another_device_are_not_read(void **state)
{
    struct matmul_choices *choices = matmul_choices_new("Another");
    struct matmul_choices_text found;
    struct text text;

    (void)state;
    text_of(2, &text);
    found = read_into(choices, &text);
    assert_true(found.foreign && !found.headed);
    assert_string_equal(found.about, about);
    assert_int_equal(matmul_choices_count(choices), 0);
    found = matmul_choices_read(choices, "rubbish\n", 8, false);
    assert_true(!found.foreign && !found.headed && found.damaged == 1);
    text_clear(&text);
    matmul_choices_free(choices);
}

/* A run keeps what it has used, unless it resumes. */
static void test_matmul_choices_in_use_stay(void **state)
{
    struct matmul_choices *choices = matmul_choices_new(about);
    struct matmul_key key = key_of(1);
    struct text text;

    (void)state;
    text_of(2, &text);
    assert_true(matmul_choices_use(choices, &key, 77));
    assert_int_equal(read_into(choices, &text).read, 2);
    assert_int_equal(algorithm_of(choices, 1), 77);
    assert_int_equal(algorithm_of(choices, 2), 2 * 0x1234);
    assert_int_equal(matmul_choices_read(choices, text.data, text.len, true).read, 2);
    assert_int_equal(algorithm_of(choices, 1), 0x1234);
    text_clear(&text);
    matmul_choices_free(choices);
}

/* What a checkpoint names is not changed by a file, and is in the next checkpoint. */
static void test_matmul_choices_that_are_replayed_stay(void **state)
{
    struct matmul_choices *choices = matmul_choices_new(about);
    struct matmul_key key = key_of(1);
    struct text replayed, file, out;

    (void)state;
    text_of(2, &replayed);
    assert_int_equal(matmul_choices_read(choices, replayed.data, replayed.len, true).read,
                     2);
    assert_true(matmul_choices_use(choices, &key, 77));
    text_init(&file, 0);
    matmul_choices_write(choices, false, &file); /* of shape 1 it says otherwise */
    matmul_choices_free(choices);
    choices = matmul_choices_new(about);
    matmul_choices_read(choices, replayed.data, replayed.len, true);
    read_into(choices, &file);
    assert_int_equal(algorithm_of(choices, 1), 0x1234);
    text_init(&out, 0);
    assert_int_equal(matmul_choices_write(choices, false, &out), 2);
    assert_int_equal(out.len, replayed.len);
    assert_memory_equal(out.data, replayed.data, out.len);
    text_clear(&out);
    text_clear(&file);
    text_clear(&replayed);
    matmul_choices_free(choices);
}

/* The choices of ranks that have the same are in the text once. */
static void test_matmul_choices_join_ranks(void **state)
{
    struct text all;

    (void)state;
    text_init(&all, 0);
    matmul_choices_join(&all, 0, "a\nb\n");
    matmul_choices_join(&all, 1, "a\nb\n");
    matmul_choices_join(&all, 2, "a\n");
    matmul_choices_join(&all, 3, "a\nb\n");
    assert_string_equal(all.data, "a\nb\nrank 2\na\n");
    text_clear(&all);
}

/* Each rank uses its own choices, and those of others for shapes that it has none of;
 * lines of another card are not damaged. */
static void test_matmul_choices_are_replayed_in_each_rank(void **state)
{
    struct matmul_choices *more = table_of(3);
    struct matmul_key key = key_of(1);
    struct text all, other, first;

    (void)state;
    text_init(&all, 0);
    text_init(&other, 0);
    text_of(2, &first);
    matmul_choices_join(&all, 0, first.data);
    matmul_choices_join(&all, 1, "trainspool matmuls 1, Another card\nwhatever\n");
    assert_true(matmul_choices_use(more, &key, 77));
    matmul_choices_write(more, false, &other);
    matmul_choices_join(&all, 2, other.data);
    for (int rank = 0; rank < 4; rank++) {
        struct matmul_choices *choices = table_of(0);
        struct matmul_choices_text found =
            matmul_choices_replay(choices, all.data, all.len, rank);

        assert_true(found.headed && !found.foreign);
        assert_int_equal(found.read, 3);
        assert_int_equal(found.damaged, 0);
        assert_int_equal(algorithm_of(choices, 1), rank == 1 || rank == 2 ? 77 : 0x1234);
        assert_int_equal(algorithm_of(choices, 2), 0x2468);
        assert_int_equal(algorithm_of(choices, 3), 3 * 0x1234);
        matmul_choices_free(choices);
    }
    matmul_choices_free(more);
    text_clear(&all);
    text_clear(&other);
    text_clear(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul_choices_come_back),
        cmocka_unit_test(test_matmul_choices_join_ranks),
        cmocka_unit_test(test_matmul_choices_are_replayed_in_each_rank),
        cmocka_unit_test(test_matmul_choices_tell_shapes_apart),
        cmocka_unit_test(test_matmul_choices_leave_damaged_lines_out),
        cmocka_unit_test(test_matmul_choices_of_another_device_are_not_read),
        cmocka_unit_test(test_matmul_choices_in_use_stay),
        cmocka_unit_test(test_matmul_choices_that_are_replayed_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
