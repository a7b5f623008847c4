/* runner/page/page_data.c - reads a run's folder, which may be incomplete. */
#include "config.h"

#include "runner/page/page_data.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"

enum { SAMPLES = 20 };
static const size_t metrics_max = (size_t)512 << 20, log_max = 4 << 20,
                    json_max = 16 << 20;

/* ---- Lines of JSON ---- */

/* Open a regular file of at most `max` bytes; NULL if there is none. */
static FILE *open_lines(const char *dir, const char *base, size_t max)
{
    char *name = path_join(dir, base);
    int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    bool good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                (size_t)st.st_size <= max;
    FILE *file = good ? fdopen(fd, "r") : NULL;

    if (fd >= 0 && !file)
        close(fd);
    free(name);
    return file;
}

/* Call a function for each complete line of a file that is an object; a missing file has
 * none. Read line by line: a run that writes its page should not hold its metrics in
 * memory. */
static void each_object(const char *dir, const char *base, size_t max,
                        void (*take)(void *context, json_t *object), void *context)
{
    FILE *file = open_lines(dir, base, max);
    char *line = NULL;
    size_t room = 0;
    ssize_t len;

    while (file && (len = getline(&line, &room, file)) > 0) {
        json_t *object = line[len - 1] == '\n'
                             ? json_read_text(line, (size_t)len - 1, base, 1, NULL)
                             : NULL; /* it is being written, or its writer died */

        if (json_is_object(object))
            take(context, object);
        json_decref(object);
    }
    free(line);
    if (file)
        fclose(file);
}

/* ---- metrics.jsonl ---- */

static struct page_series *series_of(struct page_data *data, const char *name)
{
    struct page_series *series;

    for (size_t i = 0; i < data->series_count; i++)
        if (strcmp(data->series[i].name, name) == 0)
            return &data->series[i];
    if (data->series_count == PAGE_SERIES || strlen(name) >= sizeof(series->name))
        return NULL;
    series = &data->series[data->series_count++];
    snprintf(series->name, sizeof(series->name), "%s", name);
    return series;
}

static void series_add(struct page_series *series, double x, double y)
{
    if (series->count == series->room) {
        series->room = series->room ? 2 * series->room : 64;
        series->x = memory_resize(series->x, series->room, sizeof(*series->x));
        series->y = memory_resize(series->y, series->room, sizeof(*series->y));
    }
    series->x[series->count] = x;
    series->y[series->count++] = y;
}

static bool is_number(const json_t *value, double *out)
{
    const char *word = json_string_value(value);

    *out = json_number_value(value);
    if (!word)
        return json_is_number(value);
    *out = strcmp(word, "Infinity") == 0    ? INFINITY
           : strcmp(word, "-Infinity") == 0 ? -INFINITY
                                            : NAN;
    return isinf(*out) || strcmp(word, "NaN") == 0;
}

/* Steps must increase: ignore a line whose step is not after the last one of its
 * series. */
static void take_metrics(void *context, json_t *object)
{
    struct page_data *data = context;
    double step, value;
    const char *key;
    json_t *member;

    if (!is_number(json_object_get(object, "step"), &step) || !isfinite(step) ||
        step < 0 || step > 1e15)
        return;
    data->last_step = fmax(data->last_step, step);
    json_object_foreach(object, key, member)
    {
        struct page_series *series;

        if (strcmp(key, "step") == 0 || !is_number(member, &value))
            continue;
        series = series_of(data, key);
        if (series && (series->count == 0 || step > series->x[series->count - 1]))
            series_add(series, step, value);
    }
}

const struct page_series *page_data_find(const struct page_data *data, const char *name)
{
    for (size_t i = 0; i < data->series_count; i++)
        if (strcmp(data->series[i].name, name) == 0)
            return &data->series[i];
    return NULL;
}

double page_data_last(const struct page_data *data, const char *name)
{
    const struct page_series *series = page_data_find(data, name);

    return series ? series->y[series->count - 1] : NAN;
}

/* ---- train.log ---- */

/* Return whether a line is shown: what an operator follows, plus warnings and errors. */
static const char *const shown_prefixes[] = { "job ",      "resume: ", "best model: ",
                                              "preflight", "autopsy",  "done: " };

static bool is_shown(const struct page_event *event)
{
    bool steps = text_starts(event->said, "step ") && strstr(event->said, ": skipped");

    if (strcmp(event->level, "warn") == 0 || strcmp(event->level, "error") == 0)
        return !steps; /* the curves show these */
    for (size_t i = 0; i < TS_COUNT(shown_prefixes); i++)
        if (text_starts(event->said, shown_prefixes[i]))
            return true;
    return false;
}

static void note_resume(struct page_data *data, const char *said)
{
    const char *step = strstr(said, ", step ");

    if (!text_starts(said, "resume: from ") || !step)
        return;
    data->resumed =
        memory_resize(data->resumed, data->resumed_count + 1, sizeof(*data->resumed));
    data->resumed[data->resumed_count++] = strtod(step + strlen(", step "), NULL);
}

/* An attempt that starts from scratch: earlier lines of the log are from other runs. */
static void note_beginning(struct page_data *data, const char *said)
{
    if (!text_starts(said, "job ") || !strstr(said, ": attempt ") ||
        strstr(said, ", continuing "))
        return;
    data->event_count = data->events_left_out = data->resumed_count = 0;
}

static void note_event(struct page_data *data, const struct page_event *event)
{
    if (!is_shown(event))
        return;
    if (data->event_count == PAGE_EVENTS) {
        memmove(data->events, data->events + 1,
                (PAGE_EVENTS - 1) * sizeof(data->events[0]));
        data->event_count--;
        data->events_left_out++;
    }
    data->events[data->event_count++] = *event;
}

/* Split "TIME level message" in place. */
static bool cut_line(char *line, struct page_event *out)
{
    char *level = strchr(line, ' '), *said = level ? strchr(level + 1, ' ') : NULL;

    if (!said)
        return false;
    *level = *said = 0;
    *out = (struct page_event) { line, level + 1, said + 1 };
    return true;
}

static void read_log(struct page_data *data)
{
    struct page_event event;

    if (!file_read_end_at(AT_FDCWD, data->job->log, log_max, &data->log, NULL))
        return;
    for (char *line = data->log.data, *end; *line; line = end + 1) {
        end = strchrnul(line, '\n');
        if (!*end)
            break; /* it is being written */
        *end = 0;
        if (cut_line(line, &event)) {
            note_beginning(data, event.said);
            note_event(data, &event);
            note_resume(data, event.said);
        }
    }
}

/* ---- The rest ---- */

static void take_sample(void *context, json_t *object)
{
    struct page_data *data = context;

    if (!data->samples)
        data->samples = json_array();
    if (json_array_size(data->samples) < SAMPLES)
        json_array_append(data->samples, object);
}

static json_t *read_object(const struct job *job, const char *base)
{
    char *name = path_join(job->run_dir, base);
    json_t *object = json_read_file(name, json_max, NULL);

    free(name);
    if (json_is_object(object))
        return object;
    json_decref(object);
    return NULL;
}

/* Review the text that the run follows, or the job file if it never began. */
static void read_review(struct page_data *data)
{
    const struct job *job = data->job;

    data->has_review =
        review_read(job->path, file_exists(job->frozen) ? job->frozen : job->path,
                    &data->review, NULL);
}

bool page_data_read(const struct job *job, struct page_data *out, struct error *err)
{
    *out = (struct page_data) { .job = job };
    text_init(&out->log, log_max);
    if (!file_is_dir(job->run_dir))
        return error_set(err, file_exists(job->path) ? ERROR_DATA : ERROR_USAGE,
                         file_exists(job->path)
                             ? "%s has no run: it was never patched or run"
                             : "there is no job %s",
                         job->path);
    if (!job_read(job, &out->record, err))
        return false;
    out->running = out->record.state == JOB_RUNNING && job_is_locked(job);
    out->facts = read_object(job, "run.json");
    out->autopsy = read_object(job, "autopsy.json");
    each_object(job->run_dir, "metrics.jsonl", metrics_max, take_metrics, out);
    each_object(job->run_dir, "samples.jsonl", json_max, take_sample, out);
    read_log(out);
    read_review(out);
    return true;
}

void page_data_clear(struct page_data *data)
{
    for (size_t i = 0; i < data->series_count; i++) {
        free(data->series[i].x);
        free(data->series[i].y);
    }
    free(data->resumed);
    json_decref(data->facts);
    json_decref(data->autopsy);
    json_decref(data->samples);
    text_clear(&data->log);
    review_clear(&data->review);
    *data = (struct page_data) { 0 };
}
