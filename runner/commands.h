/* runner/commands.h - the commands of trainspool: their table, and one function each. */
#ifndef RUNNER_COMMANDS_H
#define RUNNER_COMMANDS_H

#include "runner/options/options.h"

/* In the order in which a person meets them; NULL: past the end. */
const struct command *commands_at(size_t at);
/* NULL: no such command. */
const struct command *commands_find(const char *name);

/* Each returns the exit status. */
int cmd_check(const struct options *options);
int cmd_patch(const struct options *options);
int cmd_plan(const struct options *options);
int cmd_report(const struct options *options);
int cmd_review(const struct options *options);
int cmd_backups(const struct options *options);
int cmd_undo(const struct options *options);
int cmd_run(const struct options *options);
int cmd_generate(const struct options *options);
int cmd_watch(const struct options *options);
int cmd_submit(const struct options *options);
int cmd_status(const struct options *options);
int cmd_logs(const struct options *options);
int cmd_cancel(const struct options *options);
int cmd_retry(const struct options *options);
int cmd_devices(const struct options *options);
int cmd_explain(const struct options *options);
int cmd_import(const struct options *options);
int cmd_schema(const struct options *options);
int cmd_completion(const struct options *options);

#endif
