/* tests/unit/test_containment.c - what a contained process can and cannot do; each test
 * contains a child of its own. */
#include "config.h"

#include "runner/job/containment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/landlock.h"
#include "runner/job/contained_paths.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static char folder[] = "/tmp/trainspool-contain-XXXXXX";

/* ---- The list of paths ---- */

static const struct contained_path *find(const struct contained_paths *paths,
                                         const char *path)
{
    const struct contained_path *found = NULL;

    for (size_t i = 0; i < paths->count; i++)
        if (strcmp(paths->list[i].path, path) == 0)
            found = &paths->list[i];
    return found;
}

static void write_file(const char *name, const char *content)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    assert_return_code(fd, errno);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
}

static void make_folders(void)
{
    if (!mkdtemp(folder) || chdir(folder) != 0)
        abort();
    assert_return_code(mkdir("model", 0755), errno);
    assert_return_code(mkdir("hub", 0755), errno);
    assert_return_code(mkdir("hub/blobs", 0755), errno);
    assert_return_code(mkdir("job.run", 0755), errno);
    write_file("private", "secret");
    write_file("weights.safetensors", "weights");
    write_file("hub/blobs/abc", "{}");
    write_file("model/config.json", "{}");
    write_file("text.txt", "text");
    assert_return_code(mkdir("hearing", 0755), errno);
    assert_return_code(mkdir("media", 0755), errno);
    write_file("hearing/config.json", "{\"model_type\":\"qwen2_audio\"}");
    write_file("hub/a.flac", "sound");
    write_file("hub/text.txt", "text");
    assert_return_code(symlink("../hub/a.flac", "media/a.flac"), errno);
    assert_return_code(symlink("../private", "media/b.flac"), errno);
    assert_return_code(symlink("../weights.safetensors", "model/model.safetensors"),
                       errno);
    assert_return_code(symlink("../private", "model/tokenizer.json"), errno);
    assert_return_code(symlink("../hub/blobs/abc", "model/merges.json"), errno);
    assert_return_code(symlink("/", "model/more"), errno);
}

static char *in_folder(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void test_paths_of_a_plan_are_its_inputs_and_outputs(void **state)
{
    struct plan plan = { .job = "job.yaml",
                         .dir = ".",
                         .run_dir = "job.run",
                         .output_dir = "out",
                         .model_name_or_path = "model",
                         .kd = { .teacher = "teacher", .logits = "logits.safetensors" },
                         .preference = { .reference = "reference" },
                         .dataset_dir = ".",
                         .dataset = "text.txt",
                         .resume_from_checkpoint = "old/checkpoint-1",
                         .tokenized_path = "tokens",
                         .export_dir = "merged" };
    struct arena *arena = arena_new();
    struct contained_paths paths;

    (void)state;
    contained_paths_init(&paths, arena);
    contained_paths_add_plan(&paths, &plan);
    assert_int_equal(find(&paths, "job.yaml")->access, LANDLOCK_READ);
    assert_int_equal(find(&paths, "model")->access, LANDLOCK_READ);
    assert_int_equal(find(&paths, "teacher")->access, LANDLOCK_READ);
    assert_int_equal(find(&paths, "reference")->access, LANDLOCK_READ);
    assert_int_equal(find(&paths, "old/checkpoint-1")->access, LANDLOCK_READ);
    assert_int_equal(find(&paths, "text.txt")->access, LANDLOCK_READ);
    assert_int_equal(find(&paths, "job.run")->access, LANDLOCK_WRITE);
    assert_int_equal(find(&paths, "out")->access, LANDLOCK_WRITE);
    assert_int_equal(find(&paths, "tokens")->access, LANDLOCK_WRITE);
    assert_int_equal(find(&paths, "merged")->access, LANDLOCK_WRITE);
    assert_int_equal(find(&paths, ".")->access, LANDLOCK_WRITE); /* of the logits */
    arena_free(arena);
}

static void test_paths_follow_only_links_to_models_and_data(void **state)
{
    struct plan plan = {
        .job = "job.yaml", .dir = ".", .run_dir = "job.run", .model_name_or_path = "model"
    };
    struct arena *arena = arena_new();
    struct contained_paths paths;

    (void)state;
    contained_paths_init(&paths, arena);
    contained_paths_add_plan(&paths, &plan);
    assert_non_null(find(&paths, in_folder("weights.safetensors")));
    assert_non_null(find(&paths, in_folder("hub/blobs/abc")));
    assert_null(find(&paths, in_folder("private")));
    assert_null(find(&paths, "/"));
    arena_free(arena);
}

/* Media are named inside of the data: their whole folder is read, by a model that has
 * towers. */
static void test_paths_of_media_are_those_of_models_with_towers(void **state)
{
    struct plan plan = { .job = "job.yaml",
                         .dir = ".",
                         .run_dir = "job.run",
                         .model_name_or_path = "model",
                         .dataset_dir = "data",
                         .dataset = "hub/text.txt",
                         .media_dir = "media" };
    struct arena *arena = arena_new();
    struct contained_paths paths;

    (void)state;
    contained_paths_init(&paths, arena);
    contained_paths_add_plan(&paths, &plan);
    assert_null(find(&paths, "media"));
    assert_null(find(&paths, "hub"));
    assert_int_equal(find(&paths, "hub/text.txt")->access, LANDLOCK_READ);
    plan.model_name_or_path = "hearing";
    contained_paths_init(&paths, arena);
    contained_paths_add_plan(&paths, &plan);
    assert_int_equal(find(&paths, "media")->access, LANDLOCK_READ);
    assert_int_equal(find(&paths, "hub")->access, LANDLOCK_READ);
    assert_non_null(find(&paths, in_folder("hub/a.flac")));
    assert_null(find(&paths, in_folder("private")));
    assert_null(find(&paths, "data"));
    contained_paths_init(&paths, arena);
    contained_paths_add_inputs(&paths, &plan);
    assert_int_equal(find(&paths, "media")->access, LANDLOCK_READ);
    arena_free(arena);
}

static void test_paths_of_the_system_leave_out_secrets(void **state)
{
    static const char *const never[] = { "/",     "/etc", "/etc/shadow", "/home",
                                         "/root", "/tmp", "/var",        "/dev",
                                         "/run",  "/mnt", "/boot",       "/media" };
    struct arena *arena = arena_new();
    struct contained_paths paths;

    (void)state;
    contained_paths_init(&paths, arena);
    contained_paths_add_system(&paths);
    contained_paths_add_gpu(&paths);
    for (size_t i = 0; i < TS_COUNT(never); i++)
        assert_null(find(&paths, never[i]));
    assert_int_equal(find(&paths, "/usr")->access, LANDLOCK_READ);
    assert_int_equal(find(&paths, "/dev/shm")->access, LANDLOCK_WRITE);
    arena_free(arena);
}

static void test_the_cache_folder_is_created(void **state)
{
    char *dir = unit_dir_new(), *cache = path_join(dir, "cache");
    char *own = path_join(cache, "trainspool");
    const char *before = getenv("XDG_CACHE_HOME");
    char *kept = before ? memory_strdup(before) : NULL;
    struct arena *arena = arena_new();
    struct contained_paths paths;

    (void)state;
    setenv("XDG_CACHE_HOME", cache, 1);
    contained_paths_init(&paths, arena);
    contained_paths_add_cache(&paths);
    assert_int_equal(find(&paths, own)->access, LANDLOCK_WRITE);
    assert_int_equal(paths.count, 1);
    assert_true(file_is_dir(own));
    if (kept)
        setenv("XDG_CACHE_HOME", kept, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    arena_free(arena);
    free(kept);
    free(own);
    free(cache);
    unit_dir_free(dir);
}

/* The home of a system user may be a folder that does not exist, and must not. */
static void test_a_missing_home_is_not_created(void **state)
{
    char *dir = unit_dir_new(), *home = path_join(dir, "home");
    char *own = path_join(home, ".cache/trainspool");
    char *cache = getenv("XDG_CACHE_HOME"), *before = getenv("HOME");
    struct arena *arena = arena_new();
    struct contained_paths paths;

    (void)state;
    cache = cache ? memory_strdup(cache) : NULL;
    before = memory_strdup(before ? before : "/");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", home, 1);
    contained_paths_init(&paths, arena);
    contained_paths_add_cache(&paths);
    assert_int_equal(paths.count, 0);
    assert_false(file_exists(home));
    assert_int_equal(mkdir(home, 0700), 0);
    contained_paths_add_cache(&paths);
    assert_int_equal(find(&paths, own)->access, LANDLOCK_WRITE);
    setenv("HOME", before, 1);
    if (cache)
        setenv("XDG_CACHE_HOME", cache, 1);
    arena_free(arena);
    free(before);
    free(cache);
    free(own);
    free(home);
    unit_dir_free(dir);
}

/* ---- A contained process ---- */

static const char job_text[] = "model_name_or_path: model\nstage: pt\ndataset: text.txt\n"
                               "dataset_dir: .\noutput_dir: out\n";

static bool refuses(long result)
{
    return result < 0 && (errno == EACCES || errno == EPERM);
}

static bool opens(const char *name, int flags)
{
    int fd = open(name, flags | O_CLOEXEC, 0644);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void *answer(void *nothing)
{
    return nothing;
}

static bool files_are_contained(void)
{
    return opens("text.txt", O_RDONLY) && opens("model/config.json", O_RDONLY) &&
           opens("model/model.safetensors", O_RDONLY) &&
           opens("/proc/self/stat", O_RDONLY) && opens("/dev/null", O_RDWR) &&
           opens("out/new", O_WRONLY | O_CREAT) &&
           mkdir("out/checkpoint.tmp", 0755) == 0 &&
           opens("out/checkpoint.tmp/a", O_WRONLY | O_CREAT) &&
           rename("out/checkpoint.tmp/a", "out/a") == 0 &&
           rmdir("out/checkpoint.tmp") == 0 && unlink("out/a") == 0 &&
           opens("job.run/metrics.jsonl", O_WRONLY | O_CREAT) &&
           !opens("private", O_RDONLY) && errno == EACCES &&
           !opens("model/tokenizer.json", O_RDONLY) && errno == EACCES &&
           !opens("/etc/shadow", O_RDONLY) && !opens("model/more/tmp", O_RDONLY) &&
           !opens(".", O_RDONLY) && !opens("new", O_WRONLY | O_CREAT) &&
           !opens("text.txt", O_WRONLY) && !opens("model/config.json", O_WRONLY) &&
           refuses(rename("out/new", "new")) && refuses(unlink("private")) &&
           refuses(mknod("out/device", S_IFCHR | 0600, 0));
}

static bool calls_are_contained(void)
{
    char *const words[] = { "/bin/true", NULL };
    pthread_t thread;

    return refuses(execve(words[0], words, NULL)) && refuses(fork()) &&
           refuses(socket(AF_INET, SOCK_STREAM, 0)) &&
           refuses(socket(AF_UNIX, SOCK_STREAM, 0)) &&
           refuses(mount("none", "/mnt", "tmpfs", 0, "")) &&
           refuses(unshare(CLONE_NEWUSER)) && refuses(ptrace(PTRACE_TRACEME, 0, 0, 0)) &&
           refuses(syscall(SYS_bpf, 0, NULL, 0)) &&
           refuses(ioctl(STDIN_FILENO, TIOCSTI, "x")) && syscall(435, NULL, 0) < 0 &&
           errno == ENOSYS && pthread_create(&thread, NULL, answer, NULL) == 0 &&
           pthread_join(thread, NULL) == 0 && getpid() > 0 &&
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

/* It may use 64 MiB and what a plan does not count, which is less than 1 GiB here. */
static bool memory_is_contained(void)
{
    void *within = malloc((size_t)300 << 20), *beyond = malloc((size_t)1 << 30);
    const bool ok = within && !beyond;
    struct rlimit data;

    free(within);
    free(beyond);
    return ok && getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur == data.rlim_max;
}

static bool memory_is_not_contained(void)
{
    void *much = malloc((size_t)1 << 30);
    bool ok = much != NULL;

    free(much);
    return ok;
}

static bool limits_hold(void)
{
    struct rlimit core, open, file;
    int fd = memfd_create("large", MFD_CLOEXEC);

    return getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0 &&
           getrlimit(RLIMIT_NOFILE, &open) == 0 && open.rlim_max <= 8192 &&
           getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_max <= (rlim_t)1 << 42 &&
           fd >= 0 && pwrite(fd, "x", 1, (off_t)1 << 42) < 0 && errno == EFBIG;
}

static bool nothing_is_contained(void)
{
    return opens("private", O_RDONLY) && opens("new", O_WRONLY | O_CREAT) &&
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0;
}

/* What a run with a GPU and several ranks needs in addition. */
static bool gpu_has_sockets(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), local = socket(AF_UNIX, SOCK_STREAM, 0);

    return fd >= 0 && local >= 0 && refuses(unshare(CLONE_NEWUSER)) &&
           opens("/dev/shm/trainspool-test", O_WRONLY | O_CREAT) &&
           unlink("/dev/shm/trainspool-test") == 0 && !opens("private", O_RDONLY);
}

static bool gpu_has_local_sockets(void)
{
    return socket(AF_UNIX, SOCK_STREAM, 0) >= 0 &&
           refuses(socket(AF_INET, SOCK_STREAM, 0)) &&
           refuses(socket(AF_INET6, SOCK_DGRAM, 0));
}

struct trial {
    bool on;
    const char *more; /* lines of the job */
    size_t devices;
    bool (*check)(void);
};

static void run_trial(const struct trial *trial)
{
    struct machine machine = { .probe = { .count = trial->devices,
                                          .devices = { { .kind = DEVICE_CPU,
                                                         .threads = 2,
                                                         .available = 1 << 30 } } } };
    struct containment containment = { .on = trial->on, .machine = &machine };
    struct text text;
    struct job job;

    text_init(&text, 0);
    text_addf(&text, "%s%s", job_text, trial->more);
    job_init(&job, "job.yaml");
    assert_true(containment_enter(&containment, &job, &text, NULL, NULL));
    containment_close(&containment, NULL);
    _exit(trial->check() ? 0 : 1);
}

static void expect(const struct trial *trial)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        run_trial(trial);
    assert_return_code(pid, errno);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_files_outside_the_job_are_refused(void **state)
{
    const struct trial trial = { true, "", 1, files_are_contained };

    (void)state;
    if (landlock_version() == 0)
        skip();
    expect(&trial);
}

#ifdef __SANITIZE_ADDRESS__ /* its leak detector needs processes and ptrace */
static void test_programs_and_sockets_are_refused(void **state)
{
    (void)state;
    (void)calls_are_contained;
    skip();
}
#else
static void test_programs_and_sockets_are_refused(void **state)
{
    const struct trial trial = { true, "", 1, calls_are_contained };

    (void)state;
    expect(&trial);
}
#endif

#ifdef __SANITIZE_ADDRESS__ /* its malloc reports a failure as a fault */
static void test_memory_of_a_cpu_is_limited(void **state)
{
    (void)state;
    (void)memory_is_contained;
    (void)memory_is_not_contained;
    skip();
}
#else
static void test_memory_of_a_cpu_is_limited(void **state)
{
    const struct trial bytes = { true, "memory_limit: 64MiB\n", 1, memory_is_contained },
                       share = { true, "memory_limit: 10%\n", 1, memory_is_contained },
                       none = { true, "", 1, memory_is_not_contained },
                       gpu = { true, "memory_limit: 64MiB\n", 2,
                               memory_is_not_contained },
                       off = { false, "memory_limit: 64MiB\n", 1,
                               memory_is_not_contained };

    (void)state;
    expect(&bytes);
    expect(&share);
    expect(&none);
    expect(&gpu);
    expect(&off);
}
#endif

static void test_limits_hold_for_good(void **state)
{
    const struct trial trial = { true, "", 1, limits_hold };

    (void)state;
    expect(&trial);
}

static void test_a_limit_is_given_as_the_reason(void **state)
{
    const struct containment limited = { .on = true, .memory = (uint64_t)64 << 20 },
                             free_of_limits = { .on = true };
    struct error err = { .code = ERROR_MEMORY, .text = "no memory" },
                 other = { .code = ERROR_DATA, .text = "no data" };

    (void)state;
    containment_explain(&free_of_limits, &err);
    assert_string_equal(err.text, "no memory");
    containment_explain(&limited, &err);
    assert_string_equal(err.text, "no memory; memory_limit allows 64.0 MiB");
    containment_explain(&limited, &other);
    assert_string_equal(other.text, "no data");
}

/* As it works in the folder of a watch, on jobs whose models and data may be anywhere. */
static bool examiner_is_contained(void)
{
    const struct machine machine = { .probe = { .count = 1 } };
    char outside[] = "/tmp/trainspool-outside";

    return mkdir("spool", 0755) == 0 && chdir("spool") == 0 &&
           containment_enter_examiner(&machine, NULL) &&
           opens("job.yaml.tmp", O_WRONLY | O_CREAT) &&
           rename("job.yaml.tmp", "job.yaml") == 0 && opens("../private", O_RDONLY) &&
           !opens("../private", O_WRONLY) && errno == EACCES &&
           !opens(outside, O_WRONLY | O_CREAT) && errno == EACCES &&
           refuses(rename("job.yaml", outside)) &&
           refuses(socket(AF_INET, SOCK_STREAM, 0)) &&
           refuses(socket(AF_UNIX, SOCK_STREAM, 0)) && refuses(unshare(CLONE_NEWUSER)) &&
           system("exit 3") == 3 << 8;
}

static void test_an_examiner_writes_only_to_its_folder(void **state)
{
    const struct trial trial = { false, "", 1, examiner_is_contained };

    (void)state;
    if (landlock_version() == 0)
        skip();
    expect(&trial);
}

static void test_nothing_is_refused_without_the_sandbox(void **state)
{
    const struct trial trial = { false, "", 1, nothing_is_contained };

    (void)state;
    expect(&trial);
}

static void test_a_gpu_without_its_driver_is_contained_only_on_request(void **state)
{
    const struct trial trial = { true, "", 2, nothing_is_contained };

    (void)state;
    if (file_exists("/dev/nvidia-uvm"))
        skip();
    expect(&trial);
}

static void test_a_gpu_may_use_sockets(void **state)
{
    const struct trial one = { true, "", 2, gpu_has_local_sockets };
    const struct trial two = { true, "trainspool: {ranks: 2}\n", 3, gpu_has_sockets };

    (void)state;
    if (landlock_version() == 0)
        skip();
    setenv("TRAINSPOOL_SANDBOX", "1", 1);
    expect(&one);
    expect(&two);
    unsetenv("TRAINSPOOL_SANDBOX");
}

#define GIB ((uint64_t)1 << 30)

/* All processes together, with the program: at most 1 GiB for each in addition. */
static void test_memory_of_a_job_is_that_of_its_processes(void **state)
{
    struct plan plan = { .threads = 1, .device = { .kind = DEVICE_CPU } };
    uint64_t one;

    (void)state;
    assert_int_equal(containment_most_memory(&plan), 0);
    plan.memory_limit = "80%"; /* of what is free when it starts */
    assert_int_equal(containment_most_memory(&plan), 0);
    plan.memory_limit = "8GiB";
    one = containment_most_memory(&plan);
    assert_true(one > 8 * GIB && one < 9 * GIB);
    plan.ranks = 2; /* they share the memory of the CPU */
    assert_int_equal(containment_most_memory(&plan) - 8 * GIB, 2 * (one - 8 * GIB));
    plan.device.kind = DEVICE_CUDA; /* each has a GPU, a driver and moments on the host */
    assert_int_equal(containment_most_memory(&plan), 2 * (one + 4 * GIB));
    plan.memory.host = 3 * GIB;
    assert_int_equal(containment_most_memory(&plan), 2 * (one + 7 * GIB));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_of_a_plan_are_its_inputs_and_outputs),
        cmocka_unit_test(test_paths_follow_only_links_to_models_and_data),
        cmocka_unit_test(test_paths_of_media_are_those_of_models_with_towers),
        cmocka_unit_test(test_paths_of_the_system_leave_out_secrets),
        cmocka_unit_test(test_the_cache_folder_is_created),
        cmocka_unit_test(test_a_missing_home_is_not_created),
        cmocka_unit_test(test_files_outside_the_job_are_refused),
        cmocka_unit_test(test_programs_and_sockets_are_refused),
        cmocka_unit_test(test_memory_of_a_cpu_is_limited),
        cmocka_unit_test(test_limits_hold_for_good),
        cmocka_unit_test(test_memory_of_a_job_is_that_of_its_processes),
        cmocka_unit_test(test_a_limit_is_given_as_the_reason),
        cmocka_unit_test(test_an_examiner_writes_only_to_its_folder),
        cmocka_unit_test(test_nothing_is_refused_without_the_sandbox),
        cmocka_unit_test(test_a_gpu_without_its_driver_is_contained_only_on_request),
        cmocka_unit_test(test_a_gpu_may_use_sockets),
    };
    int failed;

    setenv("HOME", "/nonexistent", 1);
    make_folders();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(folder, NULL);
    return failed;
}
