/* base/base64.c - base64 by nettle, for texts of any length. */
#include "config.h"

#include "base/base64.h"

#include <nettle/base64.h>

/* Characters that are converted at a time: a multiple of 4. */
enum { PART = 4096 };

bool base64_decode(const char *data, size_t len, struct text *out)
{
    struct base64_decode_ctx context;
    uint8_t part[BASE64_DECODE_LENGTH(PART)];

    base64_decode_init(&context);
    for (size_t at = 0; at < len; at += PART) {
        size_t count = len - at < PART ? len - at : PART, bytes = sizeof(part);

        if (!base64_decode_update(&context, &bytes, part, count, data + at) ||
            !text_add(out, part, bytes))
            return false;
    }
    return base64_decode_final(&context);
}

bool base64_encode(const void *data, size_t len, struct text *out)
{
    const uint8_t *from = data;
    char part[BASE64_ENCODE_RAW_LENGTH(PART / 4 * 3)];

    for (size_t at = 0; at < len; at += PART / 4 * 3) {
        size_t count = len - at < PART / 4 * 3 ? len - at : PART / 4 * 3;

        base64_encode_raw(part, count, from + at);
        if (!text_add(out, part, BASE64_ENCODE_RAW_LENGTH(count)))
            return false;
    }
    return true;
}
