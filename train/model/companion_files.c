/* train/model/companion_files.c - copies the tokenizer's files and edits the members that
 * the training's template changes; every other byte of the originals stays. */
#include "config.h"

#include "train/model/companion_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_edit.h"
#include "base/size.h"

#define FILE_BYTES_MAX ((size_t)256 << 20)

#define TOKENIZER         "tokenizer.json"
#define TOKENIZER_CONFIG  "tokenizer_config.json"
#define SPECIAL_TOKENS    "special_tokens_map.json"
#define GENERATION_CONFIG "generation_config.json"
#define CHAT_TEMPLATE     "chat_template.jinja"

/* Files that are copied as they are. */
static const char *const copied[] = {
    TOKENIZER,
    "added_tokens.json",
    "tokenizer.model",
    "tekken.json",
    "qwen.tiktoken",
    "vocab.json",
    "merges.txt",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "chat_template.json",
    CHAT_TEMPLATE,
    "additional_chat_templates/tool_use.jinja",
    /* the code of models that transformers does not have */
    "configuration_exaone.py",
    "configuration_internlm2.py",
    "configuration_internlm3.py",
    "configuration_mimo.py",
    "configuration_minicpm.py",
    "configuration_phi4mm.py",
    "configuration_qwen.py",
    "cpp_kernels.py",
    "modeling_exaone.py",
    "modeling_internlm2.py",
    "modeling_internlm3.py",
    "modeling_mimo.py",
    "modeling_minicpm.py",
    "modeling_phi4mm.py",
    "modeling_qwen.py",
    "processing_phi4mm.py",
    "qwen_generation_utils.py",
    "speech_conformer_encoder.py",
    "tokenization_internlm2.py",
    "tokenization_internlm2_fast.py",
    "tokenization_internlm3.py",
    "tokenization_qwen.py",
    "vision_siglip_navit.py",
};

static bool write_file(const char *dir, const char *name, const struct text *text,
                       struct error *err)
{
    char *path = path_join(dir, name);
    bool ok = file_replace(path, text->data, text->len, 0666, err);

    free(path);
    return ok;
}

/* Read a file of the original model; *exists is false, and the text empty, if there is
 * none. */
static bool read_file(const struct companion_files *files, const char *name,
                      struct text *text, bool *exists, struct error *err)
{
    char *path = path_join(files->from, name);
    bool ok = true;

    text_init(text, FILE_BYTES_MAX);
    *exists = file_exists(path);
    if (*exists)
        ok = file_read(path, FILE_BYTES_MAX, text, NULL, err);
    free(path);
    return ok;
}

/* Create the folder of a name with a slash. */
static bool make_parent(const char *dir, const char *name, struct error *err)
{
    const char *slash = strchr(name, '/');
    char *folder, *path;
    bool ok;

    if (!slash)
        return true;
    folder = strndup(name, (size_t)(slash - name));
    path = folder ? path_join(dir, folder) : NULL;
    ok = path && file_make_dirs(path, 0777, err);
    free(folder);
    free(path);
    return ok;
}

/* Set a member; the reference to `value` is taken. */
static bool set_member(struct text *text, const char *key, json_t *value,
                       const char *where, struct error *err)
{
    bool ok = json_edit_set(text, key, value, where, err);

    json_decref(value);
    return ok;
}

/* Append the new tokens to those of tokenizer.json. */
static bool add_tokens(struct text *text, const json_t *more, struct error *err)
{
    json_t *root = json_read_loose(text->data, text->len, TOKENIZER, 1, err);
    json_t *list = json_deep_copy(json_object_get(root, "added_tokens"));
    bool ok = root != NULL;

    list = json_is_array(list) ? list : json_array();
    json_array_extend(list, (json_t *)more);
    json_decref(root);
    if (ok)
        return set_member(text, "added_tokens", list, TOKENIZER, err);
    json_decref(list);
    return false;
}

static bool copy_file(const struct companion_files *files, const char *dir,
                      const char *name, struct error *err)
{
    struct text text;
    bool exists;
    bool ok = read_file(files, name, &text, &exists, err);

    if (ok && exists && files->saving && files->saving->new_tokens &&
        strcmp(name, TOKENIZER) == 0)
        ok = add_tokens(&text, files->saving->new_tokens, err);
    if (ok && exists)
        ok = make_parent(dir, name, err) && write_file(dir, name, &text, err);
    text_clear(&text);
    return ok;
}

static bool set_token(struct text *text, const char *key, const char *token,
                      const char *where, struct error *err)
{
    return !token || set_member(text, key, json_string(token), where, err);
}

/* Append the stops to the list of special tokens; transformers 5 calls it
 * extra_special_tokens, which is an object in transformers 4. */
static bool add_stops(struct text *text, const struct template_saving *saving,
                      const char *where, struct error *err)
{
    json_t *root = json_read_loose(text->data, text->len, where, 1, err);
    json_t *list = json_object_get(root, "extra_special_tokens");
    const char *key =
        json_is_array(list) ? "extra_special_tokens" : "additional_special_tokens";
    bool ok = root != NULL;

    list = json_deep_copy(json_object_get(root, key));
    list = json_is_array(list) ? list : json_array();
    for (size_t i = 0; i < saving->stop_count; i++) {
        json_t *stop = json_string(saving->stops[i]);
        bool known = false;

        for (size_t j = 0; j < json_array_size(list); j++) {
            const json_t *one = json_array_get(list, j);

            known |= json_equal(one, stop) ||
                     json_equal(json_object_get(one, "content"), stop);
        }
        if (!known)
            json_array_append(list, stop);
        json_decref(stop);
    }
    json_decref(root);
    if (ok && saving->stop_count > 0)
        return set_member(text, key, list, where, err);
    json_decref(list);
    return ok;
}

/* Edit tokenizer_config.json or special_tokens_map.json; the former is created. */
static bool write_tokens(const struct companion_files *files, const char *dir,
                         const char *name, struct error *err)
{
    const struct template_saving *saving = files->saving;
    bool is_config = strcmp(name, TOKENIZER_CONFIG) == 0;
    struct text text;
    bool exists;
    bool ok = read_file(files, name, &text, &exists, err);

    if (ok && !exists && is_config && saving)
        text_adds(&text, "{\n}\n");
    if (ok && text.len > 0 && saving) {
        ok = set_token(&text, "eos_token", saving->eos_token, name, err) &&
             set_token(&text, "pad_token", saving->pad_token, name, err) &&
             add_stops(&text, saving, name, err);
        if (is_config)
            ok =
                ok && set_token(&text, "chat_template", saving->chat_template, name, err);
    }
    if (ok && text.len > 0)
        ok = write_file(dir, name, &text, err);
    text_clear(&text);
    return ok;
}

static void add_id(json_t *list, json_t *id)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), id)) {
            json_decref(id);
            return;
        }
    json_array_append_new(list, id);
}

/* The ids that end an answer: the tokenizer's first, then those that the file has, then
 * the stops. */
static json_t *end_ids(const struct template_saving *saving, const json_t *config)
{
    const json_t *old = json_object_get(config, "eos_token_id");
    json_t *list = json_array();

    add_id(list, json_integer(saving->eos_id));
    if (json_is_integer(old))
        add_id(list, json_integer(json_integer_value(old)));
    for (size_t i = 0; i < json_array_size(old); i++)
        add_id(list, json_deep_copy(json_array_get(old, i)));
    for (size_t i = 0; i < saving->stop_count; i++)
        add_id(list, json_integer(saving->stop_ids[i]));
    return list;
}

static bool edit_generation(const struct template_saving *saving, struct text *text,
                            struct error *err)
{
    json_t *config = json_read_loose(text->data, text->len, GENERATION_CONFIG, 1, err);
    bool ok = config && set_member(text, "eos_token_id", end_ids(saving, config),
                                   GENERATION_CONFIG, err);

    if (ok && !json_is_integer(json_object_get(config, "pad_token_id")))
        ok = set_member(text, "pad_token_id", json_integer(saving->pad_id),
                        GENERATION_CONFIG, err);
    json_decref(config);
    return ok;
}

/* transformers derives a missing generation_config.json from config.json. */
static bool write_generation(const struct companion_files *files, const char *dir,
                             struct error *err)
{
    const struct template_saving *saving = files->saving;
    struct text text;
    bool exists;
    bool ok = read_file(files, GENERATION_CONFIG, &text, &exists, err);

    if (ok && !exists && saving && saving->eos_id >= 0)
        text_adds(&text, "{\n  \"_from_model_config\": true\n}\n");
    if (ok && text.len > 0 && saving && saving->eos_id >= 0)
        ok = edit_generation(saving, &text, err);
    if (ok && text.len > 0)
        ok = write_file(dir, GENERATION_CONFIG, &text, err);
    text_clear(&text);
    return ok;
}

static bool write_string(const char *dir, const char *name, const char *string,
                         struct error *err)
{
    struct text text;
    bool ok;

    if (!string)
        return true;
    text_init(&text, 0);
    text_adds(&text, string);
    ok = write_file(dir, name, &text, err);
    text_clear(&text);
    return ok;
}

bool companion_files_write(const struct companion_files *files, const char *dir,
                           struct error *err)
{
    const struct template_saving *saving = files->saving;
    bool ok = true;

    for (size_t i = 0; ok && i < TS_COUNT(copied); i++)
        ok = copy_file(files, dir, copied[i], err);
    return ok && write_tokens(files, dir, TOKENIZER_CONFIG, err) &&
           write_tokens(files, dir, SPECIAL_TOKENS, err) &&
           (files->adapter || write_generation(files, dir, err)) &&
           (!saving || write_string(dir, CHAT_TEMPLATE, saving->chat_template, err)) &&
           (!saving || !files->modelfile ||
            write_string(dir, "Modelfile", saving->modelfile, err));
}

bool companion_files_edit_config(const struct template_saving *saving,
                                 struct text *config, struct error *err)
{
    if (!saving || !saving->eos_token)
        return true;
    return set_member(config, "eos_token_id", json_integer(saving->eos_id), "config.json",
                      err) &&
           set_member(config, "pad_token_id", json_integer(saving->pad_id), "config.json",
                      err);
}

bool companion_files_drop_quantization(struct text *config, struct error *err)
{
    json_t *root = json_read_loose(config->data, config->len, "config.json", 1, err);
    bool ok = root != NULL;

    if (ok) {
        json_object_del(root, "quantization_config");
        json_object_del(json_object_get(root, "text_config"), "quantization_config");
        text_reset(config);
        ok = json_write_pretty(root, config);
    }
    json_decref(root);
    return ok;
}
