/* tests/unit/test_relocation.c - paths of a job that moves to another folder. */
#include "config.h"

#include "tests/unit/unit.h"

#include <unistd.h>

#include "base/size.h"
#include "patcher/relocation.h"

struct home {
    char *root; /* with jobs/, here/ (the working directory) and data/ */
    char *before;
};

static void make(const char *root, const char *name)
{
    char *path = path_join(root, name), *dir = path_dir(path);
    struct error err = { 0 };

    assert_true(file_make_dirs(dir, 0700, &err));
    assert_true(file_replace(path, "x\n", 2, 0600, &err));
    free(dir);
    free(path);
}

static int set_up(void **state)
{
    static const char *const files[] = {
        "jobs/model/config.json",   "jobs/text.txt",       "jobs/it's.txt",
        "jobs/sets/named/one.json", "jobs/data/inner.txt", "here/model/config.json",
        "here/other/config.json",   "data/c.jsonl",
    };
    struct home *home = memory_alloc(sizeof(*home));
    char *dir = unit_dir_new(), *here;

    home->before = getcwd(NULL, 0);
    home->root = realpath(dir, NULL);
    free(dir);
    for (size_t i = 0; i < TS_COUNT(files); i++)
        make(home->root, files[i]);
    here = path_join(home->root, "here");
    assert_int_equal(chdir(here), 0);
    free(here);
    *state = home;
    return 0;
}

static int tear_down(void **state)
{
    struct home *home = *state;

    assert_int_equal(chdir(home->before), 0);
    free(home->before);
    unit_dir_free(home->root);
    free(home);
    return 0;
}

/* Replace each @ by the root. */
static char *expand(const char *text, const char *root)
{
    struct text out;

    text_init(&out, 0);
    for (; *text; text++)
        if (*text == '@')
            text_adds(&out, root);
        else
            text_addc(&out, *text);
    return text_detach(&out, NULL);
}

static void test_relocation_makes_full_paths(void **state)
{
    static const struct {
        const char *before, *after;
        size_t count;
    } cases[] = {
        { "model_name_or_path: model  # small\n",
          "model_name_or_path: @/jobs/model # small\n", 1 },
        { "model_name_or_path: 'model'\n", "model_name_or_path: '@/jobs/model'\n", 1 },
        { "model_name_or_path: other\n", "model_name_or_path: @/here/other\n", 1 },
        { "model_name_or_path: ../here/other\n", "model_name_or_path: @/here/other\n",
          1 },
        { "model_name_or_path: first.run\n", "model_name_or_path: first.run\n", 0 },
        { "model_name_or_path: /model\n", "model_name_or_path: /model\n", 0 },
        { "model_name_or_path:\n", "model_name_or_path:\n", 0 },
        { "dataset: text.txt\n", "dataset: @/jobs/text.txt\n", 1 },
        { "dataset: it's.txt\n", "dataset: @/jobs/it's.txt\n", 1 },
        { "dataset: text.txt, nowhere.txt,../data/c.jsonl\n",
          "dataset: @/jobs/text.txt,nowhere.txt,@/data/c.jsonl\n", 1 },
        { "eval_dataset: [text.txt]\n", "eval_dataset: @/jobs/text.txt\n", 1 },
        { "dataset: inner.txt\n", "dataset: @/jobs/data/inner.txt\n", 1 },
        { "dataset: named\n", "dataset: named\ndataset_dir: @/jobs/data\n", 1 },
        { "dataset: named\ndataset_dir: sets\n",
          "dataset: named\ndataset_dir: @/jobs/sets\n", 1 },
        { "output_dir: out\n", "output_dir: out\n", 0 },
        { "output_dir: ../out\n", "output_dir: @/out\n", 1 },
        { "output_dir: model\n", "output_dir: model\n", 0 },
        { "stage: distill\ntrainspool:\n  teacher_logits: text.txt\n",
          "stage: distill\ntrainspool:\n  teacher_logits: @/jobs/text.txt\n", 1 },
        { "stage: distill\ntrainspool: {teacher_logits: new}\n",
          "stage: distill\ntrainspool: {teacher_logits: new}\n", 0 },
        { "resume_from_checkpoint: model\n", "resume_from_checkpoint: @/jobs/model\n",
          1 },
        { "resume_from_checkpoint: true\n", "resume_from_checkpoint: true\n", 0 },
        { "learning_rate: model\n", "learning_rate: model\n", 0 },
        { "- a list\n", "- a list\n", 0 },
        { "a: [\n", "a: [\n", 0 },
        { "", "", 0 },
    };
    struct home *home = *state;

    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *after = expand(cases[i].after, home->root);
        struct relocation moved;
        struct error err = { 0 };

        assert_true(
            relocate(cases[i].before, strlen(cases[i].before), "../jobs", &moved, &err));
        assert_int_equal(moved.len, strlen(moved.text));
        assert_string_equal(moved.text, after);
        assert_int_equal(moved.count, cases[i].count);
        relocation_clear(&moved);
        free(after);
    }
}

static void test_relocation_refuses_what_cannot_be_edited(void **state)
{
    static const char *const texts[] = {
        "a: &a model\nmodel_name_or_path: *a\n",
        "dataset:\n  - text.txt # one\n  # two\n  - inner.txt\n",
    };
    struct home *home = *state;

    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        struct relocation moved;
        struct error err = { 0 };

        assert_false(relocate(texts[i], strlen(texts[i]), "../jobs", &moved, &err));
        assert_int_equal(err.code, ERROR_JOB);
        assert_non_null(strstr(err.text, "write the full path: "));
        assert_non_null(strstr(err.text, home->root));
        relocation_clear(&moved);
    }
}

#define IN_HOME(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_HOME(test_relocation_makes_full_paths),
        IN_HOME(test_relocation_refuses_what_cannot_be_edited),
    };

    return cmocka_run_group_tests_name("relocation", tests, NULL, NULL);
}
