/*
 * patcher/import/import_axolotl_tokens.c - Axolotl's tokens and special_tokens.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: loaders/tokenizer.py.  A file of 2023 may have a map
 * of special tokens as `tokens`, from before they had a key of their own.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"

/* Return why a special token is not in the job. */
static const char *reason(const char *name)
{
    if (strcmp(name, "pad_token") == 0)
        return "no padding: samples are packed without gaps";
    if (strcmp(name, "additional_special_tokens") == 0)
        return "the model's own tokens are used; if its tokenizer lacks these, name them in "
               "add_special_tokens, separated by commas";
    return "the model's own tokens are used; if this one differs, change it in "
           "tokenizer_config.json";
}

static void import_map(struct importing *im, const char *key, const struct node *map)
{
    for (size_t i = 0; i < map->count; i++) {
        const char *name = map->entries[i].key->text;

        import_add_outcome(
            im, &map->entries[i],
            &(struct import_key) {
                .name = arena_printf(im->arena, "%s.%s", key, name),
                .outcome = strcmp(name, "pad_token") == 0 ? IMPORT_IDLE : IMPORT_DIFFERS,
                .why = reason(name) });
    }
}

void import_axolotl_tokens(struct importing *im)
{
    static const char *const keys[] = { "special_tokens", "tokens" };

    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        const struct entry *entry = import_find(im, keys[i]);
        const struct node *map = entry ? node_value(entry->value) : NULL;

        if (map && map->kind == NODE_MAP)
            import_map(im, keys[i], map);
        else if (i == 1 && import_find_written(im, keys[i]))
            import_copy(im, keys[i], "add_tokens", NULL);
    }
}
