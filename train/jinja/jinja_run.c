/* train/jinja/jinja_run.c - rendering from variables to text; limits and failures. */
#include "config.h"

#include "train/jinja/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/jinja/jinja_node.h"
#include "train/jinja/jinja_text.h"
#include "train/jinja/jinja_value.h"

bool jinja_failed(const struct jinja_run *run)
{
    return run->err->code != ERROR_NONE;
}

struct jinja_value jinja_fail(struct jinja_run *run, const char *fmt, ...)
{
    char text[400];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    jinja_error(run->err, run->jinja->name, run->line, "%s", text);
    return jinja_none();
}

struct jinja_value jinja_fail_undefined(struct jinja_run *run,
                                        const struct jinja_value *undefined)
{
    int len = undefined->len < 200 ? (int)undefined->len : 200;
    struct jinja_value object = { .kind = undefined->object };

    if (undefined->is_message)
        return jinja_fail(run, "%.*s", len, undefined->text);
    if (undefined->object == JINJA_ABSENT)
        return jinja_fail(run, "'%.*s' is undefined", len, undefined->text);
    return jinja_fail(run, "'%s object' has no attribute '%.*s'", jinja_type(&object),
                      len, undefined->text);
}

bool jinja_work(struct jinja_run *run, size_t bytes)
{
    run->steps += 1 + bytes / JINJA_STEP_BYTES;
    if (run->steps > run->steps_max)
        jinja_fail(run,
                   "the template takes more than %zu steps: it does not end, or repeats "
                   "its work",
                   run->steps_max);
    return !jinja_failed(run);
}

void *jinja_alloc(struct jinja_run *run, size_t count, size_t size)
{
    size_t bytes;

    if (jinja_failed(run))
        return NULL;
    if (!size_mul(count, size, &bytes) || bytes > run->bytes_max - run->bytes) {
        jinja_fail(run, "the template takes more than %zu MiB of memory",
                   run->bytes_max >> 20);
        return NULL;
    }
    run->bytes += bytes;
    return arena_alloc(run->arena, bytes);
}

bool jinja_enter(struct jinja_run *run)
{
    if (jinja_failed(run))
        return false;
    if (run->depth == JINJA_DEPTH_MAX) {
        jinja_fail(run, "the template exceeds %zu levels of nesting", JINJA_DEPTH_MAX);
        return false;
    }
    run->depth++;
    return true;
}

void jinja_leave(struct jinja_run *run)
{
    run->depth--;
}

void jinja_output_init(struct jinja_output *output)
{
    *output = (struct jinja_output) { .spans = NULL };
    text_init(&output->text, JINJA_BYTES_MAX);
}

void jinja_output_clear(struct jinja_output *output)
{
    text_clear(&output->text);
    free(output->spans);
}

/* Start with the variables, whose size decides what the rest may take. */
static void set_variables(struct jinja_run *run, const json_t *variables)
{
    size_t input;

    run->steps_max = JINJA_STEPS_FREE;
    run->bytes_max = JINJA_BYTES_MAX;
    run->variables = jinja_from_json(run, variables);
    input = run->bytes;
    run->steps_max += JINJA_STEPS_PER_BYTE * input;
    if (input < (JINJA_BYTES_MAX - JINJA_BYTES_FREE) / JINJA_BYTES_PER_BYTE)
        run->bytes_max = JINJA_BYTES_FREE + JINJA_BYTES_PER_BYTE * input;
    run->out->text.max = run->bytes_max;
}

bool jinja_render(const struct jinja *jinja, const json_t *variables,
                  struct jinja_output *out, bool *refused, struct error *err)
{
    struct error cause = { 0 };
    struct jinja_run run = {
        .jinja = jinja,
        .arena = arena_new(),
        .err = &cause,
        .out = out,
        .text = &out->text,
    };

    text_reset(&out->text);
    out->span_count = 0;
    run.line = 1;
    set_variables(&run, variables);
    run.scope = jinja_alloc(&run, 1, sizeof(*run.scope));
    if (run.scope)
        jinja_execute(&run, jinja->body);
    if (!jinja_failed(&run) && out->text.overflow)
        jinja_fail(&run, "the text is longer than %zu MiB", run.bytes_max >> 20);
    arena_free(run.arena);
    if (refused)
        *refused = run.refused;
    return cause.code == ERROR_NONE || error_set(err, cause.code, "%s", cause.text);
}
