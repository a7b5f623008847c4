/* train/dataset/dataset_feedback.c - questions with the answers to others. */
#include "config.h"

#include "train/dataset/dataset_feedback.h"

#include "train/chat/template.h"

enum { ROWS_AT_ONCE = 1000 }; /* preprocessing_batch_size of LLaMA-Factory */

static const struct sample *sample_of(const struct dataset *dataset, size_t row)
{
    return &dataset->data->samples[dataset->members[row]];
}

static const struct label_span *first_span(const struct dataset *dataset, size_t row)
{
    return &dataset->data->spans[sample_of(dataset, row)->span_at];
}

static size_t row_before(const struct dataset *dataset, size_t row)
{
    size_t first = row / ROWS_AT_ONCE * ROWS_AT_ONCE, last = first + ROWS_AT_ONCE;

    if (row > first)
        return row - 1;
    return (last < dataset->rows ? last : dataset->rows) - 1;
}

const struct sample *dataset_feedback_other(const struct dataset *dataset, size_t row)
{
    return sample_of(dataset, row_before(dataset, row));
}

/* Tokens before the medium that a cut at token `to` of a sample would divide. */
static size_t before_medium(const struct dataset *dataset, const struct sample *sample,
                            size_t to)
{
    const struct media_span *spans = dataset->data->media_spans + sample->media_at;

    for (uint32_t m = 0; m < sample->media; m++)
        if (spans[m].start < to && spans[m].start + spans[m].len > to)
            return spans[m].start;
    return to;
}

struct dataset_mismatch dataset_feedback_mismatch(const struct dataset *dataset,
                                                  size_t row)
{
    const struct dataset_store *store = dataset->data;
    const size_t before = row_before(dataset, row);
    const struct sample *own = sample_of(dataset, row),
                        *other = sample_of(dataset, before);
    const struct label_span *first = first_span(dataset, before),
                            *last = first + other->spans - 1;
    struct dataset_mismatch out = {
        .question = store->ids + own->at,
        .answer = store->ids + other->at + first->start,
        .question_len = first_span(dataset, row)->start,
        .answer_len = last->start + last->len - first->start,
        .own = own,
        .other = other,
        .answer_at = first->start,
    };

    template_cut(dataset->cutoff_len, &out.question_len, &out.answer_len);
    out.question_len = before_medium(dataset, own, out.question_len);
    out.answer_len =
        before_medium(dataset, other, out.answer_at + out.answer_len) - out.answer_at;
    return out;
}

bool dataset_feedback_is_good(const struct dataset *dataset, size_t row)
{
    return first_span(dataset, row)->weight > 0;
}

size_t dataset_feedback_tokens(const struct dataset *dataset, size_t row)
{
    struct dataset_mismatch other = dataset_feedback_mismatch(dataset, row);

    return sample_of(dataset, row)->len + other.question_len + other.answer_len;
}

size_t dataset_feedback_targets(const struct dataset *dataset, size_t row)
{
    struct dataset_mismatch other = dataset_feedback_mismatch(dataset, row);
    size_t targets = other.answer_len;

    if (other.question_len == 0 && targets > 0) /* the first token has none before it */
        targets--;
    return sample_of(dataset, row)->targets + targets;
}

size_t dataset_feedback_media_rows(const struct dataset *dataset, size_t row)
{
    struct dataset_mismatch other = dataset_feedback_mismatch(dataset, row);

    return dataset_media_rows(dataset, other.own, 0, other.question_len) +
           dataset_media_rows(dataset, other.other, other.answer_at,
                              other.answer_at + other.answer_len);
}

size_t dataset_feedback_longest(const struct dataset *dataset, size_t row)
{
    struct dataset_mismatch other = dataset_feedback_mismatch(dataset, row);
    size_t len = other.question_len + other.answer_len,
           own = sample_of(dataset, row)->len;

    return len > own ? len : own;
}
