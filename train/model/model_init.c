/* train/model/model_init.c - initializes the weights of models and adapters from a
 * seed. */
#include "config.h"

#include "train/model/model.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "train/model/model_internal.h"
#include "train/model/model_pissa.h"
#include "train/model/model_stored.h"

/* Return whether a norm's weight is added to 1, if the architecture's are. */
static bool is_offset(enum module module)
{
    return module != MODULE_V_NORM && module != MODULE_DT_BIAS && module != MODULE_FACTOR;
}

/* As PyTorch initializes a linear layer, and TRL its value head: weight and bias are
 * uniform within 1 / sqrt(in). */
static void init_value_head(const struct model *m, size_t index, size_t first,
                            size_t count, float *out)
{
    double bound = 1 / sqrt((double)m->config->hidden_size);

    for (size_t i = 0; i < count; i++)
        out[i] = (float)(bound * (2 * random_uniform((uint64_t)m->plan->seed, RANDOM_INIT,
                                                     (uint32_t)index, first + i) -
                                  1));
}

static bool is_norm(enum module module)
{
    return module == MODULE_Q_NORM || module == MODULE_K_NORM;
}

/* Return whether a vector is initialized like a matrix. */
static bool is_normal(const struct shape_parameter *p)
{
    return p->module == MODULE_SINKS ||
           (p->module == MODULE_ROUTER && p->part == PART_BIAS);
}

/* As transformers' XIELUActivation, whose slopes are 0.8 at first. */
static double initial_slope(enum module module)
{
    const double beta = 0.5, first = 0.8;

    switch (module) {
    case MODULE_ALPHA_P:
        return log(expm1(first));
    case MODULE_ALPHA_N:
        return log(expm1(first - beta));
    case MODULE_BETA:
        return beta;
    default:
        return -1e-6;
    }
}

/* As transformers' _init_weights: the decays of linear attention are random, those of the
 * heads of state space models 1, 2, 3 and so on. */
static float initial_decay(const struct model *m, size_t index, size_t head)
{
    double uniform;

    if (m->config->ssm.heads > 0)
        return (float)log((double)head + 1);
    uniform = random_uniform((uint64_t)m->plan->seed, RANDOM_INIT, (uint32_t)index, head);
    return (float)log(0.01 + 15.99 * uniform);
}

/* As transformers' _init_weights: matrices are normal, norms one (Gemma's zero),
 * biases and the padding token's embedding zero.  GPT-2's outputs are smaller the more
 * layers there are. */
void model_init_weights(const struct model *m, size_t index, size_t first, size_t count,
                        float *out)
{
    const struct shape_parameter *p = &m->shapes.parameters[index];
    bool output = p->module == MODULE_O || p->module == MODULE_CROSS_O ||
                  p->module == MODULE_OUT || p->module == MODULE_DOWN;
    uint64_t seed = (uint64_t)m->plan->seed;
    double range = m->config->initializer_range;
    int64_t padding = -1;
    bool zero = m->config->architecture->norm == NORM_RMS_1; /* but not NORM_LAYER_1 */

    if (p->module == MODULE_EMBED)
        range = m->config->embedding_range;
    if (p->module == MODULE_EMBED || p->module == MODULE_LAYER_EMBED)
        padding = m->config->padding;
    if (output && m->config->architecture->small_outputs)
        range /= sqrt(2 * (double)m->config->layers);
    if (p->module == MODULE_HEAD && m->config->scores == SCORE_VALUE) {
        init_value_head(m, index, first, count, out);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (module_is_of_activation(p->module))
            out[i] = (float)initial_slope(p->module);
        else if (p->module == MODULE_A_LOG)
            out[i] = initial_decay(m, index, first + i);
        else if ((p->rank >= 2 && !is_norm(p->module) &&
                  p->module != MODULE_ROUTER_BIAS) ||
                 is_normal(p))
            out[i] = (int64_t)((first + i) / p->cols) == padding
                         ? 0
                         : (float)(range * random_normal(seed, RANDOM_INIT,
                                                         (uint32_t)index, first + i));
        else
            out[i] = p->part == PART_BIAS || p->module == MODULE_ROUTER_BIAS ||
                             p->module == MODULE_CROSS_GATE ||
                             p->module == MODULE_CROSS_MLP_GATE ||
                             (zero && is_offset(p->module))
                         ? 0
                         : 1;
}

/* Those of PiSSA, or PEFT's kaiming_uniform(a = sqrt(5)) for A: uniform within 1 /
 * sqrt(in); zero for B. */
void model_init_adapter(const struct model *m, size_t index, size_t first, size_t count,
                        float *out)
{
    const struct shape_parameter *p = &m->shapes.parameters[index];
    uint64_t seed = (uint64_t)m->plan->seed;
    const float *start = NULL;
    double bound = 1 / sqrt((double)p->cols), uniform;

    if (m->shapes.lora.pissa)
        start = p->part == PART_LORA_A   ? model_pissa_start(m, index)->a
                : p->part == PART_LORA_B ? model_pissa_start(m, index)->b
                                         : NULL;
    if (start) {
        memcpy(out, start + first, count * sizeof(*out));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uniform = random_uniform(seed, RANDOM_INIT, (uint32_t)index, first + i);
        out[i] = p->part == PART_LORA_A ? (float)(bound * (2 * uniform - 1)) : 0;
    }
}
