/* runner/spool/trouble.c - logs the beginning, the changes and the end of a fault. */
#include "config.h"

#include "runner/spool/trouble.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "runner/spool/drop.h"

void trouble_note(struct trouble *trouble, struct log *log, const char *why)
{
    if (trouble->text && (!why[0] || strcmp(trouble->text, why) == 0))
        return;
    if (!trouble->text)
        trouble->since = clock_seconds();
    free(trouble->text);
    trouble->text =
        memory_strdup(why[0] ? why : "a fault of the machine ended trainspool-train");
    log_line(log, LOG_ERROR, "watch: no job starts: %s; trying again every %d s",
             trouble->text, DROP_RETRY_SECONDS);
}

void trouble_end(struct trouble *trouble, struct log *log)
{
    if (trouble->text)
        log_line(log, LOG_INFO, "watch: jobs start again");
    trouble_clear(trouble);
}

void trouble_clear(struct trouble *trouble)
{
    free(trouble->text);
    trouble->text = NULL;
}
