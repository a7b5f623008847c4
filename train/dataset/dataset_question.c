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
    for (uint32_t r = 0; r < sample->runs; r++) {
        const struct label_span *run = &data->runs[sample->run_at + r];

        if (run->weight < 0)
            continue;
        if (out->count == 0 || run->start != end) /* adjacent spans are one answer */
            out->asked = run->start;
        out->count = end = run->start + run->len;
    }
    return out->asked > 0;
}

size_t dataset_question_max(const struct dataset *dataset, size_t limit, size_t *longer)
{
    struct dataset_question question;
    size_t longest = 0, over = 0;

    for (size_t i = 0; i < dataset_questions(dataset); i++) {
        if (!dataset_question(dataset, i, &question))
            continue;
        if (question.asked > limit)
            over++;
        else if (question.asked > longest)
            longest = question.asked;
    }
    if (longer)
        *longer = over;
    return longest;
}
