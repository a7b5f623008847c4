/* patcher/rules_versions.c - what is known of the packages an external job runs with. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <assert.h>
#include <string.h>

/* ---- What other rules ask ---- */

static const struct version *known(const struct rule_context *context,
                                   enum package package)
{
    const struct package_version *of = &context->versions->of[package];

    return context->plan->external && (of->given || of->found) ? &of->version : NULL;
}

static int compare_with(const struct version *version, const char *bound)
{
    struct version other;
    bool read = version_read(bound, &other);

    assert(read);
    (void)read;
    return version_compare(version, &other);
}

bool rule_version_from(const struct rule_context *context, enum package package,
                       const char *least)
{
    const struct version *version = known(context, package);

    return version && compare_with(version, least) >= 0;
}

bool rule_version_below(const struct rule_context *context, enum package package,
                        const char *bound)
{
    const struct version *version = known(context, package);

    return version && compare_with(version, bound) < 0;
}

const char *rule_version(const struct rule_context *context, enum package package)
{
    const struct package_version *of = &context->versions->of[package];

    if (!known(context, package))
        return NULL;
    return arena_printf(context->arena, "%s %s (%s)", package_names[package],
                        of->given ? of->given : of->found,
                        of->given ? "trainspool.versions"
                                  : "installed in trainspool.env");
}

static const struct entry *block_entry(const struct rule_context *context,
                                       const char *key)
{
    const struct entry *block = document_find(context->document, "trainspool");

    return block ? node_find(node_value(block->value), key) : NULL;
}

const struct entry *rule_variable(const struct rule_context *context, const char *name)
{
    const struct entry *env = block_entry(context, "env");

    return env ? node_find(node_value(env->value), name) : NULL;
}

/* ---- TS702, TS703, TS704: the map of versions ---- */

static const char *shown(const struct rule_context *context, const char *text)
{
    return rule_visible(context, arena_copy(context->arena, text, strnlen(text, 60)));
}

static void unknown_package(struct rule_context *context, const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    const char *name = entry->key->text, *near = package_nearest(name);
    struct finding finding = {
        .rule = near ? "TS702" : "TS703",
        .severity = near ? SEVERITY_ERROR : SEVERITY_INFO,
        .message = near ? arena_printf(context->arena,
                                       "versions: no rule knows a package %s; did you "
                                       "mean %s?",
                                       shown(context, name), near)
                        : arena_printf(context->arena,
                                       "versions: no rule looks at the version of %s",
                                       shown(context, name)),
    };

    propose_key_remark(&to, &finding, entry);
}

static void no_version(struct rule_context *context, const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    const struct node *value = node_value(entry->value);
    const char *text =
        value->kind == NODE_SCALAR ? shown(context, value->text) : "a map or a list";

    propose_remark(&to,
                   &(struct finding) { .rule = "TS704",
                                       .severity = SEVERITY_ERROR,
                                       .message = arena_printf(
                                           context->arena,
                                           "versions: %s must be one version, as 2.4.0 "
                                           "or 5.0.0rc1, not %s",
                                           shown(context, entry->key->text), text) },
                   entry);
}

static void check_given(struct rule_context *context, const struct entry *entry)
{
    const struct node *value = node_value(entry->value);
    struct version version;

    if (package_find(entry->key->text) == PACKAGES)
        unknown_package(context, entry);
    else if (!node_is_null(entry->value) &&
             (value->kind != NODE_SCALAR || !version_read(value->text, &version)))
        no_version(context, entry);
}

/* ---- TS809: given and installed ---- */

static void check_same(struct rule_context *context, const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    enum package package = package_find(entry->key->text);
    const struct package_version *of;
    struct version given, found;

    if (package == PACKAGES || !(of = &context->versions->of[package])->given ||
        !of->found || !version_read(of->given, &given) ||
        !version_read(of->found, &found) || version_covers(&given, &found))
        return;
    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS809",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(context->arena,
                                    "versions says %s %s, and %s is installed in the "
                                    "environment that env names",
                                    package_names[package], of->given, of->found),
            .note = "what versions says is believed" },
        entry);
}

/* ---- TS713, TS704: the environment ---- */

static void check_environment(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *env = block_entry(context, "env");
    const struct versions *versions = context->versions;

    if (env && node_value(env->value)->kind == NODE_LIST)
        propose_remark(&to,
                       &(struct finding) { .rule = "TS704",
                                           .severity = SEVERITY_ERROR,
                                           .message =
                                               "env must be the folder of a Python "
                                               "environment, or a map of variables" },
                       env);
    if (context->plan->external && versions->trouble)
        propose_remark(
            &to,
            &(struct finding) {
                .rule = "TS713",
                .severity = SEVERITY_WARNING,
                .because = "looked for on this machine",
                .message =
                    arena_printf(context->arena, "the environment %s %s",
                                 shown(context, versions->folder), versions->trouble),
                .note = "rules that depend on versions are silent where versions does "
                        "not give them" },
            versions->where);
}

void rule_versions(struct rule_context *context)
{
    const struct entry *entry = block_entry(context, "versions");
    const struct node *map = entry ? node_value(entry->value) : NULL;

    check_environment(context);
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++)
        if (map->entries[i].key->kind == NODE_SCALAR) {
            check_given(context, &map->entries[i]);
            check_same(context, &map->entries[i]);
        }
}
