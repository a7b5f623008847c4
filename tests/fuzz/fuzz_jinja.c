/* tests/fuzz/fuzz_jinja.c - Jinja templates: a template is rejected with a line number,
 * or renders to a text that contains all spans.  Input: a template, a zero byte, and its
 * variables as JSON. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "train/jinja/jinja.h"

static json_t *read_variables(const char *data, size_t len)
{
    json_t *json = len > 0 ? json_read_loose(data, len, "variables", 1, NULL) : NULL;

    if (json_is_object(json))
        return json;
    json_decref(json);
    return json_pack("{s[{s s, s s}, {s s, s s}], s b, s s}", "messages", "role", "user",
                     "content", "Hi", "role", "assistant", "content", "Ho",
                     "add_generation_prompt", 1, "bos_token", "<s>");
}

static void render(const struct jinja *jinja, const json_t *variables)
{
    struct error err = { 0 };
    struct jinja_output out;

    jinja_output_init(&out);
    if (!jinja_render(jinja, variables, &out, NULL, &err)) {
        FUZZ_HOLDS(err.code == ERROR_DATA && strstr(err.text, "line "));
    } else {
        FUZZ_HOLDS(text_is_utf8(out.text.data, out.text.len, NULL));
        for (size_t i = 0; i < out.span_count; i++)
            FUZZ_HOLDS(out.spans[i].start + out.spans[i].len <= out.text.len);
    }
    jinja_output_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint8_t *zero = len > 0 ? memchr(data, 0, len) : NULL;
    size_t source = zero ? (size_t)(zero - data) : len;
    struct error err = { 0 };
    struct jinja *jinja = jinja_parse((const char *)data, source, "template", &err);
    json_t *variables;

    if (!jinja) {
        FUZZ_HOLDS(err.code == ERROR_DATA);
        return 0;
    }
    variables =
        read_variables(zero ? (const char *)zero + 1 : "", zero ? len - source - 1 : 0);
    render(jinja, variables);
    json_decref(variables);
    jinja_free(jinja);
    return 0;
}
