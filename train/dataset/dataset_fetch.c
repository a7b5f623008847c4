/* train/dataset/dataset_fetch.c - where tokens are saved, and when. */
#include "config.h"

#include "train/dataset/dataset_fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "base/walk.h"
#include "train/dataset/dataset_cache.h"

enum { ORIGIN = 320 };

/* Reading fewer tokens again takes less time than saving them safely. */
#define KEEP_TOKENS 100000

/* The folder of the token files; NULL: none. */
static const char *folder_of(const struct plan *plan)
{
    return plan->tokenized_path ? plan->tokenized_path : plan->run_dir;
}

/* A folder saved by Hugging Face datasets has another format. */
static bool check_folder(const struct plan *plan, struct error *err)
{
    static const char *const theirs[] = { "dataset_dict.json", "state.json" };
    const char *dir = plan->tokenized_path;

    for (size_t i = 0; dir && i < TS_COUNT(theirs); i++) {
        char *name = path_join(dir, theirs[i]);
        bool exists = file_exists(name);

        free(name);
        if (exists)
            return error_set(err, ERROR_DATA,
                             "tokenized_path %s holds a dataset saved by Hugging Face "
                             "datasets, which is not supported; name another folder, "
                             "and the texts in dataset",
                             dir);
    }
    return true;
}

/* From this size on (64 MiB), tokens are not kept in memory: during reading they are in a
 * temporary file, afterwards in the token file. */
#define SPILL_TOKENS ((size_t)16 << 20)

static bool save(const struct dataset_fetch *fetch, const char *path,
                 const struct dataset_tokens *tokens, struct error *err)
{
    const struct plan *plan = fetch->reading->plan;

    if (fetch->read_only || !path)
        return true;
    if (!plan->tokenized_path && tokens->store.tokens < KEEP_TOKENS) {
        walk_unlink(path); /* saved from larger data before */
        return true;
    }
    return file_make_dirs(folder_of(plan), 0777, err) &&
           dataset_cache_save(fetch->reading, path, tokens, err);
}

/* Replace the temporary file by the token file. */
static void switch_to_file(const struct dataset_fetch *fetch, const char *path,
                           struct dataset_tokens *out)
{
    struct dataset_tokens kept = { 0 };
    bool found = false;
    struct text why;

    text_init(&why, 0);
    if (dataset_cache_find(fetch->reading, path, &kept, &found, &why, NULL) && found) {
        dataset_tokens_clear(out);
        *out = kept;
    }
    text_clear(&why);
}

/* Failure to save the tokens does not stop the run. */
static bool read_texts(const struct dataset_fetch *fetch, const char *path,
                       struct dataset_tokens *out, struct dataset_notes *notes,
                       struct error *err)
{
    const struct plan *plan = fetch->reading->plan;
    struct error why = { 0 };
    struct text note;

    if (!fetch->read_only) {
        out->store.spill_dir = plan->run_dir ? plan->run_dir : plan->tokenized_path;
        out->store.spill_from = SPILL_TOKENS;
    }
    if (!dataset_tokens_read(fetch->reading, out, err))
        return false;
    if (save(fetch, path, out, &why)) {
        if (out->store.spill.data)
            switch_to_file(fetch, path, out);
        return true;
    }
    text_init(&note, 0);
    text_addf(&note, "the tokens are not saved for the next run in %s: %s", path,
              why.text);
    dataset_notes_add(notes, note.data);
    text_clear(&note);
    return true;
}

bool dataset_fetch(const struct dataset_fetch *fetch, struct dataset_tokens *out,
                   char origin[ORIGIN], struct dataset_notes *notes, struct error *err)
{
    const struct plan *plan = fetch->reading->plan;
    const char *dir = folder_of(plan);
    char *path = dir ? path_join(dir, fetch->name) : NULL;
    double started = clock_seconds();
    bool found = false, ok = check_folder(plan, err);
    struct text why;

    text_init(&why, 0);
    if (ok && path && !plan->overwrite_cache)
        ok = dataset_cache_find(fetch->reading, path, out, &found, &why, err);
    if (ok && !found)
        ok = read_texts(fetch, path, out, notes, err);
    if (found)
        snprintf(origin, ORIGIN, "tokens mapped from %s in %.3f s", path,
                 clock_seconds() - started);
    else
        snprintf(origin, ORIGIN, "texts read in %.3f s%s%s", clock_seconds() - started,
                 why.len > 0 ? "; the saved tokens are not used: " : "",
                 why.len > 0 ? why.data : "");
    text_clear(&why);
    free(path);
    return ok;
}
