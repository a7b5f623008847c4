/* runner/job/repository.c - finds and reads .trainspool.toml: lines KEY = "TEXT", a subset of
 * TOML 1.0. */
#include "config.h"

#include "runner/job/repository.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"

#define FILE_MAX_BYTES ((size_t)64 << 10)

static const struct {
    const char *name;
    size_t into, room;
} keys[] = {
    { "device", offsetof(struct repository, device),
      sizeof(((struct repository *)0)->device) },
};

struct reader {
    struct repository *out;
    const char *line, *at; /* start of the line; position in it */
    uint32_t number;
    bool seen[TS_COUNT(keys)];
    struct error *err;
};

static bool refuse(const struct reader *reader, const char *message)
{
    const struct mark mark = { .line = reader->number,
                               .column = (uint32_t)(reader->at - reader->line) + 1 };

    return error_at(reader->err, ERROR_USAGE, reader->out->file, mark, "%s", message);
}

static void skip_blanks(struct reader *reader)
{
    reader->at += strspn(reader->at, " \t");
}

/* Return the index of the key at the position; TS_COUNT(keys) if there is none. */
static size_t read_key(struct reader *reader)
{
    size_t len = strcspn(reader->at, " \t=\r\n#\"'[]"), i = 0;

    while (i < TS_COUNT(keys) &&
           (strlen(keys[i].name) != len || strncmp(reader->at, keys[i].name, len) != 0))
        i++;
    if (i == TS_COUNT(keys))
        refuse(reader,
               *reader->at == '['
                   ? "expected KEY = \"TEXT\", not a table; the only key is device"
                   : "unknown key; the only key is device");
    else
        reader->at += len;
    return i;
}

/* Read a basic string, in which only \" and \\ are escapes, or a literal string. */
static bool read_string(struct reader *reader, char *out, size_t room)
{
    char quote = *reader->at;
    size_t len = 0;

    if (quote != '"' && quote != '\'')
        return refuse(reader, "the value must be a quoted string");
    for (reader->at++; *reader->at != quote; reader->at++) {
        if (*reader->at == '\0' || *reader->at == '\n' || *reader->at == '\r')
            return refuse(reader, "missing closing quote");
        if (quote == '"' && *reader->at == '\\') {
            reader->at++;
            if (*reader->at != '"' && *reader->at != '\\')
                return refuse(reader,
                              "unsupported escape; only \\\" and \\\\ are supported");
        }
        if (len + 1 == room)
            return refuse(reader, "the string is too long");
        out[len++] = *reader->at;
    }
    reader->at++;
    out[len] = '\0';
    return len > 0 || refuse(reader, "the string must not be empty");
}

static bool read_setting(struct reader *reader)
{
    size_t key = read_key(reader);

    if (key == TS_COUNT(keys))
        return false;
    if (reader->seen[key])
        return refuse(reader, "duplicate key");
    reader->seen[key] = true;
    skip_blanks(reader);
    if (*reader->at != '=')
        return refuse(reader, "expected = after the key");
    reader->at++;
    skip_blanks(reader);
    return read_string(reader, (char *)reader->out + keys[key].into, keys[key].room);
}

static bool read_line(struct reader *reader)
{
    skip_blanks(reader);
    if (!strchr("#\r\n", *reader->at) && !read_setting(reader))
        return false;
    skip_blanks(reader);
    if (*reader->at == '#')
        reader->at += strcspn(reader->at, "\n");
    if (*reader->at == '\r')
        reader->at++;
    return *reader->at == '\n' || *reader->at == '\0' ||
           refuse(reader, "expected the end of the line");
}

bool repository_read(const char *text, struct repository *out, struct error *err)
{
    struct reader reader = { .out = out, .at = text, .err = err };

    for (;;) {
        reader.line = reader.at;
        reader.number++;
        if (!read_line(&reader))
            return false;
        if (*reader.at == '\0')
            return true;
        reader.at++;
    }
}

static bool has(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    bool found = file_exists(path);

    free(path);
    return found;
}

/* Return the nearest folder with the file, malloc'ed, or NULL. */
static char *find_folder(const char *job)
{
    char *dir = path_dir(job), *at = realpath(dir, NULL), *found = NULL;
    bool in_repository = false, own = at && has(at, REPOSITORY_FILE);

    free(dir);
    while (at && !in_repository) {
        char *parent = path_dir(at);
        bool top = strcmp(parent, at) == 0;

        if (!found && has(at, REPOSITORY_FILE))
            found = memory_strdup(at);
        in_repository = has(at, ".git");
        free(at);
        at = parent;
        if (top) {
            free(at);
            at = NULL;
        }
    }
    free(at);
    if (in_repository || own)
        return found;
    free(found);
    return NULL;
}

bool repository_find(const char *job, struct repository *out, struct error *err)
{
    char *folder = find_folder(job), *name;
    struct text text;
    bool ok;

    *out = (struct repository) { 0 };
    if (!folder)
        return true;
    name = path_join(folder, REPOSITORY_FILE);
    snprintf(out->file, sizeof(out->file), "%s", name);
    text_init(&text, 0);
    ok = file_read(name, FILE_MAX_BYTES, &text, NULL, err);
    if (ok && strlen(text.data) != text.len)
        ok = error_set(err, ERROR_USAGE, "%s contains a zero byte", name);
    ok = ok && repository_read(text.data, out, err);
    text_clear(&text);
    free(name);
    free(folder);
    return ok;
}
