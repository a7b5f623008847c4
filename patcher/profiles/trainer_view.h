/* patcher/profiles/trainer_view.h - decides which program trains a job: by its target, its
 * command, its packages, or its keys. */
#ifndef PATCHER_PROFILES_TRAINER_VIEW_H
#define PATCHER_PROFILES_TRAINER_VIEW_H

#include "base/arena.h"
#include "patcher/profiles/profile.h"

/*
 * Fill the view of the program that trains the job.  target: --target, or NULL; it takes
 * precedence over trainspool.target.
 */
void trainer_view(const struct document *document, const char *target,
                  const struct versions *versions, struct profile_view *out);
/* Return the trainer that the text alone names: trainspool.target, without a look at the
 * command, the packages or the keys. */
enum trainer trainer_of_target(const struct document *document, const char *target);

/* Iterator over the words of trainspool.command, a string or a list. */
struct trainer_words {
    const struct node *command; /* NULL: the job has none */
    const char *at;             /* position in a string */
    size_t next;                /* position in a list */
    char word[256];             /* the current one, cut if it is longer */
};

/* Start at the first word; trainer_next_word returns NULL after the last. */
void trainer_words_init(const struct document *document, struct trainer_words *words);
const char *trainer_next_word(struct trainer_words *words);

#endif
