/* train/media_item.c - the file of a medium, and whether it is still the one that was listed. */
#include "config.h"

#include "train/media_item.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "train/media/media_family.h"
#include "train/media/media_probe.h"

static bool is_unchanged(const struct media_item *item, struct error *err)
{
    struct stat st;

    if (item->bytes == 0)
        return true;
    if (stat(item->path, &st) != 0)
        return error_errno_data(err, "cannot examine the file %s", item->path);
    return ((uint64_t)st.st_size == item->bytes && st.st_mtim.tv_sec == item->seconds &&
            st.st_mtim.tv_nsec == item->nanoseconds) ||
           error_set(err, ERROR_DATA,
                     "%s has changed since the data were read; run the job again",
                     item->path);
}

bool media_item_fail(const struct media_item *item, const struct error *why,
                     struct error *err)
{
    const struct mark at = { .line = item->position.line, .column = 1 };

    return why->code == ERROR_DATA && item->position.file
               ? error_at(err, why->code, item->position.file, at, "%s", why->text)
               : error_set(err, why->code, "%s", why->text);
}

/* The file is examined last: what was read before is then of the same content. */
bool media_item_read(struct media_reader *reader, const struct media_item *item,
                     struct media_input *out, struct error *err)
{
    struct error why = { 0 }, changed = { 0 };
    bool ok = media_reader_read(reader, item->path, out, &why);

    if (is_unchanged(item, &changed))
        return ok || media_item_fail(item, &why, err);
    if (ok)
        media_input_clear(out);
    return media_item_fail(item, &changed, err);
}

static bool verify_all(const struct media_settings *settings, const struct dataset *data,
                       struct heartbeat *heartbeat, struct error *err)
{
    for (size_t i = 0; i < dataset_media(data); i++) {
        const struct media_item *item = dataset_medium(data, i);
        struct error why = { 0 };
        bool large;

        if (!heartbeat_continue(heartbeat, "reading images or sounds", err))
            return false;
        if (!media_verify(settings, item->path, UINT64_MAX, &large, &why))
            return media_item_fail(item, &why, err);
    }
    return true;
}

bool media_items_verify(const struct plan *plan, const struct dataset *data,
                        struct heartbeat *heartbeat, struct error *err)
{
    struct media_settings *settings;
    char *model_type = NULL;
    const struct media_family *family;
    bool ok;

    if (!data || dataset_media(data) == 0)
        return true;
    settings = memory_alloc(sizeof(*settings));
    family = media_family_read(plan->model_name_or_path, &model_type);
    ok = !family || (media_settings_read(family, plan, settings, err) &&
                     verify_all(settings, data, heartbeat, err));
    free(model_type);
    free(settings);
    return ok;
}
