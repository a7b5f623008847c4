/* train/dataset/dataset_prompted.c - fills the store of a dataset with prompts. */
#include "config.h"

#include "train/dataset/dataset_prompted.h"

#include <stdlib.h>

#include "base/arena.h"
#include "train/dataset/dataset_expand.h"
#include "train/dataset/dataset_internal.h"

struct dataset_prompted {
    struct dataset *dataset;
    struct dataset_expand *expand;
};

struct dataset_prompted *dataset_prompted_new(const struct dataset_reading *reading)
{
    struct dataset_prompted *prompted = memory_alloc(sizeof(*prompted));
    struct dataset *dataset = memory_alloc(sizeof(*dataset));

    dataset->data = &dataset->store;
    dataset->first_token = -1;
    prompted->dataset = dataset;
    prompted->expand = dataset_expand_new(reading, &dataset->store);
    return prompted;
}

void dataset_prompted_free(struct dataset_prompted *prompted)
{
    if (!prompted)
        return;
    if (prompted->expand)
        dataset_expand_free(prompted->expand);
    dataset_close(prompted->dataset);
    free(prompted);
}

bool dataset_prompted_mark(struct dataset_prompted *prompted,
                           const struct dataset_position *position,
                           struct conversation *record, struct message *messages,
                           size_t count, struct error *err)
{
    return dataset_expand_mark(prompted->expand, position, record, messages, count, err);
}

struct template_media *dataset_prompted_media(struct dataset_prompted *prompted)
{
    return dataset_expand_media(prompted->expand);
}

void dataset_prompted_add(struct dataset_prompted *prompted, const struct token_list *ids)
{
    struct dataset_store *store = &prompted->dataset->store;
    const struct media_span *spans;
    float *none = memory_alloc((ids->count + 1) * sizeof(*none));
    size_t count;

    dataset_store_add(store, ids->ids, none, ids->count);
    free(none);
    if (!dataset_prompted_media(prompted))
        return;
    spans = dataset_expand_spans(prompted->expand, &count);
    dataset_store_add_media(store, spans, count);
}

/* Each prompt is a row. */
struct dataset *dataset_prompted_end(struct dataset_prompted *prompted)
{
    struct dataset *dataset = prompted->dataset;
    const size_t count = dataset->store.count;

    dataset->members = memory_resize(NULL, count + 1, sizeof(*dataset->members));
    dataset->starts = memory_resize(NULL, count + 1, sizeof(*dataset->starts));
    dataset->rows = count;
    for (size_t i = 0; i <= count; i++) {
        dataset->members[i] = (uint32_t)i;
        dataset->starts[i] = i;
    }
    dataset_media_list(dataset);
    dataset_expand_free(prompted->expand);
    prompted->expand = NULL;
    prompted->dataset = NULL;
    return dataset;
}

struct dataset_question dataset_prompted_question(const struct dataset *dataset,
                                                  size_t index)
{
    const struct sample *sample = &dataset->data->samples[index];

    return (struct dataset_question) { .ids = dataset->data->ids + sample->at,
                                       .question_len = sample->len,
                                       .count = sample->len };
}
