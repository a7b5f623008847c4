/* train/model/rope_scaling.c - edits a config.json as the job's rope_scaling says. */
#include "config.h"

#include "train/model/rope_scaling.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"

static const struct scaling_row {
    const char *type;
    bool keeps_positions; /* the original ones are in the object */
    bool has_bands;
} scaling_rows[] = {
    [ROPE_SCALING_LINEAR] = { "linear", false, false },
    [ROPE_SCALING_DYNAMIC] = { "dynamic", true, false },
    [ROPE_SCALING_YARN] = { "yarn", true, false },
    [ROPE_SCALING_LLAMA3] = { "llama3", true, true },
};

/* Where a config.json has its scaling. */
struct place {
    json_t *object;  /* that the members below are in */
    const char *key; /* of the scaling; of other members of the object: theta */
};

static struct place find_place(json_t *root)
{
    json_t *parameters = json_object_get(root, "rope_parameters");

    if (json_is_object(json_object_get(parameters, "full_attention")))
        return (struct place) { parameters, "full_attention" };
    if (json_is_object(parameters))
        return (struct place) { root, "rope_parameters" };
    return (struct place) { root, "rope_scaling" };
}

/* Return the positions before any scaling. */
static double original_positions(const json_t *root, const struct place *place,
                                 const struct model_config *config)
{
    static const char key[] = "original_max_position_embeddings";
    const json_t *scaling = json_object_get(root, "rope_scaling");
    const json_t *from = json_object_size(scaling) > 0
                             ? scaling
                             : json_object_get(place->object, place->key);
    double positions = json_number_value(json_object_get(from, key));

    return positions >= 1 ? positions : (double)config->max_positions;
}

/* Keep what is no scaling. */
static void keep(json_t *to, const json_t *old, const char *key)
{
    json_t *value = json_object_get(old, key);

    if (value)
        json_object_set(to, key, value);
}

static void scale(json_t *root, const struct model_config *config,
                  const struct scaling_row *row, double factor)
{
    struct place place = find_place(root);
    const json_t *old = json_object_get(place.object, place.key);
    double original = original_positions(root, &place, config);
    json_t *scaling = json_object();

    json_object_set_new(scaling, "rope_type", json_string(row->type));
    json_object_set_new(scaling, "factor", json_real(factor));
    if (row->keeps_positions)
        json_object_set_new(scaling, "original_max_position_embeddings",
                            json_integer((json_int_t)original));
    if (row->has_bands) {
        json_object_set_new(scaling, "low_freq_factor", json_real(1));
        json_object_set_new(scaling, "high_freq_factor", json_real(4));
    }
    keep(scaling, old, "rope_theta");
    keep(scaling, old, "partial_rotary_factor");
    json_object_del(root, "rope_scaling");
    json_object_set_new(place.object, place.key, scaling);
    json_object_set_new(root, config->architecture->keys->max_positions,
                        json_integer((json_int_t)(original * factor)));
}

/* Edit the text of a config.json that has been parsed. */
static bool scale_text(const struct plan *plan, struct arena *arena,
                       struct model_config *config, const char *file, struct error *err)
{
    json_t *root = json_read_loose(config->text, config->text_len, file, 1, err);
    struct place place;
    struct text text;
    double original;
    bool ok = root != NULL;

    if (!ok)
        return false;
    place = find_place(root);
    original = original_positions(root, &place, config);
    if ((double)plan->cutoff_len > original) {
        text_init(&text, 0);
        scale(root, config, &scaling_rows[plan->rope_scaling],
              ceil((double)plan->cutoff_len / original));
        ok = json_write_pretty(root, &text) &&
             model_config_parse(text.data, text.len, file, arena, config, err);
        text_clear(&text);
    }
    json_decref(root);
    return ok;
}

/* Return whether transformers reads a model of this kind with other positions than its
 * own. */
static bool check_model(const struct model_config *config, struct error *err)
{
    const struct architecture *row = config->architecture;

    if (config->multimodal)
        return error_set(err, ERROR_JOB,
                         "rope_scaling is not supported for model_type %s, which has "
                         "also positions of images",
                         config->multimodal->model_type);
    if (row->original_positions > 0 || row->needs_rope_type)
        return error_set(err, ERROR_JOB,
                         "rope_scaling is not supported for model_type %s, for which "
                         "transformers reads only the type %s",
                         row->model_type, row->needs_rope_type ? "yarn" : "longrope");
    if (row->proportional > 0)
        return error_set(err, ERROR_JOB,
                         "rope_scaling is not supported for model_type %s: it would "
                         "replace the proportional rotation in its config.json",
                         row->model_type);
    if (row->has_own_code)
        return error_set(
            err, ERROR_JOB,
            "rope_scaling is not supported for model_type %s, whose own code "
            "reads other types",
            row->model_type);
    if (config->rope.kind == ROPE_LONGROPE || row->rope_alpha)
        return error_set(err, ERROR_JOB,
                         "rope_scaling is not supported for model_type %s: it would "
                         "replace the %s in its config.json",
                         row->model_type, row->rope_alpha ? "alpha" : "longrope");
    return true;
}

bool rope_scaling_read_config(const struct plan *plan, const char *dir,
                              struct arena *arena, struct model_config *out,
                              struct error *err)
{
    char *file;
    bool ok;

    if (!model_config_read(dir, arena, out, err))
        return false;
    if (plan->rope_scaling == ROPE_SCALING_NONE || out->rotary == 0)
        return true;
    if (!check_model(out, err))
        return false;
    file = path_join(dir, "config.json");
    ok = scale_text(plan, arena, out, file, err);
    free(file);
    return ok;
}
