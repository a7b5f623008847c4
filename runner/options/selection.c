/* runner/options/selection.c - parses --select and --ignore. */
#include "config.h"

#include "runner/options/selection.h"

#include <ctype.h>
#include <string.h>

#include "patcher/rules/rules.h"
#include "patcher/rules/suppress.h"

struct reading {
    struct arena *arena;
    const char *option; /* "select" */
    const char **list;
    size_t count;
};

static bool names_some(const char *word)
{
    for (size_t i = 0; i < rules_count(); i++)
        if (strncmp(rules_at(i)->id, word, strlen(word)) == 0)
            return true;
    return false;
}

static bool add_word(struct reading *reading, const char *given, size_t len,
                     struct error *err)
{
    char *word = arena_copy(reading->arena, given, len);
    const char *meant;

    for (size_t i = 0; i < len; i++)
        word[i] = (char)toupper((unsigned char)word[i]);
    if (strcmp(word, "ALL") == 0)
        word[0] = 0;
    if (!names_some(word)) {
        meant = suppress_suggest_rule(word);
        return error_set(err, ERROR_USAGE, "--%s: there is no rule %.*s; %s%s%s",
                         reading->option, (int)(len < 40 ? len : 40), given,
                         meant ? "did you mean " : "trainspool explain lists them",
                         meant ? meant : "", meant ? "?" : "");
    }
    reading->list[reading->count++] = word;
    return true;
}

static bool read_list(struct arena *arena, const char *option, const char *const *given,
                      const char *const **out, struct error *err)
{
    struct reading reading = { .arena = arena, .option = option };
    size_t room = 1;

    *out = NULL;
    if (!given)
        return true;
    for (size_t i = 0; given[i]; i++)
        room += strlen(given[i]);
    reading.list = arena_array(arena, room, sizeof(*reading.list));
    for (; *given; given++)
        for (const char *at = *given; *(at += strspn(at, ", "));) {
            size_t len = strcspn(at, ", ");

            if (!add_word(&reading, at, len, err))
                return false;
            at += len;
        }
    *out = (const char *const *)reading.list;
    return reading.count > 0 ||
           error_set(err, ERROR_USAGE,
                     "--%s requires rules such as TS102, or families such as TS1",
                     option);
}

bool selection_read(const struct options *options, struct selection *out,
                    struct error *err)
{
    *out = (struct selection) { .arena = arena_new() };
    return read_list(out->arena, "select", options->select, &out->select, err) &&
           read_list(out->arena, "ignore", options->ignore, &out->ignore, err);
}

void selection_clear(struct selection *selection)
{
    arena_free(selection->arena);
    *selection = (struct selection) { 0 };
}
