/*
 * patcher/rules/rules_bitsandbytes.c - TS814: the CUDA libraries in the wheels of
 * bitsandbytes.
 *
 * Read from the wheels 0.41.3 to 0.50.0 for Linux x86-64: the names of
 * libbitsandbytes_cuda*.so, and the capabilities in their fat binaries.  Up to 0.49
 * cextension.py loads the library of exactly torch.version.cuda; 0.50 falls back to
 * another of the same major version.
 */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"

/* The first version with a library for a toolkit. */
static const struct library {
    const char *toolkit, *since;
} libraries[] = {
    { "12.4", "0.43.1" }, { "12.5", "0.43.2" }, { "12.6", "0.45.0" },
    { "12.8", "0.45.3" }, { "12.9", "0.46.1" }, { "13.0", "0.48.0" },
    { "13.2", "0.50.0" },
};

/* Libraries that start at a higher capability than torch's builds with the same toolkit
 * (torch_build.c). */
static const struct gap {
    const char *toolkit, *from, *until; /* versions; until NULL: all later ones */
    int least;
} gaps[] = {
    { "12.8", "0.46.0", "0.47.0", 75 },
    { "12.9", "0.46.0", "0.47.0", 75 },
    { "11.8", "0.48.0", NULL, 60 },
    { "12.6", "0.48.0", NULL, 60 },
};

static const char *text_of(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);

    return entry && node_value(entry->value)->kind == NODE_SCALAR
               ? node_value(entry->value)->text
               : "";
}

static bool quantizes(const struct rule_context *context)
{
    const char *method = text_of(context, "quantization_method");

    return rule_is_quantized(context) && (!*method || strcmp(method, "bnb") == 0 ||
                                          strcmp(method, "bitsandbytes") == 0);
}

/* Return whether the optimizer is one of bitsandbytes (transformers training_args.py,
 * OptimizerNames).  Names with torch_ belong to torchao. */
static bool has_its_optimizer(const struct rule_context *context)
{
    static const char *const parts[] = { "bnb", "8bit", "paged_", "lion", "ademamix" };
    const char *optim = text_of(context, "optim");

    for (size_t i = 0; i < TS_COUNT(parts); i++)
        if (strstr(optim, parts[i]) && !strstr(optim, "torch_"))
            return true;
    return false;
}

static void report(struct rule_context *context, const char *message, const char *note)
{
    const struct proposal to = rule_proposal(context);

    propose_remark(
        &to,
        &(struct finding) { .rule = "TS814",
                            .severity = SEVERITY_ERROR,
                            .because = rule_version_text(context, PACKAGE_BITSANDBYTES),
                            .message = message,
                            .note = note },
        rule_version_entry(context, PACKAGE_BITSANDBYTES));
}

static bool is_toolkit(const char *toolkit, const struct version *cuda)
{
    struct version version = { 0 };

    version_read(toolkit, &version);
    return version_covers(&version, cuda);
}

static void check_library(struct rule_context *context, const struct version *cuda)
{
    for (size_t i = 0; i < TS_COUNT(libraries); i++)
        if (is_toolkit(libraries[i].toolkit, cuda) &&
            rule_version_below(context, PACKAGE_BITSANDBYTES, libraries[i].since))
            report(
                context,
                arena_printf(context->arena,
                             "this version of bitsandbytes has no library for CUDA %s, "
                             "with which torch was built, so its kernels cannot be "
                             "loaded",
                             libraries[i].toolkit),
                arena_printf(context->arena, "use bitsandbytes %s or later",
                             libraries[i].since));
}

static void check_gap(struct rule_context *context, const struct version *cuda)
{
    int capability = rule_capability(context);
    char number[16];

    for (size_t i = 0; i < TS_COUNT(gaps); i++) {
        const struct gap *gap = &gaps[i];

        if (capability == 0 || capability >= gap->least ||
            !is_toolkit(gap->toolkit, cuda) ||
            !rule_version_at_least(context, PACKAGE_BITSANDBYTES, gap->from) ||
            (gap->until &&
             !rule_version_below(context, PACKAGE_BITSANDBYTES, gap->until)))
            continue;
        device_capability_text(context->device, number);
        report(
            context,
            arena_printf(context->arena,
                         "the CUDA %s library of this bitsandbytes has no code for %s, "
                         "compute capability %s: no kernel can start",
                         gap->toolkit, context->device->name, number),
            arena_printf(context->arena,
                         gap->until ? "use bitsandbytes %s or later"
                                    : "use a version before %s",
                         gap->until ? gap->until : gap->from));
    }
}

static void rule_bitsandbytes(struct rule_context *context)
{
    struct version cuda;

    if (rule_on_cpu(context) || rule_accelerator(context) ||
        !versions_know(context->versions, PACKAGE_BITSANDBYTES) ||
        rule_env_variable(context, "BNB_CUDA_VERSION") ||
        !rule_torch_cuda(context, &cuda) ||
        (!quantizes(context) && !has_its_optimizer(context)))
        return;
    check_library(context, &cuda);
    check_gap(context, &cuda);
}

static const struct rule rows[] = {
    { .id = "TS814",
      .title = "bitsandbytes without a library for CUDA or the GPU",
      .severity = SEVERITY_ERROR,
      .target = RULE_EXTERNAL,
      .run = rule_bitsandbytes,
      .explain =
          "A bitsandbytes wheel contains one library per CUDA version and loads the one "
          "for the CUDA with which torch was built. If that library is missing, "
          "the import only warns (`Could not find the bitsandbytes CUDA binary`), and "
          "the first quantized weight or 8-bit optimizer step raises an error. Each "
          "library starts at a compute capability, as torch's builds do (TS808).\n\n"
          "The finding names the version that has the library. BNB_CUDA_VERSION in "
          "trainspool.env selects another one and silences the rule, which applies to "
          "jobs that quantize with bitsandbytes or use one of its optimizers.",
      .source = "wheels of bitsandbytes 0.41.3 to 0.50.0; bitsandbytes/cextension.py; "
                "transformers, OptimizerNames" },
};

const struct rules rules_bitsandbytes = { rows, TS_COUNT(rows) };
