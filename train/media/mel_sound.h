/* train/media/mel_sound.h - a sound file as an encoder uses it: at the rate of its settings,
 * and cut where they say. */
#ifndef TRAIN_MEDIA_MEL_SOUND_H
#define TRAIN_MEDIA_MEL_SOUND_H

#include "train/media/audio.h"
#include "train/media/mel_settings.h"

/* seconds of a sound that settings do not cut; a longer one is an error */
enum { MEL_SECONDS_MAX = 3600 };

/* Count the samples that are used, of which mel_rows is not 0.  ERROR_DATA. */
bool mel_sound_probe(const struct mel_settings *settings, const char *path,
                     size_t *samples, struct error *err);
/* The same for the contents of a file, which errors call `name`. */
bool mel_sound_probe_bytes(const struct mel_settings *settings, const void *data,
                           size_t len, const char *name, size_t *samples,
                           struct error *err);
/* Decode them.  ERROR_DATA: what mel_sound_probe does not see. */
bool mel_sound_verify(const struct mel_settings *settings, const char *path,
                      struct error *err);
bool mel_sound_verify_bytes(const struct mel_settings *settings, const void *data,
                            size_t len, const char *name, struct error *err);
/* Fill *out, which must be empty, with them.  ERROR_DATA, ERROR_MEMORY. */
bool mel_sound_read(const struct mel_settings *settings, const char *path,
                    struct audio *out, struct error *err);

#endif
