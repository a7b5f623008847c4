/* runner/cluster/slurm_submission.c - names of submissions, and their file. */
#include "config.h"

#include "runner/cluster/slurm_submission.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/file.h"
#include "base/json.h"

enum { FILE_MAX = 64 << 10, JOB_LENGTH = 50, RANDOM_BYTES = 6 };

/* Write the part of the name that shows the job, and return its length. */
static size_t write_job(const char *job, char out[SLURM_NAME])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = (size_t)snprintf(out, JOB_LENGTH + 1, "%s", job);

    if (len > JOB_LENGTH)
        len = JOB_LENGTH;
    for (size_t i = 0; i < len; i++)
        if (!strchr(allowed, out[i]))
            out[i] = '_';
    out[len++] = '-';
    return len;
}

bool slurm_submission_name(const char *job, char out[SLURM_NAME], struct error *err)
{
    unsigned char bytes[RANDOM_BYTES];
    size_t len;

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return error_errno(err, "cannot get random numbers");
    len = write_job(job, out);
    for (size_t i = 0; i < sizeof(bytes); i++, len += 2)
        snprintf(out + len, 3, "%02x", bytes[i]);
    return true;
}

void slurm_submission_example(const char *job, char out[SLURM_NAME])
{
    size_t len = write_job(job, out);

    memset(out + len, 'X', (size_t)2 * RANDOM_BYTES);
    out[len + (size_t)2 * RANDOM_BYTES] = '\0';
}

bool slurm_submission_write(const struct slurm_submission *submission, const char *file,
                            struct error *err)
{
    json_t *object = json_pack("{s:s, s:I, s:s, s:I}", "name", submission->name, "job",
                               (json_int_t)submission->id, "digest", submission->digest,
                               "first", (json_int_t)submission->first);
    struct text text;
    bool ok;

    if (submission->in_array)
        json_object_set_new(object, "array", json_string(submission->array));
    if (submission->array[0])
        json_object_set_new(object, "task", json_integer(submission->task));
    text_init(&text, 0);
    ok = json_write_pretty(object, &text) &&
         file_replace(file, text.data, text.len, 0600, err);
    text_clear(&text);
    json_decref(object);
    return ok;
}

bool slurm_submission_read(const char *file, struct slurm_submission *out)
{
    json_t *object = json_read_file(file, FILE_MAX, NULL);
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *digest = json_string_value(json_object_get(object, "digest"));
    const char *array = json_string_value(json_object_get(object, "array"));
    bool ok = name && digest && *name && strlen(name) < sizeof(out->name) &&
              strlen(digest) < sizeof(out->digest) &&
              (!array || strlen(array) < sizeof(out->array));

    if (ok) {
        *out = (struct slurm_submission) { .id = json_integer_value(
                                               json_object_get(object, "job")) };
        strcpy(out->name, name);
        strcpy(out->digest, digest);
        out->first = json_integer_value(json_object_get(object, "first"));
        out->in_array = array != NULL;
        strcpy(out->array, array ? array : "");
        out->task = json_integer_value(json_object_get(object, "task"));
    }
    json_decref(object);
    return ok;
}
