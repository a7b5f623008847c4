/* train/files/manifest.c - writing and checking the manifest of a folder. */
#include "config.h"

#include "train/files/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/walk.h"

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
    const struct manifest_known *known;
    json_t *files;
    struct heartbeat heartbeat;
    struct timespec latest; /* change of a known file */
};

void manifest_note(json_t *known, const char *base, const struct manifest_file *file)
{
    if (known)
        json_object_set_new(known, base,
                            json_pack("{s:I, s:s}", "bytes", (json_int_t)file->bytes,
                                      "sha256", file->digest));
}

/* Examine a file; -1: errno.  A network file system may know old attributes of a name, but
 * asks for new ones when the file is opened. */
static int examine(const char *name, struct stat *st)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC), failed;

    if (fd < 0)
        return -1;
    failed = fstat(fd, st);
    close(fd);
    return failed;
}

static bool is_later(const struct timespec *one, const struct timespec *two)
{
    return one->tv_sec != two->tv_sec ? one->tv_sec > two->tv_sec
                                      : one->tv_nsec > two->tv_nsec;
}

/* Wait until a file that another machine may have written is here with its size. */
static bool check_known(struct listing *listing, const char *base, const json_t *entry,
                        struct error *err)
{
    const double until = clock_seconds() + listing->known->patience;
    const int64_t bytes = json_integer_value(json_object_get(entry, "bytes"));
    char *name = path_join(listing->dir, base);
    struct stat st;
    int failed;
    bool ok;

    while (((failed = examine(name, &st)) || st.st_size != bytes) &&
           clock_seconds() < until) {
        heartbeat_tick(&listing->heartbeat);
        poll(NULL, 0, 50);
    }
    if (failed)
        failed = examine(name, &st); /* for errno */
    ok = failed ? error_errno(err, "%s was written, but cannot be opened", name)
                : st.st_size == bytes ||
                      error_set(err, ERROR_SYSTEM,
                                "%s has %lld bytes, but %lld were written", name,
                                (long long)st.st_size, (long long)bytes);
    if (ok && is_later(&st.st_mtim, &listing->latest))
        listing->latest = st.st_mtim;
    free(name);
    return ok;
}

/* The clock of a machine that wrote a file may be ahead: the manifest is the last file. */
static void set_time(const char *name, const struct listing *listing)
{
    const struct timespec times[2] = { { 0, UTIME_OMIT }, listing->latest };
    struct stat st;

    if (stat(name, &st) == 0 && is_later(&listing->latest, &st.st_mtim))
        utimensat(AT_FDCWD, name, times, 0);
}

static bool add_known(struct listing *listing, const char *base, struct error *err)
{
    json_t *entry = json_object_get(listing->known->files, base);

    if (!check_known(listing, base, entry, err))
        return false;
    json_object_set(listing->files, base, entry);
    return true;
}

/* A listing of the folder may be older than a file that is there. */
static bool add_unlisted(struct listing *listing, struct error *err)
{
    const char *base;
    json_t *entry;

    json_object_foreach(listing->known->files, base, entry)
    {
        if (!json_object_get(listing->files, base) && !add_known(listing, base, err))
            return false;
    }
    return true;
}

static bool add_file(struct listing *listing, const char *base, struct error *err)
{
    char *name = path_join(listing->dir, base);
    struct manifest_file file;
    struct stat st;
    bool ok = false;

    if (stat(name, &st) != 0) {
        error_errno(err, "cannot stat %s", name);
        goto out;
    }
    file.bytes = (uint64_t)st.st_size;
    if (!flush_file(name, err) ||
        !digest_large_file(name, &listing->heartbeat, file.digest, err))
        goto out;
    manifest_note(listing->files, base, &file);
    ok = true;
out:
    free(name);
    return ok;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

bool manifest_write(const char *dir, const char *job, const struct manifest_known *known,
                    struct heartbeat *heartbeat, struct error *err)
{
    const struct manifest_known none = { 0 };
    struct listing listing = { .dir = dir,
                               .known = known ? known : &none,
                               .files = json_object(),
                               .heartbeat = heartbeat_unstopped(heartbeat) };
    struct dirent **entries = NULL;
    json_t *manifest;
    char *name = path_join(dir, MANIFEST_NAME);
    struct text text;
    int count = scandir(dir, &entries, NULL, by_name);
    bool ok = count >= 0 || error_errno(err, "cannot read the folder %s", dir);

    for (int i = 0; i < count; i++) {
        const char *base = entries[i]->d_name;

        if (ok && base[0] != '.')
            ok = json_object_get(listing.known->files, base)
                     ? add_known(&listing, base, err)
                     : add_file(&listing, base, err);
        free(entries[i]);
    }
    free(entries);
    ok = ok && add_unlisted(&listing, err);
    manifest = json_pack("{s:i, s:s, s:o}", "schema", 1, "job", job ? job : "", "files",
                         listing.files);
    text_init(&text, MANIFEST_MAX);
    if (ok) {
        json_write_pretty(manifest, &text);
        ok = file_create(name, text.data, text.len, 0666, err);
    }
    if (ok)
        set_time(name, &listing);
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

/* Which digests are computed: those of a share. */
struct share {
    size_t part, parts;
    int64_t all, at; /* bytes of all files, and of those before the current one */
};

static int64_t entry_bytes(const json_t *entry)
{
    int64_t bytes = json_integer_value(json_object_get(entry, "bytes"));

    return bytes > 0 ? bytes : 0;
}

/* A file belongs to the share that has its first byte. */
static bool is_own(const struct share *share)
{
    double place = share->all > 0 ? (double)share->at / (double)share->all : 0;

    return share->parts > 0 && (size_t)(place * (double)share->parts) == share->part;
}

static bool check_files(const char *dir, json_t *files, struct share *share,
                        struct heartbeat *heartbeat, struct error *err)
{
    const char *base;
    json_t *entry;

    json_object_foreach(files, base, entry)
    {
        share->all += entry_bytes(entry);
    }
    json_object_foreach(files, base, entry)
    {
        if (!check_file(dir, base, entry, is_own(share) ? heartbeat : NULL, err))
            return false;
        share->at += entry_bytes(entry);
    }
    return true;
}

static bool check_share(const char *dir, struct share share, struct heartbeat *heartbeat,
                        struct error *err)
{
    struct heartbeat none = { 0 };
    char *name = path_join(dir, MANIFEST_NAME);
    json_t *manifest = json_read_file(name, MANIFEST_MAX, err);
    json_t *files = json_object_get(manifest, "files");
    bool ok = manifest != NULL;

    if (ok && !json_is_object(files))
        ok = error_set(err, ERROR_DATA, "%s has no list of files", name);
    ok = ok && check_files(dir, files, &share, heartbeat ? heartbeat : &none, err);
    json_decref(manifest);
    free(name);
    return ok;
}

bool manifest_check(const char *dir, bool deep, struct heartbeat *heartbeat,
                    struct error *err)
{
    return check_share(dir, (struct share) { .parts = deep }, heartbeat, err);
}

bool manifest_check_part(const char *dir, size_t part, size_t parts,
                         struct heartbeat *heartbeat, struct error *err)
{
    return check_share(dir, (struct share) { .part = part, .parts = parts }, heartbeat,
                       err);
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

/* Return the manifest of an open folder, or NULL. */
static json_t *read_in(int dir, struct stat *st)
{
    struct text text;
    json_t *manifest = NULL;

    text_init(&text, 0);
    if (file_read_at(dir, MANIFEST_NAME, MANIFEST_MAX, &text, st, NULL))
        manifest = json_read_text(text.data, text.len, MANIFEST_NAME, 1, NULL);
    text_clear(&text);
    if (json_is_object(json_object_get(manifest, "files")))
        return manifest;
    json_decref(manifest);
    return NULL;
}

/* The manifest is written last: a file that is changed afterwards has a later time. */
static bool is_listed(int dir, const char *name, const json_t *files,
                      const struct stat *manifest, int64_t *bytes)
{
    const json_t *entry = json_object_get(files, name);
    struct stat st;

    if (!entry || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    *bytes += st.st_size;
    return S_ISREG(st.st_mode) &&
           st.st_size == json_get_int(entry, "bytes", -1, MANIFEST_NAME, NULL) &&
           !is_later(&st.st_mtim, &manifest->st_mtim);
}

/* Return whether the folder has all files of the manifest and no other. */
static bool has_only(int dir, const json_t *files, const struct stat *manifest,
                     int64_t *bytes)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    size_t count = 0;
    bool same = folder != NULL;

    if (!folder && fd >= 0)
        close(fd);
    while (same && (errno = 0, entry = readdir(folder))) {
        const char *name = entry->d_name;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            strcmp(name, MANIFEST_NAME) == 0)
            continue;
        same = is_listed(dir, name, files, manifest, bytes);
        count++;
    }
    same = same && errno == 0 && count == json_object_size(files);
    if (folder)
        closedir(folder);
    return same;
}

bool manifest_read_facts(int dir, struct manifest_facts *out)
{
    struct stat st = { 0 };
    json_t *manifest = read_in(dir, &st), *files = json_object_get(manifest, "files");
    const char *job = json_string_value(json_object_get(manifest, "job"));

    *out = (struct manifest_facts) { .bytes = st.st_size, .made = st.st_mtim.tv_sec };
    if (!manifest)
        return false;
    if (job && strlen(job) < sizeof(out->job))
        strcpy(out->job, job);
    out->untouched = has_only(dir, files, &st, &out->bytes);
    json_decref(manifest);
    return true;
}

bool manifest_remove_files(int dir, struct error *err)
{
    struct stat st;
    json_t *manifest = read_in(dir, &st), *files = json_object_get(manifest, "files");
    json_t *entry;
    const char *name;
    bool ok = true;

    json_object_foreach(files, name, entry)
    {
        if (ok && !strchr(name, '/') &&
            (!walk_may_change() || unlinkat(dir, name, 0) != 0) && errno != ENOENT)
            ok = error_errno(err, "cannot remove %s", name);
    }
    if (ok && manifest && (!walk_may_change() || unlinkat(dir, MANIFEST_NAME, 0) != 0))
        ok = error_errno(err, "cannot remove %s", MANIFEST_NAME);
    json_decref(manifest);
    return ok;
}
