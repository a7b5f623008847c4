/* train/checkpoint/team.c - which ranks see a folder, and what they wrote. */
#include "config.h"

#include "train/checkpoint/team.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/walk.h"
#include "train/model/parallel.h"

#define LOOK_SECONDS     1.0  /* for a new file of rank 0 to appear on another machine */
#define PATIENCE_SECONDS 30.0 /* the same for a file of theirs, which is known to exist */

/* ---- Who sees the folder ---- */

/* Rank 0: create a file whose name no machine can have seen before. */
static bool make_mark(struct team *team, char **name, struct error *err)
{
    uint64_t number[2] = { 0 };
    struct text text;

    if (getrandom(number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return error_errno(err, "cannot make a random name");
    text_init(&text, 0);
    text_addf(&text, ".ranks-%016" PRIx64 "%016" PRIx64, number[0], number[1]);
    *name = text_detach(&text, NULL);
    team->mark = path_join(team->share.dir, *name);
    return file_create(team->mark, "", 0, 0666, err);
}

/* Other ranks: look for it. */
static bool sees(const struct team *team, const char *name)
{
    const double until = clock_seconds() + LOOK_SECONDS;
    char *path = path_join(team->share.dir, name);
    bool found;

    while (!(found = file_exists(path)) && clock_seconds() < until)
        poll(NULL, 0, 20);
    free(path);
    return found;
}

/* Rank 0: receive "1" or "0" from each rank, and send all to each. */
static bool collect_sight(const struct team *team, char *all, struct error *err)
{
    bool ok = true;

    all[0] = '1';
    for (size_t r = 1; ok && r < team->share.ranks; r++) {
        char *one = NULL;

        ok = parallel_receive_text(team->group, (int)r, &one, err);
        all[r] = ok ? one[0] : '0';
        free(one);
    }
    return ok && parallel_share_text(team->group, &all, err);
}

static bool take_sight(struct team *team, const char *all, struct error *err)
{
    if (!all || strlen(all) != team->share.ranks)
        return error_set(err, ERROR_SYSTEM, "rank 0 does not say which ranks save");
    for (size_t r = 0; r < team->share.ranks; r++) {
        team->absent[r] = all[r] != '1';
        team->absent_count += team->absent[r];
    }
    return true;
}

/* Rank 0.  A mark that cannot be made is a failure to save, which all learn of. */
static bool lead(struct team *team, struct error *err)
{
    char *name = NULL, *all = memory_alloc(team->share.ranks + 1);
    struct error why = { 0 };
    bool ok;

    if (!make_mark(team, &name, &why)) {
        save_share_fail(&team->share, &why);
        free(name);
        name = NULL; /* there is nothing to look for */
    }
    ok = parallel_share_text(team->group, &name, err) && collect_sight(team, all, err) &&
         take_sight(team, all, err);
    if (why.code != ERROR_NONE)
        team->absent_count = 0; /* which of them see the folder is unknown */
    free(all);
    free(name);
    return ok;
}

static bool follow(struct team *team, struct error *err)
{
    char *name = NULL, *all = NULL;
    bool ok =
        parallel_share_text(team->group, &name, err) &&
        parallel_send_text(team->group, name && sees(team, name) ? "1" : "0", err) &&
        parallel_share_text(team->group, &all, err) && take_sight(team, all, err);

    free(name);
    free(all);
    return ok;
}

bool team_begin(struct team *team, const struct backend_group *group, const char *dir,
                struct error *err)
{
    *team = (struct team) { .group = group,
                            .share = { .dir = dir,
                                       .rank = parallel_rank(group),
                                       .ranks = parallel_ranks(group),
                                       .known = json_object() } };
    if (team->share.ranks == 1)
        return true;
    team->absent = memory_alloc(team->share.ranks * sizeof(*team->absent));
    team->share.absent = team->absent;
    return team->share.rank == 0 ? lead(team, err) : follow(team, err);
}

/* ---- What they wrote ---- */

static bool send_report(const struct team *team, struct error *err)
{
    const struct error *failed = &team->share.failed;
    json_t *report = json_pack("{s:O, s:i, s:o}", "files", team->share.known, "code",
                               (int)failed->code, "error",
                               json_visible(failed->text, strlen(failed->text)));
    struct text text;
    bool ok;

    text_init(&text, 0);
    json_write(report, &text);
    ok = parallel_send_text(team->group, text.data, err);
    text_clear(&text);
    json_decref(report);
    return ok;
}

/* Add what a rank reports. */
static bool take_report(struct team *team, size_t rank, const char *text,
                        struct error *err)
{
    json_t *report = json_read_text(text, strlen(text), "the report of a rank", 1, err);
    int64_t code = json_get_int(report, "code", ERROR_SYSTEM, "the report", err);
    const char *why = json_string_value(json_object_get(report, "error"));
    struct error failed = { 0 };

    if (!report)
        return false;
    json_object_update(team->share.known, json_object_get(report, "files"));
    if (code != ERROR_NONE) {
        error_set(&failed,
                  code > 0 && code < ERROR_CODES ? (enum error_code)code : ERROR_SYSTEM,
                  "rank %zu: %.480s", rank, why ? why : "");
        save_share_fail(&team->share, &failed);
    }
    json_decref(report);
    return true;
}

/* The names of what this rank wrote are on disk before rank 0 publishes them. */
static void flush_names(struct team *team)
{
    struct error why = { 0 };

    if (team->share.rank > 0 && json_object_size(team->share.known) > 0 &&
        !file_sync_dir(team->share.dir, &why))
        save_share_fail(&team->share, &why);
}

/* Rank 0: no other rank looks for the mark any more. */
static void remove_mark(struct team *team)
{
    if (team->mark)
        walk_unlink(team->mark);
    free(team->mark);
    team->mark = NULL;
}

bool team_report(struct team *team, struct heartbeat *heartbeat, struct error *err)
{
    bool ok = true;

    flush_names(team);
    if (team->share.rank > 0)
        return send_report(team, err);
    for (size_t r = 1; ok && r < team->share.ranks; r++) {
        char *text = NULL;

        ok = parallel_await_text(team->group, (int)r, heartbeat, &text, err) &&
             take_report(team, r, text, err);
        free(text);
    }
    remove_mark(team);
    return ok;
}

struct manifest_known team_known(const struct team *team)
{
    return (struct manifest_known) { .files = team->share.known,
                                     .patience =
                                         team->share.ranks > 1 ? PATIENCE_SECONDS : 0 };
}

void team_end(struct team *team)
{
    remove_mark(team);
    free(team->absent);
    json_decref(team->share.known);
    *team = (struct team) { 0 };
}
