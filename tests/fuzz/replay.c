/*
 * tests/fuzz/replay.c - runs a fuzz target without a fuzzer, as a test that speaks TAP: over
 * each file of corpus/NAME for a program fuzz_NAME, whole, cut off everywhere and with bytes
 * changed.  What a fuzzer finds is added to the corpus, and stays found.
 */
#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Changing all of a larger file would take too long for a test. */
enum { LARGEST = 16 << 20, LARGEST_CHANGED = 2048 };

/* The target gets a block of just this size, so that a read past its end is seen. */
static void replay(const char *data, size_t len)
{
    uint8_t *copy = memory_alloc(len);

    if (len > 0)
        memcpy(copy, data, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static void replay_changed(char *data, size_t len)
{
    static const char changes[] = { 1, 0x20, (char)0x80 };

    for (size_t i = 0; i < len; i++) {
        replay(data, i);
        for (size_t k = 0; k < sizeof(changes); k++) {
            data[i] ^= changes[k];
            replay(data, len);
            data[i] ^= changes[k];
        }
    }
}

static void replay_file(const char *dir, const char *name, int number)
{
    char *path = path_join(dir, name);
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    if (file_read(path, LARGEST, &text, NULL, &err)) {
        replay(text.data, text.len);
        if (text.len <= LARGEST_CHANGED)
            replay_changed(text.data, text.len);
        printf("ok %d - %s\n", number, name);
    } else {
        printf("not ok %d - %s\n# %s\n", number, name, err.text);
    }
    fflush(stdout);
    text_clear(&text);
    free(path);
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    const char *top = getenv("top_srcdir");
    struct text dir;
    struct dirent **entries;
    int count;

    (void)argc;
    text_init(&dir, 0);
    text_addf(&dir, "%s/tests/fuzz/corpus/%s", top ? top : ".",
              path_base(argv[0]) + strlen("fuzz_"));
    count = scandir(dir.data, &entries, is_shown, alphasort);
    if (count <= 0) {
        printf("Bail out! no corpus in %s\n", dir.data);
        return 1;
    }
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        replay_file(dir.data, entries[i]->d_name, i + 1);
        free(entries[i]);
    }
    free(entries);
    text_clear(&dir);
    return 0;
}
