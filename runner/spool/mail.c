/* runner/spool/mail.c - writes headers in ASCII and bodies in UTF-8. */
#include "config.h"

#include "runner/spool/mail.h"

#include <string.h>

enum { ADDRESS_MAX = 254 };
/* Bytes of a line: RFC 5322 allows 998; of an encoded word: 75 characters, of which 12
 * surround it, and each byte takes 3 (RFC 2047). */
enum { LINE_MAX_BYTES = 900, WORD_BYTES = 21 };

bool mail_check_address(const char *address, struct error *err)
{
    const char *at = strchr(address, '@');

    for (const char *byte = address; *byte; byte++)
        if (*byte <= ' ' || *byte > '~' || strchr("<>()[],;:\\\"", *byte))
            return error_set(err, ERROR_USAGE,
                             "--mail must be one address of ASCII characters without "
                             "spaces, quotes or brackets, not %s",
                             address);
    if (address[0] == '-' || !at || at == address || !at[1] || strchr(at + 1, '@') ||
        strlen(address) > ADDRESS_MAX)
        return error_set(err, ERROR_USAGE, "--mail must be an address, not %s", address);
    return true;
}

static size_t character_bytes(const char *at)
{
    size_t bytes = 1;

    while (((unsigned char)at[bytes] & 0xc0) == 0x80)
        bytes++;
    return bytes;
}

static bool is_ascii(const struct text *text)
{
    for (size_t i = 0; i < text->len; i++)
        if ((unsigned char)text->data[i] >= 0x80)
            return false;
    return true;
}

/* Append a text as encoded words, one per line of the header. */
static void add_words(struct text *out, const struct text *text)
{
    for (size_t at = 0; at < text->len;) {
        size_t end = at;

        while (end < text->len &&
               end + character_bytes(text->data + end) - at <= WORD_BYTES)
            end += character_bytes(text->data + end);
        text_adds(out, at ? "\n =?UTF-8?Q?" : "=?UTF-8?Q?");
        for (; at < end; at++)
            text_addf(out, "=%02X", (unsigned char)text->data[at]);
        text_adds(out, "?=");
    }
}

static void add_subject(const struct mail *mail, struct text *out)
{
    struct text shown;

    text_init(&shown, 0);
    text_add_visible(&shown, mail->job, strlen(mail->job));
    text_adds(out, "Subject: trainspool: ");
    if (is_ascii(&shown))
        text_adds(out, shown.data);
    else
        add_words(out, &shown);
    text_addf(out, " %s\n", mail->state);
    text_clear(&shown);
}

/* Append a line of the body; a long one is divided. */
static void add_line(struct text *out, const char *title, const char *value)
{
    struct text shown;
    size_t from = 0;

    if (!value[0])
        return;
    text_init(&shown, 0);
    text_add_visible(&shown, value, strlen(value));
    text_adds(out, title);
    for (size_t at = 0; at < shown.len;) {
        size_t bytes = character_bytes(shown.data + at);

        if (at + bytes - from > LINE_MAX_BYTES) {
            text_addc(out, '\n');
            from = at;
        }
        text_add(out, shown.data + at, bytes);
        at += bytes;
    }
    text_addc(out, '\n');
    text_clear(&shown);
}

bool mail_write(const struct mail *mail, struct text *out)
{
    text_addf(out, "To: <%s>\n", mail->address);
    add_subject(mail, out);
    text_adds(out, "Auto-Submitted: auto-generated\n"
                   "MIME-Version: 1.0\n"
                   "Content-Type: text/plain; charset=UTF-8\n"
                   "Content-Transfer-Encoding: 8bit\n"
                   "\n");
    add_line(out, "job:    ", mail->job);
    add_line(out, "state:  ", mail->state);
    add_line(out, "reason: ", mail->reason);
    add_line(out, "file:   ", mail->path);
    return !out->overflow;
}
