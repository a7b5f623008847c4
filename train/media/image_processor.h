/* train/media/image_processor.h - preprocessor_config.json and the classes of
 * transformers that read it. */
#ifndef TRAIN_MEDIA_IMAGE_PROCESSOR_H
#define TRAIN_MEDIA_IMAGE_PROCESSOR_H

#include "train/media/image_source.h"

/* Fill in how an image is resized and which values its bytes become.  out->patch and
 * out->merge are given; class is used unless the file names one; `multiple` says
 * whether the model's processor has the sizing IMAGE_MULTIPLE. */
void image_processor_read(const struct image_source *from, const char *class,
                          bool multiple, struct image_settings *out);

#endif
