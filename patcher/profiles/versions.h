/*
 * patcher/profiles/versions.h - versions of Python packages: parsed and compared as in PEP
 * 440, and the packages that rules know, with the versions that a job and its environment
 * give.
 */
#ifndef PATCHER_RULES_VERSIONS_H
#define PATCHER_RULES_VERSIONS_H

#include "patcher/document/document.h"

#define VERSION_PARTS 8

/* One version, such as `2.4.0+cu121`, `5.0.0rc1`, `4.46.dev0`, `1!2.0.post3`. */
struct version {
    uint64_t epoch;
    uint64_t release[VERSION_PARTS];
    size_t count; /* of parts given; missing parts are 0 */
    int stage;    /* 'a', 'b' or 'r' of a pre-release; 0: none */
    uint64_t pre;
    bool has_post, has_dev;
    uint64_t post, dev;
    char local[32]; /* after the +, lower case; "" if there is none */
};

/* Parse a version; return false if the text is not one. */
bool version_read(const char *text, struct version *out);
/* Return a value below, equal to or above 0, in the order of PEP 440: 4.46.dev0 <
 * 4.46rc1 < 4.46 < 4.46+cu121. */
int version_compare(const struct version *a, const struct version *b);
/* Return whether an abbreviated version, `2.2`, matches this one, `2.2.1+cu121`. */
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
    PACKAGE_AXOLOTL,
    PACKAGE_TORCHTUNE,
    PACKAGE_UNSLOTH,
    PACKAGE_LIGHTNING,
    PACKAGE_CUDA, /* the toolkit that torch was built with */
    PACKAGES
};
extern const char *const package_names[PACKAGES];

/* Return the package of a distribution name, in any spelling that PEP 503 considers
 * equal; PACKAGES: no rule knows the package. */
enum package package_find(const char *name);
/* Return the nearest name at distance 1 or 2, or NULL. */
const char *package_nearest(const char *name);

/* The version of one package. */
struct package_version {
    const char *given;      /* in the job; NULL: not given */
    const char *found;      /* in the environment's metadata; NULL: not installed */
    struct version version; /* of given, else of found */
};

struct versions {
    struct package_version packages[PACKAGES];
    const struct entry *where; /* the line that names the environment, or NULL */
    const char *folder;        /* that environment, joined to the job's folder, or NULL */
    const char *trouble;       /* why it could not be read, or NULL */
};

bool versions_know(const struct versions *versions, enum package package);
/* Let the versions that `over` gives take precedence. */
void versions_override(struct versions *versions, const struct versions *over);
/* Add the versions installed in an environment; those given by the job stay. */
void versions_add(struct versions *versions, const struct versions *installed);

#endif
