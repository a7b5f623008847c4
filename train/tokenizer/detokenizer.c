/* train/tokenizer/detokenizer.c - decoder steps by name, each from one list of strings to
 * another. */
#include "config.h"

#include "train/tokenizer/detokenizer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "train/tokenizer/bpe.h"
#include "train/text/unicode.h"

struct step {
    void (*apply)(const struct step *step, const struct pieces *in, struct pieces *out);
    struct pattern *pattern; /* Replace */
    char *content;           /* Replace; Strip: the character; Metaspace: the blank */
    size_t start, stop;      /* Strip */
    bool prepended;          /* Metaspace */
};

struct detokenizer {
    struct step *steps;
    size_t count;
    bool joins; /* no decoder: blanks between the strings */
};

enum { MAX_STEPS = 64 };

/* No published decoder makes a text more than three times as long: a byte becomes U+FFFD.
 * Decoding fails if one does more. */
#define FREE_BYTES ((size_t)64 << 10)
#define GROWTH_MAX ((size_t)16)

void pieces_init(struct pieces *pieces)
{
    *pieces = (struct pieces) { .count = 0 };
    text_init(&pieces->text, (size_t)1 << 32);
}

void pieces_clear(struct pieces *pieces)
{
    text_clear(&pieces->text);
    free(pieces->ends);
    pieces_init(pieces);
}

void pieces_end(struct pieces *pieces)
{
    if (pieces->count == pieces->room) {
        pieces->room = pieces->room ? 2 * pieces->room : 64;
        pieces->ends = memory_resize(pieces->ends, pieces->room, sizeof(size_t));
    }
    pieces->ends[pieces->count++] = pieces->text.len;
}

static const char *piece(const struct pieces *pieces, size_t index, size_t *len)
{
    size_t start = index > 0 ? pieces->ends[index - 1] : 0;

    *len = pieces->ends[index] - start;
    return pieces->text.data + start;
}

static void add_piece(struct pieces *pieces, const char *data, size_t len)
{
    text_add(&pieces->text, data, len);
    pieces_end(pieces);
}

/* Add the bytes that a string of GPT-2's characters encodes; a string with other
 * characters is added unchanged. */
static void add_bytes(struct text *out, const char *data, size_t len)
{
    size_t before = out->len;
    int32_t point;

    for (size_t i = 0; i < len;) {
        int byte;

        i += unicode_first(data + i, len - i, &point);
        byte = bpe_point_byte(point);
        if (byte < 0) {
            out->len = before;
            text_add(out, data, len);
            return;
        }
        text_addc(out, (char)byte);
    }
}

static void apply_byte_level(const struct step *step, const struct pieces *in,
                             struct pieces *out)
{
    struct text bytes;
    size_t len;

    (void)step;
    text_init(&bytes, in->text.max);
    for (size_t i = 0; i < in->count; i++) {
        const char *data = piece(in, i, &len);

        add_bytes(&bytes, data, len);
    }
    unicode_add_lossy(&out->text, bytes.data, bytes.len);
    pieces_end(out);
    text_clear(&bytes);
}

static void apply_replace(const struct step *step, const struct pieces *in,
                          struct pieces *out)
{
    struct pattern_scratch *scratch = pattern_scratch_new();

    for (size_t i = 0; i < in->count; i++) {
        struct pattern_search search = { .pattern = step->pattern, .scratch = scratch };
        size_t done = 0;

        search.text = piece(in, i, &search.len);
        while (!out->text.overflow && pattern_next(&search)) {
            text_add(&out->text, search.text + done, search.start - done);
            text_adds(&out->text, step->content);
            done = search.end;
        }
        add_piece(out, search.text + done, search.len - done);
    }
    pattern_scratch_free(scratch);
}

/* Add the bytes of consecutive <0xNN> strings: as text if they are UTF-8, otherwise one
 * U+FFFD each. */
static void end_bytes(struct text *bytes, struct pieces *out)
{
    if (bytes->len == 0)
        return;
    if (text_is_utf8(bytes->data, bytes->len, NULL))
        add_piece(out, bytes->data, bytes->len);
    else
        for (size_t i = 0; i < bytes->len; i++)
            add_piece(out, "\xef\xbf\xbd", 3);
    text_reset(bytes);
}

static void apply_byte_fallback(const struct step *step, const struct pieces *in,
                                struct pieces *out)
{
    struct text bytes;
    size_t len;

    (void)step;
    text_init(&bytes, in->text.max);
    for (size_t i = 0; i < in->count; i++) {
        const char *data = piece(in, i, &len);

        if (len == 6 && memcmp(data, "<0x", 3) == 0 && data[5] == '>' &&
            isxdigit((unsigned char)data[3]) && isxdigit((unsigned char)data[4])) {
            char digits[3] = { data[3], data[4], 0 };

            text_addc(&bytes, (char)strtol(digits, NULL, 16));
            continue;
        }
        end_bytes(&bytes, out);
        add_piece(out, data, len);
    }
    end_bytes(&bytes, out);
    text_clear(&bytes);
}

static void apply_fuse(const struct step *step, const struct pieces *in,
                       struct pieces *out)
{
    (void)step;
    add_piece(out, in->text.data, in->text.len);
}

static void apply_strip(const struct step *step, const struct pieces *in,
                        struct pieces *out)
{
    size_t unit = strlen(step->content), len;

    for (size_t i = 0; i < in->count; i++) {
        const char *data = piece(in, i, &len);

        for (size_t n = 0; n < step->start && len >= unit; n++) {
            if (memcmp(data, step->content, unit) != 0)
                break;
            data += unit;
            len -= unit;
        }
        for (size_t n = 0; n < step->stop && len >= unit; n++) {
            if (memcmp(data + len - unit, step->content, unit) != 0)
                break;
            len -= unit;
        }
        add_piece(out, data, len);
    }
}

static void apply_metaspace(const struct step *step, const struct pieces *in,
                            struct pieces *out)
{
    size_t unit = strlen(step->content), len;

    for (size_t i = 0; i < in->count; i++) {
        const char *data = piece(in, i, &len);

        for (size_t at = 0; at < len;) {
            if (len - at >= unit && memcmp(data + at, step->content, unit) == 0) {
                if (i > 0 || !step->prepended)
                    text_addc(&out->text, ' ');
                at += unit;
            } else {
                text_addc(&out->text, data[at++]);
            }
        }
        pieces_end(out);
    }
}

static bool read_replace(struct step *step, const json_t *json, const char *where,
                         struct error *err)
{
    step->content = memory_strdup(json_get_string(json, "content", "", where, err));
    step->pattern = pattern_new(json_object_get(json, "pattern"), where, err);
    return step->pattern;
}

static bool read_strip(struct step *step, const json_t *json, const char *where,
                       struct error *err)
{
    int64_t start = json_get_int(json, "start", 0, where, err);
    int64_t stop = json_get_int(json, "stop", 0, where, err);

    step->content = memory_strdup(json_get_string(json, "content", " ", where, err));
    step->start = start > 0 ? (size_t)start : 0;
    step->stop = stop > 0 ? (size_t)stop : 0;
    return step->content[0] ||
           error_set(err, ERROR_DATA, "%s: decoder Strip: content is empty", where);
}

static bool read_metaspace(struct step *step, const json_t *json, const char *where,
                           struct error *err)
{
    const char *scheme = json_get_string(json, "prepend_scheme", "always", where, err);
    bool prefix = json_get_bool(json, "add_prefix_space", true, where, err);

    step->content =
        memory_strdup(json_get_string(json, "replacement", "\xe2\x96\x81", where, err));
    step->prepended = prefix && strcmp(scheme, "never") != 0;
    return step->content[0] ||
           error_set(err, ERROR_DATA, "%s: decoder Metaspace: replacement is empty",
                     where);
}

static const struct {
    const char *name;
    bool (*read)(struct step *step, const json_t *json, const char *where,
                 struct error *err);
    void (*apply)(const struct step *step, const struct pieces *in, struct pieces *out);
} kinds[] = {
    { "ByteFallback", NULL, apply_byte_fallback },
    { "ByteLevel", NULL, apply_byte_level },
    { "Fuse", NULL, apply_fuse },
    { "Metaspace", read_metaspace, apply_metaspace },
    { "Replace", read_replace, apply_replace },
    { "Strip", read_strip, apply_strip },
};

static bool read_step(struct detokenizer *detokenizer, const json_t *json,
                      const char *where, struct error *err)
{
    const char *type = json_get_string(json, "type", "", where, err);

    if (detokenizer->count == MAX_STEPS)
        return error_set(err, ERROR_DATA, "%s: decoder: more than %d steps", where,
                         MAX_STEPS);
    for (size_t i = 0; i < TS_COUNT(kinds); i++) {
        struct step *step = &detokenizer->steps[detokenizer->count];

        if (strcmp(kinds[i].name, type) != 0)
            continue;
        detokenizer->count++;
        step->apply = kinds[i].apply;
        return !kinds[i].read || kinds[i].read(step, json, where, err);
    }
    return error_set(err, ERROR_DATA, "%s: a decoder of type \"%s\" is not supported",
                     where, type);
}

static bool read_steps(struct detokenizer *detokenizer, const json_t *json,
                       const char *where, int depth, struct error *err)
{
    const json_t *list = json_object_get(json, "decoders");

    if (strcmp(json_get_string(json, "type", "", where, err), "Sequence") != 0)
        return read_step(detokenizer, json, where, err);
    if (depth > 8 || !json_is_array(list))
        return error_set(err, ERROR_DATA, "%s: decoder must be a list of steps", where);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!read_steps(detokenizer, json_array_get(list, i), where, depth + 1, err))
            return false;
    return true;
}

struct detokenizer *detokenizer_new(const json_t *json, const char *where,
                                    struct error *err)
{
    struct detokenizer *detokenizer = memory_alloc(sizeof(*detokenizer));

    detokenizer->joins = !json || json_is_null(json);
    detokenizer->steps = memory_alloc(MAX_STEPS * sizeof(struct step));
    if (detokenizer->joins || read_steps(detokenizer, json, where, 0, err))
        return detokenizer;
    detokenizer_free(detokenizer);
    return NULL;
}

void detokenizer_free(struct detokenizer *detokenizer)
{
    if (!detokenizer)
        return;
    for (size_t i = 0; i < detokenizer->count; i++) {
        free(detokenizer->steps[i].content);
        pattern_free(detokenizer->steps[i].pattern);
    }
    free(detokenizer->steps);
    free(detokenizer);
}

bool detokenizer_run(const struct detokenizer *detokenizer, struct pieces *pieces,
                     struct text *out)
{
    size_t len;

    for (size_t i = 0; i < detokenizer->count; i++) {
        const struct step *step = &detokenizer->steps[i];
        struct pieces result;

        pieces_init(&result);
        result.text.max = FREE_BYTES + GROWTH_MAX * pieces->text.len;
        step->apply(step, pieces, &result);
        pieces_clear(pieces);
        *pieces = result;
        if (pieces->text.overflow)
            break;
    }
    for (size_t i = 0; i < pieces->count; i++) {
        const char *data = piece(pieces, i, &len);

        if (i > 0 && detokenizer->joins)
            text_addc(out, ' ');
        text_add(out, data, len);
    }
    return !pieces->text.overflow && !out->overflow;
}
