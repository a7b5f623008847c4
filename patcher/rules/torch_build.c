/* patcher/rules/torch_build.c - the table of PyTorch's builds. */
#include "config.h"

#include "patcher/rules/torch_build.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* TORCH_CUDA_ARCH_LIST for Linux x86-64.  The lists of Windows differ by 6.1, which runs
 * code for 6.0; the toolkits are those of RELEASE.md. */
#define BUILDER "pytorch/builder manywheel/build_cuda.sh, branch release/"
#define SCRIPT  "pytorch/pytorch .ci/manywheel/build_cuda.sh, tag v"
#define MATRIX  "pytorch/pytorch RELEASE.md, CUDA support matrix of 2.12 to 2.14"
#define WHEEL   "torch._C._cuda_getArchFlags() of the wheel 2.6.0+cu124"

#define KEPLER_TO_AMPERE    "3.7 5.0 6.0 7.0 7.5 8.0 8.6"
#define KEPLER_TO_HOPPER    KEPLER_TO_AMPERE " 9.0"
#define MAXWELL_TO_HOPPER   "5.0 6.0 7.0 7.5 8.0 8.6 9.0"
#define VOLTA_TO_BLACKWELL  "7.0 7.5 8.0 8.6 9.0 10.0 12.0"
#define TURING_TO_BLACKWELL "7.5 8.0 8.6 9.0 10.0 12.0"

/* By release, then by toolkit. */
static const struct torch_build builds[] = {
    { "1.12", "11.3", KEPLER_TO_AMPERE, 0, BUILDER "1.12" },
    { "1.12", "11.6", KEPLER_TO_AMPERE, 0, BUILDER "1.12" },
    { "1.13", "11.6", KEPLER_TO_AMPERE, 0, BUILDER "1.13" },
    { "1.13", "11.7", KEPLER_TO_AMPERE, 0, BUILDER "1.13" },
    { "2.0", "11.7", KEPLER_TO_AMPERE, 0, BUILDER "2.0" },
    { "2.0", "11.8", KEPLER_TO_HOPPER, 0, BUILDER "2.0" },
    { "2.1", "11.8", KEPLER_TO_HOPPER, 0, BUILDER "2.1" },
    { "2.1", "12.1", MAXWELL_TO_HOPPER, 0, BUILDER "2.1" },
    { "2.2", "11.8", KEPLER_TO_HOPPER, 0, BUILDER "2.2" },
    { "2.2", "12.1", MAXWELL_TO_HOPPER, 0, BUILDER "2.2" },
    { "2.3", "11.8", KEPLER_TO_HOPPER, 0, BUILDER "2.3" },
    { "2.3", "12.1", MAXWELL_TO_HOPPER, 0, BUILDER "2.3" },
    { "2.4", "11.8", KEPLER_TO_HOPPER, 0, BUILDER "2.4" },
    { "2.4", "12.1", MAXWELL_TO_HOPPER, 0, BUILDER "2.4" },
    { "2.4", "12.4", MAXWELL_TO_HOPPER, 0, BUILDER "2.4" },
    { "2.5", "11.8", KEPLER_TO_HOPPER, 0, BUILDER "2.5" },
    { "2.5", "12.1", MAXWELL_TO_HOPPER, 0, BUILDER "2.5" },
    { "2.5", "12.4", MAXWELL_TO_HOPPER, 0, BUILDER "2.5" },
    { "2.6", "11.8", KEPLER_TO_HOPPER, 0, SCRIPT "2.6.0" },
    { "2.6", "12.4", MAXWELL_TO_HOPPER, 0, WHEEL },
    { "2.6", "12.6", MAXWELL_TO_HOPPER, 0, SCRIPT "2.6.0" },
    { "2.7", "11.8", KEPLER_TO_HOPPER, 0, SCRIPT "2.7.0" },
    { "2.7", "12.6", MAXWELL_TO_HOPPER, 0, SCRIPT "2.7.0" },
    { "2.7", "12.8", TURING_TO_BLACKWELL, 120, SCRIPT "2.7.0" },
    { "2.8", "12.6", MAXWELL_TO_HOPPER, 0, SCRIPT "2.8.0" },
    { "2.8", "12.8", VOLTA_TO_BLACKWELL, 0, SCRIPT "2.8.0" },
    { "2.8", "12.9", VOLTA_TO_BLACKWELL, 120, SCRIPT "2.8.0" },
    { "2.9", "12.6", MAXWELL_TO_HOPPER, 0, SCRIPT "2.9.0" },
    { "2.9", "12.8", VOLTA_TO_BLACKWELL, 0, SCRIPT "2.9.0" },
    { "2.9", "13.0", TURING_TO_BLACKWELL, 120, SCRIPT "2.9.0" },
    { "2.10", "12.6", MAXWELL_TO_HOPPER, 0, SCRIPT "2.10.0" },
    { "2.10", "12.8", VOLTA_TO_BLACKWELL, 0, SCRIPT "2.10.0" },
    { "2.10", "13.0", TURING_TO_BLACKWELL, 120, SCRIPT "2.10.0" },
    { "2.11", "12.6", MAXWELL_TO_HOPPER, 0, SCRIPT "2.11.0" },
    { "2.11", "12.8", TURING_TO_BLACKWELL, 0, SCRIPT "2.11.0" },
    { "2.11", "13.0", TURING_TO_BLACKWELL, 0, SCRIPT "2.11.0" },
    { "2.12", "12.6", MAXWELL_TO_HOPPER, 0, MATRIX },
    { "2.12", "13.0", TURING_TO_BLACKWELL, 120, MATRIX },
    { "2.12", "13.2", TURING_TO_BLACKWELL, 120, MATRIX },
    { "2.13", "12.6", MAXWELL_TO_HOPPER, 0, MATRIX },
    { "2.13", "13.0", TURING_TO_BLACKWELL, 120, MATRIX },
    { "2.13", "13.2", TURING_TO_BLACKWELL, 120, MATRIX },
    { "2.14", "12.6", MAXWELL_TO_HOPPER, 0, MATRIX },
    { "2.14", "13.0", TURING_TO_BLACKWELL, 120, MATRIX },
    { "2.14", "13.2", TURING_TO_BLACKWELL, 120, MATRIX },
};

size_t torch_builds(const struct torch_build **rows)
{
    *rows = builds;
    return TS_COUNT(builds);
}

static struct version parse_version(const char *text)
{
    struct version version = { 0 };

    version_read(text, &version);
    return version;
}

bool torch_build_matches(const struct torch_build *build, const struct version *torch,
                         const struct version *toolkit)
{
    struct version release = parse_version(build->torch),
                   with = parse_version(build->toolkit);

    if (torch && (torch->count < 2 || !version_covers(&release, torch)))
        return false;
    return !toolkit || version_covers(&with, toolkit) || version_covers(toolkit, &with);
}

/* CUDA C++ Programming Guide, binary and PTX compatibility: machine code for X.y runs on
 * X.z with z >= y; PTX for X.y is compiled for every card from X.y on. */
bool torch_build_runs_on(const struct torch_build *build, int capability)
{
    const char *at = build->code;

    while (*at) {
        char *end;
        long major = strtol(at, &end, 10), minor = strtol(end + 1, &end, 10);

        if (major == capability / 10 && minor <= capability % 10)
            return true;
        at = end + strspn(end, " ");
    }
    return build->ptx > 0 && capability >= build->ptx;
}

const struct torch_build *torch_build_for(const struct version *torch, int capability)
{
    const struct torch_build *same = NULL, *later = NULL, *earlier = NULL;

    for (size_t i = 0; i < TS_COUNT(builds); i++) {
        const struct torch_build *build = &builds[i];
        struct version release = parse_version(build->torch);

        if (!torch_build_runs_on(build, capability))
            continue;
        if (torch && torch_build_matches(build, torch, NULL))
            same = build;
        else if (!torch || version_compare(&release, torch) < 0)
            earlier = build;
        else if (!later || strcmp(later->torch, build->torch) == 0)
            later = build;
    }
    return same ? same : later ? later : earlier;
}

bool torch_build_serves(int capability)
{
    static const int jetson[] = { 72, 87, 110 }; /* Xavier, Orin, Thor */

    for (size_t i = 0; i < TS_COUNT(jetson); i++)
        if (capability == jetson[i])
            return false;
    return true;
}
