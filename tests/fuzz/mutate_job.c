/*
 * tests/fuzz/mutate_job.c - mutator for inputs that are job files.  It inserts, removes,
 * duplicates and moves lines with known keys and meaningful values, and adds forms of
 * YAML that are hard to edit.  One mutation in three is left to libFuzzer.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/schema.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

/* Values for any key, valid or not. */
static const char *const values[] = {
    "true",
    "false",
    "auto",
    "null",
    "~",
    "",
    "0",
    "1",
    "2",
    "8",
    "64",
    "4096",
    "-1",
    "0.0",
    "1.0",
    "0.5",
    "1e-4",
    "2e-5",
    "1.0e9",
    ".inf",
    ".nan",
    "1_000",
    "017",
    "12:30",
    "yes",
    "on",
    "\"true\"",
    "'1e-4'",
    "bf16",
    "bfloat16",
    "float16",
    "float32",
    "full",
    "lora",
    "freeze",
    "sft",
    "pt",
    "adamw_torch",
    "adamw_8bit",
    "constant",
    "cosine",
    "linear",
    "dynamic",
    "none",
    "12GiB",
    "80%",
    "2h",
    "all",
    "q_proj,v_proj",
    "data.jsonl",
    "../data.jsonl",
    "/etc/passwd",
    "org/model",
    "${x}",
    "\"${x}\"",
    "&a true",
    "*a",
    "!!str true",
    "!!bool yes",
    "{}",
    "[]",
    "[a, b]",
    "{policy: report}",
    "|\n  fp16: true",
    ">-\n  text",
    "true # trainspool: keep",
    "true # trainspool: ignore[TS102]",
    "false   # fp16: true",
    "checkpoint-10",
    "external",
    "t\303\244glich",
};

/* Complete lines. */
static const char *const lines[] = {
    "# trainspool: keep",
    "# fp16: true",
    "---",
    "...",
    "%YAML 1.1",
    "",
    "  ",
    "\t",
    "base: &a {fp16: true}",
    "<<: *a",
    "<<: {bf16: true}",
    "? fp16\n: true",
    "\"fp16\": true",
    "'bf16': true",
    "fp16 : true",
    "fp16 :true",
    "fp16:true",
    "{fp16: true, bf16: true}",
    "trainspool:\n  policy: sound\n  keep: [fp16]",
    "trainspool: {target: external}",
    "trainspool:\n  device: cuda\n  versions: {torch: \"2.2\", transformers: \"4.38\"}",
    "- a",
    "\357\273\277",
    "\302\205",
    "\342\200\250",
    "\r",
    "base_model: a",
    "_component_: a",
};

struct dice {
    uint64_t state;
};

static size_t roll(struct dice *dice, size_t sides)
{
    dice->state = dice->state * 6364136223846793005u + 1442695040888963407u;
    return sides ? (size_t)(dice->state >> 33) % sides : 0;
}

static const struct key *any_key(struct dice *dice)
{
    const struct vocabulary *of = roll(dice, 8) ? &schema_job : &schema_block;
    size_t count = 0;

    while (schema_at(of, count))
        count++;
    return schema_at(of, roll(dice, count));
}

/* Return a valid value of the key, its default, or any other value. */
static const char *any_value(struct dice *dice, const struct key *key)
{
    size_t count = 0;

    while (key->values && key->values[count])
        count++;
    if (count > 0 && roll(dice, 2))
        return key->values[roll(dice, count)];
    if (key->default_value && !roll(dice, 4))
        return key->default_value;
    return values[roll(dice, TS_COUNT(values))];
}

static void add_line(struct dice *dice, struct text *out)
{
    const struct key *key = any_key(dice);

    if (!roll(dice, 4))
        text_adds(out, lines[roll(dice, TS_COUNT(lines))]);
    else
        text_addf(out, "%s: %s", key->name, any_value(dice, key));
    text_adds(out, roll(dice, 16) ? "\n" : "\r\n");
}

/* Return a random line of the text with its line break.  *len is 0 at the end of the
 * text. */
static const char *any_line(struct dice *dice, const char *data, size_t size, size_t *len)
{
    size_t at = roll(dice, size + 1), end;

    while (at > 0 && data[at - 1] != '\n')
        at--;
    for (end = at; end < size && data[end] != '\n';)
        end++;
    *len = end < size ? end + 1 - at : end - at;
    return data + at;
}

/* Add the line with another value after its colon.  Its comment may stay. */
static void add_changed(struct dice *dice, const char *line, size_t len, struct text *out)
{
    const char *colon = memchr(line, ':', len);
    const char *comment = memchr(line, '#', len);
    size_t key = colon ? (size_t)(colon - line) : 0;
    char name[64] = "";
    const struct key *known;

    if (!colon || key >= sizeof(name)) {
        add_line(dice, out);
        return;
    }
    memcpy(name, line, key);
    known = schema_find(name + strspn(name, " "));
    text_add(out, line, key + 1);
    text_addf(out, " %s", any_value(dice, known ? known : any_key(dice)));
    if (comment && comment > colon && roll(dice, 2))
        text_addf(out, "  %.*s", (int)(len - (size_t)(comment - line)), comment);
    else
        text_addc(out, '\n');
}

static void change(struct dice *dice, const char *data, size_t size, struct text *out)
{
    size_t len, other_len;
    const char *line = any_line(dice, data, size, &len);
    const char *other = any_line(dice, data, size, &other_len);
    const char *rest = line + len;

    text_add(out, data, (size_t)(line - data));
    switch (roll(dice, 6)) {
    case 0: /* remove the line */
        break;
    case 1: /* duplicate the line, or insert a copy of another one before it */
        text_add(out, other, other_len);
        text_add(out, line, len);
        break;
    case 2:
    case 3:
        add_changed(dice, line, len, out);
        break;
    default:
        add_line(dice, out);
        text_add(out, line, len);
    }
    text_add(out, rest, size - (size_t)(rest - data));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    struct dice dice = { seed };
    struct text out;

    roll(&dice, 1);
    if (roll(&dice, 3) == 0)
        return LLVMFuzzerMutate(data, size, max);
    text_init(&out, max > 0 ? max : 1);
    change(&dice, (const char *)data, size, &out);
    if (out.overflow || out.len == 0)
        size = LLVMFuzzerMutate(data, size, max);
    else
        memcpy(data, out.data, size = out.len);
    text_clear(&out);
    return size;
}
