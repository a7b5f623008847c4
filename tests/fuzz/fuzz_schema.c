/*
 * tests/fuzz/fuzz_schema.c - the schema checks and binds the keys of any job; a setting
 * from the command line is rejected with a message or reads back from the text.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "patcher/profiles/trainer_view.h"
#include "patcher/schema/schema.h"
#include "patcher/setting.h"

static void check_findings(const struct document *document, struct arena *arena)
{
    const struct versions versions = { 0 };
    struct findings findings;
    struct profile_view view;

    findings_init(&findings, arena);
    trainer_view(document, NULL, &versions, &view);
    schema_check(document, &view, true, &findings);
    for (size_t i = 0; i < findings.count; i++) {
        const struct finding *finding = &findings.list[i];

        FUZZ_HOLDS(finding->message && finding->message[0]);
        FUZZ_HOLDS(finding->at.byte + finding->cut <= document->len);
        FUZZ_HOLDS(!finding->new_text || finding->apply != APPLY_MANUAL);
        FUZZ_HOLDS(!finding->old_text ||
                   (strlen(finding->old_text) == finding->cut &&
                    memcmp(finding->old_text, document->data + finding->at.byte,
                           finding->cut) == 0));
    }
}

/* Check that divisors and sizes in the plan are within bounds, whatever the job says. */
static void check_plan(const struct document *document, struct arena *arena)
{
    struct plan plan = { .job = "job.yaml", .dir = ".", .run_dir = "job.run" };

    schema_bind(document, arena, &plan);
    FUZZ_HOLDS(plan.per_device_train_batch_size >= 1);
    FUZZ_HOLDS(plan.gradient_accumulation_steps >= 1);
    FUZZ_HOLDS(plan.cutoff_len >= 1);
    FUZZ_HOLDS(plan.lora_rank >= 1);
    FUZZ_HOLDS(isfinite(plan.num_train_epochs) && isfinite(plan.save_steps));
    FUZZ_HOLDS(plan.seed >= 0 && plan.cutoff_len <= INT32_MAX);
    FUZZ_HOLDS(plan.output_dir && plan.dataset_dir && plan.device_wanted);
}

static void check_names(const struct entry *entry, struct arena *arena)
{
    const char *near[4];
    bool exact = false;
    size_t count = schema_nearest(entry->key->text, near, 4, &exact);
    struct plan plan = { 0 };
    struct error err = { 0 };

    FUZZ_HOLDS(count <= 4);
    for (size_t i = 0; i < count; i++)
        FUZZ_HOLDS(schema_find(near[i]));
    schema_is_secret(entry->key->text);
    FUZZ_HOLDS(schema_set(entry->key->text, entry->value->text, arena, &plan, &err) ||
               err.code == ERROR_USAGE);
}

/* Check that an accepted setting reads back the same and changes no other key. */
static void check_setting(const char *data, size_t len, const char *set)
{
    const char *const list[] = { set, NULL };
    struct arena *arena = arena_new();
    struct document before, after;
    struct error err = { 0 };
    const char *equals = strchr(set, '='), *text = data;
    size_t bytes = len;

    document_read(data, len, arena, &before);
    if (!setting_apply(list, arena, &text, &bytes, &err)) {
        FUZZ_HOLDS(err.code == ERROR_USAGE);
    } else if (before.root && bytes <= DOCUMENT_MAX_BYTES) {
        const char *name = arena_copy(arena, set, (size_t)(equals - set));
        const char *const but[] = { name, "trainspool", NULL };
        const struct entry *entry;

        document_read(text, bytes, arena, &after);
        FUZZ_HOLDS(after.root && document_same_but(&before, &after, but));
        entry = schema_find(name) ? document_find(&after, name) : NULL;
        FUZZ_HOLDS(!schema_find(name) ||
                   (entry && strcmp(entry->value->text, equals + 1) == 0));
    }
    arena_free(arena);
}

/* Input, separated by zero bytes: a job and settings. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_part rest = { (const char *)data, len }, text = fuzz_take(&rest, 0);
    struct arena *arena = arena_new();
    struct document document;

    document_read(text.data, text.len, arena, &document);
    if (document.root) {
        check_findings(&document, arena);
        check_plan(&document, arena);
        for (size_t i = 0; i < document.root->count && i < 3; i++)
            check_names(&document.root->entries[i], arena);
    }
    for (int i = 0; rest.len > 0 && i < 4; i++) {
        char *set = fuzz_word(fuzz_take(&rest, 0));

        check_setting(text.data, text.len, set);
        free(set);
    }
    arena_free(arena);
    return 0;
}
