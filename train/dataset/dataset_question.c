/* train/dataset/dataset_question.c - samples as questions and answers. */
#include "config.h"

#include "train/dataset/dataset.h"

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
