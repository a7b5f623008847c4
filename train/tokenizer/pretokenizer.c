/* train/tokenizer/pretokenizer.c - pre-tokenizer steps by name. A step finds its matches
 * in a piece and passes the resulting pieces directly to the next step: there is no list
 * of pieces. */
#include "config.h"

#include "train/tokenizer/pretokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "train/text/unicode.h"

/* The expression of ByteLevel with use_regex: GPT-2's encoder.py. */
static const char gpt2_words[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
/* Whitespace: words, and sequences of characters that are neither word nor blank, by
 * Rust's \w and \s. */
static const char plain_words[] =
    "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}]+|[^\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\s]+";

enum behavior { ISOLATED, REMOVED, CONTIGUOUS, WITH_PREVIOUS, WITH_NEXT };
enum prepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

struct step {
    struct pattern *pattern;        /* match a pattern, */
    bool (*matches)(int32_t point); /* or characters of a class; neither: no splitting */
    enum behavior behavior;
    bool invert;
    enum prepend prepend; /* put `blank` before a piece that has none */
    char blank[8];        /* replacement of blanks; "": unchanged */
};

struct pretokenizer {
    struct step *steps;
    size_t count;
    bool byte_level;
};

enum { MAX_STEPS = 64 };

/* State shared by all steps. */
struct run {
    const struct pretokenizer *pretokenizer;
    struct pattern_scratch *scratch;
    const struct word_sink *sink;
    const char *failure;
    bool ended; /* by the sink */
};

static bool is_over(const struct run *run)
{
    return run->failure || run->ended;
}

static void run_steps(struct run *run, size_t step, const char *text, size_t len,
                      bool first);

/* The pieces of one step on their way to the next. One piece is held back, because the
 * following one may be joined to it. */
struct cutter {
    struct run *run;
    const struct step *step;
    size_t next_step;
    const char *text;
    bool first;
    bool held, held_match;
    size_t start, end;
};

static void cutter_flush(struct cutter *cutter)
{
    if (cutter->held && cutter->end > cutter->start)
        run_steps(cutter->run, cutter->next_step, cutter->text + cutter->start,
                  cutter->end - cutter->start, cutter->first && cutter->start == 0);
    cutter->held = false;
}

/* Return whether a piece is joined to the previous one. */
static bool is_joined(const struct cutter *cutter, bool match)
{
    switch (cutter->step->behavior) {
    case CONTIGUOUS:
        return match == cutter->held_match;
    case WITH_PREVIOUS:
        return match && !cutter->held_match;
    case WITH_NEXT:
        return !match && cutter->held_match;
    default:
        return false;
    }
}

static void cutter_take(struct cutter *cutter, size_t start, size_t end, bool match)
{
    match = match != cutter->step->invert;
    if (cutter->held && is_joined(cutter, match)) {
        cutter->end = end;
    } else {
        cutter_flush(cutter);
        if (match && cutter->step->behavior == REMOVED)
            return;
        cutter->held = true;
        cutter->start = start;
        cutter->end = end;
    }
    cutter->held_match = match;
}

static void cut_by_pattern(struct cutter *cutter, size_t len)
{
    struct pattern_search search = {
        .pattern = cutter->step->pattern,
        .scratch = cutter->run->scratch,
        .text = cutter->text,
        .len = len,
    };
    size_t done = 0;

    while (!is_over(cutter->run) && pattern_next(&search)) {
        if (done < search.start)
            cutter_take(cutter, done, search.start, false);
        cutter_take(cutter, search.start, search.end, true);
        done = search.end;
    }
    if (search.failed)
        cutter->run->failure = "an expression of the pre-tokenizer takes too long";
    if (done < len)
        cutter_take(cutter, done, len, false);
}

static void cut_by_class(struct cutter *cutter, size_t len)
{
    size_t done = 0;

    for (size_t i = 0; i < len && !is_over(cutter->run);) {
        int32_t point;
        size_t bytes = unicode_first(cutter->text + i, len - i, &point);

        if (cutter->step->matches(point)) {
            if (done < i)
                cutter_take(cutter, done, i, false);
            cutter_take(cutter, i, i + bytes, true);
            done = i + bytes;
        }
        i += bytes;
    }
    if (done < len)
        cutter_take(cutter, done, len, false);
}

static void cut(struct run *run, size_t at, const char *text, size_t len, bool first)
{
    struct cutter cutter = {
        .run = run,
        .step = &run->pretokenizer->steps[at],
        .next_step = at + 1,
        .text = text,
        .first = first,
    };

    if (cutter.step->pattern)
        cut_by_pattern(&cutter, len);
    else if (cutter.step->matches)
        cut_by_class(&cutter, len);
    else
        cutter_take(&cutter, 0, len, false);
    cutter_flush(&cutter);
}

/* Replace blanks by those of the step, and put one before the piece if needed. */
static void replace_blanks(const struct step *step, const char *text, size_t len,
                           bool first, struct text *out)
{
    const char *blank = step->blank[0] ? step->blank : " ";
    size_t bytes = strlen(blank);
    bool needed =
        step->prepend == PREPEND_ALWAYS || (step->prepend == PREPEND_FIRST && first);
    bool has_one = text[0] == ' ' || (len >= bytes && memcmp(text, blank, bytes) == 0);

    if (needed && !has_one)
        text_add(out, blank, bytes);
    for (size_t i = 0; i < len; i++) {
        if (text[i] == ' ')
            text_add(out, blank, bytes);
        else
            text_addc(out, text[i]);
    }
}

static void run_steps(struct run *run, size_t at, const char *text, size_t len,
                      bool first)
{
    const struct step *step = &run->pretokenizer->steps[at];
    struct text changed;

    if (is_over(run))
        return;
    if (!pattern_spend(run->scratch, len)) {
        run->failure = "the pre-tokenizer splits a text into too many pieces";
        return;
    }
    if (at == run->pretokenizer->count) {
        run->ended = !run->sink->take(run->sink->context, text, len);
        return;
    }
    if (!step->blank[0] && step->prepend == PREPEND_NEVER) {
        cut(run, at, text, len, first);
        return;
    }
    text_init(&changed, (size_t)1 << 32);
    replace_blanks(step, text, len, first, &changed);
    if (changed.overflow)
        run->failure = "a text is too long for the tokenizer";
    else
        cut(run, at, changed.data, changed.len, first);
    text_clear(&changed);
}

bool pretokenizer_run(const struct pretokenizer *pretokenizer, const char *text,
                      size_t len, bool first, struct pattern_scratch *scratch,
                      const struct word_sink *sink, struct error *err)
{
    struct run run = { .pretokenizer = pretokenizer, .scratch = scratch, .sink = sink };

    if (len > 0)
        run_steps(&run, 0, text, len, first);
    return !run.failure || error_set(err, ERROR_DATA, "%s", run.failure);
}

static bool is_byte_level(const char *type)
{
    return strcmp(type, "ByteLevel") == 0;
}

static bool read_behavior(struct step *step, const json_t *json, const char *where,
                          struct error *err)
{
    static const char *const names[] = {
        [ISOLATED] = "Isolated",        [REMOVED] = "Removed",
        [CONTIGUOUS] = "Contiguous",    [WITH_PREVIOUS] = "MergedWithPrevious",
        [WITH_NEXT] = "MergedWithNext",
    };
    const char *name = json_get_string(json, "behavior", "Isolated", where, err);

    for (size_t i = 0; i < TS_COUNT(names); i++) {
        if (strcmp(names[i], name) != 0)
            continue;
        step->behavior = (enum behavior)i;
        return true;
    }
    return error_set(err, ERROR_DATA, "%s: pre_tokenizer: behavior \"%s\" is unknown",
                     where, name);
}

static bool read_split(struct step *step, const json_t *json, const char *where,
                       struct error *err)
{
    step->pattern = pattern_new(json_object_get(json, "pattern"), where, err);
    step->invert = json_get_bool(json, "invert", false, where, err);
    return step->pattern && read_behavior(step, json, where, err);
}

static bool read_bytes(struct step *step, const json_t *json, const char *where,
                       struct error *err)
{
    if (json_get_bool(json, "add_prefix_space", true, where, err))
        step->prepend = PREPEND_ALWAYS;
    if (json_get_bool(json, "use_regex", true, where, err))
        step->pattern = pattern_compile(gpt2_words);
    return true;
}

static bool read_digits(struct step *step, const json_t *json, const char *where,
                        struct error *err)
{
    bool single = json_get_bool(json, "individual_digits", false, where, err);

    step->matches = unicode_is_numeric;
    step->behavior = single ? ISOLATED : CONTIGUOUS;
    return true;
}

static bool read_punctuation(struct step *step, const json_t *json, const char *where,
                             struct error *err)
{
    step->matches = unicode_is_punctuation;
    return read_behavior(step, json, where, err);
}

static bool read_whitespace(struct step *step, const json_t *json, const char *where,
                            struct error *err)
{
    (void)json;
    (void)where;
    (void)err;
    step->pattern = pattern_compile(plain_words);
    step->behavior = REMOVED;
    step->invert = true;
    return true;
}

static bool read_whitespace_split(struct step *step, const json_t *json,
                                  const char *where, struct error *err)
{
    (void)json;
    (void)where;
    (void)err;
    step->matches = unicode_is_space;
    step->behavior = REMOVED;
    return true;
}

static bool read_metaspace(struct step *step, const json_t *json, const char *where,
                           struct error *err)
{
    const char *blank = json_get_string(json, "replacement", "\xe2\x96\x81", where, err);
    const char *scheme = json_get_string(json, "prepend_scheme", "always", where, err);
    json_t *pattern;

    if (strlen(blank) == 0 || strlen(blank) > 4)
        return error_set(err, ERROR_DATA,
                         "%s: Metaspace: replacement must be one character", where);
    strcpy(step->blank, blank);
    if (!json_get_bool(json, "add_prefix_space", true, where, err))
        scheme = "never";
    step->prepend = strcmp(scheme, "always") == 0  ? PREPEND_ALWAYS
                    : strcmp(scheme, "first") == 0 ? PREPEND_FIRST
                                                   : PREPEND_NEVER;
    if (!json_get_bool(json, "split", true, where, err))
        return true;
    step->behavior = WITH_NEXT;
    pattern = json_pack("{s:s}", "String", blank);
    step->pattern = pattern_new(pattern, where, err);
    json_decref(pattern);
    return step->pattern;
}

static const struct {
    const char *name;
    bool (*read)(struct step *step, const json_t *json, const char *where,
                 struct error *err);
} kinds[] = {
    { "ByteLevel", read_bytes },
    { "Digits", read_digits },
    { "Metaspace", read_metaspace },
    { "Punctuation", read_punctuation },
    { "Split", read_split },
    { "Whitespace", read_whitespace },
    { "WhitespaceSplit", read_whitespace_split },
};

static bool read_step(struct pretokenizer *pretokenizer, const json_t *json,
                      const char *where, struct error *err)
{
    const char *type = json_get_string(json, "type", "", where, err);

    if (pretokenizer->count == MAX_STEPS)
        return error_set(err, ERROR_DATA, "%s: pre_tokenizer: more than %d steps", where,
                         MAX_STEPS);
    if (pretokenizer->byte_level)
        return error_set(err, ERROR_DATA,
                         "%s: a pre_tokenizer after ByteLevel is not supported", where);
    pretokenizer->byte_level = is_byte_level(type);
    for (size_t i = 0; i < TS_COUNT(kinds); i++)
        if (strcmp(kinds[i].name, type) == 0)
            return kinds[i].read(&pretokenizer->steps[pretokenizer->count++], json, where,
                                 err);
    return error_set(err, ERROR_DATA,
                     "%s: a pre_tokenizer of type \"%s\" is not supported", where, type);
}

static bool read_steps(struct pretokenizer *pretokenizer, const json_t *json,
                       const char *where, int depth, struct error *err)
{
    const json_t *list = json_object_get(json, "pretokenizers");

    if (strcmp(json_get_string(json, "type", "", where, err), "Sequence") != 0)
        return read_step(pretokenizer, json, where, err);
    if (depth > 8 || !json_is_array(list))
        return error_set(err, ERROR_DATA, "%s: pre_tokenizer must be a list of steps",
                         where);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!read_steps(pretokenizer, json_array_get(list, i), where, depth + 1, err))
            return false;
    return true;
}

struct pretokenizer *pretokenizer_new(const json_t *json, const char *where,
                                      struct error *err)
{
    struct pretokenizer *pretokenizer = memory_alloc(sizeof(*pretokenizer));

    pretokenizer->steps = memory_alloc((MAX_STEPS + 1) * sizeof(struct step));
    if (!json || json_is_null(json) || read_steps(pretokenizer, json, where, 0, err))
        return pretokenizer;
    pretokenizer_free(pretokenizer);
    return NULL;
}

void pretokenizer_free(struct pretokenizer *pretokenizer)
{
    if (!pretokenizer)
        return;
    for (size_t i = 0; i < pretokenizer->count; i++)
        pattern_free(pretokenizer->steps[i].pattern);
    free(pretokenizer->steps);
    free(pretokenizer);
}

bool pretokenizer_is_byte_level(const struct pretokenizer *pretokenizer)
{
    return pretokenizer->byte_level;
}
