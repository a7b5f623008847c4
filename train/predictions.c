/* train/predictions.c - generated_predictions.jsonl, as LLaMA-Factory writes it
 * (train/sft/trainer.py: save_predictions), and the means of the scores. */
#include "config.h"

#include "train/predictions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/file.h"
#include "train/text/unicode.h"

#define FILE_MAX_BYTES ((size_t)4 << 30)

struct prediction_line {
    char *json; /* malloc'ed, with its line end; NULL: not answered */
    size_t len;
};

struct predictions {
    struct prediction_line *lines;
    size_t count, answered;
    double sums[SCORES];
    bool has_chinese;
};

struct predictions *predictions_new(size_t count)
{
    struct predictions *predictions = memory_alloc(sizeof(*predictions));

    predictions->count = count;
    predictions->lines = memory_alloc((count + 1) * sizeof(*predictions->lines));
    return predictions;
}

void predictions_free(struct predictions *predictions)
{
    if (!predictions)
        return;
    for (size_t i = 0; i < predictions->count; i++)
        free(predictions->lines[i].json);
    free(predictions->lines);
    free(predictions);
}

/* Invalid UTF-8 becomes U+FFFD, as in Python's tokenizers. */
static void set_text(json_t *object, const char *key, const char *data, size_t len)
{
    struct text valid;

    text_init(&valid, 0);
    unicode_add_lossy(&valid, data, len);
    json_object_set_new(object, key, json_stringn(valid.data, valid.len));
    text_clear(&valid);
}

void predictions_put(struct predictions *predictions, size_t index,
                     const struct prediction *prediction)
{
    struct prediction_line *line = &predictions->lines[index];
    const struct similarity similarity =
        similarity_measure(prediction->text, prediction->len, prediction->label->data,
                           prediction->label->len);
    json_t *object = json_object();
    struct text text;

    set_text(object, "prompt", prediction->prompt->data, prediction->prompt->len);
    set_text(object, "predict", prediction->text, prediction->len);
    set_text(object, "label", prediction->label->data, prediction->label->len);
    text_init(&text, 0);
    json_write(object, &text);
    text_addc(&text, '\n');
    line->json = text_detach(&text, &line->len);
    json_decref(object);
    predictions->answered++;
    predictions->has_chinese |= similarity.has_chinese;
    for (enum score i = 0; i < SCORES; i++)
        predictions->sums[i] += similarity.scores[i];
}

size_t predictions_answered(const struct predictions *predictions)
{
    return predictions->answered;
}

bool predictions_have_chinese(const struct predictions *predictions)
{
    return predictions->has_chinese;
}

void predictions_add_scores(const struct predictions *predictions, const char *prefix,
                            json_t *object)
{
    char name[48];

    for (enum score i = 0; i < SCORES; i++) {
        bool differs = predictions->has_chinese && similarity_counts_words(i);
        double mean = predictions->answered > 0
                          ? predictions->sums[i] / (double)predictions->answered
                          : NAN;

        snprintf(name, sizeof(name), "%s%s%s", prefix, score_names[i],
                 differs ? "-char" : "");
        json_object_set_new(object, name, json_number(mean));
    }
}

bool predictions_write(const struct predictions *predictions, const char *name,
                       struct error *err)
{
    struct text text;
    bool ok = true;

    text_init(&text, FILE_MAX_BYTES);
    for (size_t i = 0; ok && i < predictions->count; i++)
        if (predictions->lines[i].json)
            ok = text_add(&text, predictions->lines[i].json, predictions->lines[i].len);
    ok = ok ? file_replace(name, text.data, text.len, 0666, err)
            : error_set(err, ERROR_SYSTEM, "%s would have more than 4 GiB", name);
    text_clear(&text);
    return ok;
}
