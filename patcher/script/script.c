/* patcher/script/script.c - a script -> a document. */
#include "config.h"

#include "patcher/script/script.h"

#include <string.h>

#include "base/text.h"
#include "patcher/document/document_internal.h"
#include "patcher/script/script_internal.h"
#include "patcher/script/script_rewrite.h"

/* Evaluations of one script; ordinary ones take a few thousand. */
#define BUDGET 400000

static bool is_notebook(const char *job)
{
    return text_ends(job, ".ipynb");
}

bool script_is_name(const char *job)
{
    return is_notebook(job) || (text_ends(job, ".py") && strlen(job) > strlen(".py"));
}

bool script_supported(void)
{
    return script_tree_supported;
}

static void report_fault(struct document *document, enum script_fault fault, size_t at)
{
    switch (fault) {
    case SCRIPT_UNSUPPORTED:
        document_report(document, DOCUMENT_LIMIT, at, 0,
                        "this build cannot read Python scripts: it was configured "
                        "without tree-sitter's grammar of Python, which "
                        "./install-deps.sh installs");
        break;
    case SCRIPT_LIMIT:
        document_report(document, DOCUMENT_LIMIT, at, 0,
                        "the script is too deep or too long to be read");
        break;
    default:
        document_report(document, DOCUMENT_SYNTAX, at, 0,
                        "cannot read the script: the syntax here is not Python");
        break;
    }
}

static void read_script(struct script *script)
{
    enum script_fault fault;
    struct document *document = script->document;
    size_t at;

    fault = script_tree_read(document->data, document->len, script->arena, &script->tree,
                             &at);
    if (fault != SCRIPT_OK) {
        report_fault(document, fault, at);
        return;
    }
    document->comments = script->tree.comments;
    document->comment_count = script->tree.comment_count;
    script_names_read(script);
    script_document(script);
    if (!document->root) {
        document_report(document, DOCUMENT_LIMIT, document->positions.origin, 0,
                        "the script has no call that configures a training, such as "
                        "TrainingArguments, get_peft_model or GradScaler");
        return;
    }
    script_loop(script);
}

void script_read(const struct script_source *source, const char *data, size_t len,
                 struct arena *arena, struct document *out)
{
    struct script *script = arena_alloc(arena, sizeof(*script));

    *script = (struct script) {
        .device = source->device, .arena = arena, .document = out, .budget = BUDGET
    };
    if (!document_open(data, len, arena, out))
        return;
    out->script = script;
    out->rewriter = &script_rewriter;
    out->unicode_breaks = false; /* not line ends in Python */
    if (is_notebook(source->name))
        document_report(out, DOCUMENT_SYNTAX, out->positions.origin, 0,
                        "a notebook is not supported: save its cells as a script first, "
                        "with jupyter nbconvert --to script");
    else
        read_script(script);
}

const struct script_facts *script_facts_of(const struct document *document)
{
    static const struct script_facts none = { 0 };

    return document->script ? &document->script->facts : &none;
}
