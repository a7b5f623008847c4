/* train/teaching.c - a teacher, loaded beside its student. */
#include "config.h"

#include "train/teaching.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "train/teacher_plan.h"

struct teaching {
    struct teaching_options options;
    struct arena *arena;
    struct teacher_plan teacher;
    struct model *model;
};

/* Every token of the data has to be one of the teacher's. */
static bool check_words(const struct teaching *t, struct error *err)
{
    const struct teaching_options *o = &t->options;
    size_t words;

    if (!teacher_plan_words(&t->teacher.config, o->student, o->tokens, &words, err))
        return false;
    return dataset_token_max(o->data) < words ||
           error_set(err, ERROR_DATA,
                     "the data have token %u, and the teacher only %zu (vocab_size in "
                     "config.json), the student %zu: they are not of one family",
                     dataset_token_max(o->data), t->teacher.config.vocab_size,
                     o->student->vocab_size);
}

static bool load(struct teaching *t, struct error *err)
{
    const struct teaching_options *o = &t->options;
    struct model_options options = { .plan = &t->teacher.plan,
                                     .config = &t->teacher.config,
                                     .backend = o->backend,
                                     .rows_max = o->rows,
                                     .sequences_max = o->sequences };

    t->model = model_new(&options, err);
    return t->model && model_load(t->model, err);
}

struct teaching *teaching_open(const struct teaching_options *options, struct error *err)
{
    struct teaching *t = memory_alloc(sizeof(*t));

    t->options = *options;
    t->arena = arena_new();
    if (teacher_plan_make(options->plan, false, t->arena, &t->teacher, err) &&
        check_words(t, err) && load(t, err))
        return t;
    teaching_close(t);
    return NULL;
}

void teaching_close(struct teaching *teaching)
{
    if (!teaching)
        return;
    model_free(teaching->model);
    arena_free(teaching->arena);
    free(teaching);
}

void teaching_begin(struct teaching *teaching, struct model *student)
{
    model_teach(student, teaching->model);
}

uint64_t teaching_bytes(const struct teaching *teaching)
{
    return model_memory(teaching->model)->low;
}

void teaching_describe(const struct teaching *teaching, char *out, size_t room)
{
    const struct precision *p = &teaching->teacher.plan.precision;
    char bytes[16];

    memory_text(teaching_bytes(teaching), bytes);
    snprintf(out, room, "%s, %" PRIu64 " parameters in %s, %s in memory",
             teaching->options.plan->kd.teacher, model_total(teaching->model),
             format_info(p->frozen)->name, bytes);
}
