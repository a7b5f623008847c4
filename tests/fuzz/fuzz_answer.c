/* tests/fuzz/fuzz_answer.c - extracted answers: an answer is within its text, a correct
 * answer was found, and every answer equals itself. */
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

    FUZZ_HOLDS(!verdict.correct || verdict.found);
    if (!answer_find(rule, text, len, &found)) {
        FUZZ_HOLDS(!verdict.found);
        return;
    }
    FUZZ_HOLDS(verdict.found && found.len > 0);
    FUZZ_HOLDS(found.text >= text && found.text + found.len <= text + len);
    FUZZ_HOLDS(answer_is_correct(rule, found, found));
    if (answer_number(found, &number))
        FUZZ_HOLDS(isfinite(number));
    FUZZ_HOLDS(answer_judge(rule, text, len, text, len).correct);
}

/* Input: the output of a model, a NUL, and the expected output.  Neither copy is
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
    size_t output_len = end ? (size_t)(end - data) : len;
    size_t expected_len = end ? len - output_len - 1 : 0;
    char *text = malloc(output_len ? output_len : 1);
    char *expected = malloc(expected_len ? expected_len : 1);

    if (output_len)
        memcpy(text, data, output_len);
    if (expected_len)
        memcpy(expected, end + 1, expected_len);
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        check(&rules[i], text, output_len, expected, expected_len);
    free(text);
    free(expected);
    return 0;
}
