/* runner/generation/generation.c - generates completions of prompts and prints them. */
#include "config.h"

#include "runner/generation/generation.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "base/stop.h"
#include "runner/generation/generation_internal.h"
#include "runner/job/containment.h"
#include "train/chat/chat.h"
#include "train/generation/prompt.h"
#include "train/job_config.h"
#include "train/model/cross_layers.h"
#include "train/model/vocabulary_growth.h"
#include "train/model/shapes.h"

enum { LINE_MAX_BYTES = 1 << 20, SEQUENCES_MAX = 1 << 30 };

/* ---- Prompts ---- */

static bool read_lines(struct generator *g, struct error *err)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t len;

    while ((len = getline(&line, &room, stdin)) >= 0) {
        while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
            len--;
        if (len > LINE_MAX_BYTES || !text_is_utf8(line, (size_t)len, NULL)) {
            error_set(err, ERROR_DATA, "standard input: line %zu is %s",
                      g->questions.count + 1,
                      len > LINE_MAX_BYTES ? "too long" : "not UTF-8");
            break;
        }
        eval_prompts_add(&g->questions, line, (size_t)len);
    }
    free(line);
    return err->code == ERROR_NONE;
}

/* A file on the command line is relative to here, one in a job to the job's folder. */
static bool read_file(struct generator *g, const char *name, struct error *err)
{
    struct plan plan = g->target.plan;

    plan.dir = ".";
    plan.max_samples = 0;
    return eval_prompts_read(&g->questions, &plan, name, err);
}

static bool read_dataset(struct generator *g, struct error *err)
{
    const struct plan *plan = &g->target.plan;

    if (!plan->dataset)
        return error_set(err, ERROR_JOB, "the job names no dataset; give --prompts");
    if (g->options->keep_correct && plan->val_size > 0)
        return error_set(err, ERROR_JOB,
                         "val_size reserves a part of the dataset for evaluation, which "
                         "must not be trained on; give the prompts with --prompts FILE");
    return eval_prompts_read(&g->questions, plan, plan->dataset, err);
}

static bool read_questions(struct generator *g, struct error *err)
{
    const char *file = g->options->prompts;
    const char *const *texts = g->options->prompt;
    bool ok = true;

    for (size_t i = 0; texts && texts[i]; i++)
        eval_prompts_add(&g->questions, texts[i], strlen(texts[i]));
    if (file && strcmp(file, "-") != 0)
        ok = read_file(g, file, err);
    else if (file || (!texts && !g->target.is_job))
        ok = read_lines(g, err);
    else if (!texts)
        ok = read_dataset(g, err);
    if (ok && g->questions.count == 0)
        return error_set(err, ERROR_USAGE, "there is nothing to complete; give --prompt");
    return ok;
}

/* ---- Settings ---- */

static bool no_template(const char *name, struct error *err)
{
    struct text names;

    text_init(&names, 0);
    for (size_t i = 0; template_name(i); i++)
        text_addf(&names, "%s%s", i > 0 ? ", " : "", template_name(i));
    error_set(err, ERROR_USAGE, "there is no template \"%s\"; the templates are %s", name,
              names.data);
    text_clear(&names);
    return false;
}

/* Choose the template that a job was trained with. A folder whose tokenizer lacks a
 * template's tokens is treated as a model that continues a text. */
static bool find_template(struct generator *g, struct error *err)
{
    const struct plan *plan = &g->target.plan;
    const char *name =
        g->options->template_name ? g->options->template_name : plan->template_name;

    if (g->options->raw ||
        (g->target.is_job && plan->stage == STAGE_PT && !g->options->template_name))
        return true;
    g->chat = name ? template_find(name) : template_guess(g->tokenizer);
    if (!g->chat)
        return no_template(name, err);
    if (!name && !g->target.is_job && g->chat == template_find("default"))
        g->chat = NULL;
    return true;
}

/* Apply the command line over the job's settings. */
static void apply_options(struct generator *g)
{
    const struct options *options = g->options;
    struct plan *plan = &g->target.plan;
    struct generation *how = &plan->generation;

    if (options->max_new_tokens >= 0)
        how->max_new_tokens = options->max_new_tokens;
    if (options->temperature >= 0) {
        how->do_sample = options->temperature > 0;
        how->temperature = options->temperature;
    }
    how->do_sample = how->do_sample && how->temperature > 0;
    if (options->top_p >= 0)
        how->top_p = options->top_p;
    if (options->top_k >= 0)
        how->top_k = options->top_k;
    if (options->repetition_penalty >= 0)
        how->repetition_penalty = options->repetition_penalty;
    if (options->seed >= 0)
        plan->seed = options->seed;
    how->slots = options->batch >= 0 ? options->batch : plan->per_device_eval_batch_size;
    g->samples = options->samples > 0 ? (size_t)options->samples : 1;
}

/* Options that only sampling uses are an error when nothing is sampled and the user did
 * not turn sampling off. */
static bool options_take_effect(const struct generator *g, struct error *err)
{
    const struct options *options = g->options;
    const char *idle = g->samples > 1              ? "--samples"
                       : options->temperature >= 0 ? NULL
                       : options->top_p >= 0       ? "--top-p"
                       : options->top_k >= 0       ? "--top-k"
                                                   : NULL;

    return !idle || g->target.plan.generation.do_sample ||
           error_set(err, ERROR_USAGE,
                     "%s requires --temperature above 0: without it every completion of "
                     "a prompt is the same, the likeliest one",
                     idle);
}

static bool is_in_range(const struct generator *g, struct error *err)
{
    const struct generation *how = &g->target.plan.generation;

    if (how->max_new_tokens < 1 || how->max_new_tokens > 1 << 20)
        return error_set(err, ERROR_USAGE, "--max-new-tokens must be from 1 to 1048576");
    if (!(how->top_p > 0 && how->top_p <= 1) || !(how->repetition_penalty > 0))
        return error_set(err, ERROR_USAGE,
                         "--top-p must be above 0 and at most 1, --repetition-penalty "
                         "above 0");
    if (g->options->samples == 0)
        return error_set(err, ERROR_USAGE, "--samples must be 1 or more");
    if (how->slots < 1 || how->slots > 4096)
        return error_set(err, ERROR_USAGE, "--batch must be from 1 to 4096");
    return options_take_effect(g, err);
}

static bool encode_prompt(struct generator *g, size_t prompt,
                          const struct template_request *how,
                          struct dataset_prompted *prompted, struct error *err)
{
    struct token_list ids = { 0 };
    struct error why = { 0 };
    bool ok = eval_prompt_encode(&g->questions.list[prompt], how, prompted, &ids, &why);
    const size_t count = ids.count;

    token_list_clear(&ids);
    if (!ok)
        return why.file[0]
                   ? error_at(err, why.code, why.file, why.at, "%s", why.text)
                   : error_set(err, why.code, "prompt %zu: %s", prompt + 1, why.text);
    if (count == 0)
        return error_set(err, ERROR_DATA, "prompt %zu has no tokens; give it some text",
                         prompt + 1);
    if (count > model_config_positions(&g->config))
        return error_set(err, ERROR_DATA,
                         "prompt %zu has %zu tokens; the model's context is %zu",
                         prompt + 1, count, g->config.max_positions);
    if (count > g->longest)
        g->longest = count;
    return true;
}

static bool encode(struct generator *g, struct error *err)
{
    const struct plan *plan = &g->target.plan;
    const struct dataset_reading reading = { .plan = plan,
                                             .tokenizer = g->tokenizer,
                                             .chat = g->chat };
    const struct template_options options = {
        .default_system = g->options->system ? g->options->system : plan->default_system,
        .thinking = plan->enable_thinking ? CHAT_THINKING_DEFAULT : CHAT_THINKING_OFF,
    };
    const struct template_request how = { .chat = g->chat,
                                          .tokenizer = g->tokenizer,
                                          .options = &options };

    struct dataset_prompted *prompted;
    bool ok = true;

    if (g->questions.count > SEQUENCES_MAX / g->samples)
        return error_set(err, ERROR_USAGE, "too many completions were requested");
    prompted = dataset_prompted_new(&reading);
    for (size_t i = 0; ok && i < g->questions.count; i++)
        ok = encode_prompt(g, i, &how, prompted, err);
    if (ok)
        g->data = dataset_prompted_end(prompted);
    dataset_prompted_free(prompted);
    if (!ok)
        return false;
    generation_media_list(g);
    return generation_media_check(g, err);
}

static bool find_ends(struct generator *g, struct error *err)
{
    const struct prompt_model model = { g->target.folder, &g->config, g->chat,
                                        g->tokenizer };
    const char *const *asked = g->options->stop;
    size_t count = 0;

    while (asked && asked[count])
        count++;
    if (!prompt_ends_find(&model, &g->ends, &g->stop_text, err))
        return false;
    g->stops = memory_alloc((count + 2) * sizeof(*g->stops));
    for (size_t i = 0; i < count; i++)
        g->stops[i] = asked[i];
    g->stops[count] = g->stop_text;
    return true;
}

static bool open_model(struct generator *g, struct error *err)
{
    struct plan *plan = &g->target.plan;
    struct model_options model = { .plan = plan, .config = &g->config };
    struct backend_options with = { .device = &plan->device,
                                    .threads = (int)plan->threads,
                                    .no_onednn = g->options->no_onednn,
                                    .tf32 = plan->precision.compute == FORMAT_TF32 };

    if (dataset_media(g->data) > 0 &&
        !cross_layers_join(&g->config, g->target.arena, err))
        return false;
    plan->generation.prompt_max = (int64_t)g->longest;
    plan->cutoff_len = (int64_t)g->longest;
    model.rows_max = g->longest;
    if (shapes_generation_rows(plan, &g->config) > model.rows_max)
        model.rows_max = shapes_generation_rows(plan, &g->config);
    model.sequences_max = 1;
    model.media_rows_max = dataset_media_rows_max(g->data, 1);
    with.rounded_bytes = shapes_fp8_bytes(plan, &g->config, model.rows_max);
    model.backend = g->be = backend_open(&with, err);
    if (!g->be || !generation_media_encode(g, err))
        return false;
    g->model = model_new(&model, err);
    if (!g->model)
        return false;
    model_set_media(g->model, &g->media.rows);
    model_set_heartbeat(g->model, &g->heartbeat);
    return model_load(g->model, err);
}

/* Keep the completion, and print all completions whose turn it is. */
static bool on_done(void *context, const struct completion *completion, struct error *err)
{
    struct generator *g = context;
    struct made *made = &g->made[completion->index];
    const size_t prompt = completion->index / g->samples;
    const struct eval_prompt *question = &g->questions.list[prompt];
    const struct plan *plan = &g->target.plan;
    const struct answer_rule rule = { plan->answer_tag, plan->answer_marker,
                                      plan->answer_tolerance };

    if (completion->end == END_BROKEN)
        return error_set(
            err, ERROR_DATA,
            "%s: no logit after token %zu of prompt %zu is finite: the weights contain "
            "inf or NaN, or values beyond the range of the compute format; use an "
            "earlier checkpoint",
            g->target.folder,
            dataset_prompted_question(g->data, prompt).count + completion->count,
            prompt + 1);
    *made = (struct made) { .text = memory_alloc(completion->len + 1),
                            .len = completion->len,
                            .tokens = completion->count,
                            .end = completion->end };
    memcpy(made->text, completion->text, completion->len);
    if (question->expected)
        made->verdict = answer_judge(&rule, made->text, made->len, question->expected,
                                     question->expected_len);
    g->found += made->verdict.found;
    g->right += made->verdict.correct;
    for (; g->shown < g->questions.count * g->samples && g->made[g->shown].text;
         g->shown++)
        if (!generation_show(g, g->shown, err))
            return false;
    fflush(g->report.out);
    return !ferror(g->report.out) ||
           error_set(err, ERROR_SYSTEM,
                     "cannot write the completions; is the disk full?");
}

static bool complete(struct generator *g, struct error *err)
{
    size_t count = g->questions.count * g->samples;
    struct prompt *prompts = memory_alloc(count * sizeof(*prompts));
    const struct generate_options how = { .model = g->model,
                                          .tokenizer = g->tokenizer,
                                          .settings = &g->target.plan.generation,
                                          .seed = (uint64_t)g->target.plan.seed,
                                          .ends = g->ends,
                                          .separate_answer = g->chat != NULL,
                                          .stop_strings = g->stops,
                                          .heartbeat = &g->heartbeat,
                                          .on_completion = on_done,
                                          .context = g };
    bool ok;

    /* before, there is nothing to finish: a signal ends the process */
    g->heartbeat.stop = stop_catch();
    g->made = memory_alloc(count * sizeof(*g->made));
    for (size_t i = 0; i < count; i++) {
        const size_t prompt = i / g->samples;
        const struct dataset_question question =
            dataset_prompted_question(g->data, prompt);

        prompts[i] = (struct prompt) { .ids = question.ids,
                                       .count = question.count,
                                       .sequence = (uint32_t)i,
                                       .media = g->media_of[prompt] };
    }
    ok = generate_run(&how, prompts, count, err);
    free(prompts);
    return ok;
}

static bool check(const struct generator *g, struct error *err)
{
    const char *output = g->options->output;

    if (g->options->keep_correct && (g->options->prompt || !g->target.is_job))
        return error_set(err, ERROR_USAGE,
                         "--keep-correct requires a JOB that says which answers are "
                         "right (trainspool: {answer_tag: ..}), and prompts with "
                         "expected answers");
    if (g->options->raw && (g->options->template_name || g->options->system))
        return error_set(err, ERROR_USAGE,
                         "--raw applies no chat template to a prompt; leave out %s or "
                         "--raw",
                         g->options->template_name ? "--template" : "--system");
    if (output && file_exists(output))
        return error_set(err, ERROR_USAGE, "%s already exists; name another file",
                         output);
    return true;
}

/* Before the model and the data are read. */
static bool contain(const struct generator *g, const struct machine *machine,
                    struct error *err)
{
    const struct options *options = g->options;
    struct containment containment = { .on = !options->no_sandbox, .machine = machine };
    char *folder = options->output ? path_dir(options->output) : NULL;
    char *data = options->prompts && g->family ? path_dir(options->prompts) : NULL;
    const struct contained_path own[] = {
        { g->target.folder, LANDLOCK_READ },
        { options->prompts, LANDLOCK_READ },
        { data, LANDLOCK_READ }, /* where records look for their media */
        { folder, LANDLOCK_WRITE },
        { g->media_parent, LANDLOCK_WRITE },
    };
    const size_t files = generation_media_paths(g, NULL, 0);
    struct contained_path *more =
        memory_alloc((TS_COUNT(own) + files + 1) * sizeof(*more));
    size_t count = 0;
    bool ok;

    for (size_t i = 0; i < TS_COUNT(own); i++)
        if (own[i].path)
            more[count++] = own[i];
    generation_media_paths(g, more + count, files);
    ok = containment_enter_reader(&containment, &g->target.plan, more, err);
    free(more);
    free(data);
    free(folder);
    return ok;
}

static bool run(struct generator *g, const struct machine *machine, struct error *err)
{
    struct plan *plan = &g->target.plan;
    const char *output = g->options->output;
    struct new_tokens more;

    if (!generation_target_open(&g->target, machine, g->options->operands[0], err) ||
        !check(g, err) || !generation_media_open(g, err) || !contain(g, machine, err))
        return false;
    apply_options(g);
    if (!is_in_range(g, err) || !job_config_read(plan, plan->model_name_or_path,
                                                 g->target.arena, &g->config, err))
        return false;
    more = plan_new_tokens(plan, &g->config);
    g->tokenizer = chat_tokenizer_open(g->target.folder, NULL);
    if (!g->tokenizer)
        g->tokenizer = chat_tokenizer_open_with(plan->model_name_or_path, &more, err);
    if (!g->tokenizer || !find_template(g, err) || !read_questions(g, err) ||
        (g->options->keep_correct && !generation_media_contained(g, err)) ||
        !generation_media_give(g, err) || !encode(g, err) || !find_ends(g, err) ||
        !open_model(g, err) || !complete(g, err))
        return false;
    if (output && !file_create(output, g->output.data, g->output.len, 0666, err))
        return false;
    generation_summarize(g);
    return true;
}

static void close_generator(struct generator *g)
{
    size_t count = g->made ? g->questions.count * g->samples : 0;

    for (size_t i = 0; i < count; i++)
        free(g->made[i].text);
    free(g->made);
    free(g->stops);
    free(g->stop_text);
    model_free(g->model);
    generation_media_close(g);
    backend_close(g->be);
    tokenizer_close(g->tokenizer);
    eval_prompts_clear(&g->questions);
    text_clear(&g->output);
    generation_target_close(&g->target);
}

int generation_run(const struct options *options, const struct machine *machine,
                   struct error *err)
{
    struct generator g = { .options = options };

    signal(SIGPIPE, SIG_DFL); /* `| head` ends it as it ends other tools */
    report_init(&g.report, options);
    eval_prompts_init(&g.questions);
    text_init(&g.output, OUTPUT_MAX_BYTES);
    if (!run(&g, machine, err) && err->code)
        report_error(options->program, err);
    close_generator(&g);
    if (err->code == ERROR_STOPPED)
        return 128 + (int)*g.heartbeat.stop;
    return report_exit(err->code);
}
