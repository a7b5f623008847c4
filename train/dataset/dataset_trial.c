/* train/dataset/dataset_trial.c - decodes media, and counts those that it does not. */
#include "config.h"

#include "train/dataset/dataset_trial.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "train/dataset/dataset_internal.h"
#include "train/media/media_family.h"

/* 96 MB */
#define PIXELS_MAX ((uint64_t)32 << 20)

/* Decode a file, or contents. */
static bool decode(struct dataset_trial *trial, const struct media_settings *settings,
                   const char *path, const struct media_bytes *bytes, struct error *err)
{
    const double began = clock_seconds();
    bool large = false, ok;

    if (trial->seconds <= 0) {
        trial->skipped++;
        return true;
    }
    ok = path ? media_verify(settings, path, PIXELS_MAX, &large, err)
              : media_verify_bytes(settings, bytes, PIXELS_MAX, &large, err);
    trial->skipped += large;
    trial->seconds -= clock_seconds() - began;
    return ok;
}

bool dataset_trial_contents(struct dataset_trial *trial,
                            const struct media_settings *settings,
                            const struct media_bytes *bytes, struct error *err)
{
    struct error why = { 0 };

    trial->contents = true;
    return decode(trial, settings, NULL, bytes, &why) || why.code != ERROR_DATA ||
           error_set(err, why.code, "%s", why.text);
}

static bool try_item(struct dataset_trial *trial, const struct media_settings *settings,
                     const struct media_item *item)
{
    const struct mark at = { .line = item->position.line, .column = 1 };
    struct error why = { 0 }, fault = { 0 };

    if (decode(trial, settings, item->path, NULL, &why) || why.code != ERROR_DATA)
        return true;
    error_at(&fault, why.code, item->position.file, at, "%s", why.text);
    dataset_faults_add(&trial->faults, &fault);
    return false;
}

/* The contents of records are files only in a run, and have then been decoded from the
 * records, unless their tokens are those of the run. */
static bool is_due(const struct dataset *dataset, const struct media_item *item)
{
    return item->path && (item->bytes > 0 || !dataset->decoded) &&
           file_exists(item->path);
}

bool dataset_trial_files(struct dataset_trial *trial, const struct dataset *dataset,
                         const struct plan *plan, struct error *err)
{
    struct media_settings *settings = memory_alloc(sizeof(*settings));
    struct error ignored = { 0 };
    char *model_type = NULL;
    const struct media_family *family =
        media_family_read(plan->model_name_or_path, &model_type);
    bool ok = true;

    if (!plan->features && family &&
        media_settings_read(family, plan, settings, &ignored))
        for (size_t i = 0; i < dataset_media(dataset); i++)
            if (is_due(dataset, dataset_medium(dataset, i)))
                ok = try_item(trial, settings, dataset_medium(dataset, i)) && ok;
    free(model_type);
    free(settings);
    if (!ok)
        *err = trial->faults.first;
    return ok;
}
