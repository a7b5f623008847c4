/* kernels/cpu/cpu_ops_avx2.c - the operations once more, for AVX2. */
#include "config.h"

#define CPU_VARIANT avx2

#include "kernels/cpu/cpu_activation.c"
#include "kernels/cpu/cpu_adamw.c"
#include "kernels/cpu/cpu_attention.c"
#include "kernels/cpu/cpu_attention_backward.c"
#include "kernels/cpu/cpu_decode.c"
#include "kernels/cpu/cpu_dequantize.c"
#include "kernels/cpu/cpu_distill.c"
#include "kernels/cpu/cpu_elementwise.c"
#include "kernels/cpu/cpu_embedding.c"
#include "kernels/cpu/cpu_headnorm.c"
#include "kernels/cpu/cpu_layernorm.c"
#include "kernels/cpu/cpu_loss.c"
#include "kernels/cpu/cpu_norm.c"
#include "kernels/cpu/cpu_rope.c"
#include "kernels/cpu/cpu_swiglu.c"
#include "kernels/cpu/cpu_topk.c"
