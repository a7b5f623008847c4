/* train/model/shapes_media.c - the dimensions of rows of images and sounds. */
#include "config.h"

#include "train/model/lora_config.h"
#include "train/model/shapes_internal.h"

/* LLaMA-Factory trains it in full and freeze tuning unless freeze_multi_modal_projector is
 * true, and next to adapters if additional_target names it.  A model that trains nothing has the
 * one that its adapter has trained, or, as the reference of a model that trains it, its own. */
static bool trains_projector(const struct plan *plan, const struct model_config *config,
                             const struct lora *lora)
{
    if (!config->media.projector.path)
        return false;
    if (plan->generation.projects)
        return true;
    if (plan->generation.alone && !(plan_adapts(plan) && plan->adapter_name_or_path))
        return false;
    return plan_adapts(plan) ? lora->saved[MODULE_PROJECTOR_LAST]
                             : !plan->freeze_multi_modal_projector;
}

bool shapes_trains_projector(const struct plan *plan, const struct model_config *config)
{
    struct error ignored = { 0 };
    struct lora lora;

    return lora_read(plan, config, &lora, &ignored) &&
           trains_projector(plan, config, &lora);
}

bool shapes_trains_encoder(const struct plan *plan, const struct model_config *config)
{
    struct error ignored = { 0 };
    struct lora lora;

    return plan_trains_encoder(plan) && config->media.projector.path &&
           (!plan_adapts(plan) ||
            (lora_read(plan, config, &lora, &ignored) && lora.encoder_count > 0));
}

/* Return whether a new adapter starts from a model into which another one is merged that has
 * trained the projector. */
static bool merges_projector(const struct plan *plan, const struct model_config *config)
{
    struct error ignored = { 0 };
    struct lora lora;

    return plan_adapts(plan) && plan->create_new_adapter && plan->adapter_name_or_path &&
           lora_config_read(plan->adapter_name_or_path, config, &lora, &ignored) &&
           lora.saved[MODULE_PROJECTOR_LAST];
}

bool shapes_projects(const struct plan *plan, const struct model_config *config)
{
    return config->media.projector.path &&
           (shapes_trains_encoder(plan, config) ||
            shapes_trains_projector(plan, config) || merges_projector(plan, config));
}

void shapes_projector_dims(struct shapes_builder *m)
{
    const struct projector_config *p = &m->config->media.projector;
    size_t *d = m->dims;

    m->out->trains_projector = shapes_trains_projector(m->plan, m->config);
    m->out->projects = shapes_projects(m->plan, m->config);
    m->out->trains_encoder = shapes_trains_encoder(m->plan, m->config);
    if (!m->out->projects)
        return;
    d[DIM_PROJECTOR_NORM] = p->norm ? p->norm_size : 0;
    d[DIM_PROJECTOR_IN] = p->in;
    d[DIM_PROJECTOR_MERGED] = p->merged;
    d[DIM_PROJECTOR_FIRST] = p->merge ? p->merged : p->in;
    d[DIM_PROJECTOR_INNER] = p->inner;
    d[DIM_PROJECTOR_MIDDLE] = p->middle_norm ? p->inner : 0;
    d[DIM_PROJECTOR_GATED] = p->gated;
    d[DIM_PROJECTOR_GATES] = 2 * p->gated;
    d[DIM_PROJECTOR_LAST] = p->gate ? p->gated : p->first ? p->inner : p->in;
}

bool shapes_projector_has(const struct shapes_builder *m, enum module module,
                          enum part part)
{
    const struct projector_config *p = &m->config->media.projector;

    if (!m->out->projects || !projector_config_name(p, module) || part > PART_BIAS)
        return false;
    if (part == PART_WEIGHT)
        return true;
    if (module == MODULE_PROJECTOR_NORM)
        return norm_has_bias(p->norm_kind);
    return module == MODULE_PROJECTOR_MIDDLE ||
           (p->biased &&
            (module == MODULE_PROJECTOR_FIRST || module == MODULE_PROJECTOR_LAST));
}

void shapes_media_dims(struct shapes_builder *m, size_t rows)
{
    const struct media_config *media = &m->config->media;
    size_t *d = m->dims;

    d[DIM_MEDIA] = m->media_rows;
    d[DIM_ADAPTER_ROWS] = rows;
    if (m->out->lora.adapted[MODULE_CROSS_K] || m->out->lora.adapted[MODULE_CROSS_V])
        d[DIM_ADAPTER_ROWS] = m->media_rows > rows ? m->media_rows : rows;
    if (m->config->crosses) /* a medium has at least one row, and one token */
        d[DIM_CROSS_PARTS] =
            m->out->sequences + 2 + (m->media_rows < rows ? m->media_rows : rows);
    if (m->config->crosses && (m->out->trains_projector || m->out->trains_encoder))
        d[DIM_CROSS_DROWS] = m->media_rows;
    if (m->media_rows == 0)
        return;
    d[DIM_MEDIA_DEEP] = shapes_times(m, m->media_rows, media->deep);
    if (d[DIM_PROJECTOR_NORM] > 0) {
        d[DIM_MEDIA_NORMED] =
            shapes_times(m, m->media_rows, d[DIM_PROJECTOR_IN] / d[DIM_PROJECTOR_NORM]);
        d[DIM_MEDIA_STATS] =
            norm_is_centered(m->config->media.projector.norm_kind) ? 2 : 1;
    }
    d[DIM_MEDIA_MIDDLE_STATS] = d[DIM_PROJECTOR_MIDDLE] > 0 ? 2 : 0;
    d[DIM_ROPE_ROWS] = media_config_has_grids(media) ? rows : 0;
    d[DIM_BLOCK_ROWS] = media->blocks ? rows : 0;
}
