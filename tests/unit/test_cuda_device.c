/* tests/unit/test_cuda_device.c - which of the emulated GPUs are found, what is known of
 * them, and which open. */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include "base/size.h"
#include "precision/probe.h"
#include "tests/unit/unit_cuda.h"

static void assert_refused(enum error_code code, const char *why, const char *remedy)
{
    struct error err = { 0 };

    assert_null(unit_cuda_try(0, NULL, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.text, why) || !strstr(err.text, remedy))
        fail_msg("%s", err.text);
    assert_int_equal(emulation_bytes_held(), 0);
}

/* None of them is reported as lacking code. */
static const struct {
    cudaError_t status;
    enum error_code code;
    const char *remedy;
} unusable[] = {
    { cudaErrorMemoryAllocation, ERROR_DEVICE,
      "another program holds the memory of the card" },
    { cudaErrorDevicesUnavailable, ERROR_CONTEXT, "uses the card exclusively" },
    { cudaErrorUnsupportedPtxVersion, ERROR_DEVICE, "newer NVIDIA driver" },
    { cudaErrorInsufficientDriver, ERROR_DEVICE, "newer NVIDIA driver" },
    { cudaErrorECCUncorrectable, ERROR_CARD, "ECC" },
};

static void test_cuda_device_opens_only_runnable_devices(void **state)
{
    static const struct emulation_device tiny = { "Tiny", 80, 1, 300 << 20 };

    (void)state;
    emulation_reset(NULL, 0);
    emulation_break_code(cudaErrorNoKernelImageForDevice);
    assert_refused(ERROR_DEVICE, "8.0", "--with-cuda-archs=80");
    emulation_break_code(cudaErrorInvalidDeviceFunction);
    assert_refused(ERROR_DEVICE, "8.0", "--with-cuda-archs=80");
    for (size_t i = 0; i < TS_COUNT(unusable); i++) {
        emulation_break_code(unusable[i].status);
        assert_refused(unusable[i].code, "cannot be used", unusable[i].remedy);
    }
    emulation_break_code(cudaSuccess);
    emulation_break_library(true);
    assert_refused(ERROR_DEVICE, "cuBLASLt", "");
    emulation_break_library(false);
    emulation_reset(&tiny, 1);
    assert_refused(ERROR_MEMORY, "300 MiB", "per_device_train_batch_size");
}

static void test_cuda_device_lists_the_devices_it_has_code_for(void **state)
{
    struct device devices[8];
    char note[160] = "";

    (void)state;
    emulation_reset(NULL, 0);
    assert_int_equal(cuda_devices("cuda", devices, 8, note, sizeof(note)), 5);
    assert_int_equal(cuda_devices("cuda", devices, 2, note, sizeof(note)), 2);
    assert_true(devices[0].runnable && devices[0].here && devices[1].ordinal == 1);
    assert_int_equal(devices[0].major, 8);
    assert_true(devices[0].memory >= devices[0].available && devices[0].available > 0);
    assert_string_equal(note, "");
    emulation_break_code(cudaErrorNoKernelImageForDevice);
    assert_int_equal(cuda_devices("cuda", devices, 8, note, sizeof(note)), 5);
    assert_false(devices[0].runnable);
    assert_non_null(strstr(note, CUDA_ARCHS));
    emulation_break_code(cudaSuccess);
    emulation_break_driver(cudaErrorInsufficientDriver);
    assert_int_equal(cuda_devices("cuda", devices, 8, note, sizeof(note)), 0);
    assert_non_null(strstr(note, "driver"));
    emulation_reset(NULL, 0);
}

static void test_cuda_device_examines_the_health_of_cards(void **state)
{
    static const struct {
        struct emulation_health health; /* of the third card */
        const char *ill;
    } cases[] = {
        { { .card = 2 }, "" },
        { { .card = 2, .silent = true, .errors = 3 },
          "3 uncorrectable memory errors since the driver was loaded: reset it" },
        { { .card = 2, .silent = true, .errors = 1 },
          "1 uncorrectable memory error since the driver was loaded: reset it" },
        { { .card = 2, .bad_rows = true, .errors = 1 }, "cannot be remapped" },
        { { .card = 2, .recovery = 1, .bad_rows = true }, "requires a reset" },
        { { .card = 2, .recovery = 2 }, "requires a restart of the machine" },
        { { .card = 2, .recovery = 3 }, "exchange data between GPUs" },
        { { .card = 2, .recovery = 4 }, "the end of its work and then a reset" },
        { { .card = 2, .recovery = 5 }, "IMEX domain" },
        { { .card = 2, .recovery = 6 }, "PCIe bus" },
        { { .card = 2, .recovery = 7 }, "a restart of the whole system" },
        { { .card = 2, .recovery = 8 }, "action 8 of nvml.h" },
        { { .card = 2, .silent = true, .recovery = 1 }, "" },
        /* the driver contained them */
        { { .card = 2, .errors = 3 }, "" },
        { { .card = 2, .find = 15 }, "the driver has lost it" },
        { { .card = 2, .find = 16 }, "the driver requires a reset" },
        { { .card = 2, .query = 15 }, "the driver has lost it" },
        /* not supported, or too old, or not there */
        { { .card = 2, .query = 3, .errors = 3, .bad_rows = true, .recovery = 1 }, "" },
        { { .card = 2, .find = 6, .errors = 3 }, "" },
        { { .card = 2, .old = true, .errors = 3 }, "" },
        { { .card = 2, .missing = true, .errors = 3 }, "" },
    };
    struct device devices[8];
    char note[160];

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        emulation_reset(NULL, 0);
        emulation_set_health(&cases[i].health);
        assert_int_equal(cuda_devices("cpu", devices, 8, note, sizeof(note)), 5);
        cuda_examine(devices, 5);
        assert_int_equal(emulation_contexts(), 0);
        if (!strstr(devices[2].ill, cases[i].ill) ||
            (!cases[i].ill[0] && devices[2].ill[0]))
            fail_msg("case %zu: %s", i, devices[2].ill);
        /* `query` concerns all cards here */
        if (cases[i].health.query == 0)
            assert_string_equal(devices[1].ill, "");
    }
    emulation_set_health(&(struct emulation_health) { 0 });
    emulation_reset(NULL, 0);
}

/* NVML counts what the driver reserves, too. */
static void test_cuda_device_measures_memory_without_a_context(void **state)
{
    const unsigned long long context = 500 << 20;
    struct emulation_health health = { .card = -1 };
    struct device devices[8], again;
    char note[160];

    (void)state;
    emulation_reset(NULL, 0);
    assert_int_equal(cuda_devices("cuda:1", devices, 8, note, sizeof(note)), 5);
    health.total = devices[1].memory + devices[1].memory / 32;
    health.free = devices[1].available + context;
    emulation_set_health(&health);
    cuda_examine(devices, 5);
    assert_int_equal(devices[1].context, context);
    assert_string_equal(devices[1].bus, "0000:02:00.0");
    assert_int_equal(devices[0].context, 0); /* not queried */

    emulation_reset(NULL, 0);
    again = (struct device) { .ordinal = 1, .bus = "0000:02:00.0" };
    health.free = (unsigned long long)3 << 30;
    emulation_set_health(&health);
    assert_true(cuda_measure(&again, 1));
    assert_int_equal(again.available, (uint64_t)3 << 30);
    assert_int_equal(emulation_contexts(), 0);

    /* a part of a GPU, and a number that cannot be a context's */
    devices[1].context = 0;
    health = (struct emulation_health) { .card = -1,
                                         .total = 7 * devices[1].memory,
                                         .free = devices[1].available + context };
    emulation_set_health(&health);
    cuda_examine(devices, 5);
    assert_int_equal(devices[1].context, 0);
    health.total = devices[1].memory;
    health.free = devices[1].available;
    emulation_set_health(&health);
    cuda_examine(devices, 5);
    assert_int_equal(devices[1].context, 0);

    /* ill, not supported, missing */
    health.card = 1;
    health.find = 15;
    emulation_set_health(&health);
    assert_true(cuda_measure(&again, 1));
    assert_string_equal(again.ill, "the driver has lost it: restart the machine");
    assert_int_equal(again.available, 0);
    again.ill[0] = 0;
    emulation_set_health(&(struct emulation_health) { .card = -1 });
    assert_false(cuda_measure(&again, 1));
    emulation_set_health(&(struct emulation_health) { .card = -1, .missing = true });
    assert_false(cuda_measure(&again, 1));
    emulation_set_health(&(struct emulation_health) { 0 });
    emulation_reset(NULL, 0);
}

static void test_cuda_device_omits_an_unusable_card(void **state)
{
    struct device devices[8];
    char note[256] = "";

    (void)state;
    emulation_reset(NULL, 0);
    for (size_t i = 0; i < TS_COUNT(unusable); i++) {
        emulation_break_code(unusable[i].status);
        assert_int_equal(cuda_devices("cuda:0", devices, 8, note, sizeof(note)), 4);
        assert_int_equal(devices[0].ordinal, 1);
        if (!strstr(note, "GPU 0") || !strstr(note, unusable[i].remedy) ||
            strstr(note, CUDA_ARCHS))
            fail_msg("%s", note);
    }
    emulation_reset(NULL, 0);
}

/* The others may be busy, or have no memory left. */
static void test_cuda_device_touches_only_the_requested_cards(void **state)
{
    static const struct {
        const char *wanted;
        size_t contexts;
    } cases[] = { { "cuda:3", 1 }, { "cuda:1,4", 2 }, { "cpu", 0 },
                  { "cuda:9", 0 }, { "auto", 5 },     { "cuda", 5 } };
    struct device devices[8];
    char note[160] = "";

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        emulation_reset(NULL, 0);
        assert_int_equal(cuda_devices(cases[i].wanted, devices, 8, note, sizeof(note)),
                         5);
        assert_int_equal(emulation_contexts(), cases[i].contexts);
        for (int j = 0; j < 5; j++) {
            assert_int_equal(devices[j].available > 0,
                             probe_name_matches(cases[i].wanted, j));
            assert_true(devices[j].runnable && devices[j].memory > 0);
        }
    }
    emulation_reset(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_device_opens_only_runnable_devices),
        cmocka_unit_test(test_cuda_device_lists_the_devices_it_has_code_for),
        cmocka_unit_test(test_cuda_device_examines_the_health_of_cards),
        cmocka_unit_test(test_cuda_device_measures_memory_without_a_context),
        cmocka_unit_test(test_cuda_device_omits_an_unusable_card),
        cmocka_unit_test(test_cuda_device_touches_only_the_requested_cards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
