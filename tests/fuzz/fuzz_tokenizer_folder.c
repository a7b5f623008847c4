/* tests/fuzz/fuzz_tokenizer_folder.c - folders without tokenizer.json: one that opens can
 * encode a text and decode the tokens.  Input: a letter for the file, a letter for the other
 * files, the file, and, for merges.txt, a zero byte and vocab.json. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "train/tokenizer/tokenizer.h"

static const char *const names[] = { "tokenizer.model", "tekken.json", "merges.txt",
                                     "qwen.tiktoken" };

/* tokenizer_config.json and config.json */
static const char *const configs[][2] = {
    { "{}", "{\"model_type\": \"llama\"}" },
    { "{\"tokenizer_class\": \"LlamaTokenizer\", \"legacy\": true, \"add_bos_token\": "
      "true, \"pad_token\": \"<pad>\"}",
      "{\"model_type\": \"llama\"}" },
    { "{}", "{\"model_type\": \"gemma\", \"eos_token_id\": 1}" },
    { "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_prefix_space\": true, "
      "\"added_tokens_decoder\": {\"3\": {\"content\": \"ab\", \"lstrip\": true}, \"1\": "
      "{\"content\": \"<x>\", \"special\": true}}}",
      "{}" },
    { "{}", "{\"model_type\": \"qwen2\"}" },
};

static void encode(const struct tokenizer *tokenizer)
{
    static const char text[] = " Hello  <s>ab\n\n1<|endoftext|>\xef\xac\x81 e\xcc\x81 ";
    struct token_list list = { 0 };
    struct error err = { 0 };
    struct text back;

    FUZZ_HOLDS(tokenizer_encode(tokenizer, text, strlen(text), true, &list, &err) ||
               err.code == ERROR_DATA);
    for (size_t i = 0; i < list.count; i++)
        FUZZ_HOLDS(list.ids[i] < tokenizer_size(tokenizer));
    text_init(&back, 0);
    tokenizer_decode(tokenizer, list.ids, list.count, false, &back);
    text_clear(&back);
    token_list_clear(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *const *config;
    struct tokenizer *tokenizer;
    struct error err = { 0 };
    const uint8_t *zero;
    size_t kind;

    if (len < 2)
        return 0;
    kind = data[0] % TS_COUNT(names);
    config = configs[data[1] % TS_COUNT(configs)];
    data += 2;
    len -= 2;
    zero = kind == 2 && len > 0 ? memchr(data, 0, len) : NULL;
    if (zero)
        fuzz_file("vocab.json", zero + 1, len - 1 - (size_t)(zero - data));
    fuzz_file("tokenizer_config.json", config[0], strlen(config[0]));
    fuzz_file("config.json", config[1], strlen(config[1]));
    fuzz_file(names[kind], data, zero ? (size_t)(zero - data) : len);
    tokenizer = tokenizer_open(fuzz_dir(), &err);
    FUZZ_HOLDS(tokenizer || err.code == ERROR_DATA || err.code == ERROR_SYSTEM);
    if (tokenizer)
        encode(tokenizer);
    tokenizer_close(tokenizer);
    unlink(fuzz_file(names[kind], "", 0));
    unlink(fuzz_file("vocab.json", "", 0));
    return 0;
}
