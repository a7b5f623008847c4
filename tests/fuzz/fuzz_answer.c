/* tests/fuzz/fuzz_answer.c - an extracted answer is inside its text, a correct one was
 * found, and a number equals itself. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/generation/answer.h"

static void check(const struct answer_rule *rule, const char *text, size_t len,
                  const char *expected, size_t expected_len)
{
    struct answer found;
    struct verdict verdict = answer_judge(rule, text, len, expected, expected_len);
    double number;

    FUZZ_HOLDS(!verdict.right || verdict.found);
    if (!answer_find(rule, text, len, &found)) {
        FUZZ_HOLDS(!verdict.found);
        return;
    }
    FUZZ_HOLDS(verdict.found && found.len > 0);
    FUZZ_HOLDS(found.text >= text && found.text + found.len <= text + len);
    FUZZ_HOLDS(answer_right(rule, found, found));
    if (answer_number(found, &number))
        FUZZ_HOLDS(isfinite(number));
    FUZZ_HOLDS(answer_judge(rule, text, len, text, len).right);
}

/* The model's output and, after the first NUL, the expected answer; neither is
 * terminated. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct answer_rule rules[] = {
        { NULL, NULL, 0 },
        { "answer", NULL, 0.05 },
        { NULL, "####", 0 },
        { "answer", "####", 0.5 },
    };
    const uint8_t *end = len ? memchr(data, 0, len) : NULL;
    size_t said = end ? (size_t)(end - data) : len, rest = end ? len - said - 1 : 0;
    char *text = malloc(said ? said : 1), *expected = malloc(rest ? rest : 1);

    if (said)
        memcpy(text, data, said);
    if (rest)
        memcpy(expected, end + 1, rest);
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        check(&rules[i], text, said, expected, rest);
    free(text);
    free(expected);
    return 0;
}
