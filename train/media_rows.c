/* train/media_rows.c - computes the rows of features of sounds and images. */
#include "config.h"

#include "train/media_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "train/media_cache.h"
#include "train/media_item.h"
#include "train/model/parallel.h"
#include "train/tower/tower.h"

#define CONFIG_BYTES_MAX ((size_t)4 << 20)
#define LOG_SECONDS      30.0

/* What the computation reads and writes. */
struct encoding {
    const struct media_rows_options *options;
    char *model_type;
    const struct media_item **items; /* all different */
    size_t count, missing, done;
    struct media_cache *cache;
    struct media_reader *reader;
    struct tower *tower;
    double started, logged;
};

void media_rows_key(const struct media_item *item, char key[DIGEST_TEXT])
{
    for (size_t i = 0; i < sizeof(item->digest); i++)
        snprintf(key + 2 * i, 3, "%02x", item->digest[i]);
}

/* ---- The folder ---- */

/* Files of the processor may be missing. */
static void add_file(struct digest *digest, const char *dir, const char *file)
{
    char *name = path_join(dir, file), text[DIGEST_TEXT];
    struct error none = { 0 };

    digest_add(digest, file, strlen(file) + 1);
    if (file_exists(name) && digest_file(name, text, &none))
        digest_add(digest, text, sizeof(text));
    free(name);
}

/* As the model does with its own layers. */
static struct tower_merged merged_of(const struct media_rows_options *options)
{
    return (struct tower_merged) { plan_merged_adapter(options->plan), options->config };
}

/* What the rows of an item depend on, other than its content. */
static bool describe(const struct media_rows_options *options, char out[DIGEST_TEXT],
                     struct error *err)
{
    static const char *const files[] = { "config.json", "preprocessor_config.json",
                                         "processor_config.json" };
    const struct plan *plan = options->plan;
    const struct tower_merged merged = merged_of(options);
    struct digest *digest = digest_new();
    char weights[DIGEST_TEXT], *line;
    struct text text;

    if (!tower_digest(plan->model_name_or_path, options->project, &merged,
                      options->heartbeat, weights, err)) {
        digest_end(digest, out);
        return false;
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        add_file(digest, plan->model_name_or_path, files[i]);
    text_init(&text, 0);
    text_addf(&text,
              "version 1, %s, compute %s, frozen %s, projected %d, pixels %lld to %lld, "
              "crops %d",
              options->backend->ops->name, format_info(plan->precision.compute)->name,
              format_info(plan->precision.frozen)->name, options->project,
              (long long)plan->image_min_pixels, (long long)plan->image_max_pixels,
              plan->crop_to_patches);
    line = text_detach(&text, NULL);
    digest_add(digest, line, strlen(line));
    digest_add(digest, weights, sizeof(weights));
    digest_end(digest, out);
    free(line);
    return true;
}

/* ---- The items ---- */

static int compare_items(const void *a, const void *b)
{
    const struct media_item *const *first = a, *const *second = b;

    return memcmp((*first)->digest, (*second)->digest, sizeof((*first)->digest));
}

/* List the items of all data, each content once. */
static void list_items(struct encoding *e)
{
    size_t room = 0, unique = 0;

    for (size_t i = 0; i < MEDIA_ROWS_DATA_MAX; i++)
        room += e->options->data[i] ? dataset_media(e->options->data[i]) : 0;
    e->items = memory_resize(NULL, room + 1, sizeof(*e->items));
    for (size_t i = 0; i < MEDIA_ROWS_DATA_MAX; i++)
        for (size_t k = 0; e->options->data[i] && k < dataset_media(e->options->data[i]);
             k++)
            e->items[e->count++] = dataset_medium(e->options->data[i], k);
    qsort(e->items, e->count, sizeof(*e->items), compare_items);
    for (size_t i = 0; i < e->count; i++)
        if (unique == 0 || compare_items(&e->items[unique - 1], &e->items[i]) != 0)
            e->items[unique++] = e->items[i];
    e->count = unique;
}

/* Keep those that the folder lacks. */
static void list_missing(struct encoding *e)
{
    char key[DIGEST_TEXT];

    for (size_t i = 0; i < e->count; i++) {
        media_rows_key(e->items[i], key);
        if (!media_cache_has(e->cache, key))
            e->items[e->missing++] = e->items[i];
    }
}

/* ---- The encoder ---- */

static bool read_type(struct encoding *e, struct error *err)
{
    char *name = path_join(e->options->plan->model_name_or_path, "config.json");
    json_t *root = json_read_loose_file(name, CONFIG_BYTES_MAX, err);
    const char *type = root ? json_get_string(root, "model_type", "", name, err) : NULL;

    if (type)
        e->model_type = memory_strdup(type);
    json_decref(root);
    free(name);
    return e->model_type != NULL;
}

static bool open_encoder(struct encoding *e, struct error *err)
{
    const struct plan *plan = e->options->plan;
    const struct media_reader_options reader = {
        .model_dir = plan->model_name_or_path,
        .model_type = e->model_type,
        .kind = e->items[0]->kind,
        .limits = { plan->image_max_pixels, plan->image_min_pixels,
                    plan->crop_to_patches },
    };
    const struct tower_options tower = {
        .model_dir = plan->model_name_or_path,
        .backend = e->options->backend,
        .compute = plan->precision.compute == FORMAT_TF32 ? FORMAT_FP32
                                                          : plan->precision.compute,
        .frozen = plan->precision.frozen,
        .project = e->options->project,
        .merged = merged_of(e->options),
        .heartbeat = e->options->heartbeat,
    };

    e->reader = media_reader_open(&reader, err);
    e->tower = e->reader ? tower_open(&tower, err) : NULL;
    return e->tower != NULL;
}

static bool encode(struct encoding *e, const struct media_item *item, struct error *err)
{
    struct media_input input;
    struct tower_output rows = { 0 };
    struct error why = { 0 }, named = { 0 };
    char key[DIGEST_TEXT];
    bool ok;

    media_rows_key(item, key);
    if (!media_item_read(e->reader, item, &input, err))
        return false;
    ok = tower_run(e->tower, &input, &rows, &why);
    media_input_clear(&input);
    if (!ok)
        error_set(&named, why.code, "%s: %s", item->path, why.text);
    else if (rows.count != item->rows)
        ok = error_set(
            &named, ERROR_DATA,
            "%s: the encoder returns %zu rows, but the data have %u positions for "
            "them; config.json and the processor's settings do not belong together",
            item->path, rows.count, item->rows);
    if (!ok)
        media_item_fail(item, &named, err);
    ok = ok && media_cache_add(e->cache, key, item->grid, &rows, err);
    tower_output_clear(&rows);
    return ok;
}

static void log_progress(struct encoding *e)
{
    const double now = clock_seconds();

    if (now - e->logged < LOG_SECONDS)
        return;
    e->logged = now;
    log_line(e->options->log, LOG_INFO, "media: encoded %zu of %zu files", e->done,
             e->missing);
}

static bool encode_all(struct encoding *e, struct error *err)
{
    struct error later = { 0 };
    bool ok = true;

    e->started = e->logged = clock_seconds();
    log_line(e->options->log, LOG_INFO,
             "media: encoding %zu of %zu files; the encoder has %zu parameters",
             e->missing, e->count, tower_elements(e->tower));
    for (size_t i = 0; ok && i < e->missing; i++) {
        ok =
            heartbeat_continue(e->options->heartbeat, "encoding images or sounds", err) &&
            parallel_are_alive(e->options->group, err) && encode(e, e->items[i], err);
        e->done += ok;
        log_progress(e);
    }
    /* also after a stop: the next attempt continues there */
    if (!media_cache_flush(e->cache, ok ? err : &later))
        ok = false;
    if (ok)
        log_line(e->options->log, LOG_INFO, "media: encoded %zu files in %.1f s", e->done,
                 clock_seconds() - e->started);
    return ok;
}

static bool compute(const struct media_rows_options *options, const char *folder,
                    struct error *err)
{
    struct encoding e = { .options = options };
    bool ok;

    list_items(&e);
    media_cache_remove_others(options->plan->run_dir, folder);
    e.cache = media_cache_open(folder, err);
    if (e.cache)
        list_missing(&e);
    ok = e.cache && (e.missing == 0 || (read_type(&e, err) && open_encoder(&e, err) &&
                                        encode_all(&e, err)));
    ok = ok && media_cache_finish(e.cache, err);
    if (ok && e.missing == 0)
        log_line(options->log, LOG_INFO, "media: the rows of all %zu files are in %s",
                 e.count, folder);
    tower_free(e.tower);
    media_reader_close(e.reader);
    media_cache_close(e.cache);
    free(e.items);
    free(e.model_type);
    return ok;
}

/* ---- All ranks ---- */

/* The other ranks wait for the folder, however long rank 0 encodes. */
static bool share(const struct backend_group *group, char **folder, struct error *err)
{
    struct error why = { 0 };

    if (parallel_share_text(group, folder, &why))
        return true;
    return parallel_rank(group) == 0
               ? error_set(err, why.code, "%s", why.text)
               : error_set(err, why.code,
                           "waiting for rank 0, which encodes images or sounds: %s",
                           why.text);
}

struct features *media_rows_open(const struct media_rows_options *options,
                                 struct error *err)
{
    char description[DIGEST_TEXT], *folder = NULL;
    struct features *out = NULL;
    bool ok = true;

    if (parallel_rank(options->group) == 0) {
        ok = describe(options, description, err);
        folder = ok ? media_cache_name(options->plan->run_dir, description) : NULL;
        ok = ok && compute(options, folder, err);
    }
    ok = ok && share(options->group, &folder, err);
    if (ok)
        out = features_open(folder, err);
    free(folder);
    return out;
}
