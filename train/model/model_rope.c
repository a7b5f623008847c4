/* train/model/model_rope.c - the tables of rotary positions on the device, which some
 * types of scaling change with the length of the sequences. */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "train/model/model_internal.h"

static const struct rope *rope_of(const struct model *m, enum buffer buffer)
{
    return buffer == BUFFER_ROPE ? &m->config->rope : &m->config->rope_local;
}

static void upload_table(struct model *m, enum buffer buffer, size_t length)
{
    const struct shape_buffer *b = &m->shapes.buffers[buffer];
    struct rope_table table = { .rows = b->rows, .columns = b->cols };

    if (b->step == 0)
        return;
    table.data = memory_alloc(b->step);
    rope_fill(rope_of(m, buffer), length, &table);
    m->be->ops->upload(m->be, m->buffers + b->at, table.data,
                       table.rows * table.columns * sizeof(float));
    free(table.data);
}

/* Double throughout, rounded once. */
static void upload_query_scales(struct model *m)
{
    const struct shape_buffer *b = &m->shapes.buffers[BUFFER_QUERY_SCALES];
    const struct query_scaling *s = &m->config->query_scaling;
    float *table;

    if (b->step == 0)
        return;
    table = memory_alloc(b->step);
    for (size_t p = 0; p < b->rows; p++)
        table[2 * p] =
            (float)(1 + s->beta * log1p(floor((double)(p + s->ahead) / s->interval)));
    m->be->ops->upload(m->be, m->buffers + b->at, table,
                       b->rows * b->cols * sizeof(*table));
    free(table);
}

bool model_rope_open(struct model *m, struct error *err)
{
    upload_query_scales(m);
    for (enum buffer i = BUFFER_ROPE; i <= BUFFER_ROPE_LOCAL; i++) {
        m->rope_reach[i - BUFFER_ROPE] = rope_reach(rope_of(m, i), 1);
        upload_table(m, i, 1);
    }
    return m->be->ops->sync(m->be, err);
}

bool model_renews_slot(const struct model *m, size_t length)
{
    bool renews = false;

    for (enum buffer i = BUFFER_ROPE; i <= BUFFER_ROPE_LOCAL; i++)
        if (rope_of(m, i)->kind == ROPE_LONGROPE)
            renews = renews || rope_reach(rope_of(m, i), length) !=
                                   rope_reach(rope_of(m, i), length - 1);
    return renews;
}

void model_rope_reach(struct model *m, size_t length)
{
    for (enum buffer i = BUFFER_ROPE; i <= BUFFER_ROPE_LOCAL; i++) {
        size_t *now = &m->rope_reach[i - BUFFER_ROPE];
        size_t reach = rope_reach(rope_of(m, i), length);

        if (reach != *now)
            upload_table(m, i, length);
        *now = reach;
    }
}
