/* patcher/rules/typed_value.c - the conversions of pydantic's lax mode
 * (docs/concepts/conversion_table.md of pydantic 2). */
#include "config.h"

#include "patcher/rules/typed_value.h"

#include <math.h>
#include <strings.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema_value.h"

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

const char *typed_value_refusal(const struct profile_key *key,
                                const struct python_value *value)
{
    static const struct {
        unsigned type;
        const char *says;
    } refusals[] = {
        { PROFILE_BOOL, "Input should be a valid boolean" },
        { PROFILE_INT, "Input should be a valid integer" },
        { PROFILE_REAL, "Input should be a valid number" },
        { PROFILE_TEXT, "Input should be a valid string" },
        { PROFILE_LIST, "Input should be a valid list" },
        { PROFILE_MAP, "Input should be a valid dictionary" },
    };

    if (!(key->types & ~(unsigned)(PROFILE_REQUIRED | PROFILE_NULL)) ||
        (key->types & PROFILE_OTHER) || fits(key, value))
        return NULL;
    for (size_t i = 0; !key->values && i < TS_COUNT(refusals); i++)
        if (key->types & refusals[i].type)
            return refusals[i].says;
    return "Input should be";
}
