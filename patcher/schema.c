/* patcher/schema.c - finding keys by name, by likeness, and what is secret. */
#include "config.h"

#include "patcher/schema.h"

#include "base/size.h"
#include "patcher/nearest.h"
#include "patcher/schema_keys.h"

#include <ctype.h>
#include <string.h>

size_t schema_keys(const struct key **keys)
{
    *keys = schema_key_rows;
    return schema_key_count;
}

size_t schema_block_keys(const struct key **keys)
{
    *keys = schema_block_rows;
    return schema_block_count;
}

static const struct key *find(const struct key *rows, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

const struct key *schema_find(const char *name)
{
    return find(schema_key_rows, schema_key_count, name);
}

const struct key *schema_block_find(const char *name)
{
    return find(schema_block_rows, schema_block_count, name);
}

/* Two changes in a short name make any other short name of it. */
static size_t limit_of(const char *name)
{
    size_t len = strlen(name);

    return len < 3 ? 0 : len < 6 ? 1 : 2;
}

size_t schema_nearest_of(const struct key *rows, size_t count, const char *name,
                         const char **out, size_t room, bool *exact)
{
    size_t found = 0, least = limit_of(name);

    *exact = false;
    for (size_t i = 0; i < count; i++)
        if (rows[i].use != KEY_FOREIGN && nearest_folded(name, rows[i].name)) {
            *exact = true;
            if (room > 0)
                out[0] = rows[i].name;
            return 1;
        }
    for (size_t i = 0; i < count; i++) {
        size_t distance;

        if (rows[i].use == KEY_FOREIGN)
            continue;
        distance = nearest_distance(name, rows[i].name, least);
        if (distance > least)
            continue;
        if (distance < least)
            found = 0;
        least = distance;
        if (found < room)
            out[found++] = rows[i].name;
    }
    return found;
}

size_t schema_nearest(const char *name, const char **out, size_t room, bool *exact)
{
    return schema_nearest_of(schema_key_rows, schema_key_count, name, out, room, exact);
}

/* Case does not matter. */
static bool has_word(const char *name, const char *word)
{
    size_t len = strlen(word);

    for (; *name; name++) {
        size_t i = 0;

        while (i < len && tolower((unsigned char)name[i]) == word[i])
            i++;
        if (i == len)
            return true;
    }
    return false;
}

/* hf-hub-token, hf_hub_tokn: what a rename would make a secret of is one before. */
static bool is_like_a_secret(const char *name)
{
    const char *near[4];
    bool exact, found = false;
    size_t count = schema_nearest(name, near, TS_COUNT(near), &exact);

    for (size_t i = 0; i < count; i++)
        found |= schema_find(near[i])->secret;
    return found;
}

bool schema_is_secret(const char *name)
{
    static const char *const words[] = { "secret",     "password",   "passwd", "api_key",
                                         "apikey",     "access_key", "_token", "webhook",
                                         "credential", "private_key" };
    const struct key *key = schema_find(name);

    if (key)
        return key->secret;
    if (is_like_a_secret(name))
        return true;
    for (size_t i = 0; i < TS_COUNT(words); i++)
        if (has_word(name, words[i]))
            return true;
    return false;
}
