/* runner/options/options.c - the table of options; drives getopt_long with it. */
#include "config.h"

#include "runner/options/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "base/nearest.h"
#include "runner/options/options_help.h"

enum { NEAR = 2 };

static const char *const color_values[] = { "auto", "always", "never", NULL };
static const char *const severity_values[] = { "error", "warning", "info", NULL };

/* What `trainspool status` shows; queued: the states of a job that waits. */
static const char *const state_values[] = { "queued",  "new",     "ready",    "held",
                                            "blocked", "running", "crashed",  "done",
                                            "failed",  "stopped", "rejected", NULL };

/* The trainers of patcher/profiles/profile.c; target.t tries each. */
static const char *const target_values[] = {
    "native",  "external",  "llamafactory", "transformers", "trl",
    "axolotl", "torchtune", "unsloth",      "lightning",    NULL
};

#define INTO(field) .into = offsetof(struct options, field)

static const struct option_row rows[OPTION_IDS] = {
    [OPTION_DEVICE] = { "device", 0, OPTION_IS_TEXT, "NAME", NULL, INTO(device),
                        "check for this device: \"TITAN RTX\", \"V100 32GB\", cpu, "
                        "sm_75:24GiB, or auto for the device of this machine (the "
                        "default)" },
    [OPTION_TARGET] = { "target", 0, OPTION_IS_TEXT, "PROGRAM", target_values,
                        INTO(target),
                        "the program that trains the job, which overrides the job: native "
                        "(trainspool), external (a script), llamafactory, transformers, "
                        "trl, axolotl, torchtune, unsloth or lightning" },
    [OPTION_VERSIONS] = { "versions", 0, OPTION_IS_LIST, "PACKAGE=VERSION", NULL,
                          INTO(versions),
                          "versions of that program's packages, such as "
                          "trl=0.26,torch=2.8; they take precedence over the job's; may "
                          "be repeated" },
    [OPTION_JSON] = { "json", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(json),
                      "print one JSON object per line instead of text" },
    [OPTION_SARIF] = { "sarif", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(sarif),
                       "print one SARIF 2.1.0 log of all jobs instead of text" },
    [OPTION_DIFF] = { "diff", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(diff),
                      "only show the edits as a unified diff, change nothing" },
    [OPTION_UNSAFE] = { "unsafe", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(unsafe),
                        "also make edits that may change the meaning of the job" },
    [OPTION_SELECT] = { "select", 0, OPTION_IS_LIST, "RULES", NULL, INTO(select),
                        "apply only these rules and families, such as TS102,TS3; may be "
                        "repeated" },
    [OPTION_IGNORE] = { "ignore", 0, OPTION_IS_LIST, "RULES", NULL, INTO(ignore),
                        "leave out these rules; if both options name a rule, the longer "
                        "name wins" },
    [OPTION_ALTERNATIVES] = { "alternatives", 0, OPTION_IS_SWITCH, NULL, NULL,
                              INTO(alternatives),
                              "also show other ways to train the job and their "
                              "cost" },
    [OPTION_EXIT_ZERO] = { "exit-zero", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(exit_zero),
                           "exit with status 0 even if there are findings" },
    [OPTION_FAIL_ON] = { "fail-on", 0, OPTION_IS_TEXT, "SEVERITY", severity_values,
                         INTO(fail_on),
                         "the lowest severity that makes the exit status 1: error (the "
                         "default), warning or info" },
    [OPTION_TO] = { "to", 0, OPTION_IS_TEXT, "ID", NULL, INTO(to),
                    "restore this backup (see trainspool backups)" },
    [OPTION_FORCE] = { "force", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(force),
                       "undo even if the job has changed; submit even if a job with "
                       "that name exists" },
    [OPTION_AS_IS] = { "as-is", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(as_is),
                       "submit the text unchanged, whatever its paths mean" },
    [OPTION_NO_PATCH] = { "no-patch", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(no_patch),
                          "do not change the job file" },
    [OPTION_RESUME] = { "resume", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(resume),
                        "continue from the last checkpoint, if there is one" },
    [OPTION_SET] = { "set", 0, OPTION_IS_LIST, "KEY=VALUE", NULL, INTO(set),
                     "change a setting for this run only, written as in the job; may be "
                     "repeated" },
    [OPTION_ONCE] = { "once", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(once),
                      "exit when no jobs are left" },
    [OPTION_NODE] = { "node", 0, OPTION_IS_TEXT, "NAME", NULL, INTO(node),
                      "share the folder with the watches of other nodes, under this "
                      "name; on a network file system the default is the host name" },
    [OPTION_SLOTS] = { "slots", 0, OPTION_IS_NUMBER, "N", NULL, INTO(slots),
                       "run at most N jobs at once; those on the CPU share its cores" },
    [OPTION_DEVICES] = { "devices", 0, OPTION_IS_TEXT, "LIST", NULL, INTO(devices),
                         "use only these devices: cpu, cuda, cuda:N,M, or cpu,cuda:N" },
    [OPTION_MAX_RUNNING] = { "max-running", 0, OPTION_IS_NUMBER, "N", NULL,
                             INTO(max_running),
                             "run at most N jobs of one user at once" },
    [OPTION_MAX_QUEUED] = { "max-queued", 0, OPTION_IS_NUMBER, "N", NULL,
                            INTO(max_queued),
                            "reject jobs of a user who has N waiting ones" },
    [OPTION_GPU_HOURS] = { "gpu-hours", 0, OPTION_IS_TEXT, "HOURS", NULL, INTO(gpu_hours),
                           "start no job of a user who has used GPUs for so many hours "
                           "in 7 days, or as in 40/14d or 8/24h" },
    [OPTION_ON_END] = { "on-end", 0, OPTION_IS_TEXT, "PROGRAM", NULL, INTO(on_end),
                        "run this program when a job ends, with the arguments job, "
                        "state, reason and path" },
    [OPTION_MAIL] = { "mail", 0, OPTION_IS_TEXT, "ADDRESS", NULL, INTO(mail),
                      "send a mail to this address when a job ends" },
    [OPTION_NOTIFY_TIMEOUT] = { "notify-timeout", 0, OPTION_IS_NUMBER, "SECONDS", NULL,
                                INTO(notify_timeout),
                                "how long that program and the mail system may take; "
                                "default 60" },
    [OPTION_GRACE] = { "grace", 0, OPTION_IS_NUMBER, "SECONDS", NULL, INTO(grace),
                       "kill a job that does not end this long after it was asked to; "
                       "default 300" },
    [OPTION_HANG] = { "hang", 0, OPTION_IS_NUMBER, "SECONDS", NULL, INTO(hang),
                      "kill a job that shows no sign of life for this long; 0: never; "
                      "default 900" },
    [OPTION_METRICS] = { "metrics", 0, OPTION_IS_TEXT, "FILE", NULL, INTO(metrics),
                         "keep metrics of the folder in this file, for Prometheus" },
    [OPTION_PAGE] = { "page", 0, OPTION_IS_TEXT, "FILE", NULL, INTO(page),
                      "keep an HTML page of the folder in this file" },
    [OPTION_LOG] = { "log", 0, OPTION_IS_TEXT, "FILE", NULL, INTO(log),
                     "append the log to this file, and open it again at SIGHUP" },
    [OPTION_KEEP_DAYS] = { "keep-days", 0, OPTION_IS_NUMBER, "N", NULL, INTO(keep_days),
                           "remove old backups, event files and checkpoints of ended "
                           "jobs after N days" },
    [OPTION_MAX_BYTES] = { "max-bytes", 0, OPTION_IS_TEXT, "SIZE", NULL, INTO(max_bytes),
                           "remove the oldest of them if they take more than SIZE, such "
                           "as 500GB" },
    [OPTION_FOLLOW] = { "follow", 'f', OPTION_IS_SWITCH, NULL, NULL, INTO(follow),
                        "keep showing changes until stopped" },
    [OPTION_USER] = { "user", 0, OPTION_IS_TEXT, "NAME", NULL, INTO(user),
                      "show only the jobs of this user, by name or number" },
    [OPTION_STATE] = { "state", 0, OPTION_IS_LIST, "STATE", state_values, INTO(states),
                       "change only jobs in this state, as status shows it; queued: new, "
                       "ready, held or blocked; may be repeated" },
    [OPTION_DRY_RUN] = { "dry-run", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(dry_run),
                         "only show what would change" },
    [OPTION_K8S] = { "k8s", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(k8s),
                     "print a manifest for Kubernetes instead; the operands are jobs" },
    [OPTION_IMAGE] = { "image", 0, OPTION_IS_TEXT, "IMAGE", NULL, INTO(image),
                       "with --k8s, the container image that has trainspool" },
    [OPTION_CLAIM] = { "claim", 0, OPTION_IS_TEXT, "NAME", NULL, INTO(claim),
                       "with --k8s, the persistent volume claim of the shared folder" },
    [OPTION_MOUNT] = { "mount", 0, OPTION_IS_TEXT, "FOLDER", NULL, INTO(mount),
                       "with --k8s, the shared folder, which holds the job, its model and "
                       "its data (the default: the folder of the job)" },
    [OPTION_OUTPUT_FOLDER] = { "output", 'o', OPTION_IS_TEXT, "FOLDER", NULL,
                               INTO(output),
                               "with --k8s, write the manifests, and a Containerfile for "
                               "the image, into this folder" },
    [OPTION_HOLD] = { "hold", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(hold),
                      "also hold the job: it starts when it is released" },
    [OPTION_STOP_RUNNING] = { "stop", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(stop_running),
                              "also stop running jobs, after a checkpoint" },
    [OPTION_REASON] = { "reason", 0, OPTION_IS_TEXT, "TEXT", NULL, INTO(reason),
                        "show this reason to everyone who looks" },
    [OPTION_LINES] = { "lines", 'n', OPTION_IS_NUMBER, "N", NULL, INTO(lines),
                       "show only the last N lines" },
    [OPTION_RAW] = { "raw", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(raw),
                     "print control characters unchanged" },
    [OPTION_KNOWN] = { "known", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(known),
                       "list the known devices instead" },
    [OPTION_OUTPUT] = { "output", 'o', OPTION_IS_TEXT, "FILE", NULL, INTO(output),
                        "write to this file; import and generate do not overwrite a "
                        "file" },
    [OPTION_MEASURE] = { "measure", 0, OPTION_IS_TEXT, "LIST", NULL, INTO(measure),
                         "only print what is free on these GPUs, such as 0/0000:3b:00.0" },
    [OPTION_PROBE] = { "probe", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(probe),
                       "only print the devices of this machine, one tab-separated line "
                       "each" },
    [OPTION_STEPS] = { "steps", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(steps),
                       "only count the steps: per epoch, total, tokens, samples" },
    [OPTION_CALIBRATE] = { "calibrate", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(calibrate),
                           "measure the speed of the devices, a few seconds each, so "
                           "that plan can estimate the time of a run" },
    [OPTION_FROZEN] = { "frozen", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(frozen),
                        "use NAME.run/job.yaml, the text frozen for this run" },
    [OPTION_DIGEST] = { "digest", 0, OPTION_IS_TEXT, "HEX", NULL, INTO(digest),
                        "with --frozen, train only a text with this SHA-256" },
    [OPTION_ROOT] = { "root", 0, OPTION_IS_LIST, "DIR", NULL, INTO(root),
                      "let jobs write below this folder, and below no other except the "
                      "watched one; may be repeated" },
    [OPTION_SPOOLED] = { "spooled", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(spooled),
                         "a spool owns this job: print nothing, and leave it ready to "
                         "resume when stopped" },
    [OPTION_LOCK_FD] = { "lock-fd", 0, OPTION_IS_NUMBER, "N", NULL, INTO(lock_fd),
                         "the lock of the job is already held, as descriptor N" },
    [OPTION_LEASE] = { "lease", 0, OPTION_IS_TEXT, "NAME", NULL, INTO(lease),
                       "be a rank of the submission NAME to Slurm, whose lock another "
                       "process holds" },
    [OPTION_THREADS] = { "threads", 0, OPTION_IS_NUMBER, "N", NULL, INTO(threads),
                         "use N CPU threads, if the job does not say how many" },
    [OPTION_RANK] = { "rank", 0, OPTION_IS_NUMBER, "N", NULL, INTO(rank),
                      "be rank N of a job with several ranks; rank 0 starts the others" },
    [OPTION_ZERO_STAGE] = { "zero-stage", 0, OPTION_IS_NUMBER, "N", NULL,
                            INTO(zero_stage),
                            "with --rank, the zero_stage that rank 0 has decided" },
    [OPTION_LINK_FD] = { "link-fd", 0, OPTION_IS_NUMBER, "N", NULL, INTO(link_fd),
                         "descriptor N is connected to rank 0" },
    [OPTION_NO_ONEDNN] = { "no-onednn", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(no_onednn),
                           "use the built-in matmuls on a CPU, not oneDNN" },
    [OPTION_GROUP] = { "group", 0, OPTION_IS_TEXT, "NAME", NULL, INTO(group),
                       "give the files of jobs to this group, which may read them" },
    [OPTION_NO_SANDBOX] = { "no-sandbox", 0, OPTION_IS_SWITCH, NULL, NULL,
                            INTO(no_sandbox),
                            "do not contain the process: let it use every file and "
                            "system call that its user may" },
    [OPTION_GENERATE] = { "generate", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(generate),
                          "complete prompts instead of training" },
    [OPTION_PROMPT] = { "prompt", 'p', OPTION_IS_LIST, "TEXT", NULL, INTO(prompt),
                        "complete this text; may be repeated" },
    [OPTION_PROMPTS] = { "prompts", 0, OPTION_IS_TEXT, "FILE", NULL, INTO(prompts),
                         "complete the prompts in this file: a dataset as in a job, or "
                         ".txt with one per line; - reads lines from standard input" },
    [OPTION_DEVICE_LOCAL] = { "device", 0, OPTION_IS_TEXT, "DEVICE", NULL, INTO(device),
                              "run on this device of the machine: cpu, cuda, cuda:N, or "
                              "auto (the default)" },
    [OPTION_IMAGE_FILE] = { "image", 0, OPTION_IS_LIST, "FILE", NULL, INTO(image_files),
                            "show this image to the model, for an <image> of a prompt, or "
                            "in front of it; may be repeated" },
    [OPTION_AUDIO_FILE] = { "audio", 0, OPTION_IS_LIST, "FILE", NULL, INTO(audio_files),
                            "play this sound to the model, for an <audio> of a prompt, or "
                            "in front of it; may be repeated" },
    [OPTION_RAW_PROMPT] = { "raw", 0, OPTION_IS_SWITCH, NULL, NULL, INTO(raw),
                            "do not apply a chat template to a prompt" },
    [OPTION_TEMPLATE] = { "template", 0, OPTION_IS_TEXT, "TEMPLATE", NULL,
                          INTO(template_name),
                          "use this chat template instead of the model's" },
    [OPTION_SYSTEM] = { "system", 0, OPTION_IS_TEXT, "TEXT", NULL, INTO(system),
                        "the system message" },
    [OPTION_MAX_NEW_TOKENS] = { "max-new-tokens", 0, OPTION_IS_NUMBER, "N", NULL,
                                INTO(max_new_tokens),
                                "the maximum length of a completion; default 256, or "
                                "the job's" },
    [OPTION_TEMPERATURE] = { "temperature", 0, OPTION_IS_REAL, "T", NULL,
                             INTO(temperature),
                             "sample tokens, with logits divided by T; 0 takes the "
                             "likeliest token (the default, unless the job says "
                             "otherwise)" },
    [OPTION_TOP_P] = { "top-p", 0, OPTION_IS_REAL, "P", NULL, INTO(top_p),
                       "sample from the likeliest tokens with total probability P; 1: "
                       "all" },
    [OPTION_TOP_K] = { "top-k", 0, OPTION_IS_NUMBER, "K", NULL, INTO(top_k),
                       "sample from the K likeliest tokens; 0: all" },
    [OPTION_REPETITION_PENALTY] = { "repetition-penalty", 0, OPTION_IS_REAL, "R", NULL,
                                    INTO(repetition_penalty),
                                    "above 1, tokens that already occurred are less "
                                    "likely" },
    [OPTION_SEED] = { "seed", 0, OPTION_IS_NUMBER, "N", NULL, INTO(seed),
                      "seed for sampling; default 42, or the job's" },
    [OPTION_STOP] = { "stop", 0, OPTION_IS_LIST, "TEXT", NULL, INTO(stop),
                      "end a completion before this text; may be repeated" },
    [OPTION_BATCH] = { "batch", 0, OPTION_IS_NUMBER, "N", NULL, INTO(batch),
                       "number of completions per batch; default 8, or the job's "
                       "per_device_eval_batch_size" },
    [OPTION_SAMPLES] = { "samples", 0, OPTION_IS_NUMBER, "N", NULL, INTO(samples),
                         "number of completions of each prompt" },
    [OPTION_KEEP_CORRECT] = { "keep-correct", 0, OPTION_IS_SWITCH, NULL, NULL,
                              INTO(keep_correct),
                              "print records for a dataset: each prompt with its "
                              "distinct correct completions" },
    [OPTION_COLOR] = { "color", 0, OPTION_IS_TEXT, "WHEN", color_values, INTO(color),
                       "auto (on a terminal, unless NO_COLOR is set), always or never" },
    [OPTION_QUIET] = { "quiet", 'q', OPTION_IS_SWITCH, NULL, NULL, INTO(quiet),
                       "print only problems" },
    [OPTION_VERBOSE] = { "verbose", 'v', OPTION_IS_SWITCH, NULL, NULL, INTO(verbose),
                         "print more: the fact that led to each finding, debug lines" },
    [OPTION_HELP] = { "help", 'h', OPTION_IS_SWITCH, NULL, NULL, INTO(help),
                      "show this help" },
    [OPTION_VERSION] = { "version", 'V', OPTION_IS_SWITCH, NULL, NULL, INTO(version),
                         "show the version" },
};

const struct option_row *option_row(enum option_id id)
{
    assert(id < OPTION_IDS);
    return &rows[id];
}

bool option_is_accepted(const struct command *command, enum option_id id)
{
    if (id >= OPTION_COLOR)
        return true;
    if (!command || !command->options)
        return false;
    for (const enum option_id *at = command->options; *at != OPTION_END; at++)
        if (*at == id)
            return true;
    return false;
}

const char *options_nearest(const char *word, const char *const *words)
{
    const char *nearest = NULL;
    size_t least = NEAR + 1;

    for (; *words; words++) {
        size_t distance = nearest_distance(word, *words, NEAR);

        if (distance < least) {
            nearest = *words;
            least = distance;
        }
    }
    return nearest;
}

static bool choice_fits(const struct option_row *row, const char *value,
                        struct error *err)
{
    struct text words;
    const char *near;

    if (!row->choices)
        return true;
    text_init(&words, 0);
    for (size_t i = 0; row->choices[i]; i++) {
        if (strcmp(row->choices[i], value) == 0) {
            text_clear(&words);
            return true;
        }
        text_addf(&words, "%s%s", i ? ", " : "", row->choices[i]);
    }
    near = options_nearest(value, row->choices);
    error_set(err, ERROR_USAGE, "--%s must be one of %s, not %s%s%s%s", row->name,
              words.data, value, near ? "; did you mean " : "", near ? near : "",
              near ? "?" : "");
    text_clear(&words);
    return false;
}

static bool number_read(const struct option_row *row, const char *value, int64_t *out,
                        struct error *err)
{
    char *end;

    errno = 0;
    *out = strtoll(value, &end, 10);
    if (errno != 0 || *end || end == value || *out < 0)
        return error_set(err, ERROR_USAGE,
                         "--%s must be a whole number of at least 0, not %s",

                         row->name, value);
    return true;
}

static bool real_read(const struct option_row *row, const char *value, double *out,
                      struct error *err)
{
    char *end;

    errno = 0;
    *out = strtod(value, &end);
    if (errno != 0 || *end || end == value || !(*out >= 0 && *out <= 1e6))
        return error_set(err, ERROR_USAGE, "--%s must be a number of at least 0, not %s",
                         row->name, value);
    return true;
}

static void list_add(const char *const **list, const char *value)
{
    size_t count = 0;
    const char **grown;

    while (*list && (*list)[count])
        count++;
    grown = memory_resize((void *)*list, count + 2, sizeof(*grown));
    grown[count] = value;
    grown[count + 1] = NULL;
    *list = grown;
}

static bool option_store(const struct option_row *row, const char *value,
                         struct options *out, struct error *err)
{
    void *field = (char *)out + row->into;

    switch (row->kind) {
    case OPTION_IS_SWITCH:
        *(bool *)field = true;
        return true;
    case OPTION_IS_TEXT:
        *(const char **)field = value;
        return choice_fits(row, value, err);
    case OPTION_IS_NUMBER:
        return number_read(row, value, field, err);
    case OPTION_IS_REAL:
        return real_read(row, value, field, err);
    case OPTION_IS_LIST:
        list_add(field, value);
        return choice_fits(row, value, err);
    }
    return false;
}

/* The tables of getopt_long, generated from the options of a command. */
struct getopt_tables {
    struct option longs[OPTION_IDS + 1];
    char shorts[2 * OPTION_IDS + 2];
};

static void getopt_fill(const struct command *command, struct getopt_tables *table)
{
    size_t longs = 0, shorts = 0;

    table->shorts[shorts++] = ':';
    for (int id = 0; id < OPTION_IDS; id++) {
        const struct option_row *row = &rows[id];
        bool takes_value = row->kind != OPTION_IS_SWITCH;

        if (!option_is_accepted(command, (enum option_id)id))
            continue;
        table->longs[longs++] =
            (struct option) { row->name, takes_value ? required_argument : no_argument,
                              NULL, 256 + id };
        if (row->letter) {
            table->shorts[shorts++] = row->letter;
            if (takes_value)
                table->shorts[shorts++] = ':';
        }
    }
    table->longs[longs] = (struct option) { 0 };
    table->shorts[shorts] = 0;
}

static const struct option_row *row_of(int got)
{
    if (got >= 256)
        return &rows[got - 256];
    for (int id = 0; id < OPTION_IDS; id++)
        if (rows[id].letter && rows[id].letter == got)
            return &rows[id];
    return NULL;
}

/* "trainspool check", or "trainspool-train" whose only command has no name. */
static bool refuse(const char *program, const struct command *command, const char *what,
                   const char *which, struct error *err)
{
    struct text name;

    text_init(&name, 0);
    options_add_name(&name, program, command);
    error_set(err, ERROR_USAGE, "%s%s; see %s --help", what, which, name.data);
    text_clear(&name);
    return false;
}

/* Find the option of a command that `--word` or `--word=value` is probably meant to
 * be. */
static const char *nearest_option(const struct command *command, const char *given)
{
    const char *names[OPTION_IDS + 1];
    char word[32];
    size_t count = 0, len = strcspn(given, "=");

    if (!text_starts(given, "--") || len >= sizeof(word))
        return NULL;
    memcpy(word, given, len);
    word[len] = 0;
    for (int id = 0; id < OPTION_IDS; id++)
        if (option_is_accepted(command, (enum option_id)id))
            names[count++] = rows[id].name;
    names[count] = NULL;
    return options_nearest(word + 2, names);
}

static bool refuse_option(const char *program, const struct command *command,
                          const char *given, struct error *err)
{
    const char *near = nearest_option(command, given);

    if (!near)
        return refuse(program, command, "there is no option ", given, err);
    return error_set(err, ERROR_USAGE, "there is no option %s; did you mean --%s?", given,
                     near);
}

static bool count_operands(const char *program, const struct command *command,
                           struct options *out, struct error *err)
{
    struct text usage;
    bool few = out->operand_count < (size_t)command->min_operands;

    if (!few && (command->max_operands < 0 ||
                 out->operand_count <= (size_t)command->max_operands))
        return true;
    text_init(&usage, 0);
    options_add_name(&usage, program, command);
    if (command->operands[0])
        text_addf(&usage, " %s", command->operands);
    if (few)
        error_set(err, ERROR_USAGE, "operand missing; usage: %s", usage.data);
    else
        error_set(err, ERROR_USAGE, "extra operand %s; usage: %s",
                  out->operands[command->max_operands], usage.data);
    text_clear(&usage);
    return false;
}

/* Mark the numeric options as not given, since 0 is a valid value. */
static void not_given(struct options *out)
{
    for (int id = 0; id < OPTION_IDS; id++) {
        void *field = (char *)out + rows[id].into;

        if (rows[id].kind == OPTION_IS_NUMBER && id != OPTION_RANK)
            *(int64_t *)field = -1;
        if (rows[id].kind == OPTION_IS_REAL)
            *(double *)field = -1;
    }
}

bool options_read(int argc, char **argv, const char *program,
                  const struct command *command, struct options *out, struct error *err)
{
    struct getopt_tables table;
    int got;

    *out = (struct options) { .program = program, .command = command };
    not_given(out);
    getopt_fill(command, &table);
    opterr = 0;
    optind = 0; /* glibc: restart the scan */
    while ((got = getopt_long(argc, argv, table.shorts, table.longs, NULL)) != -1) {
        const struct option_row *row = row_of(got);

        if (got == ':')
            return refuse(program, command, "a value is missing after ", argv[optind - 1],
                          err);
        if (got == '?' || !row)
            return refuse_option(program, command, argv[optind - 1], err);
        if (!option_store(row, optarg, out, err))
            return false;
    }
    out->operands = (const char *const *)(argv + optind);
    out->operand_count = (size_t)(argc - optind);
    return out->help || out->version || count_operands(program, command, out, err);
}

/* Several rows may fill one list. */
void options_clear(struct options *options)
{
    for (size_t id = 0; id < OPTION_IDS; id++) {
        const char ***list = (void *)((char *)options + rows[id].into);

        if (rows[id].kind != OPTION_IS_LIST)
            continue;
        free(*list);
        *list = NULL;
    }
}
