/* patcher/schema/schema_names.c - reports names that are not keys: misspelled, of
 * another tool, or an old name. */
#include "config.h"

#include "patcher/schema/schema_internal.h"
#include "patcher/document/lookalike.h"
#include "patcher/schema/schema_value.h"

#include "base/nearest.h"

#include <string.h>

#define BLOCK_NAME "trainspool"

static enum severity name_severity(const struct check *check)
{
    return check->of->open || check->lenient ? SEVERITY_WARNING : SEVERITY_ERROR;
}

void check_remark_name(const struct check *check, const char *rule,
                       const struct entry *entry, const char *message)
{
    propose_key_remark(&check->to,
                       &(struct finding) { .rule = rule,
                                           .severity = name_severity(check),
                                           .message = message },
                       entry);
}

static const char *list_of(const struct check *check, const char *const *names,
                           size_t count)
{
    const char *list = names[0];

    for (size_t i = 1; i < count; i++)
        list = arena_printf(check->arena, "%s%s%s", list, i + 1 < count ? ", " : " or ",
                            names[i]);
    return list;
}

/* Return whether the map has this name, or another entry would be renamed to it. */
static bool is_taken(const struct check *check, const struct entry *entry,
                     const char *name)
{
    if (node_find(check->map, name))
        return true;
    for (size_t i = 0; i < check->map->count; i++)
        if (&check->map->entries[i] != entry && check->targets[i] &&
            strcmp(check->targets[i], name) == 0)
            return true;
    return false;
}

/* TS701, TS702: propose the correct name, unless the job has it already. */
static void rename_to(const struct check *check, const struct entry *entry,
                      const char *name, bool exact)
{
    struct finding finding = { .rule = exact ? "TS701" : "TS702",
                               .severity = name_severity(check),
                               .apply = exact ? APPLY_SAFE : APPLY_UNSAFE,
                               .note = "the value does not change" };
    const char *written = check_visible(check, entry->key->text);
    bool taken = is_taken(check, entry, name);

    if (exact)
        finding.message = arena_printf(check->arena, "%s must be spelled %s%s", written,
                                       name, taken ? ", which is also given" : "");
    else
        finding.message =
            arena_printf(check->arena, "%s is not a key %s; did you mean %s%s?", written,
                         check->of->of, name, taken ? ", which is also given" : "");
    if (check->nested || taken) {
        finding.note = NULL;
        propose_key_remark(&check->to, &finding, entry);
    } else {
        propose_name(&check->to, &finding, entry, name);
    }
}

/* Find keys that begin with the name, as warmup_steps for warmup; none if there are more
 * than `room`. */
static size_t find_longer(const struct check *check, const char *name, const char **out,
                          size_t room)
{
    const size_t len = strlen(name);
    const struct key *key;
    size_t count = 0;

    for (size_t i = 0; len > 3 && (key = schema_at(check->of, i)); i++)
        if (key->use == KEY_USED && strncmp(key->name, name, len) == 0 &&
            key->name[len] == '_' && count++ < room)
            out[count - 1] = key->name;
    return count <= room ? count : 0;
}

/* Return where a key belongs that is on the wrong side of the block; NULL: it is not. */
static const char *misplaced(const struct check *check, const char *name)
{
    const bool inside = check->of == &schema_block;
    const struct key *key = inside ? schema_find(name)
                            : check->of == &schema_job
                                ? schema_find_in(&schema_block, name)
                                : NULL;

    if (!key || key->use != KEY_USED)
        return NULL;
    return inside ? "it belongs outside the block" : "it belongs in the block trainspool";
}

void check_unknown(const struct check *check, const struct entry *entry)
{
    const char *near[4];
    const char *name = entry->key->text;
    bool exact;
    size_t count = schema_nearest_in(check->of, name, near, 4, &exact);
    size_t longer = count == 0 ? find_longer(check, name, near, 3) : 0;
    const char *where = check->of->of;

    if (strcmp(name, "<<") == 0 && !check->nested) {
        check_remark(check, "TS007", SEVERITY_WARNING, entry,
                     "<< has no value that can be merged", NULL);
    } else if (!check->nested && entry->value->kind == NODE_MAP &&
               nearest_distance(name, BLOCK_NAME, 2) <= 2) {
        rename_to(check, entry, BLOCK_NAME, nearest_is_same_name(name, BLOCK_NAME));
    } else if (count == 1) {
        rename_to(check, entry, near[0], exact);
    } else if (count > 1 || longer > 0) {
        check_remark_name(
            check, "TS703", entry,
            arena_printf(check->arena, "%s is not a key %s; did you mean %s?",
                         check_visible(check, name), where,
                         list_of(check, near, count + longer < 3 ? count + longer : 3)));
    } else if (check->lenient) {
        propose_key_remark(
            &check->to,
            &(struct finding) { .rule = "TS703",
                                .severity = SEVERITY_WARNING,
                                .message = arena_printf(
                                    check->arena,
                                    "%s is not a key of LLaMA-Factory or "
                                    "TrainingArguments; it is valid only if the script "
                                    "defines it",
                                    check_visible(check, name)) },
            entry);
    } else {
        const char *more = misplaced(check, name);

        if (!more)
            more = lookalike_in_text(name, entry->key->len, check->arena);
        check_remark_name(check, "TS703", entry,
                          arena_printf(check->arena, "%s is not a key %s%s%s",
                                       check_visible(check, name), where,
                                       more ? "; " : "", more ? more : ""));
    }
}

static enum severity foreign_severity(const struct check *check, const struct key *key)
{
    if (key->rule && (check->external || strcmp(key->rule, "TS119") == 0))
        return SEVERITY_WARNING; /* a script of its own may read the key */
    return name_severity(check);
}

/* TS706, or the rule of the row.  Arguments of TRL are valid if a script of it runs. */
void check_other_tool(struct check *check, const struct key *key,
                      const struct entry *entry)
{
    bool same = key->now && !key->instead;

    if (check->lenient && strstr(key->tools, "TRL"))
        return;
    if (key->rule && value_is_off(key, entry->value, check->arena)) {
        check_note_no_effect(check, key, entry);
        return;
    }
    propose_key_remark(
        &check->to,
        &(struct finding) { .rule = key->rule ? key->rule : "TS706",
                            .severity = foreign_severity(check, key),
                            .message = arena_printf(check->arena, "%s is a key of %s%s%s",
                                                    key->name, key->tools,
                                                    same ? "; use " : ": ",
                                                    same ? key->now : key->instead) },
        entry);
}

/* TS601 and similar rules.  An alias without a rule is as valid as the name. */
void check_renamed(const struct check *check, const struct key *key,
                   const struct entry *entry)
{
    struct finding finding = { .rule = key->rule,
                               .severity = SEVERITY_WARNING,
                               .apply = APPLY_SAFE,
                               .note = "the value does not change" };

    if (is_taken(check, entry, key->now)) {
        check_remark_name(
            check, "TS005", entry,
            arena_printf(check->arena,
                         "%s is another name of %s, which is also given; only one of "
                         "them takes effect",
                         key->name, key->now));
    } else if (key->rule && !check->external) { /* rule_renamed: depends on versions */
        finding.message =
            arena_printf(check->arena, "%s is now called %s", key->name, key->now);
        propose_name(&check->to, &finding, entry, key->now);
    }
}
