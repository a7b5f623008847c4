/*
 * kernels/cpu/cpu_mesh.c - collective operations over sockets.
 *
 * With R ranks a reduction sends, from each rank, (R - 1) / R of the values to those that
 * sum them, and 1 / R of the sums to the root: the least traffic of any machine's link,
 * up to a factor of 2, that leaves the order of the sums to us.
 */
#include "config.h"

#include "kernels/cpu/cpu_mesh.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/exchange.h"
#include "base/size.h"
#include "precision/format.h"
#include "precision/memory.h"

enum { SMALL_BYTES = 64 << 10 }; /* a broadcast of this size takes one step, not two */

struct mesh {
    int rank, ranks;
    bool broken;
    int *peers;
    struct transfer *transfers; /* of one step: at most one each way for each rank */
    size_t count;
    size_t slice;     /* values that a rank sums at once */
    char *windows;    /* what this rank sums: a slice of each rank */
    float *sum;       /* a slice */
    uint16_t *narrow; /* own values in bf16, a slice for each rank */
};

struct mesh *mesh_open(int rank, int ranks, const int *peers, size_t room,
                       struct error *err)
{
    const size_t many = (size_t)ranks;
    struct mesh *mesh = calloc(1, sizeof(*mesh));

    if (mesh) {
        mesh->rank = rank;
        mesh->ranks = ranks;
        mesh->peers = calloc(many, sizeof(*mesh->peers));
        mesh->transfers = calloc(2 * many, sizeof(*mesh->transfers));
        mesh->slice = size_min(MEMORY_MESH_SLICE, room / many);
        mesh->windows = malloc(many * mesh->slice * sizeof(*mesh->sum));
        mesh->sum = malloc(mesh->slice * sizeof(*mesh->sum));
        mesh->narrow = malloc(many * mesh->slice * sizeof(*mesh->narrow));
    }
    if (mesh && mesh->peers && mesh->transfers && mesh->windows && mesh->sum &&
        mesh->narrow) {
        memcpy(mesh->peers, peers, many * sizeof(*peers));
        return mesh;
    }
    error_set(err, ERROR_MEMORY, "cannot allocate memory to send gradients");
    mesh_close(mesh);
    return NULL;
}

void mesh_close(struct mesh *mesh)
{
    if (!mesh)
        return;
    free(mesh->peers);
    free(mesh->transfers);
    free(mesh->windows);
    free(mesh->sum);
    free(mesh->narrow);
    free(mesh);
}

/* ---- One step: transfers at the same time ---- */

static void send_to(struct mesh *mesh, int rank, const void *from, size_t bytes)
{
    if (bytes > 0)
        mesh->transfers[mesh->count++] =
            (struct transfer) { .end = mesh->peers[rank], .from = from, .bytes = bytes };
}

static void receive_from(struct mesh *mesh, int rank, void *to, size_t bytes)
{
    if (bytes > 0)
        mesh->transfers[mesh->count++] =
            (struct transfer) { .end = mesh->peers[rank], .to = to, .bytes = bytes };
}

/* Not every rank sends to each in every step: those that wait for this one, which gives up,
 * must notice. */
static void set_broken(struct mesh *mesh)
{
    mesh->broken = true;
    for (int r = 0; r < mesh->ranks; r++)
        if (r != mesh->rank)
            shutdown(mesh->peers[r], SHUT_RDWR);
}

static bool run_step(struct mesh *mesh)
{
    if (!mesh->broken && !exchange(mesh->transfers, mesh->count, NULL))
        set_broken(mesh);
    mesh->count = 0;
    return !mesh->broken;
}

/* Of `count` items, the first of rank r's slice; of rank `ranks`, the end. */
static size_t slice_start(const struct mesh *mesh, size_t count, int r)
{
    return count * (size_t)r / (size_t)mesh->ranks;
}

static size_t slice_length(const struct mesh *mesh, size_t count, int r)
{
    return slice_start(mesh, count, r + 1) - slice_start(mesh, count, r);
}

/* ---- Sums ---- */

/* Distribute the values of one format, so that each rank has its slice of all. */
static bool distribute(struct mesh *mesh, const void *values, size_t size, size_t count)
{
    const size_t own = slice_length(mesh, count, mesh->rank);
    const char *from = values;

    for (int r = 0; r < mesh->ranks; r++) {
        const char *slice = from + slice_start(mesh, count, r) * size;
        char *window = mesh->windows + (size_t)r * mesh->slice * size;

        if (r == mesh->rank) {
            memcpy(window, slice, own * size);
            continue;
        }
        send_to(mesh, r, slice, slice_length(mesh, count, r) * size);
        receive_from(mesh, r, window, own * size);
    }
    return run_step(mesh);
}

static void add_floats(float *sum, const float *more, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += more[i];
}

/* sum = window 0 + window 1 + ... */
static void sum_windows(struct mesh *mesh, enum format format, size_t count)
{
    const size_t size = format_info(format)->bytes;
    float more[256];

    format_convert(mesh->sum, FORMAT_FP32, mesh->windows, format, count);
    for (int r = 1; r < mesh->ranks; r++)
        for (size_t at = 0, part; at < count; at += part) {
            part = size_min(count - at, TS_COUNT(more));
            format_convert(more, FORMAT_FP32,
                           mesh->windows + ((size_t)r * mesh->slice + at) * size, format,
                           part);
            add_floats(mesh->sum + at, more, part);
        }
}

/* Consecutive values of a segment, of which each rank has a shard. */
struct range {
    size_t first, count, shard;
};

/* Return the values from `first` on that are in the shard of a rank. */
static struct range overlap(const struct range *all, size_t first, size_t count, int rank)
{
    const size_t start = (size_t)rank * all->shard, from = first > start ? first : start;
    const size_t to = size_min(first + count, start + all->shard);

    if (to <= from)
        return (struct range) { first, 0, all->shard };
    return (struct range) { from, to - from, all->shard };
}

/* Collect the sums, each in the rank that has its shard.  A slice and a shard have one
 * overlap, so each pair has one transfer in each direction. */
static bool collect(struct mesh *mesh, float *data, const struct range *all)
{
    const size_t start = slice_start(mesh, all->count, mesh->rank);
    const size_t own = slice_length(mesh, all->count, mesh->rank);

    for (int r = 0; r < mesh->ranks; r++) {
        struct range out = overlap(all, all->first + start, own, r);
        struct range in = overlap(all, all->first + slice_start(mesh, all->count, r),
                                  slice_length(mesh, all->count, r), mesh->rank);
        const float *sums = mesh->sum + (out.first - all->first - start);

        if (r != mesh->rank) {
            send_to(mesh, r, sums, out.count * sizeof(*data));
            receive_from(mesh, r, data + (in.first - all->first),
                         in.count * sizeof(*data));
        } else if (out.count > 0) {
            memcpy(data + (out.first - all->first), sums, out.count * sizeof(*data));
        }
    }
    return run_step(mesh);
}

bool mesh_reduce_shards(struct mesh *mesh, float *data, size_t count, size_t first,
                        size_t shard, enum format sent)
{
    const size_t most = (size_t)mesh->ranks * mesh->slice;

    for (size_t at = 0, part; at < count; at += part) {
        const void *values = data + at;

        part = size_min(count - at, most);
        if (sent != FORMAT_FP32) {
            format_convert(mesh->narrow, sent, values, FORMAT_FP32, part);
            values = mesh->narrow;
        }
        if (!distribute(mesh, values, format_info(sent)->bytes, part))
            return false;
        sum_windows(mesh, sent, slice_length(mesh, part, mesh->rank));
        if (!collect(mesh, data + at, &(struct range) { first + at, part, shard }))
            return false;
    }
    return !mesh->broken;
}

bool mesh_reduce(struct mesh *mesh, float *data, size_t count, int root)
{
    return mesh_reduce_shards(mesh, data, count, (size_t)root * count, count,
                              FORMAT_FP32);
}

bool mesh_reduce_bf16(struct mesh *mesh, float *data, size_t count, int root)
{
    return mesh_reduce_shards(mesh, data, count, (size_t)root * count, count,
                              FORMAT_BF16);
}

/* They are few: every rank sums all. */
bool mesh_all_reduce(struct mesh *mesh, double *data, size_t count)
{
    double *windows = (double *)(void *)mesh->windows;
    const size_t most = mesh->slice * sizeof(*mesh->sum) / sizeof(*data);

    for (size_t at = 0, part; at < count; at += part) {
        part = size_min(count - at, most);
        for (int r = 0; r < mesh->ranks; r++)
            if (r != mesh->rank) {
                send_to(mesh, r, data + at, part * sizeof(*data));
                receive_from(mesh, r, windows + (size_t)r * most, part * sizeof(*data));
            } else {
                memcpy(windows + (size_t)r * most, data + at, part * sizeof(*data));
            }
        if (!run_step(mesh))
            return false;
        memcpy(data + at, windows, part * sizeof(*data));
        for (int r = 1; r < mesh->ranks; r++)
            for (size_t i = 0; i < part; i++)
                data[at + i] += windows[(size_t)r * most + i];
    }
    return !mesh->broken;
}

/* ---- Copies ---- */

bool mesh_all_gather(struct mesh *mesh, void *data, size_t bytes)
{
    char *pieces = data;

    for (int r = 0; r < mesh->ranks; r++)
        if (r != mesh->rank) {
            send_to(mesh, r, pieces + (size_t)mesh->rank * bytes, bytes);
            receive_from(mesh, r, pieces + (size_t)r * bytes, bytes);
        }
    return run_step(mesh);
}

/* The root gives each rank a slice. */
static bool scatter(struct mesh *mesh, char *data, size_t bytes, int root)
{
    if (mesh->rank != root)
        receive_from(mesh, root, data + slice_start(mesh, bytes, mesh->rank),
                     slice_length(mesh, bytes, mesh->rank));
    for (int r = 0; mesh->rank == root && r < mesh->ranks; r++)
        if (r != root)
            send_to(mesh, r, data + slice_start(mesh, bytes, r),
                    slice_length(mesh, bytes, r));
    return run_step(mesh);
}

/* Each rank passes its slice on to those that lack it. */
static bool pass_on(struct mesh *mesh, char *data, size_t bytes, int root)
{
    for (int r = 0; r < mesh->ranks; r++) {
        if (r == mesh->rank)
            continue;
        if (r != root)
            send_to(mesh, r, data + slice_start(mesh, bytes, mesh->rank),
                    slice_length(mesh, bytes, mesh->rank));
        if (mesh->rank != root)
            receive_from(mesh, r, data + slice_start(mesh, bytes, r),
                         slice_length(mesh, bytes, r));
    }
    return run_step(mesh);
}

bool mesh_broadcast(struct mesh *mesh, void *data, size_t bytes, int root)
{
    if (bytes > SMALL_BYTES)
        return scatter(mesh, data, bytes, root) && pass_on(mesh, data, bytes, root);
    if (mesh->rank != root)
        receive_from(mesh, root, data, bytes);
    for (int r = 0; mesh->rank == root && r < mesh->ranks; r++)
        if (r != root)
            send_to(mesh, r, data, bytes);
    return run_step(mesh);
}

bool mesh_send(struct mesh *mesh, void *data, size_t bytes, int from, int to)
{
    if (from != to && mesh->rank == from)
        send_to(mesh, to, data, bytes);
    if (from != to && mesh->rank == to)
        receive_from(mesh, from, data, bytes);
    return run_step(mesh);
}
