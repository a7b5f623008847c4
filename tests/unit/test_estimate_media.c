/* tests/unit/test_estimate_media.c - memory of a job with sounds, by the config.json of a
 * model like Qwen2-Audio-7B. */
#include "config.h"

#include "train/estimate.h"

#include "tests/unit/unit.h"

#include "base/size.h"
#include "patcher/patcher.h"

/* Qwen/Qwen2-Audio-7B-Instruct */
#define WHISPER                                                                        \
    "\"audio_config\": {\"model_type\": \"qwen2_audio_encoder\", \"encoder_layers\": " \
    "32, \"d_model\": 1280, \"encoder_attention_heads\": 20, \"encoder_ffn_dim\": 5120}"

/* The job of the report that led to trainspool (LoRA of rank 64 in fp16, 8 x 8, on a TITAN
 * RTX), for a model of sound. */
#define JOB                            \
    "model_name_or_path: .\n"          \
    "dataset: sounds.jsonl\n"          \
    "template: qwen2_audio\n"          \
    "finetuning_type: lora\n"          \
    "lora_rank: 64\n"                  \
    "lora_alpha: 128\n"                \
    "lora_dropout: 0.05\n"             \
    "fp16: true\n"                     \
    "per_device_train_batch_size: 8\n" \
    "gradient_accumulation_steps: 8\n" \
    "learning_rate: 2.0e-5\n"          \
    "num_train_epochs: 3\n"
#define SMALL JOB "lora_target: k_proj\n"
#define FULL                  \
    "model_name_or_path: .\n" \
    "dataset: sounds.jsonl\n" \
    "template: qwen2_audio\n" \
    "finetuning_type: full\n" \
    "pure_bf16: true\n"       \
    "per_device_train_batch_size: 8\n"
#define GIVEN SMALL "trainspool: {features: rows.safetensors}\n"

/* 2500 utterances of at most 20 s, and answers of about 300 tokens. */
static const struct estimate_data counted = {
    .rows = 8 * 800,
    .sequences = 8,
    .longest = 800,
    .batch = 8,
    .media = { .items = 2500, .rows = 2500 * 110, .batch = 8 * 500, .largest = 500 }
};

static void read_job(char *dir, const char *text, const char *card, bool unsafe,
                     const struct estimate_data *data, struct patch *patch)
{
    char *job = path_join(dir, "job.yaml");
    struct error err = { 0 };
    struct device device;
    const char *const memory[] = { "TS3", NULL }; /* other rules edit fp16, too */
    struct patch_options options = {
        .job = job, .device = &device, .data = data, .unsafe = unsafe, .select = memory
    };

    if (!device_find(card, &device, &err) ||
        !patcher_check(text, strlen(text), &options, patch, &err) || !patch->has_plan)
        fail_msg("%s", err.text);
    free(job);
}

/* A folder with a config.json, whose text model has this width. */
static char *folder_of(size_t width)
{
    char *dir = unit_dir_new();
    char *name = path_join(dir, "config.json");
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    text_addf(
        &text,
        "{\"model_type\": \"qwen2_audio\", \"audio_token_index\": 151646, " WHISPER
        ", \"text_config\": {\"model_type\": \"qwen2\", \"vocab_size\": 156032, "
        "\"hidden_size\": %zu, \"intermediate_size\": 11008, \"num_hidden_layers\": "
        "32, \"num_attention_heads\": 32, \"num_key_value_heads\": 32, "
        "\"max_position_embeddings\": 8192, \"tie_word_embeddings\": false}, "
        "\"torch_dtype\": \"bfloat16\"}",
        width);
    if (!file_replace(name, text.data, text.len, 0644, &err))
        fail_msg("%s", err.text);
    text_clear(&text);
    free(name);
    return dir;
}

static const struct finding *find(const struct patch *patch, const char *rule)
{
    for (size_t i = 0; i < patch->findings.count; i++)
        if (strcmp(patch->findings.list[i].rule, rule) == 0)
            return &patch->findings.list[i];
    return NULL;
}

/* The plan says that the job does not fit, and the patch halves the batch, which fits. */
static void test_estimate_fits_the_founding_job(void **state)
{
    char *dir = folder_of(4096);
    struct estimate_data halved;
    struct patch patch, again;

    (void)state;
    read_job(dir, JOB, "TITAN RTX", false, &counted, &patch);
    assert_false(patch.plan.memory.fits);
    assert_non_null(find(&patch, "TS301"));
    patch_clear(&patch);
    read_job(dir, JOB, "TITAN RTX", true, &counted, &patch);
    assert_non_null(strstr(patch.text, "per_device_train_batch_size: 4\n"));
    assert_non_null(strstr(patch.text, "gradient_accumulation_steps: 16\n"));
    read_job(dir, patch.text, "TITAN RTX", false, &counted, &again);
    assert_true(again.plan.memory.fits);
    patch_clear(&again);
    patch_clear(&patch);
    halved = estimate_data_of(&counted, &(struct plan) { .per_device_train_batch_size = 4,
                                                         .cutoff_len = 2048,
                                                         .packing = CHOICE_NO });
    assert_int_equal(halved.media.batch, 4 * 500);
    read_job(dir, JOB, "A100 40GB", false, &counted, &patch);
    assert_true(patch.plan.memory.fits);
    patch_clear(&patch);
    unit_dir_free(dir);
}

/* The same job for Phi-4-multimodal, by the config.json of its published folder, fits as it
 * is, also if all records have cutoff_len tokens, as is assumed without data. */
static void test_estimate_fits_the_founding_job_of_phi4(void **state)
{
    /* rows of 80 ms, and the same answers */
    static const struct estimate_data sounds = {
        .rows = 8 * 550,
        .sequences = 8,
        .longest = 550,
        .batch = 8,
        .media = { .items = 2500, .rows = 2500 * 138, .batch = 8 * 250, .largest = 250 }
    };
    /* inputs and outputs of the projections in the 32 layers */
    static const uint64_t adapters =
        (uint64_t)32 * 64 * (3072 + 5120 + 3072 + 3072 + 3072 + 2 * 8192 + 8192 + 3072);
    const struct estimate_data *const data[] = { NULL, &sounds };
    char *dir = unit_source("tests/patch/ts103-founding-phi4mm");
    char *name = path_join(dir, "job.yaml");
    struct error err = { 0 };
    struct patch patch;
    struct text job;

    (void)state;
    text_init(&job, 0);
    if (!file_read(name, DOCUMENT_MAX_BYTES, &job, NULL, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < TS_COUNT(data); i++) {
        read_job(dir, job.data, "TITAN RTX", false, data[i], &patch);
        assert_true(patch.plan.memory.fits);
        assert_true(patch.plan.memory.high < patch.plan.memory.limit);
        assert_int_equal(patch.findings.count, 0); /* of TS3 */
        assert_int_equal(patch.plan.memory.gradients, 4 * adapters);
        assert_int_equal(patch.plan.memory.optimizer, 8 * adapters);
        /* 3,836,021,760 frozen in fp16; what is trained is in fp32, with a copy in fp16 */
        assert_true(patch.plan.memory.weights >= (uint64_t)3836021760 * 2 + 6 * adapters);
        assert_true(patch.plan.memory.weights <
                    (uint64_t)3836021760 * 2 + 6 * adapters + ((uint64_t)64 << 20));
        patch_clear(&patch);
    }
    read_job(dir, job.data, "RTX 3060", false, NULL, &patch);
    assert_false(patch.plan.memory.fits);
    assert_non_null(find(&patch, "TS301"));
    patch_clear(&patch);
    text_clear(&job);
    free(name);
    free(dir);
}

/* Rows of features are on the device with their batch: (M, C) in fp16 and where they go. */
static void test_estimate_counts_rows_of_features(void **state)
{
    struct estimate_data text = counted;
    char *dir = folder_of(4096);
    struct patch with, without;
    uint64_t more;

    (void)state;
    text.media = (struct estimate_media) { 0 };
    read_job(dir, JOB, "A100 80GB", false, &counted, &with);
    read_job(dir, JOB, "A100 80GB", false, &text, &without);
    more = with.plan.memory.total - without.plan.memory.total;
    assert_true(more >= (uint64_t)8 * 500 * (4096 * 2 + 4));
    assert_true(more < (uint64_t)8 * 500 * (4096 * 2 + 4) + ((uint64_t)1 << 20));
    patch_clear(&without);
    patch_clear(&with);
    unit_dir_free(dir);
}

/* The encoder is freed before the model is loaded: it counts only where it is larger. */
static void test_estimate_counts_a_larger_encoder(void **state)
{
    struct estimate_data text = counted, sound = counted;
    char *dir = folder_of(64);
    struct patch with, without, given;

    (void)state;
    text.rows = sound.rows = 64;
    text.longest = sound.longest = 8;
    text.media = (struct estimate_media) { 0 };
    sound.media.batch = 8;
    read_job(dir, SMALL, "A100 80GB", false, &text, &without);
    read_job(dir, SMALL, "A100 80GB", false, &sound, &with);
    read_job(dir, GIVEN, "A100 80GB", false, &sound, &given);
    /* 642 million parameters in 2 bytes, and what 1500 rows take */
    assert_true(with.plan.memory.total > (uint64_t)640000000 * 2);
    assert_true(without.plan.memory.total < (uint64_t)640000000 * 2);
    /* given rows need no encoder */
    assert_true(given.plan.memory.total <
                without.plan.memory.total + ((uint64_t)1 << 20));
    patch_clear(&given);
    patch_clear(&without);
    patch_clear(&with);
    unit_dir_free(dir);
}

/* meta-llama/Llama-3.2-11B-Vision-Instruct */
static char *folder_of_llama(void)
{
    static const char config[] =
        "{\"model_type\": \"mllama\", \"image_token_index\": 128256, \"text_config\": "
        "{\"model_type\": \"mllama_text_model\", \"vocab_size\": 128256, "
        "\"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 40, "
        "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, "
        "\"cross_attention_layers\": [3, 8, 13, 18, 23, 28, 33, 38], "
        "\"tie_word_embeddings\": false}, \"vision_config\": {\"image_size\": 560, "
        "\"vision_output_dim\": 7680, \"intermediate_layers_indices\": [3, 7, 15, 23, "
        "30]}, \"torch_dtype\": \"bfloat16\"}";
    char *dir = unit_dir_new(), *name = path_join(dir, "config.json");
    struct error err = { 0 };

    if (!file_replace(name, config, strlen(config), 0644, &err))
        fail_msg("%s", err.text);
    free(name);
    return dir;
}

#define IMAGES                       \
    "model_name_or_path: .\n"        \
    "dataset: images.jsonl\n"        \
    "template: mllama\n"             \
    "bf16: true\n"                   \
    "gradient_checkpointing: true\n" \
    "per_device_train_batch_size: 1\n"

/* With images, eight layers of cross-attention are part of the model. */
static void test_estimate_counts_layers_of_cross_attention(void **state)
{
    static const char frozen[] =
        IMAGES "finetuning_type: full\nfreeze_language_model: true\n"
               "trainspool: {train_cross_attention: true}\n";
    /* q, k, v, o and the MLP */
    const uint64_t layers = 8 * (2 * (uint64_t)4096 * 4096 + 2 * (uint64_t)1024 * 4096 +
                                 3 * (uint64_t)4096 * 14336);
    struct estimate_data text = counted, images = counted;
    char *dir = folder_of_llama();
    struct patch with, without, alone;
    uint64_t trained;

    (void)state;
    text.rows = images.rows = text.longest = images.longest = 256;
    text.sequences = images.sequences = text.batch = images.batch = 1;
    text.media = (struct estimate_media) { 0 };
    images.media = (struct estimate_media) {
        .items = 8, .rows = 8 * 6404, .batch = 6404, .largest = 6404
    };
    read_job(dir, IMAGES "finetuning_type: lora\n", "A100 80GB", false, &text, &without);
    read_job(dir, IMAGES "finetuning_type: lora\n", "A100 80GB", false, &images, &with);
    assert_in_range(with.plan.memory.weights - without.plan.memory.weights, 2 * layers,
                    2 * layers + ((uint64_t)64 << 20));
    /* gradients and moments in fp32 of these layers alone */
    read_job(dir, frozen, "A100 80GB", false, &images, &alone);
    trained = alone.plan.memory.gradients + alone.plan.memory.optimizer;
    assert_in_range(trained, 12 * layers, 12 * layers + ((uint64_t)64 << 20));
    patch_clear(&alone);
    patch_clear(&without);
    patch_clear(&with);
    unit_dir_free(dir);
}

/* A trained encoder is next to the model, with what it computes for the largest sound. */
static void test_estimate_counts_a_trained_encoder(void **state)
{
    struct estimate_data sound = counted;
    char *dir = folder_of(64);
    struct patch trained, frozen;
    struct arena *arena = arena_new();
    struct model_config config;
    struct error err = { 0 };
    struct tower_cost cost;

    (void)state;
    sound.rows = 64;
    sound.longest = 8;
    sound.media.batch = 8;
    read_job(dir, FULL, "A100 80GB", false, &sound, &frozen);
    read_job(dir, FULL "freeze_vision_tower: false\n", "A100 80GB", false, &sound,
             &trained);
    if (!model_config_read(dir, arena, &config, &err))
        fail_msg("%s", err.text);
    assert_true(estimate_encoder(&trained.plan, &config, &sound.media, &cost));
    assert_true(cost.trained > 630000000);
    /* the residual stream of 1000 rows before each of 32 blocks, and after them */
    assert_true(cost.buffers > (uint64_t)33 * 1000 * 1280 * 4);
    assert_true(trained.plan.memory.workspace >=
                frozen.plan.memory.workspace + cost.buffers);
    arena_free(arena);
    patch_clear(&frozen);
    patch_clear(&trained);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimate_fits_the_founding_job),
        cmocka_unit_test(test_estimate_fits_the_founding_job_of_phi4),
        cmocka_unit_test(test_estimate_counts_rows_of_features),
        cmocka_unit_test(test_estimate_counts_a_larger_encoder),
        cmocka_unit_test(test_estimate_counts_layers_of_cross_attention),
        cmocka_unit_test(test_estimate_counts_a_trained_encoder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
