/* train/media/media_kind.h - what a record's media are, and where in its tokens. */
#ifndef TRAIN_MEDIA_MEDIA_KIND_H
#define TRAIN_MEDIA_MEDIA_KIND_H

#include <stdint.h>

enum media_kind { MEDIA_IMAGE, MEDIA_AUDIO, MEDIA_KINDS };

/* Tokens [start, start + len) stand for a medium: feature rows replace those of them that
 * are its token. */
struct media_span {
    uint32_t start, len;
    uint32_t medium;
};

#endif
