/* train/model/rope.c - rotary positions. */
#include "config.h"

#include "train/model/rope.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "base/text.h"
#include "kernels/ops.h"

/* Positions of text are the same in all sections of mrope. */
static const struct rope_row {
    const char *name;
    enum rope_kind kind;
} rope_rows[] = {
    { "default", ROPE_DEFAULT },
    { "linear", ROPE_LINEAR },
    { "dynamic", ROPE_DYNAMIC },
    { "yarn", ROPE_YARN },
    { "longrope", ROPE_LONGROPE },
    { "llama3", ROPE_LLAMA3 },
    { "proportional", ROPE_PROPORTIONAL },
    { "su", ROPE_LONGROPE }, /* the first files of Phi-3 */
    { "mrope", ROPE_DEFAULT },
};

/* ---- Reading ---- */

static bool has(const json_t *from, const char *key)
{
    const json_t *value = json_object_get(from, key);

    return value && !json_is_null(value);
}

/* Return a number above 0; required if there is no default (0). */
static double read_positive(const struct rope_source *s, const json_t *from,
                            const char *key, double default_value)
{
    double value = json_get_real(from, key, default_value, s->file, s->err);

    if (value > 0 && value <= 1e30)
        return value;
    error_set(s->err, ERROR_DATA, "%s: %s must be a number above 0", s->file, key);
    return 1;
}

static bool find_kind(const struct rope_source *s, const json_t *from,
                      enum rope_kind *kind)
{
    const char *name = json_get_string(from, "type", "default", s->file, s->err);
    struct text known;

    name = json_get_string(from, "rope_type", name, s->file, s->err);
    for (size_t i = 0; name && i < TS_COUNT(rope_rows); i++)
        if (strcmp(rope_rows[i].name, name) == 0) {
            *kind = rope_rows[i].kind;
            return true;
        }
    text_init(&known, 0);
    for (size_t i = 0; i < TS_COUNT(rope_rows); i++)
        text_addf(&known, "%s%s", i ? ", " : "", rope_rows[i].name);
    error_set(s->err, ERROR_DATA, "%s: rope type \"%s\" is not supported; supported: %s",
              s->file, name ? name : "", known.data);
    text_clear(&known);
    return false;
}

static void read_llama3(const struct rope_source *s, const json_t *from, struct rope *out)
{
    out->low_freq_factor = read_positive(s, from, "low_freq_factor", 0);
    out->high_freq_factor = read_positive(s, from, "high_freq_factor", 0);
    if (out->high_freq_factor <= out->low_freq_factor)
        error_set(s->err, ERROR_DATA,
                  "%s: high_freq_factor must be above low_freq_factor", s->file);
}

/* YaRN, section 3.4: the temperature of the scores. */
static double yarn_scale(double factor, double scale)
{
    return factor > 1 ? 0.1 * scale * log(factor) + 1 : 1;
}

static void read_yarn(const struct rope_source *s, const json_t *from, struct rope *out)
{
    double scale = 0, scale_all = 0;

    if (has(from, "mscale") && has(from, "mscale_all_dim")) {
        scale = json_get_real(from, "mscale", 0, s->file, s->err);
        scale_all = json_get_real(from, "mscale_all_dim", 0, s->file, s->err);
    }
    if (has(from, "attention_factor"))
        out->attention_factor = read_positive(s, from, "attention_factor", 0);
    else if (scale > 0 && scale_all > 0)
        out->attention_factor =
            yarn_scale(out->factor, scale) / yarn_scale(out->factor, scale_all);
    else
        out->attention_factor = yarn_scale(out->factor, 1);
    out->beta_fast = read_positive(s, from, "beta_fast", 32);
    out->beta_slow = read_positive(s, from, "beta_slow", 1);
    out->truncate = json_get_flag(from, "truncate", true, s->file, s->err);
    if (out->theta <= 1)
        error_set(s->err, ERROR_DATA, "%s: rope_theta must be above 1 for yarn", s->file);
}

/* Gemma 4: of a whole head, the first pairs of columns turn, and the others do not. */
static void read_proportional(const struct rope_source *s, const json_t *from,
                              struct rope *out)
{
    double share = read_positive(s, from, "partial_rotary_factor", 1);

    out->factor = read_positive(s, from, "factor", 1);
    if (share > 1)
        error_set(s->err, ERROR_DATA, "%s: partial_rotary_factor must be at most 1",
                  s->file);
    out->turning = (size_t)(share * (double)s->columns / 2);
}

static const double *read_factors(const struct rope_source *s, const json_t *from,
                                  const char *key)
{
    const json_t *list = json_object_get(from, key);
    size_t count = s->columns / 2;
    double *out;

    if (!json_is_array(list) || json_array_size(list) != count) {
        error_set(s->err, ERROR_DATA,
                  "%s: %s must be a list of %zu numbers, one for each frequency", s->file,
                  key, count);
        return NULL;
    }
    out = arena_array(s->arena, count, sizeof(*out));
    for (size_t i = 0; i < count; i++) {
        out[i] = json_number_value(json_array_get(list, i));
        if (!(out[i] > 0))
            error_set(s->err, ERROR_DATA, "%s: %s must be a list of numbers above 0",
                      s->file, key);
    }
    return out;
}

static void read_longrope(const struct rope_source *s, const json_t *from,
                          struct rope *out)
{
    double original = out->original_max_positions;

    out->short_factors = read_factors(s, from, "short_factor");
    out->long_factors = read_factors(s, from, "long_factor");
    if (has(from, "attention_factor"))
        out->attention_factor = read_positive(s, from, "attention_factor", 0);
    else if (out->factor > 1 && original > 1)
        out->attention_factor = sqrt(1 + log(out->factor) / log(original));
}

void rope_read(const struct rope_source *s, const json_t *from, struct rope *out)
{
    double ratio = 0, original = s->original_max_positions;

    if (!json_is_object(from) || !find_kind(s, from, &out->kind) ||
        out->kind == ROPE_DEFAULT)
        return;
    if (out->kind == ROPE_PROPORTIONAL) {
        read_proportional(s, from, out);
        return;
    }
    if (out->kind == ROPE_YARN && has(from, "long_factor"))
        out->kind = ROPE_LONGROPE; /* the name in some files of Phi-3 */
    if (original == 0)
        original =
            read_positive(s, from, "original_max_position_embeddings", s->max_positions);
    if (original < 1)
        error_set(s->err, ERROR_DATA,
                  "%s: original_max_position_embeddings must be 1 or more", s->file);
    out->query_beta = json_get_real(from, "llama_4_scaling_beta", 0, s->file, s->err);
    out->max_positions = s->max_positions;
    out->original_max_positions = original;
    /* null, or missing for longrope: by how much the positions were extended */
    if (out->kind == ROPE_LONGROPE ||
        (out->kind == ROPE_YARN && json_object_get(from, "factor")))
        ratio = s->max_positions / original;
    out->factor = read_positive(s, from, "factor", ratio);
    if (out->kind == ROPE_LLAMA3)
        read_llama3(s, from, out);
    else if (out->kind == ROPE_YARN)
        read_yarn(s, from, out);
    else if (out->kind == ROPE_LONGROPE)
        read_longrope(s, from, out);
    else if (out->kind == ROPE_DYNAMIC && (s->columns <= 2 || out->factor < 1))
        error_set(
            s->err, ERROR_DATA,
            "%s: the rope type dynamic requires a factor of 1 or more, and more than "
            "2 rotated columns of a head",
            s->file);
}

/* ---- Frequencies ---- */

size_t rope_reach(const struct rope *rope, size_t length)
{
    size_t most = (size_t)rope->max_positions;

    if (rope->kind == ROPE_LONGROPE)
        return (double)length > rope->original_max_positions;
    if (rope->kind == ROPE_DYNAMIC)
        return length > most ? length : most;
    return 0;
}

/* Llama 3: stretch wavelengths above one bound by `factor`, keep those below another, and
 * interpolate smoothly between them. */
static double scale_llama3(const struct rope *rope, double f)
{
    /* in the original context */
    double waves = rope->original_max_positions * f / (2 * M_PI);
    double smooth = (waves - rope->low_freq_factor) /
                    (rope->high_freq_factor - rope->low_freq_factor);

    if (waves < rope->low_freq_factor)
        return f / rope->factor;
    if (waves > rope->high_freq_factor)
        return f;
    return (1 - smooth) * f / rope->factor + smooth * f;
}

/* Return the column, with a fraction, that turns this often in the original positions. */
static double yarn_column(const struct rope *rope, size_t columns, double turns)
{
    return (double)columns * log(rope->original_max_positions / (turns * 2 * M_PI)) /
           (2 * log(rope->theta));
}

static double scale_yarn(const struct rope *rope, size_t columns, size_t i, double f)
{
    double low = yarn_column(rope, columns, rope->beta_fast);
    double high = yarn_column(rope, columns, rope->beta_slow);
    double share;

    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)columns - 1);
    if (low == high)
        high += 0.001;
    share = fmin(fmax(((double)i - low) / (high - low), 0), 1);
    return share * f / rope->factor + (1 - share) * f;
}

/* The base grows with the length, so that the slowest column turns as far in it as in the
 * model's positions. */
static double dynamic_theta(const struct rope *rope, size_t columns, size_t length)
{
    double times = (double)rope_reach(rope, length) / rope->max_positions;

    return rope->theta * pow(rope->factor * times - (rope->factor - 1),
                             (double)columns / ((double)columns - 2));
}

double rope_frequency(const struct rope *rope, size_t columns, size_t length, size_t i)
{
    double theta =
        rope->kind == ROPE_DYNAMIC ? dynamic_theta(rope, columns, length) : rope->theta;
    double f = pow(theta, -2.0 * (double)i / (double)columns);

    switch (rope->kind) {
    case ROPE_LINEAR:
        return f / rope->factor;
    case ROPE_YARN:
        return scale_yarn(rope, columns, i, f);
    case ROPE_LONGROPE:
        return f /
               (rope_reach(rope, length) ? rope->long_factors : rope->short_factors)[i];
    case ROPE_LLAMA3:
        return scale_llama3(rope, f);
    case ROPE_PROPORTIONAL:
        return i < rope->turning ? f / rope->factor : 0;
    case ROPE_DYNAMIC:
    case ROPE_DEFAULT:
        break;
    }
    return f;
}

/* Return the factor of cos and sin. */
static double rope_scale(const struct rope *rope, size_t reach)
{
    double factor = rope->attention_factor > 0 ? rope->attention_factor : 1;

    if (rope->short_scale == 0)
        return factor;
    return reach ? rope->long_scale : rope->short_scale;
}

void rope_fill(const struct rope *rope, size_t length, const struct rope_table *to)
{
    double frequencies[HEAD_SIZE_MAX / 2];
    size_t half = to->columns / 2, last = 0;

    assert(half <= TS_COUNT(frequencies));
    for (size_t p = 0; p < to->rows; p++) {
        size_t own = p < length ? length : p + 1, reach = rope_reach(rope, own);
        double factor = rope_scale(rope, reach);
        float *row = to->data + p * to->columns;

        for (size_t i = 0; i < half; i++) {
            if (p == 0 || reach != last)
                frequencies[i] = rope_frequency(rope, to->columns, own, i);
            row[i] = (float)(factor * cos((double)p * frequencies[i]));
            row[half + i] = (float)(factor * sin((double)p * frequencies[i]));
        }
        last = reach;
    }
}
