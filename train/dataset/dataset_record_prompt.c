/* train/dataset/dataset_record_prompt.c - records of stage grpo: prompts, as TRL has them,
 * with what a reward compares in another column, or without. */
#include "config.h"

#include "train/dataset/dataset_record.h"

#include "base/size.h"
#include "train/dataset/dataset_record_internal.h"

static const char *const known_answers[] = { "solution", "answer", "ground_truth" };

/* Return whether a file that is named directly has the prompt without a completion. */
static bool is_prompt(const struct dataset_source *source, const json_t *record)
{
    return source->form == DATASET_DETECT && json_object_get(record, "prompt") &&
           !json_object_get(record, "completion") &&
           !json_object_get(record, "response") && !json_object_get(record, "messages") &&
           !json_object_get(record, "conversations");
}

enum record_kind dataset_record_read_prompt(const struct dataset_source *source,
                                            const json_t *record,
                                            struct conversation *out, const char **why,
                                            struct error *err)
{
    const char *column = NULL;
    enum record_kind kind;
    json_t *whole;

    if (!is_prompt(source, record))
        return dataset_record_read(source, record, false, out, why, err);
    for (size_t i = 0; !column && i < TS_COUNT(known_answers); i++)
        if (!record_is_absent(json_object_get(record, known_answers[i])))
            column = known_answers[i];
    whole = json_copy((json_t *)(uintptr_t)record);
    json_object_set_new(whole, "completion",
                        column ? json_incref(json_object_get(record, column))
                               : json_string(""));
    kind = dataset_record_read(source, whole, false, out, why, err);
    out->columns.response = column;
    conversation_keep(out, whole); /* the texts of the messages are in it */
    return kind;
}
