/* train/files/pickle.c - writer of Python's pickle format. */
#include "config.h"

#include "train/files/pickle.h"

#include <string.h>

/* Named as in Lib/pickle.py. */
enum opcode {
    MARK = '(',
    STOP = '.',
    EMPTY_DICT = '}',
    EMPTY_LIST = ']',
    SETITEMS = 'u',
    APPENDS = 'e',
    TUPLE = 't',
    BINUNICODE = 'X',
    BININT = 'J',
    LONG1 = 0x8a,
    BINFLOAT = 'G',
    NEWTRUE = 0x88,
    NEWFALSE = 0x89,
    NONE = 'N',
    GLOBAL = 'c',
    REDUCE = 'R',
    BINPERSID = 'Q',
    PROTO = 0x80,
};

static const struct {
    int start; /* 0: the mark alone starts it */
    enum opcode end;
} kinds[PICKLE_KINDS] = {
    [PICKLE_DICT] = { EMPTY_DICT, SETITEMS },
    [PICKLE_LIST] = { EMPTY_LIST, APPENDS },
    [PICKLE_TUPLE] = { 0, TUPLE },
};

static void add_opcode(struct text *out, enum opcode opcode)
{
    text_addc(out, (char)opcode);
}

static void add_little(struct text *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        text_addc(out, (char)(value >> (8 * i) & 0xff));
}

void pickle_begin(struct text *out)
{
    add_opcode(out, PROTO);
    text_addc(out, 2);
}

void pickle_end(struct text *out)
{
    add_opcode(out, STOP);
}

void pickle_open(struct text *out, enum pickle_kind kind)
{
    if (kinds[kind].start)
        add_opcode(out, (enum opcode)kinds[kind].start);
    add_opcode(out, MARK);
}

void pickle_close(struct text *out, enum pickle_kind kind)
{
    add_opcode(out, kinds[kind].end);
}

void pickle_text(struct text *out, const char *value)
{
    size_t len = strlen(value);

    add_opcode(out, BINUNICODE);
    add_little(out, len, 4);
    text_add(out, value, len);
}

void pickle_int(struct text *out, int64_t value)
{
    if (value >= INT32_MIN && value <= INT32_MAX) {
        add_opcode(out, BININT);
        add_little(out, (uint64_t)value, 4);
        return;
    }
    add_opcode(out, LONG1);
    text_addc(out, 8);
    add_little(out, (uint64_t)value, 8);
}

/* The only value that is big-endian. */
void pickle_real(struct text *out, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    add_opcode(out, BINFLOAT);
    add_little(out, __builtin_bswap64(bits), sizeof(bits));
}

void pickle_bool(struct text *out, bool value)
{
    add_opcode(out, value ? NEWTRUE : NEWFALSE);
}

void pickle_none(struct text *out)
{
    add_opcode(out, NONE);
}

void pickle_global(struct text *out, const char *module, const char *name)
{
    add_opcode(out, GLOBAL);
    text_addf(out, "%s\n%s\n", module, name);
}

void pickle_call(struct text *out)
{
    add_opcode(out, REDUCE);
}

void pickle_persistent(struct text *out)
{
    add_opcode(out, BINPERSID);
}
