/*
 * bench/rank_layout.c - prints how the layout of train/model/shapes.h divides a model among
 * ranks, for bench/scale.py.
 *
 *     rank_layout CONFIG.json DEVICE full|lora|freeze fp32|bf16 STAGE TOKENS RANKS...
 *
 * DEVICE: cpu, or a GPU as `trainspool plan --device` names it.  TOKENS: rows of a micro-batch.
 * One JSON object per line, for each number of ranks.
 */
#include "config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/model/shapes.h"

static void check(bool ok, const struct error *err)
{
    if (!ok) {
        fprintf(stderr, "rank_layout: %s\n", err->text);
        exit(1);
    }
}

static const struct {
    const char *name;
    enum method method;
} methods[] = {
    { "full", METHOD_FULL },
    { "lora", METHOD_LORA },
    { "freeze", METHOD_FREEZE },
};

static enum method method_of(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(methods); i++)
        if (strcmp(methods[i].name, name) == 0)
            return methods[i].method;
    fprintf(stderr, "rank_layout: method must be full, lora or freeze, not %s\n", name);
    exit(2);
}

static struct plan plan_of(char *const words[])
{
    bool fp32 = strcmp(words[2], "fp32") == 0;
    enum format format = fp32 ? FORMAT_FP32 : FORMAT_BF16;
    struct plan plan = {
        .model_name_or_path = "",
        .method = method_of(words[1]),
        .lora_rank = 16,
        .lora_target = "all",
        .freeze_trainable_layers = 2,
        .precision = { .mode = fp32 ? MODE_FP32 : MODE_BF16_MIXED,
                       .compute = format,
                       .trainable = FORMAT_FP32,
                       .has_frozen = strcmp(words[1], "full") != 0,
                       .frozen = format,
                       .loss_scale = 1,
                       .max_grad_norm = 1 },
        .zero_stage = atoll(words[3]),
        .per_device_train_batch_size = 1,
        .cutoff_len = atoll(words[4]),
        .gradient_accumulation_steps = 1,
        .gradient_checkpointing = true,
    };
    struct error err = { 0 };

    check(device_find(words[0], &plan.device, &err), &err);
    return plan;
}

static json_t *numbers(const size_t *list, size_t count)
{
    json_t *out = json_array();

    for (size_t i = 0; list && i < count; i++)
        json_array_append_new(out, json_integer((json_int_t)list[i]));
    return out;
}

/* What model_gather_weights sends of each trained parameter, in the order of the segments:
 * position, elements, bytes each, where they lie, and whether windows have them instead. */
static json_t *trained(const struct shapes *s)
{
    json_t *out = json_array();

    for (size_t i = 0; i < s->count; i++) {
        const struct shape_parameter *p = &s->parameters[i];
        bool copy = p->sharded;
        size_t item = format_info(copy ? p->copy : s->trainable)->bytes;

        if (p->trainable)
            json_array_append_new(
                out, json_pack("[I,I,I,s,I,b]", (json_int_t)p->at,
                               (json_int_t)(p->rows * p->cols), (json_int_t)item,
                               copy ? "copy" : "weight",
                               (json_int_t)(copy ? p->copy_at : p->weight_at * item),
                               p->sharded && p->gathered));
    }
    return out;
}

static void print(const struct plan *plan, const struct model_config *config)
{
    struct arena *arena = arena_new();
    struct memory_use use;
    struct shapes s;
    struct error err = { 0 };
    bool gathers_copy;
    json_t *object;

    check(shapes_make(plan, config, 0, 0, arena, &s, &err), &err);
    check(shapes_memory(plan, config, 0, 0, &use, &err), &err);
    gathers_copy = !s.rounds_in_matmul && s.compute != FORMAT_FP32;
    object = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:o, s:o, s:o}",
        "ranks", (json_int_t)plan_ranks(plan), "elements", (json_int_t)s.elements,
        "trainable", (json_int_t)s.trainable_elements, "layers",
        (json_int_t)config->layers, "segment", (json_int_t)s.segment, "shard",
        (json_int_t)s.shard, "matrices_end", (json_int_t)s.matrices_end,
        "shards_gradients", s.shards_gradients, "shards_weights", s.shards_weights,
        "shards_blocks", s.shards_blocks, "weight_bytes",
        (json_int_t)format_info(s.trainable)->bytes, "gathered_bytes",
        (json_int_t)format_info(gathers_copy ? s.compute : s.trainable)->bytes,
        "frozen_shard", (json_int_t)s.frozen_shard, "memory", (json_int_t)use.total,
        "level_starts", numbers(s.level_starts, s.levels + 1), "frozen_starts",
        numbers(s.shards_blocks ? s.frozen_starts : NULL, config->layers + 1), "trained",
        trained(&s));
    json_object_set_new(object, "window_frozen",
                        json_integer((json_int_t)s.window_frozen));
    json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(object);
    arena_free(arena);
}

int main(int argc, char **argv)
{
    struct arena *arena = arena_new();
    struct model_config config;
    struct error err = { 0 };
    struct text text;
    struct plan plan;

    if (argc < 8) {
        fprintf(stderr,
                "usage: rank_layout CONFIG.json DEVICE full|lora|freeze fp32|bf16 STAGE "
                "TOKENS RANKS...\n");
        return 2;
    }
    text_init(&text, 0);
    check(file_read(argv[1], (size_t)1 << 20, &text, NULL, &err), &err);
    check(model_config_parse(text.data, text.len, argv[1], arena, &config, &err), &err);
    plan = plan_of(argv + 2);
    for (int i = 7; i < argc; i++) {
        plan.ranks = atoll(argv[i]);
        print(&plan, &config);
    }
    text_clear(&text);
    arena_free(arena);
    return 0;
}
