/* train/teacher/teacher_logits.c - reads files of a teacher's logits. */
#include "config.h"

#include "train/teacher/teacher_logits.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "train/files/safetensors.h"

#define DIGITS ((size_t)DIGEST_TEXT - 1)
/* bytes of each of the teacher's tensors that are hashed */
#define HASHED_BYTES ((size_t)4096)

struct sample_key {
    const char *digest; /* DIGITS characters, no NUL */
    size_t sample;
};

struct teacher_logits {
    struct safetensors *set;
    const char *name;
    struct teacher_logits_kind kind;
    const char *ids, *logits, *starts, *digests; /* mapped, at any address */
    size_t samples, rows;
    struct sample_key *by_digest; /* sorted by digest */
};

/* ---- Digests ---- */

static void put_little_endian(const int32_t *values, size_t count, unsigned char *out)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < 4; k++)
            out[4 * i + k] = (unsigned char)((uint32_t)values[i] >> 8 * k);
}

void teacher_logits_digest(const struct batch *batch, size_t sequence,
                           char out[DIGEST_TEXT])
{
    size_t first = (size_t)batch->offsets[sequence];
    size_t count = (size_t)batch->offsets[sequence + 1] - first;
    unsigned char *bytes = memory_alloc(8 * count);

    put_little_endian(batch->tokens + first, count, bytes);
    put_little_endian(batch->targets + first, count, bytes + 4 * count);
    digest_bytes(bytes, 8 * count, out);
    free(bytes);
}

static bool add_folder(const char *dir, const char *stem, struct text *out,
                       struct error *err)
{
    struct safetensors *set = safetensors_open(dir, stem, false, err);

    for (size_t i = 0; set && i < safetensors_count(set); i++) {
        const struct stored_tensor *t = safetensors_at(set, i);
        char digest[DIGEST_TEXT];

        digest_bytes(t->data, t->bytes < HASHED_BYTES ? t->bytes : HASHED_BYTES, digest);
        text_addf(out, "%s %s %zu %s\n", t->name, t->dtype, t->bytes, digest);
    }
    safetensors_close(set);
    return set != NULL;
}

bool teacher_logits_teacher(const char *dir, const char *adapter, char out[DIGEST_TEXT],
                            struct error *err)
{
    struct text text;
    bool ok;

    text_init(&text, 0);
    ok = add_folder(dir, "model", &text, err) &&
         (!adapter || add_folder(adapter, "adapter_model", &text, err));
    digest_bytes(text.data, text.len, out);
    text_clear(&text);
    return ok;
}

/* ---- Opening ---- */

static int64_t number_at(const char *list, size_t at)
{
    int64_t number;

    memcpy(&number, list + at * sizeof(number), sizeof(number));
    return number;
}

/* Find a tensor with this number of columns; 0: any number. */
static const struct stored_tensor *find(const struct teacher_logits *file,
                                        const char *name, const char *dtype, size_t cols,
                                        struct error *err)
{
    const struct stored_tensor *t = safetensors_find(file->set, name);

    if (t && strcmp(t->dtype, dtype) == 0 && t->rank == (cols == 1 ? 1 : 2) &&
        (cols <= 1 || t->shape[1] == cols))
        return t;
    error_set(
        err, ERROR_DATA,
        "%s has no tensor %s of %s, so it is not a file of a teacher's logits; remove "
        "it to make it again",
        file->name, name, dtype);
    return NULL;
}

static bool read_tensors(struct teacher_logits *file, struct error *err)
{
    const struct stored_tensor *logits = find(file, "logits", "F32", 0, err), *ids = NULL;
    const struct stored_tensor *starts = find(file, "starts", "I64", 1, err);
    const struct stored_tensor *samples = find(file, "samples", "U8", DIGITS, err);
    const struct stored_tensor *vocabulary = find(file, "words", "I64", 1, err);
    const struct stored_tensor *teacher = find(file, "teacher", "U8", 1, err);

    if (logits)
        ids = find(file, "ids", "I32", logits->shape[1], err);
    if (!ids || !starts || !samples || !vocabulary || !teacher)
        return false;
    file->rows = logits->shape[0];
    file->samples = samples->shape[0];
    file->kind.kept = logits->shape[1];
    file->kind.vocabulary =
        vocabulary->shape[0] == 1 ? (size_t)number_at(vocabulary->data, 0) : 0;
    file->ids = ids->data;
    file->logits = logits->data;
    file->starts = starts->data;
    file->digests = samples->data;
    if (teacher->shape[0] == DIGITS)
        memcpy(file->kind.teacher, teacher->data, DIGITS);
    return (ids->shape[0] == file->rows && starts->shape[0] == file->samples + 1 &&
            file->kind.kept > 0 && file->kind.vocabulary >= file->kind.kept &&
            file->kind.vocabulary <= INT32_MAX && teacher->shape[0] == DIGITS) ||
           error_set(err, ERROR_DATA,
                     "%s: the sizes of its tensors do not fit "
                     "together; remove it to make it again",
                     file->name);
}

static bool check_starts(const struct teacher_logits *file, struct error *err)
{
    int64_t last = 0;

    for (size_t i = 0; i <= file->samples; i++) {
        int64_t start = number_at(file->starts, i);

        if (start < last || (i == 0 && start != 0))
            return error_set(err, ERROR_DATA,
                             "%s: sample %zu starts at "
                             "a row that does not exist",
                             file->name, i);
        last = start;
    }
    return (size_t)last == file->rows ||
           error_set(err, ERROR_DATA, "%s: its samples have %lld rows, but it has %zu",
                     file->name, (long long)last, file->rows);
}

static int compare_digests(const void *a, const void *b)
{
    const struct sample_key *left = a, *right = b;

    return memcmp(left->digest, right->digest, DIGITS);
}

static void sort_samples(struct teacher_logits *file)
{
    file->by_digest = memory_resize(NULL, file->samples + 1, sizeof(*file->by_digest));
    for (size_t i = 0; i < file->samples; i++)
        file->by_digest[i] = (struct sample_key) { file->digests + i * DIGITS, i };
    qsort(file->by_digest, file->samples, sizeof(*file->by_digest), compare_digests);
}

struct teacher_logits *teacher_logits_open(const char *name, struct error *err)
{
    struct teacher_logits *file = memory_alloc(sizeof(*file));

    file->name = memory_strdup(name);
    file->set = safetensors_open(name, NULL, false, err);
    if (file->set && read_tensors(file, err) && check_starts(file, err)) {
        sort_samples(file);
        return file;
    }
    teacher_logits_close(file);
    return NULL;
}

void teacher_logits_close(struct teacher_logits *file)
{
    if (!file)
        return;
    safetensors_close(file->set);
    free(file->by_digest);
    free((char *)file->name);
    free(file);
}

const struct teacher_logits_kind *teacher_logits_kind(const struct teacher_logits *file)
{
    return &file->kind;
}

size_t teacher_logits_samples(const struct teacher_logits *file)
{
    return file->samples;
}

/* ---- A batch ---- */

/* Check that token ids are ascending and in the vocabulary: they index the student's
 * logits. */
static bool check_ids(const struct teacher_logits *file, const int32_t *ids,
                      struct error *err)
{
    for (size_t k = 0; k < file->kind.kept; k++)
        if (ids[k] < (k > 0 ? ids[k - 1] + 1 : 0) ||
            (size_t)ids[k] >= file->kind.vocabulary)
            return error_set(
                err, ERROR_DATA,
                "%s is broken: token %d is out of order or not in the vocabulary; "
                "remove the file to make it again",
                file->name, ids[k]);
    return true;
}

/* Copy a sample's rows to the rows of a sequence that have a label.  There are as many,
 * because the digest covers the labels too. */
static bool copy_rows(const struct teacher_logits *file, size_t sample,
                      const struct batch *batch, size_t sequence, int32_t *ids,
                      float *values, struct error *err)
{
    size_t from = (size_t)number_at(file->starts, sample);
    size_t end = (size_t)number_at(file->starts, sample + 1);
    size_t kept = file->kind.kept, bytes = kept * sizeof(float);

    for (size_t n = (size_t)batch->offsets[sequence];
         n < (size_t)batch->offsets[sequence + 1]; n++) {
        if (batch->targets[n] < 0)
            continue;
        if (from == end)
            return error_set(err, ERROR_DATA, "%s: sample %zu lacks rows", file->name,
                             sample);
        memcpy(ids + n * kept, file->ids + from * bytes, bytes);
        memcpy(values + n * kept, file->logits + from * bytes, bytes);
        if (!check_ids(file, ids + n * kept, err))
            return false;
        from++;
    }
    return true;
}

bool teacher_logits_find(const struct teacher_logits *file, const struct batch *batch,
                         int32_t *ids, float *values, struct error *err)
{
    for (size_t sequence = 0; sequence < batch->sequences; sequence++) {
        char digest[DIGEST_TEXT];
        const struct sample_key key = { .digest = digest }, *found;

        teacher_logits_digest(batch, sequence, digest);
        found = bsearch(&key, file->by_digest, file->samples, sizeof(*file->by_digest),
                        compare_digests);
        if (!found)
            return error_set(
                err, ERROR_DATA,
                "%s has no sample of %d tokens that starts with tokens %d, %d, ...: "
                "it was made for other data, or another template, tokenizer or "
                "cutoff_len; remove it to make it again",
                file->name, batch->offsets[sequence + 1] - batch->offsets[sequence],
                batch->tokens[batch->offsets[sequence]],
                batch->offsets[sequence + 1] - batch->offsets[sequence] > 1
                    ? batch->tokens[batch->offsets[sequence] + 1]
                    : -1);
        if (!copy_rows(file, found->sample, batch, sequence, ids, values, err))
            return false;
    }
    return true;
}
