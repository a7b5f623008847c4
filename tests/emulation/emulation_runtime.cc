/* tests/emulation/emulation_runtime.cc - devices, memory and statuses. */
#include "tests/emulation/emulation_runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/emulation/emulation_block.h"
#include "tests/emulation/emulation_races.h"

enum { DEVICES_MAX = 8, BLOCKS_MAX = 4096 };

/* An allocation. */
struct allocation {
    unsigned char *at;
    size_t bytes;
    int device; /* -1: host */
};

/* The first two are identical; the others lack something or have more. */
static const struct emulation_device default_devices[] = {
    { "Emulated 8.0", 80, 4, (size_t)4 << 30 },
    { "Emulated 8.0", 80, 4, (size_t)4 << 30 },
    { "Emulated 7.5", 75, 3, (size_t)4 << 30 },
    { "Emulated 9.0", 90, 7, (size_t)4 << 30 },
    { "Emulated 6.1", 61, 1, (size_t)4 << 30 },
};
enum { DEFAULT_DEVICES = sizeof(default_devices) / sizeof(*default_devices) };
/* Those that run different code, because checking each access is slow. */
static const struct emulation_device checked_devices[] = { default_devices[0],
                                                           default_devices[2],
                                                           default_devices[4] };
enum { CHECKED_DEVICES = sizeof(checked_devices) / sizeof(*checked_devices) };

static struct {
    struct emulation_device devices[DEVICES_MAX];
    int count, current;
    cudaError_t last, failed, driver, memory_info, broken, code, run, capture, graph;
    size_t launches; /* until the one that fails, if `broken` is a status */
    size_t kernels;
    struct allocation allocations[BLOCKS_MAX];
    size_t allocation_count;
    char failure[1024];
    bool quiet, opened, hangs, blocks;
    bool contexts[DEVICES_MAX];
} machine;

static void reset(const struct emulation_device *devices, int count)
{
    for (size_t i = 0; i < machine.allocation_count; i++)
        free(machine.allocations[i].at);
    machine.allocation_count = machine.launches = machine.kernels = 0;
    machine.count = count;
    memcpy(machine.devices, devices, (size_t)count * sizeof(*devices));
    machine.current = 0;
    machine.last = machine.failed = machine.driver = machine.broken = machine.code =
        cudaSuccess;
    machine.run = machine.capture = machine.graph = machine.memory_info = cudaSuccess;
    machine.hangs = machine.blocks = false;
    memset(machine.contexts, 0, sizeof(machine.contexts));
    machine.failure[0] = '\0';
    machine.opened = true;
}

static void reset_all(void)
{
    if (races_watching())
        reset(checked_devices, CHECKED_DEVICES);
    else
        reset(default_devices, DEFAULT_DEVICES);
}

static void wait_forever(void)
{
    for (;;)
        pause();
}

static void open_once(void)
{
    const char *launches = getenv("EMULATION_LOSES");

    if (machine.opened)
        return;
    reset_all();
    if (!launches)
        return;
    machine.launches = strtoul(launches, NULL, 10);
    machine.broken = cudaErrorIllegalAddress;
    atexit(wait_forever);
}

void emulation_reset(const struct emulation_device *devices, size_t count)
{
    streams_reset();
    if (devices)
        reset(devices, (int)count);
    else
        reset_all();
}

void emulation_seed(uint64_t seed)
{
    block_seed(seed);
}

const char *emulation_failure(void)
{
    return machine.failure;
}

void emulation_quiet(bool quiet)
{
    machine.quiet = quiet;
}

void emulation_break_launch(size_t launches, cudaError_t status)
{
    open_once();
    machine.launches = launches;
    machine.broken = status;
}

void emulation_break_driver(cudaError_t status)
{
    open_once();
    machine.driver = status;
}

void emulation_break_memory_info(cudaError_t status)
{
    open_once();
    machine.memory_info = status;
}

void emulation_break_code(cudaError_t status)
{
    open_once();
    machine.code = status;
}

void emulation_break_run(cudaError_t status)
{
    open_once();
    machine.run = status;
}

void emulation_break_capture(cudaError_t status)
{
    open_once();
    machine.capture = status;
}

void emulation_break_graph(cudaError_t status)
{
    open_once();
    machine.graph = status;
}

void emulation_hang(bool hangs)
{
    open_once();
    machine.hangs = hangs;
}

void emulation_block_malloc(void)
{
    open_once();
    machine.blocks = true;
}

cudaError_t runtime_capture(void)
{
    return runtime_status(machine.capture);
}

cudaError_t runtime_graph(void)
{
    return runtime_status(machine.graph);
}

bool runtime_hangs(void)
{
    return machine.hangs;
}

size_t emulation_kernels_run(void)
{
    return machine.kernels;
}

/* Create a context on the current device if it has none. */
static void make_context(void)
{
    const char *name = getenv("EMULATION_CONTEXTS");
    FILE *file;

    open_once();
    if (std::exchange(machine.contexts[machine.current], true) || !name)
        return;
    file = fopen(name, "ae");
    if (!file)
        abort();
    fprintf(file, "%d\n", machine.current);
    fclose(file);
}

size_t emulation_contexts(void)
{
    size_t count = 0;

    for (bool made : machine.contexts)
        count += made;
    return count;
}

static size_t bytes_of(int device)
{
    size_t sum = 0;

    for (size_t i = 0; i < machine.allocation_count; i++)
        if (machine.allocations[i].device == device)
            sum += machine.allocations[i].bytes;
    return sum;
}

size_t emulation_bytes_held(void)
{
    size_t sum = 0;

    for (int i = 0; i < machine.count; i++)
        sum += bytes_of(i);
    return sum;
}

void emulation_report(const char *text)
{
    if (!machine.failure[0])
        snprintf(machine.failure, sizeof(machine.failure), "%s", text);
    if (!machine.quiet)
        fprintf(stderr, "emulation: %s\n", text);
}

int emulation_capability(void)
{
    return runtime_device()->capability;
}

void *emulation_memory(size_t bytes)
{
    void *block = malloc(bytes);

    if (!block)
        abort();
    return block;
}

void emulation_memory_free(void *block)
{
    free(block);
}

cudaError_t runtime_status(cudaError_t status)
{
    if (status != cudaSuccess)
        machine.last = status;
    return status;
}

cudaError_t runtime_failed(void)
{
    return machine.failed;
}

void runtime_fail(cudaError_t status)
{
    if (machine.failed == cudaSuccess)
        machine.failed = status;
    runtime_status(status);
}

const struct emulation_device *runtime_device(void)
{
    open_once();
    return &machine.devices[machine.current];
}

/* Return whether the device supports the launch ("CUDA C++ Programming Guide", 13.0,
 * technical specifications). */
static bool fits(const emulation_launch *l)
{
    uint64_t threads = (uint64_t)l->block.x * l->block.y * l->block.z;

    return threads >= 1 && threads <= THREADS_MAX && l->block.z <= 64 && l->grid.x >= 1 &&
           l->grid.x <= 0x7fffffff && l->grid.y >= 1 && l->grid.y <= 65535 &&
           l->grid.z >= 1 && l->grid.z <= 65535;
}

cudaError_t emulation_enqueue(emulation_launch *launch, cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;

    open_once();
    if (machine.failed != cudaSuccess)
        status = machine.failed;
    else if (machine.broken != cudaSuccess && machine.launches-- == 0)
        status = std::exchange(machine.broken, cudaSuccess);
    else if (!fits(launch))
        status = cudaErrorInvalidConfiguration;
    else if (launch->shared > block_shared_max(runtime_device()->capability))
        status = cudaErrorInvalidValue;
    if (status != cudaSuccess) {
        launch->release(launch);
        return runtime_status(status);
    }
    return streams_add_kernel(launch, stream);
}

void runtime_run(const emulation_launch *launch, int device)
{
    int was = machine.current;

    if (machine.failed != cudaSuccess)
        return;
    machine.current = device;
    machine.kernels++;
    if (machine.run != cudaSuccess)
        runtime_fail(std::exchange(machine.run, cudaSuccess));
    else if (!block_run_launch(launch))
        runtime_fail(cudaErrorLaunchFailure);
    machine.current = was;
}

int runtime_ordinal(void)
{
    open_once();
    return machine.current;
}

static cudaError_t allocate(void **out, size_t bytes, int device)
{
    struct allocation *allocation = &machine.allocations[machine.allocation_count];

    make_context();
    *out = NULL;
    if (machine.failed != cudaSuccess)
        return runtime_status(machine.failed);
    if (streams_capturing())
        return runtime_status(cudaErrorStreamCaptureUnsupported);
    if (bytes == 0)
        return cudaSuccess;
    if (machine.allocation_count == BLOCKS_MAX ||
        (device >= 0 && bytes_of(device) + bytes > machine.devices[device].memory))
        return runtime_status(cudaErrorMemoryAllocation);
    /* exactly the requested size */
    if (posix_memalign((void **)&allocation->at, 256, bytes) != 0)
        return runtime_status(cudaErrorMemoryAllocation);
    block_unwritten(allocation->at, bytes);
    allocation->bytes = bytes;
    allocation->device = device;
    machine.allocation_count++;
    *out = allocation->at;
    return cudaSuccess;
}

static cudaError_t release(void *block, bool host)
{
    if (!block)
        return cudaSuccess;
    streams_finish();
    for (size_t i = 0; i < machine.allocation_count; i++) {
        struct allocation *allocation = &machine.allocations[i];

        if (allocation->at != block || (allocation->device < 0) != host)
            continue;
        free(block);
        *allocation = machine.allocations[--machine.allocation_count];
        return runtime_status(machine.failed);
    }
    return runtime_status(cudaErrorInvalidValue);
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    open_once();
    if (machine.blocks)
        wait_forever();
    return allocate(out, bytes, machine.current);
}

cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
    return flags == cudaMemAttachGlobal ? cudaMalloc(out, bytes)
                                        : runtime_status(cudaErrorInvalidValue);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return allocate(out, bytes, -1);
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate(out, bytes, -1);
}

cudaError_t cudaFree(void *block)
{
    return release(block, false);
}

cudaError_t cudaFreeHost(void *block)
{
    return release(block, true);
}

static const struct allocation *allocation_at(const void *at, size_t bytes)
{
    const unsigned char *from = (const unsigned char *)at;

    for (size_t i = 0; i < machine.allocation_count; i++) {
        const struct allocation *allocation = &machine.allocations[i];

        if (from >= allocation->at && from + bytes <= allocation->at + allocation->bytes)
            return allocation;
    }
    return NULL;
}

bool runtime_is_device(const void *at, size_t bytes)
{
    const struct allocation *allocation = allocation_at(at, bytes);

    return allocation && allocation->device >= 0;
}

/* A real device would not notice a wrong kind until it fails; the emulator compares the
 * kind with the allocations. */
bool runtime_copy_allowed(const void *to, size_t to_bytes, const void *from,
                          size_t from_bytes, enum cudaMemcpyKind kind)
{
    bool to_device = runtime_is_device(to, to_bytes);
    bool from_device = runtime_is_device(from, from_bytes);

    switch (kind) {
    case cudaMemcpyHostToDevice:
        return to_device;
    case cudaMemcpyDeviceToHost:
        return from_device;
    case cudaMemcpyDeviceToDevice:
        return to_device && from_device;
    default:
        return true;
    }
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out,
                                     const void *pointer)
{
    const struct allocation *allocation = allocation_at(pointer, 1);

    out->type = !allocation              ? cudaMemoryTypeUnregistered
                : allocation->device < 0 ? cudaMemoryTypeHost
                                         : cudaMemoryTypeDevice;
    out->device = allocation ? allocation->device : 0;
    out->devicePointer = out->hostPointer = const_cast<void *>(pointer);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    const struct emulation_device *device = runtime_device();

    make_context();
    *total = device->memory;
    *available = device->memory - bytes_of(machine.current);
    return runtime_status(machine.failed ? machine.failed : machine.memory_info);
}

static const struct {
    cudaError_t status;
    const char *name, *text;
} texts[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInitializationError, "cudaErrorInitializationError",
      "initialization error" },
    { cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
      "invalid configuration argument" },
    { cudaErrorNotYetImplemented, "cudaErrorNotYetImplemented",
      "API call is not implemented in the installed CUDA driver" },
    { cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
      "CUDA driver version is insufficient for CUDA runtime version" },
    { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
      "no kernel image is available for execution on the device" },
    { cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable",
      "uncorrectable ECC error encountered" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
      "invalid resource handle" },
    { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
    { cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
      "an illegal memory access was encountered" },
    { cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
      "too many resources requested for launch" },
    { cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout",
      "the launch timed out and was terminated" },
    { cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address" },
    { cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure" },
    { cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported" },
    { cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
      "operation not permitted when stream is capturing" },
    { cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
      "operation failed due to a previous error during capture" },
    { cudaErrorUnknown, "cudaErrorUnknown", "unknown error" },
};

const char *cudaGetErrorString(cudaError_t status)
{
    for (const auto &row : texts)
        if (row.status == status)
            return row.text;
    return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t status)
{
    for (const auto &row : texts)
        if (row.status == status)
            return row.name;
    return "unrecognized error code";
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t status = machine.last;

    machine.last = machine.failed;
    return status;
}

cudaError_t cudaPeekAtLastError(void)
{
    return machine.last;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = machine.driver == cudaErrorInsufficientDriver ? 0 : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    open_once();
    *count = machine.driver == cudaSuccess ? machine.count : 0;
    if (machine.driver == cudaSuccess && machine.count == 0)
        return runtime_status(cudaErrorNoDevice);
    return runtime_status(machine.driver);
}

static bool known(int device)
{
    open_once();
    return device >= 0 && device < machine.count;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    const struct emulation_device *d = &machine.devices[device];

    if (!known(device))
        return runtime_status(cudaErrorInvalidDevice);
    *out = cudaDeviceProp {};
    snprintf(out->name, sizeof(out->name), "%s", d->name);
    out->totalGlobalMem = d->memory;
    out->sharedMemPerBlock = 48 << 10;
    out->sharedMemPerBlockOptin = block_shared_max(d->capability);
    out->sharedMemPerMultiprocessor = out->sharedMemPerBlockOptin + 1024;
    out->regsPerBlock = 65536;
    out->warpSize = LANES;
    out->maxThreadsPerBlock = THREADS_MAX;
    out->maxThreadsPerMultiProcessor = 2048;
    out->major = d->capability / 10;
    out->minor = d->capability % 10;
    out->multiProcessorCount = d->multiprocessors;
    out->l2CacheSize = 4 << 20;
    out->memoryBusWidth = 256;
    out->managedMemory = out->concurrentManagedAccess = 1;
    out->pciBusID = device + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp p;
    cudaError_t status = cudaGetDeviceProperties(&p, device);

    if (status != cudaSuccess)
        return status;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *out = p.maxThreadsPerBlock;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *out = (int)p.sharedMemPerBlock;
        break;
    case cudaDevAttrMultiProcessorCount:
        *out = p.multiProcessorCount;
        break;
    case cudaDevAttrL2CacheSize:
        *out = p.l2CacheSize;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *out = p.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *out = p.minor;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *out = (int)p.sharedMemPerMultiprocessor;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *out = (int)p.sharedMemPerBlockOptin;
        break;
    case cudaDevAttrConcurrentManagedAccess:
        *out = 1;
        break;
    default:
        *out = 1000000; /* kHz, bits: arbitrary */
        break;
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int room, int device)
{
    if (!known(device))
        return runtime_status(cudaErrorInvalidDevice);
    snprintf(out, (size_t)room, "0000:%02x:00.0", device + 1);
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (!known(device))
        return runtime_status(cudaErrorInvalidDevice);
    machine.current = device;
    make_context(); /* since CUDA 12 */
    return runtime_status(machine.failed);
}

cudaError_t cudaGetDevice(int *device)
{
    open_once();
    *device = machine.current;
    return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    (void)device_flags;
    (void)flags;
    return known(device) ? cudaSuccess : runtime_status(cudaErrorInvalidDevice);
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    (void)flags;
    return cudaSuccess;
}

/* Release everything of the device, including its memory. */
cudaError_t cudaDeviceReset(void)
{
    streams_reset();
    for (size_t i = machine.allocation_count; i > 0; i--)
        if (machine.allocations[i - 1].device == machine.current) {
            free(machine.allocations[i - 1].at);
            machine.allocations[i - 1] = machine.allocations[--machine.allocation_count];
        }
    machine.failed = machine.last = cudaSuccess;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *kernel)
{
    (void)kernel;
    make_context();
    *out = cudaFuncAttributes {};
    return runtime_status(machine.failed != cudaSuccess ? machine.failed : machine.code);
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute,
                                 int value)
{
    (void)kernel;
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
        (size_t)value > block_shared_max(runtime_device()->capability))
        return runtime_status(cudaErrorInvalidValue);
    return cudaSuccess;
}
