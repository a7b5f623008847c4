/*
 * runner/calibrate.c - measures the rates of this machine's devices, in trainspool-train
 * only.
 */
#include "config.h"

#include "runner/calibrate.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "kernels/measure.h"
#include "runner/output/report.h"

static void today(char out[11])
{
    char now[32];

    clock_iso(now);
    snprintf(out, 11, "%.10s", now);
}

/* Choose the formats in which the device computes matmuls. */
static size_t choose_formats(const struct device *device, enum format formats[4])
{
    size_t count = 0;

    formats[count++] = FORMAT_FP32;
    if (device->kind == DEVICE_CPU || device->major >= 6)
        formats[count++] = FORMAT_FP16;
    if (device_has_bf16(device))
        formats[count++] = FORMAT_BF16;
    return count;
}

static bool measure_here(const struct device *device, struct calibration *out,
                         struct error *err)
{
    struct backend_options with = { .device = device };
    struct backend *be = backend_open(&with, err);
    enum format formats[4];
    size_t count = choose_formats(device, formats);
    bool ok;

    *out = (struct calibration) { .threads = device->threads };
    if (!be)
        return false;
    snprintf(out->device, sizeof(out->device), "%s", device->name);
    snprintf(out->build, sizeof(out->build), "%s, %.100s", PACKAGE_VERSION,
             be->ops->describe(be));
    today(out->date);
    ok = measure_backend(be, formats, count, out, err);
    backend_close(be);
    return ok;
}

int calibrate_print(const struct options *options, const struct machine *machine,
                    struct error *err)
{
    struct calibration calibration;
    struct device device;
    struct text line;

    if (machine_device(machine, "", 0, &device, err) &&
        measure_here(&device, &calibration, err)) {
        json_t *object = calibration_object(&calibration);

        text_init(&line, 0);
        json_write(object, &line);
        text_addc(&line, '\n');
        fwrite(line.data, 1, line.len, stdout);
        text_clear(&line);
        json_decref(object);
    }
    if (err->code)
        report_error(options->program, err);
    return report_exit(err->code);
}
