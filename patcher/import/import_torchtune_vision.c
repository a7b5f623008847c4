/*
 * patcher/import/import_torchtune_vision.c - what torchtune's recipes of Llama 3.2 Vision train.
 *
 * torchtune has three parts: the encoder, which is the first transformer of transformers'
 * encoder; the fusion, which is its second one, the projector, the layers of cross-attention
 * and the embeddings of eight tokens; and the decoder, which is the rest of the text model.
 * With LoRA, a part has adapters or is frozen.
 *
 * pytorch/torchtune at bd2a0fc7: torchtune/models/llama3_2_vision (_model_builders.py,
 * _component_builders.py), torchtune/modules/model_fusion; recipes/lora_finetune_*.py train
 * all adapters that there are.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>
#include <strings.h>

#include "base/size.h"

enum part { PART_DECODER, PART_ENCODER, PART_FUSION, PARTS };
enum trains { TRAINS_NOTHING, TRAINS_ADAPTERS, TRAINS_ALL };

static const struct {
    const char *key, *lora, *full; /* the key, and its defaults */
} parts[PARTS] = {
    { "model.decoder_trainable", "frozen", "false" },
    { "model.encoder_trainable", "lora", "true" },
    { "model.fusion_trainable", "lora", "true" },
};

bool import_torchtune_is_vision(struct importing *im)
{
    const char *model = import_get(im, "model._component_");

    return model && strstr(model, ".llama3_2_vision.");
}

static bool is_of_images(const struct node *map, const char *key)
{
    const struct entry *entry = map->kind == NODE_MAP ? node_find(map, key) : NULL;
    const struct node *value = entry ? node_value(entry->value) : NULL;

    if (value && value->kind == NODE_MAP)
        return is_of_images(value, "_component_");
    return value && value->text && strstr(value->text, ".multimodal.");
}

bool import_torchtune_has_images(struct importing *im)
{
    const struct entry *entry = import_find(im, "dataset");
    const struct node *data;

    entry = entry ? entry : import_find(im, "datasets");
    data = entry ? node_value(entry->value) : NULL;
    if (!data)
        return false;
    if (data->kind != NODE_LIST)
        return is_of_images(data, "_component_");
    for (size_t i = 0; i < data->count; i++) {
        const struct node *one = node_value(data->items[i]);

        if (is_of_images(one, "_component_") || is_of_images(one, "transform"))
            return true;
    }
    return false;
}

static bool read_part(struct importing *im, enum part part, bool lora, enum trains *out)
{
    const char *text = import_get(im, parts[part].key);

    if (!text)
        text = lora ? parts[part].lora : parts[part].full;
    *out = strcasecmp(text, "frozen") == 0 || strcasecmp(text, "false") == 0
               ? TRAINS_NOTHING
           : strcasecmp(text, "lora") == 0 ? TRAINS_ADAPTERS
                                           : TRAINS_ALL;
    return lora == (*out != TRAINS_ALL) || *out == TRAINS_NOTHING ||
           import_refuse(im, ERROR_JOB, import_find(im, parts[part].key)->value,
                         "%s must be %s, not %s: torchtune does not train adapters next "
                         "to whole layers",
                         parts[part].key, lora ? "frozen or lora" : "true or false",
                         text);
}

static bool refuse_parts(struct importing *im, const char *why)
{
    return import_refuse(im, ERROR_JOB, import_find(im, "model")->key, "model: %s", why);
}

/* Of the text model, only the layers of cross-attention are trained, or adapted. */
static void freeze_decoder(struct importing *im, const char *decoder, const char *fusion)
{
    import_set(im, "freeze_language_model", "true", decoder);
    import_set_yaml(im, "trainspool", "{train_cross_attention: true}", fusion);
}

/* Adapters of the decoder are on self-attention, and those of the fusion on cross-attention. */
static bool check_adapters(struct importing *im, const enum trains *is, bool images)
{
    const bool reads = images || is[PART_DECODER] == TRAINS_NOTHING;

    if (is[PART_ENCODER] != is[PART_FUSION])
        return refuse_parts(
            im, "encoder_trainable and fusion_trainable must both be lora, or frozen: "
                "the first transformer of the encoder cannot have adapters without the "
                "second, which belongs to the fusion, nor the second without the first");
    if (is[PART_DECODER] == TRAINS_NOTHING && is[PART_FUSION] == TRAINS_NOTHING)
        return refuse_parts(im, "all parts are frozen: nothing is trained");
    if (is[PART_DECODER] == TRAINS_NOTHING)
        freeze_decoder(im, "decoder_trainable: frozen", "fusion_trainable: lora");
    if (is[PART_FUSION] == TRAINS_NOTHING && images)
        import_remark(im, "lora_target",
                      "fusion_trainable: frozen: in torchtune, the layers of "
                      "cross-attention have no adapters; here they have the same ones as "
                      "the others");
    if (reads && is[PART_ENCODER] == TRAINS_ADAPTERS)
        import_set(im, "freeze_vision_tower", "false", "encoder_trainable: lora");
    return true;
}

/* The fusion includes the second transformer of the encoder, which is trained with the first. */
static bool check_full(struct importing *im, const enum trains *is, bool images)
{
    const bool frozen = is[PART_DECODER] == TRAINS_NOTHING;

    if (is[PART_ENCODER] != TRAINS_ALL || is[PART_FUSION] != TRAINS_ALL)
        return refuse_parts(
            im, "encoder_trainable and fusion_trainable must both be true: the two "
                "transformers of the encoder, of which the second belongs to the fusion, "
                "are only trained together, and with the projector and the layers of "
                "cross-attention");
    if (frozen) {
        freeze_decoder(im, "decoder_trainable: false", "fusion_trainable: true");
        import_remark(
            im, "freeze_language_model",
            "torchtune also trains the embeddings of the 8 tokens that the model "
            "has for images; here they stay as they are");
    }
    if (!images && !frozen)
        return true;
    import_set(im, "freeze_vision_tower", "false", "encoder_trainable: true");
    import_set(im, "freeze_multi_modal_projector", "false", "fusion_trainable: true");
    return true;
}

/* Return the key of the job that says what is trained of a part. */
static const char *carrier_of(struct importing *im, enum part part)
{
    const char *key =
        part == PART_DECODER ? "freeze_language_model" : "freeze_vision_tower";

    return import_value(im, key) ? key : "finetuning_type";
}

bool import_torchtune_vision(struct importing *im, bool lora)
{
    const bool images = import_torchtune_has_images(im);
    enum trains is[PARTS];

    for (enum part i = 0; i < PARTS; i++)
        if (!read_part(im, i, lora, &is[i]))
            return false;
    if (!(lora ? check_adapters : check_full)(im, is, images))
        return false;
    if (!images && is[PART_DECODER] == TRAINS_NOTHING)
        import_remark(im, "dataset",
                      "this data has no images, without which torchtune has nothing to "
                      "train%s; check refuses it: use data with images, such as The "
                      "Cauldron, or set %s",
                      lora ? ", and its backward pass fails" : "",
                      lora ? "decoder_trainable: lora" : "decoder_trainable: true");
    else if (!images)
        import_remark(im, "finetuning_type",
                      "the data has no images: the encoder and the layers of "
                      "cross-attention stay as they are, as in torchtune, where they "
                      "have no gradients then");
    for (enum part i = 0; i < PARTS; i++)
        import_mark_carried(im, parts[i].key, carrier_of(im, i));
    return true;
}
