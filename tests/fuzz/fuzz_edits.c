/*
 * tests/fuzz/fuzz_edits.c - edits and the ledger of edits, compared with a plain loop
 * over the bytes.  Input: a text, a zero byte, and one edit per line: its position,
 * length and text.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "patcher/document/edits.h"
#include "patcher/document/edit_log.h"

enum { EDITS_MAX = 16 };

struct change {
    size_t at, cut;
    char *with;
};

/* Replace `cut` bytes of a text with `with`. */
static void splice(struct text *text, const struct change *change)
{
    struct text out;

    text_init(&out, 0);
    text_add(&out, text->data, change->at);
    text_adds(&out, change->with);
    text_add(&out, text->data + change->at + change->cut,
             text->len - change->at - change->cut);
    text_clear(text);
    *text = out;
}

/* Check edits that do not overlap, added in any order.  The expected text comes from a
 * plain loop from the last edit to the first.  Edits at the same position keep the order
 * of their addition. */
static void check_edits(const struct fuzz_part *first, const struct change *list,
                        size_t count)
{
    struct edits *edits = edits_new();
    const struct change *taken[EDITS_MAX];
    size_t made = 0;
    struct text expected, out;

    text_init(&expected, 0);
    text_init(&out, 0);
    text_add(&expected, first->data, first->len);
    for (size_t i = 0; i < count; i++) {
        struct error err = { 0 };
        bool fits = edits_fit(edits, list[i].at, list[i].cut);

        FUZZ_HOLDS(edits_replace(edits, list[i].at, list[i].cut, list[i].with, &err) ==
                   fits);
        FUZZ_HOLDS(fits || err.code == ERROR_JOB);
        if (fits) {
            size_t slot = made++;

            for (; slot > 0 && (taken[slot - 1]->at > list[i].at ||
                                (taken[slot - 1]->at == list[i].at && list[i].cut == 0 &&
                                 taken[slot - 1]->cut > 0));
                 slot--)
                taken[slot] = taken[slot - 1];
            taken[slot] = &list[i];
        }
    }
    FUZZ_HOLDS(edits_count(edits) == made);
    while (made > 0)
        splice(&expected, taken[--made]);
    FUZZ_HOLDS(edits_apply(edits, first->data, first->len, &out, NULL));
    FUZZ_HOLDS(out.len == expected.len && memcmp(out.data, expected.data, out.len) == 0);
    text_clear(&expected);
    text_clear(&out);
    edits_free(edits);
}

/* Check the ledger.  Each edit applies to the result of the previous ones.  As edits of
 * the first text they do not overlap and give the same result. */
static void check_ledger(const struct fuzz_part *first, const struct change *list,
                         size_t count)
{
    struct arena *arena = arena_new();
    struct edit_log *edit_log = edit_log_new(first->data, first->len, arena);
    const struct edit_log_entry *kept;
    struct edits *edits = edits_new();
    struct text expected, out;
    const char *now;
    size_t len;

    text_init(&expected, 0);
    text_init(&out, 0);
    text_add(&expected, first->data, first->len);
    for (size_t i = 0; i < count; i++) {
        struct change change = list[i];

        change.at %= expected.len + 1;
        change.cut %= expected.len - change.at + 1;
        edit_log_replace(
            edit_log, &(struct edit_log_entry) { change.at, change.cut, change.with, i });
        splice(&expected, &change);
        now = edit_log_text(edit_log, &len);
        FUZZ_HOLDS(len == expected.len && memcmp(now, expected.data, len) == 0 &&
                   !now[len]);
        FUZZ_HOLDS(edit_log_origin(edit_log, change.at) <= first->len);
    }
    count = edit_log_entries(edit_log, &kept);
    for (size_t i = 0; i < count; i++) {
        FUZZ_HOLDS(kept[i].at + kept[i].cut <= first->len);
        FUZZ_HOLDS(i == 0 || kept[i].at >= kept[i - 1].at + kept[i - 1].cut);
        FUZZ_HOLDS(edits_replace(edits, kept[i].at, kept[i].cut, kept[i].new_text, NULL));
    }
    FUZZ_HOLDS(edits_apply(edits, first->data, first->len, &out, NULL));
    FUZZ_HOLDS(out.len == expected.len && memcmp(out.data, expected.data, out.len) == 0);
    text_clear(&expected);
    text_clear(&out);
    edits_free(edits);
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_part rest = { (const char *)data, len }, text = fuzz_take(&rest, 0);
    struct change list[EDITS_MAX];
    size_t count = 0;

    while (rest.len > 0 && count < EDITS_MAX) {
        struct fuzz_part line = fuzz_take(&rest, '\n');
        struct change *change = &list[count];

        if (line.len < 2)
            continue;
        change->at = (unsigned char)line.data[0] % (text.len + 1);
        change->cut = (unsigned char)line.data[1] % 16 % (text.len - change->at + 1);
        change->with = fuzz_word((struct fuzz_part) { line.data + 2, line.len - 2 });
        count++;
    }
    check_edits(&text, list, count);
    check_ledger(&text, list, count);
    for (size_t i = 0; i < count; i++)
        free(list[i].with);
    return 0;
}
