/* patcher/document/document_lines.c - start and end of lines, and the comments on
 * them. */
#include "config.h"

#include "patcher/document/document_internal.h"

#include <string.h>

#include "base/size.h"
#include "patcher/document/comment.h"

/* Return the length of the line end at `at` in bytes; 0 if there is none. */
static size_t break_length(const struct document *document, size_t at)
{
    const char *data = document->data + at; /* a NUL terminates the text */

    if (at >= document->len)
        return 0;
    if (data[0] == '\r')
        return data[1] == '\n' ? 2 : 1;
    if (data[0] == '\n')
        return 1;
    if (document->script)
        return 0; /* the others end no line in Python */
    if (memcmp(data, "\xc2\x85", 2) == 0)
        return 2;
    return strncmp(data, "\xe2\x80\xa8", 3) == 0 || strncmp(data, "\xe2\x80\xa9", 3) == 0
               ? 3
               : 0;
}

size_t document_line_end(const struct document *document, size_t byte)
{
    while (byte < document->len && break_length(document, byte) == 0)
        byte++;
    return byte + break_length(document, byte);
}

size_t document_line_start(const struct document *document, size_t byte)
{
    const char *data = document->data;

    for (; byte > document->positions.origin; byte--) {
        if (data[byte - 1] == '\n' || (data[byte - 1] == '\r' && data[byte] != '\n'))
            break;
        if (byte >= 2 && break_length(document, byte - 2) == 2 && data[byte - 2] != '\r')
            break;
        if (byte >= 3 && break_length(document, byte - 3) == 3)
            break;
    }
    return byte;
}

const char *document_newline(const struct document *document, size_t byte)
{
    size_t end = document_line_end(document, byte);
    const char *data = document->data;

    if (end == document->len &&
        (end == 0 || (data[end - 1] != '\n' && data[end - 1] != '\r')))
        end = document_line_start(document, byte);
    if (end >= 2 && data[end - 2] == '\r' && data[end - 1] == '\n')
        return "\r\n";
    return end >= 1 && data[end - 1] == '\r' ? "\r" : "\n";
}

/* Return the position after a quoted scalar that starts at `at` if it ends on this line,
 * otherwise `at`. */
static size_t skip_quotes(const struct document *document, size_t at, size_t end)
{
    char quote = document->data[at];

    for (size_t i = at + 1; i < end; i++) {
        if (document->data[i] == '\\' && quote == '"')
            i++;
        else if (document->data[i] == quote && quote == '\'' &&
                 document->data[i + 1] == quote)
            i++;
        else if (document->data[i] == quote)
            return i + 1;
    }
    return at;
}

/* A # starts a comment after a blank or any of YAML's line ends. */
static bool begins_word(const struct document *document, size_t at)
{
    return at == 0 || document_is_space(document->data[at - 1]) ||
           (at >= 2 && break_length(document, at - 2) == 2) ||
           (at >= 3 && break_length(document, at - 3) == 3);
}

static bool yaml_comment(const struct document *document, size_t from, size_t *at)
{
    const char *data = document->data;
    size_t end = document_line_end(document, from);

    for (size_t i = from; i < end; i++) {
        bool first = i == from || strchr(" \t,:[{", data[i - 1]);
        size_t after;

        if (data[i] == '#' && begins_word(document, i)) {
            *at = i;
            return true;
        }
        if (!first || (data[i] != '"' && data[i] != '\''))
            continue;
        after = skip_quotes(document, i, end);
        if (after > i)
            i = after - 1;
    }
    return false;
}

/* Comments of a script are known. */
static bool script_comment(const struct document *document, size_t from, size_t *at)
{
    size_t end = document_line_end(document, from);

    for (size_t i = 0; i < document->comment_count; i++) {
        *at = document->comments[i].at;
        if (*at >= from)
            return *at < end;
    }
    return false;
}

bool document_comment(const struct document *document, size_t from, size_t *at)
{
    if (document->script)
        return script_comment(document, from, at);
    return yaml_comment(document, from, at);
}

/* Return the last byte known to be outside quotes on the line of `byte`, at or after
 * it. */
static size_t outside_quotes(const struct document *document, size_t byte)
{
    size_t start = document_line_start(document, byte);
    size_t end = document_line_end(document, byte), from = byte;

    for (size_t i = 0; document->root && i < document->root->count; i++) {
        const struct entry *entry = &document->root->entries[i];
        size_t ends[] = { document_node_end(entry->key),
                          document_node_end(entry->value) };

        for (size_t k = 0; k < TS_COUNT(ends); k++)
            if (ends[k] >= start && ends[k] < end && ends[k] > from)
                from = ends[k];
    }
    return from;
}

static void find_keep(void *keeps, const struct comment_word *word)
{
    *(bool *)keeps |= word->kind == COMMENT_KEEP;
}

/* Return whether the comment on the line of `byte` has keep. */
static bool line_keeps(const struct document *document, size_t byte)
{
    size_t end = document_line_end(document, byte), at;
    bool keeps = false;

    if (!document_comment(document, outside_quotes(document, byte), &at))
        return false;
    while (end > at && document_is_space(document->data[end - 1]))
        end--;
    comment_read(document->data, at, end, find_keep, &keeps);
    return keeps;
}

/* Check the line of the position and the line where its value ends. */
bool document_line_keeps(const struct document *document, struct mark at)
{
    if (line_keeps(document, at.byte))
        return true;
    for (size_t i = 0; document->root && i < document->root->count; i++) {
        const struct entry *entry = &document->root->entries[i];

        if (at.byte < entry->key->at.byte || at.byte >= document_node_end(entry->value))
            continue;
        if (line_keeps(document, document_node_end(entry->value)))
            return true;
    }
    return false;
}
