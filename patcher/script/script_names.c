/* patcher/script/script_names.c - which assignment a name refers to. */
#include "config.h"

#include "patcher/script/script_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Each call is compared with each import. */
enum { IMPORTS_MAX = 2000, CALLS_MAX = 5000, CALL_DEPTH = 20 };

/* ---- Collect ---- */

struct collecting {
    struct script *script;
    size_t binding_room, import_room, call_room;
};

static void *grow(struct arena *arena, void *old, size_t count, size_t *room, size_t size)
{
    void *made;

    if (count < *room)
        return old;
    *room = *room ? 2 * *room : 64;
    made = arena_array(arena, *room, size);
    if (count > 0)
        memcpy(made, old, count * size);
    return made;
}

static void add_binding(struct collecting *to, const struct binding *binding)
{
    struct script *script = to->script;

    script->bindings = grow(script->arena, script->bindings, script->binding_count,
                            &to->binding_room, sizeof(*script->bindings));
    script->bindings[script->binding_count++] = *binding;
}

static void add_import(struct collecting *to, const char *name, const char *path)
{
    struct script *script = to->script;

    if (script->import_count == IMPORTS_MAX)
        return;
    script->imports = grow(script->arena, script->imports, script->import_count,
                           &to->import_room, sizeof(*script->imports));
    script->imports[script->import_count++] = (struct import_name) { name, path };
}

static const struct syntax *scope_of(const struct syntax *node)
{
    const struct syntax *scope = syntax_around(node, SYNTAX_FUNCTION, SYNTAX_CLASS);

    while (node->parent)
        node = node->parent;
    return scope ? scope : node;
}

/* Attributes of self belong to the class. */
static const struct syntax *scope_of_target(const struct syntax *target, const char *name)
{
    const struct syntax *class = syntax_around(target, SYNTAX_CLASS, SYNTAX_CLASS);

    return text_starts(name, "self.") && class ? class : scope_of(target);
}

/* Return the text of a string without its quotes; NULL: not a plain string. */
static const char *plain_string(const struct syntax_tree *tree, const struct syntax *node)
{
    const char *data = tree->data + node->at;
    size_t len = node->end - node->at;

    if (node->kind != SYNTAX_STRING || node->interpolated || len < 2 ||
        (*data != '"' && *data != '\'') || data[len - 1] != *data ||
        (len >= 6 && data[1] == *data && data[2] == *data) || memchr(data, '\\', len) ||
        memchr(data + 1, *data, len - 2))
        return NULL;
    return arena_copy(tree->arena, data + 1, len - 2);
}

static const char *target_name(struct script *script, const struct syntax *target)
{
    const struct syntax_tree *tree = &script->tree;
    const char *name, *key;

    if (target->kind != SYNTAX_SUBSCRIPT)
        return syntax_dotted(tree, target);
    name = syntax_dotted(tree, syntax_field(target, "value"));
    key = syntax_field(target, "subscript")
              ? plain_string(tree, syntax_field(target, "subscript"))
              : NULL;
    return name && key ? arena_printf(script->arena, "%s[%s]", name, key) : NULL;
}

static void bind_target(struct collecting *to, const struct syntax *target,
                        const struct syntax *value, int index)
{
    const char *name;
    int at = 0;

    target = syntax_plain(target);
    if (target->kind == SYNTAX_TUPLE || target->kind == SYNTAX_LIST) {
        for (const struct syntax *child = target->first; child; child = child->next)
            bind_target(to, child, index < 0 ? value : NULL, at++);
        return;
    }
    name = target_name(to->script, target);
    if (name)
        add_binding(to, &(struct binding) { .name = name,
                                            .scope = scope_of_target(target, name),
                                            .value = value,
                                            .at = target,
                                            .index = index });
}

static void bind_assignment(struct collecting *to, const struct syntax *node)
{
    const struct syntax *value = syntax_field(node, "right");

    if (!value)
        return;
    while (value->kind == SYNTAX_ASSIGNMENT && syntax_field(value, "right"))
        value = syntax_field(value, "right"); /* a = b = c */
    bind_target(to, syntax_field(node, "left"), syntax_plain(value), -1);
}

static void bind_parameter(struct collecting *to, const struct syntax *name,
                           const struct syntax *value, int position)
{
    add_binding(to, &(struct binding) { .name = syntax_text(&to->script->tree, name),
                                        .scope = scope_of(name),
                                        .value = value,
                                        .at = name,
                                        .index = -1,
                                        .is_default = value != NULL,
                                        .parameter = position });
}

/* Bind the parameters of a function.  `*args` and `**kwargs` are unknown. */
static void bind_parameters(struct collecting *to, const struct syntax *node)
{
    int position = 0;

    for (const struct syntax *child = node->first; child; child = child->next) {
        const struct syntax *name = child, *value = NULL;

        position++;
        if (child->kind == SYNTAX_DEFAULT) {
            name = syntax_field(child, "name");
            value = syntax_plain(syntax_field(child, "value"));
        }
        while (name && name->kind != SYNTAX_NAME)
            name = name->first;
        if (name)
            bind_parameter(to, name, value, position);
    }
}

static void read_import(struct collecting *to, const struct syntax *node)
{
    const struct syntax_tree *tree = &to->script->tree;
    const struct syntax *module = syntax_field(node, "module_name");
    const char *from = module ? syntax_text(tree, module) : NULL;

    for (const struct syntax *child = node->first; child; child = child->next) {
        const struct syntax *path = child, *alias = NULL;
        const char *name;

        if (!child->field || strcmp(child->field, "name") != 0)
            continue;
        if (child->kind == SYNTAX_ALIAS) {
            path = syntax_field(child, "name");
            alias = syntax_field(child, "alias");
        }
        if (!path)
            continue;
        name = syntax_text(tree, path);
        if (from)
            add_import(to, alias ? syntax_text(tree, alias) : name,
                       arena_printf(to->script->arena, "%s.%s", from, name));
        else if (alias)
            add_import(to, syntax_text(tree, alias), name);
    }
}

static void add_call(struct collecting *to, const struct syntax *node)
{
    struct script *script = to->script;

    if (script->call_count == CALLS_MAX)
        return;
    script->calls = grow(script->arena, script->calls, script->call_count, &to->call_room,
                         sizeof(*script->calls));
    script->calls[script->call_count++] = node;
    ((struct syntax *)node)->number = (uint32_t)script->call_count; /* our own tree */
}

static void collect(struct collecting *to, const struct syntax *node)
{
    switch (node->kind) {
    case SYNTAX_CALL:
        add_call(to, node);
        break;
    case SYNTAX_ASSIGNMENT:
        bind_assignment(to, node);
        break;
    case SYNTAX_AUGMENTED:
    case SYNTAX_FOR:
        if (syntax_field(node, "left"))
            bind_target(to, syntax_field(node, "left"), NULL, -1);
        break;
    case SYNTAX_PARAMETERS:
        bind_parameters(to, node);
        break;
    case SYNTAX_AS:
        if (syntax_field(node, "alias") && syntax_field(node, "alias")->first)
            bind_target(to, syntax_field(node, "alias")->first, NULL, -1);
        break;
    case SYNTAX_IMPORT:
    case SYNTAX_IMPORT_FROM:
        read_import(to, node);
        break;
    default:
        break;
    }
}

static int compare_bindings(const void *a, const void *b)
{
    const struct binding *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->at->at > y->at->at) - (x->at->at < y->at->at);
}

void script_names_read(struct script *script)
{
    struct collecting to = { .script = script };

    for (const struct syntax *node = script->tree.root; node;
         node = syntax_next(node, script->tree.root))
        collect(&to, node);
    script->classes =
        arena_array(script->arena, script->call_count + 1, sizeof(*script->classes));
    script->classified = arena_alloc(script->arena, script->call_count + 1);
    if (script->binding_count > 0)
        qsort(script->bindings, script->binding_count, sizeof(*script->bindings),
              compare_bindings);
}

/* ---- Look up ---- */

const struct binding *script_bindings(const struct script *script, const char *name,
                                      size_t *count)
{
    size_t low = 0, high = script->binding_count, end;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (strcmp(script->bindings[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (end = low;
         end < script->binding_count && strcmp(script->bindings[end].name, name) == 0;)
        end++;
    *count = end - low;
    return script->bindings + low;
}

/* Return whether a call calls the function: by its name, as a method, or as the class
 * whose __init__ it is. */
static bool calls_function(const struct script *script, const struct syntax *call,
                           const struct syntax *function, bool is_method)
{
    const struct syntax *callee = syntax_field(call, "function");
    const struct syntax *name = syntax_field(function, "name");
    const struct syntax *class = syntax_around(function, SYNTAX_CLASS, SYNTAX_CLASS);

    if (is_method && syntax_is(&script->tree, name, "__init__"))
        name = syntax_field(class, "name");
    else if (is_method && callee && callee->kind == SYNTAX_ATTRIBUTE)
        callee = syntax_field(callee, "attribute");
    return callee && name && callee->kind == SYNTAX_NAME &&
           callee->end - callee->at == name->end - name->at &&
           memcmp(script->tree.data + callee->at, script->tree.data + name->at,
                  name->end - name->at) == 0;
}

const struct syntax *script_assigned(struct script *script, const struct binding *binding,
                                     bool *certain)
{
    const struct syntax *function = binding->scope, *only = NULL;
    bool is_method;
    struct script_argument argument;

    *certain = !binding->is_default;
    if (binding->parameter == 0 || function->kind != SYNTAX_FUNCTION)
        return binding->value;
    is_method = scope_of(function)->kind == SYNTAX_CLASS;
    for (size_t i = 0; i < script->call_count; i++) {
        if (!calls_function(script, script->calls[i], function, is_method))
            continue;
        if (only)
            return binding->value;
        only = script->calls[i];
    }
    if (!only || script->depth >= CALL_DEPTH)
        return binding->value;
    *certain = true;
    return script_argument_find(script, only, binding->name,
                                binding->parameter - 1 - is_method, &argument)
               ? argument.value
               : binding->value;
}

enum branch { BRANCH_UNKNOWN, BRANCH_TAKEN, BRANCH_SKIPPED };

static int condition_of(struct script *script, const struct syntax *statement)
{
    const struct syntax *condition = syntax_field(statement, "condition");
    struct script_value value;

    if (!condition)
        return -1;
    value = script_evaluate(script, condition);
    return script_truth(&value);
}

/* Return whether a part of an if statement or of its elif runs: the part itself, and none
 * before it. */
static enum branch branch_of(struct script *script, const struct syntax *part)
{
    const struct syntax *statement = part->parent;
    int truth = condition_of(script, statement);

    if (part->kind != SYNTAX_ELSE && part->kind != SYNTAX_ELIF)
        return truth < 0 ? BRANCH_UNKNOWN : truth ? BRANCH_TAKEN : BRANCH_SKIPPED;
    for (const struct syntax *child = statement->first; truth == 0 && child != part;
         child = child->next)
        if (child->kind == SYNTAX_ELIF)
            truth = condition_of(script, child);
    return truth < 0 ? BRANCH_UNKNOWN : truth ? BRANCH_SKIPPED : BRANCH_TAKEN;
}

/* Return whether an assignment runs before the code around `use` does: its branches must
 * also be around the use, or be known to be taken. */
static enum branch reaches(struct script *script, const struct binding *binding,
                           const struct syntax *use)
{
    enum branch result = BRANCH_TAKEN;

    for (const struct syntax *part = binding->at;
         part->parent && part != binding->scope && result == BRANCH_TAKEN;
         part = part->parent) {
        const struct syntax *around = part->parent;

        if (syntax_contains(part, use))
            break;
        if ((around->kind == SYNTAX_IF || around->kind == SYNTAX_ELIF) && part->field &&
            strcmp(part->field, "condition") != 0)
            result = branch_of(script, part);
    }
    return result;
}

static const struct binding unknown_binding = { .name = "", .index = -1 };

/* Return the last assignment in a scope that reaches the use; NULL: the scope has
 * none. */
static const struct binding *find_in(struct script *script, const char *name,
                                     const struct syntax *scope, const struct syntax *use)
{
    size_t count;
    const struct binding *list = script_bindings(script, name, &count);
    bool inside = scope_of(use) == scope;

    for (size_t i = count; i-- > 0 && script->budget > 0; script->budget--) {
        if (list[i].scope != scope)
            continue;
        if (inside && list[i].at->at >= use->at)
            continue;
        /* the target of the assignment that holds the use */
        if (list[i].value && syntax_contains(list[i].value, use))
            continue;
        switch (reaches(script, &list[i], use)) {
        case BRANCH_TAKEN:
            return &list[i];
        case BRANCH_UNKNOWN:
            return &unknown_binding;
        case BRANCH_SKIPPED:
            break;
        }
    }
    return NULL;
}

const struct binding *script_find(struct script *script, const char *name,
                                  const struct syntax *use)
{
    const struct syntax *scope = scope_of(use);
    bool first = true;

    while (scope) {
        /* the names of a class are visible in its own body, those of self everywhere */
        if (first || scope->kind != SYNTAX_CLASS || text_starts(name, "self.")) {
            const struct binding *found = find_in(script, name, scope, use);

            if (found)
                return found == &unknown_binding ? NULL : found;
        }
        first = false;
        scope = scope->parent ? scope_of(scope) : NULL;
    }
    return NULL;
}

size_t script_count_uses(const struct script *script, const char *name)
{
    const struct syntax *root = script->tree.root;
    size_t count = 0;

    for (const struct syntax *node = root; node; node = syntax_next(node, root)) {
        if (node->kind != SYNTAX_NAME && node->kind != SYNTAX_ATTRIBUTE)
            continue;
        if (node->parent && node->parent->kind == SYNTAX_PARAMETERS)
            continue;
        if (node->field &&
            (strcmp(node->field, "left") == 0 || strcmp(node->field, "name") == 0 ||
             strcmp(node->field, "attribute") == 0))
            continue;
        count += node->kind == SYNTAX_NAME
                     ? syntax_is(&script->tree, node, name)
                     : strchr(name, '.') && syntax_is(&script->tree, node, name);
    }
    return count;
}

const char *script_last(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

const char *script_path(const struct script *script, const struct syntax *node)
{
    const char *path = syntax_dotted(&script->tree, node);
    size_t len = path ? strcspn(path, ".") : 0;

    for (size_t i = 0; path && i < script->import_count; i++) {
        const struct import_name *import = &script->imports[i];

        if (strlen(import->name) == len && strncmp(import->name, path, len) == 0)
            return arena_printf(script->arena, "%s%s", import->path, path + len);
    }
    return path;
}

const char *script_callee(const struct script *script, const struct syntax *call)
{
    return script_path(script, syntax_field(call, "function"));
}
