/*
 * runner/commands/cmd_devices.c - devices: shows this machine's devices and their
 * capabilities, or the device table.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include "precision/memory.h"
#include "base/size.h"
#include "precision/probe.h"
#include "runner/job/calibrations.h"
#include "runner/output/report_json.h"

static int cmd_devices(const struct options *options);

const struct command command_devices = {
    .name = "devices",
    .operands = "",
    .options = (const enum option_id[]) { OPTION_JSON, OPTION_KNOWN, OPTION_CALIBRATE,
                                          OPTION_END },
    .help = "show the devices of this machine and their capabilities",
    .run = cmd_devices,
};

static json_t *device_object(const struct device *device)
{
    json_t *object = report_json_device(device);

    json_object_set_new(object, "kind",
                        json_string(device->kind == DEVICE_CUDA ? "cuda" : "cpu"));
    if (device->here)
        json_object_set_new(object, "available_bytes",
                            json_integer((json_int_t)device->available));
    if (device->kind == DEVICE_CUDA && device->ordinal >= 0)
        json_object_set_new(object, "ordinal", json_integer(device->ordinal));
    if (device->threads > 0)
        json_object_set_new(object, "threads", json_integer(device->threads));
    json_object_set_new(object, "bf16", json_boolean(device_has_bf16(device)));
    json_object_set_new(object, "tf32", json_boolean(device_has_tf32(device)));
    json_object_set_new(object, "fp8", json_boolean(device_has_fp8(device)));
    json_object_set_new(object, "fp16_tensor_cores",
                        json_boolean(device_has_fp16_tensor_cores(device)));
    if (device->here)
        json_object_set_new(object, "runnable", json_boolean(device->runnable));
    return object;
}

static void add_abilities(struct text *out, const struct device *device)
{
    const struct {
        const char *name;
        bool has;
    } abilities[] = {
        { "fp32", true },
        { "fp16", device_has_fp16_tensor_cores(device) },
        { "bf16", device_has_bf16(device) },
        { "tf32", device_has_tf32(device) },
        { "fp8", device_has_fp8(device) },
    };

    for (size_t i = 0; i < sizeof(abilities) / sizeof(abilities[0]); i++)
        if (abilities[i].has)
            text_addf(out, " %s", abilities[i].name);
}

static void device_line(struct report *report, const struct device *device)
{
    char capability[16], memory[16], free_memory[16];
    struct text line;

    device_capability_text(device, capability);
    memory_text(device->memory, memory);
    memory_text(device->available, free_memory);
    text_init(&line, 0);
    if (device->kind == DEVICE_CUDA)
        text_addf(&line, "cuda:%d  ", device->ordinal);
    else
        text_adds(&line, "cpu     ");
    report_visible(&line, device->name);
    if (capability[0])
        text_addf(&line, ", compute capability %s", capability);
    if (device->threads > 0)
        text_addf(&line, ", %d thread%s", device->threads,
                  device->threads == 1 ? "" : "s");
    text_addf(&line, ", %s (%s free):", memory, free_memory);
    add_abilities(&line, device);
    if (!device->runnable)
        text_adds(&line, "; this build has no code for it");
    text_addc(&line, '\n');
    report_write(report, &line);
    text_clear(&line);
}

static void machine(struct report *report, const struct options *options,
                    struct error *err)
{
    struct probe probe;

    probe_devices(&probe);
    if (options->json) {
        json_t *object = json_object(), *list = json_array();

        for (size_t i = 0; i < probe.count; i++)
            json_array_append_new(list, device_object(&probe.devices[i]));
        json_object_set_new(object, "devices", list);
        json_object_set_new(object, "note",
                            report_json_string(probe.note[0] ? probe.note : NULL));
        report_json(report, object, err);
        return;
    }
    for (size_t i = 0; i < probe.count; i++)
        device_line(report, &probe.devices[i]);
    if (probe.note[0] && !options->quiet)
        report_line(report, "note: %s", probe.note);
}

static bool row_device(const struct device_row *row, struct device *out,
                       struct error *err)
{
    char name[128];

    snprintf(name, sizeof(name), "%s%s%s", row->name, row->size[0] ? " " : "", row->size);
    return device_find(name, out, err);
}

static void known(struct report *report, const struct options *options, struct error *err)
{
    const struct device_row *rows;
    size_t count = device_rows(&rows);

    if (!options->json && !options->quiet)
        report_line(report, "%-22s %-6s %4s %9s  %s", "device", "size", "cc", "memory",
                    "fast formats");
    for (size_t i = 0; i < count; i++) {
        struct device device;
        struct text line;

        if (!row_device(&rows[i], &device, err))
            return;
        if (options->json) {
            report_json(report, device_object(&device), err);
            continue;
        }
        text_init(&line, 0);
        text_addf(&line, "%-22s %-6s %2d.%d  %4u GiB ", rows[i].name, rows[i].size,
                  rows[i].major, rows[i].minor, rows[i].gib);
        add_abilities(&line, &device);
        text_addc(&line, '\n');
        report_write(report, &line);
        text_clear(&line);
    }
}

/* "cuda:1", "cpu" */
static void address(const struct device *device, char out[32])
{
    if (device->kind == DEVICE_CUDA)
        snprintf(out, 32, "cuda:%d", device->ordinal);
    else
        snprintf(out, 32, "cpu");
}

static void calibration_line(struct report *report, const struct calibration *calibration)
{
    static const struct {
        enum format format;
        const char *name;
    } shown[] = { { FORMAT_FP32, "fp32" },
                  { FORMAT_FP16, "fp16" },
                  { FORMAT_BF16, "bf16" } };
    const int widest = CALIBRATION_WIDTHS - 1;
    char bandwidth[16];
    struct text line;

    memory_text((uint64_t)calibration->bytes_per_second, bandwidth);
    text_init(&line, 0);
    report_visible(&line, calibration->device);
    text_adds(&line, ":");
    for (size_t i = 0; i < TS_COUNT(shown); i++)
        if (calibration->products[shown[i].format][widest] > 0)
            text_addf(&line, " %s %.3g TFLOPS,", shown[i].name,
                      calibration->products[shown[i].format][widest] / 1e12);
    text_addf(&line, " memory %s/s\n", bandwidth);
    report_write(report, &line);
    text_clear(&line);
}

/* Measure every device that a job could use, one after another. */
static void calibrate(struct report *report, const struct options *options,
                      struct error *err)
{
    struct probe probe;

    probe_devices(&probe);
    for (size_t i = 0; i < probe.count && !err->code; i++) {
        struct calibration calibration;
        char device[32];

        if (!probe.devices[i].runnable)
            continue;
        address(&probe.devices[i], device);
        if (!calibrations_measure(device, &calibration, err) ||
            !calibrations_save(&calibration, err))
            return;
        if (options->json)
            report_json(report, calibration_object(&calibration), err);
        else
            calibration_line(report, &calibration);
    }
}

static int cmd_devices(const struct options *options)
{
    struct error err = { 0 };
    struct report report;

    report_init(&report, options);
    if (options->calibrate)
        calibrate(&report, options, &err);
    else if (options->known)
        known(&report, options, &err);
    else
        machine(&report, options, &err);
    if (err.code)
        report_error(options->program, &err);
    return report_exit(err.code);
}
