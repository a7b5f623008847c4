/* kernels/cuda/cuda_status.c - explains CUDA statuses to users. */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include "base/size.h"

#include <stdarg.h>
#include <stdio.h>

#define DEFECT                                                                  \
    "set TRAINSPOOL_CUDA_SYNC=1 in the environment: if it fails again, in the " \
    "operation named then, it is a bug in trainspool; else look for Xid lines in dmesg"
#define LOST \
    "the card or its driver is lost: look for Xid lines in dmesg, and reset or restart"
#define BUSY \
    "another program uses the card exclusively: see nvidia-smi, or choose another card"
#define MPS "see the log of the MPS server (nvidia-cuda-mps-control)"
#define PROCESS \
    "only this process is affected: start it again; if it fails again, see Xid in dmesg"
#define BUILD \
    "configure trainspool with --with-cuda-archs for this card, or set device: cpu"
#define FULL                                                                          \
    "another program holds the memory of the card: see nvidia-smi, end it or choose " \
    "another card"
#define MEMORY                                                                         \
    "lower per_device_train_batch_size or cutoff_len, or turn gradient_checkpointing " \
    "on; nvidia-smi shows whether another program holds memory of the card"

/*
 * By NVIDIA CUDA Runtime API, "CUDA error types" (driver_types.h):
 *
 * PROCESS_ENDS  the process "must be terminated and relaunched"; it would fail again.
 * CONTEXT_LOST  the same, or its context or connection is gone, for a reason that another
 *               process need not meet: an error that the GPU contained ("invalid accesses of
 *               peer GPU memory", "certain classes of hardware errors"), an end by the MPS
 *               server, a device "outside of CUDA", cards that are busy "at the current
 *               time". If the card has a lasting fault, the driver reports it: cuda_health.c.
 * CARD_LOST     no other process can use the card either, or its memory or links failed.
 */
enum harm { NO_HARM, PROCESS_ENDS, CONTEXT_LOST, CARD_LOST };

static const struct meaning {
    cudaError_t status;
    enum harm harm;
    const char *remedy;
} meanings[] = {
    { cudaErrorMemoryAllocation, NO_HARM, MEMORY },
    { cudaErrorInvalidDeviceFunction, NO_HARM, BUILD },
    { cudaErrorNoKernelImageForDevice, NO_HARM, BUILD },
    { cudaErrorUnsupportedPtxVersion, NO_HARM, "install a newer NVIDIA driver" },
    { cudaErrorInsufficientDriver, NO_HARM, "install a newer NVIDIA driver" },
    { cudaErrorNotSupported, NO_HARM,
      "this card cannot do it: choose another precision, or device: cpu" },
    { cudaErrorOperatingSystem, CONTEXT_LOST, PROCESS },
    { cudaErrorDevicesUnavailable, CONTEXT_LOST, BUSY },
    { cudaErrorMpsConnectionFailed, CONTEXT_LOST, MPS },
    { cudaErrorMpsRpcFailure, CONTEXT_LOST, MPS },
    { cudaErrorMpsServerNotReady, CONTEXT_LOST, MPS },
    { cudaErrorMpsMaxClientsReached, CONTEXT_LOST, BUSY },
    { cudaErrorMpsMaxConnectionsReached, CONTEXT_LOST, BUSY },
    { cudaErrorMpsClientTerminated, CONTEXT_LOST, MPS },
    { cudaErrorECCUncorrectable, CARD_LOST,
      "the card's memory has failed: see nvidia-smi -q -d ECC, and use another card "
      "until it has been reset" },
    { cudaErrorNvlinkUncorrectable, CARD_LOST, LOST },
    { cudaErrorLaunchTimeout, PROCESS_ENDS,
      "the watchdog of a display stopped it: use a card without a display, or a smaller "
      "batch" },
    { cudaErrorIllegalAddress, PROCESS_ENDS, DEFECT },
    { cudaErrorMisalignedAddress, PROCESS_ENDS, DEFECT },
    { cudaErrorInvalidAddressSpace, PROCESS_ENDS, DEFECT },
    { cudaErrorInvalidPc, PROCESS_ENDS, DEFECT },
    { cudaErrorIllegalInstruction, PROCESS_ENDS, DEFECT },
    { cudaErrorHardwareStackError, PROCESS_ENDS, DEFECT },
    { cudaErrorAssert, PROCESS_ENDS, DEFECT },
    { cudaErrorLaunchFailure, PROCESS_ENDS, DEFECT },
#if CUDART_VERSION >= 13000
    { cudaErrorTensorMemoryLeak, PROCESS_ENDS, DEFECT },
    { cudaErrorContained, CONTEXT_LOST, PROCESS },
#endif
    { cudaErrorContextIsDestroyed, CONTEXT_LOST, PROCESS },
    { cudaErrorDeviceUninitialized, CONTEXT_LOST, PROCESS },
    { cudaErrorExternalDevice, CONTEXT_LOST, PROCESS },
    { cudaErrorNoDevice, CARD_LOST, LOST },
    { cudaErrorSystemNotReady, CARD_LOST, LOST },
    { cudaErrorUnknown, CARD_LOST, LOST },
};

static const struct meaning *meaning_of(cudaError_t status)
{
    static const struct meaning none = { 0 };

    for (size_t i = 0; i < TS_COUNT(meanings); i++)
        if (meanings[i].status == status)
            return &meanings[i];
    return &none;
}

bool cuda_lacks_code(cudaError_t status)
{
    return status == cudaErrorNoKernelImageForDevice ||
           status == cudaErrorInvalidDeviceFunction;
}

/* Before the job has allocated device memory, a smaller batch does not help. */
void cuda_card_text(cudaError_t status, char *out, size_t room)
{
    const char *remedy =
        status == cudaErrorMemoryAllocation ? FULL : meaning_of(status)->remedy;

    snprintf(out, room, "%s (%s)%s%s", cudaGetErrorString(status),
             cudaGetErrorName(status), remedy ? "; " : "", remedy ? remedy : "");
}

enum error_code cuda_error_code(cudaError_t status)
{
    const enum harm harm = meaning_of(status)->harm;

    return harm == CARD_LOST      ? ERROR_CARD
           : harm == CONTEXT_LOST ? ERROR_CONTEXT
                                  : ERROR_DEVICE;
}

static bool tell(struct error *err, enum error_code code, cudaError_t status,
                 const char *where)
{
    const char *remedy = meaning_of(status)->remedy;

    return error_set(err, code, "%s: %s (%s)%s%s", where, cudaGetErrorString(status),
                     cudaGetErrorName(status), remedy ? "; " : "", remedy ? remedy : "");
}

bool cuda_status(cudaError_t status, struct error *err, const char *format, ...)
{
    char where[200];
    va_list arguments;

    if (status == cudaSuccess)
        return true;
    va_start(arguments, format);
    vsnprintf(where, sizeof(where), format, arguments);
    va_end(arguments);
    cudaGetLastError(); /* an error that is not sticky must not be reported again by the
                         * next call */
    return tell(err, cuda_error_code(status), status, where);
}

/* The next call, whatever it is, reports a kernel that failed. */
void cuda_check(struct cuda_backend *cuda, cudaError_t status, const char *format, ...)
{
    char where[200], text[240];
    bool dead = meaning_of(status)->harm != NO_HARM;
    va_list arguments;

    if (status == cudaSuccess)
        return;
    va_start(arguments, format);
    vsnprintf(where, sizeof(where), format, arguments);
    va_end(arguments);
    cudaGetLastError();
    snprintf(text, sizeof(text), "%s%s", where,
             dead && !cuda->named ? ", or something shortly before it" : "");
    tell(&cuda->failed,
         status == cudaErrorMemoryAllocation ? ERROR_MEMORY : cuda_error_code(status),
         status, text);
    cuda->dead = cuda->dead || dead;
}
