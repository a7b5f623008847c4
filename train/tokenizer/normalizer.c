/* train/tokenizer/normalizer.c - table of steps by name, each from one text to
 * another. */
#include "config.h"

#include "train/tokenizer/normalizer.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/size.h"
#include "train/text/unicode.h"
#include "train/tokenizer/charsmap.h"

struct step_kind;

struct step {
    const struct step_kind *kind;
    char *content; /* Prepend, Replace */
    size_t len;
    struct pattern *pattern;   /* Replace */
    bool left, right;          /* Strip */
    struct charsmap *charsmap; /* Precompiled */
};

/* Input and output of a step. */
struct work {
    const struct text *in;
    struct text *out;
    struct pattern_scratch *scratch;
    bool *cut; /* set if characters at the start are removed */
};

struct step_kind {
    const char *name;
    bool (*read)(struct step *step, const json_t *json, const char *where,
                 struct error *err);
    bool (*apply)(const struct step *step, const struct work *work, struct error *err);
    utf8proc_option_t form;    /* of NFC and similar forms */
    unsigned char plain_below; /* bytes below this do not change in that form */
};

struct normalizer {
    struct step *steps;
    size_t count;
};

enum { MAX_STEPS = 64 };

/* normalizer_limit: for each text, and for each of its bytes. */
#define FREE_WORK     ((size_t)1 << 20)
#define WORK_PER_BYTE ((size_t)128)

static const double free_seconds = 1, seconds_per_byte = 12e-6;

static bool apply_form(const struct step *step, const struct work *work,
                       struct error *err)
{
    const struct text *in = work->in;
    utf8proc_uint8_t *result = NULL;
    utf8proc_ssize_t len;
    size_t plain = 0;

    while (plain < in->len && (unsigned char)in->data[plain] < step->kind->plain_below)
        plain++;
    if (plain == in->len)
        return text_add(work->out, in->data, in->len);
    len = utf8proc_map((const utf8proc_uint8_t *)in->data, (utf8proc_ssize_t)in->len,
                       &result, step->kind->form | UTF8PROC_STABLE);
    if (len < 0)
        return error_set(err, ERROR_DATA, "cannot normalize the text: %s",
                         utf8proc_errmsg(len));
    text_add(work->out, result, (size_t)len);
    free(result);
    return true;
}

static bool read_prepend(struct step *step, const json_t *json, const char *where,
                         struct error *err)
{
    const char *content = json_get_string(json, "prepend", "", where, err);

    step->content = memory_strdup(content);
    step->len = strlen(content);
    return true;
}

static bool apply_prepend(const struct step *step, const struct work *work,
                          struct error *err)
{
    (void)err;
    if (work->in->len > 0)
        text_add(work->out, step->content, step->len);
    return text_add(work->out, work->in->data, work->in->len);
}

static bool read_replace(struct step *step, const json_t *json, const char *where,
                         struct error *err)
{
    const char *content = json_get_string(json, "content", "", where, err);

    step->content = memory_strdup(content);
    step->len = strlen(content);
    step->pattern = pattern_new(json_object_get(json, "pattern"), where, err);
    return step->pattern;
}

static bool apply_replace(const struct step *step, const struct work *work,
                          struct error *err)
{
    struct pattern_search search = {
        .pattern = step->pattern,
        .scratch = work->scratch,
        .text = work->in->data,
        .len = work->in->len,
    };
    size_t done = 0;

    while (pattern_next(&search) && !work->out->overflow) {
        *work->cut |= search.start == 0 && search.end > 0 && step->len == 0;
        text_add(work->out, work->in->data + done, search.start - done);
        text_add(work->out, step->content, step->len);
        done = search.end;
    }
    if (search.failed)
        return error_set(err, ERROR_DATA,
                         "an expression of the normalizer takes too long");
    text_add(work->out, work->in->data + done, work->in->len - done);
    return true;
}

/* Every character has one lowercase character, except U+0130, the only one with two in
 * all contexts (Unicode's SpecialCasing.txt). */
static bool apply_lowercase(const struct step *step, const struct work *work,
                            struct error *err)
{
    (void)step;
    (void)err;
    for (size_t i = 0; i < work->in->len;) {
        int32_t point;
        char bytes[4];

        i += unicode_first(work->in->data + i, work->in->len - i, &point);
        text_add(work->out, bytes,
                 unicode_put(point == 0x130 ? 'i' : utf8proc_tolower(point), bytes));
        if (point == 0x130)
            text_adds(work->out, "\xcc\x87");
    }
    return true;
}

static bool read_strip(struct step *step, const json_t *json, const char *where,
                       struct error *err)
{
    step->left = json_get_bool(json, "strip_left", true, where, err);
    step->right = json_get_bool(json, "strip_right", true, where, err);
    return true;
}

static bool apply_strip(const struct step *step, const struct work *work,
                        struct error *err)
{
    const char *data = work->in->data;
    size_t len = work->in->len, bytes;
    int32_t point;

    (void)err;
    while (step->left && len > 0) {
        bytes = unicode_first(data, len, &point);
        if (!unicode_is_space(point))
            break;
        data += bytes;
        len -= bytes;
        *work->cut = true;
    }
    while (step->right && len > 0) {
        bytes = unicode_last(data, len, &point);
        if (!unicode_is_space(point))
            break;
        len -= bytes;
    }
    return text_add(work->out, data, len);
}

static bool read_precompiled(struct step *step, const json_t *json, const char *where,
                             struct error *err)
{
    const char *text = json_get_string(json, "precompiled_charsmap", "", where, err);
    struct text bytes;

    text_init(&bytes, (size_t)1 << 30);
    if (!base64_decode(text, strlen(text), &bytes))
        error_set(err, ERROR_DATA, "%s: precompiled_charsmap is not base64", where);
    else
        step->charsmap = charsmap_new(bytes.data, bytes.len, where, err);
    text_clear(&bytes);
    return step->charsmap;
}

static bool apply_precompiled(const struct step *step, const struct work *work,
                              struct error *err)
{
    (void)err;
    charsmap_apply(step->charsmap, work->in->data, work->in->len, work->out);
    return true;
}

/* Every character below U+0300 (0xCC 0x80) is its own composed form; the compatibility
 * and decomposed forms keep only ASCII unchanged. */
static const struct step_kind kinds[] = {
    { "NFC", NULL, apply_form, UTF8PROC_COMPOSE, 0xcc },
    { "NFD", NULL, apply_form, UTF8PROC_DECOMPOSE, 0x80 },
    { "NFKC", NULL, apply_form, UTF8PROC_COMPOSE | UTF8PROC_COMPAT, 0x80 },
    { "NFKD", NULL, apply_form, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, 0x80 },
    { "Prepend", read_prepend, apply_prepend, 0, 0 },
    { "Replace", read_replace, apply_replace, 0, 0 },
    { "Lowercase", NULL, apply_lowercase, 0, 0 },
    { "Strip", read_strip, apply_strip, 0, 0 },
    { "Precompiled", read_precompiled, apply_precompiled, 0, 0 },
};

static bool read_step(struct normalizer *normalizer, const json_t *json,
                      const char *where, struct error *err)
{
    const char *type = json_get_string(json, "type", "", where, err);

    if (normalizer->count == MAX_STEPS)
        return error_set(err, ERROR_DATA, "%s: normalizer: more than %d steps", where,
                         MAX_STEPS);
    for (size_t i = 0; i < TS_COUNT(kinds); i++) {
        struct step *step = &normalizer->steps[normalizer->count];

        if (strcmp(kinds[i].name, type) != 0)
            continue;
        normalizer->count++;
        step->kind = &kinds[i];
        return !kinds[i].read || kinds[i].read(step, json, where, err);
    }
    return error_set(err, ERROR_DATA, "%s: a normalizer of type \"%s\" is not supported",
                     where, type);
}

static bool read_steps(struct normalizer *normalizer, const json_t *json,
                       const char *where, int depth, struct error *err)
{
    const json_t *list = json_object_get(json, "normalizers");

    if (strcmp(json_get_string(json, "type", "", where, err), "Sequence") != 0)
        return read_step(normalizer, json, where, err);
    if (depth > 8 || !json_is_array(list))
        return error_set(err, ERROR_DATA, "%s: normalizer must be a list of steps",
                         where);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!read_steps(normalizer, json_array_get(list, i), where, depth + 1, err))
            return false;
    return true;
}

struct normalizer *normalizer_new(const json_t *json, const char *where,
                                  struct error *err)
{
    struct normalizer *normalizer = memory_alloc(sizeof(*normalizer));

    normalizer->steps = memory_alloc(MAX_STEPS * sizeof(struct step));
    if (!json || json_is_null(json) || read_steps(normalizer, json, where, 0, err))
        return normalizer;
    normalizer_free(normalizer);
    return NULL;
}

void normalizer_free(struct normalizer *normalizer)
{
    if (!normalizer)
        return;
    for (size_t i = 0; i < normalizer->count; i++) {
        free(normalizer->steps[i].content);
        pattern_free(normalizer->steps[i].pattern);
        charsmap_free(normalizer->steps[i].charsmap);
    }
    free(normalizer->steps);
    free(normalizer);
}

bool normalizer_is_empty(const struct normalizer *normalizer)
{
    return normalizer->count == 0;
}

void normalizer_limit(struct pattern_scratch *scratch, size_t len)
{
    pattern_scratch_limit(scratch, FREE_WORK + WORK_PER_BYTE * len,
                          free_seconds + seconds_per_byte * (double)len);
}

void normal_form_init(struct normal_form *form, size_t max)
{
    text_init(&form->text, max);
    text_init(&form->spare, max);
    form->cut = false;
}

void normal_form_clear(struct normal_form *form)
{
    text_clear(&form->text);
    text_clear(&form->spare);
}

bool normalizer_apply(const struct normalizer *normalizer, struct normal_form *form,
                      struct pattern_scratch *scratch, struct error *err)
{
    struct text *text = &form->text, *spare = &form->spare;
    const size_t longest = text->max, spare_longest = spare->max;

    form->cut = false;
    for (size_t i = 0; i < normalizer->count; i++) {
        const struct step *step = &normalizer->steps[i];
        const struct work work = { text, spare, scratch, &form->cut };
        const size_t left = pattern_work_left(scratch);
        struct text result;
        bool ok;

        text_reset(spare);
        spare->max = left < spare_longest ? left : spare_longest;
        ok = step->kind->apply(step, &work, err);
        spare->max = spare_longest;
        if (spare->overflow || !pattern_spend(scratch, spare->len))
            return error_set(err, ERROR_DATA,
                             "the normalizer makes a text too long, at its step %zu (%s)",
                             i + 1, step->kind->name);
        if (!ok)
            return false;
        result = *spare;
        *spare = *text;
        *text = result;
        text->max = longest;
        spare->max = spare_longest;
    }
    return true;
}
