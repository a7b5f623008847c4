/* patcher/rules/rules_keys.c - keys that the key table of an external job's program lacks at
 * the version of the job. */
#include "config.h"

#include "patcher/rules/rules_context.h"
#include "patcher/rules/trainer_file.h"

#include <string.h>
#include <strings.h>

#include "base/nearest.h"
#include "base/size.h"
#include "patcher/profiles/trainer_view.h"
#include "patcher/schema/schema.h"

#define KEYS_MAX 100 /* unknown keys to report */

/* ---- What the program does with an unknown key ---- */

/* Options of `accelerate launch` (accelerate 1.4 to 1.15, commands/launch.py), which receives
 * the keys that `trl sft` does not use, and the option that the trl command adds (TRL 0.19 to
 * 1.16, cli.py). */
/* clang-format off */
static const char *const launch_options[] = {
    "accelerate_config", "aws_access_key_id", "aws_secret_access_key", "config_file",
    "cpu", "debug", "deepspeed_config_file", "deepspeed_exclusion_filter",
    "deepspeed_hostfile", "deepspeed_inclusion_filter", "deepspeed_moe_layer_cls_names",
    "deepspeed_multinode_launcher", "downcast_bf16", "dynamo_backend", "dynamo_mode",
    "dynamo_use_dynamic", "dynamo_use_fullgraph", "dynamo_use_regional_compilation",
    "enable_cpu_affinity", "fp8_amax_compute_algo", "fp8_amax_history_len",
    "fp8_backend", "fp8_enable_fsdp_float8_all_gather", "fp8_format", "fp8_interval",
    "fp8_margin", "fp8_opt_level", "fp8_override_linear_precision", "fp8_pad_inner_dim",
    "fp8_use_autocast_during_eval", "fsdp_activation_checkpointing",
    "fsdp_activation_checkpointing_offload", "fsdp_auto_wrap_policy",
    "fsdp_backward_prefetch", "fsdp_cpu_ram_efficient_loading", "fsdp_forward_prefetch",
    "fsdp_min_num_params", "fsdp_offload_params", "fsdp_reshard_after_forward",
    "fsdp_sharding_strategy", "fsdp_state_dict_type", "fsdp_sync_module_states",
    "fsdp_transformer_layer_cls_to_wrap", "fsdp_use_orig_params", "fsdp_version",
    "gpu_ids", "gradient_accumulation_steps", "gradient_clipping", "ipex", "log_dir",
    "machine_rank", "main_process_ip", "main_process_port", "main_training_function",
    "max_restarts", "megatron_lm_attention_backend", "megatron_lm_attention_dropout",
    "megatron_lm_attention_softmax_in_fp32", "megatron_lm_calculate_per_token_loss",
    "megatron_lm_context_parallel_size", "megatron_lm_decoder_last_pipeline_num_layers",
    "megatron_lm_eod_mask_loss", "megatron_lm_expert_model_parallel_size",
    "megatron_lm_expert_tensor_parallel_size", "megatron_lm_gradient_clipping",
    "megatron_lm_hidden_dropout", "megatron_lm_no_load_optim",
    "megatron_lm_no_save_optim", "megatron_lm_num_micro_batches",
    "megatron_lm_optimizer_cpu_offload", "megatron_lm_overlap_cpu_optimizer_d2h_h2d",
    "megatron_lm_pp_degree", "megatron_lm_recompute_activations",
    "megatron_lm_recompute_granularity", "megatron_lm_recompute_method",
    "megatron_lm_recompute_num_layers", "megatron_lm_sequence_parallelism",
    "megatron_lm_tp_degree", "megatron_lm_use_custom_fsdp",
    "megatron_lm_use_distributed_optimizer",
    "megatron_lm_use_precision_aware_optimizer",
    "megatron_lm_use_rotary_position_embeddings", "mixed_precision", "module",
    "monitor_interval", "mpirun_ccl", "mpirun_hostfile", "multi_gpu", "no_python",
    "no_tpu_cluster", "num_cpu_threads_per_process", "num_machines", "num_processes",
    "offload_optimizer_device", "offload_optimizer_nvme_path", "offload_param_device",
    "offload_param_nvme_path", "parallelism_config_cp_backend",
    "parallelism_config_cp_comm_strategy", "parallelism_config_cp_size",
    "parallelism_config_dp_replicate_size", "parallelism_config_dp_shard_size",
    "parallelism_config_sp_attn_implementation", "parallelism_config_sp_backend",
    "parallelism_config_sp_seq_length", "parallelism_config_sp_seq_length_is_variable",
    "parallelism_config_sp_size", "parallelism_config_tp_size", "quiet", "rdzv_backend",
    "rdzv_conf", "role", "same_network", "tee", "tp_size", "tpu", "tpu_cluster",
    "tpu_use_sudo", "use_deepspeed", "use_fsdp", "use_megatron_lm",
    "use_parallelism_config", "use_tp", "use_xpu", "vm", "zero3_init_flag",
    "zero3_save_16bit_model", "zero_stage",
};
/* clang-format on */

static bool is_launch_option(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(launch_options); i++)
        if (strcmp(launch_options[i], name) == 0)
            return true;
    return false;
}

/* The program that reads a TRL file. */
enum trl_reader {
    TRL_COMMAND, /* `trl sft`, also if no command is given */
    TRL_MODULE,  /* TRL's own script, without the trl command */
    TRL_SCRIPT   /* another script, with arguments of its own */
};

static enum trl_reader trl_reader(const struct rule_context *context)
{
    struct trainer_words words;
    enum trl_reader reader = TRL_SCRIPT;
    const char *word;

    trainer_words_init(context->document, &words);
    if (!words.command)
        return TRL_COMMAND;
    while ((word = trainer_next_word(&words))) {
        if (strcmp(word, "trl") == 0 || text_ends(word, "/trl"))
            return TRL_COMMAND;
        if (text_starts(word, "trl.") || strstr(word, "trl/scripts/"))
            reader = TRL_MODULE;
    }
    return reader;
}

/* Only `trl sft` passed unknown keys to the launcher before 0.29; the other commands
 * dropped them (trl/cli.py). */
static bool drops_keys(const struct rule_context *context)
{
    return rule_version_below(context, PACKAGE_TRL, "0.29") &&
           !(context->view->programs & 1); /* sft is the first program of the table */
}

static bool is_on(const struct rule_context *context, const char *variable)
{
    const struct entry *entry = rule_env_variable(context, variable);
    const char *value = entry ? node_value(entry->value)->text : "";

    /* extras/misc.py, is_env_enabled */
    return strcasecmp(value, "true") == 0 || strcasecmp(value, "y") == 0 ||
           strcmp(value, "1") == 0;
}

/* The consequence of an unknown key. */
struct reaction {
    enum severity severity;
    const char *note;
};

static struct reaction trl_reaction(const struct rule_context *context)
{
    enum trl_reader reader = trl_reader(context);

    if (reader == TRL_SCRIPT)
        return (struct reaction) {
            SEVERITY_WARNING, "valid only if the script defines it; otherwise "
                              "TrlParser stops: Unknown arguments from config file"
        };
    if (reader == TRL_MODULE || drops_keys(context))
        return (struct reaction) { SEVERITY_WARNING,
                                   "the script silently ignores the key" };
    return (struct reaction) { SEVERITY_ERROR,
                               "trl passes the key to accelerate launch, which stops: "
                               "unrecognized arguments" };
}

/* Return the table that ends before the job's version of its package, or NULL. */
static const struct profile *outdated_table(const struct rule_context *context)
{
    const enum trainer trainers[] = { context->view->trainer,
                                      profile_at(context->view->trainer)->base };

    for (size_t i = 0; i < TS_COUNT(trainers) && trainers[i] != TRAINERS; i++) {
        const struct profile *profile = profile_at(trainers[i]);

        if (profile->package != PACKAGES &&
            versions_know(context->versions, profile->package) &&
            profile_is_newer(trainers[i],
                             &context->versions->packages[profile->package].version))
            return profile;
    }
    return NULL;
}

/* unsloth_cli/config.py of 2026.8.22 has no extra="forbid"; that of 2026.9.14 has. */
static bool has_open_models(const struct rule_context *context)
{
    return context->view->trainer == TRAINER_UNSLOTH &&
           rule_version_below(context, PACKAGE_UNSLOTH, "2026.9.0.dev0");
}

static struct reaction reaction_of(const struct rule_context *context)
{
    const struct profile *profile = profile_at(context->view->trainer),
                         *outdated = outdated_table(context);

    if (outdated)
        return (struct reaction) {
            SEVERITY_WARNING,
            arena_printf(context->arena,
                         "a later %s may have the key: the key table ends at %s",
                         outdated->title,
                         outdated->table->versions[outdated->table->version_count - 1])
        };
    if (context->view->trainer == TRAINER_TRL)
        return trl_reaction(context);
    if (profile->parser == PARSER_DROPS || has_open_models(context))
        return (struct reaction) {
            SEVERITY_WARNING,
            arena_printf(context->arena, "%s silently ignores the key", profile->title)
        };
    if (context->view->trainer == TRAINER_LLAMAFACTORY &&
        is_on(context, "ALLOW_EXTRA_ARGS") &&
        !rule_version_below(context, PACKAGE_LLAMAFACTORY, "0.9.2"))
        return (struct reaction) { SEVERITY_WARNING,
                                   "ALLOW_EXTRA_ARGS is set, so LLaMA-Factory ignores "
                                   "the key" };
    return (struct reaction) { SEVERITY_ERROR,
                               arena_printf(context->arena, "%s stops: %s",
                                            profile->title, profile->refusal) };
}

/* ---- The name of the key in the program ---- */

/* Return our key with the same meaning; the schema has the names of other tools and older
 * names. */
static const char *meaning_of(const struct key *row)
{
    return row->now ? row->now : row->name;
}

/* Names whose meaning differs between programs, so the schema has no alias for them. */
static const struct own_name {
    enum trainer trainer;
    const char *meaning, *name;
} own_names[] = {
    { TRAINER_LLAMAFACTORY, "max_source_length", "cutoff_len" },
    { TRAINER_TRL, "dataset", "dataset_name" },
    { TRAINER_TRL, "cutoff_len", "max_length" },
    { TRAINER_TRL, "max_source_length", "max_length" },
    { TRAINER_TRL, "train_on_prompt", "completion_only_loss" },
    { TRAINER_TRL, "pref_beta", "beta" },
    { TRAINER_TRL, "model_dtype", "dtype" },
    { TRAINER_TRL, "model_dtype", "torch_dtype" },
};

/* Return the program's name for a key, or NULL.  *instead is true if the value does not carry
 * over. */
static const char *find_name(const struct rule_context *context, const struct key *row,
                             bool *instead)
{
    const struct profile_view *view = context->view;
    const char *meaning = meaning_of(row);
    const struct key *other;

    *instead = row->instead != NULL;
    for (size_t i = 0; i < TS_COUNT(own_names); i++)
        if (own_names[i].trainer == view->trainer &&
            strcmp(own_names[i].meaning, meaning) == 0 &&
            profile_find(view, own_names[i].name))
            return own_names[i].name;
    if (strcmp(meaning, row->name) != 0 && profile_find(view, meaning))
        return meaning;
    for (size_t i = 0; (other = schema_at(&schema_job, i)); i++)
        if (other != row && strcmp(meaning_of(other), meaning) == 0 &&
            profile_find(view, other->name)) {
            *instead |= other->instead != NULL;
            return other->name;
        }
    return NULL;
}

/* "precision" of "trainer.precision". */
static const char *name_of(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

static bool is_same_block(const char *a, const char *b)
{
    size_t len = (size_t)(name_of(a) - a);

    return len == (size_t)(name_of(b) - b) && strncmp(a, b, len) == 0;
}

/* Return the nearest key of the program; *exact: it differs only in case, blanks and
 * separators. */
static const char *find_nearest(const struct rule_context *context, const char *name,
                                bool *exact)
{
    const struct profile_key *key;
    const char *near = NULL;
    size_t least = 3;

    *exact = false;
    if (strlen(name_of(name)) < 4)
        return NULL;
    for (size_t i = 0; (key = profile_key_at(context->view, i)); i++) {
        size_t distance = nearest_distance(name, key->name, 2);

        if (nearest_is_same_name(name, key->name)) {
            *exact = true;
            return key->name;
        }
        if (distance < least && strlen(name_of(key->name)) > 4 &&
            is_same_block(name, key->name)) {
            least = distance;
            near = key->name;
        }
    }
    return near;
}

/* ---- The report ---- */

/* "TRL 0.24.0", "TRL" if the version is unknown. */
static const char *program_text(const struct rule_context *context)
{
    const struct profile *profile = profile_at(context->view->trainer);
    const struct package_version *known =
        profile->package < PACKAGES ? &context->versions->packages[profile->package]
                                    : NULL;

    return known && (known->given || known->found)
               ? arena_printf(context->arena, "%s %s", profile->title,
                              known->given ? known->given : known->found)
               : profile->title;
}

/* Return ": 0.19.1 was the last version with it", " yet: 0.26 added it", or "". */
static const char *history_text(const struct rule_context *context, const char *name)
{
    const char *own = package_names[profile_at(context->view->trainer)->package];
    struct profile_view any = *context->view;
    struct profile_history history;
    const char *package;

    any.programs = UINT32_MAX;
    if (!profile_history(&any, name, &history))
        return profile_find(&any, name) ? ": only other commands have it" : "";
    package = strcmp(history.package, own) == 0
                  ? ""
                  : arena_printf(context->arena, "%s ", history.package);
    return history.until
               ? arena_printf(context->arena, ": %s%s was the last version with it",
                              package, history.until)
               : arena_printf(context->arena, " yet: %s%s added it", package,
                              history.since);
}

/* Return whether a rule about renamed, removed or newer keys, or TS005, has reported the
 * key. */
static bool is_reported(const struct rule_context *context, const struct entry *entry)
{
    for (size_t i = 0; i < context->findings->count; i++) {
        const struct finding *finding = &context->findings->list[i];

        if ((finding->at.byte == entry->key->at.byte ||
             finding->at.byte == node_value(entry->value)->at.byte) &&
            (text_starts(finding->rule, "TS60") || strcmp(finding->rule, "TS807") == 0 ||
             (profile_at(context->view->trainer)->rules &&
              strcmp(finding->rule, "TS812") == 0) ||
             strcmp(finding->rule, "TS005") == 0))
            return true;
    }
    return false;
}

static void report_misspelled(struct rule_context *context, const struct entry *entry,
                              const char *path)
{
    const struct proposal to = rule_proposal(context);
    const struct reaction reaction = reaction_of(context);
    const char *name = rule_printable(context, path), *near;
    struct finding finding = { .severity = reaction.severity,
                               .because = program_text(context),
                               .note = reaction.note };
    bool exact, taken;

    near = find_nearest(context, path, &exact);
    taken = near && trainer_file_entry(context, near);
    finding.rule = !near ? "TS703" : exact ? "TS701" : "TS702";
    finding.message =
        exact  ? arena_printf(context->arena, "%s must be spelled %s%s", name, near,
                             taken ? ", which is also given" : "")
        : near ? arena_printf(context->arena, "%s is not a key of %s; did you mean %s%s?",
                              name, program_text(context), near,
                              taken ? ", which is also given" : "")
               : arena_printf(context->arena, "%s is not a key of %s", name,
                              program_text(context));
    finding.apply = exact ? APPLY_SAFE : APPLY_UNSAFE;
    if (near && !taken)
        propose_name(&to, &finding, entry, name_of(near));
    else
        propose_key_remark(&to, &finding, entry);
}

static void report_unknown(struct rule_context *context, const struct entry *entry,
                           const struct key *row)
{
    const struct proposal to = rule_proposal(context);
    const struct reaction reaction = reaction_of(context);
    bool instead;
    const char *name = find_name(context, row, &instead);
    bool taken = name && document_find(context->document, name);
    struct finding finding = {
        .rule = "TS813",
        .severity = reaction.severity,
        .apply = APPLY_UNSAFE,
        .because =
            rule_version_text(context, profile_at(context->view->trainer)->package),
        .note = reaction.note,
    };

    finding.message =
        arena_printf(context->arena, "%s is not a key of %s%s%s%s%s", row->name,
                     program_text(context), history_text(context, row->name),
                     name ? instead ? "; the nearest key is " : "; use " : "",
                     name ? name : "", taken ? ", which is also given" : "");
    if (name && !taken && !instead)
        propose_name(&to, &finding, entry, name);
    else
        propose_key_remark(&to, &finding, entry);
}

/* Return whether a value of the file refers to the key, as ${output_dir} does: OmegaConf
 * then reads it, whether or not the recipe does. */
static bool is_referenced(const struct rule_context *context, const char *name)
{
    const struct document *document = context->document;
    const char *text = arena_printf(context->arena, "${%s", name);
    size_t len = strlen(text);

    for (const char *at = document->data; (at = strstr(at, text)); at += len)
        if (at[len] == '}' || at[len] == '.')
            return true;
    return false;
}

/* Return whether the rule has nothing to say about a key that the table lacks. */
static bool is_excused(const struct rule_context *context, const struct node *map,
                       const struct entry *entry)
{
    const char *name = entry->key->text;
    bool nested = map != context->document->root;

    return strcmp(name, "<<") == 0 || node_find(map, name) != entry ||
           (!nested && strcmp(name, "trainspool") == 0) || is_reported(context, entry) ||
           (context->view->trainer == TRAINER_TRL && is_launch_option(name) &&
            trl_reader(context) == TRL_COMMAND) ||
           (context->view->trainer == TRAINER_TORCHTUNE && is_referenced(context, name));
}

/* In an open block, report names that differ little from a key of the program.  path: the
 * block with its dot, "trainer."; "" is the file. */
static void check_keys(struct rule_context *context, const struct node *map,
                       const char *path, size_t *reported)
{
    const char *open = profile_at(context->view->trainer)->open;

    for (size_t i = 0; i < map->count && *reported < KEYS_MAX; i++) {
        const struct entry *entry = &map->entries[i];
        const struct key *row;
        const char *name;
        bool is_open, exact;

        if (entry->key->kind != NODE_SCALAR)
            continue;
        name = arena_printf(context->arena, "%s%s", path, entry->key->text);
        if (profile_find(context->view, name))
            continue;
        if (profile_has_block(context->view, name)) {
            if (node_value(entry->value)->kind == NODE_MAP)
                check_keys(context, node_value(entry->value),
                           arena_printf(context->arena, "%s.", name), reported);
            continue;
        }
        if (is_excused(context, map, entry))
            continue;
        is_open = open && strcmp(open, path) == 0;
        if (is_open && !find_nearest(context, name, &exact))
            continue;
        ++*reported;
        row = *path || is_open ? NULL : schema_find(name);
        if (row)
            report_unknown(context, entry, row);
        else
            report_misspelled(context, entry, name);
    }
}

static void rule_unknown_keys(struct rule_context *context)
{
    size_t reported = 0;

    if (!profile_is_closed(context->view) || context->document->script ||
        (rule_is_llamafactory(context) && is_on(context, "USE_MCA")))
        return; /* USE_MCA adds the arguments of Megatron's adapter */
    check_keys(context, context->document->root, "", &reported);
}

static const struct rule rows[] = {
    { .id = "TS813",
      .title = "unknown key of another program",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_UNSAFE,
      .target = RULE_EXTERNAL,
      .run = rule_unknown_keys,
      .explain =
          "trainspool accepts many names for one setting; another program accepts only its "
          "own names. trainspool has a table of all keys for each version of LLaMA-Factory "
          "(from 0.9.0), transformers (from 4.37), TRL (from 0.19), Axolotl (from 0.5.2), "
          "torchtune, Lightning (from 2.0) and Unsloth (from 2026.3). This rule reports a "
          "key that the job's version lacks, and the key to use. `--unsafe` renames it if "
          "the value carries over.\n\n"
          "LLaMA-Factory stops at an unknown key unless ALLOW_EXTRA_ARGS=1 is set (0.9.2 "
          "and later), which makes this a warning. `trl sft`, and every trl command since "
          "0.29, passes unknown keys to `accelerate launch`, which stops; before 0.29 the "
          "other commands ignored them silently, as TRL's scripts do if they are started "
          "directly. Axolotl also ignores unknown keys; Unsloth and Lightning's Trainer "
          "stop. torchtune recipes and Lightning projects may define their own keys, so "
          "only misspelled names are reported there. If the version is later than the "
          "table, the finding is a warning: the key may be new. TS701 or TS702 reports a "
          "misspelled key, and TS703 one that no program has.",
      .source = "LLaMA-Factory hparams/parser.py, 0.9.0 to 0.9.5; transformers "
                "hf_argparser.py; TRL cli.py and scripts/utils.py, 0.19 to 1.16; Axolotl "
                "utils/config 0.5.2 to 0.21.0; recipes/ of torchtune 0.1 to 0.6.1; "
                "Lightning 2.0 to 2.6; unsloth_cli/config.py" },
};

const struct rules rules_keys = { rows, TS_COUNT(rows) };
