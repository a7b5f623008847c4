/* train/model/model_surplus.c - every tensor of the base's files is a part of the model. */
#include "config.h"

#include "train/model/model.h"

#include <string.h>

#include "train/model/model_parts.h"

static bool is_weight_of(const char *name, const char *path)
{
    return text_starts(name, path) && strcmp(name + strlen(path), ".weight") == 0;
}

/* Stored beside the weights, and not missed. */
static bool is_ignored(const struct model *m, const char *name)
{
    const struct architecture *architecture = m->config->architecture;

    for (size_t i = 0; architecture->ignored[i]; i++)
        if (text_ends(name, architecture->ignored[i]))
            return true;
    return m->config->tied && is_weight_of(name, architecture->paths[MODULE_HEAD]);
}

static bool is_parameter(const struct model *m, const struct stored_tensor *t)
{
    for (size_t i = 0; i < m->shapes.count; i++)
        if (model_find_stored(m, m->shapes.parameters[i].name) == t ||
            model_is_beside(m, &m->parameters[i], t))
            return true;
    return false;
}

/* Counted first: names are compared one by one only to tell which one is too many. */
bool model_check_surplus(const struct model *m, struct error *err)
{
    size_t stored = safetensors_count(m->files), known = 0;

    for (size_t i = 0; i < m->shapes.count; i++) {
        known += model_find_stored(m, m->shapes.parameters[i].name) != NULL;
        known += m->config->quantised.on ? model_count_beside(m, &m->parameters[i]) : 0;
    }
    for (size_t i = 0; i < stored; i++)
        known += is_ignored(m, safetensors_at(m->files, i)->name);
    for (size_t i = 0; known < stored && i < stored; i++) {
        const struct stored_tensor *t = safetensors_at(m->files, i);

        if (!is_parameter(m, t) && !is_ignored(m, t->name))
            return model_refuse_bits(m, t, err) &&
                   error_set(
                       err, ERROR_DATA,
                       "%s: the tensor %s is no part of a %s model as config.json has it",
                       t->file, t->name, m->config->architecture->model_type);
    }
    return true;
}
