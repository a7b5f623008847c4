/* train/jinja/jinja.h - the language of model chat templates (`chat_template`): the
 * subset of Jinja 3.1 that they use, as transformers runs it: trim_blocks, lstrip_blocks,
 * loop controls, {% generation %}, its own tojson, and nothing that changes a value in
 * place.
 *
 * Not supported: inheritance and imports (a template is a single file), recursive loops,
 * autoescape, integers beyond 64 bits, and filters and tests that are not in the tables
 * of jinja_filter.c, jinja_filter_list.c and jinja_predicates.c. */
#ifndef TRAIN_JINJA_JINJA_H
#define TRAIN_JINJA_JINJA_H

#include "base/json.h"

struct jinja;

/* Parse a template. Errors start with `name`, followed by the line: "chat template of
 * models/x". Everything is copied. ERROR_DATA for a syntax error or an unsupported
 * feature. */
struct jinja *jinja_parse(const char *source, size_t len, const char *name,
                          struct error *err);
void jinja_free(struct jinja *jinja); /* NULL is allowed */

/* Return whether the template has a {% generation %} block, which marks the model's
 * answer. */
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

/* Render the template with its variables, a JSON object; replaces the content of *out.
 * ERROR_DATA with name and line for an error, also for raise_exception (*refused is then
 * true, unless NULL), and if the template takes more steps, memory or depth than any
 * conversation can need. Thread-safe on one template.
 *
 * strftime_now always returns 26 July 2024, the date that Llama 3's templates use without
 * a clock: a run must not depend on the day when it is started. */
bool jinja_render(const struct jinja *jinja, const json_t *variables,
                  struct jinja_output *out, bool *refused, struct error *err);

#endif
