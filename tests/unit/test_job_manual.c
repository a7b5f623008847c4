/*
 * tests/unit/test_job_manual.c - docs/trainspool-job.5 says what the table of keys says.
 *
 * Between the two marks the page is made from the table; with JOB_MANUAL_WRITE set it is
 * made anew, in the source tree.
 */
#include "config.h"

#include "patcher/schema/schema_value.h"

#include "base/size.h"
#include "tests/unit/unit.h"
#include "train/model/architecture.h"

static const char begin_mark[] = ".\\\" keys: made from patcher/schema/schema_keys.c\n";
static const char end_mark[] = ".\\\" end of keys\n";

/* troff takes a bare - for a hyphen. */
static void add(struct text *out, const char *string)
{
    for (; *string; string++) {
        if (*string == '-')
            text_addc(out, '\\');
        text_addc(out, *string);
    }
}

static void add_used(struct text *out, const struct key *key)
{
    struct arena *arena = arena_new();
    const char *wanted = value_wanted(key, arena);

    text_adds(out, ".TP\n.BR ");
    add(out, key->name);
    text_adds(out, " \" (");
    add(out, text_starts(wanted, "a ") ? wanted + 2 : wanted);
    arena_free(arena);
    if (key->default_value) {
        text_adds(out, "; preset ");
        add(out, key->default_value);
    }
    text_adds(out, ")\"\n");
    add(out, key->help);
    text_addc(out, '\n');
}

static void add_names(struct text *out, const struct keys *keys, enum key_use use,
                      const char *title)
{
    bool any = false;

    for (size_t i = 0; i < keys->count; i++) {
        const struct key *key = &keys->list[i];

        if (key->use != use)
            continue;
        if (any)
            text_adds(out, ",\n");
        else
            text_addf(out, ".PP\n%s\n", title);
        text_adds(out, ".B ");
        add(out, key->name);
        if (use == KEY_RENAMED || (use == KEY_FOREIGN && key->now)) {
            text_adds(out, "\n(");
            add(out, key->now);
            text_adds(out, ")");
        }
        any = true;
    }
    if (any)
        text_adds(out, ".\n");
}

static void add_section(struct text *out, const struct keys *keys)
{
    text_addf(out, ".SS %s\n", keys->title);
    for (size_t i = 0; i < keys->count; i++)
        if (keys->list[i].use == KEY_USED)
            add_used(out, &keys->list[i]);
    add_names(out, keys, KEY_RENAMED, "Other names:");
    add_names(out, keys, KEY_IGNORED, "Without effect here:");
    add_names(out, keys, KEY_REJECTED, "Refused when switched on:");
    add_names(out, keys, KEY_FOREIGN, "Told apart, with the name here:");
}

static void make_keys(struct text *out)
{
    for (const struct keys *const *keys = schema_job.sections; *keys; keys++)
        add_section(out, *keys);
    for (const struct keys *const *keys = schema_block.sections; *keys; keys++)
        add_section(out, *keys);
}

static void test_job_manual_is_of_the_table(void **state)
{
    char *path = unit_source("docs/trainspool-job.5");
    struct text page, keys;
    struct error err = { 0 };
    char *from, *to;

    (void)state;
    text_init(&page, 0);
    text_init(&keys, 0);
    if (!file_read(path, (size_t)1 << 20, &page, NULL, &err))
        fail_msg("%s", err.text);
    make_keys(&keys);
    from = strstr(page.data, begin_mark);
    to = strstr(page.data, end_mark);
    assert_true(from && to);
    from += strlen(begin_mark);
    if (getenv("JOB_MANUAL_WRITE")) {
        struct text made;

        text_init(&made, 0);
        text_add(&made, page.data, (size_t)(from - page.data));
        text_add(&made, keys.data, keys.len);
        text_adds(&made, to);
        assert_true(file_replace(path, made.data, made.len, 0644, &err));
        text_clear(&made);
    } else if ((size_t)(to - from) != keys.len ||
               memcmp(from, keys.data, keys.len) != 0) {
        fail_msg(
            "docs/trainspool-job.5 is not of the table: JOB_MANUAL_WRITE=1 makes it");
    }
    text_clear(&keys);
    text_clear(&page);
    free(path);
}

static void test_job_manual_has_every_architecture(void **state)
{
    char *path = unit_source("docs/trainspool-job.5");
    struct error err = { 0 };
    struct text page;

    (void)state;
    text_init(&page, 0);
    assert_true(file_read(path, (size_t)1 << 20, &page, NULL, &err));
    for (size_t i = 0; architecture_at(i); i++) {
        struct text line;

        text_init(&line, 0);
        text_addf(&line, "\n.BR %s ", architecture_at(i)->model_type);
        if (!strstr(page.data, line.data))
            fail_msg("the page does not name %s", architecture_at(i)->model_type);
        text_clear(&line);
    }
    text_clear(&page);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_manual_is_of_the_table),
        cmocka_unit_test(test_job_manual_has_every_architecture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
