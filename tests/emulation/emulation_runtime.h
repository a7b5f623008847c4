/*
 * tests/emulation/emulation_runtime.h - devices, memory and the status that stays: for
 * the files of the fake runtime.
 */
#ifndef TESTS_EMULATION_EMULATION_RUNTIME_H
#define TESTS_EMULATION_EMULATION_RUNTIME_H

#include "tests/emulation/emulation.h"
#include "tests/emulation/emulation_machine.h"

/* What the last call gives; kept for cudaGetLastError. */
cudaError_t runtime_status(cudaError_t status);
/* What the device has failed with and gives to all that follows, or cudaSuccess. */
cudaError_t runtime_failed(void);
void runtime_fail(cudaError_t status);
const struct emulation_device *runtime_device(void);

/* What the end of a capture is to give. */
cudaError_t runtime_capture(void);
/* What taking memory for a graph is to give. */
cudaError_t runtime_graph(void);
/* Does nothing get done any more? */
bool runtime_hangs(void);

/* Both ends of a copy, as the kind wants them. */
bool runtime_copy_allowed(const void *to, size_t to_bytes, const void *from,
                          size_t from_bytes, enum cudaMemcpyKind kind);
bool runtime_is_device(const void *at, size_t bytes);

/* Run a kernel on the device, unless that has failed; a finding makes it fail. */
void runtime_run(const emulation_launch *launch, int device);
int runtime_ordinal(void); /* of the current device */

/* Everything that has been put into streams: run it. */
void streams_finish(void);
void streams_reset(void);
/* Is a stream being captured?  Then no call may wait or allocate. */
bool streams_capturing(void);
/* Something for a stream to do; takes it over. */
cudaError_t streams_add_kernel(emulation_launch *launch, cudaStream_t stream);
/* call(argument) in its turn; `argument` (bytes) is copied. */
cudaError_t streams_add_call(void (*call)(const void *argument), const void *argument,
                             size_t bytes, cudaStream_t stream);

#endif
