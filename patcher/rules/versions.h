/*
 * patcher/rules/versions.h - versions of Python packages: read and compared as PEP 440 says,
 * and the packages that rules know, with what a job and its environment say of them.
 */
#ifndef PATCHER_RULES_VERSIONS_H
#define PATCHER_RULES_VERSIONS_H

#include "patcher/document/document.h"

#define VERSION_PARTS 8

/* One version.  `2.4.0+cu121`, `5.0.0rc1`, `4.46.dev0`, `1!2.0.post3`. */
struct version {
    uint64_t epoch;
    uint64_t release[VERSION_PARTS];
    size_t count; /* of parts written; what is not written is 0 */
    int stage;    /* 'a', 'b' or 'r' of a pre-release; 0: none */
    uint64_t pre;
    bool has_post, has_dev;
    uint64_t post, dev;
    char local[32]; /* behind the +, lower case; "" where there is none */
};

/* False: the text is no version. */
bool version_read(const char *text, struct version *out);
/* Below 0, 0 or above, in the order of PEP 440: 4.46.dev0 < 4.46rc1 < 4.46 <
 * 4.46+cu121. */
int version_compare(const struct version *a, const struct version *b);
/* Does a version that may be cut short, `2.2`, stand for this one, `2.2.1+cu121`? */
bool version_covers(const struct version *brief, const struct version *full);

enum package {
    PACKAGE_TORCH,
    PACKAGE_TRANSFORMERS,
    PACKAGE_ACCELERATE,
    PACKAGE_PEFT,
    PACKAGE_TRL,
    PACKAGE_DEEPSPEED,
    PACKAGE_BITSANDBYTES,
    PACKAGE_LLAMAFACTORY,
    PACKAGE_CUDA, /* the toolkit that torch is built with */
    PACKAGES
};
extern const char *const package_names[PACKAGES];

/* The package of a distribution's name, in any spelling that PEP 503 takes for the same;
 * PACKAGES: none that a rule knows. */
enum package package_find(const char *name);
/* The nearest name at distance 1 or 2, or NULL. */
const char *package_nearest(const char *name);

/* What is known of one package. */
struct package_version {
    const char *given;      /* as the job says it; NULL: not said */
    const char *found;      /* as the environment's metadata say it; NULL: not there */
    struct version version; /* of given, else of found */
};

struct versions {
    struct package_version of[PACKAGES];
    const struct entry *where; /* the line that names the environment, or NULL */
    const char *folder;  /* the environment it names, behind the job's folder, or NULL */
    const char *trouble; /* why nothing could be read there; or NULL */
};

bool versions_know(const struct versions *versions, enum package package);
/* Add what an environment was found to hold; what the job gives stays. */
void versions_add(struct versions *versions, const struct versions *installed);

#endif
