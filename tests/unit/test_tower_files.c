/* tests/unit/test_tower_files.c - from files of sounds and images to rows of features, compared
 * with transformers' processors and encoders (tests/golden/tower_files.py). */
#include "config.h"

#include "train/media/media_input.h"

#define GOLDEN_TOWERS "tests/golden/tower_files"
#include "tests/unit/unit_media_file.h"
#include "tests/unit/unit_tower.h"
#include "train/media/audio.h"

/* The features of sounds are computed in fp32 there, in double here. */
#define CLOSE 1e-4

static char *put_item(const struct unit_tower *u, const struct unit_tower_case *one,
                      size_t item)
{
    const json_t *list = json_array_get(one->list, item);
    const char *name = arena_printf(u->arena, "%s %zu", one->name, item);

    if (json_array_size(list) == 1)
        return unit_media_sound(u->dir, name, unit_tower_number(list, 0));
    return unit_media_image(u->dir, name, unit_tower_number(list, 0),
                            unit_tower_number(list, 1));
}

static struct media_reader *open_reader(const struct unit_tower *u,
                                        const struct unit_tower_case *one)
{
    const bool sound = tower_config_of(u->tower)->family->encoder->sound;
    struct error err = { 0 };
    struct media_reader *reader = media_reader_open(
        &(struct media_reader_options) { .model_dir = u->dir,
                                         .model_type = one->name,
                                         .kind = sound ? MEDIA_AUDIO : MEDIA_IMAGE,
                                         .limits = { 768 * 768, 32 * 32, false } },
        &err);

    unit_tower_must(reader != NULL, &err);
    return reader;
}

static void test_tower_reads_files_as_transformers_does(void **state)
{
    struct unit_tower u = unit_tower_setup();

    (void)state;
    for (size_t i = 0; i < unit_tower_models(&u); i++) {
        const struct unit_tower_case *one = unit_tower_case(&u, i);
        struct media_reader *reader;

        unit_tower_open(&u, one, (struct tower_options) { .project = true });
        reader = open_reader(&u, one);
        for (size_t k = 0; k < one->items && unit_media_supported(one->list, k); k++) {
            char *path = put_item(&u, one, k);
            struct media_input input;
            struct tower_output out;
            struct error err = { 0 };

            unit_tower_must(media_reader_read(reader, path, &input, &err), &err);
            unit_tower_must(tower_run(u.tower, &input, &out, &err), &err);
            unit_tower_compare(&u, one, k, "rows", out.rows, &out, out.width, CLOSE);
            tower_output_clear(&out);
            media_input_clear(&input);
            free(path);
        }
        media_reader_close(reader);
        unit_tower_close(&u);
    }
    unit_tower_teardown(&u);
}

static void test_media_reader_names_the_file(void **state)
{
    struct unit_tower u = unit_tower_setup();

    (void)state;
    for (size_t i = 0; i < unit_tower_models(&u); i++) {
        const struct unit_tower_case *one = unit_tower_case(&u, i);
        struct media_reader *reader;
        struct media_input input;
        struct error err = { 0 };
        char *path;

        unit_tower_open(&u, one, (struct tower_options) { .project = true });
        reader = open_reader(&u, one);
        path = path_join(u.dir, "broken.wav");
        unit_tower_must(file_replace(path, "RIFF????", 8, 0600, &err), &err);
        assert_false(media_reader_read(reader, path, &input, &err));
        assert_null(input.values);
        assert_non_null(strstr(err.text, "broken.wav"));
        free(path);
        media_reader_close(reader);
        unit_tower_close(&u);
    }
    unit_tower_teardown(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tower_reads_files_as_transformers_does),
        cmocka_unit_test(test_media_reader_names_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
