/* patcher/schema/schema_media.c - keys of sound and images. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

#define NO_VIDEO "setting of videos, which are not supported"

static const struct key rows[] = {
    { TS_USED("media_dir", KEY_PATH, NULL), .into = TS_FIELD(media_dir),
      .help = "folder of the images and sounds that the data name; by default, "
              "dataset_dir" },
    { TS_USED("image_max_pixels", KEY_INT, "589824"), .min = 1, .max = 1e9,
      .into = TS_FIELD(image_max_pixels),
      .help = "number of pixels above which an image is made smaller, before the model's "
              "own processor resizes it" },
    { TS_USED("image_min_pixels", KEY_INT, "1024"), .min = 1, .max = 1e9,
      .into = TS_FIELD(image_min_pixels),
      .help = "number of pixels below which an image is enlarged" },
    TS_REJECTED("image_do_pan_and_scan", KEY_BOOL, "false", NULL,
                "crops of an image in addition to the whole",
                "the model then sees each image as a whole"),
    { TS_USED("audio_sampling_rate", KEY_INT, "16000"), .min = 1, .max = 1e6,
      .into = TS_FIELD(audio_sampling_rate),
      .help = "samples per second to which sounds are converted; encoders read 16000" },
    { TS_USED("freeze_vision_tower", KEY_BOOL, "true"),
      .into = TS_FIELD(freeze_vision_tower),
      .help =
          "do not train the encoder of images or sound; false: full tuning trains it, "
          "and LoRA adapts it" },
    { TS_USED("freeze_multi_modal_projector", KEY_BOOL, "true"),
      .into = TS_FIELD(freeze_multi_modal_projector),
      .help = "do not train the layers between the encoder and the text model; with "
              "adapters, additional_target: multi_modal_projector trains them" },
    { TS_USED("freeze_language_model", KEY_BOOL, "false"),
      .into = TS_FIELD(freeze_language_model), .help = "do not train the text model" },
    { TS_USED("crop_to_patches", KEY_BOOL, "false"), .into = TS_FIELD(crop_to_patches),
      .help =
          "InternVL sees an image as 1 to 12 tiles and as a whole, not only as a whole" },
    TS_IGNORED("video_max_pixels", KEY_INT, "65536", NO_VIDEO),
    TS_IGNORED("video_min_pixels", KEY_INT, "256", NO_VIDEO),
    TS_IGNORED("video_fps", KEY_REAL, "2.0", NO_VIDEO),
    TS_IGNORED("video_maxlen", KEY_INT, "128", NO_VIDEO),
    TS_IGNORED("use_audio_in_video", KEY_BOOL, "false", NO_VIDEO),

    TS_ALIAS("image_dir", "media_dir", NULL),
    TS_ALIAS("image_resolution", "image_max_pixels", NULL),
    TS_ALIAS("image_max_resolution", "image_max_pixels", NULL),
    TS_ALIAS("image_min_resolution", "image_min_pixels", NULL),
    TS_IGNORED("video_resolution", KEY_INT, "65536", NO_VIDEO),
    TS_IGNORED("video_max_resolution", KEY_INT, "65536", NO_VIDEO),
    TS_IGNORED("video_min_resolution", KEY_INT, "256", NO_VIDEO),
};
const struct keys schema_media_keys = { "Sound and images", rows, TS_COUNT(rows) };
