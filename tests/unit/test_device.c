/* tests/unit/test_device.c - the device table and how names are looked up in it. */
#include "config.h"

#include "tests/unit/unit.h"

#include "precision/device.h"

static struct device find(const char *name)
{
    struct device device;
    struct error err = { 0 };

    if (!device_find(name, &device, &err))
        fail_msg("%s", err.text);
    return device;
}

static void test_device_bare_name_is_the_smallest(void **state)
{
    (void)state;
    assert_true(find("V100").memory == (uint64_t)16 << 30);
    assert_true(find("v100-32gb").memory == (uint64_t)32 << 30);
    assert_true(find("V100 32GB").memory == (uint64_t)32 << 30);
    assert_true(find("titan rtx").memory == 25769803776);
    assert_string_equal(find("A100").name, "A100 40GB");
    assert_int_equal(find("RTX 3060 Ti").memory >> 30, 8);
}

/* A plan for 16 GiB does not fit in the memory that the driver leaves. */
static void test_device_memory_is_what_the_driver_leaves(void **state)
{
    struct device t4 = find("T4");

    (void)state;
    assert_true(t4.memory == (uint64_t)16 << 30);
    assert_true(t4.available == (uint64_t)14909 << 20);
    assert_true(find("V100").available == (uint64_t)16 << 30);
}

static void test_device_is_found_by_driver_name(void **state)
{
    (void)state;
    assert_string_equal(find("Tesla T4").name, "T4");
    assert_string_equal(find("NVIDIA GeForce RTX 3090").name, "RTX 3090");
    assert_string_equal(find("NVIDIA A100-SXM4-80GB").name, "A100 80GB");
    assert_string_equal(find("Tesla P100-PCIE-16GB").name, "P100 16GB");
    assert_string_equal(find("NVIDIA H100 80GB HBM3").name, "H100 80GB");
}

/* Names as people type them. */
static void test_device_names_ignore_case_and_blanks(void **state)
{
    static const char *const names[][2] = {
        { "rtx 3090", "RTX 3090" },
        { "RTX3090", "RTX 3090" },
        { "3090", "RTX 3090" },
        { "RTX 3090 24GB", "RTX 3090" },
        { "t4-16g", "T4" },
        { "a6000", "RTX A6000" },
        { "1080 ti", "GTX 1080 Ti" },
        { "rtx titan", "TITAN RTX" },
        { "a100 80gb", "A100 80GB" },
        { "A100-SXM4-80GB", "A100 80GB" },
        { "h100 pcie", "H100 80GB" },
        { "H100 SXM", "H100 80GB" },
        { "H100 NVL", "H100 94GB" },
        { "dgx spark", "GB10" },
        { "NVIDIA GH200 480GB", "GH200 96GB" },
        { "NVIDIA GeForce RTX 2080 Ti", "RTX 2080 Ti" },
        { "NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada" },
        { "NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000" },
        { "NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090 Laptop" },
        { "rtx 4090 mobile", "RTX 4090 Laptop" },
        { "orin nano 8gb", "Jetson Orin Nano 8GB" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_string_equal(find(names[i][0]).name, names[i][1]);
    assert_int_equal(find("RTX 4090 Laptop").memory >> 30, 16);
    assert_int_equal(find("sm75").minor, 5);
    assert_int_equal(find("SM_80:40GiB").memory >> 30, 40);
}

static void test_device_typo_is_reported_with_the_nearest_name(void **state)
{
    static const char *const misses[][2] = {
        { "rtx 309", "RTX 3090" },
        { "rxt 3090", "RTX 3090" },
        { "h1000", "H100 80GB" },
        { "RTX 6000", "RTX 6000 Ada" },
        { "RTX 6000", "Quadro RTX 6000" },
        { "RTX 3090 32GB", "did you mean RTX 3090?" },
        { "A100 64GB", "A100 40GB, A100 80GB" },
        { "RTX 3090 32GB", "sm_86:32GiB" }, /* the exact way out */
        { "RTX 4090 48GB", "sm_89:48GiB" },
        { "2080 ti 22gb", "did you mean RTX 2080 Ti?" },
        { "2080 ti 22gb", "sm_75:22GiB" },
        { "MI300X 96GB", "did you mean MI300X?" },
        { "mi355", "MI355X" },
        { "RX 7900", "RX 7900 XT" },
        { "ascend 910c", "Ascend 910A" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(misses) / sizeof(*misses); i++) {
        struct device device;
        struct error err = { 0 };

        assert_false(device_find(misses[i][0], &device, &err));
        assert_int_equal(err.code, ERROR_USAGE);
        if (!strstr(err.text, misses[i][1]))
            fail_msg("%s: %s", misses[i][0], err.text);
    }
}

/* A suggestion for two letters is a guess. */
static void test_device_short_names_are_not_guessed(void **state)
{
    static const char *const names[] = { "x2", "t5", "m40", "k80", "b3", "zz" };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct device device;
        struct error err = { 0 };

        assert_false(device_find(names[i], &device, &err));
        if (strstr(err.text, "did you mean"))
            fail_msg("%s", err.text);
        assert_non_null(strstr(err.text, "sm_75:24GiB"));
        assert_non_null(strstr(err.text, "rocm, mps, xpu, npu, hpu or tpu"));
    }
}

/* A size that another card of the name has not, without tensor cores: no capability says
 * that. */
static void test_device_without_tensor_cores_has_no_way_out(void **state)
{
    struct device device;
    struct error err = { 0 };

    (void)state;
    assert_false(device_find("GTX 1650 8GB", &device, &err));
    assert_non_null(strstr(err.text, "did you mean GTX 1650?"));
    assert_null(strstr(err.text, "sm_75"));
}

static void test_device_of_another_maker_is_found(void **state)
{
    static const struct {
        const char *asked, *name, *backend;
        unsigned gib;
    } names[] = {
        { "MI300X", "MI300X", "rocm", 192 },
        { "AMD Instinct MI300X", "MI300X", "rocm", 192 },
        { "mi250x", "MI250X", "rocm", 64 }, /* of each of its dies */
        { "MI355X OAM", "MI355X", "rocm", 288 },
        { "Radeon RX 7900 XTX", "RX 7900 XTX", "rocm", 24 },
        { "7900 xtx", "RX 7900 XTX", "rocm", 24 },
        { "AMD Radeon(TM) PRO W7900", "PRO W7900", "rocm", 48 },
        { "w7800 48gb", "PRO W7800 48GB", "rocm", 48 },
        { "m2", "Apple M2 8GB", "mps", 8 },
        { "Apple M4 Max 128GB", "Apple M4 Max 128GB", "mps", 128 },
        { "Intel(R) Arc(TM) A770 Graphics", "Arc A770 8GB", "xpu", 8 },
        { "a770 16gb", "Arc A770 16GB", "xpu", 16 },
        { "Intel Data Center GPU Max 1550", "Max 1550", "xpu", 64 },
        { "910B2", "Ascend 910B 64GB", "npu", 64 },
        { "Gaudi 3", "Gaudi3", "hpu", 128 },
        { "tpu v5e", "TPU v5e", "tpu", 16 },
        { "mps", "mps", "mps", 0 },
        { "npu:0", "npu", "npu", 0 },
        { "radeon", "rocm", "rocm", 0 },
        { "Apple Silicon", "mps", "mps", 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct device device = find(names[i].asked);

        assert_string_equal(device.name, names[i].name);
        assert_int_equal(device.kind, DEVICE_OTHER);
        assert_string_equal(device.accelerator->backend, names[i].backend);
        assert_int_equal(device.memory >> 30, names[i].gib);
        assert_null(device_capability(&device));
        assert_false(device_has_fp16_tensor_cores(&device));
    }
    /* names of cards stay those of NVIDIA */
    assert_int_equal(find("A2").kind, DEVICE_CUDA);
    assert_int_equal(find("6800").kind, DEVICE_OTHER);
    assert_int_equal(find("v100").kind, DEVICE_CUDA);
}

static void test_device_accelerators_are_complete_and_sorted(void **state)
{
    const struct accelerator_row *rows;
    size_t count = device_accelerators(&rows);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        char whole[96];

        assert_true(strlen(rows[i].source) > 4 && rows[i].maker && rows[i].backend);
        /* what has fp8 has bf16, which fp8 is combined with */
        assert_true(rows[i].fp8 != KNOWN_YES || rows[i].bf16 == KNOWN_YES);
        if (i > 0 && strcmp(rows[i].name, rows[i - 1].name) == 0)
            assert_true(rows[i].gib > rows[i - 1].gib);
        snprintf(whole, sizeof(whole), "%s %s", rows[i].name, rows[i].size);
        assert_ptr_equal(find(whole).accelerator, &rows[i]);
        snprintf(whole, sizeof(whole), "%s %s %s", rows[i].maker, rows[i].name,
                 rows[i].size);
        if (strcmp(rows[i].maker, "Apple") != 0)
            assert_ptr_equal(find(whole).accelerator, &rows[i]);
    }
}

static void test_device_is_found_by_capability(void **state)
{
    struct device device = find("sm_75:24GiB");
    struct error err = { 0 };

    (void)state;
    assert_int_equal(device.major, 7);
    assert_int_equal(device.minor, 5);
    assert_true(device.memory == (uint64_t)24 << 30);
    assert_int_equal(find("sm_120").major, 12);
    assert_int_equal(find("sm_120").memory, 0);
    assert_false(device_find("sm_75:lots", &device, &err));
    assert_int_equal(err.code, ERROR_USAGE);
    error_clear(&err);
    assert_false(device_find("sm_75:24", &device, &err)); /* bytes */
    assert_non_null(strstr(err.text, "'24' is not a memory size; write it as 24GiB"));
    error_clear(&err);
    assert_false(device_find("sm_x", &device, &err));
}

static void test_device_unknown_name_lists_the_nearest(void **state)
{
    struct device device;
    struct error err = { 0 };

    (void)state;
    assert_false(device_find("RTX 2090", &device, &err));
    assert_non_null(strstr(err.text, "RTX 2080"));
    error_clear(&err);
    assert_false(device_find("abacus", &device, &err));
    assert_non_null(strstr(err.text, "devices --known"));
}

/* The table of docs/precision.md: bf16 from 8.0 on, regardless of a framework's probe. */
static void test_device_features_follow_the_capability(void **state)
{
    static const struct {
        const char *name;
        bool bf16, tf32, fp8, fp16;
    } facts[] = {
        { "cpu", true, false, false, false },
        { "P100", false, false, false, false },
        { "P40", false, false, false, false },
        { "V100", false, false, false, true },
        { "T4", false, false, false, true },
        { "TITAN RTX", false, false, false, true },
        { "GTX 1650", false, false, false, false },
        { "A100", true, true, false, true },
        { "RTX 3090", true, true, false, true },
        { "L4", true, true, true, true },
        { "H200", true, true, true, true },
        { "RTX 5090", true, true, true, true },
        { "sm_76", false, false, false, true },
        { "sm_61", false, false, false, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++) {
        struct device device = find(facts[i].name);

        assert_int_equal(device_has_bf16(&device), facts[i].bf16);
        assert_int_equal(device_has_tf32(&device), facts[i].tf32);
        assert_int_equal(device_has_fp8(&device), facts[i].fp8);
        assert_int_equal(device_has_fp16_tensor_cores(&device), facts[i].fp16);
    }
}

static void test_device_rows_are_complete_and_sorted(void **state)
{
    const struct device_row *rows;
    size_t count = device_rows(&rows);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct device device;

        assert_true(rows[i].gib > 0 && rows[i].source != NULL);
        if (i > 0 && strcmp(rows[i].name, rows[i - 1].name) == 0)
            assert_true(rows[i].gib > rows[i - 1].gib);
        char whole[96];

        snprintf(whole, sizeof(whole), "%s %s", rows[i].name, rows[i].size);
        device = find(whole);
        assert_true(device.memory == (uint64_t)rows[i].gib << 30);
        assert_non_null(device_capability(&device));
    }
}

static void test_device_recognizes_gtx16(void **state)
{
    struct device device = { .kind = DEVICE_CUDA, .major = 7, .minor = 5 };

    (void)state;
    snprintf(device.name, sizeof(device.name), "NVIDIA GeForce GTX 1660 Ti");
    device_recognize(&device);
    assert_true(device.no_tensor_cores);
    snprintf(device.name, sizeof(device.name), "Quadro T1000");
    device_recognize(&device);
    assert_true(device.no_tensor_cores);
    snprintf(device.name, sizeof(device.name), "Tesla T4");
    device_recognize(&device);
    assert_false(device.no_tensor_cores);
    snprintf(device.name, sizeof(device.name), "NVIDIA GeForce RTX 2060");
    device_recognize(&device);
    assert_false(device.no_tensor_cores);
}

static void test_device_parses_sizes(void **state)
{
    uint64_t bytes;

    (void)state;
    assert_true(device_parse_bytes("24GiB", &bytes) && bytes == (uint64_t)24 << 30);
    assert_true(device_parse_bytes("1.5GB", &bytes) && bytes == 1500000000);
    assert_true(device_parse_bytes("123", &bytes) && bytes == 123);
    assert_true(device_parse_bytes("8 g", &bytes) && bytes == (uint64_t)8 << 30);
    assert_false(device_parse_bytes("", &bytes));
    assert_false(device_parse_bytes("-1", &bytes));
    assert_false(device_parse_bytes("1e30GB", &bytes));
    assert_false(device_parse_bytes("12 apples", &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_bare_name_is_the_smallest),
        cmocka_unit_test(test_device_memory_is_what_the_driver_leaves),
        cmocka_unit_test(test_device_is_found_by_driver_name),
        cmocka_unit_test(test_device_names_ignore_case_and_blanks),
        cmocka_unit_test(test_device_typo_is_reported_with_the_nearest_name),
        cmocka_unit_test(test_device_short_names_are_not_guessed),
        cmocka_unit_test(test_device_without_tensor_cores_has_no_way_out),
        cmocka_unit_test(test_device_of_another_maker_is_found),
        cmocka_unit_test(test_device_accelerators_are_complete_and_sorted),
        cmocka_unit_test(test_device_is_found_by_capability),
        cmocka_unit_test(test_device_unknown_name_lists_the_nearest),
        cmocka_unit_test(test_device_features_follow_the_capability),
        cmocka_unit_test(test_device_rows_are_complete_and_sorted),
        cmocka_unit_test(test_device_recognizes_gtx16),
        cmocka_unit_test(test_device_parses_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
