/* base/lease_file.c - "trainspool-lease 1 held HOST BOOT TOKEN COUNT". */
#include "config.h"

#include "base/lease_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/file.h"

#define HEAD "trainspool-lease 1 "

/* The machine's name, without what would end a word of the file. */
static void host_name(char out[65])
{
    if (gethostname(out, 65) != 0 || !out[0])
        snprintf(out, 65, "?");
    out[64] = 0;
    for (char *p = out; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 127)
            *p = '_';
}

static void boot_name(char out[37])
{
    struct text text;

    snprintf(out, 37, "?");
    text_init(&text, 64);
    if (file_read("/proc/sys/kernel/random/boot_id", 64, &text, NULL, NULL) &&
        text.len >= 36)
        snprintf(out, 37, "%.36s", text.data);
    text_clear(&text);
}

bool lease_new(struct lease *out, struct error *err)
{
    *out = (struct lease) { 0 };
    host_name(out->host);
    boot_name(out->boot);
    return getrandom(&out->token, sizeof(out->token), 0) == sizeof(out->token) ||
           error_errno(err, "cannot get random bytes");
}

void lease_write(const struct lease *lease, struct text *out)
{
    text_addf(out, HEAD "%s %s %s %016" PRIx64 " %016" PRIx64 "\n",
              lease->free ? "free" : "held", lease->host, lease->boot, lease->token,
              (uint64_t)lease->count);
}

/* Copy the word at *at, which must fit, and step over the space or the end of the line
 * after it. */
static bool take_word(const char **at, const char *end, char *out, size_t room)
{
    size_t len = 0;

    while (*at + len < end && (*at)[len] > ' ' && (*at)[len] < 127)
        len++;
    if (len == 0 || len >= room || *at + len >= end)
        return false;
    memcpy(out, *at, len);
    out[len] = 0;
    *at += len + 1;
    return (*at)[-1] == (*at == end ? '\n' : ' ');
}

static bool take_number(const char **at, const char *end, uint64_t *out)
{
    char word[17], *stop;

    if (!take_word(at, end, word, sizeof(word)) || strlen(word) != 16 ||
        strspn(word, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(word, &stop, 16);
    return true;
}

bool lease_read(const char *text, size_t len, struct lease *out)
{
    const char *at = text + strlen(HEAD), *end = text + len;
    char state[5];
    uint64_t count;

    *out = (struct lease) { 0 };
    if (len <= strlen(HEAD) || memcmp(text, HEAD, strlen(HEAD)) != 0 ||
        !take_word(&at, end, state, sizeof(state)) ||
        !take_word(&at, end, out->host, sizeof(out->host)) ||
        !take_word(&at, end, out->boot, sizeof(out->boot)) ||
        !take_number(&at, end, &out->token) || !take_number(&at, end, &count) ||
        at != end || count > INT64_MAX)
        return false;
    out->free = strcmp(state, "free") == 0;
    out->count = (int64_t)count;
    return out->free || strcmp(state, "held") == 0;
}

bool lease_is_here(const struct lease *lease)
{
    char host[65], boot[37];

    host_name(host);
    boot_name(boot);
    return strcmp(lease->host, host) == 0 && strcmp(lease->boot, boot) == 0 &&
           strcmp(boot, "?") != 0;
}
