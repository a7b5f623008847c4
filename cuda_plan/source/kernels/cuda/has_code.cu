/* kernels/cuda/has_code.cu - does this program have code for a card? */
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/hardware.cuh"

static __global__ void nothing()
{
}

/* Looking at a kernel makes the driver load it, or make it out of PTX. */
cudaError_t launch_has_code(void)
{
    struct cudaFuncAttributes attributes;

    return cudaFuncGetAttributes(&attributes, (const void *)nothing);
}
