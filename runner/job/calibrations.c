/*
 * runner/job/calibrations.c - stores calibrations in one small JSON file and runs the
 * child that measures.
 */
#include "config.h"

#include "runner/job/calibrations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "base/spawn.h"
#include "base/json.h"

enum { FILE_MAX = 1 << 20, ANSWER_MAX = 1 << 16, PATIENCE_MS = 300000 };

/* ---- Measuring ---- */

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
    if (ok && result.timed_out)
        ok = error_set(err, ERROR_DEVICE, "measuring %s took too long; is it busy?",
                       device);
    if (ok && result.status != 0)
        ok = error_set(err, ERROR_DEVICE, "cannot measure %s: %.*s", device,
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

/* ---- Storage ---- */

/* malloc'ed; NULL without a home directory. */
static char *state_dir(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *base, *dir;

    if (state && *state == '/') /* the specification ignores relative paths */
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

/* Return the entries of other devices and versions unchanged; drop invalid ones. */
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

bool calibrations_save(const struct calibration *calibration, struct error *err)
{
    char *dir = state_dir(), *name;
    struct error ignored = { 0 };
    json_t *root, *list;
    bool ok;

    if (!dir)
        return error_set(err, ERROR_SYSTEM,
                         "cannot store the calibration: set HOME or XDG_STATE_HOME");
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
                  "cannot read %s; trainspool devices --calibrate creates it again",
                  name);

    json_decref(root);
    free(name);
    free(dir);
    return found;
}
