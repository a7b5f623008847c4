/* train/chat/template_tools.c - functions in a conversation: how they are described, and
 * how an answer calls them. The texts are LLaMA-Factory's
 * (src/llamafactory/data/tool_utils.py at ff6d4d12), written as templates. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/jinja/jinja.h"
#include "train/chat/template_internal.h"

#define ACTIONS                                                         \
    "{% for f in calls %}{{ 'Action: ' ~ f.name ~ '\\nAction Input: ' " \
    "~ f.arguments | tojson ~ ('\\n' if not loop.last) }}{% endfor %}"

static const struct template_tools formats[] = {
    { .name = "default",
      .describe =
          "You have access to the following tools:\n"
          "{% for tool in tools %}{% set f = tool.function %}> Tool Name: {{ f.name }}\n"
          "Tool Description: {{ f.description | default('') }}\n"
          "Tool Args:\n"
          "{% for name, p in f.parameters.properties.items() %}{{ '  - ' ~ name ~ ' (' "
          "~ p.type | default('') ~ (', required' if name in f.parameters.required | "
          "default([])) ~ '): ' ~ p.description | default('') ~ (', should be one of [' "
          "~ p.enum | join(', ') ~ ']' if p.enum) ~ (', where each item should be ' ~ "
          "p['items'].type | default('') if p['items'] is mapping and p['items']) ~ "
          "'\\n' }}{% endfor %}{{ '\\n' }}{% endfor %}Use the following format if using "
          "a tool:\n"
          "```\n"
          "Action: tool name (one of [{{ tools | map(attribute='function.name') | "
          "join(', ') }}])\n"
          "Action Input: the input to the tool, in a JSON format representing the "
          "kwargs (e.g. ```{{ '{\"input\": \"hello world\", \"num_beams\": 5}' }}```)\n"
          "```\n\n",
      .call = ACTIONS },
    { .name = "llama3",
      .describe =
          "Cutting Knowledge Date: December 2023\n"
          "Today Date: {{ strftime_now('%d %b %Y') }}\n\n"
          "You have access to the following functions. To call a function, please "
          "respond with JSON for a function call. Respond in the format {{ '{' "
          "}}\"name\": function name, \"parameters\": dictionary of argument name and "
          "its value{{ '}' }}. Do not use variables.\n\n"
          "{% for tool in tools %}{{ tool | tojson(indent=4) ~ '\\n\\n' }}{% endfor %}",
      .call = "{% set ns = namespace(list=[]) %}{% for f in calls %}{% set ns.list = "
              "ns.list + [{'name': f.name, 'parameters': f.arguments}] %}{% endfor %}{{ "
              "(ns.list[0] if ns.list | length == 1 else ns.list) | tojson }}" },
    { .name = "mistral",
      .describe = "[AVAILABLE_TOOLS] {{ tools | tojson }}[/AVAILABLE_TOOLS]",
      .call = "{{ calls | tojson }}" },
    { .name = "phi4_mini", .describe = "<|tool|>{{ text }}<|/tool|>", .call = ACTIONS },
    { .name = "qwen",
      .describe =
          "\n\n"
          "# Tools\n\n"
          "You may call one or more functions to assist with the user query.\n\n"
          "You are provided with function signatures within <tools></tools> XML tags:\n"
          "<tools>{% for tool in tools %}{{ '\\n' ~ tool | tojson }}{% endfor %}{{ "
          "'\\n' }}</tools>\n\n"
          "For each function call, return a json object with function name and "
          "arguments within <tool_call></tool_call> XML tags:\n"
          "<tool_call>\n"
          "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n"
          "</tool_call>",
      .call = "{% for f in calls %}{{ '<tool_call>\\n' ~ f | tojson ~ '\\n</tool_call>' "
              "~ ('\\n' if not loop.last) }}{% endfor %}" },
};

const struct template_tools *template_tools_find(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(formats); i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

json_t *template_tools_list(const struct message *tools, struct error *err)
{
    json_t *json = json_read_text(tools->text, tools->len, "tools", 1, err), *list;

    if (!json)
        return NULL;
    if (!json_is_array(json)) {
        error_set(err, ERROR_DATA, "tools must be a list of functions");
        json_decref(json);
        return NULL;
    }
    list = json_array();
    for (size_t i = 0; i < json_array_size(json); i++) {
        json_t *tool = json_array_get(json, i);
        bool bare = json_is_string(json_object_get(tool, "name")) &&
                    !json_is_object(json_object_get(tool, "function"));

        if (bare)
            json_array_append_new(
                list, json_pack("{s s, s O}", "type", "function", "function", tool));
        else
            json_array_append(list, tool);
    }
    json_decref(json);
    return list;
}

/* Find `open` ... `close` in a text; NULL: not found. */
static const char *find_between(const char *text, size_t len, const char *open,
                                const char *close, const char **end)
{
    const char *begin = memmem(text, len, open, strlen(open));
    const char *after = begin ? begin + strlen(open) : NULL;

    *end =
        begin ? memmem(after, len - (size_t)(after - text), close, strlen(close)) : NULL;
    return *end ? begin : NULL;
}

/* Split an answer into the JSON of its calls and other text: thoughts before the JSON, or
 * the text around a tagged call. `rest` is memory for the JSON without thoughts. */
static void split_answer(const struct message *answer, struct text *thought,
                         const char **json, size_t *len, struct text *rest)
{
    static const char call[] = "<tool_call>", thoughts_end[] = "\n</think>\n\n";
    const char *end, *text = answer->text, *all = text + answer->len;
    const char *begin = find_between(text, answer->len, call, "</tool_call>", &end);

    *json = text;
    *len = answer->len;
    if (begin) {
        *json = begin + strlen(call);
        *len = (size_t)(end - *json);
        text_add(thought, text, (size_t)(begin - text));
        end += strlen("</tool_call>");
        text_add(thought, end, (size_t)(all - end));
        return;
    }
    begin = find_between(text, answer->len, "<think>\n", thoughts_end, &end);
    if (!begin)
        return;
    end += strlen(thoughts_end);
    text_add(thought, begin, (size_t)(end - begin));
    text_add(rest, text, (size_t)(begin - text));
    text_add(rest, end, (size_t)(all - end));
    *json = rest->data;
    *len = rest->len;
}

static bool check_calls(const json_t *calls, struct error *err)
{
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);

        if (!json_is_string(json_object_get(call, "name")) ||
            !json_object_get(call, "arguments"))
            return error_set(err, ERROR_DATA,
                             "a function call must be an object with name and arguments");
    }
    return true;
}

json_t *template_tools_calls(const struct message *answer, struct text *thought,
                             struct error *err)
{
    json_t *calls;
    const char *json;
    struct text rest;
    size_t len;

    text_init(&rest, 0);
    split_answer(answer, thought, &json, &len, &rest);
    calls = json_read_text(json, len, "the function call", 1, err);
    text_clear(&rest);
    if (json_is_object(calls))
        calls = json_pack("[o]", calls);
    if (calls && check_calls(calls, err))
        return calls;
    json_decref(calls);
    return NULL;
}

/* Keep only name and arguments, in this order, and drop all other keys. */
static json_t *name_and_arguments(const json_t *calls)
{
    json_t *list = json_array();

    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);

        json_array_append_new(list, json_pack("{s O, s O}", "name",
                                              json_object_get(call, "name"), "arguments",
                                              json_object_get(call, "arguments")));
    }
    return list;
}

static bool render(const char *source, json_t *variables, struct text *out,
                   struct error *err)
{
    struct jinja *jinja = jinja_parse(source, strlen(source), "tools", err);
    struct jinja_output output;
    bool ok;

    jinja_output_init(&output);
    ok = jinja && jinja_render(jinja, variables, &output, NULL, err);
    if (ok)
        text_add(out, output.text.data, output.text.len);
    jinja_output_clear(&output);
    jinja_free(jinja);
    json_decref(variables);
    return ok;
}

bool template_tools_describe(const struct template_tools *tools,
                             const struct message *json, struct text *out,
                             struct error *err)
{
    json_t *list = template_tools_list(json, err);

    if (list && json_array_size(list) == 0) {
        json_decref(list);
        return true;
    }
    return list &&
           render(tools->describe,
                  json_pack("{s o, s s%}", "tools", list, "text", json->text, json->len),
                  out, err);
}

bool template_tools_call(const struct template_tools *tools, const struct message *answer,
                         struct text *out, struct error *err)
{
    json_t *calls = template_tools_calls(answer, out, err),
           *list = calls ? name_and_arguments(calls) : NULL;

    json_decref(calls);
    return list && render(tools->call, json_pack("{s o}", "calls", list), out, err);
}
