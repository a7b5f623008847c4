/* patcher/import/import.c - recognize the tool of a file, call its reader, and report
 * unknown keys. */
#include "config.h"

#include "patcher/import/import.h"

#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "patcher/import/import_internal.h"
#include "patcher/script/script.h"

/* The supported tools. */
static const struct tool {
    enum dialect dialect;
    const char *name;
    bool (*read)(struct importing *im);
    const char *unknown; /* reason reported for keys that no table has */
} tools[] = {
    { DIALECT_AXOLOTL, "Axolotl", import_axolotl,
      "unknown key; Axolotl ignores unknown keys" },
    { DIALECT_TORCHTUNE, "torchtune", import_torchtune,
      "unknown key; torchtune ignores keys that its recipe does not read" },
    { DIALECT_V1, "LLaMA-Factory v1", import_v1,
      "unknown key; LLaMA-Factory v1 stops at unknown keys" },
};

static const struct tool *tool_of(enum dialect dialect)
{
    for (size_t i = 0; i < TS_COUNT(tools); i++)
        if (tools[i].dialect == dialect)
            return &tools[i];
    return NULL;
}

static bool open_source(const char *file, const struct document *document,
                        struct error *err)
{
    const struct document_remark *remark = &document->remarks[0];

    return document->remark_count == 0 ||
           error_at(err, ERROR_DATA, file, remark->at, "%s", remark->text);
}

/* A script has no dialect: its name says what it is. */
static bool read_script(struct importing *im, const char *data, size_t len,
                        struct document *document, struct import *out)
{
    const struct script_source source = { .name = im->file };

    script_read(&source, data, len, im->arena, document);
    if (!document->root)
        return open_source(im->file, document, im->err);
    im->source = document;
    im->tool = out->tool = "Python";
    if (!import_script(im) || import_failed(im))
        return false;
    import_write(im, &out->text);
    out->key_count = import_keys(im, &out->keys);
    return true;
}

static bool refuse_dialect(const char *file, enum dialect dialect,
                           const struct entry *marker, struct arena *arena,
                           struct error *err)
{
    struct mark at = marker ? marker->key->at : (struct mark) { 0 };

    if (dialect == DIALECT_NATIVE)
        return error_at(
            err, ERROR_DATA, file, at,
            "this is already a job; run trainspool check to find problems in it");
    return error_at(err, ERROR_DATA, file, at, "%s",
                    dialect_sentence(dialect, marker, arena));
}

bool import_read(const char *file, const char *data, size_t len, struct arena *arena,
                 struct import *out, struct error *err)
{
    struct importing im = { .arena = arena, .file = file, .err = err };
    struct document document;
    const struct entry *marker = NULL;
    const struct tool *tool;
    enum dialect dialect;

    *out = (struct import) { 0 };
    text_init(&out->text, 0);
    if (script_is_name(file))
        return read_script(&im, data, len, &document, out);
    document_read(data, len, arena, &document);
    if (!open_source(file, &document, err))
        return false;
    dialect = dialect_find(&document, &marker);
    tool = tool_of(dialect);
    if (!tool)
        return refuse_dialect(file, dialect, marker, arena, err);
    im.source = &document;
    im.tool = out->tool = tool->name;
    if (!tool->read(&im) || import_failed(&im))
        return false;
    import_mark_rest_unknown(&im, tool->unknown);
    import_write(&im, &out->text);
    out->key_count = import_keys(&im, &out->keys);
    return true;
}

void import_clear(struct import *import)
{
    text_clear(&import->text);
}
