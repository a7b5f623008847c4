/* patcher/findings/finding.c - the list of findings of a job. */
#include "config.h"

#include "patcher/findings/finding.h"

#include <stdlib.h>
#include <string.h>

const char *const severity_names[3] = {
    [SEVERITY_INFO] = "info",
    [SEVERITY_WARNING] = "warning",
    [SEVERITY_ERROR] = "error",
};

const char *const apply_names[3] = {
    [APPLY_MANUAL] = "manual",
    [APPLY_UNSAFE] = "unsafe",
    [APPLY_SAFE] = "safe",
};

void findings_init(struct findings *findings, struct arena *arena)
{
    *findings = (struct findings) { .arena = arena };
}

struct finding *findings_add(struct findings *findings, const struct finding *finding)
{
    if (findings->count == findings->room) {
        struct finding *old = findings->list;

        findings->room = findings->room ? 2 * findings->room : 16;
        findings->list = arena_array(findings->arena, findings->room, sizeof(*old));
        if (findings->count > 0)
            memcpy(findings->list, old, findings->count * sizeof(*old));
    }
    findings->list[findings->count] = *finding;
    return &findings->list[findings->count++];
}

/* Lines inserted at one position keep their order, regardless of their rules. */
static bool is_insert(const struct finding *finding)
{
    return finding->new_text && finding->cut == 0;
}

/* TS007 says why another finding has no edit, and follows it. */
static const char *sort_key(const struct finding *finding)
{
    return strcmp(finding->rule, "TS007") == 0 ? "~" : finding->rule;
}

static int compare(const struct finding *a, const struct finding *b)
{
    if (a->at.byte != b->at.byte)
        return a->at.byte < b->at.byte ? -1 : 1;
    return is_insert(a) && is_insert(b) ? 0 : strcmp(sort_key(a), sort_key(b));
}

/* Insertion sort is stable, which lines inserted at one position require; lists are
 * short. */
void findings_sort(struct findings *findings)
{
    for (size_t i = 1; i < findings->count; i++) {
        struct finding moved = findings->list[i];
        size_t at = i;

        for (; at > 0 && compare(&moved, &findings->list[at - 1]) < 0; at--)
            findings->list[at] = findings->list[at - 1];
        findings->list[at] = moved;
    }
}

int findings_worst(const struct findings *findings)
{
    int worst = -1;

    for (size_t i = 0; i < findings->count; i++)
        if (!findings->list[i].fixed && !findings->list[i].resolved &&
            (int)findings->list[i].severity > worst)
            worst = (int)findings->list[i].severity;
    return worst;
}
