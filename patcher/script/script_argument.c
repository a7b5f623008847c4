/* patcher/script/script_argument.c - the arguments of a call, through `**kwargs`. */
#include "config.h"

#include "patcher/script/script_internal.h"

#include <string.h>

#include "base/text.h"

typedef void (*taker)(void *context, const struct script_argument *argument);

struct taking {
    struct script *script;
    taker take;
    void *context;
    bool computed;
    int depth;
};

enum { SPREAD_DEPTH = 8 };

static void take_members(struct taking *taking, const struct syntax *dict);

static const struct syntax *last_child(const struct syntax *node)
{
    return node->last;
}

/* `name["key"] = value` after `name = {...}`, and before the dictionary is used. */
static void take_later(struct taking *taking, const char *name, const struct syntax *dict,
                       const struct syntax *use)
{
    struct script *script = taking->script;
    const char *prefix = arena_printf(script->arena, "%s[", name);

    for (size_t i = 0; i < script->binding_count; i++) {
        const struct binding *binding = &script->bindings[i];
        size_t len = strlen(binding->name), skip = strlen(prefix);
        const struct binding *found;

        if (strncmp(binding->name, prefix, skip) != 0 || binding->at->at < dict->at ||
            binding->at->at > use->at || !binding->value)
            continue;
        found = script_find(script, binding->name, use);
        if (found != binding)
            continue;
        taking->take(
            taking->context,
            &(struct script_argument) {
                .name = arena_copy(script->arena, binding->name + skip, len - skip - 1),
                .value = binding->value,
                .written = binding->value,
                .holder = dict,
                .computed = taking->computed });
    }
}

/* A dictionary after `**`: written there, or assigned to a name before. */
static void take_spread(struct taking *taking, const struct syntax *star)
{
    const struct syntax *inner = syntax_plain(star->first);
    struct script_value value = script_evaluate(taking->script, inner);
    bool computed = taking->computed;

    if (value.kind != SCRIPT_DICT || taking->depth >= SPREAD_DEPTH)
        return;
    taking->depth++;
    taking->computed |= value.computed;
    take_members(taking, value.node);
    if (value.name)
        take_later(taking, value.name, value.node, star);
    taking->computed = computed;
    taking->depth--;
}

static void take_one(struct taking *taking, const struct syntax *child, size_t position,
                     const struct syntax *holder)
{
    struct script_argument argument = { .position = position,
                                        .value = child,
                                        .written = child,
                                        .holder = holder,
                                        .computed = taking->computed };
    const struct syntax *key;

    if (child->kind == SYNTAX_KEYWORD) {
        argument.name = syntax_text(&taking->script->tree, syntax_field(child, "name"));
        argument.value = syntax_field(child, "value");
    } else if (child->kind == SYNTAX_PAIR) {
        struct script_value name;

        key = syntax_field(child, "key");
        name = script_evaluate(taking->script, key);
        if (name.kind != SCRIPT_STRING)
            return;
        argument.name = name.text;
        argument.value = syntax_field(child, "value");
    }
    if (argument.value)
        taking->take(taking->context, &argument);
}

static void take_list(struct taking *taking, const struct syntax *list,
                      const struct syntax *holder)
{
    size_t position = 0;

    for (const struct syntax *child = list ? list->first : NULL; child;
         child = child->next) {
        if (child->kind == SYNTAX_DOUBLE_STAR && child->first)
            take_spread(taking, child);
        else if (child->kind == SYNTAX_STAR)
            position += 100; /* what follows has no known position */
        else
            take_one(taking, child, position++, holder);
    }
}

static void take_members(struct taking *taking, const struct syntax *dict)
{
    if (dict->kind == SYNTAX_DICTIONARY)
        take_list(taking, dict, dict);
    else
        take_list(taking, last_child(dict), dict); /* dict(...) */
}

void script_members(struct script *script, const struct syntax *dict, taker take,
                    void *context)
{
    struct taking taking = { .script = script, .take = take, .context = context };

    take_members(&taking, dict);
}

void script_arguments(struct script *script, const struct syntax *call, taker take,
                      void *context)
{
    struct taking taking = { .script = script, .take = take, .context = context };
    const struct syntax *list = syntax_field(call, "arguments");

    if (list && list->kind == SYNTAX_ARGUMENTS)
        take_list(&taking, list, call);
}

struct search {
    const char *name;
    int position;
    bool found;
    struct script_argument *out;
};

static void compare_argument(void *context, const struct script_argument *argument)
{
    struct search *search = context;

    if (argument->name
            ? strcmp(argument->name, search->name) != 0
            : search->position < 0 || argument->position != (size_t)search->position)
        return;
    *search->out = *argument;
    search->found = true;
}

bool script_argument_find(struct script *script, const struct syntax *call,
                          const char *name, int position, struct script_argument *out)
{
    struct search search = { .name = name, .position = position, .out = out };

    if (script->depth > SPREAD_DEPTH * 4)
        return false;
    script->depth++;
    script_arguments(script, call, compare_argument, &search);
    script->depth--;
    return search.found;
}

struct script_value script_argument_value(struct script *script,
                                          const struct syntax *call, const char *name,
                                          int position)
{
    struct script_argument argument;
    struct script_value value = { .kind = SCRIPT_UNKNOWN };

    if (!script_argument_find(script, call, name, position, &argument))
        return value;
    value = script_evaluate(script, argument.value);
    value.computed |= argument.computed;
    return value;
}

const struct syntax *script_argument_keyword(const struct script_argument *argument)
{
    const struct syntax *name = syntax_field(argument->written, "name");

    if (!name)
        name = syntax_field(argument->written, "key");
    return name ? name : argument->written;
}
