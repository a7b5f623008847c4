/* patcher/rules/typed_value.h - which values pydantic and jsonargparse accept for a key of a
 * table. */
#ifndef PATCHER_RULES_TYPED_VALUE_H
#define PATCHER_RULES_TYPED_VALUE_H

#include "patcher/profiles/profile.h"
#include "patcher/rules/python_value.h"

/* Return what the program says about the value; NULL: it accepts it, or the table does not
 * know the type. */
const char *typed_value_refusal(enum profile_typing typing, const struct profile_key *key,
                                const struct python_value *value);

#endif
