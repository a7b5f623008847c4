/* tests/unit/unit_schema.h - a job that is read, checked and bound from a string. */
#ifndef TESTS_UNIT_UNIT_SCHEMA_H
#define TESTS_UNIT_UNIT_SCHEMA_H

#include "patcher/profiles/trainer_view.h"
#include "patcher/schema/schema.h"
#include "tests/unit/unit.h"

/* A job, its findings and its plan. */
struct job {
    struct arena *arena;
    struct document document;
    struct findings findings;
    struct plan plan;
};

static inline struct job *job_new(const char *text)
{
    struct job *job = memory_alloc(sizeof(*job));
    const struct versions versions = { 0 };
    struct profile_view view;

    job->arena = arena_new();
    findings_init(&job->findings, job->arena);
    document_read(text, strlen(text), job->arena, &job->document);
    job->plan.dir = "/jobs";
    job->plan.run_dir = "/jobs/a.run";
    trainer_view(&job->document, NULL, &versions, &view);
    schema_check(&job->document, &view, true, &job->findings);
    schema_bind(&job->document, job->arena, &job->plan);
    return job;
}

static inline void job_free(struct job *job)
{
    arena_free(job->arena);
    free(job);
}

/* Assert that the only finding belongs to that rule; NULL: that there is none. */
static inline void assert_only(const struct job *job, const char *rule)
{
    assert_int_equal(job->findings.count, rule ? 1 : 0);
    if (rule)
        assert_string_equal(job->findings.list[0].rule, rule);
}

#define HEAD "model_name_or_path: m\n"

#endif
