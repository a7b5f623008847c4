/* patcher/rules/refusals.c - evaluates the conditions of the tables of refusals. */
#include "config.h"

#include "patcher/rules/refusals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "patcher/rules/rules_context.h"
#include "patcher/rules/trainer_file.h"
#include "patcher/schema/schema_value.h"
#include "train/torch_memory.h"

struct test {
    const struct rule_context *context;
    const struct refusals *refusals;
    enum python_reader reader;
};

/* Return the entry of `fsdp_config` or, for `fsdp_config.min_num_params`, of a member. */
static const struct entry *find_entry(const struct rule_context *context,
                                      const char *name)
{
    const char *dot = strchr(name, '.');
    const struct entry *entry;
    const struct node *map;

    if (trainer_file_is_foreign(context))
        return trainer_file_entry(context, name);
    if (!dot)
        return rule_line(context, name);
    entry = rule_line(context, arena_copy(context->arena, name, (size_t)(dot - name)));
    map = entry ? value_map(entry->value, context->arena) : NULL;
    return map ? node_find(map, dot + 1) : NULL;
}

static struct python_value read_default(const struct test *test, const char *key)
{
    static const struct node null = { .kind = NODE_SCALAR, .text = "" };
    struct node *node;

    for (size_t i = 0; i < test->refusals->default_count; i++) {
        const struct refusal_default *row = &test->refusals->defaults[i];

        if (strcmp(row->key, key) != 0)
            continue;
        node = arena_alloc(test->context->arena, sizeof(*node));
        *node = (struct node) { .kind = NODE_SCALAR,
                                .text = row->value,
                                .len = strlen(row->value) };
        return python_value_read(key, node, test->reader);
    }
    return python_value_read(key, &null, test->reader);
}

static struct python_value read_key(const struct test *test, const char *key)
{
    const struct entry *entry = find_entry(test->context, key);

    return entry ? python_value_read(key, entry->value, test->reader)
                 : read_default(test, key);
}

/* Return element `at` of a list or of a comma-separated text; NULL past the end. */
static const char *element(const struct test *test, const struct python_value *value,
                           size_t at)
{
    const char *text = value->text;
    size_t len;

    if (value->kind == PYTHON_LIST)
        return at < value->node->count ? node_value(value->node->items[at])->text : NULL;
    if (value->kind != PYTHON_TEXT)
        return at == 0 ? text : NULL;
    for (; at > 0; at--) {
        if (!(text = strchr(text, ',')))
            return NULL;
        text++;
    }
    text += strspn(text, " ");
    len = strcspn(text, ",");
    while (len > 0 && text[len - 1] == ' ')
        len--;
    return arena_copy(test->context->arena, text, len);
}

static size_t count_elements(const struct test *test, const struct python_value *value)
{
    size_t count = 0;

    if (value->kind == PYTHON_NONE)
        return 0;
    while (element(test, value, count))
        count++;
    return count;
}

/* Return whether a word of an element is one of `words`; if !listed, is none of them. */
static bool has_word(const struct test *test, const struct python_value *value,
                     const char *words, bool listed)
{
    const char *at;

    for (size_t i = 0; (at = element(test, value, i)); i++)
        for (at += strspn(at, " "); *at;) {
            size_t len = strcspn(at, " ");
            const char *word = arena_copy(test->context->arena, at, len);

            if (value_is_listed(words, word) == listed)
                return true;
            at += len + strspn(at + len, " ");
        }
    return false;
}

static bool is_zero3(const struct rule_context *context)
{
    const struct torch_setup *setup = context->plan->torch;

    return setup && setup->deepspeed && setup->zero_stage == 3;
}

/* The parsers test ParallelMode.DISTRIBUTED and refuse DeepSpeed without it, so DeepSpeed
 * implies several ranks. */
static bool runs_in_ranks(const struct rule_context *context)
{
    const struct entry *force = rule_env_variable(context, "FORCE_TORCHRUN");

    return plan_ranks(context->plan) > 1 || rule_is_set(context, "deepspeed") ||
           rule_is_set(context, "fsdp") || rule_command_has(context, "torchrun") ||
           (force && value_is_listed("1 true True TRUE", node_value(force->value)->text));
}

static bool runs_on(const struct rule_context *context, const char *backend)
{
    const struct accelerator_row *row = rule_accelerator(context);

    return row && strcmp(row->backend, backend) == 0;
}

static bool compare(const struct test *test, const struct refusal_term *term,
                    const struct python_value *value)
{
    struct python_value other;

    if (value->kind != PYTHON_NUMBER)
        return false;
    switch (term->test) {
    case REFUSAL_ABOVE:
        return value->number > strtod(term->with, NULL);
    case REFUSAL_BELOW:
        return value->number < strtod(term->with, NULL);
    default:
        other = read_key(test, term->with);
        return other.kind == PYTHON_NUMBER && value->number < other.number;
    }
}

static bool test_value(const struct test *test, const struct refusal_term *term)
{
    const struct python_value value = read_key(test, term->key);
    struct python_value other;

    switch (term->test) {
    case REFUSAL_TRUE:
        return python_value_is_true(&value);
    case REFUSAL_FALSE:
        return !python_value_is_true(&value);
    case REFUSAL_GIVEN:
        return value.kind != PYTHON_NONE;
    case REFUSAL_MISSING:
        return value.kind == PYTHON_NONE;
    case REFUSAL_IN:
        return value.kind != PYTHON_NONE && has_word(test, &value, term->with, true);
    case REFUSAL_NOT_IN:
        return value.kind != PYTHON_NONE && element(test, &value, 0) &&
               !value_is_listed(term->with, element(test, &value, 0));
    case REFUSAL_OTHER:
        return value.kind != PYTHON_NONE && has_word(test, &value, term->with, false);
    case REFUSAL_ONLY:
        return python_value_is_true(&value) && !has_word(test, &value, term->with, false);
    case REFUSAL_SEVERAL:
        return value.kind != PYTHON_NONE && count_elements(test, &value) != 1;
    case REFUSAL_COUNT:
        other = read_key(test, term->with);
        return value.kind != PYTHON_NONE && other.kind != PYTHON_NONE &&
               count_elements(test, &value) != count_elements(test, &other);
    case REFUSAL_LIST:
        return value.kind == PYTHON_LIST;
    case REFUSAL_STRING:
        return value.kind == PYTHON_TEXT;
    case REFUSAL_FRACTION:
        return value.kind == PYTHON_NUMBER && value.number != floor(value.number);
    case REFUSAL_NO_INT:
        return value.kind != PYTHON_NUMBER || value.number != floor(value.number) ||
               strpbrk(value.text, ".eE") != NULL;
    default:
        return compare(test, term, &value);
    }
}

static bool test_term(const struct test *test, const struct refusal_term *term)
{
    const struct rule_context *context = test->context;

    switch (term->test) {
    case REFUSAL_ZERO3:
        return is_zero3(context);
    case REFUSAL_NO_ZERO3:
        return !is_zero3(context);
    case REFUSAL_RANKS:
        return runs_in_ranks(context);
    case REFUSAL_SCRIPT:
        return rule_runs_trl(context, term->with);
    case REFUSAL_VERSION:
        return rule_version_at_least(context, package_find(term->key), term->with);
    case REFUSAL_BEFORE:
        return rule_version_below(context, package_find(term->key), term->with);
    case REFUSAL_BACKEND:
        return runs_on(context, term->with);
    default:
        return test_value(test, term);
    }
}

bool refusal_holds(const struct rule_context *context, const struct refusals *refusals,
                   const struct refusal *row)
{
    const struct test test = { .context = context,
                               .refusals = refusals,
                               .reader = python_reader_of(context) };

    for (size_t i = 0; i < REFUSAL_TERMS && row->when[i].test != REFUSAL_END; i++)
        if (!test_term(&test, &row->when[i]))
            return false;
    return true;
}
