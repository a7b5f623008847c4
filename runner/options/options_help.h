/* runner/options/options_help.h - usage and --help of a command. */
#ifndef RUNNER_OPTIONS_OPTIONS_HELP_H
#define RUNNER_OPTIONS_OPTIONS_HELP_H

#include "base/text.h"
#include "runner/options/options.h"

/* Append "trainspool check". */
void options_add_name(struct text *out, const char *program,
                      const struct command *command);
/* Append "trainspool check [options] JOB..." and a newline. */
void options_usage(const char *program, const struct command *command, struct text *out);
/* Append the whole --help page of one command. */
void options_help(const char *program, const struct command *command, struct text *out);

/* Append `text` broken at spaces so that no line exceeds `width` columns; each line is
 * indented by `indent` spaces. */
void options_wrap(const char *text, size_t indent, size_t width, struct text *out);

#endif
