/* train/model/rotation_config.c - reads and writes PEFT's OFTConfig
 * (peft/tuners/oft/config.py, 0.18 to 0.21). */
#include "config.h"

#include "train/model/rotation_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"

/* PEFT 0.18 changed the series; files of earlier versions have no peft_version. */
static const char first_version[] = "0.18.0";
enum { FIRST_MINOR = 18 };

/* Dropout replaces rotations by the identity in training; eps applies with coft. */
static const char *const known[] = {
    "r",   "oft_block_size", "use_cayley_neumann", "num_cayley_neumann_terms",
    "eps", "module_dropout", "init_weights",
};

bool rotation_config_of_job(const struct plan *plan, struct rotation *out,
                            struct error *err)
{
    const int64_t blocks = plan->oft_rank, size = plan->oft_block_size;

    *out = (struct rotation) { .on = true,
                               .blocks = (size_t)blocks,
                               .size = (size_t)size,
                               .terms = ROTATION_TERMS };
    if (blocks > 0 && size > 0)
        return error_set(err, ERROR_JOB,
                         "oft_rank: it is the number of blocks, and oft_block_size their "
                         "size; set oft_block_size: 0 with it");
    return blocks > 0 || size > 0 ||
           error_set(err, ERROR_JOB,
                     "oft_block_size must be 1 or more unless oft_rank is given, not 0");
}

bool rotation_config_knows(const char *key)
{
    for (size_t i = 0; i < TS_COUNT(known); i++)
        if (strcmp(known[i], key) == 0)
            return true;
    return false;
}

/* Return whether the file is of a version with the same series. */
static bool is_of_known_series(const json_t *root, const char *file, struct error *err)
{
    const char *version = json_get_string(root, "peft_version", "0.0", file, err);
    char *end = NULL;
    long major = version ? strtol(version, &end, 10) : 0;
    long minor = end && *end == '.' ? strtol(end + 1, NULL, 10) : 0;

    return major > 0 || minor >= FIRST_MINOR ||
           error_set(err, ERROR_DATA,
                     "%s: use_cayley_neumann: PEFT before %s computed another series; "
                     "train the adapter again, or merge it with that version",
                     file, first_version);
}

bool rotation_config_read(const json_t *root, const char *file, struct rotation *out,
                          struct error *err)
{
    const int64_t blocks = json_get_int(root, "r", 0, file, err);
    const int64_t size = json_get_int(root, "oft_block_size", 0, file, err);
    const int64_t terms =
        json_get_int(root, "num_cayley_neumann_terms", ROTATION_TERMS, file, err);
    const bool series = json_get_bool(root, "use_cayley_neumann", false, file, err);

    if (err->code != ERROR_NONE)
        return false;
    *out = (struct rotation) {
        .on = true, .blocks = (size_t)blocks, .size = (size_t)size, .exact = !series
    };
    out->terms = series ? (size_t)terms : ROTATION_TERMS;
    if (blocks < 0 || size < 0 || (blocks > 0) == (size > 0))
        return error_set(err, ERROR_DATA,
                         "%s: r or oft_block_size must be more than 0, and the other one "
                         "0: files of PEFT before 0.14 are not supported",
                         file);
    if (series && (terms < 3 || terms > ROTATION_TERMS_MAX))
        return error_set(err, ERROR_DATA,
                         "%s: num_cayley_neumann_terms must be from 3 to %d, not %lld",
                         file, ROTATION_TERMS_MAX, (long long)terms);
    return !series || is_of_known_series(root, file, err);
}

json_t *rotation_config_write(const struct rotation *rotation)
{
    return json_pack("{s:b, s:b, s:f, s:b, s:f, s:I, s:I, s:s, s:I, s:b}", "block_share",
                     0, "coft", 0, "eps", 6e-5, "init_weights", 1, "module_dropout", 0.0,
                     "num_cayley_neumann_terms", (json_int_t)rotation->terms,
                     "oft_block_size", (json_int_t)rotation->size, "peft_version",
                     first_version, "r", (json_int_t)rotation->blocks,
                     "use_cayley_neumann", !rotation->exact);
}
