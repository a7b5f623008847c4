/*
 * tests/unit/test_audio.c - sound files of each format are read as soundfile reads them
 * (tests/golden/sounds.json, made by sounds.py); broken ones are refused, within fixed
 * memory.
 */
#include "config.h"

#include "train/media/audio.h"

#include <math.h>
#ifdef HAVE_SNDFILE
#include <sndfile.h>
#endif
#include <sys/stat.h>
#include <time.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"
#include "tests/unit/unit_leaks.h"

enum { LIMIT = 1 << 20, HEADER = 44 };

static const struct audio_limits whole = { .seconds = 3600 };

/* ---- Files ---- */

static char *golden_path(const char *name)
{
    char *dir = unit_source("tests/golden/sounds"), *path = path_join(dir, name);

    free(dir);
    return path;
}

static struct text golden_bytes(const char *name)
{
    char *path = golden_path(name);
    struct text out;
    struct error err = { 0 };

    text_init(&out, 0);
    if (!file_read(path, LIMIT, &out, NULL, &err))
        fail_msg("%s", err.text);
    free(path);
    return out;
}

static void put(char *at, uint32_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(value >> (8 * i));
}

struct wav {
    uint32_t tag; /* 1: integers of 16 bits; 3: float */
    uint32_t channels, rate;
    const void *data;
    size_t bytes;
};

/* A WAV file of one header and its data. */
static struct text wav_bytes(const struct wav *wav)
{
    char header[HEADER] = "RIFF....WAVEfmt ....";
    uint32_t width = wav->tag == 3 ? 4 : 2;
    struct text out;

    put(header + 4, (uint32_t)wav->bytes + HEADER - 8, 4);
    put(header + 16, 16, 4);
    put(header + 20, wav->tag, 2);
    put(header + 22, wav->channels, 2);
    put(header + 24, wav->rate, 4);
    put(header + 28, wav->rate * wav->channels * width, 4);
    put(header + 32, wav->channels * width, 2);
    put(header + 34, 8 * width, 2);
    memcpy(header + 36, "data", 4);
    put(header + 40, (uint32_t)wav->bytes, 4);
    text_init(&out, 0);
    text_add(&out, header, HEADER);
    text_add(&out, wav->data, wav->bytes);
    return out;
}

/* ---- Expectations ---- */

static void expect_refused(const struct text *bytes, const struct audio_limits *limits,
                           const char *message)
{
    struct audio out = { 0 };
    struct error err = { 0 };

    assert_false(audio_read_bytes(bytes->data, bytes->len, "a.wav", limits, &out, &err));
    if (!strstr(err.text, message) || !strstr(err.text, "a.wav"))
        fail_msg("'%s' does not contain '%s'", err.text, message);
    assert_int_equal(err.code, ERROR_DATA);
    assert_null(out.samples);
}

static void expect_probe_refused(const struct text *bytes,
                                 const struct audio_limits *limits, const char *message)
{
    struct audio_probe out;
    struct error err = { 0 };

    assert_false(audio_probe_bytes(bytes->data, bytes->len, "a.wav", limits, &out, &err));
    if (!strstr(err.text, message))
        fail_msg("'%s' does not contain '%s'", err.text, message);
}

static struct audio expect_read(const struct text *bytes,
                                const struct audio_limits *limits)
{
    struct audio out = { 0 };
    struct error err = { 0 };

    if (!audio_read_bytes(bytes->data, bytes->len, "a.wav", limits, &out, &err))
        fail_msg("%s", err.text);
    return out;
}

/* ---- Tests ---- */

static void check_golden(const json_t *row, size_t step)
{
    const char *name = json_string_value(json_object_get(row, "file"));
    const json_t *samples = json_object_get(row, "samples");
    double tolerance = json_number_value(json_object_get(row, "tolerance"));
    char *path = golden_path(name);
    struct audio_probe probe;
    struct audio audio = { 0 };
    struct error err = { 0 };

    if (!audio_probe(path, &whole, &probe, &err) ||
        !audio_read(path, &whole, &audio, &err))
        fail_msg("%s", err.text);
    assert_int_equal(audio.count, json_integer_value(json_object_get(row, "count")));
    assert_int_equal(audio.rate, json_integer_value(json_object_get(row, "rate")));
    assert_int_equal(probe.frames, audio.count);
    assert_int_equal(probe.rate, audio.rate);
    assert_int_equal(probe.channels,
                     json_integer_value(json_object_get(row, "channels")));
    for (size_t i = 0; i < json_array_size(samples); i++) {
        double is = (double)audio.samples[i * step];
        double expected = json_number_value(json_array_get(samples, i));

        /* 9 digits of a float are all of it */
        if (!(fabs(is - expected) <= tolerance + 1e-8 * fabs(expected)))
            fail_msg("%s: sample %zu is %.9g, not %.9g", name, i * step, is, expected);
    }
    audio_clear(&audio);
    free(path);
}

static void test_sounds_are_those_of_soundfile(void **state)
{
    char *file = unit_source("tests/golden/sounds.json");
    struct error err = { 0 };
    json_t *root = json_read_file(file, LIMIT, &err);
    const json_t *files = json_object_get(root, "files");

    (void)state;
    if (!root)
        fail_msg("%s", err.text);
    assert_int_equal(json_array_size(files), 14);
    for (size_t i = 0; i < json_array_size(files); i++)
        check_golden(json_array_get(files, i),
                     (size_t)json_integer_value(json_object_get(root, "step")));
    json_decref(root);
    free(file);
}

static void test_sound_is_cut_or_refused(void **state)
{
    struct text bytes = golden_bytes("pcm16.wav"); /* 0.1 s at 16 kHz */
    struct audio_limits cut = { .seconds = 0.01, .may_exceed = true };
    struct audio_limits exact = { .seconds = 0.1 }, shorter = { .seconds = 0.0999 };
    struct audio all = expect_read(&bytes, &exact), part;
    float long_data[3 * 8000] = { 0 };
    struct text long_bytes =
        wav_bytes(&(struct wav) { 3, 1, 8000, long_data, sizeof(long_data) });

    (void)state;
    assert_int_equal(all.count, 1600);
    expect_refused(&bytes, &shorter, "longer than the limit of 0.09");
    expect_probe_refused(&bytes, &shorter, "longer than the limit of 0.09");
    part = expect_read(&bytes, &cut);
    assert_memory_equal(part.samples, all.samples, 160 * sizeof(float));
    audio_clear(&part);
    part = expect_read(&long_bytes, &cut); /* of 3 s */
    assert_in_range(part.count, 80 + 8000, 80 + 8000 + 4096);
    audio_clear(&part);
    audio_clear(&all);
    text_clear(&bytes);
    text_clear(&long_bytes);
}

static void test_rates_and_channels(void **state)
{
    static const struct {
        uint32_t channels, rate;
        const char *message; /* NULL: is read */
    } rows[] = {
        { 1, 8000, NULL },
        { 2, 192000, NULL },
        { 8, 384000, NULL },
        { 1, 1000, NULL },
        { 9, 16000, "9 channels, which must be from 1 to 8" },
        { 1000, 16000, "1000 channels" },
        { 1, 999, "999 samples per second, which must be from 1000" },
        { 1, 384001, "384001 samples per second" },
        { 1, 0, "cannot decode" },
        { 0, 16000, "cannot decode" },
    };
    float data[2000];

    (void)state;
    for (size_t i = 0; i < TS_COUNT(data); i++)
        data[i] = (float)(i % 8);
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct wav wav = { 3, rows[i].channels, rows[i].rate, data, sizeof(data) };
        struct text bytes = wav_bytes(&wav);

        if (rows[i].message) {
            expect_refused(&bytes, &whole, rows[i].message);
            expect_probe_refused(&bytes, &whole, rows[i].message);
        } else {
            struct audio out = expect_read(&bytes, &whole);

            assert_int_equal(out.count, 2000 / rows[i].channels);
            assert_true((double)out.samples[1] == (rows[i].channels == 1   ? 1
                                                   : rows[i].channels == 2 ? 2.5
                                                                           : 3.5));
            audio_clear(&out);
        }
        text_clear(&bytes);
    }
}

static void test_samples_are_finite(void **state)
{
    static const float wrong[] = { NAN, INFINITY, -INFINITY, 1e30F };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(wrong); i++) {
        float data[8000] = { [6000] = wrong[i] };
        struct text bytes = wav_bytes(&(struct wav) { 3, 2, 8000, data, sizeof(data) });

        expect_refused(&bytes, &whole, "the sample at 0.375 s is");
        text_clear(&bytes);
    }
}

/* Return the peak resident size of this process, in KiB. */
static long resident(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* A header that says more than there is: what there is, if the format ends with its file,
 * as WAV does, otherwise an error. */
static void test_header_allocates_nothing(void **state)
{
    struct text wav = golden_bytes("pcm16.wav"), flac = golden_bytes("pcm16.flac");
    struct text au = golden_bytes("ulaw.au");
    long before = resident();
    struct audio out;

    (void)state;
    put(wav.data + 4, UINT32_MAX, 4);
    put(wav.data + 40, UINT32_MAX - 36, 4);
    out = expect_read(&wav, &whole);
    assert_int_equal(out.count, 1600);
    audio_clear(&out);
    put(au.data + 8, UINT32_MAX, 4);
    out = expect_read(&au, &whole);
    assert_int_equal(out.count, 1600);
    audio_clear(&out);
    flac.data[21] |= 0xf; /* 36 bits of STREAMINFO */
    put(flac.data + 22, UINT32_MAX, 4);
    expect_refused(&flac, &(struct audio_limits) { .seconds = 1e9 }, "it ends before");
    expect_probe_refused(&flac, &whole, "longer than the limit of 3600 s");
    assert_true(resident() - before < 16 << 10);
    text_clear(&wav);
    text_clear(&flac);
    text_clear(&au);
}

static void test_unfinished_files(void **state)
{
    static const struct {
        const char *file, *message, *probe; /* NULL: what there is */
    } rows[] = {
        { "pcm16.wav", NULL, NULL },
        { "float.wav", NULL, NULL },
        { "pcm24.aiff", NULL, NULL },
        { "mpeg.mp3", NULL, NULL },
        { "vorbis.ogg", "cannot decode", "cannot decode" },
        { "pcm16.flac", "cannot decode", "it ends before" },
        { "double.w64", NULL, NULL },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct text bytes = golden_bytes(rows[i].file);

        bytes.len = bytes.len * 9 / 10;
        if (rows[i].message) {
            expect_refused(&bytes, &whole, rows[i].message);
            expect_probe_refused(&bytes, &whole, rows[i].probe);
        } else {
            struct audio out = expect_read(&bytes, &whole);
            struct audio_probe probe;
            struct error err = { 0 };

            assert_in_range(out.count, 1, 1590);
            assert_true(
                audio_probe_bytes(bytes.data, bytes.len, "a", &whole, &probe, &err));
            assert_int_equal(probe.frames, out.count);
            audio_clear(&out);
        }
        text_clear(&bytes);
    }
}

#ifdef HAVE_SNDFILE
/* Write a FLAC file of two seconds. */
static char *write_flac(const char *dir)
{
    enum { SAMPLES = 32000 };
    SF_INFO info = { .samplerate = 16000,
                     .channels = 1,
                     .format = SF_FORMAT_FLAC | SF_FORMAT_PCM_16 };
    char *path = path_join(dir, "a.flac");
    short *samples = memory_alloc(SAMPLES * sizeof(*samples));
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);

    for (size_t i = 0; i < SAMPLES; i++)
        samples[i] = (short)(8000 * sin((double)i / 20));
    assert_non_null(file);
    assert_int_equal(sf_write_short(file, samples, SAMPLES), SAMPLES);
    sf_close(file);
    free(samples);
    return path;
}

/* The decoder of FLAC reports damage once, and continues after it: with a limit, the sound is
 * as long as it should be. */
static void test_damage_inside_is_refused(void **state)
{
    const struct audio_limits limits = { .seconds = 0.5, .may_exceed = true };
    char *dir = unit_dir_new(), *path = write_flac(dir);
    struct audio out = { 0 };
    struct error err = { 0 };
    struct text flac;

    (void)state;
    assert_true(audio_verify(path, &limits, &err));
    text_init(&flac, 0);
    assert_true(file_read(path, (size_t)1 << 20, &flac, NULL, &err));
    memset(flac.data + flac.len / 2, 0x55, 40);
    assert_true(file_replace(path, flac.data, flac.len, 0600, &err));
    assert_false(audio_verify(path, &limits, &err));
    assert_non_null(strstr(err.text, "cannot decode"));
    error_clear(&err);
    assert_false(audio_read(path, &limits, &out, &err));
    assert_non_null(strstr(err.text, "cannot decode"));
    text_clear(&flac);
    free(path);
    unit_dir_free(dir);
}
#endif

static void test_other_files_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *message;
    } rows[] = {
        { "", 0, "not a WAV, FLAC, Ogg, MP3" },
        { "RI", 2, "not a WAV" },
        { "RIFF", 4, "cannot decode" },
        { "RIFF\x10\0\0\0WEBPVP8 ", 16, "cannot decode" },
        { "\0\0\0 ftypM4A \0\0\0\0", 16, "not a WAV" },
        { "\x1a\x45\xdf\xa3 webm", 9, "not a WAV" },
        { "\xff\xd8\xff\xe0 jpeg", 9, "cannot decode" },
        { "\xff\xf1\x50\x80 aac ", 9, "cannot decode" },
        { "fLaC", 4, "cannot decode" },
        { "OggS", 4, "cannot decode" },
        { "ID3\4\0\0\0\0\0\0", 10, "cannot decode" },
        { "caff\0\1\0\0", 8, "cannot decode" },
        { "FORM\0\0\0\4AIFF", 12, "cannot decode" },
        { "text that is not a sound", 24, "not a WAV" },
    };
    struct text empty = wav_bytes(&(struct wav) { 1, 1, 16000, "", 0 });

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct text bytes;

        text_init(&bytes, 0);
        text_add(&bytes, rows[i].bytes, rows[i].len);
        expect_refused(&bytes, &whole, rows[i].message);
        expect_probe_refused(&bytes, &whole, rows[i].message);
        text_clear(&bytes);
    }
    expect_refused(&empty, &whole, "the sound is empty");
    expect_probe_refused(&empty, &whole, "the sound is empty");
    text_clear(&empty);
}

static void test_only_regular_files_are_read(void **state)
{
    char *dir = unit_dir_new(), *fifo = path_join(dir, "fifo");
    char *absent = path_join(dir, "absent.wav");
    struct audio out = { 0 };
    struct error err = { 0 };

    (void)state;
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_false(audio_read(fifo, &whole, &out, &err));
    assert_non_null(strstr(err.text, "not a regular file"));
    error_clear(&err);
    assert_false(audio_read(dir, &whole, &out, &err));
    assert_non_null(strstr(err.text, "not a regular file"));
    error_clear(&err);
    assert_false(audio_read(absent, &whole, &out, &err));
    assert_non_null(strstr(err.text, "absent.wav: No such file"));
    assert_int_equal(err.code, ERROR_DATA);
    free(absent);
    free(fifo);
    unit_dir_free(dir);
}

/* Whatever a damaged file says, it is read or refused, quickly. */
static void damage(const char *name, uint32_t *state)
{
    struct text bytes = golden_bytes(name);

    for (size_t i = 0; i < 150; i++) {
        size_t at = i < 80 ? i % bytes.len : (*state >> 8) % bytes.len;
        char old = bytes.data[at];
        struct audio out = { 0 };
        struct audio_probe probe;
        struct error err = { 0 };

        *state = *state * 1664525 + 1013904223;
        bytes.data[at] = (char)(*state >> 24);
        if (!audio_read_bytes(bytes.data, bytes.len, name, &whole, &out, &err))
            assert_true(err.code == ERROR_DATA && err.text[0] != 0);
        for (size_t k = 0; k < out.count; k++)
            assert_true(fabsf(out.samples[k]) <= (float)AUDIO_HEIGHT_MAX);
        audio_clear(&out);
        error_clear(&err);
        if (!audio_probe_bytes(bytes.data, bytes.len, name, &whole, &probe, &err))
            assert_true(err.code == ERROR_DATA && err.text[0] != 0);
        bytes.data[at] = old;
    }
    text_clear(&bytes);
}

static void test_damaged_files_are_read_or_refused(void **state)
{
    static const char *const names[] = {
        "pcm16.wav",  "float.wav",  "ima.wav",  "gsm.wav",    "pcm8.rf64",
        "pcm16.flac", "vorbis.ogg", "mpeg.mp3", "pcm24.aiff", "ulaw.au",
        "pcm16.caf",  "double.w64", "opus.ogg",
    };
    clock_t start = clock();
    uint32_t random = 1;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++)
        damage(names[i], &random);
    assert_true(clock() - start < 60 * CLOCKS_PER_SEC);
}

static void test_build_without_decoder_says_so(void **state)
{
    char *path = golden_path("pcm16.wav");
    struct audio out = { 0 };
    struct error err = { 0 };

    (void)state;
    assert_false(audio_read(path, &whole, &out, &err));
    assert_non_null(strstr(err.text, "this build reads no sound"));
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sounds_are_those_of_soundfile),
        cmocka_unit_test(test_sound_is_cut_or_refused),
        cmocka_unit_test(test_rates_and_channels),
        cmocka_unit_test(test_samples_are_finite),
        cmocka_unit_test(test_header_allocates_nothing),
        cmocka_unit_test(test_unfinished_files),
#ifdef HAVE_SNDFILE
        cmocka_unit_test(test_damage_inside_is_refused),
#endif
        cmocka_unit_test(test_other_files_are_refused),
        cmocka_unit_test(test_only_regular_files_are_read),
        cmocka_unit_test(test_damaged_files_are_read_or_refused),
    };
    const struct CMUnitTest without[] = {
        cmocka_unit_test(test_build_without_decoder_says_so),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return audio_is_supported() ? cmocka_run_group_tests(tests, NULL, NULL)
                                : cmocka_run_group_tests(without, NULL, NULL);
}
