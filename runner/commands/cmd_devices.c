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

static const char *kind_text(const struct device *device)
{
    return device->accelerator           ? device->accelerator->backend
           : device->kind == DEVICE_CUDA ? "cuda"
                                         : "cpu";
}

/* The number formats of a device; null: not known. */
static void add_formats(json_t *object, const struct device *device)
{
    const struct accelerator_row *other = device->accelerator;
    const struct {
        const char *name;
        bool has;
        enum known known;
    } formats[] = {
        { "bf16", device_has_bf16(device), other ? other->bf16 : KNOWN_YES },
        { "tf32", device_has_tf32(device), other ? NOT_KNOWN : KNOWN_YES },
        { "fp8", device_has_fp8(device), other ? other->fp8 : KNOWN_YES },
        { "fp16_tensor_cores",
          other ? other->fp16 == KNOWN_YES : device_has_fp16_tensor_cores(device),
          other ? other->fp16 : KNOWN_YES },
    };

    for (size_t i = 0; i < TS_COUNT(formats); i++)
        json_object_set_new(object, formats[i].name,
                            formats[i].known == NOT_KNOWN ? json_null()
                                                          : json_boolean(formats[i].has));
}

static json_t *device_object(const struct device *device)
{
    json_t *object = report_json_device(device);

    json_object_set_new(object, "kind", json_string(kind_text(device)));
    if (device->kind != DEVICE_CPU)
        json_object_set_new(
            object, "maker",
            json_string(device->accelerator ? device->accelerator->maker : "NVIDIA"));
    if (device->here)
        json_object_set_new(object, "available_bytes",
                            json_integer((json_int_t)device->available));
    if (device->kind == DEVICE_CUDA && device->ordinal >= 0)
        json_object_set_new(object, "ordinal", json_integer(device->ordinal));
    if (device->threads > 0)
        json_object_set_new(object, "threads", json_integer(device->threads));
    add_formats(object, device);
    if (device->here)
        json_object_set_new(object, "runnable", json_boolean(device->runnable));
    if (device->here && device->kind == DEVICE_CUDA)
        json_object_set_new(object, "ill",
                            device->ill[0] ? report_json_string(device->ill)
                                           : json_null());
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
    if (device->ill[0]) {
        text_adds(&line, "; does not work: ");
        report_visible(&line, device->ill);
    }
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

/* A row of either table, as it is listed. */
struct listed {
    const char *name, *size, *maker;
    unsigned gib;
};

static bool find_listed(const struct listed *row, struct device *out, struct error *err)
{
    char name[128];

    snprintf(name, sizeof(name), "%s%s%s", row->name, row->size[0] ? " " : "", row->size);
    return device_find(name, out, err);
}

static void add_accelerator(struct text *line, const struct accelerator_row *row)
{
    const struct {
        const char *name;
        enum known known;
    } formats[] = { { "fp16", row->fp16 }, { "bf16", row->bf16 }, { "fp8", row->fp8 } };
    bool first = true, known = false;

    for (size_t i = 0; i < TS_COUNT(formats); i++)
        if (formats[i].known == KNOWN_YES) {
            text_addf(line, " %s", formats[i].name);
            known = true;
        }
    for (size_t i = 0; i < TS_COUNT(formats); i++)
        if (formats[i].known == NOT_KNOWN) {
            text_addf(line, "%s %s",
                      !first  ? ","
                      : known ? "; not known:"
                              : " not known:",
                      formats[i].name);
            first = false;
        }
    if (row->remark)
        text_addf(line, "; %s", row->remark);
}

static bool known_row(struct report *report, const struct options *options,
                      const struct listed *row, struct error *err)
{
    struct device device;
    struct text line;
    char column[16], memory[16] = "-";

    if (!find_listed(row, &device, err))
        return false;
    if (options->json) {
        report_json(report, device_object(&device), err);
        return true;
    }
    device_capability_text(&device, column);
    if (row->gib)
        snprintf(memory, sizeof(memory), "%u GiB", row->gib);
    text_init(&line, 0);
    text_addf(&line, "%-22s %-6s %4s %9s  %-6s ", row->name, row->size,
              device.accelerator ? device.accelerator->backend : column, memory,
              row->maker);
    if (device.accelerator)
        add_accelerator(&line, device.accelerator);
    else
        add_abilities(&line, &device);
    text_addc(&line, '\n');
    report_write(report, &line);
    text_clear(&line);
    return true;
}

static void known(struct report *report, const struct options *options, struct error *err)
{
    const struct accelerator_row *accelerators;
    const struct device_row *rows;
    size_t count = device_rows(&rows), others = device_accelerators(&accelerators);

    if (!options->json && !options->quiet)
        report_line(report, "%-22s %-6s %4s %9s  %-6s  %s", "device", "size", "cc",
                    "memory", "maker", "fast formats");
    for (size_t i = 0; i < count; i++)
        if (!known_row(
                report, options,
                &(struct listed) { rows[i].name, rows[i].size, "NVIDIA", rows[i].gib },
                err))
            return;
    for (size_t i = 0; i < others; i++)
        if (!known_row(report, options,
                       &(struct listed) { accelerators[i].name, accelerators[i].size,
                                          accelerators[i].maker, accelerators[i].gib },
                       err))
            return;
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
