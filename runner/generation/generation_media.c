/* runner/generation/generation_media.c - images and sounds of prompts: those of the command
 * line, and the rows that the model's encoder makes of all. */
#include "config.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/file.h"
#include "base/path.h"
#include "base/stop.h"
#include "runner/generation/generation_internal.h"
#include "train/media/media_family.h"
#include "train/media_rows.h"

/* A process that ended early leaves its folder. */
#define LEFT_SECONDS (24 * 3600)

/* The options, by what they give. */
static const char *option_of(enum media_kind kind)
{
    return kind == MEDIA_IMAGE ? "--image" : "--audio";
}

static const char *const *files_of(const struct generator *g, enum media_kind kind)
{
    static const char *const none[] = { NULL };
    const char *const *files =
        kind == MEDIA_IMAGE ? g->options->image_files : g->options->audio_files;

    return files ? files : none;
}

static size_t count_files(const struct generator *g, enum media_kind kind)
{
    size_t count = 0;

    while (files_of(g, kind)[count])
        count++;
    return count;
}

/* ---- Before anything is read ---- */

static bool check_file(const struct generator *g, enum media_kind kind, const char *file,
                       struct error *err)
{
    if (g->target.plan.features) /* it is the name of rows there */
        return true;
    if (!file_exists(file))
        return error_set(err, ERROR_DATA, "%s: there is no file %s", option_of(kind),
                         file);
    return !file_is_dir(file) ||
           error_set(err, ERROR_DATA, "%s: %s is a folder, not a file", option_of(kind),
                     file);
}

static bool check_kind(const struct generator *g, enum media_kind kind, struct error *err)
{
    const struct media_family *family = g->family;
    const char *const *files = files_of(g, kind);

    if (files[0] && (!family || family->kind != kind))
        return error_set(err, ERROR_USAGE,
                         "%s: a model of model_type %s reads text%s%s here; leave the "
                         "option out",
                         option_of(kind), g->model_type ? g->model_type : "unknown",
                         family ? " and " : " alone",
                         family ? media_nouns(family->kind) : "");
    for (size_t i = 0; files[i]; i++)
        if (!check_file(g, kind, files[i], err))
            return false;
    return true;
}

static bool is_given(const struct generator *g)
{
    return count_files(g, MEDIA_IMAGE) + count_files(g, MEDIA_AUDIO) > 0;
}

/* Remove folders that no process fills any longer. */
static void remove_old(const char *dir)
{
    DIR *stream = opendir(dir);
    const struct dirent *entry;

    while (stream && (entry = readdir(stream))) {
        char *name = path_join(dir, entry->d_name);
        struct error none = { 0 };
        struct stat st;

        if (entry->d_name[0] != '.' && lstat(name, &st) == 0 && S_ISDIR(st.st_mode) &&
            time(NULL) - st.st_mtime > LEFT_SECONDS)
            file_remove_tree(name, &none);
        free(name);
    }
    if (stream)
        closedir(stream);
}

/* Name a folder of this process, in one that the containment lets it write to. */
static bool name_folder(struct generator *g, struct error *err)
{
    char *cache = cache_folder(), *parent, own[64];
    bool ok;

    if (!cache)
        return error_set(err, ERROR_SYSTEM,
                         "the rows of images and sounds require a folder: set HOME or "
                         "XDG_CACHE_HOME");
    parent = path_join(cache, "media");
    free(cache);
    snprintf(own, sizeof(own), "%ld-%" PRIx64, (long)getpid(), (uint64_t)time(NULL));
    ok = file_make_dirs(parent, 0700, err);
    if (ok) {
        remove_old(parent);
        g->media_dir = path_join(parent, own);
        g->media_parent = parent;
    } else {
        free(parent);
    }
    return ok;
}

bool generation_media_open(struct generator *g, struct error *err)
{
    struct plan *plan = &g->target.plan;

    g->family = media_family_read(plan->model_name_or_path, &g->model_type);
    for (int kind = 0; kind < MEDIA_KINDS; kind++)
        if (!check_kind(g, (enum media_kind)kind, err))
            return false;
    if (!g->family || plan->features)
        return true;
    if (!name_folder(g, &g->no_folder)) /* prompts of text need none */
        return !is_given(g) || error_set(err, g->no_folder.code, "%s", g->no_folder.text);
    plan->run_dir = g->questions.contents = g->media_dir;
    return true;
}

size_t generation_media_paths(const struct generator *g, struct contained_path *out,
                              size_t room)
{
    size_t count = 0;

    for (int kind = 0; kind < MEDIA_KINDS; kind++)
        for (const char *const *file = files_of(g, (enum media_kind)kind); *file;
             file++, count++)
            if (count < room)
                out[count] = (struct contained_path) { *file, LANDLOCK_READ };
    return count;
}

/* ---- The command line's ---- */

static bool fail_counts(const struct generator *g, enum media_kind kind, size_t prompt,
                        size_t found, struct error *err)
{
    const size_t files = count_files(g, kind);

    return error_set(err, ERROR_USAGE,
                     "prompt %zu has %zu %s for %zu file%s of %s; give as many of one as "
                     "of the other",
                     prompt + 1, found, media_placeholder(kind), files,
                     files == 1 ? "" : "s", option_of(kind));
}

/* Without placeholders, they are in front, as in LLaMA-Factory's chat and API. */
static bool give_kind(struct generator *g, enum media_kind kind, size_t prompt,
                      struct error *err)
{
    struct eval_prompt *question = &g->questions.list[prompt];
    struct message *message = &question->messages[question->count - 1];
    const size_t files = count_files(g, kind);
    const size_t found = media_placeholders(kind, message->text, message->len);
    struct text text;

    if (found > 0 || files == 0)
        return found == files || fail_counts(g, kind, prompt, found, err);
    text_init(&text, 0);
    for (size_t i = 0; i < files; i++)
        text_adds(&text, media_placeholder(kind));
    text_add(&text, message->text, message->len);
    message->len = text.len;
    message->text = arena_copy(g->questions.arena, text.data, text.len);
    text_clear(&text);
    return true;
}

static bool give_files(struct generator *g, size_t prompt, struct error *err)
{
    struct eval_prompt *question = &g->questions.list[prompt];
    const enum media_kind kind = g->family->kind;
    const size_t count = count_files(g, kind);

    for (int other = 0; other < MEDIA_KINDS; other++)
        if (!give_kind(g, (enum media_kind)other, prompt, err))
            return false;
    question->media = arena_array(g->questions.arena, count, sizeof(*question->media));
    question->media_count = count;
    for (size_t i = 0; i < count; i++) {
        const char *file = files_of(g, kind)[i];
        char *path = g->target.plan.features ? NULL : path_absolute(file);

        question->media[i] = (struct record_medium) {
            .kind = kind,
            .path = arena_strdup(g->questions.arena, path ? path : file),
        };
        free(path);
    }
    return true;
}

/* Fail if a record has media, and there is no folder for their rows. */
static bool check_folder(const struct generator *g, struct error *err)
{
    for (size_t i = 0; i < g->questions.count; i++)
        if (g->questions.list[i].media_count > 0 && g->no_folder.code)
            return error_set(err, g->no_folder.code, "%s", g->no_folder.text);
    return true;
}

bool generation_media_give(struct generator *g, struct error *err)
{
    size_t texts = 0;

    if (!check_folder(g, err))
        return false;
    for (size_t i = 0; g->family && i < g->questions.count; i++) {
        const struct eval_prompt *question = &g->questions.list[i];

        if (question->file)
            continue;
        texts++;
        if (!give_files(g, i, err))
            return false;
    }
    for (int kind = 0; kind < MEDIA_KINDS && texts == 0; kind++)
        if (count_files(g, (enum media_kind)kind) > 0)
            return error_set(err, ERROR_USAGE,
                             "%s gives files to texts, of --prompt or of lines; the "
                             "prompts are records, which name their own",
                             option_of((enum media_kind)kind));
    return true;
}

/* ---- The rows ---- */

bool generation_media_check(struct generator *g, struct error *err)
{
    const struct run_media_data data = { .eval = g->data };

    return run_media_check(&g->target.plan, &g->config, &data, err) &&
           run_media_open(&g->target.plan, &data, &g->media, err);
}

/* The files of the rows are mapped, so their names can go. */
bool generation_media_encode(struct generator *g, struct error *err)
{
    const struct media_rows_options how = { .plan = &g->target.plan,
                                            .backend = g->be,
                                            .heartbeat = &g->heartbeat };
    bool ok;

    if (dataset_media(g->data) == 0)
        return true;
    g->heartbeat.stop = stop_catch();
    ok = run_media_compute(&g->media, &g->config, how, err);
    generation_media_remove(g);
    return ok;
}

void generation_media_remove(struct generator *g)
{
    struct error none = { 0 };

    if (g->media_dir && file_is_dir(g->media_dir))
        file_remove_tree(g->media_dir, &none);
}

void generation_media_list(struct generator *g)
{
    g->media_of = memory_resize(NULL, g->questions.count + 1, sizeof(*g->media_of));
    for (size_t i = 0; i < g->questions.count; i++) {
        const struct dataset_question question = dataset_prompted_question(g->data, i);

        dataset_question_media(g->data, i, &question, g->target.arena, &g->media_of[i]);
    }
}

/* A medium that a record contains has no name but its digest, which is that of a file here. */
json_t *generation_media_names(const struct generator *g, size_t prompt)
{
    const struct question_media *media = &g->media_of[prompt];
    json_t *list = json_array();

    for (size_t i = 0; i < media->media_count; i++) {
        const char *key = media->media[i].item->key;
        const bool contained = g->media_dir && text_starts(key, g->media_dir);

        json_array_append_new(list, json_string(contained ? path_base(key) : key));
    }
    return list;
}

bool generation_media_contained(const struct generator *g, struct error *err)
{
    for (size_t i = 0; i < g->questions.count; i++) {
        const struct eval_prompt *question = &g->questions.list[i];

        for (size_t k = 0; k < question->media_count; k++)
            if (g->media_dir && text_starts(question->media[k].path, g->media_dir))
                return error_at(err, ERROR_DATA, question->file, question->at,
                                "--keep-correct writes records that name files, and this "
                                "one contains %s; save it as a file, and write its path",
                                media_one(question->media[k].kind));
    }
    return true;
}

void generation_media_close(struct generator *g)
{
    run_media_close(&g->media);
    generation_media_remove(g);
    dataset_close(g->data);
    free(g->media_of);
    free(g->media_dir);
    free(g->media_parent);
    free(g->model_type);
}
