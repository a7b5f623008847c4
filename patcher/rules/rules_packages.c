/*
 * patcher/rules/rules_packages.c - versions of packages that do not work together.
 *
 * Sources, in the tagged releases: setup.py of transformers (v4.30.0 to v5.15.0), of
 * Accelerate (v0.21.0 to v1.14.0) and of PEFT (v0.6.0 to v0.20.0); check_dependencies in
 * extras/misc.py and pyproject.toml of LLaMA-Factory (v0.6.0 to v0.9.5); the release
 * compatibility matrix and the CUDA support matrix in RELEASE.md of PyTorch (2.14).
 */
#include "config.h"

#include "patcher/rules/rules_context.h"
#include "patcher/rules/torch_build.h"

#include <string.h>

#include "base/size.h"

#define HF_SOURCE "transformers' setup.py"

#define ACC_SOURCE "Accelerate's setup.py"

#define PEFT_SOURCE "PEFT's setup.py"

#define FACTORY_CHECK "LLaMA-Factory's check_dependencies"

#define FACTORY_SETUP "LLaMA-Factory's setup.py"

enum {
    TORCH = PACKAGE_TORCH,
    HF = PACKAGE_TRANSFORMERS,
    ACC = PACKAGE_ACCELERATE,
    PEFT = PACKAGE_PEFT,
    TRL = PACKAGE_TRL,
    DS = PACKAGE_DEEPSPEED,
    FACTORY = PACKAGE_LLAMAFACTORY
};

/* From one version of a package to below another, it requires a second package in a
 * range. */
static const struct requirement {
    int package;
    const char *from, *until; /* NULL: up to the last release that was checked */
    int other;
    const char *least, *most; /* NULL: no bound; most is included */
    const char *source;
} requirements[] = {
    { HF, "4.33", "4.37", TORCH, "1.10", NULL, HF_SOURCE },
    { HF, "4.37", "4.38", TORCH, "1.11", NULL, HF_SOURCE },
    { HF, "4.48", "4.52", TORCH, "2.0", NULL, HF_SOURCE },
    { HF, "4.52", "4.56", TORCH, "2.1", NULL, HF_SOURCE },
    { HF, "4.56", "5.1", TORCH, "2.2", NULL, HF_SOURCE },
    { HF, "5.1", "5.15", TORCH, "2.4", NULL, HF_SOURCE },
    { HF, "5.15", NULL, TORCH, "2.5", NULL, HF_SOURCE },
    { HF, "4.31", "4.36", ACC, "0.20.3", NULL, HF_SOURCE },
    { HF, "4.36", "4.45", ACC, "0.21.0", NULL, HF_SOURCE },
    { HF, "4.45", "5.0", ACC, "0.26.0", NULL, HF_SOURCE },
    { HF, "5.0", NULL, ACC, "1.1.0", NULL, HF_SOURCE },
    { HF, "4.31", NULL, DS, "0.9.3", NULL, HF_SOURCE },
    { ACC, "0.21", "1.3", TORCH, "1.10.0", NULL, ACC_SOURCE },
    { ACC, "1.3", NULL, TORCH, "2.0.0", NULL, ACC_SOURCE },
    { PEFT, "0.1", NULL, TORCH, "1.13.0", NULL, PEFT_SOURCE },
    { PEFT, "0.6", NULL, ACC, "0.21.0", NULL, PEFT_SOURCE },
    { FACTORY, "0.6.0", "0.8.0", HF, "4.37.2", NULL, FACTORY_CHECK },
    { FACTORY, "0.8.0", "0.9.0", HF, "4.41.2", NULL, FACTORY_CHECK },
    { FACTORY, "0.9.0", "0.9.1", HF, "4.41.2", "4.45.0", FACTORY_CHECK },
    { FACTORY, "0.9.1", "0.9.2", HF, "4.41.2", "4.46.1", FACTORY_CHECK },
    { FACTORY, "0.9.2", "0.9.3", HF, "4.41.2", "4.49.0", FACTORY_CHECK },
    { FACTORY, "0.9.3", "0.9.4", HF, "4.45.0", "4.52.4", FACTORY_CHECK },
    { FACTORY, "0.9.4", "0.9.5", HF, "4.51.0", "4.57.1", FACTORY_CHECK },
    { FACTORY, "0.9.5", "0.9.6", HF, "4.55.0", "5.6.0", FACTORY_CHECK },
    { FACTORY, "0.6.0", "0.8.0", ACC, "0.27.2", NULL, FACTORY_CHECK },
    { FACTORY, "0.8.0", "0.9.0", ACC, "0.30.1", NULL, FACTORY_CHECK },
    { FACTORY, "0.9.0", "0.9.1", ACC, "0.30.1", "0.33.0", FACTORY_CHECK },
    { FACTORY, "0.9.1", "0.9.2", ACC, "0.34.0", "1.0.1", FACTORY_CHECK },
    { FACTORY, "0.9.2", "0.9.3", ACC, "0.34.0", "1.2.1", FACTORY_CHECK },
    { FACTORY, "0.9.3", "0.9.4", ACC, "0.34.0", "1.7.0", FACTORY_CHECK },
    { FACTORY, "0.9.4", "0.9.5", ACC, "1.3.0", "1.11.0", FACTORY_CHECK },
    { FACTORY, "0.9.5", "0.9.6", ACC, "1.3.0", "1.15.0", FACTORY_CHECK },
    { FACTORY, "0.6.0", "0.6.1", PEFT, "0.9.0", NULL, FACTORY_CHECK },
    { FACTORY, "0.6.1", "0.8.0", PEFT, "0.10.0", NULL, FACTORY_CHECK },
    { FACTORY, "0.8.0", "0.9.0", PEFT, "0.11.1", NULL, FACTORY_CHECK },
    { FACTORY, "0.9.0", "0.9.3", PEFT, "0.11.1", "0.12.0", FACTORY_CHECK },
    { FACTORY, "0.9.3", "0.9.4", PEFT, "0.14.0", "0.15.2", FACTORY_CHECK },
    { FACTORY, "0.9.4", "0.9.5", PEFT, "0.14.0", "0.17.1", FACTORY_CHECK },
    { FACTORY, "0.9.5", "0.9.6", PEFT, "0.18.0", "0.20.0", FACTORY_CHECK },
    { FACTORY, "0.6.0", "0.8.0", TRL, "0.8.1", NULL, FACTORY_CHECK },
    { FACTORY, "0.8.0", "0.9.0", TRL, "0.8.6", NULL, FACTORY_CHECK },
    { FACTORY, "0.9.0", "0.9.4", TRL, "0.8.6", "0.9.6", FACTORY_CHECK },
    { FACTORY, "0.9.4", "0.9.6", TRL, "0.18.0", "0.24.0", FACTORY_CHECK },
    { FACTORY, "0.7.0", "0.9.3", TORCH, "1.13.1", NULL, FACTORY_SETUP },
    { FACTORY, "0.9.3", "0.9.4", TORCH, "2.0.0", NULL, FACTORY_SETUP },
    { FACTORY, "0.9.4", "0.9.6", TORCH, "2.4.0", NULL, FACTORY_SETUP },
};

static struct version parse_version(const char *text)
{
    struct version version = { 0 };

    version_read(text, &version);
    return version;
}

/* Accept a given 4.57 where 4.57.1 is required: it may be an abbreviation. */
static bool is_outside(const struct version *version,
                       const struct requirement *requirement)
{
    struct version least =
        requirement->least ? parse_version(requirement->least) : *version;
    struct version most = requirement->most ? parse_version(requirement->most) : *version;

    return (version_compare(version, &least) < 0 && !version_covers(version, &least)) ||
           (version_compare(version, &most) > 0 && !version_covers(&most, version));
}

static const char *range_text(const struct rule_context *context,
                              const struct requirement *requirement)
{
    if (requirement->least && requirement->most)
        return arena_printf(context->arena, "%s to %s", requirement->least,
                            requirement->most);
    return arena_printf(context->arena, "%s or later", requirement->least);
}

static void check_requirement(struct rule_context *context,
                              const struct requirement *requirement)
{
    const struct proposal to = rule_proposal(context);
    enum package package = (enum package)requirement->package,
                 other = (enum package)requirement->other;

    if (!rule_version_at_least(context, package, requirement->from) ||
        (requirement->until &&
         !rule_version_below(context, package, requirement->until)) ||
        !versions_know(context->versions, other) ||
        !is_outside(&context->versions->packages[other].version, requirement))
        return;
    propose_remark(
        &to,
        &(struct finding) { .rule = "TS808",
                            .severity = SEVERITY_WARNING,
                            .because = arena_printf(context->arena, "%s; %s",
                                                    rule_version_text(context, package),
                                                    rule_version_text(context, other)),
                            .message = arena_printf(
                                context->arena, "this version of %s requires %s %s (%s)",
                                package_names[package], package_names[other],
                                range_text(context, requirement), requirement->source) },
        rule_version_entry(context, other));
}

static const struct version *known_torch(const struct rule_context *context)
{
    return versions_know(context->versions, PACKAGE_TORCH)
               ? &context->versions->packages[PACKAGE_TORCH].version
               : NULL;
}

static void report_cuda(struct rule_context *context, enum severity severity,
                        const char *message, const char *note)
{
    const struct proposal to = rule_proposal(context);
    bool given = versions_know(context->versions, PACKAGE_CUDA);

    propose_remark(
        &to,
        &(struct finding) { .rule = "TS808",
                            .severity = severity,
                            .because = rule_version_text(context, PACKAGE_TORCH),
                            .message = message,
                            .note = note },
        rule_version_entry(context, given ? PACKAGE_CUDA : PACKAGE_TORCH));
}

static void check_build(struct rule_context *context, const struct version *cuda)
{
    const struct version *torch = known_torch(context);
    const char *list = NULL, *release = NULL;
    const struct torch_build *rows;
    size_t count = torch_builds(&rows);

    for (size_t i = 0; torch && i < count; i++) {
        if (torch_build_matches(&rows[i], torch, cuda))
            return;
        if (!torch_build_matches(&rows[i], torch, NULL))
            continue;
        release = rows[i].torch;
        list = arena_printf(context->arena, "%s%s%s", list ? list : "", list ? ", " : "",
                            rows[i].toolkit);
    }
    if (list)
        report_cuda(
            context, SEVERITY_WARNING,
            arena_printf(context->arena, "PyTorch builds torch %s with CUDA %s", release,
                         list),
            "cuda is the version that torch was built with, torch.version.cuda, not the "
            "version that the driver supports");
}

/* Return whether torch is one of PyTorch's releases.  Nightly builds change from day to
 * day, and containers and source builds (2.6.0a0+df5bbc09d1.nv24.11) have code for
 * whatever cards their makers chose. */
static bool is_published(const struct version *torch)
{
    return !torch->stage && !torch->has_dev &&
           (!torch->local[0] || strncmp(torch->local, "cu", 2) == 0);
}

static const char *find_remedy(const struct rule_context *context,
                               const struct version *torch, int capability)
{
    const struct torch_build *build = torch_build_for(torch, capability);
    const char *dot;

    if (!torch_build_serves(capability))
        return "use NVIDIA's builds of PyTorch for this board";
    if (!build)
        return "no build of PyTorch since 1.12 runs on it";
    dot = strchr(build->toolkit, '.');
    return arena_printf(
        context->arena,
        "torch %s built with CUDA %s runs on it: pip install 'torch==%s.*' "
        "--index-url https://download.pytorch.org/whl/cu%.*s%s",
        build->torch, build->toolkit, build->torch, (int)(dot - build->toolkit),
        build->toolkit, dot + 1);
}

/* Return whether a build of PyTorch matches these versions, and none of those that do has
 * code for the card; *text is what has no code. */
static bool lacks_code(const struct rule_context *context, const struct version *torch,
                       const struct version *cuda, const char **text)
{
    int capability = rule_capability(context);
    const struct torch_build *rows, *found = NULL;
    size_t count = torch_builds(&rows);

    for (size_t i = 0; i < count; i++) {
        if (!torch_build_matches(&rows[i], torch, cuda))
            continue;
        if (torch_build_runs_on(&rows[i], capability))
            return false;
        found = &rows[i];
    }
    if (found)
        *text = arena_printf(context->arena, "PyTorch's build of torch%s%s with CUDA %s",
                             torch ? " " : "", torch ? found->torch : "", found->toolkit);
    return found;
}

/* No kernel can start on a card for which torch has no code. */
static void check_card(struct rule_context *context, const struct version *cuda)
{
    const struct version *torch = known_torch(context);
    int capability = rule_capability(context);
    const char *text = NULL;
    char number[16];

    if (capability == 0 || (torch && !is_published(torch)))
        return;
    if (capability < 75 && cuda->release[0] >= 13)
        text = "torch built with CUDA 13";
    else if (!torch || !torch_build_serves(capability) ||
             !lacks_code(context, torch, cuda, &text))
        return;
    device_capability_text(context->device, number);
    report_cuda(
        context, SEVERITY_ERROR,
        arena_printf(context->arena,
                     "%s has no code for %s, compute capability %s: no kernel can "
                     "start",
                     text, context->device->name, number),
        find_remedy(context, torch, capability));
}

/* 2.4.0+cpu: the whole job runs on the CPU. */
static void check_cpu_build(struct rule_context *context)
{
    const struct version *torch = known_torch(context);

    if (!rule_on_gpu(context) || !torch || torch->has_dev ||
        strncmp(torch->local, "cpu", 3) != 0)
        return;
    report_cuda(context, SEVERITY_WARNING,
                arena_printf(context->arena,
                             "this build of torch has no CUDA support, so %s is not used",
                             context->device->name),
                find_remedy(context, torch, rule_capability(context)));
}

static void rule_package_versions(struct rule_context *context)
{
    struct version cuda;

    check_cpu_build(context);
    for (size_t i = 0; i < TS_COUNT(requirements); i++)
        check_requirement(context, &requirements[i]);
    if (rule_torch_cuda(context, &cuda)) {
        check_build(context, &cuda);
        check_card(context, &cuda);
    }
}

static const struct rule rows[] = {
    { .id = "TS808",
      .title = "incompatible package versions",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_package_versions,
      .explain =
          "Each package states which versions of the others it requires; pip does not "
          "keep an environment consistent with that, and the failure then looks like a "
          "fault of the job. The table contains what the releases of transformers, "
          "Accelerate, PEFT and LLaMA-Factory require of each other and of torch, and "
          "the CUDA toolkits that PyTorch's builds are made with. An abbreviated "
          "version, such as 4.57, is assumed to be compatible if one of its releases "
          "is.\n\n"
          "A build of torch runs only on cards that it has code for; on any other card no "
          "kernel can start (`no kernel image is available for execution on the "
          "device`), which is an error. Blackwell cards (compute capability 10.0 and "
          "12.0) need torch 2.7 or later built with CUDA 12.8 or later. Builds with CUDA "
          "12.8 and 12.9 start at Volta (7.0), with torch 2.7 and 2.11 at Turing (7.5); "
          "builds with CUDA 13 start at Turing; those with CUDA 12.6 still have code for "
          "Maxwell and Pascal. The finding names a build that works. It needs the "
          "versions of torch and of CUDA: versions: {torch: 2.9.1, cuda: 12.8}, or {torch: "
          "2.9.1+cu128}. Nightly builds, containers and builds from source have other "
          "lists and are not checked.",
      .source =
          "setup.py of transformers v4.30 to v5.15, Accelerate v0.21 to v1.14, PEFT "
          "v0.6 to v0.20; LLaMA-Factory check_dependencies v0.6 to v0.9.5; PyTorch "
          "RELEASE.md and TORCH_CUDA_ARCH_LIST in manywheel/build_cuda.sh, 1.12 to 2.14; "
          "pytorch#157517, #172352" },
};

const struct rules rules_packages = { rows, TS_COUNT(rows) };
