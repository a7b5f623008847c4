/* patcher/schema/schema_json.c - writes the key table as a JSON Schema, for editors. */
#include "config.h"

#include "patcher/schema/schema_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "patcher/schema/schema_value.h"
#include "precision/device.h"
#include "train/chat/template.h"

/* The scalars that scalar.h accepts, as ECMA-262 regular expressions. */
#define WORDS                                                \
    "[yY]|[nN]|[yY][eE][sS]|[nN][oO]|[oO][nN]|[oO][fF][fF]|" \
    "[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]"
#define NUMBER                                                      \
    "[-+]?([0-9][0-9_]*(\\.[0-9_]*)?|\\.[0-9_]+)([eE][-+]?[0-9]+)?" \
    "|[-+]?0[xob]?[0-9a-fA-F_]+|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\\.[0-9]*)?"
#define PLAIN "([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][-+]?[0-9]+)?"
/* bytes, at least DEVICE_MEMORY_LEAST, or a number with a unit; a share */
#define BYTES "[0-9]{5,}|[0-9.]+[eE][+]?[0-9]+|" PLAIN " *([kKmMgGtT]([iI]?[bB])?|[bB])"
#define SHARE "(?!0*\\.?0*%)0*(100(\\.0*)?|[0-9]{1,2}(\\.[0-9]*)?|\\.[0-9]+)%"
/* as probe_count_named reads them */
#define DEVICE  "^(auto|cpu|cuda|cuda:[0-9]{1,4}(,[0-9]{1,4}){0,15})$"
#define SPECIAL "[-+]?\\.(inf|Inf|INF)|\\.(nan|NaN|NAN)"

struct shape {
    const char *types[6]; /* NULL-ended; the first is what people write */
    const char *pattern;  /* of strings; NULL: any */
};

/* YAML parsers disagree on the type of words and numbers, so each shape accepts every
 * type that the patcher would read as a value of the key. */
static const struct shape shapes[] = {
    [KEY_BOOL] = { { "boolean", "string" }, "^(" WORDS ")$" },
    [KEY_CHOICE] = { { "boolean", "string" }, "^(auto|" WORDS ")$" },
    [KEY_INT] = { { "integer", "string" }, "^(" NUMBER ")$" },
    [KEY_REAL] = { { "number", "string" }, "^(" NUMBER "|" SPECIAL ")$" },
    [KEY_TEXT] = { { "string", "number", "boolean" }, NULL },
    [KEY_PATH] = { { "string", "number", "boolean" }, NULL },
    [KEY_ENUM] = { { NULL }, NULL },
    [KEY_SCALE] = { { "number", "string" }, "^(dynamic|none|" NUMBER ")$" },
    [KEY_SIZE] = { { "string", "integer" }, "^(" BYTES "|" SHARE ")$" },
    [KEY_SECONDS] = { { "number", "string" }, "^(" NUMBER "|[0-9]+(\\.[0-9]*)?[smhd])$" },
    [KEY_BOOL_OR_TEXT] = { { "boolean", "string", "number" }, NULL },
    [KEY_LIST] = { { "string", "array", "number", "boolean" }, NULL },
    [KEY_MAP] = { { "object" }, NULL },
    [KEY_ANY] = { { NULL }, NULL },
};

static void set(json_t *object, const char *name, json_t *value)
{
    json_object_set_new(object, name, value);
}

/* ---- Values ---- */

/* Convert a value of the table, true, 8, 5e-5 or a string, to JSON. */
static json_t *value_of(const char *written)
{
    char *end;
    double number = strtod(written, &end);

    if (strcmp(written, "true") == 0 || strcmp(written, "false") == 0)
        return json_boolean(written[0] == 't');
    if (end == written || *end || !isfinite(number))
        return json_string(written);
    if (number == floor(number) && fabs(number) < 1e15)
        return json_integer((json_int_t)number);
    return json_real(number);
}

static void add_once(json_t *list, json_t *value)
{
    bool there = false;

    for (size_t i = 0; i < json_array_size(list); i++)
        there |= json_equal(json_array_get(list, i), value) != 0;
    if (!there)
        json_array_append(list, value);
    json_decref(value);
}

/* Editors read YAML 1.2, in which `no` and `off` are strings. */
static void add_value(json_t *list, const char *written)
{
    add_once(list, json_string(written));
    add_once(list, value_of(written));
}

static void add_words(json_t *list, const char *words)
{
    while (words && *words) {
        size_t len = strcspn(words, " ");
        char word[64];

        if (len > 0 && len < sizeof(word)) {
            memcpy(word, words, len);
            word[len] = 0;
            add_value(list, word);
        }
        words += len + (words[len] == ' ');
    }
}

static json_t *enum_of(const struct key *key, bool refused)
{
    json_t *list = json_array();

    for (size_t i = 0; key->values[i]; i++)
        add_value(list, key->values[i]);
    add_words(list, key->idle);
    if (refused)
        add_words(list, key->rejects);
    json_array_append_new(list, json_null());
    return list;
}

/* Return the values that leave a rejected key switched off. */
static json_t *off_values(const struct key *key)
{
    json_t *list = json_array();

    if (key->default_value)
        add_value(list, key->default_value);
    add_words(list, key->harmless);
    add_value(list, "false");
    add_value(list, "");
    json_array_append_new(list, json_array());
    json_array_append_new(list, json_object());
    json_array_append_new(list, json_null());
    return list;
}

/* ---- Keys ---- */

static void set_types(json_t *schema, const struct shape *shape)
{
    json_t *types = json_array();

    for (size_t i = 0; shape->types[i]; i++)
        json_array_append_new(types, json_string(shape->types[i]));
    json_array_append_new(types, json_string("null"));
    if (shape->types[0])
        json_object_set(schema, "type", types);
    json_decref(types);
    if (shape->pattern)
        set(schema, "pattern", json_string(shape->pattern));
}

static void set_bounds(json_t *schema, const struct key *key)
{
    if (key->positive)
        set(schema, "exclusiveMinimum", json_integer(0));
    else if (key->min != 0 || key->max != 0)
        set(schema, "minimum", json_number(key->min));
    if (key->max != 0 && key->max < 1e15)
        set(schema, "maximum", json_number(key->max));
}

static void set_help(json_t *schema, const struct keys *section, const struct key *key)
{
    const char *effect = key->use == KEY_IGNORED    ? " (no effect here)"
                         : key->use == KEY_REJECTED ? " (not supported)"
                                                    : "";
    struct text text;

    text_init(&text, 0);
    text_addf(&text, "%s: %s", section->title, key->name);
    set(schema, "title", json_string(text.data));
    text.len = 0;
    text_addf(&text, "%s%s", key->help, effect);
    if (key->use == KEY_REJECTED && key->instead)
        text_addf(&text, ": %s", key->instead);
    set(schema, "description", json_string(text.data));
    text_clear(&text);
}

static json_t *members_schema(const struct vocabulary *of);

/* PEP 440, as versions.h reads it. */
#define PEP_440                                                                          \
    "^v?([0-9]+!)?[0-9]+(\\.[0-9]+)*([-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?[0-9]" \
    "*)?"                                                                                \
    "([-_.]?(post|rev|r)[-_.]?[0-9]*|-[0-9]+)?([-_.]?dev[-_.]?[0-9]*)?(\\+[a-zA-Z0-9._-" \
    "]+)?$"

/* Add the members of a map, and the constraints of two keys that their type lacks. */
static void set_members(json_t *schema, const struct key *key)
{
    if (strcmp(key->name, "versions") == 0) {
        json_t *version = json_object();

        set(version, "type", json_pack("[s,s,s]", "string", "number", "null"));
        set(version, "pattern", json_string(PEP_440));
        set(schema, "additionalProperties", version);
    } else if (strcmp(key->name, "env") == 0) {
        set(schema, "type",
            json_pack("[s,s,s,s,s]", "string", "object", "number", "boolean", "null"));
    } else if (key->members) {
        json_object_update_new(schema, members_schema(key->members));
    }
}

/* `refused`: include values that a native run rejects. */
static json_t *key_schema(const struct key *key, bool refused)
{
    json_t *schema = json_object();

    if (key->type == KEY_ENUM)
        set(schema, "enum", enum_of(key, refused));
    else
        set_types(schema, &shapes[key->type]);
    if (key->type == KEY_INT || key->type == KEY_REAL || key->type == KEY_SCALE)
        set_bounds(schema, key);
    if (key->no_share)
        set(schema, "pattern", json_string("^(" BYTES ")$"));
    if (key->type == KEY_SIZE)
        set(schema, "minimum", json_integer((json_int_t)DEVICE_MEMORY_LEAST));
    if (key->default_value)
        set(schema, "default", value_of(key->default_value));
    set_members(schema, key);
    return schema;
}

static json_t *alias_schema(const struct key *key)
{
    json_t *schema = json_object();
    struct text text;

    text_init(&text, 0);
    text_addf(&text, "#/properties/%s", key->now);
    set(schema, "$ref", json_string(text.data));
    if (key->rule)
        set(schema, "deprecated", json_true());
    text_clear(&text);
    return schema;
}

static void add_properties(json_t *properties, const struct keys *section, bool refused)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct key *key = &section->list[i];
        json_t *schema;

        if (key->use == KEY_OTHER_TOOL && !key->rule)
            continue;
        schema = key->use == KEY_RENAMED ? alias_schema(key) : key_schema(key, refused);
        set_help(schema, section, key);
        set(properties, key->name, schema);
    }
}

static json_t *properties_of(const struct vocabulary *of, bool refused)
{
    json_t *properties = json_object();

    for (size_t i = 0; of->sections[i]; i++)
        add_properties(properties, of->sections[i], refused);
    return properties;
}

static json_t *members_schema(const struct vocabulary *of)
{
    json_t *schema = json_object();

    set(schema, "properties", properties_of(of, false));
    if (!of->open)
        set(schema, "additionalProperties", json_false());
    return schema;
}

/* ---- Values that only a native run rejects ---- */

static json_t *with(const char *name, json_t *value)
{
    json_t *object = json_object();

    set(object, name, value);
    return object;
}

static json_t *template_names(void)
{
    json_t *list = json_array();
    const char *name;

    for (size_t i = 0; (name = template_name(i)); i++)
        json_array_append_new(list, json_string(name));
    json_array_append_new(list, json_null());
    return list;
}

/* Return the values that a native run accepts; NULL: it rejects none. */
static json_t *native_values(const struct key *key)
{
    if (strcmp(key->name, "template") == 0)
        return template_names();
    if (key->use == KEY_RENAMED)
        key = schema_find(key->now);
    if (key->use == KEY_REJECTED || (key->rule && strcmp(key->rule, "TS611") == 0))
        return off_values(key);
    return key->type == KEY_ENUM && key->rejects ? enum_of(key, false) : NULL;
}

/* A job of another program may name a card: only a native run looks for the device. */
static json_t *native_block(void)
{
    return with("properties", with("device", json_pack("{s:[s,s],s:s}", "type", "string",
                                                       "null", "pattern", DEVICE)));
}

static json_t *native_properties(void)
{
    json_t *properties = json_object();
    const struct key *key;

    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++) {
        json_t *values = native_values(key);

        if (values)
            set(properties, key->name, with("enum", values));
    }
    set(properties, "trainspool", native_block());
    return properties;
}

static json_t *is_external(void)
{
    json_t *target = json_object(), *block = json_object(), *schema = json_object();

    set(target, "target", with("not", with("const", json_string("native"))));
    set(block, "properties", target);
    set(block, "required", json_pack("[s]", "target"));
    set(schema, "properties", with("trainspool", block));
    set(schema, "required", json_pack("[s]", "trainspool"));
    return schema;
}

/* A script may have more keys, but LLaMA-Factory does not: dialect.h. */
static json_t *is_lenient(void)
{
    static const char *const own[] = { "stage", "finetuning_type", "template",
                                       "cutoff_len", "dataset_dir" };
    json_t *any = json_array();

    for (size_t i = 0; i < TS_COUNT(own); i++)
        json_array_append_new(any, with("required", json_pack("[s]", own[i])));
    return json_pack("{s:[o,o]}", "allOf", is_external(),
                     with("not", with("anyOf", any)));
}

/* Accept only the names of these properties. */
static json_t *names_of(const json_t *properties)
{
    json_t *names = json_array();
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)properties, name, value)
        json_array_append_new(names, json_string(name));
    return with("propertyNames", with("enum", names));
}

static json_t *unless(json_t *condition, json_t *then)
{
    return json_pack("{s:o,s:o}", "if", condition, "else", then);
}

static json_t *block_schema(void)
{
    json_t *schema = json_object();

    set(schema, "title", json_string("trainspool"));
    set(schema, "description", json_string("settings that only trainspool has"));
    set(schema, "type", json_pack("[s,s]", "object", "null"));
    json_object_update_new(schema, members_schema(&schema_block));
    return schema;
}

json_t *schema_json_new(void)
{
    json_t *schema = json_object(), *properties = properties_of(&schema_job, true);

    set(properties, "trainspool", block_schema());
    set(schema, "$schema", json_string("https://json-schema.org/draft/2020-12/schema"));
    set(schema, "$id", json_string("urn:trainspool:job"));
    set(schema, "title", json_string("A trainspool job"));
    set(schema, "description",
        json_string("A fine-tuning job with the keys of LLaMA-Factory and Hugging Face "
                    "TrainingArguments; generated by trainspool " PACKAGE_VERSION));
    set(schema, "type", json_string("object"));
    set(schema, "allOf",
        json_pack("[o,o]", unless(is_external(), with("properties", native_properties())),
                  unless(is_lenient(), names_of(properties))));
    set(schema, "properties", properties);
    return schema;
}
