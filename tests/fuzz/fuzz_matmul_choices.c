/*
 * tests/fuzz/fuzz_matmul_choices.c - the file of algorithms of matmuls: lines are left out,
 * or read back as written. Each line is also read with the CRC that it should have.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "kernels/matmul_choices.h"

static const char about[] = "Card";

static void check_back(struct matmul_choices *choices)
{
    struct matmul_choices *again = matmul_choices_new(about);
    struct text one, two;
    size_t count;

    text_init(&one, 0);
    text_init(&two, 0);
    count = matmul_choices_write(choices, true, &one);
    FUZZ_HOLDS(again && count == matmul_choices_count(choices));
    FUZZ_HOLDS(matmul_choices_read(again, one.data, one.len, false).read == count);
    FUZZ_HOLDS(matmul_choices_write(again, true, &two) == count);
    FUZZ_HOLDS(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
    matmul_choices_free(again);
    text_clear(&one);
    text_clear(&two);
}

static void read_text(const char *data, size_t len)
{
    struct matmul_choices *choices = matmul_choices_new(about);
    struct matmul_choices_text found;

    FUZZ_HOLDS(choices);
    found = matmul_choices_read(choices, data, len, len % 2);
    FUZZ_HOLDS(found.headed || found.read == 0);
    FUZZ_HOLDS(!(found.headed && found.foreign));
    FUZZ_HOLDS(matmul_choices_count(choices) <= found.read);
    FUZZ_HOLDS(strlen(found.about) < sizeof(found.about));
    check_back(choices);
    matmul_choices_free(choices);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_part rest = { (const char *)data, len };
    struct text text;

    read_text((const char *)data, len);
    text_init(&text, 0);
    text_addf(&text, "trainspool matmuls 1, %s\n", about);
    while (rest.len > 0) {
        struct fuzz_part line = fuzz_take(&rest, '\n');

        text_add(&text, line.data, line.len);
        text_addf(&text, " %08x\n", crc32c(line.data, line.len));
    }
    read_text(text.data, text.len);
    text_clear(&text);
    return 0;
}
