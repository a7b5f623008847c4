/*
 * runner/commands/cmd_import.c - import: converts a file of Axolotl, torchtune or
 * LLaMA-Factory v1, or a Python training script, to a job.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "patcher/import/import.h"
#include "runner/output/report_json.h"

static int cmd_import(const struct options *options);

const struct command command_import = {
    .name = "import",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .options = (const enum option_id[]) { OPTION_JSON, OPTION_OUTPUT, OPTION_END },
    .scripts = true,
    .help =
        "make a job of a file of Axolotl, torchtune or LLaMA-Factory v1, or of a script",
    .details =
        "Keys that cannot be converted become comments at the end of the job, each "
        "with its reason.  Comments after values are kept, other comments are not.  "
        "The file itself does not change.  The exit status is 1 if the file trains "
        "in a way that is not supported, 2 if it is not such a file.",
    .run = cmd_import,
};

static bool read_source(const char *file, struct text *out, struct error *err)
{
    if (access(file, R_OK) != 0)
        return error_set(err, ERROR_DATA, "cannot open %s: %s", file, strerror(errno));
    return file_read(file, DOCUMENT_MAX_BYTES, out, NULL, err);
}

static size_t count_of(const struct import *import, enum import_outcome outcome)
{
    size_t count = 0;

    for (size_t i = 0; i < import->key_count; i++)
        count += import->keys[i].outcome == outcome;
    return count;
}

static json_t *import_object(const struct options *options, const struct import *import)
{
    json_t *object = json_object(), *keys = json_array();

    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "source", report_json_string(options->operands[0]));
    json_object_set_new(object, "tool", json_string(import->tool));
    json_object_set_new(object, "output", report_json_string(options->output));
    if (!options->output)
        json_object_set_new(object, "text", report_json_string(import->text.data));
    for (size_t i = 0; i < import->key_count; i++) {
        const struct import_key *key = &import->keys[i];
        json_t *row = json_object();

        json_object_set_new(row, "key", report_json_string(key->name));
        json_object_set_new(row, "line", json_integer(key->at.line));
        json_object_set_new(row, "column", json_integer(key->at.column));
        json_object_set_new(row, "fate", json_string(import_outcome_names[key->outcome]));
        json_object_set_new(row, "into", report_json_string(key->into));
        json_object_set_new(row, "because", report_json_string(key->why));
        json_array_append_new(keys, row);
    }
    json_object_set_new(object, "keys", keys);
    return object;
}

/* Report losses on standard error when the job is on standard output: a user who
 * redirects the job to a file should not have to search it. */
static void report_losses(const struct options *options, const struct import *import)
{
    size_t count = count_of(import, IMPORT_DIFFERS);
    struct report report;

    report_init(&report, options);
    report.out = stderr;
    if (count > 0 && !options->quiet && !options->json)
        report_line(&report,
                    "%s: %s: %zu key%s could not be converted and may change the "
                    "result; the comments at the end of the job say why",
                    options->program, options->operands[0], count, count == 1 ? "" : "s");
}

static bool write_job(const struct options *options, const struct import *import,
                      struct error *err)
{
    if (!options->output)
        return true;
    errno = 0;
    if (file_create(options->output, import->text.data, import->text.len, 0666, err))
        return true;
    if (errno != EEXIST)
        return false;
    error_clear(err);
    return error_set(err, ERROR_USAGE, "%s exists and is not overwritten",
                     options->output);
}

static void show(struct report *report, const struct options *options,
                 const struct import *import, struct error *err)
{
    if (options->json)
        report_json(report, import_object(options, import), err);
    else if (!options->output)
        report_write(report, &import->text);
    else if (!options->quiet)
        report_line(report,
                    "%s: a job of %s, %zu keys converted, %zu not needed; next: "
                    "trainspool check %s",
                    options->output, options->operands[0],
                    count_of(import, IMPORT_CARRIED), count_of(import, IMPORT_IDLE),
                    options->output);
    report_losses(options, import);
}

static int cmd_import(const struct options *options)
{
    const char *file = options->operands[0];
    struct arena *arena = arena_new();
    struct error err = { 0 };
    struct report report;
    struct import import = { 0 };
    struct text source;

    report_init(&report, options);
    text_init(&source, 0);
    if (read_source(file, &source, &err)) {
        if (import_read(file, source.data, source.len, arena, &import, &err) &&
            write_job(options, &import, &err))
            show(&report, options, &import, &err);
        import_clear(&import);
    }
    if (err.code != ERROR_NONE)
        report_json_failure(&report, options, file, &err);
    text_clear(&source);
    arena_free(arena);
    return report_exit(err.code);
}
