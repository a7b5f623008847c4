/*
 * tests/fuzz/replay.c - run a fuzz target without a fuzzer, as a test that prints TAP.
 * The program fuzz_NAME reads each file of corpus/NAME: unchanged, truncated at every
 * length, and with changed bytes (at 150 positions of a longer file).  Then it reads
 * those of found/NAME, which are inputs of past failures.
 */
#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "tests/fuzz/fuzz.h"

/* Changing every byte of a larger file would take too long for a test. */
enum { LARGEST = 16 << 20, LARGEST_CHANGED = 2048, PLACES_CHANGED = 150 };

/* The target gets a block of exactly this size, so that a read past its end is
 * detected. */
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

    for (size_t i = 0; i < len; i += len / PLACES_CHANGED + 1) {
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

/* List the files of FOLDER/NAME and store their number in *count. */
static struct dirent **list_files(const char *folder, const char *name, struct text *dir,
                                  int *count)
{
    const char *top = getenv("top_srcdir");
    struct dirent **entries = NULL;

    text_init(dir, 0);
    text_addf(dir, "%s/tests/fuzz/%s/%s", top ? top : ".", folder, name);
    *count = scandir(dir->data, &entries, is_shown, alphasort);
    return entries;
}

int main(int argc, char **argv)
{
    static const char *const folders[] = { "corpus", "found" };
    struct dirent **entries[2];
    struct text dirs[2];
    int counts[2], number = 0;

    (void)argc;
    for (int i = 0; i < 2; i++)
        entries[i] = list_files(folders[i], path_base(argv[0]) + strlen("fuzz_"),
                                &dirs[i], &counts[i]);
    if (counts[0] <= 0) {
        printf("Bail out! no corpus in %s\n", dirs[0].data);
        return 1;
    }
    printf("1..%d\n", counts[0] + (counts[1] > 0 ? counts[1] : 0));
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < counts[i]; k++) {
            replay_file(dirs[i].data, entries[i][k]->d_name, ++number);
            free(entries[i][k]);
        }
        free(entries[i]);
        text_clear(&dirs[i]);
    }
    return 0;
}
