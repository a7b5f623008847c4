/* patcher/schema/schema_block.c - keys of the block trainspool:, which no other tool
 * has. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

/* In the order of enum trainer; test_profile compares them. */
static const char *const targets[] = {
    "native",  "external",  "llamafactory", "transformers", "trl",
    "axolotl", "torchtune", "unsloth",      "lightning",    NULL
};
static const char *const policies[] = { "sound",    "bf16",   "fp32", "noclip",
                                        "noscaler", "report", NULL };
static const char *const healings[] = { "auto", "false", "true", "bold", NULL };
static const char *const reductions[] = { "fp32", "bf16", NULL };
/* In the order of enum export_gguf. */
static const char *const ggufs[] = { "none", "f16", "bf16", "q8_0", NULL };
/* In the order of enum run_backend, train/plan.h. */
static const char *const runners[] = { "local", "slurm", NULL };
static const struct advice runners_advice[] = {
    { "mpi",
      "ranks: N starts N processes on this machine, without MPI; on several, mpirun "
      "starts trainspool run, and the job needs no backend" },
    { NULL, NULL },
};

/* In the order of enum reward_head, train/plan.h. */
static const char *const heads[] = { "auto", "score", "value_head", NULL };

static const struct key rows[] = {
    { TS_USED("version", KEY_INT, "1"), .min = 1, .max = 1,
      .help = "version of the keys in this block" },
    { TS_USED("policy", KEY_ENUM, "sound"), .values = policies, .into = TS_FIELD(policy),
      .help = "which edits trainspool makes to the precision of a job",
      .manual = "See POLICIES." },
    { TS_USED("device", KEY_TEXT, "auto"), .into = TS_FIELD(device_wanted),
      .help = "device to train on: auto, cpu, cuda, cuda:N, or cuda:N,M for "
              "several GPUs",
      .manual = "With target: external it may also name the GPU on which the job "
                "runs, such as T4." },
    { TS_USED("check_device", KEY_TEXT, NULL),
      .help = "device that check, patch and plan assume, such as V100 or cpu, if the job "
              "runs on another machine than theirs; a run uses the device of its machine",
      .manual = "It takes the names of --device, which takes precedence. auto is the "
                "machine where the command runs. See DEVICES OF A CHECK in "
                "trainspool(1)." },
    { TS_USED("ranks", KEY_INT, "1"), .min = 1, .max = RANKS_MAX, .into = TS_FIELD(ranks),
      .help = "number of processes that train one model together, each on its own "
              "GPU or with an equal share of the CPU threads",
      .manual = "As with torchrun, the batch of a step is "
                "per_device_train_batch_size x gradient_accumulation_steps x ranks. "
                "See RANKS." },
    { TS_USED("nodes", KEY_INT, "1"), .min = 1, .max = RANKS_MAX, .into = TS_FIELD(nodes),
      .help = "number of machines among which the ranks are distributed evenly",
      .manual =
          "Slurm starts them with backend: slurm (see SLURM); or srun, mpirun or torchrun "
          "starts trainspool-train once for each rank, and sets nodes itself (see SEVERAL "
          "MACHINES)." },
    { TS_USED("zero_stage", KEY_INT, NULL), .min = 1, .max = 3,
      .into = TS_FIELD(zero_stage),
      .help = "what the ranks of a job divide among them: 1, the moments of the "
              "optimizer; 2, the gradients too; 3, the weights of the layers too; by "
              "default the lowest that fits",
      .manual = "Stage 2 takes less memory, and sends gradients in each micro-batch "
                "instead of once per step. Stage 3 takes the least, also with LoRA, and "
                "sends the weights twice in each micro-batch. The numbers are those of "
                "DeepSpeed; full_shard of FSDP is 3. See RANKS." },
    { TS_USED("reduce_dtype", KEY_ENUM, "fp32"), .values = reductions,
      .synonyms = "float32=fp32 bfloat16=bf16 float=fp32 torch.float32=fp32 "
                  "torch.bfloat16=bf16",
      .into = TS_FIELD(reduce_dtype),
      .help = "number format in which the ranks of a job send gradients to each other: "
              "fp32, or bf16, which halves the bytes",
      .manual = "It is the reduce_dtype of FSDP and the communication_data_type of "
                "DeepSpeed. Gradients are computed and accumulated in fp32 in each rank; "
                "bf16 rounds them to 8 bits of precision on their way. See RANKS." },
    { TS_USED("max_shard_mb", KEY_INT, NULL), .min = 1, .max = 1000000,
      .into = TS_FIELD(max_shard_mb),
      .help =
          "largest file of weights in a checkpoint and in the result, in MB, as "
          "max_shard_size of transformers; by default, 1000 with several ranks, which "
          "write files at the same time, and no limit with one",
      .manual = "A larger model is in model-00001-of-00003.safetensors and so on with "
                "an index. An adapter is always in one file, and export_size applies to "
                "export_dir. See RANKS." },
    { TS_USED("reward_head", KEY_ENUM, "auto"), .values = heads,
      .into = TS_FIELD(preference.head),
      .help =
          "with stage: rm, the layer that computes scores and the format of its files: "
          "score as in transformers' ...ForSequenceClassification, value_head as in TRL "
          "and LLaMA-Factory; auto uses what the adapter has, or else the model's "
          "folder, or else value_head",
      .manual = "See PREFERENCES." },
    { TS_USED("offload_optimizer", KEY_CHOICE, "auto"),
      .into = TS_FIELD(offload_optimizer),
      .help =
          "keep the moments of the optimizer in host memory, from which the GPU reads "
          "them; auto: with a paged optimizer (optim: paged_adamw_32bit), if the job "
          "does not fit otherwise",
      .manual =
          "The result is the same to the bit. Each step then reads and writes the moments "
          "over PCIe, 8 bytes for each trained weight. On a CPU it has no effect." },
    { TS_USED("tune_matmuls", KEY_BOOL, "true"), .into = TS_FIELD(tune_matmuls),
      .help = "on a GPU, time the algorithms that the matmul library proposes for each "
              "shape, and use the fastest",
      .manual = "It takes about a second, once: later jobs find the choices in "
                "~/.cache/trainspool. See ALGORITHMS OF MATMULS." },
    { TS_USED("deterministic", KEY_BOOL, "true"), .into = TS_FIELD(deterministic),
      .help = "give the same bits in every run of the job; false lets a GPU compute "
              "faster with sums whose order differs from run to run",
      .manual = "It concerns one operation: from compute capability 9.0 on, cuDNN then "
                "computes the gradients of attention in 16 bits, if it is installed. "
                "This takes the memory that plan reports. Runs of the job, also resumed "
                "ones, then differ in the last bits." },
    { TS_USED("target", KEY_ENUM, "native"), .values = targets,
      .help = "native trains the job with trainspool; the others check a job that "
              "another program trains: external is a script, or is recognized by its "
              "command, its packages or its keys",
      .manual = "See JOBS OF ANOTHER PROGRAM." },
    { TS_USED("keep", KEY_LIST, NULL), .help = "keys that no patch may change" },
    { TS_USED("ignore", KEY_LIST, NULL),
      .help = "rules that are not reported, such as TS708, or families of rules, "
              "such as TS3",
      .manual = "trainspool explain lists the rules. For a single line, append the "
                "comment # trainspool: ignore[TS708]." },
    { TS_USED("priority", KEY_INT, "0"), .min = -1000, .max = 1000,
      .into = TS_FIELD(priority),
      .help = "order in the queue; jobs with a higher priority run first, "
              "unless others have waited long" },
    { TS_USED("after", KEY_LIST, NULL), .into = TS_FIELD(after),
      .help = "names of jobs in the same watched folder; the job starts when all of them "
              "are done",
      .manual = "See WAITING FOR JOBS AND TIMES." },
    { TS_USED("begin", KEY_TEXT, NULL), .into = TS_FIELD(begin),
      .help = "time before which a job of a watched folder does not start, such as "
              "2026-12-01T06:00:00+01:00, or a delay after it arrives, such as +2h",
      .manual = "See WAITING FOR JOBS AND TIMES." },
    { TS_USED("sweep", KEY_MAP, NULL),
      .help = "keys, each with a list of values: a watched folder makes a job of every "
              "combination",
      .manual = "See SWEEPS." },
    { TS_USED("threads", KEY_INT, "0"), .min = 0, .max = 4096, .into = TS_FIELD(threads),
      .help = "number of CPU threads; 0 uses all available" },
    { TS_USED("save_torch_state", KEY_BOOL, "false"), .into = TS_FIELD(save_torch_state),
      .help = "add optimizer.pt, scheduler.pt and scaler.pt to each checkpoint, so "
              "that transformers' Trainer resumes from it",
      .manual = "It requires optim: adamw_torch, adamw_torch_fused or sgd, and about "
                "doubles the optimizer state on the disk. See RESUMING IN PYTHON." },
    { TS_USED("export_gguf", KEY_ENUM, "none"), .values = ggufs,
      .synonyms = "false=none no=none float16=f16 fp16=f16 bfloat16=bf16 q8=q8_0",
      .into = TS_FIELD(export_gguf),
      .help = "also write the model of export_dir as a file for llama.cpp, with matrices "
              "in this format: f16, bf16 or q8_0",
      .manual = "See FILES FOR LLAMA.CPP." },
    { TS_USED("max_retries", KEY_INT, "3"), .min = 0, .max = 1000,
      .into = TS_FIELD(max_retries),
      .help = "number of crashes after which the job is restarted from its last "
              "checkpoint" },
    { TS_USED("heal", KEY_ENUM, "auto"), .values = healings, .into = TS_FIELD(healing),
      .help = "patch the job and resume it if it runs out of memory or diverges: true, "
              "false, bold (may also lower the learning rate), or auto (in a watched "
              "folder only)",
      .manual = "See HEALING." },
    { TS_USED("max_heals", KEY_INT, "3"), .min = 0, .max = 100,
      .into = TS_FIELD(max_heals),
      .help = "number of times that heal may patch a job before it fails" },
    { TS_USED("timeout", KEY_SECONDS, "0"), .into = TS_FIELD(timeout_seconds),
      .help = "time after which a run saves a checkpoint and fails; 0 means no limit",
      .manual = "All attempts count, with the time in which they read the data and load "
                "the model; the time in the queue does not. trainspool retry and run "
                "--resume start again from 0. A number is in seconds; the suffixes s, m, "
                "h and d are supported: 30m, 12h, 2d." },
    { TS_USED("keep_days", KEY_INT, "-1"), .min = -1, .max = 36500,
      .into = TS_FIELD(keep_days),
      .help = "days after which old files of the ended job are removed; -1 keeps them",
      .manual =
          "watch and trainspool clean remove what clean names in trainspool(1), never "
          "the model or the last checkpoint. --keep-days and --max-bytes apply as "
          "well." },
    { TS_USED("max_bytes", KEY_SIZE, NULL), .into = TS_FIELD(max_bytes), .no_share = true,
      .help = "size of all old files of the ended job, such as 20GB, beyond which the "
              "oldest are removed" },
    { TS_USED("eval_questions", KEY_INT, "0"), .min = 0, .max = TS_NO_MAX,
      .into = TS_FIELD(eval_questions),
      .help = "number of prompts that predict_with_generate answers in each "
              "evaluation; 0 takes all" },
    { TS_USED("samples", KEY_INT, "8"), .min = 0, .max = 1000, .into = TS_FIELD(samples),
      .help = "number of these prompts whose answers before and after training are "
              "kept in JOB.run/samples.jsonl" },
    { TS_USED("answer_tag", KEY_TEXT, NULL), .into = TS_FIELD(answer_tag),
      .help = "tag that encloses the answer: the first <TAG>...</TAG> of a text" },
    { TS_USED("answer_marker", KEY_TEXT, NULL), .into = TS_FIELD(answer_marker),
      .help = "marker, such as \"####\", after whose first occurrence the answer "
              "follows, up to the end of the line",
      .manual = "Without answer_tag and answer_marker the whole text is the answer." },
    { TS_USED("answer_tolerance", KEY_REAL, "0"), .min = 0, .max = 1e6,
      .into = TS_FIELD(answer_tolerance),
      .help = "relative error up to which a numeric answer is correct; 0 requires "
              "equality" },
    { TS_USED("reward_pattern", KEY_TEXT, NULL), .into = TS_FIELD(grpo.pattern),
      .help = "with stage: grpo, the regular expression of the reward named pattern, "
              "which must match a part of the answer" },
    { TS_USED("soft_punish_cache", KEY_INT, "0"), .min = 0, .max = 1048576,
      .into = TS_FIELD(grpo.punish_cache),
      .help = "with stage: grpo, the number of tokens before max_completion_length "
              "over which the reward named length falls from 0 to -1" },
    { TS_USED("teacher_logits", KEY_PATH, NULL), .into = TS_FIELD(kd.logits),
      .written = true,
      .help = "with stage: distill, a .safetensors file of the teacher's kd_topk "
              "largest logits for each trained token",
      .manual = "If the file does not exist, the teacher creates it before training. "
                "If it exists, no teacher is needed: see DISTILLATION." },
    { TS_USED("features", KEY_PATH, NULL), .into = TS_FIELD(features),
      .help = "a .safetensors file of feature rows that take the place of images and "
              "sounds, with one tensor for each, named as the data name the file",
      .manual = "By default the model's own encoder computes them once, before training, "
                "and the run folder keeps them." },
    { TS_USED("train_cross_attention", KEY_BOOL, "false"),
      .into = TS_FIELD(train_cross_attention),
      .help =
          "with freeze_language_model: true, train the layers of cross-attention of "
          "the text model, such as those of Llama 3.2 Vision, or adapters on them, and "
          "no others",
      .manual =
          "It requires finetuning_type: full or lora, and data with images. The encoder and "
          "the projector have keys of their own, freeze_vision_tower and "
          "freeze_multi_modal_projector." },
    TS_IGNORED("strict_drop", KEY_BOOL, "false",
               "accept a file in the watched folder only if it was renamed into it"),
    { TS_USED("preflight", KEY_CHOICE, "auto"), .into = TS_FIELD(preflight),
      .help = "before the run, try ten steps with the real model and data, report "
              "why a job cannot work, and restore the initial state; auto does so "
              "for jobs that compute in fp16" },
    { TS_USED("disable_dropout", KEY_BOOL, "false"), .into = TS_FIELD(disable_dropout),
      .help = "train without the dropout that the model's config.json requests, "
              "such as GPT-2's attn_pdrop; lora_dropout still applies" },
    { TS_USED("backend", KEY_ENUM, "local"), .values = runners, .rejects = "mpi",
      .advice = runners_advice, .into = TS_FIELD(backend),
      .help =
          "what starts the processes of the job: this machine, or slurm, to which the "
          "watched folder submits it with sbatch",
      .manual = "See SLURM." },
    { TS_USED("partition", KEY_TEXT, NULL), .into = TS_FIELD(slurm.partition),
      .help = "with backend: slurm, the partition, or several separated by commas",
      .manual =
          "This and the following keys are the options of sbatch(1) with that name; "
          "without one, Slurm's default counts." },
    { TS_USED("account", KEY_TEXT, NULL), .into = TS_FIELD(slurm.account),
      .help = "with backend: slurm, the account that is charged" },
    { TS_USED("qos", KEY_TEXT, NULL), .into = TS_FIELD(slurm.qos),
      .help = "with backend: slurm, the quality of service" },
    { TS_USED("reservation", KEY_TEXT, NULL), .into = TS_FIELD(slurm.reservation),
      .help = "with backend: slurm, the reservation" },
    { TS_USED("constraint", KEY_TEXT, NULL), .into = TS_FIELD(slurm.constraint),
      .help =
          "with backend: slurm, the features that nodes must have, such as a100&nvlink" },
    { TS_USED("gres", KEY_TEXT, NULL), .into = TS_FIELD(slurm.gres),
      .help = "with backend: slurm, resources of each node, such as gpu:a100:4 or gpu:2",
      .manual =
          "Without a GPU in it the job trains on CPUs. The model of the GPU is what "
          "the job is checked for." },
    { TS_USED("time", KEY_TEXT, NULL), .into = TS_FIELD(slurm.time),
      .help = "with backend: slurm, the time limit of each submission: minutes, "
              "minutes:seconds, hours:minutes:seconds, or days-hours with or without "
              ":minutes and :seconds",
      .manual =
          "It needs no quotes: 12:00:00 is 12 hours. timeout limits all submissions "
          "together." },
    { TS_USED("mem", KEY_TEXT, NULL), .into = TS_FIELD(slurm.mem),
      .help = "with backend: slurm, the memory of each node, such as 64G" },
    { TS_USED("cpus_per_task", KEY_INT, NULL), .min = 1, .max = 4096,
      .into = TS_FIELD(slurm.cpus_per_task),
      .help = "with backend: slurm, the CPUs of each rank" },
    TS_IGNORED("command", KEY_ANY, NULL,
               "command that trains a job with target: external"),
    { TS_USED("env", KEY_ANY, NULL),
      .help = "environment variables of the process that trains, such as {NCCL_DEBUG: "
              "INFO}; with target: external, the Python environment of command: its "
              "folder, or variables of which VIRTUAL_ENV or CONDA_PREFIX names it",
      .manual = "They are added to the clean environment of CONTAINMENT in "
                "trainspool(1). TS718 refuses names that make a process load code or "
                "that belong to the user, such as LD_PRELOAD." },
    { TS_USED("versions", KEY_MAP, NULL),
      .help = "versions of the packages with which an external job runs, such as "
              "{torch: 2.4, transformers: 5.1}; missing ones are read from env" },
};
const struct keys schema_block_keys = { "trainspool", rows, TS_COUNT(rows) };
