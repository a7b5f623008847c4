/* kernels/cpu/cpu_noise.c - uniform noise, added or multiplied. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_random.h"
#include "kernels/cpu/cpu_vector.h"

struct noise {
    struct tensor x;
    struct random_key key;
    uint64_t base;   /* index of the first element */
    float magnitude; /* divided by 2^31 */
};

/* Add to a row whose element 0 has the index `index`. */
static void noise_row(const struct noise *noise, float *x, uint64_t index)
{
    uint32_t bits[RANDOM_ROOM] = { 0 };
    size_t first = 0, last = noise->x.cols;

    while (first < last) {
        uint64_t at = index + first;
        size_t skip = at % 4, end = size_min(first + RANDOM_NUMBERS - skip, last);

        random_fill(&noise->key, at / 4, bits);
        for (size_t i = first; i < end; i += LANES) {
            size_t count = vec_count(i, end);
            ivec signs;

            memcpy(&signs, bits + skip + i - first, sizeof(signs));
            vec_store(x, FORMAT_FP32, i, count,
                      vec_load(x, FORMAT_FP32, i, count) +
                          noise->magnitude *
                              __builtin_convertvector(signs ^ INT32_MIN, vec));
        }
        first = end;
    }
}

static void noise_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct noise *noise = context;
    size_t rows = cpu_task_rows(noise->x.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, noise->x.rows);
         row++)
        noise_row(noise, cpu_row(noise->x, row), noise->base + row * noise->x.cols);
}

void CPU_OP(noise)(struct backend *be, const struct op_noise *op)
{
    struct noise noise = {
        .x = op->x,
        .key = { op->seed, RANDOM_NOISE, 0 },
        .base = *op->draw * *op->rows * op->x.cols,
        .magnitude = op->factor * *op->magnitude * 0x1p-31f,
    };

    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)), noise_task,
                    &noise);
}

/* ---- Factors ---- */

struct jitter {
    struct tensor x;
    struct random_key key;
    uint64_t base;
    float size, second; /* of both factors, divided by 2^31; second 0: there is one */
};

static float jitter_factor(float size, uint32_t bits)
{
    return 1 + size * (float)(int32_t)(bits ^ 0x80000000u);
}

/* Multiply a row whose element 0 has the index `index`. */
static void jitter_row(const struct jitter *jitter, void *x, uint64_t index)
{
    const size_t last = jitter->x.cols;
    const enum format format = jitter->x.format;
    uint32_t bits[RANDOM_ROOM] = { 0 };
    float factors[RANDOM_NUMBERS / 2 + LANES] = { 0 };
    size_t first = 0;

    while (first < last) {
        uint64_t at = 2 * (index + first);
        size_t skip = at % 4, end = size_min(first + (RANDOM_NUMBERS - skip) / 2, last);

        random_fill(&jitter->key, at / 4, bits);
        for (size_t i = 0; i < end - first; i++)
            factors[i] = jitter_factor(jitter->size, bits[skip + 2 * i]) *
                         jitter_factor(jitter->second, bits[skip + 2 * i + 1]);
        for (size_t i = first; i < end; i += LANES) {
            size_t count = vec_count(i, end);

            vec_store(x, format, i, count,
                      vec_load(x, format, i, count) * vec_get(factors + i - first));
        }
        first = end;
    }
}

static void jitter_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct jitter *jitter = context;
    size_t rows = cpu_task_rows(jitter->x.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, jitter->x.rows);
         row++)
        jitter_row(jitter, cpu_row(jitter->x, row), jitter->base + row * jitter->x.cols);
}

void CPU_OP(jitter)(struct backend *be, const struct op_jitter *op)
{
    struct jitter jitter = {
        .x = op->x,
        .key = { op->seed, RANDOM_NOISE, op->stream },
        .base = *op->rows * *op->draw * op->x.cols,
        .size = op->size * 0x1p-31f,
        .second = op->twice ? op->size * 0x1p-31f : 0,
    };

    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)),
                    jitter_task, &jitter);
}
