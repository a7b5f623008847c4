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

/* The keys of files that these tools publish; base_model alone does not decide. */
static void test_dialect_names_other_tools(void **state)
{
    static const struct sample samples[] = {
        { "task: llm-sft\nbase_model: m\nproject_name: p\nparams:\n  peft: true\n  lr: "
          "1e-5\n",
          DIALECT_AUTOTRAIN, "project_name" },
        { "model_type: llm\nbase_model: m\nadapter: {type: lora}\ninput_features: []\n"
          "output_features: []\n",
          DIALECT_LUDWIG, "input_features" },
        { "data: {train_files: a.parquet}\nmodel: {partial_pretrain: m}\noptim: {lr: 1}\n"
          "trainer: {total_epochs: 4}\n",
          DIALECT_VERL, "data" },
        { "actor_rollout_ref: {model: {path: m}}\n", DIALECT_VERL, "actor_rollout_ref" },
        { "model: u\ntraining: {training_type: lora, max_seq_length: 8}\nlora: {lora_r: "
          "8}\n",
          DIALECT_UNSLOTH, "training" },
        { "seed_everything: 1\nmodel:\n  class_path: a.B\ntrainer: {max_epochs: 1}\n",
          DIALECT_LIGHTNING, "model" },
        { "exp_manager: {}\ntrainer: {precision: bf16}\nmodel: {optim: {lr: 1}}\n",
          DIALECT_NEMO, "exp_manager" },
        { "step_scheduler: {max_steps: 1}\nmodel: {_target_: nemo.x}\n", DIALECT_NEMO,
          "step_scheduler" },
        { "language_model: {num_layers: 2}\nmodel_parallel: {bf16: true}\nlr: 1\n",
          DIALECT_MEGATRON, "language_model" },
        { "pipe-parallel-size: 1\nnum-layers: 12\nzero_optimization: {stage: 1}\n"
          "model-parallel-size: 1\n",
          DIALECT_NEOX, "pipe-parallel-size" },
        { "pretrain: m\nmicro_train_batch_size: 2\nlearning_rate: 1\nlora_rank: 8\n",
          DIALECT_OPENRLHF, "micro_train_batch_size" },
        { "llm_backbone: m\narchitecture: {backbone_dtype: int4}\n", DIALECT_H2O,
          "llm_backbone" },
        { "model: m\ntrain: true\niters: 100\nsteps_per_eval: 10\nlearning_rate: 1\n",
          DIALECT_MLX, "steps_per_eval" },
        { "train_loader: {}\nmax_duration: 1ep\nfsdp_config: {}\n", DIALECT_FOUNDRY,
          "train_loader" },
        { "model: {model_name: m}\ntraining: {trainer_type: TRL_SFT, optimizer: x}\n",
          DIALECT_OUMI, "training" },
        { "model_id_or_path: m\ndata: {instruct_data: d}\nmax_steps: 3\noptim: {lr: "
          "1}\n",
          DIALECT_MISTRAL, "data" },
        { "base_model: m\nmerge_method: slerp\nslices: []\ndtype: float16\n",
          DIALECT_MERGEKIT, "merge_method" },
        { "{\"peft_type\": \"LORA\", \"r\": 8}", DIALECT_PEFT, "peft_type" },
        { "{\"architectures\": [\"A\"], \"model_type\": \"a\"}", DIALECT_MODEL,
          "architectures" },
        { "{\"log_history\": [], \"max_steps\": 3}", DIALECT_TRAINER_STATE,
          "log_history" },
        { "apiVersion: v1\nkind: Pod\n", DIALECT_KUBERNETES, "apiVersion" },
        { "resources: {}\nsetup: x\nrun: y\n", DIALECT_SKYPILOT, "resources" },
        { "artifact_location: x\nlifecycle_stage: active\n", DIALECT_MLFLOW,
          "artifact_location" },
        { "program: train.py\nmethod: grid\nparameters: {}\n", DIALECT_WANDB, "program" },
        { "services: {}\n", DIALECT_COMPOSE, "services" },
        { "channels: []\ndependencies: []\n", DIALECT_CONDA, "dependencies" },
        { "model: {_target_: a.B}\noptim: {_target_: c.D}\n", DIALECT_HYDRA, "model" },
        { "data: {path: d}\nmodel: {name: m}\noptim: {lr: 1}\ntrainer: {steps: 1}\n",
          DIALECT_NONE, NULL },
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
        { "base_model: b\nlearning_rate: 1\nfp16: true\n", DIALECT_NATIVE, NULL },
        { "model_name_or_path: m\nfsdp_config: {x: 1}\ndeepspeed: {stage: 2}\n",
          DIALECT_NATIVE, NULL },
        { "model_name_or_path: m\nparams: 1\nproject_name: p\n", DIALECT_NATIVE, NULL },
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
        cmocka_unit_test(test_dialect_names_other_tools),
        cmocka_unit_test(test_dialect_recognizes_jobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
