/* tests/fuzz/fuzz_journal.c - journals: only complete lines with an action are read. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#include "patcher/history/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    json_t *lines = journal_parse((const char *)data, len);
    size_t i;
    json_t *line;

    if (!json_is_array(lines))
        abort();
    json_array_foreach(
        lines, i, line) if (!json_is_string(json_object_get(line, "action"))) abort();
    json_decref(lines);
    return 0;
}
