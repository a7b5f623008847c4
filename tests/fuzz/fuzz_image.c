/* tests/fuzz/fuzz_image.c - files of images: they are refused by name, or have the size
 * that their header says. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "train/media/image_file.h"

/* Larger ones are left to the limits, which other tests reach. */
enum { PIXELS_MOST = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct image_bytes bytes = { data, len, "a.img" };
    struct error err = { 0 };
    struct image_size size;
    struct image image;

    if (!image_bytes_size(&bytes, &size, &err)) {
        FUZZ_HOLDS(err.code == ERROR_DATA && strncmp(err.text, "a.img: ", 7) == 0);
        return 0;
    }
    FUZZ_HOLDS((size_t)size.width * size.height <= IMAGE_PIXELS_MAX);
    if ((size_t)size.width * size.height > PIXELS_MOST)
        return 0;
    if (image_decode(&bytes, &image, &err)) {
        FUZZ_HOLDS(image.size.width == size.width && image.size.height == size.height);
        FUZZ_HOLDS(image_to_rgb(&image, &err) && image.mode == IMAGE_RGB);
    } else {
        FUZZ_HOLDS(err.code == ERROR_DATA && strncmp(err.text, "a.img: ", 7) == 0);
        FUZZ_HOLDS(!image.pixels);
    }
    image_clear(&image);
    return 0;
}
