/* train/text/pattern.c - PCRE2 patterns with Oniguruma's character classes. */
#include "config.h"

#include "train/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/size.h"
#include "train/text/unicode.h"

struct pattern {
    pcre2_code *code;
    bool jit;
};

/* How often searches that take long look at their CPU time, in seconds. */
static const double check_every = 0.5;

struct pattern_scratch {
    pcre2_match_data *match;
    size_t work_left;
    double cpu_until; /* clock_cpu; 0: no limit */
    double check_at;  /* clock_coarse */
    bool spent;
};

/* Oniguruma's \s and \w inside a class. PCRE2 10.42 counts U+180E as a space, which
 * Unicode removed in 6.3, and no marks or connectors as word characters. */
static const struct {
    char letter;
    const char *inside;
} classes[] = {
    { 's', "\\t-\\r\\x{85}\\p{Z}" },
    { 'w', "\\p{L}\\p{M}\\p{N}\\p{Pc}" },
};

/* Translate one escape. Inside a class, \S and \W keep PCRE2's meaning, because a part of
 * a class cannot be negated. */
static void translate_escape(struct text *out, char letter, bool in_class)
{
    for (size_t i = 0; i < TS_COUNT(classes); i++) {
        bool negated = letter == classes[i].letter - 'a' + 'A';

        if (letter == classes[i].letter && in_class) {
            text_adds(out, classes[i].inside);
            return;
        }
        if ((letter == classes[i].letter || negated) && !in_class) {
            text_addf(out, negated ? "[^%s]" : "[%s]", classes[i].inside);
            return;
        }
    }
    text_addc(out, '\\');
    text_addc(out, letter);
}

static void translate(const char *regex, size_t len, struct text *out)
{
    bool in_class = false;

    for (size_t i = 0; i < len; i++) {
        if (regex[i] == '\\' && i + 1 < len) {
            translate_escape(out, regex[++i], in_class);
            continue;
        }
        text_addc(out, regex[i]);
        if (!in_class && regex[i] == '[') {
            in_class = true;
            if (i + 1 < len && regex[i + 1] == '^')
                text_addc(out, regex[++i]);
            if (i + 1 < len && regex[i + 1] == ']')
                text_addc(out, regex[++i]);
        } else if (in_class && regex[i] == ']') {
            in_class = false;
        }
    }
}

static struct pattern *compile(const char *regex, size_t len, uint32_t options,
                               const char *where, struct error *err)
{
    int why;
    PCRE2_SIZE at;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)regex, len, options | PCRE2_UTF, &why, &at, NULL);
    struct pattern *pattern;

    if (!code) {
        PCRE2_UCHAR text[128];

        pcre2_get_error_message(why, text, sizeof(text));
        error_set(err, ERROR_DATA,
                  "%s: cannot compile the regular expression: %s at byte %zu", where,
                  (const char *)text, at);
        return NULL;
    }
    pattern = memory_alloc(sizeof(*pattern));
    pattern->code = code;
    pattern->jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
    return pattern;
}

/* In Oniguruma, as in Ruby, ^ and $ match at line boundaries. */
#define REGEX_OPTIONS (PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C)

static struct pattern *compile_regex(const char *regex, size_t len, const char *where,
                                     struct error *err)
{
    struct pattern *pattern;
    struct text ours;

    text_init(&ours, 0);
    translate(regex, len, &ours);
    pattern = compile(ours.data, ours.len, REGEX_OPTIONS, where, err);
    text_clear(&ours);
    return pattern;
}

struct pattern *pattern_compile(const char *regex)
{
    struct pattern *pattern = compile_regex(regex, strlen(regex), "built in", NULL);

    assert(pattern);
    return pattern;
}

struct pattern *pattern_compile_whole(const char *regex, const char *where,
                                      struct error *err)
{
    struct pattern *pattern;
    struct text whole;

    text_init(&whole, 0);
    text_addf(&whole, "\\A(?:%s)\\z", regex);
    pattern = compile_regex(whole.data, whole.len, where, err);
    text_clear(&whole);
    return pattern;
}

struct pattern *pattern_new(const json_t *json, const char *where, struct error *err)
{
    const json_t *string = json_object_get(json, "String");
    const json_t *regex = json_object_get(json, "Regex");

    if (json_is_string(string) && json_string_length(string) > 0)
        return compile(json_string_value(string), json_string_length(string),
                       PCRE2_LITERAL, where, err);
    if (json_is_string(regex))
        return compile_regex(json_string_value(regex), json_string_length(regex), where,
                             err);
    error_set(err, ERROR_DATA,
              "%s: a pattern must be {\"String\": ...} or {\"Regex\": ...}", where);
    return NULL;
}

void pattern_free(struct pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_code_free(pattern->code);
    free(pattern);
}

struct pattern_scratch *pattern_scratch_new(void)
{
    struct pattern_scratch *scratch = memory_alloc(sizeof(*scratch));

    scratch->match = pcre2_match_data_create(1, NULL);
    assert(scratch->match);
    scratch->work_left = SIZE_MAX;
    return scratch;
}

void pattern_scratch_limit(struct pattern_scratch *scratch, size_t work,
                           double cpu_seconds)
{
    scratch->work_left = work;
    scratch->cpu_until = clock_cpu() + cpu_seconds;
    scratch->check_at = clock_coarse() + check_every;
    scratch->spent = false;
}

bool pattern_spend(struct pattern_scratch *scratch, size_t work)
{
    if (!scratch)
        return true;
    if (work > scratch->work_left)
        scratch->spent = true;
    else
        scratch->work_left -= work;
    return !scratch->spent;
}

size_t pattern_work_left(const struct pattern_scratch *scratch)
{
    return scratch->work_left;
}

bool pattern_is_spent(const struct pattern_scratch *scratch)
{
    return scratch->spent;
}

/* PCRE2 limits what it does at one position; this limits all positions together. */
static bool has_time(struct pattern_scratch *scratch)
{
    double now;

    if (scratch->cpu_until == 0 || (now = clock_coarse()) < scratch->check_at)
        return !scratch->spent;
    scratch->check_at = now + check_every;
    scratch->spent |= clock_cpu() > scratch->cpu_until;
    return !scratch->spent;
}

void pattern_scratch_free(struct pattern_scratch *scratch)
{
    if (!scratch)
        return;
    pcre2_match_data_free(scratch->match);
    free(scratch);
}

/* Return PCRE2's result: negative for no match, or a limit. */
static int match_at(const struct pattern_search *search, size_t from, uint32_t options)
{
    const struct pattern *pattern = search->pattern;
    PCRE2_SPTR text = (PCRE2_SPTR)search->text;
    pcre2_match_data *match = search->scratch->match;
    int found = PCRE2_ERROR_JIT_STACKLIMIT;

    options |= PCRE2_NO_UTF_CHECK;
    if (pattern->jit)
        found =
            pcre2_jit_match(pattern->code, text, search->len, from, options, match, NULL);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(pattern->code, text, search->len, from,
                            options | PCRE2_NO_JIT, match, NULL);
    return found;
}

bool pattern_next(struct pattern_search *search)
{
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(search->scratch->match);

    while (search->from <= search->len) {
        int found = match_at(search, search->from, 0);
        size_t from = search->from;
        int32_t point;

        if (found == PCRE2_ERROR_NOMATCH)
            return false;
        if (found < 0 || !has_time(search->scratch) || ends[1] < ends[0] ||
            ends[0] < from) {
            search->failed = true;
            return false;
        }
        if (ends[0] < ends[1] || !search->matched || ends[1] != search->end) {
            search->matched = true;
            search->start = ends[0];
            search->end = search->from = ends[1];
            return true;
        }
        search->from += from < search->len ? unicode_first(search->text + from,
                                                           search->len - from, &point)
                                           : 1;
    }
    return false;
}

bool pattern_matches(const struct pattern *pattern, const char *text, bool *failed)
{
    struct pattern_search search = { .pattern = pattern,
                                     .scratch = pattern_scratch_new(),
                                     .text = text,
                                     .len = strlen(text) };
    bool found = pattern_next(&search);

    if (failed)
        *failed = search.failed;
    pattern_scratch_free(search.scratch);
    return found;
}
