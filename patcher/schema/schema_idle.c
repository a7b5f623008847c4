/* patcher/schema/schema_idle.c - TS708: keys without effect here, in one remark. */
#include "config.h"

#include "patcher/schema/schema_parts.h"

/* Does its row ignore TS708? */
static bool is_wanted_alone(const struct check *check, const struct entry *entry)
{
    for (size_t i = 0; i < check->directive_count; i++)
        if (directive_ignores(&check->directives[i], "TS708") &&
            directive_is_beside(&check->directives[i], check->to.document, entry))
            return true;
    return false;
}

/* One remark for all, at the first; a row that does not want it goes by itself. */
void check_note_idle(struct check *check, const struct key *key,
                     const struct entry *entry)
{
    if (!check->external && is_wanted_alone(check, entry)) {
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

void check_tell_idle(const struct check *check)
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
