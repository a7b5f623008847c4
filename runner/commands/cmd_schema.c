/* runner/commands/cmd_schema.c - schema: prints the JSON Schema of a job, for editors. */
#include "config.h"

#include "runner/commands/commands.h"

#include "patcher/schema/schema_json.h"
#include "runner/output/report.h"

static int cmd_schema(const struct options *options);

const struct command command_schema = {
    .name = "schema",
    .operands = "",
    .help = "print the JSON Schema of a job, for editors",
    .details =
        "With it, an editor that supports YAML completes keys, shows their help and "
        "marks mistakes.",
    .run = cmd_schema,
};

static int cmd_schema(const struct options *options)
{
    json_t *schema = schema_json_new();
    struct report report;
    struct text out;

    report_init(&report, options);
    text_init(&out, 0);
    json_write_pretty(schema, &out);
    report_write(&report, &out);
    text_clear(&out);
    json_decref(schema);
    return EXIT_FINE;
}
