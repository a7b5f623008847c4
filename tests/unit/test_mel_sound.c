/* tests/unit/test_mel_sound.c - a probe counts the samples that are read, and cutting a long
 * file early changes none of them. */
#include "config.h"

#include "train/media/mel_sound.h"

#include "base/size.h"
#include "tests/unit/unit.h"
#include "train/media/resample.h"

/* The last SHORT have fewer frames than one row. */
enum { SHORT = 2 };
static const char *const names[] = { "pcm16.wav",  "pcm24.wav", "gsm.wav",  "pcm16.flac",
                                     "vorbis.ogg", "opus.ogg",  "mpeg.mp3", "ulaw.au",
                                     "pcm24.aiff", "float.wav" };

static char *golden_path(const char *name)
{
    char *dir = unit_source("tests/golden/sounds"), *path = path_join(dir, name);

    free(dir);
    return path;
}

static struct mel_settings settings_of(const char *model_type, uint32_t window)
{
    return (struct mel_settings) {
        .family = mel_family_find(model_type),
        .rate = 16000,
        .mels = 80,
        .n_fft = 400,
        .hop = 160,
        .window = window,
        .windows_max = model_type[0] == 'q',
        .pool = 2,
    };
}

static void check_file(const struct mel_settings *settings, const char *name)
{
    char *path = golden_path(name);
    struct audio_limits whole = { .seconds = 3600 };
    struct audio file = { 0 }, all = { 0 }, used = { 0 };
    struct error err = { 0 };
    size_t samples;

    if (!mel_sound_probe(settings, path, &samples, &err) ||
        !mel_sound_read(settings, path, &used, &err) ||
        !audio_read(path, &whole, &file, &err) ||
        !resample(&file, settings->rate, &all, &err))
        fail_msg("%s", err.text);
    assert_int_equal(used.count, samples);
    assert_int_equal(used.rate, settings->rate);
    assert_int_equal(samples, mel_samples_used(settings, all.count));
    assert_memory_equal(used.samples, all.samples, samples * sizeof(float));
    audio_clear(&file);
    audio_clear(&all);
    audio_clear(&used);
    free(path);
}

static void test_probe_counts_what_is_read(void **state)
{
    struct mel_settings first = settings_of("qwen2_audio", 480000);
    struct mel_settings joint = settings_of("voxtral", 480000);
    struct mel_settings small = settings_of("qwen2_audio", 480);

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        if (i + SHORT < TS_COUNT(names))
            check_file(&first, names[i]);
        check_file(&joint, names[i]);
    }
    check_file(&small, "pcm16.wav");
}

static void test_too_short_sound_is_refused(void **state)
{
    struct mel_settings first = settings_of("qwen2_audio", 480000);
    char *path = golden_path("float.wav");
    struct audio out = { 0 };
    struct error err = { 0 };
    size_t samples;

    (void)state;
    assert_false(mel_sound_probe(&first, path, &samples, &err));
    assert_non_null(strstr(err.text, "0.00838 s of sound are too short"));
    error_clear(&err);
    assert_false(mel_sound_read(&first, path, &out, &err));
    assert_non_null(strstr(err.text, "too short for one position"));
    free(path);
}

/* The library stops a second after what is used, of 3 s here. */
static void test_long_sound_is_cut_early(void **state)
{
    enum { COUNT = 3 * 8000, HEADER = 24 };
    struct mel_settings small = settings_of("qwen2_audio", 1600);
    unsigned char header[HEADER] = { '.',
                                     's',
                                     'n',
                                     'd',
                                     [7] = HEADER,
                                     [15] = 3,
                                     [18] = 8000 >> 8,
                                     [19] = 8000 & 255,
                                     [23] = 1 };
    char *dir = unit_dir_new(), *path = path_join(dir, "long.au");
    struct text bytes;
    struct audio out = { 0 };
    struct error err = { 0 };
    size_t samples;

    (void)state;
    memset(header + 8, 255, 4); /* unknown length */
    text_init(&bytes, 0);
    text_add(&bytes, (char *)header, HEADER);
    for (size_t i = 0; i < COUNT; i++) {
        char sample[2] = { (char)(i * 7 % 100), (char)(i % 251) };

        text_add(&bytes, sample, 2);
    }
    assert_true(file_replace(path, bytes.data, bytes.len, 0600, &err));
    assert_true(mel_sound_probe(&small, path, &samples, &err));
    assert_int_equal(samples, 1600);
    assert_true(mel_sound_read(&small, path, &out, &err));
    assert_int_equal(out.count, 1600);
    audio_clear(&out);
    text_clear(&bytes);
    {
        struct audio_limits whole = { .seconds = 3600 };
        struct audio file = { 0 }, all = { 0 };

        assert_true(audio_read(path, &whole, &file, &err));
        assert_int_equal(file.count, COUNT);
        assert_true(resample(&file, 16000, &all, &err));
        assert_true(mel_sound_read(&small, path, &out, &err));
        assert_memory_equal(out.samples, all.samples, 1600 * sizeof(float));
        audio_clear(&file);
        audio_clear(&all);
        audio_clear(&out);
    }
    free(path);
    unit_dir_free(dir);
}

static void test_skips(void **state)
{
    (void)state;
    print_message("# SKIP this build reads no sound\n");
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe_counts_what_is_read),
        cmocka_unit_test(test_too_short_sound_is_refused),
        cmocka_unit_test(test_long_sound_is_cut_early),
    };
    const struct CMUnitTest without[] = { cmocka_unit_test(test_skips) };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return audio_is_supported() ? cmocka_run_group_tests(tests, NULL, NULL)
                                : cmocka_run_group_tests(without, NULL, NULL);
}
