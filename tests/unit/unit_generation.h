/*
 * tests/unit/unit_generation.h - `trainspool generate` inside a test, and its lines of JSON.
 */
#ifndef TESTS_UNIT_UNIT_GENERATION_H
#define TESTS_UNIT_UNIT_GENERATION_H

#include "base/path.h"
#include "runner/generation/generation.h"
#include "tests/unit/unit_tower.h"
#include "train/chat/chat.h"
#include "train/generation/prompt.h"

/* Tokens of an answer. */
enum { UNIT_NEW = 12 };

/* What a command line is, without its program. */
static inline struct options unit_generation(const char *const operands[],
                                             const char *template, const char *out)
{
    return (struct options) { .program = "trainspool",
                              .operands = operands,
                              .operand_count = 1,
                              .output = out,
                              .json = true,
                              .quiet = true,
                              .no_sandbox = true,
                              .template_name = template,
                              .max_new_tokens = UNIT_NEW,
                              .temperature = -1,
                              .top_p = -1,
                              .top_k = -1,
                              .repetition_penalty = -1,
                              .seed = -1,
                              .batch = 2,
                              .samples = -1,
                              .threads = -1 };
}

static inline int unit_generate(const struct options *options, struct error *err)
{
    struct machine machine = { 0 };

    unlink(options->output);
    unit_tower_must(machine_open("cpu", &machine, err), err);
    machine.device.threads = 1;
    return generation_run(options, &machine, err);
}

/* Return the lines of a file as a list. */
static inline json_t *unit_lines(const char *path)
{
    json_t *list = json_array();
    struct error err = { 0 };
    char *rest, *line, *all;
    struct text text;

    text_init(&text, 0);
    unit_tower_must(file_read(path, (size_t)1 << 20, &text, NULL, &err), &err);
    rest = all = text_detach(&text, NULL);
    while ((line = strsep(&rest, "\n")) && *line)
        json_array_append_new(list, json_loads(line, JSON_ALLOW_NUL, NULL));
    free(all);
    return list;
}

/* Compare a completion with new tokens, up to one that ends it, of the tokenizer of a folder. */
static inline void unit_check_completion(const char *name, const char *dir,
                                         const json_t *line, const json_t *ids)
{
    const size_t count = (size_t)json_integer_value(json_object_get(line, "tokens"));
    const bool ended =
        strcmp(json_string_value(json_object_get(line, "end")), "eos") == 0;
    struct error err = { 0 };
    struct tokenizer *tokenizer = chat_tokenizer_open(dir, &err);
    json_t *visible;
    struct text text;
    uint32_t list[UNIT_NEW];

    unit_tower_must(tokenizer != NULL, &err);
    assert_true(count <= UNIT_NEW && json_array_size(ids) == UNIT_NEW);
    assert_true(ended ? count < UNIT_NEW : count == UNIT_NEW);
    for (size_t i = 0; i < UNIT_NEW; i++)
        list[i] = (uint32_t)json_integer_value(json_array_get(ids, i));
    text_init(&text, 0);
    tokenizer_decode(tokenizer, list, count, true, &text);
    visible = json_visible(text.data, text.len);
    if (!json_equal(visible, json_object_get(line, "completion")))
        fail_msg("%s: %s, not %s", name,
                 json_string_value(json_object_get(line, "completion")),
                 json_string_value(visible));
    assert_true(!ended || prompt_is_special(tokenizer, list[count]));
    json_decref(visible);
    text_clear(&text);
    tokenizer_close(tokenizer);
}

#endif
