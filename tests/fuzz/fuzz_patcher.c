/*
 * tests/fuzz/fuzz_patcher.c - whatever the text, the edits of the rules lead from it to
 * one that needs no more, and the findings say how.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "patcher/edits.h"
#include "patcher/patcher.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The edits that settle findings, applied to the first text, give the last one. */
static void check_way(const struct patch *patch)
{
    struct edits *edits = edits_new();
    struct text out;

    text_init(&out, 0);
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (!finding->message || finding->at.byte + finding->cut > patch->document.len)
            abort();
        if (finding->now && finding->settled &&
            !edits_replace(edits, finding->at.byte, finding->cut, finding->now, NULL))
            abort();
    }
    if (!edits_apply(edits, patch->document.data, patch->document.len, &out, NULL) ||
        out.len != patch->len || memcmp(out.data, patch->text, out.len) != 0)
        abort();
    text_clear(&out);
    edits_free(edits);
}

static void check_text(const char *data, size_t len, const struct patch_options *options)
{
    struct patch patch, again;

    if (!patcher_check(data, len, options, &patch, NULL))
        abort();
    if (patch.document.root)
        check_way(&patch);
    if (!patcher_check(patch.text, patch.len, options, &again, NULL) || again.changed ||
        patch_rejected(&again) != patch_rejected(&patch))
        abort();
    patch_clear(&again);
    patch_clear(&patch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct device device = { 0 };
    struct patch_options options = { .job = "/nowhere/job.yaml", .device = &device };

    if (!device_find("T4", &device, NULL))
        abort();
    check_text((const char *)data, len, &options);
    options.unsafe = true;
    check_text((const char *)data, len, &options);
    return 0;
}
