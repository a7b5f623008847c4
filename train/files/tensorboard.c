/*
 * train/files/tensorboard.c - event files in the format of TensorFlow records: length,
 * its CRC, message, its CRC. Messages are those of event.proto and summary.proto of
 * TensorBoard, encoded here by hand because few fields are used.
 */
#include "config.h"

#include "train/files/tensorboard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/walk.h"

#define NAME_START "events.out.tfevents."
#define NAME_END   ".trainspool"

struct tensorboard {
    char *name;
    int fd;
    off_t end;     /* of the last complete record */
    int64_t first; /* first step of this file */
    bool torn;     /* a partial record after `end` could not be removed */
};

/* ---- Protocol buffers: a key of field and wire type, then the value ---- */

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* Fields of the written messages. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7,
    SESSION_STATUS = 1,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    METADATA_PLUGIN = 1,
    PLUGIN_NAME = 1,
    TENSOR_TYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_STRING = 8,
    SHAPE_DIM = 2,
    DIM_SIZE = 1,
};
enum { SESSION_START = 1, TYPE_STRING = 7 };

static void add_varint(struct text *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        text_addc(out, (char)(value | 0x80));
    text_addc(out, (char)value);
}

static void add_little_endian(struct text *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        text_addc(out, (char)(value >> 8 * i));
}

static void add_key(struct text *out, int field, enum wire wire)
{
    add_varint(out, (uint64_t)field << 3 | wire);
}

static void add_int(struct text *out, int field, int64_t value)
{
    add_key(out, field, WIRE_VARINT);
    add_varint(out, (uint64_t)value);
}

static void add_double(struct text *out, int field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    add_key(out, field, WIRE_64);
    add_little_endian(out, bits, 8);
}

static void add_float(struct text *out, int field, double value)
{
    float narrow = (float)value;
    uint32_t bits;

    memcpy(&bits, &narrow, sizeof(bits));
    add_key(out, field, WIRE_32);
    add_little_endian(out, bits, 4);
}

static void add_bytes(struct text *out, int field, const char *data, size_t len)
{
    add_key(out, field, WIRE_BYTES);
    add_varint(out, len);
    text_add(out, data, len);
}

static void add_string(struct text *out, int field, const char *string)
{
    add_bytes(out, field, string, strlen(string));
}

/* Add a message as a field of another message, and clear it for reuse. */
static void add_message(struct text *out, int field, struct text *message)
{
    add_bytes(out, field, message->data, message->len);
    text_reset(message);
}

/* ---- Records ---- */

static void add_record(struct text *out, const struct text *event)
{
    size_t start = out->len;

    add_little_endian(out, event->len, 8);
    add_little_endian(out, crc32c_masked(out->data + start, 8), 4);
    text_add(out, event->data, event->len);
    add_little_endian(out, crc32c_masked(event->data, event->len), 4);
}

/* Add one event whose only content is `field` with `body`; clear the body. */
static void add_event(struct text *out, int64_t step, int field, struct text *body)
{
    struct text event;

    text_init(&event, 0);
    add_double(&event, EVENT_WALL_TIME, clock_wall());
    add_int(&event, EVENT_STEP, step);
    add_message(&event, field, body);
    add_record(out, &event);
    text_clear(&event);
}

/* Write complete records or nothing: a reader stops at a broken one. */
static bool write_records(struct tensorboard *board, const struct text *records,
                          struct error *err)
{
    size_t done = 0;

    if (board->torn)
        return error_set(err, ERROR_SYSTEM, "%s ends in a broken record", board->name);
    while (done < records->len) {
        ssize_t n = pwrite(board->fd, records->data + done, records->len - done,
                           board->end + (off_t)done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            error_errno(err, "cannot write %s", board->name);
            board->torn = ftruncate(board->fd, board->end) != 0;
            return false;
        }
        done += (size_t)n;
    }
    board->end += (off_t)done;
    return true;
}

/* ---- The file ---- */

/* Return the time in the name of an event file; 0 for other files. */
static long long name_time(const char *name)
{
    return text_starts(name, NAME_START) ? atoll(name + strlen(NAME_START)) : 0;
}

/* TensorBoard reads the files of a folder in the order of their names. */
static long long latest_time(const char *dir)
{
    long long latest = 0;
    struct dirent *entry;
    DIR *stream = opendir(dir);

    while (stream && (entry = readdir(stream)))
        if (name_time(entry->d_name) > latest)
            latest = name_time(entry->d_name);
    if (stream)
        closedir(stream);
    return latest;
}

static bool create(struct tensorboard *board, const char *dir, struct error *err)
{
    long long now = (long long)clock_wall(), latest = latest_time(dir);
    char base[64];

    snprintf(base, sizeof(base), NAME_START "%010lld" NAME_END,
             latest >= now ? latest + 1 : now);
    board->name = path_join(dir, base);
    board->fd = walk_open(board->name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    return board->fd >= 0 || error_errno(err, "cannot create %s", board->name);
}

/* Start a file as the SummaryWriter of torch does with purge_step. */
static bool write_start(struct tensorboard *board, struct error *err)
{
    struct text records, body;
    bool ok;

    text_init(&records, 0);
    text_init(&body, 0);
    text_adds(&body, "brain.Event:2");
    add_event(&records, board->first, EVENT_FILE_VERSION, &body);
    add_int(&body, SESSION_STATUS, SESSION_START);
    add_event(&records, board->first, EVENT_SESSION_LOG, &body);
    ok = write_records(board, &records, err);
    text_clear(&records);
    text_clear(&body);
    return ok;
}

struct tensorboard *tensorboard_open(const char *dir, int64_t first, struct error *err)
{
    struct tensorboard *board = memory_alloc(sizeof(*board));

    board->first = first;
    if (create(board, dir, err) && write_start(board, err))
        return board;
    if (board->fd >= 0) /* without its first events it is not a valid event file */
        walk_unlink(board->name);
    tensorboard_close(board);
    return NULL;
}

void tensorboard_close(struct tensorboard *board)
{
    if (!board)
        return;
    if (board->fd >= 0)
        close(board->fd);
    free(board->name);
    free(board);
}

/* ---- Metrics and texts ---- */

/* Return whether a key becomes a curve.  The step is the x axis; the epoch of an
 * evaluation would duplicate that of the step before it. */
static bool is_curve(const json_t *object, const char *key)
{
    return strcmp(key, "step") != 0 &&
           (strcmp(key, "epoch") != 0 || !json_object_get(object, "eval_loss"));
}

/* Name a curve like rewrite_logs of transformers: eval_loss to eval/loss, loss to
 * train/loss. */
static void add_tag(struct text *value, const char *key)
{
    bool evaluation = text_starts(key, "eval_");
    struct text tag;

    text_init(&tag, 0);
    text_addf(&tag, "%s/%s", evaluation ? "eval" : "train",
              evaluation ? key + strlen("eval_") : key);
    add_string(value, VALUE_TAG, tag.data);
    text_clear(&tag);
}

/* Read a number, or one of the words of json_number. */
static bool is_number(const json_t *value, double *out)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {
        { "NaN", NAN },
        { "Infinity", INFINITY },
        { "-Infinity", -INFINITY },
    };
    const char *word = json_string_value(value);

    *out = json_number_value(value);
    for (size_t i = 0; word && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(word, words[i].word) == 0) {
            *out = words[i].value;
            return true;
        }
    return json_is_number(value);
}

bool tensorboard_metrics(struct tensorboard *board, const json_t *object,
                         struct error *err)
{
    int64_t step = json_integer_value(json_object_get(object, "step"));
    struct text records, summary, value;
    const char *key;
    double number;
    json_t *member;
    bool ok;

    text_init(&records, 0);
    text_init(&summary, 0);
    text_init(&value, 0);
    json_object_foreach((json_t *)object, key, member)
    {
        if (!is_curve(object, key) || !is_number(member, &number))
            continue;
        add_tag(&value, key);
        add_float(&value, VALUE_SIMPLE, number);
        add_message(&summary, SUMMARY_VALUE, &value);
    }
    add_event(&records, step, EVENT_SUMMARY, &summary);
    ok = write_records(board, &records, err);
    text_clear(&records);
    text_clear(&summary);
    text_clear(&value);
    return ok;
}

/* Add a tensor of one string. */
static void add_tensor(struct text *value, const char *text)
{
    struct text tensor, shape, dim;

    text_init(&tensor, 0);
    text_init(&shape, 0);
    text_init(&dim, 0);
    add_int(&dim, DIM_SIZE, 1);
    add_message(&shape, SHAPE_DIM, &dim);
    add_int(&tensor, TENSOR_TYPE, TYPE_STRING);
    add_message(&tensor, TENSOR_SHAPE, &shape);
    add_string(&tensor, TENSOR_STRING, text);
    add_message(value, VALUE_TENSOR, &tensor);
    text_clear(&tensor);
    text_clear(&shape);
    text_clear(&dim);
}

static void add_plugin(struct text *value, const char *name)
{
    struct text metadata, plugin;

    text_init(&metadata, 0);
    text_init(&plugin, 0);
    add_string(&plugin, PLUGIN_NAME, name);
    add_message(&metadata, METADATA_PLUGIN, &plugin);
    add_message(value, VALUE_METADATA, &metadata);
    text_clear(&metadata);
    text_clear(&plugin);
}

bool tensorboard_text(struct tensorboard *board, const char *tag, const char *text,
                      struct error *err)
{
    struct text records, summary, value;
    bool ok;

    text_init(&records, 0);
    text_init(&summary, 0);
    text_init(&value, 0);
    add_string(&value, VALUE_TAG, tag);
    add_tensor(&value, text);
    add_plugin(&value, "text");
    add_message(&summary, SUMMARY_VALUE, &value);
    add_event(&records, board->first, EVENT_SUMMARY, &summary);
    ok = write_records(board, &records, err);
    text_clear(&records);
    text_clear(&summary);
    text_clear(&value);
    return ok;
}
