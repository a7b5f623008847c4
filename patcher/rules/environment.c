/*
 * patcher/rules/environment.c - versions from a job's text and from *.dist-info folders.
 *
 * The names of folders and files come from "Recording installed projects" in the
 * packaging guide (PEP 376, PEP 627); conda and older setuptools create *.egg-info.
 */
#include "config.h"

#include "patcher/rules/environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"

#define METADATA_MAX   ((size_t)1 << 20) /* torch's, with its license, is 60 kB */
#define METADATA_FILES 100               /* for the packages that rules know */

static const struct node *block_value(const struct document *document, const char *key)
{
    const struct entry *block = document_find(document, "trainspool");
    const struct entry *entry = block ? node_find(node_value(block->value), key) : NULL;

    return entry ? node_value(entry->value) : NULL;
}

static void bind_given(const struct node *map, struct versions *out)
{
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++) {
        const struct node *value = node_value(map->entries[i].value);
        enum package package = package_find(map->entries[i].key->text);

        if (package < PACKAGES && value->kind == NODE_SCALAR && !node_is_null(value) &&
            version_read(value->text, &out->packages[package].version))
            out->packages[package].given = value->text;
    }
}

/* Return the line that names the environment; in a map, the first of two variables. */
static const struct entry *find_folder(const struct document *document)
{
    static const char *const names[] = { "VIRTUAL_ENV", "CONDA_PREFIX" };
    const struct entry *block = document_find(document, "trainspool"), *found;
    const struct entry *entry = block ? node_find(node_value(block->value), "env") : NULL;
    const struct node *value = entry ? node_value(entry->value) : NULL;

    if (!value || value->kind == NODE_SCALAR)
        return entry;
    for (size_t i = 0; i < TS_COUNT(names); i++)
        if ((found = node_find(value, names[i])))
            return found;
    return NULL;
}

void environment_bind(const struct document *document, const char *dir,
                      struct arena *arena, struct versions *out)
{
    const struct entry *where = find_folder(document);
    const struct node *value = where ? node_value(where->value) : NULL;
    char *joined;

    *out = (struct versions) { 0 };
    bind_given(block_value(document, "versions"), out);
    if (!value || value->kind != NODE_SCALAR || value->len == 0 || node_is_null(value))
        return;
    joined = path_join(dir ? dir : ".", value->text);
    out->where = where;
    out->folder = arena_strdup(arena, joined);
    free(joined);
}

struct scan {
    struct arena *arena;
    struct versions *out;
    size_t entries;  /* scanned, in all folders */
    size_t projects; /* metadata folders */
    size_t files;    /* metadata files read */
};

/* Return the value of a METADATA header; the headers end at the first empty line. */
static const char *find_header(const struct text *metadata, const char *name,
                               struct arena *arena)
{
    const char *line = metadata->data, *end;
    size_t len = strlen(name);

    for (; *line && *line != '\n' && *line != '\r'; line = end + (*end == '\n')) {
        end = line + strcspn(line, "\n");
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            const char *value = line + len + 1;

            value += strspn(value, " \t");
            return arena_copy(arena, value, strcspn(value, " \t\r\n"));
        }
    }
    return NULL;
}

/* If a package is installed twice, as after an interrupted upgrade, use the later one. */
static void take_version(struct scan *scan, enum package package, const char *text)
{
    struct package_version *known = &scan->out->packages[package];
    struct version version, before;

    if (!version_read(text, &version) ||
        (known->found && version_read(known->found, &before) &&
         version_compare(&version, &before) <= 0))
        return;
    known->found = text;
    if (!known->given)
        known->version = version;
}

static void read_metadata(struct scan *scan, enum package package, const char *path)
{
    struct error ignored = { 0 };
    const char *name, *version;
    struct text metadata;

    text_init(&metadata, METADATA_MAX);
    if (file_read(path, METADATA_MAX, &metadata, NULL, &ignored)) {
        name = find_header(&metadata, "Name", scan->arena);
        version = find_header(&metadata, "Version", scan->arena);
        if (name && version && package_find(name) == package)
            take_version(scan, package, version);
    }
    text_clear(&metadata);
    error_clear(&ignored);
}

/* "torch-2.4.0+cu121.dist-info": the name contains no dash. */
static void scan_project(struct scan *scan, const char *dir, const char *entry)
{
    bool dist = text_ends(entry, ".dist-info");
    enum package package;
    char *name, *folder, *file;

    if (!dist && !text_ends(entry, ".egg-info"))
        return;
    scan->projects++;
    name = memory_strdup(entry);
    name[strcspn(name, "-")] = 0;
    package = package_find(name);
    free(name);
    if (package == PACKAGES || scan->files++ >= METADATA_FILES)
        return;
    folder = path_join(dir, entry);
    file = path_join(folder, dist ? "METADATA" : "PKG-INFO");
    read_metadata(scan, package, file_is_dir(folder) ? file : folder);
    free(file);
    free(folder);
}

static bool scan_folder(struct scan *scan, const char *path)
{
    DIR *dir = file_open_dir(path);
    struct dirent *entry;

    if (!dir)
        return false;
    while (scan->entries < ENVIRONMENT_MAX_ENTRIES && (entry = file_next(dir, path))) {
        scan->entries++;
        scan_project(scan, path, entry->d_name);
    }
    closedir(dir);
    return true;
}

/* root/lib/python3.11/site-packages; Debian installs its packages in dist-packages. */
static void scan_pythons(struct scan *scan, const char *lib)
{
    static const char *const inner[] = { "site-packages", "dist-packages" };
    DIR *dir = file_open_dir(lib);
    struct dirent *entry;

    while (dir && scan->entries < ENVIRONMENT_MAX_ENTRIES &&
           (entry = file_next(dir, lib))) {
        scan->entries++;
        if (!text_starts(entry->d_name, "python3"))
            continue;
        for (size_t i = 0; i < TS_COUNT(inner); i++) {
            char *python = path_join(lib, entry->d_name);
            char *packages = path_join(python, inner[i]);

            scan_folder(scan, packages);
            free(packages);
            free(python);
        }
    }
    if (dir)
        closedir(dir);
}

static void scan_root(struct scan *scan, const char *root)
{
    char *lib = path_join(root, "lib"), *windows = path_join(root, "Lib/site-packages");

    scan_pythons(scan, lib);
    if (scan->projects == 0)
        scan_folder(scan, windows);
    free(windows);
    free(lib);
}

void environment_read(struct arena *arena, struct versions *out)
{
    struct scan scan = { .arena = arena, .out = out };

    if (!file_exists(out->folder)) {
        out->trouble = "does not exist";
        return;
    }
    if (!scan_folder(&scan, out->folder)) {
        out->trouble = arena_printf(arena, "cannot be read: %s", strerror(errno));
        return;
    }
    if (scan.projects == 0)
        scan_root(&scan, out->folder);
    if (scan.entries >= ENVIRONMENT_MAX_ENTRIES)
        out->trouble = arena_printf(arena,
                                    "contains more than %d entries and was not read to "
                                    "the end",
                                    ENVIRONMENT_MAX_ENTRIES);
    else if (scan.projects == 0)
        out->trouble = "contains no Python packages: neither *.dist-info folders nor "
                       "lib/python3.*/site-packages";
}
