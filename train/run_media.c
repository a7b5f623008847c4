/* train/run_media.c - where the rows of features of a run's images and sounds are. */
#include "config.h"

#include "train/run_media.h"

#include "base/size.h"
#include "train/media_item.h"
#include "train/model/shapes.h"
#include "train/run.h"
#include "train/tower/tower.h"
#include "train/trained_encoder.h"

static size_t count_of(const struct dataset *data)
{
    return data ? dataset_media(data) : 0;
}

static bool has_media(const struct run_media_data *data)
{
    return count_of(data->train) + count_of(data->eval) + count_of(data->whole) > 0;
}

/* All media of a model are of one kind. */
static const struct media_item *first_of(const struct run_media_data *data)
{
    return dataset_medium(count_of(data->train)  ? data->train
                          : count_of(data->eval) ? data->eval
                                                 : data->whole,
                          0);
}

/* Return the rows of the medium that has the most. */
static size_t largest_of(const struct run_media_data *data)
{
    const struct dataset *const all[] = { data->train, data->eval, data->whole };
    size_t most = 0;

    for (size_t i = 0; i < TS_COUNT(all); i++)
        for (size_t k = 0; k < count_of(all[i]); k++) {
            const size_t rows = dataset_medium(all[i], k)->rows;

            most = rows > most ? rows : most;
        }
    return most;
}

static bool find(const void *context, const struct media_item *item, struct feature *out,
                 struct error *err)
{
    const struct run_media *media = context;

    char digest[DIGEST_TEXT];

    if (media->encoder)
        return trained_encoder_rows(media->encoder, item, out, err);
    media_rows_key(item, digest);
    return features_find(media->features, media->computed ? digest : item->key, out) ||
           error_set(err, ERROR_DATA, "%s: the file of features has no rows for it",
                     item->key);
}

static bool begin(const void *context, const uint64_t *draw, struct error *err)
{
    const struct run_media *media = context;

    return !media->encoder || trained_encoder_begin(media->encoder, draw, err);
}

/* Stages whose second pass, or whose prompts, do not read rows of features. */
static bool check_stage(const struct plan *plan, struct error *err)
{
    if (plan->stage == STAGE_DISTILL)
        return error_set(err, ERROR_JOB,
                         "stage: distill does not support images or "
                         "sounds; remove them from the data, or train "
                         "with stage: sft");
    if (plan->stage == STAGE_GRPO)
        return error_set(err, ERROR_JOB,
                         "stage: grpo does not support images or sounds; remove them "
                         "from the data, or train with stage: sft or dpo");
    return true;
}

static bool check_features(const struct plan *plan, const struct model_config *config,
                           struct error *err)
{
    struct features *features = features_open(plan->features, err);
    const bool trained = shapes_projects(plan, config);
    const size_t wanted = trained ? config->media.projector.in : config->hidden_size;
    size_t width = features ? features_width(features) : 0,
           deep = features ? features_deep(features) : 0,
           deep_width = features ? features_deep_width(features) : 0;

    features_close(features);
    if (!features)
        return false;
    if (width != wanted)
        return error_set(err, ERROR_DATA,
                         "%s: rows of features have %zu columns, but the %s has %zu; "
                         "are they the output of the %s?",
                         plan->features, width, trained ? "trained projector" : "model",
                         wanted, trained ? "encoder" : "projector");
    if (config->media.deep > 0 && deep > 0 && deep_width != config->hidden_size)
        return error_set(
            err, ERROR_DATA,
            "%s: rows for the first layers (#deep0 ..) have %zu columns, but "
            "the model has %zu",
            plan->features, deep_width, config->hidden_size);
    return deep >= config->media.deep ||
           error_set(
               err, ERROR_DATA,
               "%s has %zu tensors of rows for the first layers (#deep0 ..) of each "
               "medium, but the model has %zu",
               plan->features, deep, config->media.deep);
}

/* Rows that a trained encoder computes change from step to step. */
static bool check_encoder(const struct plan *plan, const struct model_config *config,
                          struct error *err)
{
    if (!plan_trains_encoder(plan) ||
        (plan_adapts(plan) && !shapes_trains_encoder(plan, config)))
        return true;
    if (config->encoder.count == 0)
        return error_set(err, ERROR_JOB,
                         "freeze_vision_tower: false is not supported for this model%s%s",
                         config->encoder.why ? ": " : "",
                         config->encoder.why ? config->encoder.why : "");
    if (plan->features)
        return error_set(err, ERROR_JOB,
                         "features has the rows of an encoder as it is, but "
                         "freeze_vision_tower: false trains it; remove one of the keys");
    if (plan->stage != STAGE_SFT && plan->stage != STAGE_PT)
        return error_set(err, ERROR_JOB,
                         "freeze_vision_tower: false requires stage: sft or pt; remove "
                         "the key for other stages");
    /* torch numbers the parameters of an encoder in the order of its classes */
    if (plan->save_torch_state)
        return error_set(err, ERROR_JOB,
                         "save_torch_state is not supported with freeze_vision_tower: "
                         "false; remove one of the keys");
    return true;
}

bool run_media_check(const struct plan *plan, const struct model_config *config,
                     const struct run_media_data *data, struct error *err)
{
    if (!has_media(data))
        return true;
    return check_stage(plan, err) && check_encoder(plan, config, err) &&
           (plan->features ? check_features(plan, config, err)
                           : tower_check(plan->model_name_or_path,
                                         !shapes_projects(plan, config), err));
}

bool run_media_open(const struct plan *plan, const struct run_media_data *data,
                    struct run_media *out, struct error *err)
{
    *out = (struct run_media) { .data = *data };
    if (!has_media(data))
        return true;
    out->rows = (struct model_media) { .feature = find, .context = out, .begin = begin };
    out->computed = !plan->features;
    out->features = plan->features ? features_open(plan->features, err) : NULL;
    return out->computed || out->features != NULL;
}

bool run_media_compute(struct run_media *media, const struct model_config *config,
                       struct media_rows_options how, struct error *err)
{
    const struct run_media_data *data = &media->data;

    if (!media->computed || shapes_trains_encoder(how.plan, config))
        return true;
    how.config = config;
    how.project = !shapes_projects(how.plan, config);
    how.data[0] = data->train;
    how.data[1] = data->eval;
    how.data[2] = data->whole;
    media->features = media_rows_open(&how, err);
    return media->features != NULL;
}

bool run_media_encode(struct run *run, struct error *err)
{
    const struct media_rows_options how = { .plan = run->plan,
                                            .backend = run->be,
                                            .group = run->options->group,
                                            .log = run->options->log,
                                            .heartbeat = run->options->heartbeat };

    return run_media_compute(&run->media, &run->config, how, err);
}

bool run_media_train(struct run *run, struct error *err)
{
    struct run_media *media = &run->media;
    struct trained_encoder_options options = {
        .plan = run->plan,
        .config = &run->config,
        .model = run->model,
        .heartbeat = run->options->heartbeat,
    };

    if (!media->computed || !shapes_trains_encoder(run->plan, &run->config))
        return true;
    /* what is damaged inside is found now, and not when a step reads it */
    if (!media_items_verify(run->plan, run->train, run->options->heartbeat, err) ||
        !media_items_verify(run->plan, run->eval, run->options->heartbeat, err))
        return false;
    if (plan_ranks(run->plan) > 1) {
        media->unstopped = heartbeat_unstopped(run->options->heartbeat);
        options.heartbeat = &media->unstopped;
        model_expect_late_gradients(run->model);
    }
    options.kind = first_of(&media->data)->kind;
    options.rows = largest_of(&media->data);
    media->encoder = trained_encoder_open(&options, err);
    if (media->encoder)
        log_line(run->options->log, LOG_INFO,
                 "media: training the encoder, which has %zu parameters",
                 trained_encoder_elements(media->encoder));
    return media->encoder != NULL;
}

bool run_media_backward(struct run *run, const struct batch *batch, struct error *err)
{
    if (!run->media.encoder)
        return true;
    if (!trained_encoder_backward(run->media.encoder, batch, err))
        return false;
    model_reduce_late(run->model);
    return true;
}

void run_media_close(struct run_media *media)
{
    trained_encoder_close(media->encoder);
    features_close(media->features);
    *media = (struct run_media) { 0 };
}
