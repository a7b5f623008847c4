/*
 * bench/bench_tokenizer.c - measures tokenizing on one core.
 *
 *     bench_tokenizer TEXT TOKENIZER...       (a folder each)
 *
 * It prints megabytes of text per second of processor time, the best of five, and the
 * number of ids. peer_tokenizers.py prints the same for Hugging Face's library.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "train/tokenizer/tokenizer.h"

enum { ROUNDS = 5, PIECE = 64 << 10 };

#define TEXT_MAX ((size_t)64 << 20)

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void check(bool ok, const struct error *err)
{
    if (!ok) {
        fprintf(stderr, "bench_tokenizer: %s\n", err->text);
        exit(1);
    }
}

/* Encode the whole text, in pieces that end at a line end, like records. */
static size_t encode(const struct tokenizer *tokenizer, const struct text *text)
{
    struct token_list ids = { 0 };
    struct error err = { 0 };
    size_t count = 0, len;

    for (size_t at = 0; at < text->len; at += len) {
        len = text->len - at < PIECE ? text->len - at : PIECE;
        while (at + len < text->len && text->data[at + len - 1] != '\n')
            len++;
        ids.count = 0;
        check(tokenizer_encode(tokenizer, text->data + at, len, false, &ids, &err), &err);
        count += ids.count;
    }
    token_list_clear(&ids);
    return count;
}

int main(int argc, char **argv)
{
    struct error err = { 0 };
    struct text text;

    if (argc < 3) {
        fprintf(stderr, "usage: bench_tokenizer TEXT TOKENIZER...\n");
        return 2;
    }
    text_init(&text, TEXT_MAX);
    check(file_read(argv[1], TEXT_MAX, &text, NULL, &err), &err);
    printf("tokenizer                MB/s      tokens\n");
    for (int i = 2; i < argc; i++) {
        struct tokenizer *tokenizer = tokenizer_open(argv[i], &err);
        double best = 1e9;
        size_t count = 0;

        check(tokenizer, &err);
        for (int round = 0; round < ROUNDS; round++) {
            double start = now(), seconds;

            count = encode(tokenizer, &text);
            seconds = now() - start;
            best = seconds < best ? seconds : best;
        }
        printf("%-20.20s %8.1f  %10zu\n", path_base(argv[i]),
               (double)text.len / best / 1e6, count);
        tokenizer_close(tokenizer);
    }
    text_clear(&text);
    return 0;
}
