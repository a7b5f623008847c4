/* tests/unit/unit_import.h - a file of another tool, imported. */
#ifndef TESTS_UNIT_UNIT_IMPORT_H
#define TESTS_UNIT_UNIT_IMPORT_H

#include "patcher/document.h"
#include "patcher/import.h"
#include "tests/unit/unit.h"

/* An import, and its text read again. */
struct trial {
    struct arena *arena;
    struct import import;
    struct document job;
    struct error err;
    bool good;
};

static inline struct trial trial_new(const char *file, const char *data, size_t len)
{
    struct trial trial = { .arena = arena_new() };

    trial.good = import_read(file, data, len, trial.arena, &trial.import, &trial.err);
    if (trial.good) {
        document_read(trial.import.text.data, trial.import.text.len, trial.arena,
                      &trial.job);
        if (!trial.job.root || trial.job.remark_count > 0)
            fail_msg("%s: %s\n%s", file, trial.job.remarks[0].text,
                     trial.import.text.data);
    }
    return trial;
}

static inline void trial_end(struct trial *trial)
{
    import_clear(&trial->import);
    arena_free(trial->arena);
}

#endif
