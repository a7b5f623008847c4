/*
 * patcher/analysis.h - one look at one text: what it says, what is remarked on it, and what
 * would run.  It changes nothing.
 */
#ifndef PATCHER_ANALYSIS_H
#define PATCHER_ANALYSIS_H

#include "patcher/patcher.h"
#include "patcher/history/previous.h"
#include "patcher/rules/teacher.h"
#include "patcher/rules/versions.h"
#include "train/model/model_config.h"

/* What several looks at texts of one job share. */
struct analyzer {
    const struct patch_options *options;
    struct arena *arena;
    const char *model_path;           /* the folder that was read last, or NULL */
    const struct model_config *model; /* NULL: it has no config.json that can be read */
    /* what is wrong with the config.json that it has; NULL: nothing */
    const char *model_error;
    enum format checkpoint;    /* what its files hold; FORMAT_COUNT: not known */
    const char *weights_error; /* why those cannot be read; NULL: they can */
    /* what the job's last run left; NULL until the first look */
    struct previous *previous;
    const char *student;       /* with whose folder the teacher was compared last */
    struct teacher teacher;    /* of a distillation, or the reference of preferences */
    const char *teacher_path;  /* its folder; NULL: none was read */
    struct versions installed; /* in the environment read last */
};

struct analysis {
    struct document document;
    struct findings findings; /* places are those of this text */
    struct findings ignored;  /* what the text asks not to be told */
    struct plan plan;         /* as the document says; precision not decided */
    struct versions versions; /* of an external job's packages */
    bool is_job, has_plan;
};

void analyze_text(struct analyzer *analyzer, const char *data, size_t len,
                  struct analysis *out);
/* Decide precision and estimate memory: the plan of this look as it would run. */
void analysis_decide(const struct analyzer *analyzer, struct analysis *analysis,
                     struct plan *plan);

#endif
