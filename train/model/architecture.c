/* train/model/architecture.c - finds architectures and the names of their modules. */
#include "config.h"

#include "train/model/architecture.h"

#include <stdlib.h>
#include <string.h>

#include "train/model/architecture_rows.h"

static const bool is_linear[MODULES] = {
    [MODULE_QKV] = true,
    [MODULE_Q] = true,
    [MODULE_K] = true,
    [MODULE_V] = true,
    [MODULE_CROSS_Q] = true,
    [MODULE_CROSS_K] = true,
    [MODULE_CROSS_V] = true,
    [MODULE_CROSS_O] = true,
    [MODULE_O] = true,
    [MODULE_GATE_UP] = true,
    [MODULE_GATE] = true,
    [MODULE_UP] = true,
    [MODULE_DOWN] = true,
    [MODULE_SHARED_GATE_UP] = true,
    [MODULE_SHARED_GATE] = true,
    [MODULE_SHARED_UP] = true,
    [MODULE_SHARED_DOWN] = true,
    [MODULE_EXPERT_GATE] = true,
    [MODULE_EXPERT_UP] = true,
    [MODULE_EXPERT_DOWN] = true,
    [MODULE_IN_QKV] = true,
    [MODULE_IN_Z] = true,
    [MODULE_IN_B] = true,
    [MODULE_IN_A] = true,
    [MODULE_OUT] = true,
    [MODULE_Q_A] = true,
    [MODULE_KV_A] = true,
    [MODULE_Q_B] = true,
    [MODULE_KV_B] = true,
    [MODULE_SHARED_ROUTER] = true,
    [MODULE_SCAN_IN] = true,
    [MODULE_SCAN_OUT] = true,
    [MODULE_LINEAR_ROUTER] = true,
    [MODULE_INPUT_GATE] = true,
    [MODULE_INPUT_OUT] = true,
    [MODULE_LAYER_INPUTS] = true,
    [MODULE_PROJECTOR_MERGE] = true,
    [MODULE_PROJECTOR_FIRST] = true,
    [MODULE_PROJECTOR_GATE] = true,
    [MODULE_PROJECTOR_UP] = true,
    [MODULE_PROJECTOR_LAST] = true,
};

const struct architecture *architecture_at(size_t index)
{
    if (index < rms_architecture_count)
        return &rms_architectures[index];
    index -= rms_architecture_count;
    if (index < layernorm_architecture_count)
        return &layernorm_architectures[index];
    index -= layernorm_architecture_count;
    if (index < expert_architecture_count)
        return &expert_architectures[index];
    index -= expert_architecture_count;
    if (index < latent_architecture_count)
        return &latent_architectures[index];
    index -= latent_architecture_count;
    if (index < own_architecture_count)
        return &own_architectures[index];
    index -= own_architecture_count;
    if (index < conv_architecture_count)
        return &conv_architectures[index];
    index -= conv_architecture_count;
    return index < hybrid_architecture_count ? &hybrid_architectures[index] : NULL;
}

const struct architecture *architecture_find(const char *model_type)
{
    for (size_t i = 0; architecture_at(i); i++)
        if (strcmp(architecture_at(i)->model_type, model_type) == 0)
            return architecture_at(i);
    return NULL;
}

bool architecture_is_gated(const struct architecture *a)
{
    return a->paths[MODULE_GATE] || a->paths[MODULE_GATE_UP] || a->experts.count_key;
}

bool module_in_block(enum module module)
{
    return module >= MODULE_NORM1 && module < MODULE_NORM;
}

bool module_is_linear(enum module module)
{
    return is_linear[module];
}

bool module_is_of_experts(enum module module)
{
    return module >= MODULE_EXPERT_GATE && module <= MODULE_EXPERT_DOWN;
}

bool module_is_sparse(enum module module)
{
    return (module >= MODULE_EXPERT_NORM && module <= MODULE_EXPERT_SCALE) ||
           module == MODULE_EXPERT_POST || module == MODULE_SHARED_POST ||
           module == MODULE_SHARED_ROUTER || module == MODULE_LINEAR_ROUTER ||
           module == MODULE_SHARED_DOWN || module_is_of_experts(module) ||
           (module >= MODULE_SHARED_GATE_UP && module <= MODULE_SHARED_UP);
}

bool module_is_dense(enum module module)
{
    return module == MODULE_DOWN || (module >= MODULE_GATE_UP && module <= MODULE_UP) ||
           module_is_of_activation(module);
}

bool module_in_mixer(enum module module, bool attention, bool other)
{
    bool linear = (module >= MODULE_SCAN_IN && module <= MODULE_V_NORM) ||
                  module == MODULE_OUT || module == MODULE_SCAN_OUT;
    bool full = (module >= MODULE_QKV && module <= MODULE_KV_A) ||
                (module >= MODULE_Q_NORM && module <= MODULE_O);

    return (attention || !full) && (other || !linear);
}

bool module_is_of_cross(enum module module)
{
    return (module >= MODULE_CROSS_K && module <= MODULE_CROSS_K_NORM) ||
           module == MODULE_CROSS_Q || module == MODULE_CROSS_O ||
           module == MODULE_CROSS_GATE || module == MODULE_CROSS_MLP_GATE;
}

bool module_is_bare(enum module module)
{
    return module == MODULE_CROSS_GATE || module == MODULE_CROSS_MLP_GATE ||
           module == MODULE_A_LOG || module == MODULE_DT_BIAS || module == MODULE_SINKS ||
           module == MODULE_SKIP || module == MODULE_ROUTER_SCALE ||
           module == MODULE_EXPERT_SCALE || module_is_of_activation(module) ||
           module_is_buffer(module);
}

bool module_is_table(enum module module)
{
    return module == MODULE_EMBED || module == MODULE_POSITIONS ||
           module == MODULE_LAYER_EMBED;
}

bool module_is_of_activation(enum module module)
{
    return module >= MODULE_ALPHA_P && module <= MODULE_EPS;
}

bool module_is_scalar(enum module module)
{
    return module == MODULE_BETA || module == MODULE_EPS;
}

bool module_is_buffer(enum module module)
{
    return module == MODULE_ROUTER_BIAS || module == MODULE_FACTOR ||
           module_is_scalar(module);
}

bool architecture_has_kept(const struct architecture *a)
{
    return a->kept || a->kept_end > a->kept_first;
}

bool architecture_keeps(const struct architecture *a, const char *name)
{
    size_t skip = strlen(a->blocks);
    unsigned long long block;
    char *end;

    if (a->kept && text_starts(name, a->kept))
        return true;
    if (!text_starts(name, a->blocks) || name[skip] < '0' || name[skip] > '9')
        return false;
    block = strtoull(name + skip, &end, 10);
    return *end == '.' && block >= a->kept_first && block < a->kept_end;
}

const char *architecture_leaf(const struct architecture *a, enum module module)
{
    const char *path = a->paths[module], *dot = path ? strrchr(path, '.') : NULL;

    return dot ? dot + 1 : path;
}

void architecture_name(const struct architecture *a, const struct module_place *at,
                       struct text *out)
{
    const char *path = a->paths[at->module], *star = strchr(path, '*');

    text_reset(out);
    if (module_in_block(at->module))
        text_addf(out, "%s%zu.", a->blocks,
                  a->numbers ? a->numbers[at->layer] : at->layer);
    if (star)
        text_addf(out, "%.*s%zu%s", (int)(star - path), path, at->expert, star + 1);
    else
        text_adds(out, path);
}

/* Return whether the path `whole` ends in `end`, at its start or after a dot. */
static bool ends_in(const char *whole, size_t len, const char *end, size_t end_len)
{
    if (end_len == 0 || len < end_len || memcmp(whole + len - end_len, end, end_len) != 0)
        return false;
    return len == end_len || whole[len - end_len - 1] == '.';
}

bool architecture_is_named(const struct architecture *a, enum module module,
                           const char *name, size_t len)
{
    const char *path = a->paths[module];

    return path && (ends_in(path, strlen(path), name, len) ||
                    ends_in(name, len, path, strlen(path)));
}

bool architecture_is_under(const struct architecture *a, enum module module,
                           const char *name, size_t len)
{
    const char *path = a->paths[module];

    return path && module_in_block(module) && strcspn(path, ".") == len &&
           strncmp(path, name, len) == 0;
}
