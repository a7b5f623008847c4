/* train/tokenizer/sentencepiece.h - reader of tokenizer.model, SentencePiece's format: a
 * message of protocol buffers (sentencepiece/src/sentencepiece_model.proto). */
#ifndef TRAIN_TOKENIZER_SENTENCEPIECE_H
#define TRAIN_TOKENIZER_SENTENCEPIECE_H

#include "base/text.h"

/* A string of the file; not NUL-terminated. */
struct sentencepiece_text {
    const char *data;
    size_t len;
};

enum sentencepiece_type {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN = 2,
    PIECE_CONTROL = 3,
    PIECE_USER = 4,
    PIECE_UNUSED = 5,
    PIECE_BYTE = 6,
};

struct sentencepiece {
    struct sentencepiece_text text; /* UTF-8 without NULs */
    float score;
    int64_t type;
};

enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

struct sentencepiece_model {
    struct sentencepiece *pieces; /* malloc'ed; by id */
    size_t count, room;
    int64_t type; /* MODEL_ */
    bool byte_fallback, suffix_blanks;
    int64_t unk, bos, eos, pad; /* ids; negative: none */
    struct sentencepiece_text unk_piece, bos_piece, eos_piece;
    struct sentencepiece_text charsmap;
    bool dummy_prefix, removes_blanks, escapes_blanks;
};

/* Parse a file, which must stay in memory as long as *out.  ERROR_DATA names `where`. */
bool sentencepiece_read(const char *data, size_t len, struct sentencepiece_model *out,
                        const char *where, struct error *err);
void sentencepiece_clear(struct sentencepiece_model *model);

#endif
