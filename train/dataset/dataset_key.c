/* train/dataset/dataset_key.c - options as JSON that is compared as a whole; files by
 * size and time, or by digest if these are inconclusive. */
#include "config.h"

#include "train/dataset/dataset_key.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/size.h"
#include "train/dataset/dataset_media_files.h"
#include "train/dataset/dataset_plan.h"

/* File system clocks are coarse: a file changed just before the tokens were saved can
 * change again within the same tick. */
enum { RACY_SECONDS = 2 };

/* ---- Options ---- */

/* Hash the tokens that template and tokenizer make of fixed conversations, with and
 * without a system message. The model's own template is identified by its file. */
static bool hash_probe(const struct dataset_reading *reading, char digest[DIGEST_TEXT],
                       struct error *err)
{
    static const char question[] = "What is 12 + 7?\n  (\xc3\xbc\xe4\xbd\xa0)",
                      answer[] = "19.";
    static const struct message messages[] = {
        { ROLE_SYSTEM, answer, sizeof(answer) - 1, 0, NULL },
        { ROLE_USER, question, sizeof(question) - 1, 0, NULL },
        { ROLE_ASSISTANT, answer, sizeof(answer) - 1, 1, NULL },
        { ROLE_USER, answer, sizeof(answer) - 1, 0, NULL },
        { ROLE_ASSISTANT, question, sizeof(question) - 1, 1, NULL },
    };
    const struct template_options options = { 0 };
    const struct template_request with_system = { reading->chat, reading->tokenizer,
                                                  &options, messages,
                                                  TS_COUNT(messages) };
    const struct template_request without_system = { reading->chat, reading->tokenizer,
                                                     &options, messages + 1,
                                                     TS_COUNT(messages) - 1 };
    struct token_list ids = { 0 };
    float *weights = NULL;
    bool ok = reading->chat && !template_model_chat(reading->chat)
                  ? template_encode(&with_system, &ids, &weights, err) &&
                        template_encode(&without_system, &ids, &weights, err)
                  : tokenizer_encode(reading->tokenizer, question, sizeof(question) - 1,
                                     false, &ids, err);

    if (ok)
        digest_bytes(ids.ids, ids.count * sizeof(*ids.ids), digest);
    token_list_clear(&ids);
    free(weights);
    return ok;
}

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

/* List all columns; the struct contains only column names. */
static json_t *list_columns(const struct dataset_columns *columns)
{
    const char *const names[] = {
        columns->prompt,       columns->query,         columns->response,
        columns->history,      columns->system,        columns->tools,
        columns->messages,     columns->role_tag,      columns->content_tag,
        columns->user_tag,     columns->assistant_tag, columns->observation_tag,
        columns->function_tag, columns->system_tag,    columns->chosen,
        columns->rejected,     columns->kto_tag,       columns->images,
        columns->audios,
    };
    json_t *list = json_array();

    _Static_assert(sizeof(names) == sizeof(*columns), "each column is a part of the key");
    for (size_t i = 0; i < TS_COUNT(names); i++)
        json_array_append_new(list, text_or_null(names[i]));
    return list;
}

/* Describe what is read from a source. The selection of samples does not change the
 * tokens. */
static json_t *describe_source(const struct dataset_reading *reading,
                               const struct dataset_source *source, struct error *err)
{
    const char *const *files;
    json_t *paths;
    size_t count;

    if (!dataset_source_files(source, reading->arena, &files, &count, err))
        return NULL;
    paths = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(paths, json_string(files[i]));
    return json_pack("{s:o, s:i, s:b, s:I, s:o}", "files", paths, "form",
                     (int)source->form, "lines", source->lines, "limit",
                     (json_int_t)dataset_plan_limit(reading->plan, source), "columns",
                     list_columns(&source->columns));
}

/* A rebuilt program may produce other tokens. */
static json_t *describe_program(void)
{
    struct stat st = { 0 };

    if (stat("/proc/self/exe", &st) != 0)
        st.st_size = 0;
    return json_pack("[s, I, I]", PACKAGE_VERSION, (json_int_t)st.st_size,
                     (json_int_t)st.st_mtime);
}

/* Add what determines the rows of media, for a model that reads them. */
static void describe_media(const struct dataset_reading *reading, json_t *options)
{
    const struct plan *plan = reading->plan;
    struct dataset_media_files *files = dataset_media_files_new(reading, NULL);
    const struct media_family *family = dataset_media_files_family(files);

    if (family)
        json_object_set_new(
            options, "media",
            json_pack("{s:s, s:o, s:o, s:I, s:I, s:b, s:I}", "model", family->model_type,
                      "media_dir", text_or_null(plan->media_dir), "features",
                      text_or_null(plan->features), "image_max_pixels",
                      (json_int_t)plan->image_max_pixels, "image_min_pixels",
                      (json_int_t)plan->image_min_pixels, "crop_to_patches",
                      plan->crop_to_patches, "audio_sampling_rate",
                      (json_int_t)plan->audio_sampling_rate));
    dataset_media_files_free(files);
}

json_t *dataset_key_options(const struct dataset_reading *reading, struct error *err)
{
    const struct plan *plan = reading->plan;
    json_t *sources = json_array(), *source, *options;
    char digest[DIGEST_TEXT];
    bool ok = hash_probe(reading, digest, err);

    for (size_t i = 0; ok && i < reading->sources.count; i++) {
        source = describe_source(reading, &reading->sources.list[i], err);
        ok = source && json_array_append_new(sources, source) == 0;
    }
    if (!ok) {
        json_decref(sources);
        return NULL;
    }
    options = json_pack(
        "{s:o, s:i, s:o, s:s, s:o, s:b, s:b, s:b, s:I, s:b, s:b, s:I, s:o}", "program",
        describe_program(), "stage", (int)plan->stage, "template",
        text_or_null(reading->chat ? template_row_name(reading->chat) : NULL), "probe",
        digest, "default_system", text_or_null(plan->default_system), "train_on_prompt",
        plan->train_on_prompt, "enable_thinking", plan->enable_thinking, "mask_history",
        plan->mask_history, "cutoff_len", (json_int_t)plan->cutoff_len, "whole",
        reading->whole, "packing", dataset_is_packed(plan), "max_samples",
        (json_int_t)plan->max_samples, "sources", sources);
    describe_media(reading, options);
    if (tokenizer_new_tokens(reading->tokenizer))
        json_object_set(options, "new_tokens",
                        (json_t *)tokenizer_new_tokens(reading->tokenizer));
    return options;
}

/* ---- Files ---- */

/* Paths of the data and of the tokenizer's files, in the arena. */
struct inputs {
    const char **paths;
    size_t count;
};

static void add_inputs(const struct dataset_reading *reading, struct inputs *inputs,
                       const char *const *paths, size_t count)
{
    const char **joined =
        arena_array(reading->arena, inputs->count + count, sizeof(*joined));

    if (inputs->count > 0)
        memcpy(joined, inputs->paths, inputs->count * sizeof(*joined));
    memcpy(joined + inputs->count, paths, count * sizeof(*joined));
    inputs->paths = joined;
    inputs->count += count;
}

static void add_tokenizer(const struct dataset_reading *reading, struct inputs *inputs)
{
    static const char *const names[] = { "tokenizer.json",
                                         "tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "chat_template.jinja",
                                         "chat_template.json",
                                         "vocab.json",
                                         "tokenizer.model",
                                         "tekken.json",
                                         "qwen.tiktoken",
                                         "merges.txt",
                                         "additional_chat_templates/tool_use.jinja",
                                         "preprocessor_config.json",
                                         "processor_config.json",
                                         "config.json" };
    const char *model = reading->plan->model_name_or_path;

    for (size_t i = 0; model && i < TS_COUNT(names); i++) {
        char *path = path_join(model, names[i]);
        const char *kept = arena_strdup(reading->arena, path);

        if (file_exists(path))
            add_inputs(reading, inputs, &kept, 1);
        free(path);
    }
}

static void add_features(const struct dataset_reading *reading, struct inputs *inputs)
{
    const char *name = reading->plan->features;
    char *path;
    const char *kept;

    if (!name)
        return;
    path =
        file_is_dir(name) ? path_join(name, "features.safetensors") : memory_strdup(name);
    kept = arena_strdup(reading->arena, path);
    if (file_exists(path))
        add_inputs(reading, inputs, &kept, 1);
    free(path);
}

static bool list_inputs(const struct dataset_reading *reading, struct inputs *out,
                        struct error *err)
{
    const char *const *files;
    size_t count;

    *out = (struct inputs) { 0 };
    add_tokenizer(reading, out);
    add_features(reading, out);
    for (size_t i = 0; i < reading->sources.count; i++) {
        if (!dataset_source_files(&reading->sources.list[i], reading->arena, &files,
                                  &count, err))
            return false;
        add_inputs(reading, out, files, count);
    }
    return true;
}

static json_t *describe_file(const char *path, struct heartbeat *heartbeat,
                             struct error *err)
{
    char digest[DIGEST_TEXT];
    struct stat st;

    if (stat(path, &st) != 0) {
        error_errno(err, "cannot stat %s", path);
        return NULL;
    }
    if (!digest_large_file(path, heartbeat, digest, err))
        return NULL;
    return json_pack("{s:s, s:I, s:[I, I], s:s}", "path", path, "bytes",
                     (json_int_t)st.st_size, "mtime", (json_int_t)st.st_mtim.tv_sec,
                     (json_int_t)st.st_mtim.tv_nsec, "sha256", digest);
}

json_t *dataset_key_files(const struct dataset_reading *reading, struct error *err)
{
    json_t *list = json_array(), *file;
    struct inputs inputs;

    if (!list_inputs(reading, &inputs, err)) {
        json_decref(list);
        return NULL;
    }
    for (size_t i = 0; i < inputs.count; i++) {
        file =
            describe_file(inputs.paths[i], tokenizer_heartbeat(reading->tokenizer), err);
        if (!file) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, file);
    }
    return list;
}

static int64_t get_integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Compare size and time if they can be trusted, otherwise the content. */
static bool is_same(const json_t *file, const char *path, int64_t kept,
                    struct heartbeat *heartbeat)
{
    const json_t *mtime = json_object_get(file, "mtime");
    const char *digest = json_string_value(json_object_get(file, "sha256"));
    const char *was = json_string_value(json_object_get(file, "path"));
    char present_digest[DIGEST_TEXT];
    struct stat st;

    if (!was || !digest || strcmp(was, path) != 0 || stat(path, &st) != 0 ||
        st.st_size != get_integer(file, "bytes"))
        return false;
    if (st.st_mtim.tv_sec == json_integer_value(json_array_get(mtime, 0)) &&
        st.st_mtim.tv_nsec == json_integer_value(json_array_get(mtime, 1)) &&
        st.st_mtim.tv_sec < kept - RACY_SECONDS)
        return true;
    return digest_large_file(path, heartbeat, present_digest, NULL) &&
           strcmp(present_digest, digest) == 0;
}

bool dataset_key_medium_matches(const struct stored_medium *medium, const char *path,
                                int64_t kept, struct heartbeat *heartbeat)
{
    uint8_t digest[sizeof(medium->digest)];
    char text[DIGEST_TEXT];
    struct stat st;

    if (stat(path, &st) != 0 || (uint64_t)st.st_size != medium->bytes)
        return false;
    if (medium->seconds == 0 || (st.st_mtim.tv_sec == medium->seconds &&
                                 st.st_mtim.tv_nsec == medium->nanoseconds &&
                                 st.st_mtim.tv_sec < kept - RACY_SECONDS))
        return true;
    if (!digest_large_file(path, heartbeat, text, NULL))
        return false;
    dataset_media_files_digest(text, digest);
    return memcmp(digest, medium->digest, sizeof(digest)) == 0;
}

bool dataset_key_matches(const struct dataset_reading *reading, const json_t *files,
                         int64_t kept, struct text *why)
{
    struct inputs inputs;

    if (!list_inputs(reading, &inputs, NULL) || inputs.count != json_array_size(files)) {
        text_adds(why, "the list of files differs");
        return false;
    }
    for (size_t i = 0; i < inputs.count; i++)
        if (!is_same(json_array_get(files, i), inputs.paths[i], kept,
                     tokenizer_heartbeat(reading->tokenizer))) {
            text_addf(why, "%s has changed", inputs.paths[i]);
            return false;
        }
    return true;
}
