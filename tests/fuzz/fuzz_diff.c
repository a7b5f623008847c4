/* tests/fuzz/fuzz_diff.c - unified diffs: the diff of two texts turns the first into the
 * second.  Input: both texts, separated by a zero byte. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#include "patcher/document/diff.h"

/* Return the next line with its line break, or the rest of the text if it has none. */
static struct fuzz_part next_line(struct fuzz_part *rest)
{
    const char *end = memchr(rest->data, '\n', rest->len);
    struct fuzz_part line = { rest->data,
                              end ? (size_t)(end + 1 - rest->data) : rest->len };

    rest->data += line.len;
    rest->len -= line.len;
    return line;
}

static bool same(struct fuzz_part a, struct fuzz_part b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* "\ No newline at end of file" means that the line before it has no line break. */
static struct fuzz_part body(struct fuzz_part line, const struct fuzz_part *rest)
{
    line.data++;
    line.len--;
    if (rest->len > 0 && rest->data[0] == '\\')
        line.len--;
    return line;
}

static void apply(struct fuzz_part diff, struct fuzz_part from, struct text *out)
{
    size_t number = 1;

    next_line(&diff);
    next_line(&diff);
    while (diff.len > 0) {
        struct fuzz_part line = next_line(&diff);
        size_t begin = 0, count = 1;
        int read;

        if (line.data[0] == '@') {
            read = sscanf(line.data, "@@ -%zu,%zu", &begin, &count);
            FUZZ_HOLDS(read >= 1);
            begin += read == 2 && count == 0; /* insert after that line */
            for (; number < begin; number++) {
                struct fuzz_part kept = next_line(&from);

                text_add(out, kept.data, kept.len);
            }
        } else if (line.data[0] == '+') {
            struct fuzz_part added = body(line, &diff);

            text_add(out, added.data, added.len);
        } else if (line.data[0] != '\\') {
            struct fuzz_part was = next_line(&from);

            FUZZ_HOLDS(line.data[0] == '-' || line.data[0] == ' ');
            FUZZ_HOLDS(same(was, body(line, &diff)));
            if (line.data[0] == ' ')
                text_add(out, was.data, was.len);
            number++;
        }
    }
    text_add(out, from.data, from.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_part b = { (const char *)data, len }, a = fuzz_take(&b, 0);
    struct diff_options options = { .from = "a", .to = "b" };
    struct text diff, out;

    text_init(&diff, 0);
    text_init(&out, 0);
    for (; options.context < 4; options.context += 3) {
        text_reset(&diff);
        text_reset(&out);
        FUZZ_HOLDS(diff_unified(a.data, a.len, b.data, b.len, &options, &diff));
        FUZZ_HOLDS((diff.len == 0) == same(a, b));
        if (diff.len > 0) {
            apply((struct fuzz_part) { diff.data, diff.len }, a, &out);
            FUZZ_HOLDS(same((struct fuzz_part) { out.data, out.len }, b));
        }
    }
    options.visible = options.use_color = true;
    text_reset(&diff);
    FUZZ_HOLDS(diff_unified(a.data, a.len, b.data, b.len, &options, &diff));
    text_clear(&diff);
    text_clear(&out);
    return 0;
}
