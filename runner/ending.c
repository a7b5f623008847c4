/* runner/ending.c - chooses the event, the exit status and the sentence. */
#include "config.h"

#include "runner/ending.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "runner/output/report.h"

int ending_status(bool spooled, enum error_code code)
{
    return spooled ? report_spooled_exit(code) : report_training_exit(code);
}

/* A retry of a job that made no step in its time would end in the same way. */
static const char *timeout_remedy(const struct ending_facts *facts)
{
    if (!facts->advanced)
        return "raise trainspool.timeout";
    return facts->spooled ? "trainspool retry continues for as long again"
                          : "trainspool run --resume continues for as long again";
}

/* The trainer stops for a signal, for the file `cancel`, or at the job's timeout. A
 * person's request counts most. */
static void find_stop(const struct ending_facts *facts, const struct error *err,
                      struct ending *out)
{
    static const char verb[] = "stopped";
    const char *where = text_starts(err->text, verb) ? err->text + strlen(verb) : "";

    out->status = 128 + facts->signal;
    if (facts->request == REQUEST_CANCEL) {
        out->event = EVENT_CANCELLED;
        snprintf(out->reason, sizeof(out->reason), "canceled%s", where);
    } else if (facts->request == REQUEST_REQUEUE) {
        out->event = facts->spooled ? EVENT_PAUSED : EVENT_CANCELLED;
        snprintf(out->reason, sizeof(out->reason), "queued again%s%s",
                 where[0] ? " after it stopped" : "", where);
    } else if (facts->timed_out) {
        out->event = EVENT_EXIT_BAD;
        out->status = EXIT_FINDINGS;
        snprintf(out->reason, sizeof(out->reason), "timeout reached%s; %s", where,
                 timeout_remedy(facts));
    } else {
        out->event = facts->spooled ? EVENT_PAUSED : EVENT_CANCELLED;
        snprintf(out->reason, sizeof(out->reason), "stopped by SIG%s%s",
                 sigabbrev_np(facts->signal), where);
    }
}

static bool next_may_work(enum error_code code)
{
    return code == ERROR_CARD || code == ERROR_CONTEXT;
}

void ending_find(const struct ending_facts *facts, const struct error *err,
                 struct ending *out)
{
    *out = (struct ending) { .event = EVENT_EXIT_OK };
    if (!err)
        return;
    if (err->code == ERROR_STOPPED) {
        find_stop(facts, err, out);
        return;
    }
    if (facts->heals && !facts->waits && facts->request != REQUEST_CANCEL)
        out->ailment = heal_ailment(err);
    /* a job of a spool is tried again after a fault of the machine */
    out->paused = !out->ailment && facts->spooled && err->code == ERROR_FAULT;
    out->event = out->ailment  ? EVENT_AILED
                 : out->paused ? EVENT_PAUSED
                 : facts->spooled && facts->retries && next_may_work(err->code)
                     ? EVENT_CRASHED
                     : EVENT_EXIT_BAD;
    out->status = facts->waits   ? EXIT_NO_ROOM
                  : out->ailment ? EXIT_FINDINGS
                  : facts->launched && next_may_work(err->code)
                      ? EXIT_CARD
                      : ending_status(facts->spooled, err->code);
    if (err->file[0] && err->at.line)
        snprintf(out->reason, sizeof(out->reason), "%s:%u:%u: %s", err->file,
                 err->at.line, err->at.column, err->text);
    else
        snprintf(out->reason, sizeof(out->reason), "%s", err->text);
}

void ending_describe(const struct ending *ending, const struct ending_run *run,
                     struct text *out)
{
    const struct plan *plan = run->plan;

    text_addf(out, "%s: ", run->job->path);
    if (ending->reason[0] && plan_only_evaluates(plan))
        text_addf(out, "%s; trainspool run starts it again", ending->reason);
    else if (ending->reason[0])
        text_addf(out, "%s; trainspool run --resume continues from there",
                  ending->reason);
    else if (plan_merges(plan))
        text_addf(out, "done: %s, model in %s",
                  plan->adapter_name_or_path ? "merged" : "exported", plan->export_dir);
    else if (plan_only_evaluates(plan))
        text_addf(out, "done: evaluated, results in %s", plan->output_dir);
    else if (!run->advanced)
        text_addf(out, "no step was left to do, model in %s", plan->output_dir);
    else
        text_addf(out, "done: %" PRId64 " steps, model in %s", run->step,
                  plan->output_dir);
    if (run->warnings > 0)
        text_addf(out, "; %" PRId64 " warning%s, also in %s", run->warnings,
                  run->warnings == 1 ? "" : "s", run->job->log);
}
