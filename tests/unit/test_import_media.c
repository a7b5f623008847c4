/* tests/unit/test_import_media.c - files of other tools that train on images or sound. */
#include "config.h"

#include "tests/unit/unit_import.h"

#include "base/size.h"

#define DATA \
    "datasets: [{path: org/pictures, type: chat_template}]\nprocessor_type: AutoProcessor\n"
#define IMAGE "base_model: Qwen/Qwen2-VL-7B-Instruct\n" DATA
#define TILES "base_model: OpenGVLab/InternVL3-1B-hf\n" DATA
#define SOUND "base_model: mistralai/Voxtral-Mini-3B-2507\n" DATA
/* a folder, whose config.json only check reads */
#define PART                                                                       \
    "base_model: Qwen/Qwen2-VL-7B-Instruct\n"                                      \
    "datasets: [{path: org/pictures, type: chat_template, split: 'train[:1%]'}]\n" \
    "processor_type: AutoProcessor\n"
#define LOCAL  "base_model: ./model\n" DATA
#define LAYERS "'model.language_model.layers.[\\d]+.(mlp|self_attn).(up|q)_proj'"

#define VISION(model, more, data)                                            \
    "checkpointer: {checkpoint_dir: /m}\noptimizer: {lr: 1}\ndtype: bf16\n"  \
    "tokenizer: {_component_: "                                              \
    "torchtune.models.llama3_2_vision.llama3_2_vision_transform}\n"          \
    "model: {_component_: torchtune.models.llama3_2_vision." model ", " more \
    "}\ncollate_fn: torchtune.data.padded_collate_tiled_images_and_mask\n" data
#define TARGETS "lora_attn_modules: [q_proj, output_proj], apply_lora_to_mlp: True"
#define PICTURES                                                                  \
    "dataset: {_component_: torchtune.datasets.multimodal.the_cauldron_dataset, " \
    "subset: ocrvqa}\n"
#define INSTRUCTIONS "dataset: {_component_: torchtune.datasets.alpaca_cleaned_dataset}\n"
#define TRANSFORM \
    "transform: {_component_: torchtune.datasets.multimodal.the_cauldron_transform}"
#define SEVERAL                                                                \
    "datasets: [{source: HuggingFaceM4/the_cauldron, subset: dvqa, " TRANSFORM \
    "}, {source: HuggingFaceM4/the_cauldron, subset: ai2d, " TRANSFORM "}]\n"
#define MAPPED                                                                    \
    "dataset: {_component_: torchtune.datasets.multimodal.the_cauldron_dataset, " \
    "subset: ocrvqa, column_map: {texts: turns, images: images}}\n"
#define TEXTS \
    VISION("lora_llama3_2_vision_11b", TARGETS ", decoder_trainable: lora", INSTRUCTIONS)
#define DECODER                                                     \
    VISION("lora_llama3_2_vision_11b",                              \
           TARGETS ", decoder_trainable: lora, encoder_trainable: " \
                   "frozen, fusion_trainable: frozen",              \
           PICTURES)
/* the defaults */
#define WITHOUT_DECODER(data) VISION("llama3_2_vision_11b", "", data)
#define ADAPTERS              VISION("lora_llama3_2_vision_11b", TARGETS, PICTURES)

static void test_import_keeps_the_media_of_axolotl(void **state)
{
    static const struct meaning meanings[] = {
        { IMAGE, "template", NULL },
        { IMAGE "chat_template: qwen2_vl\n", "template", "qwen2_vl" },
        { IMAGE "chat_template: llava\n", "template", "llava" },
        { IMAGE "chat_template: gemma3\n", "template", "gemma3" },
        { AXOLOTL_DATA("- {path: a/b, type: chat_template}\nchat_template: gemma3\n"),
          "template", "gemma" },
        /* Axolotl does not limit images before the processor; LLaMA-Factory does */
        { IMAGE, "image_max_pixels", "1000000000" },
        { IMAGE, "image_min_pixels", "1" },
        { LOCAL, "image_max_pixels", "1000000000" },
        { SOUND, "image_max_pixels", NULL },
        { IMAGE "image_size: 512\n", "image_max_pixels", "262144" },
        { IMAGE "image_size: [512, 256]\n", "image_max_pixels", "1000000000" },
        { IMAGE, "crop_to_patches", NULL },
        { TILES, "crop_to_patches", "true" },
        /* all weights are trained unless an adapter is, or they are frozen */
        { IMAGE, "freeze_vision_tower", "false" },
        { IMAGE, "freeze_multi_modal_projector", "false" },
        { IMAGE "freeze_mm_modules: true\n", "freeze_vision_tower", "true" },
        { IMAGE "freeze_mm_modules: true\n", "freeze_multi_modal_projector", "true" },
        { IMAGE "adapter: lora\n", "freeze_vision_tower", NULL },
        { IMAGE "adapter: lora\nlora_target_modules: " LAYERS "\n", "lora_target",
          "model.language_model.layers.[\\d]+.(mlp|self_attn).(up|q)_proj" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

static void test_import_reports_the_media_of_axolotl(void **state)
{
    static const struct outcome_case cases[] = {
        { IMAGE, "processor_type", IMPORT_IDLE, "preprocessor_config.json" },
        { IMAGE "image_size: 512\n", "image_size", IMPORT_DIFFERS, "neither stretched" },
        { IMAGE "image_size: 512\nimage_resize_algorithm: bilinear\n",
          "image_resize_algorithm", IMPORT_DIFFERS, "bicubic" },
        { IMAGE "image_resize_algorithm: bilinear\n", "image_resize_algorithm",
          IMPORT_IDLE, "no image_size" },
        { IMAGE "freeze_mm_modules: false\n", "freeze_mm_modules", IMPORT_IDLE, "off" },
        { IMAGE "freeze_mm_modules: true\n", "freeze_mm_modules", IMPORT_CARRIED,
          "freeze_vision_tower" },
        { AXOLOTL "image_size: 512\n", "image_size", IMPORT_IDLE, "the data has none" },
    };

    (void)state;
    check_outcomes(cases, TS_COUNT(cases));
}

/* Each remark names what the job cannot do as Axolotl does. */
static void test_import_remarks_on_media(void **state)
{
    static const struct {
        const char *source, *has, *lacks;
    } cases[] = {
        { IMAGE, "hf download org/pictures --repo-type dataset --local-dir pictures",
          "to_json" },
        { IMAGE, "\ndataset: pictures/data/\n", "is used there" },
        { AXOLOTL, "to_json", "hf download" },
        { PART, "only train[:1%] is used", NULL },
        { IMAGE, "does not apply sequence_len", "drops longer" },
        { IMAGE "adapter: lora\nlora_target_modules: [q_proj]\n", "in the encoder, too",
          NULL },
        { IMAGE "adapter: lora\nlora_target_modules: " LAYERS "\n", "lora_target",
          "the encoder" },
        { IMAGE "adapter: lora\nlora_target_modules: '(language_model|visual).*proj'\n",
          "also names layers of the encoder", "in the encoder, too" },
        { ADAPTERS, "--repo-type dataset --include 'ocrvqa/*' --local-dir the_cauldron",
          "with code" },
        { VISION("lora_llama3_2_vision_11b", TARGETS, MAPPED), "with code",
          "hf download" },
        { WITHOUT_DECODER(PICTURES), "embeddings of the 8 tokens", "no images" },
        { WITHOUT_DECODER(INSTRUCTIONS), "torchtune has nothing to train; check", NULL },
        { VISION("llama3_2_vision_11b", "decoder_trainable: True", INSTRUCTIONS),
          "layers of cross-attention stay as they are", "nothing to train" },
        { VISION("lora_llama3_2_vision_11b", TARGETS, INSTRUCTIONS),
          "its backward pass fails", NULL },
        { DECODER, "here they have the same ones as the others", "nothing to train" },
        { TEXTS, "layers of cross-attention stay as they are", "adapters; here" },
        { VISION("qlora_llama3_2_vision_11b", TARGETS, PICTURES),
          "torchtune also has the encoder in 4 bits", NULL },
        { ADAPTERS, "freeze_language_model", "in 4 bits" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct trial trial = trial_new("f.yml", cases[i].source, strlen(cases[i].source));
        struct text line; /* without the breaks of comments */

        if (!trial.good)
            fail_msg("%s\n%s", cases[i].source, trial.err.text);
        text_init(&line, 0);
        for (const char *at = trial.import.text.data; *at; at++)
            if (strncmp(at, "\n#  ", 4) == 0)
                at += 3;
            else
                text_addc(&line, *at);
        if (!strstr(line.data, cases[i].has) ||
            (cases[i].lacks && strstr(line.data, cases[i].lacks)))
            fail_msg("of\n%sgot\n%s", cases[i].source, trial.import.text.data);
        text_clear(&line);
        trial_end(&trial);
    }
}

static void test_import_reads_vision_recipes_of_torchtune(void **state)
{
    static const struct meaning meanings[] = {
        { ADAPTERS, "freeze_vision_tower", "false" },
        { ADAPTERS, "freeze_multi_modal_projector", NULL },
        { ADAPTERS, "lora_target", "q_proj,o_proj,gate_proj,up_proj,down_proj,fc1,fc2" },
        { ADAPTERS, "template", "mllama" },
        { ADAPTERS, "bf16", "true" },
        { ADAPTERS, "pure_bf16", NULL },
        { ADAPTERS, "dataset", "the_cauldron/ocrvqa/" },
        { ADAPTERS, "freeze_language_model", "true" },
        { ADAPTERS, "trainspool", "{train_cross_attention: true}" },
        { VISION("lora_llama3_2_vision_11b", TARGETS ", decoder_trainable: lora",
                 PICTURES),
          "freeze_language_model", NULL },
        { VISION("lora_llama3_2_vision_11b", TARGETS ", decoder_trainable: lora",
                 PICTURES),
          "trainspool", NULL },
        { VISION("lora_llama3_2_vision_11b", TARGETS ", decoder_trainable: lora",
                 PICTURES),
          "freeze_vision_tower", "false" },
        /* data without images leaves the encoder as it is */
        { TEXTS, "freeze_vision_tower", NULL },
        { TEXTS, "lora_target", "q_proj,o_proj,gate_proj,up_proj,down_proj" },
        { TEXTS, "pure_bf16", "true" },
        { TEXTS, "trainspool", NULL },
        { VISION("lora_llama3_2_vision_11b", TARGETS, INSTRUCTIONS),
          "freeze_vision_tower", "false" },
        { VISION("lora_llama3_2_vision_11b", TARGETS, INSTRUCTIONS), "trainspool",
          "{train_cross_attention: true}" },
        { DECODER, "freeze_vision_tower", NULL },
        { DECODER, "trainspool", NULL },
        { VISION("llama3_2_vision_11b", "decoder_trainable: True", PICTURES),
          "finetuning_type", "full" },
        { VISION("llama3_2_vision_11b", "decoder_trainable: True", PICTURES),
          "freeze_vision_tower", "false" },
        { VISION("llama3_2_vision_11b", "decoder_trainable: True", PICTURES),
          "freeze_multi_modal_projector", "false" },
        { VISION("lora_llama3_2_vision_11b", TARGETS, SEVERAL), "freeze_vision_tower",
          "false" },
        { VISION("lora_llama3_2_vision_11b", TARGETS, SEVERAL), "dataset",
          "the_cauldron/dvqa/,the_cauldron/ai2d/" },
        { VISION("llama3_2_vision_11b", "decoder_trainable: True", PICTURES),
          "freeze_language_model", NULL },
        { VISION("llama3_2_vision_11b", "decoder_trainable: True", INSTRUCTIONS),
          "freeze_vision_tower", NULL },
        /* of the text model, the layers of cross-attention are trained alone */
        { WITHOUT_DECODER(PICTURES), "finetuning_type", "full" },
        { WITHOUT_DECODER(PICTURES), "freeze_language_model", "true" },
        { WITHOUT_DECODER(PICTURES), "trainspool", "{train_cross_attention: true}" },
        { WITHOUT_DECODER(PICTURES), "freeze_vision_tower", "false" },
        { WITHOUT_DECODER(PICTURES), "freeze_multi_modal_projector", "false" },
        { WITHOUT_DECODER(INSTRUCTIONS), "trainspool", "{train_cross_attention: true}" },
        { WITHOUT_DECODER(INSTRUCTIONS), "freeze_vision_tower", "false" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

static void test_import_refuses_media_of_other_models(void **state)
{
    static const struct {
        const char *source, *says;
    } cases[] = {
        { "base_model: google/gemma-3n-E2B-it\n" DATA, "of type gemma3n" },
        { "base_model: Qwen/Qwen2-7B\n" DATA, "of type qwen2" },
        { VISION("llama3_2_vision_11b", "encoder_trainable: False", PICTURES),
          "must both be true" },
        { VISION("llama3_2_vision_11b", "fusion_trainable: False", PICTURES),
          "must both be true" },
        { VISION("lora_llama3_2_vision_11b", "encoder_trainable: frozen", PICTURES),
          "must both be lora, or frozen" },
        { VISION("lora_llama3_2_vision_11b",
                 "encoder_trainable: frozen, fusion_trainable: frozen", PICTURES),
          "nothing is trained" },
        { VISION("lora_llama3_2_vision_11b", "fusion_trainable: full", PICTURES),
          "model.fusion_trainable must be frozen or lora, not full" },
        { VISION("llama3_2_vision_11b", "decoder_trainable: lora", PICTURES),
          "model.decoder_trainable must be true or false, not lora" },
        { TORCHTUNE_ADAM
          "collate_fn: torchtune.data.padded_collate_tiled_images_and_mask\n",
          "training on images is not supported" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct trial trial = trial_new("f.yml", cases[i].source, strlen(cases[i].source));

        if (trial.good || trial.err.code != ERROR_JOB ||
            !strstr(trial.err.text, cases[i].says))
            fail_msg("%s: code %d: %s", cases[i].source, trial.err.code, trial.err.text);
        trial_end(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import_keeps_the_media_of_axolotl),
        cmocka_unit_test(test_import_reports_the_media_of_axolotl),
        cmocka_unit_test(test_import_remarks_on_media),
        cmocka_unit_test(test_import_reads_vision_recipes_of_torchtune),
        cmocka_unit_test(test_import_refuses_media_of_other_models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
