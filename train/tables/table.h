/*
 * train/tables/table.h - rows of table files as JSON objects: CSV and TSV, Parquet, and
 * Arrow's IPC streams and files (Feather).
 *
 * The subset is what pandas, polars, DuckDB and Hugging Face's `datasets` write by
 * default.  Anything else is refused with the name of the feature.
 */
#ifndef TRAIN_TABLES_TABLE_H
#define TRAIN_TABLES_TABLE_H

#include "base/text.h"

struct table;

/* Return whether the name has the extension of a table: .csv and .tsv, each also .gz,
 * .parquet, .arrow, .feather, .ipc. */
bool table_supports(const char *path);

/* Open a table.  ERROR_DATA if the file cannot be opened, is damaged, or has an
 * unsupported feature. */
struct table *table_open(const char *path, struct error *err);
/* The same for the bytes of a file, which stay valid until table_close; `name` gives the
 * format and is used in messages. */
struct table *table_open_memory(const char *name, const void *data, size_t len,
                                struct error *err);
void table_close(struct table *table); /* NULL is allowed */

/*
 * Replace *row by the next row, an object with a member per column in the order of the
 * file.  A missing value is null, a decimal fraction a string, a date or time the integer
 * that the file stores; bytes that are not UTF-8 are {"binary_bytes": N, "base64": "..."},
 * the latter unless they would make the row too long.
 * *position is the line of a CSV file, else the number of the row, from 1.  Return false
 * at the end, and on an error; *err is then set.
 */
bool table_next(struct table *table, struct text *row, uint32_t *position,
                struct error *err);

#endif
