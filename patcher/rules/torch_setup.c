/* patcher/rules/torch_setup.c - read the keys of an external job that determine its
 * memory. */
#include "config.h"

#include "patcher/rules/torch_setup.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "patcher/schema/scalar.h"

enum { DEEPSPEED_MAX = 1 << 20 };

static const char *text_of(const struct entry *entry)
{
    const struct node *value = entry ? node_value(entry->value) : NULL;

    return value && value->kind == NODE_SCALAR && !node_is_null(value) ? value->text : "";
}

static const char *text(const struct document *document, const char *key)
{
    return text_of(document_find(document, key));
}

static const char *offload_device(const json_t *zero, const char *key)
{
    const char *device =
        json_string_value(json_object_get(json_object_get(zero, key), "device"));

    return device ? device : "none";
}

static void read_zero(const json_t *zero, struct torch_setup *out)
{
    int64_t stage = json_integer_value(json_object_get(zero, "stage"));

    out->zero_stage = stage >= 0 && stage <= 3 ? (int)stage : 0;
    out->offload_optimizer = strcmp(offload_device(zero, "offload_optimizer"), "none");
    out->offload_weights = strcmp(offload_device(zero, "offload_param"), "none");
}

static void read_deepspeed_file(const char *dir, const char *name,
                                struct torch_setup *out)
{
    char *path = *name == '/' ? memory_strdup(name) : path_join(dir, name);
    struct error ignored = { 0 };
    json_t *root =
        file_exists(path) ? json_read_file(path, DEEPSPEED_MAX, &ignored) : NULL;

    read_zero(json_object_get(root, "zero_optimization"), out);
    json_decref(root);
    free(path);
}

static void read_deepspeed_map(const struct node *map, struct torch_setup *out)
{
    const struct entry *zero = node_find(map, "zero_optimization"), *found;
    const struct node *block = zero ? node_value(zero->value) : NULL;
    static const char *const offloads[] = { "offload_optimizer", "offload_param" };
    bool *const into[] = { &out->offload_optimizer, &out->offload_weights };

    if (!block || block->kind != NODE_MAP)
        return;
    out->zero_stage = atoi(text_of(node_find(block, "stage")));
    for (size_t i = 0; i < 2; i++) {
        found = node_find(block, offloads[i]);
        if (found && node_value(found->value)->kind == NODE_MAP)
            *into[i] = strcmp(text_of(node_find(node_value(found->value), "device")),
                              "none") != 0;
    }
}

static void read_deepspeed(const struct document *document, const char *dir,
                           struct torch_setup *out)
{
    const struct entry *entry = document_find(document, "deepspeed");
    const struct node *value = entry ? node_value(entry->value) : NULL;

    if (!value || node_is_null(value))
        return;
    out->deepspeed = true;
    if (value->kind == NODE_MAP)
        read_deepspeed_map(value, out);
    else if (value->kind == NODE_SCALAR)
        read_deepspeed_file(dir, value->text, out);
    if (out->zero_stage < 0 || out->zero_stage > 3)
        out->zero_stage = 0;
}

static void read_fsdp(const struct document *document, struct torch_setup *out)
{
    const char *fsdp = text(document, "fsdp");

    if (*fsdp == 0 || strcmp(fsdp, "false") == 0)
        return;
    out->zero_stage = strstr(fsdp, "shard_grad_op") ? 2
                      : strstr(fsdp, "no_shard")    ? 0
                                                    : 3;
    out->offload_weights = out->offload_optimizer = strstr(fsdp, "offload") != NULL;
}

static bool says_no(const char *value)
{
    return *value == 0 || strcmp(value, "no") == 0;
}

void torch_setup_read(const struct document *document, const char *dir,
                      struct arena *arena, struct torch_setup *out)
{
    const char *optim = text(document, "optim");
    const char *stage = text(document, "stage");
    int bits = atoi(text(document, "quantization_bit"));

    *out = (struct torch_setup) {
        .optim = *optim ? arena_strdup(arena, optim) : NULL,
        .quantization_bit = bits == 4 || bits == 8 ? bits : 0,
        .plain_attention = strcmp(text(document, "flash_attn"), "disabled") == 0,
        .evaluates = !says_no(text(document, "eval_strategy")) ||
                     !says_no(text(document, "evaluation_strategy")),
    };
    if (*stage && strcmp(stage, "sft") != 0 && strcmp(stage, "pt") != 0)
        out->stage = arena_strdup(arena, stage);
    read_deepspeed(document, dir, out);
    read_fsdp(document, out);
}
