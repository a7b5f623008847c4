/* patcher/schema/schema_block.c - members of the block trainspool:, which no other tool has. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

static const char *const targets[] = { "native", "external", NULL };
static const char *const policies[] = { "sound",    "bf16",   "fp32", "noclip",
                                        "noscaler", "report", NULL };
static const char *const runners[] = { "local", NULL };

static const struct key rows[] = {
    { TS_USED("version", KEY_INT, "1"), .min = 1, .max = 1,
      .help = "of the job's own words; 1" },
    { TS_USED("policy", KEY_ENUM, "sound"), .values = policies, .into = TS_INTO(policy),
      .help = "which edits count as right: see POLICIES" },
    { TS_USED("device", KEY_TEXT, "auto"), .into = TS_INTO(device_wanted),
      .help = "auto, cpu, cuda, cuda:N, or cuda:N,M for several; for target external "
              "also the card it runs on, as T4" },
    { TS_USED("ranks", KEY_INT, "1"), .min = 1, .max = DEVICE_RANKS_MAX,
      .into = TS_INTO(ranks),
      .help =
          "processes that train one model together, each on a GPU of its own (or, on a "
          "CPU, with its share of the threads). As under torchrun, the batch of a step "
          "is per_device_train_batch_size x gradient_accumulation_steps x ranks" },
    { TS_USED("target", KEY_ENUM, "native"), .values = targets,
      .help = "native trains here; external checks a job for a Hugging Face script" },
    { TS_USED("keep", KEY_LIST, NULL), .help = "keys that no patch may change" },
    { TS_USED("ignore", KEY_LIST, NULL),
      .help = "rules of trainspool explain that are not to be told, as TS708, and "
              "families, as TS3; for one row, write # trainspool: ignore[TS708] behind "
              "it" },
    { TS_USED("priority", KEY_INT, "0"), .min = -1000, .max = 1000,
      .into = TS_INTO(priority), .help = "higher ones run first" },
    { TS_USED("threads", KEY_INT, "0"), .min = 0, .max = 4096, .into = TS_INTO(threads),
      .help = "threads of the CPU; 0: all that may be used" },
    { TS_USED("max_retries", KEY_INT, "3"), .min = 0, .max = 1000,
      .into = TS_INTO(max_retries),
      .help = "crashes after which it starts again, from a checkpoint" },
    { TS_USED("timeout", KEY_SECONDS, "0"), .into = TS_INTO(timeout_seconds),
      .help = "longest run: seconds, or 30m, 12h, 2d; 0: no end" },
    { TS_USED("eval_questions", KEY_INT, "0"), .min = 0, .max = TS_NO_END,
      .into = TS_INTO(eval_questions),
      .help = "questions that predict_with_generate answers each time; 0: all" },
    { TS_USED("samples", KEY_INT, "8"), .min = 0, .max = 1000, .into = TS_INTO(samples),
      .help = "of them, those whose answers before and after the training are kept in "
              "JOB.run/samples.jsonl" },
    { TS_USED("answer_tag", KEY_TEXT, NULL), .into = TS_INTO(answer_tag),
      .help = "an answer stands in the first <TAG>..</TAG> of a text" },
    { TS_USED("answer_marker", KEY_TEXT, NULL), .into = TS_INTO(answer_marker),
      .help = "an answer stands behind the first of these, to the end of the line, as "
              "\"####\"; without tag and marker all of a text is the answer" },
    { TS_USED("answer_tolerance", KEY_REAL, "0"), .min = 0, .max = 1e6,
      .into = TS_INTO(answer_tolerance),
      .help = "how far a number may be off and be right, as a share of what is "
              "expected; 0: not at all" },
    { TS_USED("teacher_logits", KEY_PATH, NULL), .into = TS_INTO(kd.logits),
      .help = "of stage distill: a file (.safetensors) of the teacher's kd_topk largest "
              "logits at each token that is learnt. Where it is not there, the teacher "
              "makes it before the training; where it is, no teacher is needed: see "
              "DISTILLATION" },
    TS_IDLE("strict_drop", KEY_BOOL, "false",
            "take the file only when it was renamed in"),
    { TS_USED("preflight", KEY_CHOICE, "auto"), .into = TS_INTO(preflight),
      .help = "before the run try ten steps of it on the real model and data, end a job "
              "that cannot work with a diagnosis, and put all back as it was; auto: "
              "where it computes in fp16" },
    { TS_USED("disable_dropout", KEY_BOOL, "false"), .into = TS_INTO(disable_dropout),
      .help = "true: nothing is dropped of what config.json of the model asks for in "
              "training (GPT-2's attn_pdrop and the like); lora_dropout stays" },
    { .name = "backend",
      .type = KEY_ENUM,
      .use = KEY_USED,
      .default_value = "local",
      .values = runners,
      .rejects = "mpi slurm",
      .help = "who runs the job" },
    TS_IDLE("command", KEY_ANY, NULL, "what target external starts"),
    TS_IDLE("env", KEY_ANY, NULL,
            "Python environment of that command: its folder, or a map of variables, of "
            "which VIRTUAL_ENV or CONDA_PREFIX names the folder"),
    { TS_USED("versions", KEY_MAP, NULL),
      .help = "versions of the packages that an external job runs with, as {torch: 2.4, "
              "transformers: 5.1}; those that are not given are read from env" },
};
const struct keys schema_block_keys = { "trainspool", rows, TS_COUNT(rows) };
