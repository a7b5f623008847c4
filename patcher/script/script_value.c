/* patcher/script/script_value.c - the value of an expression, without running it. */
#include "config.h"

#include "patcher/script/script_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

enum { DEPTH_MAX = 60 };

static const struct script_value unknown = { .kind = SCRIPT_UNKNOWN };

struct script_value script_bool(const struct syntax *node, bool value)
{
    return (struct script_value) { .kind = SCRIPT_BOOL, .boolean = value, .node = node };
}

struct script_value script_number(const struct syntax *node, double value)
{
    return (struct script_value) { .kind = SCRIPT_NUMBER, .number = value, .node = node };
}

static struct script_value of_text(const struct syntax *node, const char *text)
{
    return (struct script_value) { .kind = SCRIPT_STRING, .text = text, .node = node };
}

struct script_value script_computed(struct script_value value)
{
    value.computed = true;
    return value;
}

int script_truth(const struct script_value *value)
{
    switch (value->kind) {
    case SCRIPT_BOOL:
        return value->boolean;
    case SCRIPT_NUMBER:
        return value->number != 0;
    case SCRIPT_STRING:
        return *value->text != 0;
    case SCRIPT_NULL:
        return 0;
    case SCRIPT_DTYPE:
        return 1;
    default:
        return -1;
    }
}

/* ---- Literals ---- */

static struct script_value read_number(struct script *script, const struct syntax *node)
{
    char digits[64];
    size_t len = 0;
    char *end;
    double value;

    for (size_t i = node->at; i < node->end && len + 1 < sizeof(digits); i++)
        if (script->tree.data[i] != '_')
            digits[len++] = script->tree.data[i];
    digits[len] = 0;
    if (digits[0] == '0' && strchr("xXoObB", digits[1]) && digits[1])
        return unknown;
    value = strtod(digits, &end);
    return *end ? unknown : script_number(node, value);
}

/* Prefixes and escapes other than none are left unknown. */
static struct script_value read_string(struct script *script, const struct syntax *node)
{
    const char *data = script->tree.data + node->at;
    size_t len = node->end - node->at, quotes = 1;

    if (node->interpolated || node->first == NULL || node->first->kind == SYNTAX_STRING ||
        len < 2)
        return unknown;
    if (*data == 'r' || *data == 'u' || *data == 'f') {
        data++;
        len--;
    }
    if ((*data != '"' && *data != '\'') || len < 2)
        return unknown;
    if (len >= 6 && data[1] == *data && data[2] == *data)
        quotes = 3;
    if (memchr(data, '\\', len))
        return unknown;
    return of_text(node, arena_copy(script->arena, data + quotes, len - 2 * quotes));
}

/* ---- What the device decides ---- */

enum probe {
    PROBE_CUDA,
    PROBE_BF16, /* with emulation, as PyTorch answers since 2.4 */
    PROBE_BF16_HARDWARE,
    PROBE_CAPABILITY,
    PROBE_MAJOR,
    PROBE_NEVER
};

/* Functions that ask for the device, by the last words of their names.
 *
 * torch.cuda.is_bf16_supported(including_emulation=True), torch 2.4: True on every card
 * that can allocate a bfloat16 tensor; transformers and Accelerate call it the same way.
 * Unsloth replaces it by compute capability 8.0 (unsloth/models/_utils.py). */
static const struct {
    const char *name;
    enum probe probe;
} probes[] = {
    { "cuda.is_available", PROBE_CUDA },
    { "cuda.is_bf16_supported", PROBE_BF16 },
    { "is_torch_bf16_gpu_available", PROBE_BF16 },
    { "is_torch_bf16_available", PROBE_BF16 },
    { "is_bf16_available", PROBE_BF16 },
    { "is_bfloat16_supported", PROBE_BF16_HARDWARE },
    { "is_torch_tf32_available", PROBE_BF16_HARDWARE },
    { "cuda.get_device_capability", PROBE_CAPABILITY },
    { "mps.is_available", PROBE_NEVER },
    { "is_torch_xla_available", PROBE_NEVER },
    { "is_torch_npu_available", PROBE_NEVER },
};

static bool ends_in(const char *path, const char *name)
{
    size_t len = strlen(path), end = strlen(name);

    return len >= end && strcmp(path + len - end, name) == 0 &&
           (len == end || path[len - end - 1] == '.');
}

static bool is_false_keyword(struct script *script, const struct syntax *call,
                             const char *name)
{
    struct script_value value = script_argument_value(script, call, name, 0);

    return value.kind == SCRIPT_BOOL && !value.boolean;
}

static struct script_value ask_device(struct script *script, const struct syntax *call,
                                      enum probe probe)
{
    const struct device *device = script->device;
    bool cuda = device && device->kind == DEVICE_CUDA;

    if (!device)
        return unknown;
    if (probe == PROBE_BF16 && is_false_keyword(script, call, "including_emulation"))
        probe = PROBE_BF16_HARDWARE;
    switch (probe) {
    case PROBE_CUDA:
    case PROBE_BF16:
        return script_computed(script_bool(call, cuda));
    case PROBE_BF16_HARDWARE:
        return script_computed(script_bool(call, cuda && device_has_bf16(device)));
    case PROBE_CAPABILITY:
        if (cuda)
            return script_computed(
                (struct script_value) { .kind = SCRIPT_LIST,
                                        .number = device->major + device->minor / 10.0,
                                        .text = "capability",
                                        .node = call });
        return unknown;
    default:
        return script_computed(script_bool(call, false));
    }
}

/* ---- Calls ---- */

/* Calls that return their argument, for a constant. */
static bool is_conversion(const char *path)
{
    static const char *const names[] = { "int",  "float",        "str",
                                         "bool", "torch.device", "Path" };

    for (size_t i = 0; i < TS_COUNT(names); i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    return false;
}

static const char *dtype_of(const char *path)
{
    static const struct {
        const char *path, *name;
    } dtypes[] = {
        { "torch.float16", "float16" },   { "torch.half", "float16" },
        { "torch.bfloat16", "bfloat16" }, { "torch.float32", "float32" },
        { "torch.float", "float32" },
    };

    for (size_t i = 0; path && i < TS_COUNT(dtypes); i++)
        if (strcmp(path, dtypes[i].path) == 0)
            return dtypes[i].name;
    return NULL;
}

/* getattr(torch, "float16") */
static struct script_value get_attribute(struct script *script, const struct syntax *call)
{
    struct script_value name = script_argument_value(script, call, "", 1);
    const struct syntax *list = syntax_field(call, "arguments");
    const char *object = list && list->first ? script_path(script, list->first) : NULL;
    const char *dtype;

    if (!object || name.kind != SCRIPT_STRING)
        return unknown;
    dtype = dtype_of(arena_printf(script->arena, "%s.%s", object, name.text));
    if (!dtype)
        return unknown;
    return script_computed(
        (struct script_value) { .kind = SCRIPT_DTYPE, .text = dtype, .node = call });
}

static struct script_value evaluate_call(struct script *script, const struct syntax *call)
{
    const char *path = script_callee(script, call);
    struct script_value result = { .kind = SCRIPT_CALL, .node = call };

    if (!path)
        return result;
    for (size_t i = 0; i < TS_COUNT(probes); i++)
        if (ends_in(path, probes[i].name))
            return ask_device(script, call, probes[i].probe);
    if (strcmp(path, "dict") == 0)
        return (struct script_value) { .kind = SCRIPT_DICT, .node = call };
    if (strcmp(path, "getattr") == 0)
        return get_attribute(script, call);
    if (strcmp(path, "os.environ.get") == 0 || strcmp(path, "os.getenv") == 0)
        return script_computed(script_argument_value(script, call, "default", 1));
    if (is_conversion(path)) {
        struct script_value inner = script_argument_value(script, call, "", 0);

        if (inner.kind == SCRIPT_STRING && (path[0] == 'f' || path[0] == 'i'))
            return result; /* float("inf") */
        return inner.kind == SCRIPT_UNKNOWN ? result : inner;
    }
    return result;
}

/* ---- Names, options and fields ---- */

/* The default of a command-line option, of the name or of any of its flags. */
static struct script_value find_option(struct script *script, const char *name)
{
    for (size_t i = 0; i < script->call_count; i++) {
        const struct syntax *call = script->calls[i], *list;
        const char *path = script_callee(script, call);
        struct script_value action;

        if (!path || strcmp(script_last(path), "add_argument") != 0)
            continue;
        list = syntax_field(call, "arguments");
        for (const struct syntax *flag = list ? list->first : NULL; flag;
             flag = flag->next) {
            struct script_value text;
            size_t at = 0;

            if (flag->kind != SYNTAX_STRING)
                continue;
            text = read_string(script, flag);
            if (text.kind != SCRIPT_STRING || strncmp(text.text, "--", 2) != 0)
                continue;
            while (name[at] && (text.text[at + 2] == name[at] ||
                                (text.text[at + 2] == '-' && name[at] == '_')))
                at++;
            if (name[at] || text.text[at + 2])
                continue;
            action = script_argument_value(script, call, "action", -1);
            if (action.kind == SCRIPT_STRING && text_starts(action.text, "store_"))
                return script_computed(
                    script_bool(call, strcmp(action.text, "store_false") == 0));
            return script_computed(script_argument_value(script, call, "default", -1));
        }
    }
    return unknown;
}

static bool is_parsed(const struct script *script, const struct syntax *call)
{
    const char *path = script_callee(script, call);

    return path && (strcmp(script_last(path), "parse_args") == 0 ||
                    strcmp(script_last(path), "parse_known_args") == 0);
}

/* A field of a class of this script: `fp16: bool = True` */
static struct script_value find_class_field(struct script *script, const char *class,
                                            const char *field)
{
    size_t count;
    const struct binding *list = script_bindings(script, field, &count);

    for (size_t i = count; i-- > 0;) {
        const struct syntax *scope = list[i].scope;

        if (scope->kind != SYNTAX_CLASS ||
            !syntax_is(&script->tree, syntax_field(scope, "name"), class))
            continue;
        if (list[i].value && list[i].index < 0)
            return script_evaluate(script, list[i].value);
        return unknown;
    }
    return unknown;
}

/* The value of `object.field`, where `object` is a value. */
static struct script_value find_field(struct script *script,
                                      const struct script_value *object,
                                      const struct syntax *node, const char *field)
{
    struct script_argument given;
    struct script_value value;
    const char *path;

    if (object->kind == SCRIPT_STRING && strcmp(field, "type") == 0)
        return *object; /* torch.device("cuda").type */
    if (object->kind != SCRIPT_CALL)
        return unknown;
    if (is_parsed(script, object->node))
        return find_option(script, field);
    path = script_callee(script, object->node);
    if (!path)
        return unknown;
    if (ends_in(path, "cuda.get_device_properties") && script->device &&
        script->device->kind == DEVICE_CUDA) {
        if (strcmp(field, "major") == 0)
            return script_computed(script_number(node, script->device->major));
        if (strcmp(field, "minor") == 0)
            return script_computed(script_number(node, script->device->minor));
    }
    if (script_argument_find(script, object->node, field, -1, &given))
        return script_evaluate(script, given.value);
    value = find_class_field(script, script_last(path), field);
    return value;
}

static struct script_value of_binding(struct script *script,
                                      const struct binding *binding)
{
    bool certain;
    const struct syntax *assigned = script_assigned(script, binding, &certain), *item;
    struct script_value value;

    if (!assigned)
        return unknown;
    value = script_evaluate(script, assigned);
    if (!certain)
        value.computed = true;
    if (binding->index >= 0) {
        if (value.kind == SCRIPT_LIST && value.text && script->device)
            return script_computed(
                script_number(value.node, binding->index == 0 ? script->device->major
                                                              : script->device->minor));
        item = value.kind == SCRIPT_LIST ? value.node->first : NULL;
        for (int i = 0; item && i < binding->index; i++)
            item = item->next;
        if (item)
            return script_evaluate(script, item);
        if (value.kind != SCRIPT_CALL)
            return unknown;
    }
    if (!value.name)
        value.name = binding->name;
    return value;
}

static struct script_value evaluate_name(struct script *script, const struct syntax *node)
{
    const char *name = syntax_dotted(&script->tree, node), *dtype;
    const struct binding *binding = name ? script_find(script, name, node) : NULL;
    const struct syntax *object = syntax_field(node, "object"),
                        *field = syntax_field(node, "attribute");
    struct script_value value;

    if (binding)
        return of_binding(script, binding);
    dtype = dtype_of(script_path(script, node));
    if (dtype)
        return (
            struct script_value) { .kind = SCRIPT_DTYPE, .text = dtype, .node = node };
    if (node->kind != SYNTAX_ATTRIBUTE || !object || !field)
        return unknown;
    value = script_evaluate(script, object);
    value = find_field(script, &value, node, syntax_text(&script->tree, field));
    if (value.kind == SCRIPT_UNKNOWN && object->kind == SYNTAX_NAME)
        value = find_class_field(script, syntax_text(&script->tree, object),
                                 syntax_text(&script->tree, field));
    if (value.kind != SCRIPT_UNKNOWN && !value.name)
        value.name = name;
    return value;
}

/* ---- All expressions ---- */

struct script_value script_evaluate(struct script *script, const struct syntax *node)
{
    struct script_value value;

    node = syntax_plain(node);
    if (!node || script->budget == 0 || script->depth >= DEPTH_MAX)
        return unknown;
    script->budget--;
    script->depth++;
    switch (node->kind) {
    case SYNTAX_TRUE:
    case SYNTAX_FALSE:
        value = script_bool(node, node->kind == SYNTAX_TRUE);
        break;
    case SYNTAX_NONE:
        value = (struct script_value) { .kind = SCRIPT_NULL, .node = node };
        break;
    case SYNTAX_INTEGER:
    case SYNTAX_FLOAT:
        value = read_number(script, node);
        break;
    case SYNTAX_STRING:
        value = read_string(script, node);
        break;
    case SYNTAX_LIST:
    case SYNTAX_TUPLE:
        value = (struct script_value) { .kind = SCRIPT_LIST, .node = node };
        break;
    case SYNTAX_DICTIONARY:
        value = (struct script_value) { .kind = SCRIPT_DICT, .node = node };
        break;
    case SYNTAX_NAME:
    case SYNTAX_ATTRIBUTE:
        value = evaluate_name(script, node);
        break;
    case SYNTAX_CALL:
        value = evaluate_call(script, node);
        break;
    default:
        value = script_operate(script, node);
        break;
    }
    script->depth--;
    return value;
}

/* 2e-05 as 2.0e-05: YAML 1.1 reads a number without a dot as text. */
static const char *number_yaml(struct arena *arena, double number)
{
    const char *text = arena_printf(arena, "%.15g", number);
    const char *e = strchr(text, 'e');

    if (!e || strchr(text, '.'))
        return text;
    return arena_printf(arena, "%.*s.0%s", (int)(e - text), text, e);
}

const char *script_yaml(struct script *script, const struct script_value *value)
{
    switch (value->kind) {
    case SCRIPT_BOOL:
        return value->boolean ? "true" : "false";
    case SCRIPT_NUMBER:
        return number_yaml(script->arena, value->number);
    case SCRIPT_STRING:
    case SCRIPT_DTYPE:
        return value->text;
    case SCRIPT_NULL:
        return "null";
    default:
        return NULL;
    }
}

const char *script_list_text(struct script *script, const struct syntax *list)
{
    const char *text = "";

    for (const struct syntax *child = list->first; child; child = child->next) {
        struct script_value value = script_evaluate(script, child);

        if (value.kind != SCRIPT_STRING && value.kind != SCRIPT_NUMBER)
            return NULL;
        text = arena_printf(script->arena, "%s%s%s", text, *text ? "," : "",
                            value.kind == SCRIPT_STRING ? value.text
                                                        : script_yaml(script, &value));
    }
    return text;
}
