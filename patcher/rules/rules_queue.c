/*
 * patcher/rules/rules_queue.c - TS720 to TS723: a job of a watched folder that waits for
 * other jobs or for a time, that makes jobs, or that limits what is kept.
 */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/instant.h"
#include "base/size.h"
#include "patcher/schema/sweep_axes.h"

/* Chains of more jobs are followed no further. */
enum { FOLLOWED_MAX = 1000 };

/* Jobs that were reached from the job, each once. */
struct reached {
    struct arena *arena;
    const char *dir, *names[FOLLOWED_MAX];
    size_t from[FOLLOWED_MAX]; /* the position of the job that waits for it */
    size_t count;
};

/* Return the name without .yaml or .yml. */
static const char *stem(const char *name, struct arena *arena)
{
    size_t len = strlen(name);

    len -= text_ends(name, ".yaml") ? 5 : text_ends(name, ".yml") ? 4 : 0;
    return arena_copy(arena, name, len);
}

static char *path_with(const struct reached *reached, const char *name,
                       const char *ending)
{
    return path_join(reached->dir, arena_printf(reached->arena, "%s%s", name, ending));
}

static bool exists(const struct reached *reached, const char *name, const char *ending)
{
    char *path = path_with(reached, name, ending);
    bool found = file_exists(path);

    free(path);
    return found;
}

static bool is_job(const struct reached *reached, const char *name)
{
    return exists(reached, name, ".yaml") || exists(reached, name, ".yml") ||
           exists(reached, name, ".run/state.json");
}

/* Add a job, unless it is there; from: the position of the one that waits for it. */
static void add(struct reached *reached, const char *name, size_t from)
{
    for (size_t i = 0; i < reached->count; i++)
        if (strcmp(reached->names[i], name) == 0)
            return;
    if (reached->count == FOLLOWED_MAX)
        return;
    reached->from[reached->count] = from;
    reached->names[reached->count++] = name;
}

static void add_words(struct reached *reached, const char *words, size_t from)
{
    while (*(words += strspn(words, ", "))) {
        size_t len = strcspn(words, ",");

        while (len > 0 && words[len - 1] == ' ')
            len--;
        add(reached, stem(arena_copy(reached->arena, words, len), reached->arena), from);
        words += len;
    }
}

static void add_value(struct reached *reached, const struct node *value, size_t from)
{
    value = node_value(value);
    if (value->kind == NODE_SCALAR && !node_is_null(value))
        add_words(reached, value->text, from);
    for (size_t i = 0; value->kind == NODE_LIST && i < value->count; i++)
        if (node_value(value->items[i])->kind == NODE_SCALAR)
            add_words(reached, node_value(value->items[i])->text, from);
}

/* Add the jobs that another one waits for, by its file. */
static void add_next(struct reached *reached, size_t at)
{
    bool long_ending = exists(reached, reached->names[at], ".yaml");
    char *path = path_with(reached, reached->names[at], long_ending ? ".yaml" : ".yml");
    const struct entry *block, *after;
    struct document document;
    struct text text;

    text_init(&text, 0);
    if (file_read_at(AT_FDCWD, path, DOCUMENT_MAX_BYTES, &text, NULL, NULL)) {
        document_read(text.data, text.len, reached->arena, &document);
        block = document.root ? document_find(&document, "trainspool") : NULL;
        after = block ? node_find(node_value(block->value), "after") : NULL;
        if (after)
            add_value(reached, after->value, at);
    }
    text_clear(&text);
    free(path);
}

/* "a waits for b, b for a" */
static const char *describe_circle(const struct reached *reached, const char *own,
                                   size_t at)
{
    const char *end = "";

    for (; at != SIZE_MAX; at = reached->from[at])
        end = arena_printf(reached->arena, "%s%s%s", reached->names[at],
                           end[0] ? ", which waits for " : "", end);
    return arena_printf(reached->arena, "%s waits for %s", own, end);
}

static const char *find_circle(struct reached *reached, const char *own)
{
    for (size_t i = 0; i < reached->count; i++) {
        if (strcmp(reached->names[i], own) == 0)
            return describe_circle(reached, own, i);
        if (!strchr(reached->names[i], '/'))
            add_next(reached, i);
    }
    return NULL;
}

static void report(struct rule_context *context, const struct entry *entry,
                   enum severity severity, const char *message, const char *note)
{
    const struct proposal to = rule_proposal(context);

    propose_remark(&to,
                   &(struct finding) { .rule = "TS720",
                                       .severity = severity,
                                       .message = rule_printable(context, message),
                                       .note = note },
                   entry);
}

static void report_names(struct rule_context *context, const struct entry *entry,
                         const struct reached *reached)
{
    for (size_t i = 0; i < reached->count; i++) {
        const char *name = reached->names[i];

        if (strchr(name, '/') || !name[0])
            report(context, entry, SEVERITY_ERROR,
                   arena_printf(context->arena,
                                "after must name jobs of the same folder, not %s", name),
                   NULL);
        else if (!is_job(reached, name))
            report(context, entry,
                   context->options->spooled ? SEVERITY_ERROR : SEVERITY_WARNING,
                   arena_printf(context->arena,
                                "after: there is no job %s in this folder", name),
                   "drop that job first");
    }
}

static void rule_after(struct rule_context *context)
{
    const struct patch_options *options = context->options;
    const struct entry *entry = rule_block_entry(context, "after");
    struct reached reached = { .arena = context->arena,
                               .dir = context->plan->dir ? context->plan->dir : "." };
    const char *circle;

    /* a run in the foreground waits for nothing; an admitted job has waited */
    if (!entry || options->frozen || (options->will_run && !options->spooled))
        return;
    add_value(&reached, entry->value, SIZE_MAX);
    report_names(context, entry, &reached);
    circle = find_circle(&reached, stem(path_base(options->job), context->arena));
    if (circle)
        report(context, entry, SEVERITY_ERROR,
               arena_printf(context->arena, "after: none of these jobs could start: %s",
                            circle),
               NULL);
}

static void rule_begin(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_block_entry(context, "begin");
    struct error err = { 0 };
    struct instant instant;

    if (!entry || !context->plan->begin ||
        instant_read(context->plan->begin, &instant, &err))
        return;
    propose_remark(
        &to,
        &(struct finding) { .rule = "TS721",
                            .severity = SEVERITY_ERROR,
                            .message = arena_printf(context->arena, "begin: %s",
                                                    rule_printable(context, err.text)) },
        entry);
}

static void rule_sweep(struct rule_context *context)
{
    const struct patch_options *options = context->options;
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_block_entry(context, "sweep");
    struct sweep_axes axes;
    struct error err = { 0 };

    if (!entry || !context->plan->sweep)
        return;
    if (sweep_axes_read(entry->value, context->arena, &axes, &err) && options->will_run &&
        !options->spooled)
        error_set(&err, ERROR_JOB,
                  "only a watched folder makes the jobs of a sweep: "
                  "trainspool watch");
    if (err.code)
        propose_remark(&to,
                       &(struct finding) {
                           .rule = "TS722",
                           .severity = SEVERITY_ERROR,
                           .message = arena_printf(context->arena, "sweep: %s",
                                                   rule_printable(context, err.text)) },
                       entry);
}

/* The value of another kind is TS704. */
static void rule_max_bytes(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_block_entry(context, "max_bytes");

    if (!entry || !context->plan->max_bytes || !strchr(context->plan->max_bytes, '%'))
        return;
    propose_remark(&to,
                   &(struct finding) { .rule = "TS723",
                                       .severity = SEVERITY_ERROR,
                                       .message =
                                           "max_bytes must be a size such as 20GB, "
                                           "not a share" },
                   entry);
}

static const struct rule rows[] = {
    { .id = "TS720",
      .title = "job to wait for that does not exist, or waits for this one",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_after,
      .explain =
          "trainspool.after names jobs of the same folder, with or without .yaml. The job "
          "starts when all of them are done. A job that waits for a name that does not "
          "exist, or for itself over other jobs, would wait forever: it is rejected in a "
          "watched folder. A name counts as soon as its file is there, so drop the job "
          "that goes first before the others. `check` warns about a missing name, as the "
          "job may be meant for another folder.\n\n"
          "If a job that another one waits for fails, is canceled or is rejected, the "
          "other one keeps waiting, and `trainspool status` shows for what: retry the "
          "former, or cancel the latter.",
      .source = "trainspool-job(5); sbatch(1), --dependency=afterok" },
    { .id = "TS721",
      .title = "begin is not a time",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_begin,
      .explain =
          "trainspool.begin is a time with its zone, as in ISO 8601: "
          "2026-12-01T06:00:00+01:00 or 2026-12-01T05:00Z. Or it is a delay after the job "
          "file arrived: +90s, +30m, +2h or +1d. Without a zone, the time would depend on "
          "the settings of the machine.",
      .source = "ISO 8601; sbatch(1), --begin" },
    { .id = "TS722",
      .title = "sweep that cannot be made",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_sweep,
      .explain =
          "trainspool.sweep is a map of keys of the job, each with a list of different "
          "values: {learning_rate: [1e-5, 2e-5], lora_rank: [8, 16]} makes four jobs. At "
          "most 8 keys can vary, and at most 256 jobs are made. Each value must be valid "
          "for its key; keys of the block trainspool: cannot vary. The jobs are made by a "
          "watched folder, so `run` refuses a job with a sweep.",
      .source = "trainspool-job(5)" },
    { .id = "TS723",
      .title = "max_bytes is a share",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_max_bytes,
      .explain =
          "trainspool.max_bytes limits the size of the old files of a job that has ended: "
          "backups between the first and the newest, TensorBoard files of earlier attempts, "
          "checkpoints other than the last and the best. It is a size, such as 20GB: of what "
          "80% would be a share is not defined.",
      .source = "trainspool-job(5)" },
};

const struct rules rules_queue = { rows, TS_COUNT(rows) };
