/* train/tokenizer/merges_file.c - reader of vocab.json and merges.txt, the files of GPT-2 and
 * of the models that took over its format.  Source: transformers 5.24, the tokenization_*.py
 * of the classes in the table. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "train/tokenizer/conversion.h"

#define END "<|endoftext|>"

/* What the classes differ in. */
static const struct class_row {
    const char *name;   /* without "Fast" */
    const char *models; /* model_type of folders that do not name a class, with blanks */
    bool composes;      /* NFC */
    const char *words;  /* pattern of words; NULL: that of GPT-2 */
    const char *defaults[CONVERSION_NAMES];
} classes[] = {
    { .name = "GPT2Tokenizer",
      .models = " codegen gpt2 gpt_neo gptj opt phi starcoder2 ",
      .defaults = { [NAME_BOS] = END, [NAME_EOS] = END, [NAME_UNK] = END } },
    { .name = "CodeGenTokenizer",
      .models = "",
      .defaults = { [NAME_BOS] = END, [NAME_EOS] = END, [NAME_UNK] = END } },
    { .name = "GPTNeoXTokenizer",
      .models = " gpt_neox mpt olmo olmoe ",
      .composes = true,
      .defaults = { [NAME_BOS] = END,
                    [NAME_EOS] = END,
                    [NAME_UNK] = END,
                    [NAME_PAD] = "<|padding|>" } },
    { .name = "Qwen2Tokenizer",
      .models =
          " qwen2 qwen2_5_vl qwen2_moe qwen2_vl qwen3 qwen3_moe qwen3_next qwen3_vl ",
      .composes = true,
      .words = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
               "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      .defaults = { [NAME_EOS] = END, [NAME_UNK] = END, [NAME_PAD] = END } },
};

static bool is_class(const struct class_row *row, const char *class)
{
    size_t len = strlen(row->name);

    return strncmp(row->name, class, len) == 0 &&
           (!class[len] || strcmp(class + len, "Fast") == 0);
}

/* Find the row by the class, or by the model if no class is named.  transformers does not
 * trust the class of Qwen 2. */
static const struct class_row *find_class(const struct conversion *conversion)
{
    const char *type = conversion_model_type(conversion);
    const char *class = strcmp(type, "qwen2") == 0 ? "" : conversion_class(conversion);
    const struct class_row *found = NULL;
    struct text word;

    text_init(&word, 0);
    text_addf(&word, " %s ", type);
    for (size_t i = 0; i < TS_COUNT(classes) && !found; i++)
        if (*class ? is_class(&classes[i], class)
                   : word.len > 2 && strstr(classes[i].models, word.data) != NULL)
            found = &classes[i];
    text_clear(&word);
    return found;
}

/* One merge in a line, "a b".  Its first line is a comment with a version. */
static json_t *merges_of(const struct text *text)
{
    json_t *list = json_array();

    for (size_t at = 0; at < text->len;) {
        const char *line = text->data + at;
        const char *end = memchr(line, '\n', text->len - at);
        size_t len = end ? (size_t)(end - line) : text->len - at;

        at += len + 1;
        if (len > 0 && line[len - 1] == '\r')
            len--;
        if (len > 0)
            json_array_append_new(list, json_stringn(line, len));
    }
    return list;
}

static json_t *read_model(struct conversion *conversion, struct error *err)
{
    char *path = path_join(conversion->dir, "vocab.json");
    json_t *vocab = NULL, *merges = NULL;
    struct text text;
    size_t bad;

    text_init(&text, 0);
    if (conversion_read(conversion, "vocab.json", &text, err))
        vocab = json_read_text(text.data, text.len, path, 1, err);
    if (vocab && conversion_read(conversion, "merges.txt", &text, err)) {
        if (text_is_utf8(text.data, text.len, &bad))
            merges = merges_of(&text);
        else
            error_set(err, ERROR_DATA, "%s/merges.txt is not UTF-8 at byte %zu",
                      conversion->dir, bad + 1);
    }
    text_clear(&text);
    free(path);
    if (!merges) {
        json_decref(vocab);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:o}", "type", "BPE", "vocab", vocab, "merges", merges);
}

static json_t *pre_tokenizer_of(const struct class_row *row, bool prefix)
{
    if (!row->words)
        return json_pack("{s:s, s:b}", "type", "ByteLevel", "add_prefix_space", prefix);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s, s:b, s:b}]}", "type",
                     "Sequence", "pretokenizers", "type", "Split", "pattern", "Regex",
                     row->words, "behavior", "Isolated", "type", "ByteLevel",
                     "add_prefix_space", prefix, "use_regex", 0);
}

json_t *merges_file_convert(struct conversion *conversion, struct error *err)
{
    const struct class_row *row = find_class(conversion);
    struct conversion_parts parts = { 0 };

    if (!row) {
        const char *class = conversion_class(conversion);

        error_set(
            err, ERROR_DATA,
            "%s: vocab.json and merges.txt of %s%.60s are not supported without "
            "tokenizer.json; correct tokenizer_class in tokenizer_config.json, or create "
            "tokenizer.json with AutoTokenizer.from_pretrained(...).save_pretrained(...) "
            "of transformers",
            conversion->dir, *class ? "the tokenizer_class " : "the model_type ",
            *class ? class : conversion_model_type(conversion));
        return NULL;
    }
    parts.tokens = read_model(conversion, err);
    if (!parts.tokens)
        return NULL;
    memcpy(parts.defaults, row->defaults, sizeof(parts.defaults));
    parts.normalizer = row->composes ? json_pack("{s:s}", "type", "NFC") : NULL;
    parts.pre_tokenizer =
        pre_tokenizer_of(row, conversion_bool(conversion, "add_prefix_space", false));
    parts.decoder = json_pack("{s:s}", "type", "ByteLevel");
    return conversion_finish(conversion, &parts);
}
