/* kernels/cpu/cpu_backend.c - the CPU backend: its table, its threads and its memory. */
#include "config.h"

#include "kernels/cpu/cpu_backend.h"

#include "base/size.h"
#include "kernels/cpu/cpu_matmul.h"
#include "kernels/cpu/cpu_mesh.h"
#include "kernels/cpu/cpu_rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, ALIGNMENT = 64 };

/* An allocated mapping; `data` is its first huge page. */
struct block {
    struct block *next;
    char *data;
    size_t bytes; /* of data, whole huge pages */
    void *map;
    size_t map_bytes;
};

void cpu_backend_run(struct backend *be, size_t count, pool_task *task, void *context)
{
    struct cpu_backend *cpu = cpu_backend_of(be);

    if (cpu->failed.code == ERROR_NONE)
        pool_run(cpu->pool, count, task, context);
}

/* Touch a huge page, one page fault for 2 MiB: fresh 4 KiB pages cost 0.2 s for 500 MB,
 * huge pages a quarter of that. */
static void touch_page(void *context, size_t task, struct pool_worker *worker)
{
    struct block *block = context;

    (void)worker;
    memset(block->data + task * HUGE_PAGE, 0, HUGE_PAGE);
}

static void *cpu_alloc(struct backend *be, size_t bytes, struct error *err)
{
    struct cpu_backend *cpu = cpu_backend_of(be);
    struct block *block = calloc(1, sizeof(*block));
    size_t spare = HUGE_PAGE;

    if (!block) {
        error_errno(err, "cannot allocate memory");
        return NULL;
    }
    if (bytes <= SIZE_MAX / 2) {
        block->bytes = size_round(bytes ? bytes : 1, HUGE_PAGE);
        block->map_bytes = block->bytes + spare;
        block->map = mmap(NULL, block->map_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (!block->map || block->map == MAP_FAILED) {
        error_set(err, ERROR_MEMORY, "cannot allocate %zu MiB of memory", bytes >> 20);
        free(block);
        return NULL;
    }
    spare = -(uintptr_t)block->map & (HUGE_PAGE - 1);
    block->data = (char *)block->map + spare;
    madvise(block->data, block->bytes, MADV_HUGEPAGE);
    pool_run(cpu->pool, block->bytes / HUGE_PAGE, touch_page, block);
    block->next = cpu->blocks;
    cpu->blocks = block;
    return block->data;
}

static void cpu_free(struct backend *be, void *data)
{
    struct cpu_backend *cpu = cpu_backend_of(be);

    for (struct block **at = &cpu->blocks; *at; at = &(*at)->next) {
        struct block *block = *at;

        if (block->data != data)
            continue;
        *at = block->next;
        munmap(block->map, block->map_bytes);
        free(block);
        return;
    }
}

static void cpu_copy(struct backend *be, void *to, const void *from, size_t bytes)
{
    (void)be;
    if (bytes)
        memcpy(to, from, bytes);
}

static bool cpu_sync(struct backend *be, struct error *err)
{
    struct cpu_backend *cpu = cpu_backend_of(be);
    struct error failed = cpu->failed;

    error_clear(&cpu->failed);
    return failed.code == ERROR_NONE || error_set(err, failed.code, "%s", failed.text);
}

static const char *cpu_describe(struct backend *be)
{
    return cpu_backend_of(be)->description;
}

/* The task of a thread uses up to about 2 MiB of scratch. */
static size_t cpu_workspace(struct backend *be)
{
    struct cpu_backend *cpu = cpu_backend_of(be);

    return matmul_bytes(cpu->matmul) + pool_threads(cpu->pool) * HUGE_PAGE;
}

static void cpu_close(struct backend *be)
{
    struct cpu_backend *cpu = cpu_backend_of(be);

    while (cpu->blocks)
        cpu_free(be, cpu->blocks->data);
    rendezvous_close(cpu->rendezvous);
    mesh_close(cpu->mesh);
    matmul_free(cpu->matmul);
    pool_free(cpu->pool);
    free(cpu);
}

/* TRAINSPOOL_NO_ONEDNN in the environment: 1 never uses oneDNN, 0 uses it wherever it is
 * installed. */
static enum matmul_choice choice_of(const struct backend_options *options)
{
    const char *asked = getenv("TRAINSPOOL_NO_ONEDNN");

    if (options->no_onednn)
        return MATMUL_OWN;
    if (!asked || !*asked)
        return MATMUL_BEST;
    return strcmp(asked, "0") == 0 ? MATMUL_ONEDNN : MATMUL_OWN;
}

static struct backend *cpu_open(const struct backend_options *options, struct error *err)
{
    struct cpu_backend *cpu = calloc(1, sizeof(*cpu));
    size_t threads = options->threads > 0 ? (size_t)options->threads : 0;

    if (!cpu) {
        error_errno(err, "cannot allocate memory");
        return NULL;
    }
    cpu->base.ops = &backend_cpu;
    cpu->isa = cpu_isa_detect();
    cpu->pool = pool_new(threads, err);
    if (cpu->pool)
        cpu->matmul =
            matmul_new(cpu->isa, pool_threads(cpu->pool), choice_of(options), err);
    if (!cpu->matmul) {
        cpu_close(&cpu->base);
        return NULL;
    }
    snprintf(cpu->description, sizeof(cpu->description), "cpu: %zu %s, %s, %s",
             pool_threads(cpu->pool), pool_threads(cpu->pool) == 1 ? "thread" : "threads",
             cpu_isa_name(cpu->isa), matmul_name(cpu->matmul));
    return &cpu->base;
}

#define CPU_ENTRY(name, ...) .name = cpu_##name,

const struct backend_ops backend_cpu = {
    .name = "cpu",
    .kind = DEVICE_CPU,
    .alignment = ALIGNMENT,
    .rounds_b = true,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .workspace = cpu_workspace,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_copy,
    .download = cpu_copy,
    .sync = cpu_sync,
    .join = cpu_join,
    .reduce = cpu_reduce,
    .reduce_shards = cpu_reduce_shards,
    .all_reduce = cpu_all_reduce,
    .all_gather = cpu_all_gather,
    .broadcast = cpu_broadcast,
    .send = cpu_send,
    .meet = cpu_meet,
    .mark = cpu_meet,
    .meet_mark = cpu_meet,
    OPERATIONS(CPU_ENTRY) /* NAME = cpu_NAME, for each */
};
