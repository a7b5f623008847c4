/* train/dataset/dataset_media_files.c - paths of media, and a table of those that were
 * read. */
#include "config.h"

#include "train/dataset/dataset_media_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/size.h"
#include "train/dataset/dataset_plan.h"
#include "train/dataset/dataset_trial.h"
#include "train/media/features.h"
#include "train/media/media_family.h"
#include "train/media/media_probe.h"

struct dataset_media_files {
    const struct dataset_reading *reading;
    struct dataset_store *store;
    const struct media_family *family;
    char *model_type;
    struct features *features;       /* the user's; NULL: none, or not opened yet */
    struct media_settings *settings; /* NULL: not read yet */
    uint32_t *slots;                 /* media by path: index + 1; 0: free */
    size_t slot_count;
    bool unusable;    /* the settings: no file can be read */
    size_t elsewhere; /* media that are not in media_dir */
    char first[200];  /* of them */
};

struct dataset_media_files *dataset_media_files_new(const struct dataset_reading *reading,
                                                    struct dataset_store *store)
{
    struct dataset_media_files *files = memory_alloc(sizeof(*files));

    files->reading = reading;
    files->store = store;
    files->family =
        media_family_read(reading->plan->model_name_or_path, &files->model_type);
    return files;
}

void dataset_media_files_free(struct dataset_media_files *files)
{
    features_close(files->features);
    free(files->settings);
    free(files->model_type);
    free(files->slots);
    free(files);
}

const struct media_family *
dataset_media_files_family(const struct dataset_media_files *files)
{
    return files->family;
}

const char *dataset_media_files_model(const struct dataset_media_files *files)
{
    return files->model_type;
}

/* ---- The table ---- */

/* FNV-1a, by Fowler, Noll and Vo. */
static uint64_t hash(const char *text)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return value;
}

static const char *path_of(const struct dataset_media_files *files, uint32_t slot)
{
    return files->store->strings + files->store->media[slot - 1].path;
}

/* The slot of a path, or a free one. */
static uint32_t *slot_of(struct dataset_media_files *files, const char *path)
{
    size_t at = (size_t)hash(path) & (files->slot_count - 1);

    while (files->slots[at] != 0 && strcmp(path_of(files, files->slots[at]), path) != 0)
        at = (at + 1) & (files->slot_count - 1);
    return &files->slots[at];
}

static void grow_slots(struct dataset_media_files *files)
{
    size_t count = files->store->media_count;

    if (2 * (count + 1) <= files->slot_count)
        return;
    files->slot_count = files->slot_count ? 2 * files->slot_count : 64;
    free(files->slots);
    files->slots = memory_alloc(files->slot_count * sizeof(*files->slots));
    for (uint32_t i = 1; i <= count; i++)
        *slot_of(files, path_of(files, i)) = i;
}

/* ---- Features that the user has made ---- */

static bool check_feature(const struct dataset_media_files *files, const char *key,
                          const struct feature *feature, struct error *err)
{
    const struct media_family *family = files->family;
    uint64_t merge = (uint64_t)family->merge, rows;

    if (!family->has_grid)
        return true;
    if (feature->grid[0] == 0)
        return error_set(
            err, ERROR_DATA,
            "%s has no tensor \"%s#grid\" with the frames, rows and columns of "
            "its patches, which models of model_type %s require",
            files->reading->plan->features, key, family->model_type);
    if (family->patch)
        return media_family_tile((uint32_t)feature->count,
                                 (uint32_t)(feature->grid[1] / family->merge),
                                 (uint32_t)(feature->grid[2] / family->merge)) > 0 ||
               error_set(
                   err, ERROR_DATA,
                   "%s: \"%s\" has %zu rows, which do not fit tiles in a grid of %d x "
                   "%d patches",
                   files->reading->plan->features, key, feature->count, feature->grid[1],
                   feature->grid[2]);
    rows = (uint64_t)feature->grid[0] * (uint64_t)feature->grid[1] *
           (uint64_t)feature->grid[2] / (merge * merge);
    return (rows == feature->count && feature->grid[1] % family->merge == 0 &&
            feature->grid[2] % family->merge == 0) ||
           error_set(
               err, ERROR_DATA,
               "%s: \"%s\" has %zu rows, and its grid of %d x %d x %d patches gives "
               "%llu",
               files->reading->plan->features, key, feature->count, feature->grid[0],
               feature->grid[1], feature->grid[2], (unsigned long long)rows);
}

static bool take_feature(struct dataset_media_files *files, const char *key,
                         struct stored_medium *out, struct error *err)
{
    const char *name = files->reading->plan->features;
    struct feature feature;

    if (!files->features)
        files->features = features_open(name, err);
    if (!files->features) {
        files->unusable = true;
        return false;
    }
    if (!features_find(files->features, key, &feature))
        return error_set(
            err, ERROR_DATA,
            "%s has no rows for \"%s\"; the names of its tensors are the paths "
            "as the records have them",
            name, key);
    if (!check_feature(files, key, &feature, err))
        return false;
    out->rows = (uint32_t)feature.count;
    memcpy(out->grid, feature.grid, sizeof(out->grid));
    return true;
}

/* ---- Files ---- */

static bool open_settings(struct dataset_media_files *files, struct error *err)
{
    struct media_settings *settings;

    if (files->settings)
        return true;
    settings = memory_alloc(sizeof(*settings));
    if (!media_settings_read(files->family, files->reading->plan, settings, err)) {
        free(settings);
        files->unusable = true;
        return false;
    }
    files->settings = settings;
    return true;
}

static bool take_probe(const struct media_probe *probe, struct stored_medium *out)
{
    out->rows = probe->rows;
    memcpy(out->grid, probe->grid, sizeof(out->grid));
    return true;
}

void dataset_media_files_digest(const char text[], uint8_t digest[32])
{
    for (size_t i = 0; i < 32; i++) {
        unsigned byte = 0;

        sscanf(text + 2 * i, "%2x", &byte);
        digest[i] = (uint8_t)byte;
    }
}

static bool is_file(const char *path, bool *denied)
{
    struct stat st;

    if (stat(path, &st) == 0)
        return !S_ISDIR(st.st_mode);
    *denied |= errno == EACCES;
    return false;
}

/* Return the path of a file in media_dir, next to the data, or as it is given; NULL:
 * nowhere. *denied: the run may not look there. */
static char *find_path(struct dataset_media_files *files, const char *data_file,
                       const char *given, bool *denied)
{
    char *data_dir = path_dir(data_file);
    const char *const dirs[] = { dataset_plan_media_dir(files->reading->plan), data_dir };
    char *path = NULL;

    for (size_t i = 0; i < TS_COUNT(dirs) && !path && given[0] != '/'; i++) {
        path = path_join(dirs[i], given);
        if (!is_file(path, denied)) {
            free(path);
            path = NULL;
        }
    }
    free(data_dir);
    if (path || !is_file(given, denied))
        return path;
    if (given[0] != '/' && files->elsewhere++ == 0)
        snprintf(files->first, sizeof(files->first), "%s", given);
    return memory_strdup(given);
}

static bool fail_path(const struct dataset_media_files *files, const char *data_file,
                      const char *given, bool denied, struct error *err)
{
    const char *kind = media_noun(files->family->kind);

    if (text_starts(given, "http://") || text_starts(given, "https://"))
        return error_set(err, ERROR_DATA,
                         "the %s is at the address %s, and trainspool downloads nothing; "
                         "download it, and write its path",
                         kind, given);
    if (denied)
        return error_set(
            err, ERROR_DATA,
            "the %s %s is not in a folder that the run may read; set media_dir to its folder",
            kind, given);
    if (given[0] == '/')
        return error_set(err, ERROR_DATA,
                         "the %s %s does not exist; correct its path, or remove the "
                         "record",
                         kind, given);
    return error_set(
        err, ERROR_DATA,
        "the %s %s does not exist in media_dir (%s), next to %s, or as given; correct its "
        "path, or set media_dir",
        kind, given, dataset_plan_media_dir(files->reading->plan), path_base(data_file));
}

/* A run may read the folders of the data and media_dir, and what links in these folders
 * name, but neither all that links further down name, nor paths from elsewhere. */
static bool fail_outside(const struct dataset_media_files *files, const char *path,
                         const char *given, struct error *err)
{
    char *target = realpath(path, NULL);

    error_set(err, ERROR_DATA,
              "the %s %.140s is at %.140s, outside the folders that a run may read; copy "
              "the file to media_dir, or set media_dir to a folder that contains it",
              media_noun(files->family->kind), given, target ? target : path);
    free(target);
    return false;
}

/* Only opening a file shows what the sandbox refuses. The reader of the format reports
 * everything else. */
static bool is_inside(const char *path)
{
    const int fd = open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    const bool refused = fd < 0 && errno == EACCES && access(path, R_OK) == 0;

    if (fd >= 0)
        close(fd);
    return !refused;
}

static bool probe_file(struct dataset_media_files *files, const char *path,
                       const char *given, struct stored_medium *out, struct error *err)
{
    struct heartbeat *heartbeat = tokenizer_heartbeat(files->reading->tokenizer);
    char digest[DIGEST_TEXT];
    struct media_probe probe;
    struct stat st;

    if (stat(path, &st) != 0)
        return error_errno_data(err, "cannot examine the file %s", path);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return error_set(err, ERROR_DATA, "the file %s is %s", path,
                         S_ISREG(st.st_mode) ? "empty" : "not a regular file");
    if (!is_inside(path))
        return fail_outside(files, path, given, err);
    if (!open_settings(files, err) || !media_probe(files->settings, path, &probe, err))
        return false;
    out->bytes = (uint64_t)st.st_size;
    out->seconds = st.st_mtim.tv_sec;
    out->nanoseconds = st.st_mtim.tv_nsec;
    if (!files->reading->counts_only) {
        if (!digest_large_file(path, heartbeat, digest, err))
            return false;
        dataset_media_files_digest(digest, out->digest);
    }
    return heartbeat_continue(heartbeat, "reading the media", err) &&
           take_probe(&probe, out);
}

/* ---- Media ---- */

/* Return the index of the medium with this path, and add it to the table if `stored` was
 * not there. */
static bool find_file(struct dataset_media_files *files,
                      const struct dataset_position *position,
                      const struct record_medium *medium, struct stored_medium *stored,
                      uint32_t *index, struct error *err)
{
    const char *given = medium->path;
    uint32_t *slot;
    char *path;
    bool ok = true, denied = false;

    if (text_starts(given, "file://"))
        given += strlen("file://");
    path = find_path(files, position->file, given, &denied);
    if (!path)
        return fail_path(files, position->file, given, denied, err);
    grow_slots(files);
    slot = slot_of(files, path);
    if (*slot == 0 && (ok = probe_file(files, path, given, stored, err)))
        *slot =
            1 + dataset_store_medium(files->store, stored, path, medium->path, position);
    *index = *slot - 1;
    free(path);
    return ok;
}

/* The contents of a medium become a file, by digest. */
static bool find_bytes(struct dataset_media_files *files,
                       const struct dataset_position *position,
                       const struct record_medium *medium, struct stored_medium *stored,
                       uint32_t *index, struct error *err)
{
    const struct dataset_reading *reading = files->reading;
    const char *folder = reading->media_folder ? reading->media_folder : ".";
    char digest[DIGEST_TEXT], *path;
    const char *name = medium->path ? medium->path : "the bytes of a medium";
    const struct media_bytes bytes = { medium->data, medium->len, name };
    struct media_probe probe;
    uint32_t *slot;
    bool ok = true;

    if (medium->len == 0)
        return error_set(err, ERROR_DATA, "%s: there are no bytes", name);
    digest_bytes(medium->data, medium->len, digest);
    path = path_join(folder, digest);
    grow_slots(files);
    slot = slot_of(files, path);
    if (*slot == 0) {
        ok = open_settings(files, err) &&
             media_probe_bytes(files->settings, &bytes, &probe, err) &&
             (!reading->trial ||
              dataset_trial_contents(reading->trial, files->settings, &bytes, err)) &&
             (!reading->saves_media || file_exists(path) ||
              (file_make_dirs(folder, 0777, err) &&
               file_replace(path, medium->data, medium->len, 0666, err)));
        if (ok) {
            stored->bytes = medium->len;
            dataset_media_files_digest(digest, stored->digest);
            take_probe(&probe, stored);
            *slot = 1 + dataset_store_medium(files->store, stored, path, name, position);
        }
    }
    *index = *slot - 1;
    free(path);
    return ok;
}

static bool find_feature(struct dataset_media_files *files,
                         const struct dataset_position *position,
                         const struct record_medium *medium, struct stored_medium *stored,
                         uint32_t *index, struct error *err)
{
    uint32_t *slot;

    if (!medium->path)
        return error_set(err, ERROR_DATA,
                         "the record has the bytes of %s without a path, and the file of "
                         "features has rows by path",
                         media_one(files->family->kind));
    grow_slots(files);
    slot = slot_of(files, medium->path);
    if (*slot == 0) {
        if (!take_feature(files, medium->path, stored, err))
            return false;
        *slot = 1 + dataset_store_medium(files->store, stored, medium->path, medium->path,
                                         position);
    }
    *index = *slot - 1;
    return true;
}

bool dataset_media_files_find(struct dataset_media_files *files,
                              const struct dataset_position *position,
                              const struct record_medium *medium, uint32_t *index,
                              struct error *err)
{
    struct stored_medium stored = {
        .kind = (uint32_t)files->family->kind,
        .token = (uint32_t)tokenizer_find(files->reading->tokenizer,
                                          media_family_row_token(files->family)),
    };

    if (files->reading->plan->features)
        return find_feature(files, position, medium, &stored, index, err);
    return medium->data ? find_bytes(files, position, medium, &stored, index, err)
                        : find_file(files, position, medium, &stored, index, err);
}

bool dataset_media_files_are_usable(const struct dataset_media_files *files)
{
    return !files->unusable;
}

void dataset_media_files_note(const struct dataset_media_files *files,
                              struct dataset_notes *notes)
{
    char note[480];

    if (files->elsewhere == 0)
        return;
    snprintf(
        note, sizeof(note),
        files->elsewhere == 1
            ? "%zu %s is not in media_dir; its path is used as given: %s"
            : "%zu %s are not in media_dir; their paths are used as given, the first is %s",
        files->elsewhere,
        files->elsewhere == 1 ? media_noun(files->family->kind)
                              : media_nouns(files->family->kind),
        files->first);
    dataset_notes_add(notes, note);
}
