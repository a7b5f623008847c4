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

/* Models of which transformers has such a class, and the start of its name
 * (models/auto/modeling_auto.py, 5.24). */
static const struct classifier {
    const char *model_type, *name;
} classifiers[] = {
    { "arcee", "Arcee" },
    { "deepseek_v2", "DeepseekV2" },
    { "deepseek_v3", "DeepseekV3" },
    { "exaone4", "Exaone4" },
    { "falcon", "Falcon" },
    { "gemma", "Gemma" },
    { "gemma2", "Gemma2" },
    { "gemma3_text", "Gemma3Text" },
    { "glm", "Glm" },
    { "glm4", "Glm4" },
    { "gpt2", "GPT2" },
    { "gpt_bigcode", "GPTBigCode" },
    { "gpt_neo", "GPTNeo" },
    { "gpt_neox", "GPTNeoX" },
    { "gptj", "GPTJ" },
    { "hunyuan_v1_dense", "HunYuanDenseV1" },
    { "llama", "Llama" },
    { "ministral3", "Ministral3" },
    { "mistral", "Mistral" },
    { "mixtral", "Mixtral" },
    { "nemotron", "Nemotron" },
    { "olmo", "Olmo" },
    { "olmo2", "Olmo2" },
    { "olmo3", "Olmo3" },
    { "opt", "OPT" },
    { "phi", "Phi" },
    { "phi3", "Phi3" },
    { "phimoe", "Phimoe" },
    { "qwen2", "Qwen2" },
    { "qwen2_moe", "Qwen2Moe" },
    { "qwen3", "Qwen3" },
    { "qwen3_5_text", "Qwen3_5Text" },
    { "qwen3_moe", "Qwen3Moe" },
    { "qwen3_next", "Qwen3Next" },
    { "seed_oss", "SeedOss" },
    { "smollm3", "SmolLM3" },
    { "stablelm", "StableLm" },
    { "starcoder2", "Starcoder2" },
};

static const char *classifier_of(const struct architecture *a)
{
    for (size_t i = 0; i < TS_COUNT(classifiers); i++)
        if (strcmp(classifiers[i].model_type, a->model_type) == 0)
            return classifiers[i].name;
    return NULL;
}

/* Return the first name under architectures, or NULL. */
static const char *class_of(const json_t *root)
{
    return json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
}

static json_t *parse(const struct model_config *config, struct error *err)
{
    return json_read_loose(config->text, config->text_len, "config.json", 1, err);
}

/* Return whether an adapter has score.weight, which PEFT saves for modules_to_save. */
static bool adapter_has_score(const char *dir)
{
    struct safetensors *set = safetensors_open(dir, "adapter_model", false, NULL);
    bool found = false;

    if (!set)
        return false;
    for (size_t i = 0; i < safetensors_count(set); i++)
        found = found || text_ends(safetensors_at(set, i)->name, ".score.weight");
    safetensors_close(set);
    return found;
}

/* Return the form that the files have, those of an adapter first; a model that has neither
 * gets the one of LLaMA-Factory. */
static enum score_kind kind_of(const struct plan *plan, const char *dir,
                               const json_t *root)
{
    const char *name = class_of(root);
    const char *adapter = plan_adapts(plan) ? plan->adapter_name_or_path : NULL;

    if (plan->preference.head != REWARD_HEAD_AUTO)
        return plan->preference.head == REWARD_HEAD_SCORE ? SCORE_LINEAR : SCORE_VALUE;
    if (adapter && safetensors_exist(adapter, SCORE_HEAD_FILE))
        return SCORE_VALUE;
    if (adapter && adapter_has_score(adapter))
        return SCORE_LINEAR;
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
    if (config->scores == SCORE_LINEAR && !classifier_of(own)) {
        json_decref(root);
        return error_set(err, ERROR_JOB,
                         "transformers has no " CLASSIFIER " of %s models; set "
                         "reward_head: value_head",
                         own->model_type);
    }
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

static bool set(struct text *text, const char *key, json_t *value, struct error *err)
{
    bool ok = json_edit_set(text, key, value, "config.json", err);

    json_decref(value);
    return ok;
}

bool score_head_edit_config(const struct model_config *config, struct text *text,
                            struct error *err)
{
    struct text name;
    bool ok;

    if (config->scores != SCORE_LINEAR)
        return true;
    text_init(&name, 0);
    text_addf(&name, "%s" CLASSIFIER, classifier_of(config->architecture));
    ok = set(text, "architectures", json_pack("[s]", name.data), err) &&
         set(text, "id2label", json_pack("{s:s}", "0", "LABEL_0"), err) &&
         set(text, "label2id", json_pack("{s:i}", "LABEL_0", 0), err) &&
         (config->score_end < 0 ||
          set(text, "pad_token_id", json_integer(config->score_end), err));
    text_clear(&name);
    return ok;
}
