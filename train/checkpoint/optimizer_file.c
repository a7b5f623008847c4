/* train/checkpoint/optimizer_file.c - the files of moments: written by the ranks that have
 * them, read by any. */
#include "config.h"

#include "train/checkpoint/optimizer_file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"
#include "train/checkpoint/checkpoint_find.h"
#include "train/model/optimizer_table.h"
#include "train/model/saved_tensors.h"
#include "train/model/shapes.h"
#include "train/model/weight_shards.h"

#define STEM          "trainspool_optimizer"
#define WEIGHT_SUFFIX ".master"

/* Tensors of a trainable parameter: its moments, and its weight if the model files do not
 * have it as it is, or have an average instead. */
enum { KEPT_WEIGHT = SPAN_WEIGHT, KEPT_COUNT }; /* below KEPT_WEIGHT: enum moment */

/* ---- The tensors of a rank ---- */

/* What a rank has of a tensor. */
struct kept_part {
    struct model *model;
    const struct parameter *p;
    size_t kept;
    size_t weights, count; /* that it belongs to: the first, and how many */
    size_t each;           /* weights per element; 0: the tensor is whole */
    enum format format;
};

/* The files of a rank, and of all. */
struct list {
    struct model *model;
    struct arena *arena;
    struct tensor_source *sources;
    size_t count;
};

static size_t elements_of(const struct parameter *p)
{
    return p->rows * p->cols;
}

static bool read_part(const void *context, size_t index, size_t at, size_t bytes,
                      void *to, struct error *err)
{
    const struct kept_part *part = context;
    size_t item = format_info(part->format)->bytes;

    (void)index;
    heartbeat_tick(model_heartbeat(part->model));
    return model_read_elements(part->model, (enum moment)part->kept, part->p,
                               part->weights + at / item, bytes / item, to, err);
}

static bool read_whole(const void *context, size_t index, void *to, struct error *err)
{
    const struct kept_part *part = context;

    (void)index;
    heartbeat_tick(model_heartbeat(part->model));
    return model_read_elements(part->model, (enum moment)part->kept, part->p,
                               part->weights, part->count, to, err);
}

/* Add a tensor, or the elements [first, first + count) of it. */
static void add(struct list *list, const struct kept_part *part, const char *suffix,
                size_t first, size_t count, size_t all)
{
    struct tensor_source *source = &list->sources[list->count++];
    const struct parameter *p = part->p;
    struct kept_part *kept = arena_alloc(list->arena, sizeof(*kept));
    bool whole = count == all;

    *kept = *part;
    *source = (struct tensor_source) {
        .name = whole ? arena_printf(list->arena, "%s%s", p->name, suffix)
                      : arena_printf(list->arena, "%s%s[%zu:%zu]", p->name, suffix, first,
                                     first + count),
        .format = part->format,
        .rank = 2,
        .shape = { 1, count },
        .read = read_whole,
        .context = kept,
    };
    if (whole && all == elements_of(p)) { /* an element per weight: in its shape */
        source->shape[0] = p->rows;
        source->shape[1] = p->cols;
    }
    if (part->each == 1) {
        source->read_part = read_part;
        source->part = format_info(part->format)->bytes;
    }
}

static void add_moment(struct list *list, const struct parameter *p, size_t moment,
                       struct model_shard own)
{
    const struct shape_moment *kept = &p->moments[moment];
    const char *suffix = model_optimizer(list->model)->suffixes[moment];
    const struct kept_part part = { .model = list->model,
                                    .p = p,
                                    .kept = moment,
                                    .weights = own.first,
                                    .count = own.count,
                                    .each = kept->each,
                                    .format = kept->format };
    size_t first = kept->each > 0 ? (own.first - p->at) / kept->each : 0;

    if (kept->count > 0 && suffix)
        add(list, &part, suffix, first,
            kept->each > 0 ? size_divide_up(own.count, kept->each) : kept->count,
            kept->count);
}

/* Return what a rank has of the elements of a parameter. */
static struct model_shard part_of(struct model *model, const struct parameter *p,
                                  size_t rank)
{
    size_t shard = model_shard(model).count, first = rank * shard;
    size_t from = p->at > first ? p->at : first, end = p->at + elements_of(p);

    end = end < first + shard ? end : first + shard;
    return (struct model_shard) { from, end > from ? end - from : 0 };
}

/* Return the tensors of a rank. */
static void list_rank(struct list *list, size_t rank)
{
    struct model *model = list->model;
    bool averages = model_optimizer(model)->averages;

    list->sources = arena_array(list->arena, model_parameters(model) * KEPT_COUNT + 1,
                                sizeof(*list->sources));
    list->count = 0;
    for (size_t i = 0; i < model_parameters(model); i++) {
        const struct parameter *p = model_parameter(model, i);
        struct model_shard own;

        if (!p->trainable)
            continue;
        own = part_of(model, p, rank);
        for (size_t moment = 0; own.count > 0 && moment < model_moments(model); moment++)
            add_moment(list, p, moment, own);
        if (own.count > 0 && (averages || !model_saves_weight(model, p)))
            add(list,
                &(struct kept_part) { model, p, KEPT_WEIGHT, own.first, own.count, 1,
                                      p->weight.format },
                WEIGHT_SUFFIX, own.first - p->at, own.count, elements_of(p));
    }
}

/* ---- Writing ---- */

static const char *name_of(const struct model *model, size_t rank, struct arena *arena)
{
    return model_ranks(model) == 1
               ? CHECKPOINT_OPTIMIZER
               : arena_printf(arena, STEM "-%05zu-of-%05zu.safetensors", rank + 1,
                              model_ranks(model));
}

static void write_rank(struct save_share *share, struct model *model, size_t rank)
{
    struct list list = { .model = model, .arena = arena_new() };
    struct save_file file = { .name = name_of(model, rank, list.arena) };

    list_rank(&list, rank);
    file.sources = list.sources;
    file.count = list.count;
    /* a file without tensors says that there is a state, of an optimizer without moments */
    if (list.count > 0 || model_ranks(model) == 1)
        save_share_write_own(share, &file);
    arena_free(list.arena);
}

void optimizer_file_write(struct save_share *share, struct model *model)
{
    if (!share->absent || !share->absent[share->rank])
        write_rank(share, model, share->rank);
}

void optimizer_file_write_for(struct save_share *share, struct model *model, size_t rank)
{
    write_rank(share, model, rank);
}

bool optimizer_file_write_index(const struct save_share *share, struct model *model,
                                struct error *err)
{
    const size_t ranks = model_ranks(model);
    struct list list = { .model = model, .arena = arena_new() };
    struct save_file *files = arena_array(list.arena, ranks, sizeof(*files));
    struct weight_shards all = { .files = files };
    bool ok = true;

    for (size_t rank = 0; ranks > 1 && rank < ranks; rank++) {
        list_rank(&list, rank);
        if (list.count == 0)
            continue;
        files[all.count++] = (struct save_file) { name_of(model, rank, list.arena),
                                                  list.sources, list.count };
        for (size_t i = 0; i < list.count; i++) {
            size_t bytes = 0;

            safetensors_source_bytes(&list.sources[i], &bytes, NULL);
            all.bytes += bytes;
        }
    }
    if (ranks > 1)
        ok = weight_shards_write_index(&all, share->dir, STEM, err);
    arena_free(list.arena);
    return ok;
}

/* ---- Reading ---- */

/* A tensor of which a file has only a part. */
struct piece {
    const char *name; /* of the whole tensor: `len` bytes */
    size_t len, first, end;
    const struct stored_tensor *stored;
};

struct optimizer_file {
    struct safetensors *set;
    struct piece *pieces; /* by name and first element */
    size_t count;
};

bool optimizer_file_exists(const char *dir)
{
    return safetensors_exist(dir, STEM);
}

/* Read NAME[first:end]. */
static bool read_name(const struct stored_tensor *stored, struct piece *out)
{
    const char *open = strrchr(stored->name, '[');
    char *end;

    if (!open || !isdigit((unsigned char)open[1]))
        return false;
    *out = (struct piece) { .name = stored->name,
                            .len = (size_t)(open - stored->name),
                            .stored = stored };
    out->first = strtoull(open + 1, &end, 10);
    if (end[0] != ':' || !isdigit((unsigned char)end[1]))
        return false;
    out->end = strtoull(end + 1, &end, 10);
    return strcmp(end, "]") == 0 && out->end > out->first;
}

static int compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_place(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int order = compare_names(x->name, x->len, y->name, y->len);

    return order ? order : (x->first > y->first) - (x->first < y->first);
}

struct optimizer_file *optimizer_file_open(const char *dir, struct error *err)
{
    struct safetensors *set = safetensors_open(dir, STEM, false, err);
    struct optimizer_file *file;

    if (!set)
        return NULL;
    file = memory_alloc(sizeof(*file));
    *file = (struct optimizer_file) {
        .set = set,
        .pieces = memory_alloc((safetensors_count(set) + 1) * sizeof(*file->pieces))
    };
    for (size_t i = 0; i < safetensors_count(set); i++)
        file->count += read_name(safetensors_at(set, i), &file->pieces[file->count]);
    qsort(file->pieces, file->count, sizeof(*file->pieces), by_place);
    return file;
}

void optimizer_file_close(struct optimizer_file *file)
{
    if (!file)
        return;
    safetensors_close(file->set);
    free(file->pieces);
    free(file);
}

/* Return whether every value of a format is one of another format. */
static bool widens(enum format from, enum format to)
{
    return (from == FORMAT_FP16 || from == FORMAT_BF16) && to == FORMAT_FP32;
}

/* A run that is healed may resume in float32. */
bool optimizer_file_check(const struct stored_tensor *stored, size_t count,
                          enum format format, const char *name, struct error *err)
{
    const struct format_info *to = format_info(format);

    if (!stored)
        return error_set(
            err, ERROR_DATA,
            "the checkpoint has no %s: it was saved with another model or method, or "
            "with save_only_model: true",
            name);
    if (format == FORMAT_CODES
            ? strcmp(stored->dtype, to->safetensors) != 0 ||
                  stored->bytes != count * to->bytes
            : (stored->format != format && !widens(stored->format, format)) ||
                  stored->bytes != count * format_info(stored->format)->bytes)
        return error_set(
            err, ERROR_DATA,
            "the checkpoint has %s as %zu bytes of %s, this run requires %zu of %s", name,
            stored->bytes, stored->dtype, count * to->bytes, to->safetensors);
    return true;
}

const void *optimizer_file_widen(const struct stored_tensor *stored, size_t count,
                                 enum format format, void **copy, struct error *err)
{
    size_t bytes = count * format_info(format)->bytes;

    *copy = NULL;
    if (stored->format == format || format == FORMAT_CODES)
        return stored->data;
    *copy = malloc(bytes);
    if (!*copy) {
        error_set(err, ERROR_MEMORY, "cannot allocate %zu MiB to read a tensor",
                  bytes >> 20);
        return NULL;
    }
    format_convert(*copy, format, stored->data, stored->format, count);
    return *copy;
}

/* A tensor of which other files have other parts; count 0: there is none. */
struct pieces {
    const struct piece *list;
    size_t count;
};

static struct pieces find_pieces(const struct optimizer_file *file, const char *name)
{
    size_t low = 0, high = file->count, len = strlen(name);
    struct pieces out = { 0 };

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct piece *piece = &file->pieces[middle];

        if (compare_names(piece->name, piece->len, name, len) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    out.list = file->pieces + low;
    while (low < file->count &&
           compare_names(file->pieces[low].name, file->pieces[low].len, name, len) == 0)
        low++;
    out.count = (size_t)(file->pieces + low - out.list);
    return out;
}

/* Check that the pieces are a whole tensor. */
static bool check_pieces(const struct pieces *pieces, size_t count, enum format format,
                         const char *name, struct error *err)
{
    size_t at = 0;

    for (size_t i = 0; i < pieces->count; at = pieces->list[i++].end) {
        const struct piece *piece = &pieces->list[i];

        if (piece->first != at || piece->end > count)
            break;
        if (!optimizer_file_check(piece->stored, piece->end - piece->first, format,
                                  piece->stored->name, err))
            return false;
    }
    return at == count ||
           error_set(err, ERROR_DATA,
                     "the checkpoint has the elements of %s up to %zu, this run requires "
                     "%zu",
                     name, at, count);
}

static char *name_with(const struct parameter *p, const char *suffix)
{
    struct text name;

    text_init(&name, 0);
    text_addf(&name, "%s%s", p->name, suffix);
    return text_detach(&name, NULL);
}

/* Join the pieces of a tensor. */
static bool join(const struct pieces *pieces, size_t count, enum format format,
                 struct optimizer_weight *out, struct error *err)
{
    size_t item = format_info(format)->bytes;
    char *all = malloc(count * item);

    if (!all)
        return error_set(err, ERROR_MEMORY, "cannot allocate %zu MiB to read a tensor",
                         count * item >> 20);
    for (size_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];

        format_convert(all + piece->first * item, format, piece->stored->data,
                       piece->stored->format, piece->end - piece->first);
    }
    out->data = out->copy = all;
    return true;
}

bool optimizer_file_weight(const struct optimizer_file *file, const struct parameter *p,
                           struct optimizer_weight *out, struct error *err)
{
    char *name = name_with(p, WEIGHT_SUFFIX);
    const struct stored_tensor *stored = safetensors_find(file->set, name);
    struct pieces pieces = find_pieces(file, name);
    const size_t count = elements_of(p);
    const enum format format = p->weight.format;
    bool ok = true;

    *out = (struct optimizer_weight) { 0 };
    if (stored)
        ok = optimizer_file_check(stored, count, format, p->name, err) &&
             (out->data = optimizer_file_widen(stored, count, format, &out->copy, err));
    else if (pieces.count > 0)
        ok = check_pieces(&pieces, count, format, name, err) &&
             join(&pieces, count, format, out, err);
    free(name);
    return ok;
}

static bool load_piece(struct model *model, enum moment moment, const struct parameter *p,
                       const struct piece *piece, struct error *err)
{
    const struct shape_moment *kept = &p->moments[moment];
    size_t count = piece->end - piece->first;
    const void *data;
    void *copy;

    if (!model_has_elements(model, moment, p, piece->first, count))
        return true;
    data = optimizer_file_widen(piece->stored, count, kept->format, &copy, err);
    if (!data)
        return false;
    model_write_elements(model, moment, p, piece->first, count, data);
    free(copy);
    return true;
}

static bool load_moment(const struct optimizer_file *file, struct model *model,
                        enum moment moment, const struct parameter *p, const char *name,
                        struct error *err)
{
    const struct shape_moment *kept = &p->moments[moment];
    struct pieces pieces = find_pieces(file, name);
    struct piece whole = { .end = kept->count,
                           .stored = safetensors_find(file->set, name) };
    bool ok;

    if (whole.stored || pieces.count == 0)
        return optimizer_file_check(whole.stored, kept->count, kept->format, p->name,
                                    err) &&
               load_piece(model, moment, p, &whole, err);
    ok = check_pieces(&pieces, kept->count, kept->format, name, err);
    for (size_t i = 0; ok && i < pieces.count; i++)
        ok = load_piece(model, moment, p, &pieces.list[i], err);
    return ok;
}

bool optimizer_file_refuse_frozen(const char *name, const char *dir, struct error *err)
{
    return error_set(err, ERROR_JOB,
                     "the job of the checkpoint %s has trained %s, which this job "
                     "freezes, as it is in model_name_or_path; freeze the same parts as "
                     "that job, or begin with its model in place of resuming: "
                     "model_name_or_path: %s",
                     dir, name, dir);
}

static bool has_moment(const struct optimizer_file *file, const struct model *model,
                       const struct parameter *p)
{
    const char *suffix = model_optimizer(model)->suffixes[0];
    char *name = suffix ? name_with(p, suffix) : NULL;
    const bool has =
        name && (safetensors_find(file->set, name) || find_pieces(file, name).count > 0);

    free(name);
    return has;
}

bool optimizer_file_check_frozen(const struct optimizer_file *file, struct model *model,
                                 const char *dir, struct error *err)
{
    bool ok = true;

    for (size_t i = 0; model_moments(model) > 0 && i < model_parameters(model); i++) {
        const struct parameter *p = model_parameter(model, i);

        if (!p->trainable && has_moment(file, model, p))
            return optimizer_file_refuse_frozen(p->name, dir, err);
    }
    for (size_t i = 0; ok && i < safetensors_count(file->set); i++) {
        const char *name = safetensors_at(file->set, i)->name, *dot = strrchr(name, '.');
        struct text parameter;

        if (!dot)
            continue;
        text_init(&parameter, 0);
        text_addf(&parameter, "%.*s", (int)(dot - name), name);
        ok = !saved_is_of_frozen_tower(model, parameter.data) ||
             optimizer_file_refuse_frozen(parameter.data, dir, err);
        text_clear(&parameter);
    }
    return ok;
}

bool optimizer_file_load(const struct optimizer_file *file, struct model *model,
                         const struct parameter *p, struct error *err)
{
    bool ok = true;

    for (size_t i = 0; ok && i < model_moments(model); i++) {
        const char *suffix = model_optimizer(model)->suffixes[i];
        char *name;

        if (p->moments[i].count == 0 || !suffix)
            continue;
        name = name_with(p, suffix);
        ok = load_moment(file, model, (enum moment)i, p, name, err);
        free(name);
    }
    return ok;
}
