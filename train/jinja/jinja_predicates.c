/* train/jinja/jinja_predicates.c - the tests after `is`. */
#include "config.h"

#include <math.h>

#include "train/jinja/jinja_call.h"
#include "train/jinja/jinja_print.h"
#include "train/jinja/jinja_string.h"

/* A test that is true for a range of kinds. */
#define OF_KINDS(name, from, to)                                                 \
    static struct jinja_value test_##name(struct jinja_run *run,                 \
                                          const struct jinja_call *call)         \
    {                                                                            \
        (void)run;                                                               \
        return jinja_bool(call->self.kind >= (from) && call->self.kind <= (to)); \
    }

OF_KINDS(undefined, JINJA_UNDEFINED, JINJA_UNDEFINED)
OF_KINDS(defined, JINJA_NONE, JINJA_LOOP)
OF_KINDS(none, JINJA_NONE, JINJA_NONE)
OF_KINDS(boolean, JINJA_BOOL, JINJA_BOOL)
OF_KINDS(integer, JINJA_INT, JINJA_INT)
OF_KINDS(float, JINJA_REAL, JINJA_REAL)
OF_KINDS(number, JINJA_BOOL, JINJA_REAL)
OF_KINDS(string, JINJA_STRING, JINJA_STRING)
OF_KINDS(mapping, JINJA_DICT, JINJA_DICT)

static struct jinja_value test_true(struct jinja_run *run, const struct jinja_call *call)
{
    (void)run;
    return jinja_bool(call->self.kind == JINJA_BOOL && call->self.truth);
}

static struct jinja_value test_false(struct jinja_run *run, const struct jinja_call *call)
{
    (void)run;
    return jinja_bool(call->self.kind == JINJA_BOOL && !call->self.truth);
}

static struct jinja_value test_iterable(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    (void)run;
    return jinja_bool(jinja_is_iterable(&call->self));
}

/* Values with a length and an index, including dicts. */
static struct jinja_value test_sequence(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    int kind = call->self.kind;

    (void)run;
    return jinja_bool((kind >= JINJA_STRING && kind <= JINJA_RANGE) ||
                      kind == JINJA_DICT || kind == JINJA_UNDEFINED);
}

static struct jinja_value test_callable(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    (void)run; /* an undefined value is callable; the call fails */
    return jinja_bool(call->self.kind == JINJA_FUNCTION ||
                      call->self.kind == JINJA_UNDEFINED);
}

static struct jinja_value remainder_is(struct jinja_run *run,
                                       const struct jinja_value *value, int64_t by,
                                       int64_t expected)
{
    int64_t rest;

    if (value->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (by == 0)
        return jinja_fail(run, "integer division or modulo by zero");
    if (value->kind == JINJA_REAL)
        return jinja_bool(fabs(fmod(value->real, (double)by)) == (double)expected);
    if (!jinja_is_number(value))
        return jinja_fail(run, "this test requires a number, not %s", jinja_type(value));
    rest = by == -1 ? 0 : jinja_arg_int(run, value, 0) % by;
    return jinja_bool(rest == expected || rest == -expected);
}

static struct jinja_value test_odd(struct jinja_run *run, const struct jinja_call *call)
{
    return remainder_is(run, &call->self, 2, 1);
}

static struct jinja_value test_even(struct jinja_run *run, const struct jinja_call *call)
{
    return remainder_is(run, &call->self, 2, 0);
}

static struct jinja_value test_divisibleby(struct jinja_run *run,
                                           const struct jinja_call *call)
{
    return remainder_is(run, &call->self, jinja_arg_int(run, &call->args[0], 1), 0);
}

static struct jinja_value test_eq(struct jinja_run *run, const struct jinja_call *call)
{
    return jinja_bool(jinja_equal(run, &call->self, &call->args[0]));
}

static struct jinja_value test_ne(struct jinja_run *run, const struct jinja_call *call)
{
    return jinja_bool(!jinja_equal(run, &call->self, &call->args[0]));
}

static int order(struct jinja_run *run, const struct jinja_call *call, const char *sign)
{
    if (call->self.kind == JINJA_UNDEFINED) {
        jinja_fail_undefined(run, &call->self);
        return 0;
    }
    return jinja_compare(run, &call->self, &call->args[0], sign);
}

static struct jinja_value test_lt(struct jinja_run *run, const struct jinja_call *call)
{
    return jinja_bool(order(run, call, "<") < 0);
}

static struct jinja_value test_le(struct jinja_run *run, const struct jinja_call *call)
{
    return jinja_bool(order(run, call, "<=") <= 0);
}

static struct jinja_value test_gt(struct jinja_run *run, const struct jinja_call *call)
{
    return jinja_bool(order(run, call, ">") > 0);
}

static struct jinja_value test_ge(struct jinja_run *run, const struct jinja_call *call)
{
    return jinja_bool(order(run, call, ">=") >= 0);
}

static struct jinja_value test_in(struct jinja_run *run, const struct jinja_call *call)
{
    return jinja_bool(jinja_contains(run, &call->args[0], &call->self));
}

/* Values are immutable, so equal values of one type are the same. */
static struct jinja_value test_sameas(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    return jinja_bool(call->self.kind == call->args[0].kind &&
                      jinja_equal(run, &call->self, &call->args[0]));
}

static struct jinja_value test_case(struct jinja_run *run, const struct jinja_call *call)
{
    struct jinja_value string = jinja_str(run, &call->self);

    return jinja_failed(run) ? string
                             : jinja_bool(jinja_is_class(
                                   run, &string, (enum jinja_class)call->variant));
}

static struct jinja_value test_filter(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    (void)run;
    return jinja_bool(call->self.kind == JINJA_STRING &&
                      jinja_filter_find(call->self.text, call->self.len));
}

static struct jinja_value test_test(struct jinja_run *run, const struct jinja_call *call)
{
    (void)run;
    return jinja_bool(call->self.kind == JINJA_STRING &&
                      jinja_test_find(call->self.text, call->self.len));
}

static const struct jinja_builtin tests[] = {
    { .name = "defined", .code = test_defined },
    { .name = "undefined", .code = test_undefined },
    { .name = "none", .code = test_none },
    { .name = "boolean", .code = test_boolean },
    { .name = "true", .code = test_true },
    { .name = "false", .code = test_false },
    { .name = "integer", .code = test_integer },
    { .name = "float", .code = test_float },
    { .name = "number", .code = test_number },
    { .name = "string", .code = test_string },
    { .name = "mapping", .code = test_mapping },
    { .name = "iterable", .code = test_iterable },
    { .name = "sequence", .code = test_sequence },
    { .name = "callable", .code = test_callable },
    { .name = "odd", .code = test_odd },
    { .name = "even", .code = test_even },
    { .name = "divisibleby",
      .code = test_divisibleby,
      .parameters = { "num" },
      .required = 1 },
    { .name = "==", .code = test_eq, .parameters = { "b" }, .required = 1 },
    { .name = "eq", .code = test_eq, .parameters = { "b" }, .required = 1 },
    { .name = "equalto", .code = test_eq, .parameters = { "b" }, .required = 1 },
    { .name = "!=", .code = test_ne, .parameters = { "b" }, .required = 1 },
    { .name = "ne", .code = test_ne, .parameters = { "b" }, .required = 1 },
    { .name = "<", .code = test_lt, .parameters = { "b" }, .required = 1 },
    { .name = "lt", .code = test_lt, .parameters = { "b" }, .required = 1 },
    { .name = "lessthan", .code = test_lt, .parameters = { "b" }, .required = 1 },
    { .name = "<=", .code = test_le, .parameters = { "b" }, .required = 1 },
    { .name = "le", .code = test_le, .parameters = { "b" }, .required = 1 },
    { .name = ">", .code = test_gt, .parameters = { "b" }, .required = 1 },
    { .name = "gt", .code = test_gt, .parameters = { "b" }, .required = 1 },
    { .name = "greaterthan", .code = test_gt, .parameters = { "b" }, .required = 1 },
    { .name = ">=", .code = test_ge, .parameters = { "b" }, .required = 1 },
    { .name = "ge", .code = test_ge, .parameters = { "b" }, .required = 1 },
    { .name = "in", .code = test_in, .parameters = { "seq" }, .required = 1 },
    { .name = "sameas", .code = test_sameas, .parameters = { "other" }, .required = 1 },
    { .name = "upper", .code = test_case, .variant = CLASS_UPPER },
    { .name = "lower", .code = test_case, .variant = CLASS_LOWER },
    { .name = "filter", .code = test_filter },
    { .name = "test", .code = test_test },
    { .name = NULL },
};

const struct jinja_builtin *jinja_test_find(const char *name, size_t len)
{
    return jinja_builtin_find(tests, name, len);
}
