/* tests/fuzz/fuzz_dataset.c - data files: every record becomes a conversation, a pair of
 * answers or a text, or is reported with its position, and a model's own template renders
 * a conversation or reports an error.  Input: one byte for the kind of file, then the
 * file. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "train/chat/chat.h"
#include "train/dataset/dataset_reader.h"
#include "train/dataset/dataset_record.h"

static const struct {
    const char *ending;
    bool lines, plain;
} kinds[] = {
    { ".json", false, false },   { ".jsonl", false, false },    { ".txt", false, true },
    { ".txt", true, true },      { ".jsonl.gz", false, false }, { ".jsonl", false, true },
    { ".json.gz", false, true }, { ".json", false, false },
};

static void check(enum record_kind kind, size_t messages, const char *why,
                  const struct error *err)
{
    switch (kind) {
    case RECORD_BROKEN:
        if (err->code != ERROR_DATA)
            abort();
        break;
    case RECORD_SKIPPED:
        if (!why)
            abort();
        break;
    case RECORD_TEXT:
        if (messages != 1)
            abort();
        break;
    case RECORD_CONVERSATION:
        if (messages < 2)
            abort();
    }
}

/* A template that reads the keys of messages that others read, too. */
static const struct chat *own_chat(void)
{
    static const char template[] =
        "{% for m in messages %}{{ m.role }}{{ m.reasoning_content }}{{ m.thinking }}"
        "{% for p in m.content %}{{ p.text }}{% endfor %}{{ m.content }}"
        "{% for c in m.tool_calls %}{{ c.id }}{{ c.function.arguments | tojson }}"
        "{% endfor %}{% endfor %}{{ tools | tojson }}";
    static struct chat *chat;

    if (!chat) {
        fuzz_file("chat_template.jinja", template, sizeof(template) - 1);
        if (!chat_open(fuzz_dir(), &chat, NULL) || !chat)
            abort();
    }
    return chat;
}

static void render(const struct conversation *conversation)
{
    const struct template_options options = { .variables = conversation->variables };
    const struct template_request request = { .chat = chat_as_template(own_chat()),
                                              .options = &options,
                                              .messages = conversation->messages,
                                              .count = conversation->count };
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    if (!chat_render(&request, false, &text, &err) && err.code != ERROR_DATA)
        abort();
    if (!text_is_utf8(text.data, text.len, NULL))
        abort();
    text_clear(&text);
}

static void read_pair(const json_t *json)
{
    static const struct dataset_source source;
    struct conversation conversation = { 0 };
    struct message rejected = { 0 };
    struct error err = { 0 };
    const char *why = NULL;
    enum record_kind kind =
        dataset_record_read_pair(&source, json, &conversation, &rejected, &why, &err);

    check(kind, conversation.count, why, &err);
    if (kind == RECORD_TEXT ||
        (kind == RECORD_CONVERSATION && (rejected.len == 0 || !rejected.text)))
        abort();
    conversation_free(&conversation);
}

static void read_json(const struct dataset_record *record, bool plain)
{
    static const struct dataset_source source;
    struct conversation conversation = { 0 };
    struct error err = { 0 };
    const char *why = NULL;
    json_t *json =
        json_read_loose(record->data, record->len, "fuzz", record->at.line, &err);

    if (json) {
        enum record_kind kind =
            dataset_record_read(&source, json, plain, &conversation, &why, &err);

        check(kind, conversation.count, why, &err);
        if (kind == RECORD_CONVERSATION)
            render(&conversation);
        read_pair(json);
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

    snprintf(name, sizeof(name), "data%s", kinds[kind].ending);
    read_file(fuzz_file(name, data + (len > 0), len - (len > 0)), kinds[kind].lines,
              kinds[kind].plain);
    return 0;
}
