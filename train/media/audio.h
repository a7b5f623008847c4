/*
 * train/media/audio.h - sound files, decoded by libsndfile: WAV, FLAC, Ogg, MP3, AIFF and
 * others.
 *
 * A file is untrusted: what its header claims allocates nothing.  Memory is that of the
 * decoder, of one block, and of the samples kept.  One file is opened at a time: libsndfile
 * keeps the reason of a failure in a global variable.
 */
#ifndef TRAIN_MEDIA_AUDIO_H
#define TRAIN_MEDIA_AUDIO_H

#include "base/error.h"

/* samples per second, and channels, of a file that is read */
enum { AUDIO_RATE_MIN = 1000, AUDIO_RATE_MAX = 384000, AUDIO_CHANNELS_MAX = 8 };
#define AUDIO_SAMPLES_MAX ((size_t)1 << 28) /* that are kept */
#define AUDIO_HEIGHT_MAX  1e10              /* of a sample; usual ones are at most 1 */

struct audio {
    float *samples; /* of one channel: the mean of those of the file */
    size_t count;
    uint32_t rate; /* samples per second */
};

struct audio_limits {
    double seconds;  /* that are needed: reading stops after them */
    bool may_exceed; /* the rest of a longer sound is left; otherwise it is an error */
};

struct audio_probe {
    uint32_t rate, channels;
    /* samples of each channel; of a sound that may exceed the limit, it may be that many and
     * a second more */
    uint64_t frames;
};

/* Return whether this build can read sound; otherwise the functions below fail. */
bool audio_is_supported(void);

/* Describe a file, decoding only what its length requires.  ERROR_DATA; the same as
 * audio_read would report, except for what is inside the sound. */
bool audio_probe(const char *path, const struct audio_limits *limits,
                 struct audio_probe *out, struct error *err);
/* Fill *out, which must be empty.  There is at least one sample, and all are finite.  A
 * sound that is cut has up to one second more than `seconds`. ERROR_DATA, ERROR_MEMORY. */
bool audio_read(const char *path, const struct audio_limits *limits, struct audio *out,
                struct error *err);
/* The same for the contents of a file, which errors call `name`. */
bool audio_probe_bytes(const void *data, size_t len, const char *name,
                       const struct audio_limits *limits, struct audio_probe *out,
                       struct error *err);
bool audio_read_bytes(const void *data, size_t len, const char *name,
                      const struct audio_limits *limits, struct audio *out,
                      struct error *err);
/* Decode as much as audio_read does, and keep nothing.  ERROR_DATA. */
bool audio_verify(const char *path, const struct audio_limits *limits, struct error *err);
bool audio_verify_bytes(const void *data, size_t len, const char *name,
                        const struct audio_limits *limits, struct error *err);
void audio_clear(struct audio *audio);

#endif
