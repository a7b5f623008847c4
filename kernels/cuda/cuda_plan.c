/* kernels/cuda/cuda_plan.c - a hash table of matmul plans, and their creation. */
#include "config.h"

#include "kernels/cuda/cuda_plan.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 256, BIAS_ALIGNED = 4, SCALES_ALIGNED = 16 };

/* Exponent of 16 bytes, and elements of 16 bits in them. */
enum { ROWS_ALIGNED = 4, ROWS_UNIT = 8 };

/* How many algorithms the library may propose: the first few for a small output with a
 * deep sum may all be split unevenly. */
enum { PROPOSALS = 32 };

/* The elements of a sum that a kernel of the library loads at a time are a power of two
 * up to this. */
enum { TILE_DEPTH_MAX = 128 };

/* Allow split sums only through the workspace, in fp32 and in a fixed order; sums by
 * atomics would give different bits in every run. */
static const uint32_t split = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
static const uint32_t whole = CUBLASLT_REDUCTION_SCHEME_NONE;

struct cuda_plans {
    const struct cuda_library *library;
    cublasLtHandle_t handle;
    size_t workspace_bytes, count;
    uint64_t clock; /* how many lookups there were */
    struct cuda_plan *slots[SLOTS];
};

struct cuda_plans *cuda_plans_new(const struct cuda_library *library,
                                  cublasLtHandle_t handle, size_t workspace_bytes)
{
    struct cuda_plans *plans = calloc(1, sizeof(*plans));

    if (plans) {
        plans->library = library;
        plans->handle = handle;
        plans->workspace_bytes = workspace_bytes;
    }
    return plans;
}

static void plan_free(const struct cuda_library *library, struct cuda_plan *plan)
{
    cublasLtMatrixLayout_t layouts[] = { plan->a, plan->b, plan->out };

    for (size_t i = 0; i < 3; i++)
        if (layouts[i])
            library->layout_destroy(layouts[i]);
    if (plan->desc)
        library->desc_destroy(plan->desc);
    free(plan);
}

void cuda_plans_forget(struct cuda_plans *plans)
{
    for (size_t i = 0; i < SLOTS; i++)
        while (plans->slots[i]) {
            struct cuda_plan *plan = plans->slots[i];

            plans->slots[i] = plan->next;
            plan_free(plans->library, plan);
        }
    plans->count = 0;
}

void cuda_plans_free(struct cuda_plans *plans)
{
    if (!plans)
        return;
    cuda_plans_forget(plans);
    free(plans);
}

size_t cuda_plans_count(const struct cuda_plans *plans)
{
    return plans->count;
}

unsigned char cuda_plan_aligned(const void *data)
{
    uintptr_t address = (uintptr_t)data | 256;

    return (unsigned char)__builtin_ctzl(address);
}

static cudaDataType_t type_of(unsigned char format)
{
    static const cudaDataType_t types[FORMAT_COUNT] = {
        [FORMAT_FP32] = CUDA_R_32F,         [FORMAT_TF32] = CUDA_R_32F,
        [FORMAT_FP16] = CUDA_R_16F,         [FORMAT_BF16] = CUDA_R_16BF,
        [FORMAT_FP8_E4M3] = CUDA_R_8F_E4M3, [FORMAT_FP8_E5M2] = CUDA_R_8F_E5M2,
    };

    return types[format];
}

/* Return the first status that is an error. */
static bool record_status(struct cuda_plan *plan, cublasStatus_t status)
{
    if (plan->status == CUBLAS_STATUS_SUCCESS)
        plan->status = status;
    return plan->status == CUBLAS_STATUS_SUCCESS;
}

/* Describe memory: our (rows, cols) are that many columns of that many rows. */
static bool make_layouts(const struct cuda_library *library, struct cuda_plan *plan)
{
    const struct matmul_key *key = &plan->key;
    size_t a_rows = key->trans_a ? key->depth : key->rows;
    size_t b_rows = key->trans_b ? key->cols : key->depth;

    return record_status(plan, library->layout_create(&plan->a, type_of(key->a_format),
                                                      key->rows + key->depth - a_rows,
                                                      a_rows, (int64_t)key->a_stride)) &&
           record_status(plan, library->layout_create(&plan->b, type_of(key->b_format),
                                                      key->cols + key->depth - b_rows,
                                                      b_rows, (int64_t)key->b_stride)) &&
           record_status(plan, library->layout_create(
                                   &plan->out, type_of(key->out_format), key->cols,
                                   key->rows, (int64_t)key->out_stride));
}

static bool set(const struct cuda_library *library, struct cuda_plan *plan,
                cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes)
{
    return record_status(plan, library->desc_set(plan->desc, attribute, value, bytes));
}

static bool make_desc(const struct cuda_library *library, struct cuda_plan *plan)
{
    const struct matmul_key *key = &plan->key;
    cublasOperation_t a = key->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = key->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;

    return record_status(plan,
                         library->desc_create(&plan->desc,
                                              key->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                        : CUBLAS_COMPUTE_32F,
                                              CUDA_R_32F)) &&
           set(library, plan, CUBLASLT_MATMUL_DESC_TRANSA, &b, sizeof(b)) &&
           set(library, plan, CUBLASLT_MATMUL_DESC_TRANSB, &a, sizeof(a));
}

/* fp8 has factors, and the library may choose by whether they exist and how they are
 * aligned; each matmul sets their addresses. */
static bool announce_scales(const struct cuda_library *library, struct cuda_plan *plan)
{
    const void *scale = (const void *)(uintptr_t)SCALES_ALIGNED;

    return plan->key.a_format < FORMAT_FP8_E4M3 ||
           (set(library, plan, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scale,
                sizeof(scale)) &&
            set(library, plan, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scale,
                sizeof(scale)));
}

/* Of e4m3 alone, so forward: sums stay in the tensor cores, which keep fewer bits of them
 * than fp32; of gradients they do not (XLA decides so, too: github.com/openxla/xla, pull
 * request 6599). */
static bool choose_sums(const struct cuda_library *library, struct cuda_plan *plan)
{
    const int8_t fast = 1;

    return plan->key.a_format != FORMAT_FP8_E4M3 ||
           plan->key.b_format != FORMAT_FP8_E4M3 ||
           set(library, plan, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast));
}

static bool make_preference(struct cuda_plans *plans, struct cuda_plan *plan,
                            cublasLtMatmulPreference_t *out)
{
    const struct cuda_library *library = plans->library;
    const struct matmul_key *key = &plan->key;
    uint64_t room = plans->workspace_bytes;
    uint32_t a = 1u << key->a_aligned, b = 1u << key->b_aligned,
             d = 1u << key->out_aligned;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } wishes[] = {
        { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof(room) },
        { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &split, sizeof(split) },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b, sizeof(b) },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a, sizeof(a) },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &d, sizeof(d) },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d, sizeof(d) },
    };

    if (!record_status(plan, library->preference_create(out)))
        return false;
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++)
        if (!record_status(plan,
                           library->preference_set(*out, wishes[i].attribute,
                                                   wishes[i].value, wishes[i].bytes)))
            return false;
    return true;
}

/*
 * Split a sum only into parts of equally many whole tiles. With parts of unequal length
 * cuBLAS 12.6 Update 2 to 13.4 may silently omit the end of the sum on 9.0 and newer
 * (CUDA Toolkit release notes, cuBLAS, [6580689]). With equal parts and a last tile that
 * is not whole, cuBLAS 12 and 13 omitted that tile on 9.0 and 10.0
 * (github.com/facebookexperimental/triton, issue 2767: of 8648, 8640 were summed).
 */
static bool splits_evenly(const struct cuda_library *library,
                          const cublasLtMatmulAlgo_t *algo, size_t depth)
{
    int32_t parts = 1;
    size_t written;

    return library->algo_get(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof(parts),
                             &written) != CUBLAS_STATUS_SUCCESS ||
           parts <= 1 || depth % (TILE_DEPTH_MAX * (size_t)parts) == 0;
}

/* The library's best estimates, in its order of expected time. */
static void query_heuristics(struct cuda_plans *plans, struct cuda_plan *plan,
                             cublasLtMatmulPreference_t preference)
{
    cublasLtMatmulHeuristicResult_t results[PROPOSALS] = { 0 };
    int found = 0;

    plan->count = 0;
    plan->status =
        plans->library->heuristic(plans->handle, plan->desc, plan->b, plan->a, plan->out,
                                  plan->out, preference, PROPOSALS, results, &found);
    if (plan->status != CUBLAS_STATUS_SUCCESS)
        return;
    for (int i = 0; i < found && plan->count < CUDA_PLAN_CHOICES; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS &&
            results[i].workspaceSize <= plans->workspace_bytes &&
            splits_evenly(plans->library, &results[i].algo, plan->key.depth))
            plan->algos[plan->count++] = results[i].algo;
    if (plan->count == 0)
        plan->status = CUBLAS_STATUS_NOT_SUPPORTED;
}

/* If all of its sums are split unevenly, use one that is not split. */
static void choose(struct cuda_plans *plans, struct cuda_plan *plan,
                   cublasLtMatmulPreference_t preference)
{
    const struct cuda_library *library = plans->library;
    const cublasLtMatmulPreferenceAttributes_t mask =
        CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;

    query_heuristics(plans, plan, preference);
    if (plan->status != CUBLAS_STATUS_NOT_SUPPORTED)
        return;
    library->preference_set(preference, mask, &whole, sizeof(whole));
    query_heuristics(plans, plan, preference);
    library->preference_set(preference, mask, &split, sizeof(split));
}

/* Return whether all rows of the operands start where 16 bytes are one access. */
static bool is_aligned(const struct matmul_key *key)
{
    return key->a_aligned >= ROWS_ALIGNED && key->b_aligned >= ROWS_ALIGNED &&
           key->out_aligned >= ROWS_ALIGNED &&
           (key->a_stride | key->b_stride | key->out_stride) % ROWS_UNIT == 0;
}

/*
 * An epilogue accepts the bias only in the format of out, in which cuda_matmul.c gives it,
 * and not with fp8, whose bias is bf16. With one row or column cuBLAS before 12.8 Update 1
 * may add it incorrectly (CUDA Toolkit release notes, cuBLAS, [5104822]).
 *
 * If rows of operands are not aligned, a result in 16 bits is less accurate than a sum in
 * fp32 that is rounded once (H100, cuBLAS 13.1: 9 x 50 from 3001 in bf16).
 */
static bool may_add_bias(const struct matmul_key *key)
{
    return key->bias && key->bias_aligned >= BIAS_ALIGNED && key->rows > 1 &&
           key->cols > 1 && key->a_format < FORMAT_FP8_E4M3 &&
           (key->out_format == FORMAT_FP32 || is_aligned(key));
}

static void choose_with_bias(struct cuda_plans *plans, struct cuda_plan *plan,
                             cublasLtMatmulPreference_t preference)
{
    const struct matmul_key *key = &plan->key;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const void *bias =
        (const void *)((uintptr_t)1 << key->bias_aligned); /* how it is aligned */

    if (may_add_bias(key)) {
        set(plans->library, plan, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
            sizeof(epilogue));
        set(plans->library, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
        if (plan->status == CUBLAS_STATUS_SUCCESS)
            choose(plans, plan, preference);
        plan->adds_bias = plan->status == CUBLAS_STATUS_SUCCESS;
        if (plan->adds_bias)
            return;
        epilogue = CUBLASLT_EPILOGUE_DEFAULT;
        plan->status = CUBLAS_STATUS_SUCCESS;
        set(plans->library, plan, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
            sizeof(epilogue));
    }
    if (plan->status == CUBLAS_STATUS_SUCCESS)
        choose(plans, plan, preference);
}

static struct cuda_plan *make(struct cuda_plans *plans, const struct matmul_key *key)
{
    struct cuda_plan *plan = calloc(1, sizeof(*plan));
    cublasLtMatmulPreference_t preference = NULL;

    if (!plan)
        return NULL;
    memcpy(&plan->key, key, sizeof(*key));
    if (make_desc(plans->library, plan) && announce_scales(plans->library, plan) &&
        choose_sums(plans->library, plan) && make_layouts(plans->library, plan) &&
        make_preference(plans, plan, &preference))
        choose_with_bias(plans, plan, preference);
    if (preference)
        plans->library->preference_destroy(preference);
    return plan;
}

/* FNV-1a */
static size_t hash(const struct matmul_key *key)
{
    const unsigned char *bytes = (const unsigned char *)key;
    uint64_t value = 0xcbf29ce484222325u;

    for (size_t i = 0; i < sizeof(*key); i++)
        value = (value ^ bytes[i]) * 0x100000001b3u;
    return (size_t)(value >> 32) % SLOTS;
}

static struct cuda_plan **find(struct cuda_plans *plans, const struct matmul_key *key)
{
    struct cuda_plan **at = &plans->slots[hash(key)];

    while (*at && memcmp(&(*at)->key, key, sizeof(*key)) != 0)
        at = &(*at)->next;
    return at;
}

static void remove_plan(struct cuda_plans *plans, struct cuda_plan **at)
{
    struct cuda_plan *plan = *at;

    *at = plan->next;
    plan_free(plans->library, plan);
    plans->count--;
}

/* Lack of memory and similar failures, which do not depend on the matmul. */
static bool is_transient(cublasStatus_t status)
{
    return status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Return the least recently used one. Work in progress needs no plan: the library reads
 * it when the matmul is enqueued. */
static void evict_one(struct cuda_plans *plans)
{
    struct cuda_plan **oldest = NULL;

    for (size_t i = 0; i < SLOTS; i++)
        for (struct cuda_plan **at = &plans->slots[i]; *at; at = &(*at)->next)
            if (!oldest || (*at)->used < (*oldest)->used)
                oldest = at;
    remove_plan(plans, oldest);
}

struct cuda_plan *cuda_plan_find(struct cuda_plans *plans, const struct matmul_key *key)
{
    struct cuda_plan **at = find(plans, key), *plan = *at;

    if (plan && is_transient(plan->status)) {
        remove_plan(plans, at);
        plan = NULL;
    }
    if (!plan) {
        if (plans->count == CUDA_PLANS_MOST)
            evict_one(plans);
        plan = make(plans, key);
        if (!plan)
            return NULL;
        *find(plans, key) = plan;
        plans->count++;
    }
    plan->used = ++plans->clock;
    return plan;
}
