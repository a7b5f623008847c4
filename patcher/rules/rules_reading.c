/* patcher/rules/rules_reading.c - text that trainspool and the program of an external job read
 * differently: tabs, numbers and quoted values. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "patcher/rules/python_value.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_value.h"

static const char *program_name(const struct rule_context *context)
{
    return rule_is_llamafactory(context) ? "LLaMA-Factory"
           : rule_is_trl(context)        ? "TRL"
                                         : "HfArgumentParser";
}

static const struct key *find_key(const struct entry *entry)
{
    const struct key *key =
        entry->key->kind == NODE_SCALAR ? schema_find(entry->key->text) : NULL;

    return key && key->use == KEY_RENAMED ? schema_find(key->now) : key;
}

/* ---- Tabs ---- */

#define TABS_MAX 20 /* reported individually */

/* Bytes in which PyYAML accepts a tab: quoted scalars and blocks of text. */
struct spans {
    const struct node *list[DOCUMENT_MAX_EVENTS];
    size_t count;
};

static void add_spans(struct spans *spans, const struct node *node)
{
    if (node->kind == NODE_SCALAR && node->style != STYLE_PLAIN &&
        spans->count < TS_COUNT(spans->list))
        spans->list[spans->count++] = node;
    for (size_t i = 0; i < node->count; i++)
        if (node->kind == NODE_MAP && !node->entries[i].from_merge) {
            add_spans(spans, node->entries[i].key);
            add_spans(spans, node->entries[i].value);
        } else if (node->kind == NODE_LIST) {
            add_spans(spans, node->items[i]);
        }
}

/* Return the end of the span that contains the byte, or 0. */
static size_t span_end(const struct spans *spans, size_t byte)
{
    for (size_t i = 0; i < spans->count; i++) {
        const struct node *node = spans->list[i];

        if (byte >= node->at.byte && byte < node->at.byte + node->bytes)
            return node->at.byte + node->bytes;
    }
    return 0;
}

/* Return the last row that begins before the byte. */
static const struct entry *row_before(const struct document *document, size_t byte)
{
    const struct entry *found = NULL;

    for (size_t i = 0; i < document->root->count; i++) {
        const struct entry *entry = &document->root->entries[i];

        if (!entry->from_merge && entry->key->at.byte <= byte &&
            (!found || entry->key->at.byte > found->key->at.byte))
            found = entry;
    }
    return found;
}

/* Return whether a space instead of the tab leaves the value unchanged, as anywhere but within
 * a plain scalar. */
static bool is_between_values(const struct entry *entry, size_t byte)
{
    const struct node *value = entry->value;

    return value->kind == NODE_SCALAR &&
           (byte < value->at.byte || byte >= value->at.byte + value->bytes);
}

static void report_tab(struct rule_context *context, size_t byte, size_t bytes)
{
    const struct document *document = context->document;
    const struct entry *entry = row_before(document, byte);
    bool maybe = python_reader_of(context) == PYTHON_OMEGACONF;
    struct finding finding = {
        .rule = "TS004",
        .severity = maybe ? SEVERITY_WARNING : SEVERITY_ERROR,
        .message = arena_printf(context->arena,
                                "%s rejects this tab: found character '\\t' that cannot "
                                "start any token",
                                maybe ? "OmegaConf before 2.4" : "PyYAML"),
        .note = "the value stays unchanged",
        .at = document_mark(document, byte),
        .cut = bytes,
    };

    if (entry && entry->key->kind == NODE_SCALAR) {
        finding.key = entry->key->text;
        finding.entry = entry;
    }
    if (entry && is_between_values(entry, byte) &&
        !propose_keeps(document, finding.key, entry)) {
        finding.apply = APPLY_SAFE;
        finding.old_text = arena_copy(context->arena, document->data + byte, bytes);
        finding.new_text = " ";
        finding.label = "a space";
    } else {
        finding.note = "replace the tab with spaces";
    }
    findings_add(context->findings, &finding);
}

/* PyYAML's scanner skips blanks between tokens and ends a plain scalar at a tab, which
 * then starts no token (yaml/scanner.py, scan_to_next_token, scan_plain).  libyaml skips
 * both.  OmegaConf uses PyYAML's scanner before 2.4, then libyaml. */
static void rule_pyyaml_tabs(struct rule_context *context)
{
    const struct document *document = context->document;
    const char *data = document->data;
    struct spans *spans;
    size_t found = 0, end;

    if (!context->plan->external || !memchr(data, '\t', document->len))
        return;
    spans = arena_alloc(context->arena, sizeof(*spans));
    spans->count = 0;
    add_spans(spans, document->root);
    for (size_t at = 0; at < document->len && found < TABS_MAX; at++) {
        if ((end = span_end(spans, at)) > 0) {
            at = end - 1;
        } else if (data[at] == '#' && (at == 0 || strchr(" \t\r\n", data[at - 1]))) {
            at += strcspn(data + at, "\r\n");
        } else if (data[at] == '\t') {
            size_t bytes = strspn(data + at, "\t ");

            report_tab(context, at, bytes);
            at += bytes - 1;
            found++;
        }
    }
}

/* ---- Numbers without quotes ---- */

/* PyYAML reads digits, a decimal point and an exponent with its sign as a number
 * (yaml/resolver.py).  It reads `2e-5` and `1.0e4` as strings. */
static const char *with_point_and_sign(const char *text, struct arena *arena)
{
    size_t digits = strspn(text, "+-0123456789"), part = 0;
    const char *exponent, *rest = text + digits;
    bool sign;

    if (*rest == '.')
        part = 1 + strspn(rest + 1, "0123456789");
    exponent = rest + part;
    if (digits == 0 || (*exponent != 'e' && *exponent != 'E'))
        return NULL;
    sign = exponent[1] == '+' || exponent[1] == '-';
    if (part > 0 && sign)
        return NULL;
    return arena_printf(arena, "%.*s%s%c%s%s", (int)(digits + part), text,
                        part == 0 ? ".0" : "", *exponent, sign ? "" : "+", exponent + 1);
}

static void rule_pyyaml_numbers(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct node *root = context->document->root;

    if (python_reader_of(context) != PYTHON_PYYAML)
        return;
    for (size_t i = 0; i < root->count; i++) {
        const struct entry *entry = &root->entries[i];
        const struct node *value = node_value(entry->value);
        const struct key *key = find_key(entry);
        const char *full;

        if (!key || key->type != KEY_REAL || value->kind != NODE_SCALAR ||
            value->style != STYLE_PLAIN ||
            !(full = with_point_and_sign(value->text, context->arena)))
            continue;
        propose_value(
            &to,
            &(struct finding) {
                .rule = "TS013",
                .severity = SEVERITY_WARNING,
                .apply = APPLY_SAFE,
                .message = arena_printf(context->arena,
                                        "%s: %s is a string for PyYAML, which requires a "
                                        "decimal point and a signed exponent",
                                        key->name, value->text),
                .note = "the same number" },
            entry, full);
    }
}

/* ---- Quoted values ---- */

/* Describe what the program does with the string. */
static struct finding describe(struct rule_context *context, const struct key *key,
                               const struct value *value, const struct entry *entry)
{
    const char *text = node_value(entry->value)->text, *program = program_name(context);
    bool word =
        key->type == KEY_BOOL || key->type == KEY_CHOICE || key->type == KEY_BOOL_OR_TEXT;
    struct finding finding = {
        .rule = "TS014", .severity = SEVERITY_ERROR, .apply = APPLY_SAFE, .key = key->name
    };

    if (!python_reads_string(context, entry->key->text, entry->value)) {
        finding.severity = SEVERITY_INFO;
        finding.apply = APPLY_UNSAFE;
        finding.message = arena_printf(context->arena,
                                       "%s is quoted; %s converts the string, other "
                                       "tools may not",
                                       key->name, program);
    } else if (!word) {
        finding.message = arena_printf(context->arena,
                                       "%s: \"%s\" is a string for %s, which requires a "
                                       "number and does not convert it",
                                       key->name, text, program);
    } else if (value->number == 0) {
        finding.message = arena_printf(context->arena,
                                       "%s: \"%s\" is a string for %s, and each string "
                                       "that is not empty counts as true",
                                       key->name, text, program);
    } else {
        finding.severity = SEVERITY_WARNING;
        finding.message = arena_printf(context->arena,
                                       "%s: \"%s\" is a string for %s; it counts as true "
                                       "in most places, but it is not the value true",
                                       key->name, text, program);
    }
    return finding;
}

static void rule_quoted_values(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct node *root = context->document->root;

    if (!context->plan->external) /* schema_check.c reports them */
        return;
    for (size_t i = 0; i < root->count; i++) {
        const struct entry *entry = &root->entries[i];
        const struct key *key = find_key(entry);
        struct finding finding;
        struct value value;

        if (!key)
            continue;
        value = value_read(key, entry->value, context->arena);
        if (value.kind != SCALAR_QUOTED ||
            (value.state != VALUE_GOOD && value.state != VALUE_OUT_OF_RANGE))
            continue;
        finding = describe(context, key, &value, entry);
        if (entry->value->kind == NODE_SCALAR)
            propose_unquoted(&to, &finding, entry);
        else
            propose_remark(&to, &finding, entry);
    }
}

/* ---- Tags ---- */

#define YAML_TAGS "tag:yaml.org,2002:"

/* PyYAML 6.0.3, constructor.py, SafeConstructor; "!" only says that it is no plain text.
 * yq writes !!merge before <<. */
static bool is_known_tag(const char *tag)
{
    static const char *const types[] = { "null",   "bool",  "int",  "float", "str",
                                         "binary", "map",   "seq",  "omap",  "timestamp",
                                         "set",    "pairs", "merge" };
    const char *type = text_starts(tag, YAML_TAGS) ? tag + strlen(YAML_TAGS) : "";

    for (size_t i = 0; i < TS_COUNT(types); i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return strcmp(tag, "!") == 0;
}

static void report_tag(struct rule_context *context, const struct node *node,
                       const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    const bool standard = text_starts(node->tag, YAML_TAGS);
    const char *name = arena_printf(context->arena, "%s%s", standard ? "!!" : "",
                                    node->tag + (standard ? strlen(YAML_TAGS) : 0));
    struct finding *finding = propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS015",
            .severity = SEVERITY_ERROR,
            .message = arena_printf(context->arena,
                                    text_starts(name, "!!python/")
                                        ? "the tag %s asks for a Python object; "
                                          "YAML readers refuse the file"
                                        : "the tag %s is unknown; YAML readers refuse "
                                          "the file",
                                    rule_printable(context, name)),
            .note = "write the value without the tag" },
        entry);

    if (finding) {
        finding->at = node->at;
        finding->cut = node->bytes;
    }
}

/* An alias is reported where its anchor is. */
static void check_tags(struct rule_context *context, const struct node *node,
                       const struct entry *entry)
{
    if (node->tag && !is_known_tag(node->tag))
        report_tag(context, node, entry);
    for (size_t i = 0; i < node->count; i++)
        if (node->kind == NODE_LIST) {
            check_tags(context, node->items[i], entry);
        } else if (node->kind == NODE_MAP && !node->entries[i].from_merge) {
            const struct entry *below = entry ? entry : &node->entries[i];

            check_tags(context, node->entries[i].key, below);
            check_tags(context, node->entries[i].value, below);
        }
}

static void rule_foreign_tags(struct rule_context *context)
{
    check_tags(context, context->document->root, NULL);
}

static const struct rule rows[] = {
    { .id = "TS004",
      .title = "tab that a YAML reader rejects",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .apply = APPLY_SAFE,
      .run = rule_pyyaml_tabs,
      .explain =
          "YAML forbids tabs in indentation, since their width is undefined. Replace "
          "them with spaces.\n\n"
          "Between a colon and its value, or after a value, YAML 1.2 allows tabs, and "
          "trainspool accepts them. PyYAML, which LLaMA-Factory, TRL and transformers "
          "use, raises `found character '\\t' that cannot start any token`. In a job with "
          "target: external the patch replaces such a tab with a space. LLaMA-Factory "
          "reads the file with OmegaConf since 0.9.4, which accepts such a tab since 2.4, so "
          "the finding is a warning there.",
      .source = "YAML 1.2, 6.1 Indentation Spaces; PyYAML 6.0.3, yaml/scanner.py, and "
                "OmegaConf 2.3 and 2.4, tested" },
    { .id = "TS013",
      .title = "number that PyYAML reads as a string",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_pyyaml_numbers,
      .target = RULE_EXTERNAL,
      .explain =
          "PyYAML reads `2e-5` and `1.0e4` as strings, because it requires a decimal "
          "point and a signed exponent. The string then fails deep in the optimizer. In "
          "a job with target: external the patch writes the number in full, 2.0e-5. "
          "trainspool reads both forms as the same number, so a native job is not "
          "changed. LLaMA-Factory loads the file with OmegaConf since 0.9.4, which reads "
          "them as numbers, and TRL converts strings since 0.9.6: if such a version is "
          "known, the rule does not apply.",
      .source = "LLaMA-Factory#4149, #4014; its hparams/parser.py, v0.9.3 and v0.9.4, "
                "tested; trl#1450" },
    { .id = "TS014",
      .title = "quoted number or boolean",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .run = rule_quoted_values,
      .explain =
          "Most tools read a quoted value as a string. trainspool knows the type that "
          "the key requires and reads the value as intended. `patch --unsafe` removes "
          "the quotes.\n\n"
          "HfArgumentParser.parse_dict, which LLaMA-Factory and scripts of the Trainer "
          "use, converts nothing. A Python string that is not empty is true, so `fp16: "
          "'False'` enables fp16 and `push_to_hub: 'False'` uploads; a quoted number "
          "fails in the first comparison. With target: external this is an error, and "
          "the safe edit removes the quotes; a quoted true is a warning. TRL's parser "
          "converts strings, so there it stays an info. `plan` shows what the program "
          "does with the file as it is.",
      .source = "transformers 4.37 to 5.24, hf_argparser.py, parse_dict; trl 0.9.6 to "
                "1.16, TrlParser" },
    { .id = "TS015",
      .title = "tag that YAML readers refuse",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_foreign_tags,
      .explain =
          "A tag such as !!python/object/apply:os.system asks the reader to build an "
          "object, here by running a command. yaml.safe_load, and with it OmegaConf, "
          "refuses every tag but those of YAML itself (!!str, !!int, !!float, !!bool, "
          "!!null, !!binary, !!timestamp, !!map, !!seq, !!set, !!omap, !!pairs) with "
          "`could not determine a constructor for the tag`. yaml.load with another "
          "loader may run it. trainspool runs nothing from a file, and refuses the job "
          "as well: write the value without the tag.",
      .source = "PyYAML 6.0.3, yaml/constructor.py, tested" },
};

const struct rules rules_reading = { rows, TS_COUNT(rows) };
