/*
 * train/model/model.h - a transformer on a backend: parameters, forward, backward.
 *
 * Memory is planned once (train/model/shapes.h) and allocated as one block before the
 * first step.  Trainable parameters are in segments of equal layout (weights, gradients,
 * moments), so one offset serves all of them; the 16-bit working copies are another
 * segment.
 */
#ifndef TRAIN_MODEL_MODEL_H
#define TRAIN_MODEL_MODEL_H

#include "base/heartbeat.h"
#include "base/log.h"
#include "kernels/backend.h"
#include "train/chat/template_saving.h"
#include "train/dataset/dataset.h"
#include "train/model/model_config.h"
#include "train/model/optimizer_table.h"
#include "train/files/safetensors.h"

/* A named matrix or vector of the model, as Hugging Face (or PEFT) names it. */
struct parameter {
    const char *name;  /* "model.layers.0.self_attn.q_proj.weight" */
    size_t rank;       /* as in the files */
    size_t rows, cols; /* a vector has 1 row */
    bool trainable;
    bool decays; /* weight decay applies: not to norms and biases */
    /* how files store it; gradients and moments are laid out like the weight */
    enum storage stored;
    size_t matrices; /* of a stack that is one tensor in files; 0: it is no stack */
    const struct encoder_tensor *tensor; /* of an encoder: its shape in files; or NULL */
    /* fp32 if trainable, otherwise the frozen format; no data if sharded */
    struct tensor weight;
    bool sharded; /* this rank has the part in its shard: model_write_weight */
    /* the weight, or the copy, is in a window, where other blocks also have theirs */
    bool gathered;
    struct quantized quantized;     /* replaces the weight if it has 4 bits */
    enum format dequantized_format; /* format that dequantized values are rounded to */
    /* 16-bit working copy, or absent; scratch of a quantized parameter */
    struct tensor copy;
    struct tensor grad; /* absent if frozen */
    size_t at;          /* offset of its first element in the trainable segments */
    const struct shape_moment *moments; /* of the optimizer */
    double lr_factor;                   /* LoRA+ */
};

struct model;
struct save_share;

/* What to build, and the batch sizes that the block is laid out for. */
struct model_options {
    const struct plan *plan;
    const struct model_config *config;
    struct backend *backend;
    size_t rows_max; /* N of the largest batch */
    size_t sequences_max;
    size_t media_rows_max; /* of images and sounds: rows of features of a batch */
    size_t rank; /* among the plan's ranks; the backend has already joined the others */
};

/* Allocate the block and lay it out; weights are zero.  ERROR_DEVICE or ERROR_SYSTEM with
 * the requested bytes if the allocation fails. */
struct model *model_new(const struct model_options *options, struct error *err);
void model_free(struct model *model);

/* Set what ticks in the layers of each pass, and while weights are loaded and saved;
 * borrowed.  A stop ends only the loading. */
void model_set_heartbeat(struct model *model, struct heartbeat *heartbeat);
struct heartbeat *model_heartbeat(const struct model *model);
/*
 * PiSSA: read the initial adapters from a file, if it has them for this model, instead of
 * computing them in model_load; write those that were computed.
 */
void model_keep_pissa(struct model *model, const char *name);
bool model_write_pissa(struct model *model, const char *name, struct error *err);
/* Set where the progress of long loads is reported; NULL: nowhere. */
void model_set_log(struct model *model, struct log *log);
struct log *model_log(const struct model *model);

/* Load the weights from the plan's model folder (and adapter), or initialize them from
 * the plan's seed (train_from_scratch; new adapters).  ERROR_DATA names a tensor that is
 * missing, unexpected or of the wrong shape. */
bool model_load(struct model *model, struct error *err);

/* Copy a whole tensor of a file, which has the weight's format and size, into a
 * parameter, and update its working copy. */
bool model_load_tensor(struct model *model, const struct parameter *p,
                       const struct stored_tensor *from, struct error *err);

/* Open the weights that model_save wrote to a folder. */
struct safetensors *model_open_saved(const struct model *model, const char *dir,
                                     const char *stem, struct error *err);
/* Return the tensor of a parameter in a file that model_save wrote, or NULL. */
const struct stored_tensor *model_find_saved(const struct model *model,
                                             const struct safetensors *set,
                                             const struct parameter *p);

struct backend *model_backend(struct model *model); /* borrowed */
size_t model_parameters(const struct model *model);
struct parameter *model_parameter(struct model *model, size_t index);
/* Trained parameters, in the order of the segments. */
size_t model_trained_parameters(const struct model *model);
struct parameter *model_trained(struct model *model, size_t index);
uint64_t model_trainable_elements(const struct model *model); /* elements */
uint64_t model_total_elements(const struct model *model);
/* Memory in use: low is the block; total and high include what the backend holds. */
const struct memory_use *model_memory(const struct model *model);
/* Set out[i] to the tensors of config->encoder.list[i], of a model that trains it. */
void model_encoder_weights(const struct model *model, struct encoder_weights *out);
/* The same of a model that has adapters in it, which are zero without one; return their
 * settings. */
const struct lora *model_encoder_adapters(const struct model *model,
                                          struct encoder_adapter *out);
/* All gradients as one row of fp32, or those of this rank's shard if they are sharded; the
 * padding between them is zero. */
struct tensor model_gradients(const struct model *model);
/* The scalars of the current step, in the backend's memory. */
struct step_scalars *model_step_scalars(struct model *model);
/* Adam's count of the step of the last model_begin, if it is applied. */
int64_t model_issued_step(const struct model *model);
/* Return whether moments have been written since they were zero, such as the
 * projections of GaLore. */
bool model_has_moments(const struct model *model);

/* Run one micro-batch forward: *loss_sum += sum of the losses in double. */
bool model_evaluate(struct model *model, const struct batch *batch, double *loss_sum,
                    struct error *err);

/* Accuracy of the last evaluated batch, if plan->compute_accuracy: add to *sum, for each
 * sequence that has targets, the share of targets that had the largest logit; add to
 * *sequences the number of these sequences. */
void model_accuracy(const struct model *model, const struct batch *batch, double *sum,
                    size_t *sequences);

/*
 * A window is the micro-batches of one optimizer step:
 *
 *     model_begin   uploads the step's scalars
 *     model_train   for each micro-batch
 *     optimizer_step (train/model/optimizer.h)
 *     model_post    starts to download the losses and the scalars
 *     model_end     waits for them
 *
 * Only model_end waits for the device and reports its errors.  The next window may begin
 * before it, with the scalars that follow if this step is applied; if it is skipped, so is
 * the next, which model_discard waits for and forgets.
 */
void model_begin(struct model *model, const struct step_scalars *scalars);
/* Run forward and backward.  Gradients of the window's first micro-batch overwrite the
 * old ones, later ones are added.  `draw` is the index of the micro-batch in the whole
 * run and selects the dropout masks.  A window has at most gradient_accumulation_steps
 * micro-batches. */
bool model_train(struct model *model, const struct batch *batch, uint64_t draw,
                 struct error *err);
/* At most BACKEND_FENCES windows ahead of model_end, which otherwise does it. */
void model_post(struct model *model);
/* Return the results of the earliest window that was posted.  *loss_sum = sum of the
 * window's losses in double, in the order of its tokens. */
bool model_end(struct model *model, struct step_scalars *scalars, double *loss_sum,
               struct error *err);
/* Wait for all windows and forget their results. */
bool model_discard(struct model *model, struct error *err);

/*
 * ---- Distillation, train/model/model_distill.c ----
 *
 * In stage distill the loss is (1 - kd_ratio) times the loss on the data plus kd_ratio
 * times the distance from a teacher.  The teacher is a frozen model on the same backend
 * with a plan of its own (train/teacher/teacher_plan.h), or logits that were stored
 * before.
 */
struct model_losses {
    double data, teacher;
};

/* Use `teacher`, which the caller keeps owning, for all following batches. */
void model_set_teacher(struct model *student, struct model *teacher);
/* Alternatively, before each model_train, pass stored logits of a teacher with a
 * vocabulary of `vocabulary` tokens: for row n the logits values[n * k] .. and their
 * token ids ids[n * k] .., with k = kd.topk, or the whole vocabulary if it is smaller.
 * Rows without a target are not read. */
void model_set_teacher_logits(struct model *student, size_t rows, const int32_t *ids,
                              const float *values, size_t vocabulary);
/* Run a teacher: write the k largest logits of rows with a target, among its first
 * `vocabulary` tokens, in the form above. */
bool model_top_logits(struct model *teacher, const struct batch *batch, size_t vocabulary,
                      int32_t *ids, float *values, struct error *err);
/* After model_end: the two sums that make up the window's loss. */
struct model_losses model_losses(const struct model *student);

/*
 * ---- Preferences, train/model/model_preference.c ----
 *
 * In stage dpo sequences 2p and 2p + 1 of a batch are two answers, the first of which was
 * chosen (struct op_preference), in stage kto an answer and the one that estimates the
 * divergence (kernels/ops_loss.h).  They are compared with a reference: a frozen model on
 * the same backend with a plan of its own, or, if adapters are trained, the model without
 * them.
 */
enum reward {
    REWARD_CHOSEN, /* beta times (log-likelihood of the model - that of the reference) */
    REWARD_REJECTED,
    REWARD_ACCURACY, /* share of pairs whose chosen answer has the larger reward */
    REWARD_MARGIN,   /* chosen - rejected */
    REWARD_LOGP_CHOSEN,
    REWARD_LOGP_REJECTED, /* log-likelihoods; means over tokens for ipo, orpo, simpo */
    REWARD_KL,            /* stage kto: the divergence from the reference */
    REWARD_GOOD,          /* stage kto: 1 for a good answer */
    REWARDS
};

/* The values in stage grpo, of which there are fewer: model_policy.c. */
enum sampled {
    SAMPLED_REWARD,
    SAMPLED_REWARD_STD,
    SAMPLED_LENGTH,    /* tokens of an answer */
    SAMPLED_TRUNCATED, /* share of answers that reached max_completion_length */
    SAMPLED_KL,        /* mean over tokens */
    SAMPLED_CLIPPED,   /* share of tokens whose ratio is clipped */
    SAMPLED
};

/* Sums or means over pairs, or over answers in stages kto and grpo. */
struct rewards {
    double values[REWARDS];
    const char *const *names; /* NULL: reward_names */
    bool feedback;            /* stage kto */
    bool scores;              /* stage rm */
};

/* Names that LLaMA-Factory and TRL use in their logs: "rewards/chosen". */
extern const char *const reward_names[REWARDS];
/* The same for stage grpo; there a value that was not measured is NaN. */
extern const char *const sampled_names[REWARDS];

/* In stage kto, make means over good and over bad answers of means over all. */
void rewards_divide(struct rewards *rewards);
/* Return whether a log shows this one: it was measured. */
bool rewards_show(const struct rewards *rewards, enum reward reward);
/* to += times * more */
void rewards_add(struct rewards *to, const struct rewards *more, double times);

/* The caller keeps owning `reference`. */
void model_set_reference(struct model *model, struct model *reference);
/* After model_end or model_evaluate: sums over the pairs of the window or of the
 * batch. */
struct rewards model_rewards(const struct model *model);
/* After model_evaluate: return the values of the batch's pairs, PREFERENCE_VALUES each. */
const float *model_pairs(const struct model *model);

/*
 * ---- Sampled answers, train/model/model_policy.c ----
 *
 * In stage grpo each sequence of a batch is a prompt and a sampled answer (struct
 * op_policy).  The reference is as for preferences.
 */
struct model_policy {
    const float *advantages, *factors; /* of the batch's sequences */
    const float
        *old; /* losses of the batch's rows before the first step; NULL: the same */
};

/* Before model_train: for its batch. */
void model_set_policy(struct model *model, const struct batch *batch,
                      const struct model_policy *policy);
/* Compute the loss of each row of a batch that has a target, as model_train does; 0 for the
 * others. */
bool model_policy_losses(struct model *model, const struct batch *batch, float *losses,
                         struct error *err);
/* After model_end, model_rewards has SAMPLED_KL and SAMPLED_CLIPPED: sums over the window's
 * micro-batches of the means over their tokens (of SAMPLED_CLIPPED over answers, if their
 * ratios are), as TRL logs them. */

/*
 * ---- Several ranks, train/model/model_shard.c ----
 *
 * Each rank updates one shard of the trainable segments and keeps only the moments of
 * that shard; a single rank's shard is everything.  Offsets count elements from the start
 * of a segment.
 */
struct model_shard {
    size_t first, count;
};

size_t model_ranks(const struct model *model);
struct model_shard model_shard(const struct model *model);
const struct optimizer *model_optimizer(const struct model *model);
/* Return how many moments the model keeps of a parameter, at most. */
size_t model_moments(const struct model *model);
/* Elements of this rank's shard as one row, from one of p on; absent where the model does
 * not keep it. */
struct tensor model_moment(const struct model *model, enum moment moment,
                           const struct parameter *p, size_t first, size_t count);
/* After model_begin: the number of micro-batches of the window that this rank runs, and
 * the largest such number of all ranks.  During the last one, the gradients of all ranks
 * are reduced to the shards; during each, if gradients are sharded.  A rank that runs
 * fewer adds zeros. */
void model_expect_batches(struct model *model, size_t batches, size_t most);
/* Gradients are added to after each model_train, as those of an encoder are: with several ranks,
 * model_reduce_late has to follow, and reduces all that are of no block. */
void model_expect_late_gradients(struct model *model);
void model_reduce_late(struct model *model);
/* Gradients of this rank's shard as one row. */
struct tensor model_shard_gradients(const struct model *model);
/* After the update: send every rank's new weights to all ranks; of sharded weights the
 * 16-bit copies, which are the update's. */
void model_gather_weights(struct model *model);
/* Round the weights of this rank to their copies; of sharded weights its part.  Those in
 * windows follow when they are gathered. */
void model_update_copies(struct model *model);

/* Write rows of a trained parameter, in the format of its weight: to a sharded weight this
 * rank's part, and all of them to its copy. */
void model_write_weight(struct model *model, const struct parameter *p, size_t first,
                        size_t rows, const void *from);
/* Read rows of a trained parameter; those of a sharded weight also from other ranks. */
bool model_read_weight(const struct model *model, const struct parameter *p, size_t first,
                       size_t rows, void *to, struct error *err);
/* If blocks are sharded, a pass that does not train reads parts of other ranks, too: a
 * rank that has none to make takes part in theirs here, until no rank makes another. */
bool model_follow(struct model *model, struct error *err);
/* Return whether that is the case. */
bool model_shards_blocks(const struct model *model);
/* Passes that rank 0 makes alone: it leads, while the others follow until it ends. */
void model_lead(struct model *model, bool leads);
bool model_follow_rank_0(struct model *model, struct error *err);
/* This rank's part of elements [at, at + count) of the segments, of a sharded weight. */
struct tensor model_shard_weights(const struct model *model, size_t at, size_t count);

/* Read or write the moments of a whole parameter, as checkpoints have them.  `fetch`
 * reads moments and sharded weights that other ranks keep. */
#define SPAN_WEIGHT MOMENTS_MAX /* struct moment_span: of the weights */

struct moment_span {
    enum moment moment;        /* or SPAN_WEIGHT */
    size_t parameter;          /* an index, model_parameter */
    size_t rank, first, count; /* weights */
    size_t bytes;              /* model_span_bytes */
};
/* Return the bytes of a span. */
size_t model_span_bytes(const struct model *model, const struct moment_span *span);
typedef bool model_fetch(const void *context, const struct moment_span *span, void *to,
                         struct error *err);
void model_set_fetch(struct model *model, model_fetch *fetch, const void *context);
bool model_read_moment(struct model *model, enum moment moment, const struct parameter *p,
                       void *to, struct error *err);
/* Read elements of this rank's own shard. */
bool model_read_span(struct model *model, const struct moment_span *span, void *to,
                     struct error *err);
/* Copy this rank's part from the moments of a whole parameter.  Like model_zero_moments,
 * only while no optimizer step runs: before the first, or after model_end. */
void model_write_moment(struct model *model, enum moment moment,
                        const struct parameter *p, const void *from);
/* The same of elements [first, first + count) of the moment. */
void model_write_elements(struct model *model, enum moment moment,
                          const struct parameter *p, size_t first, size_t count,
                          const void *from);
/* Return whether this rank keeps any of them. */
bool model_has_elements(const struct model *model, enum moment moment,
                        const struct parameter *p, size_t first, size_t count);
/* Read what a moment, or SPAN_WEIGHT, has of weights [first, first + count) of the
 * segments. */
bool model_read_elements(struct model *model, enum moment moment,
                         const struct parameter *p, size_t first, size_t count, void *to,
                         struct error *err);
void model_zero_moments(struct model *model); /* those of this rank */
/* With an optimizer that averages weights: let both start as the weights. */
void model_start_average(struct model *model);
/*
 * With an optimizer that has averaged weights: let the model be their average, or, again,
 * the weights that are trained, to the bit.  Otherwise do nothing.  Weights that
 * checkpoint_load_weights loaded are an average.
 */
void model_use_average(struct model *model, bool average);
void model_loaded_average(struct model *model);

/*
 * ---- Torch's view of the trained parameters, train/model/model_torch.c ----
 */

/* Fill `order` with the indexes (model_parameter) of the trained parameters, in the order
 * of named_parameters() of the model in transformers, or of PEFT's model around it. */
void model_torch_order(const struct model *model, size_t *order);
/* Return how files store a parameter, and torch its moments: rank and shape. */
struct tensor_source model_stored_shape(const struct parameter *p);
/* Read a moment in that layout. */
bool model_read_stored_moment(struct model *model, enum moment moment,
                              const struct parameter *p, void *to, struct error *err);

/* Set what the tokenizer files of saved models say; borrowed.  By default they are copies
 * of the original model's. */
void model_set_saving(struct model *model, const struct template_saving *saving);
/* Write what the method trains to an existing folder, in Hugging Face's format: the whole
 * model (model.safetensors, config.json, generation_config.json) or, as PEFT does, the
 * adapter alone (adapter_model.safetensors, adapter_config.json), and the tokenizer
 * files. */
bool model_save(struct model *model, const char *dir, struct error *err);
/* The same by all ranks, which make the same call: as save_share_write. */
bool model_save_together(struct model *model, struct save_share *share,
                         struct error *err);
/* Return whether model_save writes a trained parameter under its name and in the format of
 * its weight, so that a checkpoint needs no other copy of it. */
bool model_saves_weight(const struct model *model, const struct parameter *p);
/* Write adapters that started as a part of the weights (pissa_init) as plain ones, for the
 * weights as they are in the files. */
bool model_save_converted(struct model *model, const char *dir, struct error *err);
/* Write the whole model with the adapter merged to an existing folder, with Ollama's
 * Modelfile. */
bool model_export(struct model *model, const char *dir, struct error *err);

/* Compute the logits of the last row of each sequence, fp32 (sequences, V), for tests. */
bool model_logits(struct model *model, const struct batch *batch, float *out,
                  struct error *err);

/*
 * ---- Generation, train/model/model_decode.c ----
 *
 * If plan->generation.on, there are slots for that many sequences.  A slot caches the
 * keys and values of the rows of its sequence so far.
 */
size_t model_slots(const struct model *model);
size_t model_slot_rows(const struct model *model); /* rows of a slot */
size_t model_vocabulary(const struct model *model);

/* Start a sequence: run its tokens through the model as in an evaluation and write their
 * keys and values to the slot.  logits (V): those of its last row. */
bool model_prefill(struct model *model, size_t slot, const int32_t *tokens, size_t count,
                   float *logits, struct error *err);
/* The same with images or sounds among the tokens. */
bool model_prefill_media(struct model *model, size_t slot, const int32_t *tokens,
                         size_t count, const struct question_media *media, float *logits,
                         struct error *err);
/* Return whether a sequence that has become this long must be prefilled again: LongRoPE
 * has other angles, also of its first positions, beyond the original positions. */
bool model_renews_slot(const struct model *model, size_t length);
/*
 * Append one token to every sequence: tokens[slot], after the lengths[slot] rows that are
 * in its slot (below model_slot_rows). logits (slots, V). A slot without a sequence takes
 * part with token 0 and length 0: all steps have the same shape, so the bits of a
 * sequence do not depend on the other slots.
 */
bool model_decode_step(struct model *model, const int32_t *tokens, const int32_t *lengths,
                       float *logits, struct error *err);

#endif
