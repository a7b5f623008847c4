/* train/dataset/dataset_record_media.c - images and sounds of a record: in columns, for the
 * placeholders of its texts, or as parts of its messages. */
#include "config.h"

#include "train/dataset/dataset_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/size.h"
#include "train/dataset/dataset_record_internal.h"

/* A record of this many is a mistake, such as a column of characters. */
#define MEDIA_MAX 4096

/* Usual names of columns; some data sets have one file per record. */
static const char *const known_columns[MEDIA_KINDS][2] = {
    [MEDIA_IMAGE] = { "images", "image" },
    [MEDIA_AUDIO] = { "audios", "audio" },
};
static const char *const video_columns[] = { "videos", "video" };

/* Types of parts: those of OpenAI and transformers, and of LLaMA-Factory's v1 form. */
static const struct {
    const char *type;
    enum media_kind kind;
} part_types[] = {
    { "image", MEDIA_IMAGE },       { "image_url", MEDIA_IMAGE },
    { "audio", MEDIA_AUDIO },       { "audio_url", MEDIA_AUDIO },
    { "input_audio", MEDIA_AUDIO },
};

/* Keys of a part that have the medium, besides its type. */
static const char *const part_keys[] = { "path", "url", "value" };

static struct record_medium *add_medium(const struct reading *reading,
                                        enum media_kind kind)
{
    struct conversation *out = reading->out;

    if (out->media_count == MEDIA_MAX) {
        error_set(reading->err, ERROR_DATA, "the record has more than %d media",
                  MEDIA_MAX);
        return NULL;
    }
    if (out->media_count == out->media_room) {
        out->media_room = out->media_room ? 2 * out->media_room : 8;
        out->media = memory_resize(out->media, out->media_room, sizeof(*out->media));
    }
    out->media[out->media_count] = (struct record_medium) { .kind = kind };
    return &out->media[out->media_count++];
}

static bool fail_value(const struct reading *reading, const char *key,
                       const json_t *value)
{
    record_broken(
        reading, key,
        "the path of a file, {\"bytes\": ..., \"path\": ...}, or a list of these", value);
    return false;
}

/* Take bytes that are written as base64. */
static bool take_base64(const struct reading *reading, const char *key, const char *data,
                        size_t len, struct record_medium *medium)
{
    struct text bytes;
    struct message own;

    text_init(&bytes, 0);
    if (!base64_decode(data, len, &bytes)) {
        text_clear(&bytes);
        return error_set(reading->err, ERROR_DATA, "the bytes in \"%s\" are not base64",
                         key);
    }
    own = conversation_own(reading->out, &bytes);
    medium->data = own.text;
    medium->len = own.len;
    return true;
}

/* Take the bytes of a table's row, or a text whose bytes they are. */
static bool take_bytes(const struct reading *reading, const char *key,
                       const json_t *bytes, struct record_medium *medium)
{
    const json_t *base64 = json_object_get(bytes, "base64");

    if (json_is_string(bytes)) {
        medium->data = json_string_value(bytes);
        medium->len = json_string_length(bytes);
        return true;
    }
    if (json_is_string(base64))
        return take_base64(reading, key, json_string_value(base64),
                           json_string_length(base64), medium);
    if (json_object_get(bytes, "binary_bytes"))
        return error_set(
            reading->err, ERROR_DATA,
            "the bytes in \"%s\" are too many for a row; save them as files, "
            "and write their paths",
            key);
    return fail_value(reading, key, bytes);
}

/* An address may have the contents: "data:image/png;base64,...". */
static bool take_path(const struct reading *reading, const char *key, const json_t *path,
                      struct record_medium *medium)
{
    static const char mark[] = ";base64,";
    const char *text = json_string_value(path);
    size_t len = json_string_length(path);
    const char *data = text_starts(text, "data:") ? strstr(text, mark) : NULL;

    if (strlen(text) != len)
        return error_set(reading->err, ERROR_DATA, "a path in \"%s\" has a byte of zero",
                         key);
    if (data) {
        data += strlen(mark);
        return take_base64(reading, key, data, len - (size_t)(data - text), medium);
    }
    medium->path = text;
    return true;
}

/* A path, or an object of Hugging Face datasets: {"bytes", "path"}, one of them null. */
static bool take_value(const struct reading *reading, const char *key,
                       const json_t *value, struct record_medium *medium)
{
    const json_t *bytes = json_object_get(value, "bytes"),
                 *path = json_is_object(value) ? json_object_get(value, "path") : value;

    if (!medium)
        return false;
    if (json_is_string(path) && json_string_length(path) > 0 &&
        !take_path(reading, key, path, medium))
        return false;
    if (!record_is_absent(bytes) && !take_bytes(reading, key, bytes, medium))
        return false;
    return medium->path || medium->data || fail_value(reading, key, value);
}

static bool add_column(const struct reading *reading, const char *column,
                       enum media_kind kind)
{
    const json_t *value = record_get(reading, column);

    if (record_is_empty(value))
        return true;
    if (!json_is_array(value))
        return take_value(reading, column, value, add_medium(reading, kind));
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!take_value(reading, column, json_array_get(value, i),
                        add_medium(reading, kind)))
            return false;
    return true;
}

/* Remove the media of columns. */
static void remove_columns(struct conversation *out)
{
    size_t kept = 0;

    for (size_t i = 0; i < out->media_count; i++)
        if (out->media[i].text)
            out->media[kept++] = out->media[i];
    out->media_count = kept;
}

static bool refuse_videos(const struct reading *reading)
{
    for (size_t i = 0; i < TS_COUNT(video_columns); i++)
        if (!record_is_empty(record_get(reading, video_columns[i])))
            return error_set(reading->err, ERROR_DATA,
                             "the record has \"%s\", and videos are not supported; give "
                             "frames as images, or remove the key, and its placeholders "
                             "in the text, to train on the text alone",
                             video_columns[i]);
    return true;
}

void record_detect_media(const struct reading *reading, struct dataset_columns *columns)
{
    const char **const into[MEDIA_KINDS] = {
        [MEDIA_IMAGE] = &columns->images, [MEDIA_AUDIO] = &columns->audios
    };

    for (size_t kind = 0; kind < MEDIA_KINDS; kind++)
        for (size_t i = 0; i < TS_COUNT(known_columns[kind]); i++)
            if (!*into[kind] &&
                !record_is_empty(record_get(reading, known_columns[kind][i])))
                *into[kind] = known_columns[kind][i];
}

bool record_media(const struct reading *reading)
{
    remove_columns(reading->out);
    return refuse_videos(reading) &&
           add_column(reading, reading->columns->images, MEDIA_IMAGE) &&
           add_column(reading, reading->columns->audios, MEDIA_AUDIO);
}

/* The medium of a part: a value next to its type, or in an object there, as {"image_url":
 * {"url": ...}}; NULL: it is that of a column. */
static const json_t *part_value(const json_t *part, const char *type, const char *kind)
{
    const json_t *value = json_object_get(part, type);

    if (record_is_absent(value))
        value = json_object_get(part, kind);
    if (json_object_get(part, "bytes"))
        return part;
    for (size_t i = 0; i < TS_COUNT(part_keys) && record_is_absent(value); i++)
        value = json_object_get(part, part_keys[i]);
    for (size_t i = 0; i < TS_COUNT(part_keys); i++)
        if (json_is_object(value) && json_object_get(value, part_keys[i]) &&
            !json_object_get(value, "bytes"))
            value = json_object_get(value, part_keys[i]);
    return record_is_absent(value) ? NULL : value;
}

/* Return whether a part is a medium. */
static bool is_medium(const json_t *part, enum media_kind *kind)
{
    const char *type = json_string_value(json_object_get(part, "type"));

    for (size_t i = 0; type && i < TS_COUNT(part_types); i++)
        if (strcmp(part_types[i].type, type) == 0) {
            *kind = part_types[i].kind;
            return true;
        }
    return false;
}

int record_part(const struct reading *reading, const json_t *part, struct text *text)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    struct record_medium *medium;
    enum media_kind kind;
    const json_t *value;

    if (!is_medium(part, &kind))
        return 0;
    value = part_value(part, type, media_kind_name(kind));
    if (value) {
        const json_t *data = json_object_get(value, "data"); /* of input_audio */

        medium = add_medium(reading, kind);
        if (!(medium && json_is_string(data)
                  ? take_base64(reading, type, json_string_value(data),
                                json_string_length(data), medium)
                  : take_value(reading, type, value, medium)))
            return -1;
        medium->at = text->len;
        medium->text = ""; /* until record_parts_end */
    }
    text_adds(text, media_placeholder(kind));
    return 1;
}

json_t *record_parts_own(const json_t *parts)
{
    json_t *own = json_array();
    enum media_kind kind;
    bool has_media = false;

    for (size_t i = 0; i < json_array_size(parts); i++) {
        json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");

        if (is_medium(part, &kind)) {
            json_array_append_new(own, json_pack("{s s}", "type", media_kind_name(kind)));
            has_media = true;
        } else {
            json_array_append_new(
                own, json_pack("{s s, s O}", "type", "text", "text",
                               text ? text : json_object_get(part, "value")));
        }
    }
    if (has_media)
        return own;
    json_decref(own);
    return NULL;
}

void record_parts_end(const struct reading *reading, size_t first, const char *text)
{
    for (size_t i = first; i < reading->out->media_count; i++)
        reading->out->media[i].text = text;
}
