/* patcher/rules/patch_options.h - options of a check or a patch. */
#ifndef PATCHER_RULES_PATCH_OPTIONS_H
#define PATCHER_RULES_PATCH_OPTIONS_H

#include <stdbool.h>
#include <sys/types.h>

struct device;
struct versions;
struct estimate_data;

/* A problem that the last attempt at a job met. */
enum ailment { AILMENT_NONE, AILMENT_MEMORY, AILMENT_DIVERGED, AILMENTS };
struct heal {
    enum ailment ailment;
    const char *what; /* a sentence about it */
};

struct patch_options {
    /* name used in messages; relative paths start at its folder */
    const char *job;
    const struct device *device; /* NULL: device rules are off (TS208) */
    const char *no_device;       /* reason for NULL, for TS208; or NULL */
    /* what names the device, such as ".trainspool.toml"; NULL: --device, or this machine
     * has it */
    const char *device_source;
    /* nothing names the device: it is the CPU of a machine without a GPU, and the job may
     * run elsewhere.  No safe edit and no error follows from it. */
    bool guessed;
    /* CPU of the machine where the job would run; NULL: unknown */
    const struct device *host;
    bool unsafe; /* also make edits of class APPLY_UNSAFE */
    /* prefixes of rule names ("TS1", "TS702"), ending with NULL; NULL: all rules; see
     * suppress_selects */
    const char *const *select;
    const char *const *ignore; /* the same for rules that are not reported; NULL: none */
    bool will_run;             /* run, watch: TS713 is an error */
    bool spooled;              /* watch: TS710 is an error */
    bool frozen; /* the text was admitted: what the start waits for is not checked */
    /* a launcher started the ranks of this run on the machines that it chose */
    bool launched;
    /* run --resume: the same as resume_from_checkpoint: true */
    bool resume;
    /* with spooled: the folders that jobs may write to, ending with NULL; NULL: those of
     * the owner of the job (TS710, base/roots.h) */
    const char *const *roots;
    uid_t owner;
    /* --target: the program that trains the job, whatever the job says; or NULL */
    const char *target;
    /* --versions: versions of packages, which take precedence over those of the job; or
     * NULL */
    const struct versions *versions;
    /* --set KEY=VALUE, ending with NULL, or NULL: replaced in the text first, in memory
     * only */
    const char *const *set;
    /* the problem of the attempt whose text is NAME.run/job.yaml, to be remedied by the
     * rules of rules_heal.c; NULL: none */
    const struct heal *heal;
    /* digest under which the checkpoints of the run are saved, if its text was healed;
     * NULL: that of the text */
    const char *origin;
    /* what was counted in the data (train/estimate.h); NULL: unknown */
    const struct estimate_data *data;
};

#endif
