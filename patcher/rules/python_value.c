/* patcher/rules/python_value.c - YAML scalars as PyYAML, OmegaConf and argparse read
 * them. */
#include "config.h"

#include "patcher/rules/python_value.h"

#include <string.h>

#include "base/size.h"
#include "patcher/rules/rules_context.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

/* LLaMA-Factory reads the file with yaml.safe_load, directly or in parse_yaml_file, up to
 * 0.9.3, and with OmegaConf.load since 0.9.4 (hparams/parser.py, read_args).  TrlParser
 * sets the values as defaults of argparse since 0.9.6, which converts strings; before, it
 * set attributes (trl/commands/cli_utils.py).  Scripts of the Trainer use
 * HfArgumentParser.parse_yaml_file. */
enum python_reader python_reader_of(const struct rule_context *context)
{
    if (rule_is_llamafactory(context))
        return rule_version_at_least(context, PACKAGE_LLAMAFACTORY, "0.9.4.dev0")
                   ? PYTHON_OMEGACONF
                   : PYTHON_PYYAML;
    /* torchtune: config/_parse.py; Lightning: jsonargparse, whose loader reads 1e-4 as a
     * number, too */
    if (context->view->trainer == TRAINER_TORCHTUNE ||
        context->view->trainer == TRAINER_LIGHTNING)
        return PYTHON_OMEGACONF;
    return rule_uses_trl_parser(context) ? PYTHON_ARGPARSE : PYTHON_PYYAML;
}

static bool is_among(const char *const *words, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i], text) == 0)
            return true;
    return false;
}

/* PyYAML, yaml/resolver.py: three spellings of each word, and neither y nor n. */
static bool read_bool(const char *text, bool *out)
{
    static const char *const on[] = { "true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON" };
    static const char *const off[] = { "false", "False", "FALSE", "no", "No",
                                       "NO",    "off",   "Off",   "OFF" };

    *out = is_among(on, TS_COUNT(on), text);
    return *out || is_among(off, TS_COUNT(off), text);
}

/* YAML 1.1 reads 12:30 as a number of base 60, but not 00:12:30 (yaml/resolver.py). */
static bool is_clock(const char *text)
{
    text += *text == '-' || *text == '+';
    return *text == '0' && strchr(text, ':');
}

/* PyYAML requires a decimal point and a signed exponent (yaml/resolver.py); OmegaConf requires
 * neither (omegaconf/_utils.py, get_yaml_loader).  Both read 0b11 and 017 as numbers, but not
 * 0o17. */
static bool is_number(const struct node *node, enum python_reader reader, double *out)
{
    const char *exponent = strpbrk(node->text, "eE");
    bool hex = strchr(node->text, 'x') != NULL;

    if (scalar_number(node, out) == SCALAR_WRONG || strchr(node->text, 'o') ||
        is_clock(node->text))
        return false;
    return !exponent || hex || reader == PYTHON_OMEGACONF ||
           (strchr(node->text, '.') && (exponent[1] == '+' || exponent[1] == '-'));
}

/* transformers hf_argparser.py, string_to_bool. */
static bool convert_bool(const struct node *node, bool *out)
{
    if (strcmp(node->text, "1") == 0 || strcmp(node->text, "0") == 0) {
        *out = node->text[0] == '1';
        return true;
    }
    return scalar_bool(node, out) != SCALAR_WRONG;
}

static bool takes_bool(const struct key *key)
{
    return key->type == KEY_BOOL || key->type == KEY_CHOICE ||
           key->type == KEY_BOOL_OR_TEXT;
}

/* Convert a string to the type of the argument, as argparse does with a default. */
static void convert(const char *name, const struct node *node, struct python_value *value)
{
    const struct key *key = schema_find(name);
    bool word;

    if (key && key->use == KEY_RENAMED)
        key = schema_find(key->now);
    /* the schema lacks keys of TRL: a text that looks like a boolean or a number is one */
    if ((key ? takes_bool(key) : !strchr("01", node->text[0])) &&
        convert_bool(node, &word))
        *value = (struct python_value) {
            .kind = PYTHON_BOOL, .number = word, .text = node->text, .node = node
        };
    else if ((!key || key->type == KEY_INT || key->type == KEY_REAL) &&
             scalar_number(node, &value->number) != SCALAR_WRONG)
        value->kind = PYTHON_NUMBER;
}

struct python_value python_value_read(const char *key, const struct node *node,
                                      enum python_reader reader)
{
    struct python_value value = { .kind = PYTHON_TEXT, .text = "" };
    bool word;

    node = value.node = node_value(node);
    if (node->kind != NODE_SCALAR) {
        value.kind = node->kind == NODE_LIST ? PYTHON_LIST : PYTHON_MAP;
        return value;
    }
    value.text = node->text;
    if (node_is_null(node)) {
        value.kind = PYTHON_NONE;
        return value;
    }
    if (node->style == STYLE_PLAIN && !node->tag) {
        if (read_bool(node->text, &word)) {
            value.kind = PYTHON_BOOL;
            value.number = word;
        } else if (is_number(node, reader, &value.number)) {
            value.kind = PYTHON_NUMBER;
        }
    }
    if (value.kind == PYTHON_TEXT && reader == PYTHON_ARGPARSE)
        convert(key, node, &value);
    return value;
}

bool python_value_is_true(const struct python_value *value)
{
    switch (value->kind) {
    case PYTHON_NONE:
        break;
    case PYTHON_BOOL:
    case PYTHON_NUMBER:
        return value->number != 0;
    case PYTHON_TEXT:
        return *value->text != 0;
    case PYTHON_LIST:
    case PYTHON_MAP:
        return value->node->count > 0;
    }
    return false;
}

bool python_reads_string(const struct rule_context *context, const char *name,
                         const struct node *node)
{
    const struct key *key = schema_find(name);
    struct python_value value;
    double number;
    bool word;

    if (key && key->use == KEY_RENAMED)
        key = schema_find(key->now);
    if (!key || !context->plan->external || node_value(node)->kind != NODE_SCALAR)
        return false;
    value = python_value_read(name, node, python_reader_of(context));
    if (value.kind != PYTHON_TEXT)
        return false;
    if (takes_bool(key))
        return scalar_bool(node, &word) != SCALAR_WRONG;
    return (key->type == KEY_INT || key->type == KEY_REAL) &&
           scalar_number(node, &number) != SCALAR_WRONG;
}
