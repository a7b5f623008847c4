/*
 * tests/fuzz/fuzz_script.c - the reader of Python scripts: any bytes are read or refused;
 * findings are inside the text; edits keep it a script, and no edit is left after them.
 *
 * Input: a script, and optionally a zero byte and a byte that selects the device and
 * whether unsafe edits are made.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "patcher/patcher.h"

static const char *const devices[] = { "T4", "A100", "P100", "cpu" };

static void check_findings(const struct patch *patch)
{
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        FUZZ_HOLDS(finding->rule && finding->message && finding->message[0]);
        FUZZ_HOLDS(finding->at.byte + finding->cut <= patch->document.len);
        FUZZ_HOLDS(!finding->new_text || finding->apply != APPLY_MANUAL);
        FUZZ_HOLDS(!finding->new_text ||
                   (finding->old_text && strlen(finding->old_text) == finding->cut));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = (const char *)data;
    const char *end = memchr(text, 0, len);
    size_t bytes = end ? (size_t)(end - text) : len;
    unsigned flags = end && bytes + 1 < len ? data[bytes + 1] : 0;
    struct device device;
    struct patch_options options = { .job = "fuzz.py", .unsafe = flags & 4 };
    struct error err = { 0 };
    struct patch patch, again;

    if (!(flags & 8) && device_find(devices[flags & 3], &device, &err))
        options.device = &device;
    FUZZ_HOLDS(patcher_check(text, bytes, &options, &patch, &err));
    check_findings(&patch);
    FUZZ_HOLDS(patch.document.len > DOCUMENT_MAX_BYTES || !patch.is_job ||
               memcmp(patch.document.data, text, bytes) == 0);
    if (patch.is_job) {
        FUZZ_HOLDS(patcher_check(patch.text, patch.len, &options, &again, &err));
        FUZZ_HOLDS(again.is_job && !again.changed);
        patch_clear(&again);
    }
    patch_clear(&patch);
    return 0;
}
