/* train/tower/tower_conformer_config.c - reads the settings of a Conformer, in two layouts. */
#include "config.h"

#include "base/error.h"
#include "base/size.h"
#include "train/tower/tower_reader.h"

/* Ranges far beyond the sizes of published models. */
enum { MELS_MAX = 1024, TAPS_MAX = 64, DISTANCES_MAX = 1 << 16 };

/* A setting that is supported with this value only. */
static void check_size(const struct tower_reader *r, const char *key, size_t value)
{
    const int64_t is = json_get_int(r->section, key, (int64_t)value, r->file, r->err);

    if (is != (int64_t)value)
        error_set(r->err, ERROR_DATA, "%s: %s must be %zu, not %lld", r->file, key, value,
                  (long long)is);
}

/* Settings that the published config.json has in objects of their own. */
static void lift(const struct tower_reader *r, const char *key, const char *object,
                 const char *inner)
{
    json_t *value = json_object_get(json_object_get(r->section, object), inner);

    if (value)
        json_object_set(r->section, key, value);
}

/* With chunks, rows of a piece that are not of the same chunk are to be masked. */
static void check_chunks(const struct tower_reader *r)
{
    const int64_t chunk = json_get_int(r->section, "chunk_size", -1, r->file, r->err);

    if (chunk >= 0 && chunk < 500)
        error_set(r->err, ERROR_DATA, "%s: chunk_size must be -1, not %lld", r->file,
                  (long long)chunk);
}

void tower_conformer_read(const struct tower_reader *r)
{
    static const char *const widths[] = { "ext_pw_out_channel",
                                          "depthwise_separable_out_channel",
                                          "depthwise_seperable_out_channel" };
    struct tower_config *c = r->out;

    lift(r, "nemo_conv_channels", "nemo_conv_settings", "conv_channels");
    lift(r, "bias_max_distance", "relative_attention_bias_args", "t5_bias_max_distance");
    c->mels = tower_reader_size(r, "input_size", MELS_MAX);
    c->channels = tower_reader_size(r, "nemo_conv_channels", TOWER_WIDTH_MAX);
    c->taps = tower_reader_size(r, "kernel_size", TAPS_MAX);
    c->distances = tower_reader_size(r, "bias_max_distance", DISTANCES_MAX);
    c->symmetric = json_get_bool(r->section, "bias_symmetric", false, r->file, r->err);
    c->input_activation =
        tower_reader_activation(r, r->section, "nemo_activation", "relu");
    c->glu_activation = tower_reader_activation(r, r->section, "conv_glu_type", "swish");
    c->conv_activation =
        tower_reader_activation(r, r->section, "conv_activation", "swish");
    for (size_t i = 0; i < TS_COUNT(widths); i++)
        check_size(r, widths[i], c->width);
    check_size(r, "depthwise_multiplier", 1);
    check_size(r, "time_reduction", 8);
    check_size(r, "downsample_rate", 1);
    check_chunks(r);
    c->group = 1;
    c->row_width = c->width;
}
