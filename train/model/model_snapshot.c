/* train/model/model_snapshot.c - writes the segment of trained weights to a file and
 * restores it. */
#include "config.h"

#include "train/model/model_snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "train/model/model_internal.h"
#include "train/model/model_stored.h"

#define SPAN_BYTES (MODEL_SPAN * sizeof(float))

struct model_snapshot {
    int fd;
};

/* Open a file without a name.  If the file system does not support that, create one and
 * unlink it. */
static int open_unnamed(const char *dir, struct error *err)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char *name;

    if (fd >= 0)
        return fd;
    name = path_join(dir, ".trial-XXXXXX");
    fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        error_errno(err, "cannot create a file in %s", dir);
    else
        unlink(name);
    free(name);
    return fd;
}

static bool read_all(int fd, char *data, size_t len, struct error *err)
{
    while (len > 0) {
        ssize_t n = read(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_errno(err, "cannot read back the weights");
        data += n;
        len -= (size_t)n;
    }
    return true;
}

/* The trained weights are first in the block; copy them in spans. */
static bool write_weights(struct model *m, int fd, char *span, struct error *err)
{
    for (size_t at = 0; at < m->shapes.weight_bytes; at += SPAN_BYTES) {
        size_t remaining = m->shapes.weight_bytes - at,
               bytes = remaining < SPAN_BYTES ? remaining : SPAN_BYTES;

        heartbeat_tick(m->heartbeat);
        m->be->ops->download(m->be, span, m->memory_block + at, bytes);
        if (!m->be->ops->sync(m->be, err) || !file_write_all(fd, span, bytes, err))
            return false;
    }
    return true;
}

static bool read_weights(struct model *m, int fd, char *span, struct error *err)
{
    if (lseek(fd, 0, SEEK_SET) != 0)
        return error_errno(err, "cannot read back the weights");
    for (size_t at = 0; at < m->shapes.weight_bytes; at += SPAN_BYTES) {
        size_t remaining = m->shapes.weight_bytes - at,
               bytes = remaining < SPAN_BYTES ? remaining : SPAN_BYTES;

        heartbeat_tick(m->heartbeat);
        if (!read_all(fd, span, bytes, err))
            return false;
        m->be->ops->upload(m->be, m->memory_block + at, span, bytes);
    }
    return true;
}

struct model_snapshot *model_snapshot_take(struct model *model, const char *dir,
                                           struct error *err)
{
    struct model_snapshot *snapshot = memory_alloc(sizeof(*snapshot));
    char *span = memory_alloc(SPAN_BYTES);
    bool ok;

    snapshot->fd = open_unnamed(dir, err);
    ok = snapshot->fd >= 0 && write_weights(model, snapshot->fd, span, err);
    free(span);
    if (ok)
        return snapshot;
    if (snapshot->fd >= 0)
        close(snapshot->fd);
    free(snapshot);
    return NULL;
}

bool model_snapshot_restore(struct model *model, struct model_snapshot *snapshot,
                            struct error *err)
{
    char *span = memory_alloc(SPAN_BYTES);
    bool ok = read_weights(model, snapshot->fd, span, err);

    model_update_copies(model);
    model_zero_moments(model);
    ok = model->be->ops->sync(model->be, err) && ok;
    free(span);
    close(snapshot->fd);
    free(snapshot);
    return ok;
}
