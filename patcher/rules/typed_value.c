/* patcher/rules/typed_value.c - the conversions of pydantic's lax mode
 * (docs/concepts/conversion_table.md of pydantic 2), and of jsonargparse. */
#include "config.h"

#include "patcher/rules/typed_value.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema_value.h"

/* ---- pydantic ---- */

/* Words that are a boolean, in any case; pydantic-core, src/input/shared.rs. */
static bool is_switch(const char *text)
{
    static const char *const words[] = { "0", "1",  "f", "t",   "false", "true",
                                         "n", "no", "y", "yes", "off",   "on" };

    for (size_t i = 0; i < TS_COUNT(words); i++)
        if (strcasecmp(words[i], text) == 0)
            return true;
    return false;
}

static bool number_fits(unsigned types, double number)
{
    return (types & PROFILE_REAL) || ((types & PROFILE_INT) && number == floor(number)) ||
           ((types & PROFILE_BOOL) && (number == 0 || number == 1));
}

static bool text_fits(const struct profile_key *key, const struct python_value *value)
{
    double number;

    if ((key->types & PROFILE_TEXT) &&
        (!key->values || value_is_listed(key->values, value->text)))
        return true;
    if ((key->types & PROFILE_BOOL) && is_switch(value->text))
        return true;
    return scalar_number(value->node, &number) != SCALAR_WRONG &&
           number_fits(key->types & (PROFILE_INT | PROFILE_REAL), number);
}

static bool fits(const struct profile_key *key, const struct python_value *value)
{
    switch (value->kind) {
    case PYTHON_NONE:
        return key->types & PROFILE_NULL;
    case PYTHON_BOOL:
        return key->types & (PROFILE_BOOL | PROFILE_INT | PROFILE_REAL);
    case PYTHON_NUMBER:
        return number_fits(key->types, value->number);
    case PYTHON_TEXT:
        return text_fits(key, value);
    case PYTHON_LIST:
        return key->types & PROFILE_LIST;
    case PYTHON_MAP:
        return key->types & PROFILE_MAP;
    }
    return true;
}

/* ---- jsonargparse ---- */

/* 3.0 and 1e3 are no integers. */
static bool is_integer(const char *text)
{
    return strpbrk(text, "xX") || !strpbrk(text, ".eE");
}

/* Return whether the key takes an object of the project, in one of several forms. */
static bool takes_object(const struct profile_key *key)
{
    return (key->types & (PROFILE_TEXT | PROFILE_LIST)) ||
           strcmp(key->name, "trainer.logger") == 0;
}

static bool converts(const struct profile_key *key, const struct python_value *value)
{
    switch (value->kind) {
    case PYTHON_BOOL:
        return key->types & PROFILE_BOOL;
    case PYTHON_NUMBER:
        return (key->types & PROFILE_REAL) ||
               ((key->types & PROFILE_INT) && is_integer(value->text));
    case PYTHON_LIST:
        return key->types & PROFILE_LIST || strcmp(key->name, "trainer.logger") == 0;
    case PYTHON_MAP:
        return (key->types & PROFILE_MAP) ||
               (takes_object(key) && node_find(value->node, "class_path"));
    case PYTHON_NONE:
    case PYTHON_TEXT:
        break;
    }
    return key->types & (value->kind == PYTHON_TEXT ? PROFILE_TEXT : PROFILE_NULL);
}

/* jsonargparse 4, _typehints.py, adapt_typehints: no type becomes another, but a quoted
 * value is read as YAML unless it has to be a string; null is accepted for every key. */
static bool converts_text(const struct profile_key *key, const struct python_value *value)
{
    struct node plain = *value->node;
    struct python_value read;

    if (value->kind == PYTHON_NONE || converts(key, value))
        return true;
    if (value->kind != PYTHON_TEXT || !*value->text)
        return false;
    plain.style = STYLE_PLAIN;
    plain.tag = NULL;
    read = python_value_read(key->name, &plain, PYTHON_OMEGACONF);
    return read.kind != PYTHON_TEXT && converts(key, &read);
}

static const struct typing {
    bool (*fits)(const struct profile_key *key, const struct python_value *value);
    struct {
        unsigned type;
        const char *says;
    } refusals[6];
    const char *otherwise;
} typings[] = {
    [TYPING_PYDANTIC] = { fits,
                          { { PROFILE_BOOL, "Input should be a valid boolean" },
                            { PROFILE_INT, "Input should be a valid integer" },
                            { PROFILE_REAL, "Input should be a valid number" },
                            { PROFILE_TEXT, "Input should be a valid string" },
                            { PROFILE_LIST, "Input should be a valid list" },
                            { PROFILE_MAP, "Input should be a valid dictionary" } },
                          "Input should be" },
    [TYPING_JSONARGPARSE] = { converts_text,
                              { { PROFILE_BOOL, "Expected a <class 'bool'>" },
                                { PROFILE_INT, "Expected a <class 'int'>" },
                                { PROFILE_REAL, "Expected a <class 'float'>" },
                                { PROFILE_TEXT, "Expected a <class 'str'>" } },
                              "Does not validate against any of the Union subtypes" },
};

/* Return whether the type is the only one, besides None: jsonargparse names it then. */
static bool is_only(enum profile_typing typing, unsigned types, unsigned type)
{
    return typing == TYPING_PYDANTIC || types == type;
}

const char *typed_value_refusal(enum profile_typing typing, const struct profile_key *key,
                                const struct python_value *value)
{
    const struct typing *row = &typings[typing];

    if (!(key->types & ~(unsigned)(PROFILE_REQUIRED | PROFILE_NULL)) ||
        (key->types & PROFILE_OTHER) || row->fits(key, value))
        return NULL;
    for (size_t i = 0; !key->values && i < TS_COUNT(row->refusals); i++)
        if ((key->types & row->refusals[i].type) &&
            is_only(typing, key->types, row->refusals[i].type))
            return row->refusals[i].says;
    return row->otherwise;
}
