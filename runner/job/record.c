/* runner/job/record.c - converts a job's record to the text of state.json and back. */
#include "config.h"

#include "runner/job/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "runner/job/record_scan.h"

#define FIELD(field_kind, name)                                                    \
    {                                                                              \
        .key = #name, .kind = field_kind, .at = offsetof(struct job_record, name), \
        .room = sizeof(((struct job_record *)NULL)->name)                          \
    }

/* In the order of the text, after `state`. */
const struct record_field record_fields[] = {
    FIELD(RECORD_TEXT, reason),        FIELD(RECORD_TEXT, device),
    FIELD(RECORD_TEXT, digest),        FIELD(RECORD_TEXT, source),
    FIELD(RECORD_TEXT, queued),        FIELD(RECORD_TEXT, started),
    FIELD(RECORD_TEXT, ended),         FIELD(RECORD_INTEGER, step),
    FIELD(RECORD_INTEGER, total),      FIELD(RECORD_INTEGER, attempt),
    FIELD(RECORD_INTEGER, crashes),    FIELD(RECORD_INTEGER, max_retries),
    FIELD(RECORD_INTEGER, priority),   FIELD(RECORD_REAL, loss),
    FIELD(RECORD_REAL, arrived),       FIELD(RECORD_REAL, seconds_left),
    FIELD(RECORD_BOOLEAN, resume),     FIELD(RECORD_TEXT, contained),
    FIELD(RECORD_TEXT, wanted),        FIELD(RECORD_TEXT, devices),
    FIELD(RECORD_INTEGER, capability), FIELD(RECORD_INTEGER, ranks),
    FIELD(RECORD_INTEGER, threads),    FIELD(RECORD_INTEGER, memory),
    FIELD(RECORD_TEXT, frozen),        FIELD(RECORD_INTEGER, owner),
    FIELD(RECORD_REAL, seconds),       FIELD(RECORD_REAL, timeout),
    FIELD(RECORD_INTEGER, sweep),      FIELD(RECORD_INTEGER, heals),
    FIELD(RECORD_INTEGER, max_heals),  FIELD(RECORD_TEXT, ailment),
    FIELD(RECORD_TEXT, healed),        FIELD(RECORD_TEXT, origin),
    FIELD(RECORD_INTEGER, bad_from),   FIELD(RECORD_INTEGER, memory_max),
    FIELD(RECORD_TEXT, node),
};
const size_t record_field_count = TS_COUNT(record_fields);

void record_set_text(char *out, size_t room, const char *text)
{
    size_t bad;

    snprintf(out, room, "%s", text);
    if (strlen(text) >= room && !text_is_utf8(out, room - 1, &bad) &&
        text_is_utf8(text, strlen(text), NULL))
        out[bad] = 0;
}

void record_init(struct job_record *out)
{
    *out = (struct job_record) {
        .state = JOB_NEW, .loss = NAN, .seconds = NAN, .arrived = NAN, .seconds_left = NAN
    };
}

void record_stamp(const struct job_record *record, struct record_stamp *out)
{
    memset(out, 0, sizeof(*out)); /* the padding and what follows the texts, too */
    out->state = record->state;
    out->attempt = record->attempt;
    out->crashes = record->crashes;
    out->heals = record->heals;
    snprintf(out->source, sizeof(out->source), "%s", record->source);
    snprintf(out->queued, sizeof(out->queued), "%s", record->queued);
    snprintf(out->ended, sizeof(out->ended), "%s", record->ended);
}

bool record_set_state(struct job_record *out, const char *name)
{
    for (int i = JOB_NEW; i < JOB_STATES; i++)
        if (strcmp(job_state_names[i], name) == 0) {
            out->state = (enum job_state)i;
            return true;
        }
    return false;
}

/* A member that is missing or has another type keeps the value of record_init. */
static void read_field(const json_t *value, const struct record_field *field,
                       struct job_record *out)
{
    void *at = (char *)out + field->at;

    if (field->kind == RECORD_TEXT && json_is_string(value))
        record_set_text(at, field->room, json_string_value(value));
    else if (field->kind == RECORD_INTEGER && json_is_integer(value))
        *(int64_t *)at = json_integer_value(value);
    else if (field->kind == RECORD_REAL && json_is_number(value))
        *(double *)at = json_number_value(value);
    else if (field->kind == RECORD_BOOLEAN && json_is_boolean(value))
        *(bool *)at = json_is_true(value);
}

void record_read(const char *data, size_t len, struct job_record *out)
{
    json_t *object;
    const char *state;

    record_init(out);
    if (record_scan(data, len, out))
        return;
    record_init(out);
    object = json_read_text(data, len, "state.json", 1, NULL);
    state = json_string_value(json_object_get(object, "state"));
    if (state && record_set_state(out, state))
        for (size_t i = 0; i < record_field_count; i++)
            read_field(json_object_get(object, record_fields[i].key), &record_fields[i],
                       out);
    json_decref(object);
}

static void set_member(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static void write_field(const struct job_record *record, const struct record_field *field,
                        json_t *object)
{
    const void *at = (const char *)record + field->at;
    const char *text = at;

    if (field->kind == RECORD_TEXT)
        set_member(object, field->key,
                   text[0] ? json_visible(text, strlen(text)) : json_null());
    else if (field->kind == RECORD_INTEGER)
        set_member(object, field->key, json_integer(*(const int64_t *)at));
    else if (field->kind == RECORD_REAL && !isnan(*(const double *)at))
        set_member(object, field->key, json_number(*(const double *)at));
    else if (field->kind == RECORD_BOOLEAN)
        set_member(object, field->key, json_boolean(*(const bool *)at));
}

bool record_write(const struct job_record *record, struct text *out)
{
    json_t *object = json_object();
    bool ok;

    set_member(object, "state", json_string(job_state_names[record->state]));
    for (size_t i = 0; i < record_field_count; i++)
        write_field(record, &record_fields[i], object);
    ok = json_write(object, out);
    json_decref(object);
    return ok;
}
