/* patcher/schema/schema_value.c - reads a value by the type and range of its key. */
#include "config.h"

#include "patcher/schema/schema_value.h"

#include "base/nearest.h"
#include "patcher/document/lookalike.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool value_is_listed(const char *words, const char *word)
{
    size_t len = strlen(word);

    while (words && *words) {
        size_t next = strcspn(words, " ");

        if (next == len && memcmp(words, word, len) == 0)
            return true;
        words += next + (words[next] == ' ');
    }
    return false;
}

static struct value wrong(void)
{
    return (struct value) { .state = VALUE_WRONG };
}

static struct value from_kind(enum scalar_kind kind, double number)
{
    return (struct value) { .state = kind == SCALAR_WRONG ? VALUE_WRONG : VALUE_GOOD,
                            .kind = kind,
                            .number = number };
}

static struct value read_bool(const struct node *node)
{
    bool value = false;
    enum scalar_kind kind = scalar_bool(node, &value);

    return from_kind(kind, value);
}

static struct value read_choice(const struct node *node)
{
    int value = 0;
    enum scalar_kind kind = scalar_choice(node, &value);

    return from_kind(kind, value);
}

static bool is_bounded(const struct key *key)
{
    return key->min != 0 || key->max != 0;
}

/* A bounded key rejects NaN and inf; keys without bounds have rules that report them. */
static struct value read_number(const struct key *key, const struct node *node)
{
    double number = 0;
    struct value value = from_kind(scalar_number(node, &number), 0);

    value.number = number;
    if (value.state != VALUE_GOOD)
        return value;
    if (key->type == KEY_INT &&
        (number != floor(number) || fabs(number) > 9007199254740992.0))
        value.state = VALUE_WRONG;
    else if (is_bounded(key) && !(number >= key->min && number <= key->max))
        value.state = VALUE_OUT_OF_RANGE;
    else if (key->positive && !(number > 0))
        value.state = VALUE_OUT_OF_RANGE;
    return value;
}

static struct value read_text(const struct node *node)
{
    if (node->kind != NODE_SCALAR || strlen(node->text) != node->len)
        return wrong();
    return (
        struct value) { .state = VALUE_GOOD, .kind = SCALAR_GOOD, .text = node->text };
}

static struct value read_enum(const struct key *key, const struct node *node)
{
    struct value value = read_text(node);

    value.index = -1;
    for (int i = 0; value.state == VALUE_GOOD && key->values && key->values[i]; i++)
        if (strcmp(key->values[i], value.text) == 0)
            value.index = i;
    if (value.state != VALUE_GOOD)
        return value;
    if (value_is_listed(key->rejects, value.text))
        value.state = VALUE_REFUSED;
    else if (value_is_listed(key->idle, value.text))
        value.state = VALUE_NO_EFFECT;
    else if (value.index < 0)
        value.state = VALUE_OUT_OF_RANGE;
    return value;
}

static struct value read_scale(const struct key *key, const struct node *node)
{
    struct value value;

    if (node->kind == NODE_SCALAR && strcmp(node->text, "dynamic") == 0)
        return (struct value) { .kind = SCALAR_GOOD, .text = "dynamic" };
    if (node->kind == NODE_SCALAR && strcmp(node->text, "none") == 0)
        return (struct value) { .kind = SCALAR_GOOD, .text = "none" };
    value = read_number(key, node);
    if (value.state == VALUE_GOOD && !isfinite(value.number))
        value.state = VALUE_OUT_OF_RANGE;
    return value;
}

/* Join a YAML list of strings with commas; a string is returned unchanged. */
static struct value read_list(const struct node *node, struct arena *arena)
{
    struct value value = { .state = VALUE_GOOD, .kind = SCALAR_GOOD };
    struct text joined;

    if (node->kind != NODE_LIST)
        return read_text(node);
    text_init(&joined, 0);
    for (size_t i = 0; value.state == VALUE_GOOD && i < node->count; i++) {
        struct value item = read_text(node_value(node->items[i]));

        if (item.state == VALUE_GOOD)
            text_addf(&joined, "%s%s", i > 0 ? "," : "", item.text);
        else
            value = wrong();
    }
    if (value.state == VALUE_GOOD)
        value.text = arena_copy(arena, joined.data, joined.len);
    text_clear(&joined);
    return value;
}

static struct value read_bool_or_text(const struct node *node)
{
    struct value value = read_bool(node);

    if (value.state == VALUE_GOOD && value.kind != SCALAR_QUOTED) {
        value.text = value.number != 0 ? "true" : NULL;
        return value;
    }
    return read_text(node);
}

static struct value read_seconds(const struct node *node)
{
    double seconds = 0;
    enum scalar_kind kind = scalar_seconds(node, &seconds);

    return from_kind(kind, seconds);
}

static struct value read_size(const struct node *node)
{
    struct value value = from_kind(scalar_size(node), 0);

    value.text = node->text;
    return value;
}

/* Hugging Face also accepts a JSON object in a string. */
const struct node *value_map(const struct node *node, struct arena *arena)
{
    struct document document;

    node = node_value(node);
    if (node->kind != NODE_SCALAR)
        return node->kind == NODE_MAP ? node : NULL;
    if (node->text[0] != '{' || strlen(node->text) != node->len)
        return NULL;
    document_read(node->text, node->len, arena, &document);
    return document.root;
}

static struct value read_map(const struct node *node, struct arena *arena)
{
    return value_map(node, arena)
               ? (struct value) { .kind = SCALAR_GOOD, .state = VALUE_GOOD }
               : wrong();
}

/* Python's word for null, which YAML and PyYAML read as a string.  No path, model or data
 * set has this name. */
static bool is_python_null(const struct key *key, const struct node *node)
{
    static const bool is_name[] = { [KEY_PATH] = true,
                                    [KEY_LIST] = true,
                                    [KEY_BOOL_OR_TEXT] = true,
                                    [KEY_MAP] = true,
                                    [KEY_ANY] = true };

    return is_name[key->type] && node->kind == NODE_SCALAR &&
           strcmp(node->text, "None") == 0;
}

/* A text may be a template of the job itself, as a chat template is. */
static bool is_template(const struct key *key, const struct node *node)
{
    return key->type != KEY_TEXT && key->type != KEY_MAP && key->type != KEY_ANY &&
           lookalike_is_template(node->text, node->len);
}

struct value value_read(const struct key *key, const struct node *node,
                        struct arena *arena)
{
    if (node_is_null(node))
        return (struct value) { .state = VALUE_NULL };
    node = node_value(node);
    if (is_python_null(key, node))
        return wrong();
    if (node->kind == NODE_SCALAR && (strstr(node->text, "${") || is_template(key, node)))
        return (struct value) { .state = VALUE_INTERPOLATED };
    switch (key->type) {
    case KEY_BOOL:
        return read_bool(node);
    case KEY_CHOICE:
        return read_choice(node);
    case KEY_INT:
    case KEY_REAL:
        return read_number(key, node);
    case KEY_TEXT:
    case KEY_PATH:
        return read_text(node);
    case KEY_ENUM:
        return read_enum(key, node);
    case KEY_SCALE:
        return read_scale(key, node);
    case KEY_SIZE:
        return read_size(node);
    case KEY_SECONDS:
        return read_seconds(node);
    case KEY_BOOL_OR_TEXT:
        return read_bool_or_text(node);
    case KEY_LIST:
        return read_list(node, arena);
    case KEY_MAP:
        return read_map(node, arena);
    case KEY_ANY:
        break;
    }
    return (struct value) { .state = VALUE_GOOD, .kind = SCALAR_GOOD };
}

static const char *join_values(const struct key *key, struct arena *arena)
{
    const char *joined = "";

    for (size_t i = 0; key->values[i]; i++) {
        const char *with = i == 0 ? "" : key->values[i + 1] ? ", " : " or ";

        joined = arena_printf(arena, "%s%s%s", joined, with, key->values[i]);
    }
    return joined;
}

/* `whole`: include an upper bound far above the values of real jobs. */
static const char *expected_number(const struct key *key, bool whole, struct arena *arena)
{
    const char *what = key->type == KEY_INT ? "a whole number" : "a number";

    if (!is_bounded(key))
        return what;
    if (key->positive && (whole || key->max == 1))
        return arena_printf(arena, "%s above 0 and at most %s", what,
                            scalar_print(key->max, arena));
    if (key->positive)
        return arena_printf(arena, "%s above 0", what);
    if (key->max >= 1e15 && !whole)
        return arena_printf(arena, "%s of %s or more", what,
                            scalar_print(key->min, arena));
    return arena_printf(arena, "%s from %s to %s", what, scalar_print(key->min, arena),
                        scalar_print(key->max, arena));
}

const char *value_expected(const struct key *key, struct arena *arena)
{
    static const char *const words[] = {
        [KEY_BOOL] = "true or false",
        [KEY_CHOICE] = "true, false or auto",
        [KEY_TEXT] = "a text",
        [KEY_PATH] = "a path",
        [KEY_SCALE] = "dynamic, none, or a number of 1 or more",
        [KEY_SIZE] = "a size such as 12GiB or a share such as 80%",
        [KEY_SECONDS] = "a time such as 3600, 90m or 12h",
        [KEY_BOOL_OR_TEXT] = "true, false or a path",
        [KEY_LIST] = "names separated by commas, or a list of names",
        [KEY_MAP] = "a map of names and values",
        [KEY_ANY] = "any value",
    };

    if (key->type == KEY_ENUM)
        return join_values(key, arena);
    if (key->type == KEY_INT || key->type == KEY_REAL)
        return expected_number(key, false, arena);
    if (key->no_share)
        return "a size such as 20GB";
    return words[key->type];
}

const char *value_expected_with_bound(const struct key *key, const struct node *node,
                                      struct arena *arena)
{
    bool numbers =
        key->type == KEY_INT || key->type == KEY_REAL || key->type == KEY_SCALE;
    double number;

    node = node_value(node);
    if (!numbers || node->kind != NODE_SCALAR ||
        scalar_number(node, &number) == SCALAR_WRONG || !(number > key->max))
        return value_expected(key, arena);
    return arena_printf(arena, "%s%s", key->type == KEY_SCALE ? "dynamic, none, or " : "",
                        expected_number(key, true, arena));
}

/* Return the value for which the word is a synonym, or NULL. */
static const char *find_synonym(const struct key *key, const char *word)
{
    const char *at = key->synonyms ? key->synonyms : "";

    while (*at) {
        size_t all = strcspn(at, " "), name = strcspn(at, "=");

        if (name == strlen(word) && strncasecmp(at, word, name) == 0)
            for (size_t i = 0; key->values[i]; i++)
                if (strlen(key->values[i]) == all - name - 1 &&
                    strncmp(at + name + 1, key->values[i], all - name - 1) == 0)
                    return key->values[i];
        at += all + (at[all] == ' ');
    }
    return NULL;
}

/* Return the key itself or, for types with fixed words, a key with these values. */
static const struct key *words_of(const struct key *key)
{
    static const char *const booleans[] = { "true", "false", NULL };
    static const char *const choices[] = { "true", "false", "auto", NULL };
    static const char *const scales[] = { "dynamic", "none", NULL };
    static const char synonyms[] =
        "1=true 0=false 1.0=true 0.0=false t=true f=false enabled=true disabled=false "
        "enable=true disable=false";
    static const struct key kinds[] = {
        [KEY_BOOL] = { .values = booleans, .synonyms = synonyms },
        [KEY_CHOICE] = { .values = choices, .synonyms = synonyms },
        [KEY_SCALE] = { .values = scales },
    };
    bool has_words =
        key->type == KEY_BOOL || key->type == KEY_CHOICE || key->type == KEY_SCALE;

    return has_words ? &kinds[key->type] : key;
}

const char *value_nearest(const struct key *key, const char *word)
{
    const char *best;
    size_t least = 3;

    key = words_of(key);
    best = find_synonym(key, word);
    if (best)
        return best;
    for (size_t i = 0; key->values && key->values[i]; i++) {
        size_t distance = nearest_is_same_name(word, key->values[i])
                              ? 0
                              : nearest_distance(word, key->values[i], 2);

        if (distance < least && 2 * distance < strlen(key->values[i])) {
            least = distance;
            best = key->values[i];
        }
    }
    return best;
}

static struct value read_default(const struct key *key, const char *text,
                                 struct arena *arena)
{
    struct node node = { .kind = NODE_SCALAR, .text = text, .len = strlen(text) };

    return value_read(key, &node, arena);
}

static bool is_same(const struct value *a, const struct value *b)
{
    if (a->state != b->state)
        return false;
    if (a->text || b->text)
        return a->text && b->text && strcmp(a->text, b->text) == 0;
    return a->number == b->number;
}

bool value_is_off(const struct key *key, const struct node *node, struct arena *arena)
{
    struct value value = value_read(key, node, arena), default_value;
    bool yes = false;

    if (value.state == VALUE_NULL)
        return true;
    node = node_value(node);
    if (node->kind != NODE_SCALAR)
        return node->count == 0;
    if (key->type != KEY_BOOL && !key->default_value &&
        scalar_bool(node, &yes) != SCALAR_WRONG && !yes)
        return true;
    if (key->type == KEY_BOOL && value.state == VALUE_GOOD && value.number == 0 &&
        key->use == KEY_REJECTED)
        return true;
    if (node->len == 0 || value_is_listed(key->harmless, node->text))
        return true;
    if (!key->default_value)
        return false;
    default_value = read_default(key, key->default_value, arena);
    return is_same(&value, &default_value);
}
