/* tests/unit/test_mel_settings.c - rows and windows are those of transformers'
 * processors (tests/golden/log_mel.json); files that are refused. */
#include "config.h"

#include "train/media/mel_settings.h"

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"

enum { LIMIT = 1 << 20 };

#define CONFIG "{\"audio_config\":{}}"

static void write_file(const char *dir, const char *name, const char *text)
{
    char *path = path_join(dir, name);
    struct error err = { 0 };

    if (text)
        assert_true(file_replace(path, text, strlen(text), 0600, &err));
    free(path);
}

/* Read the settings of a folder with these files, of which NULL are missing. */
static bool read_files(const char *model_type, const char *preprocessor,
                       const char *processor, const char *config,
                       struct mel_settings *out, struct error *err)
{
    char *dir = unit_dir_new();
    bool ok;

    write_file(dir, "preprocessor_config.json", preprocessor);
    write_file(dir, "processor_config.json", processor);
    write_file(dir, "config.json", config);
    ok = mel_settings_read(dir, model_type, out, err);
    unit_dir_free(dir);
    return ok;
}

static struct mel_settings settings_of(const char *model_type)
{
    struct mel_settings out;
    struct error err = { 0 };

    const char *features =
        strcmp(model_type, "phi4_multimodal") == 0 ? "{}" : "{\"feature_size\":128}";

    if (!read_files(model_type, features, NULL, CONFIG, &out, &err))
        fail_msg("%s", err.text);
    return out;
}

static void test_rows_are_those_of_transformers(void **state)
{
    static const char *const types[] = { "qwen2_audio", "audioflamingo3", "voxtral",
                                         "phi4_multimodal" };
    char *file = unit_source("tests/golden/log_mel.json");
    struct error err = { 0 };
    json_t *root = json_read_file(file, LIMIT, &err);
    const json_t *rows = json_object_get(root, "rows");

    (void)state;
    assert_int_equal(json_array_size(rows), 25);
    for (size_t t = 0; t < TS_COUNT(types); t++) {
        struct mel_settings settings = settings_of(types[t]);

        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *row = json_array_get(rows, i);
            size_t samples = (size_t)json_integer_value(json_object_get(row, "samples"));

            assert_int_equal(mel_rows(&settings, samples),
                             json_integer_value(json_object_get(row, types[t])));
        }
        assert_int_equal(mel_rows(&settings, 0), 0);
    }
    json_decref(root);
    free(file);
}

static void test_windows_of_families(void **state)
{
    struct mel_settings first = settings_of("qwen2_audio");
    struct mel_settings separate = settings_of("audioflamingo3");
    struct mel_settings joint = settings_of("voxtral");

    (void)state;
    assert_int_equal(mel_windows(&first, 480001), 1);
    assert_int_equal(mel_windows(&separate, 480001), 2);
    assert_int_equal(mel_windows(&joint, 480000), 1);
    assert_int_equal(mel_windows(&joint, 0), 1);
    assert_int_equal(mel_windows(&separate, SIZE_MAX), 20);
    assert_int_equal(mel_samples_used(&first, 480001), 480000);
    assert_int_equal(mel_samples_used(&joint, 480001), 480001);
    assert_int_equal(mel_heard_frames(&separate, 480001, 0), 3000);
    assert_int_equal(mel_heard_frames(&separate, 480001, 1), 1);
    assert_int_equal(mel_heard_frames(&separate, 480001, 2), 0);
    assert_int_equal(mel_heard_frames(&first, 1600, 0), 10);
}

/* transformers 5 writes the settings into processor_config.json, and reads them there even
 * if an older file is next to it. */
static void test_nested_settings_come_first(void **state)
{
    struct mel_settings out;
    struct error err = { 0 };

    (void)state;
    assert_true(read_files("audioflamingo3", "{\"feature_size\":80}",
                           "{\"feature_extractor\":{\"feature_size\":128,"
                           "\"feature_extractor_type\":\"WhisperFeatureExtractor\"},"
                           "\"max_audio_len\":90}",
                           CONFIG, &out, &err));
    assert_int_equal(out.mels, 128);
    assert_int_equal(out.windows_max, 3);
    assert_true(read_files("voxtral", "{\"feature_size\":128,\"chunk_length\":1}", NULL,
                           "{\"audio_config\":{\"max_source_positions\":50,"
                           "\"d_model\":8,\"intermediate_size\":40}}",
                           &out, &err));
    assert_int_equal(out.pool, 5);
    assert_int_equal(mel_rows(&out, 16001), 20);
}

static void test_settings_are_refused(void **state)
{
    static const struct {
        const char *preprocessor, *config, *message;
    } rows[] = {
        { NULL, CONFIG, "has no preprocessor_config.json" },
        { "[]", CONFIG, "expected a JSON object" },
        { "{}", CONFIG,
          "requires 3000 frames of 128 features, but the processor makes "
          "3000 of 80" },
        { "{\"feature_size\":128,\"chunk_length\":15}", CONFIG, "makes 1500 of 128" },
        { "{\"feature_size\":128}", "{}", "has no audio_config" },
        { "{\"feature_size\":128}", NULL, "has no audio_config" },
        { "{\"dither\":0.1}", CONFIG, "dither must be 0, not 0.1" },
        { "{\"padding_value\":-1}", CONFIG, "padding_value must be 0, not -1" },
        { "{\"padding_side\":\"left\"}", CONFIG, "padding_side must be right, not left" },
        { "{\"feature_extractor_type\":\"ClapFeatureExtractor\"}", CONFIG,
          "must be WhisperFeatureExtractor, not ClapFeatureExtractor" },
        { "{\"n_fft\":14}", CONFIG, "no prime factor above 5, not 14" },
        { "{\"n_fft\":401}", CONFIG, "no prime factor above 5, not 401" },
        { "{\"n_fft\":1e9}", CONFIG, "n_fft" },
        { "{\"hop_length\":0}", CONFIG, "hop_length must be from 1 to 8192, not 0" },
        { "{\"hop_length\":7}", CONFIG, "must be a multiple of hop_length" },
        { "{\"sampling_rate\":999}", CONFIG, "from 1000 to 384000, not 999" },
        { "{\"chunk_length\":-30}", CONFIG, "from 1 to 600, not -30" },
        { "{\"feature_size\":99999999}", CONFIG, "feature_size" },
        { "{\"feature_size\":128}",
          "{\"audio_config\":{\"hidden_size\":7,\"intermediate_size\":15}}",
          "cannot be divided into rows of 15" },
        { "{\"feature_size\":128}",
          "{\"audio_config\":{\"hidden_size\":8,\"intermediate_size\":4}}",
          "cannot be divided into rows of 4" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct mel_settings out;
        struct error err = { 0 };

        assert_false(read_files("voxtral", rows[i].preprocessor, NULL, rows[i].config,
                                &out, &err));
        if (!strstr(err.text, rows[i].message))
            fail_msg("row %zu: %s", i, err.text);
        assert_int_equal(err.code, ERROR_DATA);
    }
}

static void test_settings_of_phi4(void **state)
{
    static const struct {
        const char *preprocessor, *processor, *config, *message; /* NULL: is read */
    } rows[] = {
        { "{}", NULL, CONFIG, NULL },
        { NULL, "{\"audio_processor\":{\"win_length\":320}}", CONFIG, NULL },
        { NULL, "{\"feature_extractor\":{}}", CONFIG, "nor audio_processor in" },
        { "{\"preemphasis\":0.9}", NULL, CONFIG, "preemphasis must be 0.97, not 0.9" },
        { "{\"win_length\":513}", NULL, CONFIG, "win_length must be from 2 to 512" },
        { "{\"mel_max_frequency\":8000}", NULL, CONFIG, "must be 7690, not 8000" },
        { "{\"audio_compression_rate\":4}", NULL, CONFIG,
          "one row of 8 frames of 80 features, but the processor counts 4 of 80" },
        { "{}", NULL, "{\"audio_config\":{\"input_size\":64}}", "of 64 features" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct mel_settings out;
        struct error err = { 0 };
        bool ok = read_files("phi4_multimodal", rows[i].preprocessor, rows[i].processor,
                             rows[i].config, &out, &err);

        if (ok != !rows[i].message || (!ok && !strstr(err.text, rows[i].message)))
            fail_msg("row %zu: %s", i, err.text);
        if (ok) {
            assert_int_equal(out.frame, i == 0 ? 400 : 320);
            assert_int_equal(mel_windows(&out, 1000000), 1);
            assert_int_equal(mel_heard_frames(&out, out.frame + 160, 0), 2);
        }
    }
}

/* The files that are published with the model. */
static void test_settings_of_published_phi4(void **state)
{
    static const char settings[] =
        "{\"feature_extractor_type\": \"Phi4MMAudioFeatureExtractor\", "
        "\"image_processor_type\": \"Phi4MMImageProcessor\", \"audio_compression_rate\": 8, "
        "\"audio_downsample_rate\": 1, \"audio_feat_stride\": 1, \"dynamic_hd\": 36}";
    struct mel_settings out;
    struct error err = { 0 };

    (void)state;
    if (!read_files("phi4mm", settings, NULL,
                    "{\"audio_processor\": {\"config\": {\"input_size\": 80, "
                    "\"time_reduction\": 8}}}",
                    &out, &err))
        fail_msg("%s", err.text);
    assert_int_equal(mel_rows(&out, 400), 1);
    assert_int_equal(mel_rows(&out, 399), 0);
    assert_int_equal(mel_rows(&out, 16000 * 30), 375);
    assert_false(read_files("phi4mm", "{}", NULL, "{\"audio_config\": {}}", &out, &err));
    assert_non_null(strstr(err.text, "audio"));
}

static void test_max_audio_len_is_refused(void **state)
{
    struct mel_settings out;
    struct error err = { 0 };

    (void)state;
    assert_false(read_files("audioflamingo3", "{\"feature_size\":128}",
                            "{\"max_audio_len\":29}", CONFIG, &out, &err));
    assert_non_null(strstr(err.text, "max_audio_len must be at least the 30 s"));
    error_clear(&err);
    assert_false(read_files("llama", "{}", "{}", CONFIG, &out, &err));
    assert_non_null(strstr(err.text, "llama"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_those_of_transformers),
        cmocka_unit_test(test_windows_of_families),
        cmocka_unit_test(test_nested_settings_come_first),
        cmocka_unit_test(test_settings_are_refused),
        cmocka_unit_test(test_settings_of_phi4),
        cmocka_unit_test(test_settings_of_published_phi4),
        cmocka_unit_test(test_max_audio_len_is_refused),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
