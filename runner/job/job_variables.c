/* runner/job/job_variables.c - setenv(3), and execv(2) of this program. */
#include "config.h"

#include "runner/job/job_variables.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "patcher/document/document.h"
#include "patcher/schema/redact.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/variables.h"
#include "runner/output/report.h"
#include "runner/output/report_json.h"

static bool is_set(const struct plan_variable *variable)
{
    const char *now = getenv(variable->name);

    return now && strcmp(now, variable->value) == 0;
}

void job_variables_apply(const char *text, size_t len, char **argv)
{
    struct arena *arena = arena_new();
    struct document document;
    struct variables variables;
    bool changed = false;

    document_read(text, len, arena, &document);
    variables_read(&document, arena, &variables);
    for (size_t i = 0; i < variables.count; i++)
        if (!is_set(&variables.list[i]))
            changed |= setenv(variables.list[i].name, variables.list[i].value, true) == 0;
    arena_free(arena);
    if (changed) /* even if the file of the program was replaced meanwhile */
        execv("/proc/self/exe", argv);
}

static const char *shown(const struct plan_variable *variable)
{
    return schema_is_secret(variable->name) ? REDACT_SHOWN : variable->value;
}

void job_variables_add_line(const struct plan *plan, struct text *out)
{
    for (size_t i = 0; i < plan->variable_count; i++) {
        text_addf(out, "%s%s=", i ? ", " : "  variables   ", plan->variables[i].name);
        report_visible(out, shown(&plan->variables[i]));
    }
    if (plan->variable_count)
        text_addc(out, '\n');
}

json_t *job_variables_json(const struct plan *plan)
{
    json_t *object = json_object();

    for (size_t i = 0; i < plan->variable_count; i++)
        json_object_set_new(object, plan->variables[i].name,
                            report_json_string(shown(&plan->variables[i])));
    return object;
}
