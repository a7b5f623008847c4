/*
 * tests/unit/test_stored_weights.c - no edit, safe or not, leads to a run that the loss
 * scaler stops.  Jobs are made from random settings of programs, versions, cards and formats.
 * The oracle below restates the packages' sources in its own terms; it reads the patched
 * text, not our plan.  tests/differential/weights.py compares with the packages.
 */
#include "config.h"

#include "patcher/patcher.h"

#include "base/size.h"
#include "precision/device.h"
#include "tests/unit/unit.h"

#define JOBS 3000

enum program { SCRIPT, SCRIPT_DEEPSPEED, SCRIPT_FSDP, TRL, FACTORY, PROGRAMS };
enum training { FULL, LORA, LORA_WHOLE, QLORA_4, QLORA_8, QLORA_WHOLE, METHODS };
enum asks { ASKS_NOTHING, ASKS_FP16, ASKS_BF16, ASKS_BOTH, ASKS_BY_LAUNCHER, ASKS };

/* Formats of the oracle: what a version or the files leave open is unknown. */
enum stored { STORED_32, STORED_BF16, STORED_FP16, STORED_UNKNOWN };

static const char *const dtypes[] = { NULL, "auto", "float32", "bfloat16", "float16" };
static const char *const models[] = { "model-fp32", "model-bf16", "model-fp16",
                                      "some-one/hub-model" };
static const char *const cards[] = { "T4", "V100", "A100", "GTX 1080 Ti", "RTX 4090" };
static const char *const policies[] = { "sound", "bf16", "noscaler", "fp32", "noclip" };
static const char *const transformers[] = { NULL, "4.45.0", "4.57.1", "5.1.0" };
static const char *const pefts[] = { NULL, "0.11.1", "0.12.0", "0.18.0" };
static const struct {
    const char *name;
    int minor;
} trls[] = { { "0.16.1", 16 }, { "0.24.0", 24 }, { "0.25.1", 25 },
             { "0.26.0", 26 }, { "0.29.0", 29 }, { NULL, 0 } };

struct job {
    enum program program;
    enum training method;
    enum asks asks;
    size_t dtype, model, card, policy, transformers, peft, trl;
};

static uint32_t random_state = 20240711;

static size_t pick(size_t count)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % count;
}

static struct job make_job(void)
{
    return (struct job) { .program = (enum program)pick(PROGRAMS),
                          .method = (enum training)pick(METHODS),
                          .asks = (enum asks)pick(ASKS),
                          .dtype = pick(TS_COUNT(dtypes)),
                          .model = pick(TS_COUNT(models)),
                          .card = pick(TS_COUNT(cards)),
                          .policy = pick(TS_COUNT(policies)),
                          .transformers = pick(TS_COUNT(transformers)),
                          .peft = pick(TS_COUNT(pefts)),
                          .trl = pick(TS_COUNT(trls)) };
}

static bool is_quantized(const struct job *job)
{
    return job->method >= QLORA_4;
}

static bool trains_whole(const struct job *job)
{
    return job->method == LORA_WHOLE || job->method == QLORA_WHOLE;
}

/* ---- Its text ---- */

static void write_method(const struct job *job, struct text *out)
{
    const char *bits = job->method == QLORA_8 ? "8" : "4";

    if (job->program == TRL)
        text_adds(out, job->method == FULL ? "lora_r: 8\n" : "use_peft: true\n");
    else
        text_addf(out, "finetuning_type: %s\n", job->method == FULL ? "full" : "lora");
    if (is_quantized(job) && job->program == TRL)
        text_addf(out, "load_in_%sbit: true\n", bits);
    else if (is_quantized(job))
        text_addf(out, "quantization_bit: %s\n", bits);
    if (trains_whole(job))
        text_adds(out, job->program == TRL ? "lora_modules_to_save: [lm_head]\n"
                                           : "additional_target: lm_head\n");
}

static void write_precision(const struct job *job, struct text *out)
{
    if (job->asks == ASKS_FP16 || job->asks == ASKS_BOTH)
        text_adds(out, "fp16: true\n");
    if (job->asks == ASKS_BF16 || job->asks == ASKS_BOTH)
        text_adds(out, "bf16: true\n");
    if (dtypes[job->dtype] && job->program != FACTORY)
        text_addf(out, "torch_dtype: %s\n", dtypes[job->dtype]);
}

static void write_versions(const struct job *job, struct text *out)
{
    text_adds(out, "  versions: {torch: 2.6.0");
    if (transformers[job->transformers])
        text_addf(out, ", transformers: %s", transformers[job->transformers]);
    if (pefts[job->peft])
        text_addf(out, ", peft: %s", pefts[job->peft]);
    if (job->program == TRL && trls[job->trl].name)
        text_addf(out, ", trl: %s", trls[job->trl].name);
    if (job->program == FACTORY)
        text_adds(out, ", llamafactory: 0.9.3");
    text_adds(out, "}\n");
}

static void write_job(const struct job *job, struct text *out)
{
    static const char *const commands[PROGRAMS] = {
        [SCRIPT] = "python train.py",
        [SCRIPT_DEEPSPEED] = "deepspeed train.py",
        [SCRIPT_FSDP] = "torchrun train.py",
        [TRL] = "trl sft",
        [FACTORY] = "llamafactory-cli train job.yaml",
    };

    text_addf(out, "model_name_or_path: %s\nlogging_nan_inf_filter: false\n",
              models[job->model]);
    write_method(job, out);
    write_precision(job, out);
    if (job->program == SCRIPT_DEEPSPEED)
        text_adds(out, "deepspeed: {fp16: {enabled: auto}}\n");
    if (job->program == SCRIPT_FSDP)
        text_adds(out, "fsdp: full_shard auto_wrap\n");
    text_addf(out, "trainspool:\n  target: external\n  policy: %s\n  command: %s\n",
              policies[job->policy], commands[job->program]);
    if (job->asks == ASKS_BY_LAUNCHER)
        text_adds(out, "  env: {ACCELERATE_MIXED_PRECISION: fp16}\n");
    write_versions(job, out);
}

/* ---- The oracle ---- */

static bool says(const char *text, const char *line)
{
    for (const char *at = text; (at = strstr(at, line)); at++)
        if ((at == text || at[-1] == '\n') && at[strlen(line)] == '\n')
            return true;
    return false;
}

/* Return the index in `dtypes` that the text has now; an unsafe edit renames the key. */
static size_t dtype_of(const char *text)
{
    char line[64];

    for (size_t i = 1; i < TS_COUNT(dtypes); i++) {
        snprintf(line, sizeof(line), "torch_dtype: %s", dtypes[i]);
        if (says(text, line) || says(text, line + strlen("torch_")))
            return i;
    }
    return 0;
}

/* SFTConfig.__post_init__ turns bf16 on since 0.19, unless fp16 or bf16 is given. */
static bool has_bf16(const struct job *job, const char *text)
{
    return says(text, "bf16: true") ||
           (job->program == TRL && trls[job->trl].minor >= 19 &&
            !says(text, "bf16: false") && !says(text, "fp16: true"));
}

static bool scales(const struct job *job, const char *text)
{
    return says(text, "fp16: true") ||
           (job->asks == ASKS_BY_LAUNCHER && !has_bf16(job, text));
}

static enum stored in_files(const struct job *job)
{
    return (enum stored[]) { STORED_32, STORED_BF16, STORED_FP16,
                             STORED_UNKNOWN }[job->model];
}

/* A dtype that the script does not pass: None, or what its ModelConfig has. */
static enum stored loaded_by_default(const struct job *job)
{
    const char *version = transformers[job->transformers];
    bool unknown = job->program == TRL && !trls[job->trl].name;

    if (unknown && (is_quantized(job) || !version || version[0] != '4'))
        return !is_quantized(job) && in_files(job) == STORED_32 ? STORED_32
                                                                : STORED_UNKNOWN;
    if (job->program == TRL && trls[job->trl].minor >= 27)
        return STORED_32;
    if (version && version[0] == '4')
        return is_quantized(job) ? STORED_FP16 : STORED_32;
    if (version)
        return in_files(job);
    return in_files(job) == STORED_32 && !is_quantized(job) ? STORED_32 : STORED_UNKNOWN;
}

static enum stored loaded(const struct job *job, const char *text)
{
    static const enum stored given[] = { STORED_UNKNOWN, STORED_UNKNOWN, STORED_32,
                                         STORED_BF16, STORED_FP16 };
    size_t dtype = dtype_of(text);

    if (dtype >= 2)
        return given[dtype];
    return dtype == 1 ? in_files(job) : loaded_by_default(job);
}

/* LLaMA-Factory casts, DeepSpeed keeps copies, Accelerate casts under FSDP with mixed
 * precision. */
static bool program_casts(const struct job *job, const char *text)
{
    return job->program == FACTORY || job->program == SCRIPT_DEEPSPEED ||
           (job->program == SCRIPT_FSDP && (scales(job, text) || has_bf16(job, text)));
}

static enum stored adapters(const struct job *job, const char *text)
{
    const char *peft = pefts[job->peft];
    bool trl = job->program == TRL;

    if (is_quantized(job) && trl && !trls[job->trl].name)
        return STORED_UNKNOWN;
    if (is_quantized(job) && trl && trls[job->trl].minor >= 26)
        return STORED_BF16;
    if (!peft || strcmp(peft, "0.12") > 0)
        return STORED_32;
    if (is_quantized(job) && (!trl || job->method == QLORA_8))
        return STORED_32; /* next to integers */
    return loaded(job, text);
}

static enum stored whole(const struct job *job, const char *text)
{
    int trl = job->program == TRL ? trls[job->trl].minor : 0;

    if (is_quantized(job) && job->program == TRL && !trls[job->trl].name)
        return STORED_UNKNOWN;
    if (is_quantized(job) && trl >= 26)
        return STORED_BF16;
    if (is_quantized(job) && job->program == TRL && has_bf16(job, text))
        return STORED_BF16; /* the head of a 4-bit model */
    return is_quantized(job) && trl != 25 ? STORED_32 : loaded(job, text);
}

/* Of two formats the one that matters more to the scaler and to the plan. */
static enum stored worse(enum stored a, enum stored b)
{
    if (a == STORED_UNKNOWN || b == STORED_UNKNOWN)
        return STORED_UNKNOWN;
    return a > b ? a : b;
}

static enum stored trained(const struct job *job, const char *text)
{
    if (program_casts(job, text))
        return STORED_32;
    if (job->method == FULL)
        return loaded(job, text);
    return trains_whole(job) ? worse(adapters(job, text), whole(job, text))
                             : adapters(job, text);
}

static bool stops(const struct job *job, const char *text)
{
    enum stored format = trained(job, text);

    return scales(job, text) && job->program != SCRIPT_DEEPSPEED &&
           (format == STORED_BF16 || format == STORED_FP16);
}

/* ---- The checks ---- */

static void check(const char *text, const char *device, bool unsafe, struct patch *patch)
{
    struct error err = { 0 };
    struct device card;
    char *name = unit_source("tests/patch/job.yaml");
    struct patch_options options = { .job = name, .device = &card, .unsafe = unsafe };

    assert_true(device_find(device, &card, &err));
    if (!patcher_check(text, strlen(text), &options, patch, &err))
        fail_msg("%s\n%s", err.text, text);
    free(name);
}

/* Errors about the format of trained weights under a scaler. */
static size_t count_errors(const struct patch *patch, bool with_bf16)
{
    static const char *const rules[] = { "TS105", "TS107", "TS801", "TS902", "TS102" };
    size_t count = 0;

    for (size_t i = 0; i < patch->findings.count; i++)
        for (size_t j = 0; j < TS_COUNT(rules) - !with_bf16; j++)
            count += patch->findings.list[i].severity == SEVERITY_ERROR &&
                     strcmp(patch->findings.list[i].rule, rules[j]) == 0;
    return count;
}

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

static void check_plan(const struct job *job, const char *text, const struct patch *patch)
{
    const struct precision *precision = &patch->plan.precision;
    enum stored format = trained(job, text);

    if (format != STORED_UNKNOWN && precision->trainable != formats[format])
        fail_msg("the plan trains %s: %s\n%s", format_dtype(precision->trainable),
                 precision->message, text);
    if (scales(job, text) &&
        (precision->mode == MODE_BF16_PURE || precision->mode == MODE_FP16_PURE))
        fail_msg("a run with a scaler is %s\n%s", mode_names[precision->mode], text);
    if (precision->mode == MODE_FP32 && precision->compute != FORMAT_FP32)
        fail_msg("fp32 computes in %s\n%s", format_dtype(precision->compute), text);
}

static void check_job(const struct job *job, size_t *edited)
{
    struct patch patch, again;
    struct text text;

    text_init(&text, 0);
    write_job(job, &text);
    check(text.data, cards[job->card], pick(4) == 0, &patch);
    check(patch.text, cards[job->card], false, &again);
    *edited += patch.changed;
    if (again.changed)
        fail_msg("a second patch changes\n%s", patch.text);
    if (stops(job, patch.text) && count_errors(&again, true) == 0)
        fail_msg("the scaler stops on %s without an error:\n%s\nfrom\n%s",
                 cards[job->card], patch.text, text.data);
    if (!stops(job, patch.text) && count_errors(&again, false) > 0)
        fail_msg("a false error on %s:\n%s", cards[job->card], patch.text);
    if (!stops(job, text.data) && stops(job, patch.text) && patch.changed &&
        job->asks != ASKS_BOTH)
        fail_msg("an edit makes the scaler stop on %s:\n%s\nfrom\n%s", cards[job->card],
                 patch.text, text.data);
    check_plan(job, patch.text, &again);
    text_clear(&text);
    patch_clear(&patch);
    patch_clear(&again);
}

static void test_stored_weights_never_reach_a_scaler_by_an_edit(void **state)
{
    size_t edited = 0;

    (void)state;
    for (size_t i = 0; i < JOBS; i++) {
        const struct job job = make_job();

        check_job(&job, &edited);
    }
    assert_true(edited > JOBS / 8); /* the jobs exercise the edits */
}

/* ---- config.json and the files ---- */

static void write_file(const char *dir, const char *name, const void *data, size_t len)
{
    char *path = path_join(dir, name);

    assert_true(file_replace(path, data, len, 0644, NULL));
    free(path);
}

/* A model whose file holds one float16 matrix. */
static void write_model(const char *dir, const char *said)
{
    static const char header[] = "{\"model.embed_tokens.weight\":{\"dtype\":\"F16\","
                                 "\"shape\":[2,2],\"data_offsets\":[0,8]}}";
    uint64_t len = sizeof(header) - 1;
    struct text file, config;

    text_init(&file, 0);
    text_init(&config, 0);
    text_add(&file, (const char *)&len, sizeof(len));
    text_add(&file, header, len);
    text_add(&file, "\0\0\0\0\0\0\0\0", 8);
    text_addf(&config,
              "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], "
              "\"hidden_size\": 2, \"intermediate_size\": 2, \"num_hidden_layers\": 1, "
              "\"num_attention_heads\": 1, \"vocab_size\": 2%s}",
              said);
    write_file(dir, "model.safetensors", file.data, file.len);
    write_file(dir, "config.json", config.data, config.len);
    text_clear(&file);
    text_clear(&config);
}

/* transformers asks config.json for the format before it opens the files. */
static void test_stored_weights_follow_config_json_before_the_files(void **state)
{
    static const struct {
        const char *said;
        enum format format;
    } cases[] = {
        { ", \"torch_dtype\": \"bfloat16\"", FORMAT_BF16 },
        { ", \"dtype\": \"float32\"", FORMAT_FP32 },
        { "", FORMAT_FP16 },
    };
    char *dir = unit_dir_new();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct text job;
        struct patch patch;

        write_model(dir, cases[i].said);
        text_init(&job, 0);
        text_addf(
            &job,
            "model_name_or_path: %s\nfinetuning_type: full\ndtype: auto\n"
            "trainspool: {target: external, policy: report, command: python x.py}\n",
            dir);
        check(job.data, "A100", false, &patch);
        assert_int_equal(patch.plan.precision.trainable, cases[i].format);
        patch_clear(&patch);
        text_clear(&job);
    }
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stored_weights_never_reach_a_scaler_by_an_edit),
        cmocka_unit_test(test_stored_weights_follow_config_json_before_the_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
