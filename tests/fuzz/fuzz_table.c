/* tests/fuzz/fuzz_table.c - tables: each format reads any bytes as rows that are JSON, or
 * refuses them.  The first byte selects the format. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include "base/json.h"
#include "base/size.h"
#include "train/tables/table.h"

enum { ROWS_MAX = 2000 };

static const char *const names[] = { "x.parquet", "x.arrow", "x.csv", "x.tsv" };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct error err = { 0 };
    struct table *table;
    struct text row;
    uint32_t position;

    if (len == 0)
        return 0;
    table = table_open_memory(names[data[0] % TS_COUNT(names)], data + 1, len - 1, &err);
    text_init(&row, 0);
    for (int i = 0; table && i < ROWS_MAX && table_next(table, &row, &position, &err);
         i++) {
        json_t *value = json_loadb(row.data, row.len, JSON_ALLOW_NUL, NULL);

        FUZZ_HOLDS(json_is_object(value) && position > 0);
        json_decref(value);
    }
    FUZZ_HOLDS(err.code == ERROR_NONE || (err.code == ERROR_DATA && err.text[0]));
    FUZZ_HOLDS(table || err.code == ERROR_DATA);
    table_close(table);
    text_clear(&row);
    return 0;
}
