/* train/model/score_head.c - gives the configuration of a model the head of a reward
 * model. */
#include "config.h"

#include "train/model/score_head.h"

#include <string.h>

#include "base/json_edit.h"
#include "base/size.h"
#include "base/text.h"
#include "train/files/safetensors.h"

#define CLASSIFIER "ForSequenceClassification"

/* Return the first name under architectures, or NULL. */
static const char *class_of(const json_t *root)
{
    return json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
}

static json_t *parse(const struct model_config *config, struct error *err)
{
    return json_read_loose(config->text, config->text_len, "config.json", 1, err);
}

/* Return the form that the files have; a model that has neither gets the one of
 * LLaMA-Factory. */
static enum score_kind kind_of(const struct plan *plan, const char *dir,
                               const json_t *root)
{
    const char *name = class_of(root);

    if (plan->preference.head != REWARD_HEAD_AUTO)
        return plan->preference.head == REWARD_HEAD_SCORE ? SCORE_LINEAR : SCORE_VALUE;
    if (safetensors_exist(dir, SCORE_HEAD_FILE))
        return SCORE_VALUE;
    return name && text_ends(name, CLASSIFIER) ? SCORE_LINEAR : SCORE_VALUE;
}

/* Return the token that transformers skips at the end of an answer. */
static int64_t end_of(const struct model_config *config, const json_t *root)
{
    const json_t *pad = json_object_get(root, "pad_token_id");

    if (json_is_integer(pad))
        return json_integer_value(pad);
    return config->eos_tokens > 0 ? config->eos_token_ids[0] : -1;
}

bool score_head_apply(const struct plan *plan, const char *dir, struct arena *arena,
                      struct model_config *config, struct error *err)
{
    struct architecture *own = arena_alloc(arena, sizeof(*own));
    json_t *root;

    if (config->multimodal)
        return error_set(err, ERROR_JOB,
                         "stage: rm trains models of text, and a %s model has towers",
                         config->multimodal->model_type);
    root = parse(config, err);
    if (!root)
        return false;
    *own = *config->architecture;
    config->scores = kind_of(plan, dir, root);
    config->score_end = config->scores == SCORE_LINEAR ? end_of(config, root) : -1;
    config->token_head = own->paths[MODULE_HEAD];
    own->paths[MODULE_HEAD] = config->scores == SCORE_LINEAR ? "score" : "v_head.summary";
    config->architecture = own;
    config->tied = false;
    config->head_bias = config->scores == SCORE_VALUE;
    config->logit_scale = 1;
    config->logit_softcap = 0;
    json_decref(root);
    return true;
}

bool score_head_replaces(const struct model_config *config, const char *name)
{
    size_t len = config->scores ? strlen(config->token_head) : 0;

    return config->scores && text_starts(name, config->token_head) && name[len] == '.';
}

/* "LlamaForCausalLM" -> "LlamaForSequenceClassification" */
static bool set_class(const json_t *root, struct text *text, struct error *err)
{
    static const char *const ends[] = { "ForCausalLM", "LMHeadModel" };
    const char *name = class_of(root);
    size_t len = 0;
    struct text class;
    json_t *list;
    bool ok;

    if (!name || text_ends(name, CLASSIFIER))
        return true;
    for (size_t i = 0; i < TS_COUNT(ends); i++)
        if (text_ends(name, ends[i]))
            len = strlen(name) - strlen(ends[i]);
    text_init(&class, 0);
    text_add(&class, name, len ? len : strlen(name));
    text_adds(&class, CLASSIFIER);
    list = json_pack("[s]", class.data);
    ok = json_edit_set(text, "architectures", list, "config.json", err);
    json_decref(list);
    text_clear(&class);
    return ok;
}

static bool set(struct text *text, const char *key, json_t *value, struct error *err)
{
    bool ok = json_edit_set(text, key, value, "config.json", err);

    json_decref(value);
    return ok;
}

bool score_head_edit_config(const struct model_config *config, struct text *text,
                            struct error *err)
{
    json_t *root;
    bool ok;

    if (config->scores != SCORE_LINEAR)
        return true;
    root = parse(config, err);
    ok = root && set_class(root, text, err) &&
         set(text, "id2label", json_pack("{s:s}", "0", "LABEL_0"), err) &&
         set(text, "label2id", json_pack("{s:i}", "LABEL_0", 0), err) &&
         (config->score_end < 0 ||
          set(text, "pad_token_id", json_integer(config->score_end), err));
    json_decref(root);
    return ok;
}
