/* tests/unit/test_environment.c - versions from a job's text and from folders of
 * metadata. */
#include "config.h"

#include "patcher/rules/environment.h"

#include <unistd.h>

#include "tests/unit/unit.h"

struct fixture {
    char *dir;
    struct arena *arena;
    struct versions versions;
};

static int set_up(void **state)
{
    struct fixture *fixture = memory_alloc(sizeof(*fixture));

    fixture->dir = unit_dir_new();
    fixture->arena = arena_new();
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    arena_free(fixture->arena);
    unit_dir_free(fixture->dir);
    free(fixture);
    return 0;
}

static void write_file(struct fixture *fixture, const char *folder, const char *name,
                       const char *data)
{
    char *dir = path_join(fixture->dir, folder), *path = path_join(dir, name);

    assert_true(file_make_dirs(dir, 0755, NULL));
    assert_true(file_replace(path, data, strlen(data), 0644, NULL));
    free(path);
    free(dir);
}

static void read_folder(struct fixture *fixture, const char *folder)
{
    char *path = path_join(fixture->dir, folder);

    fixture->versions =
        (struct versions) { .folder = arena_strdup(fixture->arena, path) };
    environment_read(fixture->arena, &fixture->versions);
    free(path);
}

static void bind(struct fixture *fixture, const char *text)
{
    static struct document document;

    document_read(text, strlen(text), fixture->arena, &document);
    assert_non_null(document.root);
    environment_bind(&document, "jobs", fixture->arena, &fixture->versions);
}

#define SITE "venv/lib/python3.11/site-packages/"

static void add_torch(struct fixture *fixture)
{
    write_file(fixture, SITE "torch-2.4.0+cu121.dist-info", "METADATA",
               "Metadata-Version: 2.1\nName: torch\nVersion: 2.4.0+cu121\n"
               "Summary: x\n\nVersion: 9.9\n");
    write_file(fixture, SITE "torchvision-0.19.0.dist-info", "METADATA",
               "Name: torchvision\nVersion: 0.19.0\n");
}

static void test_environment_finds_a_venv(void **state)
{
    struct fixture *fixture = *state;

    add_torch(fixture);
    write_file(fixture, SITE "llamafactory-0.9.4.dev0.dist-info", "METADATA",
               "Metadata-Version: 2.4\r\nName: LLaMA.Factory\r\nVersion: 0.9.4.dev0\r\n");
    write_file(fixture, SITE "peft-0.10.0.egg-info", "PKG-INFO",
               "Name: peft\nversion:0.10.0");
    read_folder(fixture, "venv");
    assert_null(fixture->versions.trouble);
    assert_string_equal(fixture->versions.packages[PACKAGE_TORCH].found, "2.4.0+cu121");
    assert_int_equal(fixture->versions.packages[PACKAGE_TORCH].version.release[1], 4);
    assert_string_equal(fixture->versions.packages[PACKAGE_LLAMAFACTORY].found,
                        "0.9.4.dev0");
    assert_string_equal(fixture->versions.packages[PACKAGE_PEFT].found, "0.10.0");
    assert_null(fixture->versions.packages[PACKAGE_TRANSFORMERS].found);
}

static void test_environment_finds_a_site_packages_folder(void **state)
{
    struct fixture *fixture = *state;

    add_torch(fixture);
    read_folder(fixture, SITE);
    assert_string_equal(fixture->versions.packages[PACKAGE_TORCH].found, "2.4.0+cu121");
}

static void test_environment_uses_the_later_of_two(void **state)
{
    struct fixture *fixture = *state;

    write_file(fixture, SITE "peft-0.9.0.dist-info", "METADATA",
               "Name: peft\nVersion: 0.9.0\n");
    write_file(fixture, SITE "peft-0.12.0.dist-info", "METADATA",
               "Name: peft\nVersion: 0.12.0\n");
    write_file(fixture, SITE "peft-0.11.0.dist-info", "METADATA",
               "Name: peft\nVersion: 0.11.0\n");
    read_folder(fixture, "venv");
    assert_string_equal(fixture->versions.packages[PACKAGE_PEFT].found, "0.12.0");
}

/* Each of these malformed folders is treated as missing. */
static void test_environment_trusts_nothing(void **state)
{
    struct fixture *fixture = *state;
    char *fifo = path_join(fixture->dir, SITE "trl-0.9.dist-info/METADATA");
    char *large = memory_alloc(2 << 20);

    memset(large, 'x', (2 << 20) - 1);
    write_file(fixture, SITE "torch-2.4.0.dist-info", "RECORD", "no metadata");
    write_file(fixture, SITE "peft-0.10.dist-info", "METADATA",
               "Name: torch\nVersion: 1\n");
    write_file(fixture, SITE "accelerate-1.dist-info", "METADATA",
               "Name: accelerate\nVersion: ../../etc\n");
    write_file(fixture, SITE "deepspeed-1.dist-info", "METADATA", large);
    write_file(fixture, SITE "bitsandbytes-1.dist-info", "METADATA",
               "\nName: bitsandbytes\nVersion: 1\n");
    write_file(fixture, SITE "trl-0.9.dist-info", "RECORD", "");
    assert_int_equal(mkfifo(fifo, 0644), 0);
    read_folder(fixture, "venv");
    assert_null(fixture->versions.trouble);
    for (size_t i = 0; i < PACKAGES; i++)
        assert_null(fixture->versions.packages[i].found);
    free(large);
    free(fifo);
}

static void test_environment_reports_why_it_is_unusable(void **state)
{
    struct fixture *fixture = *state;
    char *loop = path_join(fixture->dir, "loop");

    read_folder(fixture, "nowhere");
    assert_string_equal(fixture->versions.trouble, "does not exist");
    write_file(fixture, "empty", "file", "x");
    read_folder(fixture, "empty");
    assert_non_null(strstr(fixture->versions.trouble, "no Python packages"));
    read_folder(fixture, "empty/file");
    assert_non_null(strstr(fixture->versions.trouble, "cannot be read"));
    assert_int_equal(symlink(loop, loop), 0);
    read_folder(fixture, "loop");
    assert_non_null(fixture->versions.trouble);
    free(loop);
}

static void test_environment_is_bound_from_the_job(void **state)
{
    struct fixture *fixture = *state;
    const struct versions *versions = &fixture->versions;

    bind(fixture, "trainspool:\n  env: ../venv\n"
                  "  versions: {torch: 5.10, PEFT: '0.10', trl: null, accelerate: x}\n");
    assert_string_equal(versions->folder, "jobs/../venv");
    assert_string_equal(versions->packages[PACKAGE_TORCH].given, "5.10");
    assert_int_equal(versions->packages[PACKAGE_TORCH].version.release[1], 10);
    assert_string_equal(versions->packages[PACKAGE_PEFT].given, "0.10");
    assert_null(versions->packages[PACKAGE_TRL].given);
    assert_null(versions->packages[PACKAGE_ACCELERATE].given);
    bind(fixture, "trainspool:\n  env: {A: b, VIRTUAL_ENV: /opt/venv}\n");
    assert_string_equal(versions->folder, "/opt/venv");
    bind(fixture, "trainspool: {env: {CONDA_PREFIX: /opt/conda}, versions: 5}\n");
    assert_string_equal(versions->folder, "/opt/conda");
    bind(fixture, "trainspool: {env: [a], versions: [torch]}\n");
    assert_null(versions->folder);
    bind(fixture, "trainspool: {env: }\n");
    assert_null(versions->folder);
    bind(fixture, "trainspool: x\nfp16: true\n");
    assert_null(versions->folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_environment_finds_a_venv, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_environment_finds_a_site_packages_folder,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_environment_uses_the_later_of_two, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_environment_trusts_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_environment_reports_why_it_is_unusable,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_environment_is_bound_from_the_job, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
