/* train/teacher/distillation.c - loads a teacher or a reference next to the model, or a
 * file of a teacher's logits. */
#include "config.h"

#include "train/teacher/distillation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "train/model/cross_layers.h"
#include "train/model/parallel.h"
#include "train/teacher/teacher_logits.h"
#include "train/teacher/teacher_plan.h"

struct distillation {
    struct distillation_options options;
    struct arena *arena;
    struct teacher_plan teacher;
    struct model *model;         /* the teacher, next to the student */
    size_t shared_tokens;        /* tokens that both vocabularies have */
    struct teacher_logits *file; /* or the file that replaces the teacher */
    int32_t *ids;                /* logits of a batch of up to `room` rows */
    float *values;
    size_t room;
};

/* ---- The teacher ---- */

/* The reference computes likelihoods of the same tokens; its vocabulary may differ
 * otherwise. */
static bool check_reference(const struct distillation *t, struct error *err)
{
    size_t tokens = model_config_tokens(&t->teacher.config);

    return dataset_token_max(t->options.data) < tokens ||
           error_set(err, ERROR_DATA,
                     "the data contain token %u, but the reference "
                     "has only %zu (vocab_size in config.json); "
                     "ref_model must be of the same family",
                     dataset_token_max(t->options.data), tokens);
}

/* Check that the teacher has every token of the data. */
static bool check_tokens(struct distillation *t, struct error *err)
{
    const struct distillation_options *o = &t->options;

    if (o->plan->stage != STAGE_GRPO &&
        !model_config_check_positions(&t->teacher.config, dataset_positions_max(o->data),
                                      err))
        return false;
    if (o->plan->stage >= STAGE_DPO)
        return check_reference(t, err);
    if (!teacher_plan_shared_tokens(&t->teacher.config, o->student, o->tokens,
                                    &t->shared_tokens, err))
        return false;
    return dataset_token_max(o->data) < t->shared_tokens ||
           error_set(err, ERROR_DATA,
                     "the data contain token %u, but the teacher has only %zu "
                     "(vocab_size in config.json) and the student %zu; they must be "
                     "of the same family",
                     dataset_token_max(o->data), t->teacher.config.vocab_size,
                     o->student->vocab_size);
}

static bool load_teacher(struct distillation *t, bool keeps, struct error *err)
{
    const struct distillation_options *o = &t->options;
    struct model_options options = { .plan = &t->teacher.plan,
                                     .config = &t->teacher.config,
                                     .backend = o->backend,
                                     .rows_max = o->rows,
                                     .sequences_max = o->sequences,
                                     .media_rows_max = o->media_rows,
                                     .rank = parallel_rank(o->group) };

    if (!teacher_plan_make(o->plan, keeps, t->arena, &t->teacher, err) ||
        (o->student->crosses && !cross_layers_join(&t->teacher.config, t->arena, err)) ||
        !check_tokens(t, err))
        return false;
    t->model = model_new(&options, err);
    if (!t->model)
        return false;
    model_set_media(t->model, o->media);
    model_set_heartbeat(t->model, o->heartbeat);
    return model_load(t->model, err);
}

/* ---- The file ---- */

static size_t logits_per_row(const struct distillation *t)
{
    size_t kept = (size_t)t->options.plan->kd.topk;

    return kept < t->shared_tokens ? kept : t->shared_tokens;
}

static void make_room(struct distillation *t, size_t rows, size_t kept)
{
    if (rows <= t->room)
        return;
    t->room = rows;
    t->ids = memory_resize(t->ids, rows, kept * sizeof(*t->ids));
    t->values = memory_resize(t->values, rows, kept * sizeof(*t->values));
}

static bool add_batch(struct distillation *t, struct teacher_writer *writer,
                      const struct batch *batch, struct error *err)
{
    if (!heartbeat_tick(t->options.heartbeat))
        return error_set(err, ERROR_STOPPED,
                         "stopped while the teacher's logits "
                         "were computed; none of them are saved");
    make_room(t, batch->rows, logits_per_row(t));
    return model_top_logits(t->model, batch, t->shared_tokens, t->ids, t->values, err) &&
           teacher_writer_add(writer, batch, t->ids, t->values, err);
}

/* Add all samples: in batches, then those that drop_last leaves, one by one. */
static bool add_all(struct distillation *t, struct teacher_writer *writer,
                    struct error *err)
{
    const struct dataset *data = t->options.data;
    size_t size = (size_t)t->options.plan->per_device_train_batch_size;
    size_t batches = dataset_batches(data, size);
    struct batch batch = { 0 };
    bool ok = true;

    for (size_t i = 0; ok && i < batches; i++)
        ok = dataset_batch(data, 0, i, size, &batch) && add_batch(t, writer, &batch, err);
    for (size_t i = batches * size; ok && i < dataset_samples(data); i++)
        ok = dataset_batch(data, 0, i, 1, &batch) && add_batch(t, writer, &batch, err);
    batch_clear(&batch);
    return ok;
}

static bool write_file(struct distillation *t, struct error *err)
{
    const struct distillation_settings *kd = &t->options.plan->kd;
    const struct dataset *data = t->options.data;
    size_t samples = dataset_samples(data);
    struct teacher_logits_kind kind = { .kept = logits_per_row(t),
                                        .vocabulary = t->shared_tokens };
    struct teacher_writer *writer;
    bool ok;

    if (!teacher_logits_teacher(kd->teacher, kd->adapter, kind.teacher, err))
        return false;
    writer = teacher_writer_new(kd->logits, &kind, dataset_sequences_max(data, samples),
                                dataset_trained(data, 0, 0, samples, 1), err);
    ok = writer && add_all(t, writer, err) && teacher_writer_finish(writer, err);
    teacher_writer_free(writer);
    return ok;
}

static bool make_file(struct distillation *t, struct error *err)
{
    const struct distillation_settings *kd = &t->options.plan->kd;
    struct log *log = t->options.log;
    bool ok;

    if (!kd->teacher)
        return error_set(err, ERROR_DATA,
                         "%s does not exist, and the job names no teacher to make it: "
                         "teacher_model_name_or_path",
                         kd->logits);
    log_line(log, LOG_INFO, "teacher: %s computes %s for %zu samples", kd->teacher,
             kd->logits, dataset_samples(t->options.data));
    ok = load_teacher(t, true, err) && write_file(t, err);
    model_free(t->model);
    t->model = NULL;
    return ok;
}

static bool check_kind(const struct distillation *t, struct error *err)
{
    const struct teacher_logits_kind *kind = teacher_logits_kind(t->file);
    const struct distillation_settings *kd = &t->options.plan->kd;
    size_t expected =
        (size_t)kd->topk < kind->vocabulary ? (size_t)kd->topk : kind->vocabulary;
    char teacher[DIGEST_TEXT];

    if (kind->kept != expected)
        return error_set(err, ERROR_DATA,
                         "%s has %zu logits of each token, but kd_topk is %" PRId64
                         ": set kd_topk to that, or remove the file to make it again",
                         kd->logits, kind->kept, kd->topk);
    if (kind->vocabulary > t->options.student->vocab_size ||
        dataset_token_max(t->options.data) >= kind->vocabulary)
        return error_set(
            err, ERROR_DATA,
            "%s has a vocabulary of %zu tokens, but the student has %zu, and the data "
            "contain token %u; they must be of the same family",
            kd->logits, kind->vocabulary, t->options.student->vocab_size,
            dataset_token_max(t->options.data));
    if (!kd->teacher || !file_is_dir(kd->teacher))
        return true;
    return teacher_logits_teacher(kd->teacher, kd->adapter, teacher, err) &&
           (strcmp(teacher, kind->teacher) == 0 ||
            error_set(err, ERROR_DATA,
                      "%s was made by another teacher, not "
                      "%s%s%s; remove it to make it again",
                      kd->logits, kd->teacher, kd->adapter ? " with " : "",
                      kd->adapter ? kd->adapter : ""));
}

/* Rank 0 makes the file if it does not exist; the other ranks wait for its message. */
static bool open_file(struct distillation *t, struct error *err)
{
    const struct backend_group *group = t->options.group;
    const struct distillation_settings *kd = &t->options.plan->kd;
    char *message = memory_strdup("exists");
    bool ok;

    if (kd->topk <= 0)
        ok = error_set(err, ERROR_JOB,
                       "teacher_logits requires kd_topk: all "
                       "logits of a teacher are too many to store");
    else
        ok = parallel_rank(group) > 0 || file_exists(kd->logits) || make_file(t, err);
    ok = ok && parallel_share_text(group, &message, err);
    free(message);
    if (!ok)
        return false;
    t->file = teacher_logits_open(kd->logits, err);
    return t->file && check_kind(t, err);
}

/* ---- Teacher or file ---- */

struct distillation *distillation_open(const struct distillation_options *options,
                                       struct error *err)
{
    struct distillation *t = memory_alloc(sizeof(*t));

    t->options = *options;
    t->arena = arena_new();
    if (plan_teacher_logits(options->plan) ? open_file(t, err)
                                           : load_teacher(t, false, err))
        return t;
    distillation_close(t);
    return NULL;
}

void distillation_close(struct distillation *distillation)
{
    if (!distillation)
        return;
    model_free(distillation->model);
    teacher_logits_close(distillation->file);
    free(distillation->ids);
    free(distillation->values);
    arena_free(distillation->arena);
    free(distillation);
}

void distillation_attach(struct distillation *distillation, struct model *student)
{
    if (!distillation->model)
        return;
    if (distillation->options.plan->stage >= STAGE_DPO)
        model_set_reference(student, distillation->model);
    else
        model_set_teacher(student, distillation->model);
}

bool distillation_batch(struct distillation *distillation, struct model *student,
                        const struct batch *batch, struct error *err)
{
    struct distillation *t = distillation;
    const struct teacher_logits_kind *kind;

    if (!t->file)
        return true;
    kind = teacher_logits_kind(t->file);
    make_room(t, batch->rows, kind->kept);
    if (!teacher_logits_find(t->file, batch, t->ids, t->values, err))
        return false;
    model_set_teacher_logits(student, batch->rows, t->ids, t->values, kind->vocabulary);
    return true;
}

uint64_t distillation_bytes(const struct distillation *distillation)
{
    return distillation->model ? model_memory(distillation->model)->low : 0;
}

void distillation_describe(const struct distillation *distillation, char *out,
                           size_t room)
{
    const struct precision *p = &distillation->teacher.plan.precision;
    const struct distillation_settings *kd = &distillation->options.plan->kd;
    char bytes[16];

    if (distillation->file) {
        snprintf(out, room, "%s, the %zu largest logits of %zu samples", kd->logits,
                 teacher_logits_kind(distillation->file)->kept,
                 teacher_logits_samples(distillation->file));
        return;
    }
    memory_text(distillation_bytes(distillation), bytes);
    snprintf(out, room, "%s, %" PRIu64 " parameters in %s, %s in memory",
             distillation->teacher.plan.model_name_or_path,
             model_total_elements(distillation->model), format_info(p->frozen)->name,
             bytes);
}
