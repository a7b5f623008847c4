/* runner/job/contained_paths.c - tables of the system's paths, and the job's by the table
 * of keys. */
#include "config.h"

#include "runner/job/contained_paths.h"

#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "runner/job/outputs.h"
#include "train/dataset/dataset_plan.h"
#include "train/dataset/dataset_source.h"
#include "train/model/multimodal.h"

#define CONFIG_BYTES_MAX ((size_t)4 << 20)

extern char **environ;

void contained_paths_init(struct contained_paths *paths, struct arena *arena)
{
    *paths = (struct contained_paths) { .arena = arena };
}

void contained_paths_add(struct contained_paths *paths, const char *path,
                         enum landlock_access access)
{
    struct contained_path *grown;

    if (!path || !*path)
        return;
    if (paths->count == paths->room) {
        paths->room = paths->room ? 2 * paths->room : 64;
        grown = arena_array(paths->arena, paths->room, sizeof(*grown));
        if (paths->count > 0)
            memcpy(grown, paths->list, paths->count * sizeof(*grown));
        paths->list = grown;
    }
    paths->list[paths->count++] =
        (struct contained_path) { arena_strdup(paths->arena, path), access };
}

static void add_rows(struct contained_paths *paths, const struct contained_path *rows,
                     size_t count)
{
    for (size_t i = 0; i < count; i++)
        contained_paths_add(paths, rows[i].path, rows[i].access);
}

/* ---- The system ---- */

/* A program starts through the dynamic linker, which is among the libraries. /etc has
 * secrets, too: only what the C library, the driver and NCCL read. */
static const struct contained_path system_rows[] = {
    { "/usr", LANDLOCK_READ },
    { "/opt", LANDLOCK_READ },
    { "/lib", LANDLOCK_RUN },
    { "/lib32", LANDLOCK_RUN },
    { "/lib64", LANDLOCK_RUN },
    { "/usr/lib", LANDLOCK_RUN },
    { "/usr/lib32", LANDLOCK_RUN },
    { "/usr/lib64", LANDLOCK_RUN },
    { "/nix/store", LANDLOCK_RUN },
    { "/gnu/store", LANDLOCK_RUN },
    { "/run/opengl-driver", LANDLOCK_READ },
    { "/proc", LANDLOCK_READ },
    { "/sys", LANDLOCK_READ },
    { "/dev/null", LANDLOCK_USE },
    { "/dev/zero", LANDLOCK_USE },
    { "/dev/full", LANDLOCK_USE },
    { "/dev/random", LANDLOCK_READ },
    { "/dev/urandom", LANDLOCK_READ },
    { "/dev/tty", LANDLOCK_USE },
    { "/etc/ld.so.cache", LANDLOCK_READ },
    { "/etc/ld.so.conf", LANDLOCK_READ },
    { "/etc/ld.so.conf.d", LANDLOCK_READ },
    { "/etc/ld.so.preload", LANDLOCK_READ },
    { "/etc/localtime", LANDLOCK_READ },
    { "/etc/timezone", LANDLOCK_READ },
    { "/etc/nsswitch.conf", LANDLOCK_READ },
    { "/etc/passwd", LANDLOCK_READ },
    { "/etc/group", LANDLOCK_READ },
    { "/etc/hosts", LANDLOCK_READ },
    { "/etc/host.conf", LANDLOCK_READ },
    { "/etc/resolv.conf", LANDLOCK_READ },
    { "/etc/nvidia", LANDLOCK_READ },
    { "/etc/nccl.conf", LANDLOCK_READ },
    { "/etc/libibverbs.d", LANDLOCK_READ },
};

/* A library that is loaded brings others from its folder later, as cuBLASLt does. */
static int add_library(struct dl_phdr_info *library, size_t size, void *context)
{
    char *dir;

    (void)size;
    if (!library->dlpi_name || library->dlpi_name[0] != '/')
        return 0;
    dir = path_dir(library->dlpi_name);
    contained_paths_add(context, dir, LANDLOCK_READ);
    free(dir);
    return 0;
}

/* Folders separated by colons. */
static void add_folders(struct contained_paths *paths, const char *folders)
{
    char *copy = folders ? arena_strdup(paths->arena, folders) : NULL, *folder;

    while (copy && (folder = strsep(&copy, ":")))
        if (folder[0] == '/')
            contained_paths_add(paths, folder, LANDLOCK_READ);
}

/* The program starts itself once for each rank. */
static void add_program(struct contained_paths *paths)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *dir;

    if (len <= 0)
        return;
    self[len] = 0;
    dir = path_dir(self);
    contained_paths_add(paths, dir, LANDLOCK_READ);
    contained_paths_add(paths, self, LANDLOCK_RUN);
    free(dir);
}

void contained_paths_add_system(struct contained_paths *paths)
{
    add_rows(paths, system_rows, TS_COUNT(system_rows));
    dl_iterate_phdr(add_library, paths);
    add_folders(paths, getenv("LD_LIBRARY_PATH"));
    add_program(paths);
}

/* ---- GPUs ---- */

/* Names with wildcards. nvidia-container-toolkit passes these devices to containers; dxg
 * is that of WSL, nvhost and nvmap those of Jetson. The driver's threads write their names
 * into /proc/self. NCCL shares memory between ranks in /dev/shm. */
static const struct contained_path gpu_rows[] = {
    { "/dev/nvidia*", LANDLOCK_USE },    { "/dev/nvhost*", LANDLOCK_USE },
    { "/dev/nvmap", LANDLOCK_USE },      { "/dev/nvgpu*", LANDLOCK_USE },
    { "/dev/dri", LANDLOCK_USE },        { "/dev/dxg", LANDLOCK_USE },
    { "/dev/gdrdrv", LANDLOCK_USE },     { "/dev/infiniband", LANDLOCK_USE },
    { "/dev/shm", LANDLOCK_WRITE },      { "/proc/self", LANDLOCK_USE },
    { "/run/nvidia*", LANDLOCK_USE },    { "/tmp/nvidia-mps", LANDLOCK_USE },
#ifdef CUDA_LIBRARY_DIR /* of the toolkit of the build */
    { CUDA_LIBRARY_DIR, LANDLOCK_READ },
#endif
};

static void add_matches(struct contained_paths *paths, const struct contained_path *row)
{
    glob_t found;

    if (glob(row->path, GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        contained_paths_add(paths, found.gl_pathv[i], row->access);
    globfree(&found);
}

/* The cache of code that the driver compiled, as in the section JIT caching of the CUDA
 * programming guide. */
static void add_driver_cache(struct contained_paths *paths)
{
    const char *named = getenv("CUDA_CACHE_PATH"), *home = getenv("HOME");
    char *dir = NULL;

    if (named && named[0] == '/')
        dir = memory_strdup(named);
    else if (home && home[0] == '/')
        dir = path_join(home, ".nv");
    if (dir && file_make_dir(dir, 0700, NULL))
        contained_paths_add(paths, dir, LANDLOCK_WRITE);
    free(dir);
}

/* Files and folders that settings of the driver and of NCCL name. */
static void add_settings(struct contained_paths *paths)
{
    static const char *const prefixes[] = { "CUDA_", "NVIDIA_", "NCCL_" };

    for (char **at = environ; *at; at++) {
        const char *value = strchr(*at, '=');

        for (size_t i = 0; value && i < TS_COUNT(prefixes); i++)
            if (text_starts(*at, prefixes[i]) && value[1] == '/')
                contained_paths_add(paths, value + 1,
                                    text_starts(*at, "CUDA_MPS_") ? LANDLOCK_USE
                                                                  : LANDLOCK_READ);
    }
}

void contained_paths_add_gpu(struct contained_paths *paths)
{
    for (size_t i = 0; i < TS_COUNT(gpu_rows); i++)
        add_matches(paths, &gpu_rows[i]);
    add_driver_cache(paths);
    add_settings(paths);
}

void contained_paths_add_cache(struct contained_paths *paths)
{
    char *dir = cache_folder();

    if (dir && file_make_dirs(dir, 0700, NULL))
        contained_paths_add(paths, dir, LANDLOCK_WRITE);
    free(dir);
}

/* ---- The job ---- */

/* Return whether a folder of models or data may have a link to this file. */
static bool may_be_linked(const char *target)
{
    static const char *const kinds[] = {
        ".safetensors", ".bin",  ".json",    ".jsonl", ".model", ".jinja", ".txt",
        ".csv",         ".tsv",  ".parquet", ".arrow", ".gz",    ".wav",   ".flac",
        ".mp3",         ".ogg",  ".oga",     ".opus",  ".aiff",  ".au",    ".caf",
        ".jpg",         ".jpeg", ".png",     ".webp"
    };
    char *dir = path_dir(target);
    bool may = strcmp(path_base(dir), "blobs") == 0;

    free(dir);
    for (size_t i = 0; i < TS_COUNT(kinds) && !may; i++)
        may = text_ends(target, kinds[i]);
    return may;
}

static void add_link(struct contained_paths *paths, const char *link)
{
    char *target = realpath(link, NULL);
    struct stat st;

    if (!target)
        fault_note("cannot follow", link);
    if (target && may_be_linked(target) && file_stat(target, &st) && S_ISREG(st.st_mode))
        contained_paths_add(paths, target, LANDLOCK_READ);
    free(target);
}

static void add_links(struct contained_paths *paths, const char *folder)
{
    DIR *dir = file_open_dir(folder);
    struct dirent *entry;

    while (dir && (entry = file_next(dir, folder))) {
        char *name;

        if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
            continue;
        name = path_join(folder, entry->d_name);
        add_link(paths, name);
        free(name);
    }
    if (dir)
        closedir(dir);
}

static void add_input(struct contained_paths *paths, const char *path)
{
    contained_paths_add(paths, path, LANDLOCK_READ);
    add_links(paths, path);
}

/* A file that exists is read; a missing one is written, through a temporary file. */
static void add_output(struct contained_paths *paths, const char *path)
{
    char *dir;

    if (!outputs_is_file(path)) {
        contained_paths_add(paths, path, LANDLOCK_WRITE);
        return;
    }
    dir = path_dir(path);
    contained_paths_add(paths, file_exists(path) ? path : dir,
                        file_exists(path) ? LANDLOCK_READ : LANDLOCK_WRITE);
    free(dir);
}

/* Only what the job takes from there. */
static bool is_folder_of_data(const struct key *key)
{
    return strcmp(key->name, "dataset_dir") == 0 || strcmp(key->name, "media_dir") == 0;
}

static void add_path(void *context, const struct key *key, const char *path)
{
    struct contained_paths *paths = context;

    if (is_folder_of_data(key))
        return;
    if (key->written)
        add_output(paths, path);
    else if (key->type == KEY_PATH || strcmp(path, "true") != 0)
        add_input(paths, path);
}

/* Return whether the model has towers. If its config.json is missing, the run says so. */
static bool reads_media(const struct plan *plan)
{
    char *name = plan->model_name_or_path
                     ? path_join(plan->model_name_or_path, "config.json")
                     : NULL;
    json_t *config = name ? json_read_loose_file(name, CONFIG_BYTES_MAX, NULL) : NULL;
    const char *type = json_string_value(json_object_get(config, "model_type"));
    bool reads = type && multimodal_find(type);

    json_decref(config);
    free(name);
    return reads;
}

static void add_folder_of(struct contained_paths *paths, const char *file)
{
    char *dir = path_dir(file);

    contained_paths_add(paths, dir, LANDLOCK_READ);
    free(dir);
}

/* The files of a list of datasets, and the folders of those whose records may name files of
 * media. If one is missing, the run says so. */
static void add_datasets(struct contained_paths *paths, const struct plan *plan,
                         const char *names)
{
    const char *dir = plan->dataset_dir ? plan->dataset_dir : "data";
    struct dataset_sources sources = { 0 };
    struct error ignored = { 0 };
    const bool media = reads_media(plan);
    char *info, *found;

    if (!names)
        return;
    info = path_join(dir, "dataset_info.json");
    contained_paths_add(paths, info, LANDLOCK_READ);
    free(info);
    found = dataset_plan_paths(plan, names);
    if (!dataset_sources_find(found, dir, paths->arena, &sources, &ignored))
        fault_keep_question(&ignored);
    for (size_t i = 0; i < sources.count; i++)
        if (sources.list[i].path) {
            add_input(paths, sources.list[i].path);
            if (media)
                add_folder_of(paths, sources.list[i].path);
        }
    free(found);
}

/* Which files of the folder the records name is not known before they are read. */
static void add_media(struct contained_paths *paths, const struct plan *plan)
{
    if (plan->media_dir && reads_media(plan))
        add_input(paths, plan->media_dir);
}

void contained_paths_add_plan(struct contained_paths *paths, const struct plan *plan)
{
    contained_paths_add(paths, plan->job, LANDLOCK_READ);
    contained_paths_add(paths, plan->run_dir, LANDLOCK_WRITE);
    contained_paths_add(paths, plan->output_dir, LANDLOCK_WRITE);
    outputs_each_path(plan, add_path, paths);
    add_datasets(paths, plan, plan->dataset);
    add_datasets(paths, plan, plan->eval_dataset);
    add_media(paths, plan);
}

static void read_path(void *context, const struct key *key, const char *path)
{
    if (!is_folder_of_data(key))
        add_input(context, path);
}

void contained_paths_add_inputs(struct contained_paths *paths, const struct plan *plan)
{
    contained_paths_add(paths, plan->job, LANDLOCK_READ);
    contained_paths_add(paths, plan->run_dir, LANDLOCK_READ);
    outputs_each_path(plan, read_path, paths);
    add_datasets(paths, plan, plan->dataset);
    add_datasets(paths, plan, plan->eval_dataset);
    add_media(paths, plan);
}
