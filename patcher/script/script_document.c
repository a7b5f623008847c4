/* patcher/script/script_document.c - the calls of a script as the rows of a job. */
#include "config.h"

#include "patcher/script/script_rows.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"

/* ---- What is trained ---- */

/* Return the n-th call of a role, or NULL. */
static const struct syntax *find_call(struct script *script, enum script_role role,
                                      size_t nth)
{
    for (size_t i = 0; i < script->call_count; i++) {
        const struct script_class *row = script_class_of(script, script->calls[i]);

        if (row && row->role == role && nth-- == 0)
            return script->calls[i];
    }
    return NULL;
}

/* Return the call that a value is the result of, if it has this role, or NULL. */
static const struct syntax *call_of(const struct script *script,
                                    struct script_value value, enum script_role role)
{
    const struct script_class *row =
        value.kind == SCRIPT_CALL ? script_class_of(script, value.node) : NULL;

    return row && row->role == role ? value.node : NULL;
}

static const struct syntax *find_arguments(struct script *script,
                                           const struct syntax *trainer)
{
    const struct syntax *found =
        trainer ? call_of(script, script_argument_value(script, trainer, "args", 1),
                          ROLE_ARGUMENTS)
                : NULL;

    return found ? found : find_call(script, ROLE_ARGUMENTS, 0);
}

/* Return the model in `model.parameters()`, in `list(model.parameters())`, or in a
 * generator over them; NULL: none. */
static const struct syntax *owner_of_parameters(const struct script *script,
                                                const struct syntax *node)
{
    for (const struct syntax *in = node; in; in = syntax_next(in, node)) {
        const struct syntax *function =
            in->kind == SYNTAX_CALL ? syntax_field(in, "function") : NULL;
        const struct syntax *method =
            function ? syntax_field(function, "attribute") : NULL;

        if (method && (syntax_is(&script->tree, method, "parameters") ||
                       syntax_is(&script->tree, method, "named_parameters")))
            return syntax_field(function, "object");
    }
    return NULL;
}

static bool is_teacher(const struct script *script, const struct syntax *load)
{
    static const char *const words[] = { "teacher", "ref", "reward", "judge", "draft" };
    const struct syntax *statement =
        syntax_around(load, SYNTAX_ASSIGNMENT, SYNTAX_ASSIGNMENT);
    const char *name =
        statement ? syntax_dotted(&script->tree, syntax_field(statement, "left")) : NULL;

    for (size_t i = 0; name && i < TS_COUNT(words); i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

/* The only model of the script that is not a teacher. */
static const struct syntax *only_load(struct script *script)
{
    const struct syntax *found = NULL, *load;

    for (size_t i = 0; (load = find_call(script, ROLE_MODEL, i)); i++) {
        if (is_teacher(script, load) || strstr(script_callee(script, load), "PeftModel"))
            continue;
        if (found)
            return NULL;
        found = load;
    }
    return found;
}

static void find_model(struct script *script, const struct syntax *trainer,
                       struct script_model *out)
{
    const struct syntax *optimizer = find_call(script, ROLE_OPTIMIZER, 0);
    const struct syntax *adapt = find_call(script, ROLE_ADAPTED, 0), *node = NULL;
    struct script_argument argument;
    size_t before = script->tree.len;

    if (trainer && script_argument_find(script, trainer, "model", 0, &argument))
        node = argument.value;
    else if (optimizer && script_argument_find(script, optimizer, "params", 0, &argument))
        node = owner_of_parameters(script, argument.value);
    if (!node && adapt)
        node = adapt;
    *out = (struct script_model) { 0 };
    if (node)
        script_model_trace(script, node, out);
    if (!out->adapt && adapt)
        out->adapt = adapt;
    if (!out->load)
        out->load = only_load(script);
    if (trainer)
        before = trainer->at;
    script_model_casts(script, before, out);
}

/* ---- Parts of the job ---- */

/* `args.fp16 = True` after `args = TrainingArguments(...)` */
static void take_attributes(struct script_rows *to, const struct syntax *call)
{
    struct script *script = to->script;
    const struct syntax *parent = call->parent;
    const char *name = parent && parent->kind == SYNTAX_ASSIGNMENT
                           ? syntax_dotted(&script->tree, syntax_field(parent, "left"))
                           : NULL;
    const char *prefix = name ? arena_printf(script->arena, "%s.", name) : NULL;

    for (size_t i = 0; prefix && i < script->binding_count; i++) {
        const struct binding *binding = &script->bindings[i];
        const char *field = binding->name + strlen(prefix);

        if (!text_starts(binding->name, prefix) || strpbrk(field, ".[") ||
            !binding->value || binding->at->at < call->end)
            continue;
        script_rows_take(to, &(struct script_argument) { .name = field,
                                                         .value = binding->value,
                                                         .written = binding->value,
                                                         .holder = call });
    }
}

static void add_model(struct script_rows *to, const struct script_model *model)
{
    struct script *script = to->script;
    const struct syntax *quantization;

    if (model->load) {
        script_rows_take_call(to, model->load);
        quantization = call_of(
            script, script_argument_value(script, model->load, "quantization_config", -1),
            ROLE_QUANTIZATION);
        script->facts.quantizes = quantization;
        if (quantization)
            script_rows_take_call(to, quantization);
    }
    if (!model->cast)
        return;
    script_rows_remove(to, "torch_dtype"); /* one format counts: the last */
    script_rows_remove(to, "dtype");
    script_rows_add(
        to, script_rows_node(script, model->cast_at, NODE_SCALAR, "model_dtype"),
        script_rows_node(script, model->cast_at, NODE_SCALAR, model->cast_dtype),
        &(struct script_item) { model->cast, model->cast_at, model->cast_at });
}

/* SFTTrainer(model="name", args=SFTConfig(model_init_kwargs={...})) loads the model
 * itself. */
static void add_named_model(struct script_rows *to, const struct syntax *trainer,
                            const struct syntax *arguments)
{
    static const struct script_class model = {
        "from_pretrained", ROLE_MODEL, false, NULL, NULL, NULL
    };
    struct script *script = to->script;
    struct script_argument argument;
    struct script_value value;

    if (!trainer || !script_argument_find(script, trainer, "model", 0, &argument))
        return;
    value = script_evaluate(script, argument.value);
    if (value.kind != SCRIPT_STRING)
        return;
    script_rows_add_argument(to, "model_name_or_path", &argument);
    script->facts.names_model = true;
    if (!arguments)
        return;
    value = script_argument_value(script, arguments, "model_init_kwargs", -1);
    if (value.kind != SCRIPT_DICT)
        return;
    to->row = &model;
    script_members(script, value.node, script_rows_take, to);
}

static void add_adapter(struct script_rows *to, const struct script_model *model,
                        const struct syntax *trainer, bool of_trl)
{
    struct script *script = to->script;
    const struct syntax *adapter = NULL, *at = model->adapt, *where;
    struct script_argument given;

    if (model->adapt)
        adapter =
            call_of(script, script_argument_value(script, model->adapt, "peft_config", 1),
                    ROLE_ADAPTER);
    if (!adapter && trainer)
        adapter =
            call_of(script, script_argument_value(script, trainer, "peft_config", -1),
                    ROLE_ADAPTER);
    if (!at && trainer &&
        script_argument_find(script, trainer, "peft_config", -1, &given) &&
        given.value->kind != SYNTAX_NONE)
        at = given.value;
    if (!adapter && !at)
        for (size_t i = 0; i < script->call_count && !at; i++) {
            const char *path = script_callee(script, script->calls[i]);

            if (path && strcmp(script_last(path), "add_adapter") == 0)
                at = script->calls[i];
        }
    if (!adapter && at)
        adapter = find_call(script, ROLE_ADAPTER, 0);
    if (!adapter && !at)
        return;
    where = syntax_field(adapter ? adapter : at, "function");
    script_rows_add_fact(to, "finetuning_type", "lora", where ? where : at);
    if (of_trl)
        script_rows_add_fact(to, "use_peft", "true", where ? where : at);
    if (model->adapt) {
        static const struct script_class whole = { "",   ROLE_ADAPTER, false,
                                                   NULL, NULL,         NULL };

        script_rows_take_call(to, model->adapt);
        to->row = &whole; /* Unsloth's get_peft_model takes them directly */
        script_arguments(script, model->adapt, script_rows_take, to);
    }
    if (adapter)
        script_rows_take_call(to, adapter);
    if (model->cast_after_adapt && strcmp(model->cast_dtype, "float16") == 0)
        script_rows_add_fact(to, "autocast_adapter_dtype", "false", model->cast_at);
}

/* "fp16", "16-mixed": the format that Accelerate and Lightning compute in. */
static void add_mixed(struct script_rows *to, const struct syntax *call, const char *name,
                      int position)
{
    static const struct {
        const char *value, *key;
    } formats[] = {
        { "fp16", "fp16" },       { "bf16", "bf16" }, { "16-mixed", "fp16" },
        { "bf16-mixed", "bf16" }, { "16", "fp16" },
    };
    struct script *script = to->script;
    struct script_argument argument;
    struct script_value value;
    const char *text;

    if (!script_argument_find(script, call, name, position, &argument))
        return;
    value = script_evaluate(script, argument.value);
    text = script_yaml(script, &value);
    for (size_t i = 0; text && i < TS_COUNT(formats); i++)
        if (strcmp(formats[i].value, text) == 0)
            script_rows_add_fact(to, formats[i].key, "true", argument.value);
    if (text && strcmp(text, "16-true") == 0)
        script_rows_add_fact(to, "model_dtype", "float16", argument.value);
    if (text && strcmp(text, "bf16-true") == 0)
        script_rows_add_fact(to, "pure_bf16", "true", argument.value);
}

/* Return whether `enabled=` is absent or true, as far as is known. */
static bool is_enabled(struct script *script, const struct syntax *call)
{
    struct script_value value = script_argument_value(script, call, "enabled", -1);

    return script_truth(&value) != 0;
}

/* Whether a learning rate is usual is known for Adam on a pretrained model only. */
static void add_optimizer(struct script_rows *to, const struct script_model *model)
{
    const struct syntax *call = find_call(to->script, ROLE_OPTIMIZER, 0);

    if (call && model->load && strstr(script_callee(to->script, call), "Adam"))
        script_rows_take_call(to, call);
}

static void add_loop(struct script_rows *to, const struct script_model *model)
{
    struct script *script = to->script;
    const struct syntax *scaler = find_call(script, ROLE_SCALER, 0);
    const struct syntax *call, *function;

    for (size_t i = 0; (call = find_call(script, ROLE_AUTOCAST, i)); i++) {
        struct script_value dtype = script_argument_value(script, call, "dtype", -1);

        if (dtype.kind == SCRIPT_DTYPE && strcmp(dtype.text, "bfloat16") == 0 &&
            is_enabled(script, call))
            script_rows_add_fact(to, "bf16", "true", dtype.node);
    }
    function = scaler ? syntax_field(scaler, "function") : NULL;
    if (function && is_enabled(script, scaler))
        script_rows_add_fact(to, "fp16", "true", function);
    if ((call = find_call(script, ROLE_ACCELERATOR, 0))) {
        add_mixed(to, call, "mixed_precision", 2);
        script_rows_take_call(to, call);
    }
    if ((call = find_call(script, ROLE_LIGHTNING, 0))) {
        add_mixed(to, call, "precision", -1);
        script_rows_take_call(to, call);
    }
    if ((call = find_call(script, ROLE_CLIP, 0)) &&
        strcmp(script_last(script_callee(script, call)), "clip_grad_value_") != 0)
        script_rows_take_call(to, call);
    add_optimizer(to, model);
}

/* Unsloth replaces TRL's classes by its own, which choose the format by the model and the
 * card (unsloth/models/rl.py). */
static bool imports_unsloth(const struct script *script)
{
    for (size_t i = 0; i < script->import_count; i++)
        if (text_starts(script->imports[i].path, "unsloth"))
            return true;
    return false;
}

/* Return the class whose defaults apply: that of the arguments or, if the trainer is
 * passed none, TRL's for the trainer: sft_trainer.py, `args = SFTConfig(...)`.  NULL: none
 * is known. */
static const struct script_class *find_trainer_row(struct script *script,
                                                   const struct syntax *trainer,
                                                   const struct syntax *arguments)
{
    static const struct script_class external = { "",   ROLE_ARGUMENTS, false,
                                                  NULL, NULL,           NULL };
    const struct script_class *row = NULL;
    struct script_argument given;

    if (arguments)
        row = script_class_of(script, arguments);
    else if (trainer && (!script_argument_find(script, trainer, "args", 1, &given) ||
                         syntax_plain(given.value)->kind == SYNTAX_NONE))
        row = script_class_of_trainer(script, trainer);
    return row && row->program && imports_unsloth(script) ? &external : row;
}

static struct entry fixed_entry(struct script *script, const char *name, const char *text,
                                const struct syntax *at)
{
    struct node *value = script_rows_node(script, at, NODE_SCALAR, text);

    value->edit = NODE_FIXED;
    return (struct entry) { script_rows_node(script, at, NODE_SCALAR, name), value,
                            false };
}

/* The block `trainspool: {target: ...}`: whose arguments they are, which decides about
 * defaults and names.  A script has `program` in place of a command. */
static void add_block(struct script_rows *to, const struct script_class *row)
{
    struct script *script = to->script;
    const struct syntax start = { .at = script->document->positions.origin,
                                  .end = script->document->positions.origin };
    struct node *block = script_rows_node(script, &start, NODE_MAP, "");

    block->edit = NODE_FIXED;
    block->entries = arena_array(script->arena, 2, sizeof(*block->entries));
    block->entries[block->count++] = fixed_entry(
        script, "target", row && row->target ? row->target : "external", &start);
    if (row && row->program)
        block->entries[block->count++] =
            fixed_entry(script, "program", row->program, &start);
    script_rows_add(to, script_rows_node(script, &start, NODE_SCALAR, "trainspool"),
                    block, &(struct script_item) { 0 });
}

/* The data of an evaluation, unless the class of transformers or TRL clearly has none. */
static void add_evaluation(struct script_rows *to, const struct syntax *trainer)
{
    struct script *script = to->script;
    const char *path = script_callee(script, trainer);
    bool known = text_starts(path, "transformers.") || text_starts(path, "trl.");
    const struct syntax *list = syntax_field(trainer, "arguments"), *star = NULL;
    struct script_argument argument;

    for (star = list ? list->first : NULL; star && star->kind != SYNTAX_DOUBLE_STAR;)
        star = star->next;
    if (!known || star ||
        script_argument_find(script, trainer, "eval_dataset", -1, &argument))
        script_rows_add_fact(to, "eval_dataset", "given",
                             syntax_field(trainer, "function"));
}

static void note_tokenizer(struct script *script, const struct syntax *trainer)
{
    struct script_argument argument;
    const char *last = script_last(script_callee(script, trainer));
    const struct syntax *name;

    if (!script_argument_find(script, trainer, "tokenizer", -1, &argument))
        return;
    name = script_argument_keyword(&argument);
    script->facts.tokenizer_at = name->at;
    script->facts.tokenizer_bytes = name->end - name->at;
    script->facts.tokenizer_of_transformers =
        strcmp(last, "Trainer") == 0 || strcmp(last, "Seq2SeqTrainer") == 0;
}

static const char *argument_text(struct script *script, const struct syntax *call,
                                 const char *name, int position)
{
    struct script_value value = script_argument_value(script, call, name, position);

    if (value.kind == SCRIPT_LIST && !value.text)
        return script_list_text(script, value.node);
    return value.kind == SCRIPT_STRING ? value.text : NULL;
}

/* `datasets.load_dataset(path, name, data_files=..., split=...)` */
static void note_data(struct script *script)
{
    struct script_facts *facts = &script->facts;

    for (size_t i = 0; i < script->call_count; i++) {
        const struct syntax *call = script->calls[i];
        const char *path = script_callee(script, call);

        if (!path || strcmp(script_last(path), "load_dataset") != 0)
            continue;
        facts->data_path = argument_text(script, call, "path", 0);
        facts->data_name = argument_text(script, call, "name", 1);
        facts->data_files = argument_text(script, call, "data_files", -1);
        facts->data_split = argument_text(script, call, "split", -1);
        return;
    }
}

/* Return `X` of `X.from_pretrained`. */
static const char *class_of(const struct script *script, const struct syntax *load)
{
    const char *path = script_callee(script, load);
    size_t len = strlen(path) - strlen(script_last(path));

    return len > 0 ? script_last(arena_copy(script->arena, path, len - 1)) : path;
}

/* Return an argument that is a number, or NULL. */
static const char *number_argument(struct script *script, const struct syntax *call,
                                   const char *name, int position)
{
    struct script_value value = script_argument_value(script, call, name, position);

    return value.kind == SCRIPT_NUMBER ? script_yaml(script, &value) : NULL;
}

/* Return the name of a reward, or of the function that makes it. */
static const char *reward_name(struct script *script, const struct syntax *node)
{
    const struct script_value value = script_evaluate(script, node);
    const struct syntax *plain =
        value.kind == SCRIPT_CALL ? value.node : syntax_plain(node);
    const char *name = plain->kind == SYNTAX_CALL ? script_callee(script, plain)
                                                  : script_path(script, plain);

    if (value.kind == SCRIPT_STRING)
        return value.text; /* a model */
    if (name && plain->kind == SYNTAX_CALL &&
        strcmp(script_last(name), "get_soft_overlong_punishment") == 0) {
        script->facts.punish_length =
            number_argument(script, plain, "max_completion_len", 0);
        script->facts.punish_cache =
            number_argument(script, plain, "soft_punish_cache", 1);
    }
    return name ? name : "?";
}

static void note_rewards(struct script *script, const struct syntax *trainer)
{
    struct script_argument argument;
    struct script_value value;
    const char *list = NULL;

    if (!script_argument_find(script, trainer, "reward_funcs", 1, &argument))
        return;
    value = script_evaluate(script, argument.value);
    if (value.kind != SCRIPT_LIST || value.text) {
        script->facts.rewards = reward_name(script, argument.value);
        return;
    }
    for (const struct syntax *each = value.node->first; each; each = each->next)
        list = arena_printf(script->arena, "%s%s%s", list ? list : "", list ? "," : "",
                            reward_name(script, each));
    script->facts.rewards = list;
}

static void note_classes(struct script *script, const struct script_model *model,
                         const struct syntax *trainer, const struct syntax *arguments)
{
    struct script_facts *facts = &script->facts;

    if (model->load)
        facts->model_class = class_of(script, model->load);
    if (trainer) {
        facts->trainer_class = script_last(script_callee(script, trainer));
        note_rewards(script, trainer);
    }
    if (arguments) {
        struct script_value off =
            script_argument_value(script, arguments, "disable_dropout", -1);

        facts->arguments_class = script_last(script_callee(script, arguments));
        facts->keeps_dropout = off.kind == SCRIPT_BOOL && !off.boolean;
    }
}

/* Return whether a script does more than load a model, as one that only generates or that
 * another file imports does. */
static bool is_training(struct script *script)
{
    static const enum script_role roles[] = {
        ROLE_TRAINER,     ROLE_ARGUMENTS, ROLE_OPTIMIZER, ROLE_SCALER,  ROLE_AUTOCAST,
        ROLE_ACCELERATOR, ROLE_LIGHTNING, ROLE_ADAPTED,   ROLE_ADAPTER, ROLE_CLIP
    };

    for (size_t i = 0; i < TS_COUNT(roles); i++)
        if (find_call(script, roles[i], 0))
            return true;
    for (size_t i = 0; i < script->call_count; i++) {
        const char *path = script_callee(script, script->calls[i]);
        const struct syntax *function = syntax_field(script->calls[i], "function");
        const struct syntax *method = syntax_field(function, "attribute");

        if ((method && syntax_is(&script->tree, method, "backward")) ||
            (path && strcmp(script_last(path), "add_adapter") == 0))
            return true;
    }
    return false;
}

void script_document(struct script *script)
{
    const struct syntax *trainer = find_call(script, ROLE_TRAINER, 0), *arguments;
    struct script_rows to;
    struct script_model model;
    const struct script_class *row = NULL;

    script_rows_init(&to, script);
    arguments = find_arguments(script, trainer);
    find_model(script, trainer, &model);
    note_data(script);
    note_classes(script, &model, trainer, arguments);
    add_model(&to, &model);
    if (!model.load)
        add_named_model(&to, trainer, arguments);
    row = find_trainer_row(script, trainer, arguments);
    add_adapter(&to, &model, trainer, row && row->program);
    if (arguments) {
        const struct script_class *class = script_class_of(script, arguments);

        if (class->stage)
            script_rows_add_fact(&to, "stage", class->stage,
                                 syntax_field(arguments, "function"));
        script_rows_take_call(&to, arguments);
        take_attributes(&to, arguments);
    } else if (!row) {
        script->facts.is_loop = true;
        add_loop(&to, &model);
    }
    if (trainer) {
        add_evaluation(&to, trainer);
        note_tokenizer(script, trainer);
        script_rows_take_call(&to, trainer);
    } else if (arguments) {
        script_rows_add_fact(&to, "eval_dataset", "given",
                             syntax_field(arguments, "function"));
    }
    if (is_training(script)) {
        add_block(&to, row);
        script->document->root = to.root;
    }
}
