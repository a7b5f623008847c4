/* base/user_names.c - a list of few names, as a machine has few users. */
#include "config.h"

#include "base/user_names.h"

#include <pthread.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/user.h"

enum { ENTRY_BYTES = 16 << 10 };

struct entry {
    uid_t id;
    char name[USER_NAME_ROOM];
};

struct user_names {
    pthread_mutex_t mutex;
    struct entry *list; /* malloc'ed */
    size_t count, room;
};

struct user_names *user_names_new(void)
{
    struct user_names *names = memory_alloc(sizeof(*names));

    *names = (struct user_names) { .list = NULL };
    pthread_mutex_init(&names->mutex, NULL);
    return names;
}

void user_names_free(struct user_names *names)
{
    if (!names)
        return;
    pthread_mutex_destroy(&names->mutex);
    free(names->list);
    free(names);
}

/* Return whether the answer is final: a directory service may be away for a moment. */
static bool look_up(uid_t id, char out[USER_NAME_ROOM])
{
    char bytes[ENTRY_BYTES];
    struct passwd entry, *found = NULL;
    int failed = getpwuid_r(id, &entry, bytes, sizeof(bytes), &found);

    if (found && strlen(found->pw_name) < USER_NAME_ROOM)
        snprintf(out, USER_NAME_ROOM, "%s", found->pw_name);
    else
        snprintf(out, USER_NAME_ROOM, "%ju", (uintmax_t)id);
    return found || user_is_missing(failed);
}

static void add(struct user_names *names, uid_t id, const char *name)
{
    struct entry *entry;

    if (names->count == names->room) {
        names->room = names->room ? 2 * names->room : 8;
        names->list = memory_resize(names->list, names->room, sizeof(*names->list));
    }
    entry = &names->list[names->count++];
    entry->id = id;
    memcpy(entry->name, name, USER_NAME_ROOM);
}

void user_names_find(struct user_names *names, uid_t id, char out[USER_NAME_ROOM])
{
    const struct entry *found = NULL;

    pthread_mutex_lock(&names->mutex);
    for (size_t i = 0; i < names->count && !found; i++)
        if (names->list[i].id == id)
            found = &names->list[i];
    if (found)
        memcpy(out, found->name, USER_NAME_ROOM);
    else if (look_up(id, out))
        add(names, id, out);
    pthread_mutex_unlock(&names->mutex);
}

bool user_named(const char *name, uid_t *out, struct error *err)
{
    char bytes[ENTRY_BYTES], *end = NULL;
    struct passwd entry, *found = NULL;
    int failed = getpwnam_r(name, &entry, bytes, sizeof(bytes), &found);
    unsigned long number;

    if (found) {
        *out = found->pw_uid;
        return true;
    }
    number = strtoul(name, &end, 10);
    *out = (uid_t)number;
    if (name[0] >= '0' && name[0] <= '9' && !*end && *out == number)
        return true;
    return user_is_missing(failed)
               ? error_set(err, ERROR_USAGE, "there is no user %s", name)
               : error_set(err, ERROR_FAULT, "cannot find user %s: %s", name,
                           strerror(failed));
}
