/*
 * train/plan.h - all that a run needs, as plain values.  The patcher fills it from a job
 * file; strings live in the job's arena.  Paths are absolute or relative to the current
 * directory.
 */
#ifndef TRAIN_PLAN_H
#define TRAIN_PLAN_H

#include "kernels/ops.h"
#include "precision/memory.h"
#include "precision/policy.h"

enum stage { STAGE_SFT, STAGE_PT, STAGE_DISTILL, STAGE_DPO };
enum method { METHOD_LORA, METHOD_FULL, METHOD_FREEZE };
enum schedule_kind {
    SCHEDULE_LINEAR,
    SCHEDULE_COSINE,
    SCHEDULE_CONSTANT,
    SCHEDULE_CONSTANT_WITH_WARMUP,
    SCHEDULE_POLYNOMIAL,
    SCHEDULE_COSINE_WITH_RESTARTS,
    SCHEDULE_COSINE_WITH_MIN_LR,
    SCHEDULE_WARMUP_STABLE_DECAY,
    SCHEDULE_INVERSE_SQRT,
    SCHEDULE_COSINE_WARMUP_WITH_MIN_LR
};
/* How warmup_stable_decay goes up and down; each has a default of its own. */
enum schedule_decay { DECAY_COSINE, DECAY_LINEAR, DECAY_ROOT };
enum schedule_warmup { WARMUP_LINEAR, WARMUP_COSINE, WARMUP_ROOT };
enum mix_strategy {
    MIX_CONCAT,
    MIX_INTERLEAVE_UNDER,
    MIX_INTERLEAVE_OVER,
    MIX_INTERLEAVE_ONCE
};
enum metric_kind {
    METRIC_LOSS,
    METRIC_ACCURACY,
    METRIC_ANSWER_RATE,
    METRIC_REWARD_ACCURACY,
    METRIC_REWARD_MARGIN
};
enum when { WHEN_NO, WHEN_STEPS, WHEN_EPOCH }; /* save, eval and logging strategy */

/* Completions: of evaluations, or of a program that does nothing else. */
struct generation {
    bool on;            /* the run generates: room for keys and values is laid out */
    bool alone;         /* no weight is trained, nothing is kept for a backward pass */
    int64_t slots;      /* sequences that grow at once */
    int64_t prompt_max; /* tokens of the longest prompt; 0: not known, cutoff_len */
    int64_t max_new_tokens;
    bool do_sample; /* else the likeliest token is taken */
    double temperature, top_p;
    int64_t top_k; /* 0: all */
    double repetition_penalty;
};

struct model_config;

/* A student and its teacher: stage distill. */
struct distillation_settings {
    const char *teacher, *adapter; /* folders; NULL: none */
    const char *logits; /* file of what is kept of the teacher; NULL: it answers itself */
    double ratio, temperature, beta;
    int64_t topk; /* logits of the teacher that are kept; 0: all */
    /* What the teacher's files say; where the patcher has not looked, it is read
     * again. */
    const struct model_config *config; /* NULL: not known */
    enum format format;                /* of most of its bytes, where config is known */
};

/* Pairs of answers, and what they are held against: stage dpo. */
struct preference {
    enum preference_loss loss;
    double beta, ftx, label_smoothing, simpo_gamma;
    /* folders of ref_model; NULL: the model as it begins */
    const char *reference, *adapter;
};

struct plan {
    /* the job */
    const char *job;        /* "gsm8k.yaml" as given */
    const char *dir;        /* the folder it lies in */
    const char *run_dir;    /* gsm8k.run */
    const char *output_dir; /* checkpoints and the final model; run_dir where not given */
    const char *run_name;
    const char *job_digest; /* SHA-256 of the frozen text */

    /* model and method */
    const char *model_name_or_path;
    const char *adapter_name_or_path; /* NULL: none */
    enum stage stage;
    enum method method;
    bool train_from_scratch;
    int64_t freeze_trainable_layers;
    const char *freeze_trainable_modules;
    int64_t lora_rank;
    double lora_alpha; /* 0: 2 * rank */
    double lora_dropout;
    const char *lora_target; /* "all", or names separated by commas */
    const char *additional_target;
    bool use_rslora, create_new_adapter;
    double loraplus_lr_ratio; /* 0: off */
    int64_t quantization_bit; /* 4: frozen linear layers of the blocks in NF4; 0: none */
    bool double_quantization;

    /* precision: as asked, and as decided */
    struct precision_request request;
    struct precision precision;
    bool bf16_full_eval, fp16_full_eval;
    bool gradient_checkpointing; /* resolved from both keys */

    /* batch and data */
    int64_t per_device_train_batch_size, per_device_eval_batch_size;
    int64_t gradient_accumulation_steps;
    bool auto_find_batch_size; /* the patcher finds it (TS305) */
    int64_t cutoff_len;
    enum choice packing; /* auto: yes for stage pt */
    bool neat_packing;
    const char *dataset, *eval_dataset; /* comma-separated; NULL: none */
    const char *dataset_dir;
    const char *template_name; /* NULL: from the model, or "default" */
    const char *default_system;
    const char *tokenized_path; /* folder that keeps tokens; NULL: run_dir */
    bool overwrite_cache;       /* they are read anew */
    bool train_on_prompt, mask_history;
    bool enable_thinking; /* false: answers of models that reason have no thoughts */
    enum mix_strategy mix_strategy;
    const char *interleave_probs; /* comma-separated, one a data set; NULL: in rounds */
    int64_t max_samples;          /* 0: all */
    double val_size;              /* below 1 a share, else a number of samples; 0: none */
    bool dataloader_drop_last;
    bool disable_shuffling;

    struct generation generation;
    bool predict_with_generate; /* as asked; generation.on where it is evaluated, too */
    /* share of tokens that an evaluation takes for the likeliest */
    bool compute_accuracy;
    /* of the evaluation data that are answered each time; 0: all */
    int64_t eval_questions;
    int64_t samples;                        /* of them, those whose answers are kept */
    const char *answer_tag, *answer_marker; /* where an answer stands; NULL: no such */
    double answer_tolerance;                /* as train/generation/answer.h has it */
    struct distillation_settings kd;
    struct preference preference;

    /* optimizer and schedule */
    int optimizer; /* index into optimizer_names, train/optimizer_table.h */
    double learning_rate, weight_decay, adam_beta1, adam_beta2, adam_epsilon;
    double label_smoothing;
    enum schedule_kind schedule;
    double schedule_min_lr, schedule_min_lr_rate, schedule_power;
    double schedule_num_cycles; /* 0: the schedule's own */
    double schedule_lr_end;
    int64_t schedule_decay_steps, schedule_stable_steps;
    enum schedule_decay schedule_decay;
    enum schedule_warmup schedule_warmup;
    /* of inverse_sqrt; 0: the warm-up's steps, or 10000 */
    int64_t schedule_timescale;
    /* where a warm-up begins; below 0: at one step of it */
    double schedule_warmup_lr_rate;
    double warmup_steps; /* below 1: a share of all steps */
    double warmup_ratio; /* above 0 it wins over warmup_steps, as in transformers 4 */
    double num_train_epochs;
    int64_t max_steps;       /* above 0 it wins over num_train_epochs */
    int64_t seed, data_seed; /* data_seed -1: seed */

    /* evaluation, saving, logging */
    enum when save_strategy, eval_strategy, logging_strategy;
    double save_steps, eval_steps, logging_steps; /* below 1: a share of all steps */
    int64_t save_total_limit;                     /* 0: keep all */
    bool save_only_model, load_best_model_at_end, logging_first_step;
    double eval_delay;
    const char *metric_for_best_model; /* "loss", "eval_accuracy", ..; NULL: loss */
    enum choice eval_on_start;         /* auto: if it evaluates and there is no delay */
    enum choice greater_is_better;     /* auto: by the metric */
    int64_t early_stopping_steps;      /* evaluations without a better one; 0: go on */
    bool overwrite_output_dir;
    const char *resume_from_checkpoint; /* NULL: none; "true": the last one */
    const char *export_dir;
    enum choice do_train; /* auto: not said */

    /* trainspool: */
    enum policy policy;
    bool external; /* target external: checked for another program, not trained here */
    const char *program; /* that program, with its versions, for people; or NULL */
    /* of such a job (train/torch_memory.h); NULL: defaults */
    const struct torch_setup *torch;
    const char *device_wanted; /* "auto", "cpu", "cuda:1", "cuda:0,1" */
    int64_t ranks;             /* processes of the run, from 1 */
    int64_t threads;           /* 0: all */
    int64_t priority;
    enum choice preflight; /* auto: where it computes in fp16 */
    bool disable_dropout;  /* of the model's own */
    int64_t max_retries;
    double timeout_seconds;   /* 0: none */
    const char *memory_limit; /* as written; NULL: 95 % of what is free */

    /* what it will run on, and what that takes */
    /* of an external distillation's teacher; 0: none, or not known */
    uint64_t teacher_bytes;
    struct device device;
    struct memory_use memory;
};

/* Does it evaluate, so that its evaluation data are read? */
static inline bool plan_evaluates(const struct plan *plan)
{
    return plan->eval_strategy != WHEN_NO || plan->eval_on_start == CHOICE_YES ||
           plan->load_best_model_at_end;
}

/* Is nothing trained, and an adapter merged into its model? */
static inline bool plan_merges(const struct plan *plan)
{
    return plan->export_dir && plan->adapter_name_or_path && !plan->dataset &&
           plan->do_train != CHOICE_YES && !plan->external;
}

/* Are the frozen linear layers of its blocks kept in 4 bits here? */
static inline bool plan_is_quantised(const struct plan *plan)
{
    return plan->quantization_bit == 4 && plan->method == METHOD_LORA && !plan->external;
}

/* Are answers held against those of a model that is not trained? */
static inline bool plan_has_reference(const struct plan *plan)
{
    return plan->stage == STAGE_DPO && plan->preference.loss != PREFERENCE_ORPO &&
           plan->preference.loss != PREFERENCE_SIMPO;
}

/* Is a second model loaded beside the one that is trained: a teacher, or a reference?
 * Under adapters lies a reference already. */
static inline bool plan_has_second_model(const struct plan *plan)
{
    return plan->stage == STAGE_DISTILL ||
           (plan_has_reference(plan) &&
            (plan->preference.reference || plan->method != METHOD_LORA));
}

/* The file of what is kept of a teacher; NULL: it answers itself, or there is none. */
static inline const char *plan_teacher_logits(const struct plan *plan)
{
    return plan->stage == STAGE_DISTILL ? plan->kd.logits : NULL;
}

/* Runs of rows in a micro-batch of samples that are not packed: a preference has two. */
static inline size_t plan_batch_runs(const struct plan *plan)
{
    return (size_t)plan->per_device_train_batch_size * (plan->stage == STAGE_DPO ? 2 : 1);
}

/* Processes of the run; a plan made by hand may leave them out. */
static inline size_t plan_ranks(const struct plan *plan)
{
    return plan->ranks > 1 ? (size_t)plan->ranks : 1;
}

#endif
