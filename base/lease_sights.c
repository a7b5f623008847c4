/* base/lease_sights.c - one entry per lock, forgotten when this process stops looking. */
#include "config.h"

#include "base/lease_sights.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/shared_files.h"

struct sight {
    char *lock, *content;
    int64_t number;
    double since; /* clock_seconds at which the content was first seen */
    double looked;
    bool changed; /* it was another one before: a holder lives, or lived */
};

/* Leases without a look: a watch looks at each lock more often. */
static const double forget_after = 10;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct sight *items;
    size_t count, room;
} sights;

static struct sight *find(const char *lock)
{
    for (size_t i = 0; i < sights.count; i++)
        if (strcmp(sights.items[i].lock, lock) == 0)
            return &sights.items[i];
    return NULL;
}

static void drop(struct sight *sight)
{
    free(sight->lock);
    free(sight->content);
    *sight = sights.items[--sights.count];
}

static void drop_old(double now)
{
    const double old = forget_after * shared_lease_seconds();

    for (size_t i = sights.count; i-- > 0;)
        if (now - sights.items[i].looked > old)
            drop(&sights.items[i]);
}

static struct sight *add(const char *lock, double now)
{
    if (sights.count == sights.room)
        drop_old(now);
    if (sights.count == sights.room) {
        sights.room = sights.room ? 2 * sights.room : 16;
        sights.items = memory_resize(sights.items, sights.room, sizeof(*sights.items));
    }
    sights.items[sights.count] = (struct sight) { .lock = memory_strdup(lock) };
    return &sights.items[sights.count++];
}

double lease_sight_note(const char *lock, int64_t number, const char *content)
{
    const double now = clock_seconds();
    struct sight *sight;
    double seconds;

    pthread_mutex_lock(&mutex);
    sight = find(lock);
    if (!sight)
        sight = add(lock, now);
    if (!sight->content || sight->number != number ||
        strcmp(sight->content, content) != 0) {
        sight->changed = sight->content && sight->number == number;
        free(sight->content);
        sight->content = memory_strdup(content);
        sight->number = number;
        sight->since = now;
    }
    sight->looked = now;
    seconds = now - sight->since;
    pthread_mutex_unlock(&mutex);
    return seconds;
}

bool lease_sight_is_still(const char *lock, int64_t number)
{
    const struct sight *sight;
    bool still;

    pthread_mutex_lock(&mutex);
    sight = find(lock);
    still = sight && sight->number == number && !sight->changed;
    pthread_mutex_unlock(&mutex);
    return still;
}

void lease_sight_forget(const char *lock)
{
    struct sight *sight;

    pthread_mutex_lock(&mutex);
    sight = find(lock);
    if (sight)
        drop(sight);
    pthread_mutex_unlock(&mutex);
}
