/* patcher/analysis.h - analysis of one text: its contents, its findings, and what would
 * run.  It changes nothing. */
#ifndef PATCHER_ANALYSIS_H
#define PATCHER_ANALYSIS_H

#include "patcher/patcher.h"
#include "patcher/history/previous.h"
#include "patcher/rules/teacher.h"
#include "patcher/profiles/profile.h"
#include "train/model/model_config.h"

/* Shared by several analyses of texts of one job. */
struct analyzer {
    const struct patch_options *options;
    struct arena *arena;
    const char *model_path;           /* the folder read last, or NULL */
    const struct model_config *model; /* NULL: no readable config.json */
    /* the error in its config.json, or NULL */
    const char *model_error;
    enum format checkpoint;    /* format of its weights; FORMAT_COUNT: unknown */
    const char *weights_error; /* why they cannot be read, or NULL */
    bool weights_absent;       /* because a file of them is missing */
    /* what the job's last run left; NULL until the first analysis */
    struct previous *previous;
    /* the model folder that the teacher was last compared with */
    const char *student;
    /* of a distillation, or the reference of preference training */
    struct teacher teacher;
    const char *teacher_path;  /* its folder, or NULL if none was read */
    struct versions installed; /* in the environment read last */
};

struct analysis {
    struct document document;
    struct findings findings; /* positions refer to this text */
    struct findings ignored;  /* findings that the text asks not to report */
    struct plan plan;         /* as in the document; precision not decided */
    struct versions versions; /* packages of an external job */
    struct profile_view view; /* the program that trains the job */
    bool is_job, has_plan;
    bool misread; /* the program of an external job reads false in quotes as true */
};

void analyze_text(struct analyzer *analyzer, const char *data, size_t len,
                  struct analysis *out);
/* Decide precision and estimate memory: the plan of this analysis as it would run. */
void analysis_decide(const struct analyzer *analyzer, struct analysis *analysis,
                     struct plan *plan);

#endif
