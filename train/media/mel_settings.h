/*
 * train/media/mel_settings.h - how a model's processor turns a sound into windows of
 * features: what preprocessor_config.json or processor_config.json and config.json say.
 */
#ifndef TRAIN_MEDIA_MEL_SETTINGS_H
#define TRAIN_MEDIA_MEL_SETTINGS_H

#include "base/error.h"

/* How a sound is divided into windows of the encoder; silence fills the last one. */
enum mel_split {
    MEL_FIRST,    /* one window; the rest of the sound is left out */
    MEL_SEPARATE, /* features of each window are computed separately */
    MEL_JOINT,    /* features are computed once, and then divided */
    MEL_WHOLE     /* one window, as long as the sound */
};

/* How features are computed (log_mel.h). */
enum mel_kind { MEL_WHISPER, MEL_PHI4, MEL_KINDS };

struct mel_settings;

/* A family of models, by model_type of config.json. */
struct mel_family {
    const char *model_type;
    enum mel_kind kind;
    enum mel_split split;
    /* rows that the language model receives for a sound that is not empty */
    size_t (*rows)(const struct mel_settings *settings, size_t samples);
};

struct mel_settings {
    const struct mel_family *family;
    uint32_t rate;      /* samples per second */
    uint32_t mels;      /* features of a frame */
    uint32_t frame;     /* samples of a frame, to which zeros are added */
    uint32_t n_fft;     /* elements of its transform */
    uint32_t hop;       /* samples from one frame to the next */
    uint32_t window;    /* samples of a window; 0: as many as there are */
    size_t windows_max; /* a longer sound is cut after so many; 0: none is cut */
    size_t pool;        /* adjacent positions of the encoder that become one row */
};

/* Return NULL if models of this type hear nothing, or are not supported. */
const struct mel_family *mel_family_find(const char *model_type);
/* Read the settings of a model folder, whose model_type has a family. ERROR_DATA. */
bool mel_settings_read(const char *model_dir, const char *model_type,
                       struct mel_settings *out, struct error *err);

/* For a sound of so many samples at `rate`: windows; frames of all of them; frames of a
 * window, of which so many have a part of the sound, and which the encoder attends to;
 * samples that are used.  mel_window_frames is not for MEL_WHOLE. */
size_t mel_windows(const struct mel_settings *settings, size_t samples);
size_t mel_frames(const struct mel_settings *settings, size_t samples);
size_t mel_window_frames(const struct mel_settings *settings);
size_t mel_heard_frames(const struct mel_settings *settings, size_t samples,
                        size_t window);
size_t mel_samples_used(const struct mel_settings *settings, size_t samples);
/* Rows that the language model receives; 0 for a sound that is too short. */
size_t mel_rows(const struct mel_settings *settings, size_t samples);

#endif
