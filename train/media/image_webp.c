/* train/media/image_webp.c - WebP by libwebp: the only file that includes it. */
#include "config.h"

#include "train/media/image_format.h"

#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

static bool refuse(const struct image_bytes *bytes, struct error *err)
{
    return error_set(err, ERROR_DATA, "%.200s: the WebP file is damaged or truncated",
                     bytes->name);
}

static bool decode_into(const uint8_t *data, size_t len, bool alpha, uint8_t *to,
                        size_t room, size_t pitch)
{
    uint8_t *(*decode)(const uint8_t *, size_t, uint8_t *, size_t, int) =
        alpha ? WebPDecodeRGBAInto : WebPDecodeRGBInto;

    return decode(data, len, to, room, (int)pitch) != NULL;
}

/* The first image of an animation covers a part of the canvas; the rest is transparent
 * black. */
static bool decode_first(const struct image_bytes *bytes, struct image *out)
{
    WebPData data = { bytes->data, bytes->len };
    WebPDemuxer *demuxer = WebPDemux(&data);
    size_t step = image_channels(out->mode), pitch = step * out->size.width;
    size_t room = pitch * out->size.height, at;
    WebPIterator frame = { 0 };
    bool ok;

    memset(out->pixels, 0, room);
    ok = demuxer && WebPDemuxGetFrame(demuxer, 1, &frame) && frame.x_offset >= 0 &&
         frame.y_offset >= 0 && frame.width > 0 && frame.height > 0 &&
         (uint32_t)frame.x_offset + (uint32_t)frame.width <= out->size.width &&
         (uint32_t)frame.y_offset + (uint32_t)frame.height <= out->size.height;
    at = ok ? (size_t)frame.y_offset * pitch + (size_t)frame.x_offset * step : 0;
    ok = ok && decode_into(frame.fragment.bytes, frame.fragment.size,
                           out->mode == IMAGE_RGBA, out->pixels + at, room - at, pitch);
    WebPDemuxReleaseIterator(&frame);
    WebPDemuxDelete(demuxer);
    return ok;
}

bool image_webp_decode(const struct image_bytes *bytes, struct image *out,
                       struct error *err)
{
    WebPBitstreamFeatures found;
    struct image_size size;
    size_t pitch;
    bool ok;

    *out = (struct image) { .pixels = NULL };
    if (WebPGetFeatures(bytes->data, bytes->len, &found) != VP8_STATUS_OK)
        return refuse(bytes, err);
    size = (struct image_size) { (uint32_t)found.width, (uint32_t)found.height };
    if (!image_format_init(out, bytes, size, found.has_alpha ? IMAGE_RGBA : IMAGE_RGB,
                           err))
        return false;
    pitch = image_channels(out->mode) * size.width;
    ok = found.has_animation ? decode_first(bytes, out)
                             : decode_into(bytes->data, bytes->len, found.has_alpha,
                                           out->pixels, pitch * size.height, pitch);
    if (ok)
        return true;
    image_clear(out);
    return refuse(bytes, err);
}
