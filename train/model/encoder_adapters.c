/* train/model/encoder_adapters.c - the paths of an encoder's layers, and names that adapters are
 * on. */
#include "config.h"

#include "train/model/encoder_adapters.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "train/model/weights.h"

#define PREFIX "base_model.model."

void encoder_adapters_clear(struct lora *out)
{
    memset(out->encoder, 0, sizeof(out->encoder));
    out->encoder_count = 0;
}

void encoder_adapters_add(size_t index, struct lora *out)
{
    if (index >= LORA_ENCODER_MAX || out->encoder[index])
        return;
    out->encoder[index] = true;
    out->encoder_count++;
}

void encoder_adapters_all(const struct encoder_list *encoder, struct lora *out)
{
    for (size_t i = 0; i < encoder->count; i++)
        if (encoder->list[i].path)
            encoder_adapters_add(i, out);
}

static bool contains(const char *path, const char *name, size_t len)
{
    for (; *path; path++)
        if (strncmp(path, name, len) == 0)
            return true;
    return false;
}

bool encoder_adapters_named(const struct encoder_list *encoder, const char *name,
                            size_t len)
{
    for (size_t i = 0; len > 0 && i < encoder->count; i++)
        if (encoder->list[i].path && contains(encoder->list[i].path, name, len))
            return true;
    return false;
}

void encoder_adapters_mark(const struct encoder_list *encoder, const char *names,
                           struct lora *out)
{
    while (*names) {
        const size_t skip = strspn(names, ", "), len = strcspn(names + skip, ", ");

        for (size_t i = 0; len > 0 && i < encoder->count; i++)
            if (encoder->list[i].path &&
                contains(encoder->list[i].path, names + skip, len))
                encoder_adapters_add(i, out);
        names += skip + len;
    }
}

/* Return the number of a block in a path, ".12.": its digits, or NULL. */
static const char *number_of(const char *path, size_t *len)
{
    for (const char *at = path; (at = strchr(at, '.')); at++) {
        *len = strspn(at + 1, "0123456789");
        if (*len > 0 && at[1 + *len] == '.')
            return at + 1;
    }
    return NULL;
}

/* Return whether two paths differ in the number of a block only. */
static bool is_alike(const char *a, const char *b)
{
    size_t a_len, b_len;
    const char *a_number = number_of(a, &a_len), *b_number = number_of(b, &b_len);

    return a_number && b_number && a_number - a == b_number - b &&
           memcmp(a, b, (size_t)(a_number - a)) == 0 &&
           strcmp(a_number + a_len, b_number + b_len) == 0;
}

static void add_escaped(struct text *out, const char *string, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (string[i] == '.')
            text_addc(out, '\\');
        text_addc(out, string[i]);
    }
}

static bool is_marked(const struct encoder_list *encoder, const struct lora *lora,
                      size_t index)
{
    return encoder->list[index].path && index < LORA_ENCODER_MAX && lora->encoder[index];
}

/* The layers of one kind, of which `first` is the first. */
static void add_kind(const struct encoder_list *encoder, const struct lora *lora,
                     size_t first, struct text *out)
{
    const char *path = encoder->list[first].path, *separator = "(?:";
    size_t len;
    const char *number = number_of(path, &len);

    if (!number) {
        add_escaped(out, path, strlen(path));
        return;
    }
    add_escaped(out, path, (size_t)(number - path));
    for (size_t i = first; i < encoder->count; i++)
        if (is_marked(encoder, lora, i) && is_alike(path, encoder->list[i].path)) {
            size_t digits;
            const char *at = number_of(encoder->list[i].path, &digits);

            text_addf(out, "%s%.*s", separator, (int)digits, at);
            separator = "|";
        }
    text_addc(out, ')');
    add_escaped(out, number + len, strlen(number + len));
}

void encoder_adapters_pattern(const struct encoder_list *encoder, const struct lora *lora,
                              const char *separator, struct text *out)
{
    for (size_t i = 0; i < encoder->count; i++) {
        bool known = !is_marked(encoder, lora, i);

        for (size_t k = 0; !known && k < i; k++)
            known = is_marked(encoder, lora, k) &&
                    is_alike(encoder->list[k].path, encoder->list[i].path);
        if (known)
            continue;
        text_adds(out, separator);
        add_kind(encoder, lora, i, out);
        separator = "|";
    }
}

/* Return the number of the block that a tensor of an adapter's file is in; -1: in none. */
static long block_of(const char *blocks, const char *name)
{
    const size_t prefix = strlen(PREFIX), len = blocks ? strlen(blocks) : 0;

    if (len == 0 || strncmp(name, PREFIX, prefix) != 0 ||
        strncmp(name + prefix, blocks, len) != 0 ||
        !isdigit((unsigned char)name[prefix + len]))
        return -1;
    return strtol(name + prefix + len, NULL, 10);
}

bool encoder_adapters_has(const struct encoder_list *encoder, const char *name)
{
    return block_of(encoder->blocks, name) >= 0 ||
           block_of(encoder->global_blocks, name) >= 0;
}

bool encoder_adapters_unread(const struct encoder_list *encoder, const char *name)
{
    return block_of(encoder->blocks, name) >= (long)encoder->run;
}

/* ---- The matrices ---- */

static const struct stored_tensor *find(const struct safetensors *files,
                                        const struct model_config *config, size_t index,
                                        char matrix)
{
    const struct stored_tensor *found;
    struct text name;

    text_init(&name, 0);
    text_addf(&name, PREFIX "%s.lora_%c.weight", config->encoder.list[index].path,
              matrix);
    found = weights_find_adapter(files, config, name.data);
    text_clear(&name);
    return found;
}

static bool has_shape(const struct stored_tensor *t, size_t rows, size_t cols)
{
    return t && t->format < FORMAT_COUNT && !t->packed && t->rank == 2 &&
           t->shape[0] == rows && t->shape[1] == cols;
}

bool encoder_adapters_stored(const struct safetensors *files,
                             const struct model_config *config, const struct lora *lora,
                             size_t index, struct encoder_stored *out, struct error *err)
{
    const struct encoder_tensor *layer = &config->encoder.list[index];

    *out = (struct encoder_stored) { find(files, config, index, 'A'),
                                     find(files, config, index, 'B') };
    return (has_shape(out->a, lora->rank, layer->cols) &&
            has_shape(out->b, layer->rows, lora->rank)) ||
           error_set(err, ERROR_DATA,
                     "the adapter for %s is missing or has another shape", layer->path);
}

bool encoder_adapters_reads(const struct safetensors *files,
                            const struct model_config *config, const struct lora *lora,
                            const struct stored_tensor *tensor)
{
    for (size_t i = 0; i < config->encoder.count; i++)
        if (is_marked(&config->encoder, lora, i) &&
            (tensor == find(files, config, i, 'A') ||
             tensor == find(files, config, i, 'B')))
            return true;
    return false;
}

void encoder_adapters_merge(const struct encoder_tensor *layer, const struct lora *lora,
                            const float *a, const float *b, float *values)
{
    for (size_t i = 0; i < layer->rows; i++)
        for (size_t k = 0; k < lora->rank; k++) {
            const float factor = (float)(lora->scale * b[i * lora->rank + k]);

            for (size_t j = 0; j < layer->cols; j++)
                values[i * layer->cols + j] += factor * a[k * layer->cols + j];
        }
}

bool encoder_adapters_can_merge(const struct lora *lora, const char *dir,
                                struct error *err)
{
    if (lora->encoder_count == 0 || !(lora->dora || lora->pissa || lora->rotation.on))
        return true;
    return error_set(err, ERROR_DATA,
                     "%s has %s adapters in the encoder of images or sounds, where only "
                     "those of plain LoRA are supported; merge it into the model with "
                     "PEFT",
                     dir,
                     lora->rotation.on ? "orthogonal (OFT)"
                     : lora->dora      ? "DoRA"
                                       : "PiSSA");
}
