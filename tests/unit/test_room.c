/* tests/unit/test_room.c - what a job waits for when it starts. */
#include "config.h"

#include "tests/unit/unit.h"

#include "runner/job/room.h"

static struct machine machine_of(uint64_t cpu, uint64_t gpu)
{
    struct machine machine = { .probe = { .count = 2 } };

    machine.probe.devices[0] =
        (struct device) { .kind = DEVICE_CPU, .ordinal = -1, .available = cpu };
    machine.probe.devices[1] = (struct device) {
        .kind = DEVICE_CUDA, .major = 8, .here = true, .runnable = true, .available = gpu
    };
    return machine;
}

static void expect_room(const struct machine *machine, const char *device, int64_t ranks,
                        const char *says)
{
    const struct plan plan = { .do_train = CHOICE_YES,
                               .device_wanted = device,
                               .ranks = ranks,
                               .memory.total = (uint64_t)3 << 30 };
    struct error err = { 0 };

    assert_int_equal(room_check(machine, &plan, &err), !says);
    assert_string_equal(err.text, says ? says : "");
    assert_int_equal(err.code, says ? ERROR_FAULT : ERROR_NONE);
}

static void test_room_compares_with_what_is_free(void **state)
{
    const struct machine large = machine_of((uint64_t)6 << 30, (uint64_t)3 << 30);
    const struct machine small = machine_of((uint64_t)5 << 30, (uint64_t)2 << 30);

    (void)state;
    expect_room(&large, "auto", 1, NULL);
    expect_room(&small, "auto", 1, "waits for 1.0 GiB on cuda:0");
    expect_room(&small, "cpu", 1, NULL);
    expect_room(&large, "cpu", 2, NULL);
    expect_room(&small, "cpu", 2, "waits for 1.0 GiB on the cpu");
}

static void test_room_leaves_missing_devices_to_the_run(void **state)
{
    const struct machine machine = machine_of(1, 1);

    (void)state;
    expect_room(&machine, "cuda:5", 1, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room_compares_with_what_is_free),
        cmocka_unit_test(test_room_leaves_missing_devices_to_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
