/* train/media/audio_none.c - the functions of audio.h in a build without libsndfile. */
#include "config.h"

#include "train/media/audio.h"

#include <stdlib.h>

bool audio_is_supported(void)
{
    return false;
}

static bool refuse(const char *name, struct error *err)
{
    return error_set(err, ERROR_DATA,
                     "cannot read %s: this build reads no sound, because configure found "
                     "no libsndfile; install libsndfile1-dev, then configure and build "
                     "again",
                     name);
}

bool audio_probe(const char *path, const struct audio_limits *limits,
                 struct audio_probe *out, struct error *err)
{
    (void)limits;
    (void)out;
    return refuse(path, err);
}

bool audio_read(const char *path, const struct audio_limits *limits, struct audio *out,
                struct error *err)
{
    (void)limits;
    (void)out;
    return refuse(path, err);
}

bool audio_probe_bytes(const void *data, size_t len, const char *name,
                       const struct audio_limits *limits, struct audio_probe *out,
                       struct error *err)
{
    (void)data;
    (void)len;
    (void)limits;
    (void)out;
    return refuse(name, err);
}

bool audio_read_bytes(const void *data, size_t len, const char *name,
                      const struct audio_limits *limits, struct audio *out,
                      struct error *err)
{
    (void)data;
    (void)len;
    (void)limits;
    (void)out;
    return refuse(name, err);
}

bool audio_verify(const char *path, const struct audio_limits *limits, struct error *err)
{
    (void)limits;
    return refuse(path, err);
}

bool audio_verify_bytes(const void *data, size_t len, const char *name,
                        const struct audio_limits *limits, struct error *err)
{
    (void)data;
    (void)len;
    (void)limits;
    return refuse(name, err);
}

void audio_clear(struct audio *audio)
{
    free(audio->samples);
    *audio = (struct audio) { 0 };
}
