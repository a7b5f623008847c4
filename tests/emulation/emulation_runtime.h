/*
 * tests/emulation/emulation_runtime.h - devices, memory and sticky statuses, for the
 * files of the emulated runtime.
 */
#ifndef TESTS_EMULATION_EMULATION_RUNTIME_H
#define TESTS_EMULATION_EMULATION_RUNTIME_H

#include "tests/emulation/emulation.h"
#include "tests/emulation/emulation_machine.h"

/* Store the status for cudaGetLastError and return it. */
cudaError_t runtime_status(cudaError_t status);
/* Return the failure of the device, which all later calls return, or cudaSuccess. */
cudaError_t runtime_failed(void);
void runtime_fail(cudaError_t status);
const struct emulation_device *runtime_device(void);

/* Return the status for the end of a capture. */
cudaError_t runtime_capture(void);
/* Return the status for allocating the memory of a graph. */
cudaError_t runtime_graph(void);
/* Return whether streams have stopped executing. */
bool runtime_hangs(void);

/* Return whether both ends of a copy match its kind. */
bool runtime_copy_allowed(const void *to, size_t to_bytes, const void *from,
                          size_t from_bytes, enum cudaMemcpyKind kind);
bool runtime_is_device(const void *at, size_t bytes);

/* Run a kernel on the device unless it has failed; a finding makes it fail. */
void runtime_run(const emulation_launch *launch, int device);
int runtime_ordinal(void); /* of the current device */

/* Run everything in all streams. */
void streams_finish(void);
void streams_reset(void);
/* Return whether a stream is being captured; then no call may wait or allocate. */
bool streams_capturing(void);
/* Append a launch to a stream; takes ownership of it. */
cudaError_t streams_add_kernel(emulation_launch *launch, cudaStream_t stream);
/* Append call(argument); `argument` (bytes) is copied. */
cudaError_t streams_add_call(void (*call)(const void *argument), const void *argument,
                             size_t bytes, cudaStream_t stream);

/* Append work that does nothing for this long, on the clock of events. */
cudaError_t streams_add_time(double microseconds, cudaStream_t stream);

#endif
