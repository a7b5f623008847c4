/* train/jinja/jinja_execute.c - statements: output, assignment and control flow. */
#include "config.h"

#include <string.h>

#include "train/jinja/jinja_call.h"
#include "train/jinja/jinja_print.h"

static enum jinja_flow execute(struct jinja_run *run, const struct jinja_node *node);

void jinja_set(struct jinja_run *run, const char *name, const struct jinja_value *value)
{
    struct jinja_variable *variable;

    for (variable = run->scope->variables; variable; variable = variable->next)
        if (variable->name == name) {
            variable->value = *value;
            return;
        }
    variable = jinja_alloc(run, 1, sizeof(*variable));
    if (!variable)
        return;
    *variable = (struct jinja_variable) { name, *value, run->scope->variables };
    run->scope->variables = variable;
}

/* Open a scope inside the current one, and return the outer one; NULL: no memory. The
 * caller restores the outer scope. */
static struct jinja_scope *enter_scope(struct jinja_run *run)
{
    struct jinja_scope *scope = jinja_alloc(run, 1, sizeof(*scope)), *outer = run->scope;

    if (!scope)
        return NULL;
    scope->parent = outer;
    run->scope = scope;
    return outer;
}

static void set_member(struct jinja_run *run, const struct jinja_node *target,
                       const struct jinja_value *value)
{
    struct jinja_node name = { .op = OP_NAME,
                               .line = target->line,
                               .name = target->name };
    struct jinja_value space = jinja_evaluate(run, &name);
    struct jinja_value member = jinja_string(target->member, strlen(target->member));

    if (jinja_failed(run))
        return;
    if (space.kind != JINJA_NAMESPACE)
        jinja_fail(run, "cannot assign attribute on non-namespace object");
    else if (target->member[0] == '_')
        jinja_fail(run, "names of a namespace must not start with an underscore");
    else
        jinja_dict_set(run, space.dict, &member, value);
}

static void assign(struct jinja_run *run, const struct jinja_node *target,
                   const struct jinja_value *value)
{
    struct jinja_list items;

    if (target->op == OP_NAME) {
        jinja_set(run, target->name, value);
        return;
    }
    if (target->op == OP_MEMBER) {
        set_member(run, target, value);
        return;
    }
    items = jinja_items(run, value);
    if (!jinja_failed(run) && items.count != target->count)
        jinja_fail(run,
                   items.count > target->count
                       ? "too many values to unpack (expected %zu, got %zu)"
                       : "not enough values to unpack (expected %zu, got %zu)",
                   target->count, items.count);
    for (size_t i = 0; i < items.count && !jinja_failed(run); i++)
        assign(run, target->kids[i], &items.items[i]);
}

struct jinja_value jinja_capture(struct jinja_run *run, const struct jinja_node *body)
{
    struct text *outer = run->text, text;
    struct jinja_value value;

    text_init(&text, run->bytes_max);
    run->text = &text;
    execute(run, body);
    run->text = outer;
    value = jinja_take(run, &text);
    text_clear(&text);
    return value;
}

/* Capture in a new scope. */
static struct jinja_value capture_inside(struct jinja_run *run,
                                         const struct jinja_node *body)
{
    struct jinja_scope *outer = enter_scope(run);
    struct jinja_value value;

    if (!outer)
        return jinja_none();
    value = jinja_capture(run, body);
    run->scope = outer;
    return value;
}

/* Apply the filters of a block; the innermost has no value of its own. */
static struct jinja_value filter_text(struct jinja_run *run,
                                      const struct jinja_node *filter,
                                      struct jinja_value text)
{
    struct jinja_node constant = { .op = OP_CONSTANT,
                                   .line = filter->line,
                                   .value = text };
    struct jinja_node *kids[1] = { &constant };
    struct jinja_node copy = *filter;

    if (filter->kids[0])
        constant.value = filter_text(run, filter->kids[0], text);
    copy.kids = kids;
    return jinja_evaluate(run, &copy);
}

static enum jinja_flow execute_print(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value value = jinja_evaluate(run, node->kids[0]);

    if (!jinja_failed(run))
        jinja_add(run, run->text, &value);
    return FLOW_ON;
}

static enum jinja_flow execute_if(struct jinja_run *run, const struct jinja_node *node)
{
    for (size_t i = 0; i + 1 < node->count; i += 2) {
        struct jinja_value condition = jinja_evaluate(run, node->kids[i]);

        if (jinja_failed(run))
            return FLOW_ON;
        if (jinja_truth(&condition))
            return execute(run, node->kids[i + 1]);
    }
    return node->count % 2 ? execute(run, node->kids[node->count - 1]) : FLOW_ON;
}

/* Keep the items for which the condition of the loop's `if` is true. */
static void filter_items(struct jinja_run *run, const struct jinja_node *node,
                         struct jinja_list *items)
{
    struct jinja_value kept = jinja_list_new(run, JINJA_LIST, items->count);
    struct jinja_scope *outer = run->scope;
    size_t count = 0;

    for (size_t i = 0; i < items->count && !jinja_failed(run); i++) {
        struct jinja_value condition;

        run->scope = outer;
        if (!enter_scope(run))
            break;
        assign(run, node->kids[0], &items->items[i]);
        condition = jinja_evaluate(run, node->kids[2]);
        if (!jinja_failed(run) && jinja_truth(&condition))
            kept.list->items[count++] = items->items[i];
    }
    run->scope = outer;
    if (jinja_failed(run))
        return;
    *items = *kept.list;
    items->count = count;
}

/* Return whether any iteration reached the end of the body. {% else %} runs if none did:
 * for a loop without items, or if break or continue left every iteration early
 * (jinja2/compiler.py, visit_For). */
static bool loop_over(struct jinja_run *run, const struct jinja_node *node,
                      const struct jinja_list *items)
{
    struct jinja_value value = { .kind = JINJA_LOOP };
    struct jinja_scope *outer = run->scope;
    enum jinja_flow flow = FLOW_ON;
    bool reached = false;

    value.loop = jinja_alloc(run, 1, sizeof(*value.loop));
    if (!value.loop)
        return false;
    value.loop->items = items;
    for (size_t i = 0; i < items->count && flow != FLOW_BREAK && !jinja_failed(run);
         i++) {
        value.loop->index = i;
        if (!enter_scope(run))
            break;
        jinja_set(run, run->jinja->loop, &value);
        assign(run, node->kids[0], &items->items[i]);
        flow = execute(run, node->kids[3]);
        reached = reached || flow == FLOW_ON;
        run->scope = outer;
    }
    run->scope = outer;
    return reached;
}

static enum jinja_flow execute_for(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value iterable = jinja_evaluate(run, node->kids[1]);
    struct jinja_scope *outer = run->scope;
    struct jinja_list *items = jinja_alloc(run, 1, sizeof(*items));

    if (!items)
        return FLOW_ON;
    *items = jinja_items(run, &iterable);
    if (node->kids[2] && !jinja_failed(run))
        filter_items(run, node, items);
    if (jinja_failed(run))
        return FLOW_ON;
    if (loop_over(run, node, items) || !node->kids[4] || jinja_failed(run))
        return FLOW_ON;
    if (enter_scope(run)) {
        enum jinja_flow flow = execute(run, node->kids[4]);

        run->scope = outer;
        return flow;
    }
    return FLOW_ON;
}

static enum jinja_flow execute_break(struct jinja_run *run, const struct jinja_node *node)
{
    (void)run;
    (void)node;
    return FLOW_BREAK;
}

static enum jinja_flow execute_continue(struct jinja_run *run,
                                        const struct jinja_node *node)
{
    (void)run;
    (void)node;
    return FLOW_CONTINUE;
}

static enum jinja_flow execute_set(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value value = jinja_evaluate(run, node->kids[1]);

    if (!jinja_failed(run))
        assign(run, node->kids[0], &value);
    return FLOW_ON;
}

static enum jinja_flow execute_set_block(struct jinja_run *run,
                                         const struct jinja_node *node)
{
    struct jinja_value value = capture_inside(run, node->kids[2]);

    if (node->kids[1])
        value = filter_text(run, node->kids[1], value);
    if (!jinja_failed(run))
        assign(run, node->kids[0], &value);
    return FLOW_ON;
}

static enum jinja_flow execute_macro(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value macro = jinja_macro_new(run, node);

    if (!jinja_failed(run))
        jinja_set(run, node->name, &macro);
    return FLOW_ON;
}

static enum jinja_flow execute_call(struct jinja_run *run, const struct jinja_node *node)
{
    const struct jinja_node *call = node->kids[0];
    struct jinja_value caller = jinja_macro_new(run, node->kids[1]);
    struct jinja_value function = jinja_evaluate(run, call->kids[0]), value;
    struct jinja_arguments given;

    if (!jinja_evaluate_arguments(run, call, &given))
        return FLOW_ON;
    value = jinja_call(run, &function, &given, &caller);
    if (!jinja_failed(run))
        jinja_add(run, run->text, &value);
    return FLOW_ON;
}

static enum jinja_flow execute_filtered(struct jinja_run *run,
                                        const struct jinja_node *node)
{
    struct jinja_value value =
        filter_text(run, node->kids[0], capture_inside(run, node->kids[1]));

    if (!jinja_failed(run))
        jinja_add(run, run->text, &value);
    return FLOW_ON;
}

/* The values are evaluated outside the block. */
static enum jinja_flow execute_with(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value values = jinja_list_new(run, JINJA_LIST, node->count / 2);
    struct jinja_scope *outer;
    enum jinja_flow flow = FLOW_ON;

    for (size_t i = 0; i < node->count / 2 && !jinja_failed(run); i++)
        values.list->items[i] = jinja_evaluate(run, node->kids[2 * i + 1]);
    outer = enter_scope(run);
    for (size_t i = 0; i < node->count / 2 && !jinja_failed(run); i++)
        assign(run, node->kids[2 * i], &values.list->items[i]);
    if (!jinja_failed(run))
        flow = execute(run, node->kids[node->count - 1]);
    if (outer)
        run->scope = outer;
    return flow;
}

/* Record a span only if the text goes directly to the output: the position of a macro's
 * text is not known yet. */
static enum jinja_flow execute_generation(struct jinja_run *run,
                                          const struct jinja_node *node)
{
    struct jinja_output *out = run->out;
    size_t before = run->text->len;
    struct jinja_value text = capture_inside(run, node->kids[0]);

    if (jinja_failed(run))
        return FLOW_ON;
    if (run->text != &out->text) {
        jinja_fail(run, "{%% generation %%} inside of a macro or a block that is set");
        return FLOW_ON;
    }
    jinja_add(run, run->text, &text);
    if (out->span_count == out->span_room) {
        out->span_room = out->span_room ? 2 * out->span_room : 8;
        out->spans = memory_resize(out->spans, out->span_room, sizeof(*out->spans));
    }
    out->spans[out->span_count++] =
        (struct jinja_span) { before, run->text->len - before };
    return FLOW_ON;
}

static enum jinja_flow execute_data(struct jinja_run *run, const struct jinja_node *node)
{
    jinja_add(run, run->text, &node->value);
    return FLOW_ON;
}

static enum jinja_flow execute_block(struct jinja_run *run, const struct jinja_node *node)
{
    for (size_t i = 0; i < node->count; i++) {
        enum jinja_flow flow = execute(run, node->kids[i]);

        if (flow != FLOW_ON || jinja_failed(run))
            return flow;
    }
    return FLOW_ON;
}

static enum jinja_flow execute(struct jinja_run *run, const struct jinja_node *node)
{
    static enum jinja_flow (*const code[])(struct jinja_run *,
                                           const struct jinja_node *) = {
        [OP_BLOCK] = execute_block,
        [OP_DATA] = execute_data,
        [OP_PRINT] = execute_print,
        [OP_IF] = execute_if,
        [OP_FOR] = execute_for,
        [OP_BREAK] = execute_break,
        [OP_CONTINUE] = execute_continue,
        [OP_SET] = execute_set,
        [OP_SET_BLOCK] = execute_set_block,
        [OP_MACRO] = execute_macro,
        [OP_CALL_BLOCK] = execute_call,
        [OP_FILTERED] = execute_filtered,
        [OP_WITH] = execute_with,
        [OP_GENERATION] = execute_generation,
    };
    enum jinja_flow flow = FLOW_ON;

    if (!jinja_work(run, 0) || !jinja_enter(run))
        return FLOW_ON;
    run->line = node->line;
    flow = code[node->op](run, node);
    jinja_leave(run);
    return jinja_failed(run) ? FLOW_ON : flow;
}

enum jinja_flow jinja_execute(struct jinja_run *run, const struct jinja_node *node)
{
    return execute(run, node);
}
