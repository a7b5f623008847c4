/* kernels/matmul_choices.c - a list of choices, and its text. */
#include "config.h"

#include "kernels/matmul_choices.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/size.h"
#include "precision/format.h"

/* The number is the version of the lines. */
#define HEAD "trainspool matmuls 1, "
#define RANK "rank "

enum { LINE_MAX_BYTES = 400, WORDS = 23, ALIGNED_MOST = 8 };

/* A shape is looked up when its plan is made, which is rare: no hash. */
struct matmul_choices {
    char *about;
    struct matmul_choice *list;
    size_t count, room;
};

struct matmul_choices *matmul_choices_new(const char *about)
{
    struct matmul_choices *choices = calloc(1, sizeof(*choices));

    if (choices)
        choices->about = strdup(about);
    if (!choices || !choices->about) {
        free(choices);
        return NULL;
    }
    for (char *at = choices->about; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    return choices;
}

void matmul_choices_free(struct matmul_choices *choices)
{
    if (!choices)
        return;
    free(choices->about);
    free(choices->list);
    free(choices);
}

const char *matmul_choices_about(const struct matmul_choices *choices)
{
    return choices->about;
}

size_t matmul_choices_count(const struct matmul_choices *choices)
{
    return choices->count;
}

/* FNV-1a */
uint64_t matmul_choices_digest(const void *data, size_t bytes)
{
    const unsigned char *from = data;
    uint64_t value = 0xcbf29ce484222325u;

    for (size_t i = 0; i < bytes; i++)
        value = (value ^ from[i]) * 0x100000001b3u;
    return value;
}

struct matmul_choice *matmul_choices_find(struct matmul_choices *choices,
                                          const struct matmul_key *key)
{
    for (size_t i = 0; i < choices->count; i++)
        if (memcmp(&choices->list[i].key, key, sizeof(*key)) == 0)
            return &choices->list[i];
    return NULL;
}

static struct matmul_choice *add(struct matmul_choices *choices,
                                 const struct matmul_key *key)
{
    size_t room = choices->room ? 2 * choices->room : 64;
    struct matmul_choice *grown;

    if (choices->count == MATMUL_CHOICES_MAX)
        return NULL;
    if (choices->count == choices->room) {
        grown = realloc(choices->list, room * sizeof(*grown));
        if (!grown)
            return NULL;
        choices->list = grown;
        choices->room = room;
    }
    choices->list[choices->count] = (struct matmul_choice) { .used = false };
    memcpy(&choices->list[choices->count].key, key, sizeof(*key));
    return &choices->list[choices->count++];
}

bool matmul_choices_use(struct matmul_choices *choices, const struct matmul_key *key,
                        uint64_t algorithm)
{
    struct matmul_choice *choice = matmul_choices_find(choices, key);

    if (!choice)
        choice = add(choices, key);
    if (!choice)
        return false;
    choice->algorithm = algorithm;
    choice->used = true;
    return true;
}

/* ---- Writing ---- */

static const char *name_of(unsigned char format)
{
    return format_info((enum format)format)->name;
}

void matmul_choices_write_one(const struct matmul_choice *choice, struct text *out)
{
    const struct matmul_key *key = &choice->key;
    size_t from = out->len;

    text_addf(out, "%s %s %s %c%c", name_of(key->a_format), name_of(key->b_format),
              name_of(key->out_format), key->trans_a ? 't' : 'n',
              key->trans_b ? 't' : 'n');
    text_addf(out, " %zu %zu %zu of %zu %zu %zu", key->rows, key->cols, key->depth,
              key->a_stride, key->b_stride, key->out_stride);
    text_addf(out, " at %u %u %u %u", key->a_aligned, key->b_aligned, key->out_aligned,
              key->bias_aligned);
    text_addf(out, " bias %u tf32 %u adds %u", key->bias, key->tf32, key->adds);
    text_addf(out, " %016llx", (unsigned long long)choice->algorithm);
    text_addf(out, " %08x", crc32c(out->data + from, out->len - from));
}

size_t matmul_choices_write(const struct matmul_choices *choices, bool all,
                            struct text *out)
{
    size_t count = 0;

    text_addf(out, HEAD "%s\n", choices->about);
    for (size_t i = 0; i < choices->count; i++)
        if (all || choices->list[i].used) {
            matmul_choices_write_one(&choices->list[i], out);
            text_addc(out, '\n');
            count++;
        }
    return count;
}

/* ---- Reading ---- */

/* Digits only. */
static bool read_number(const char *word, unsigned base, uint64_t most, uint64_t *out)
{
    char *end;

    if (!strchr("0123456789abcdef", word[0]) || strlen(word) > 20)
        return false;
    *out = strtoull(word, &end, (int)base);
    return !*end && *out <= most;
}

static bool read_size(const char *word, size_t *out)
{
    uint64_t value;
    bool ok = read_number(word, 10, SIZE_MAX, &value);

    *out = ok ? (size_t)value : 0;
    return ok;
}

static bool read_byte(const char *word, unsigned most, unsigned char *out)
{
    uint64_t value;
    bool ok = read_number(word, 10, most, &value);

    *out = ok ? (unsigned char)value : 0;
    return ok;
}

static bool read_format(const char *word, unsigned char *out)
{
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (strcmp(word, format_info((enum format)i)->name) == 0) {
            *out = (unsigned char)i;
            return true;
        }
    return false;
}

/* Return whether there are as many words as a line has. Splits the line. */
static bool split(char *line, char *words[WORDS])
{
    size_t count = 0;
    char *word;

    while ((word = strsep(&line, " "))) {
        if (!*word || count == WORDS)
            return false;
        words[count++] = word;
    }
    return count == WORDS;
}

static bool read_words(char *const *w, struct matmul_choice *out)
{
    struct matmul_key *key = &out->key;

    key->trans_a = w[3][0] == 't';
    key->trans_b = w[3][0] && w[3][1] == 't';
    return read_format(w[0], &key->a_format) && read_format(w[1], &key->b_format) &&
           read_format(w[2], &key->out_format) && read_size(w[4], &key->rows) &&
           read_size(w[5], &key->cols) && read_size(w[6], &key->depth) &&
           read_size(w[8], &key->a_stride) && read_size(w[9], &key->b_stride) &&
           read_size(w[10], &key->out_stride) &&
           read_byte(w[12], ALIGNED_MOST, &key->a_aligned) &&
           read_byte(w[13], ALIGNED_MOST, &key->b_aligned) &&
           read_byte(w[14], ALIGNED_MOST, &key->out_aligned) &&
           read_byte(w[15], ALIGNED_MOST, &key->bias_aligned) &&
           read_byte(w[17], 1, &key->bias) && read_byte(w[19], 1, &key->tf32) &&
           read_byte(w[21], 1, &key->adds) &&
           read_number(w[22], 16, UINT64_MAX, &out->algorithm);
}

/* A line is whole if writing its choice gives the same bytes. */
static bool read_line(const char *line, size_t len, struct matmul_choice *out)
{
    char copy[LINE_MAX_BYTES], *words[WORDS], *crc;
    struct text again;
    bool same;

    *out = (struct matmul_choice) { .used = false };
    if (len >= sizeof(copy) || memchr(line, 0, len))
        return false;
    memcpy(copy, line, len);
    copy[len] = 0;
    crc = strrchr(copy, ' ');
    if (!crc)
        return false;
    *crc = 0;
    if (!split(copy, words) || !read_words(words, out))
        return false;
    text_init(&again, 0);
    matmul_choices_write_one(out, &again);
    same = again.len == len && memcmp(again.data, line, len) == 0;
    text_clear(&again);
    return same;
}

static bool take(struct matmul_choices *choices, const struct matmul_choice *found,
                 bool over)
{
    struct matmul_choice *choice = matmul_choices_find(choices, &found->key);

    if (choice && choice->used && !over)
        return true;
    if (!choice)
        choice = add(choices, &found->key);
    if (!choice)
        return false;
    choice->algorithm = found->algorithm;
    choice->used = choice->used || over;
    return true;
}

static void keep_about(struct matmul_choices_text *result, const char *line, size_t len)
{
    size_t count = 0;

    for (size_t i = strlen(HEAD); i < len && count + 1 < sizeof(result->about); i++)
        result->about[count++] = line[i] < ' ' || line[i] > '~' ? '?' : line[i];
}

/* Return whether a first line is that of this table. */
static bool read_head(const struct matmul_choices *choices, const char *line, size_t len,
                      struct matmul_choices_text *result)
{
    const size_t head = strlen(HEAD);

    if (len == head + strlen(choices->about) && memcmp(line, HEAD, head) == 0 &&
        memcmp(line + head, choices->about, len - head) == 0)
        return result->headed = true;
    result->foreign = true;
    keep_about(result, line, len);
    return false;
}

static bool is_head(const char *line, size_t len)
{
    return len >= strlen(HEAD) && memcmp(line, HEAD, strlen(HEAD)) == 0;
}

/* Return the rank that a line begins, or -1. */
static int rank_of(const char *line, size_t len)
{
    int rank = 0;

    if (len <= strlen(RANK) || len > strlen(RANK) + 4 ||
        memcmp(line, RANK, strlen(RANK)) != 0)
        return -1;
    for (size_t i = strlen(RANK); i < len; i++) {
        if (line[i] < '0' || line[i] > '9')
            return -1;
        rank = 10 * rank + (line[i] - '0');
    }
    return rank;
}

static size_t line_bytes(const char *line, const char *end)
{
    const char *stop = memchr(line, '\n', (size_t)(end - line));

    return (size_t)((stop ? stop : end) - line);
}

struct matmul_choices_text matmul_choices_read(struct matmul_choices *choices,
                                               const char *text, size_t len, bool over)
{
    struct matmul_choices_text result = { .foreign = false };
    const char *end = text + len;
    bool ours = false;
    size_t bytes;

    for (const char *line = text; line < end; line += bytes + 1) {
        struct matmul_choice found;

        bytes = line_bytes(line, end);
        if (is_head(line, bytes))
            ours = read_head(choices, line, bytes, &result);
        else if (line == text && rank_of(line, bytes) < 0)
            result.damaged++;
        else if (!ours)
            continue;
        else if (read_line(line, bytes, &found) && take(choices, &found, over))
            result.read++;
        else if (bytes > 0 && rank_of(line, bytes) < 0)
            result.damaged++;
    }
    result.foreign = result.foreign && !result.headed;
    return result;
}

/* ---- The choices of several ranks ---- */

/* Return what a rank has, or else what rank 0 has. */
static const char *part_of(const char *text, size_t *len, int rank)
{
    const char *end = text + *len, *first = NULL, *from = rank == 0 ? text : NULL;
    size_t bytes;

    for (const char *line = text; line < end; line += bytes + 1) {
        bytes = line_bytes(line, end);
        if (rank_of(line, bytes) < 0)
            continue;
        if (!first)
            first = line;
        if (from) {
            *len = (size_t)(line - from);
            return from;
        }
        if (rank_of(line, bytes) == rank)
            from = line + bytes < end ? line + bytes + 1 : end;
    }
    if (from)
        *len = (size_t)(end - from);
    else if (first)
        *len = (size_t)(first - text);
    return from ? from : text;
}

void matmul_choices_join(struct text *all, int rank, const char *text)
{
    size_t len = all->len;
    const char *first = all->len > 0 ? part_of(all->data, &len, 0) : "";

    if (rank > 0 && len == strlen(text) && memcmp(first, text, len) == 0)
        return;
    if (rank > 0)
        text_addf(all, RANK "%d\n", rank);
    text_adds(all, text);
}

struct matmul_choices_text matmul_choices_replay(struct matmul_choices *choices,
                                                 const char *text, size_t len, int rank)
{
    struct matmul_choices_text result = matmul_choices_read(choices, text, len, true);
    const char *own = part_of(text, &len, rank);

    matmul_choices_read(choices, own, len, true);
    result.read = choices->count;
    return result;
}
