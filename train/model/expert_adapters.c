/* train/model/expert_adapters.c - adapters on the parameters that have the matrices of all
 * experts of a block: their names and shapes. */
#include "config.h"

#include "train/model/expert_adapters.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

/* In the order of the parameters of transformers' class. */
static const struct {
    enum module module;
    const char *name;
} parameters[] = { { MODULE_EXPERT_GATE, "gate_up_proj" },
                   { MODULE_EXPERT_DOWN, "down_proj" } };

static unsigned bit_of(enum module module)
{
    return 1U << (module - MODULE_EXPERT_GATE);
}

bool expert_adapters_in(const struct lora *lora, enum module module, size_t layer)
{
    return lora->joined && lora->adapted[module] &&
           (lora->joined_in[layer] & bit_of(module));
}

struct expert_adapter expert_adapter_of(const struct model_config *config,
                                        const struct lora *lora, enum module module,
                                        enum part part)
{
    const struct expert_columns *row = &config->architecture->experts;
    const bool down = module == MODULE_EXPERT_DOWN, is_a = part == PART_LORA_A;
    const size_t both = 2 * config->expert_size;
    const size_t in = down ? config->expert_size : config->hidden_size;
    const size_t out = down ? config->hidden_size : both;
    const bool swapped = row->swapped_by_peft;
    const size_t outer = is_a == swapped ? out : in;

    return (struct expert_adapter) {
        .rows = config->experts * (is_a ? lora->rank : outer),
        .cols = is_a ? outer : lora->rank,
        .outer = outer,
        .reads = is_a != swapped,
        .transposed = swapped,
        .stored = is_a                        ? STORED_ROWS
                  : row->interleaved && !down ? STORED_EXPERT_PAIRS
                                              : STORED_EXPERTS,
    };
}

void expert_adapters_parameter(const struct architecture *a, enum module module,
                               size_t layer, struct text *out)
{
    text_addf(out, "%s%zu.%s.%s", a->blocks, layer, a->experts.parameters,
              parameters[module == MODULE_EXPERT_DOWN].name);
}

/* PEFT wraps the module again for each parameter, and the last wrapper has its name. */
void expert_adapters_layer(const struct architecture *a, const struct lora *lora,
                           enum module module, size_t layer, struct text *out)
{
    const bool inner = module == MODULE_EXPERT_GATE &&
                       expert_adapters_in(lora, MODULE_EXPERT_DOWN, layer);

    text_addf(out, "%s%zu.%s%s", a->blocks, layer, a->experts.parameters,
              inner ? ".base_layer" : "");
}

static bool has_experts(const struct model_config *config, size_t layer)
{
    return model_config_has(config, MODULE_EXPERT_GATE, layer);
}

static bool is_named(const char *whole, const char *name, size_t len)
{
    size_t all = strlen(whole);

    return len > 0 && len <= all && memcmp(whole + all - len, name, len) == 0 &&
           (len == all || whole[all - len - 1] == '.');
}

/* Mark the parameters with one name; false: there are none. */
static bool mark(const struct model_config *config, const char *name, size_t len,
                 struct lora *out)
{
    bool found = false;
    struct text whole;

    text_init(&whole, 0);
    for (size_t l = 0; l < config->layers; l++)
        for (size_t i = 0; has_experts(config, l) && i < TS_COUNT(parameters); i++) {
            const enum module module = parameters[i].module;

            text_reset(&whole);
            expert_adapters_parameter(config->architecture, module, l, &whole);
            if (!is_named(whole.data, name, len))
                continue;
            out->joined_in[l] |= (unsigned char)bit_of(module);
            out->adapted[module] = found = true;
        }
    text_clear(&whole);
    return found;
}

/* Note which of them all blocks with experts have. */
static void find_everywhere(const struct model_config *config, struct lora *out)
{
    out->joined_everywhere = UCHAR_MAX;
    for (size_t l = 0; l < config->layers; l++)
        if (has_experts(config, l))
            out->joined_everywhere &= out->joined_in[l];
}

/* DBRX has them, too, but its modules read each other's, which PEFT's wrapper hides. */
static bool check_parameters(const struct expert_targets *targets, struct error *err)
{
    const struct model_config *c = targets->config;
    const struct architecture *a = c->architecture;

    return (c->experts > 0 && a->experts.parameters && !a->has_own_code) ||
           error_set(err, targets->code,
                     "%s: a model of model_type %s has no parameters that PEFT adapts "
                     "for all experts of a block; remove the key, and name layers as "
                     "lora_target",
                     targets->key, a->model_type);
}

bool expert_adapters_mark(const struct expert_targets *targets, const char *names,
                          struct lora *out, struct error *err)
{
    const struct architecture *a = targets->config->architecture;
    size_t len;

    if (!check_parameters(targets, err))
        return false;
    for (enum module i = MODULE_EXPERT_GATE; i <= MODULE_EXPERT_DOWN; i++)
        out->adapted[i] = false; /* layers of one expert do not exist with them */
    out->joined = true;
    for (names += strspn(names, ", "); *names; names += len + strspn(names + len, ", ")) {
        len = strcspn(names, ", ");
        if (!mark(targets->config, names, len, out))
            return error_set(err, targets->code,
                             "%s: there is no parameter \"%.*s\"; there are %s.%s, %s.%s",
                             targets->key, (int)len, names, a->experts.parameters,
                             parameters[0].name, a->experts.parameters,
                             parameters[1].name);
    }
    find_everywhere(targets->config, out);
    return true;
}

static void add_name(json_t *list, const struct architecture *a, size_t i,
                     const char *number)
{
    struct text name;

    text_init(&name, 0);
    text_addf(&name, "%s%s.%s", number, a->experts.parameters, parameters[i].name);
    json_array_append_new(list, json_string(name.data));
    text_clear(&name);
}

json_t *expert_adapters_names(const struct architecture *a, const struct lora *lora)
{
    json_t *list = json_array();
    char number[32];

    for (size_t i = 0; lora->joined && i < TS_COUNT(parameters); i++) {
        const enum module module = parameters[i].module;

        if (lora->joined_everywhere & bit_of(module)) {
            add_name(list, a, i, "");
            continue;
        }
        for (size_t l = 0; l < TS_COUNT(lora->joined_in); l++)
            if (expert_adapters_in(lora, module, l)) {
                snprintf(number, sizeof(number), "%zu.", l);
                add_name(list, a, i, number);
            }
    }
    if (json_array_size(list) > 0)
        return list;
    json_decref(list);
    return json_null();
}
