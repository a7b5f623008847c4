/* tests/unit/test_image_resize.c - resized images are those of Pillow and torchvision
 * (tests/golden/image_resize.py), with and without AVX2. */
#include "config.h"

#include "train/media/image_resize.h"

#include "tests/unit/unit_image.h"

static const char *const filters[IMAGE_FILTERS] = {
    [IMAGE_NEAREST] = "nearest",
    [IMAGE_BILINEAR] = "bilinear",
    [IMAGE_BICUBIC] = "bicubic",
    [IMAGE_LANCZOS] = "lanczos",
};

static size_t bytes_of(const struct image *image)
{
    return (size_t)image->size.width * image->size.height * image_channels(image->mode);
}

static void check_case(const json_t *row)
{
    const char *mode = json_string_value(json_object_get(row, "mode"));
    const char *name = json_string_value(json_object_get(row, "filter"));
    const char *kernel = json_string_value(json_object_get(row, "kernel"));
    bool smooth = json_is_true(json_object_get(row, "smooth"));
    enum image_filter filter = 0;
    struct error err = { 0 };
    struct image image;

    while (strcmp(filters[filter], name) != 0)
        filter++;
    unit_image(unit_image_mode(mode), unit_size(row, "from"), smooth, &image);
    assert_true(image_resize(&image, unit_size(row, "to"), filter,
                             strcmp(kernel, "torch") == 0 ? IMAGE_TORCH : IMAGE_PILLOW,
                             &err));
    unit_digest_is(image.pixels, bytes_of(&image), row, "bytes");
    assert_true(image_to_rgb(&image, &err));
    assert_int_equal(image.mode, IMAGE_RGB);
    unit_digest_is(image.pixels, bytes_of(&image), row, "rgb");
    image_clear(&image);
}

static void check_all(void)
{
    json_t *golden = unit_golden("tests/golden/image_resize.json");
    const json_t *cases = json_object_get(golden, "cases");

    assert_true(json_array_size(cases) > 200);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i));
    json_decref(golden);
}

static void test_image_resize_is_that_of_pillow_and_torch(void **state)
{
    (void)state;
    check_all();
}

static void test_image_resize_needs_no_vector_instructions(void **state)
{
    (void)state;
    setenv("TRAINSPOOL_ISA", "generic", 1);
    check_all();
    unsetenv("TRAINSPOOL_ISA");
}

static void expect_refused(struct image *image, struct image_size to, const char *why)
{
    struct error err = { 0 };

    assert_false(image_resize(image, to, IMAGE_BICUBIC, IMAGE_TORCH, &err));
    assert_int_equal(err.code, ERROR_DATA);
    if (!strstr(err.text, why))
        fail_msg("%s", err.text);
}

static void test_image_resize_has_limits(void **state)
{
    struct error err = { 0 };
    struct image image;

    (void)state;
    unit_image(IMAGE_GRAY, (struct image_size) { 2, 1024 }, false, &image);
    expect_refused(&image, (struct image_size) { 1, 0 }, "1 x 0 pixels is not supported");
    image_clear(&image);
    unit_image(IMAGE_GRAY, (struct image_size) { 2, 1024 }, false, &image);
    expect_refused(&image, (struct image_size) { IMAGE_SIDE_MAX + 1, 1 },
                   "1048577 x 1024 pixels is not supported");
    image_clear(&image);
    /* between the passes */
    unit_image(IMAGE_GRAY, (struct image_size) { 2, 1024 }, false, &image);
    expect_refused(&image, (struct image_size) { IMAGE_SIDE_MAX, 1 },
                   "1048576 x 1024 pixels is not supported, only up to 178956970 pixels");
    image_clear(&image);
    assert_false(image_init(&image, (struct image_size) { 1, 0 }, IMAGE_RGB, &err));
    assert_null(image.pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_resize_is_that_of_pillow_and_torch),
        cmocka_unit_test(test_image_resize_needs_no_vector_instructions),
        cmocka_unit_test(test_image_resize_has_limits),
    };

    return cmocka_run_group_tests_name("image_resize", tests, NULL, NULL);
}
