/* tests/unit/test_rules_ranks.c - what TS724 advises in place of a launcher's keys. */
#include "config.h"

#include "patcher/patcher.h"

#include "base/size.h"
#include "precision/device.h"
#include "tests/unit/unit.h"

#define HEAD "model_name_or_path: m\ndataset: d.jsonl\n"

/* Check the note of the only finding of TS724 on a machine with `gpus` GPUs. */
static void check_note(const char *source, int gpus, const char *expected)
{
    struct device device = { 0 };
    struct patch_options how = { .job = "job.yaml", .device = &device };
    struct error err = { 0 };
    struct patch patch;
    size_t found = 0;

    assert_true(device_find("A100 80GB", &device, NULL));
    device.peers = gpus;
    if (!patcher_check(source, strlen(source), &how, &patch, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < patch.findings.count; i++) {
        const struct finding *finding = &patch.findings.list[i];

        if (strcmp(finding->rule, "TS724") != 0)
            continue;
        found++;
        assert_int_equal(finding->severity, SEVERITY_WARNING);
        if (!strstr(finding->note, expected))
            fail_msg("%s: %s, not %s", source, finding->note, expected);
    }
    assert_int_equal(found, 1);
    patch_clear(&patch);
}

static void test_launch_keys_become_ranks(void **state)
{
    (void)state;
    check_note(HEAD "deepspeed: nowhere.json\n", 0, "trainspool: {ranks: N}");
    check_note(HEAD "deepspeed: nowhere.json\n", 1, "trainspool: {ranks: N}");
    check_note(HEAD "deepspeed: nowhere.json\n", 4, "trainspool: {ranks: 4}");
    check_note(HEAD "deepspeed: {zero_optimization: {stage: 3}}\n", 8,
               "{ranks: 8, zero_stage: 3}");
    check_note(HEAD "deepspeed: {zero_optimization: {stage: 2, offload_optimizer: "
                    "{device: cpu}}}\n",
               0, "{ranks: N, zero_stage: 2, offload_optimizer: true}");
    check_note(HEAD "fsdp: [full_shard, offload]\n", 2,
               "{ranks: 2, zero_stage: 3, offload_optimizer: true}");
    check_note(HEAD "fsdp: shard_grad_op\n", 2, "{ranks: 2, zero_stage: 2}");
    check_note(HEAD "ray_num_workers: 6\n", 0, "{ranks: 6}");
    check_note(HEAD "ray_num_workers: 6000\n", 0, "{ranks: N}");
    check_note(HEAD "use_ray: true\n", 0, "{ranks: N}");
    check_note(HEAD "use_kt: true\n", 2, "quantization_bit: 4");
    check_note(HEAD "deepspeed: z.json\ntrainspool: {ranks: 2}\n", 2, "divide the work");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launch_keys_become_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
