/* tests/unit/test_image_file.c - files are decoded to Pillow's pixels
 * (tests/golden/image_files.py), and damaged ones are refused by name. */
#include "config.h"

#include "train/media/image_file.h"

#include "base/base64.h"
#include "base/size.h"
#include "tests/unit/unit_image.h"
#include "train/media/image_resize.h"

static json_t *golden;

static int open_golden(void **state)
{
    (void)state;
    golden = unit_golden("tests/golden/image_files.json");
    return 0;
}

static int close_golden(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

static const json_t *files(void)
{
    return json_object_get(golden, "files");
}

static const char *name_of(const json_t *row)
{
    return json_string_value(json_object_get(row, "name"));
}

static void bytes_of(const json_t *row, struct text *out)
{
    const json_t *file = json_object_get(row, "file");

    text_init(out, 0);
    assert_true(base64_decode(json_string_value(file), json_string_length(file), out));
}

static void file_named(const char *name, struct text *out)
{
    for (size_t i = 0; i < json_array_size(files()); i++) {
        if (strcmp(name_of(json_array_get(files(), i)), name) == 0) {
            bytes_of(json_array_get(files(), i), out);
            return;
        }
    }
    fail_msg("no file %s", name);
}

/* Decode from a block of exactly this size, so that reading past it is detected. */
static bool decode(const char *data, size_t len, struct image *out, struct error *err)
{
    uint8_t *copy = memory_alloc(len ? len : 1);
    const struct image_bytes bytes = { copy, len, "a.img" };
    bool ok;

    memcpy(copy, data, len);
    ok = image_decode(&bytes, out, err);
    free(copy);
    return ok;
}

static const char *const in_build[] = {
#ifdef HAVE_JPEG
    "jpeg",
#endif
#ifdef HAVE_PNG
    "png",
#endif
#ifdef HAVE_WEBP
    "webp",
#endif
    NULL
};

static bool is_in_build(const char *name)
{
    size_t i = 0;

    while (in_build[i] && !text_starts(name, in_build[i]))
        i++;
    return in_build[i] != NULL;
}

static size_t rgb_bytes(const struct image *image)
{
    return (size_t)image->size.width * image->size.height * 3;
}

static uint32_t two_thirds(uint32_t side)
{
    return side * 2 / 3 > 1 ? side * 2 / 3 : 1;
}

static void check_file(const json_t *row)
{
    const char *mode = json_string_value(json_object_get(row, "mode"));
    struct image_size size = unit_size(row, "size"), header;
    struct error err = { 0 };
    struct image image;
    struct text text;
    struct image_bytes bytes;

    bytes_of(row, &text);
    bytes = (struct image_bytes) { (uint8_t *)text.data, text.len, "a.img" };
    assert_true(image_bytes_size(&bytes, &header, &err));
    assert_int_equal(header.width, size.width);
    assert_int_equal(header.height, size.height);
    if (!decode(text.data, text.len, &image, &err))
        fail_msg("%s: %s", name_of(row), err.text);
    /* Pillow has no mode for two samples of 16 bits */
    if (strcmp(name_of(row), "png-4-16") != 0)
        assert_string_equal(unit_modes[image.mode], mode);
    assert_int_equal(image.size.width, size.width);
    assert_int_equal(image.size.height, size.height);
    assert_true(image_to_rgb(&image, &err));
    unit_digest_is(image.pixels, rgb_bytes(&image), row, "rgb");
    image_clear(&image);
    assert_true(decode(text.data, text.len, &image, &err));
    size = (struct image_size) { two_thirds(size.width), two_thirds(size.height) };
    assert_true(image_resize(&image, size, IMAGE_BICUBIC, IMAGE_PILLOW, &err));
    assert_true(image_to_rgb(&image, &err));
    unit_digest_is(image.pixels, rgb_bytes(&image), row, "small");
    image_clear(&image);
    text_clear(&text);
}

static void test_image_files_are_decoded_as_by_pillow(void **state)
{
    (void)state;
    assert_true(json_array_size(files()) > 40);
    for (size_t i = 0; i < json_array_size(files()); i++) {
        const json_t *row = json_array_get(files(), i);

        if (is_in_build(name_of(row)))
            check_file(row);
    }
}

static void test_image_files_that_are_cut_are_refused(void **state)
{
    size_t refused = 0;

    (void)state;
    for (size_t i = 0; i < json_array_size(files()); i++) {
        const json_t *row = json_array_get(files(), i);
        const json_t *cuts = json_object_get(row, "cuts");
        struct text text;

        bytes_of(row, &text);
        for (size_t k = 0; is_in_build(name_of(row)) && k < json_array_size(cuts); k++) {
            const json_t *cut = json_array_get(cuts, k);
            size_t len = (size_t)json_integer_value(json_array_get(cut, 0));
            bool opens = json_is_true(json_array_get(cut, 1));
            struct error err = { 0 };
            struct image image;
            bool ok = decode(text.data, size_min(len, text.len), &image, &err);

            /* Pillow reads a gray JPEG without its last marker */
            if (ok != opens && !text_starts(name_of(row), "jpeg-gray"))
                fail_msg("%s cut to %zu: %s", name_of(row), len, ok ? "read" : err.text);
            assert_true(ok || (err.code == ERROR_DATA && !image.pixels &&
                               text_starts(err.text, "a.img: ")));
            refused += !ok;
            image_clear(&image);
        }
        text_clear(&text);
    }
    assert_true(refused >= 20 * (TS_COUNT(in_build) - 1));
}

/* ---- Headers that lie ---- */

static void expect_refused(const char *data, size_t len, const char *why)
{
    struct error err = { 0 };
    struct image image;

    if (decode(data, len, &image, &err))
        fail_msg("decoded, not: %s", why);
    assert_int_equal(err.code, ERROR_DATA);
    assert_null(image.pixels);
    if (!text_starts(err.text, "a.img: ") || !strstr(err.text, why))
        fail_msg("%s, not %s", err.text, why);
}

static void expect_size_refused(const char *data, size_t len, const char *why)
{
    const struct image_bytes bytes = { (const uint8_t *)data, len, "a.img" };
    struct error err = { 0 };
    struct image_size size;

    assert_false(image_bytes_size(&bytes, &size, &err));
    assert_non_null(strstr(err.text, why));
    expect_refused(data, len, why);
}

/* Return the first place of a pattern. */
static char *find(struct text *text, const char *pattern, size_t len)
{
    char *at = memmem(text->data, text->len, pattern, len);

    assert_non_null(at);
    return at;
}

static void test_image_sizes_past_the_limits_are_refused(void **state)
{
    struct text png, jpeg, webp;

    (void)state;
    file_named("png-2-8", &png);
    memcpy(png.data + 16, "\x7f\xff\xff\xff", 4);
    expect_size_refused(png.data, png.len, "2147483647 x 21 pixels is not supported");
    memcpy(png.data + 16, "\0\0\xff\xff\0\0\xff\xff", 8);
    expect_size_refused(png.data, png.len, "65535 x 65535 pixels is not supported");
    memcpy(png.data + 16, "\0\0\0\0", 4);
    expect_size_refused(png.data, png.len, "0 x 65535 pixels is not supported");
    file_named("jpeg", &jpeg);
    memcpy(find(&jpeg, "\xff\xc0", 2) + 5, "\xff\xff\xff\xff", 4);
    expect_size_refused(jpeg.data, jpeg.len, "65535 x 65535 pixels is not supported");
    memcpy(find(&jpeg, "\xff\xc0", 2) + 5, "\0\0", 2);
    expect_size_refused(jpeg.data, jpeg.len, "65535 x 0 pixels is not supported");
    file_named("webp-animation", &webp);
    memcpy(find(&webp, "VP8X", 4) + 12, "\xff\xff\xff\xff\xff\xff", 6);
    expect_size_refused(webp.data, webp.len, "16777216 x 16777216 pixels");
    text_clear(&png);
    text_clear(&jpeg);
    text_clear(&webp);
}

/* A size within the limits, of which the file has little. */
static void test_image_files_with_too_little_data_are_refused(void **state)
{
    struct text text;

    (void)state;
    if (is_in_build("jpeg")) {
        file_named("jpeg", &text);
        memcpy(find(&text, "\xff\xc0", 2) + 5, "\x30\x00\x30\x00", 4);
        expect_refused(text.data, text.len, "the JPEG file is ");
        text_clear(&text);
    }
    if (is_in_build("webp")) {
        file_named("webp-lossless", &text);
        memcpy(find(&text, "VP8L", 4) + 9, "\xff\xef\xff\x0b", 4);
        expect_refused(text.data, text.len, "");
        text_clear(&text);
    }
}

/* Repeat the last scan of a progressive file. */
static void test_image_jpeg_with_many_scans_is_refused(void **state)
{
    struct text text, bomb;
    const char *last = NULL;

    (void)state;
    if (!is_in_build("jpeg"))
        skip();
    file_named("jpeg-progressive", &text);
    for (const char *at = text.data; at + 1 < text.data + text.len; at++)
        if (memcmp(at, "\xff\xda", 2) == 0)
            last = at;
    assert_non_null(last);
    text_init(&bomb, 0);
    text_add(&bomb, text.data, text.len - 2);
    for (int i = 0; i < 600; i++)
        text_add(&bomb, last, (size_t)(text.data + text.len - 2 - last));
    text_add(&bomb, "\xff\xd9", 2);
    expect_refused(bomb.data, bomb.len, "the JPEG file has more than 500 scans");
    text_clear(&bomb);
    text_clear(&text);
}

static void test_image_files_of_other_formats_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *why;
    } cases[] = {
        { "", 0, "the file is empty" },
        { "GIF89a", 6, "a GIF file is not supported; convert it" },
        { "BM\0\0\0\0", 6, "a BMP file is not supported" },
        { "II*\0", 4, "a TIFF file is not supported" },
        { "\0\0\0\x18"
          "ftypavif",
          12, "a AVIF or HEIC file" },
        { "<!DOCTYPE html>", 15, "not an image: it must be a JPEG, PNG or WebP file" },
        { "\xff\xd8\xff", 3, "the header of the image is damaged" },
        { "\xff\xd8\xff\xd9\xff\xd9", 6, "the header of the image is damaged" },
        { "\x89PNG\r\n\x1a\n", 8, "the header of the image is damaged" },
        { "RIFF\0\0\0\0WEBPVP8L", 16, "the header of the image is damaged" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        expect_refused(cases[i].bytes, cases[i].len, cases[i].why);
}

/* ---- Files ---- */

static void write_file(const char *path, const char *head, size_t len, size_t filler,
                       const char *tail, size_t rest)
{
    struct text text;
    struct error err = { 0 };

    text_init(&text, 0);
    text_add(&text, head, len);
    /* segments of 60000 bytes: an APP1 that is skipped */
    for (size_t i = 0; i < filler; i++) {
        char segment[60002] = "\xff\xe1\xea\x60";

        text_add(&text, segment, sizeof(segment));
    }
    text_add(&text, tail, rest);
    assert_true(file_replace(path, text.data, text.len, 0600, &err));
    text_clear(&text);
}

static void test_image_size_reads_headers_of_any_length(void **state)
{
    char *dir = unit_dir_new(), *path = path_join(dir, "a.jpg");
    struct image_size size;
    struct error err = { 0 };
    struct image image;
    struct text text;

    (void)state;
    file_named("jpeg-exif", &text);
    for (size_t filler = 0; filler < 12; filler += 4) {
        write_file(path, text.data, 2, filler, text.data + 2, text.len - 2);
        if (!image_size(path, &size, &err))
            fail_msg("%s", err.text);
        assert_int_equal(size.width, 29);
        assert_int_equal(size.height, 21);
        if (is_in_build("jpeg")) {
            assert_true(image_read(path, &image, &err));
            image_clear(&image);
        }
    }
    write_file(path, text.data, 2, 12, "", 0);
    assert_false(image_size(path, &size, &err));
    assert_non_null(strstr(err.text, "a.jpg: the header of the image is damaged"));
    text_clear(&text);
    free(path);
    unit_dir_free(dir);
}

static void test_image_files_that_are_missing_are_data_errors(void **state)
{
    char *dir = unit_dir_new(), *path = path_join(dir, "none.png");
    struct image_size size;
    struct error err = { 0 };
    struct image image;

    (void)state;
    assert_false(image_size(path, &size, &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_non_null(strstr(err.text, "none.png"));
    error_clear(&err);
    assert_false(image_read(path, &image, &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_null(image.pixels);
    error_clear(&err);
    assert_false(image_read(dir, &image, &err));
    assert_int_equal(err.code, ERROR_DATA);
    free(path);
    unit_dir_free(dir);
}

static void test_image_formats_that_the_build_lacks_are_named(void **state)
{
    static const char *const names[] = { "jpeg", "png-2-8", "webp-lossy" };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct error err = { 0 };
        struct image image;
        struct text text;

        file_named(names[i], &text);
        if (decode(text.data, text.len, &image, &err))
            assert_true(is_in_build(names[i]));
        else
            assert_non_null(strstr(err.text, "this build cannot read"));
        image_clear(&image);
        text_clear(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_files_are_decoded_as_by_pillow),
        cmocka_unit_test(test_image_files_that_are_cut_are_refused),
        cmocka_unit_test(test_image_sizes_past_the_limits_are_refused),
        cmocka_unit_test(test_image_files_with_too_little_data_are_refused),
        cmocka_unit_test(test_image_jpeg_with_many_scans_is_refused),
        cmocka_unit_test(test_image_files_of_other_formats_are_refused),
        cmocka_unit_test(test_image_size_reads_headers_of_any_length),
        cmocka_unit_test(test_image_files_that_are_missing_are_data_errors),
        cmocka_unit_test(test_image_formats_that_the_build_lacks_are_named),
    };

    return cmocka_run_group_tests_name("image_file", tests, open_golden, close_golden);
}
