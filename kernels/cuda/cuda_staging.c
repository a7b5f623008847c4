/*
 * kernels/cuda/cuda_staging.c - copies between ordinary memory and device memory.
 *
 * The driver makes the host wait when it copies ordinary memory; it copies page-locked
 * memory concurrently with everything else. So both directions use two rings of
 * page-locked pieces: the host fills or empties one piece while the GPU processes the
 * others.
 */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES = 4, PARCELS = 32 };
#define PIECE_BYTES ((size_t)4 << 20)
#define ALIGNMENT   64

/* Downloaded bytes that are still in a piece. */
struct parcel {
    void *to;
    size_t at, bytes;
};

struct piece {
    char *data;
    cudaEvent_t done; /* the GPU is done with it */
    bool away;        /* ... and the host has to wait for it */
    size_t used;
    struct parcel parcels[PARCELS];
    size_t parcel_count;
};

struct ring {
    struct piece pieces[PIECES];
    size_t ended; /* number of the current piece, which is pieces[ended % PIECES] */
};

struct cuda_staging {
    struct ring up, down;
};

static bool piece_open(struct piece *piece, struct error *err)
{
    return cuda_status(
               cudaHostAlloc((void **)&piece->data, PIECE_BYTES, cudaHostAllocDefault),
               err, "cannot allocate %zu MiB of page-locked memory", PIECE_BYTES >> 20) &&
           cuda_status(cudaEventCreateWithFlags(&piece->done, cudaEventDisableTiming),
                       err, "cannot create an event");
}

static void ring_close(struct ring *ring)
{
    for (size_t i = 0; i < PIECES; i++) {
        if (ring->pieces[i].done)
            cudaEventDestroy(ring->pieces[i].done);
        if (ring->pieces[i].data)
            cudaFreeHost(ring->pieces[i].data);
    }
}

struct cuda_staging *cuda_staging_new(struct error *err)
{
    struct cuda_staging *staging = calloc(1, sizeof(*staging));

    if (!staging) {
        error_errno(err, "cannot allocate memory");
        return NULL;
    }
    for (size_t i = 0; i < PIECES; i++)
        if (!piece_open(&staging->up.pieces[i], err) ||
            !piece_open(&staging->down.pieces[i], err)) {
            cuda_staging_free(staging, false);
            return NULL;
        }
    return staging;
}

/* Freeing page-locked memory waits for the GPU: if it is dead, the memory is freed when
 * the process ends. */
void cuda_staging_free(struct cuda_staging *staging, bool dead)
{
    if (!staging)
        return;
    if (!dead) {
        ring_close(&staging->up);
        ring_close(&staging->down);
    }
    free(staging);
}

size_t cuda_staging_bytes(void)
{
    return 2 * PIECES * PIECE_BYTES;
}

static void finish_piece(struct piece *piece, bool well)
{
    for (size_t i = 0; i < piece->parcel_count && well; i++)
        memcpy(piece->parcels[i].to, piece->data + piece->parcels[i].at,
               piece->parcels[i].bytes);
    piece->parcel_count = 0;
    piece->used = 0;
    piece->away = false;
}

static struct piece *current(struct ring *ring)
{
    return &ring->pieces[ring->ended % PIECES];
}

/* End the current piece and return the next one; NULL if the GPU has failed. */
static struct piece *next_piece(struct cuda_backend *cuda, struct ring *ring)
{
    struct piece *piece = current(ring);

    cuda_check(cuda, cudaEventRecord(piece->done, cuda->launch.stream), "copying");
    piece->away = true;
    ring->ended++;
    piece = current(ring);
    if (!cuda_ok(cuda) || (piece->away && !cuda_wait(cuda, piece->done, NULL)))
        return NULL;
    finish_piece(piece, true);
    return piece;
}

/* Return the current piece, or the next one if it is full; NULL if the GPU has failed. */
static struct piece *piece_with_room(struct cuda_backend *cuda, struct ring *ring)
{
    struct piece *piece = current(ring);

    if (piece->used < PIECE_BYTES && piece->parcel_count < PARCELS)
        return piece;
    return next_piece(cuda, ring);
}

void cuda_upload(struct backend *be, void *to, const void *from, size_t bytes)
{
    struct cuda_backend *cuda = cuda_backend_of(be);

    cuda->doing = "upload";
    cudaSetDevice(cuda->device.ordinal);
    for (size_t at = 0; at < bytes && cuda_ok(cuda);) {
        struct piece *piece = piece_with_room(cuda, &cuda->staging->up);
        size_t part = piece ? size_min(bytes - at, PIECE_BYTES - piece->used) : 0;

        if (!piece)
            return;
        memcpy(piece->data + piece->used, (const char *)from + at, part);
        cuda_check(cuda,
                   cudaMemcpyAsync((char *)to + at, piece->data + piece->used, part,
                                   cudaMemcpyHostToDevice, cuda->launch.stream),
                   "upload of %zu bytes", bytes);
        piece->used = size_min(size_round(piece->used + part, ALIGNMENT), PIECE_BYTES);
        at += part;
    }
}

void cuda_download(struct backend *be, void *to, const void *from, size_t bytes)
{
    struct cuda_backend *cuda = cuda_backend_of(be);

    cuda->doing = "download";
    cudaSetDevice(cuda->device.ordinal);
    for (size_t at = 0; at < bytes && cuda_ok(cuda);) {
        struct piece *piece = piece_with_room(cuda, &cuda->staging->down);
        size_t part = piece ? size_min(bytes - at, PIECE_BYTES - piece->used) : 0;

        if (!piece)
            return;
        cuda_check(cuda,
                   cudaMemcpyAsync(piece->data + piece->used, (const char *)from + at,
                                   part, cudaMemcpyDeviceToHost, cuda->launch.stream),
                   "download of %zu bytes", bytes);
        piece->parcels[piece->parcel_count++] =
            (struct parcel) { (char *)to + at, piece->used, part };
        piece->used = size_min(size_round(piece->used + part, ALIGNMENT), PIECE_BYTES);
        at += part;
    }
}

/* In the order of the requests, because two may have the same destination. */
void cuda_deliver(struct cuda_backend *cuda, bool well)
{
    struct ring *rings[] = { &cuda->staging->up, &cuda->staging->down };

    for (size_t r = 0; r < 2; r++)
        for (size_t i = 1; i <= PIECES; i++)
            finish_piece(&rings[r]->pieces[(rings[r]->ended + i) % PIECES], well);
}

size_t cuda_end_piece(struct cuda_backend *cuda)
{
    struct ring *down = &cuda->staging->down;

    if (current(down)->parcel_count > 0)
        next_piece(cuda, down);
    return down->ended;
}

void cuda_deliver_pieces(struct cuda_backend *cuda, size_t pieces)
{
    struct ring *down = &cuda->staging->down;

    for (size_t i = 1; i < PIECES && down->ended + i < pieces + PIECES; i++)
        finish_piece(&down->pieces[(down->ended + i) % PIECES], true);
}
