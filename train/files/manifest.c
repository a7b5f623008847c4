/* train/files/manifest.c - writing and checking the manifest of a folder. */
#include "config.h"

#include "train/files/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/json.h"

#define MANIFEST_MAX ((size_t)16 << 20)

static bool flush_file(const char *name, struct error *err)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    bool ok;

    if (fd < 0)
        return error_errno(err, "cannot open %s", name);
    ok = fsync(fd) == 0 || error_errno(err, "cannot flush %s", name);
    close(fd);
    return ok;
}

/* A folder for which a manifest is made. */
struct listing {
    const char *dir;
    json_t *files;
    struct heartbeat heartbeat;
};

static bool add_file(struct listing *listing, const char *base, struct error *err)
{
    char *name = path_join(listing->dir, base), digest[DIGEST_TEXT];
    struct stat st;
    bool ok = false;

    if (stat(name, &st) != 0) {
        error_errno(err, "cannot stat %s", name);
        goto out;
    }
    if (!flush_file(name, err) ||
        !digest_large_file(name, &listing->heartbeat, digest, err))
        goto out;
    json_object_set_new(
        listing->files, base,
        json_pack("{s:I, s:s}", "bytes", (json_int_t)st.st_size, "sha256", digest));
    ok = true;
out:
    free(name);
    return ok;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

bool manifest_write(const char *dir, const char *job, struct heartbeat *heartbeat,
                    struct error *err)
{
    struct listing listing = { dir, json_object(), heartbeat_unstopped(heartbeat) };
    struct dirent **entries = NULL;
    json_t *manifest;
    char *name = path_join(dir, MANIFEST_NAME);
    struct text text;
    int count = scandir(dir, &entries, NULL, by_name);
    bool ok = count >= 0 || error_errno(err, "cannot read the folder %s", dir);

    for (int i = 0; i < count; i++) {
        if (ok && entries[i]->d_name[0] != '.')
            ok = add_file(&listing, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    manifest = json_pack("{s:i, s:s, s:o}", "schema", 1, "job", job ? job : "", "files",
                         listing.files);
    text_init(&text, MANIFEST_MAX);
    if (ok) {
        json_write_pretty(manifest, &text);
        ok = file_create(name, text.data, text.len, 0666, err);
    }
    text_clear(&text);
    json_decref(manifest);
    free(name);
    return ok;
}

/* deep: what ticks while the file is read; NULL: compare its size only. */
static bool check_file(const char *dir, const char *base, const json_t *entry,
                       struct heartbeat *deep, struct error *err)
{
    char *name = path_join(dir, base), digest[DIGEST_TEXT];
    int64_t bytes = json_get_int(entry, "bytes", -1, MANIFEST_NAME, err);
    const char *expected = json_get_string(entry, "sha256", "", MANIFEST_NAME, err);
    struct stat st;
    bool ok = false;

    if (strchr(base, '/'))
        error_set(err, ERROR_DATA, "%s/%s names a file outside its folder", dir,
                  MANIFEST_NAME);
    else if (!file_stat(name, &st))
        error_set(err, ERROR_DATA, "%s is missing", name);
    else if (st.st_size != bytes)
        error_set(err, ERROR_DATA, "%s has %lld bytes, not %lld", name,
                  (long long)st.st_size, (long long)bytes);
    else if (!deep)
        ok = true;
    else if (digest_large_file(name, deep, digest, err))
        ok = strcmp(digest, expected) == 0 ||
             error_set(err, ERROR_DATA, "%s is damaged: its SHA-256 differs", name);
    free(name);
    return ok;
}

bool manifest_check(const char *dir, bool deep, struct heartbeat *heartbeat,
                    struct error *err)
{
    struct heartbeat none = { 0 };
    char *name = path_join(dir, MANIFEST_NAME);
    json_t *manifest = json_read_file(name, MANIFEST_MAX, err), *entry;
    json_t *files = json_object_get(manifest, "files");
    const char *base;
    bool ok = manifest != NULL;

    if (ok && !json_is_object(files))
        ok = error_set(err, ERROR_DATA, "%s has no list of files", name);
    if (ok)
        json_object_foreach(files, base, entry) if (!check_file(dir, base, entry,
                                                                !deep       ? NULL
                                                                : heartbeat ? heartbeat
                                                                            : &none,
                                                                err))
        {
            ok = false;
            break;
        }
    json_decref(manifest);
    free(name);
    return ok;
}

bool manifest_has_job(const char *dir, const char *job)
{
    char *name = path_join(dir, MANIFEST_NAME);
    json_t *manifest = json_read_file(name, MANIFEST_MAX, NULL);
    const char *made_by = json_string_value(json_object_get(manifest, "job"));
    bool same = made_by && strcmp(made_by, job) == 0;

    json_decref(manifest);
    free(name);
    return same;
}
