/* train/tower/tower_trained.c - the list of an encoder's tensors for the model that trains it. */
#include "config.h"

#include "train/tower/tower_trained.h"

#include <string.h>

#include "base/size.h"
#include "train/tower/tower_adapters.h"

/* Files of models have few thousand tensors; the alignment of the list is not used. */
enum { ALIGNMENT = 64 };

struct listing {
    const struct tower_config *tower;
    const struct safetensors *files; /* or NULL */
    struct arena *arena;
    struct encoder_tensor *out;
    size_t count;
};

const char *tower_trained_not(const struct tower_config *config)
{
    if (config->family->encoder->scaled)
        return "it has learned scales";
    if (config->family->encoder->class_last)
        return "its class token comes after the patches";
    if (config->family->encoder->conformer)
        return "it is a Conformer";
    return config->family->encoder->norm_first ? "it adds positions after a norm" : NULL;
}

size_t tower_trained_parts(const struct tower_config *config,
                           const struct tower_parameter *parameter)
{
    size_t count = 0;

    for (size_t part = 0; part < parameter->parts; part++)
        count +=
            !parameter->bias || tower_config_has_bias(config, parameter->layer, part);
    return count;
}

void tower_trained_adapters(const struct tower_config *config,
                            const struct tower_parameters *parameters,
                            const struct encoder_adapter *adapters,
                            struct tower_adapter *out)
{
    for (size_t i = 0; i < parameters->count; i++) {
        const size_t parts = tower_trained_parts(config, &parameters->list[i]);

        for (size_t part = 0; !parameters->list[i].bias && part < parts; part++)
            out[i * TOWER_PARTS_MAX + part] =
                (struct tower_adapter) { adapters[part].a, adapters[part].b,
                                         adapters[part].da, adapters[part].db };
        adapters += parts;
    }
}

static const char *name_of(const struct listing *l, const struct tower_parameter *p,
                           size_t part)
{
    const char *const *prefixes = l->tower->family->prefixes;
    struct error ignored = { 0 };
    const struct stored_tensor *t =
        l->files ? tower_parameter_stored(l->files, l->tower, p, part, &ignored) : NULL;
    const char *out;
    struct text name;

    if (t)
        return arena_strdup(l->arena, t->name);
    text_init(&name, 0);
    text_adds(&name, prefixes[0]);
    tower_parameter_name(l->tower, p, part, &name);
    out = arena_strdup(l->arena, name.data);
    text_clear(&name);
    return out;
}

/* transformers 5 has the encoder in `model`, and not as a `vision_model` of its own. */
static const char *root_of(const struct tower_config *tower)
{
    const char *const *prefixes = tower->family->prefixes;
    size_t last = 0;

    while (prefixes[last + 1])
        last++;
    return prefixes[last];
}

bool tower_trained_path(const struct tower_config *config,
                        const struct tower_parameter *parameter, size_t part,
                        struct text *out)
{
    struct text name;

    if (parameter->bias || !tower_layer_adapts(parameter->layer))
        return false;
    text_init(&name, 0);
    text_adds(&name, root_of(config));
    tower_parameter_name(config, parameter, part, &name);
    text_add(out, name.data, name.len - strlen(".weight"));
    text_clear(&name);
    return true;
}

static const char *path_of(const struct listing *l, const struct tower_parameter *p,
                           size_t part)
{
    const char *out = NULL;
    struct text path;

    text_init(&path, 0);
    if (tower_trained_path(l->tower, p, part, &path))
        out = arena_strdup(l->arena, path.data);
    text_clear(&path);
    return out;
}

/* As transformers' Trainer recognizes norms: by their class, LayerNorm, or by "norm" as the end
 * of a part of their name (get_decay_parameter_names). */
static bool is_norm(const struct listing *l, const struct tower_parameter *p,
                    const char *name)
{
    const char *dot = strrchr(name, '.');
    const size_t len = dot ? (size_t)(dot - name) : strlen(name);

    if (p->layer != TOWER_FIRST_NORM && p->layer != TOWER_NORM_1 &&
        p->layer != TOWER_NORM_2 && p->layer != TOWER_LAST_NORM &&
        p->layer != TOWER_QK_NORM && p->layer != TOWER_DEEP_NORM)
        return false;
    return !l->tower->family->encoder->rms || p->layer == TOWER_DEEP_NORM ||
           (len >= 5 && strncmp(name + len - 4, "norm", 4) == 0 &&
            (name[len - 5] == '.' || name[len - 5] == '_'));
}

static void add_part(struct listing *l, const struct tower_parameter *p, size_t part,
                     bool joins)
{
    struct encoder_tensor *t = &l->out[l->count++];
    const size_t elements = p->rows * p->cols / p->parts;

    *t = (struct encoder_tensor) { .name = name_of(l, p, part),
                                   .path = path_of(l, p, part),
                                   .joins = joins };
    t->rank = tower_parameter_shape(l->tower, p, t->shape);
    t->rows = t->rank > 1 ? t->shape[0] : 1;
    t->cols = elements / t->rows;
    t->multiplied = t->rank > 1 && !tower_layer_on_host(p->layer);
    t->decays = !p->bias && !is_norm(l, p, t->name);
}

/* A bias that a part does not have leaves its place. */
static void add_parameter(struct listing *l, const struct tower_parameter *p)
{
    const size_t first = l->count;

    for (size_t part = 0; part < p->parts; part++)
        if (!p->bias || tower_config_has_bias(l->tower, p->layer, part))
            add_part(l, p, part, l->count > first);
        else if (l->count > first)
            l->out[l->count - 1].gap += p->cols / p->parts;
}

void tower_trained_list(const char *model_dir, struct arena *arena,
                        struct model_config *config)
{
    struct error ignored = { 0 };
    struct tower_parameters parameters;
    struct tower_config tower;
    struct listing l = { .tower = &tower, .arena = arena };
    struct safetensors *files;

    config->encoder = (struct encoder_list) { 0 };
    if (!config->multimodal || !config->media.projector.path ||
        !tower_config_read(model_dir, config->hidden_size, arena, &tower, &ignored))
        return;
    config->encoder.why = tower_trained_not(&tower);
    if (config->encoder.why)
        return;
    tower_parameters_list(&tower, false, FORMAT_FP32, ALIGNMENT, arena, &parameters);
    l.out = arena_array(arena, TOWER_PARTS_MAX * parameters.count, sizeof(*l.out));
    files = safetensors_open(model_dir, "model", true, &ignored);
    l.files = files;
    for (size_t i = 0; i < parameters.count; i++)
        add_parameter(&l, &parameters.list[i]);
    safetensors_close(files);
    config->encoder.blocks =
        arena_printf(arena, "%s%s", root_of(&tower), tower.family->encoder->blocks);
    if (tower.family->encoder->global_blocks)
        config->encoder.global_blocks = arena_printf(
            arena, "%s%s", root_of(&tower), tower.family->encoder->global_blocks);
    config->encoder.run = tower.run;
    config->encoder.list = l.out;
    config->encoder.count = l.count;
}
