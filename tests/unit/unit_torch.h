/*
 * tests/unit/unit_torch.h - files of torch.save as text, read by the standard library of
 * Python (tests/unit/torch_file.py).
 */
#ifndef TESTS_UNIT_UNIT_TORCH_H
#define TESTS_UNIT_UNIT_TORCH_H

#include "base/spawn.h"
#include "tests/unit/unit.h"

#define UNIT_TORCH_TIMEOUT_MS 60000

/* Write what the file holds to *out; the test is skipped without python3. */
static inline void unit_torch_print(const char *name, struct text *out)
{
    char *const probe[] = { "python3", "-c", "import pickle, zipfile", NULL };
    char *script = unit_source("tests/unit/torch_file.py"), *file = memory_strdup(name);
    char *const argv[] = { "python3", "-B", script, file, NULL };
    struct spawn_result result;
    struct error err = { 0 };
    struct text errors;

    if (!spawn_capture(probe, UNIT_TORCH_TIMEOUT_MS, NULL, NULL, &result, NULL) ||
        result.status != 0) {
        print_message("# SKIP there is no python3 to read %s\n", name);
        free(script);
        free(file);
        skip();
    }
    text_init(out, 0);
    text_init(&errors, 0);
    if (!spawn_capture(argv, UNIT_TORCH_TIMEOUT_MS, out, &errors, &result, &err))
        fail_msg("%s", err.text);
    if (result.status != 0)
        fail_msg("%s", errors.data);
    text_clear(&errors);
    free(script);
    free(file);
}

#endif
