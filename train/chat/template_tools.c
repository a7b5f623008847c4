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

/* An argument as text, or as JSON if it is none. */
#define VALUE "(v if v is string else v | tojson)"

/* A text between Gemma 4's quotation marks. */
#define QUOTED(text) "'<|\"|>' ~ (" text ") ~ '<|\"|>'"

/* The calls of a format that writes each argument with tags of its own. */
#define TAGGED_CALLS(begin, argument, end)                                          \
    "{% for f in calls %}{{ " begin                                                 \
    " }}{% for k, v in f.arguments.items() %}{{ " argument " }}{% endfor %}{{ " end \
    " ~ ('\\n' if not loop.last) }}{% endfor %}"

#define CALLS_IN_TAGS                                                                    \
    "{% for f in calls %}{{ '<tool_call>\\n' ~ f | tojson ~ '\\n</tool_call>' ~ ('\\n' " \
    "if not loop.last) }}{% endfor %}"

#define SIGNATURES                                                                 \
    "# Tools\n\n"                                                                  \
    "You may call one or more functions to assist with the user query.\n\n"        \
    "You are provided with function signatures within <tools></tools> XML tags:\n" \
    "<tools>{% for tool in tools %}{{ '\\n' ~ tool | tojson }}{% endfor %}{{ "     \
    "'\\n' }}</tools>\n\n"

#define CALL_AS_OBJECT                                                     \
    "For each function call, return a json object with function name and " \
    "arguments within <tool_call></tool_call> XML tags:\n"                 \
    "<tool_call>\n"                                                        \
    "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n"     \
    "</tool_call>"

/* The first format is the default. */
static const struct template_tools {
    const char *name, *describe, *call;
} formats[] = {
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
    { .name = "gemma4",
      .describe =
          "{% for tool in tools %}{% set f = tool.function %}{% set p = f.parameters %}"
          "{{ 'declaration:' ~ f.name ~ '{description:' ~ " QUOTED(
              "f.description | default('')") " }}"
                                             "{% if p %}{% set all = namespace(parts=[]) %}"
                                             "{% if p.properties %}{% set of = namespace(list=[]) %}"
                                             "{% for name, s in p.properties.items() %}"
                                             "{% set parts = (['description:' ~ " QUOTED(
                                                 "s.description") "] if "
                                                                  "s.description else []) + (['type:' ~ " QUOTED(
                                                                      "s.type | string | upper") "] if s.type else []) %}"
                                                                                                 "{% set of.list = of.list + [name ~ ':{' ~ parts | join(',') ~ '}'] %}"
                                                                                                 "{% endfor %}{% set all.parts = ['properties:{' ~ of.list | join(',') ~ '}'] %}"
                                                                                                 "{% endif %}{% if p.required %}{% set all.parts = all.parts + ['required:[' ~ " QUOTED(
                                                                                                     "p.required | join('<|\"|>,<|\"|>')") " ~ ']'] %}{% endif %}"
                                                                                                                                           "{% if p.type %}{% set all.parts = all.parts + ['type:' ~ " QUOTED(
                                                                                                                                               "p.type | string | upper") "] %}{% endif %}"
                                                                                                                                                                          "{{ ',parameters:{' ~ all.parts | join(',') ~ '}' }}{% endif %}"
                                                                                                                                                                          "{% set r = f.response %}{% if r %}"
                                                                                                                                                                          "{% set parts = (['description:' ~ " QUOTED(
                                                                                                                                                                              "r.description") "] if "
                                                                                                                                                                                               "r.description else []) + (['type:' ~ " QUOTED(
                                                                                                                                                                                                   "'OBJECT'") "] if r.type | default('') | string | upper == 'OBJECT' else []) %}"
                                                                                                                                                                                                               "{{ ',response:{' ~ parts | join(',') ~ '}' }}{% endif %}"
                                                                                                                                                                                                               "{{ '}' ~ ('\\n' if not loop.last) }}{% endfor %}",
      .call = "{% macro write(v) %}{% if v is string %}{{ " QUOTED(
          "v") " }}"
               "{% elif v is mapping %}{{ '{' }}{% for k, x in v | dictsort(true) %}"
               "{{ k ~ ':' ~ write(x) ~ (',' if not loop.last) }}{% endfor %}{{ '}' }}"
               "{% elif v is sequence %}{{ '[' }}{% for x in v %}"
               "{{ write(x) ~ (',' if not loop.last) }}{% endfor %}{{ ']' }}"
               "{% else %}{{ v | tojson }}{% endif %}{% endmacro %}"
               "{% for f in calls %}{{ '<|tool_call>call:' ~ f.name ~ '{' }}"
               "{% if f.arguments is string %}{{ f.arguments }}"
               "{% elif f.arguments is mapping %}"
               "{% for k, v in f.arguments | dictsort(true) %}"
               "{{ k ~ ':' ~ write(v) ~ (',' if not loop.last) }}{% endfor %}"
               "{% else %}{{ write(f.arguments) }}{% endif %}"
               "{{ '}<tool_call|>' }}{% endfor %}" },
    { .name = "glm4",
      .describe =
          "你是一个名为 ChatGLM 的人工智能助手。你是基于智谱 AI 公司训练的语言模型 GLM-4 "
          "模型开发的，你的任务是针对用户的问题和要求提供适当的答复和支持。\n\n"
          "# 可用工具{% for tool in tools %}{{ '\\n\\n## ' ~ tool.function.name ~ "
          "'\\n\\n' ~ tool.function | tojson(indent=4) ~ "
          "'\\n在调用上述函数时，请使用 Json 格式表示调用的参数。' }}{% endfor %}",
      .call =
          "{{ raise_exception('the glm4 format calls one function at a time') if calls "
          "| length > 1 }}{{ calls[0].name ~ '\\n' ~ calls[0].arguments | tojson }}" },
    { .name = "glm4_moe",
      .describe = "\n\n" SIGNATURES
                  "For each function call, output the function name and arguments within "
                  "the following XML format:\n"
                  "<tool_call>{function-name}\n"
                  "<arg_key>{arg-key-1}</arg_key>\n"
                  "<arg_value>{arg-value-1}</arg_value>\n"
                  "<arg_key>{arg-key-2}</arg_key>\n"
                  "<arg_value>{arg-value-2}</arg_value>\n"
                  "...\n"
                  "</tool_call>{{ '\\n' }}",
      .call = TAGGED_CALLS("'\\n<tool_call>' ~ f.name",
                           "'\\n<arg_key>' ~ k ~ '</arg_key>\\n<arg_value>' ~ " VALUE
                           " ~ '</arg_value>'",
                           "''") },
    { .name = "lfm2",
      .describe =
          "List of tools: <|tool_list_start|>{{ tools | map(attribute='function') | "
          "list | tojson }}<|tool_list_end|>",
      .call =
          "<|tool_call_start|>[{% for f in calls %}{{ f.name ~ '(' }}{% for k, v in "
          "f.arguments.items() %}{{ k ~ '=' ~ ('\"' ~ v ~ '\"' if v is string else v | "
          "tojson) ~ (', ' if not loop.last) }}{% endfor %}{{ ')' ~ (', ' if not "
          "loop.last) }}{% endfor %}]<|tool_call_end|>" },
    { .name = "ling",
      .describe = SIGNATURES CALL_AS_OBJECT "\ndetailed thinking off",
      .call = CALLS_IN_TAGS },
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
    { .name = "minimax1",
      .describe = "You are provided with these tools:\n"
                  "<tools>\n"
                  "{% for tool in tools %}{{ tool.function | tojson ~ '\\n' }}{% endfor "
                  "%}</tools>\n\n"
                  "If you need to call tools, please respond with "
                  "<tool_calls></tool_calls> XML tags, and provide tool-name and "
                  "json-object of arguments, following the format below:\n"
                  "<tool_calls>\n"
                  "{\"name\": <tool-name-1>, \"arguments\": <args-json-object-1>}\n"
                  "...\n"
                  "</tool_calls>",
      .call = "<tool_calls>\n"
              "{% for f in calls %}{{ f | tojson ~ '\\n' }}{% endfor %}</tool_calls>" },
    { .name = "minimax2",
      .describe = "\n\n"
                  "# Tools\n\n"
                  "You may call one or more tools to assist with the user query.\n"
                  "Here are the tools available in JSONSchema format:\n\n"
                  "<tools>\n"
                  "{% for tool in tools %}{{ '<tool>' ~ tool.function | tojson ~ "
                  "'</tool>\\n' }}{% endfor %}</tools>\n\n"
                  "When making tool calls, use XML format to invoke tools and pass "
                  "parameters:\n\n"
                  "<minimax:tool_call>\n"
                  "<invoke name=\"tool-name-1\">\n"
                  "<parameter name=\"param-key-1\">param-value-1</parameter>\n"
                  "<parameter name=\"param-key-2\">param-value-2</parameter>\n"
                  "...\n"
                  "</invoke>\n"
                  "</minimax:tool_call>",
      .call =
          TAGGED_CALLS("'<invoke name=\"' ~ f.name ~ '\">'",
                       "'\\n<parameter name=\"' ~ k ~ '\">' ~ " VALUE " ~ '</parameter>'",
                       "'\\n</invoke>'") },
    { .name = "mistral",
      .describe = "[AVAILABLE_TOOLS] {{ tools | tojson }}[/AVAILABLE_TOOLS]",
      .call = "{{ calls | tojson }}" },
    { .name = "phi4_mini", .describe = "<|tool|>{{ text }}<|/tool|>", .call = ACTIONS },
    { .name = "qwen",
      .describe = "\n\n" SIGNATURES CALL_AS_OBJECT,
      .call = CALLS_IN_TAGS },
    { .name = "qwen3_5",
      .describe =
          "\n\n"
          "# Tools\n\n"
          "You have access to the following functions:\n\n"
          "<tools>{% for tool in tools %}{{ '\\n' ~ tool.function | tojson }}{% endfor "
          "%}{{ '\\n' }}</tools>\n\n"
          "If you choose to call a function ONLY reply in the following format with NO "
          "suffix:\n\n"
          "<tool_call>\n"
          "<function=example_function_name>\n"
          "<parameter=example_parameter_1>\n"
          "value_1\n"
          "</parameter>\n"
          "<parameter=example_parameter_2>\n"
          "This is the value for the second parameter\n"
          "that can span\n"
          "multiple lines\n"
          "</parameter>\n"
          "</function>\n"
          "</tool_call>\n\n"
          "<IMPORTANT>\n"
          "Reminder:\n"
          "- Function calls MUST follow the specified format: an inner "
          "<function=...></function> block must be nested within <tool_call></tool_call> "
          "XML tags\n"
          "- Required parameters MUST be specified\n"
          "- You may provide optional reasoning for your function call in natural "
          "language BEFORE the function call, but NOT after\n"
          "- If there is no function call available, answer the question like normal with "
          "your current knowledge and do not tell the user about function calls\n"
          "</IMPORTANT>",
      .call =
          TAGGED_CALLS("'<tool_call>\\n<function=' ~ f.name ~ '>'",
                       "'\\n<parameter=' ~ k ~ '>\\n' ~ " VALUE " ~ '\\n</parameter>'",
                       "'\\n</function>\\n</tool_call>'") },
    /* the tag of a function lacks its end there, too */
    { .name = "seed_oss",
      .describe =
          "system\n"
          "You are Doubao, a helpful AI assistant. You may call one or more functions to "
          "assist with the user query.Tool List:\n"
          "You are authorized to use the following tools (described in JSON Schema "
          "format). Before performing any task, you must decide how to call them based on "
          "the descriptions and parameters of these tools.\n"
          "{{ given | tojson }}\n"
          "工具调用请遵循如下格式:\n"
          "<seed:tool_call>\n"
          "<function=example_function_name>\n"
          "<parameter=example_parameter_1>value_1</parameter>\n"
          "<parameter=example_parameter_2>This is the value for the second parameter\n"
          "that can span\n"
          "multiple lines</parameter>\n"
          "</function>\n"
          "</seed:tool_call>{{ '\\n' }}",
      .call = TAGGED_CALLS("'\\n<seed:tool_call>\\n<function=' ~ f.name",
                           "'\\n<parameter=' ~ k ~ '>' ~ " VALUE " ~ '</parameter>'",
                           "'\\n</function>\\n</seed:tool_call>'") },
};

static const struct template_tools *tools_of(const struct chat_template *chat)
{
    for (size_t i = 0; chat->tools && i < TS_COUNT(formats); i++)
        if (strcmp(formats[i].name, chat->tools) == 0)
            return &formats[i];
    return &formats[0];
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

/* The JSON of an answer's calls; `rest` is memory for it. */
struct call_json {
    const char *text;
    size_t len;
    struct text rest;
};

/* Find the JSON of an answer's calls.  Other text goes to `other`: thoughts before the
 * JSON, or the text around a tagged call. */
static void split_answer(const struct chat_template *chat, const struct message *answer,
                         struct text *other, struct call_json *out)
{
    static const char *const default_tags[] = { "<tool_call>", "</tool_call>" };
    const char *const *call = chat && chat->call_tags[0] ? chat->call_tags : default_tags;
    const char *const *thoughts = template_thought_tags(chat);
    const char *end, *text = answer->text, *all = text + answer->len;
    const char *begin = find_between(text, answer->len, call[0], call[1], &end);

    out->text = text;
    out->len = answer->len;
    if (begin) {
        out->text = begin + strlen(call[0]);
        out->len = (size_t)(end - out->text);
        text_add(other, text, (size_t)(begin - text));
        end += strlen(call[1]);
        text_add(other, end, (size_t)(all - end));
        return;
    }
    begin = find_between(text, answer->len, thoughts[0], thoughts[1], &end);
    if (!begin)
        return;
    end += strlen(thoughts[1]);
    text_add(other, begin, (size_t)(end - begin));
    text_add(&out->rest, text, (size_t)(begin - text));
    text_add(&out->rest, end, (size_t)(all - end));
    out->text = out->rest.data;
    out->len = out->rest.len;
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

json_t *template_tools_calls(const struct chat_template *chat,
                             const struct message *answer, struct text *thought,
                             struct error *err)
{
    json_t *calls;
    struct call_json json;

    text_init(&json.rest, 0);
    split_answer(chat, answer, thought, &json);
    calls = json_read_text(json.text, json.len, "the function call", 1, err);
    text_clear(&json.rest);
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

bool template_tools_describe(const struct chat_template *chat, const struct message *json,
                             struct text *out, struct error *err)
{
    json_t *list = template_tools_list(json, err), *given;

    if (list && json_array_size(list) == 0) {
        json_decref(list);
        return true;
    }
    if (!list)
        return false;
    given = json_read_text(json->text, json->len, "tools", 1, NULL);
    return render(tools_of(chat)->describe,
                  json_pack("{s o, s o, s s%}", "tools", list, "given", given, "text",
                            json->text, json->len),
                  out, err);
}

bool template_tools_call(const struct chat_template *chat, const struct message *answer,
                         struct text *out, struct error *err)
{
    json_t *calls = template_tools_calls(chat, answer, out, err),
           *list = calls ? name_and_arguments(calls) : NULL;

    json_decref(calls);
    return list &&
           render(tools_of(chat)->call, json_pack("{s o}", "calls", list), out, err);
}
