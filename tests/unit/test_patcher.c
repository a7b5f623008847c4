/* tests/unit/test_patcher.c - a file is patched completely or not at all, whatever fails
 * or is killed; check writes nothing; a second patch changes nothing; undo restores every
 * byte. */
#include "config.h"

#include "patcher/patcher.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "patcher/history/backup.h"
#include "patcher/history/journal.h"
#include "tests/unit/corpus.h"

/* ---- System calls that change the disk, so that a test can intervene ---- */

static int steps;               /* calls so far */
static void (*intervene)(void); /* called before each */

static void step(void)
{
    steps++;
    if (intervene)
        intervene();
}

int fsync(int fd)
{
    step();
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    step();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

ssize_t write(int fd, const void *data, size_t len)
{
    step();
    return (ssize_t)syscall(SYS_write, fd, data, len);
}

int fchmod(int fd, mode_t mode)
{
    step();
    return (int)syscall(SYS_fchmod, fd, mode);
}

/* ---- A job on a card without bf16 ---- */

static const char dropped[] = "model_name_or_path: none\n"
                              "stage: sft   # c\n"
                              "finetuning_type: lora\n"
                              "dataset: none.jsonl\n"
                              "template: alpaca\n"
                              "bf16: true # on the new machine\n"
                              "max_grad_norm:\n";
static const char patched[] = "model_name_or_path: none\n"
                              "stage: sft   # c\n"
                              "finetuning_type: lora\n"
                              "dataset: none.jsonl\n"
                              "template: alpaca\n"
                              "bf16: false # on the new machine\n"
                              "fp16: true\n"
                              "max_grad_norm: 0.0\n";

struct fixture {
    char *dir, *job, *run;
    struct device device;
    struct patch_options options;
};

static void put(const char *path, const char *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(syscall(SYS_write, fd, data, len), (long)len);
    close(fd);
}

static int set_up(void **state)
{
    struct fixture *fixture = memory_alloc(sizeof(*fixture));

    fixture->dir = unit_dir_new();
    fixture->job = path_join(fixture->dir, "job.yaml");
    fixture->run = path_run_dir(fixture->job);
    assert_true(device_find("Tesla T4", &fixture->device, NULL) ||
                device_find("T4", &fixture->device, NULL));
    fixture->options =
        (struct patch_options) { .job = fixture->job, .device = &fixture->device };
    put(fixture->job, dropped, strlen(dropped));
    intervene = NULL;
    steps = 0;
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    intervene = NULL;
    unit_dir_free(fixture->dir);
    free(fixture->job);
    free(fixture->run);
    free(fixture);
    return 0;
}

static void assert_holds(const char *path, const char *expected)
{
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    if (!file_read(path, 1 << 20, &text, NULL, &err))
        fail_msg("%s", err.text);
    assert_string_equal(text.data, expected);
    text_clear(&text);
}

static void patch_file(const struct fixture *fixture, struct patch *out)
{
    struct error err = { 0 };

    if (!patcher_patch_file(&fixture->options, out, &err))
        fail_msg("%s", err.text);
}

static size_t count_backups(const char *job)
{
    struct backup *list;
    size_t count;

    assert_true(backup_list(job, &list, &count, NULL));
    backup_free(list, count);
    return count;
}

static const struct finding *find(const struct patch *patch, const char *rule)
{
    for (size_t i = 0; i < patch->findings.count; i++)
        if (strcmp(patch->findings.list[i].rule, rule) == 0)
            return &patch->findings.list[i];
    return NULL;
}

static void test_patcher_check_writes_nothing(void **state)
{
    const struct fixture *fixture = *state;
    struct stat before, after;
    struct patch patch;

    assert_int_equal(stat(fixture->job, &before), 0);
    assert_true(patcher_check_file(&fixture->options, &patch, NULL));
    assert_true(patch.changed);
    assert_false(find(&patch, "TS102")->fixed);
    assert_string_equal(patch.text, patched);
    patch_clear(&patch);
    assert_int_equal(stat(fixture->job, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    assert_false(file_exists(fixture->run));
    assert_int_equal(steps, 0);
}

static void test_patcher_patches_once(void **state)
{
    const struct fixture *fixture = *state;
    struct stat before, after;
    struct patch patch;
    json_t *journal;
    int made;

    patch_file(fixture, &patch);
    assert_holds(fixture->job, patched);
    assert_holds(patch.backup, dropped);
    assert_true(find(&patch, "TS102")->fixed);
    assert_false(patch_rejected(&patch));
    patch_clear(&patch);
    journal = journal_read(fixture->job, NULL);
    assert_int_equal(json_array_size(journal), 1);
    json_decref(journal);
    made = steps;
    assert_int_equal(stat(fixture->job, &before), 0);
    patch_file(fixture, &patch);
    assert_false(patch.changed);
    assert_null(patch.backup);
    assert_int_equal(stat(fixture->job, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
    assert_int_equal(steps, made); /* not one write */
    assert_int_equal(count_backups(fixture->job), 1);
    patch_clear(&patch);
}

static void test_patcher_does_not_write_settings_to_the_file(void **state)
{
    const struct fixture *fixture = *state;
    static const char *const set[] = { "seed=7", NULL };
    struct patch_options options = fixture->options;
    struct patch patch;

    options.set = set;
    assert_true(patcher_patch_file(&options, &patch, NULL));
    assert_holds(fixture->job, patched);
    patch_clear(&patch);
    assert_true(patcher_check_file(&options, &patch, NULL));
    assert_int_equal(patch.plan.seed, 7);
    assert_non_null(strstr(patch.text, "\nseed: 7\n"));
    patch_clear(&patch);
}

static void test_patcher_does_not_change_links_and_read_only_files(void **state)
{
    const struct fixture *fixture = *state;
    char *other = path_join(fixture->dir, "other.yaml");
    struct patch_options options = fixture->options;
    struct patch patch;

    options.job = other;
    assert_int_equal(symlink("job.yaml", other), 0);
    for (int round = 0; round < 3; round++) {
        assert_true(patcher_patch_file(&options, &patch, NULL));
        assert_false(patch.changed);
        assert_true(patch_rejected(&patch));
        assert_int_equal(find(&patch, "TS011")->severity, SEVERITY_WARNING);
        assert_non_null(find(&patch, "TS102"));
        assert_false(find(&patch, "TS102")->fixed);
        patch_clear(&patch);
        assert_true(patcher_check_file(&options, &patch, NULL));
        assert_non_null(find(&patch, "TS011"));
        patch_clear(&patch);
        assert_holds(other, dropped);
        assert_int_equal(unlink(other), 0);
        if (round == 0)
            assert_int_equal(link(fixture->job, other), 0);
        if (round == 1) {
            put(other, dropped, strlen(dropped));
            assert_int_equal(chmod(other, 0444), 0);
        }
    }
    assert_false(file_exists(fixture->run));
    free(other);
}

static const char *meddled_job;
static int intervene_at;

static void change_once(void)
{
    if (steps == intervene_at)
        put(meddled_job, "seed: 1\n", 8);
}

static void change_always(void)
{
    static int edition;
    char text[64];

    snprintf(text, sizeof(text), "stage: sft\nbf16: true\nseed: %d\n", ++edition);
    put(meddled_job, text, strlen(text));
}

/* If another program writes the file at any time, its text is there afterwards. */
static void test_patcher_never_overwrites_concurrent_changes(void **state)
{
    const struct fixture *fixture = *state;
    struct patch patch;
    int last;

    patch_file(fixture, &patch);
    patch_clear(&patch);
    last = steps;
    meddled_job = fixture->job;
    for (intervene_at = 1; intervene_at <= last; intervene_at++) {
        struct text text;

        assert_true(file_remove_tree(fixture->run, NULL));
        put(fixture->job, dropped, strlen(dropped));
        steps = 0;
        intervene = change_once;
        patch_file(fixture, &patch);
        intervene = NULL;
        patch_clear(&patch);
        if (intervene_at == 1) /* NAME.run was created, but nothing else */
            assert_int_equal(count_backups(fixture->job), 0);
        text_init(&text, 0);
        assert_true(file_read(fixture->job, 1000, &text, NULL, NULL));
        if (strcmp(text.data, "seed: 1\n") != 0) {
            /* written between the last check and the rename: only there can it be lost */
            assert_string_equal(text.data, patched);
            assert_in_range(intervene_at, last - 8, last);
        }
        text_clear(&text);
    }
    put(fixture->job, dropped, strlen(dropped));
    intervene = change_always;
    patch_file(fixture, &patch);
    assert_int_equal(find(&patch, "TS010")->severity, SEVERITY_ERROR);
    assert_false(patch.changed);
    assert_true(patch_rejected(&patch));
    patch_clear(&patch);
}

static int die_at;

static void die(void)
{
    if (steps == die_at)
        raise(SIGKILL);
}

/* Patch in a child process and return its status. */
static int patch_in_child(const struct fixture *fixture,
                          void (*prepare)(const struct fixture *))
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        struct error err = { 0 };
        struct patch patch;

        prepare(fixture);
        _exit(patcher_patch_file(&fixture->options, &patch, &err) ? 0 : (int)err.code);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void prepare_to_die(const struct fixture *fixture)
{
    (void)fixture;
    steps = 0;
    intervene = die;
}

static void assert_old_or_new(const struct fixture *fixture)
{
    struct text text;
    bool old;

    text_init(&text, 0);
    assert_true(file_read(fixture->job, 1000, &text, NULL, NULL));
    old = strcmp(text.data, dropped) == 0;
    if (!old) {
        assert_string_equal(text.data, patched);
        assert_int_equal(count_backups(fixture->job), 1);
    }
    text_clear(&text);
}

static void test_patcher_killed_anywhere_leaves_a_whole_file(void **state)
{
    const struct fixture *fixture = *state;
    int killed = 0, status = -1;

    for (die_at = 1; status != 0; die_at++) {
        struct patch patch;

        assert_true(file_remove_tree(fixture->run, NULL));
        put(fixture->job, dropped, strlen(dropped));
        status = patch_in_child(fixture, prepare_to_die);
        killed += WIFSIGNALED(status);
        assert_true(status == 0 || WIFSIGNALED(status));
        assert_old_or_new(fixture);
        patch_file(fixture, &patch);
        patch_clear(&patch);
        assert_holds(fixture->job, patched);
        assert_int_equal(count_backups(fixture->job), 1);
    }
    assert_true(killed > 8);
}

static rlim_t size_limit;

static void prepare_full_disk(const struct fixture *fixture)
{
    (void)fixture;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit) { size_limit, size_limit });
}

static void test_patcher_keeps_the_file_on_a_full_disk(void **state)
{
    const struct fixture *fixture = *state;

    /* too small for the backup, for the new text (which is longer), for the journal's
     * line */
    for (size_limit = 0; size_limit < sizeof(patched) - 1; size_limit += 16) {
        assert_true(file_remove_tree(fixture->run, NULL));
        put(fixture->job, dropped, strlen(dropped));
        assert_int_equal(WEXITSTATUS(patch_in_child(fixture, prepare_full_disk)),
                         ERROR_SYSTEM);
        assert_holds(fixture->job, dropped);
    }
    size_limit = sizeof(patched) - 1; /* the line of the journal is longer */
    assert_int_equal(WEXITSTATUS(patch_in_child(fixture, prepare_full_disk)),
                     ERROR_FAULT);
    assert_old_or_new(fixture);
}

static void become_nobody(const struct fixture *fixture)
{
    (void)fixture;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        _exit(99);
}

static void test_patcher_reports_a_read_only_folder(void **state)
{
    const struct fixture *fixture = *state;

    if (geteuid() == 0 && (chown(fixture->dir, 65534, 65534) != 0 ||
                           chown(fixture->job, 65534, 65534) != 0))
        skip();
    assert_int_equal(chmod(fixture->dir, 0555), 0);
    assert_int_equal(WEXITSTATUS(patch_in_child(fixture, become_nobody)), ERROR_SYSTEM);
    assert_int_equal(chmod(fixture->dir, 0755), 0);
    assert_holds(fixture->job, dropped);
    assert_false(file_exists(fixture->run));
}

static void test_patcher_reads_without_editing(void **state)
{
    const struct fixture *fixture = *state;
    struct patch patch;

    assert_true(patcher_read(&fixture->options, &patch, NULL));
    assert_false(patch.changed);
    assert_true(patch.has_plan);
    assert_int_equal(patch.plan.request.bf16, CHOICE_YES);
    assert_int_equal(patch.plan.precision.mode, MODE_FP16_MIXED);
    assert_string_equal(patch.plan.dir, fixture->dir);
    assert_string_equal(patch.plan.device.name, fixture->device.name);
    assert_non_null(find(&patch, "TS102")->new_text);
    patch_clear(&patch);
}

/* ---- Hazards, and the corpus ---- */

static void check_hazard(const struct fixture *fixture, const char *path)
{
    struct patch_options options = fixture->options;
    struct text text;

    text_init(&text, 0);
    assert_true(file_read(path, 1 << 20, &text, NULL, NULL));
    for (int unsafe = 0; unsafe < 2; unsafe++) {
        struct error err = { 0 };
        struct patch patch, again;

        options.unsafe = unsafe;
        if (!patcher_check(text.data, text.len, &options, &patch, &err))
            fail_msg("%s: %s", path, err.text);
        assert_true(patcher_check(patch.text, patch.len, &options, &again, NULL));
        if (again.changed || (patch.findings.count == 0 && !patch.has_plan))
            fail_msg("%s does not settle", path);
        patch_clear(&again);
        patch_clear(&patch);
    }
    text_clear(&text);
}

/* The initial inputs of the fuzzer of documents, each with a different hazard. */
static void test_patcher_converges_on_every_hazard(void **state)
{
    char *dir = unit_source("tests/fuzz/corpus/document");
    DIR *stream = opendir(dir);
    const struct dirent *entry;
    size_t count = 0;

    assert_non_null(stream);
    while ((entry = readdir(stream))) {
        char *path = path_join(dir, entry->d_name);

        if (entry->d_name[0] != '.') {
            check_hazard(*state, path);
            count++;
        }
        free(path);
    }
    assert_true(count > 40);
    closedir(stream);
    free(dir);
}

static void undo_restores(const struct fixture *fixture, const struct text *text)
{
    struct error err = { 0 };
    struct text now;

    text_init(&now, 0);
    if (!journal_undo(fixture->job, NULL, false, NULL, &err))
        fail_msg("%s", err.text);
    assert_true(file_read(fixture->job, 1 << 20, &now, NULL, NULL));
    assert_int_equal(now.len, text->len);
    assert_memory_equal(now.data, text->data, text->len);
    text_clear(&now);
}

static void patch_twice_and_undo(void *context, const char *path, const struct text *text)
{
    const struct fixture *fixture = context;
    struct patch patch;
    bool changed;

    assert_true(file_remove_tree(fixture->run, NULL));
    put(fixture->job, text->data, text->len);
    patch_file(fixture, &patch);
    changed = patch.changed;
    patch_clear(&patch);
    if (changed) {
        patch_file(fixture, &patch);
        if (patch.changed)
            fail_msg("%s is patched twice", path);
        patch_clear(&patch);
        undo_restores(fixture, text);
    } else {
        assert_false(file_exists(fixture->run));
    }
}

static void test_patcher_patches_the_corpus_once_and_undoes_it(void **state)
{
    assert_true(corpus_walk(patch_twice_and_undo, *state) > 0);
}

/* Return whether there is a finding of TS207 if the fixture's card is one of `peers`. */
static bool misses_gpus(struct fixture *fixture, int peers, const char *block)
{
    struct patch patch;
    struct text text;
    bool found = false;

    fixture->device.peers = peers;
    text_init(&text, 0);
    text_addf(&text, "%strainspool: %s\n", dropped, block);
    assert_true(patcher_check(text.data, text.len, &fixture->options, &patch, NULL));
    for (size_t i = 0; i < patch.findings.count; i++)
        found = found || strcmp(patch.findings.list[i].rule, "TS207") == 0;
    patch_clear(&patch);
    text_clear(&text);
    return found;
}

static void test_patcher_counts_the_gpus_that_ranks_require(void **state)
{
    struct fixture *fixture = *state;

    assert_true(misses_gpus(fixture, 2, "{ranks: 3}"));
    assert_false(misses_gpus(fixture, 2, "{ranks: 2}"));
    assert_false(misses_gpus(fixture, 0, "{ranks: 3}")); /* on another machine */
    assert_false(misses_gpus(fixture, 2, "{ranks: 3, device: cpu}"));
    assert_false(misses_gpus(fixture, 2, "{device: \"cuda:0,1\"}"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_patcher_check_writes_nothing),
        TEST(test_patcher_patches_once),
        TEST(test_patcher_does_not_write_settings_to_the_file),
        TEST(test_patcher_does_not_change_links_and_read_only_files),
        TEST(test_patcher_never_overwrites_concurrent_changes),
        TEST(test_patcher_killed_anywhere_leaves_a_whole_file),
        TEST(test_patcher_keeps_the_file_on_a_full_disk),
        TEST(test_patcher_reports_a_read_only_folder),
        TEST(test_patcher_reads_without_editing),
        TEST(test_patcher_converges_on_every_hazard),
        TEST(test_patcher_counts_the_gpus_that_ranks_require),
        TEST(test_patcher_patches_the_corpus_once_and_undoes_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
