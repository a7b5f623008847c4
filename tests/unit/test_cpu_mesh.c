/* tests/unit/test_cpu_mesh.c - sums and copies between processes over sockets: the bits of a
 * sum in rank order, and of the shared memory of one machine, and no waiting for a process
 * that has ended. */
#include "config.h"

#include "kernels/cpu/cpu_mesh.h"

#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/link.h"
#include "base/size.h"
#include "kernels/cpu/cpu_rendezvous.h"
#include "precision/format.h"
#include "precision/memory.h"
#include "tests/unit/unit.h"

enum {
    RANKS_MOST = 5,
    TIMEOUT = 240, /* seconds that a rank may take */
    LATEST = 2,    /* seconds from the end of a rank to the end of the others' calls */
    MIXED = 400,
    DEADLY = 100000
};

static const int sizes_of_groups[] = { 2, 3, 5 };

/* One rank of a group. */
struct member {
    int rank, ranks;
    struct mesh *mesh;
    struct rendezvous *rendezvous;
};

/* What all ranks see. */
struct shared {
    _Atomic double ended; /* when a rank ended; 0: not yet */
    atomic_int noticed;   /* ranks whose calls failed */
};

static struct shared *shared;

/* Values of all ranks that meshes have memory for. */
static size_t room = MEMORY_MESH_VALUES;

/* ---- Processes ---- */

typedef int member_work(struct member *member);

static void run_member(struct member *member, int peers[][RANKS_MOST], int file,
                       member_work *work)
{
    struct error err = { 0 };
    int bad;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(TIMEOUT);
    for (int a = 0; a < member->ranks; a++)
        for (int b = 0; b < member->ranks; b++)
            if (a != member->rank && a != b)
                close(peers[a][b]);
    member->mesh =
        mesh_open(member->rank, member->ranks, peers[member->rank], room, &err);
    member->rendezvous = rendezvous_open(file, member->rank, member->ranks, NULL, &err);
    bad = !member->mesh || !member->rendezvous || work(member);
    mesh_close(member->mesh);
    rendezvous_close(member->rendezvous);
    _exit(bad);
}

/* Fork the ranks of a group, wait for all, and return how many failed. dead: the rank that
 * ends by a signal. */
static int run_group(int ranks, member_work *work, int dead)
{
    int peers[RANKS_MOST][RANKS_MOST];
    struct error err = { 0 };
    int file = rendezvous_file(ranks, &err), failed = 0;
    pid_t children[RANKS_MOST];

    assert_true(file >= 0);
    for (int a = 0; a < ranks; a++) {
        peers[a][a] = -1;
        for (int b = a + 1; b < ranks; b++) {
            int ends[2];

            assert_true(link_pair(ends, &err));
            peers[a][b] = ends[0];
            peers[b][a] = ends[1];
        }
    }
    fflush(NULL);
    for (int r = 0; r < ranks; r++) {
        struct member member = { .rank = r, .ranks = ranks };

        children[r] = fork();
        assert_true(children[r] >= 0);
        if (children[r] == 0)
            run_member(&member, peers, file, work);
    }
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++)
            if (a != b)
                close(peers[a][b]);
    close(file);
    for (int r = 0; r < ranks; r++) {
        int status;

        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        failed += r == dead ? !WIFSIGNALED(status) : status != 0;
    }
    return failed;
}

static bool complain(const struct member *member, const char *what, size_t count,
                     int root)
{
    fprintf(stderr, "# rank %d of %d: %s of %zu, root %d\n", member->rank, member->ranks,
            what, count, root);
    return false;
}

/* ---- Values ---- */

static uint64_t hash(uint64_t x)
{
    /* SplitMix64, Steele, Lea and Flood, 2014 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t bits_of(uint64_t call, int rank, size_t i)
{
    return hash(hash(call * 64 + (uint64_t)rank) + i);
}

/* Mostly of similar size, so that the order of a sum decides its last bits. */
static double number_of(uint64_t call, int rank, size_t i)
{
    const uint64_t bits = bits_of(call, rank, i);
    const double some = (double)(bits >> 11) / (double)(1ull << 53) - 0.5;

    switch (bits & 127) {
    case 0:
        return INFINITY;
    case 1:
        return -INFINITY;
    case 2:
        return NAN;
    case 3:
        return -0.0;
    case 4:
        return some * 6e38; /* sums overflow fp32 */
    case 5:
        return some * 1e-39; /* subnormal in fp32 */
    case 6:
        return some * 1e30;
    default:
        return some;
    }
}

static float float_of(uint64_t call, int rank, size_t i)
{
    const double some = number_of(call, rank, i);

    /* a double beyond the range is an infinity, which number_of has already */
    return (float)(fabs(some) > 3.4e38 && isfinite(some) ? copysign(3.4e38, some) : some);
}

static float rounded(float x)
{
    return format_from_bf16(format_to_bf16(x));
}

static float sum_of(uint64_t call, int ranks, size_t i, bool narrow)
{
    float sum = float_of(call, 0, i);

    sum = narrow ? rounded(sum) : sum;
    for (int r = 1; r < ranks; r++)
        sum += narrow ? rounded(float_of(call, r, i)) : float_of(call, r, i);
    return sum;
}

static bool is_same(float a, float b)
{
    return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b));
}

static bool is_same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b));
}

/* ---- Operations, compared with both references ---- */

static bool reduces(struct member *member, uint64_t call, size_t count, int root,
                    bool narrow)
{
    const char *what = narrow ? "reduce_bf16" : "reduce";
    float *data = malloc((count + 1) * sizeof(*data));
    float *near = malloc((count + 1) * sizeof(*near));
    bool ok;

    for (size_t i = 0; i < count; i++)
        near[i] = data[i] = float_of(call, member->rank, i);
    near[count] = data[count] = 12345;
    ok = narrow ? mesh_reduce_bf16(member->mesh, data, count, root) &&
                      rendezvous_reduce_bf16(member->rendezvous, near, count, root)
                : mesh_reduce(member->mesh, data, count, root) &&
                      rendezvous_reduce(member->rendezvous, near, count, root);
    if (!ok)
        complain(member, "failed reduce", count, root);
    for (size_t i = 0; ok && i < count; i++) {
        float want = member->rank == root ? sum_of(call, member->ranks, i, narrow)
                                          : float_of(call, member->rank, i);

        if (!is_same(data[i], want) || !is_same(data[i], near[i]))
            ok = complain(member, what, count, root);
    }
    ok = ok && data[count] == 12345;
    free(data);
    free(near);
    return ok;
}

/* A range that starts and ends within shards, each of which is summed in its rank. */
static bool reduces_shards(struct member *member, uint64_t call, size_t count,
                           size_t first, size_t shard, enum format sent)
{
    const bool narrow = sent == FORMAT_BF16;
    float *data = malloc((count + 1) * sizeof(*data));
    bool ok;

    for (size_t i = 0; i < count; i++)
        data[i] = float_of(call, member->rank, i);
    data[count] = 12345;
    ok = mesh_reduce_shards(member->mesh, data, count, first, shard, sent);
    for (size_t i = 0; ok && i < count; i++) {
        size_t owner = (first + i) / shard;
        float want = owner == (size_t)member->rank
                         ? sum_of(call, member->ranks, i, narrow)
                         : float_of(call, member->rank, i);

        if (!is_same(data[i], want))
            ok = complain(member, "reduce_shards", count, (int)owner);
    }
    ok = ok && data[count] == 12345;
    free(data);
    return ok;
}

/* Sizes around those where the work is split, by index; SIZE_MAX after the last. */
static size_t size_at(size_t index, int ranks)
{
    const size_t many = (size_t)ranks;
    const size_t slice = size_min(MEMORY_MESH_SLICE, room / many), step = many * slice;
    const size_t sizes[] = { 0,
                             1,
                             many - 1,
                             many,
                             many + 1,
                             1000,
                             2 * many,
                             slice - 1,
                             slice,
                             slice + 1,
                             step - 1,
                             step,
                             step + 1,
                             step + many - 1,
                             2 * step + many + 3 };

    return index < TS_COUNT(sizes) ? sizes[index] : SIZE_MAX;
}

static int all_shards(struct member *member)
{
    const size_t many = (size_t)member->ranks;
    uint64_t call = 0;
    size_t size;

    for (size_t i = 0; (size = size_at(i, member->ranks)) != SIZE_MAX; i++)
        for (size_t j = 0; j < 4; j++) {
            /* of all ranks, of some, and from within a shard on */
            size_t shard = size / many + 1 + j * size / 3;
            size_t first = j == 1 ? 0 : many * shard - size;

            if (!reduces_shards(member, ++call, size, first, shard, FORMAT_FP32) ||
                !reduces_shards(member, ++call, size, first / 2, shard, FORMAT_BF16))
                return 1;
        }
    return 0;
}

static bool all_reduces(struct member *member, uint64_t call, size_t count)
{
    double *data = malloc((count + 1) * sizeof(*data));
    double *near = malloc((count + 1) * sizeof(*near));
    bool ok;

    for (size_t i = 0; i < count; i++)
        near[i] = data[i] = number_of(call, member->rank, i);
    near[count] = data[count] = 12345;
    ok = mesh_all_reduce(member->mesh, data, count) &&
         rendezvous_all_reduce(member->rendezvous, near, count);
    if (!ok)
        complain(member, "failed all_reduce", count, -1);
    for (size_t i = 0; ok && i < count; i++) {
        double want = number_of(call, 0, i);

        for (int r = 1; r < member->ranks; r++)
            want += number_of(call, r, i);
        if (!is_same_double(data[i], want) || !is_same_double(data[i], near[i]))
            ok = complain(member, "all_reduce", count, -1);
    }
    ok = ok && data[count] == 12345;
    free(data);
    free(near);
    return ok;
}

static bool gathers(struct member *member, uint64_t call, size_t bytes)
{
    const size_t all = bytes * (size_t)member->ranks;
    unsigned char *data = malloc(all + 1), *near;
    bool ok;

    memset(data, 0xee, all + 1);
    for (size_t i = 0; i < bytes; i++)
        data[(size_t)member->rank * bytes + i] =
            (unsigned char)bits_of(call, member->rank, i);
    near = malloc(all + 1);
    memcpy(near, data, all + 1);
    ok = mesh_all_gather(member->mesh, data, bytes) &&
         rendezvous_all_gather(member->rendezvous, near, bytes);
    if (!ok)
        complain(member, "failed all_gather", bytes, -1);
    for (int r = 0; ok && r < member->ranks; r++)
        for (size_t i = 0; ok && i < bytes; i++)
            if (data[(size_t)r * bytes + i] != (unsigned char)bits_of(call, r, i))
                ok = complain(member, "all_gather", bytes, r);
    ok = ok && memcmp(data, near, all + 1) == 0 && data[all] == 0xee;
    free(data);
    free(near);
    return ok;
}

static bool broadcasts(struct member *member, uint64_t call, size_t bytes, int root)
{
    unsigned char *data = malloc(bytes + 1), *near = malloc(bytes + 1);
    bool ok;

    for (size_t i = 0; i < bytes; i++)
        near[i] = data[i] = (unsigned char)bits_of(call, member->rank, i);
    near[bytes] = data[bytes] = 0xee;
    ok = mesh_broadcast(member->mesh, data, bytes, root) &&
         rendezvous_broadcast(member->rendezvous, near, bytes, root);
    if (!ok)
        complain(member, "failed broadcast", bytes, root);
    for (size_t i = 0; ok && i < bytes; i++)
        if (data[i] != (unsigned char)bits_of(call, root, i))
            ok = complain(member, "broadcast", bytes, root);
    ok = ok && memcmp(data, near, bytes + 1) == 0;
    free(data);
    free(near);
    return ok;
}

/* To the next rank but one; the others keep their data. */
static bool sends(struct member *member, uint64_t call, size_t bytes, int from)
{
    const int to = (from + 2) % member->ranks;
    const int seen = member->rank == to ? from : member->rank;
    unsigned char *data = malloc(bytes + 1), *near = malloc(bytes + 1);
    bool ok;

    for (size_t i = 0; i < bytes; i++)
        near[i] = data[i] = (unsigned char)bits_of(call, member->rank, i);
    near[bytes] = data[bytes] = 0xee;
    ok = mesh_send(member->mesh, data, bytes, from, to) &&
         rendezvous_send(member->rendezvous, near, bytes, from, to);
    if (!ok)
        complain(member, "failed send", bytes, from);
    for (size_t i = 0; ok && i < bytes; i++)
        if (data[i] != (unsigned char)bits_of(call, seen, i))
            ok = complain(member, "send", bytes, from);
    ok = ok && memcmp(data, near, bytes + 1) == 0;
    free(data);
    free(near);
    return ok;
}

static int all_sizes(struct member *member)
{
    uint64_t call = 0;
    size_t size;

    for (size_t i = 0; (size = size_at(i, member->ranks)) != SIZE_MAX; i++) {
        for (int root = 0; root < member->ranks; root++)
            if (!reduces(member, ++call, size, root, false) ||
                !reduces(member, ++call, size, root, true) ||
                !broadcasts(member, ++call, size, root) ||
                !sends(member, ++call, size, root))
                return 1;
        if (!all_reduces(member, ++call, size) || !gathers(member, ++call, size))
            return 1;
    }
    return 0;
}

/* One of the operations, the same in all ranks; small sizes are common. */
static bool one_of_all(struct member *member, uint64_t call)
{
    const uint64_t bits = hash(call + 1000000);
    const int root = (int)(bits % (unsigned)member->ranks);
    const size_t size =
        (bits >> 8) % (((bits >> 40) & 7) == 0 ? 5000 : 2 * (unsigned)member->ranks);

    switch ((bits >> 50) % 5) {
    case 0:
        return reduces(member, call, size, root, false);
    case 1:
        return reduces(member, call, size, root, true);
    case 2:
        return all_reduces(member, call, size);
    case 3:
        return gathers(member, call, size);
    default:
        return broadcasts(member, call, size * 40, root);
    }
}

static int mixed_calls(struct member *member)
{
    for (uint64_t call = 0; call < MIXED; call++)
        if (!one_of_all(member, call))
            return 1;
    return 0;
}

static void test_mesh_sums_in_rank_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(sizes_of_groups); i++)
        assert_int_equal(run_group(sizes_of_groups[i], all_sizes, -1), 0);
}

static void test_mesh_sums_each_shard_in_its_rank(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(sizes_of_groups); i++) {
        assert_int_equal(run_group(sizes_of_groups[i], all_shards, -1), 0);
        room = 999;
        assert_int_equal(run_group(sizes_of_groups[i], all_shards, -1), 0);
        room = MEMORY_MESH_VALUES;
    }
}

/* As many ranks have smaller slices. */
static void test_mesh_sums_in_a_small_room(void **state)
{
    (void)state;
    room = 999;
    for (size_t i = 0; i < TS_COUNT(sizes_of_groups); i++)
        assert_int_equal(run_group(sizes_of_groups[i], all_sizes, -1), 0);
    room = MEMORY_MESH_VALUES;
}

static void test_mesh_takes_many_calls_in_a_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(sizes_of_groups); i++)
        assert_int_equal(run_group(sizes_of_groups[i], mixed_calls, -1), 0);
}

static int one_is_slow(struct member *member)
{
    if (member->rank == 1)
        sleep(2);
    return mixed_calls(member);
}

static void test_mesh_waits_for_a_slow_rank(void **state)
{
    (void)state;
    assert_int_equal(run_group(3, one_is_slow, -1), 0);
}

/* ---- A rank that ends ---- */

/* Call one operation of the mesh alone, the same in all ranks. */
static bool call_mesh(struct member *member, uint64_t call, int kind, size_t count)
{
    const int root = (int)(hash(call) % (unsigned)member->ranks);
    double *data = calloc(count * (size_t)member->ranks + 1, sizeof(*data));
    bool ok;

    switch (kind) {
    case 0:
        ok = mesh_reduce(member->mesh, (float *)(void *)data, count, root);
        break;
    case 1:
        ok = mesh_reduce_bf16(member->mesh, (float *)(void *)data, count, root);
        break;
    case 2:
        ok = mesh_all_reduce(member->mesh, data, count);
        break;
    case 3:
        ok = mesh_all_gather(member->mesh, data, count * sizeof(*data));
        break;
    default:
        ok = mesh_broadcast(member->mesh, data, count * sizeof(*data), root);
        break;
    }
    free(data);
    return ok;
}

static size_t mixed_size; /* values of each call until a rank ends; 0: various */

/* Rank 1 ends between two calls, or in one: some of its peers are then ahead. */
static int one_ends(struct member *member)
{
    const int dead = 1;
    uint64_t call = 0;
    bool ok = true;
    double late;

    while (ok && call < DEADLY) {
        const uint64_t bits = hash(call + 77);

        if (member->rank == dead && call == 50) {
            atomic_store(&shared->ended, clock_seconds());
            kill(getpid(), SIGKILL);
        }
        ok = call_mesh(member, call, (int)(bits % 5),
                       mixed_size ? mixed_size : (bits >> 8) % 5000);
        call++;
    }
    late = clock_seconds() - atomic_load(&shared->ended);
    if (ok || late > LATEST) {
        fprintf(stderr, "# rank %d of %d: %g s late at call %d\n", member->rank,
                member->ranks, late, (int)call);
        return 1;
    }
    for (int kind = 0; kind < 5; kind++)
        for (size_t count = 0; count < 3; count++)
            if (call_mesh(member, call, kind, count))
                return !complain(member, "later call", count, kind);
    /* stay until all have noticed: none of them may need the end of another */
    atomic_fetch_add(&shared->noticed, 1);
    while (atomic_load(&shared->noticed) < member->ranks - 1 && late < LATEST + 1) {
        poll(NULL, 0, 10);
        late = clock_seconds() - atomic_load(&shared->ended);
    }
    return atomic_load(&shared->noticed) < member->ranks - 1;
}

static void test_mesh_calls_fail_when_a_rank_ends(void **state)
{
    static const size_t sizes[] = { 0, 1, 4, 300000 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(sizes_of_groups); i++)
        for (size_t k = 0; k < TS_COUNT(sizes); k++) {
            mixed_size = sizes[k];
            atomic_store(&shared->ended, 0);
            atomic_store(&shared->noticed, 0);
            assert_int_equal(run_group(sizes_of_groups[i], one_ends, 1), 0);
        }
}

/* In the middle of a transfer larger than a socket's buffer. */
static int one_ends_within_a_call(struct member *member)
{
    const size_t count = 1 << 20;
    float *data = calloc(count, sizeof(*data));
    double late;
    int bad;

    if (member->rank == 2) {
        poll(NULL, 0, 200);
        atomic_store(&shared->ended, clock_seconds());
        kill(getpid(), SIGKILL);
    }
    bad = mesh_reduce(member->mesh, data, count, 0) ||
          mesh_broadcast(member->mesh, data, count, 0);
    late = clock_seconds() - atomic_load(&shared->ended);
    free(data);
    return bad || late > LATEST;
}

static void test_mesh_call_fails_when_a_rank_ends_within_it(void **state)
{
    (void)state;
    assert_int_equal(run_group(3, one_ends_within_a_call, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mesh_sums_in_rank_order),
        cmocka_unit_test(test_mesh_sums_each_shard_in_its_rank),
        cmocka_unit_test(test_mesh_sums_in_a_small_room),
        cmocka_unit_test(test_mesh_takes_many_calls_in_a_row),
        cmocka_unit_test(test_mesh_waits_for_a_slow_rank),
        cmocka_unit_test(test_mesh_calls_fail_when_a_rank_ends),
        cmocka_unit_test(test_mesh_call_fails_when_a_rank_ends_within_it),
    };

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
