/* runner/generation/generation_internal.h - the state of a generation, for generation*.c
 * only. */
#ifndef RUNNER_GENERATION_GENERATION_INTERNAL_H
#define RUNNER_GENERATION_GENERATION_INTERNAL_H

#include "kernels/backend.h"
#include "runner/generation/generation_target.h"
#include "runner/output/report.h"
#include "train/generation/answer.h"
#include "train/generation/generate.h"
#include "train/eval_prompts.h"

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
    struct token_list *tokens; /* of each prompt */
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

/* Print completion `at`, or add it to the output file's text. */
bool generation_show(struct generator *g, size_t at, struct error *err);
/* Print the summary on standard error, because standard output has the completions. */
void generation_summarize(const struct generator *g);

#endif
