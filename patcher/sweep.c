/* patcher/sweep.c - edits the text once for each combination. */
#include "config.h"

#include "patcher/sweep.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "patcher/document/document.h"
#include "patcher/setting.h"

/* A name of a file has at most 255 bytes; a job's has 200 with its ending. */
enum { NAME_BYTES = 190, NAME_NICE = 120 };
/* All texts together. */
static const size_t bytes_max = 16 << 20;

static const struct entry *find_sweep(const struct document *document)
{
    const struct entry *block =
        document->root ? document_find(document, "trainspool") : NULL;

    return block ? node_find(node_value(block->value), "sweep") : NULL;
}

/* Letters of a value that every tool takes in a name of a file. */
static void add_plain(struct text *out, const char *value)
{
    for (; *value; value++)
        text_addc(out, (*value >= '0' && *value <= '9') ||
                               ((*value | 32) >= 'a' && (*value | 32) <= 'z') ||
                               strchr("+-._", *value)
                           ? *value
                           : '_');
}

/* "gsm8k-02-learning_rate-2e-5-lora_rank-8": the number alone is unique; what would make
 * the name too long is cut. */
static bool make_name(const char *stem, const struct sweep *sweep, size_t job,
                      struct arena *arena, const char **out, struct error *err)
{
    const int digits = sweep->count > 99 ? 3 : sweep->count > 9 ? 2 : 1;
    struct text name;
    size_t least;

    text_init(&name, 0);
    text_addf(&name, "%s-%0*zu", stem, digits, job + 1);
    least = name.len;
    for (size_t i = 0; i < sweep->axes.count; i++) {
        text_addc(&name, '-');
        add_plain(&name, sweep->axes.list[i].key);
        text_addc(&name, '-');
        add_plain(&name, sweep_axes_value(&sweep->axes, job, i));
    }
    if (name.len > NAME_NICE)
        name.len = least > NAME_NICE ? least : NAME_NICE;
    *out = arena_copy(arena, name.data, name.len);
    text_clear(&name);
    return strlen(*out) <= NAME_BYTES ||
           error_set(err, ERROR_JOB, "the name %.40s... is too long for a sweep", stem);
}

/* Replace the sweep by null, and say above the text what it is. */
static const char *plain_text(const struct document *document, const char *about,
                              struct arena *arena, size_t *len)
{
    const struct node *value = find_sweep(document)->value;
    const size_t bom = document->bom ? 3 : 0;
    const char *text;
    struct text out;

    text_init(&out, 0);
    text_add(&out, document->data, bom);
    text_addf(&out, "# %s%s", about, document_newline(document, 0));
    text_add(&out, document->data + bom, value->at.byte - bom);
    text_adds(&out, "null");
    text_add(&out, document->data + value->at.byte + value->bytes,
             document->len - value->at.byte - value->bytes);
    *len = out.len;
    text = arena_copy(arena, out.data, out.len);
    text_clear(&out);
    return text;
}

/* Return the text of output_dir; NULL: there is none, or it differs anyway. */
static const char *shared_output(const struct document *document,
                                 const struct sweep_axes *axes)
{
    const struct entry *output = document_find(document, "output_dir");
    const struct node *value = output ? node_value(output->value) : NULL;

    for (size_t i = 0; i < axes->count; i++)
        if (strcmp(axes->list[i].key, "output_dir") == 0)
            return NULL;
    return value && value->kind == NODE_SCALAR && !node_is_null(value) ? value->text
                                                                       : NULL;
}

static const char *make_about(const char *stem, const struct sweep *sweep, size_t job,
                              struct arena *arena)
{
    const char *about = arena_printf(
        arena, "job %zu of %zu of the sweep %s.yaml:", job + 1, sweep->count, stem);
    struct text shown;
    const char *copy;

    for (size_t i = 0; i < sweep->axes.count; i++)
        about =
            arena_printf(arena, "%s%s %s %s", about, i ? "," : "",
                         sweep->axes.list[i].key, sweep_axes_value(&sweep->axes, job, i));
    text_init(&shown, 0);
    text_add_visible(&shown, about, strlen(about));
    copy = arena_copy(arena, shown.data, shown.len);
    text_clear(&shown);
    return copy;
}

static bool make_job(const struct document *document, const char *stem,
                     struct sweep *sweep, size_t job, struct arena *arena,
                     struct error *err)
{
    const char *output = shared_output(document, &sweep->axes);
    const char *set[SWEEP_AXES_MAX + 2] = { NULL };
    struct sweep_job *out = &sweep->jobs[job];
    struct error why = { 0 };
    size_t count = 0;

    if (!make_name(stem, sweep, job, arena, &out->name, err))
        return false;
    for (; count < sweep->axes.count; count++)
        set[count] = arena_printf(arena, "%s=%s", sweep->axes.list[count].key,
                                  sweep_axes_value(&sweep->axes, job, count));
    if (output)
        set[count++] = arena_printf(arena, "output_dir=%s%s%s", output,
                                    text_ends(output, "/") ? "" : "/", out->name);
    out->text =
        plain_text(document, make_about(stem, sweep, job, arena), arena, &out->len);
    if (!setting_apply(set, arena, &out->text, &out->len, &why))
        return error_set(err, ERROR_JOB, "sweep: %s", why.text);
    digest_bytes(out->text, out->len, out->digest);
    return true;
}

bool sweep_make(const char *name, const char *text, size_t len, struct arena *arena,
                struct sweep *out, struct error *err)
{
    const struct entry *entry;
    struct document document;
    struct error why = { 0 };

    *out = (struct sweep) { 0 };
    document_read(text, len, arena, &document);
    entry = find_sweep(&document);
    if (!entry)
        return error_set(err, ERROR_JOB, "the text has no sweep");
    if (entry->value->kind == NODE_ALIAS)
        return error_set(err, ERROR_JOB, "sweep must not be an alias");
    if (!sweep_axes_read(entry->value, arena, &out->axes, &why))
        return error_set(err, ERROR_JOB, "sweep: %s", why.text);
    out->count = out->axes.jobs;
    if (len * out->count > bytes_max)
        return error_set(err, ERROR_JOB,
                         "the jobs of the sweep would take more than %zu MiB",
                         bytes_max >> 20);
    out->jobs = arena_alloc(arena, out->count * sizeof(*out->jobs));
    for (size_t i = 0; i < out->count; i++)
        if (!make_job(&document, name, out, i, arena, err))
            return false;
    return true;
}
