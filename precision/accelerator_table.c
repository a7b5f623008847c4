/* precision/accelerator_table.c - accelerators of other makers than NVIDIA, by product
 * name. */
#include "config.h"

#include "precision/device.h"

#include "base/size.h"

#define SKUS   "huggingface.js packages/tasks/src/hardware-"
#define ROCM   "ROCm docs/reference/gpu-arch-specs.rst, precision-support.rst"
#define APPLE  SKUS "apple.ts; transformers PR #40458"
#define INTEL  SKUS "gpu-intel.ts; Intel support article 000098346"
#define MAX    "Intel data sheet; oneAPI GPU optimization guide, multi-stack architecture"
#define HUAWEI "Huawei Atlas data sheets; Ascend C API ToBfloat16, supported products"
#define GAUDI  "transformers docs/source/en/perf_train_gaudi.md; neural-compressor FP8"
#define GOOGLE "Google Cloud TPU documentation, system architecture"
#define TORCH  "PyTorch and torch_npu, torch_xla, habana_frameworks: device types"

#define HALF_CARD   "one of two dies, each of which is a device in PyTorch"
#define SHARED      "memory shared with the CPU"
#define EMULATED    "memory shared with the CPU; Metal emulates bf16"
#define LATER_MACOS "memory shared with the CPU; bf16 from macOS 14 on"

#define NO      KNOWN_NO
#define YES     KNOWN_YES
#define UNKNOWN NOT_KNOWN

/* Maker, backend, then fp16, bf16 and fp8 in matmuls, a remark and the source.  RDNA3 and
 * later have bf16 matmuls (rocWMMA, data type support), RDNA4 fp8 ones. */
#define RDNA2  "AMD", "rocm", YES, UNKNOWN, NO, NULL, ROCM
#define CDNA2  "AMD", "rocm", YES, YES, NO, NULL, ROCM  /* and RDNA3 */
#define CDNA3  "AMD", "rocm", YES, YES, YES, NULL, ROCM /* and RDNA4 */
#define STRIX  "AMD", "rocm", YES, YES, NO, SHARED, SKUS "amd.ts"
#define MPS_M1 "Apple", "mps", YES, NO, UNKNOWN, EMULATED, APPLE
#define MPS_M3 "Apple", "mps", YES, YES, UNKNOWN, LATER_MACOS, APPLE
#define XMX    "Intel", "xpu", YES, YES, UNKNOWN, NULL, INTEL
#define TPU    "Google", "tpu", UNKNOWN, YES, UNKNOWN, NULL, GOOGLE

/* Sizes of one name are adjacent, smallest first: a bare name means the smallest. */
static const struct accelerator_row accelerators[] = {
    { "MI50", "16GB", 16, RDNA2 },
    { "MI50", "32GB", 32, RDNA2 },
    { "MI60", "", 32, RDNA2 },
    { "MI100", "", 32, CDNA2 },
    { "MI210", "", 64, CDNA2 },
    { "MI250", "", 64, "AMD", "rocm", YES, YES, NO, HALF_CARD, ROCM },
    { "MI250X", "", 64, "AMD", "rocm", YES, YES, NO, HALF_CARD, ROCM },
    { "MI300A", "", 128, "AMD", "rocm", YES, YES, YES, SHARED, ROCM },
    { "MI300X", "", 192, CDNA3 },
    { "MI325X", "", 256, CDNA3 },
    { "MI350X", "", 288, CDNA3 },
    { "MI355X", "", 288, CDNA3 },
    { "PRO V620", "", 32, RDNA2 },
    { "PRO W6800", "", 32, RDNA2 },
    { "PRO W7700", "", 16, CDNA2 },
    { "PRO W7800", "32GB", 32, CDNA2 },
    { "PRO W7800", "48GB", 48, CDNA2 },
    { "PRO W7900", "", 48, CDNA2 },
    { "AI PRO R9700", "", 32, CDNA3 },
    { "RX 6800", "", 16, RDNA2 },
    { "RX 6800 XT", "", 16, RDNA2 },
    { "RX 6900 XT", "", 16, RDNA2 },
    { "RX 6950 XT", "", 16, RDNA2 },
    { "RX 7600", "", 8, CDNA2 },
    { "RX 7700 XT", "", 12, CDNA2 },
    { "RX 7800 XT", "", 16, CDNA2 },
    { "RX 7900 GRE", "", 16, CDNA2 },
    { "RX 7900 XT", "", 20, CDNA2 },
    { "RX 7900 XTX", "", 24, CDNA2 },
    { "RX 9060 XT", "8GB", 8, "AMD", "rocm", YES, YES, YES, NULL, SKUS "amd.ts" },
    { "RX 9060 XT", "16GB", 16, CDNA3 },
    { "RX 9070", "", 16, CDNA3 },
    { "RX 9070 XT", "", 16, CDNA3 },
    { "Ryzen AI Max+ 395", "64GB", 64, STRIX },
    { "Ryzen AI Max+ 395", "96GB", 96, STRIX },
    { "Ryzen AI Max+ 395", "128GB", 128, STRIX },
    { "Apple M1", "8GB", 8, MPS_M1 },
    { "Apple M1", "16GB", 16, MPS_M1 },
    { "Apple M1 Pro", "16GB", 16, MPS_M1 },
    { "Apple M1 Pro", "32GB", 32, MPS_M1 },
    { "Apple M1 Max", "32GB", 32, MPS_M1 },
    { "Apple M1 Max", "64GB", 64, MPS_M1 },
    { "Apple M1 Ultra", "64GB", 64, MPS_M1 },
    { "Apple M1 Ultra", "128GB", 128, MPS_M1 },
    { "Apple M2", "8GB", 8, MPS_M1 },
    { "Apple M2", "16GB", 16, MPS_M1 },
    { "Apple M2", "24GB", 24, MPS_M1 },
    { "Apple M2 Pro", "16GB", 16, MPS_M1 },
    { "Apple M2 Pro", "32GB", 32, MPS_M1 },
    { "Apple M2 Max", "32GB", 32, MPS_M1 },
    { "Apple M2 Max", "64GB", 64, MPS_M1 },
    { "Apple M2 Max", "96GB", 96, MPS_M1 },
    { "Apple M2 Ultra", "64GB", 64, MPS_M1 },
    { "Apple M2 Ultra", "128GB", 128, MPS_M1 },
    { "Apple M2 Ultra", "192GB", 192, MPS_M1 },
    { "Apple M3", "8GB", 8, MPS_M3 },
    { "Apple M3", "16GB", 16, MPS_M3 },
    { "Apple M3", "24GB", 24, MPS_M3 },
    { "Apple M3 Pro", "18GB", 18, MPS_M3 },
    { "Apple M3 Pro", "36GB", 36, MPS_M3 },
    { "Apple M3 Max", "36GB", 36, MPS_M3 },
    { "Apple M3 Max", "48GB", 48, MPS_M3 },
    { "Apple M3 Max", "64GB", 64, MPS_M3 },
    { "Apple M3 Max", "96GB", 96, MPS_M3 },
    { "Apple M3 Max", "128GB", 128, MPS_M3 },
    { "Apple M3 Ultra", "96GB", 96, MPS_M3 },
    { "Apple M3 Ultra", "256GB", 256, MPS_M3 },
    { "Apple M3 Ultra", "512GB", 512, MPS_M3 },
    { "Apple M4", "16GB", 16, MPS_M3 },
    { "Apple M4", "24GB", 24, MPS_M3 },
    { "Apple M4", "32GB", 32, MPS_M3 },
    { "Apple M4 Pro", "24GB", 24, MPS_M3 },
    { "Apple M4 Pro", "48GB", 48, MPS_M3 },
    { "Apple M4 Pro", "64GB", 64, MPS_M3 },
    { "Apple M4 Max", "36GB", 36, MPS_M3 },
    { "Apple M4 Max", "48GB", 48, MPS_M3 },
    { "Apple M4 Max", "64GB", 64, MPS_M3 },
    { "Apple M4 Max", "128GB", 128, MPS_M3 },
    { "Apple M5", "16GB", 16, MPS_M3 },
    { "Apple M5", "24GB", 24, MPS_M3 },
    { "Apple M5", "32GB", 32, MPS_M3 },
    { "Arc A750", "", 8, XMX },
    { "Arc A770", "8GB", 8, XMX },
    { "Arc A770", "16GB", 16, XMX },
    { "Arc B570", "", 10, XMX },
    { "Arc B580", "", 12, XMX },
    { "Arc Pro B50", "", 16, XMX },
    { "Arc Pro B60", "", 24, XMX },
    { "Max 1100", "", 48, "Intel", "xpu", YES, YES, UNKNOWN, NULL, MAX },
    { "Max 1550", "", 64, "Intel", "xpu", YES, YES, UNKNOWN, HALF_CARD, MAX },
    { "Ascend 910A", "", 32, "Huawei", "npu", YES, NO, UNKNOWN, NULL, HUAWEI },
    { "Ascend 910B", "32GB", 32, "Huawei", "npu", YES, YES, UNKNOWN, NULL, HUAWEI },
    { "Ascend 910B", "64GB", 64, "Huawei", "npu", YES, YES, UNKNOWN, NULL, HUAWEI },
    { "Gaudi", "", 32, "Intel", "hpu", UNKNOWN, YES, UNKNOWN, NULL, GAUDI },
    { "Gaudi2", "", 96, "Intel", "hpu", YES, YES, YES, NULL, GAUDI },
    { "Gaudi3", "", 128, "Intel", "hpu", YES, YES, YES, NULL, GAUDI },
    { "TPU v4", "", 32, TPU },
    { "TPU v5e", "", 16, TPU },
    { "TPU v5p", "", 95, TPU },
    { "TPU v6e", "", 32, TPU },
    /* a device of which only the kind is known */
    { "rocm", "", 0, "AMD", "rocm", UNKNOWN, UNKNOWN, UNKNOWN, NULL, TORCH },
    { "mps", "", 0, "Apple", "mps", UNKNOWN, UNKNOWN, UNKNOWN, SHARED, TORCH },
    { "xpu", "", 0, "Intel", "xpu", UNKNOWN, UNKNOWN, UNKNOWN, NULL, TORCH },
    { "npu", "", 0, "Huawei", "npu", UNKNOWN, UNKNOWN, UNKNOWN, NULL, TORCH },
    { "hpu", "", 0, "Intel", "hpu", UNKNOWN, UNKNOWN, UNKNOWN, NULL, TORCH },
    { "tpu", "", 0, "Google", "tpu", UNKNOWN, UNKNOWN, UNKNOWN, NULL, TORCH },
};

size_t device_accelerators(const struct accelerator_row **rows)
{
    *rows = accelerators;
    return TS_COUNT(accelerators);
}
