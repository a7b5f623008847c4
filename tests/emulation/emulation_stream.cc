/*
 * tests/emulation/emulation_stream.cc - streams, events and graphs.
 *
 * Work stays in a stream until a call waits for it, which is as late as a device could
 * run it. Memory that is not from cudaMallocHost is copied when CUDA says so ("API
 * synchronization behavior"): to the device immediately, from it before the call returns.
 */
#include "tests/emulation/emulation_runtime.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum work_kind {
    WORK_KERNEL,
    WORK_COPY,
    WORK_FILL,
    WORK_CALL,
    WORK_TIME,
    WORK_RECORD,
    WORK_WAIT,
    WORK_GRAPH
};

struct work {
    enum work_kind kind;
    struct work *next;
    emulation_launch *launch;
    unsigned char *to; /* copy, fill: `height` lines of `width` */
    const unsigned char *from;
    size_t to_pitch, from_pitch, width, height;
    int value;
    void (*call)(const void *argument);
    void *own; /* the argument, or a copy of the host's memory */
    cudaEvent_t event;
    uint64_t ticket; /* number of the event's record */
    double microseconds;
    struct list *graph;
};

/* Ordered work of a stream, or shared by graphs. */
struct list {
    struct work *first, **last;
    size_t count, users;
};

struct CUstream_st {
    struct list todo;
    int device;
    struct list *capture;
    bool invalid; /* of the capture */
    struct CUstream_st *next;
};

struct CUevent_st {
    cudaStream_t stream; /* of the last record */
    uint64_t asked, done;
    double microseconds;  /* when it was done, on the clock */
    struct list *capture; /* recorded in a capture: a wait joins it */
};

struct CUgraph_st {
    struct list *list;
};

struct CUgraphExec_st {
    struct list *list;
    bool ready; /* its memory on the device is allocated */
};

enum { STEPS = 64 }; /* executed per query */

static double clock_us; /* the sum of what has run and takes time */
static size_t timings;  /* differences of events asked for */

static struct CUstream_st *streams; /* all but the default stream */
static struct CUstream_st default_stream = {
    { NULL, &default_stream.todo.first, 0, 1 }, 0, NULL, false, NULL
};

static cudaStream_t stream_of(cudaStream_t stream)
{
    return stream ? stream : &default_stream;
}

static struct list *list_new(void)
{
    struct list *list = (struct list *)calloc(1, sizeof(*list));

    list->last = &list->first;
    list->users = 1;
    return list;
}

static void work_free(struct work *work)
{
    if (work->launch)
        work->launch->release(work->launch);
    if (work->graph && --work->graph->users == 0) {
        while (work->graph->first) {
            struct work *first = work->graph->first;

            work->graph->first = first->next;
            work_free(first);
        }
        free(work->graph);
    }
    free(work->own);
    free(work);
}

static void list_leave(struct list *list)
{
    struct work *work = (struct work *)calloc(1, sizeof(*work));

    work->graph = list;
    work_free(work);
}

static void list_add(struct list *list, struct work *work)
{
    *list->last = work;
    list->last = &work->next;
    list->count++;
}

static struct work *list_take(struct list *list)
{
    struct work *work = list->first;

    list->first = work->next;
    if (!list->first)
        list->last = &list->first;
    list->count--;
    return work;
}

static void step(cudaStream_t stream);

static void run(const struct work *work, int device)
{
    if (work->kind == WORK_RECORD) {
        work->event->done = work->ticket;
        work->event->microseconds = clock_us;
        return;
    }
    if (runtime_failed() != cudaSuccess)
        return;
    switch (work->kind) {
    case WORK_KERNEL:
        runtime_run(work->launch, device);
        break;
    case WORK_COPY:
        for (size_t i = 0; i < work->height; i++)
            memmove(work->to + i * work->to_pitch, work->from + i * work->from_pitch,
                    work->width);
        break;
    case WORK_FILL:
        for (size_t i = 0; i < work->height; i++)
            memset(work->to + i * work->to_pitch, work->value, work->width);
        break;
    case WORK_CALL:
        work->call(work->own);
        break;
    case WORK_TIME:
        clock_us += work->microseconds;
        break;
    case WORK_WAIT:
        while (work->event->done < work->ticket && work->event->stream->todo.first)
            step(work->event->stream);
        break;
    case WORK_GRAPH:
        for (const struct work *each = work->graph->first; each; each = each->next)
            run(each, device);
        break;
    default:
        break;
    }
}

static void step(cudaStream_t stream)
{
    struct work *work = list_take(&stream->todo);

    run(work, stream->device);
    work_free(work);
}

static void finish(cudaStream_t stream)
{
    if (runtime_hangs() && stream->todo.first) {
        fprintf(stderr, "emulation: a call waits for a device that hangs\n");
        abort();
    }
    while (stream->todo.first)
        step(stream);
}

void streams_finish(void)
{
    finish(&default_stream);
    for (cudaStream_t s = streams; s; s = s->next)
        finish(s);
}

/*
 * A real device works while its host waits for another process.  Here nothing would run
 * then, and a rank that waits for an order would keep the others waiting in a collective.
 * So the wait for a message lets this device finish its work first.
 */
extern "C" int poll(struct pollfd *fds, nfds_t count, int milliseconds)
{
    struct timespec limit = { milliseconds / 1000, milliseconds % 1000 * 1000000L };

    if (milliseconds != 0 && !streams_capturing() && !runtime_hangs())
        streams_finish();
    return ppoll(fds, count, milliseconds < 0 ? NULL : &limit, NULL);
}

void streams_reset(void)
{
    for (cudaStream_t s = &default_stream; s;
         s = s == &default_stream ? streams : s->next) {
        while (s->todo.first)
            work_free(list_take(&s->todo));
        if (s->capture)
            list_leave(s->capture);
        s->capture = NULL;
        s->invalid = false;
    }
}

size_t emulation_work_left(void)
{
    size_t count = default_stream.todo.count;

    for (cudaStream_t s = streams; s; s = s->next)
        count += s->todo.count;
    return count;
}

bool streams_capturing(void)
{
    for (cudaStream_t s = streams; s; s = s->next)
        if (s->capture)
            return true;
    return false;
}

/* Return an error if a stream is being captured, because then no call may wait. */
static cudaError_t check_wait_allowed(void)
{
    if (!streams_capturing())
        return cudaSuccess;
    for (cudaStream_t s = streams; s; s = s->next)
        s->invalid = s->capture != NULL;
    return runtime_status(cudaErrorStreamCaptureUnsupported);
}

static cudaError_t add(const struct work *model, cudaStream_t stream)
{
    struct work *work;

    if (runtime_failed() != cudaSuccess)
        return runtime_status(runtime_failed());
    if (!stream && streams_capturing())
        return runtime_status(cudaErrorStreamCaptureImplicit);
    stream = stream_of(stream);
    work = (struct work *)malloc(sizeof(*work));
    *work = *model;
    work->next = NULL;
    list_add(stream->capture ? stream->capture : &stream->todo, work);
    if (stream ==
        &default_stream) { /* it waits for all other streams, and they wait for it */
        stream->device = runtime_ordinal();
        for (cudaStream_t s = streams; s; s = s->next)
            finish(s);
        finish(stream);
    }
    return cudaSuccess;
}

cudaError_t streams_add_kernel(emulation_launch *launch, cudaStream_t stream)
{
    struct work work = {};
    cudaError_t status;

    work.kind = WORK_KERNEL;
    work.launch = launch;
    if (stream && stream->device != runtime_ordinal())
        status = runtime_status(cudaErrorInvalidResourceHandle);
    else
        status = add(&work, stream);
    if (status != cudaSuccess)
        launch->release(launch);
    return status;
}

static void *copy_of(const void *from, size_t bytes)
{
    return memcpy(emulation_memory(bytes), from, bytes);
}

cudaError_t streams_add_call(void (*call)(const void *argument), const void *argument,
                             size_t bytes, cudaStream_t stream)
{
    struct work work = {};
    cudaError_t status;

    work.kind = WORK_CALL;
    work.call = call;
    work.own = copy_of(argument, bytes);
    status = add(&work, stream);
    if (status != cudaSuccess)
        free(work.own);
    return status;
}

cudaError_t streams_add_time(double microseconds, cudaStream_t stream)
{
    struct work work = {};

    work.kind = WORK_TIME;
    work.microseconds = microseconds;
    return add(&work, stream);
}

static bool pageable(const void *at)
{
    struct cudaPointerAttributes attributes;

    cudaPointerGetAttributes(&attributes, at);
    return attributes.type == cudaMemoryTypeUnregistered;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                              size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct work work = {};
    size_t to_bytes = height ? (height - 1) * to_pitch + width : 0;
    size_t from_bytes = height ? (height - 1) * from_pitch + width : 0;
    cudaError_t status;

    if (to_bytes == 0)
        return runtime_status(runtime_failed());
    if (!runtime_copy_allowed(to, to_bytes, from, from_bytes, kind))
        return runtime_status(cudaErrorInvalidValue);
    work.kind = WORK_COPY;
    work.to = (unsigned char *)to;
    work.from = (const unsigned char *)from;
    work.to_pitch = to_pitch;
    work.from_pitch = from_pitch;
    work.width = width;
    work.height = height;
    if (kind == cudaMemcpyHostToDevice && pageable(from) && !stream_of(stream)->capture) {
        work.own = copy_of(from, from_bytes);
        work.from = (const unsigned char *)work.own;
    }
    status = add(&work, stream);
    if (status != cudaSuccess)
        free(work.own);
    else if (kind == cudaMemcpyDeviceToHost && pageable(to) &&
             !stream_of(stream)->capture) {
        finish(stream_of(stream));
        status = runtime_status(runtime_failed());
    }
    return status;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t status = check_wait_allowed();

    return status != cudaSuccess ? status : cudaMemcpyAsync(to, from, bytes, kind, NULL);
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width,
                              size_t height, cudaStream_t stream)
{
    struct work work = {};
    size_t bytes = height ? (height - 1) * pitch + width : 0;

    if (bytes == 0)
        return runtime_status(runtime_failed());
    if (pageable(to) &&
        !runtime_copy_allowed(to, bytes, to, bytes, cudaMemcpyHostToDevice))
        return runtime_status(cudaErrorInvalidValue);
    work.kind = WORK_FILL;
    work.to = (unsigned char *)to;
    work.to_pitch = pitch;
    work.value = value;
    work.width = width;
    work.height = height;
    return add(&work, stream);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return cudaMemset2DAsync(to, bytes, value, bytes, 1, stream);
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    return cudaMemsetAsync(to, value, bytes, NULL);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    cudaStream_t stream = (cudaStream_t)calloc(1, sizeof(*stream));

    (void)flags;
    stream->todo.last = &stream->todo.first;
    stream->device = runtime_ordinal();
    stream->next = streams;
    streams = stream;
    *out = stream;
    return runtime_status(runtime_failed());
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    (void)priority;
    return cudaStreamCreateWithFlags(out, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    for (cudaStream_t *at = &streams; *at; at = &(*at)->next)
        if (*at == stream) {
            finish(stream);
            *at = stream->next;
            if (stream->capture)
                list_leave(stream->capture);
            free(stream);
            return cudaSuccess;
        }
    return runtime_status(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t status = check_wait_allowed();

    if (status != cudaSuccess)
        return status;
    finish(stream_of(stream));
    return runtime_status(runtime_failed());
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t status = check_wait_allowed();

    if (status != cudaSuccess)
        return status;
    streams_finish();
    return runtime_status(runtime_failed());
}

/* Each query executes some work, so that polling makes progress. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    stream = stream_of(stream);
    if (runtime_failed() != cudaSuccess)
        return runtime_status(runtime_failed());
    for (int i = 0; i < STEPS && stream->todo.first && !runtime_hangs(); i++)
        step(stream);
    if (runtime_failed() != cudaSuccess)
        return runtime_status(runtime_failed());
    return stream->todo.first ? runtime_status(cudaErrorNotReady) : cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    *out = (cudaEvent_t)calloc(1, sizeof(**out));
    return runtime_status(runtime_failed());
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    streams_finish();
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct work work = {};

    event->capture = stream_of(stream)->capture;
    if (event->capture)
        return runtime_status(runtime_failed());
    event->stream = stream_of(stream);
    work.kind = WORK_RECORD;
    work.event = event;
    work.ticket = ++event->asked;
    return add(&work, stream);
}

/* In a capture all work is in one list, in the order of the calls. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    struct work work = {};

    (void)flags;
    if (event->capture) {
        stream = stream_of(stream);
        if (!stream->capture) {
            stream->capture = event->capture;
            event->capture->users++;
        }
        return runtime_status(runtime_failed());
    }
    if (!event->asked)
        return runtime_status(runtime_failed());
    work.kind = WORK_WAIT;
    work.event = event;
    work.ticket = event->asked;
    return add(&work, stream);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t status = check_wait_allowed();

    if (status != cudaSuccess)
        return status;
    while (event->done < event->asked && event->stream->todo.first)
        step(event->stream);
    return runtime_status(runtime_failed());
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    if (runtime_failed() != cudaSuccess)
        return runtime_status(runtime_failed());
    for (int i = 0; i < STEPS && event->done < event->asked && !runtime_hangs(); i++)
        step(event->stream);
    if (runtime_failed() != cudaSuccess)
        return runtime_status(runtime_failed());
    return event->done >= event->asked ? cudaSuccess : runtime_status(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    timings++;
    *milliseconds = (float)((to->microseconds - from->microseconds) / 1000);
    return from->done && to->done ? cudaSuccess : runtime_status(cudaErrorNotReady);
}

extern "C" size_t emulation_timings(void)
{
    return timings;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    if (!stream || stream->capture)
        return runtime_status(cudaErrorStreamCaptureUnsupported);
    stream->capture = list_new();
    stream->invalid = false;
    return runtime_status(runtime_failed());
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    struct list *list = stream ? stream->capture : NULL;
    bool invalid = stream && stream->invalid;

    *out = NULL;
    if (!list)
        return runtime_status(cudaErrorInvalidValue);
    for (cudaStream_t s = streams; s; s = s->next) /* streams that have joined it */
        if (s->capture == list) {
            s->capture = NULL;
            if (s != stream)
                list->users--;
        }
    if (invalid || runtime_capture() != cudaSuccess) {
        list_leave(list);
        return runtime_status(invalid ? cudaErrorStreamCaptureInvalidated
                                      : runtime_capture());
    }
    *out = (cudaGraph_t)calloc(1, sizeof(**out));
    (*out)->list = list;
    return runtime_status(runtime_failed());
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
    *out = !stream || !stream->capture ? cudaStreamCaptureStatusNone
           : stream->invalid           ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                 unsigned long long flags)
{
    (void)flags;
    *out = (cudaGraphExec_t)calloc(1, sizeof(**out));
    (*out)->list = graph->list;
    graph->list->users++;
    return runtime_status(runtime_failed());
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                          unsigned long long flags)
{
    return cudaGraphInstantiate(out, graph, flags);
}

static cudaError_t make_ready(cudaGraphExec_t exec)
{
    cudaError_t status = exec->ready ? cudaSuccess : runtime_graph();

    exec->ready = status == cudaSuccess;
    return status;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t status = runtime_status(runtime_failed());

    (void)stream;
    return status == cudaSuccess ? make_ready(exec) : status;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct work work = {};
    cudaError_t status = make_ready(exec);

    if (status != cudaSuccess)
        return status;
    work.kind = WORK_GRAPH;
    work.graph = exec->list;
    work.graph->users++;
    status = add(&work, stream);
    if (status != cudaSuccess)
        work.graph->users--;
    return status;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count)
{
    if (out)
        return runtime_status(cudaErrorNotSupported);
    *count = graph->list->count;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    list_leave(graph->list);
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    streams_finish();
    list_leave(exec->list);
    free(exec);
    return cudaSuccess;
}
