/* patcher/schema/slurm_values.c - reads the options of Slurm as sbatch(1) describes them. */
#include "config.h"

#include "patcher/schema/slurm_values.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum { VALUE_MAX = 256, COUNT_DIGITS = 6, TIME_DIGITS = 8, SIZE_DIGITS = 12 };

static const char name_signs[] = "_-.+@/=", constraint_signs[] = "_-.+@/=&|*()[],";

static bool is_sign(char c, const char *signs)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr(signs, c));
}

/* Return whether the first sign is none that a shell or an option begins with. */
static bool is_made_of(const char *text, const char *signs)
{
    size_t len = strlen(text);

    if (len == 0 || len > VALUE_MAX || *text == '-' || *text == '=')
        return false;
    for (; *text; text++)
        if (!is_sign(*text, signs))
            return false;
    return true;
}

bool slurm_is_name(const char *text)
{
    static const char signs[] = "_-.+@/=,";
    const size_t len = strlen(text);

    return is_made_of(text, signs) && *text != ',' && text[len - 1] != ',' &&
           !strstr(text, ",,") && !strstr(text, ",-");
}

/* Return the number of digits at the start. */
static size_t count_digits(const char *text)
{
    return strspn(text, "0123456789");
}

bool slurm_is_size(const char *text)
{
    const size_t digits = count_digits(text);

    return digits > 0 && digits <= SIZE_DIGITS &&
           (text[digits] == '\0' ||
            (strchr("KMGTkmgt", text[digits]) && text[digits + 1] == '\0'));
}

/* ---- Times ---- */

bool slurm_is_time(const char *text, int64_t *seconds)
{
    static const int64_t units[] = { 86400, 3600, 60, 1 }, limits[] = { 0, 24, 60, 60 };
    const char *dash = strchr(text, '-');
    int64_t numbers[TS_COUNT(units)], sum = 0;
    size_t count = 0, first;

    while (count < TS_COUNT(units)) {
        const size_t digits = count_digits(text);

        if (digits == 0 || digits > TIME_DIGITS)
            return false;
        numbers[count++] = strtoll(text, NULL, 10);
        text += digits;
        if (*text == '\0')
            break;
        if (*text++ != (dash && count == 1 ? '-' : ':'))
            return false;
    }
    if (text[-1] == ':' || text[-1] == '-' || *text != '\0' || (!dash && count > 3))
        return false;
    /* of one and two numbers the first are minutes, unless there are days */
    first = dash ? 0 : count == 3 ? 1 : 2;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && numbers[i] >= limits[first + i])
            return false;
        sum += numbers[i] * units[first + i];
    }
    if (seconds)
        *seconds = sum;
    return sum > 0;
}

/* ---- Generic resources ---- */

static bool is_word(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_sign(text[i], "_-.+"))
            return false;
    return len > 0 && text[0] != '-' && len < SLURM_TYPE_SIZE;
}

/* Return the number that the digits are, with a suffix of thousands; -1: none. */
static int64_t read_count(const char *text, size_t len)
{
    static const char suffixes[] = "kmg";
    const size_t digits = count_digits(text);
    const char *suffix =
        digits + 1 == len ? strchr(suffixes, tolower((unsigned char)text[digits])) : NULL;
    int64_t count;

    if (digits == 0 || digits > COUNT_DIGITS || (digits != len && !suffix))
        return -1;
    count = strtoll(text, NULL, 10);
    for (const char *at = suffixes; suffix && at <= suffix; at++)
        count *= 1024;
    return count;
}

static void note_gpus(struct slurm_gpus *out, const char *type, size_t len, int64_t count)
{
    if (count == 0)
        return;
    out->any = true;
    out->count += count;
    if (len == 0 || out->types == SLURM_GPU_TYPES) {
        out->untyped = true;
        return;
    }
    memcpy(out->type[out->types], type, len);
    out->type[out->types++][len] = '\0';
}

/* Read one resource: NAME[:TYPE][:COUNT]. */
static bool read_resource(const char *text, size_t len, struct slurm_gpus *out)
{
    const char *end = text + len, *type, *number;
    size_t name = strcspn(text, ":,"), type_len = 0;
    int64_t count = 1;

    if (name > len)
        name = len;
    if (!is_word(text, name) || isdigit((unsigned char)*text))
        return false;
    type = text + name + (name < len);
    number = memchr(type, ':', (size_t)(end - type));
    if (name < len) {
        type_len = (size_t)((number ? number : end) - type);
        count = number ? read_count(number + 1, (size_t)(end - number - 1))
                       : read_count(type, type_len);
        if (!number && count >= 0)
            type_len = 0;
        else if (!is_word(type, type_len) || count_digits(type) >= type_len)
            return false; /* a number that is too large is no type */
        if (!number && count < 0)
            count = 1;
    }
    if (count < 0)
        return false;
    if (name == 3 && strncmp(text, "gpu", 3) == 0)
        note_gpus(out, type, type_len, count);
    return true;
}

bool slurm_read_gres(const char *text, struct slurm_gpus *out)
{
    *out = (struct slurm_gpus) { .any = false };
    if (strlen(text) > VALUE_MAX)
        return false;
    for (;; text++) {
        size_t len = strcspn(text, ",");

        if (!read_resource(text, len, out))
            return false;
        text += len;
        if (*text == '\0')
            return true;
    }
}

void slurm_read_node_gres(const char *text, struct slurm_gpus *out)
{
    *out = (struct slurm_gpus) { .any = false };
    while (*text) {
        size_t len = strcspn(text, ",(");

        read_resource(text, len, out);
        text += len;
        if (*text == '(') /* the sockets, which may have commas */
            text += strcspn(text, ")");
        text += strcspn(text, ",");
        text += *text == ',';
    }
}

/* ---- Features ---- */

/* An expression, and whether its numbers of nodes make every operator mean "or": then a
 * node needs only one of the features. */
struct expression {
    const char *at, *features;
    bool any, wrong;
    int depth;
};

static bool has_feature(const char *features, const char *name, size_t len)
{
    for (; *features; features += strcspn(features, ","), features += *features == ',')
        if (strcspn(features, ",") == len && strncmp(features, name, len) == 0)
            return true;
    return false;
}

static bool read_any(struct expression *e);

static bool read_operand(struct expression *e)
{
    const char open = *e->at, *name = e->at;
    bool value;

    if ((open == '(' || open == '[') && e->depth < 8) {
        e->at++;
        e->depth++;
        value = read_any(e);
        e->depth--;
        e->wrong |= *e->at != (open == '(' ? ')' : ']');
        e->at += !e->wrong;
    } else {
        while (is_sign(*e->at, name_signs))
            e->at++;
        e->wrong |= e->at == name || *name == '-';
        value = has_feature(e->features, name, (size_t)(e->at - name));
    }
    if (*e->at == '*') {
        const size_t digits = count_digits(++e->at);

        e->wrong |= digits == 0;
        e->at += digits;
    }
    return value;
}

static bool read_all(struct expression *e)
{
    bool value = read_operand(e);

    while (!e->wrong && (*e->at == '&' || *e->at == ',')) {
        bool next;

        e->at++;
        next = read_operand(e);
        value = e->any ? value || next : value && next;
    }
    return value;
}

static bool read_any(struct expression *e)
{
    bool value = read_all(e);

    while (!e->wrong && *e->at == '|') {
        e->at++;
        value |= read_all(e);
    }
    return value;
}

bool slurm_is_constraint(const char *text)
{
    struct expression e = { .at = text, .features = "" };

    if (!is_made_of(text, constraint_signs))
        return false;
    read_any(&e);
    return !e.wrong && *e.at == '\0';
}

bool slurm_matches(const char *constraint, const char *features)
{
    struct expression e = { .at = constraint,
                            .features = features,
                            .any = strchr(constraint, '*') };
    bool value = read_any(&e);

    return value || e.wrong;
}
