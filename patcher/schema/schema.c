/* patcher/schema/schema.c - finds keys by name or similar name, and decides which are
 * secret. */
#include "config.h"

#include "patcher/schema/schema.h"

#include "base/size.h"
#include "base/nearest.h"
#include "patcher/schema/schema_keys.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

const struct key *schema_at(const struct vocabulary *of, size_t at)
{
    for (const struct keys *const *keys = of->sections; *keys; keys++) {
        if (at < (*keys)->count)
            return &(*keys)->list[at];
        at -= (*keys)->count;
    }
    return NULL;
}

const struct key *schema_find_in(const struct vocabulary *of, const char *name)
{
    if (of == &schema_job)
        return schema_find(name);
    for (const struct keys *const *keys = of->sections; *keys; keys++)
        for (size_t i = 0; i < (*keys)->count; i++)
            if (strcmp((*keys)->list[i].name, name) == 0)
                return &(*keys)->list[i];
    return NULL;
}

/* Two edits turn a short name into almost any other short name. */
static size_t limit_of(const char *name)
{
    size_t len = strlen(name);

    return len < 3 ? 0 : len < 6 ? 1 : 2;
}

/* `mode`, `task`: similar to anything, and a suggestion without effect. */
static bool is_too_short(const struct key *key)
{
    return key->use == KEY_IGNORED && strlen(key->name) < 6;
}

static const char *find_folded(const struct vocabulary *of, const char *name)
{
    const struct key *key;

    for (size_t i = 0; (key = schema_at(of, i)); i++)
        if (key->use != KEY_OTHER_TOOL && nearest_is_same_name(name, key->name))
            return key->name;
    return NULL;
}

size_t schema_nearest_in(const struct vocabulary *of, const char *name, const char **out,
                         size_t room, bool *exact)
{
    size_t found = 0, least = limit_of(name);
    const char *folded = find_folded(of, name);
    const struct key *key;

    *exact = folded != NULL;
    if (folded) {
        if (room > 0)
            out[0] = folded;
        return 1;
    }
    for (size_t i = 0; (key = schema_at(of, i)); i++) {
        size_t distance;

        if (key->use == KEY_OTHER_TOOL || is_too_short(key))
            continue;
        distance = nearest_distance(name, key->name, least);
        if (distance > least)
            continue;
        if (distance < least)
            found = 0;
        least = distance;
        if (found < room)
            out[found++] = key->name;
    }
    return found;
}

size_t schema_nearest(const char *name, const char **out, size_t room, bool *exact)
{
    return schema_nearest_in(&schema_job, name, out, room, exact);
}

/* Ignores case. */
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

void schema_secrets_find(struct schema_secrets *out)
{
    const struct keys *const *keys = schema_job.sections;

    out->count = 0;
    for (; *keys; keys++)
        for (size_t i = 0; i < (*keys)->count; i++) {
            assert(!(*keys)->list[i].secret || out->count < TS_COUNT(out->names));
            if ((*keys)->list[i].secret)
                out->names[out->count++] = (*keys)->list[i].name;
        }
}

/* hf-hub-token, hf_hub_tokn: a name that a rename could turn into a secret key is one. */
static bool is_like_a_secret(const struct schema_secrets *secrets, const char *name)
{
    const size_t limit = limit_of(name);

    for (size_t i = 0; i < secrets->count; i++)
        if (nearest_is_same_name(name, secrets->names[i]) ||
            nearest_distance(name, secrets->names[i], limit) <= limit)
            return true;
    return false;
}

/* Most names do not look like secrets: only the others are looked for among all keys. */
bool schema_secrets_have(const struct schema_secrets *secrets, const char *name)
{
    static const char *const words[] = { "secret",     "password",   "passwd", "api_key",
                                         "apikey",     "access_key", "_token", "webhook",
                                         "credential", "private_key" };
    bool looks = is_like_a_secret(secrets, name);
    const struct key *key;

    for (size_t i = 0; !looks && i < TS_COUNT(words); i++)
        looks = has_word(name, words[i]);
    key = looks ? schema_find(name) : NULL;
    return key ? key->secret : looks;
}

bool schema_is_secret(const char *name)
{
    struct schema_secrets secrets;

    schema_secrets_find(&secrets);
    return schema_secrets_have(&secrets, name);
}
