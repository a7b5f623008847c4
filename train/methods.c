/* train/methods.c - one text for each rank: its attention, a newline, its algorithms. */
#include "config.h"

#include "train/methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/matmul_choices.h"
#include "train/model/parallel.h"

/* Return the name of what computes attention; "": there is only one way. */
static const char *attention_of(const struct run *run)
{
    const struct backend_ops *ops = run->be->ops;
    bool rounds = format_info(run->plan->precision.compute)->bytes == 2;

    return ops->attention_name && rounds ? ops->attention_name(run->be) : "";
}

/* ---- Recording ---- */

static void write_own(const struct run *run, struct text *out)
{
    const struct backend_ops *ops = run->be->ops;
    char *choices = ops->choices ? ops->choices(run->be) : NULL;

    text_init(out, 0);
    text_addf(out, "%s\n%s", attention_of(run), choices ? choices : "");
    free(choices);
}

bool methods_reply(struct run *run, struct error *err)
{
    struct text own;
    bool ok;

    write_own(run, &own);
    ok = parallel_send_text(run->options->group, own.data, err);
    text_clear(&own);
    return ok;
}

/* Take over what a rank wrote. */
static void take(struct run *run, int rank, const char *text, struct text *choices)
{
    const size_t len = strcspn(text, "\n");
    char *name = run->progress.attention[rank];

    snprintf(name, sizeof(run->progress.attention[rank]), "%.*s", (int)len, text);
    matmul_choices_join(choices, rank, text + len + (text[len] == '\n'));
}

static void warn_of_others(struct run *run)
{
    char(*names)[PROGRESS_ATTENTION] = run->progress.attention;

    for (size_t r = 1; r < parallel_ranks(run->options->group); r++)
        if (!run->told_methods && strcmp(names[r], names[0]) != 0) {
            log_line(run->options->log, LOG_WARN,
                     "attention: rank %zu computes it by %s, rank 0 by %s", r, names[r],
                     names[0]);
            run->told_methods = true;
        }
}

bool methods_record(struct run *run, struct error *err)
{
    const struct backend_group *group = run->options->group;
    struct text choices, own;
    bool ok = parallel_send_order(group, PARALLEL_METHODS, err);

    text_init(&choices, 0);
    write_own(run, &own);
    take(run, 0, own.data, &choices);
    text_clear(&own);
    for (size_t r = 1; ok && r < parallel_ranks(group); r++) {
        char *theirs = NULL;

        ok = parallel_receive_text(group, (int)r, &theirs, err);
        if (ok)
            take(run, (int)r, theirs, &choices);
        free(theirs);
    }
    if (ok)
        warn_of_others(run);
    free(run->choices);
    run->progress.choices = run->choices = text_detach(&choices, NULL);
    return ok;
}

/* ---- Resuming ---- */

/* Before this was recorded, it was our own kernels. */
static const char *recorded_of(const struct run *run, size_t rank)
{
    const char *own = run->progress.attention[rank], *first = run->progress.attention[0];

    return own[0] ? own : first[0] ? first : "trainspool";
}

/* Write what is different in this rank; nothing: all is as before. */
static void restore_own(struct run *run, struct text *out)
{
    const struct backend_ops *ops = run->be->ops;
    const char *recorded = recorded_of(run, parallel_rank(run->options->group));

    text_init(out, 0);
    text_adds(out, "");
    if (ops->attention_use && attention_of(run)[0] &&
        !ops->attention_use(run->be, recorded))
        text_addf(out,
                  "attention was computed by %s, and is now by %s: the bits may differ "
                  "from those of an uninterrupted run",
                  recorded, ops->attention_name(run->be));
}

static void warn(const struct run *run, size_t rank, const char *what)
{
    char of[32] = "";

    if (rank > 0)
        snprintf(of, sizeof(of), "rank %zu: ", rank);
    if (what[0])
        log_line(run->options->log, LOG_WARN, "resume: %s%s", of, what);
}

bool methods_restore(struct run *run, struct error *err)
{
    const struct backend_group *group = run->options->group;
    struct text own;
    bool ok = true;

    restore_own(run, &own);
    if (parallel_rank(group) > 0)
        ok = parallel_send_text(group, own.data, err);
    else
        warn(run, 0, own.data);
    text_clear(&own);
    for (size_t r = 1; ok && parallel_rank(group) == 0 && r < parallel_ranks(group);
         r++) {
        char *theirs = NULL;

        ok = parallel_receive_text(group, (int)r, &theirs, err);
        if (ok)
            warn(run, r, theirs);
        free(theirs);
    }
    return ok;
}

void methods_describe(const struct run *run)
{
    const char *name = attention_of(run);
    bool varies = run->gradients_bytes > 0 && strstr(name, "cuDNN");

    if (name[0])
        log_line(run->options->log, LOG_INFO, "attention: %s%s", name,
                 varies ? "; gradients by cuDNN, whose bits differ from run to run "
                          "(deterministic: false)"
                        : "");
}
