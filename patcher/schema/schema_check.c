/* patcher/schema/schema_check.c - checks the keys and values of a job against the key
 * table. */
#include "config.h"

#include "patcher/schema/schema_internal.h"
#include "patcher/schema/schema_value.h"

#include "base/size.h"
#include "patcher/document/lookalike.h"
#include "patcher/schema/dialect.h"
#include "train/text/unicode.h"

#include <string.h>

#define SHOWN_MAX   60  /* bytes of a value that a message quotes */
#define UNKNOWN_MAX 100 /* unknown keys that are reported individually */

/* Characters that are invisible in a name or look like others: spaces, joiners. */
static bool is_confusable(int32_t point)
{
    return point >= 0x80 &&
           (!unicode_is_word(point) || point == 0x200c || point == 0x200d);
}

const char *check_visible(const struct check *check, const char *name)
{
    struct text text;
    const char *copy;
    size_t len = strlen(name), bytes;

    if (len == 0)
        return "''";
    if (len > SHOWN_MAX)
        len = SHOWN_MAX;
    text_init(&text, 0);
    for (size_t i = 0; i < len; i += bytes) {
        int32_t point = 0;

        bytes = unicode_first(name + i, len - i, &point);
        if (is_confusable(point))
            text_addf(&text, "\\u%04x", (unsigned)point);
        else
            text_add_visible(&text, name + i, bytes);
    }
    copy = arena_copy(check->arena, text.data, text.len);
    text_clear(&text);
    return copy;
}

void check_remark(const struct check *check, const char *rule, enum severity severity,
                  const struct entry *entry, const char *message, const char *note)
{
    propose_remark(
        &check->to,
        &(struct finding) {
            .rule = rule, .severity = severity, .message = message, .note = note },
        entry);
}

/* Return the value as a message may show it. */
static const char *shown(const struct check *check, const struct key *key,
                         const struct node *node)
{
    struct text text;
    const char *copy;
    size_t len = node->len < SHOWN_MAX ? node->len : SHOWN_MAX;

    if (key->secret)
        return "(not shown)";
    if (node->kind != NODE_SCALAR)
        return node->kind == NODE_MAP ? "a map" : "a list";
    text_init(&text, 0);
    text_addc(&text, '\'');
    while (len > 0 && len < node->len && ((unsigned char)node->text[len] & 0xc0) == 0x80)
        len--;
    text_add_visible(&text, node->text, len);
    text_adds(&text, len < node->len ? "...'" : "'");
    copy = arena_copy(check->arena, text.data, text.len);
    text_clear(&text);
    return copy;
}

/* ---- Values ---- */

/* Return a hint for values that YAML reads differently than their author expects. */
static const char *advice_on(const struct check *check, const struct node *node)
{
    const struct document *document = check->to.document;
    const char *lookalike;

    if (lookalike_is_template(document->data + node->at.byte, node->bytes))
        return "this is a template, with {{ }}: render it first and check the result";
    if (node->kind != NODE_SCALAR)
        return NULL;
    if (strcmp(node->text, "None") == 0)
        return "None is Python for null, but a string in YAML: remove the line or write "
               "null";
    lookalike = lookalike_in_text(node->text, node->len, check->arena);
    if (lookalike)
        return lookalike;
    if (node->style == STYLE_LITERAL || node->style == STYLE_FOLDED)
        return "| and > begin a block of text: write the value after the colon";
    return node->tag ? "the tag before it sets its type: write the value without the tag"
                     : NULL;
}

static void check_type(const struct check *check, const struct key *key,
                       const struct entry *entry, const struct value *value)
{
    const struct node *node = node_value(entry->value);
    const char *near = node->kind == NODE_SCALAR ? value_nearest(key, node->text) : NULL;
    bool range = value->state == VALUE_OUT_OF_RANGE;
    const char *message = arena_printf(check->arena, "%s must be %s, not %s", key->name,
                                       value_expected_with_bound(key, node, check->arena),
                                       shown(check, key, node));

    if (value->state == VALUE_WRONG && strcmp(node->text, "None") == 0)
        message = arena_printf(check->arena, "%s is the string 'None'", key->name);
    if (near && strcmp(near, node->text) != 0)
        message = arena_printf(check->arena, "%s; did you mean %s?", message, near);
    if (range && key->use == KEY_USED && key->rule)
        return; /* the rule of the row reports it */
    check_remark(check, range ? "TS705" : "TS704",
                 key->use == KEY_USED || check->external ? SEVERITY_ERROR
                                                         : SEVERITY_WARNING,
                 entry, message, advice_on(check, node));
}

static void check_yaml11(const struct check *check, const struct key *key,
                         const struct entry *entry, const struct value *value)
{
    bool word =
        key->type == KEY_BOOL || key->type == KEY_CHOICE || key->type == KEY_BOOL_OR_TEXT;
    const char *meant = word ? (value->number != 0 ? "true" : "false")
                             : scalar_print(value->number, check->arena);
    struct finding finding = { .rule = "TS012",
                               .severity = SEVERITY_WARNING,
                               .apply = APPLY_SAFE,
                               .key = key->name };

    if (word && !check->nested) {
        finding.message = arena_printf(
            check->arena,
            "%s: %s is a boolean in some YAML parsers and a string in others",
            entry->key->text, entry->value->text);
        propose_value(&check->to, &finding, entry, meant);
        return;
    }
    check_remark(
        check, "TS012", SEVERITY_WARNING, entry,
        arena_printf(
            check->arena,
            "%s: %s is read as %s, but other YAML parsers read it differently; write the "
            "value out",
            key->name, shown(check, key, node_value(entry->value)), meant),
        NULL);
}

static void check_quoted(const struct check *check, const struct key *key,
                         const struct entry *entry)
{
    struct finding finding = { .rule = "TS014",
                               .severity = SEVERITY_INFO,
                               .apply = APPLY_UNSAFE,
                               .key = key->name };

    if (check->external && check->of == &schema_job && !check->nested)
        return; /* rules_reading.c knows what the program does with it */
    finding.message = arena_printf(
        check->arena, "%s is quoted; other tools may read it as a string", key->name);
    if (check->nested || entry->value->kind != NODE_SCALAR)
        check_remark(check, finding.rule, finding.severity, entry, finding.message, NULL);
    else
        propose_unquoted(&check->to, &finding, entry);
}

/* Return what to use instead of a rejected value, or NULL. */
static const char *advice_of(const struct key *key, const char *value)
{
    const struct advice *advice = key->advice;

    while (advice && advice->value && strcmp(advice->value, value) != 0)
        advice++;
    return advice ? advice->text : NULL;
}

static void check_refused(const struct check *check, const struct key *key,
                          const struct entry *entry)
{
    if (check->external && check->of != &schema_block)
        return;
    check_remark(check, "TS707", SEVERITY_ERROR, entry,
                 arena_printf(check->arena, "%s must be %s, not %s", key->name,
                              value_expected(key, check->arena),
                              node_value(entry->value)->text),
                 advice_of(key, node_value(entry->value)->text));
}

static void check_interpolated(const struct check *check, const struct key *key,
                               const struct entry *entry)
{
    const char *text = node_value(entry->value)->text;

    check_remark(
        check, "TS008", SEVERITY_ERROR, entry,
        arena_printf(
            check->arena,
            strstr(text, "${")
                ? "%s contains ${...}, which is not expanded; write the value "
                  "itself"
                : "%s contains {{ }}, so this is a template: render it first and "
                  "check the result",
            key->name),
        NULL);
}

static void check_members(struct check *check, const struct key *key,
                          const struct entry *entry);

static void check_value(struct check *check, const struct key *key,
                        const struct entry *entry)
{
    struct value value = value_read(key, entry->value, check->arena);

    if (value.state == VALUE_WRONG || value.state == VALUE_OUT_OF_RANGE)
        check_type(check, key, entry, &value);
    else if (value.state == VALUE_REFUSED)
        check_refused(check, key, entry);
    else if (value.state == VALUE_INTERPOLATED)
        check_interpolated(check, key, entry);
    else if (value.state == VALUE_NO_EFFECT)
        check_note_no_effect(check, key, entry);
    if (value.state != VALUE_GOOD && value.state != VALUE_OUT_OF_RANGE)
        return;
    check_members(check, key, entry);
    if (key->type == KEY_TEXT && value.text && strcmp(value.text, "None") == 0)
        check_remark(check, "TS704", SEVERITY_WARNING, entry,
                     arena_printf(check->arena, "%s is the string 'None'", key->name),
                     advice_on(check, node_value(entry->value)));
    if (value.kind == SCALAR_YAML11)
        check_yaml11(check, key, entry, &value);
    else if (value.kind == SCALAR_QUOTED)
        check_quoted(check, key, entry);
}

/* schema_is_secret prefers to hide too much: bos_token and max_new_token look like
 * secrets, too.  A warning requires more evidence. */
static bool is_surely_secret(const char *name)
{
    static const char *const owners[] = { "hf", "hub", "auth", "access", "api", "wandb" };
    const char *near[4];
    bool exact, owned = !strcasestr(name, "token");
    size_t count = schema_nearest(name, near, TS_COUNT(near), &exact);

    for (size_t i = 0; i < count; i++)
        if (!schema_find(near[i])->secret)
            return false;
    for (size_t i = 0; i < TS_COUNT(owners); i++)
        owned |= strcasestr(name, owners[i]) != NULL;
    return owned && schema_is_secret(name);
}

/* `${HF_TOKEN}` and `$HF_TOKEN` name a variable and do not reveal the secret. */
static void check_secret(const struct check *check, const struct entry *entry)
{
    const struct node *node = node_value(entry->value);

    if (node_is_null(entry->value) || strchr(node->text, '$') ||
        (node->kind == NODE_SCALAR && node->len == 0))
        return;
    check_remark(
        check, "TS709", SEVERITY_WARNING, entry,
        arena_printf(check->arena,
                     "%s is a secret in a file that is copied, logged and backed up; %s",
                     check_visible(check, entry->key->text),
                     check->external ? "set it in the environment of trainspool "
                                       "instead"
                                     : "nothing here needs it, so remove it"),
        NULL);
}

static void check_rejected(struct check *check, const struct key *key,
                           const struct entry *entry)
{
    const struct value value = value_read(key, entry->value, check->arena);

    if (value_is_off(key, entry->value, check->arena))
        return;
    if (check->external) {
        check_value(check, key, entry);
        return;
    }
    if (strcmp(node_value(entry->value)->text, "None") == 0 &&
        value.state == VALUE_WRONG) {
        check_type(check, key, entry, &value);
        return;
    }
    check_remark(check, "TS707", SEVERITY_ERROR, entry,
                 arena_printf(check->arena, "%s (%s) is not supported%s%s", key->name,
                              key->help, key->instead ? ": " : "",
                              key->instead ? key->instead : ""),
                 NULL);
}

/* A key without effect.  Its value is still checked. */
static void check_without_effect(struct check *check, const struct key *key,
                                 const struct entry *entry)
{
    struct value value = value_read(key, entry->value, check->arena);

    if (check->external)
        check_value(check, key, entry);
    else if (value_is_off(key, entry->value, check->arena))
        return;
    else if (value.state == VALUE_WRONG || value.state == VALUE_OUT_OF_RANGE)
        check_type(check, key, entry, &value);
    else if (key->instead)
        check_remark(check, "TS708", SEVERITY_WARNING, entry,
                     arena_printf(check->arena, "%s%s has no effect here: %s",
                                  check->path, key->name, key->instead),
                     NULL);
    else if (!key->rule)
        check_note_no_effect(check, key, entry);
}

/* ---- Maps and the document ---- */

/* Check the value of an alias under the name of its key. */
static void check_under(struct check *check, const struct key *key,
                        const struct entry *entry)
{
    if (node_find(check->map, key->name))
        return; /* that one takes effect */
    if (key->use == KEY_USED)
        check_value(check, key, entry);
    else if (key->use == KEY_REJECTED)
        check_rejected(check, key, entry);
}

/* `use_auth_token: true` refers to a token that is stored elsewhere. */
static bool holds_secret(const struct key *key, const struct entry *entry)
{
    bool on;

    return key->secret && scalar_bool(entry->value, &on) == SCALAR_WRONG;
}

static void check_known(struct check *check, const struct key *key,
                        const struct entry *entry)
{
    const bool secret = holds_secret(key, entry);

    if (secret && key->use != KEY_RENAMED) /* reported under its new name */
        check_secret(check, entry);
    switch (key->use) {
    case KEY_USED:
        if (key->untrained && check->trains)
            check_without_effect(check, key, entry);
        else
            check_value(check, key, entry);
        break;
    case KEY_IGNORED:
        if (!secret)
            check_without_effect(check, key, entry);
        break;
    case KEY_REJECTED:
        check_rejected(check, key, entry);
        break;
    case KEY_RENAMED:
        check_renamed(check, key, entry);
        check_under(check, schema_find(key->now), entry);
        break;
    case KEY_OTHER_TOOL:
        if (!check->tabled)
            check_other_tool(check, key, entry);
        break;
    }
}

/* If a key is given twice, the last one takes effect, and TS005 reports it. */
static bool is_last(const struct check *check, const struct entry *entry)
{
    return !check->doubled || node_find(check->map, entry->key->text) == entry ||
           memchr(entry->key->text, 0, entry->key->len);
}

static const char *find_target(struct check *check, const struct entry *entry)
{
    const struct key *key;
    const char *near[2];
    bool exact;

    if (entry->key->kind != NODE_SCALAR || !is_last(check, entry))
        return NULL;
    key = schema_find_in(check->of, entry->key->text);
    if (key)
        return key->use == KEY_RENAMED ? key->now : NULL;
    if (check->unknown++ >= UNKNOWN_MAX)
        return NULL;
    return schema_nearest_in(check->of, entry->key->text, near, 2, &exact) == 1 ? near[0]
                                                                                : NULL;
}

static void check_entry(struct check *check, const struct entry *entry)
{
    const struct key *key;

    if (entry->key->kind != NODE_SCALAR) {
        check_remark_name(check, "TS703", entry, "a key must be a name");
        return;
    }
    if (!is_last(check, entry) ||
        (!check->nested && strcmp(entry->key->text, "trainspool") == 0))
        return;
    key = schema_find_in(check->of, entry->key->text);
    if (!key && is_surely_secret(entry->key->text))
        check_secret(check, entry);
    if (key)
        check_known(check, key, entry);
    else if (check->unknown++ < UNKNOWN_MAX && !check->tabled)
        check_unknown(check, entry);
}

static void check_map(struct check *check)
{
    check->targets = arena_array(check->arena, check->map->count + 1, sizeof(char *));
    for (size_t i = 0; i < check->map->count; i++)
        check->targets[i] = find_target(check, &check->map->entries[i]);
    check->unknown = 0;
    for (size_t i = 0; i < check->map->count; i++)
        check_entry(check, &check->map->entries[i]);
    if (check->unknown > UNKNOWN_MAX)
        findings_add(
            check->to.findings,
            &(struct finding) {
                .rule = "TS703",
                .severity = SEVERITY_ERROR,
                .message = arena_printf(check->arena, "%zu more keys are not keys %s",
                                        check->unknown - UNKNOWN_MAX, check->of->of) });
    check->unknown = 0;
}

/* Check the members of a map in a JSON string, which has no positions. */
static void check_json(const struct check *check, const struct key *key,
                       const struct entry *entry)
{
    const struct node *map = value_map(entry->value, check->arena);

    for (size_t i = 0; map && i < map->count; i++) {
        const char *name = map->entries[i].key->text;
        const struct key *member = schema_find_in(key->members, name);
        struct value value = { .state = VALUE_GOOD };

        if (member)
            value = value_read(member, map->entries[i].value, check->arena);
        else
            check_remark(check, "TS703", SEVERITY_ERROR, entry,
                         arena_printf(check->arena, "%s is not a key %s",
                                      check_visible(check, name), key->members->of),
                         NULL);
        if (value.state == VALUE_WRONG || value.state == VALUE_OUT_OF_RANGE)
            check_remark(check, value.state == VALUE_WRONG ? "TS704" : "TS705",
                         SEVERITY_ERROR, entry,
                         arena_printf(check->arena, "%s.%s must be %s", key->name, name,
                                      value_expected_with_bound(
                                          member, map->entries[i].value, check->arena)),
                         NULL);
    }
}

/* Check names and values in a map with known keys, as lr_scheduler_kwargs. */
static void check_members(struct check *check, const struct key *key,
                          const struct entry *entry)
{
    const struct node *map = node_value(entry->value);
    struct check inner = *check;

    if (key->members && key->use == KEY_USED && map->kind == NODE_SCALAR)
        check_json(check, key, entry);
    if (!key->members || map->kind != NODE_MAP)
        return;
    inner.map = map;
    inner.of = key->members;
    inner.nested = true;
    inner.lenient = false;
    inner.tabled = false;
    inner.path = arena_printf(check->arena, "%s%s.", check->path, key->name);
    inner.unknown = 0;
    check_map(&inner);
    check->idle = inner.idle;
    check->idle_names = inner.idle_names;
    check->idle_count = inner.idle_count;
}

/* Report secrets in the environment of the process, and one of Python without a program
 * that uses it. */
static void check_environment(struct check *check)
{
    const struct entry *env = node_find(check->map, "env");
    const struct node *map = env ? node_value(env->value) : NULL;

    if (map && map->kind == NODE_SCALAR && !node_is_null(map) && !check->external)
        check_note_no_effect(check, schema_find_in(check->of, "env"), env);
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++)
        if (map->entries[i].key->kind == NODE_SCALAR &&
            is_surely_secret(map->entries[i].key->text))
            check_secret(check, &map->entries[i]);
}

static void check_block(struct check *check)
{
    const struct entry *block = document_find(check->to.document, "trainspool");

    if (!block || node_is_null(block->value))
        return;
    if (node_value(block->value)->kind != NODE_MAP) {
        check_remark(check, "TS704", SEVERITY_ERROR, block,
                     "trainspool must be a block of keys: device, policy, keep ...",
                     NULL);
        return;
    }
    check->map = node_value(block->value);
    check->of = &schema_block;
    check->path = "trainspool.";
    check->nested = true;
    check->lenient = false;
    check->tabled = false;
    check_map(check);
    check_environment(check);
}

/* TS612: `accelerate config` wrote fp16 before it wrote mixed_precision. */
static void check_launcher(const struct check *check)
{
    const struct entry *entry = node_find(check->map, "fp16");
    bool on = false;

    if (entry && scalar_bool(entry->value, &on) != SCALAR_WRONG && on)
        check_remark(
            check, "TS612", SEVERITY_WARNING, entry,
            "the launcher's key is mixed_precision: fp16; a job sets fp16: true itself",
            NULL);
}

void schema_check(const struct document *document, const struct profile_view *view,
                  bool trains, struct findings *findings)
{
    struct check check = { .to = { document, findings },
                           .arena = findings->arena,
                           .map = document->root,
                           .trains = trains,
                           .of = &schema_job,
                           .path = "" };
    const struct entry *marker = NULL;
    enum dialect dialect;

    if (!document->root)
        return;
    dialect = dialect_find(document, &marker);
    if (!dialect_is_of(dialect, view->trainer)) {
        propose_key_remark(&check.to,
                           &(struct finding) { .rule = "TS706",
                                               .severity = SEVERITY_ERROR,
                                               .message = dialect_sentence(
                                                   dialect, marker, check.arena) },
                           marker);
        if (dialect == DIALECT_ACCELERATE)
            check_launcher(&check);
        return;
    }
    for (size_t i = 0; i < document->remark_count; i++)
        check.doubled |= document->remarks[i].fault == DOCUMENT_DUPLICATE;
    check.directive_count = directives_read(document, check.arena, &check.directives);
    check.external = view->trainer != TRAINER_NATIVE;
    check.lenient = check.external && !dialect_is_llama_factory(document);
    check.tabled = profile_is_closed(view) && !document->script;
    if (!profile_at(view->trainer)->rules)
        check_map(&check);
    if (!document->script) /* it has no block but ours */
        check_block(&check);
    check_report_no_effect(&check);
}
