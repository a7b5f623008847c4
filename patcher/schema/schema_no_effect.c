/* patcher/schema/schema_no_effect.c - TS708: collects keys without effect into one
 * finding. */
#include "config.h"

#include "patcher/schema/schema_internal.h"

/* Return whether the line of the key has a comment that ignores TS708. */
static bool is_suppressed(const struct check *check, const struct entry *entry)
{
    for (size_t i = 0; i < check->directive_count; i++)
        if (directive_ignores(&check->directives[i], "TS708") &&
            directive_applies_to(&check->directives[i], check->to.document, entry))
            return true;
    return false;
}

/* All keys share one finding, at the first of them.  A key whose line ignores TS708 gets
 * its own finding, so that the comment suppresses that one alone. */
void check_note_no_effect(struct check *check, const struct key *key,
                          const struct entry *entry)
{
    if (!check->external && is_suppressed(check, entry)) {
        check_remark(
            check, "TS708", SEVERITY_INFO, entry,
            arena_printf(check->arena, "%s%s has no effect here", check->path, key->name),
            NULL);
        return;
    }
    if (!check->idle)
        check->idle = entry;
    check->idle_names =
        arena_printf(check->arena, "%s%s%s%s", check->idle_count ? check->idle_names : "",
                     check->idle_count ? ", " : "", check->path, key->name);
    check->idle_count++;
}

void check_report_no_effect(const struct check *check)
{
    const char *message;

    if (!check->idle || check->external)
        return;
    message = check->idle_count == 1
                  ? arena_printf(check->arena, "%s has no effect here", check->idle_names)
                  : arena_printf(check->arena, "%zu keys have no effect here: %s",
                                 check->idle_count, check->idle_names);
    propose_key_remark(&check->to,
                       &(struct finding) { .rule = "TS708",
                                           .severity = SEVERITY_INFO,
                                           .message = message },
                       check->idle);
}
