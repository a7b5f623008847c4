/* tests/unit/test_machine.c - which device a job is checked for. */
#include "config.h"

#include "runner/job/machine.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static const char two_cards[] =
    "trainspool-probe 1\n"
    "cpu\tEPYC\t8\t68719476736\t60000000000\n"
    "cuda\t0\tTesla T4\t7.5\t15000000000\t14000000000\t1\n"
    "cuda\t1\tNVIDIA A100\t8.0\t42000000000\t41000000000\t1\n";

static struct machine machine_of(const char *probe)
{
    struct machine machine = { 0 };
    struct error err = { 0 };

    assert_true(probe_read(probe, &machine.probe, &err));
    return machine;
}

static void test_machine_gives_a_job_the_requested_device(void **state)
{
    static const struct {
        const char *job, *device;
    } cases[] = {
        { "stage: sft\n", "NVIDIA A100" },
        { "trainspool:\n  device: auto\n", "NVIDIA A100" },
        { "trainspool:\n  device: cpu\n", "EPYC" },
        { "trainspool:\n  device: cuda:0\n", "Tesla T4" },
        { "use_cpu: true\n", "EPYC" },
        { "use_cpu: false\n", "NVIDIA A100" },
        { "trainspool: {device: cpu}\n", "EPYC" },
        { "trainspool: cpu\n", "NVIDIA A100" },
        { "trainspool: {ranks: 2}\n", "NVIDIA A100" }, /* the only one of its model */
        { "no: [job\n", "NVIDIA A100" },
        { "", "NVIDIA A100" },
    };
    struct machine machine = machine_of(two_cards);

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct device device;

        assert_true(
            machine_device(&machine, cases[i].job, strlen(cases[i].job), &device, &err));
        assert_string_equal(device.name, cases[i].device);
    }
}

static const char two_alike[] = "trainspool-probe 1\n"
                                "cpu\tEPYC\t8\t68719476736\t60000000000\n"
                                "cuda\t0\tfull\t8.0\t42000000000\t11000000000\t1\n"
                                "cuda\t1\tempty\t8.0\t42000000000\t41000000000\t1\n";

/* With several devices, what fits into the one with the least free memory fits into
 * all. */
static void test_machine_takes_the_least_free_memory_of_several(void **state)
{
    static const char one[] = "stage: sft\n", two[] = "trainspool: {ranks: 2}\n",
                      both[] = "trainspool: {device: \"cuda:1,0\"}\n";
    struct machine machine = machine_of(two_alike);
    struct device device, several[DEVICE_RANKS_MAX];
    struct error err = { 0 };

    (void)state;
    assert_true(machine_device(&machine, one, strlen(one), &device, &err));
    assert_string_equal(device.name, "empty");
    assert_int_equal(device.peers, 2);
    assert_true(machine_device(&machine, two, strlen(two), &device, &err));
    assert_string_equal(device.name, "full");
    assert_true(machine_device(&machine, both, strlen(both), &device, &err));
    assert_string_equal(device.name, "full");
    assert_true(machine_devices(&machine, "cuda:0,1", 2, several, &err));
    assert_string_equal(several[0].name, "full");
    assert_true(machine_devices(&machine, "auto", 2, several, &err));
    assert_string_equal(several[0].name, "empty");
    assert_true(machine_devices(&machine, "cpu", 5, several, &err));
    assert_false(machine_devices(&machine, "cuda", 3, several, &err));
    assert_int_equal(err.code, ERROR_DEVICE);
}

/* Before there is a device to choose from. */
static void test_machine_reads_the_device_of_a_job(void **state)
{
    static const struct {
        const char *job, *requested;
    } cases[] = {
        { "stage: sft\n", "auto" },
        { "use_cpu: true\n", "cpu" },
        { "trainspool: {device: cuda}\n", "cuda" },
        { "trainspool: {device: \"cuda:3\"}\n", "cuda:3" },
        { "trainspool: {device: \"cuda:12,0\"}\n", "cuda:12" },
        { "trainspool: {device: \"T4, or so\"}\n", "T4, or so" },
        { "no: [job\n", "auto" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *requested = machine_requested(cases[i].job, strlen(cases[i].job));

        assert_string_equal(requested, cases[i].requested);
        free(requested);
    }
}

static const char half_asked[] = "trainspool-probe 1\n"
                                 "cpu\tEPYC\t8\t68719476736\t60000000000\n"
                                 "cuda\t0\tcard\t8.0\t42000000000\t0\t1\n"
                                 "cuda\t1\tcard\t8.0\t42000000000\t41000000000\t1\n";

static void test_machine_uses_the_probed_memory(void **state)
{
    static const char first[] = "trainspool: {device: \"cuda:1,0\"}\n",
                      second[] = "trainspool: {device: \"cuda:0,1\"}\n";
    struct machine machine = machine_of(half_asked);
    struct device device;
    struct error err = { 0 };

    (void)state;
    assert_true(machine_device(&machine, first, strlen(first), &device, &err));
    assert_int_equal(device.available, 41000000000);
    assert_true(machine_device(&machine, second, strlen(second), &device, &err));
    assert_int_equal(device.available, 41000000000);
    assert_int_equal(device.peers, 2);
}

static const char old_card[] = "trainspool-probe 1\n"
                               "cpu\tEPYC\t8\t68719476736\t60000000000\n"
                               "cuda\t0\tTesla V100\t7.0\t15000000000\t14000000000\t0\n";

/* A requested device is checked, so that a rule can reject it; otherwise the CPU is
 * chosen and the reason given. */
static void test_machine_reports_a_gpu_without_code(void **state)
{
    static const char asked[] = "trainspool:\n  device: cuda\n",
                      automatic[] = "stage: sft\n",
                      numbered[] = "trainspool:\n  device: cuda:0\n",
                      cpu[] = "trainspool:\n  device: cpu\n";
    struct machine machine = machine_of(old_card), both = machine_of(two_cards);
    struct device device, several[DEVICE_RANKS_MAX];
    struct error err = { 0 };

    (void)state;
    assert_true(machine_device(&machine, asked, strlen(asked), &device, &err));
    assert_string_equal(device.name, "Tesla V100");
    assert_false(device.runnable);
    assert_true(machine_device(&machine, numbered, strlen(numbered), &device, &err));
    assert_string_equal(device.name, "Tesla V100");
    assert_true(machine_device(&machine, automatic, strlen(automatic), &device, &err));
    assert_string_equal(device.name, "EPYC");
    assert_string_equal(device.passed_over, "Tesla V100, compute capability 7.0");
    assert_true(machine_device(&machine, cpu, strlen(cpu), &device, &err));
    assert_string_equal(device.passed_over, "");
    assert_true(machine_device(&both, asked, strlen(asked), &device, &err));
    assert_string_equal(device.passed_over, "");
    /* the external job has no such choice */
    assert_false(machine_devices(&machine, "cuda", 1, several, &err));
    assert_int_equal(err.code, ERROR_DEVICE);
    assert_non_null(strstr(err.text, "Tesla V100"));
}

static const char unlike_cards[] =
    "trainspool-probe 1\n"
    "cpu\tEPYC\t8\t68719476736\t60000000000\n"
    "cuda\t0\tNVIDIA A100-SXM4-80GB\t8.0\t85000000000\t30000000000\t1\n"
    "cuda\t1\tNVIDIA A100-SXM4-40GB\t8.0\t42000000000\t41000000000\t1\n"
    "cuda\t2\tTesla V100\t7.0\t34000000000\t33000000000\t0\n";

static struct device device_for(const struct machine *machine, const char *job)
{
    struct device device;
    struct error err = { 0 };

    if (!machine_device(machine, job, strlen(job), &device, &err))
        fail_msg("%s: %s", job, err.text);
    return device;
}

/* The minimum of each: the capability of one, the memory of another. */
static void test_machine_reports_different_gpus(void **state)
{
    struct machine machine = machine_of(unlike_cards), same = machine_of(two_alike);
    struct device device = device_for(&machine, "trainspool: {ranks: 2}\n");

    (void)state;
    assert_int_equal(device.major, 8);
    assert_true(device.memory == 42000000000 && device.available == 30000000000);
    assert_non_null(strstr(device.unlike, "A100-SXM4-40GB, compute capability 8.0"));
    assert_string_equal(device_for(&machine, "stage: sft\n").unlike, "");
    device = device_for(&machine, "trainspool: {target: external}\n");
    assert_string_equal(device.name, "Tesla V100");
    assert_true(device.memory == 34000000000 && device.available == 30000000000);
    assert_non_null(strstr(device.unlike, "A100"));
    device = device_for(&machine, "trainspool: {target: external, device: \"cuda:1\"}\n");
    assert_string_equal(device.name, "NVIDIA A100-SXM4-40GB");
    assert_string_equal(device.unlike, "");
    assert_non_null(
        strstr(device_for(&same, "trainspool: {ranks: 2}\n").unlike, "empty"));
}

/* An external job may name the device model of the machine it runs on. */
static void test_machine_finds_a_gpu_that_an_external_job_names(void **state)
{
    static const char none[] = "trainspool: {target: external, device: RTX 3909}\n",
                      native[] = "trainspool: {device: RTX 3090}\n";
    struct machine machine = machine_of(two_cards);
    struct device device =
        device_for(&machine, "trainspool: {target: external, device: rtx 3090}\n");
    struct error err = { 0 };

    (void)state;
    assert_string_equal(device.name, "RTX 3090");
    assert_false(device.here);
    assert_false(machine_device(&machine, none, strlen(none), &device, &err));
    assert_int_equal(err.code, ERROR_USAGE);
    error_clear(&err);
    assert_false(machine_device(&machine, native, strlen(native), &device, &err));
}

static void test_machine_refuses_a_missing_device(void **state)
{
    static const char job[] = "trainspool:\n  device: cuda:7\n";
    struct machine machine = machine_of(two_cards);
    struct device device;
    struct error err = { 0 };

    (void)state;
    assert_false(machine_device(&machine, job, strlen(job), &device, &err));
    assert_int_equal(err.code, ERROR_DEVICE);
}

static void test_machine_named_on_the_command_line_wins(void **state)
{
    static const char job[] = "trainspool:\n  device: cpu\n";
    struct machine machine;
    struct device device;
    struct error err = { 0 };

    (void)state;
    assert_true(machine_open("titan rtx", &machine, &err));
    assert_true(machine_device(&machine, job, strlen(job), &device, &err));
    assert_string_equal(device.name, "TITAN RTX");
    assert_false(machine_open("titan rty", &machine, &err));
    assert_int_equal(err.code, ERROR_USAGE);
}

static const char no_card[] = "trainspool-probe 1\n"
                              "cpu\tLaptop\t8\t17179869184\t9000000000\n";

/* Without a GPU and without a name, the CPU of a laptop is a guess. */
static void test_machine_names_the_device_of_a_check_in_order(void **state)
{
    static const struct {
        const char *job, *repository, *device, *source;
        bool guessed;
    } cases[] = {
        { "stage: sft\n", "", "Laptop", NULL, true },
        { "stage: sft\n", "T4", "T4", ".trainspool.toml", false },
        { "stage: sft\n", "auto", "Laptop", NULL, false },
        { "trainspool: {check_device: V100}\n", "T4", "V100 16GB",
          "trainspool.check_device", false },
        { "trainspool: {check_device: auto}\n", "T4", "Laptop", NULL, false },
        { "trainspool: {check_device: cpu}\n", "T4", "cpu", "trainspool.check_device",
          false },
        { "trainspool: {device: cpu}\n", "", "Laptop", NULL, false },
        { "use_cpu: true\n", "", "Laptop", NULL, false },
        { "trainspool: {device: cuda}\n", "A30", "A30", ".trainspool.toml", false },
        { "trainspool: {target: external, device: L4}\n", "T4", "L4", "trainspool.device",
          false },
        { "trainspool: {target: external, device: L4, check_device: A2}\n", "T4", "A2",
          "trainspool.check_device", false },
        { "trainspool: {target: external}\n", "", "Laptop", NULL, false },
    };
    struct machine machine = machine_of(no_card), with_card = machine_of(two_cards);
    struct checked_device checked;
    struct error err = { 0 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        if (!machine_check_device(&machine, cases[i].job, cases[i].repository, &checked,
                                  &err))
            fail_msg("%s: %s", cases[i].job, err.text);
        assert_string_equal(checked.device.name, cases[i].device);
        assert_true(text_equal(checked.source, cases[i].source));
        assert_int_equal(checked.guessed, cases[i].guessed);
    }
    assert_true(machine_check_device(&with_card, "stage: sft\n", "", &checked, &err));
    assert_false(checked.guessed);
    machine.local = true; /* --device auto */
    assert_true(machine_check_device(&machine, "stage: sft\n", "T4", &checked, &err));
    assert_string_equal(checked.device.name, "Laptop");
    assert_false(checked.guessed);
    assert_false(machine_check_device(&with_card, "trainspool: {check_device: V9}\n", "",
                                      &checked, &err));
    assert_int_equal(err.code, ERROR_USAGE);
}

/* A run uses what its machine has. */
static void test_machine_of_a_run_ignores_the_names_of_checks(void **state)
{
    struct machine machine = machine_of(no_card);

    (void)state;
    assert_string_equal(device_for(&machine, "trainspool: {check_device: V100}\n").name,
                        "Laptop");
}

static void test_machine_of_a_check_reads_the_environment(void **state)
{
    struct machine machine;
    struct error err = { 0 };

    (void)state;
    assert_int_equal(setenv("TRAINSPOOL_DEVICE", "t4", 1), 0);
    assert_true(machine_open_check(NULL, &machine, &err));
    assert_string_equal(machine.device.name, "T4");
    assert_string_equal(machine.source, "TRAINSPOOL_DEVICE");
    assert_true(machine_open_check("a30", &machine, &err));
    assert_string_equal(machine.device.name, "A30");
    assert_string_equal(machine.source, "--device");
    assert_int_equal(setenv("TRAINSPOOL_DEVICE", "t44", 1), 0);
    assert_false(machine_open_check(NULL, &machine, &err));
    assert_non_null(strstr(err.text, "TRAINSPOOL_DEVICE: unknown device 't44'"));
    assert_int_equal(unsetenv("TRAINSPOOL_DEVICE"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine_gives_a_job_the_requested_device),
        cmocka_unit_test(test_machine_reads_the_device_of_a_job),
        cmocka_unit_test(test_machine_uses_the_probed_memory),
        cmocka_unit_test(test_machine_takes_the_least_free_memory_of_several),
        cmocka_unit_test(test_machine_reports_a_gpu_without_code),
        cmocka_unit_test(test_machine_reports_different_gpus),
        cmocka_unit_test(test_machine_finds_a_gpu_that_an_external_job_names),
        cmocka_unit_test(test_machine_names_the_device_of_a_check_in_order),
        cmocka_unit_test(test_machine_of_a_run_ignores_the_names_of_checks),
        cmocka_unit_test(test_machine_of_a_check_reads_the_environment),
        cmocka_unit_test(test_machine_refuses_a_missing_device),
        cmocka_unit_test(test_machine_named_on_the_command_line_wins),
    };

    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
