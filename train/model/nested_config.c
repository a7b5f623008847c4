/* train/model/nested_config.c - joins the settings of objects of config.json with its own. */
#include "config.h"

#include "train/model/nested_config.h"

json_t *nested_config_join(const json_t *root, const struct architecture *row)
{
    json_t *out, *value;
    const char *key;

    if (!row || !row->nested[0])
        return NULL;
    out = json_copy((json_t *)root);
    for (size_t i = 0; i < NESTED_OBJECTS && row->nested[i]; i++)
        json_object_foreach(json_object_get(root, row->nested[i]), key, value)
        {
            const json_t *name = json_object_get(value, "name");
            const json_t *own = json_object_get(out, key);

            if (!own || json_is_null(own))
                json_object_set(out, key, json_is_string(name) ? (json_t *)name : value);
        }
    return out;
}
