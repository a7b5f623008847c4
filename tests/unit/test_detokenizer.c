/* tests/unit/test_detokenizer.c - decode token strings to text, step by step. */
#include "config.h"

#include "train/tokenizer/detokenizer.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static struct detokenizer *read_json(const char *json, struct error *err)
{
    json_t *value = json_read_text(json, strlen(json), "x", 1, err);
    struct detokenizer *detokenizer = detokenizer_new(value, "x", err);

    json_decref(value);
    return detokenizer;
}

#define BLANK "\xe2\x96\x81"
#define LOST  "\xef\xbf\xbd"
#define LLAMA                                                                          \
    "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": "    \
    "{\"String\": \"" BLANK "\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, " \
    "{\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, "   \
    "\"stop\": 0}]}"

/* Tokens in the input are separated by
 * . */
static void test_detokenizer_gives_text(void **state)
{
    static const struct {
        const char *json, *tokens, *wanted;
    } cases[] = {
        { "null", "a|b", "a b" },
        { "{\"type\": \"Fuse\"}", "a|b", "ab" },
        { "{\"type\": \"ByteLevel\"}", "H\xc3\x83|\xc2\xa4|\xc4\xa0x", "H\xc3\xa4 x" },
        { "{\"type\": \"ByteLevel\"}", "\xc3\x83|x", LOST "x" },
        /* a blank does not encode a byte */
        { "{\"type\": \"ByteLevel\"}", "<| a |", "< a " },
        { LLAMA, BLANK "a" BLANK "b|<0x0A>|" BLANK BLANK "c", "a b\n  c" },
        { LLAMA, "<0xC3>|<0xA4>|<0xC3>|x", LOST LOST LOST "x" },
        { LLAMA, "<0xC3>|<0xA4>|x", "\xc3\xa4x" },
        { LLAMA, "<0xZZ>|<0x1>", "<0xZZ><0x1>" },
        { "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, "
          "{\"type\": \"Metaspace\", \"replacement\": \"_\"}]}",
          "_a|<0x41>|_b", "aA b" },
        { "{\"type\": \"Strip\", \"content\": \"_\", \"start\": 2, \"stop\": 1}",
          "___a__|_b|_", "_a_b" },
        { "{\"type\": \"Metaspace\", \"replacement\": \"_\"}", "_a|_b_", "a b " },
        { "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": "
          "\"never\"}",
          "_a|_b", " a b" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct detokenizer *detokenizer = read_json(cases[i].json, &err);
        struct pieces pieces;
        struct text got;

        if (!detokenizer)
            fail_msg("%s", err.text);
        pieces_init(&pieces);
        text_init(&got, 0);
        for (const char *at = cases[i].tokens; *at; at++) {
            if (*at == '|')
                pieces_end(&pieces);
            else
                text_addc(&pieces.text, *at);
        }
        pieces_end(&pieces);
        assert_true(detokenizer_run(detokenizer, &pieces, &got));
        if (strcmp(got.data, cases[i].wanted) != 0)
            fail_msg("%s gives \"%s\", not \"%s\"", cases[i].tokens, got.data,
                     cases[i].wanted);
        pieces_clear(&pieces);
        text_clear(&got);
        detokenizer_free(detokenizer);
    }
}

static void test_detokenizer_refuses_unsupported_decoders(void **state)
{
    static const char *const cases[][2] = {
        { "{\"type\": \"WordPiece\"}", "\"WordPiece\" is not supported" },
        { "{\"type\": \"Sequence\"}", "list of steps" },
        { "{\"type\": \"Replace\", \"content\": \"\"}", "pattern" },
        { "{\"type\": \"Strip\", \"content\": \"\"}", "empty" },
        { "{\"type\": \"Metaspace\", \"replacement\": \"\"}", "empty" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        assert_null(read_json(cases[i][0], &err));
        assert_int_equal(err.code, ERROR_DATA);
        assert_non_null(strstr(err.text, cases[i][1]));
    }
    detokenizer_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_detokenizer_gives_text),
        cmocka_unit_test(test_detokenizer_refuses_unsupported_decoders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
