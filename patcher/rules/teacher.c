/* patcher/rules/teacher.c - compare the folder of a teacher or reference model with the
 * student's. */
#include "config.h"

#include "patcher/rules/teacher.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "patcher/schema/schema.h"
#include "train/model/model_config.h"
#include "train/model/weights.h"
#include "train/files/safetensors.h"

#define CONFIG_MAX    ((size_t)1 << 20)
#define TOKENIZER_MAX ((size_t)64 << 20)

static json_t *read_part(const char *dir, const char *base, size_t max)
{
    char *name = dir ? path_join(dir, base) : NULL;
    json_t *value = name ? json_read_loose_file(name, max, NULL) : NULL;

    free(name);
    return value;
}

/* ---- Formats and bytes ---- */

static enum format named_format(const json_t *config)
{
    const char *name = json_string_value(json_object_get(config, "dtype"));

    if (!name)
        name = json_string_value(json_object_get(config, "torch_dtype"));
    for (int i = 0; name && i < FORMAT_COUNT; i++) {
        const char *torch = format_info((enum format)i)->torch;

        if (torch && strcmp(torch, name) == 0)
            return (enum format)i;
    }
    return FORMAT_COUNT;
}

static void read_tensors(struct teacher *teacher)
{
    struct safetensors *set = safetensors_open(teacher->path, "model", true, NULL);
    const struct model_config *config = teacher->config;
    enum format format = FORMAT_COUNT;

    if (set)
        format =
            config ? model_config_weight_format(config, set) : safetensors_format(set);
    if (set && config && config->packed.enabled &&
        !weights_split_experts(set, config, NULL, NULL))
        format = FORMAT_COUNT; /* what is wrong, the check of the tensors reports */
    for (size_t i = 0; set && i < safetensors_count(set); i++)
        teacher->bytes += safetensors_at(set, i)->bytes;
    if (format != FORMAT_COUNT)
        teacher->format = format;
    safetensors_close(set);
}

/* ---- Dropout, under the names that architectures use ---- */

static const char *find_dropout(const json_t *config, struct arena *arena)
{
    static const char *const names[] = {
        "attention_dropout",
        "hidden_dropout",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "attn_pdrop",
        "resid_pdrop",
        "embd_pdrop",
        "residual_dropout",
        "dropout",
        "dropout_rate",
        "activation_dropout",
        "lora_dropout",
    };

    for (size_t i = 0; i < TS_COUNT(names); i++) {
        double value = json_number_value(json_object_get(config, names[i]));

        if (value > 0)
            return arena_printf(arena, "%s %g", names[i], value);
    }
    return NULL;
}

/* ---- Vocabularies ---- */

struct tokens {
    json_t *ids; /* token -> id */
    size_t count;
    int64_t rows; /* vocab_size of config.json; 0: missing */
};

static void add_token(struct tokens *tokens, const char *token, json_int_t id)
{
    if (token && !json_object_get(tokens->ids, token))
        json_object_set_new_nocheck(tokens->ids, token, json_integer(id));
}

/* model.vocab is a map; with Unigram, it is a list of tokens and scores by id. */
static void add_vocabulary(struct tokens *tokens, const json_t *vocab)
{
    const char *token;
    json_t *value;
    size_t i;

    json_object_foreach((json_t *)vocab, token, value)
        add_token(tokens, token, json_integer_value(value));
    if (json_is_array(vocab))
        json_array_foreach(vocab, i, value)
            add_token(tokens, json_string_value(json_array_get(value, 0)), (json_int_t)i);
}

static void read_tokens(const char *dir, const json_t *config, struct tokens *out)
{
    json_t *tokenizer = read_part(dir, "tokenizer.json", TOKENIZER_MAX);
    const json_t *rows = json_object_get(config, "vocab_size"), *added;
    size_t i;

    if (!rows)
        rows = json_object_get(json_object_get(config, "text_config"), "vocab_size");
    *out = (struct tokens) { .rows = json_integer_value(rows) };
    if (!tokenizer)
        return;
    out->ids = json_object();
    add_vocabulary(out, json_object_get(json_object_get(tokenizer, "model"), "vocab"));
    json_array_foreach(json_object_get(tokenizer, "added_tokens"), i, added)
        add_token(out, json_string_value(json_object_get(added, "content")),
                  json_integer_value(json_object_get(added, "id")));
    out->count = json_object_size(out->ids);
    json_decref(tokenizer);
}

/* Find the token with the smallest id that the two do not share, or NULL. */
static const char *first_difference(const struct tokens *a, const struct tokens *b,
                                    const struct second_model_names *names,
                                    struct arena *arena)
{
    const char *token, *found = NULL;
    json_int_t least = 0, other = 0;
    json_t *id;

    json_object_foreach(a->ids, token, id)
    {
        const json_t *id_in_b = json_object_get(b->ids, token);

        if ((id_in_b && json_equal(id_in_b, id)) ||
            (found && json_integer_value(id) >= least))
            continue;
        found = token;
        least = json_integer_value(id);
        other = id_in_b ? json_integer_value(id_in_b) : -1;
    }
    if (!found)
        return NULL;
    return other < 0
               ? arena_printf(arena, "'%.40s' is a token of the %s only", found,
                              names->student)
               : arena_printf(arena, "'%.40s' is token %lld of the %s and %lld of the %s",
                              found, (long long)least, names->student, (long long)other,
                              names->teacher);
}

static bool same_file(const char *a, const char *b)
{
    char *left = path_join(a, "tokenizer.json"), *right = path_join(b, "tokenizer.json");
    char one[DIGEST_TEXT], two[DIGEST_TEXT];
    bool same = digest_file(left, one, NULL) && digest_file(right, two, NULL) &&
                strcmp(one, two) == 0;

    free(left);
    free(right);
    return same;
}

static void compare_rows(const struct tokens *student, const struct tokens *teacher,
                         enum vocabularies unequal, struct arena *arena,
                         struct teacher *out)
{
    out->vocabularies = VOCABULARIES_SAME;
    if (student->rows <= 0 || teacher->rows <= 0) {
        out->vocabularies =
            unequal == VOCABULARIES_PADDED ? VOCABULARIES_SAME : VOCABULARIES_UNKNOWN;
    } else if (student->rows != teacher->rows) {
        out->vocabularies = unequal;
        out->difference =
            arena_printf(arena, "vocab_size is %lld in the %s and %lld in the %s",
                         (long long)student->rows, out->names->student,
                         (long long)teacher->rows, out->names->teacher);
    }
}

static void compare_tokens(const struct tokens *student, const struct tokens *teacher,
                           struct arena *arena, struct teacher *out)
{
    if (student->count != teacher->count)
        out->difference =
            arena_printf(arena, "the %s has %zu tokens, the %s %zu", out->names->student,
                         student->count, out->names->teacher, teacher->count);
    else
        out->difference = first_difference(student, teacher, out->names, arena);
    if (out->difference)
        out->vocabularies = VOCABULARIES_DIFFER;
    else
        compare_rows(student, teacher, VOCABULARIES_PADDED, arena, out);
}

static void compare(const char *student, const json_t *config, struct arena *arena,
                    struct teacher *out)
{
    json_t *other = read_part(student, "config.json", CONFIG_MAX);
    bool same = same_file(student, out->path);
    struct tokens a, b;

    read_tokens(same ? NULL : student, other, &a);
    read_tokens(same ? NULL : out->path, config, &b);
    if (a.count > 0 && b.count > 0)
        compare_tokens(&a, &b, arena, out);
    else
        compare_rows(&a, &b, same ? VOCABULARIES_PADDED : VOCABULARIES_DIFFER, arena,
                     out);
    json_decref(a.ids);
    json_decref(b.ids);
    json_decref(other);
}

static const struct model_config *read_config(const char *path, struct arena *arena)
{
    struct model_config *config = arena_alloc(arena, sizeof(*config));

    return model_config_read(path, arena, config, NULL) ? config : NULL;
}

/* ---- Which model it is ---- */

static const struct second_model_names stage_names[] = {
    [STAGE_DISTILL] = { "teacher_model_name_or_path", "teacher_adapter_name_or_path",
                        "student", "teacher" },
    [STAGE_DPO] = { "ref_model", "ref_model_adapters", "model", "reference" },
    [STAGE_KTO] = { "ref_model", "ref_model_adapters", "model", "reference" },
    [STAGE_GRPO] = { "ref_model", "ref_model_adapters", "model", "reference" },
    [STAGE_RM] = { "ref_model", "ref_model_adapters", "model", "reference" },
};

/* The reference model of an external job belongs to the other program. */
const char *teacher_folder(const struct plan *plan)
{
    enum ref_model reference = plan->external ? REF_MODEL_NONE : ref_model_of(plan);

    if (plan->stage == STAGE_DISTILL)
        return plan->kd.teacher;
    if (reference == REF_MODEL_FOLDER)
        return plan->preference.reference;
    return reference == REF_MODEL_COPY && !plan->train_from_scratch
               ? plan->model_name_or_path
               : NULL;
}

const char *teacher_adapter(const struct plan *plan)
{
    if (plan->stage == STAGE_DISTILL)
        return plan->kd.adapter;
    return !plan->external && ref_model_of(plan) == REF_MODEL_FOLDER
               ? plan->preference.adapter
               : NULL;
}

void teacher_read(const struct plan *plan, struct arena *arena, struct teacher *out)
{
    const char *path = teacher_folder(plan), *student = plan->model_name_or_path;
    json_t *config;

    *out = (struct teacher) { .format = FORMAT_COUNT };
    if ((size_t)plan->stage < TS_COUNT(stage_names) && stage_names[plan->stage].key)
        out->names = &stage_names[plan->stage];
    if (!path || !file_is_dir(path))
        return;
    out->path = arena_strdup(arena, path);
    config = read_part(path, "config.json", CONFIG_MAX);
    out->format = named_format(config);
    out->config = read_config(path, arena);
    read_tensors(out);
    out->dropout = find_dropout(config, arena);
    if (student && student != path && file_is_dir(student))
        compare(student, config, arena, out);
    json_decref(config);
}

const char *const ref_model_names[REF_MODELS] = {
    [REF_MODEL_NONE] = "none",
    [REF_MODEL_BASE] = "base",
    [REF_MODEL_COPY] = "copy",
    [REF_MODEL_FOLDER] = "folder",
};

enum ref_model ref_model_of(const struct plan *plan)
{
    if (!plan_has_reference(plan))
        return REF_MODEL_NONE;
    if (plan->preference.reference)
        return REF_MODEL_FOLDER;
    return plan_has_second_model(plan) ? REF_MODEL_COPY : REF_MODEL_BASE;
}

const char *ref_model_loss(const struct plan *plan)
{
    return plan->preference.loss == PREFERENCE_KTO ? "kto"
           : plan->preference.loss == PREFERENCE_REWARD
               ? "rm"
               : schema_find("pref_loss")->values[plan->preference.loss];
}
