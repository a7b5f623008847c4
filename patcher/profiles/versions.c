/* patcher/profiles/versions.c - the version order of PEP 440 and name rules of PEP 503. */
#include "config.h"

#include "patcher/profiles/versions.h"

#include <ctype.h>
#include <string.h>

#include "base/size.h"
#include "base/nearest.h"

static bool is_separator(char byte)
{
    return byte == '.' || byte == '-' || byte == '_';
}

/* Parse at most 18 digits, which fit into 64 bits. */
static bool read_number(const char **at, uint64_t *out)
{
    size_t digits = strspn(*at, "0123456789");

    if (digits == 0 || digits > 18)
        return false;
    *out = 0;
    for (size_t i = 0; i < digits; i++)
        *out = *out * 10 + (uint64_t)((*at)[i] - '0');
    *at += digits;
    return true;
}

static bool read_release(const char **at, struct version *out)
{
    if (!read_number(at, &out->release[0]))
        return false;
    if (**at == '!') {
        out->epoch = out->release[0];
        ++*at;
        if (!read_number(at, &out->release[0]))
            return false;
    }
    for (out->count = 1; **at == '.' && isdigit((unsigned char)(*at)[1]); out->count++) {
        ++*at;
        if (out->count == VERSION_PARTS || !read_number(at, &out->release[out->count]))
            return false;
    }
    return true;
}

/* Parse a word after an optional separator, and its number; a missing number is 0. */
static bool read_word(const char **at, const char *word, uint64_t *number)
{
    const char *from = *at + is_separator(**at);
    size_t len = strlen(word);

    if (strncasecmp(from, word, len) != 0)
        return false;
    from += len;
    if (is_separator(*from) && isdigit((unsigned char)from[1]))
        from++;
    *number = 0;
    if (isdigit((unsigned char)*from) && !read_number(&from, number))
        return false;
    *at = from;
    return true;
}

static void read_pre(const char **at, struct version *out)
{
    static const struct {
        const char *word;
        int stage;
    } words[] = { /* longer words first */
                  { "alpha", 'a' }, { "beta", 'b' }, { "preview", 'r' }, { "pre", 'r' },
                  { "rc", 'r' },    { "a", 'a' },    { "b", 'b' },       { "c", 'r' }
    };

    for (size_t i = 0; i < TS_COUNT(words) && !out->stage; i++)
        if (read_word(at, words[i].word, &out->pre))
            out->stage = words[i].stage;
}

static void read_post(const char **at, struct version *out)
{
    const char *from = *at + 1;

    if (**at == '-' && read_number(&from, &out->post)) { /* 1.0-1 is 1.0.post1 */
        out->has_post = true;
        *at = from;
        return;
    }
    out->has_post = read_word(at, "post", &out->post) ||
                    read_word(at, "rev", &out->post) || read_word(at, "r", &out->post);
}

static bool read_local(const char *at, struct version *out)
{
    size_t len = strlen(at);

    if (len == 0 || len >= sizeof(out->local))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)at[i]) &&
            (!is_separator(at[i]) || i == 0 || i + 1 == len || is_separator(at[i - 1])))
            return false;
        out->local[i] = is_separator(at[i]) ? '.' : (char)tolower((unsigned char)at[i]);
    }
    return true;
}

bool version_read(const char *text, struct version *out)
{
    *out = (struct version) { 0 };
    if (*text == 'v' || *text == 'V')
        text++;
    if (!read_release(&text, out))
        return false;
    read_pre(&text, out);
    read_post(&text, out);
    out->has_dev = read_word(&text, "dev", &out->dev);
    return *text == '+' ? read_local(text + 1, out) : *text == 0;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Rank the stages of one release: dev only, a, b, rc, final. */
static int stage_rank(const struct version *version)
{
    if (version->stage)
        return version->stage;
    return version->has_dev && !version->has_post ? 0 : 'z';
}

/* Compare by segment; a number is greater than a word, more segments than fewer. */
static int compare_local(const char *a, const char *b)
{
    while (*a && *b) {
        size_t la = strcspn(a, "."), lb = strcspn(b, ".");
        bool na = strspn(a, "0123456789") == la, nb = strspn(b, "0123456789") == lb;
        size_t shorter = la < lb ? la : lb;
        int order;

        if (na != nb)
            return na ? 1 : -1;
        if (na && la != lb) /* no leading zeros in practice */
            return la < lb ? -1 : 1;
        order = memcmp(a, b, shorter);
        if (order != 0 || la != lb)
            return order != 0 ? order : (la < lb ? -1 : 1);
        a += la + (a[la] == '.');
        b += lb + (b[lb] == '.');
    }
    return (*a != 0) - (*b != 0);
}

int version_compare(const struct version *a, const struct version *b)
{
    int order = compare(a->epoch, b->epoch);

    for (size_t i = 0; order == 0 && i < VERSION_PARTS; i++)
        order = compare(a->release[i], b->release[i]);
    if (order == 0)
        order = stage_rank(a) - stage_rank(b);
    if (order == 0)
        order = compare(a->pre, b->pre);
    if (order == 0)
        order = compare(a->has_post ? a->post + 1 : 0, b->has_post ? b->post + 1 : 0);
    if (order == 0)
        order =
            compare(a->has_dev ? a->dev : UINT64_MAX, b->has_dev ? b->dev : UINT64_MAX);
    return order != 0 ? order : compare_local(a->local, b->local);
}

bool version_covers(const struct version *brief, const struct version *full)
{
    struct version bare = *full;

    for (size_t i = 0; i < brief->count; i++)
        if (brief->release[i] != full->release[i])
            return false;
    if (brief->epoch != full->epoch)
        return false;
    if (brief->stage || brief->has_post || brief->has_dev) {
        if (!brief->local[0])
            bare.local[0] = 0;
        return version_compare(brief, &bare) == 0;
    }
    return !brief->local[0] || strcmp(brief->local, full->local) == 0;
}

const char *const package_names[PACKAGES] = {
    [PACKAGE_TORCH] = "torch",
    [PACKAGE_TRANSFORMERS] = "transformers",
    [PACKAGE_ACCELERATE] = "accelerate",
    [PACKAGE_PEFT] = "peft",
    [PACKAGE_TRL] = "trl",
    [PACKAGE_DEEPSPEED] = "deepspeed",
    [PACKAGE_BITSANDBYTES] = "bitsandbytes",
    [PACKAGE_LLAMAFACTORY] = "llamafactory",
    [PACKAGE_AXOLOTL] = "axolotl",
    [PACKAGE_TORCHTUNE] = "torchtune",
    [PACKAGE_UNSLOTH] = "unsloth",
    [PACKAGE_LIGHTNING] = "lightning",
    [PACKAGE_CUDA] = "cuda",
};

/* Other names: conda packages, common spellings, and the CUDA libraries that come with
 * torch's wheels. */
static const struct {
    const char *name;
    enum package package;
} other_names[] = {
    { "pytorch", PACKAGE_TORCH },
    { "llama-factory", PACKAGE_LLAMAFACTORY },
    { "pytorch-lightning", PACKAGE_LIGHTNING },
    { "nvidia-cuda-runtime", PACKAGE_CUDA },
    { "nvidia-cuda-runtime-cu11", PACKAGE_CUDA },
    { "nvidia-cuda-runtime-cu12", PACKAGE_CUDA },
};

/* PEP 503: ignore case, and treat a sequence of separators as one. */
static bool same_name(const char *a, const char *b)
{
    while (*a && *b) {
        if (is_separator(*a) != is_separator(*b) ||
            (!is_separator(*a) &&
             tolower((unsigned char)*a) != tolower((unsigned char)*b)))
            return false;
        if (is_separator(*a)) {
            a += strspn(a, "-_.");
            b += strspn(b, "-_.");
        } else {
            a++;
            b++;
        }
    }
    return *a == *b;
}

enum package package_find(const char *name)
{
    for (size_t i = 0; i < PACKAGES; i++)
        if (same_name(name, package_names[i]))
            return (enum package)i;
    for (size_t i = 0; i < TS_COUNT(other_names); i++)
        if (same_name(name, other_names[i].name))
            return other_names[i].package;
    return PACKAGES;
}

const char *package_nearest(const char *name)
{
    const char *near = NULL;
    size_t least = 3;

    for (size_t i = 0; i < PACKAGES; i++) {
        size_t distance = nearest_distance(name, package_names[i], 2);
        size_t len = strlen(package_names[i]);

        /* two letters of a name with three or four letters are not significant */
        if (distance < least && distance * 2 < len) {
            least = distance;
            near = package_names[i];
        }
    }
    return near;
}

bool versions_know(const struct versions *versions, enum package package)
{
    return versions->packages[package].given || versions->packages[package].found;
}

void versions_add(struct versions *versions, const struct versions *installed)
{
    versions->trouble = installed->trouble;
    for (size_t i = 0; i < PACKAGES; i++) {
        versions->packages[i].found = installed->packages[i].found;
        if (!versions->packages[i].given)
            versions->packages[i].version = installed->packages[i].version;
    }
}

void versions_override(struct versions *versions, const struct versions *over)
{
    for (size_t i = 0; i < PACKAGES; i++)
        if (over->packages[i].given)
            versions->packages[i] = over->packages[i];
}
