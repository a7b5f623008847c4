/* train/jinja/jinja_call.c - binding of a call's arguments to parameters. */
#include "config.h"

#include "train/jinja/jinja_call.h"

#include <string.h>

enum { ARGUMENTS_MAX = 1000 };

const struct jinja_builtin *jinja_builtin_find(const struct jinja_builtin *table,
                                               const char *name, size_t len)
{
    for (; table->name; table++)
        if (strlen(table->name) == len && memcmp(table->name, name, len) == 0)
            return table;
    return NULL;
}

static void add_argument(struct jinja_run *run, struct jinja_arguments *out,
                         const char *name, struct jinja_value value)
{
    if (jinja_failed(run))
        return;
    if (out->count == ARGUMENTS_MAX) {
        jinja_fail(run, "more than %d arguments", ARGUMENTS_MAX);
        return;
    }
    out->names[out->count] = name;
    out->values[out->count++] = value;
    out->positional += !name;
}

static void add_named_arguments(struct jinja_run *run, struct jinja_arguments *out,
                                const struct jinja_value *names)
{
    if (names->kind != JINJA_DICT) {
        jinja_fail(run, "argument after ** must be a mapping, not %s", jinja_type(names));
        return;
    }
    for (size_t i = 0; i < names->dict->count && !jinja_failed(run); i++) {
        const struct jinja_entry *entry = &names->dict->entries[i];

        if (entry->key.kind == JINJA_STRING)
            add_argument(run, out, jinja_copy(run, entry->key.text, entry->key.len).text,
                         entry->value);
        else
            jinja_fail(run, "keywords must be strings");
    }
}

static size_t count_room(const struct jinja_node *node)
{
    for (size_t i = 0; i < node->argument_count; i++)
        if (node->arguments[i].spread)
            return ARGUMENTS_MAX;
    return node->argument_count;
}

bool jinja_evaluate_arguments(struct jinja_run *run, const struct jinja_node *node,
                              struct jinja_arguments *out)
{
    size_t room = count_room(node);

    *out = (struct jinja_arguments) { .count = 0 };
    if (room == 0)
        return true;
    out->values = jinja_alloc(run, room, sizeof(*out->values));
    out->names = jinja_alloc(run, room, sizeof(*out->names));
    for (size_t i = 0; i < node->argument_count && !jinja_failed(run); i++) {
        const struct jinja_argument *argument = &node->arguments[i];
        struct jinja_value value = jinja_evaluate(run, argument->value);
        struct jinja_list items;

        if (argument->spread == JINJA_SINGLE) {
            add_argument(run, out, argument->name, value);
        } else if (argument->spread == JINJA_DOUBLE_STAR) {
            add_named_arguments(run, out, &value);
        } else {
            items = jinja_items(run, &value);
            for (size_t k = 0; k < items.count && !jinja_failed(run); k++)
                add_argument(run, out, NULL, items.items[k]);
        }
    }
    return !jinja_failed(run);
}

/* The parameter with this name, or JINJA_PARAMETERS. */
static size_t parameter_of(const struct jinja_builtin *builtin, const char *name)
{
    for (size_t i = 0; i < JINJA_PARAMETERS && builtin->parameters[i]; i++)
        if (strcmp(builtin->parameters[i], name) == 0)
            return i;
    return JINJA_PARAMETERS;
}

static size_t count_parameters(const struct jinja_builtin *builtin)
{
    size_t count = 0;

    while (count < JINJA_PARAMETERS && builtin->parameters[count])
        count++;
    return count;
}

static bool bind(struct jinja_run *run, const struct jinja_builtin *builtin,
                 const struct jinja_arguments *given, struct jinja_call *call)
{
    size_t room = count_parameters(builtin), position = 0;

    for (size_t i = 0; i < given->count; i++) {
        const char *name = given->names[i];
        size_t into = name ? parameter_of(builtin, name) : position++;

        if (name && into == JINJA_PARAMETERS) {
            jinja_fail(run, "%s() got an unexpected keyword argument '%s'", builtin->name,
                       name);
            return false;
        }
        if (into >= room) {
            jinja_fail(run, "%s() takes at most %zu arguments", builtin->name, room);
            return false;
        }
        if (call->args[into].kind != JINJA_ABSENT) {
            jinja_fail(run, "%s() got multiple values for argument '%s'", builtin->name,
                       builtin->parameters[into]);
            return false;
        }
        call->args[into] = given->values[i];
    }
    for (size_t i = 0; i < builtin->required; i++)
        if (call->args[i].kind == JINJA_ABSENT) {
            jinja_fail(run, "%s() missing the argument '%s'", builtin->name,
                       builtin->parameters[i]);
            return false;
        }
    return true;
}

/* Whatever a built-in does with texts, it reads each at most once, or counts the rest. */
static bool work_on_texts(struct jinja_run *run, const struct jinja_value *self,
                          const struct jinja_arguments *given)
{
    size_t bytes = self->kind == JINJA_STRING ? self->len : 0;

    for (size_t i = 0; i < given->count; i++)
        if (given->values[i].kind == JINJA_STRING)
            bytes += given->values[i].len;
    return jinja_work(run, bytes);
}

struct jinja_value jinja_invoke(struct jinja_run *run,
                                const struct jinja_builtin *builtin,
                                const struct jinja_value *self,
                                const struct jinja_arguments *given)
{
    struct jinja_call call = { .self = *self,
                               .variant = builtin->variant,
                               .given = given };

    if (!work_on_texts(run, self, given) ||
        (!builtin->variadic && !bind(run, builtin, given, &call)))
        return jinja_none();
    return builtin->code(run, &call);
}

/* Bind a macro's parameters: by position, by name, by default, or else undefined. */
static void bind_macro(struct jinja_run *run, const struct jinja_node *macro,
                       const struct jinja_arguments *given, bool *used)
{
    size_t positional = given->positional;

    for (size_t i = 0; i < macro->argument_count && !jinja_failed(run); i++) {
        const struct jinja_argument *parameter = &macro->arguments[i];
        struct jinja_value value = { .kind = JINJA_ABSENT };
        size_t position = 0;

        for (size_t k = 0; k < given->count; k++) {
            bool here = given->names[k] ? strcmp(given->names[k], parameter->name) == 0
                                        : position++ == i;

            if (here && value.kind != JINJA_ABSENT)
                jinja_fail(run, "got multiple values for argument '%s'", parameter->name);
            if (here) {
                value = given->values[k];
                used[k] = true;
            }
        }
        if (value.kind == JINJA_ABSENT && parameter->value)
            value = jinja_evaluate(run, parameter->value);
        else if (value.kind == JINJA_ABSENT)
            value = jinja_undefined_hint("a parameter of the macro was not provided");
        jinja_set(run, parameter->name, &value);
    }
    if (positional > macro->argument_count && !macro->reads_varargs)
        jinja_fail(run, "macro '%s' takes at most %zu argument(s)", macro->name,
                   macro->argument_count);
}

/* Set varargs and kwargs to the remaining arguments. */
static void bind_rest(struct jinja_run *run, const struct jinja_node *macro,
                      const struct jinja_arguments *given, const bool *used)
{
    struct jinja_value rest = jinja_list_new(run, JINJA_TUPLE, given->count);
    struct jinja_value named = jinja_dict_new(run, JINJA_DICT);
    size_t count = 0;

    for (size_t i = 0; i < given->count && !jinja_failed(run); i++) {
        struct jinja_value name;

        if (used[i])
            continue;
        if (!given->names[i]) {
            rest.list->items[count++] = given->values[i];
            continue;
        }
        if (!macro->reads_kwargs)
            jinja_fail(run, "macro '%s' takes no keyword argument '%s'", macro->name,
                       given->names[i]);
        name = jinja_string(given->names[i], strlen(given->names[i]));
        jinja_dict_set(run, named.dict, &name, &given->values[i]);
    }
    if (jinja_failed(run))
        return;
    rest.list->count = count;
    if (macro->reads_varargs)
        jinja_set(run, run->jinja->varargs, &rest);
    if (macro->reads_kwargs)
        jinja_set(run, run->jinja->kwargs, &named);
}

static void bind_caller(struct jinja_run *run, const struct jinja_node *macro,
                        const struct jinja_value *caller)
{
    struct jinja_value undefined = jinja_undefined_hint("No caller defined");

    if (caller && !macro->reads_caller)
        jinja_fail(run, "macro '%s' takes no keyword argument 'caller'", macro->name);
    else if (macro->reads_caller)
        jinja_set(run, run->jinja->caller, caller ? caller : &undefined);
}

static struct jinja_value call_macro(struct jinja_run *run,
                                     const struct jinja_function *function,
                                     const struct jinja_arguments *given,
                                     const struct jinja_value *caller)
{
    struct jinja_scope *outer = run->scope;
    struct jinja_value text = jinja_none();
    bool *used = jinja_alloc(run, given->count + 1, sizeof(*used));

    if (!used || !jinja_enter(run))
        return text;
    run->scope = jinja_alloc(run, 1, sizeof(*run->scope));
    if (run->scope) {
        run->scope->parent = function->scope;
        bind_macro(run, function->macro, given, used);
        bind_rest(run, function->macro, given, used);
        bind_caller(run, function->macro, caller);
        text = jinja_capture(run, function->macro->kids[0]);
    }
    run->scope = outer;
    jinja_leave(run);
    return text;
}

struct jinja_value jinja_call(struct jinja_run *run, const struct jinja_value *function,
                              const struct jinja_arguments *given,
                              const struct jinja_value *caller)
{
    if (jinja_failed(run))
        return jinja_none();
    if (function->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, function);
    if (function->kind != JINJA_FUNCTION)
        return jinja_fail(run, "'%s' object is not callable", jinja_type(function));
    if (function->function->macro)
        return call_macro(run, function->function, given, caller);
    if (caller)
        return jinja_fail(run, "only a macro can be called with a block");
    return jinja_invoke(run, function->function->builtin, &function->function->self,
                        given);
}

struct jinja_value jinja_macro_new(struct jinja_run *run, const struct jinja_node *macro)
{
    struct jinja_value value = { .kind = JINJA_FUNCTION };

    value.function = jinja_alloc(run, 1, sizeof(*value.function));
    if (!value.function)
        return jinja_none();
    value.function->macro = macro;
    value.function->scope = run->scope;
    return value;
}

bool jinja_arg_truth(const struct jinja_value *arg, bool default_value)
{
    return arg->kind == JINJA_ABSENT ? default_value : jinja_truth(arg);
}

int64_t jinja_arg_int(struct jinja_run *run, const struct jinja_value *arg,
                      int64_t default_value)
{
    if (arg->kind == JINJA_ABSENT)
        return default_value;
    if (arg->kind == JINJA_BOOL)
        return arg->truth;
    if (arg->kind == JINJA_INT)
        return arg->integer;
    jinja_fail(run, "'%s' object cannot be interpreted as an integer", jinja_type(arg));
    return default_value;
}

bool jinja_arg_string(struct jinja_run *run, const struct jinja_value *arg)
{
    if (arg->kind != JINJA_STRING)
        jinja_fail(run, "must be str, not %s", jinja_type(arg));
    return !jinja_failed(run);
}
