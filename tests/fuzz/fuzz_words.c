/*
 * tests/fuzz/fuzz_words.c - parsers of short values: devices, sizes, scalars, versions.
 * Each line of the input goes through all of them.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/nearest.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"
#include "patcher/profiles/versions.h"
#include "precision/device.h"
#include "precision/probe.h"
#include "runner/spool/drop.h"

/* Check that a version equals and covers itself, and that its order with another one is
 * antisymmetric. */
static void read_version(const char *word, struct version *last)
{
    struct version version;

    if (!version_read(word, &version))
        return;
    FUZZ_HOLDS(version_compare(&version, &version) == 0);
    FUZZ_HOLDS(version_covers(&version, &version));
    FUZZ_HOLDS(version_compare(&version, last) == 0 ||
               (version_compare(&version, last) < 0) ==
                   (version_compare(last, &version) > 0));
    *last = version;
}

static void read_device(const char *word)
{
    struct device device = { 0 };
    struct error err = { 0 };
    char capability[16];

    if (!device_find(word, &device, &err)) {
        FUZZ_HOLDS(err.code == ERROR_USAGE && err.text[0]);
        snprintf(device.name, sizeof(device.name), "%s", word);
    }
    device_recognize(&device);
    device_capability_text(&device, capability);
    FUZZ_HOLDS(!device_has_fp8(&device) || device_has_bf16(&device));
    FUZZ_HOLDS(device.available <= device.memory);
    FUZZ_HOLDS(probe_count_named(word) <= DEVICE_RANKS_MAX);
}

/* Parse the word as a plain and as a quoted scalar. */
static void read_scalar(const char *word)
{
    struct node node = { .text = word, .len = strlen(word), .bytes = strlen(word) };
    struct arena *arena = arena_new();
    double number = 0, seconds = 0;
    bool truth;
    int choice;

    for (int i = 0; i < 2; i++, node.style = STYLE_DOUBLE) {
        if (scalar_number(&node, &number) != SCALAR_WRONG && isfinite(number))
            FUZZ_HOLDS(strtod(scalar_print(number, arena), NULL) == number);
        scalar_bool(&node, &truth);
        if (scalar_choice(&node, &choice) != SCALAR_WRONG)
            FUZZ_HOLDS(choice >= 0 && choice <= 2);
        scalar_size(&node);
        if (scalar_seconds(&node, &seconds) != SCALAR_WRONG)
            FUZZ_HOLDS(!(seconds < 0));
    }
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_part rest = { (const char *)data, len };
    struct version last = { .count = 0 };

    for (int i = 0; rest.len > 0 && i < 32; i++) {
        char *word = fuzz_word(fuzz_take(&rest, '\n'));
        uint64_t bytes;

        read_device(word);
        read_version(word, &last);
        package_find(word);
        package_nearest(word);
        read_scalar(word);
        if (device_parse_bytes(word, &bytes))
            FUZZ_HOLDS(bytes < UINT64_C(1) << 63);
        if (drop_name_is_valid(word))
            FUZZ_HOLDS(text_is_utf8(word, strlen(word), NULL));
        free(word);
    }
    return 0;
}
