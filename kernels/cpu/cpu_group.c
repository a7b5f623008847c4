/* kernels/cpu/cpu_group.c - runs of several processes on CPUs: a meeting in shared memory
 * that the processes of one machine join over their links, or sockets between machines. */
#include "config.h"

#include "kernels/cpu/cpu_backend.h"

#include <unistd.h>

#include "base/link.h"
#include "base/size.h"
#include "kernels/cpu/cpu_mesh.h"
#include "kernels/cpu/cpu_rendezvous.h"
#include "precision/memory.h"

/* Rank 0 creates the shared memory and sends it to the others. */
static int group_rendezvous_file(const struct backend_group *group, struct error *err)
{
    int file;

    if (group->rank > 0)
        return link_receive_file(group->links[0], 0, err);
    file = rendezvous_file(group->ranks, err);
    for (int i = 0; file >= 0 && i < group->ranks - 1; i++)
        if (!link_send_file(group->links[i], file, 0, err)) {
            close(file);
            file = -1;
        }
    return file;
}

bool cpu_join(struct backend *be, const struct backend_group *group, struct error *err)
{
    struct cpu_backend *cpu = cpu_backend_of(be);
    int file;

    cpu->sent = group->sent;
    if (group->peers) {
        cpu->mesh =
            mesh_open(group->rank, group->ranks, group->peers, MEMORY_MESH_VALUES, err);
        return cpu->mesh != NULL;
    }
    file = group_rendezvous_file(group, err);
    if (file < 0)
        return false;
    cpu->rendezvous = rendezvous_open(file, group->rank, group->ranks, group->links, err);
    close(file);
    return cpu->rendezvous != NULL;
}

static bool is_ok(const struct cpu_backend *cpu)
{
    return cpu->failed.code == ERROR_NONE;
}

static void keep(struct cpu_backend *cpu, bool ok)
{
    if (!ok)
        error_set(&cpu->failed, ERROR_SYSTEM, LINK_OTHER_ENDED);
}

static bool reduce(struct cpu_backend *cpu, float *data, size_t count, int root)
{
    if (cpu->mesh)
        return cpu->sent == FORMAT_BF16 ? mesh_reduce_bf16(cpu->mesh, data, count, root)
                                        : mesh_reduce(cpu->mesh, data, count, root);
    return cpu->sent == FORMAT_BF16
               ? rendezvous_reduce_bf16(cpu->rendezvous, data, count, root)
               : rendezvous_reduce(cpu->rendezvous, data, count, root);
}

void cpu_reduce(struct backend *be, float *data, size_t count, int root)
{
    struct cpu_backend *cpu = cpu_backend_of(be);

    if (is_ok(cpu))
        keep(cpu, reduce(cpu, data, count, root));
}

/* In shared memory, a call costs little. */
static bool reduce_each(struct cpu_backend *cpu, float *data, size_t count, size_t first,
                        size_t shard)
{
    bool ok = true;

    for (size_t at = 0, part; ok && at < count; at += part) {
        const size_t rank = (first + at) / shard;

        part = size_min(count - at, (rank + 1) * shard - (first + at));
        ok = reduce(cpu, data + at, part, (int)rank);
    }
    return ok;
}

void cpu_reduce_shards(struct backend *be, float *data, size_t count, size_t first,
                       size_t shard)
{
    struct cpu_backend *cpu = cpu_backend_of(be);

    if (is_ok(cpu))
        keep(cpu, cpu->mesh ? mesh_reduce_shards(cpu->mesh, data, count, first, shard,
                                                 cpu->sent)
                            : reduce_each(cpu, data, count, first, shard));
}

void cpu_all_reduce(struct backend *be, double *data, size_t count)
{
    struct cpu_backend *cpu = cpu_backend_of(be);

    if (is_ok(cpu))
        keep(cpu, cpu->mesh ? mesh_all_reduce(cpu->mesh, data, count)
                            : rendezvous_all_reduce(cpu->rendezvous, data, count));
}

void cpu_all_gather(struct backend *be, void *data, size_t bytes)
{
    struct cpu_backend *cpu = cpu_backend_of(be);

    if (is_ok(cpu))
        keep(cpu, cpu->mesh ? mesh_all_gather(cpu->mesh, data, bytes)
                            : rendezvous_all_gather(cpu->rendezvous, data, bytes));
}

void cpu_broadcast(struct backend *be, void *data, size_t bytes, int root)
{
    struct cpu_backend *cpu = cpu_backend_of(be);

    if (is_ok(cpu))
        keep(cpu, cpu->mesh ? mesh_broadcast(cpu->mesh, data, bytes, root)
                            : rendezvous_broadcast(cpu->rendezvous, data, bytes, root));
}

void cpu_send(struct backend *be, void *data, size_t bytes, int from, int to)
{
    struct cpu_backend *cpu = cpu_backend_of(be);

    if (is_ok(cpu))
        keep(cpu, cpu->mesh ? mesh_send(cpu->mesh, data, bytes, from, to)
                            : rendezvous_send(cpu->rendezvous, data, bytes, from, to));
}

void cpu_meet(struct backend *be)
{
    (void)be; /* the calls above complete before they return */
}
