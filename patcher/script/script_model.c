/* patcher/script/script_model.c - the model that a script trains: where it is loaded,
 * and in which format it is when the training starts. */
#include "config.h"

#include "patcher/script/script_internal.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"

enum { TRACE_DEPTH = 16 };

static void add_name(struct script_model *model, const char *name)
{
    for (size_t i = 0; i < model->name_count; i++)
        if (strcmp(model->names[i], name) == 0)
            return;
    if (model->name_count < TS_COUNT(model->names))
        model->names[model->name_count++] = name;
}

/* Methods that return the model, or change it in place. */
static bool is_method(const struct script *script, const struct syntax *call,
                      const char **method, const struct syntax **object)
{
    const struct syntax *function = syntax_field(call, "function");

    if (!function || function->kind != SYNTAX_ATTRIBUTE)
        return false;
    *object = syntax_field(function, "object");
    *method = syntax_text(&script->tree, syntax_field(function, "attribute"));
    return *object != NULL;
}

static bool returns_object(const char *method)
{
    static const char *const names[] = { "half", "float",         "bfloat16", "to",
                                         "cuda", "train",         "eval",     "double",
                                         "cpu",  "requires_grad_" };

    for (size_t i = 0; i < TS_COUNT(names); i++)
        if (strcmp(names[i], method) == 0)
            return true;
    return false;
}

/* The format that a method casts to; *at is the text that says so. */
static const char *cast_of(struct script *script, const struct syntax *call,
                           const struct syntax **at)
{
    static const struct {
        const char *method, *dtype;
    } casts[] = { { "half", "float16" },
                  { "float", "float32" },
                  { "bfloat16", "bfloat16" } };
    const struct syntax *object, *list = syntax_field(call, "arguments");
    const char *method;
    struct script_value value;

    if (!is_method(script, call, &method, &object))
        return NULL;
    for (size_t i = 0; i < TS_COUNT(casts); i++)
        if (strcmp(method, casts[i].method) == 0 && list && !list->first) {
            *at = syntax_field(syntax_field(call, "function"), "attribute");
            return casts[i].dtype;
        }
    if (strcmp(method, "to") != 0)
        return NULL;
    for (const struct syntax *child = list ? list->first : NULL; child;
         child = child->next) {
        *at = child->kind == SYNTAX_KEYWORD ? syntax_field(child, "value") : child;
        value = script_evaluate(script, *at);
        if (value.kind == SCRIPT_DTYPE)
            return value.text;
    }
    return NULL;
}

static void note_cast(struct script *script, const struct syntax *call,
                      struct script_model *model)
{
    const struct syntax *at;
    const char *dtype = cast_of(script, call, &at);

    if (!dtype || (model->cast && model->cast->end >= call->end))
        return;
    model->cast = call;
    model->cast_dtype = dtype;
    model->cast_at = at;
}

static void trace(struct script *script, const struct syntax *node, int depth,
                  struct script_model *out);

static void trace_call(struct script *script, const struct syntax *call, int depth,
                       struct script_model *out)
{
    const struct script_class *row = script_class_of(script, call);
    const struct syntax *object;
    const char *method;
    struct script_argument first;

    if (row && row->role == ROLE_MODEL) {
        const char *path = script_callee(script, call);

        /* PeftModel.from_pretrained(model, "adapter") */
        if (strstr(path, "PeftModel") &&
            script_argument_find(script, call, "model", 0, &first)) {
            out->adapt = call;
            trace(script, first.value, depth + 1, out);
        } else {
            out->load = call;
        }
        return;
    }
    if (row && (row->role == ROLE_ADAPTED || row->role == ROLE_WRAPPER)) {
        if (row->role == ROLE_ADAPTED && !out->adapt)
            out->adapt = call;
        if (script_argument_find(script, call, "model", 0, &first))
            trace(script, first.value, depth + 1, out);
        return;
    }
    if (is_method(script, call, &method, &object) && returns_object(method)) {
        note_cast(script, call, out);
        trace(script, object, depth + 1, out);
    }
}

/* The return value of a function of this script, if all but one return is of a name. */
static const struct syntax *returned(struct script *script, const struct syntax *call)
{
    const char *path = script_callee(script, call);
    const struct syntax *root = script->tree.root, *found = NULL;

    for (const struct syntax *node = root; path && node; node = syntax_next(node, root))
        if (node->kind == SYNTAX_FUNCTION &&
            syntax_is(&script->tree, syntax_field(node, "name"), path))
            for (const struct syntax *in = node; in; in = syntax_next(in, node))
                if (in->kind == SYNTAX_RETURN && in->first)
                    found = in->first;
    return found;
}

static void trace(struct script *script, const struct syntax *node, int depth,
                  struct script_model *out)
{
    const struct binding *binding;
    const struct syntax *value;
    const char *name;
    bool certain;

    node = syntax_plain(node);
    if (!node || depth > TRACE_DEPTH || out->load)
        return;
    if (node->kind == SYNTAX_CALL) {
        trace_call(script, node, depth, out);
        value = out->load || out->adapt ? NULL : returned(script, node);
        if (value && value->kind == SYNTAX_TUPLE)
            value = value->first;
        trace(script, value, depth + 1, out);
        return;
    }
    name = syntax_dotted(&script->tree, node);
    if (!name)
        return;
    add_name(out, name);
    binding = script_find(script, name, node);
    value = binding && binding->index <= 0 ? script_assigned(script, binding, &certain)
                                           : NULL;
    if (value) {
        if (binding->index == 0 && value->kind == SYNTAX_TUPLE)
            value = value->first;
        trace(script, value, depth + 1, out);
    }
}

void script_model_trace(struct script *script, const struct syntax *node,
                        struct script_model *out)
{
    *out = (struct script_model) { 0 };
    trace(script, node, 0, out);
}

static bool has_name(const struct script_model *model, const char *name)
{
    for (size_t i = 0; name && i < model->name_count; i++)
        if (strcmp(model->names[i], name) == 0)
            return true;
    return false;
}

void script_model_casts(struct script *script, size_t before, struct script_model *out)
{
    for (size_t i = 0; i < script->call_count; i++) {
        const struct syntax *call = script->calls[i], *object;
        const char *method;

        if (call->at >= before || (out->load && call->at < out->load->at) ||
            !is_method(script, call, &method, &object) ||
            !has_name(out, syntax_dotted(&script->tree, object)))
            continue;
        note_cast(script, call, out);
    }
    out->cast_after_adapt = out->cast && out->adapt && out->cast->end > out->adapt->end;
}
