/* kernels/backend.c - the table of the backends of this build. */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"

#include <stdio.h>

static const struct backend_ops *const backends[] = {
#ifdef HAVE_CUDA
    &backend_cuda,
#endif
    &backend_cpu,
};

static const struct backend_ops *backend_for(enum device_kind kind)
{
    for (size_t i = 0; i < TS_COUNT(backends); i++)
        if (backends[i]->kind == kind)
            return backends[i];
    return NULL;
}

struct backend *backend_open(const struct backend_options *options, struct error *err)
{
    const struct backend_ops *ops = backend_for(options->device->kind);

    if (!ops) {
        error_set(err, ERROR_DEVICE,
                  "this build has no CUDA, so %s cannot be used; set device: cpu, or "
                  "configure with a CUDA toolkit",
                  options->device->name);
        return NULL;
    }
    return ops->open(options, err);
}

void backend_close(struct backend *be)
{
    if (be)
        be->ops->close(be);
}

size_t backend_devices(const char *wanted, struct device *out, size_t room, char *note,
                       size_t note_room)
{
    const struct backend_ops *ops = backend_for(DEVICE_CUDA);

    if (ops)
        return ops->devices(wanted, out, room, note, note_room);
    snprintf(note, note_room, "this build has no CUDA");
    return 0;
}

void backend_examine(struct device *list, size_t count)
{
    const struct backend_ops *ops = backend_for(DEVICE_CUDA);

    if (ops && ops->examine)
        ops->examine(list, count);
}

bool backend_measure(struct device *list, size_t count)
{
    const struct backend_ops *ops = backend_for(DEVICE_CUDA);

    return ops && ops->measure && ops->measure(list, count);
}
