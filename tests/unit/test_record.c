/* tests/unit/test_record.c - the text of state.json, and both of its readers. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "base/size.h"
#include "runner/job/record_scan.h"
#include "runner/job/record.h"

static void assert_same(const struct job_record *a, const struct job_record *b)
{
    for (size_t i = 0; i < record_field_count; i++) {
        const struct record_field *field = &record_fields[i];
        const void *one = (const char *)a + field->at, *two = (const char *)b + field->at;

        if (field->kind == RECORD_TEXT)
            assert_string_equal(one, two);
        else if (field->kind == RECORD_REAL && isnan(*(const double *)one))
            assert_true(isnan(*(const double *)two));
        else
            assert_memory_equal(one, two, field->room);
    }
    assert_int_equal(a->state, b->state);
}

static void test_record_scan_reads_what_record_write_writes(void **state)
{
    struct job_record was = { .state = JOB_FAILED,
                              .reason = "a \"reason\" \\ of\n two lines",
                              .device = "Gr\xc3\xbcn",
                              .digest = "0123",
                              .source = "1:2.3:4",
                              .queued = "2026-11-20T14:08:48Z",
                              .step = 7,
                              .total = INT64_C(900000000000000000),
                              .attempt = 2,
                              .crashes = 1,
                              .max_retries = 3,
                              .priority = -4,
                              .loss = 2.5e-7,
                              .arrived = 1700000000.125,
                              .seconds_left = NAN,
                              .resume = true };
    struct job_record is;
    struct text text;

    (void)state;
    text_init(&text, 0);
    assert_true(record_write(&was, &text));
    text_addc(&text, '\n');
    record_init(&is);
    assert_true(record_scan(text.data, text.len, &is));
    assert_same(&was, &is);
    text_clear(&text);
}

/* A space before the object leaves a text to the full parser. */
static void test_record_readers_agree(void **state)
{
    static const char *const texts[] = {
        "",
        "{}",
        "{\"state\":\"done\"}",
        "{\"state\":\"done\"",
        "{\"state\":\"done\"}}",
        "{\"state\":\"done\",}",
        "{\"state\":\"nothing\"}",
        "{\"state\":\"done\",\"step\":12}\n",
        "{\"state\":\"done\",\"step\":012}",
        "{\"state\":\"done\",\"step\":-1}",
        "{\"state\":\"done\",\"step\":1.5}",
        "{\"state\":\"done\",\"step\":9223372036854775807}",
        "{\"state\":\"done\",\"step\":9223372036854775808}",
        "{\"state\":\"done\",\"step\":1,\"step\":2}",
        "{\"state\":\"done\",\"state\":\"ready\"}",
        "{\"state\":\"done\",\"step\":null,\"reason\":null,\"loss\":null,\"resume\":null}",
        "{\"state\":\"done\",\"step\":\"1\"}",
        "{\"state\":\"done\",\"loss\":3}",
        "{\"state\":\"done\",\"loss\":\"NaN\"}",
        "{\"state\":\"done\",\"loss\":1e400}",
        "{\"state\":\"done\",\"loss\":1.}",
        "{\"state\":\"done\",\"loss\":.5}",
        "{\"state\":\"done\",\"loss\":-0.5E+2}",
        "{\"state\":\"done\",\"resume\":1}",
        "{\"state\":\"done\",\"resume\":true}",
        "{\"state\":\"done\",\"unknown\":[1,{}]}",
        "{\"state\":\"done\",\"reason\":\"\\u0041\\t\\/\"}",
        "{\"state\":\"done\",\"reason\":\"a\tb\"}",
        "{\"state\":\"done\",\"reason\":\"\xff\"}",
        "{\"state\":\"done\",\"reason\":\"\xc3\xa9\"}",
        "{\"state\":\"done\",\"reason\":\"\\",
        "{\"state\":\"done\",\"queued\":\"longer than the room for a time of day\"}",
        "{\"step\":1,\"state\":\"done\"}",
        "[\"state\"]",
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        struct job_record quick, full;
        struct text spaced;

        text_init(&spaced, 0);
        text_addf(&spaced, " %s", texts[i]);
        record_read(texts[i], strlen(texts[i]), &quick);
        record_read(spaced.data, spaced.len, &full);
        assert_same(&quick, &full);
        text_clear(&spaced);
    }
}

static void test_record_scan_reads_any_cut_text_within_its_bounds(void **state)
{
    static const char text[] =
        "{\"state\":\"done\",\"reason\":\"x\",\"loss\":1.5,\"step\":3}";

    (void)state;
    for (size_t len = 0; len < strlen(text); len++) {
        struct job_record record;
        char *cut = memory_alloc(len + 1);

        memcpy(cut, text, len);
        record_init(&record);
        assert_false(record_scan(cut, len, &record));
        free(cut);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_scan_reads_what_record_write_writes),
        cmocka_unit_test(test_record_readers_agree),
        cmocka_unit_test(test_record_scan_reads_any_cut_text_within_its_bounds),
    };

    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
