/* kernels/cuda/kernel_image.cu - checks whether this program has code for a GPU. */
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/hardware.cuh"

static __global__ void empty_kernel()
{
}

/* Querying a kernel makes the driver load it, or compile it from PTX. */
cudaError_t launch_kernel_image(void)
{
    struct cudaFuncAttributes attributes;

    return cudaFuncGetAttributes(&attributes, (const void *)empty_kernel);
}
