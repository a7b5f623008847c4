/*
 * tests/unit/test_teacher_logits.c - a teacher's logits are read back from their file,
 * wherever a sample is in a batch; other samples and broken files are reported.
 */
#include "config.h"

#include "train/teacher/teacher_logits.h"

#include "base/size.h"
#include "tests/unit/unit_model.h"
#include "train/files/safetensors.h"

enum { KEPT = 3, VOCABULARY = 40, SEQUENCES = 6 };

/* Append a sequence of a few tokens; the first has no label. */
static void add_sequence(struct batch *batch, size_t which)
{
    size_t first = batch->rows;

    unit_batch_random(batch, 4 + which, VOCABULARY, (uint32_t)which);
    batch->targets[first] = LABEL_NONE;
}

/* Return the teacher's answer to a token, which depends only on the token, so that
 * samples can be found in any order. */
static int32_t first_id(const struct batch *batch, size_t row)
{
    return batch->tokens[row] % (VOCABULARY - KEPT);
}

static void fill(const struct batch *batch, int32_t *ids, float *values)
{
    for (size_t n = 0; n < batch->rows; n++)
        for (size_t k = 0; k < KEPT; k++) {
            ids[n * KEPT + k] = first_id(batch, n) + (int32_t)k;
            values[n * KEPT + k] = (float)batch->tokens[n] + 0.25f * (float)k;
        }
}

static size_t labeled(const struct batch *batch)
{
    size_t count = 0;

    for (size_t n = 0; n < batch->rows; n++)
        count += batch->targets[n] >= 0;
    return count;
}

/* Write RUNS samples in batches of two. */
static void write_file(const char *name)
{
    struct teacher_logits_kind kind = { .kept = KEPT, .vocabulary = VOCABULARY };
    struct teacher_writer *writer;
    struct error err = { 0 };
    int32_t ids[64 * KEPT];
    float values[64 * KEPT];
    size_t rows = 0;

    digest_bytes("x", 1, kind.teacher);
    for (size_t i = 0; i < SEQUENCES; i++)
        rows += 4 + i - 2; /* except the first, and the last, which has no next token */
    writer = teacher_writer_new(name, &kind, SEQUENCES, rows, &err);
    unit_must(writer != NULL, &err);
    for (size_t i = 0; i < SEQUENCES; i += 2) {
        struct batch batch = { 0 };

        add_sequence(&batch, i);
        add_sequence(&batch, i + 1);
        fill(&batch, ids, values);
        unit_must(teacher_writer_add(writer, &batch, ids, values, &err), &err);
        unit_batch_free(&batch);
    }
    assert_false(file_exists(name));
    unit_must(teacher_writer_finish(writer, &err), &err);
    teacher_writer_free(writer);
    assert_true(file_exists(name));
}

static void test_teacher_logits_are_found_in_any_order(void **state)
{
    static const size_t orders[][3] = { { 5, 0, 3 }, { 1, 1, 4 }, { 2, 5, 2 } };
    char *dir = unit_dir_new(), *name = path_join(dir, "kept.safetensors");
    struct teacher_logits *file;
    struct error err = { 0 };

    (void)state;
    write_file(name);
    file = teacher_logits_open(name, &err);
    unit_must(file != NULL, &err);
    assert_int_equal(teacher_logits_samples(file), SEQUENCES);
    assert_int_equal(teacher_logits_kind(file)->kept, KEPT);
    assert_int_equal(teacher_logits_kind(file)->vocabulary, VOCABULARY);
    for (size_t i = 0; i < TS_COUNT(orders); i++) {
        int32_t ids[64 * KEPT], expected[64 * KEPT];
        float values[64 * KEPT], logits[64 * KEPT];
        struct batch batch = { 0 };

        for (size_t k = 0; k < 3; k++)
            add_sequence(&batch, orders[i][k]);
        fill(&batch, expected, logits);
        unit_must(teacher_logits_find(file, &batch, ids, values, &err), &err);
        assert_true(labeled(&batch) > 5);
        for (size_t n = 0; n < batch.rows * KEPT; n++)
            if (batch.targets[n / KEPT] >= 0) {
                assert_int_equal(ids[n], expected[n]);
                assert_true(values[n] == logits[n]);
            }
        unit_batch_free(&batch);
    }
    teacher_logits_close(file);
    free(name);
    unit_dir_free(dir);
}

/* Another token, another label, another length: each is another sample. */
static void test_teacher_logits_other_samples_are_not_found(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "kept.safetensors");
    struct teacher_logits *file;
    struct error err = { 0 };

    (void)state;
    write_file(name);
    file = teacher_logits_open(name, &err);
    unit_must(file != NULL, &err);
    for (size_t i = 0; i < 4; i++) {
        int32_t ids[64 * KEPT];
        float values[64 * KEPT];
        struct batch batch = { 0 };

        add_sequence(&batch, i == 3 ? SEQUENCES : 2);
        if (i == 1)
            batch.tokens[0] = (batch.tokens[0] + 1) % VOCABULARY;
        if (i == 2)
            batch.targets[2] = LABEL_NONE;
        assert_int_equal(teacher_logits_find(file, &batch, ids, values, &err), i == 0);
        if (i > 0) {
            assert_int_equal(err.code, ERROR_DATA);
            assert_non_null(strstr(err.text, "other data"));
            assert_non_null(strstr(err.text, name));
        }
        error_clear(&err);
        unit_batch_free(&batch);
    }
    teacher_logits_close(file);
    free(name);
    unit_dir_free(dir);
}

/* A file that is not finished is removed. */
static void test_teacher_writer_removes_unfinished_files(void **state)
{
    struct teacher_logits_kind kind = { .kept = KEPT, .vocabulary = VOCABULARY };
    char *dir = unit_dir_new(), *name = path_join(dir, "kept.safetensors");
    struct teacher_writer *writer;
    struct error err = { 0 };

    (void)state;
    writer = teacher_writer_new(name, &kind, 2, 9, &err);
    unit_must(writer != NULL, &err);
    assert_false(teacher_writer_finish(writer, &err));
    assert_non_null(strstr(err.text, "lacks samples"));
    teacher_writer_free(writer);
    assert_int_equal(rmdir(dir), 0); /* it is empty */
    free(name);
    unit_dir_free(dir);
}

struct stored_part {
    const char *name, *dtype;
    size_t rank, shape[2];
    const void *data;
};

static bool read_part(const void *context, size_t index, void *to, struct error *err)
{
    const struct stored_part *part = (const struct stored_part *)context + index;
    size_t bytes = safetensors_dtype_bytes(part->dtype) * part->shape[0];

    (void)err;
    memcpy(to, part->data, part->rank == 2 ? bytes * part->shape[1] : bytes);
    return true;
}

static const char digits[] =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/* Files whose tensors are not as required. */
static void test_teacher_logits_broken_files_are_rejected(void **state)
{
    static const int32_t ids[] = { 1, 2, 3, 4 };
    static const float logits[] = { 1, 2, 3, 4 };
    static const int64_t starts[] = { 0, 2 }, down[] = { 1, 0 }, words[] = { 9 },
                         few[] = { 1 };
    static const struct {
        const char *says;
        size_t which; /* the one that is replaced: */
        struct stored_part instead;
    } cases[] = {
        { "", 6, { .name = NULL } },
        { "no tensor ids", 0, { "ids", "I64", 2, { 2, 1 }, ids } },
        { "no tensor ids", 0, { "ids", "I32", 2, { 4, 1 }, ids } },
        { "no tensor ids", 0, { "id", "I32", 2, { 2, 2 }, ids } },
        { "do not fit", 0, { "ids", "I32", 2, { 1, 2 }, ids } },
        { "no tensor logits", 1, { "logits", "F32", 1, { 4 }, logits } },
        { "rows", 1, { "logits", "F32", 2, { 1, 2 }, logits } },
        { "starts at a row that does not exist", 2, { "starts", "I64", 1, { 2 }, down } },
        { "do not fit", 2, { "starts", "I64", 1, { 1 }, starts } },
        { "no tensor samples", 3, { "samples", "U8", 2, { 1, 32 }, digits } },
        { "do not fit", 4, { "words", "I64", 1, { 1 }, few } },
        { "do not fit", 5, { "teacher", "U8", 1, { 63 }, digits } },
    };
    char *dir = unit_dir_new(), *name = path_join(dir, "kept.safetensors");

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct stored_part parts[] = {
            { "ids", "I32", 2, { 2, 2 }, ids },
            { "logits", "F32", 2, { 2, 2 }, logits },
            { "starts", "I64", 1, { 2 }, starts },
            { "samples", "U8", 2, { 1, 64 }, digits },
            { "words", "I64", 1, { 1 }, words },
            { "teacher", "U8", 1, { 64 }, digits },
        };
        struct tensor_source sources[TS_COUNT(parts)];
        struct teacher_logits *file;
        struct error err = { 0 };

        if (cases[i].which < TS_COUNT(parts))
            parts[cases[i].which] = cases[i].instead;
        if (strcmp(cases[i].says, "rows") == 0)
            parts[0].shape[0] = 1;
        for (size_t k = 0; k < TS_COUNT(parts); k++)
            sources[k] = (struct tensor_source) {
                .name = parts[k].name,
                .dtype = parts[k].dtype,
                .rank = parts[k].rank,
                .shape = { parts[k].shape[0], parts[k].shape[1] },
                .read = read_part,
                .context = parts,
                .index = k,
            };
        unit_must(safetensors_write(name, sources, TS_COUNT(parts), &err), &err);
        file = teacher_logits_open(name, &err);
        if (*cases[i].says == 0) {
            unit_must(file != NULL, &err);
        } else {
            assert_null(file);
            if (!strstr(err.text, cases[i].says))
                fail_msg("\"%s\" does not contain \"%s\"", err.text, cases[i].says);
        }
        teacher_logits_close(file);
        assert_int_equal(unlink(name), 0);
    }
    free(name);
    unit_dir_free(dir);
}

/* Token ids index the student's logits: they are checked when a file is read. */
static void test_teacher_logits_token_ids_are_checked(void **state)
{
    static const int32_t wrong[][KEPT] = {
        { 1, 2, VOCABULARY }, { 2, 1, 3 }, { 1, 1, 2 }, { -1, 1, 2 }
    };
    char *dir = unit_dir_new(), *name = path_join(dir, "kept.safetensors");

    (void)state;
    for (size_t i = 0; i < TS_COUNT(wrong); i++) {
        struct teacher_logits_kind kind = { .kept = KEPT, .vocabulary = VOCABULARY };
        struct teacher_writer *writer;
        struct teacher_logits *file;
        struct batch batch = { 0 };
        struct error err = { 0 };
        int32_t ids[64 * KEPT];
        float values[64 * KEPT];

        memset(kind.teacher, '0', DIGEST_TEXT - 1);
        add_sequence(&batch, 0);
        fill(&batch, ids, values);
        memcpy(ids + 2 * KEPT, wrong[i], sizeof(wrong[i]));
        writer = teacher_writer_new(name, &kind, 1, labeled(&batch), &err);
        unit_must(writer && teacher_writer_add(writer, &batch, ids, values, &err) &&
                      teacher_writer_finish(writer, &err),
                  &err);
        teacher_writer_free(writer);
        file = teacher_logits_open(name, &err);
        unit_must(file != NULL, &err);
        assert_false(teacher_logits_find(file, &batch, ids, values, &err));
        assert_non_null(strstr(err.text, "broken"));
        teacher_logits_close(file);
        unit_batch_free(&batch);
    }
    free(name);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_teacher_logits_are_found_in_any_order),
        cmocka_unit_test(test_teacher_logits_other_samples_are_not_found),
        cmocka_unit_test(test_teacher_writer_removes_unfinished_files),
        cmocka_unit_test(test_teacher_logits_broken_files_are_rejected),
        cmocka_unit_test(test_teacher_logits_token_ids_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
