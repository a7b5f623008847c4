/* tests/unit/test_child_environment.c - which variables reach trainspool-train. */
#include "config.h"

#include "runner/job/child_environment.h"

#include <stdlib.h>
#include <unistd.h>
#include <string.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_child_environment_keeps_what_a_run_needs(void **state)
{
    static const char *const kept[] = { "PATH",
                                        "HOME",
                                        "LANG",
                                        "LC_ALL",
                                        "TZ",
                                        "TMPDIR",
                                        "CUDA_VISIBLE_DEVICES",
                                        "NVIDIA_VISIBLE_DEVICES",
                                        "NCCL_DEBUG",
                                        "LD_LIBRARY_PATH",
                                        "OMP_NUM_THREADS",
                                        "TRAINSPOOL_ISA" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(kept); i++)
        assert_true(child_variable_is_kept(kept[i]));
}

static void test_child_environment_drops_secrets_and_preloads(void **state)
{
    static const char *const dropped[] = { "AWS_SECRET_ACCESS_KEY",
                                           "HF_TOKEN",
                                           "WANDB_API_KEY",
                                           "SSH_AUTH_SOCK",
                                           "LD_PRELOAD",
                                           "LD_AUDIT",
                                           "LD_LIBRARY_PATH_64",
                                           "PATHS",
                                           "LC",
                                           "" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(dropped); i++)
        assert_false(child_variable_is_kept(dropped[i]));
}

static bool has(char *const *list, const char *variable)
{
    for (; *list; list++)
        if (strcmp(*list, variable) == 0)
            return true;
    return false;
}

static void test_child_environment_passes_values_unchanged(void **state)
{
    char **list;

    (void)state;
    setenv("NCCL_DEBUG", "A=B", 1);
    setenv("HF_TOKEN", "hf_secret", 1);
    list = child_environment(NULL);
    assert_true(has(list, "NCCL_DEBUG=A=B"));
    assert_false(has(list, "HF_TOKEN=hf_secret"));
    free(list);
}

static void test_child_environment_names_another_user(void **state)
{
    struct user user = { .id = getuid() + 1, .name = "ada", .home = "/srv/ada" };
    char **list;

    (void)state;
    setenv("HOME", "/root", 1);
    setenv("XDG_RUNTIME_DIR", "/run/user/0", 1);
    setenv("TMPDIR", "/var/tmp/of-root", 1);
    setenv("PATH", "/usr/bin", 1);
    list = child_environment(&user);
    assert_true(has(list, "HOME=/srv/ada"));
    assert_true(has(list, "USER=ada"));
    assert_true(has(list, "LOGNAME=ada"));
    assert_true(has(list, "PATH=/usr/bin"));
    assert_false(has(list, "HOME=/root"));
    assert_false(has(list, "XDG_RUNTIME_DIR=/run/user/0"));
    assert_false(has(list, "TMPDIR=/var/tmp/of-root"));
    free(list);
    user.id = getuid();
    list = child_environment(&user);
    assert_true(has(list, "HOME=/root"));
    assert_false(has(list, "USER=ada"));
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_environment_keeps_what_a_run_needs),
        cmocka_unit_test(test_child_environment_drops_secrets_and_preloads),
        cmocka_unit_test(test_child_environment_passes_values_unchanged),
        cmocka_unit_test(test_child_environment_names_another_user),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
