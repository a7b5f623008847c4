/* tests/unit/test_dataset_source.c - names to files: next to the job, in dataset_dir, and
 * through dataset_info.json as LLaMA-Factory reads it. */
#include "config.h"

#include "train/dataset/dataset_source.h"

#include "base/size.h"
#include "tests/unit/unit_tokenizer.h"

static const char info[] =
    "{\"plain\": {\"file_name\": \"plain.json\"},\n"
    " \"named\": {\"file_name\": \"named.jsonl\", \"columns\": {\"prompt\": \"q\",\n"
    "            \"response\": \"a\", \"system\": \"s\", \"history\": \"h\"}},\n"
    " \"talk\": {\"file_name\": \"talk.json\", \"formatting\": \"sharegpt\"},\n"
    " \"roles\": {\"file_name\": \"roles.json\", \"formatting\": \"sharegpt\",\n"
    "            \"columns\": {\"messages\": \"m\"}, \"tags\": {\"role_tag\": "
    "\"role\",\n"
    "            \"content_tag\": \"content\", \"user_tag\": \"user\",\n"
    "            \"assistant_tag\": \"assistant\"}},\n"
    " \"hub\": {\"hf_hub_url\": \"owner/name\"},\n"
    " \"films\": {\"file_name\": \"p.json\", \"columns\": {\"videos\": "
    "\"films\"}},\n"
    " \"pairs\": {\"file_name\": \"p.json\", \"ranking\": true, \"columns\": "
    "{\"messages\": \"m\", \"chosen\": \"c\", \"rejected\": \"r\"}},\n"
    " \"unnamed\": {\"file_name\": \"p.json\", \"ranking\": true},\n"
    " \"half\": {\"file_name\": \"p.json\", \"ranking\": true, \"columns\": "
    "{\"chosen\": \"c\"}},\n"
    " \"odd\": {\"file_name\": \"p.json\", \"formatting\": \"bert\"},\n"
    " \"drawn\": {\"file_name\": \"p.json\", \"num_samples\": 5, \"split\": "
    "\"train[2:]\"},\n"
    " \"all\": {\"file_name\": \"p.json\", \"num_samples\": 1000000001},\n"
    " \"none\": {\"file_name\": \"p.json\", \"num_samples\": 0},\n"
    " \"test\": {\"file_name\": \"p.json\", \"split\": \"test\"},\n"
    " \"part\": {\"file_name\": \"p.json\", \"split\": \"train[10%:110%]\"},\n"
    " \"script\": {\"script_url\": \"belle\"},\n"
    " \"cloud\": {\"cloud_file_name\": \"s3://x/y.json\"},\n"
    " \"both\": {\"file_name\": \"p.json\", \"hf_hub_url\": \"a/b\", \"subset\": "
    "\"x\"},\n"
    " \"folder\": {\"file_name\": \"many\"},\n"
    " \"wrong\": {\"file_name\": 7}}\n";

static char *dir;
static struct arena *arena;

static int make_dir(void **state)
{
    (void)state;
    dir = unit_dir_new();
    arena = arena_new();
    unit_write_string(dir, "dataset_info.json", info);
    unit_write_string(dir, "here.jsonl", "{}\n");
    return 0;
}

static int drop_dir(void **state)
{
    (void)state;
    arena_free(arena);
    unit_dir_free(dir);
    return 0;
}

static void find(const char *names, struct dataset_sources *out)
{
    struct error err = { 0 };

    if (!dataset_sources_find(names, dir, arena, out, &err))
        fail_msg("%s", err.text);
}

static void test_dataset_source_defaults_match_llamafactory(void **state)
{
    struct dataset_sources sources;
    const struct dataset_columns *columns;

    (void)state;
    find("plain", &sources);
    assert_int_equal(sources.count, 1);
    assert_true(text_ends(sources.list[0].path, "/plain.json"));
    assert_true(text_starts(sources.list[0].path, dir));
    assert_int_equal(sources.list[0].form, DATASET_ALPACA);
    assert_true(sources.list[0].lines);
    columns = &sources.list[0].columns;
    assert_string_equal(columns->prompt, "instruction");
    assert_string_equal(columns->query, "input");
    assert_string_equal(columns->response, "output");
    assert_null(columns->history);
    assert_null(columns->system);
    find("talk", &sources);
    columns = &sources.list[0].columns;
    assert_int_equal(sources.list[0].form, DATASET_MESSAGES);
    assert_string_equal(columns->messages, "conversations");
    assert_string_equal(columns->role_tag, "from");
    assert_string_equal(columns->user_tag, "human");
    assert_string_equal(columns->function_tag, "function_call");
}

/* If an entry has columns, the columns that it does not name are absent; the same applies
 * to tags. */
static void test_dataset_source_columns_replace_all_defaults(void **state)
{
    struct dataset_sources sources;
    const struct dataset_columns *columns;

    (void)state;
    find("named , roles", &sources);
    assert_int_equal(sources.count, 2);
    columns = &sources.list[0].columns;
    assert_string_equal(columns->prompt, "q");
    assert_string_equal(columns->response, "a");
    assert_string_equal(columns->history, "h");
    assert_null(columns->query);
    assert_string_equal(columns->role_tag, "from");
    columns = &sources.list[1].columns;
    assert_string_equal(sources.list[1].name, "roles");
    assert_string_equal(columns->messages, "m");
    assert_null(columns->prompt);
    assert_string_equal(columns->role_tag, "role");
    assert_null(columns->system_tag);
}

/* A file may contain pairs or single answers; an entry declares which. */
static void test_dataset_source_has_pairs_or_single_answers(void **state)
{
    static const struct {
        const char *name;
        bool single, pairs;
    } cases[] = { { "pairs", false, true },
                  { "plain", true, false },
                  { "here.jsonl", true, true } };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct dataset_sources sources;
        struct error err = { 0 };

        find(cases[i].name, &sources);
        assert_int_equal(dataset_source_check(&sources.list[0], STAGE_SFT, &err),
                         cases[i].single);
        assert_int_equal(dataset_source_check(&sources.list[0], STAGE_DPO, &err),
                         cases[i].pairs);
        if (cases[i].single && cases[i].pairs)
            continue;
        assert_int_equal(err.code, ERROR_DATA);
        assert_true(text_starts(err.text, dir));
        assert_non_null(strstr(err.text, "/dataset_info.json: dataset "));
    }
}

static void test_dataset_source_has_answer_columns(void **state)
{
    struct dataset_sources sources;

    (void)state;
    find("pairs,plain", &sources);
    assert_true(sources.list[0].ranking);
    assert_string_equal(sources.list[0].columns.chosen, "c");
    assert_string_equal(sources.list[0].columns.rejected, "r");
    assert_false(sources.list[1].ranking);
    assert_null(sources.list[1].columns.chosen);
}

static void test_dataset_source_accepts_files(void **state)
{
    struct dataset_sources sources;
    char *path = path_join(dir, "here.jsonl");

    (void)state;
    find("here.jsonl,plain", &sources);
    assert_int_equal(sources.count, 2);
    assert_string_equal(sources.list[0].path, path);
    assert_int_equal(sources.list[0].form, DATASET_DETECT);
    assert_false(sources.list[0].lines);
    find(path, &sources);
    assert_string_equal(sources.list[0].path, path);
    free(path);
}

static void test_dataset_source_has_a_selection(void **state)
{
    struct dataset_sources sources;

    (void)state;
    find("plain,drawn,both", &sources);
    assert_int_equal(sources.list[0].num_samples, 0);
    assert_false(sources.list[0].slice.has_from || sources.list[0].slice.has_to);
    assert_int_equal(sources.list[1].num_samples, 5);
    assert_true(sources.list[1].slice.has_from && !sources.list[1].slice.has_to);
    assert_int_equal(sources.list[1].slice.from, 2);
    assert_true(text_ends(sources.list[2].path, "/p.json")); /* no hub is contacted */
}

/* All files of a folder by name; those that begin with a dot are ignored. */
static void test_dataset_source_accepts_folders(void **state)
{
    static const char *const names[] = { "many/b.jsonl.gz", "many/a.json", "many/c.txt",
                                         "many/.hidden" };
    static const char *const expected[] = { "many/a.json", "many/b.jsonl.gz",
                                            "many/c.txt" };
    struct dataset_sources sources;
    const char *const *files;
    struct error err = { 0 };
    char *many = path_join(dir, "many");
    size_t count;

    (void)state;
    assert_true(file_make_dir(many, 0755, &err));
    find("folder,many/", &sources);
    for (size_t i = 0; i < 2; i++) {
        error_clear(&err);
        assert_false(dataset_source_files(&sources.list[i], arena, &files, &count, &err));
        assert_non_null(strstr(err.text, "is empty"));
    }
    for (size_t i = 0; i < TS_COUNT(names); i++)
        unit_write_string(dir, names[i], "{}\n");
    for (size_t i = 0; i < 2; i++) {
        assert_true(dataset_source_files(&sources.list[i], arena, &files, &count, &err));
        assert_int_equal(count, TS_COUNT(expected));
        for (size_t j = 0; j < count; j++)
            assert_true(text_ends(files[j], expected[j]));
    }
    unit_write_string(dir, "many/d.xlsx", "PK");
    error_clear(&err);
    assert_false(dataset_source_files(&sources.list[0], arena, &files, &count, &err));
    assert_non_null(strstr(err.text, "has d.xlsx"));
    free(many);
}

static void test_dataset_source_refuses_invalid_entries(void **state)
{
    static const struct {
        const char *names, *message;
    } cases[] = {
        { "missing", "it has plain, named, talk" },
        { "hub", "nothing is downloaded automatically: `hf download" },
        { "films", "has the column \"films\" of videos, which are not supported; give" },
        { "unnamed", "names no column \"chosen\"" },
        { "half", "preference pairs (ranking) and names no column \"rejected\"" },
        { "odd", "bert" },
        { "none", "num_samples must be from 1 to 1000000000, not 0" },
        { "all", "not 1000000001" },
        { "test", "split \"test\"" },
        { "part", "train[10%:90%]" },
        { "script", "Python scripts are not supported" },
        { "cloud", "cloud_file_name s3://x/y.json" },
        { "x/y.xlsx", "p.read_excel(\"x/y.xlsx\").to_json(" },
        { "absent/", "data folder absent/ does not exist" },
        { "wrong", "file_name" },
        { "absent.jsonl", "absent.jsonl does not exist" },
        { "plain,missing", "missing" },
        { " , ", "names no dataset" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct dataset_sources sources;
        struct error err = { 0 };

        assert_false(dataset_sources_find(cases[i].names, dir, arena, &sources, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i].message))
            fail_msg("\"%s\" does not contain \"%s\"", err.text, cases[i].message);
    }
}

static void test_dataset_source_requires_its_table(void **state)
{
    struct dataset_sources sources;
    struct error err = { 0 };

    (void)state;
    assert_false(dataset_sources_find("plain", "/nowhere", arena, &sources, &err));
    assert_non_null(strstr(err.text, "/nowhere/dataset_info.json"));
    assert_non_null(strstr(err.text, "plain.jsonl"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_source_defaults_match_llamafactory),
        cmocka_unit_test(test_dataset_source_columns_replace_all_defaults),
        cmocka_unit_test(test_dataset_source_has_pairs_or_single_answers),
        cmocka_unit_test(test_dataset_source_has_answer_columns),
        cmocka_unit_test(test_dataset_source_accepts_files),
        cmocka_unit_test(test_dataset_source_has_a_selection),
        cmocka_unit_test(test_dataset_source_accepts_folders),
        cmocka_unit_test(test_dataset_source_refuses_invalid_entries),
        cmocka_unit_test(test_dataset_source_requires_its_table),
    };

    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
