/*
 * patcher/script/script_loop.c - training loops written by hand: does every gradient pass
 * through the scaler in the order scale, backward, unscale_, clip, step, update?
 *
 * torch/amp/grad_scaler.py: `step` unscales if nothing did before; a second `unscale_`
 * before `update` raises RuntimeError; only `update` makes the scaler ready for the next
 * step.
 */
#include "config.h"

#include "patcher/script/script_internal.h"

#include <string.h>

#include "base/text.h"

/* Each call that is checked is compared with all others. */
enum { FAULTS_MAX = 50, CHECKED_MAX = 100, BINDINGS_MAX = 50 };

struct loop {
    struct script *script;
    struct script_fault_at *faults;
    const char *scaler;      /* the first name of a scaler, or NULL */
    const char *accelerator; /* of an Accelerator, or NULL */
    const char *optimizer;   /* the argument of scaler.step, or NULL */
    bool scales;             /* the scaler is on, as far as is known */
    bool updates, steps;
    size_t checked;
};

static struct script_fault_at *add_fault(struct loop *loop, enum script_fault_kind kind,
                                         const struct syntax *at, const char *name)
{
    struct script_facts *facts = &loop->script->facts;
    struct script_fault_at *fault;

    if (facts->fault_count == FAULTS_MAX)
        return NULL;
    fault = &loop->faults[facts->fault_count++];
    *fault = (struct script_fault_at) {
        .kind = kind, .at = at->at, .bytes = at->end - at->at, .name = name
    };
    return fault;
}

/* ---- What a call does ---- */

/* Return whether it is `object.method(...)`. */
static bool is_call_of(const struct script *script, const struct syntax *call,
                       const char *object, const char *method)
{
    const struct syntax *function = syntax_field(call, "function");
    const char *name;

    if (!object || !function || function->kind != SYNTAX_ATTRIBUTE ||
        !syntax_is(&script->tree, syntax_field(function, "attribute"), method))
        return false;
    name = syntax_dotted(&script->tree, syntax_field(function, "object"));
    return name && strcmp(name, object) == 0;
}

static bool is_method(const struct script *script, const struct syntax *call,
                      const char *method)
{
    const struct syntax *function = syntax_field(call, "function");

    return function && function->kind == SYNTAX_ATTRIBUTE &&
           syntax_is(&script->tree, syntax_field(function, "attribute"), method);
}

static bool has_role(const struct script *script, const struct syntax *call,
                     enum script_role role)
{
    const struct script_class *row = script_class_of(script, call);

    return row && row->role == role;
}

/* Return the name that the result of a call of this role is assigned to, or NULL. */
static const char *assigned(const struct script *script, enum script_role role,
                            const struct syntax **value)
{
    for (size_t i = 0; i < script->call_count; i++) {
        const struct syntax *call = script->calls[i];
        const struct syntax *parent = call->parent;

        if (!has_role(script, call, role))
            continue;
        while (parent->kind == SYNTAX_CONDITIONAL || parent->kind == SYNTAX_PARENTHESES)
            parent = parent->parent;
        if (parent->kind != SYNTAX_ASSIGNMENT)
            continue;
        *value = call;
        return syntax_dotted(&script->tree, syntax_field(parent, "left"));
    }
    return NULL;
}

static const struct syntax *function_of(const struct syntax *node)
{
    const struct syntax *function = syntax_around(node, SYNTAX_FUNCTION, SYNTAX_FUNCTION);

    while (!function && node->parent)
        node = node->parent;
    return function ? function : node;
}

/* Return the statement of a call, if the call is all of it. */
static const struct syntax *statement_of(const struct syntax *call)
{
    return call->parent && call->parent->kind == SYNTAX_OTHER &&
                   call->parent->at == call->at && call->parent->end == call->end
               ? call->parent
               : NULL;
}

/* Return the blanks before a statement that starts its line; NULL: it does not. */
static const char *indent_of(const struct script *script, const struct syntax *statement)
{
    const char *data = script->tree.data;
    size_t start = document_line_start(script->document, statement->at);

    if (strspn(data + start, " \t") < statement->at - start)
        return NULL;
    return arena_copy(script->arena, data + start, statement->at - start);
}

/* ---- TS128 ---- */

static bool clips(const struct loop *loop, const struct syntax *call)
{
    return has_role(loop->script, call, ROLE_CLIP) &&
           !is_call_of(loop->script, call, loop->accelerator, "clip_grad_norm_") &&
           !is_call_of(loop->script, call, loop->accelerator, "clip_grad_value_");
}

/* Return whether gradients are unscaled in the function before the clipping. */
static bool is_unscaled(const struct loop *loop, const struct syntax *clip)
{
    const struct script *script = loop->script;

    for (size_t i = 0; i < script->call_count; i++) {
        const struct syntax *call = script->calls[i];

        if (call->at < clip->at && function_of(call) == function_of(clip) &&
            (is_method(script, call, "unscale_") ||
             is_method(script, call, "unscale_gradients")))
            return true;
    }
    return false;
}

static bool backs_scaled(const struct loop *loop, const struct syntax *function)
{
    const struct script *script = loop->script;

    for (size_t i = 0; i < script->call_count; i++)
        if (function_of(script->calls[i]) == function &&
            (is_call_of(script, script->calls[i], loop->scaler, "scale") ||
             is_call_of(script, script->calls[i], loop->accelerator, "backward")))
            return true;
    return false;
}

static void check_clip(struct loop *loop, const struct syntax *clip)
{
    const struct syntax *statement = statement_of(clip);
    struct script_fault_at *fault;
    const char *indent;

    if (!backs_scaled(loop, function_of(clip)) || is_unscaled(loop, clip))
        return;
    fault = add_fault(loop, LOOP_CLIPS_SCALED, syntax_field(clip, "function"),
                      loop->scaler ? loop->scaler : loop->accelerator);
    indent = statement ? indent_of(loop->script, statement) : NULL;
    if (!fault || !indent || !loop->scaler || !loop->optimizer)
        return;
    fault->edit_at = statement->at;
    fault->edit = arena_printf(
        loop->script->arena, "%s.unscale_(%s)%s%s", loop->scaler, loop->optimizer,
        document_newline(loop->script->document, statement->at), indent);
}

/* ---- TS129 ---- */

static bool computes_float16(struct script *script, const struct syntax *call)
{
    const char *path = script_callee(script, call);
    struct script_value enabled = script_argument_value(script, call, "enabled", -1);
    struct script_value dtype = script_argument_value(script, call, "dtype", -1);
    struct script_value type = script_argument_value(script, call, "device_type", 0);

    if (script_truth(&enabled) == 0)
        return false;
    if (dtype.kind == SCRIPT_DTYPE)
        return strcmp(dtype.text, "float16") == 0;
    /* the default of CUDA is float16: torch/amp/autocast_mode.py */
    return dtype.kind == SCRIPT_UNKNOWN && !dtype.node &&
           (strstr(path, "cuda.amp") ||
            (type.kind == SCRIPT_STRING && text_starts(type.text, "cuda")));
}

static bool trains_in(const struct script *script, const struct syntax *function)
{
    for (size_t i = 0; i < script->call_count; i++)
        if (is_method(script, script->calls[i], "backward") &&
            function_of(script->calls[i]) == function)
            return true;
    return false;
}

static bool has_call_of(const struct script *script, enum script_role role)
{
    for (size_t i = 0; i < script->call_count; i++)
        if (has_role(script, script->calls[i], role))
            return true;
    return false;
}

static void check_autocast(struct loop *loop, const struct syntax *call)
{
    struct script *script = loop->script;

    if (loop->scaler || loop->accelerator || has_call_of(script, ROLE_SCALER) ||
        has_call_of(script, ROLE_TRAINER) || has_call_of(script, ROLE_LIGHTNING) ||
        !computes_float16(script, call) || !trains_in(script, function_of(call)))
        return;
    add_fault(loop, LOOP_NO_SCALER, syntax_field(call, "function"), NULL);
}

/* ---- TS130 ---- */

/* Add `scaler.update()` below the statement and the comment on its line. */
static void add_line_after(const struct loop *loop, struct script_fault_at *fault,
                           const struct syntax *statement, const char *indent)
{
    const struct document *document = loop->script->document;
    const char *newline = document_newline(document, statement->at);
    size_t next = document_line_end(document, statement->end);
    const char *rest = document->data + statement->end;

    rest += strspn(rest, " \t");
    if (!*rest || next == document->len || !strchr("#\r\n", *rest)) {
        fault->edit_at = statement->end;
        fault->edit = arena_printf(loop->script->arena, "%s%s%s.update()", newline,
                                   indent, loop->scaler);
        return;
    }
    fault->edit_at = next;
    fault->edit = arena_printf(loop->script->arena, "%s%s.update()%s", indent,
                               loop->scaler, newline);
}

static void check_step(struct loop *loop, const struct syntax *call)
{
    const struct syntax *statement = statement_of(call);
    struct script_fault_at *fault;
    const char *indent;

    if (loop->updates)
        return;
    fault = add_fault(loop, LOOP_NO_UPDATE, syntax_field(call, "function"), loop->scaler);
    indent = statement ? indent_of(loop->script, statement) : NULL;
    if (!fault || !indent)
        return;
    add_line_after(loop, fault, statement, indent);
}

static bool same_call(const struct script *script, const struct syntax *a,
                      const struct syntax *b)
{
    size_t len = a->end - a->at;

    return len == b->end - b->at &&
           memcmp(script->tree.data + a->at, script->tree.data + b->at, len) == 0;
}

/* A second unscale_ of the same optimizer in the same block, with no update between. */
static void check_unscale(struct loop *loop, const struct syntax *call, size_t index)
{
    struct script *script = loop->script;
    const struct syntax *statement = statement_of(call);

    for (size_t i = index + 1; statement && i < script->call_count; i++) {
        const struct syntax *other = script->calls[i];

        if (is_call_of(script, other, loop->scaler, "update"))
            return;
        if (is_call_of(script, other, loop->scaler, "unscale_") && statement_of(other) &&
            statement_of(other)->parent == statement->parent &&
            same_call(script, call, other)) {
            add_fault(loop, LOOP_UNSCALES_TWICE, syntax_field(other, "function"),
                      loop->scaler);
            return;
        }
    }
}

static void check_direct_step(struct loop *loop, const struct syntax *call,
                              const char *optimizer)
{
    if (loop->steps || !is_call_of(loop->script, call, optimizer, "step") ||
        !backs_scaled(loop, function_of(call)))
        return;
    add_fault(loop, LOOP_STEPS_SCALED, syntax_field(call, "function"), optimizer);
}

/* ---- TS902 ---- */

/* Return the innermost word that makes a module float16: half, or torch.float16. */
static const struct syntax *float16_word(struct script *script, const struct syntax *node,
                                         int depth)
{
    struct script_model traced;
    const char *name = syntax_dotted(&script->tree, node);
    const struct binding *binding = name ? script_find(script, name, node) : NULL;
    struct script_argument dtype;
    struct script_value value;

    script_model_trace(script, node, &traced);
    script_model_casts(script, node->at, &traced);
    if (traced.cast)
        return strcmp(traced.cast_dtype, "float16") == 0 ? traced.cast_at : NULL;
    if (!binding || !binding->value || binding->value->kind != SYNTAX_CALL || depth > 3)
        return NULL;
    if (!script_argument_find(script, binding->value, "dtype", -1, &dtype))
        return NULL;
    value = script_evaluate(script, dtype.value);
    return value.kind == SCRIPT_DTYPE && strcmp(value.text, "float16") == 0 ? dtype.value
                                                                            : NULL;
}

/* Return whether a module is frozen, so that only its adapters are trained, or whether
 * trained weights are cast to float32: diffusers training_utils.py, cast_training_params;
 * PEFT utils, cast_mixed_precision_params. */
static bool is_frozen(const struct script *script, const struct syntax *object)
{
    const char *name = syntax_dotted(&script->tree, object);

    for (size_t i = 0; i < script->call_count; i++) {
        const struct syntax *call = script->calls[i];
        const struct syntax *list = syntax_field(call, "arguments");
        const char *path = script_callee(script, call);
        const char *last = path ? script_last(path) : "";

        if (strcmp(last, "cast_training_params") == 0 ||
            strcmp(last, "cast_mixed_precision_params") == 0 ||
            (is_call_of(script, call, name, "requires_grad_") && list && list->first &&
             list->first->kind == SYNTAX_FALSE))
            return true;
    }
    return false;
}

static void check_module(struct loop *loop, const struct syntax *object)
{
    struct script *script = loop->script;
    const struct syntax *word = float16_word(script, object, 0);
    const struct node *root = script->document->root;
    struct script_fault_at *fault;

    for (size_t i = 0; word && i < script->facts.fault_count; i++)
        if (loop->faults[i].at == word->at)
            return;
    for (size_t i = 0; word && root && i < root->count; i++)
        if (root->entries[i].value->at.byte == word->at)
            return; /* the model itself: TS105 */
    if (!word || is_frozen(script, object))
        return;
    fault = add_fault(loop, LOOP_HALF_MODULE, word, syntax_dotted(&script->tree, object));
    if (!fault)
        return;
    fault->edit_at = word->at;
    fault->edit_cut = word->end - word->at;
    fault->edit = syntax_is(&script->tree, word, "half") ? "float" : "torch.float32";
}

/* Check every `X.parameters()` below a node. */
static void check_modules(struct loop *loop, const struct syntax *top)
{
    for (const struct syntax *node = top; node; node = syntax_next(node, top)) {
        const struct syntax *function =
            node->kind == SYNTAX_CALL ? syntax_field(node, "function") : NULL;

        if (function && is_method(loop->script, node, "parameters"))
            check_module(loop, syntax_field(function, "object"));
    }
}

/* The parameters of an optimizer may be collected in a list first. */
static void check_optimizer(struct loop *loop, const struct syntax *call)
{
    struct script *script = loop->script;
    struct script_argument first;
    const char *name;

    if (!script_argument_find(script, call, "params", 0, &first))
        return;
    check_modules(loop, first.value);
    name = syntax_dotted(&script->tree, first.value);
    for (size_t i = 0, count; name && i < 1; i++) {
        const struct binding *list = script_bindings(script, name, &count);

        for (size_t k = 0; k < count && k < BINDINGS_MAX; k++)
            if (list[k].at->parent)
                check_modules(loop, list[k].at->parent);
    }
    for (size_t i = 0; name && i < script->call_count; i++)
        if (is_call_of(script, script->calls[i], name, "extend") ||
            is_call_of(script, script->calls[i], name, "append"))
            check_modules(loop, script->calls[i]);
}

/* ---- All ---- */

static void find_parts(struct loop *loop)
{
    struct script *script = loop->script;
    const struct syntax *value = NULL;
    struct script_value enabled, mixed;

    loop->scaler = assigned(script, ROLE_SCALER, &value);
    if (loop->scaler) {
        enabled = script_argument_value(script, value, "enabled", -1);
        loop->scales = script_truth(&enabled) != 0;
    }
    loop->accelerator = assigned(script, ROLE_ACCELERATOR, &value);
    if (loop->accelerator) {
        mixed = script_argument_value(script, value, "mixed_precision", 2);
        loop->scales |= mixed.kind == SCRIPT_STRING && strcmp(mixed.text, "fp16") == 0;
    }
    for (size_t i = 0; i < script->call_count; i++) {
        const struct syntax *call = script->calls[i];
        struct script_argument first;

        loop->updates |= is_call_of(script, call, loop->scaler, "update");
        if (!is_call_of(script, call, loop->scaler, "step"))
            continue;
        loop->steps = true;
        if (!loop->optimizer &&
            script_argument_find(script, call, "optimizer", 0, &first))
            loop->optimizer = syntax_dotted(&script->tree, first.value);
    }
}

/* Report a Trainer with other arguments than the first, whose rows the document has. */
static void check_trainers(struct loop *loop)
{
    struct script *script = loop->script;
    const struct syntax *first = NULL;

    for (size_t i = 0; i < script->call_count; i++) {
        const struct syntax *call = script->calls[i];
        struct script_value value;

        if (!has_role(script, call, ROLE_TRAINER))
            continue;
        value = script_argument_value(script, call, "args", 1);
        if (value.kind != SCRIPT_CALL || value.node == first)
            continue;
        if (first)
            add_fault(loop, LOOP_FURTHER, syntax_field(call, "function"), NULL);
        else
            first = value.node;
    }
}

static void check_call(struct loop *loop, size_t index, const char *optimizer)
{
    struct script *script = loop->script;
    const struct syntax *call = script->calls[index];
    const struct script_class *row = script_class_of(script, call);

    if (!row && !is_method(script, call, "step") && !is_method(script, call, "unscale_"))
        return;
    if (loop->checked++ >= CHECKED_MAX)
        return;
    if (has_role(script, call, ROLE_AUTOCAST))
        check_autocast(loop, call);
    if (!loop->scales)
        return;
    if (clips(loop, call))
        check_clip(loop, call);
    if (is_call_of(script, call, loop->scaler, "step"))
        check_step(loop, call);
    if (is_call_of(script, call, loop->scaler, "unscale_"))
        check_unscale(loop, call, index);
    if (loop->scaler && optimizer)
        check_direct_step(loop, call, optimizer);
    if (has_role(script, call, ROLE_OPTIMIZER))
        check_optimizer(loop, call);
}

void script_loop(struct script *script)
{
    struct loop loop = { .script = script };
    const struct syntax *value;
    const char *optimizer = assigned(script, ROLE_OPTIMIZER, &value);

    loop.faults = arena_array(script->arena, FAULTS_MAX, sizeof(*loop.faults));
    script->facts.faults = loop.faults;
    check_trainers(&loop);
    find_parts(&loop);
    for (size_t i = 0; i < script->call_count; i++)
        check_call(&loop, i, optimizer);
}
