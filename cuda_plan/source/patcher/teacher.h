/*
 * patcher/teacher.h - what is known of a distillation's teacher and its student from
 * their folders: formats, bytes, vocabularies.  Nothing of it is trusted; every file has
 * a limit.
 */
#ifndef PATCHER_TEACHER_H
#define PATCHER_TEACHER_H

#include "base/arena.h"
#include "train/plan.h"

/* What two models would say to each other, token by token. */
enum vocabularies {
    VOCABULARIES_UNKNOWN, /* one of them does not say */
    VOCABULARIES_SAME,
    VOCABULARIES_PADDED, /* the same tokens, rows of logits padded to other lengths */
    VOCABULARIES_DIFFER
};

struct teacher {
    const char *path; /* its folder; NULL: none is named, or it is not on this machine */
    enum format format;  /* of most of its bytes; FORMAT_COUNT: not known */
    uint64_t bytes;      /* of its tensors; 0: not known */
    const struct model_config *config; /* NULL: it is none that could be trained here */
    const char *dropout; /* "attention_dropout 0.1", of its config.json; NULL: none */
    enum vocabularies vocabularies;
    const char *difference; /* in words; NULL where they do not differ */
};

/* The teacher in the folder `path`, of the student in the folder `student`; each may be
 * NULL or missing. */
void teacher_read(const char *path, const char *student, struct arena *arena,
                  struct teacher *out);

#endif
