/* train/files/unpickle.c - the machine of Python's pickle format (Lib/pickletools.py),
 * with a table of the opcodes that it has.  Nested values are on a stack of its own, and
 * nothing walks a value, so neither depth nor sharing costs anything. */
#include "config.h"

#include "train/files/unpickle.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

/* Of a model with 100,000 tensors. */
#define VALUES_MAX     ((size_t)4 << 20)
#define NAME_MAX_BYTES ((size_t)128)

struct machine {
    const unsigned char *at, *end;
    const struct pickle_rules *rules;
    struct arena *arena;
    const struct pickled **stack, **memo;
    size_t depth, room;
    size_t memo_count, memo_room;
    size_t *marks; /* depths of the stack */
    size_t mark_count, mark_room;
    size_t values;
    bool stopped;
};

static bool refuse(struct error *err, const char *what)
{
    return error_set(err, ERROR_DATA, "the pickle is not valid: %s", what);
}

/* Take bytes of the pickle; NULL: it ends before. */
static const unsigned char *take(struct machine *m, uint64_t bytes, struct error *err)
{
    const unsigned char *from = m->at;

    if (bytes > (uint64_t)(m->end - m->at)) {
        refuse(err, "it ends too early");
        return NULL;
    }
    m->at += bytes;
    return from;
}

static bool take_count(struct machine *m, size_t bytes, uint64_t *out, struct error *err)
{
    const unsigned char *from = take(m, bytes, err);

    *out = 0;
    for (size_t i = 0; from && i < bytes; i++)
        *out |= (uint64_t)from[i] << (8 * i);
    return from != NULL;
}

static bool push(struct machine *m, const struct pickled *value, struct error *err)
{
    if (!value)
        return false;
    if (++m->values > VALUES_MAX)
        return refuse(err, "it has too many values");
    if (m->depth == m->room) {
        m->room = 2 * m->room + 64;
        m->stack = memory_resize(m->stack, m->room, sizeof(*m->stack));
    }
    m->stack[m->depth++] = value;
    return true;
}

static struct pickled *value_new(struct machine *m, enum pickled_kind kind)
{
    struct pickled *value = arena_alloc(m->arena, sizeof(*value));

    value->kind = kind;
    return value;
}

/* Return the depth of the last mark: values below it belong to another container. */
static size_t floor_of(const struct machine *m)
{
    return m->mark_count > 0 ? m->marks[m->mark_count - 1] : 0;
}

/* Take the last value off the stack; NULL: there is none after the mark. */
static const struct pickled *pop(struct machine *m, struct error *err)
{
    if (m->depth <= floor_of(m)) {
        refuse(err, "a value is missing");
        return NULL;
    }
    return m->stack[--m->depth];
}

/* Remove the last mark: values from *from on came after it. */
static bool pop_mark(struct machine *m, size_t *from, struct error *err)
{
    if (m->mark_count == 0)
        return refuse(err, "a mark is missing");
    *from = m->marks[--m->mark_count];
    return true;
}

static bool do_protocol(struct machine *m, int unused, struct error *err)
{
    uint64_t version;

    (void)unused;
    if (!take_count(m, 1, &version, err))
        return false;
    return version == 2 ||
           error_set(err, ERROR_DATA,
                     "a pickle of protocol %u is not supported, only 2, which torch.save "
                     "writes by default",
                     (unsigned)version);
}

static bool do_stop(struct machine *m, int unused, struct error *err)
{
    (void)unused;
    (void)err;
    m->stopped = true;
    return true;
}

static bool do_mark(struct machine *m, int unused, struct error *err)
{
    (void)unused;
    (void)err;
    if (m->mark_count == m->mark_room) {
        m->mark_room = 2 * m->mark_room + 64;
        m->marks = memory_resize(m->marks, m->mark_room, sizeof(*m->marks));
    }
    m->marks[m->mark_count++] = m->depth;
    return true;
}

/* An empty container, or None. */
static bool do_empty(struct machine *m, int kind, struct error *err)
{
    return push(m, value_new(m, (enum pickled_kind)kind), err);
}

static bool do_bool(struct machine *m, int truth, struct error *err)
{
    struct pickled *value = value_new(m, PICKLED_BOOL);

    value->integer = truth;
    return push(m, value, err);
}

static bool push_int(struct machine *m, int64_t integer, struct error *err)
{
    struct pickled *value = value_new(m, PICKLED_INT);

    value->integer = integer;
    return push(m, value, err);
}

/* BININT1 and BININT2 have no sign, BININT has one. */
static bool do_int(struct machine *m, int bytes, struct error *err)
{
    uint64_t raw;

    return take_count(m, (size_t)bytes, &raw, err) &&
           push_int(m, bytes == 4 ? (int32_t)(uint32_t)raw : (int64_t)raw, err);
}

static bool do_long(struct machine *m, int unused, struct error *err)
{
    uint64_t bytes, raw;

    (void)unused;
    if (!take_count(m, 1, &bytes, err))
        return false;
    if (bytes > 8)
        return refuse(err, "an integer has more than 64 bits");
    if (!take_count(m, bytes, &raw, err))
        return false;
    if (bytes > 0 && bytes < 8 && raw >> (8 * bytes - 1))
        raw |= UINT64_MAX << (8 * bytes);
    return push_int(m, (int64_t)raw, err);
}

/* The value is not used. */
static bool do_real(struct machine *m, int bytes, struct error *err)
{
    return take(m, (uint64_t)bytes, err) && push(m, value_new(m, PICKLED_REAL), err);
}

static bool do_text(struct machine *m, int length_bytes, struct error *err)
{
    struct pickled *value = value_new(m, PICKLED_TEXT);
    const unsigned char *from;
    uint64_t len;

    if (!take_count(m, (size_t)length_bytes, &len, err) || !(from = take(m, len, err)))
        return false;
    if (memchr(from, 0, len) || !text_is_utf8((const char *)from, len, NULL))
        return refuse(err, "a string is not UTF-8, or has a NUL");
    value->text = arena_copy(m->arena, (const char *)from, len);
    return push(m, value, err);
}

/* Make a tuple of the values from `from` on. */
static bool make_tuple(struct machine *m, size_t from, struct error *err)
{
    struct pickled *value = value_new(m, PICKLED_TUPLE);
    size_t count = m->depth - from;

    value->tuple.count = count;
    value->tuple.items = arena_array(m->arena, count + 1, sizeof(*value->tuple.items));
    for (size_t i = 0; i < count; i++)
        value->tuple.items[i] = m->stack[from + i];
    m->depth = from;
    return push(m, value, err);
}

static bool do_tuple(struct machine *m, int unused, struct error *err)
{
    size_t from = 0;

    (void)unused;
    return pop_mark(m, &from, err) && make_tuple(m, from, err);
}

static bool do_short_tuple(struct machine *m, int count, struct error *err)
{
    if (m->depth - floor_of(m) < (size_t)count)
        return refuse(err, "a value is missing");
    return make_tuple(m, m->depth - (size_t)count, err);
}

/* The container is the value before the items, which are from `from` on.  A list keeps
 * none: no list of a model's weights is used. */
static bool add_items(struct machine *m, size_t from, enum pickled_kind kind,
                      struct error *err)
{
    struct pickled *to;

    if (from <= floor_of(m) || m->stack[from - 1]->kind != kind ||
        (kind == PICKLED_DICT && (m->depth - from) % 2 != 0))
        return refuse(err, "an item has no container");
    to = (struct pickled *)m->stack[from - 1];
    for (size_t i = from; kind == PICKLED_DICT && i < m->depth; i += 2) {
        struct pickled_pair *pair = arena_alloc(m->arena, sizeof(*pair));

        *pair = (struct pickled_pair) { m->stack[i], m->stack[i + 1], to->pairs };
        to->pairs = pair;
    }
    m->depth = from;
    return true;
}

static bool do_items(struct machine *m, int kind, struct error *err)
{
    size_t from = 0;

    return pop_mark(m, &from, err) && add_items(m, from, (enum pickled_kind)kind, err);
}

static bool do_item(struct machine *m, int kind, struct error *err)
{
    size_t count = kind == PICKLED_DICT ? 2 : 1;

    if (m->depth - floor_of(m) <= count)
        return refuse(err, "an item has no container");
    return add_items(m, m->depth - count, (enum pickled_kind)kind, err);
}

static bool do_put(struct machine *m, int index_bytes, struct error *err)
{
    uint64_t index;

    if (!take_count(m, (size_t)index_bytes, &index, err))
        return false;
    /* picklers number them from 0 */
    if (index > m->memo_count || m->depth <= floor_of(m))
        return refuse(err, "a memo has no value, or is out of order");
    if (index == m->memo_room) {
        m->memo_room = 2 * m->memo_room + 64;
        m->memo = memory_resize(m->memo, m->memo_room, sizeof(*m->memo));
    }
    m->memo_count += index == m->memo_count;
    m->memo[index] = m->stack[m->depth - 1];
    return true;
}

static bool do_get(struct machine *m, int index_bytes, struct error *err)
{
    uint64_t index;

    if (!take_count(m, (size_t)index_bytes, &index, err))
        return false;
    return index < m->memo_count ? push(m, m->memo[index], err)
                                 : refuse(err, "a memo is missing");
}

/* Copy the line at *m, which is a part of a global's name. */
static bool take_line(struct machine *m, char out[NAME_MAX_BYTES], struct error *err)
{
    const unsigned char *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    size_t len = end ? (size_t)(end - m->at) : 0;

    if (!end || len >= NAME_MAX_BYTES || memchr(m->at, 0, len))
        return refuse(err, "the name of a global is too long");
    memcpy(out, m->at, len);
    out[len] = '\0';
    m->at = end + 1;
    return true;
}

static bool refuse_global(const char *module, const char *name, struct error *err)
{
    /* the function of types without a class of storages */
    bool is_type =
        strcmp(module, "torch._utils") == 0 && strcmp(name, "_rebuild_tensor_v3") == 0;
    struct text text;

    text_init(&text, 0);
    text_add_visible(&text, module, strlen(module));
    text_addc(&text, '.');
    text_add_visible(&text, name, strlen(name));
    error_set(err, ERROR_DATA,
              "the pickle names %s, which %s; nothing of it was executed", text.data,
              is_type ? "makes tensors of float8 and other types that are not supported"
                      : "weights do not need");
    text_clear(&text);
    return false;
}

static bool do_global(struct machine *m, int unused, struct error *err)
{
    char module[NAME_MAX_BYTES], name[NAME_MAX_BYTES];

    (void)unused;
    if (!take_line(m, module, err) || !take_line(m, name, err))
        return false;
    for (size_t i = 0; i < m->rules->count; i++) {
        const struct pickle_global *global = &m->rules->globals[i];
        struct pickled *value;

        if (strcmp(global->module, module) != 0 || strcmp(global->name, name) != 0)
            continue;
        value = value_new(m, PICKLED_GLOBAL);
        value->global = global;
        return push(m, value, err);
    }
    return refuse_global(module, name, err);
}

static bool do_call(struct machine *m, int unused, struct error *err)
{
    const struct pickled *arguments = pop(m, err);
    const struct pickled *function = arguments ? pop(m, err) : NULL;

    (void)unused;
    if (!function)
        return false;
    if (arguments->kind != PICKLED_TUPLE || function->kind != PICKLED_GLOBAL ||
        !function->global->call)
        return refuse(err, "a call has no function");
    return push(m, function->global->call(arguments, m->rules->context, err), err);
}

static bool do_persistent(struct machine *m, int unused, struct error *err)
{
    const struct pickled *id = pop(m, err);

    (void)unused;
    return id && push(m, m->rules->persistent(id, m->rules->context, err), err);
}

/* Attributes of a dict, such as the versions of modules, are not used. */
static bool do_build(struct machine *m, int unused, struct error *err)
{
    (void)unused;
    if (!pop(m, err))
        return false;
    if (m->depth <= floor_of(m) || m->stack[m->depth - 1]->kind != PICKLED_DICT)
        return refuse(err, "an object other than a dict has attributes");
    return true;
}

/* By their bytes in Lib/pickletools.py; the number is what differs between similar
 * ones. */
static const struct opcode {
    bool (*run)(struct machine *m, int number, struct error *err);
    int number;
} opcodes[256] = {
    [0x80] = { do_protocol, 0 },
    ['.'] = { do_stop, 0 },
    ['('] = { do_mark, 0 },
    ['N'] = { do_empty, PICKLED_NONE },
    [')'] = { do_empty, PICKLED_TUPLE },
    [']'] = { do_empty, PICKLED_LIST },
    ['}'] = { do_empty, PICKLED_DICT },
    [0x88] = { do_bool, true },
    [0x89] = { do_bool, false },
    ['K'] = { do_int, 1 },
    ['M'] = { do_int, 2 },
    ['J'] = { do_int, 4 },
    [0x8a] = { do_long, 0 },
    ['G'] = { do_real, 8 },
    ['X'] = { do_text, 4 },
    ['t'] = { do_tuple, 0 },
    [0x85] = { do_short_tuple, 1 },
    [0x86] = { do_short_tuple, 2 },
    [0x87] = { do_short_tuple, 3 },
    ['a'] = { do_item, PICKLED_LIST },
    ['e'] = { do_items, PICKLED_LIST },
    ['s'] = { do_item, PICKLED_DICT },
    ['u'] = { do_items, PICKLED_DICT },
    ['q'] = { do_put, 1 },
    ['r'] = { do_put, 4 },
    ['h'] = { do_get, 1 },
    ['j'] = { do_get, 4 },
    ['c'] = { do_global, 0 },
    ['R'] = { do_call, 0 },
    ['Q'] = { do_persistent, 0 },
    ['b'] = { do_build, 0 },
};

static bool run(struct machine *m, struct error *err)
{
    while (!m->stopped) {
        const unsigned char *at = take(m, 1, err);
        const struct opcode *opcode = at ? &opcodes[*at] : NULL;

        if (!opcode)
            return false;
        if (!opcode->run)
            return error_set(
                err, ERROR_DATA,
                "the pickle has the opcode 0x%02x, which weights do not need", *at);
        if (!opcode->run(m, opcode->number, err))
            return false;
    }
    return (m->depth == 1 && m->mark_count == 0) ||
           refuse(err, "it does not end with one value");
}

const struct pickled *unpickle(const void *data, size_t len,
                               const struct pickle_rules *rules, struct arena *arena,
                               struct error *err)
{
    struct machine m = { .at = data, .rules = rules, .arena = arena };
    const struct pickled *value = NULL;

    m.end = m.at + len;
    if (run(&m, err))
        value = m.stack[0];
    free(m.stack);
    free(m.memo);
    free(m.marks);
    return value;
}
