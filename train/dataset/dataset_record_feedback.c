/* train/dataset/dataset_record_feedback.c - records of stage kto: one answer, and a mark
 * whether it is good, as LLaMA-Factory (kto_tag) and TRL (label) have them. */
#include "config.h"

#include "train/dataset/dataset_record.h"

#include "base/size.h"
#include "train/dataset/dataset_record_internal.h"

static const char *const known_marks[] = { "kto_tag", "label" };

static const char *mark_column(const struct dataset_source *source, const json_t *record)
{
    if (source->form != DATASET_DETECT)
        return source->columns.kto_tag;
    for (size_t i = 0; i < TS_COUNT(known_marks); i++)
        if (json_object_get(record, known_marks[i]))
            return known_marks[i];
    return NULL;
}

enum record_kind dataset_record_read_feedback(const struct dataset_source *source,
                                              const json_t *record,
                                              struct conversation *out, bool *good,
                                              const char **why, struct error *err)
{
    enum record_kind kind = dataset_record_read(source, record, false, out, why, err);
    const char *column = mark_column(source, record);
    const json_t *mark = column ? json_object_get(record, column) : NULL;

    if (kind != RECORD_CONVERSATION)
        return kind;
    if (!column) {
        error_set(
            err, ERROR_DATA,
            "the record has no \"label\" and no \"kto_tag\", which mark an answer as "
            "good (true) or bad (false) for stage: kto; name the column as kto_tag in "
            "dataset_info.json");
        return RECORD_BROKEN;
    }
    out->columns.kto_tag = column;
    if (!json_is_boolean(mark)) {
        *why = "whose mark is neither true nor false";
        return RECORD_SKIPPED;
    }
    *good = json_is_true(mark);
    out->messages[out->count - 1].weight = 1;
    return kind;
}
