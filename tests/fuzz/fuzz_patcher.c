/*
 * tests/fuzz/fuzz_patcher.c - the patcher: a check does not change the text, the edits of
 * the findings turn the text into the patched text, the patched text needs no more edits,
 * and errors that the findings report as fixed are gone.
 *
 * Input: a job, and optionally a zero byte, a byte of flags and a byte that selects the
 * device.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "patcher/document/edits.h"
#include "patcher/patcher.h"
#include "patcher/schema/redact.h"

enum { UNSAFE = 1, WILL_RUN = 2, ROOTS = 4, NO_DEVICE = 8, POLICY = 16 };

static const char *const devices[] = { "T4",   "A100",     "P100",      "GTX 1660",
                                       "H100", "V100",     "cpu",       "sm_120:16GiB",
                                       "P40",  "RTX 3090", "sm_89:4GiB" };
static const char *const policies[] = {
    "trainspool.policy=report", "trainspool.policy=bf16",     "trainspool.policy=fp32",
    "trainspool.policy=noclip", "trainspool.policy=noscaler", "trainspool.policy=sound",
};
enum {
    DEVICES = sizeof(devices) / sizeof(devices[0]),
    POLICIES = sizeof(policies) / sizeof(policies[0])
};

static void check_finding(const struct patch *patch, const struct finding *finding)
{
    const char *at = patch->document.data + finding->at.byte;

    FUZZ_HOLDS(finding->rule && finding->message && finding->message[0]);
    FUZZ_HOLDS(finding->at.byte + finding->cut <= patch->document.len);
    FUZZ_HOLDS(!finding->new_text || finding->apply != APPLY_MANUAL);
    FUZZ_HOLDS(!finding->new_text ||
               (finding->old_text && strlen(finding->old_text) == finding->cut &&
                memcmp(finding->old_text, at, finding->cut) == 0));
    FUZZ_HOLDS(!finding->fixed); /* a check applies nothing */
}

/* Check that the edits of the resolved findings turn the original text into the patched
 * text, and that their inverse restores the original. */
static void check_edits(const struct patch *patch)
{
    struct edits *edits = edits_new(), *back = edits_new();
    size_t grown = 0, at = 0;
    struct text out;

    text_init(&out, 0);
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        check_finding(patch, finding);
        if (!finding->new_text || !finding->resolved)
            continue;
        FUZZ_HOLDS(edits_replace(edits, finding->at.byte, finding->cut, finding->new_text,
                                 NULL));
        FUZZ_HOLDS(finding->at.byte >= at); /* findings are in order */
        at = finding->at.byte + finding->cut;
        FUZZ_HOLDS(edits_replace(back, finding->at.byte + grown,
                                 strlen(finding->new_text), finding->old_text, NULL));
        grown += strlen(finding->new_text) - finding->cut;
    }
    FUZZ_HOLDS(edits_apply(edits, patch->document.data, patch->document.len, &out, NULL));
    FUZZ_HOLDS(out.len == patch->len && memcmp(out.data, patch->text, out.len) == 0);
    text_reset(&out);
    FUZZ_HOLDS(edits_apply(back, patch->text, patch->len, &out, NULL));
    FUZZ_HOLDS(out.len == patch->document.len &&
               memcmp(out.data, patch->document.data, out.len) == 0);
    text_clear(&out);
    edits_free(edits);
    edits_free(back);
}

/* Return whether a finding of the same rule and key remains. */
static bool is_left(const struct patch *patch, const struct finding *like)
{
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (!finding->resolved && strcmp(finding->rule, like->rule) == 0 &&
            strcmp(finding->key ? finding->key : "", like->key ? like->key : "") == 0)
            return true;
    }
    return false;
}

/* Check that the patched text needs no edit and has no error that was reported as
 * fixed. */
static void check_again(const struct patch *patch, const struct patch *again)
{
    FUZZ_HOLDS(!again->changed && patch_rejected(again) == patch_rejected(patch));
    FUZZ_HOLDS(again->len == patch->len &&
               memcmp(again->text, patch->text, patch->len) == 0);
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (finding->resolved && finding->severity == SEVERITY_ERROR &&
            !is_left(patch, finding))
            FUZZ_HOLDS(!is_left(again, finding));
    }
}

static void check_text(const struct fuzz_part *text, const struct patch_options *options)
{
    struct patch_options how = *options;
    struct patch patch, again;
    struct error err = { 0 };

    if (!patcher_check(text->data, text->len, options, &patch, &err)) {
        FUZZ_HOLDS(err.code == ERROR_JOB || (options->set && err.code == ERROR_USAGE));
        patch_clear(&patch);
        return;
    }
    FUZZ_HOLDS(patch.has_plan || patch_rejected(&patch));
    if (patch.document.root && !options->set) {
        FUZZ_HOLDS(patch.document.len == text->len &&
                   memcmp(patch.document.data, text->data, text->len) == 0);
        check_edits(&patch);
    }
    how.set = NULL;
    FUZZ_HOLDS(patcher_check(patch.text, patch.len, &how, &again, NULL));
    check_again(&patch, &again);
    patch_clear(&again);
    patch_clear(&patch);
}

static void check_redacted(const struct fuzz_part *text)
{
    struct text out;

    text_init(&out, 0);
    FUZZ_HOLDS(redact_text(text->data, text->len, &out));
    text_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const roots[] = { "/nowhere", NULL };
    struct fuzz_part text = { (const char *)data, len };
    const uint8_t *last = len > 0 ? memrchr(data, 0, len) : NULL;
    const char *set[] = { NULL, NULL };
    size_t extra = last ? len - (size_t)(last + 1 - data) : 0;
    unsigned how = extra > 0 ? last[1] : 0;
    struct device device = { 0 };
    struct patch_options options = { .job = "/nowhere/job.yaml", .device = &device };

    if (extra > 0)
        text.len = (size_t)(last - data);
    FUZZ_HOLDS(device_find(devices[extra > 1 ? last[2] % DEVICES : 0], &device, NULL));
    options.unsafe = how & UNSAFE;
    options.will_run = how & WILL_RUN;
    if (how & ROOTS)
        options.roots = roots;
    if (how & NO_DEVICE)
        options.device = NULL;
    if (how & POLICY) {
        set[0] = policies[(how >> 5) % POLICIES];
        options.set = set;
    }
    check_text(&text, &options);
    check_redacted(&text);
    return 0;
}
