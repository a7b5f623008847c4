/*
 * runner/generation/generation_parts.h - a generation under way, for the files generation*.c alone.
 */
#ifndef RUNNER_GENERATION_GENERATION_PARTS_H
#define RUNNER_GENERATION_GENERATION_PARTS_H

#include "kernels/backend.h"
#include "runner/generation/generation_target.h"
#include "runner/output/report.h"
#include "train/generation/answer.h"
#include "train/generation/generate.h"
#include "train/eval_prompts.h"

#define OUTPUT_MAX_BYTES ((size_t)1 << 30)

/* What became of a prompt; lines are printed in the order of the prompts. */
struct made {
    char *text; /* NULL: not yet */
    size_t len, tokens;
    enum completion_end end;
    struct verdict verdict; /* where something is expected */
};

struct generator {
    const struct options *options;
    const volatile sig_atomic_t *stop; /* set by a signal */
    struct report report;
    struct generation_target target;
    struct model_config config;
    struct tokenizer *tokenizer;
    const struct chat_template *chat; /* NULL: prompts as they are */
    struct eval_prompts questions;
    struct token_list *tokens; /* of each question */
    size_t samples, longest;
    struct prompt_ends ends;
    char *stop_text;
    const char **stops;
    struct backend *be;
    struct model *model;
    struct made *made;  /* samples of each question */
    size_t shown;       /* of them */
    struct text output; /* of --output */
    size_t right, found, kept;
};

/* Print completion `at`, or put it into the output. */
bool generation_show(struct generator *g, size_t at, struct error *err);
/* On standard error, as standard output is for the completions. */
void generation_sum_up(const struct generator *g);

#endif
