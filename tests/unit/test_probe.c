/* tests/unit/test_probe.c - a machine as text, and which of its devices is chosen. */
#include "config.h"

#include "tests/unit/unit.h"

#include "precision/probe.h"

static const char machine[] =
    "trainspool-probe 1\n"
    "cpu\tAMD EPYC\t2\t25000000000\t24000000000\n"
    "cuda\t0\tTesla T4\t7.5\t15835660288\t10000000000\t1\n"
    "cuda\t1\tTesla T4\t7.5\t15835660288\t15000000000\t1\n"
    "cuda\t2\tTesla V100-SXM2-32GB\t7.0\t34000000000\t33000000000\t0\n"
    "note\tdriver 580.1\n";

static void read_machine(struct probe *probe)
{
    struct error err = { 0 };

    if (!probe_read(machine, probe, &err))
        fail_msg("%s", err.text);
}

static void test_probe_reads_what_it_writes(void **state)
{
    struct probe probe;
    struct text text;

    (void)state;
    read_machine(&probe);
    assert_int_equal(probe.count, 4);
    assert_string_equal(probe.note, "driver 580.1");
    text_init(&text, 0);
    probe_write(&probe, &text);
    assert_string_equal(text.data, machine);
    text_clear(&text);
}

static void test_probe_keeps_buses_and_contexts(void **state)
{
    static const char text[] =
        "trainspool-probe 1\n"
        "cpu\tAMD EPYC\t2\t25000000000\t24000000000\n"
        "cuda\t0\tTesla T4\t7.5\t15835660288\t10000000000\t1\t\t300\t0000:3b:00.0\n"
        "cuda\t1\tTesla T4\t7.5\t15835660288\t10000000000\t1\tit is hot\t300\t0:1:2.3\n";
    struct error err = { 0 };
    struct probe probe;
    struct text out;

    (void)state;
    if (!probe_read(text, &probe, &err))
        fail_msg("%s", err.text);
    assert_int_equal(probe.devices[1].context, 300);
    assert_string_equal(probe.devices[1].bus, "0000:3b:00.0");
    assert_string_equal(probe.devices[1].ill, "");
    assert_string_equal(probe.devices[2].ill, "it is hot");
    text_init(&out, 0);
    probe_write(&probe, &out);
    assert_string_equal(out.data, text);
    text_clear(&out);
}

static void test_probe_reads_a_list_of_buses(void **state)
{
    static const char *const bad[] = {
        "", "0", "0/", "0/x", "0/0:1;", "0/0:1,,", "0/0:1 "
    };
    struct device devices[2];
    struct text out;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(probe_read_buses(bad[i], devices, 2), 0);
    assert_int_equal(probe_read_buses("0/0000:3b:00.0", devices, 2), 1);
    assert_int_equal(probe_read_buses("0/0000:3b:00.0,7/0000:5E:00.0", devices, 2), 2);
    assert_string_equal(devices[0].bus, "0000:3b:00.0");
    assert_string_equal(devices[1].bus, "0000:5E:00.0");
    assert_int_equal(devices[1].ordinal, 7);
    devices[0].available = 12;
    strcpy(devices[1].ill, "it is hot");
    text_init(&out, 0);
    probe_write_free(devices, 2, &out);
    assert_string_equal(out.data, "free\t0\t12\nfree\t7\t0\tit is hot\n");
    text_clear(&out);
}

static void test_probe_picks_the_gpu_with_the_most_free_memory(void **state)
{
    struct probe probe;
    struct error err = { 0 };

    (void)state;
    read_machine(&probe);
    assert_int_equal(probe_select_one(&probe, "auto", &err)->ordinal,
                     1); /* most free memory */
    assert_int_equal(probe_select_one(&probe, "cuda", &err)->ordinal, 1);
    assert_int_equal(probe_select_one(&probe, "cuda:0", &err)->ordinal, 0);
    assert_int_equal(probe_select_one(&probe, "cpu", &err)->kind, DEVICE_CPU);
    assert_null(probe_select_one(&probe, "cuda:2", &err)); /* no code for it */
    assert_int_equal(err.code, ERROR_DEVICE);
    assert_non_null(strstr(err.text, "no code"));
    error_clear(&err);
    assert_null(probe_select_one(&probe, "tpu", &err));
    assert_int_equal(err.code, ERROR_JOB);
    probe.count = 1;
    error_clear(&err);
    assert_int_equal(probe_select_one(&probe, "auto", &err)->kind, DEVICE_CPU);
    assert_null(probe_select_one(&probe, "cuda", &err));
}

/* GPUs that train together: of one kind, the most free memory first, or those named. */
static void test_probe_takes_several_gpus_of_one_capability(void **state)
{
    const struct device *taken[DEVICE_RANKS_MAX];
    struct probe probe;
    struct error err = { 0 };

    (void)state;
    read_machine(&probe);
    assert_int_equal(probe_select(&probe, "auto", 2, taken, &err), 2);
    assert_int_equal(taken[0]->ordinal, 1);
    assert_int_equal(taken[1]->ordinal, 0);
    assert_int_equal(probe_select(&probe, "cuda", 3, taken, &err), 2); /* V100: no code */
    assert_int_equal(probe_select(&probe, "cuda:0,1", 1, taken, &err), 2);
    assert_int_equal(taken[0]->ordinal, 0);
    assert_int_equal(probe_select(&probe, "cpu", 3, taken, &err), 3);
    assert_int_equal(taken[2]->kind, DEVICE_CPU);
    assert_int_equal(probe_peers(&probe, taken[0]), 0);
    probe.devices[3].runnable = true;
    assert_int_equal(probe_select(&probe, "cuda", 2, taken, &err), 1); /* the only 7.0 */
    assert_int_equal(probe_peers(&probe, &probe.devices[1]), 2);
    assert_int_equal(probe_select(&probe, "cuda:0,2", 1, taken, &err), 0);
    assert_non_null(strstr(err.text, "same compute capability"));
    error_clear(&err);
    assert_int_equal(probe_select(&probe, "cuda:0,7", 1, taken, &err), 0);
    assert_int_equal(err.code, ERROR_DEVICE);
    probe.count = 1;
    assert_int_equal(probe_select(&probe, "auto", 2, taken, &err), 2);
    assert_int_equal(taken[1]->kind, DEVICE_CPU);
    assert_int_equal(probe_count_named("cuda:0,1,5"), 3);
    assert_int_equal(probe_count_named("cuda"), 0);
    assert_int_equal(probe_count_named("cuda:0,"), 0);
    assert_int_equal(probe_count_named("cuda:-1"), 0);
}

static void test_probe_refuses_other_text(void **state)
{
    static const char *const bad[] = {
        "",
        "hello\n",
        "trainspool-probe 1\n",
        "trainspool-probe 2\ncpu\tx\t2\t1\t1\n",
        "trainspool-probe 1\ncpu\tx\ttwo\t1\t1\n",
        "trainspool-probe 1\ncuda\t0\tT4\t7\t1\t1\t1\n",
        "trainspool-probe 1\ncpu\tx\t2\t1\t-1\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct probe probe;
        struct error err = { 0 };

        assert_false(probe_read(bad[i], &probe, &err));
        assert_int_equal(err.code, ERROR_SYSTEM);
    }
}

static void test_probe_knows_this_cpu(void **state)
{
    struct device cpu;

    (void)state;
    probe_cpu(&cpu);
    assert_true(cpu.threads >= 1);
    assert_true(cpu.memory > 0 && cpu.available > 0 && cpu.available <= cpu.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe_reads_what_it_writes),
        cmocka_unit_test(test_probe_keeps_buses_and_contexts),
        cmocka_unit_test(test_probe_reads_a_list_of_buses),
        cmocka_unit_test(test_probe_picks_the_gpu_with_the_most_free_memory),
        cmocka_unit_test(test_probe_takes_several_gpus_of_one_capability),
        cmocka_unit_test(test_probe_refuses_other_text),
        cmocka_unit_test(test_probe_knows_this_cpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
