/*
 * tests/unit/test_decisions.c - the precision of a job for every class of device and
 * every policy: the rules as a table, so that a changed decision is noticed.
 *
 * The expected values come from the rules and from the abilities of each card
 * (docs/precision.md), not from the output of the program.  Two columns follow from
 * others: policy noclip equals sound plus its own zero, policy report edits nothing.
 */
#include "config.h"

#include "patcher/patcher.h"

#include "base/size.h"
#include "precision/device.h"
#include "tests/unit/unit.h"

enum {
    P60 = 1 << 0,
    P61 = 1 << 1,
    V70 = 1 << 2,
    T75 = 1 << 3,
    GTX16 = 1 << 4,
    A80 = 1 << 5,
    A86 = 1 << 6,
    A89 = 1 << 7,
    H90 = 1 << 8,
    B100 = 1 << 9,
    J110 = 1 << 10,
    B120 = 1 << 11,
    CPU = 1 << 12,
    UNKNOWN = 1 << 13,

    OLD_TENSOR = V70 | T75,
    OLD_PLAIN = P60 | P61 | GTX16,
    OLD = OLD_TENSOR | OLD_PLAIN,
    FP8 = A89 | H90 | B100 | J110 | B120,
    AMPERE = A80 | A86,
    NEW = AMPERE | FP8,
    ANY = OLD | NEW | CPU | UNKNOWN,
};

static const struct device_class {
    int bit;
    const char *name;      /* as given to --device; NULL: unknown */
    const char *other_gpu; /* a GPU of another kind in the same job, or NULL */
} classes[] = {
    { P60, "P100", NULL },       { P61, "P40", NULL },
    { V70, "V100", NULL },       { T75, "T4", NULL },
    { GTX16, "GTX 1660", NULL }, { A80, "A100", NULL },
    { A86, "RTX 3090", NULL },   { A89, "L4", NULL },
    { H90, "H100", NULL },       { B100, "B200", NULL },
    { J110, "Thor", NULL },      { B120, "RTX 5090", NULL },
    { CPU, "cpu", NULL },        { UNKNOWN, NULL, NULL },
    { T75, "T4", "an A100" }, /* the weakest of several GPUs counts */
};

enum {
    SOUND = 1 << POLICY_SOUND,
    BF16 = 1 << POLICY_BF16,
    FP32 = 1 << POLICY_FP32,
    NOSCALER = 1 << POLICY_NOSCALER,

    NOT_FP32 = SOUND | BF16 | NOSCALER,
};

struct decision {
    int policies, devices;
    const char *expected_lines; /* the lines after the patch; NULL: unchanged */
    const char *rules;          /* TS1xx, TS2xx and TS4xx, each once, in order */
};

struct job {
    const char *method, *lines;
    struct decision decisions[12]; /* each cell in exactly one of them */
};

static const struct job jobs[] = {
    { "lora",
      "logging_steps: 5\n",
      { { NOT_FP32, OLD_TENSOR | NEW, NULL, "TS118" },
        { NOT_FP32, OLD_PLAIN | CPU | UNKNOWN, NULL, "" },
        { FP32, ANY, NULL, "" } } },

    { "lora",
      "fp16: true\n",
      { { NOT_FP32, P60, NULL, "TS204" },
        { NOT_FP32, P61, NULL, "TS203" },
        { NOT_FP32, GTX16, NULL, "TS202" },
        { NOT_FP32, OLD_TENSOR | UNKNOWN, NULL, "" },
        { SOUND | NOSCALER, NEW, NULL, "TS104" },
        { BF16, NEW, "fp16: false\nbf16: true\n", "TS104" },
        { NOT_FP32, CPU, "fp16: false\n", "TS114" },
        { FP32, ANY, "fp16: false\n", "TS125" } } },

    { "lora",
      "bf16: true\n",
      { { NOT_FP32, OLD_TENSOR, "bf16: false\nfp16: true\n", "TS102" },
        { NOT_FP32, OLD_PLAIN, "bf16: false\n", "TS102" },
        { NOT_FP32, NEW | CPU | UNKNOWN, NULL, "" },
        { FP32, ANY, "bf16: false\n", "TS125" } } },

    { "lora",
      "bf16: true\nfp16: false\n",
      { { NOT_FP32, OLD_TENSOR, "bf16: false\nfp16: true\n", "TS102" },
        { NOT_FP32, OLD_PLAIN, "bf16: false\nfp16: false\n", "TS102" },
        { NOT_FP32, NEW | CPU | UNKNOWN, NULL, "" },
        { FP32, ANY, "bf16: false\nfp16: false\n", "TS125" } } },

    { "lora",
      "fp16: true\nbf16: true\n",
      { { NOT_FP32, NEW | CPU, "fp16: false\nbf16: true\n", "TS101" },
        { NOT_FP32, OLD_TENSOR, "fp16: true\nbf16: false\n", "TS101" },
        { NOT_FP32, P60, "fp16: true\nbf16: false\n", "TS101 TS204" },
        { NOT_FP32, P61, "fp16: true\nbf16: false\n", "TS101 TS203" },
        { NOT_FP32, GTX16, "fp16: true\nbf16: false\n", "TS101 TS202" },
        { NOT_FP32, UNKNOWN, NULL, "TS101" },
        { FP32, ANY, "fp16: false\nbf16: false\n", "TS125" } } },

    { "lora",
      "bf16: auto\n",
      { { NOT_FP32, ANY, NULL, "TS117" }, { FP32, ANY, "bf16: false\n", "TS125" } } },

    { "full",
      "fp16: true\nmodel_dtype: float16\n",
      { { SOUND | BF16, OLD_TENSOR | UNKNOWN, "fp16: true\nmodel_dtype: float32\n",
          "TS105" },
        { SOUND | BF16, P60, "fp16: true\nmodel_dtype: float32\n", "TS105 TS204" },
        { SOUND | BF16, P61, "fp16: true\nmodel_dtype: float32\n", "TS105 TS203" },
        { SOUND | BF16, GTX16, "fp16: true\nmodel_dtype: float32\n", "TS105 TS202" },
        { SOUND, NEW, "fp16: true\nmodel_dtype: float32\n", "TS104 TS105" },
        { BF16, NEW, "fp16: false\nbf16: true\nmodel_dtype: float32\n", "TS104 TS105" },
        { SOUND | BF16, CPU, "fp16: false\nmodel_dtype: float32\n", "TS105 TS114" },
        { FP32, ANY, "fp16: false\nmodel_dtype: float32\n", "TS105 TS125" },
        { NOSCALER, OLD_TENSOR | NEW | CPU | UNKNOWN,
          "fp16: true\nloss_scale: none\nmodel_dtype: float16\n", "TS105 TS122 TS126" },
        { NOSCALER, P60, "fp16: true\nloss_scale: none\nmodel_dtype: float16\n",
          "TS105 TS122 TS126 TS204" },
        { NOSCALER, P61, "fp16: true\nloss_scale: none\nmodel_dtype: float16\n",
          "TS105 TS122 TS126 TS203" },
        { NOSCALER, GTX16, "fp16: true\nloss_scale: none\nmodel_dtype: float16\n",
          "TS105 TS122 TS126 TS202" } } },

    { "freeze",
      "model_dtype: float16\n",
      { { SOUND | BF16, OLD_TENSOR, "model_dtype: float32\nfp16: true\n", "TS108" },
        { SOUND | BF16, NEW, "model_dtype: float32\nbf16: true\n", "TS108" },
        { SOUND | BF16, OLD_PLAIN | CPU | UNKNOWN, "model_dtype: float32\n", "TS108" },
        { FP32, ANY, "model_dtype: float32\n", "TS108" },
        { NOSCALER, ANY, NULL, "TS108 TS122" } } },

    { "full",
      "bf16: auto\nmodel_dtype: float16\n",
      { { SOUND | BF16, OLD_TENSOR, "bf16: auto\nmodel_dtype: float32\n", "TS105 TS117" },
        { SOUND | BF16, OLD_PLAIN | CPU, "bf16: auto\nmodel_dtype: float32\n",
          "TS108 TS117" },
        { SOUND | BF16, NEW | UNKNOWN, NULL, "TS117" },
        { FP32, ANY, "bf16: false\nmodel_dtype: float32\n", "TS125" },
        { NOSCALER, NEW | OLD | CPU, NULL, "TS105 TS117 TS122" },
        { NOSCALER, UNKNOWN, NULL, "TS117 TS122" } } },

    { "lora",
      "bf16: true\nmodel_dtype: bfloat16\n",
      { { NOT_FP32, OLD_TENSOR, "bf16: false\nfp16: true\nmodel_dtype: float32\n",
          "TS102" },
        { NOT_FP32, OLD_PLAIN, "bf16: false\nmodel_dtype: float32\n", "TS102" },
        { NOT_FP32, NEW | CPU | UNKNOWN, NULL, "" },
        { FP32, OLD, "bf16: false\nmodel_dtype: float32\n", "TS102 TS125" },
        { FP32, NEW | CPU | UNKNOWN, "bf16: false\nmodel_dtype: bfloat16\n",
          "TS125" } } },

    { "full",
      "bf16: true\nmodel_dtype: bfloat16\n",
      { { NOT_FP32, OLD_TENSOR, "bf16: false\nfp16: true\nmodel_dtype: float32\n",
          "TS102" },
        { NOT_FP32, OLD_PLAIN, "bf16: false\nmodel_dtype: float32\n", "TS102" },
        { NOT_FP32, NEW | CPU | UNKNOWN, NULL, "" },
        { FP32, OLD, "bf16: false\nmodel_dtype: float32\n", "TS102 TS125" },
        { FP32, NEW | CPU | UNKNOWN, "bf16: false\nmodel_dtype: float32\n", "TS125" } } },

    { "lora",
      "tf32: true\n",
      { { NOT_FP32, OLD_TENSOR, "tf32: false\n", "TS115 TS118" },
        { NOT_FP32, NEW, NULL, "TS118" },
        { FP32, OLD_TENSOR, "tf32: false\n", "TS115" },
        { NOT_FP32 | FP32, OLD_PLAIN | CPU, "tf32: false\n", "TS115" },
        { NOT_FP32, UNKNOWN, NULL, "" },
        { FP32, NEW | UNKNOWN, NULL, "" } } },

    { "lora",
      "fp8: true\n",
      { { NOT_FP32, OLD_TENSOR, "fp8: false\nfp16: true\n", "TS116" },
        { NOT_FP32, AMPERE, "fp8: false\nbf16: true\n", "TS116" },
        { NOT_FP32, OLD_PLAIN | CPU, "fp8: false\n", "TS116" },
        { NOT_FP32, FP8 | UNKNOWN, NULL, "" },
        { FP32, ANY, "fp8: false\n", "TS125" } } },

    { "full",
      "pure_bf16: true\n",
      { { NOT_FP32, OLD, NULL, "TS102" },
        { NOT_FP32, NEW | CPU | UNKNOWN, NULL, "TS110" },
        { FP32, ANY, "pure_bf16: false\n", "TS125" } } },

    { "full",
      "pure_bf16: true\nfp16: true\n",
      { { NOT_FP32, P60, NULL, "TS102 TS111 TS204" },
        { NOT_FP32, P61, NULL, "TS102 TS111 TS203" },
        { NOT_FP32, GTX16, NULL, "TS102 TS111 TS202" },
        { NOT_FP32, OLD_TENSOR, NULL, "TS102 TS111" },
        { NOT_FP32, NEW | UNKNOWN, NULL, "TS111" },
        { NOT_FP32, CPU, "pure_bf16: true\nfp16: false\n", "TS110 TS111 TS114" },
        { FP32, ANY, "pure_bf16: false\nfp16: false\n", "TS125" } } },

    { "lora",
      "flash_attn: fa2\nbf16: auto\n",
      { { NOT_FP32, OLD, "flash_attn: auto\nbf16: auto\n", "TS117 TS205" },
        { NOT_FP32, NEW | CPU | UNKNOWN, NULL, "TS117" },
        { FP32, OLD, "flash_attn: auto\nbf16: false\n", "TS125 TS205" },
        { FP32, NEW | CPU | UNKNOWN, "flash_attn: fa2\nbf16: false\n", "TS125" } } },

    { "lora",
      "flash_attn: fa3\nbf16: auto\n",
      { { NOT_FP32, OLD | AMPERE | A89, "flash_attn: auto\nbf16: auto\n", "TS117 TS205" },
        { NOT_FP32, H90 | B100 | J110 | B120 | CPU | UNKNOWN, NULL, "TS117" },
        { FP32, OLD | AMPERE | A89, "flash_attn: auto\nbf16: false\n", "TS125 TS205" },
        { FP32, H90 | B100 | J110 | B120 | CPU | UNKNOWN,
          "flash_attn: fa3\nbf16: false\n", "TS125" } } },

    { "lora",
      "fp16_full_eval: true\nbf16_full_eval: true\nbf16: auto\n",
      { { NOT_FP32, NEW | CPU,
          "fp16_full_eval: false\nbf16_full_eval: true\nbf16: auto\n", "TS117 TS121" },
        { NOT_FP32, OLD, "fp16_full_eval: true\nbf16_full_eval: false\nbf16: auto\n",
          "TS117 TS121" },
        { NOT_FP32, UNKNOWN, NULL, "TS117 TS121" },
        { FP32, NEW | CPU, "fp16_full_eval: false\nbf16_full_eval: true\nbf16: false\n",
          "TS121 TS125" },
        { FP32, OLD, "fp16_full_eval: true\nbf16_full_eval: false\nbf16: false\n",
          "TS121 TS125" },
        { FP32, UNKNOWN, "fp16_full_eval: true\nbf16_full_eval: true\nbf16: false\n",
          "TS121 TS125" } } },
};

struct cell {
    const struct job *job;
    const struct device_class *device_class;
    enum policy policy;
};

/* Return the decision of a cell; noclip uses that of sound. */
static const struct decision *find_decision(const struct cell *cell)
{
    int policy = 1 << (cell->policy == POLICY_NOCLIP || cell->policy == POLICY_REPORT
                           ? POLICY_SOUND
                           : cell->policy);
    const struct decision *found = NULL;

    for (size_t i = 0; i < TS_COUNT(cell->job->decisions); i++) {
        const struct decision *decision = &cell->job->decisions[i];

        if (!(decision->policies & policy) ||
            !(decision->devices & cell->device_class->bit))
            continue;
        if (found)
            fail_msg("%s%s, %s: decided twice", cell->job->lines,
                     policy_names[cell->policy],
                     cell->device_class->name ? cell->device_class->name : "not known");
        found = decision;
    }
    return found;
}

static void write_job(const struct cell *cell, const char *clip, const char *lines,
                      struct text *out)
{
    text_init(out, 0);
    text_addf(out,
              "model_name_or_path: model-fp32\ndataset: data.jsonl\n"
              "max_grad_norm: %s\nfinetuning_type: %s\n%strainspool: {policy: %s}\n",
              clip, cell->job->method, lines, policy_names[cell->policy]);
}

static bool is_checked_family(const char *rule)
{
    return strchr("124", rule[2]) != NULL;
}

/* List the rules in order, each once; there are few, so search for the next larger
 * one. */
static void list_rules(const struct patch *patch, struct text *out)
{
    const char *last = "";

    text_init(out, 0);
    for (;;) {
        const char *next = NULL;

        for (size_t i = 0; i < patch->findings.count; i++) {
            const char *rule = patch->findings.list[i].rule;

            if (is_checked_family(rule) && strcmp(rule, last) > 0 &&
                (!next || strcmp(rule, next) < 0))
                next = rule;
        }
        if (!next)
            return;
        text_addf(out, "%s%s", out->len ? " " : "", next);
        last = next;
    }
}

static void add_rule(struct text *rules, const char *rule)
{
    text_addf(rules, "%s%s", rules->len ? " " : "", rule);
}

/* Lines that the device or the policy adds to any job. */
static void add_expected_rules(const struct cell *cell, const struct decision *decision,
                               struct text *out)
{
    text_init(out, 0);
    text_adds(out, decision->rules);
    if (!cell->device_class->name)
        add_rule(out, "TS208");
    if (cell->device_class->other_gpu)
        add_rule(out, "TS209");
    if (cell->policy == POLICY_NOCLIP)
        add_rule(out, "TS404");
}

static void check_text(const struct cell *cell, const struct decision *decision,
                       const struct patch *patch)
{
    bool edits = cell->policy != POLICY_REPORT;
    struct text wanted;

    write_job(cell, cell->policy == POLICY_NOCLIP ? "0.0" : "1.0",
              edits && decision->expected_lines ? decision->expected_lines
                                                : cell->job->lines,
              &wanted);
    if (strcmp(patch->text, wanted.data) != 0)
        fail_msg("%s, %s:\n%s\nis not the expected text:\n%s",
                 cell->device_class->name ? cell->device_class->name : "not known",
                 policy_names[cell->policy], patch->text, wanted.data);
    text_clear(&wanted);
}

static void check_rules(const struct cell *cell, const struct decision *decision,
                        const struct patch *patch)
{
    struct text found, wanted;

    list_rules(patch, &found);
    add_expected_rules(cell, decision, &wanted);
    if (strcmp(found.data, wanted.data) != 0)
        fail_msg("%s, %s, %s: rules %s, expected %s", cell->job->lines,
                 cell->device_class->name ? cell->device_class->name : "not known",
                 policy_names[cell->policy], found.data, wanted.data);
    text_clear(&found);
    text_clear(&wanted);
}

static void check_cell(const struct cell *cell)
{
    const struct decision *decision = find_decision(cell);
    char *job = unit_source("tests/patch/decisions.yaml");
    struct device device;
    struct patch_options how = { .job = job };
    struct error err = { 0 };
    struct patch patch;
    struct text text;

    if (!decision)
        fail_msg("%s%s, %s: not decided", cell->job->lines, policy_names[cell->policy],
                 cell->device_class->name ? cell->device_class->name : "not known");
    if (cell->device_class->name) {
        assert_true(device_find(cell->device_class->name, &device, &err));
        snprintf(device.unlike, sizeof(device.unlike), "%s",
                 cell->device_class->other_gpu ? cell->device_class->other_gpu : "");
        how.device = &device;
    }
    write_job(cell, "1.0", cell->job->lines, &text);
    if (!patcher_check(text.data, text.len, &how, &patch, &err))
        fail_msg("%s: %s", cell->job->lines, err.text);
    check_text(cell, decision, &patch);
    if (cell->policy != POLICY_REPORT)
        check_rules(cell, decision, &patch);
    patch_clear(&patch);
    text_clear(&text);
    free(job);
}

static void test_decisions_match_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(jobs); i++)
        for (size_t k = 0; k < TS_COUNT(classes); k++)
            for (int policy = 0; policy < POLICY_COUNT; policy++)
                check_cell(&(struct cell) { &jobs[i], &classes[k], policy });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions_match_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
