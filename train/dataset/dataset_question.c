/* train/dataset/dataset_question.c - samples as questions and answers. */
#include "config.h"

#include "train/dataset/dataset.h"

#include "base/arena.h"
#include "train/chat/template.h"
#include "train/dataset/dataset_internal.h"

size_t dataset_questions(const struct dataset *dataset)
{
    return dataset->pairs ? 0 : dataset->starts[dataset->rows];
}

bool dataset_question(const struct dataset *dataset, size_t index,
                      struct dataset_question *out)
{
    const struct dataset_store *data = dataset->data;
    const struct sample *sample = &data->samples[dataset->members[index]];
    uint32_t end = 0;

    *out = (struct dataset_question) { .ids = data->ids + sample->at };
    for (uint32_t r = 0; r < sample->spans; r++) {
        const struct label_span *span = &data->spans[sample->span_at + r];

        if (span->weight < 0)
            continue;
        if (out->count == 0 || span->start != end) /* adjacent spans are one answer */
            out->question_len = span->start;
        out->count = end = span->start + span->len;
    }
    return out->question_len > 0;
}

void dataset_question_batch(const struct dataset *dataset, size_t index,
                            const struct dataset_question *question, struct batch *out)
{
    const struct dataset_store *data = dataset->data;
    const struct sample *sample = &data->samples[dataset->members[index]];
    const size_t len = question->question_len;

    dataset_batch_room(out, len, 1, false, sample->media,
                       dataset_media_rows(dataset, sample, 0, len));
    dataset_media_add(dataset, sample, 0, len, 0, out);
    for (size_t i = 0; i < len; i++) {
        out->tokens[i] = (int32_t)question->ids[i];
        out->positions[i] = (int32_t)i;
        out->targets[i] = LABEL_NONE;
    }
    out->rows = out->longest = out->seen = len;
    out->sequences = 1;
    out->offsets[1] = (int32_t)len;
}

void dataset_question_media(const struct dataset *dataset, size_t index,
                            const struct dataset_question *question, struct arena *arena,
                            struct question_media *out)
{
    struct batch batch = { 0 };

    *out = (struct question_media) { 0 };
    if (dataset_media(dataset) == 0)
        return;
    dataset_question_batch(dataset, index, question, &batch);
    out->media_count = batch.media_count;
    out->media_rows = batch.media_rows;
    out->media = arena_array(arena, out->media_count, sizeof(*out->media));
    out->media_at = arena_array(arena, out->media_rows, sizeof(*out->media_at));
    for (size_t i = 0; i < out->media_count; i++)
        out->media[i] = batch.media[i];
    for (size_t i = 0; i < out->media_rows; i++)
        out->media_at[i] = batch.media_at[i];
    batch_clear(&batch);
}

size_t dataset_question_max(const struct dataset *dataset, size_t limit, size_t *longer)
{
    struct dataset_question question;
    size_t longest = 0, too_long = 0;

    for (size_t i = 0; i < dataset_questions(dataset); i++) {
        if (!dataset_question(dataset, i, &question))
            continue;
        if (question.question_len > limit)
            too_long++;
        else if (question.question_len > longest)
            longest = question.question_len;
    }
    if (longer)
        *longer = too_long;
    return longest;
}
