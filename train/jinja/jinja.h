/*
 * train/jinja/jinja.h - the templates that models bring along (`chat_template`): the part of
 * Jinja 3.1 that they are written in, as transformers runs it: trim_blocks,
 * lstrip_blocks, loop controls, {% generation %}, its own tojson, and nothing that
 * changes a value in place.
 *
 * Not there: inheritance and imports (a template has no others beside it), recursive
 * loops, autoescape, integers past 64 bits, the filters and tests that are not in the
 * tables of jinja_filter.c, jinja_filter_list.c and jinja_predicates.c.
 */
#ifndef TRAIN_JINJA_JINJA_H
#define TRAIN_JINJA_JINJA_H

#include "base/json.h"

struct jinja;

/* `name` is put into errors before the line: "chat template of models/x".  Everything is
 * copied.  ERROR_DATA for what is no template, or asks for what is not there. */
struct jinja *jinja_parse(const char *source, size_t len, const char *name,
                          struct error *err);
void jinja_free(struct jinja *jinja); /* NULL is allowed */

/* Has it a {% generation %} block: does it say itself which part is the model's
 * answer? */
bool jinja_marks_generation(const struct jinja *jinja);

/* Bytes [start, start + len) of the output. */
struct jinja_span {
    size_t start, len;
};

struct jinja_output {
    struct text text;
    struct jinja_span *spans; /* of the {% generation %} blocks, in order */
    size_t span_count, span_room;
};

void jinja_output_init(struct jinja_output *output);
void jinja_output_clear(struct jinja_output *output);

/*
 * The text that the template makes of its variables, a JSON object.  Replaces what *out
 * holds. ERROR_DATA with name and line for what goes wrong, also for raise_exception
 * (then *refused is true, where it is not NULL), and where it takes more steps, memory or
 * depth than any conversation can need.  Thread-safe on one template.
 *
 * strftime_now stands still at 26 July 2024, the date Llama 3's templates take where
 * there is no clock: a run must not depend on the day it is started.
 */
bool jinja_render(const struct jinja *jinja, const json_t *variables,
                  struct jinja_output *out, bool *refused, struct error *err);

#endif
