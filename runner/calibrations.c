/* runner/calibrations.c - one small file of JSON, and the child that measures. */
#include "config.h"

#include "runner/calibrations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "base/spawn.h"
#include "kernels/measure.h"
#include "runner/machine.h"
#include "runner/report.h"

enum { FILE_MAX = 1 << 20, ANSWER_MAX = 1 << 16, PATIENCE_MS = 120000 };

/* ---- Measuring ---- */

static void today(char out[11])
{
    char now[32];

    clock_iso(now);
    snprintf(out, 11, "%.10s", now);
}

/* What products are computed in on the device. */
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

int calibrations_print(const struct options *options, const struct machine *machine)
{
    struct calibration calibration;
    struct error err = { 0 };
    struct device device;
    struct text line;

    if (machine_device(machine, "", 0, &device, &err) &&
        measure_here(&device, &calibration, &err)) {
        json_t *object = calibration_object(&calibration);

        text_init(&line, 0);
        json_write(object, &line);
        text_addc(&line, '\n');
        fwrite(line.data, 1, line.len, stdout);
        text_clear(&line);
        json_decref(object);
    }
    if (err.code)
        report_error(options->program, &err);
    return report_exit(err.code);
}

bool calibrations_measure(const char *device, struct calibration *out, struct error *err)
{
    char *program = spawn_sibling("trainspool-train");
    char *argv[] = { program, "--calibrate", "--device", (char *)device, NULL };
    struct spawn_result result;
    struct text said, errors;
    bool ok;

    text_init(&said, ANSWER_MAX);
    text_init(&errors, ANSWER_MAX);
    ok = spawn_capture(argv, PATIENCE_MS, &said, &errors, &result, err);
    if (ok && result.status != 0)
        ok = error_set(err, ERROR_DEVICE, "%s cannot be measured: %.*s", device,
                       (int)strcspn(errors.data, "\n"), errors.data);
    if (ok) {
        json_t *object = json_read_text(said.data, said.len, program, 1, err);

        ok = object && calibration_read(object, program, out, err);
        json_decref(object);
    }
    text_clear(&said);
    text_clear(&errors);
    free(program);
    return ok;
}

/* ---- Keeping ---- */

/* malloc'ed; NULL without a home. */
static char *state_dir(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *base, *dir;

    if (state && *state == '/') /* the specification ignores relative ones */
        return path_join(state, "trainspool");
    if (!home || *home != '/')
        return NULL;
    base = path_join(home, ".local/state");
    dir = path_join(base, "trainspool");
    free(base);
    return dir;
}

static bool same_device(const struct calibration *a, const char *name, int threads)
{
    return strcmp(a->device, name) == 0 && a->threads == threads;
}

static bool same_version(const struct calibration *calibration)
{
    const size_t len = strlen(PACKAGE_VERSION);

    return strncmp(calibration->build, PACKAGE_VERSION, len) == 0 &&
           (calibration->build[len] == ',' || calibration->build[len] == 0);
}

static json_t *read_file(const char *name, struct error *err)
{
    return file_exists(name) ? json_read_file(name, FILE_MAX, err) : NULL;
}

/* Those of other devices and versions, as they are; what is none goes. */
static json_t *others(const json_t *root, const struct calibration *calibration)
{
    const json_t *list = json_object_get(root, "calibrations");
    json_t *kept = json_array();

    for (size_t i = 0; i < json_array_size(list); i++) {
        struct calibration other;
        struct error ignored = { 0 };
        json_t *object = json_array_get(list, i);

        if (calibration_read(object, "", &other, &ignored) &&
            !(same_device(&other, calibration->device, calibration->threads) &&
              same_version(&other)))
            json_array_append(kept, object);
    }
    return kept;
}

static bool write_file(const char *dir, const char *name, json_t *list, struct error *err)
{
    json_t *root = json_pack("{s:i, s:o}", "schema", 1, "calibrations", list);
    struct text text;
    bool ok;

    text_init(&text, FILE_MAX);
    ok = json_write_pretty(root, &text) && file_make_dirs(dir, 0700, err) &&
         file_replace(name, text.data, text.len, 0600, err);
    text_clear(&text);
    json_decref(root);
    return ok;
}

bool calibrations_keep(const struct calibration *calibration, struct error *err)
{
    char *dir = state_dir(), *name;
    struct error ignored = { 0 };
    json_t *root, *list;
    bool ok;

    if (!dir)
        return error_set(err, ERROR_SYSTEM,
                         "there is no folder to keep it in: set HOME or XDG_STATE_HOME");
    name = path_join(dir, "calibrations.json");
    root = read_file(name, &ignored);
    list = others(root, calibration);
    json_array_append_new(list, calibration_object(calibration));
    ok = write_file(dir, name, list, err);
    json_decref(root);
    free(name);
    free(dir);
    return ok;
}

static bool find_in(const json_t *root, const char *name, const struct device *device,
                    struct calibration *out, struct error *err)
{
    const json_t *list = json_object_get(root, "calibrations");

    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!calibration_read(json_array_get(list, i), name, out, err))
            return false;
        if (same_device(out, device->name, device->threads) && same_version(out))
            return true;
    }
    return false;
}

bool calibrations_find(const struct device *device, struct calibration *out,
                       struct error *err)
{
    char *dir = state_dir(), *name = dir ? path_join(dir, "calibrations.json") : NULL;
    struct error why = { 0 };
    json_t *root = name ? read_file(name, &why) : NULL;
    bool found = root && find_in(root, name, device, out, &why);

    if (why.code)
        error_set(err, why.code,
                  "%s cannot be read; trainspool devices --calibrate makes it anew", name);

    json_decref(root);
    free(name);
    free(dir);
    return found;
}
