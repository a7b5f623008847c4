/*
 * train/media/log_mel.h - features of sound: power spectra of frames, sums of them under
 * triangles on a scale of pitch, and their logarithms.
 *
 * MEL_WHISPER: transformers' WhisperFeatureExtractor.  Frames are centered, under a
 * periodic Hann window; triangles have Slaney's scale and norm (librosa.filters.mel), up
 * to 8000 Hz; log10 is clipped 8 below the maximum.
 * MEL_PHI4: transformers' Phi4MultimodalFeatureExtractor.  Frames lie inside of the sound,
 * under a Hamming window after pre-emphasis, as 16-bit integers; triangles have Kaldi's
 * scale, up to 7690 Hz; the natural logarithm is at least 0.
 */
#ifndef TRAIN_MEDIA_LOG_MEL_H
#define TRAIN_MEDIA_LOG_MEL_H

#include "train/media/mel_settings.h"

struct log_mel; /* constants of the settings; may be shared by threads */

/* Never fails for settings that mel_settings_read accepted. */
struct log_mel *log_mel_new(const struct mel_settings *settings);
void log_mel_free(struct log_mel *mel); /* NULL is allowed */

/* Compute the features of a sound of `count` finite samples at the rate of the settings:
 * out (mel_frames, mels). */
void log_mel_fill(const struct log_mel *mel, const float *samples, size_t count,
                  float *out);

#endif
