/* tests/fuzz/fuzz_similarity.c - scores of texts: between 0 and 100, those of a text with
 * itself are the highest, and the words of a text are the text. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "train/generation/similarity.h"
#include "train/generation/words.h"
#include "base/text.h"

static void check_words(const char *text, size_t len)
{
    struct words words = { 0 };
    size_t bad, at = 0;

    if (!text_is_utf8(text, len, &bad))
        return;
    words_split(&words, text, len);
    for (size_t i = 0; i < words.count; i++) {
        FUZZ_HOLDS(words.list[i].text == text + at && words.list[i].len > 0);
        at += words.list[i].len;
    }
    FUZZ_HOLDS(at == len);
    words_clear(&words);
}

/* Input: the output of a model, a NUL, and the expected output. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = (const char *)data;
    const uint8_t *end = len ? memchr(data, 0, len) : NULL;
    size_t first = end ? (size_t)(end - data) : len;
    const char *other = end ? text + first + 1 : text + len;
    size_t other_len = end ? len - first - 1 : 0;
    struct similarity similarity = similarity_measure(text, first, other, other_len);
    struct similarity same = similarity_measure(other, other_len, other, other_len);

    for (enum score i = 0; i < SCORES; i++) {
        FUZZ_HOLDS(similarity.scores[i] >= 0 && similarity.scores[i] <= 100);
        FUZZ_HOLDS(similarity.scores[i] <= same.scores[i] + 1e-3 || i == SCORE_ROUGE_2);
    }
    check_words(text, first);
    check_words(other, other_len);
    return 0;
}
