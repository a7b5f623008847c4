/* tests/fuzz/fuzz_tokenizer.c - every tokenizer.json that opens can encode a text and
 * decode the tokens.  Input: a tokenizer.json, a zero byte, and a text. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "train/tokenizer/tokenizer.h"

static void encode(const struct tokenizer *tokenizer, const char *text, size_t len)
{
    struct token_list list = { 0 };
    struct error err = { 0 };
    struct text back;
    bool ok = tokenizer_encode(tokenizer, text, len, false, &list, &err);

    if (!ok && err.code != ERROR_DATA)
        abort();
    for (size_t i = 0; i < list.count; i++)
        if (list.ids[i] >= tokenizer_size(tokenizer))
            abort();
    tokenizer_encode(tokenizer, text, len, true, &list, &err);
    text_init(&back, 0);
    tokenizer_decode(tokenizer, list.ids, list.count, false, &back);
    text_clear(&back);
    token_list_clear(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint8_t *zero = len > 0 ? memchr(data, 0, len) : NULL;
    size_t json = zero ? (size_t)(zero - data) : len;
    struct tokenizer *tokenizer;
    struct error err = { 0 };

    tokenizer = tokenizer_open(fuzz_file("tokenizer.json", data, json), &err);
    if (!tokenizer) {
        if (err.code != ERROR_DATA)
            abort();
        return 0;
    }
    if (zero)
        encode(tokenizer, (const char *)zero + 1, len - json - 1);
    tokenizer_close(tokenizer);
    return 0;
}
