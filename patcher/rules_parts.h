/* patcher/rules_parts.h - what the rules_*.c files share: the rules and how they look and
 * tell. */
#ifndef PATCHER_RULES_PARTS_H
#define PATCHER_RULES_PARTS_H

#include "patcher/findings/propose.h"
#include "patcher/rules.h"

/* The families, catalogue_NAME.c each; rules.c has their order. */
extern const struct rules catalogue_text;
extern const struct rules catalogue_precision;
extern const struct rules catalogue_device;
extern const struct rules catalogue_memory;
extern const struct rules catalogue_optimizer;
extern const struct rules catalogue_saving;
extern const struct rules catalogue_renames;
extern const struct rules catalogue_names;
extern const struct rules catalogue_versions;
extern const struct rules catalogue_distill;

/* One a row of the catalogue, by number.  The others are found by analysis.c
 * (the text), patcher.c (the file) and schema_check.c (names and values). */
void rule_exponents(struct rule_context *context);          /* TS013 */
void rule_both_halves(struct rule_context *context);        /* TS101 */
void rule_no_bf16(struct rule_context *context);            /* TS102 */
void rule_bf16_model(struct rule_context *context);         /* TS103 */
void rule_fp16_on_ampere(struct rule_context *context);     /* TS104 */
void rule_fp16_trainables(struct rule_context *context);    /* TS105 */
void rule_fp16_base(struct rule_context *context);          /* TS106 */
void rule_dtype_auto(struct rule_context *context);         /* TS107 */
void rule_no_scaler(struct rule_context *context);          /* TS108 */
void rule_trouble_in_half(struct rule_context *context);    /* TS109 */
void rule_pure_bf16(struct rule_context *context);          /* TS110 */
void rule_pure_and_half(struct rule_context *context);      /* TS111 */
void rule_idle_scale(struct rule_context *context);         /* TS112 */
void rule_scale_off(struct rule_context *context);          /* TS113 */
void rule_fp16_on_cpu(struct rule_context *context);        /* TS114 */
void rule_no_tf32(struct rule_context *context);            /* TS115 */
void rule_no_fp8(struct rule_context *context);             /* TS116 */
void rule_auto(struct rule_context *context);               /* TS117 */
void rule_only_fp32(struct rule_context *context);          /* TS118 */
void rule_4bit_dtype(struct rule_context *context);         /* TS120 */
void rule_both_evals(struct rule_context *context);         /* TS121 */
void rule_epsilon(struct rule_context *context);            /* TS122 */
void rule_quantised_norms(struct rule_context *context);    /* TS123 */
void rule_quantised_here(struct rule_context *context);     /* TS707 */
void rule_policy_fp32(struct rule_context *context);        /* TS125 */
void rule_policy_noscaler(struct rule_context *context);    /* TS126 */
void rule_no_code(struct rule_context *context);            /* TS201 */
void rule_no_tensor_cores(struct rule_context *context);    /* TS202 */
void rule_slow_fp16(struct rule_context *context);          /* TS203 */
void rule_p100(struct rule_context *context);               /* TS204 */
void rule_flash_attention(struct rule_context *context);    /* TS205 */
void rule_device_map(struct rule_context *context);         /* TS206 */
void rule_ranks(struct rule_context *context);              /* TS207 */
void rule_no_device(struct rule_context *context);          /* TS208 */
void rule_unequal(struct rule_context *context);            /* TS209 */
void rule_taken(struct rule_context *context);              /* TS210 */
void rule_memory(struct rule_context *context);             /* TS301, TS302 */
void rule_checkpointing(struct rule_context *context);      /* TS303 */
void rule_idle_checkpointing(struct rule_context *context); /* TS304 */
void rule_find_batch(struct rule_context *context);         /* TS305 */
void rule_eval_batch(struct rule_context *context);         /* TS306 */
void rule_optimizer(struct rule_context *context);          /* TS307 */
void rule_positions(struct rule_context *context);          /* TS308 */
void rule_batch_loss(struct rule_context *context);         /* TS310 */
void rule_offloading(struct rule_context *context);         /* TS311 */
void rule_disk(struct rule_context *context);               /* TS313 */
void rule_host_memory(struct rule_context *context);        /* TS314 */
void rule_null_clip(struct rule_context *context);          /* TS401 */
void rule_no_clip(struct rule_context *context);            /* TS402 */
void rule_negative_clip(struct rule_context *context);      /* TS403 */
void rule_policy_noclip(struct rule_context *context);      /* TS404 */
void rule_trouble_before(struct rule_context *context);     /* TS405 */
void rule_far_rate(struct rule_context *context);           /* TS406 */
void rule_warmup(struct rule_context *context);             /* TS407 */
void rule_rates(struct rule_context *context);              /* TS410 */
void rule_in_backward(struct rule_context *context);        /* TS411 */
void rule_guard_off(struct rule_context *context);          /* TS412 */
void rule_model_there(struct rule_context *context);        /* TS501 */
void rule_checkpoints_there(struct rule_context *context);  /* TS502 */
void rule_resume_differs(struct rule_context *context);     /* TS503 */
void rule_resume_scale(struct rule_context *context);       /* TS504 */
void rule_model_only(struct rule_context *context);         /* TS505 */
void rule_best(struct rule_context *context);               /* TS506 */
void rule_eval_data(struct rule_context *context);          /* TS507 */
void rule_streaming(struct rule_context *context);          /* TS508 */
void rule_metric(struct rule_context *context);             /* TS514 */
void rule_two_ends(struct rule_context *context);           /* TS509 */
void rule_steps(struct rule_context *context);              /* TS511, TS705 */
void rule_resume_nothing(struct rule_context *context);     /* TS513 */
void rule_renamed(struct rule_context *context);         /* TS601, TS602, TS604, TS609 */
void rule_warmup_ratio(struct rule_context *context);    /* TS603 */
void rule_overwrite(struct rule_context *context);       /* TS605 */
void rule_gone(struct rule_context *context);            /* TS606, TS609, TS610 */
void rule_torch_dtype(struct rule_context *context);     /* TS607 */
void rule_group_by_length(struct rule_context *context); /* TS608 */
void rule_script(struct rule_context *context);          /* TS613 */
void rule_words(struct rule_context *context);           /* TS705 */
void rule_not_here(struct rule_context *context);        /* TS707 */
void rule_paths(struct rule_context *context);           /* TS710 */
void rule_trackers(struct rule_context *context);        /* TS711 */
void rule_idle_method(struct rule_context *context);     /* TS712 */
void rule_missing(struct rule_context *context);         /* TS713 */
void rule_shares(struct rule_context *context);          /* TS715 */
void rule_model_unknown(struct rule_context *context);   /* TS716 */
void rule_versions(struct rule_context *context);        /* TS702-704, TS713, TS809 */
/* Of external jobs. */
void rule_texts(struct rule_context *context);              /* TS012 */
void rule_hidden_precision(struct rule_context *context);   /* TS124 */
void rule_mean_of_means(struct rule_context *context);      /* TS309 */
void rule_no_input_gradients(struct rule_context *context); /* TS312 */
void rule_fused_adam(struct rule_context *context);         /* TS408 */
void rule_skipped_schedule(struct rule_context *context);   /* TS409 */
void rule_filtered_log(struct rule_context *context);       /* TS510 */
void rule_half_resume(struct rule_context *context);        /* TS512 */
void rule_half_adapters(struct rule_context *context);      /* TS801 */
void rule_permissive_probe(struct rule_context *context);   /* TS802 */
void rule_blamed_versions(struct rule_context *context);    /* TS803 */
void rule_device_map_blamed(struct rule_context *context);  /* TS804 */
void rule_launch(struct rule_context *context);             /* TS805 */
void rule_fsdp_half(struct rule_context *context);          /* TS806 */
void rule_young_key(struct rule_context *context);          /* TS807 */
void rule_pairs(struct rule_context *context);              /* TS808 */
void rule_no_versions(struct rule_context *context);        /* TS810 */
void rule_unread_keys(struct rule_context *context);        /* TS811 */
void rule_teacher_missing(struct rule_context *context);    /* TS901 */
void rule_half_student(struct rule_context *context);       /* TS902 */
void rule_half_teacher(struct rule_context *context);       /* TS903 */
void rule_kd_numbers(struct rule_context *context);         /* TS904 */
void rule_vocabularies(struct rule_context *context);       /* TS905 */
void rule_teacher_dropout(struct rule_context *context);    /* TS906 */
void rule_preference_here(struct rule_context *context);    /* TS707 */
void rule_reference(struct rule_context *context);          /* TS907 */
void rule_other_loss(struct rule_context *context);         /* TS908 */
void rule_strangers(struct rule_context *context);          /* TS909 */

/* ---- Looking ---- */

/* The row of a key, under this name or an alias; NULL if it is not there or null. */
const struct entry *rule_entry(const struct rule_context *context, const char *key);
/* The same where null counts as there: a line that a value can be put into. */
const struct entry *rule_line(const struct rule_context *context, const char *key);
/* A key that is there and says true. */
bool rule_is_true(const struct rule_context *context, const char *key);
/* A key that is there and says a number. */
bool rule_number(const struct rule_context *context, const char *key, double *value);
/* The row of a key of the block `trainspool:`; NULL. */
const struct entry *rule_block_entry(const struct rule_context *context, const char *key);
/* Did the previous run, with the same formats, show that a float16 model cannot be
 * computed in fp16: TS109? */
bool rule_half_went_wrong(const struct rule_context *context);
/* Is anything evaluated?  *key is what asks for it. */
bool rule_evaluates(const struct rule_context *context, const char **key);
/* Does the loss of a sample depend on the others of its micro batch (KTO)?  Then batch
 * and accumulation cannot be traded for each other.  *key says so. */
bool rule_loss_of_batch(const struct rule_context *context, const char **key);
/* A GPU, known. */
bool rule_on_gpu(const struct rule_context *context);
/* 10 * major + minor of a known GPU; 0. */
int rule_capability(const struct rule_context *context);
/* A GPU that is known, and has no bf16. */
bool rule_lacks_bf16(const struct rule_context *context);
/* A GPU that is known, with tensor cores for fp16. */
bool rule_has_tensor_cores(const struct rule_context *context);
/* Trained in bfloat16, by its files or by a name known for it: activations may pass what
 * float16 holds. */
bool rule_is_bf16_model(const struct rule_context *context);
/* The files of the model have its weights in 4 bits. */
bool rule_has_4_bits(const struct rule_context *context);
/* Frozen weights in 8 bits or less. */
bool rule_is_quantised(const struct rule_context *context);
/* The CPU: the only device, or asked for. */
bool rule_on_cpu(const struct rule_context *context);
bool rule_is_policy(const struct rule_context *context, enum policy policy);
/* full or freeze, and the weights that are trained would come as float16 from the text's
 * model_dtype or, where that is auto or absent, from the checkpoint. */
bool rule_half_trainables(const struct rule_context *context);
/* fp16: true, or one of the two auto where that becomes fp16 on the device. */
bool rule_wants_fp16(const struct rule_context *context);
/* fp16 is what will run, after the rules of the device. */
bool rule_ends_in_fp16(const struct rule_context *context);
/* "TITAN RTX, compute capability 7.5"; NULL where nothing is known of the device. */
const char *rule_device(const struct rule_context *context);
/*
 * Packages of an external job (rules_versions.c).  A bound is written as PEP 440 has it;
 * `5.0.0.dev0` lets release candidates of 5 in.  Where the version is not known both
 * answer false: a rule that asks stays silent.
 */
bool rule_version_from(const struct rule_context *context, enum package package,
                       const char *least);
bool rule_version_below(const struct rule_context *context, enum package package,
                        const char *bound);
/* "transformers 5.1 (trainspool.versions)"; NULL where it is not known. */
const char *rule_version(const struct rule_context *context, enum package package);
/* LLaMA-Factory, by its version or the command; or by keys that only it has, where there
 * is no command.  What it trains it makes float32. */
bool rule_names_llamafactory(const struct rule_context *context);
bool rule_is_llamafactory(const struct rule_context *context);
/* A script of Hugging Face's Trainer whose job has no key of adapters: it is taken to
 * train all weights. */
bool rule_takes_all(const struct rule_context *context);
/* And PEFT is among its packages, so that may be wrong. */
bool rule_may_adapt(const struct rule_context *context);
/* Given, and neither off nor at its default. */
bool rule_is_on(const struct rule_context *context, const char *key);
/* rule_half_trainables of an external job, where the versions and the launcher count. */
bool rule_half_external(const struct rule_context *context);
/* optim is torch's fused AdamW, as written or by the versions' default. */
bool rule_is_fused(const struct rule_context *context);
/* Nothing would raise and Adam would step in float16: TS408 tells, and not TS105. */
bool rule_fused_half(const struct rule_context *context);
/* What `accelerate launch --mixed_precision` or ACCELERATE_MIXED_PRECISION says, and the
 * line of trainspool that it stands in; NULL: nothing. */
const char *rule_launcher_precision(const struct rule_context *context,
                                    const struct entry **where);
/* autocast_adapter_dtype is not switched off. */
bool rule_casts_adapters(const struct rule_context *context);
/* A variable of the environment that trainspool.env gives the script; or NULL. */
const struct entry *rule_variable(const struct rule_context *context, const char *name);

/* ---- Telling ---- */

struct proposal rule_proposal(const struct rule_context *context);
/* A number for findings whose edits belong together. */
int rule_group(const struct rule_context *context);
/* `key: value`, whether the line is there or not; a new one goes behind the line of
 * `behind` (a key; may be NULL or absent). */
struct finding *rule_set(struct rule_context *context, const struct finding *base,
                         const char *key, const char *value, const char *behind);
/* A text of the job as a person may see it, without control characters. */
const char *rule_visible(const struct rule_context *context, const char *text);
/* An error as a sentence, with its place where that is in another file. */
const char *rule_said(const struct rule_context *context, const struct error *err);
/* Without an edit, at the key's value. */
struct finding *rule_tell(struct rule_context *context, const struct finding *base,
                          const char *key);

#endif
