/* runner/options/program.c - parses --versions. */
#include "config.h"

#include "runner/options/program.h"

#include <string.h>

static bool add_version(struct program *program, const char *word, struct error *err)
{
    const char *equals = strchr(word, '='), *version, *near;
    struct package_version *known;
    enum package package;
    char *name;

    if (!equals || equals == word)
        return error_set(err, ERROR_USAGE,
                         "--versions must be PACKAGE=VERSION, such as trl=0.26, not %s",
                         word);
    name = arena_copy(program->arena, word, (size_t)(equals - word));
    version = equals + 1 + (equals[1] == '=');
    package = package_find(name);
    if (package == PACKAGES) {
        near = package_nearest(name);
        return error_set(
            err, ERROR_USAGE, "--versions: no rule checks the version of %s%s%s%s", name,
            near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    known = &program->storage.packages[package];
    if (!version_read(version, &known->version))
        return error_set(err, ERROR_USAGE,
                         "--versions: %s must be one version, such as 2.4.0 or 5.0.0rc1, "
                         "not %s",
                         name, version);
    known->given = version;
    program->versions = &program->storage;
    return true;
}

bool program_read(const struct options *options, struct program *out, struct error *err)
{
    *out = (struct program) { .arena = arena_new(), .target = options->target };
    for (const char *const *given = options->versions; given && *given; given++)
        for (const char *at = *given; *(at += strspn(at, ", "));) {
            size_t len = strcspn(at, ", ");

            if (!add_version(out, arena_copy(out->arena, at, len), err))
                return false;
            at += len;
        }
    return true;
}

void program_clear(struct program *program)
{
    if (program->arena)
        arena_free(program->arena);
    *program = (struct program) { 0 };
}
