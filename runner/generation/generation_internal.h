/* runner/generation/generation_internal.h - the state of a generation, for generation*.c
 * only. */
#ifndef RUNNER_GENERATION_GENERATION_INTERNAL_H
#define RUNNER_GENERATION_GENERATION_INTERNAL_H

#include "kernels/backend.h"
#include "runner/generation/generation_target.h"
#include "runner/job/contained_paths.h"
#include "runner/output/report.h"
#include "train/generation/answer.h"
#include "train/generation/generate.h"
#include "train/eval_prompts.h"
#include "train/run_media.h"

#define OUTPUT_MAX_BYTES ((size_t)1 << 30)

/* The completion of a prompt; lines are printed in the order of the prompts. */
struct made {
    char *text; /* NULL: not yet done */
    size_t len, tokens;
    enum completion_end end;
    struct verdict verdict; /* if an answer is expected */
};

struct generator {
    const struct options *options;
    struct heartbeat heartbeat; /* a signal stops it */
    struct report report;
    struct generation_target target;
    struct model_config config;
    struct tokenizer *tokenizer;
    const struct chat_template *chat; /* NULL: prompts verbatim */
    struct eval_prompts questions;
    struct dataset *data; /* the prompts as tokens */
    const struct media_family
        *family; /* what the model reads besides text; NULL: nothing */
    char *model_type;
    char *media_parent, *media_dir;  /* a folder for files of this process, and its own */
    struct error no_folder;          /* why there are none */
    struct question_media *media_of; /* of each prompt */
    struct run_media media;
    size_t samples, longest;
    struct prompt_ends ends;
    char *stop_text;
    const char **stops;
    struct backend *be;
    struct model *model;
    struct made *made;  /* samples of each prompt */
    size_t shown;       /* of them */
    struct text output; /* of --output */
    size_t right, found, kept;
};

/* ---- generation_media.c ---- */

/* Check the files of --image and --audio, before the process is contained. */
bool generation_media_open(struct generator *g, struct error *err);
/* List at most `room` of them, and return how many there are. */
size_t generation_media_paths(const struct generator *g, struct contained_path *out,
                              size_t room);
/* Give them to the prompts that are texts. */
bool generation_media_give(struct generator *g, struct error *err);
/* Once g->data has the prompts: list the media of each; check that the model can use them. */
void generation_media_list(struct generator *g);
bool generation_media_check(struct generator *g, struct error *err);
/* Before the model takes its memory: compute the rows of features. */
bool generation_media_encode(struct generator *g, struct error *err);
/* Return the names of a prompt's media, as its record or the command line has them. */
json_t *generation_media_names(const struct generator *g, size_t prompt);
/* Fail if a record contains a medium, for records that are to name files. */
bool generation_media_contained(const struct generator *g, struct error *err);
/* Remove the files of this process. */
void generation_media_remove(struct generator *g);
void generation_media_close(struct generator *g);

/* ---- generation_output.c ---- */

/* Print completion `at`, or add it to the output file's text. */
bool generation_show(struct generator *g, size_t at, struct error *err);
/* Print the summary on standard error, because standard output has the completions. */
void generation_summarize(const struct generator *g);

#endif
