/* patcher/rules/rules_variables.c - TS718: environment variables that a job must not set. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include "base/size.h"
#include "patcher/schema/variables.h"

static void report(struct rule_context *context, const struct entry *entry,
                   const char *message)
{
    const struct proposal to = rule_proposal(context);

    propose_remark(
        &to,
        &(struct finding) { .rule = "TS718",
                            .severity = SEVERITY_ERROR,
                            .message = arena_printf(context->arena, "env: %s",
                                                    rule_printable(context, message)) },
        entry);
}

static void rule_variables(struct rule_context *context)
{
    const struct entry *env = rule_block_entry(context, "env");
    const struct node *map = env ? node_value(env->value) : NULL;

    if (!map || map->kind != NODE_MAP || context->plan->external)
        return;
    if (map->count > VARIABLES_MAX)
        report(context, env,
               arena_printf(context->arena, "a job can set %d variables, not %zu",
                            VARIABLES_MAX, map->count));
    for (size_t i = 0; i < map->count && i < VARIABLES_MAX; i++) {
        struct error err = { 0 };

        if (!variable_check(&map->entries[i], &err))
            report(context, &map->entries[i], err.text);
    }
}

static const struct rule rows[] = {
    { .id = "TS718",
      .title = "environment variable that a job must not set",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_variables,
      .explain =
          "trainspool.env adds variables to the environment of the process that trains, "
          "such as {OMP_NUM_THREADS: 4, NCCL_DEBUG: INFO}. A job must not set variables "
          "that make this process load other code (LD_PRELOAD, LD_LIBRARY_PATH, "
          "CUDA_INJECTION64_PATH, plugins of NCCL), that lead the C library to other "
          "files, that widen what the process may write (CUDA_CACHE_PATH, CUDA_MPS_...), "
          "that belong to the user (PATH, HOME), or that control trainspool "
          "(TRAINSPOOL_...). The person who starts trainspool can set them in the "
          "environment of run or watch.\n\n"
          "A value is a text or a number on one line; it is used as written, without "
          "expansion. It is part of the job file, which is copied and backed up: "
          "secrets do not belong there (TS709), and a run needs none.",
      .source = "glibc, sysdeps/generic/unsecvars.h; NCCL user guide, environment "
                "variables; CUPTI, CUDA_INJECTION64_PATH" },
};

const struct rules rules_variables = { rows, TS_COUNT(rows) };
