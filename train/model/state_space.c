/* train/model/state_space.c - the layers of a model that have a state space model, its sizes,
 * and the factors of Falcon-H1.  Sources: transformers/models/NAME/configuration_NAME.py and
 * modeling_NAME.py. */
#include "config.h"

#include "train/model/state_space.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/json.h"

enum { SIZE_MOST = 1 << 20 };

/* What is read, and where errors are from. */
struct source {
    const json_t *root;
    const char *file;
    struct error *err;
};

static size_t read_count(const struct source *s, const char *key, size_t default_value,
                         size_t most)
{
    int64_t value = json_get_int(s->root, key, (int64_t)default_value, s->file, s->err);

    if (value >= 1 && (uint64_t)value <= most)
        return (size_t)value;
    error_set(s->err, ERROR_DATA, "%s: %s must be a number from 1 to %zu, not %lld",
              s->file, key, most, (long long)value);
    return 1;
}

/* Return the columns of all heads: a key's, or a multiple of the hidden size. */
static size_t read_inner(const struct source *s, const struct model_config *c)
{
    const struct state_space_columns *row = &c->architecture->ssm;
    const json_t *given =
        row->inner_key ? json_object_get(s->root, row->inner_key) : NULL;
    size_t heads = c->ssm.heads;

    if (!row->expand_key)
        return heads * read_count(s, row->size_key, row->size, SCAN_SIZE_MAX);
    if (row->inner_key && (row->inner > 0 || given) && !json_is_null(given))
        return read_count(s, row->inner_key, row->inner, SIZE_MOST);
    return read_count(s, row->expand_key, 2, 64) * c->hidden_size;
}

static void check_sizes(const struct source *s, const struct model_config *c,
                        size_t inner)
{
    const struct state_space_columns *row = &c->architecture->ssm;
    const struct state_space *ssm = &c->ssm;
    const json_t *size = json_object_get(s->root, row->size_key);

    if (inner % ssm->heads != 0 ||
        (json_is_integer(size) && json_integer_value(size) != (json_int_t)ssm->size))
        error_set(s->err, ERROR_DATA,
                  "%s: %s %zu with %s must be as many as the %zu columns of the state "
                  "space model",
                  s->file, row->heads_key, ssm->heads, row->size_key, inner);
    if (ssm->size > SCAN_SIZE_MAX)
        error_set(s->err, ERROR_DATA,
                  "%s: %zu columns of a head of the state space model are not supported, "
                  "only up to %d; %s is %zu",
                  s->file, ssm->size, SCAN_SIZE_MAX, row->heads_key, ssm->heads);
    if (ssm->heads % ssm->groups != 0)
        error_set(s->err, ERROR_DATA, "%s: %s %zu must be a multiple of %s %zu", s->file,
                  row->heads_key, ssm->heads, row->groups_key, ssm->groups);
    if (ssm->taps < 2)
        error_set(s->err, ERROR_DATA, "%s: %s must be 2 or more", s->file, row->taps_key);
}

/* Return whether it is infinity as transformers writes it: {"__float__": "Infinity"}. */
static bool is_infinite(const json_t *value)
{
    const char *name = json_string_value(json_object_get(value, "__float__"));

    return name && strcmp(name, "Infinity") == 0;
}

/* time_step_limit: two numbers, or null. */
static void read_limits(const struct source *s, struct state_space *out)
{
    const json_t *limits = json_object_get(s->root, "time_step_limit");
    const json_t *low = json_array_get(limits, 0), *high = json_array_get(limits, 1);

    out->low = 0;
    out->high = INFINITY;
    if (!limits || json_is_null(limits))
        return;
    if (json_array_size(limits) != 2 || !json_is_number(low) ||
        !(json_is_number(high) || is_infinite(high)))
        error_set(s->err, ERROR_DATA, "%s: time_step_limit must be a list of two numbers",
                  s->file);
    out->low = json_number_value(low);
    if (json_number_value(high) <= FLT_MAX && json_is_number(high))
        out->high = json_number_value(high);
    if (out->low > out->high)
        error_set(s->err, ERROR_DATA,
                  "%s: time_step_limit must start with the lower limit, not %g", s->file,
                  out->low);
}

static bool read_flag(const struct source *s, const char *key, bool default_value)
{
    return key ? json_get_flag(s->root, key, default_value, s->file, s->err)
               : default_value;
}

static enum scan_norm read_norm(const struct source *s,
                                const struct state_space_columns *row)
{
    if (!row->norm_key)
        return row->norm;
    if (!read_flag(s, row->norm_key, false))
        return SCAN_NORM_NONE;
    return read_flag(s, row->norm_first_key, true) ? SCAN_NORM_BEFORE_GATE
                                                   : SCAN_NORM_AFTER_GATE;
}

static void read_sizes(const struct source *s, struct model_config *c)
{
    const struct state_space_columns *row = &c->architecture->ssm;
    struct state_space *out = &c->ssm;
    size_t inner;

    out->heads = read_count(s, row->heads_key, row->heads, SIZE_MOST);
    out->groups = read_count(s, row->groups_key, row->groups, SIZE_MOST);
    out->depth = read_count(s, row->depth_key, row->depth, SCAN_STATE_MAX);
    out->taps = read_count(s, row->taps_key, 4, CONV_TAPS_MAX);
    inner = read_inner(s, c);
    out->size = inner / out->heads;
    out->norm = read_norm(s, row);
    out->conv_bias = read_flag(s, row->conv_bias_key, true);
    out->in_bias = read_flag(s, row->in_bias_key, false);
    out->out_bias = read_flag(s, row->out_bias_key, false);
    out->out_factor = 1;
    read_limits(s, out);
    check_sizes(s, c, inner);
}

/* ---- Factors ---- */

static double read_factor(const struct source *s, const char *key)
{
    double value = json_get_real(s->root, key, 1, s->file, s->err);

    if (value > 0 && value < 1e30)
        return value;
    error_set(s->err, ERROR_DATA, "%s: %s must be a number above 0, not %g", s->file, key,
              value);
    return 1;
}

/* A list of factors; null or missing: all are 1. */
static void read_factors(const struct source *s, const char *key, size_t count,
                         double *out)
{
    const json_t *list = json_object_get(s->root, key);

    for (size_t i = 0; i < count; i++)
        out[i] = 1;
    if (!list || json_is_null(list))
        return;
    for (size_t i = 0; i < count; i++) {
        out[i] = json_number_value(json_array_get(list, i));
        if (json_array_size(list) != count || !(out[i] > 0 && out[i] < 1e30)) {
            error_set(s->err, ERROR_DATA, "%s: %s must be a list of %zu numbers above 0",
                      s->file, key, count);
            out[i] = 1;
        }
    }
}

/* Append a factor of columns that follow those of the last one. */
static void add_factor(struct model_config *c, size_t *at, size_t count, double factor)
{
    if (factor != 1)
        c->column_factors[c->column_factor_count++] =
            (struct column_factor) { *at, count, factor };
    *at += count;
}

/* A bias is added before a factor here, and is not multiplied in transformers. */
static void refuse_biases(const struct source *s, const struct model_config *c)
{
    const bool factors = c->column_factor_count > 0 || c->ssm.out_factor != 1 ||
                         c->attention_factor != 1 || c->gate_factor != 1 ||
                         c->down_factor != 1;

    if (factors && (c->qkv_bias || c->output_bias || c->mlp_bias || c->ssm.in_bias ||
                    c->ssm.out_bias))
        error_set(s->err, ERROR_DATA,
                  "%s: linear layers with biases are not supported together with factors "
                  "(multipliers) other than 1",
                  s->file);
}

/* Of Falcon-H1: of the columns of q, k and v, then of those of the state space model. */
static void read_all_factors(const struct source *s, struct model_config *c)
{
    const struct state_space *ssm = &c->ssm;
    double of[5], mlp[2], in = read_factor(s, "attention_in_multiplier");
    double scan = read_factor(s, "ssm_in_multiplier");
    size_t at = 0, shared = ssm->groups * ssm->depth, kv = c->kv_heads * c->head_size;

    read_factors(s, "ssm_multipliers", 5, of);
    read_factors(s, "mlp_multipliers", 2, mlp);
    add_factor(c, &at, c->heads * c->head_size, in);
    add_factor(c, &at, kv, in * read_factor(s, "key_multiplier"));
    add_factor(c, &at, kv, in);
    add_factor(c, &at, state_space_inner(ssm), scan * of[0]);
    add_factor(c, &at, state_space_inner(ssm), scan * of[1]);
    add_factor(c, &at, shared, scan * of[2]);
    add_factor(c, &at, shared, scan * of[3]);
    add_factor(c, &at, ssm->heads, scan * of[4]);
    c->attention_factor = read_factor(s, "attention_out_multiplier");
    c->ssm.out_factor = read_factor(s, "ssm_out_multiplier");
    c->gate_factor = mlp[0];
    c->down_factor = mlp[1];
    refuse_biases(s, c);
}

/* ---- The layers ---- */

/* layer_types says mamba or attention for each layer; by default all have state spaces. */
static void read_layers(const struct source *s, struct arena *arena,
                        struct model_config *c)
{
    const json_t *types = json_object_get(s->root, "layer_types");
    bool *scans = arena_array(arena, c->layers, sizeof(*scans)), ok;

    if (!types || json_is_null(types))
        types = json_object_get(s->root, "layers_block_type");
    ok = !types || json_is_null(types) || json_array_size(types) == c->layers;
    for (size_t l = 0; ok && l < c->layers; l++) {
        const char *type = json_string_value(json_array_get(types, l));

        scans[l] = !types || json_is_null(types) ||
                   (type && (strcmp(type, "mamba") == 0 ||
                             strcmp(type, "linear_attention") == 0));
        ok = scans[l] || (type && (strcmp(type, "attention") == 0 ||
                                   strcmp(type, "full_attention") == 0));
    }
    if (!ok)
        error_set(s->err, ERROR_DATA,
                  "%s: layer_types must be a list of %zu strings, mamba or attention for "
                  "each layer",
                  s->file, c->layers);
    c->linear = scans;
    for (size_t l = 0; l < c->layers; l++)
        if (scans[l])
            return;
    c->linear = NULL;
    c->ssm = (struct state_space) { .out_factor = 1 };
}

/* Without rotation, attention has no positions. */
static void read_positions(const struct source *s, struct model_config *c)
{
    const char *key = c->architecture->ssm.positions_key;
    const char *value = key ? json_string_value(json_object_get(s->root, key)) : NULL;

    if (key && !(value && strcmp(value, "rope") == 0))
        c->rotary = 0;
}

void state_space_read(const json_t *root, const char *file, struct arena *arena,
                      struct model_config *out, struct error *err)
{
    const struct source s = { root, file, err };
    const struct state_space_columns *row = &out->architecture->ssm;

    out->attention_factor = out->gate_factor = out->down_factor = 1;
    if (!row->heads_key || err->code)
        return;
    if (out->activation != ACTIVATION_SILU)
        error_set(err, ERROR_DATA, "%s: %s must be silu", file,
                  out->architecture->keys->activation);
    read_sizes(&s, out);
    if (row->factors)
        read_all_factors(&s, out);
    read_positions(&s, out);
    if (!row->next_to_attention)
        read_layers(&s, arena, out);
}
