/* tests/unit/test_cuda_sdpa.c - the real cuDNN accepts the graphs of attention and of its
 * gradients: for a card that is not in this machine it names an engine and compiles its
 * kernel.  Only the
 * driver, for which the toolkit has a stub, then refuses to load the kernel. */
#include "config.h"

#include "kernels/cuda/cuda_sdpa.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "tests/unit/unit.h"

/* A card as CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION describes it; engines are chosen by
 * shared memory and capability. */
static const char card[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"totalGlobalMem\":85899345920,\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":13000,\"deviceName\":\"made "
    "up\"}";

static struct cuda_cudnn cudnn;

static bool open_cudnn(void)
{
    struct error err = { 0 };

    if (!dlopen(CUDA_LIBRARY_DIR "/stubs/libcuda.so", RTLD_NOW | RTLD_GLOBAL))
        print_message("# SKIP no libcuda.so, not even a stub\n");
    else if (!cuda_cudnn_open(&cudnn, &err))
        print_message("# SKIP %s\n", err.text);
    else if (cudnn.version() < 91100)
        print_message("# SKIP %s does not support cards that are absent\n", cudnn.name);
    else
        return true;
    return false;
}

static cudnn_descriptor make_device(int capability, int shared)
{
    char json[sizeof(card) + 16];
    int len = snprintf(json, sizeof(json), card, shared, 10 * capability);
    cudnn_descriptor device = NULL;

    assert_int_equal(cudnn.desc_create(CUDNN_DEVICE_PROPERTIES, &device), CUDNN_SUCCESS);
    assert_int_equal(
        cudnn.desc_set(device, CUDNN_DEVICE_JSON, CUDNN_TYPE_CHAR, len, json),
        CUDNN_SUCCESS);
    assert_int_equal(cudnn.finalize(device), CUDNN_SUCCESS);
    return device;
}

static struct cuda_sdpa_key key_of(int64_t head_size, int64_t window, int64_t data_type)
{
    return (struct cuda_sdpa_key) {
        .sequences = 5,
        .longest = 2048,
        .heads = 32,
        .kv_heads = 8,
        .head_size = head_size,
        .window = window,
        .q_stride = 48 * head_size,
        .k_stride = 48 * head_size,
        .v_stride = 48 * head_size,
        .out_stride = 32 * head_size,
        .data_type = data_type,
    };
}

static struct cuda_sdpa_key gradients_key_of(struct cuda_sdpa_key key)
{
    key.backward = 1;
    key.dout_stride = key.out_stride;
    key.dq_stride = key.dk_stride = key.dv_stride = key.q_stride;
    return key;
}

/* Return whether cuDNN got as far as the driver. */
static bool is_accepted(cudnn_descriptor device, struct cuda_sdpa_key key,
                        struct error *err)
{
    struct cudnn_choice choice = { .device = device, .varies = key.backward != 0 };
    bool none;
    struct cudnn_plan *plan = cuda_sdpa_plan_new(&cudnn, &choice, &key, &none, err);
    bool made = plan != NULL;

    cudnn_plan_free(plan);
    return made || (!none && strstr(err->text, "cuLibraryLoadData"));
}

static void test_cuda_sdpa_is_accepted_by_cudnn(void **state)
{
    static const struct {
        int capability, shared;
        int64_t head_size, window, data_type;
    } cases[] = {
        { 80, 166912, 128, 0, CUDNN_BFLOAT16 },  { 89, 101376, 128, 512, CUDNN_HALF },
        { 90, 232448, 64, 0, CUDNN_BFLOAT16 },   { 90, 232448, 128, 512, CUDNN_HALF },
        { 90, 232448, 256, 0, CUDNN_BFLOAT16 },  { 100, 232448, 128, 0, CUDNN_BFLOAT16 },
        { 120, 101376, 128, 0, CUDNN_BFLOAT16 },
    };

    (void)state;
    if (!open_cudnn())
        skip();
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        cudnn_descriptor device = make_device(cases[i].capability, cases[i].shared);
        struct error err = { 0 };

        if (!is_accepted(device,
                         key_of(cases[i].head_size, cases[i].window, cases[i].data_type),
                         &err))
            fail_msg("%d, head %lld: %s", cases[i].capability,
                     (long long)cases[i].head_size, err.text);
        cudnn.desc_destroy(device);
    }
    cuda_cudnn_close(&cudnn);
}

static void test_cuda_sdpa_gradients_are_accepted_by_cudnn(void **state)
{
    static const struct {
        int capability;
        int64_t head_size, window, data_type;
    } cases[] = {
        { 90, 64, 0, CUDNN_BFLOAT16 },
        { 90, 128, 512, CUDNN_HALF },
        { 90, 256, 0, CUDNN_BFLOAT16 },
        { 100, 128, 0, CUDNN_BFLOAT16 },
    };

    (void)state;
    if (!open_cudnn())
        skip();
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        cudnn_descriptor device = make_device(cases[i].capability, 232448);
        struct cuda_sdpa_key key =
            key_of(cases[i].head_size, cases[i].window, cases[i].data_type);
        struct error err = { 0 };

        if (!is_accepted(device, gradients_key_of(key), &err))
            fail_msg("%d, head %lld: %s", cases[i].capability,
                     (long long)cases[i].head_size, err.text);
        cudnn.desc_destroy(device);
    }
    cuda_cudnn_close(&cudnn);
}

static void test_cuda_sdpa_reports_what_cudnn_does_not_support(void **state)
{
    cudnn_descriptor device;
    struct error err = { 0 };

    (void)state;
    if (!open_cudnn())
        skip();
    device = make_device(75, 65536);
    assert_false(is_accepted(device, key_of(64, 0, CUDNN_HALF), &err));
    assert_non_null(strstr(err.text, "no engine"));
    cudnn.desc_destroy(device);
    error_clear(&err);
    device = make_device(90, 232448);
    assert_false(is_accepted(device, key_of(12, 0, CUDNN_HALF), &err));
    assert_non_null(strstr(err.text, "no engine"));
    cudnn.desc_destroy(device);
    cuda_cudnn_close(&cudnn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_sdpa_is_accepted_by_cudnn),
        cmocka_unit_test(test_cuda_sdpa_gradients_are_accepted_by_cudnn),
        cmocka_unit_test(test_cuda_sdpa_reports_what_cudnn_does_not_support),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
