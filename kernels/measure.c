/* kernels/measure.c - repeats operations until the clock can resolve their duration. */
#include "config.h"

#include "kernels/measure.h"

#include "base/clock.h"
#include "base/size.h"

enum { ROWS = 1024, TRIES = 3 };

static const size_t array_bytes = (size_t)64 << 20;
static const double least_seconds = 0.05;
static const double most_seconds = 0.5; /* do not wait for a slow device to converge */

/* One operation, repeated. */
struct subject {
    struct backend *be;
    void (*run)(const struct subject *subject);
    struct tensor out, a, b;
};

static void run_product(const struct subject *s)
{
    s->be->ops->matmul(
        s->be, &(struct op_matmul) {
                   .out = s->out, .a = s->a, .b = s->b, .trans_b = true, .alpha = 1 });
}

static void run_sum(const struct subject *s)
{
    s->be->ops->add(s->be, &(struct op_add) { .out = s->out, .a = s->a, .b = s->b });
}

/* Return the seconds that `count` of them take; below 0 if the device failed. */
static double seconds_of(const struct subject *s, size_t count, struct error *err)
{
    double began;

    if (!s->be->ops->sync(s->be, err))
        return -1;
    began = clock_seconds();
    for (size_t i = 0; i < count; i++)
        s->run(s);
    if (!s->be->ops->sync(s->be, err))
        return -1;
    return clock_seconds() - began;
}

/* Return the seconds of one; below 0 if the device failed. */
static double measure(const struct subject *s, struct error *err)
{
    double best = -1, seconds = seconds_of(s, 1, err); /* loads code and touches pages */
    size_t count = 1;

    while (seconds >= 0 && seconds < least_seconds) {
        count *= 2;
        seconds = seconds_of(s, count, err);
    }
    for (int i = 0; seconds >= 0 && i < TRIES; i++) {
        if (best < 0 || seconds < best)
            best = seconds;
        if (seconds > most_seconds)
            break;
        seconds = seconds_of(s, count, err);
    }
    return seconds < 0 ? -1 : best / (double)count;
}

static bool measure_products(struct backend *be, enum format format, char *block,
                             double rates[CALIBRATION_WIDTHS], struct error *err)
{
    const size_t item = format_info(format)->bytes;

    for (int i = 0; i < CALIBRATION_WIDTHS; i++) {
        size_t width = CALIBRATION_WIDTH(i), panel = ROWS * width;
        struct subject s = {
            .be = be,
            .run = run_product,
            .out = tensor_of(block, format, ROWS, width),
            .a = tensor_of(block + panel * item, format, ROWS, width),
            .b = tensor_of(block + 2 * panel * item, format, width, width),
        };
        double seconds = measure(&s, err);

        if (seconds <= 0)
            return false;
        rates[i] = 2.0 * (double)panel * (double)width / seconds;
    }
    return true;
}

static bool measure_rest(struct backend *be, char *block, struct calibration *out,
                         struct error *err)
{
    const size_t cols = array_bytes / sizeof(float) / ROWS;
    struct subject sum = {
        .be = be,
        .run = run_sum,
        .out = tensor_of(block, FORMAT_FP32, ROWS, cols),
        .a = tensor_of(block + array_bytes, FORMAT_FP32, ROWS, cols),
        .b = tensor_of(block + 2 * array_bytes, FORMAT_FP32, ROWS, cols),
    };
    struct subject small =
        sum; /* one element per row: handed to the threads, with little other work */
    double seconds = measure(&sum, err);

    if (seconds <= 0)
        return false;
    out->bytes_per_second = 3.0 * (double)array_bytes / seconds;
    small.out.cols = small.a.cols = small.b.cols = 1;
    small.out.stride = small.a.stride = small.b.stride = 1;
    out->seconds_per_operation = measure(&small, err);
    return out->seconds_per_operation > 0;
}

bool measure_backend(struct backend *be, const enum format *formats, size_t count,
                     struct calibration *out, struct error *err)
{
    char *block = be->ops->alloc(be, 3 * array_bytes, err);
    bool ok = block != NULL;

    for (size_t i = 0; ok && i < count; i++)
        ok = measure_products(be, formats[i], block, out->products[formats[i]], err);
    ok = ok && measure_rest(be, block, out, err);
    if (block)
        be->ops->free(be, block);
    return ok;
}
