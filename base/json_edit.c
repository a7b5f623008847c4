/* base/json_edit.c - replaces or adds a top-level member in the text of a JSON object. */
#include "config.h"

#include "base/json_edit.h"

#include <stdlib.h>
#include <string.h>

/* Positions in the text, which has been parsed: it is known to be valid. */
struct members {
    size_t open;         /* the brace */
    size_t last_key;     /* where the last member's key starts; open: no member */
    size_t last_end;     /* after the last member's value; open + 1: no member */
    size_t value, after; /* of the member that was searched for; 0: absent */
};

static size_t skip_blank(const char *data, size_t at)
{
    return at + strspn(data + at, " \t\r\n");
}

/* Return the position after the string that starts at `at`. */
static size_t skip_string(const char *data, size_t at)
{
    for (at++; data[at] != '"'; at++)
        at += data[at] == '\\';
    return at + 1;
}

static size_t skip_value(const char *data, size_t at)
{
    size_t depth = 0;

    if (data[at] != '"' && data[at] != '{' && data[at] != '[')
        return at + strcspn(data + at, ",}] \t\r\n");
    do {
        depth += data[at] == '{' || data[at] == '[';
        depth -= data[at] == '}' || data[at] == ']';
        at = data[at] == '"' ? skip_string(data, at) : at + 1;
    } while (depth > 0);
    return at;
}

static struct members find_members(const char *data, const char *key)
{
    size_t open = strcspn(data, "{"), at = skip_blank(data, open + 1);
    struct members found = { .open = open, .last_key = open, .last_end = open + 1 };

    while (data[at] == '"') {
        size_t name = at + 1, value;

        found.last_key = at;
        at = skip_string(data, at);
        value = skip_blank(data, skip_blank(data, at) + 1); /* past the colon */
        if (at - name == strlen(key) + 1 && strncmp(data + name, key, strlen(key)) == 0)
            found.value = value;
        found.last_end = skip_value(data, value);
        if (found.value == value)
            found.after = found.last_end;
        at = skip_blank(data, found.last_end);
        at = data[at] == ',' ? skip_blank(data, at + 1) : at;
    }
    return found;
}

/* Append what comes between two members: the line break and the indentation in front of
 * the last one. */
static void add_gap(struct text *out, const char *data, const struct members *members)
{
    size_t start = members->last_key;

    while (start > 0 && strchr(" \t\r\n", data[start - 1]))
        start--;
    text_add(out, data + start, members->last_key - start);
}

static void add_member(struct text *out, const char *data, const struct members *members,
                       const char *key)
{
    bool first = members->last_key == members->open;

    if (!first) {
        text_addc(out, ',');
        add_gap(out, data, members);
    } else if (data[members->open + 1] == '\n') {
        text_adds(out, "\n  ");
    }
    text_addf(out, "\"%s\": ", key);
}

bool json_edit_set(struct text *text, const char *key, const json_t *value,
                   const char *where, struct error *err)
{
    json_t *parsed = json_read_loose(text->data, text->len, where, 1, err);
    struct members members;
    struct text out;
    size_t from, to;
    bool ok = json_is_object(parsed);

    if (!ok) {
        json_decref(parsed);
        return error_set(err, ERROR_DATA, "%s: expected a JSON object", where);
    }
    json_decref(parsed);
    members = find_members(text->data, key);
    from = members.value ? members.value : members.last_end;
    to = members.value ? members.after : members.last_end;
    text_init(&out, text->max);
    text_add(&out, text->data, from);
    if (!members.value)
        add_member(&out, text->data, &members, key);
    ok = json_write(value, &out) && text_add(&out, text->data + to, text->len - to);
    if (ok) {
        text_clear(text);
        *text = out;
        return true;
    }
    text_clear(&out);
    return error_set(err, ERROR_DATA, "%s: the file is too long", where);
}
