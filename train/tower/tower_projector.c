/* train/tower/tower_projector.c - reads the projector that a model's config.json describes. */
#include "config.h"

#include "base/size.h"
#include "train/tower/tower_reader.h"

/* Of Mistral 3 it is that of the text model. */
static double projector_eps(const struct tower_reader *r)
{
    const struct tower_config *c = r->out;

    if (c->family->projector_eps > 0)
        return c->family->projector_eps;
    if (c->family->projector_eps_key)
        return tower_reader_positive(r, r->section, c->family->projector_eps_key, 1e-6);
    if (!tower_config_has(c, TOWER_PROJECTOR_MERGE))
        return c->eps;
    return tower_reader_positive(r, json_object_get(r->root, "text_config"),
                                 "rms_norm_eps", 1e-6);
}

/* The matrices of Llama 4's adapter are square but for the first. */
static void read_adapter(const struct tower_reader *r)
{
    static const char *const same[] = { "projector_input_dim", "vision_output_dim" };
    struct tower_config *c = r->out;

    c->merged = c->middle = tower_reader_size(r, "projector_output_dim", TOWER_INNER_MAX);
    for (size_t i = 0; i < TS_COUNT(same); i++)
        if (tower_reader_size(r, same[i], TOWER_INNER_MAX) != c->merged)
            error_set(r->err, ERROR_DATA, "%s: %s must be projector_output_dim, %zu",
                      r->file, same[i], c->merged);
    if (c->inner != c->row_width)
        error_set(r->err, ERROR_DATA,
                  "%s: intermediate_size must be %zu, the columns of the rows that are "
                  "joined, not %zu",
                  r->file, c->row_width, c->inner);
}

void tower_projector_read(const struct tower_reader *r, size_t text_width)
{
    const struct tower_family *row = r->out->family;
    struct tower_config *c = r->out;

    c->projected = text_width;
    if (row->output_width) {
        const char *key = row->encoder->inner_key ? "out_hidden_size" : "hidden_size";

        c->projected = tower_reader_size(r, key, TOWER_WIDTH_MAX);
        if (c->projected != text_width)
            error_set(
                r->err, ERROR_DATA,
                "%s: %s of vision_config is %zu, but the text model has %zu columns",
                r->file, key, c->projected, text_width);
    }
    /* the mergers of Qwen are square, too */
    c->middle = row->output_width || row->square ? c->row_width : text_width;
    if (row->middle_key)
        c->middle = tower_reader_range(
            r, row->middle_key,
            json_get_int(r->root, row->middle_key, 2560, r->file, r->err),
            TOWER_INNER_MAX);
    if (row->norm_key && !json_get_bool(r->root, row->norm_key, true, r->file, r->err))
        c->absent |= UINT64_C(1) << TOWER_PROJECTOR_NORM;
    c->merged = tower_config_has(c, TOWER_PROJECTOR_MERGE) ? c->width : c->row_width;
    if (row->merge_adapts)
        read_adapter(r);
    if (tower_config_has(c, TOWER_PROJECTOR_UP)) {
        c->merged = c->middle = c->projected;
        c->expanded = tower_reader_size(r, "intermediate_size", TOWER_INNER_MAX);
    }
    c->encoded = tower_family_projects(row, TOWER_PROJECTOR_MERGE) ? c->row_width
                 : tower_family_projects(row, TOWER_PROJECTOR_1)   ? c->merged
                                                                   : c->middle;
    c->projector_eps = projector_eps(r);
    c->projector_activation =
        row->output_width
            ? ACTIVATION_GELU
            : tower_reader_activation(r, r->root, "projector_hidden_act", "gelu");
    c->projector_biases = row->bias_key && json_get_bool(r->root, row->bias_key,
                                                         row->biases, r->file, r->err);
}
