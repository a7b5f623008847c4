/* tests/unit/test_text_position.c - bytes, characters, lines and columns agree everywhere
 * in a text. */
#include "config.h"

#include "patcher/document/text_position.h"

#include "tests/unit/unit.h"

/* Count from the start and compare at every byte. */
static void check_text(const char *data, size_t len, size_t origin)
{
    struct arena *arena = arena_new();
    struct text_positions positions;
    uint32_t line = 1, column = 1;
    size_t character = 0;

    text_positions_build(&positions, data, len, origin, arena);
    for (size_t i = origin; i <= len; i++) {
        bool first = i == len || ((unsigned char)data[i] & 0xc0) != 0x80;
        struct mark mark = text_positions_mark(&positions, i);

        if (!first)
            continue;
        assert_int_equal(mark.byte, i);
        assert_int_equal(mark.line, line);
        assert_int_equal(mark.column, column);
        assert_int_equal(text_positions_character(&positions, i), character);
        assert_int_equal(text_positions_byte(&positions, character), i);
        character++;
        column++;
        if (i < len && (data[i] == '\n' ||
                        (data[i] == '\r' && (i + 1 == len || data[i + 1] != '\n')))) {
            line++;
            column = 1;
        }
    }
    assert_int_equal(text_positions_byte(&positions, character + 5), len);
    arena_free(arena);
}

static void test_text_position_agrees_at_every_byte(void **state)
{
    static const char *const parts[] = { "a",
                                         "\n",
                                         "\r\n",
                                         "\r",
                                         "\xc3\xa4",
                                         "\xe2\x82\xac",
                                         "\xf0\x9f\x98\x80",
                                         "key: value # c\n" };
    struct text text;

    (void)state;
    text_init(&text, 0);
    check_text("", 0, 0);
    check_text("\xef\xbb\xbf", 3, 3);
    for (unsigned seed = 1; seed < 200; seed++) {
        unsigned random = seed * 2654435761u;
        size_t origin = seed % 3 == 0 ? 3 : 0;

        text_reset(&text);
        if (origin)
            text_adds(&text, "\xef\xbb\xbf");
        for (unsigned i = 0; i < seed; i++) {
            random = random * 1664525u + 1013904223u;
            text_adds(&text, parts[(random >> 20) % (seed % 2 ? 8 : 4)]);
        }
        check_text(text.data, text.len, origin);
    }
    text_clear(&text);
}

static void test_text_position_accepts_bytes_that_are_not_text(void **state)
{
    struct arena *arena = arena_new();
    struct text_positions positions;

    (void)state;
    text_positions_build(&positions, "\x80\xbf\xff\n\x80", 5, 0, arena);
    assert_int_equal(text_positions_mark(&positions, 4).line, 2);
    assert_int_equal(text_positions_mark(&positions, 99).byte, 5);
    assert_int_equal(text_positions_byte(&positions, 99), 5);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_position_agrees_at_every_byte),
        cmocka_unit_test(test_text_position_accepts_bytes_that_are_not_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
