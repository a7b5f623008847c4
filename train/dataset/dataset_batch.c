/* train/dataset/dataset_batch.c - rows in the order of an epoch, and batches of them. */
#include "config.h"

#include "train/dataset/dataset_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/random.h"
#include "train/dataset/dataset_feedback.h"
#include "train/chat/template.h"

size_t dataset_samples(const struct dataset *dataset)
{
    return dataset->rows;
}

static size_t row_tokens(const struct dataset *dataset, size_t row)
{
    size_t tokens = 0;

    if (dataset->feedback)
        return dataset_feedback_tokens(dataset, row);
    for (size_t i = dataset->starts[row]; i < dataset->starts[row + 1]; i++)
        tokens += dataset->data->samples[dataset->members[i]].len;
    return tokens;
}

static size_t row_targets(const struct dataset *dataset, size_t row)
{
    size_t targets = 0;

    if (dataset->feedback)
        return dataset_feedback_targets(dataset, row);
    for (size_t i = dataset->starts[row]; i < dataset->starts[row + 1]; i++)
        targets += dataset->data->samples[dataset->members[i]].targets;
    return targets;
}

/* 1 for a pair: the loss of a batch is the mean over its pairs. */
static double row_weight(const struct dataset *dataset, size_t row)
{
    double weight = 0;

    if (dataset->pairs)
        return 1;
    for (size_t i = dataset->starts[row]; i < dataset->starts[row + 1]; i++)
        weight += dataset->data->samples[dataset->members[i]].weight;
    return weight;
}

static size_t row_members(const struct dataset *dataset, size_t row)
{
    return dataset->feedback ? 2 : dataset->starts[row + 1] - dataset->starts[row];
}

static size_t row_media_rows(const struct dataset *dataset, size_t row)
{
    size_t media_rows = 0;

    if (dataset->feedback)
        media_rows += dataset_feedback_media_rows(dataset, row);
    for (size_t i = dataset->starts[row]; i < dataset->starts[row + 1]; i++) {
        const struct sample *sample = &dataset->data->samples[dataset->members[i]];

        media_rows += dataset_media_rows(dataset, sample, 0, sample->len);
    }
    return media_rows;
}

/* Media of a batch with these rows, at most. */
static size_t row_media(const struct dataset *dataset, size_t row)
{
    size_t media = 0;

    for (size_t i = dataset->starts[row]; i < dataset->starts[row + 1]; i++)
        media += dataset->data->samples[dataset->members[i]].media;
    if (dataset->feedback)
        media += media + dataset_feedback_other(dataset, row)->media;
    return media;
}

size_t dataset_longest(const struct dataset *dataset)
{
    size_t longest = 0;

    if (dataset->pairs)
        return dataset_positions_max(dataset);
    for (size_t row = 0; row < dataset->rows; row++) {
        size_t tokens = row_tokens(dataset, row);

        longest = tokens > longest ? tokens : longest;
    }
    return longest;
}

size_t dataset_positions_max(const struct dataset *dataset)
{
    size_t largest = 0;

    for (size_t row = 0; dataset->feedback && row < dataset->rows; row++) {
        size_t tokens = dataset_feedback_longest(dataset, row);

        largest = tokens > largest ? tokens : largest;
    }
    for (size_t i = 0; i < dataset->starts[dataset->rows]; i++) {
        size_t tokens = dataset->data->samples[dataset->members[i]].len;

        largest = tokens > largest ? tokens : largest;
    }
    return largest;
}

uint64_t dataset_tokens(const struct dataset *dataset)
{
    uint64_t tokens = 0;

    for (size_t row = 0; row < dataset->rows; row++)
        tokens += row_tokens(dataset, row);
    return tokens;
}

uint32_t dataset_token_max(const struct dataset *dataset)
{
    uint32_t largest = dataset->data->token_max;

    return dataset->first_token > (int64_t)largest ? (uint32_t)dataset->first_token
                                                   : largest;
}

static int compare_descending(const void *a, const void *b)
{
    size_t left = *(const size_t *)a, right = *(const size_t *)b;

    return left < right ? 1 : left > right ? -1 : 0;
}

/* The sum of the `batch_size` largest values of a per-row quantity. */
static size_t sum_largest(const struct dataset *dataset, size_t batch_size,
                          size_t (*quantity)(const struct dataset *dataset, size_t row))
{
    size_t *values = memory_resize(NULL, dataset->rows + 1, sizeof(size_t)), sum = 0;

    for (size_t row = 0; row < dataset->rows; row++)
        values[row] = quantity(dataset, row);
    qsort(values, dataset->rows, sizeof(size_t), compare_descending);
    for (size_t row = 0; row < dataset->rows && row < batch_size; row++)
        sum += values[row];
    free(values);
    return sum;
}

size_t dataset_rows_max(const struct dataset *dataset, size_t batch_size)
{
    return sum_largest(dataset, batch_size, row_tokens);
}

size_t dataset_sequences_max(const struct dataset *dataset, size_t batch_size)
{
    return sum_largest(dataset, batch_size, row_members);
}

size_t dataset_media_rows_max(const struct dataset *dataset, size_t batch_size)
{
    return dataset->media_count > 0 ? sum_largest(dataset, batch_size, row_media_rows)
                                    : 0;
}

size_t dataset_batches(const struct dataset *dataset, size_t batch_size)
{
    size_t full = dataset->rows / batch_size;

    return full + (!dataset->drop_last && dataset->rows % batch_size > 0);
}

/* The row at a position of an epoch. */
static size_t row_at(const struct dataset *dataset, uint64_t epoch, size_t position)
{
    struct dataset_order *order = dataset->order;

    if (!dataset->shuffled)
        return position;
    if (!order->valid || order->epoch != epoch) {
        random_permutation(dataset->seed, RANDOM_ORDER, (uint32_t)epoch, order->rows,
                           dataset->rows);
        order->epoch = epoch;
        order->valid = true;
    }
    return order->rows[position];
}

/* Positions [*from, *to) of batch `index`; false after the last one. */
static bool batch_range(const struct dataset *dataset, uint64_t index, size_t batch_size,
                        size_t *from, size_t *to)
{
    if (index >= dataset_batches(dataset, batch_size))
        return false;
    *from = (size_t)index * batch_size;
    *to = dataset->rows - *from < batch_size ? dataset->rows : *from + batch_size;
    return true;
}

size_t dataset_trained(const struct dataset *dataset, uint64_t epoch, uint64_t first,
                       size_t batches, size_t batch_size)
{
    size_t targets = 0, from, to;

    for (size_t i = 0; i < batches; i++) {
        if (!batch_range(dataset, first + i, batch_size, &from, &to))
            break;
        for (; from < to; from++)
            targets += row_targets(dataset, row_at(dataset, epoch, from));
    }
    return targets;
}

double dataset_weight(const struct dataset *dataset, uint64_t epoch, uint64_t first,
                      size_t batches, size_t batch_size)
{
    double weight = 0;
    size_t from, to;

    for (size_t i = 0; i < batches; i++) {
        if (!batch_range(dataset, first + i, batch_size, &from, &to))
            break;
        for (; from < to; from++)
            weight += row_weight(dataset, row_at(dataset, epoch, from));
    }
    return weight;
}

void batch_clear(struct batch *batch)
{
    free(batch->tokens);
    free(batch->positions);
    free(batch->targets);
    free(batch->weights);
    free(batch->offsets);
    free(batch->media);
    free(batch->media_at);
    *batch = (struct batch) { 0 };
}

static void batch_grow(struct batch *batch, size_t rows, size_t sequences, bool weighted)
{
    if (rows > batch->room_rows || (weighted && !batch->weights)) {
        batch->room_rows = rows + rows / 4;
        batch->tokens = memory_resize(batch->tokens, batch->room_rows, sizeof(int32_t));
        batch->positions =
            memory_resize(batch->positions, batch->room_rows, sizeof(int32_t));
        batch->targets = memory_resize(batch->targets, batch->room_rows, sizeof(int32_t));
        if (weighted || batch->weights) /* a batch of another dataset may have them */
            batch->weights =
                memory_resize(batch->weights, batch->room_rows, sizeof(float));
    }
    if (sequences + 1 > batch->room_sequences) {
        batch->room_sequences = sequences + sequences / 4 + 1;
        batch->offsets =
            memory_resize(batch->offsets, batch->room_sequences, sizeof(int32_t));
    }
}

static void batch_grow_media(struct batch *batch, size_t media, size_t rows)
{
    if (media > batch->room_media) {
        batch->room_media = media + media / 4;
        batch->media =
            memory_resize(batch->media, batch->room_media, sizeof(*batch->media));
    }
    if (rows > batch->room_media_rows) {
        batch->room_media_rows = rows + rows / 4;
        batch->media_at = memory_resize(batch->media_at, batch->room_media_rows,
                                        sizeof(*batch->media_at));
    }
}

void dataset_batch_room(struct batch *batch, size_t rows, size_t sequences, bool weighted,
                        size_t media, size_t media_rows)
{
    batch_grow(batch, rows, sequences, weighted);
    batch_grow_media(batch, media, media_rows);
    batch->rows = batch->sequences = batch->trained = batch->longest = 0;
    batch->media_count = batch->media_rows = 0;
    batch->weight = 0;
    batch->offsets[0] = 0;
}

static void add_target(struct batch *batch, size_t row, int32_t target, float weight)
{
    batch->targets[row] = target;
    if (batch->weights)
        batch->weights[row] = weight;
}

/* Append a sample as the next sequence: the target of a row is the token of the next row,
 * if that is trained on. */
static void add_sample(const struct dataset *dataset, const struct sample *sample,
                       struct batch *batch)
{
    const struct dataset_store *store = dataset->data;
    const uint32_t *ids = store->ids + sample->at;
    size_t at = batch->rows;

    for (uint32_t i = 0; i < sample->len; i++) {
        batch->tokens[at + i] = (int32_t)ids[i];
        batch->positions[at + i] = (int32_t)i;
        batch->targets[at + i] = LABEL_NONE;
    }
    if (dataset->first_token >= 0 && sample->len > 0)
        batch->tokens[at] = (int32_t)dataset->first_token;
    if (batch->weights)
        memset(batch->weights + at, 0, sample->len * sizeof(float));
    for (uint32_t r = 0; r < sample->spans; r++) {
        const struct label_span *span = &store->spans[sample->span_at + r];

        for (uint32_t i = span->start; i < span->start + span->len; i++)
            if (i > 0)
                add_target(batch, at + i - 1,
                           span->weight > 0 ? (int32_t)ids[i] : dataset->end_token,
                           fabsf(span->weight));
    }
    dataset_media_add(dataset, sample, 0, sample->len, at, batch);
    batch->rows += sample->len;
    batch->trained += sample->targets;
    batch->longest = sample->len > batch->longest ? sample->len : batch->longest;
    batch->offsets[++batch->sequences] = (int32_t)batch->rows;
}

/* Append a question with the answer to another one. */
static void add_mismatch(const struct dataset *dataset,
                         const struct dataset_mismatch *other, struct batch *batch)
{
    size_t len = other->question_len + other->answer_len, at = batch->rows;
    int32_t *tokens = batch->tokens + at, *targets = batch->targets + at;

    for (size_t i = 0; i < len; i++) {
        bool answers = i >= other->question_len;

        tokens[i] = (int32_t)(answers ? other->answer[i - other->question_len]
                                      : other->question[i]);
        batch->positions[batch->rows++] = (int32_t)i;
        targets[i] = LABEL_NONE;
        if (answers && i > 0)
            targets[i - 1] = tokens[i];
    }
    dataset_media_add(dataset, other->own, 0, other->question_len, at, batch);
    dataset_media_add(dataset, other->other, other->answer_at,
                      other->answer_at + other->answer_len, at + other->question_len,
                      batch);
    batch->longest = len > batch->longest ? len : batch->longest;
    batch->sequences++;
    batch->offsets[batch->sequences] = (int32_t)batch->rows;
}

/* Append the answer of a row of stage kto, and its question with another answer. */
static void add_feedback(const struct dataset *dataset, size_t row, struct batch *batch)
{
    const struct sample *own = &dataset->data->samples[dataset->members[row]];
    struct dataset_mismatch other = dataset_feedback_mismatch(dataset, row);
    size_t at = batch->rows;

    add_sample(dataset, own, batch);
    for (size_t i = at; i < batch->rows; i++) /* not the end of the text */
        if (batch->targets[i] >= 0)
            batch->targets[i] = batch->tokens[i + 1];
    if (!dataset_feedback_is_good(dataset, row))
        batch->targets[batch->rows - 1] = TARGET_BAD;
    add_mismatch(dataset, &other, batch);
    batch->trained += dataset_feedback_targets(dataset, row) - own->targets;
}

bool dataset_batch(const struct dataset *dataset, uint64_t epoch, uint64_t index,
                   size_t batch_size, struct batch *out)
{
    size_t from, to, rows = 0, sequences = 0, media = 0, media_rows = 0;

    if (!batch_range(dataset, index, batch_size, &from, &to))
        return false;
    for (size_t position = from; position < to; position++) {
        size_t row = row_at(dataset, epoch, position);

        rows += row_tokens(dataset, row);
        sequences += row_members(dataset, row);
        if (dataset->media_count > 0) {
            media += row_media(dataset, row);
            media_rows += row_media_rows(dataset, row);
        }
    }
    dataset_batch_room(out, rows, sequences,
                       dataset->data->weighted && !dataset->feedback, media, media_rows);
    for (size_t position = from; position < to; position++) {
        size_t row = row_at(dataset, epoch, position);

        if (dataset->feedback)
            add_feedback(dataset, row, out);
        for (size_t i = dataset->starts[row];
             !dataset->feedback && i < dataset->starts[row + 1]; i++)
            add_sample(dataset, &dataset->data->samples[dataset->members[i]], out);
        out->weight += row_weight(dataset, row);
    }
    out->seen = out->rows;
    return true;
}

size_t dataset_batch_questions(const struct dataset *dataset, uint64_t epoch,
                               uint64_t index, size_t batch_size, size_t *out,
                               size_t room)
{
    size_t from, to, count = 0;

    if (!batch_range(dataset, index, batch_size, &from, &to))
        return 0;
    for (size_t position = from; position < to; position++) {
        size_t row = row_at(dataset, epoch, position);

        for (size_t i = dataset->starts[row]; i < dataset->starts[row + 1]; i++)
            if (count < room)
                out[count++] = i;
    }
    return count;
}

size_t dataset_batch_samples(const struct dataset *dataset, uint64_t epoch,
                             uint64_t index, size_t batch_size, uint32_t *out,
                             size_t room)
{
    size_t *members = memory_resize(NULL, room + 1, sizeof(*members));
    size_t rows =
        dataset_batch_questions(dataset, epoch, index, batch_size, members, room);
    size_t each = dataset->feedback ? 2 : 1, count = 0;

    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < each && count < room; k++)
            out[count++] = (uint32_t)(each * dataset->members[members[i]] + k);
    free(members);
    return count;
}
