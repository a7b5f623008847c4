/*
 * train/plan.h - all settings of a run, as plain values.  The patcher fills them in from
 * a job file; strings live in the job's arena.  Paths are absolute or relative to the
 * current directory.
 */
#ifndef TRAIN_PLAN_H
#define TRAIN_PLAN_H

#include "kernels/ops.h"
#include "precision/memory.h"
#include "precision/policy.h"

/* The format of an export without training; auto: that of the files. */
enum infer_dtype { INFER_AUTO, INFER_FLOAT16, INFER_BFLOAT16, INFER_FLOAT32 };

/* The format of matrices in the file for llama.cpp next to an export. */
enum export_gguf {
    EXPORT_GGUF_NONE,
    EXPORT_GGUF_F16,
    EXPORT_GGUF_BF16,
    EXPORT_GGUF_Q8_0
};

enum stage {
    STAGE_SFT,
    STAGE_PT,
    STAGE_DISTILL,
    STAGE_DPO,
    STAGE_KTO,
    STAGE_GRPO,
    STAGE_RM
};
enum method { METHOD_LORA, METHOD_FULL, METHOD_FREEZE, METHOD_OFT };
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
    SCHEDULE_COSINE_WARMUP_WITH_MIN_LR,
    SCHEDULE_REDUCE_ON_PLATEAU
};
/* Shapes of the warm-up and the decay of warmup_stable_decay. */
enum schedule_decay { DECAY_COSINE, DECAY_LINEAR, DECAY_ROOT };
enum schedule_warmup { WARMUP_LINEAR, WARMUP_COSINE, WARMUP_ROOT };
/* Whether reduce_lr_on_plateau waits for lower or for higher metrics, and whether its
 * threshold is a share of the best metric. */
enum plateau_mode { PLATEAU_MIN, PLATEAU_MAX };
enum threshold_mode { THRESHOLD_REL, THRESHOLD_ABS };
/* Which side of a gradient GaLore and APOLLO project: std the longer one's vectors, so that
 * the shorter side becomes the rank; reverse_std the other; right the columns, left the
 * rows, full both. */
enum projection_side {
    PROJECTION_STD,
    PROJECTION_RIGHT,
    PROJECTION_LEFT,
    PROJECTION_REVERSE_STD,
    PROJECTION_FULL
};

struct projection_settings {
    const char *target;     /* parts of names of linear layers; "all" */
    int64_t rank, interval; /* steps after which the projection is made again */
    double scale;
    int side;        /* enum projection_side */
    int random;      /* 0: of singular vectors */
    int whole_scale; /* APOLLO: one factor of a matrix instead of one for each channel */
    bool scale_front;
};

struct plateau_settings {
    enum plateau_mode mode;
    enum threshold_mode threshold_mode;
    double factor, threshold, eps;
    int64_t patience, cooldown;
};
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
    METRIC_REWARD_MARGIN,
    METRIC_REWARD
};
/* Whether a run that met a problem is patched and resumed: auto, in a watched folder. */
enum healing { HEALING_AUTO, HEALING_OFF, HEALING_ON, HEALING_BOLD };
/* What starts the processes of a job. */
enum run_backend { RUN_LOCAL, RUN_SLURM };

/* Options of sbatch, as written in the job; NULL: Slurm's default. */
struct plan_slurm {
    const char *partition, *account, *qos, *reservation, *constraint;
    const char *gres;      /* of each node, such as gpu:a100:4 */
    const char *time;      /* limit of each submission, such as 12:00:00 */
    const char *mem;       /* of each node, such as 64G */
    int64_t cpus_per_task; /* 0: Slurm's default */
};

/* How the ranks of a run send gradients to each other. */
enum reduction { REDUCE_FP32, REDUCE_BF16 };
/* Types of rotary scaling that a job can ask for: train/model/rope_scaling.h. */
enum rope_scaling {
    ROPE_SCALING_NONE,
    ROPE_SCALING_LINEAR,
    ROPE_SCALING_DYNAMIC,
    ROPE_SCALING_YARN,
    ROPE_SCALING_LLAMA3
};
/* save, eval and logging strategy; only saving has the last: at each new best metric */
enum when { WHEN_NO, WHEN_STEPS, WHEN_EPOCH, WHEN_BEST };

/* Text generation, during evaluations or in a program that does nothing else. */
struct generation {
    bool on;            /* the run generates: lay out a cache for keys and values */
    bool alone;         /* train no weight and keep nothing for a backward pass */
    bool projects;      /* alone: its rows of features are those of the encoder */
    int64_t slots;      /* sequences generated at once */
    int64_t prompt_max; /* tokens of the longest prompt; 0: unknown, use cutoff_len */
    int64_t max_new_tokens;
    bool do_sample; /* else take the most likely token */
    double temperature, top_p;
    int64_t top_k; /* 0: all */
    double repetition_penalty;
};

struct model_config;

/* Settings of stage distill. */
struct distillation_settings {
    const char *teacher, *adapter; /* folders; NULL: none */
    const char *logits; /* file of the teacher's logits; NULL: run the teacher */
    double ratio, temperature, beta;
    int64_t topk; /* logits of the teacher kept per token; 0: all */
    /* From the teacher's files.  If the patcher has not read them, the trainer does. */
    const struct model_config *config; /* NULL: unknown */
    enum format format;                /* of most of its bytes, if config is known */
};

/* Settings of stages dpo and kto: the loss and the reference model. */
/* The layer of a reward model that computes scores, in files: the one of transformers'
 * ...ForSequenceClassification, or TRL's value head; auto: as the model's folder has it. */
enum reward_head { REWARD_HEAD_AUTO, REWARD_HEAD_SCORE, REWARD_HEAD_VALUE };

struct preference {
    enum preference_loss loss;
    double beta, ftx, label_smoothing, simpo_gamma;
    double chosen_weight, rejected_weight; /* of stage kto */
    double center;                         /* of stage rm */
    enum reward_head head;
    /* folders of ref_model; NULL: the model before training */
    const char *reference, *adapter;
};

/* What the loss of sampled answers is divided by. */
enum policy_loss { POLICY_DAPO, POLICY_GRPO, POLICY_BNPO, POLICY_DR_GRPO, POLICY_LOSSES };
/* By which standard deviation advantages are divided. */
enum reward_scale { SCALE_GROUP, SCALE_BATCH, SCALE_NONE };

/* Whether tokens or whole answers have a ratio of likelihoods; how rewards are combined. */
enum importance { IMPORTANCE_TOKEN, IMPORTANCE_SEQUENCE };
enum aggregation { AGGREGATE_SUM_FIRST, AGGREGATE_NORMALIZE_FIRST };

/* Settings of stage grpo: sampled answers and their rewards.  Names are TRL's. */
struct reinforcement {
    int64_t num_generations, max_completion_length, num_iterations;
    int64_t steps_per_generation; /* 0: gradient_accumulation_steps */
    double beta, epsilon;
    double epsilon_high;   /* 0: epsilon */
    double delta;          /* 0: none */
    const char *loss_type; /* its name, which other stages of TRL use for their own */
    enum policy_loss loss; /* POLICY_LOSSES: an unknown name */
    enum reward_scale scale;
    enum importance importance;
    enum aggregation aggregation;
    bool corrects_kl, masks_truncated;
    const char *rewards, *weights; /* comma-separated; train/reward.h */
    const char *pattern;           /* NULL: none */
    int64_t punish_cache;          /* of the reward for length, in tokens */
};

/* An environment variable. */
struct plan_variable {
    const char *name, *value;
};

struct plan {
    /* the job */
    const char *job;        /* "gsm8k.yaml" as given */
    const char *dir;        /* the folder of the job */
    const char *run_dir;    /* gsm8k.run */
    const char *output_dir; /* checkpoints and the final model; defaults to run_dir */
    const char *run_name;
    const char *job_digest; /* SHA-256 of the frozen text */

    /* model and method */
    const char *model_name_or_path;
    const char *adapter_name_or_path; /* NULL: none */
    enum stage stage;
    enum method method;
    bool train_from_scratch;
    int64_t freeze_trainable_layers;
    bool use_llama_pro; /* these are spread evenly, and include the last */
    const char *freeze_trainable_modules;
    /* of a model that reads images or sound: what is not trained */
    bool freeze_vision_tower, freeze_multi_modal_projector, freeze_language_model;
    bool
        train_cross_attention; /* of the text model these layers, although it is frozen */
    int64_t lora_rank;
    double lora_alpha; /* 0: 2 * rank */
    double lora_dropout;
    const char *lora_target; /* "all", or names separated by commas */
    const char *additional_target;
    bool use_rslora, use_dora, create_new_adapter;
    const char *lora_target_parameters; /* train/model/expert_adapters.h; NULL: none */
    bool pissa_init, pissa_convert;
    /* of orthogonal adapters: the number of blocks, or their size; 0: see the other */
    int64_t oft_rank, oft_block_size;
    const char *oft_target;   /* like lora_target */
    double loraplus_lr_ratio; /* 0: off */
    bool resize_vocab;
    const char *add_tokens, *add_special_tokens; /* separated by commas; NULL: none */
    /* 4: frozen linear layers of the blocks in NF4; 0: none; the bits of the codes if the
     * files of the base have them in the format that base_quantization names */
    int64_t quantization_bit;
    const char *base_quantization; /* "GPTQ", "AWQ"; NULL */
    bool double_quantization;

    /* precision: as requested and as decided */
    struct precision_request request;
    struct precision precision;
    bool bf16_full_eval, fp16_full_eval;
    bool gradient_checkpointing; /* resolved from both keys */

    /* batch and data */
    int64_t per_device_train_batch_size, per_device_eval_batch_size;
    int64_t gradient_accumulation_steps;
    bool auto_find_batch_size; /* the patcher chooses the batch size (TS305) */
    int64_t cutoff_len;
    enum choice packing; /* auto: yes for stage pt */
    bool neat_packing;
    const char *dataset, *eval_dataset; /* comma-separated; NULL: none */
    const char *dataset_dir;
    const char *template_name; /* NULL: from the model, or "default" */
    const char *media_dir;     /* of images and sounds */
    const char *features;      /* file of rows in their place; NULL: none */
    int64_t image_max_pixels, image_min_pixels, audio_sampling_rate;
    bool crop_to_patches; /* InternVL: an image becomes several tiles */
    const char *default_system;
    const char *tokenized_path; /* folder of the token cache; NULL: run_dir */
    bool overwrite_cache;       /* tokenize again */
    bool train_on_prompt, mask_history;
    bool enable_thinking; /* false: reasoning models answer without their thoughts */
    enum mix_strategy mix_strategy;
    const char *interleave_probs; /* comma-separated, per dataset; NULL: round robin */
    int64_t max_samples;          /* 0: all */
    double val_size; /* below 1: a share; else a number of samples; 0: none */
    bool dataloader_drop_last;
    bool disable_shuffling;

    struct generation generation;
    bool predict_with_generate; /* as requested; generation.on also requires evaluation */
    /* evaluations measure the share of tokens that the model predicts correctly */
    bool compute_accuracy;
    /* prompts of the evaluation data answered each time; 0: all */
    int64_t eval_questions;
    int64_t samples;                        /* of these, how many answers are saved */
    const char *answer_tag, *answer_marker; /* what encloses an answer; NULL: none */
    double answer_tolerance;                /* train/generation/answer.h */
    struct distillation_settings kd;
    struct preference preference;
    struct reinforcement grpo;

    /* optimizer and schedule */
    int optimizer; /* index into optimizer_names, train/model/optimizer_table.h */
    bool use_muon, use_adam_mini, use_galore, use_apollo;
    struct projection_settings galore, apollo;
    int optim; /* the same, but the name in the job: another one of this optimizer */
    double learning_rate, weight_decay, adam_beta1, adam_beta2, adam_epsilon;
    double label_smoothing;
    double neftune_alpha; /* of the noise on embeddings; 0: none */
    bool use_dft_loss, use_eaft_loss, use_asft_loss;
    double eaft_alpha, asft_alpha;
    /* use_asft_loss: DFT plus this times the divergence from a reference, as a
     * distillation whose loss is 1 + this times larger; 0: off */
    double anchor;
    enum token_loss token_loss; /* from both, in stage sft */
    double moe_aux_loss_coef;   /* 0: that of config.json */
    enum schedule_kind schedule;
    double schedule_min_lr, schedule_min_lr_rate, schedule_power;
    double schedule_num_cycles; /* 0: the default of the schedule */
    double schedule_lr_end;
    int64_t schedule_decay_steps, schedule_stable_steps;
    enum schedule_decay schedule_decay;
    enum schedule_warmup schedule_warmup;
    /* for inverse_sqrt; 0: the number of warm-up steps, or 10000 without warm-up */
    int64_t schedule_timescale;
    /* factor at which the warm-up starts; below 0: 1 / warm-up steps */
    double schedule_warmup_lr_rate;
    struct plateau_settings plateau;
    double warmup_steps; /* below 1: a share of all steps */
    double warmup_ratio; /* above 0: overrides warmup_steps, as in transformers 4 */
    double num_train_epochs;
    int64_t max_steps;       /* above 0: overrides num_train_epochs */
    int64_t seed, data_seed; /* data_seed -1: use seed */

    /* evaluation, saving, logging */
    enum when save_strategy, eval_strategy, logging_strategy;
    double save_steps, eval_steps, logging_steps; /* below 1: a share of all steps */
    int64_t save_total_limit;                     /* 0: keep all */
    bool save_torch_state; /* with what transformers' Trainer resumes from */
    bool save_only_model, load_best_model_at_end, logging_first_step;
    double eval_delay;
    const char *metric_for_best_model; /* "loss", "eval_accuracy", ..; NULL: loss */
    enum choice eval_on_start;         /* auto: if the run evaluates without a delay */
    enum choice greater_is_better;     /* auto: depends on the metric */
    int64_t early_stopping_steps;      /* evaluations without improvement; 0: no limit */
    bool overwrite_output_dir;
    const char *resume_from_checkpoint; /* NULL: none; "true": the last one */
    const char *export_dir;
    int64_t export_size; /* upper bound of a file, in GB; 0: none */
    enum infer_dtype infer_dtype;
    enum export_gguf export_gguf;
    enum choice do_train;     /* auto: not given */
    bool do_eval, do_predict; /* used by jobs that do not train */

    /* trainspool: */
    enum policy policy;
    bool external;       /* target external: check for another program, do not train */
    const char *program; /* that program with its versions, for messages; or NULL */
    const char *trainer; /* its name as in target; or NULL */
    /* of such a job (train/torch_memory.h); NULL: defaults */
    const struct torch_setup *torch;
    const char *device_wanted; /* "auto", "cpu", "cuda:1", "cuda:0,1" */
    int64_t ranks;             /* number of processes, from 1 */
    int64_t nodes;             /* machines among which they are distributed, from 1 */
    enum run_backend backend;
    struct plan_slurm slurm; /* of backend slurm */
    /* what they divide: 1 moments, 2 also gradients, 3 also weights; 0: not decided */
    int64_t zero_stage;
    bool stage_chosen; /* the job does not set zero_stage */
    enum reduction reduce_dtype;
    int64_t max_shard_mb; /* of a file of weights in MB; 0: plan_shard_bytes */
    /* moments of a GPU's job in host memory; auto: with a paged optimizer, if they do not
     * fit on the GPU */
    enum choice offload_optimizer;
    bool tune_matmuls;  /* time the algorithms of matmuls, on a GPU */
    bool deterministic; /* each run gives the same bits, at the price of time */
    int64_t threads;    /* 0: all */
    int64_t priority;
    const char *after;                     /* jobs to wait for, with commas; NULL: none */
    const char *begin;                     /* as written; NULL: at once */
    bool sweep;                            /* the job only makes other jobs */
    const struct plan_variable *variables; /* of its process, in addition */
    size_t variable_count;
    enum choice preflight;          /* auto: if the run computes in fp16 */
    enum rope_scaling rope_scaling; /* of the model, to cutoff_len */
    bool disable_dropout;           /* ignore the dropout of the model's config.json */
    int64_t max_retries;
    enum healing healing;
    int64_t max_heals;
    double timeout_seconds;   /* 0: none */
    int64_t keep_days;        /* of old files of the job; -1: any age */
    const char *max_bytes;    /* of all of them, as written; NULL: any size */
    const char *memory_limit; /* as written; NULL: 95 % of the free memory */

    /* the device, and the memory that the run takes */
    /* of the teacher of an external distillation; 0: none, or unknown */
    uint64_t teacher_bytes;
    struct device device;
    struct memory_use memory;
};

/* Return whether the run only writes the model to export_dir, with the adapter merged if
 * there is one, without training. */
static inline bool plan_merges(const struct plan *plan)
{
    return plan->export_dir && !plan->dataset && plan->do_train != CHOICE_YES &&
           !plan->external && (plan->adapter_name_or_path || !plan->eval_dataset);
}

/* Return whether a job that does not train computes the loss.  transformers turns do_eval
 * on if eval_strategy is not "no" (TrainingArguments.__post_init__). */
static inline bool plan_evaluates_loss(const struct plan *plan)
{
    return plan->do_eval || plan->eval_strategy != WHEN_NO;
}

/* Return whether the run only evaluates the model, without training.  do_eval alone does
 * not turn training off: it occurs in jobs of scripts that train regardless of
 * do_train. */
static inline bool plan_only_evaluates(const struct plan *plan)
{
    return plan->do_train != CHOICE_YES && !plan->external && !plan_merges(plan) &&
           (plan->do_predict ||
            (plan->do_train == CHOICE_NO && plan_evaluates_loss(plan)));
}

static inline bool plan_trains(const struct plan *plan)
{
    return !plan_merges(plan) && !plan_only_evaluates(plan);
}

/* Return whether the run evaluates and therefore reads evaluation data. */
static inline bool plan_evaluates(const struct plan *plan)
{
    return plan->eval_strategy != WHEN_NO || plan->eval_on_start == CHOICE_YES ||
           plan->load_best_model_at_end || plan_only_evaluates(plan);
}

/* Return the value of finetuning_type. */
static inline const char *plan_method_name(const struct plan *plan)
{
    static const char *const names[] = { [METHOD_LORA] = "lora",
                                         [METHOD_FULL] = "full",
                                         [METHOD_FREEZE] = "freeze",
                                         [METHOD_OFT] = "oft" };

    return names[plan->method];
}

/* Return whether adapters are trained, of either kind. */
static inline bool plan_adapts(const struct plan *plan)
{
    return plan->method == METHOD_LORA || plan->method == METHOD_OFT;
}

/* Return the folder of an adapter that is merged into the model when it is loaded: by a run that
 * trains nothing, or a new adapter on top of it; or NULL. */
static inline const char *plan_merged_adapter(const struct plan *plan)
{
    return plan_adapts(plan) && (plan->create_new_adapter || plan->generation.alone)
               ? plan->adapter_name_or_path
               : NULL;
}

/* Return whether the encoder of images or sounds may be trained: in full tuning, or by adapters
 * that lora_target, or the adapter that the run continues, has on its layers. */
static inline bool plan_trains_encoder(const struct plan *plan)
{
    return (plan->method == METHOD_FULL || plan->method == METHOD_LORA) &&
           !plan->freeze_vision_tower && !plan->generation.alone;
}

/* Return whether the vocabulary may be larger than that of the model's files. */
static inline bool plan_grows_vocabulary(const struct plan *plan)
{
    return plan->resize_vocab || plan->add_tokens || plan->add_special_tokens;
}

/* Return whether the frozen linear layers of the blocks are stored in few bits. */
static inline bool plan_is_quantized(const struct plan *plan)
{
    return (plan->quantization_bit == 4 || plan->base_quantization) &&
           plan_adapts(plan) && !plan->external;
}

/* Return whether samples are two sequences and the loss is op_preference's. */
static inline bool plan_prefers(const struct plan *plan)
{
    return plan->stage == STAGE_DPO || plan->stage == STAGE_KTO ||
           plan->stage == STAGE_RM;
}

/* Return whether the loss compares the model with a reference model. */
static inline bool plan_has_reference(const struct plan *plan)
{
    if (plan->stage == STAGE_GRPO)
        return plan->grpo.beta != 0;
    return plan_prefers(plan) && plan->preference.loss != PREFERENCE_ORPO &&
           plan->preference.loss != PREFERENCE_SIMPO &&
           plan->preference.loss != PREFERENCE_REWARD;
}

/* Return whether a second model is loaded: a teacher or a reference model.  With LoRA
 * the base model without its adapter can serve as the reference. */
static inline bool plan_has_second_model(const struct plan *plan)
{
    return plan->stage == STAGE_DISTILL ||
           (plan_has_reference(plan) &&
            (plan->preference.reference || !plan_adapts(plan)));
}

/* Return the file of the teacher's logits; NULL: the teacher runs, or there is none. */
static inline const char *plan_teacher_logits(const struct plan *plan)
{
    return plan->stage == STAGE_DISTILL ? plan->kd.logits : NULL;
}

/* Return the sequences in a micro-batch of unpacked samples: a preference pair has 2. */
static inline size_t plan_batch_sequences(const struct plan *plan)
{
    return (size_t)plan->per_device_train_batch_size * (plan_prefers(plan) ? 2 : 1);
}

/* Return the rows of the longest sequence of a batch, as far as the plan knows: a sampled
 * answer follows a prompt of cutoff_len. */
static inline size_t plan_sequence_rows(const struct plan *plan)
{
    return (size_t)(plan->cutoff_len +
                    (plan->stage == STAGE_GRPO ? plan->grpo.max_completion_length : 0));
}

/* Stage grpo: return how many optimizer steps use the answers of one generation once. */
static inline int64_t plan_generation_steps(const struct plan *plan)
{
    int64_t steps = plan->grpo.steps_per_generation / plan->gradient_accumulation_steps;

    return steps > 1 ? steps : 1;
}

/* Stage grpo: return how many steps are made with the answers of one generation. */
static inline int64_t plan_generation_uses(const struct plan *plan)
{
    return plan_generation_steps(plan) * plan->grpo.num_iterations;
}

/* Stage grpo: return the answers, or the prompts, of one generation. */
static inline int64_t plan_generation_answers(const struct plan *plan)
{
    return plan->per_device_train_batch_size * plan->gradient_accumulation_steps *
           plan_generation_steps(plan);
}

static inline int64_t plan_generation_prompts(const struct plan *plan)
{
    return plan_generation_answers(plan) / plan->grpo.num_generations;
}

/* Return whether the moments are in host memory, from which the GPU reads them. */
static inline bool plan_offloads(const struct plan *plan)
{
    return plan->offload_optimizer == CHOICE_YES && plan->device.kind == DEVICE_CUDA &&
           !plan->external;
}

/* Return what the ranks of the plan divide among them, in words. */
static inline const char *plan_divides(const struct plan *plan)
{
    return plan->zero_stage > 2
               ? "the weights of layers, gradients and moments, and two layers in use"
           : plan->zero_stage > 1 ? "the gradients and moments"
                                  : "the moments";
}

/* Return the number of processes of the run; 1 if the plan does not set it. */
static inline size_t plan_ranks(const struct plan *plan)
{
    return plan->ranks > 1 ? (size_t)plan->ranks : 1;
}

/* Return the upper bound of a file of weights; 0: none. */
static inline uint64_t plan_shard_bytes(const struct plan *plan)
{
    const int64_t mb = plan->max_shard_mb > 0 ? plan->max_shard_mb
                       : plan_ranks(plan) > 1 ? 1000
                                              : 0;

    return (uint64_t)mb * 1000000;
}

/* Return the largest number of processes of the run on one machine. */
static inline size_t plan_local_ranks(const struct plan *plan)
{
    size_t nodes = plan->nodes > 1 ? (size_t)plan->nodes : 1;

    return (plan_ranks(plan) + nodes - 1) / nodes;
}

/* Return the format in which the ranks of a run send gradients. */
static inline enum format plan_sent_gradients(const struct plan *plan)
{
    return plan->reduce_dtype == REDUCE_BF16 ? FORMAT_BF16 : FORMAT_FP32;
}

/* Return the memory of each GPU that NCCL uses.  No machine has more ranks than a run starts
 * on one, whether or not the plan has the number of machines. */
static inline struct memory_range plan_nccl_overhead(const struct plan *plan)
{
    size_t local = plan_local_ranks(plan);

    return memory_group_overhead(&plan->device, plan_ranks(plan),
                                 local < DEVICE_RANKS_MAX ? local : DEVICE_RANKS_MAX);
}

/* Return the memory of each device that ranks use to send anything. */
static inline struct memory_range plan_group_overhead(const struct plan *plan)
{
    struct memory_range sum = plan_nccl_overhead(plan);
    bool rounds = sum.high > 0 && plan_sent_gradients(plan) == FORMAT_BF16;

    return memory_range_sum(sum,
                            memory_range_exact(rounds ? MEMORY_ROUNDED_GRADIENTS : 0));
}

#endif
