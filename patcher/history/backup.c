/* patcher/history/backup.c - a folder of texts, each named by its time and digest. */
#include "config.h"

#include "patcher/history/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "base/walk.h"
#include "patcher/document/document.h"

enum { SHORT_DIGEST = 8 };

/* A backup ends as its job does, so that editors know its language; earlier versions gave
 * those of scripts the first suffix. */
static const char *const suffixes[] = { ".yaml", ".py" };

/* Return the suffix of a name; the first one if it has another. */
static const char *suffix_of(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(suffixes); i++)
        if (text_ends(name, suffixes[i]))
            return suffixes[i];
    return suffixes[0];
}

static char *backups_dir(const char *job)
{
    char *run = path_run_dir(job), *dir = path_join(run, "backups");

    free(run);
    return dir;
}

static bool make_own_dir(const char *path, mode_t mode, struct error *err)
{
    struct stat st;

    if (!file_make_dir(path, mode, err))
        return false;
    if (lstat(path, &st) != 0)
        return error_errno(err, "cannot stat %s", path);
    return S_ISDIR(st.st_mode) ||
           error_set(err, ERROR_SYSTEM,
                     "%s is not a directory, or is a symbolic link; move it away", path);
}

bool backup_run_dir(const char *job, char **path, struct error *err)
{
    *path = path_run_dir(job);
    if (path_run_is_free(job, err) && make_own_dir(*path, 0755, err))
        return true;
    free(*path);
    *path = NULL;
    return false;
}

/* Return whether the name has the form TIME.DIGEST.yaml or TIME.DIGEST.py with the lengths
 * used here. */
static bool is_backup_name(const char *name)
{
    const char *suffix = suffix_of(name), *digest;
    size_t len = strlen(name);

    if (name[0] == '.' || len < strlen(suffix) + SHORT_DIGEST + 2 ||
        !text_ends(name, suffix))
        return false;
    digest = name + len - strlen(suffix) - SHORT_DIGEST;
    return digest[-1] == '.' && strspn(digest, "0123456789abcdef") == SHORT_DIGEST;
}

/* Return false if the contents do not match the name. */
static bool backup_open(const char *dir, const char *name, struct backup *out)
{
    struct error ignored = { 0 };
    struct text text;
    bool whole;

    text_init(&text, 0);
    *out = (struct backup) { .path = path_join(dir, name), .id = memory_strdup(name) };
    out->id[strlen(name) - strlen(suffix_of(name))] = 0;
    whole = file_read(out->path, DOCUMENT_MAX_BYTES, &text, NULL, &ignored);
    out->bytes = text.len;
    digest_bytes(text.data, text.len, out->digest);
    text_clear(&text);
    if (whole &&
        memcmp(out->digest, out->id + strlen(out->id) - SHORT_DIGEST, SHORT_DIGEST) == 0)
        return true;
    free(out->id);
    free(out->path);
    return false;
}

static int newest_first(const void *a, const void *b)
{
    const struct backup *x = a, *y = b;

    return strcmp(y->id, x->id);
}

static void backup_clear(struct backup *backup)
{
    free(backup->id);
    free(backup->path);
}

void backup_free(struct backup *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        backup_clear(&list[i]);
    }
    free(list);
}

bool backup_list(const char *job, struct backup **out, size_t *count, struct error *err)
{
    char *dir = backups_dir(job);
    DIR *stream = file_open_dir(dir);
    const struct dirent *entry;
    size_t room = 0;
    bool ok;

    *out = NULL;
    *count = 0;
    if (!stream) {
        bool missing = errno == ENOENT || error_errno(err, "cannot read %s", dir);

        free(dir);
        return missing;
    }
    while ((errno = 0, entry = readdir(stream))) {
        if (*count == room) {
            room = room ? 2 * room : 16;
            *out = memory_resize(*out, room, sizeof(**out));
        }
        if (is_backup_name(entry->d_name) &&
            backup_open(dir, entry->d_name, *out + *count))
            ++*count;
    }
    ok = errno == 0 || error_errno(err, "cannot read %s", dir);
    closedir(stream);
    free(dir);
    if (ok && *count > 0)
        qsort(*out, *count, sizeof(**out), newest_first);
    if (!ok) {
        backup_free(*out, *count);
        *out = NULL;
        *count = 0;
    }
    return ok;
}

const struct backup *backup_find(const struct backup *list, size_t count, const char *id,
                                 struct error *err)
{
    const struct backup *found = NULL;
    size_t seen = 0;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].id, id) == 0 ||
            strcmp(path_base(list[i].path), path_base(id)) == 0)
            return &list[i];
        if (text_starts(list[i].id, id)) {
            found = &list[i];
            seen++;
        }
    }
    if (seen != 1)
        error_set(err, ERROR_USAGE,
                  seen > 1 ? "several backups start with %s"
                           : "there is no backup %s; `trainspool backups` lists them",
                  id);
    return seen == 1 ? found : NULL;
}

/* Find the path of a backup with the same contents, or NULL. */
static bool find_equal(const char *job, const char *digest, char **path,
                       struct error *err)
{
    struct backup *list;
    size_t count;

    *path = NULL;
    if (!backup_list(job, &list, &count, err))
        return false;
    for (size_t i = 0; i < count && !*path; i++)
        if (strcmp(list[i].digest, digest) == 0)
            *path = memory_strdup(list[i].path);
    backup_free(list, count);
    return true;
}

/* Remove what a killed process left: the name of a backup has the digest of its text. The
 * caller holds the lock of patches, so no one is writing it. What cannot be listed now stays
 * until the next backup. */
static void remove_cut(const char *dir)
{
    DIR *stream = opendir(dir);
    const struct dirent *entry;
    struct backup backup;

    while (stream && (entry = file_next(stream, dir))) {
        struct error err = { 0 };
        struct text text;
        char *path;

        if (!is_backup_name(entry->d_name))
            continue;
        if (backup_open(dir, entry->d_name, &backup)) {
            backup_clear(&backup);
            continue;
        }
        path = path_join(dir, entry->d_name);
        text_init(&text, 0);
        if (file_read_at(AT_FDCWD, path, DOCUMENT_MAX_BYTES, &text, NULL, &err))
            walk_unlink(path);
        text_clear(&text);
        free(path);
    }
    if (stream)
        closedir(stream);
}

bool backup_write(const char *job, const char *data, size_t len, char **path,
                  struct error *err)
{
    char digest[DIGEST_TEXT], now[32];
    char *run = NULL, *dir = backups_dir(job);
    struct text name;
    bool ok = false;

    text_init(&name, 0);
    *path = NULL;
    digest_bytes(data, len, digest);
    if (!backup_run_dir(job, &run, err) || !make_own_dir(dir, 0700, err))
        goto out;
    remove_cut(dir);
    if (!find_equal(job, digest, path, err))
        goto out;
    ok = *path != NULL;
    if (ok)
        goto out;
    clock_compact(now);
    text_addf(&name, "%s.%.*s%s", now, SHORT_DIGEST, digest, suffix_of(job));
    *path = path_join(dir, name.data);
    ok = file_create(*path, data, len, 0600, err);
    if (!ok) {
        free(*path);
        *path = NULL;
    }
out:
    text_clear(&name);
    free(run);
    free(dir);
    return ok;
}
