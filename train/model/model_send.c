/* train/model/model_send.c - sends the parts of a weight, which ranks keep, to the rank that
 * writes it to a file (save_share.h). */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_exchange.h"
#include "train/model/model_internal.h"

void model_set_writer(struct model *model, size_t rank)
{
    model->writer = rank;
}

/* The gradient of the residual is scratch between two steps: a room for a piece. */
static bool find_room(const struct model *m, char **room, size_t *bytes,
                      struct error *err)
{
    const struct shape_buffer *b = &m->shapes.buffers[BUFFER_DX];

    *room = m->buffers + b->at;
    *bytes = b->step;
    return b->step >= sizeof(double) ||
           error_set(err, ERROR_SYSTEM, "there is no room to send weights");
}

/* Send elements that one rank has to the writer. */
static bool send_piece(const struct model *m, size_t owner, size_t at, size_t count,
                       char *room, char *to, struct error *err)
{
    const struct backend_ops *ops = m->be->ops;
    size_t bytes = count * format_info(m->shapes.trainable)->bytes;
    char *data = owner == m->rank ? model_shard_weights(m, at, count).data : room;

    if (owner != m->writer) {
        ops->send(m->be, data, bytes, (int)owner, (int)m->writer);
        ops->meet(m->be);
    }
    if (m->rank != m->writer)
        return true;
    ops->download(m->be, to, data, bytes);
    return ops->sync(m->be, err);
}

bool model_send_weight(const struct model *m, size_t first, size_t count, void *to,
                       struct error *err)
{
    const size_t item = format_info(m->shapes.trainable)->bytes, end = first + count;
    char *room, *data = to;
    size_t most;

    if (!find_room(m, &room, &most, err))
        return false;
    most /= item;
    for (size_t at = first, part; at < end; at += part) {
        size_t owner = at / m->shapes.shard, to_end = (owner + 1) * m->shapes.shard - at;

        part = end - at < to_end ? end - at : to_end;
        part = part < most ? part : most;
        if (!send_piece(m, owner, at, part, room, data, err))
            return false;
        data += m->rank == m->writer ? part * item : 0;
    }
    return true;
}
