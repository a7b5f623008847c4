/* runner/job/record.c - converts a job's record to the text of state.json and back. */
#include "config.h"

#include "runner/job/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"

/* Text fields of state.json and where they are stored. */
#define TEXT_FIELD(name)                                                                 \
    {                                                                                    \
#name, offsetof(struct job_record, name), sizeof(((struct job_record *)0)->name) \
    }
static const struct {
    const char *key;
    size_t at, room;
} text_fields[] = {
    TEXT_FIELD(reason), TEXT_FIELD(device),  TEXT_FIELD(digest), TEXT_FIELD(source),
    TEXT_FIELD(queued), TEXT_FIELD(started), TEXT_FIELD(ended),
};

#define NUMBER_FIELD(name)                       \
    {                                            \
#name, offsetof(struct job_record, name) \
    }
static const struct {
    const char *key;
    size_t at;
} number_fields[] = {
    NUMBER_FIELD(step),    NUMBER_FIELD(total),       NUMBER_FIELD(attempt),
    NUMBER_FIELD(crashes), NUMBER_FIELD(max_retries), NUMBER_FIELD(priority),
};

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
        .state = JOB_NEW, .loss = NAN, .arrived = NAN, .seconds_left = NAN
    };
}

static double real(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool read_object(const json_t *object, struct job_record *out)
{
    const char *state = json_string_value(json_object_get(object, "state"));
    bool found = false;

    for (int i = JOB_NEW; state && i < JOB_STATES; i++)
        if (strcmp(job_state_names[i], state) == 0) {
            out->state = (enum job_state)i;
            found = true;
        }
    for (size_t i = 0; i < TS_COUNT(text_fields); i++) {
        const char *value =
            json_string_value(json_object_get(object, text_fields[i].key));

        record_set_text((char *)out + text_fields[i].at, text_fields[i].room,
                        value ? value : "");
    }
    for (size_t i = 0; i < TS_COUNT(number_fields); i++)
        *(int64_t *)((char *)out + number_fields[i].at) =
            json_integer_value(json_object_get(object, number_fields[i].key));
    out->loss = real(object, "loss");
    out->arrived = real(object, "arrived");
    out->seconds_left = real(object, "seconds_left");
    out->resume = json_is_true(json_object_get(object, "resume"));
    return found;
}

void record_read(const char *data, size_t len, struct job_record *out)
{
    json_t *object = json_read_text(data, len, "state.json", 1, NULL);

    if (!read_object(object, out))
        record_init(out);
    json_decref(object);
}

static json_t *record_object(const struct job_record *record)
{
    json_t *object = json_object();

    json_object_set_new(object, "state", json_string(job_state_names[record->state]));
    for (size_t i = 0; i < TS_COUNT(text_fields); i++) {
        const char *value = (const char *)record + text_fields[i].at;

        json_object_set_new(object, text_fields[i].key,
                            value[0] ? json_visible(value, strlen(value)) : json_null());
    }
    for (size_t i = 0; i < TS_COUNT(number_fields); i++)
        json_object_set_new(
            object, number_fields[i].key,
            json_integer(*(const int64_t *)((const char *)record + number_fields[i].at)));
    if (!isnan(record->loss))
        json_object_set_new(object, "loss", json_number(record->loss));
    if (!isnan(record->arrived))
        json_object_set_new(object, "arrived", json_number(record->arrived));
    if (!isnan(record->seconds_left))
        json_object_set_new(object, "seconds_left", json_number(record->seconds_left));
    json_object_set_new(object, "resume", json_boolean(record->resume));
    return object;
}

bool record_write(const struct job_record *record, struct text *out)
{
    json_t *object = record_object(record);
    bool ok = json_write(object, out);

    json_decref(object);
    return ok;
}
