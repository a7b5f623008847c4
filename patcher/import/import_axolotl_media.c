/*
 * patcher/import/import_axolotl_media.c - Axolotl's training on images and sound, which
 * processor_type turns on.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: schemas/multimodal.py, processing_strategies.py,
 * utils/collators/mm_chat.py, loaders/model.py (freeze_mm_modules).
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"
#include "train/media/media_family.h"
#include "train/model/model_names.h"
#include "train/tower/tower_family.h"

/* More pixels than any image that can be read (train/media/image.h). */
#define NO_LIMIT "1000000000"

/* Return a row of the encoders that models of this type have; NULL: none is supported, or the
 * text model cannot read its rows. */
static const struct tower_family *family_of(const char *type)
{
    const struct tower_family *family;

    if (!media_family_find(type, NULL))
        return NULL;
    for (size_t i = 0; (family = tower_family_at(i)); i++)
        if (strcmp(family->model_type, type) == 0)
            return family;
    return NULL;
}

static bool refuse_family(struct importing *im, const struct node *at, const char *model,
                          const char *type)
{
    return import_refuse(
        im, ERROR_JOB, at,
        "processor_type: training on images or sound is not supported for %s, a model of "
        "type %s; docs/media.md lists those for which it is, and without processor_type "
        "the file trains on text",
        model, type);
}

/* Axolotl resizes an image to image_size before the model's processor does: to a width and
 * height, or to a square with black borders.  Otherwise the processor alone decides. */
static void import_image_size(struct importing *im)
{
    const struct entry *size = import_find(im, "image_size");
    const struct node *value = size ? node_value(size->value) : NULL;
    const double side =
        value && value->kind == NODE_SCALAR ? import_number(im, "image_size", 0) : 0;

    if (side >= 1 && side <= 16384)
        import_set(im, "image_max_pixels", arena_printf(im->arena, "%.0f", side * side),
                   "image_size squared; images keep their shape");
    else
        import_set(im, "image_max_pixels", NO_LIMIT,
                   "as in Axolotl, only the model's processor limits images");
    import_set(im, "image_min_pixels", "1", NULL);
    import_mark_dropped(im, "image_size", IMPORT_DIFFERS,
                        "images are neither stretched nor framed before the model's "
                        "processor resizes them");
    import_mark_dropped(im, "image_resize_algorithm", size ? IMPORT_DIFFERS : IMPORT_IDLE,
                        size ? "images are resized by bicubic interpolation"
                             : "there is no image_size");
}

/* Without adapters Axolotl trains encoder and projector, too, unless they are frozen. */
static void import_frozen(struct importing *im)
{
    const bool frozen = import_is_true(im, "freeze_mm_modules");

    if (!frozen && !import_find(im, "adapter")) {
        import_set(im, "freeze_vision_tower", "false", "Axolotl's default");
        import_set(im, "freeze_multi_modal_projector", "false", NULL);
    }
    if (frozen) {
        import_set(im, "freeze_vision_tower", "true", NULL);
        import_set(im, "freeze_multi_modal_projector", "true", NULL);
        import_mark_carried(im, "freeze_mm_modules", "freeze_vision_tower");
    }
    import_mark_dropped(im, "freeze_mm_modules", IMPORT_IDLE, "off");
}

/* Return whether a regular expression names layers of an encoder or a projector. */
static bool names_encoder(const char *expression)
{
    static const char *const parts[] = { "vision", "visual", "audio", "projector",
                                         "merger" };

    for (size_t i = 0; i < TS_COUNT(parts); i++)
        if (strstr(expression, parts[i]))
            return true;
    return false;
}

/* A list of names adapts layers of the encoder that have them, too. */
static void report_targets(struct importing *im)
{
    const struct entry *targets = import_find(im, "lora_target_modules");
    const bool list = targets && node_value(targets->value)->kind == NODE_LIST;
    const char *expression = list ? NULL : import_get(im, "lora_target_modules");

    if (!import_find(im, "adapter") || import_is_true(im, "freeze_mm_modules"))
        return;
    if (list || import_is_true(im, "lora_target_linear"))
        import_remark(im, "lora_target",
                      "only layers of the text model get adapters; Axolotl adapts layers "
                      "with these names in the encoder, too, as a job with "
                      "freeze_vision_tower: false does");
    else if (expression && names_encoder(expression))
        import_remark(im, "lora_target",
                      "only layers of the text model get adapters; the expression also "
                      "names layers of the encoder or the projector. To adapt those of "
                      "the encoder, set freeze_vision_tower: false");
}

bool import_axolotl_media(struct importing *im)
{
    const struct entry *processor = import_find(im, "processor_type");
    const char *model = import_get(im, "base_model");
    /* NULL: a folder of this machine, whose config.json check reads, or an unknown name */
    const char *type = model ? model_name_type(model) : NULL;
    const struct tower_family *family = type ? family_of(type) : NULL;

    if (!processor)
        return true;
    if (type && !family)
        return refuse_family(im, processor->value, model, type);
    import_mark_dropped(im, "processor_type", IMPORT_IDLE,
                        "read from the model's folder: preprocessor_config.json");
    if (!family || !family->encoder->sound)
        import_image_size(im);
    import_mark_dropped(im, "processor_kwargs", IMPORT_DIFFERS,
                        "the settings of preprocessor_config.json count");
    if (type && strcmp(type, "internvl") == 0)
        import_set(im, "crop_to_patches", "true", "the default of InternVL's processor");
    import_frozen(im);
    report_targets(im);
    return !import_failed(im);
}

/* The template gemma is Gemma 3's for text. */
void import_axolotl_media_template(struct importing *im)
{
    const char *template_name = import_value(im, "template");

    if (import_find(im, "processor_type") && template_name &&
        strcmp(template_name, "gemma") == 0)
        import_set(im, "template", "gemma3", NULL);
}
