/*
 * tests/unit/test_job_manual.c - docs/trainspool-job.5 says what the table of keys says.
 *
 * Between the two marks the page is made from the table; with JOB_MANUAL_WRITE set it is
 * made anew, in the source tree.
 */
#include "config.h"

#include "patcher/schema.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static const char begin_mark[] = ".\\\" keys: made from patcher/schema_keys.c\n";
static const char end_mark[] = ".\\\" end of keys\n";

static const char *const type_words[] = {
    [KEY_BOOL] = "true or false",
    [KEY_CHOICE] = "true, false or auto",
    [KEY_INT] = "whole number",
    [KEY_REAL] = "number",
    [KEY_TEXT] = "text",
    [KEY_PATH] = "path",
    [KEY_ENUM] = "word",
    [KEY_SCALE] = "dynamic, none or a number",
    [KEY_SIZE] = "size or share",
    [KEY_SECONDS] = "time",
    [KEY_BOOL_OR_TEXT] = "true, false or a path",
    [KEY_LIST] = "names",
    [KEY_MAP] = "map",
    [KEY_ANY] = "anything",
};

/* troff takes a bare - for a hyphen. */
static void add(struct text *out, const char *string)
{
    for (; *string; string++) {
        if (*string == '-')
            text_addc(out, '\\');
        text_addc(out, *string);
    }
}

static void add_values(struct text *out, const struct key *key)
{
    for (size_t i = 0; key->values[i]; i++) {
        text_adds(out, i == 0 ? "" : key->values[i + 1] ? ", " : " or ");
        add(out, key->values[i]);
    }
}

static void add_used(struct text *out, const struct key *key)
{
    text_adds(out, ".TP\n.BR ");
    add(out, key->name);
    text_adds(out, " \" (");
    if (key->type == KEY_ENUM)
        add_values(out, key);
    else
        add(out, type_words[key->type]);
    if (key->preset) {
        text_adds(out, "; preset ");
        add(out, key->preset);
    }
    text_adds(out, ")\"\n");
    add(out, key->help);
    text_addc(out, '\n');
}

static void add_names(struct text *out, const struct key *keys, size_t count,
                      const char *section, enum key_use use, const char *title)
{
    bool any = false;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i].section, section) != 0 || keys[i].use != use)
            continue;
        if (any)
            text_adds(out, ",\n");
        else
            text_addf(out, ".PP\n%s\n", title);
        text_adds(out, ".B ");
        add(out, keys[i].name);
        if (use == KEY_RENAMED || (use == KEY_FOREIGN && keys[i].now)) {
            text_adds(out, "\n(");
            add(out, keys[i].now);
            text_adds(out, ")");
        }
        any = true;
    }
    if (any)
        text_adds(out, ".\n");
}

static void add_section(struct text *out, const struct key *keys, size_t count,
                        const char *section)
{
    text_addf(out, ".SS %s\n", section);
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].section, section) == 0 && keys[i].use == KEY_USED)
            add_used(out, &keys[i]);
    add_names(out, keys, count, section, KEY_RENAMED, "Other names:");
    add_names(out, keys, count, section, KEY_IGNORED, "Without effect here:");
    add_names(out, keys, count, section, KEY_REJECTED, "Refused when switched on:");
    add_names(out, keys, count, section, KEY_FOREIGN, "Told apart, with the name here:");
}

static void make_keys(struct text *out)
{
    const struct key *keys;
    size_t count = schema_keys(&keys);

    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(keys[i].section, keys[i - 1].section) != 0)
            add_section(out, keys, count, keys[i].section);
    count = schema_block_keys(&keys);
    add_section(out, keys, count, keys[0].section);
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

/* Sections of the table do not come back: each is one heading. */
static void test_job_manual_sections_hold_together(void **state)
{
    const struct key *keys;
    size_t count = schema_keys(&keys);

    (void)state;
    for (size_t i = 1; i < count; i++)
        for (size_t k = 0; k + 1 < i; k++)
            if (strcmp(keys[i].section, keys[i - 1].section) != 0)
                assert_string_not_equal(keys[k].section, keys[i].section);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_manual_is_of_the_table),
        cmocka_unit_test(test_job_manual_sections_hold_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
