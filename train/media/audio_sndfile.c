/*
 * train/media/audio_sndfile.c - libsndfile with our limits.
 *
 * The library reads through functions of ours, so that it opens no file itself.  Bytes that
 * do not begin as a known format does never reach it: it has parsers of 20 more.
 */
#include "config.h"

#include "train/media/audio.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"

enum { BLOCK_FRAMES = 4096, START_BYTES = 12 };
#define UNKNOWN SF_COUNT_MAX /* frames of a file that does not say */

bool audio_is_supported(void)
{
    return true;
}

/* ---- Bytes of a file, or in memory ---- */

struct source {
    const char *name;
    const char *data; /* NULL: read from fd */
    int fd;
    sf_count_t len, at;
    int failure; /* errno of a read, or 0 */
};

static sf_count_t source_length(void *context)
{
    return ((struct source *)context)->len;
}

static sf_count_t source_tell(void *context)
{
    return ((struct source *)context)->at;
}

static sf_count_t source_seek(sf_count_t offset, int whence, void *context)
{
    struct source *source = context;
    sf_count_t from = whence == SEEK_SET   ? 0
                      : whence == SEEK_CUR ? source->at
                                           : source->len;
    sf_count_t at;

    if (__builtin_add_overflow(from, offset, &at) || at < 0)
        return -1;
    return source->at = at;
}

static sf_count_t read_file(struct source *source, char *into, sf_count_t count)
{
    sf_count_t done = 0;

    while (done < count) {
        ssize_t got =
            pread(source->fd, into + done, (size_t)(count - done), source->at + done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            source->failure = errno;
        if (got <= 0)
            break;
        done += got;
    }
    return done;
}

static sf_count_t source_read(void *into, sf_count_t count, void *context)
{
    struct source *source = context;

    if (source->at >= source->len || count <= 0)
        return 0;
    if (count > source->len - source->at)
        count = source->len - source->at;
    if (source->data)
        memcpy(into, source->data + source->at, (size_t)count);
    else
        count = read_file(source, into, count);
    source->at += count;
    return count;
}

static bool source_open(const char *path, struct source *out, struct error *err)
{
    struct stat st;

    *out = (struct source) {
        .name = path,
        .fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC),
    };
    if (out->fd < 0)
        return error_errno_data(err, "cannot open %s", path);
    if (fstat(out->fd, &st) != 0)
        error_errno_data(err, "cannot examine %s", path);
    else if (!S_ISREG(st.st_mode))
        error_set(err, ERROR_DATA, "cannot read %s: not a regular file", path);
    else {
        out->len = st.st_size;
        return true;
    }
    close(out->fd);
    return false;
}

static struct source source_of_bytes(const void *data, size_t len, const char *name)
{
    return (
        struct source) { .name = name, .data = data, .fd = -1, .len = (sf_count_t)len };
}

/* ---- Formats ---- */

static const struct {
    const char *start;
    int format; /* SF_FORMAT_TYPEMASK */
} formats[] = {
    { "RIFF", SF_FORMAT_WAV },  { "RIFF", SF_FORMAT_WAVEX }, { "RIFX", SF_FORMAT_WAV },
    { "RF64", SF_FORMAT_RF64 }, { "riff", SF_FORMAT_W64 },   { "FORM", SF_FORMAT_AIFF },
    { ".snd", SF_FORMAT_AU },   { "dns.", SF_FORMAT_AU },    { "fLaC", SF_FORMAT_FLAC },
    { "OggS", SF_FORMAT_OGG },  { "caff", SF_FORMAT_CAF },   { "ID3", SF_FORMAT_MPEG },
    { "ID3", SF_FORMAT_FLAC },  { "\xff", SF_FORMAT_MPEG },
};

/* Return whether a file begins as one of these formats; with a format, as that one. */
static bool begins_as(const char *start, size_t len, int format)
{
    for (size_t i = 0; i < TS_COUNT(formats); i++) {
        size_t size = strlen(formats[i].start);

        if (len >= size && memcmp(start, formats[i].start, size) == 0 &&
            (format == 0 || formats[i].format == format))
            return true;
    }
    return false;
}

static bool refuse_format(const struct source *source, struct error *err)
{
    return error_set(
        err, ERROR_DATA,
        "cannot read %s: not a WAV, FLAC, Ogg, MP3, AIFF, AU, CAF or W64 file",
        source->name);
}

/* ---- Decoders ---- */

struct decoder {
    struct source *source;
    SNDFILE *file;
    SF_INFO info;
    float *block; /* (BLOCK_FRAMES, channels) */
};

/* What the library says begins with "Error : " and ends in a period. */
static bool report(const struct decoder *decoder, struct error *err)
{
    const char *reason = sf_strerror(decoder->file);
    size_t skip = strspn(reason, " "), len;

    if (decoder->source->failure) {
        errno = decoder->source->failure;
        return error_errno_data(err, "cannot read %s", decoder->source->name);
    }
    if (strncmp(reason + skip, "Error : ", 8) == 0)
        skip += 8;
    len = strcspn(reason + skip, ".\n");
    return error_set(err, ERROR_DATA, "cannot decode %s: %.*s", decoder->source->name,
                     (int)len, reason + skip);
}

static bool check_info(const struct decoder *decoder, struct error *err)
{
    const SF_INFO *info = &decoder->info;
    const char *name = decoder->source->name;

    if (info->samplerate < AUDIO_RATE_MIN || info->samplerate > AUDIO_RATE_MAX)
        return error_set(err, ERROR_DATA,
                         "cannot read %s: %d samples per second, which must be from %d "
                         "to %d",
                         name, info->samplerate, AUDIO_RATE_MIN, AUDIO_RATE_MAX);
    if (info->channels < 1 || info->channels > AUDIO_CHANNELS_MAX)
        return error_set(err, ERROR_DATA,
                         "cannot read %s: %d channels, which must be from 1 to %d", name,
                         info->channels, AUDIO_CHANNELS_MAX);
    if (info->frames <= 0)
        return error_set(err, ERROR_DATA, "cannot read %s: the sound is empty", name);
    return true;
}

static void decoder_close(struct decoder *decoder)
{
    if (decoder->file)
        sf_close(decoder->file);
    free(decoder->block);
}

static bool decoder_open(struct decoder *out, struct source *source, struct error *err)
{
    static SF_VIRTUAL_IO functions = { .get_filelen = source_length,
                                       .seek = source_seek,
                                       .read = source_read,
                                       .tell = source_tell };
    char start[START_BYTES];
    size_t len = (size_t)source_read(start, sizeof(start), source);

    *out = (struct decoder) { .source = source };
    source->at = 0;
    if (!source->failure && !begins_as(start, len, 0))
        return refuse_format(source, err);
    out->file = sf_open_virtual(&functions, SFM_READ, &out->info, source);
    if (!out->file)
        return report(out, err);
    if (!begins_as(start, len, out->info.format & SF_FORMAT_TYPEMASK))
        refuse_format(source, err);
    else if (check_info(out, err)) {
        out->block = memory_resize(NULL, BLOCK_FRAMES * (size_t)out->info.channels,
                                   sizeof(*out->block));
        return true;
    }
    decoder_close(out);
    return false;
}

/* ---- Lengths ---- */

/* MPEG's own frames have no count, and what a file adds may be an estimate. */
static bool length_is_exact(const SF_INFO *info)
{
    int codec = info->format & SF_FORMAT_SUBMASK;

    return info->frames != UNKNOWN &&
           (codec < SF_FORMAT_MPEG_LAYER_I || codec > SF_FORMAT_MPEG_LAYER_III);
}

/* Frames after which a sound is too long, or has enough to be cut after its rate changed. */
static size_t frames_wanted(const struct decoder *decoder,
                            const struct audio_limits *limits)
{
    double rate = decoder->info.samplerate;
    double wanted = ceil(limits->seconds * rate) + (limits->may_exceed ? rate : 0);

    return wanted < (double)AUDIO_SAMPLES_MAX ? (size_t)wanted : AUDIO_SAMPLES_MAX;
}

static bool refuse_length(const struct decoder *decoder, size_t wanted, struct error *err)
{
    return error_set(err, ERROR_DATA, "cannot read %s: longer than the limit of %.5g s",
                     decoder->source->name, (double)wanted / decoder->info.samplerate);
}

static bool refuse_end(const struct decoder *decoder, struct error *err)
{
    if (decoder->source->failure)
        return report(decoder, err);
    return error_set(
        err, ERROR_DATA, "cannot read %s: it ends before the %.5g s that its header says",
        decoder->source->name, (double)decoder->info.frames / decoder->info.samplerate);
}

/* ---- Samples ---- */

struct samples {
    float *list; /* NULL, if they are only counted */
    size_t count, room;
    bool are_kept;
};

static bool samples_grow(struct samples *samples, size_t more)
{
    float *list;

    if (!samples->are_kept || samples->count + more <= samples->room)
        return true;
    samples->room = 2 * samples->room + more;
    list = realloc(samples->list, samples->room * sizeof(*list));
    if (list)
        samples->list = list;
    return list != NULL;
}

/* The mean of channels as torch computes it: a sum of float, divided. */
static bool samples_add(struct samples *samples, const struct decoder *decoder,
                        size_t frames, struct error *err)
{
    size_t channels = (size_t)decoder->info.channels;
    const char *name = decoder->source->name;

    if (!samples_grow(samples, frames))
        return error_set(err, ERROR_MEMORY, "cannot allocate %zu MiB for the sound of %s",
                         (samples->room * sizeof(float)) >> 20, name);
    for (size_t i = 0; i < frames; i++, samples->count++) {
        const float *frame = decoder->block + i * channels;
        float sum = frame[0];

        for (size_t c = 1; c < channels; c++)
            sum += frame[c];
        if (!(fabsf(sum) <= (float)AUDIO_HEIGHT_MAX))
            return error_set(
                err, ERROR_DATA, "cannot read %s: the sample at %.5g s is %g", name,
                (double)samples->count / decoder->info.samplerate, (double)sum);
        if (samples->are_kept)
            samples->list[samples->count] = sum / (float)channels;
    }
    return true;
}

/* Decode until the end or the limit. */
static bool decode(const struct decoder *decoder, const struct audio_limits *limits,
                   struct samples *samples, struct error *err)
{
    size_t wanted = frames_wanted(decoder, limits);
    sf_count_t got;

    while ((got = sf_readf_float(decoder->file, decoder->block, BLOCK_FRAMES)) > 0) {
        if (sf_error(decoder->file) != SF_ERR_NO_ERROR) /* the next call forgets it */
            return report(decoder, err);
        if (!samples_add(samples, decoder, (size_t)got, err))
            return false;
        if (samples->count > wanted)
            return limits->may_exceed || refuse_length(decoder, wanted, err);
    }
    if (decoder->source->failure || sf_error(decoder->file) != SF_ERR_NO_ERROR)
        return report(decoder, err);
    if (samples->count == 0)
        return error_set(err, ERROR_DATA, "cannot read %s: the sound is empty",
                         decoder->source->name);
    if (length_is_exact(&decoder->info) &&
        samples->count < (uint64_t)decoder->info.frames)
        return refuse_end(decoder, err);
    return true;
}

static bool read_source(struct source *source, const struct audio_limits *limits,
                        struct audio *out, struct error *err)
{
    struct samples samples = { .are_kept = true };
    struct decoder decoder;
    bool ok;

    if (!decoder_open(&decoder, source, err))
        return false;
    ok = decode(&decoder, limits, &samples, err);
    if (ok)
        *out = (struct audio) { samples.list, samples.count,
                                (uint32_t)decoder.info.samplerate };
    else
        free(samples.list);
    decoder_close(&decoder);
    return ok;
}

/* A file that is cut off has no last frame. */
static bool check_end(const struct decoder *decoder, const struct audio_limits *limits,
                      struct error *err)
{
    sf_count_t wanted = (sf_count_t)frames_wanted(decoder, limits);
    sf_count_t last = decoder->info.frames - 1;

    if (last >= wanted && !limits->may_exceed)
        return refuse_length(decoder, (size_t)wanted, err);
    if (last > wanted)
        last = wanted;
    return (sf_seek(decoder->file, last, SEEK_SET) == last &&
            sf_readf_float(decoder->file, decoder->block, 1) == 1) ||
           refuse_end(decoder, err);
}

static bool probe_source(struct source *source, const struct audio_limits *limits,
                         struct audio_probe *out, struct error *err)
{
    struct samples samples = { 0 };
    struct decoder decoder;
    bool exact, ok;

    if (!decoder_open(&decoder, source, err))
        return false;
    exact = length_is_exact(&decoder.info) && decoder.info.seekable;
    ok = exact ? check_end(&decoder, limits, err)
               : decode(&decoder, limits, &samples, err);
    *out = (struct audio_probe) {
        .rate = (uint32_t)decoder.info.samplerate,
        .channels = (uint32_t)decoder.info.channels,
        .frames = exact ? (uint64_t)decoder.info.frames : samples.count,
    };
    decoder_close(&decoder);
    return ok;
}

static bool verify_source(struct source *source, const struct audio_limits *limits,
                          struct error *err)
{
    struct samples samples = { 0 };
    struct decoder decoder;
    bool ok;

    if (!decoder_open(&decoder, source, err))
        return false;
    ok = decode(&decoder, limits, &samples, err);
    decoder_close(&decoder);
    return ok;
}

/* ---- Files and bytes ---- */

bool audio_probe(const char *path, const struct audio_limits *limits,
                 struct audio_probe *out, struct error *err)
{
    struct source source;
    bool ok;

    if (!source_open(path, &source, err))
        return false;
    ok = probe_source(&source, limits, out, err);
    close(source.fd);
    return ok;
}

bool audio_read(const char *path, const struct audio_limits *limits, struct audio *out,
                struct error *err)
{
    struct source source;
    bool ok;

    if (!source_open(path, &source, err))
        return false;
    ok = read_source(&source, limits, out, err);
    close(source.fd);
    return ok;
}

bool audio_verify(const char *path, const struct audio_limits *limits, struct error *err)
{
    struct source source;
    bool ok;

    if (!source_open(path, &source, err))
        return false;
    ok = verify_source(&source, limits, err);
    close(source.fd);
    return ok;
}

bool audio_probe_bytes(const void *data, size_t len, const char *name,
                       const struct audio_limits *limits, struct audio_probe *out,
                       struct error *err)
{
    struct source source = source_of_bytes(data, len, name);

    return probe_source(&source, limits, out, err);
}

bool audio_read_bytes(const void *data, size_t len, const char *name,
                      const struct audio_limits *limits, struct audio *out,
                      struct error *err)
{
    struct source source = source_of_bytes(data, len, name);

    return read_source(&source, limits, out, err);
}

bool audio_verify_bytes(const void *data, size_t len, const char *name,
                        const struct audio_limits *limits, struct error *err)
{
    struct source source = source_of_bytes(data, len, name);

    return verify_source(&source, limits, err);
}

void audio_clear(struct audio *audio)
{
    free(audio->samples);
    *audio = (struct audio) { 0 };
}
