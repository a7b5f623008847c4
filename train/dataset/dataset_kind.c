/* train/dataset/dataset_kind.c - formats by the ending of a name, and who reads others. */
#include "config.h"

#include "train/dataset/dataset_kind.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "train/tables/table.h"

static const struct {
    const char *ending;
    enum dataset_kind kind;
} kinds[] = {
    { ".json", DATASET_JSON },
    { ".jsonl", DATASET_JSONL },
    { ".txt", DATASET_TXT },
};

enum dataset_kind dataset_kind_find(const char *path)
{
    size_t len = strlen(path);

    if (table_supports(path))
        return DATASET_TABLE;
    if (text_ends(path, ".gz"))
        len -= 3;
    for (size_t i = 0; i < TS_COUNT(kinds); i++) {
        size_t ending = strlen(kinds[i].ending);

        if (len >= ending && memcmp(path + len - ending, kinds[i].ending, ending) == 0)
            return kinds[i].kind;
    }
    return DATASET_UNKNOWN;
}

bool dataset_kind_is_supported(const char *path)
{
    return dataset_kind_find(path) != DATASET_UNKNOWN;
}

/* Data of other formats, and the pandas functions that read them. */
static const struct {
    const char *ending, *reader;
} foreign[] = {
    { ".xlsx", "read_excel" }, { ".xls", "read_excel" }, { ".ods", "read_excel" },
    { ".orc", "read_orc" },    { ".xml", "read_xml" },
};

static const char *foreign_reader(const char *path)
{
    for (size_t i = 0; i < TS_COUNT(foreign); i++)
        if (text_ends(path, foreign[i].ending))
            return foreign[i].reader;
    return NULL;
}

bool dataset_kind_is_foreign(const char *path)
{
    return foreign_reader(path) != NULL;
}

bool dataset_kind_refuse(const char *path, struct error *err)
{
    const char *reader = foreign_reader(path);

    if (!reader)
        return error_set(err, ERROR_DATA,
                         "the data file %s has an unsupported format; supported are %s",
                         path, DATASET_FORMATS);
    return error_set(err, ERROR_DATA,
                     "the data file %s has an unsupported format (supported are %s); "
                     "convert it with: python3 -c 'import pandas as p; "
                     "p.%s(\"%s\").to_json(\"data.jsonl\", orient=\"records\", "
                     "lines=True)'",
                     path, DATASET_FORMATS, reader, path);
}
