/* tests/unit/test_dialect.c - the tool that a file belongs to, which an unknown word does
 * not change. */
#include "config.h"

#include "patcher/schema/dialect.h"

#include "base/size.h"
#include "tests/unit/unit.h"

struct sample {
    const char *text;
    enum dialect dialect;
    const char *marker;
};

static void check_samples(const struct sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct arena *arena = arena_new();
        struct document document;
        const struct entry *marker;
        enum dialect dialect;

        document_read(samples[i].text, strlen(samples[i].text), arena, &document);
        assert_non_null(document.root);
        dialect = dialect_find(&document, &marker);
        if (dialect != samples[i].dialect)
            fail_msg("dialect %d, not %d:\n%s", dialect, samples[i].dialect,
                     samples[i].text);
        if (samples[i].marker) {
            assert_non_null(marker);
            assert_string_equal(marker->key->text, samples[i].marker);
            assert_non_null(
                strstr(dialect_sentence(dialect, marker, arena), samples[i].marker));
        }
        arena_free(arena);
    }
}

static void test_dialect_recognizes_each_tool(void **state)
{
    static const struct sample samples[] = {
        { "base_model: m\nlora_r: 8\nlearning_rate: 1e-4\n", DIALECT_AXOLOTL,
          "base_model" },
        { "model:\n  _component_: torchtune.models.x\nseed: 1\n", DIALECT_TORCHTUNE,
          "model" },
        { "model: m\nmodel_class: llm\ntemplate: qwen\ncutoff_len: 8\n", DIALECT_V1,
          "model_class" },
        { "compute_environment: LOCAL_MACHINE\nfp16: true\n", DIALECT_ACCELERATE,
          "compute_environment" },
        { "{\"fp16\": {\"enabled\": \"auto\"}, \"zero_optimization\": {\"stage\": 2}}",
          DIALECT_DEEPSPEED, "zero_optimization" },
        { "model_name_or_path: m\ndataset_name: d\nlearning_rate: 1e-4\n", DIALECT_TRL,
          "dataset_name" },
        { "model_name_or_path: m\nattn_implementation: sdpa\nlora_r: 8\n"
          "max_seq_length: 64\n",
          DIALECT_TRL, "attn_implementation" },
        { "model: m\ndataset: d\ntuner_type: lora\nlora_rank: 8\n", DIALECT_SWIFT,
          "tuner_type" },
        { "checkpoint_dir: c\nout_dir: o\nlogger_name: csv\nlora_alpha: 16\n",
          DIALECT_LITGPT, "logger_name" },
        { "seed: 1\nhidden: 2\nwarp: 3\nflavour: 4\ntone: 5\n", DIALECT_OTHER, "hidden" },
        { "hidden: 2\nwarp: 3\n", DIALECT_NONE, NULL },
        { "temperature: 1\ntop_k: 3\n", DIALECT_NONE, NULL },
    };

    (void)state;
    check_samples(samples, TS_COUNT(samples));
}

static void test_dialect_recognizes_jobs(void **state)
{
    static const struct sample samples[] = {
        { "model_name_or_path: m\nbase_model: b\n", DIALECT_NATIVE, NULL },
        { "base_model: b\ndataset: d\ntemplate: t\ncutoff_len: 8\n", DIALECT_NATIVE,
          NULL },
        { "stage: sft\nbase_model: b\nmicro_batch_size: 2\nsequence_len: 8\n",
          DIALECT_AXOLOTL, "base_model" },
        { "stage: sft\nbase_model: b\nmicro_batch_size: 2\n", DIALECT_NATIVE, NULL },
        { "model_name_or_path: m\ndataset: d\nattn_implementation: sdpa\n",
          DIALECT_NATIVE, NULL },
        { "model_name_or_path: m\ndataset_name: d\nfinetuning_type: lora\n",
          DIALECT_NATIVE, NULL },
        { "model_name_or_path: m\ndataset_name: d\ntrainspool: {target: external}\n",
          DIALECT_NATIVE, NULL },
        { "model_name_or_path: m\nout_dir: o\n", DIALECT_NATIVE, NULL },
        { "base_model: b\nlearning_rate: 1\ntrainspool: {priority: 1}\n", DIALECT_NATIVE,
          NULL },
        { "base_model: b\nsequence_len: 8\ntrainspool: {priority: 1}\n", DIALECT_AXOLOTL,
          "base_model" },
        { "model_name_or_path: m\ndataset_mixture: {}\nuse_peft: true\nlora_r: 8\n"
          "dataset_name: d\ntrainspool: {target: external}\n",
          DIALECT_NATIVE, NULL },
        { "Learning-Rate: 1\nhidden: 2\nwarp: 3\n", DIALECT_NATIVE, NULL },
        { "lerning_rate: 1\n", DIALECT_NATIVE, NULL },
    };

    (void)state;
    check_samples(samples, TS_COUNT(samples));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dialect_recognizes_each_tool),
        cmocka_unit_test(test_dialect_recognizes_jobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
