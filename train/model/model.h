/*
 * train/model/model.h - a transformer on a backend: parameters by name, forward, backward.
 *
 * Memory is planned once (train/model/shapes.h) and taken in one block before the first step.
 * Trainable parameters lie in four segments of equal layout (weights, gradients, first
 * and second moments), so one offset serves all four; a 16-bit working copy is a fifth.
 */
#ifndef TRAIN_MODEL_MODEL_H
#define TRAIN_MODEL_MODEL_H

#include "kernels/backend.h"
#include "train/dataset/dataset.h"
#include "train/model/model_config.h"
#include "train/model/optimizer_table.h"
#include "train/files/safetensors.h"

/* One named matrix or vector of the model, as Hugging Face (or PEFT) names it. */
struct parameter {
    const char *name;  /* "model.layers.0.self_attn.q_proj.weight" */
    size_t rank;       /* 1 or 2 in the files */
    size_t rows, cols; /* a vector has 1 row */
    bool trainable;
    bool decays; /* weight decay applies: not to norms and biases */
    /* how files have it; gradients and moments are like the weight */
    enum storage stored;
    struct tensor weight;       /* fp32 where trainable, else the frozen format */
    struct quantized quantized; /* instead of the weight, where that has 4 bits */
    enum format through;        /* what numbers of 4 bits are rounded to */
    struct tensor copy; /* 16-bit working copy, or absent; of a quantised one scratch */
    struct tensor grad; /* absent where frozen */
    size_t at;          /* of its first number in the trainable segments */
    double lr_factor;   /* LoRA+ */
};

struct model;

/* What to make: sizes that the block is laid out for. */
struct model_options {
    const struct plan *plan;
    const struct model_config *config;
    struct backend *backend;
    size_t rows_max; /* N of the largest batch */
    size_t sequences_max;
    size_t rank; /* of the plan's ranks; the backend has joined the others */
};

/* Take the block and lay it out; weights are zero.  ERROR_DEVICE/ERROR_SYSTEM with the
 * bytes wanted when they cannot be had. */
struct model *model_new(const struct model_options *options, struct error *err);
void model_free(struct model *model);

/* Fill the weights from the plan's model folder (and adapter), or at random with the
 * plan's seed (train_from_scratch; new adapters).  A missing, surplus or wrongly shaped
 * tensor is ERROR_DATA naming it. */
bool model_load(struct model *model, struct error *err);

/* Put a whole tensor of a file, which has the weight's format and numbers, into a
 * parameter, and make its copy. */
bool model_put(struct model *model, const struct parameter *p,
               const struct stored_tensor *from, struct error *err);

struct backend *model_backend(struct model *model); /* borrowed */
size_t model_parameters(const struct model *model);
struct parameter *model_parameter(struct model *model, size_t index);
/* What is trained, in the order of the segments. */
size_t model_trained_parameters(const struct model *model);
struct parameter *model_trained(struct model *model, size_t index);
uint64_t model_trainable(const struct model *model); /* numbers */
uint64_t model_total(const struct model *model);
/* What was really taken: low the block, total and high with what the backend holds. */
const struct memory_use *model_memory(const struct model *model);
/* All gradients as one row of fp32; the padding between them is zero. */
struct tensor model_gradients(const struct model *model);
/* The numbers of the step under way, in the backend's memory. */
struct step_numbers *model_numbers(struct model *model);

/* One micro-batch: *loss_sum += sum of losses in double. */
bool model_evaluate(struct model *model, const struct batch *batch, double *loss_sum,
                    struct error *err);

/* Of the batch evaluated last, where plan->compute_accuracy: to *sum is added, for each
 * run that has targets, the share of them that were the likeliest token; to *runs, how
 * many. */
void model_accuracy(const struct model *model, const struct batch *batch, double *sum,
                    size_t *sequences);

/*
 * A window, which is the micro-batches of one optimizer step:
 *
 *     model_begin   the host's numbers go to the device
 *     model_train   for each micro-batch
 *     optimizer_step (train/model/optimizer.h)
 *     model_end     the losses and the numbers come back
 *
 * Nothing but the last waits for the device: what fails on it is told there.
 */
void model_begin(struct model *model, const struct step_numbers *numbers);
/* Forward and backward; gradients of the window's first micro-batch overwrite what was
 * there, the others are added.  `draw` is the number of the micro-batch in the whole run:
 * what dropout masks are drawn by.  At most gradient_accumulation_steps of them. */
bool model_train(struct model *model, const struct batch *batch, uint64_t draw,
                 struct error *err);
/* *loss_sum = sum of the window's losses in double, in the order of its tokens. */
bool model_end(struct model *model, struct step_numbers *numbers, double *loss_sum,
               struct error *err);

/*
 * ---- A student and its teacher, train/model/model_distill.c ----
 *
 * With stage distill the loss is (1 - kd_ratio) of that by the data plus kd_ratio of the
 * distance from a teacher: a frozen model of the same backend, laid out by a plan of its
 * own (train/teacher/teacher_plan.h), or what was kept of one.
 */
struct model_losses {
    double data, teacher;
};

/* `teacher`, which stays the caller's, answers to each batch from here on. */
void model_set_teacher(struct model *student, struct model *teacher);
/* Or, before each model_train, what is kept of a teacher of `words` words: of row n the
 * logits values[n * k] .. and their words ids[n * k] .., k = kd.topk, or all words if
 * there are less; rows without a target are not read. */
void model_teach_kept(struct model *student, size_t rows, const int32_t *ids,
                      const float *values, size_t words);
/* Of a teacher: the k largest logits of rows with a target among its first `words` words,
 * in the form above. */
bool model_keep(struct model *teacher, const struct batch *batch, size_t words,
                int32_t *ids, float *values, struct error *err);
/* After model_end: the sums that the window's loss is made of. */
struct model_losses model_losses(const struct model *student);

/*
 * ---- Preferences, train/model/model_preference.c ----
 *
 * With stage dpo runs 2p and 2p + 1 of a batch are two answers, the first of which was
 * chosen (struct op_preference).  They are held against a reference: a frozen model of
 * the same backend, laid out by a plan of its own, or, where adapters are trained, the
 * model without them.
 */
enum reward {
    REWARD_CHOSEN, /* beta times the log-likelihood of an answer minus the reference's */
    REWARD_REJECTED,
    REWARD_ACCURACY, /* share of the pairs with the larger reward for the chosen answer */
    REWARD_MARGIN,   /* chosen minus rejected */
    REWARD_LOGP_CHOSEN,
    REWARD_LOGP_REJECTED, /* log-likelihoods; means over tokens in ipo, orpo and simpo */
    REWARDS
};

/* Sums over pairs, or means of them. */
struct rewards {
    double of[REWARDS];
};

/* Names that LLaMA-Factory and TRL use in their logs: "rewards/chosen". */
extern const char *const reward_names[REWARDS];

/* to += times * more */
void rewards_add(struct rewards *to, const struct rewards *more, double times);

/* `reference` stays the caller's. */
void model_set_reference(struct model *model, struct model *reference);
/* After model_end or model_evaluate: sums over the pairs of the window, or of the
 * batch. */
struct rewards model_rewards(const struct model *model);

/*
 * ---- Several ranks, train/model/model_shard.c ----
 *
 * Each updates one shard of the trainable segments, and has the moments of that shard
 * alone; a single rank's shard is all.  Places are numbers from the start of a segment.
 */
struct model_shard {
    size_t first, count;
};

size_t model_ranks(const struct model *model);
struct model_shard model_shard(const struct model *model);
const struct optimizer *model_optimizer(const struct model *model);
/* Return how many moments the model keeps, and their format. */
size_t model_moments(const struct model *model);
enum format model_moment_format(const struct model *model);
/* Elements of this rank's shard as one row; absent where the model does not keep it. */
struct tensor model_moment(const struct model *model, enum moment moment, size_t first,
                           size_t count);
/* After model_begin: the micro-batches of the window that come to this rank.  All ranks'
 * sums go to the shards while the last of them is under way; 0: this rank has none to
 * add. */
void model_expect(struct model *model, size_t batches);
/* After the update: every rank's new weights to all. */
void model_gather(struct model *model);

/* A whole parameter's moments, as checkpoints have them; what other ranks keep is asked
 * of `fetch`. */
struct moment_span {
    enum moment moment;
    size_t rank, first, count, bytes;
};
typedef bool model_fetch(const void *context, const struct moment_span *span, void *to,
                         struct error *err);
void model_fetch_by(struct model *model, model_fetch *fetch, const void *context);
bool model_read_moment(struct model *model, enum moment moment, const struct parameter *p,
                       void *to, struct error *err);
/* Numbers of this rank's own shard. */
bool model_read_span(struct model *model, enum moment moment, size_t first, size_t count,
                     void *to, struct error *err);
/* From a whole parameter's moments: this rank takes what it keeps. */
void model_write_moment(struct model *model, enum moment moment,
                        const struct parameter *p, const void *from);

/* Write what the method trains in Hugging Face's form into an existing folder: the whole
 * model (model.safetensors, config.json) or the adapter (adapter_model.safetensors,
 * adapter_config.json, the config.json of its base), and copies of the tokenizer
 * files. */
bool model_save(struct model *model, const char *dir, struct error *err);
/* The whole model with the adapter merged, into an existing folder. */
bool model_export(struct model *model, const char *dir, struct error *err);

/* Logits of the last row of each run, fp32 (sequences, V), for tests. */
bool model_logits(struct model *model, const struct batch *batch, float *out,
                  struct error *err);

/*
 * ---- Sequences that grow, train/model/model_decode.c ----
 *
 * Where plan->generation.on, there are slots for that many sequences, each with the keys
 * and values of its rows so far.
 */
size_t model_slots(const struct model *model);
size_t model_room(const struct model *model); /* rows of a slot */
size_t model_vocabulary(const struct model *model);

/* A sequence begins: its tokens go through the model as in an evaluation, their keys and
 * values into the slot.  logits (V): those of its last row. */
bool model_prefill(struct model *model, size_t slot, const int32_t *tokens, size_t count,
                   float *logits, struct error *err);
/*
 * Every sequence grows by one token: tokens[slot], before which its slot holds
 * lengths[slot] rows (below model_room).  logits (slots, V).  A slot without a sequence
 * takes part with token 0 and length 0: all steps have one shape, so that the bits of a
 * sequence do not depend on what else there is.
 */
bool model_decode_step(struct model *model, const int32_t *tokens, const int32_t *lengths,
                       float *logits, struct error *err);

#endif
