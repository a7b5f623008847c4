/*
 * train/media/resample.h - change the sample rate of a sound as LLaMA-Factory does.
 *
 * torchaudio.functional.resample with its defaults: a sinc with 6 zero crossings on each
 * side, under a Hann window, which cuts off at 0.99 of the lower rate.  Smith, "Digital
 * Audio Resampling", ccrma.stanford.edu/~jos/resample.
 */
#ifndef TRAIN_MEDIA_RESAMPLE_H
#define TRAIN_MEDIA_RESAMPLE_H

#include "train/media/audio.h"

/* Return the number of samples after a change of rate; UINT64_MAX if it does not fit. */
uint64_t resample_count(uint64_t count, uint32_t from, uint32_t to);

/* Fill *out, which must be empty, with the sound at `rate`; both rates are within
 * AUDIO_RATE_MIN and AUDIO_RATE_MAX. ERROR_MEMORY. */
bool resample(const struct audio *in, uint32_t rate, struct audio *out,
              struct error *err);

#endif
