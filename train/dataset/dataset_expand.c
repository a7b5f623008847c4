/* train/dataset/dataset_expand.c - placeholders, in the order of the text, and media. */
#include "config.h"

#include "train/dataset/dataset_expand.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/dataset/dataset_media_files.h"
#include "train/media/media_family.h"

static const char video[] = "<video>";

struct dataset_expand {
    const struct dataset_reading *reading;
    struct dataset_store *store;
    struct dataset_media_files *files;
    struct template_media media;
    /* of the present conversation, with the same room: what template_media lists, and the
     * media of the store */
    struct template_medium *list;
    uint32_t *items;
    size_t room;
    struct text inserted; /* what stands for a medium in a text */
    int64_t model_token;  /* the id in config.json; -1: unknown */
    bool reads_media;
    bool walks; /* through a record: what is wrong is that record */
};

/* ---- What the job reads ---- */

static const char *token_of(const struct dataset_expand *expand, enum media_kind kind)
{
    return template_media_token(expand->reading->chat, kind);
}

/* Return whether the template writes the token of the model's family, as a model's own
 * template does, and texts without one. */
static bool fits(const struct dataset_expand *expand, const struct media_family *family)
{
    const struct chat_template *chat = expand->reading->chat;
    const char *token = chat ? token_of(expand, family->kind) : NULL;

    if (!chat || template_model_chat(chat))
        return true;
    return token && strcmp(token, family->template_token ? family->template_token
                                                         : family->token) == 0;
}

struct dataset_expand *dataset_expand_new(const struct dataset_reading *reading,
                                          struct dataset_store *store)
{
    struct dataset_expand *expand = memory_alloc(sizeof(*expand));
    const struct tokenizer *tokenizer = reading->tokenizer;
    const struct media_family *family;

    expand->reading = reading;
    expand->store = store;
    expand->files = dataset_media_files_new(reading, store);
    text_init(&expand->inserted, 0);
    family = dataset_media_files_family(expand->files);
    expand->reads_media = family && fits(expand, family);
    if (!expand->reads_media)
        return expand;
    expand->media = (struct template_media) {
        .family = family,
        .token = tokenizer_find(tokenizer, family->token),
        .row_end = family->row_end ? tokenizer_find(tokenizer, family->row_end) : -1,
        .end = family->end ? tokenizer_find(tokenizer, family->end) : -1,
        .row = tokenizer_find(tokenizer, media_family_row_token(family)),
    };
    expand->model_token = media_family_token(family, reading->plan->model_name_or_path);
    template_media_write(family, reading->chat, &expand->inserted);
    return expand;
}

void dataset_expand_free(struct dataset_expand *expand)
{
    dataset_media_files_free(expand->files);
    text_clear(&expand->inserted);
    free(expand->list);
    free(expand->items);
    free(expand->media.spans);
    free(expand);
}

struct template_media *dataset_expand_media(struct dataset_expand *expand)
{
    return expand->reads_media ? &expand->media : NULL;
}

/* Fail for a job whose model or template has no such media. */
static bool fail_kind(const struct dataset_expand *expand, enum media_kind kind,
                      struct error *err)
{
    const struct media_family *family = dataset_media_files_family(expand->files);
    const char *model_type = dataset_media_files_model(expand->files);
    const char *token = NULL;
    struct text has;

    if (!family || family->kind != kind)
        return error_set(
            err, ERROR_DATA,
            "the record has %s, and trainspool cannot give those to a model of "
            "model_type %s; remove the column, and its placeholders in the text, to "
            "train on the text alone",
            media_nouns(kind), model_type ? model_type : "unknown");
    token = expand->reading->chat ? token_of(expand, kind) : NULL;
    text_init(&has, 0);
    if (token)
        text_addf(&has, "writes %s for %s, and the model reads %s", token,
                  media_one(kind), family->token);
    else
        text_addf(&has, "has no token for %s", media_nouns(kind));
    error_set(err, ERROR_DATA, "the template %s %s; use %s%s",
              expand->reading->chat ? template_row_name(expand->reading->chat) : "",
              has.data, family->templates ? "template: " : "",
              family->templates ? family->templates
                                : "the model's own, without the key template");
    text_clear(&has);
    return false;
}

static bool check_tokens(const struct dataset_expand *expand, struct error *err)
{
    const struct media_family *family = expand->media.family;
    const char *row = media_family_row_token(family);
    const char *missing = expand->media.token < 0                        ? family->token
                          : expand->media.row < 0                        ? row
                          : family->row_end && expand->media.row_end < 0 ? family->row_end
                          : family->end && expand->media.end < 0         ? family->end
                                                                         : NULL;

    if (missing)
        return error_set(err, ERROR_DATA,
                         "the tokenizer has no token %s, which models of model_type %s "
                         "read for %s",
                         missing, family->model_type, media_one(family->kind));
    return expand->model_token < 0 || expand->model_token == expand->media.row ||
           error_set(
               err, ERROR_DATA,
               "config.json of the model reads %s at token %lld, and %s is token %lld "
               "of the tokenizer; these files are not of one model",
               media_nouns(family->kind), (long long)expand->model_token, family->token,
               (long long)expand->media.token);
}

/* ---- Placeholders ---- */

/* State while the messages of a record are read. */
struct walk {
    struct dataset_expand *expand;
    struct conversation *record;
    const struct dataset_position *position;       /* of the record */
    size_t found[MEDIA_KINDS], taken[MEDIA_KINDS]; /* placeholders; media */
    size_t next[MEDIA_KINDS]; /* where to look for the next of a column */
    struct error *err;
};

static bool fail_counts(const struct walk *walk, enum media_kind kind)
{
    size_t media = 0, placeholders = walk->found[kind];
    const char *mark = media_placeholder(kind);

    for (size_t i = 0; i < walk->record->media_count; i++)
        media += walk->record->media[i].kind == kind;
    if (media == 0)
        return error_set(walk->err, ERROR_DATA,
                         "the messages have %s, which stands for %s, and the record has "
                         "none: name its column in dataset_info.json, or write the text "
                         "in another way",
                         mark, media_one(kind));
    return error_set(walk->err, ERROR_DATA,
                     "the record has %zu %s for %zu %s in its messages; add or remove %s "
                     "where %s belongs in the text",
                     media, media == 1 ? media_noun(kind) : media_nouns(kind),
                     placeholders, mark, mark, media_one(kind));
}

/* Find the medium of a placeholder; NULL: there is none. */
static const struct record_medium *find_medium(struct walk *walk, enum media_kind kind,
                                               const struct message *message, size_t at)
{
    const struct conversation *record = walk->record;

    for (size_t i = 0; i < record->media_count; i++)
        if (record->media[i].text == message->text && record->media[i].at == at)
            return &record->media[i];
    while (walk->next[kind] < record->media_count) {
        const struct record_medium *medium = &record->media[walk->next[kind]++];

        if (medium->kind == kind && !medium->text)
            return medium;
    }
    return NULL;
}

static void grow(struct dataset_expand *expand)
{
    if (expand->media.count < expand->room)
        return;
    expand->room = expand->room ? 2 * expand->room : 16;
    expand->list = memory_resize(expand->list, expand->room, sizeof(*expand->list));
    expand->items = memory_resize(expand->items, expand->room, sizeof(*expand->items));
    expand->media.spans =
        memory_resize(expand->media.spans, expand->room, sizeof(*expand->media.spans));
    expand->media.list = expand->list;
}

static struct template_medium medium_of(const struct media_family *family,
                                        const struct stored_medium *stored)
{
    struct template_medium out = { .rows = family->beside ? 1 : stored->rows };
    const uint32_t down =
        (uint32_t)(family->row_end ? stored->grid[1] / family->merge : 0);
    const uint32_t across =
        (uint32_t)(family->row_end ? stored->grid[2] / family->merge : 0);

    if (family->patch) {
        const uint32_t side = media_family_tile(stored->rows, down, across);

        out.tile = side * side;
        out.across = side > 0 ? across / side : 0;
    } else {
        out.columns = across;
    }
    return out;
}

static bool add_medium(struct walk *walk, enum media_kind kind,
                       const struct message *message, size_t at)
{
    struct dataset_expand *expand = walk->expand;
    const struct record_medium *medium = find_medium(walk, kind, message, at);
    const struct stored_medium *stored;
    size_t index = expand->media.count;

    walk->found[kind]++;
    if (!medium)
        return true; /* counted at the end */
    walk->taken[kind]++;
    grow(expand);
    if (!dataset_media_files_find(expand->files, walk->position, medium,
                                  &expand->items[index], walk->err))
        return false;
    stored = &expand->store->media[expand->items[index]];
    expand->list[index] = medium_of(expand->media.family, stored);
    expand->media.count++;
    return true;
}

/* Return the length of a numbered placeholder at the start of a text; 0: there is none. */
static size_t numbered_placeholder(const struct walk *walk, const char *text, size_t len,
                                   size_t *number)
{
    const char *start = walk->expand->media.family->numbered;
    size_t at = start ? strlen(start) : 0, first = at;

    if (!start || len < at || memcmp(text, start, at) != 0)
        return 0;
    for (*number = 0; at < len && at < first + 6 && isdigit((unsigned char)text[at]);
         at++)
        *number = *number * 10 + (size_t)(text[at] - '0');
    return at > first && len - at >= 2 && memcmp(text + at, "|>", 2) == 0 ? at + 2 : 0;
}

/* Sounds are given in the order of their placeholders, which say the same. */
static bool check_number(const struct walk *walk, size_t number)
{
    const struct media_family *family = walk->expand->media.family;
    const size_t next = walk->found[family->kind] + 1;

    return number == next ||
           error_set(
               walk->err, ERROR_DATA,
               "the messages have %s%zu|>, where %s%zu|> is the next; number %s from "
               "1 in the order of the text, or write %s",
               family->numbered, number, family->numbered, next,
               media_nouns(family->kind), media_placeholder(family->kind));
}

/* A placeholder in a text. */
struct placeholder {
    int kind;           /* -1: there is none */
    size_t len, number; /* 0: it has no number */
};

/* Find the next placeholder in a text from byte *at on. */
static struct placeholder next_placeholder(const struct walk *walk, const char *text,
                                           size_t len, size_t *at)
{
    struct placeholder out = { .kind = -1 };

    for (const char *from = text + *at; (from = memchr(from, '<', len - *at)); from++) {
        size_t left = len - (size_t)(from - text);

        *at = (size_t)(from - text);
        for (int kind = 0; kind < MEDIA_KINDS; kind++) {
            const char *mark = media_placeholder((enum media_kind)kind);

            if (left >= strlen(mark) && memcmp(from, mark, strlen(mark)) == 0)
                return (struct placeholder) { .kind = kind, .len = strlen(mark) };
        }
        out.len = numbered_placeholder(walk, from, left, &out.number);
        if (out.len > 0) {
            out.kind = (int)walk->expand->media.family->kind;
            return out;
        }
        if (left >= strlen(video) && memcmp(from, video, strlen(video)) == 0) {
            error_set(
                walk->err, ERROR_DATA,
                "the messages have %s, and videos are not supported; give frames as "
                "images, or write the text in another way",
                video);
            return out;
        }
        ++*at;
    }
    return out;
}

/* Write a text with what stands for media in place of placeholders; return false if it has
 * none, or with *err. media: add the media, too. */
static bool replace(struct walk *walk, const struct message *message, bool media,
                    struct text *out)
{
    const enum media_kind own = walk->expand->media.family->kind;
    size_t from = 0, at = 0;
    struct placeholder mark;

    while ((mark = next_placeholder(walk, message->text, message->len, &at)).kind >= 0) {
        const enum media_kind kind = (enum media_kind)mark.kind;

        if (media && mark.number > 0 && !check_number(walk, mark.number))
            return false;
        if (media &&
            !(kind == own ? add_medium(walk, own, message, at) : fail_counts(walk, kind)))
            return false;
        text_add(out, message->text + from, at - from);
        text_add(out, walk->expand->inserted.data, walk->expand->inserted.len);
        from = at += mark.len;
    }
    text_add(out, message->text + from, message->len - from);
    if (out->overflow)
        error_set(walk->err, ERROR_DATA, "a message is too long with its media");
    return from > 0;
}

/* The parts of a message that a model's own template reads: placeholders in their texts
 * are those of the message. */
static bool replace_parts(struct walk *walk, struct message *message)
{
    json_t *own = json_deep_copy(message->own);
    json_t *parts = json_object_get(own, "content");
    bool changed = false;

    for (size_t i = 0; i < json_array_size(parts); i++) {
        json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");
        const struct message plain = { .text = json_string_value(text),
                                       .len = json_string_length(text) };
        struct text out;

        if (!json_is_string(text))
            continue;
        text_init(&out, 0);
        if (replace(walk, &plain, false, &out)) {
            json_object_set_new(part, "text", json_stringn(out.data, out.len));
            changed = true;
        }
        text_clear(&out);
    }
    if (changed)
        message->own = conversation_keep(walk->record, own);
    else
        json_decref(own);
    return walk->err->code == ERROR_NONE;
}

static bool mark_message(struct walk *walk, struct message *message)
{
    struct message marked;
    struct text out;

    text_init(&out, 0);
    if (!replace(walk, message, true, &out) || walk->err->code != ERROR_NONE) {
        text_clear(&out);
        return walk->err->code == ERROR_NONE;
    }
    marked = conversation_own(walk->record, &out);
    message->text = marked.text;
    message->len = marked.len;
    return !json_is_array(json_object_get(message->own, "content")) ||
           replace_parts(walk, message);
}

static bool check_kinds(const struct dataset_expand *expand,
                        const struct conversation *record, struct error *err)
{
    for (size_t i = 0; i < record->media_count; i++)
        if (!expand->reads_media || record->media[i].kind != expand->media.family->kind)
            return fail_kind(expand, record->media[i].kind, err);
    return record->media_count == 0 || check_tokens(expand, err);
}

static bool check_head(const struct walk *walk, const struct message *message)
{
    const struct conversation *record = walk->record;

    for (size_t i = 0; i < record->media_count; i++)
        if (record->media[i].text == message->text)
            return error_set(walk->err, ERROR_DATA,
                             "the system message has %s; move it to a question",
                             media_one(record->media[i].kind));
    return true;
}

/* Return whether each placeholder has a medium, and each medium of a column a placeholder.
 * Those that are parts of messages have theirs. */
static bool all_taken(const struct walk *walk, enum media_kind kind)
{
    const struct conversation *record = walk->record;

    for (size_t i = walk->next[kind]; i < record->media_count; i++)
        if (!record->media[i].text && record->media[i].kind == kind)
            return false;
    return walk->taken[kind] == walk->found[kind];
}

bool dataset_expand_mark(struct dataset_expand *expand,
                         const struct dataset_position *position,
                         struct conversation *record, struct message *messages,
                         size_t count, struct error *err)
{
    struct error first = { 0 };
    struct walk walk = {
        .expand = expand,
        .record = record,
        .position = position,
        .err = err ? err : &first,
    };
    enum media_kind kind = MEDIA_IMAGE;

    expand->media.count = expand->media.span_count = 0;
    expand->walks = false;
    if (!check_kinds(expand, record, walk.err))
        return false;
    if (!expand->reads_media)
        return true;
    kind = expand->media.family->kind;
    expand->walks = true;
    for (size_t i = 0; i < count; i++)
        if (!(messages[i].role > ROLE_TOOLS ? mark_message(&walk, &messages[i])
                                            : check_head(&walk, &messages[i])))
            return false;
    return all_taken(&walk, kind) || fail_counts(&walk, kind);
}

bool dataset_expand_blames_record(const struct dataset_expand *expand)
{
    return expand->walks && dataset_media_files_are_usable(expand->files);
}

const struct media_span *dataset_expand_spans(struct dataset_expand *expand,
                                              size_t *count)
{
    struct template_media *media = &expand->media;

    *count = media->span_count;
    for (size_t i = 0; i < media->span_count; i++)
        media->spans[i].medium = expand->items[media->spans[i].medium];
    media->span_count = 0; /* they are mapped once */
    return media->spans;
}

void dataset_expand_note(const struct dataset_expand *expand, struct dataset_notes *notes)
{
    dataset_media_files_note(expand->files, notes);
}
