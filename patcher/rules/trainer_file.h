/*
 * patcher/rules/trainer_file.h - the files of Axolotl, torchtune, Lightning and Unsloth,
 * whose keys are not those of a job: how they ask for number formats, and which formats
 * follow.
 */
#ifndef PATCHER_RULES_TRAINER_FILE_H
#define PATCHER_RULES_TRAINER_FILE_H

#include "patcher/rules/rules.h"

struct trainer_formats {
    bool known;                /* false: the file says nothing that can be read */
    const struct entry *entry; /* the line that decides; NULL: a default */
    const char *request;       /* "bf16: true", "trainer.precision: 16-true" */
    bool automatic;            /* the trainer selects a format that the device has */
    enum format autocast;      /* FORMAT_FP32: none */
    enum format weights;       /* of the loaded model */
    enum format trained;       /* of the weights that the optimizer updates */
    bool scaled;               /* a loss scaler runs */
};

/* Return what the file asks for; a missing device counts as one with every format. */
struct trainer_formats trainer_file_formats(const struct rule_context *context);
/* Return the entry at a path such as "trainer.precision"; NULL: absent. */
const struct entry *trainer_file_entry(const struct rule_context *context,
                                       const char *path);
/* Return whether the keys of the trainer's files are not those of a job. */
bool trainer_file_is_foreign(const struct rule_context *context);

#endif
