/*
 * train/predictions.h - the generated answers of an evaluation without training, with
 * their scores, and the file generated_predictions.jsonl.
 */
#ifndef TRAIN_PREDICTIONS_H
#define TRAIN_PREDICTIONS_H

#include "base/json.h"
#include "train/generation/similarity.h"

struct predictions;

struct predictions *predictions_new(size_t count);      /* of prompts */
void predictions_free(struct predictions *predictions); /* NULL is allowed */

struct prediction {
    const struct text *prompt, *label; /* with and without special tokens */
    const char *text;                  /* the completion */
    size_t len;
};
/* Set the answer to prompt `index`, below `count`.  Everything is copied. */
void predictions_put(struct predictions *predictions, size_t index,
                     const struct prediction *prediction);

size_t predictions_answered(const struct predictions *predictions);
/* Return whether a text has Chinese characters: ROUGE then counts characters. */
bool predictions_have_chinese(const struct predictions *predictions);
/* Add the mean of each score to the object: "eval_rouge-1", or "eval_rouge-1-char" if it
 * counts Chinese characters where LLaMA-Factory counts words. */
void predictions_add_scores(const struct predictions *predictions, const char *prefix,
                            json_t *object);
/* Replace the file: {"prompt":..,"predict":..,"label":..} for each answered prompt, in
 * the order of the data. */
bool predictions_write(const struct predictions *predictions, const char *name,
                       struct error *err);

#endif
