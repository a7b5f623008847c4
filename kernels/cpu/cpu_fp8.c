/* kernels/cpu/cpu_fp8.c - two passes over a matrix: find the largest magnitude, then
 * round. */
#include "config.h"

#include "kernels/cpu/cpu_fp8.h"

#include <math.h>
#include <stdlib.h>

#include "base/size.h"

struct rounding {
    struct tensor x, out;
    float *largest;
    float factor;
    enum format format;
};

static float *row_of(struct tensor x, size_t row, float *wide)
{
    const char *data =
        (const char *)x.data + row * x.stride * format_info(x.format)->bytes;

    format_convert(wide, FORMAT_FP32, data, x.format, x.cols);
    return wide;
}

static void largest_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct rounding *r = context;
    const float *x = row_of(r->x, task, pool_scratch(worker, r->x.cols * sizeof(float)));
    float largest = 0;

    for (size_t i = 0; i < r->x.cols; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    r->largest[task] = largest;
}

static void round_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct rounding *r = context;
    float *x = row_of(r->x, task, pool_scratch(worker, r->x.cols * sizeof(float)));
    size_t width = format_info(r->out.format)->bytes;

    for (size_t i = 0; i < r->x.cols; i++)
        x[i] = r->format == FORMAT_FP8_E4M3
                   ? format_from_e4m3(format_to_e4m3(x[i] * r->factor))
                   : format_from_e5m2(format_to_e5m2(x[i] * r->factor));
    format_convert((char *)r->out.data + task * r->out.stride * width, r->out.format, x,
                   FORMAT_FP32, r->x.cols);
}

void fp8_room_clear(struct fp8_buffer *room)
{
    free(room->data);
    free(room->largest);
    *room = (struct fp8_buffer) { 0 };
}

static bool room_grow(struct fp8_buffer *room, size_t bytes, size_t rows)
{
    if (bytes <= room->bytes && rows <= room->rows)
        return true;
    fp8_room_clear(room);
    room->data = malloc(bytes);
    room->largest = malloc(rows * sizeof(*room->largest));
    if (!room->data || !room->largest) {
        fp8_room_clear(room);
        return false;
    }
    room->bytes = bytes;
    room->rows = rows;
    return true;
}

bool fp8_round(struct pool *pool, struct tensor x, enum format format,
               struct fp8_buffer *room, struct tensor *out, float *scale)
{
    struct rounding r = { .x = x, .format = format };
    float largest = 0;

    r.out = tensor_of(NULL, x.format, x.rows, x.cols);
    if (!room_grow(room, tensor_bytes(r.out), x.rows))
        return false;
    r.largest = room->largest;
    r.out.data = room->data;
    pool_run(pool, x.rows, largest_task, &r);
    for (size_t i = 0; i < x.rows; i++)
        largest = fmaxf(largest, r.largest[i]);
    r.factor = (float)format_info(format)->max / largest;
    if (isinf(r.factor))
        r.factor = 1;
    pool_run(pool, x.rows, round_task, &r);
    *out = r.out;
    *scale = 1 / r.factor;
    return true;
}
