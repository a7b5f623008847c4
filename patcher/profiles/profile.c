/* patcher/profiles/profile.c - a row for each trainer, and the search in key tables. */
#include "config.h"

#include "patcher/profiles/profile.h"

#include <assert.h>
#include <string.h>

#include "base/size.h"

#define HF_REFUSAL "Some keys are not used by the HfArgumentParser"

static const struct profile profiles[TRAINERS] = {
    [TRAINER_NATIVE] = { .name = "native",
                         .title = "trainspool",
                         .package = PACKAGES,
                         .base = TRAINERS },
    [TRAINER_EXTERNAL] = { .name = "external",
                           .title = "another program",
                           .package = PACKAGES,
                           .base = TRAINERS },
    /* hparams/parser.py: OmegaConf reads the file, HfArgumentParser.parse_dict takes it */
    [TRAINER_LLAMAFACTORY] = { .name = "llamafactory",
                               .title = "LLaMA-Factory",
                               .package = PACKAGE_LLAMAFACTORY,
                               .base = TRAINER_TRANSFORMERS,
                               .base_programs = 2, /* Seq2SeqTrainingArguments */
                               .parser = PARSER_DICT,
                               .refusal = HF_REFUSAL,
                               .skips = "TS603 TS605 TS607",
                               .table = &profile_llamafactory_table },
    /* a script adds dataclasses of its own to TrainingArguments */
    [TRAINER_TRANSFORMERS] = { .name = "transformers",
                               .title = "transformers",
                               .package = PACKAGE_TRANSFORMERS,
                               .base = TRAINERS,
                               .parser = PARSER_SCRIPT,
                               .refusal = HF_REFUSAL,
                               .table = &profile_transformers_table },
    /* scripts/utils.py: TrlParser makes the values the defaults of an ArgumentParser.
     * `trl sft` passes what is left over to `accelerate launch`, which refuses it. */
    [TRAINER_TRL] = { .name = "trl",
                      .title = "TRL",
                      .package = PACKAGE_TRL,
                      .base = TRAINER_TRANSFORMERS,
                      .base_programs = 1, /* TrainingArguments */
                      .parser = PARSER_DEFAULTS,
                      .refusal = "unrecognized arguments",
                      .table = &profile_trl_table },
    /* cli/config.py: yaml.safe_load; pydantic ignores unknown keys */
    [TRAINER_AXOLOTL] = { .name = "axolotl",
                          .title = "Axolotl",
                          .package = PACKAGE_AXOLOTL,
                          .base = TRAINERS,
                          .parser = PARSER_DROPS,
                          .skips = "TS013 TS014", /* pydantic converts strings */
                          .typing = TYPING_PYDANTIC,
                          .rules = "TS714 TS809 TS812 TS813 TS815 TS816",
                          .table = &profile_axolotl_table },
    /* config/_parse.py: OmegaConf; a recipe reads the keys that it uses */
    [TRAINER_TORCHTUNE] = { .name = "torchtune",
                            .title = "torchtune",
                            .package = PACKAGE_TORCHTUNE,
                            .base = TRAINERS,
                            .parser = PARSER_DROPS,
                            .rules = "TS714 TS809 TS812 TS813 TS815 TS816",
                            .open = "", /* `tune cp` makes recipes to be edited */
                            .table = &profile_torchtune_table },
    /* unsloth_cli/config.py: pydantic, with extra="forbid" since 2026.9 */
    [TRAINER_UNSLOTH] = { .name = "unsloth",
                          .title = "Unsloth",
                          .package = PACKAGE_UNSLOTH,
                          .base = TRAINERS,
                          .parser = PARSER_DICT,
                          .refusal = "Extra inputs are not permitted",
                          .skips = "TS013 TS014",
                          .typing = TYPING_PYDANTIC,
                          .rules = "TS714 TS809 TS812 TS813 TS815 TS816",
                          .table = &profile_unsloth_table },
    /* pytorch/cli.py: jsonargparse; model, data and callbacks belong to the project */
    [TRAINER_LIGHTNING] = { .name = "lightning",
                            .title = "Lightning",
                            .package = PACKAGE_LIGHTNING,
                            .base = TRAINERS,
                            .parser = PARSER_DICT,
                            .refusal = "Key is not expected",
                            .typing = TYPING_JSONARGPARSE,
                            .rules = "TS714 TS809 TS812 TS813 TS815 TS816",
                            .open = "",
                            .table = &profile_lightning_table },
};

const struct profile *profile_at(enum trainer trainer)
{
    return &profiles[trainer];
}

enum trainer profile_named(const char *name)
{
    for (size_t i = 0; i < TRAINERS; i++)
        if (strcmp(profiles[i].name, name) == 0)
            return (enum trainer)i;
    return TRAINERS;
}

bool profile_has_rule(enum trainer trainer, const char *rule)
{
    const char *skips = profiles[trainer].skips, *rules = profiles[trainer].rules;

    if (rules && strncmp(rule, "TS0", 3) != 0 && !strstr(rules, rule))
        return false;
    return !skips || !strstr(skips, rule);
}

/* ---- Versions ---- */

/* Compare releases only: 5.0.0rc1 and 5.0.0.dev0 have the keys of 5.0.0. */
static int compare_release(const char *text, const struct version *version)
{
    struct version own, given = { .epoch = version->epoch, .count = version->count };
    bool read = version_read(text, &own);

    assert(read);
    (void)read;
    memcpy(given.release, version->release, sizeof(given.release));
    return version_compare(&own, &given);
}

static bool is_same_minor(const char *text, const struct version *version)
{
    struct version own;

    return version_read(text, &own) && own.release[0] == version->release[0] &&
           own.release[1] == version->release[1];
}

/*
 * Return the last version of the table that is not above this one.  Several x.y.0 were
 * withdrawn (transformers 4.46.0, 4.52.0, 4.57.0): x.y and x.y.0 then mean the first
 * release of x.y.
 */
static int find_version(const struct profile_table *table, const struct version *version)
{
    size_t low = 0, high = table->version_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_release(table->versions[middle], version) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < table->version_count && is_same_minor(table->versions[low], version) &&
        (low == 0 || !is_same_minor(table->versions[low - 1], version)))
        return (int)low;
    return low == 0 ? PROFILE_TOO_OLD : (int)low - 1;
}

static int version_in(enum trainer trainer, const struct versions *versions)
{
    const struct profile *profile;

    if (trainer == TRAINERS || !(profile = &profiles[trainer])->table ||
        profile->package == PACKAGES || !versions_know(versions, profile->package))
        return PROFILE_ANY_VERSION;
    return find_version(profile->table, &versions->packages[profile->package].version);
}

static bool is_at(const struct profile_key *key, int version)
{
    return version == PROFILE_ANY_VERSION ||
           (version >= key->since && version <= key->until);
}

/* Return the programs that the version of the table has. */
static uint32_t programs_at(const struct profile_table *table, int version)
{
    uint32_t programs = 0;

    for (size_t i = 0; i < table->key_count; i++)
        if (is_at(&table->keys[i], version))
            programs |= table->keys[i].programs;
    return programs;
}

static uint32_t program_named(const struct profile_table *table, const char *name)
{
    for (size_t i = 0; name && i < table->program_count; i++)
        if (strcmp(table->programs[i], name) == 0)
            return (uint32_t)1 << i;
    return UINT32_MAX;
}

void profile_view(enum trainer trainer, const struct versions *versions,
                  const char *program, struct profile_view *out)
{
    const struct profile *profile = &profiles[trainer];

    *out = (struct profile_view) { .trainer = trainer,
                                   .own = version_in(trainer, versions),
                                   .base = version_in(profile->base, versions) };
    if (profile->table)
        out->programs = program_named(profile->table, program) &
                        programs_at(profile->table, out->own);
}

bool profile_runs(const struct profile_view *view, const char *program)
{
    const struct profile_table *table = profiles[view->trainer].table;

    return table && view->programs != 0 &&
           view->programs == program_named(table, program);
}

bool profile_is_complete(const struct profile_view *view)
{
    return profiles[view->trainer].table && view->programs != 0 &&
           view->own != PROFILE_TOO_OLD && view->base != PROFILE_TOO_OLD;
}

bool profile_is_closed(const struct profile_view *view)
{
    return profile_is_complete(view) && profiles[view->trainer].parser != PARSER_SCRIPT;
}

bool profile_is_newer(enum trainer trainer, const struct version *version)
{
    const struct profile_table *table = profiles[trainer].table;

    return table &&
           compare_release(table->versions[table->version_count - 1], version) < 0;
}

/* ---- Keys ---- */

/* The rows of one key in one table. */
struct rows {
    const struct profile_key *first, *end;
};

static struct rows find_rows(const struct profile_table *table, const char *name)
{
    size_t low = 0, high = table->key_count;
    struct rows rows;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(table->keys[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    rows.first = rows.end = table->keys + low;
    while (rows.end < table->keys + table->key_count && strcmp(rows.end->name, name) == 0)
        rows.end++;
    return rows;
}

/* The two tables that a view looks into. */
struct layer {
    const struct profile_table *table;
    enum package package;
    uint32_t programs;
    int version;
};

static size_t layers_of(const struct profile_view *view, struct layer layers[2])
{
    const struct profile *own = &profiles[view->trainer];
    size_t count = 0;

    if (own->table)
        layers[count++] =
            (struct layer) { own->table, own->package, view->programs, view->own };
    if (own->base != TRAINERS)
        layers[count++] =
            (struct layer) { profiles[own->base].table, profiles[own->base].package,
                             own->base_programs, view->base };
    return count;
}

static bool is_visible(const struct profile_key *key, const struct layer *layer)
{
    return (key->programs & layer->programs) && is_at(key, layer->version);
}

const struct profile_key *profile_find(const struct profile_view *view, const char *name)
{
    struct layer layers[2];
    size_t count = layers_of(view, layers);

    for (size_t i = 0; i < count; i++) {
        struct rows rows = find_rows(layers[i].table, name);

        for (const struct profile_key *key = rows.end; key > rows.first; key--)
            if (is_visible(key - 1, &layers[i]))
                return key - 1;
    }
    return NULL;
}

bool profile_has_block(const struct profile_view *view, const char *path)
{
    const struct profile_table *table = profiles[view->trainer].table;
    size_t len = strlen(path);

    for (size_t i = 0; table && i < table->key_count; i++)
        if (strncmp(table->keys[i].name, path, len) == 0 &&
            table->keys[i].name[len] == '.')
            return true;
    return false;
}

const char *profile_default(const struct profile_view *view, const char *name)
{
    struct layer layers[2];
    size_t count = layers_of(view, layers);
    const char *common = NULL;

    for (size_t i = 0; i < count; i++) {
        struct rows rows = find_rows(layers[i].table, name);
        uint32_t covered = 0;

        for (const struct profile_key *key = rows.first; key < rows.end; key++) {
            if (!is_visible(key, &layers[i]))
                continue;
            covered |= key->programs;
            if (!key->default_value || strcmp(key->default_value, PROFILE_UNKNOWN) == 0 ||
                (common && strcmp(common, key->default_value) != 0))
                return NULL;
            common = key->default_value;
        }
        /* the own field hides the inherited one, in each program that has it */
        if (layers[i].version >= 0 && covered && !(layers[i].programs & ~covered))
            break;
    }
    return common;
}

/* Look for the versions before and after this one that have the key. */
static void look_around(const struct layer *layer, const struct rows *rows,
                        struct profile_history *out)
{
    const char *const *versions = layer->table->versions;

    for (const struct profile_key *key = rows->first; key < rows->end; key++) {
        if (!(key->programs & layer->programs))
            continue;
        if (key->until < layer->version) {
            out->until = versions[key->until];
            out->deprecated = key->deprecated;
        } else if (key->since > layer->version && !out->since) {
            out->since = versions[key->since];
        }
    }
}

bool profile_history(const struct profile_view *view, const char *name,
                     struct profile_history *out)
{
    struct layer layers[2];
    size_t count = layers_of(view, layers);

    *out = (struct profile_history) { 0 };
    for (size_t i = 0; i < count; i++) {
        struct rows rows = find_rows(layers[i].table, name);

        if (rows.first == rows.end || layers[i].version < 0)
            continue;
        look_around(&layers[i], &rows, out);
        if (out->since || out->until) {
            out->package = package_names[layers[i].package];
            return true;
        }
    }
    return false;
}

const char *profile_removed(enum trainer trainer, const char *name)
{
    const struct profile_table *table = profiles[trainer].table;
    struct rows rows = find_rows(table, name);
    size_t next = 0;

    for (const struct profile_key *key = rows.first; key < rows.end; key++)
        if (key->until + (size_t)1 > next)
            next = key->until + (size_t)1;
    return next > 0 && next < table->version_count ? table->versions[next] : NULL;
}

const struct profile_key *profile_key_at(const struct profile_view *view, size_t at)
{
    struct layer layers[2];
    size_t count = layers_of(view, layers);

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < layers[i].table->key_count; j++)
            if (is_visible(&layers[i].table->keys[j], &layers[i]) && at-- == 0)
                return &layers[i].table->keys[j];
    return NULL;
}
