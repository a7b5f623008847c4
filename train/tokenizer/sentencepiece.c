/* train/tokenizer/sentencepiece.c - parser of the message, with tables of the fields that
 * decide ids.  Others are skipped, so their depth does not matter.  Encoding:
 * protobuf.dev/programming-guides/encoding. */
#include "config.h"

#include "train/tokenizer/sentencepiece.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"

/* A published vocabulary has a quarter of a million. */
#define PIECES_MAX ((size_t)1 << 24)

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct input {
    const unsigned char *at, *end;
};

/* A field as it is in the file. */
struct field {
    uint64_t number;
    enum wire wire;
    uint64_t value; /* of a varint, or 4 or 8 bytes */
    struct sentencepiece_text bytes;
};

static bool take_varint(struct input *in, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        unsigned char byte = *in->at++;

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool take_fixed(struct input *in, size_t bytes, uint64_t *out)
{
    if ((size_t)(in->end - in->at) < bytes)
        return false;
    *out = 0;
    for (size_t i = 0; i < bytes; i++)
        *out |= (uint64_t)*in->at++ << (8 * i);
    return true;
}

static bool take_field(struct input *in, struct field *out)
{
    uint64_t key, len;

    if (!take_varint(in, &key))
        return false;
    *out = (struct field) { .number = key >> 3, .wire = (enum wire)(key & 7) };
    switch (out->wire) {
    case WIRE_VARINT:
        return take_varint(in, &out->value);
    case WIRE_64:
        return take_fixed(in, 8, &out->value);
    case WIRE_32:
        return take_fixed(in, 4, &out->value);
    case WIRE_BYTES:
        if (!take_varint(in, &len) || len > (uint64_t)(in->end - in->at))
            return false;
        out->bytes = (struct sentencepiece_text) { (const char *)in->at, len };
        in->at += len;
        return true;
    default:
        return false;
    }
}

/* Where a field goes. */
enum target { TO_INT, TO_BOOL, TO_FLOAT, TO_TEXT };

struct row {
    uint64_t number;
    enum target target;
    size_t into;
};

#define PIECE(member) offsetof(struct sentencepiece, member)
#define MODEL(member) offsetof(struct sentencepiece_model, member)

static const struct row piece_rows[] = {
    { 1, TO_TEXT, PIECE(text) },
    { 2, TO_FLOAT, PIECE(score) },
    { 3, TO_INT, PIECE(type) },
};

static const struct row trainer_rows[] = {
    { 3, TO_INT, MODEL(type) },
    { 24, TO_BOOL, MODEL(suffix_blanks) },
    { 35, TO_BOOL, MODEL(byte_fallback) },
    { 40, TO_INT, MODEL(unk) },
    { 41, TO_INT, MODEL(bos) },
    { 42, TO_INT, MODEL(eos) },
    { 43, TO_INT, MODEL(pad) },
    { 45, TO_TEXT, MODEL(unk_piece) },
    { 46, TO_TEXT, MODEL(bos_piece) },
    { 47, TO_TEXT, MODEL(eos_piece) },
};

static const struct row normalizer_rows[] = {
    { 2, TO_TEXT, MODEL(charsmap) },
    { 3, TO_BOOL, MODEL(dummy_prefix) },
    { 4, TO_BOOL, MODEL(removes_blanks) },
    { 5, TO_BOOL, MODEL(escapes_blanks) },
};

static void store(const struct row *row, const struct field *field, void *out)
{
    void *into = (char *)out + row->into;
    uint32_t bits = (uint32_t)field->value;

    if (row->target == TO_TEXT && field->wire == WIRE_BYTES)
        *(struct sentencepiece_text *)into = field->bytes;
    else if (row->target == TO_FLOAT && field->wire == WIRE_32)
        memcpy(into, &bits, sizeof(float));
    else if (row->target == TO_BOOL && field->wire == WIRE_VARINT)
        *(bool *)into = field->value != 0;
    else if (row->target == TO_INT && field->wire == WIRE_VARINT)
        *(int64_t *)into = (int32_t)bits;
}

/* Read a message of one of the tables. */
static bool read_message(const struct sentencepiece_text *bytes, const struct row *rows,
                         size_t count, void *out)
{
    struct input in = { (const unsigned char *)bytes->data,
                        (const unsigned char *)bytes->data + bytes->len };
    struct field field;

    while (in.at < in.end) {
        if (!take_field(&in, &field))
            return false;
        for (size_t i = 0; i < count; i++)
            if (rows[i].number == field.number)
                store(&rows[i], &field, out);
    }
    return true;
}

static bool read_piece(struct sentencepiece_model *m,
                       const struct sentencepiece_text *bytes)
{
    struct sentencepiece piece = { .text = { "", 0 }, .type = PIECE_NORMAL };

    if (m->count == PIECES_MAX ||
        !read_message(bytes, piece_rows, TS_COUNT(piece_rows), &piece) ||
        !isfinite(piece.score) || piece.text.len == 0 ||
        memchr(piece.text.data, 0, piece.text.len) ||
        !text_is_utf8(piece.text.data, piece.text.len, NULL))
        return false;
    if (m->count == m->room) {
        m->room = 2 * m->room + 1024;
        m->pieces = memory_resize(m->pieces, m->room, sizeof(*m->pieces));
    }
    m->pieces[m->count++] = piece;
    return true;
}

/* Read the parts of the model: its pieces, how it was trained, how it normalizes. */
static bool read_model(struct input *in, struct sentencepiece_model *m)
{
    struct field field;
    bool ok = true;

    while (ok && in->at < in->end) {
        ok = take_field(in, &field);
        if (!ok || field.wire != WIRE_BYTES)
            continue;
        if (field.number == 1)
            ok = read_piece(m, &field.bytes);
        else if (field.number == 2)
            ok = read_message(&field.bytes, trainer_rows, TS_COUNT(trainer_rows), m);
        else if (field.number == 3)
            ok =
                read_message(&field.bytes, normalizer_rows, TS_COUNT(normalizer_rows), m);
    }
    return ok && m->count > 0;
}

/* A string may have any bytes in the format, and is used as UTF-8. */
static bool check_texts(const struct sentencepiece_model *m)
{
    const struct sentencepiece_text *const texts[] = { &m->unk_piece, &m->bos_piece,
                                                       &m->eos_piece };

    for (size_t i = 0; i < TS_COUNT(texts); i++)
        if (memchr(texts[i]->data, 0, texts[i]->len) ||
            !text_is_utf8(texts[i]->data, texts[i]->len, NULL))
            return false;
    return true;
}

bool sentencepiece_read(const char *data, size_t len, struct sentencepiece_model *out,
                        const char *where, struct error *err)
{
    struct input in = { (const unsigned char *)data, (const unsigned char *)data + len };

    *out = (struct sentencepiece_model) {
        .type = MODEL_UNIGRAM,
        .bos = 1,
        .eos = 2,
        .pad = -1,
        .unk_piece = { "<unk>", 5 },
        .bos_piece = { "<s>", 3 },
        .eos_piece = { "</s>", 4 },
        .charsmap = { "", 0 },
        .dummy_prefix = true,
        .removes_blanks = true,
        .escapes_blanks = true,
    };
    if (!read_model(&in, out) || !check_texts(out))
        error_set(err, ERROR_DATA, "%s: the file is not SentencePiece's, or is damaged",
                  where);
    else if (out->type != MODEL_UNIGRAM && out->type != MODEL_BPE)
        error_set(err, ERROR_DATA,
                  "%s: a model of words or characters is not supported, only BPE and "
                  "unigram",
                  where);
    else if (out->suffix_blanks)
        error_set(err, ERROR_DATA, "%s: treat_whitespace_as_suffix is not supported",
                  where);
    else
        return true;
    sentencepiece_clear(out);
    return false;
}

void sentencepiece_clear(struct sentencepiece_model *model)
{
    free(model->pieces);
    model->pieces = NULL;
}
