/*
 * tests/unit/test_log_mel.c - compares features with those of the processors of
 * transformers (tests/golden/log_mel.json, made by log_mel.py).
 */
#include "config.h"

#include "train/media/log_mel.h"

#include <math.h>

#include "base/json.h"
#include "tests/unit/unit.h"
#include "tests/unit/unit_sound.h"

enum { LIMIT = 1 << 20 };

/* Of what is computed in double, which rounds spectra to float; of float. torch and its own
 * double differ by 8e-5 on a sweep. */
#define TOLERANCE_NUMPY 2e-5
#define TOLERANCE_TORCH 1e-4
#define TOLERANCE_PHI4  2e-5

static const char *string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static size_t integer(const json_t *object, const char *key, size_t missing)
{
    const json_t *value = json_object_get(object, key);

    return value ? (size_t)json_integer_value(value) : missing;
}

static void write_json(const char *dir, const char *name, json_t *value)
{
    char *path = path_join(dir, name), *text = json_dumps(value, 0);
    struct error err = { 0 };

    assert_true(file_replace(path, text, strlen(text), 0600, &err));
    free(text);
    free(path);
    json_decref(value);
}

/* Settings as a model's folder has them. */
static struct mel_settings settings_of(const json_t *one, size_t max_audio_len)
{
    json_t *settings = json_object_get(one, "settings");
    char *dir = unit_dir_new();
    size_t seconds = integer(settings, "chunk_length", 30);
    size_t hop = integer(settings, "hop_length", 160);
    json_int_t mels = (json_int_t)integer(settings, "feature_size", 80);
    struct mel_settings out;
    struct error err = { 0 };

    write_json(dir, "preprocessor_config.json", json_incref(settings));
    write_json(dir, "processor_config.json",
               json_pack("{s:I}", "max_audio_len", (json_int_t)max_audio_len));
    write_json(dir, "config.json",
               json_pack("{s:{s:i,s:i,s:I,s:I,s:I}}", "audio_config", "hidden_size", 8,
                         "intermediate_size", 16, "num_mel_bins", mels, "input_size",
                         mels, "max_source_positions",
                         (json_int_t)(seconds * 16000 / hop / 2)));
    if (!mel_settings_read(dir, string(one, "model_type"), &out, &err))
        fail_msg("%s", err.text);
    unit_dir_free(dir);
    return out;
}

static void compare(const json_t *one, const char *key, double tolerance,
                    const float *features, size_t mels)
{
    const json_t *rows = json_object_get(one, "rows");
    size_t step = integer(one, "step", 0), compared = 0;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        size_t t = (size_t)json_integer_value(json_array_get(rows, i));
        const json_t *row = json_array_get(json_object_get(one, key), i);

        for (size_t k = 0, m = t % step; m < mels; k++, m += step, compared++) {
            double is = (double)features[t * mels + m];
            double expected = json_number_value(json_array_get(row, k));

            if (!(fabs(is - expected) <= tolerance))
                fail_msg("%s, %s of %zu samples: feature %zu of frame %zu is %.8g, not "
                         "%.8g as %s",
                         string(one, "model_type"), string(one, "sound"),
                         integer(one, "count", 0), m, t, is, expected, key);
        }
    }
    assert_true(compared >= 150);
}

static void check_case(const json_t *one, size_t max_audio_len)
{
    struct mel_settings settings = settings_of(one, max_audio_len);
    struct log_mel *mel = log_mel_new(&settings);
    size_t count = integer(one, "count", 0);
    float *sound = unit_sound(string(one, "sound"), count,
                              json_number_value(json_object_get(one, "height")));
    size_t frames = mel_frames(&settings, count);
    float *out = memory_resize(NULL, frames * settings.mels, sizeof(*out));

    assert_int_equal(frames, integer(one, "frames", 0));
    log_mel_fill(mel, sound, count, out);
    if (json_object_get(one, "numpy"))
        compare(one, "numpy", TOLERANCE_NUMPY, out, settings.mels);
    compare(one, "torch",
            settings.family->kind == MEL_PHI4 ? TOLERANCE_PHI4 : TOLERANCE_TORCH, out,
            settings.mels);
    free(out);
    free(sound);
    log_mel_free(mel);
}

static void test_features_are_those_of_transformers(void **state)
{
    char *file = unit_source("tests/golden/log_mel.json");
    struct error err = { 0 };
    json_t *root = json_read_file(file, LIMIT, &err);
    const json_t *cases = json_object_get(root, "cases");

    (void)state;
    if (!root)
        fail_msg("%s", err.text);
    assert_int_equal(json_array_size(cases), 20);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i), integer(root, "max_audio_len", 0));
    json_decref(root);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features_are_those_of_transformers),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
