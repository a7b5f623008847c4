/* tests/fuzz/fuzz_dataset.c - one byte for the kind of file, then the file: whatever
 * records are read become conversations or texts, or are told with their place. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "train/dataset_reader.h"
#include "train/dataset_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const struct {
    const char *ending;
    bool lines, plain;
} kinds[] = {
    { ".json", false, false },   { ".jsonl", false, false },    { ".txt", false, true },
    { ".txt", true, true },      { ".jsonl.gz", false, false }, { ".jsonl", false, true },
    { ".json.gz", false, true }, { ".json", false, false },
};

static void read_json(const struct dataset_record *record, bool plain)
{
    static const struct dataset_source source;
    struct conversation conversation = { 0 };
    struct error err = { 0 };
    const char *why = NULL;
    json_t *json =
        json_read_loose(record->data, record->len, "fuzz", record->at.line, &err);

    if (json) {
        switch (dataset_record_read(&source, json, plain, &conversation, &why, &err)) {
        case RECORD_BROKEN:
            if (err.code != ERROR_DATA)
                abort();
            break;
        case RECORD_SKIPPED:
            if (!why)
                abort();
            break;
        case RECORD_TEXT:
            if (conversation.count != 1)
                abort();
            break;
        case RECORD_CONVERSATION:
            if (conversation.count < 2)
                abort();
        }
    }
    conversation_free(&conversation);
    json_decref(json);
}

static void read_file(const char *path, bool lines, bool plain)
{
    struct dataset_record record;
    struct error err = { 0 };
    struct dataset_reader *reader = dataset_reader_open(path, lines, &err);

    while (reader && dataset_reader_next(reader, &record, &err)) {
        if (record.is_text ? !text_is_utf8(record.data, record.len, NULL)
                           : !record.at.line)
            abort();
        if (!record.is_text)
            read_json(&record, plain);
    }
    if (err.code != ERROR_NONE && err.code != ERROR_DATA)
        abort();
    dataset_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    size_t kind = len > 0 ? data[0] % (sizeof(kinds) / sizeof(kinds[0])) : 0;
    char name[64];
    struct error err = { 0 };
    int fd;

    snprintf(name, sizeof(name), "/tmp/trainspool-fuzz-XXXXXX%s", kinds[kind].ending);
    fd = mkstemps(name, (int)strlen(kinds[kind].ending));
    if (fd < 0 || (len > 0 && !file_write_all(fd, data + 1, len - 1, &err)))
        abort();
    close(fd);
    read_file(name, kinds[kind].lines, kinds[kind].plain);
    unlink(name);
    return 0;
}
