/* tests/unit/test_redact.c - secrets are not shown. */
#include "config.h"

#include "patcher/schema/redact.h"

#include "tests/unit/unit.h"

static void redacts(const char *text, const char *expected)
{
    struct text out;

    text_init(&out, 0);
    assert_true(redact_text(text, strlen(text), &out));
    assert_string_equal(out.data, expected);
    text_clear(&out);
}

static void test_redact_hides_values_of_secret_keys(void **state)
{
    (void)state;
    redacts("hf_hub_token: hf_abc # mine\nseed: 1\n", "hf_hub_token: ***\nseed: 1\n");
    redacts("hf_hub_tokn: hf_abc\n", "hf_hub_tokn: ***\n");
    redacts("use_auth_token: hf_abc\n", "use_auth_token: ***\n");
    redacts("swanlab_api_key: \"two\n  lines\"\nseed: 1\n",
            "swanlab_api_key: ***\n***\nseed: 1\n");
    redacts("seed: 1\r\nhf_hub_token: x\r\n", "seed: 1\r\nhf_hub_token: ***\r\n");
    redacts("hf_hub_token:\nmax_new_tokens: 3\n", "hf_hub_token:\nmax_new_tokens: 3\n");
}

static void test_redact_hides_them_at_any_depth(void **state)
{
    (void)state;
    redacts("env: {a: [{API_KEY: x}], b: 1}\n", "env: {a: [{API_KEY: ***}], b: 1}\n");
    redacts("seed: &s hush\nhub_token: *s\n", "seed: ***\nhub_token: ***\n");
}

static void test_redact_hides_secrets_outside_documents(void **state)
{
    (void)state;
    redacts("# hf_hub_token: hf_old\n", "# hf_hub_token: ***\n");
    redacts("hf_hub_token: [broken\n", "hf_hub_token: ***\n");
    redacts("{seed: 1, hub_token: [x\n", "{seed: 1, hub_token: ***\n");
    redacts("{hub_token: [x\n", "{hub_token: ***\n");
    redacts("- 'hf_hub_token' : x\n", "- 'hf_hub_token' : ***\n");
    redacts("hf_hub_token:\n  hf_a\n\n  hf_b\nseed: 1\n\tbad: x\n",
            "hf_hub_token:\n  ***\n\n  ***\nseed: 1\n\tbad: x\n");
    redacts("hub_token: |\n  x\nseed: [1\n", "hub_token: ***\n  ***\nseed: [1\n");
}

static void test_redact_marks_the_bytes(void **state)
{
    static const char text[] = "a: 1\nhub_token: xyz\nb: 2\n";
    struct arena *arena = arena_new();
    bool hidden[sizeof(text)];
    struct document document;

    (void)state;
    document_read(text, sizeof(text) - 1, arena, &document);
    redact_mask(&document, hidden);
    for (size_t i = 0; i + 1 < sizeof(text); i++)
        assert_int_equal(hidden[i], text[i] >= 'x' && text[i] <= 'z');
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redact_hides_values_of_secret_keys),
        cmocka_unit_test(test_redact_hides_them_at_any_depth),
        cmocka_unit_test(test_redact_hides_secrets_outside_documents),
        cmocka_unit_test(test_redact_marks_the_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
