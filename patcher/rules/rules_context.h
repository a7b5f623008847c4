/*
 * patcher/rules/rules_context.h - properties of a job that several rules check, and
 * functions that report a finding or propose an edit.
 */
#ifndef PATCHER_RULES_RULES_CONTEXT_H
#define PATCHER_RULES_RULES_CONTEXT_H

#include "patcher/findings/propose.h"
#include "patcher/rules/rules.h"

/* Keys. */

/* Return the entry of a key, under this name or an alias; NULL if it is absent or
 * null. */
const struct entry *rule_entry(const struct rule_context *context, const char *key);
/* The same, but an entry with a null value counts: a value can be written into its
 * line. */
const struct entry *rule_line(const struct rule_context *context, const char *key);
/* Return the entry of a key in the block `trainspool:`, or NULL. */
const struct entry *rule_block_entry(const struct rule_context *context, const char *key);
/* Return whether a key is present and true. */
bool rule_is_true(const struct rule_context *context, const char *key);
/* Return whether a key is present and neither off nor at its default value. */
bool rule_is_set(const struct rule_context *context, const char *key);
/* Return whether a key is present and holds a number, stored in *value. */
bool rule_number(const struct rule_context *context, const char *key, double *value);

/* Device. */

/* Return whether the job runs on the CPU: the only device, or the requested one. */
bool rule_on_cpu(const struct rule_context *context);
/* Return whether the job runs on a known GPU of NVIDIA. */
bool rule_on_gpu(const struct rule_context *context);
/* Return the accelerator of another maker that the job runs on, or NULL: rules about
 * devices know NVIDIA's only. */
const struct accelerator_row *rule_accelerator(const struct rule_context *context);
/* Return whether it is known if the job's device has bf16; *has says so. */
bool rule_knows_bf16(const struct rule_context *context, bool *has);
/* Return 10 * major + minor of a known GPU, else 0. */
int rule_capability(const struct rule_context *context);
/* Return whether the job runs on a known GPU without bf16. */
bool rule_lacks_bf16(const struct rule_context *context);
/* Return whether the job runs on a known GPU with fp16 tensor cores. */
bool rule_has_tensor_cores(const struct rule_context *context);
/* Return "TITAN RTX, compute capability 7.5", or NULL if the device is unknown. */
const char *rule_device_text(const struct rule_context *context);

/* Precision. */

bool rule_is_policy(const struct rule_context *context, enum policy policy);
/* Return whether the job asks for fp16: fp16 true, or auto where that means fp16 on the
 * device. */
bool rule_requests_fp16(const struct rule_context *context);
/* Return whether the run computes in fp16, after policy_decide. */
bool rule_runs_fp16(const struct rule_context *context);
/* Return whether `auto` means fp16 on the device of a native job. */
bool rule_is_auto_fp16(const struct rule_context *context);
/* Return the key, bf16 or fp16, that is auto. */
const char *rule_auto_key(const struct rule_context *context);
/* Return whether the base model would be stored in float16, by model_dtype or, where that
 * is auto or absent, by the checkpoint. */
bool rule_base_is_float16(const struct rule_context *context);
/* Return whether trained weights would be stored in float16, by model_dtype or, where
 * that is auto or absent, by the checkpoint. */
bool rule_trains_float16(const struct rule_context *context);
/* Return whether the previous run, with the same formats, diverged in a way that shows
 * that the float16 model cannot be computed in fp16 (rules_previous_run.c). */
bool rule_fp16_failed_before(const struct rule_context *context);
/* Return whether the model was trained in bfloat16, judging by its files or its name: its
 * activations may exceed the range of float16. */
bool rule_is_bf16_model(const struct rule_context *context);
/* Return whether the weight files of the model are quantized to 4 bits. */
bool rule_model_is_prequantized(const struct rule_context *context);
/* Return whether the frozen weights have 8 bits or fewer. */
bool rule_is_quantized(const struct rule_context *context);

/* Evaluation, batch, resume. */

/* Return whether anything is evaluated; *key is the key that asks for it. */
bool rule_evaluates(const struct rule_context *context, const char **key);
/* Return whether the loss of a sample depends on the other samples of its micro batch, as
 * in KTO: batch size and accumulation are then not interchangeable.  *key says so. */
bool rule_loss_depends_on_batch(const struct rule_context *context, const char **key);

/* The checkpoint that the run resumes from; train/run.c selects it the same way. */
struct rule_resume {
    bool asked;        /* the job or the command line asks to resume */
    const char *named; /* the folder that the job names; NULL: the last checkpoint */
    const struct previous_checkpoint *from; /* NULL: none */
};

struct rule_resume rule_find_resume(const struct rule_context *context);
/* Return the digest that the checkpoints of the job have: that of its text, or of the text
 * that the run began with. */
const char *rule_digest(const struct rule_context *context);

/* External jobs (rules_context_external.c). */

/*
 * Compare the version of a package with a bound in the form of PEP 440; the bound
 * `5.0.0.dev0` includes the release candidates of 5.  Both return false if the version is
 * unknown, so that the rule stays silent.
 */
bool rule_version_at_least(const struct rule_context *context, enum package package,
                           const char *least);
bool rule_version_below(const struct rule_context *context, enum package package,
                        const char *bound);
/* Return "transformers 5.1, given in trainspool.versions", or NULL if the version is
 * unknown. */
const char *rule_version_text(const struct rule_context *context, enum package package);
/* Return the line of trainspool that gives the version of a package. */
const struct entry *rule_version_entry(const struct rule_context *context,
                                       enum package package);
/* Find the toolkit that torch was built with: as given or found, or from torch's version,
 * +cu121. */
bool rule_torch_cuda(const struct rule_context *context, struct version *out);
/* Return whether the program is LLaMA-Factory, which casts all trained weights to
 * float32. */
bool rule_is_llamafactory(const struct rule_context *context);
/* Return whether the program is TRL. */
bool rule_is_trl(const struct rule_context *context);
/* Return whether TrlParser reads the job: TRL is the program, the job is the argument of
 * --config, and the version converts strings (0.9.6 or later). */
bool rule_uses_trl_parser(const struct rule_context *context);
/* Return whether the job belongs to this script of TRL, such as "sft": by the command or,
 * without one, by a key that only the configuration of that script has. */
bool rule_runs_trl(const struct rule_context *context, const char *script);
/* Return whether a word of trainspool.command contains a text. */
bool rule_command_has(const struct rule_context *context, const char *text);
/* Return whether the program is TRL at an unknown version: defaults that decide memory and
 * precision differ between its versions. */
bool rule_lacks_defaults(const struct rule_context *context);
/* Return whether a script of the Hugging Face Trainer seems to train all weights: no
 * key of its job configures adapters. */
bool rule_trains_all(const struct rule_context *context);
/* Return whether rule_trains_all holds but PEFT is installed, so that it may be wrong. */
bool rule_may_use_adapters(const struct rule_context *context);
/* Return whether DeepSpeed or FSDP trains the model: by a key, a flag of the command, or
 * a variable of Accelerate. */
bool rule_uses_deepspeed(const struct rule_context *context);
bool rule_uses_fsdp(const struct rule_context *context);
/* Return whether DeepSpeed or FSDP steps float32 copies of the weights. */
bool rule_has_float32_masters(const struct rule_context *context);
/* rule_trains_float16 for an external job, where versions and the launcher count. */
bool rule_external_trains_float16(const struct rule_context *context);
/* Return whether optim is PyTorch's fused AdamW, as written or by default. */
bool rule_uses_fused_adamw(const struct rule_context *context);
/* Return whether a fused AdamW would step float16 weights without an error: TS408 reports
 * that instead of TS105. */
bool rule_fused_adamw_float16(const struct rule_context *context);
/* Return the precision that `accelerate launch --mixed_precision` or
 * ACCELERATE_MIXED_PRECISION sets, and its entry of trainspool in *where; NULL:
 * neither. */
const char *rule_launcher_precision(const struct rule_context *context,
                                    const struct entry **where);
/* Return whether PEFT's autocast_adapter_dtype is left on. */
bool rule_casts_adapters(const struct rule_context *context);
/* Return whether the frozen weights are quantized, also by a map for transformers. */
bool rule_has_quantized_weights(const struct rule_context *context);
/* Return whether TRL casts what it trains next to quantized weights to bfloat16. */
bool rule_casts_quantized(const struct rule_context *context);
/* Return whether model_dtype is also the compute format of quantized weights. */
bool rule_dtype_computes(const struct rule_context *context);
/* Return whether fp16: true alone leads to a run that the loss scaler does not stop. */
bool rule_takes_fp16(const struct rule_context *context);
/* The same, also where unknown versions or files decide. */
bool rule_surely_takes_fp16(const struct rule_context *context);
/* Return whether model_dtype is left to transformers, and its version decides: TS107. */
bool rule_version_loads(const struct rule_context *context);
/* Return whether policy noscaler takes the scaler away by an edit of fp16 (TS126); one
 * that the launcher asks for stays. */
bool rule_removes_scaler(const struct rule_context *context);
/* Return the entry of an environment variable that trainspool.env sets, or NULL. */
const struct entry *rule_env_variable(const struct rule_context *context,
                                      const char *name);

/* Return whether Slurm runs the job, on other machines than this one. */
bool rule_is_submitted(const struct rule_context *context);

/* Findings. */

struct proposal rule_proposal(const struct rule_context *context);
/* Return a number for findings whose edits belong together. */
int rule_group(const struct rule_context *context);
/* Propose `key: value`, whether or not the key has a line; a new line goes after the
 * line of the key `after`, which may be NULL or absent. */
struct finding *rule_propose(struct rule_context *context, const struct finding *base,
                             const char *key, const char *value, const char *after);
/* Report a finding without an edit, at the key's value; key may be NULL. */
struct finding *rule_report(struct rule_context *context, const struct finding *base,
                            const char *key);
/* Return text of the job without control characters, fit to be shown. */
const char *rule_printable(const struct rule_context *context, const char *text);
/* Return an error as a sentence, with its position if that is in another file. */
const char *rule_error_text(const struct rule_context *context, const struct error *err);

#endif
