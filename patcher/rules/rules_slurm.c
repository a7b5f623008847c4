/*
 * patcher/rules/rules_slurm.c - TS211 and TS726 to TS729: jobs that Slurm runs, and the
 * machines among which ranks are distributed.
 */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <stddef.h>

#include "base/size.h"
#include "patcher/schema/slurm_values.h"

static bool is_time(const char *text)
{
    return slurm_is_time(text, NULL);
}

static bool is_gres(const char *text)
{
    struct slurm_gpus gpus;

    return slurm_read_gres(text, &gpus);
}

/* The keys that only backend: slurm uses. */
static const struct slurm_key {
    const char *name;
    size_t field; /* of struct plan_slurm; a text, if there is a check */
    bool (*is_valid)(const char *text);
    const char *expected;
} slurm_keys[] = {
    { "partition", offsetof(struct plan_slurm, partition), slurm_is_name,
      "the name of a partition" },
    { "account", offsetof(struct plan_slurm, account), slurm_is_name,
      "the name of an account" },
    { "qos", offsetof(struct plan_slurm, qos), slurm_is_name,
      "the name of a quality of service" },
    { "reservation", offsetof(struct plan_slurm, reservation), slurm_is_name,
      "the name of a reservation" },
    { "constraint", offsetof(struct plan_slurm, constraint), slurm_is_constraint,
      "features of nodes such as a100&nvlink or a100|h100" },
    { "gres", offsetof(struct plan_slurm, gres), is_gres,
      "resources such as gpu:2, gpu:a100:4 or gpu:a100:4,shard:1" },
    { "time", offsetof(struct plan_slurm, time), is_time,
      "a time of Slurm such as 90 (minutes), 12:00:00 or 2-12" },
    { "mem", offsetof(struct plan_slurm, mem), slurm_is_size,
      "a size such as 64G or 512000M" },
    { "cpus_per_task", 0, NULL, NULL },
};

static void rule_values(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const char *slurm = (const char *)&context->plan->slurm;

    for (size_t i = 0; i < TS_COUNT(slurm_keys); i++) {
        const struct slurm_key *key = &slurm_keys[i];
        const struct entry *entry = rule_block_entry(context, key->name);
        const char *text =
            key->is_valid ? *(const char *const *)(slurm + key->field) : NULL;

        if (entry && text && !key->is_valid(text))
            propose_remark(&to,
                           &(struct finding) {
                               .rule = "TS726",
                               .severity = SEVERITY_ERROR,
                               .message = arena_printf(
                                   context->arena, "%s must be %s, not '%s'", key->name,
                                   key->expected, rule_printable(context, text)) },
                           entry);
    }
}

static void rule_without_slurm(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);

    if (context->plan->backend == RUN_SLURM)
        return;
    for (size_t i = 0; i < TS_COUNT(slurm_keys); i++) {
        const struct entry *entry = rule_block_entry(context, slurm_keys[i].name);

        if (entry && !node_is_null(entry->value))
            propose_key_remark(
                &to,
                &(struct finding) {
                    .rule = "TS727",
                    .severity = SEVERITY_WARNING,
                    .message = arena_printf(context->arena,
                                            "%s has no effect without backend: slurm",
                                            slurm_keys[i].name),
                    .note = "add backend: slurm, or remove the key" },
                entry);
    }
}

static void report_nodes(struct rule_context *context, const char *key,
                         const char *message, const char *note)
{
    const struct proposal to = rule_proposal(context);

    propose_remark(&to,
                   &(struct finding) { .rule = "TS728",
                                       .severity = SEVERITY_ERROR,
                                       .message = message,
                                       .note = note },
                   rule_block_entry(context, key));
}

static void rule_nodes(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const long long ranks = plan->ranks, nodes = plan->nodes;
    struct arena *arena = context->arena;

    if (plan->external && plan->backend == RUN_SLURM)
        report_nodes(context, "backend",
                     "backend: slurm cannot run the program of another target",
                     "remove backend, and submit the program with sbatch; check_device "
                     "names the GPU that the job is checked for");
    /* a launcher starts ranks as it likes, and sets nodes to the machines that it used */
    if (plan->external || context->options->launched || context->options->frozen)
        return;
    if (nodes > 1 && plan->backend == RUN_LOCAL)
        report_nodes(
            context, "nodes",
            arena_printf(arena,
                         "nodes: %lld needs something that starts ranks on %lld "
                         "machines",
                         nodes, nodes),
            arena_printf(arena,
                         "set backend: slurm, or remove nodes and start the job "
                         "with srun -N%lld -n%lld trainspool run, or with mpirun "
                         "or torchrun",
                         nodes, ranks < nodes ? nodes : ranks));
    else if (ranks < nodes)
        report_nodes(context, "nodes",
                     arena_printf(arena, "nodes: %lld has more machines than ranks: %lld",
                                  nodes, ranks),
                     arena_printf(arena, "set ranks: %lld, or a multiple of it", nodes));
    else if (ranks % nodes != 0)
        report_nodes(
            context, "ranks",
            arena_printf(arena,
                         "ranks: %lld cannot be distributed evenly among nodes: %lld",
                         ranks, nodes),
            arena_printf(arena, "set ranks: %lld or %lld", ranks - ranks % nodes,
                         ranks - ranks % nodes + nodes));
}

static void rule_unknown_gpu(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const char *why = context->options->no_device, *at = "gres";

    if (!rule_is_submitted(context) || context->device || !why)
        return;
    if (!rule_block_entry(context, at))
        at = rule_block_entry(context, "device") ? "device" : "backend";
    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS211",
            .severity = SEVERITY_ERROR,
            .message = arena_printf(
                context->arena, "the GPU that Slurm will give this job is not known: %s",
                rule_printable(context, why)),
            .note = "set check_device: A100 in the block trainspool, or "
                    "--device, or name the model, as in gres: gpu:a100:4" },
        rule_block_entry(context, at));
}

static const struct rule rows[] = {
    { .id = "TS211",
      .title = "unknown GPU of a Slurm job",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .target = RULE_NATIVE,
      .run = rule_unknown_gpu,
      .explain =
          "A job with backend: slurm is checked for the device on which Slurm will run it. "
          "It is the first of these that is known: --device; check_device; the model in "
          "gres, as in gpu:a100:4; the models that sinfo shows for the nodes of the "
          "partition, in their resources or features, of which the weakest counts. Without "
          "a GPU in gres, the job gets none and is checked for the CPU.\n\n"
          "If none of them names a GPU of the table (`trainspool devices --known`), formats "
          "and memory cannot be decided, and a mistake would show only after the job has "
          "waited in Slurm's queue. A part of a GPU (MIG) is no entry of the table: name its "
          "capability and memory, as in check_device: sm_80:20GiB.",
      .source = "sinfo(1), %G and %f; trainspool-job(5)" },
    { .id = "TS726",
      .title = "invalid option for Slurm",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_values,
      .explain =
          "partition, account, qos, reservation, constraint, gres, time and mem are passed "
          "to sbatch. They are checked before, because a job would otherwise fail only "
          "when it is submitted. Names consist of letters, digits and _-.+@/=, separated "
          "by commas, and do not begin with a minus.\n\n"
          "time is minutes (90), minutes:seconds (90:00), hours:minutes:seconds "
          "(12:00:00), days-hours (2-12), days-hours:minutes or days-hours:minutes:seconds. "
          "It needs no quotes, although YAML 1.1 reads 12:00:00 as the number 43200 and "
          "other programs may. Only the first number may exceed 59 (or 23 hours). mem is a "
          "number of megabytes or has a suffix K, M, G or T; 64GB and 64GiB are not "
          "accepted.",
      .source = "sbatch(1); YAML 1.1, sexagesimal integers" },
    { .id = "TS727",
      .title = "option for Slurm in a job that does not run there",
      .severity = SEVERITY_WARNING,
      .run = rule_without_slurm,
      .explain =
          "Only a job with backend: slurm is submitted to Slurm, with partition, account, "
          "qos, reservation, constraint, gres, time, mem and cpus_per_task. In another job "
          "these keys have no effect: it starts on this machine.",
      .source = "trainspool-job(5)" },
    { .id = "TS728",
      .title = "ranks that cannot be started on several machines",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_nodes,
      .explain =
          "nodes is the number of machines among which the ranks are distributed. One "
          "machine cannot start processes on another: Slurm does with backend: slurm, or a "
          "launcher starts `trainspool run` once for each rank and sets ranks and nodes "
          "itself, so that the job file needs neither.\n\n"
          "Each machine must get the same number of ranks, at least one: ranks is a "
          "multiple of nodes.\n\n"
          "backend: slurm submits jobs that trainspool trains. A script or the job of "
          "another program has a batch script of its own.",
      .source = "sbatch(1), --nodes and --ntasks-per-node; trainspool-job(5)" },
    { .id = "TS729",
      .title = "job that Slurm refuses",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .target = RULE_NATIVE,
      .explain =
          "`trainspool check`, `plan` and `run --dry-run` pass the batch script of a job "
          "with backend: slurm to `sbatch --test-only`, if this machine has sbatch. Slurm "
          "then says whether it would take the job, and submits nothing. A partition that "
          "does not exist, a feature that no node has or more nodes than the cluster has "
          "show here instead of after the submission.\n\n"
          "Slurm accepts some jobs that it never starts: where it keeps no accounts, for "
          "example, any account is valid. If the controller does not answer within 5 s, "
          "nothing is reported. The watch does not ask: a job that Slurm refuses fails "
          "with the message of sbatch.",
      .source = "sbatch(1), --test-only" },
};

const struct rules rules_slurm = { rows, TS_COUNT(rows) };
