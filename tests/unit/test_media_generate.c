/* tests/unit/test_media_generate.c - `trainspool generate` with files of sounds and images: its
 * completions are those of transformers (tests/golden/media_generate.py), and with a trained
 * projector those of the run. */
#include "config.h"

#include <sys/stat.h>

#define GOLDEN_TOWERS "tests/golden/media_curve"
#include "tests/unit/training.h"
#include "tests/unit/unit_generation.h"
#include "tests/unit/unit_media_file.h"
#include "tests/unit/unit_tower.h"

enum { FILES = 2 };

struct asked {
    struct unit_tower u;
    const struct unit_tower_case *one;
    const char *template;
    bool sound;
    const char *files[FILES + 1], *home, *out;
};

static void write_text(const char *dir, const char *file, const char *text)
{
    char *path = path_join(dir, file);
    struct error err = { 0 };

    unit_tower_must(file_replace(path, text, strlen(text), 0600, &err), &err);
    free(path);
}

/* Write the first files of the model's case. */
static void write_files(struct asked *asked)
{
    struct unit_tower *u = &asked->u;

    for (size_t i = 0; i < FILES; i++) {
        const json_t *item = json_array_get(asked->one->list, i);
        const char *name = arena_printf(u->arena, "%s %zu", asked->one->name, i);
        char *from =
            asked->sound
                ? unit_media_sound(u->dir, name, (size_t)json_integer_value(item))
                : unit_media_image(u->dir, name, unit_tower_number(item, 0),
                                   unit_tower_number(item, 1));

        asked->files[i] = arena_printf(u->arena, "%s/%zu", u->dir, i);
        assert_int_equal(rename(from, asked->files[i]), 0);
        free(from);
    }
}

static void asked_open(struct asked *asked, const char *name)
{
    struct unit_tower *u = &asked->u;
    const json_t *one;

    *asked = (struct asked) { .u = unit_tower_setup() };
    asked->one = unit_tower_named(u, name);
    asked->sound = json_is_integer(json_array_get(asked->one->list, 0));
    one = json_array_get(json_object_get(u->golden, "models"),
                         (size_t)(asked->one - u->cases));
    asked->template = json_string_value(json_object_get(one, "template"));
    u->dir = unit_dir_new();
    unit_tower_put(u, asked->one);
    put_json(
        json_object_get(json_object_get(one, "tokenizer") ? one : u->golden, "tokenizer"),
        u->dir, "tokenizer.json");
    if (!asked->template)
        write_text(u->dir, "chat_template.jinja",
                   json_string_value(json_object_get(one, "chat_template")));
    write_text(u->dir, "tokenizer_config.json",
               text_starts(name, "gemma") || strcmp(name, "llama4") == 0
                   ? "{\"eos_token\": \"<|im_end|>\", \"bos_token\": \"<bos>\"}"
               : strcmp(name, "mllama") == 0
                   ? "{\"eos_token\": \"<|eot_id|>\", \"bos_token\": "
                     "\"<|begin_of_text|>\"}"
               : !asked->template ? "{\"eos_token\": \"</s>\"}"
                                  : "{\"eos_token\": \"<|im_end|>\"}");
    write_files(asked);
    asked->home = arena_printf(u->arena, "%s/cache", u->dir);
    asked->out = arena_printf(u->arena, "%s/out.jsonl", u->dir);
    setenv("XDG_CACHE_HOME", asked->home, 1);
}

static void asked_close(struct asked *asked)
{
    unit_dir_free(asked->u.dir);
    unit_tower_teardown(&asked->u);
}

static bool is_supported(const char *name)
{
    const bool sound =
        strcmp(name, "qwen2_audio") == 0 || strcmp(name, "phi4_multimodal") == 0;

#ifndef HAVE_SNDFILE
    if (sound)
        return false;
#endif
#ifndef HAVE_PNG
    if (!sound)
        return false;
#endif
    return sound || *name;
}

/* What a command line is, without its program. */
static struct options options_of(const struct asked *asked, const char *const operands[])
{
    return unit_generation(operands, asked->template, asked->out);
}

/* Nothing stays in the cache. */
static void check_cache(const struct asked *asked)
{
    char *path = path_join(asked->home, "trainspool/media");
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_nlink, 2);
    free(path);
}

static void check_prompt(struct asked *asked, const json_t *golden)
{
    const char *marked = json_string_value(json_object_get(golden, "prompt"));
    const bool front = marked[0] == '%';
    const char *mark = asked->sound ? "<audio>" : "<image>";
    const char *const prompts[] = {
        front ? marked + 2
              : arena_printf(asked->u.arena, "Compare %s with %s.", mark, mark),
        NULL
    };
    const char *const operands[] = { asked->u.dir, NULL };
    struct options options = options_of(asked, operands);
    struct error err = { 0 };
    json_t *lines;

    options.prompt = prompts;
    if (front)
        asked->files[1] = NULL;
    if (asked->sound)
        options.audio_files = asked->files;
    else
        options.image_files = asked->files;
    if (unit_generate(&options, &err) != 0)
        fail_msg("%s: %s", asked->one->name, err.text);
    asked->files[1] = arena_printf(asked->u.arena, "%s/1", asked->u.dir);
    lines = unit_lines(asked->out);
    assert_int_equal(json_array_size(lines), 1);
    unit_check_completion(asked->one->name, asked->u.dir, json_array_get(lines, 0),
                          json_object_get(golden, "ids"));
    json_decref(lines);
    check_cache(asked);
}

static void test_completions_are_those_of_transformers(void **state)
{
    char *path = unit_source("tests/golden/media_generate.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(path, (size_t)1 << 20, &err), *prompts;
    size_t models = 0;
    const char *name;

    (void)state;
    unit_tower_must(golden != NULL, &err);
    json_object_foreach(golden, name, prompts)
    {
        struct asked asked;

        if (!json_is_array(prompts) || !is_supported(name))
            continue;
        asked_open(&asked, name);
        for (size_t i = 0; i < json_array_size(prompts); i++)
            check_prompt(&asked, json_array_get(prompts, i));
        asked_close(&asked);
        models++;
    }
    assert_true(models >= 1 || !is_supported("llava"));
    json_decref(golden);
    free(path);
}

/* ---- A projector that an adapter has ---- */

static void run_job(const struct asked *asked, const char *job, bool evaluates)
{
    struct training training = { .dir = asked->u.dir,
                                 .job = job,
                                 .evaluates = evaluates };
    struct error err = { 0 };

    if (!training_run(&training, &err))
        fail_msg("%s: %s", asked->one->name, err.text);
}

static const char *job_of(const struct asked *asked, const char *more)
{
    return arena_printf(
        asked->u.arena,
        "model_name_or_path: %s\ndataset_dir: %s\neval_dataset: data.jsonl\nstage: sft\n"
        "template: %s\nfinetuning_type: lora\ncutoff_len: 512\npredict_with_generate: true\n"
        "do_sample: false\nmax_new_tokens: 12\n%s",
        asked->u.dir, asked->u.dir, asked->template, more);
}

static void write_data(const struct asked *asked)
{
    const char *kind = asked->sound ? "audio" : "image";
    struct text records;

    text_init(&records, 0);
    for (size_t i = 0; i < FILES; i++)
        text_addf(
            &records,
            "{\"messages\": [{\"role\": \"user\", \"content\": \"<%s>What is %zu?\"}, "
            "{\"role\": \"assistant\", \"content\": \"It is %zu.\"}], \"%ss\": [\"%zu\"]}\n",
            kind, i, i * 7 % 5, kind, i);
    write_text(asked->u.dir, "data.jsonl", records.data);
    text_clear(&records);
}

/* Train two files' answers. */
static void train(const struct asked *asked)
{
    const char *target =
        text_starts(asked->one->name, "qwen3") ? "merger" : "multi_modal_projector";

    write_data(asked);
    run_job(asked,
            job_of(asked, arena_printf(
                              asked->u.arena,
                              "dataset: data.jsonl\nlora_target: q_proj\n"
                              "additional_target: %s\nmax_steps: 4\nlearning_rate: 0.02\n"
                              "per_device_train_batch_size: 2\noutput_dir: %s/adapter\n"
                              "eval_strategy: steps\neval_steps: 4\n",
                              target, asked->u.dir)),
            false);
}

/* Compare one text of each line. */
static void compare(const struct asked *asked, const char *file, const char *key,
                    const json_t *want, const char *want_key, bool equal)
{
    json_t *lines = unit_lines(file);

    assert_int_equal(json_array_size(want), FILES);
    assert_int_equal(json_array_size(lines), FILES);
    for (size_t i = 0; i < FILES; i++) {
        const json_t *a = json_object_get(json_array_get(lines, i), key);
        const json_t *b = json_object_get(json_array_get(want, i), want_key);

        assert_true(json_is_string(a) && json_is_string(b));
        if (json_equal(a, b) != equal)
            fail_msg("%s, %s of %s: \"%s\" and \"%s\"", asked->one->name, key, file,
                     json_string_value(a), json_string_value(b));
    }
    json_decref(lines);
}

/* Ask the model in a folder about the records. */
static void generate_records(const struct asked *asked, const char *folder)
{
    const char *const operands[] = { folder, NULL };
    struct options options = options_of(asked, operands);
    struct error err = { 0 };

    options.prompts = arena_printf(asked->u.arena, "%s/data.jsonl", asked->u.dir);
    if (unit_generate(&options, &err) != 0)
        fail_msg("%s: %s", asked->one->name, err.text);
}

static void test_trained_projectors_generate_as_in_the_run(void **state)
{
    static const char *const names[] = { "qwen2_audio", "qwen3_vl", "gemma3", "llava" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        struct asked asked;
        const char *path;
        json_t *samples;

        if (!is_supported(names[i]))
            continue;
        asked_open(&asked, names[i]);
        train(&asked);
        samples = unit_lines(
            arena_printf(asked.u.arena, "%s/job.run/samples.jsonl", asked.u.dir));
        path = arena_printf(asked.u.arena, "%s/adapter", asked.u.dir);
        generate_records(&asked, path);
        compare(&asked, asked.out, "completion", samples, "after", true);
        generate_records(&asked, asked.u.dir);
        compare(&asked, asked.out, "completion", samples, "before", true);
        compare(&asked, asked.out, "completion", samples, "after", false);
        run_job(&asked,
                job_of(&asked, arena_printf(asked.u.arena,
                                            "adapter_name_or_path: %s\ndo_train: false\n"
                                            "do_predict: true\noutput_dir: %s/made\n",
                                            path, asked.u.dir)),
                true);
        path = arena_printf(asked.u.arena, "%s/made/generated_predictions.jsonl",
                            asked.u.dir);
        compare(&asked, path, "predict", samples, "after", true);
        json_decref(samples);
        asked_close(&asked);
    }
}

/* ---- Rows of the user's ---- */

/* The files themselves are not read. */
static void test_rows_of_a_file_are_those_of_its_names(void **state)
{
    const char *const prompts[] = { "What is 1?", NULL };
    const char *const names[] = { "1", NULL };
    const char *operands[2] = { 0 };
    json_t *rows, *records;
    struct options options;
    struct asked asked;
    struct error err = { 0 };

    (void)state;
    asked_open(&asked, "qwen2_audio");
    write_data(&asked);
    for (size_t i = 0; i < FILES; i++)
        unlink(asked.files[i]);
    rows = json_pack("{s:[ii], s:[ii]}", "0", 25, 48, "1", 20, 48);
    unit_tower_write(&asked.u, rows,
                     arena_printf(asked.u.arena, "%s/rows.safetensors", asked.u.dir));
    run_job(&asked,
            arena_printf(asked.u.arena,
                         "model_name_or_path: %s\ndataset_dir: %s\ndataset: data.jsonl\n"
                         "stage: sft\ntemplate: qwen2_audio\nfinetuning_type: full\n"
                         "cutoff_len: 512\nmax_steps: 1\noutput_dir: %s/out\n"
                         "trainspool: {features: rows.safetensors}\n",
                         asked.u.dir, asked.u.dir, asked.u.dir),
            false);
    operands[0] = arena_printf(asked.u.arena, "%s/job.yaml", asked.u.dir);
    options = options_of(&asked, operands);
    options.temperature = 0;
    assert_int_equal(unit_generate(&options, &err), 0);
    records = unit_lines(asked.out);
    options.prompt = prompts;
    options.audio_files = names;
    assert_int_equal(unit_generate(&options, &err), 0);
    json_decref(rows);
    rows = unit_lines(asked.out);
    assert_int_equal(json_array_size(records), FILES);
    for (size_t i = 0; i < FILES; i++) {
        const json_t *a = json_object_get(json_array_get(rows, 0), "completion");
        const json_t *b = json_object_get(json_array_get(records, i), "completion");

        assert_true(json_is_string(a) && json_equal(a, b) == (i == 1));
    }
    json_decref(records);
    json_decref(rows);
    asked_close(&asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_completions_are_those_of_transformers),
        cmocka_unit_test(test_trained_projectors_generate_as_in_the_run),
        cmocka_unit_test(test_rows_of_a_file_are_those_of_its_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
