/* train/chat/template_saving.c - named templates as Jinja and as Ollama's Modelfile, and
 * the special tokens of a saved tokenizer. */
#include "config.h"

#include "train/chat/template_saving.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/chat/chat.h"
#include "train/chat/template_internal.h"

struct saver {
    const struct chat_template *row;
    const struct tokenizer *tokenizer;
    const char *system;
    char *bos, *eos; /* texts of the tokens that training writes; "" if there is none */
};

/* How a slot becomes a piece of another template language. */
struct slot_language {
    void (*literal)(struct text *out, const char *data, size_t len);
    void (*content)(struct text *out, const char *name);
};

static char *token_text(const struct tokenizer *tokenizer, int64_t id)
{
    const uint32_t token = (uint32_t)id;
    struct text text;

    text_init(&text, 0);
    if (id >= 0)
        tokenizer_decode(tokenizer, &token, 1, false, &text);
    return text_detach(&text, NULL);
}

/* Append a slot: literals, and the content under `name`. */
static void add_slot(const struct saver *saver, const struct slot_language *language,
                     const char *slot, const char *name, struct text *out)
{
    while (slot && *slot) {
        size_t len = strcspn(slot, SLOT_CONTENT SLOT_BOS SLOT_EOS);

        if (len > 0)
            language->literal(out, slot, len);
        slot += len;
        if (*slot == SLOT_CONTENT[0])
            language->content(out, name);
        else if (*slot == SLOT_BOS[0] && saver->bos[0])
            language->literal(out, saver->bos, strlen(saver->bos));
        else if (*slot == SLOT_EOS[0] && saver->eos[0])
            language->literal(out, saver->eos, strlen(saver->eos));
        slot += *slot != 0;
    }
}

/* Jinja. */

static void add_plus(struct text *out)
{
    if (out->len > 0 && !text_ends(out->data, "= "))
        text_adds(out, " + ");
}

static void add_quoted(struct text *out, const char *data, size_t len)
{
    text_addc(out, '\'');
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\'' || data[i] == '\\')
            text_addc(out, '\\');
        if (data[i] == '\r') /* Jinja reads a line end of any kind as \n */
            text_adds(out, "\\r");
        else
            text_addc(out, data[i]);
    }
    text_addc(out, '\'');
}

static void jinja_literal(struct text *out, const char *data, size_t len)
{
    add_plus(out);
    add_quoted(out, data, len);
}

static void jinja_content(struct text *out, const char *name)
{
    add_plus(out);
    text_adds(out, name);
}

static const struct slot_language jinja = { jinja_literal, jinja_content };

/* Append {{ the slot }}; nothing for an empty slot, such as one with only a token that the
 * tokenizer lacks. */
static void add_output(const struct saver *saver, struct text *out, const char *slot,
                       const char *name)
{
    struct text output;

    text_init(&output, 0);
    add_slot(saver, &jinja, slot, name, &output);
    if (output.len > 0)
        text_addf(out, "{{ %s }}", output.data);
    text_clear(&output);
}

/* The system message: a text of its own, or the start of the first question. */
static void add_system(const struct saver *saver, struct text *out)
{
    const struct chat_template *row = saver->row;

    if (saver->system && saver->system[0]) {
        text_adds(out, "{% set system_message = ");
        add_quoted(out, saver->system, strlen(saver->system));
        text_adds(out, " %}");
    }
    text_adds(out, "{% if messages[0]['role'] == 'system' %}"
                   "{% set system_message = messages[0]['content'] %}"
                   "{% set loop_messages = messages[1:] %}"
                   "{% else %}{% set loop_messages = messages %}{% endif %}");
    if (row->system_in_question)
        return;
    text_adds(out, "{% if system_message is defined %}");
    add_output(saver, out, row->system, "system_message");
    text_adds(out, "{% endif %}");
}

static void add_content(const struct saver *saver, struct text *out)
{
    text_adds(out, "{% set content = message['content'] %}");
    if (!saver->row->system_in_question)
        return;
    text_adds(out, "{% if loop.first and system_message is defined %}"
                   "{% set content = ");
    add_slot(saver, &jinja, saver->row->system, "system_message", out);
    text_adds(out, " + message['content'] %}{% endif %}");
}

/* The prompt of an answer is part of each question, so that add_generation_prompt makes
 * no difference. */
static char *make_jinja(const struct saver *saver)
{
    const struct chat_template *row = saver->row;
    struct text out;

    text_init(&out, 0);
    add_output(saver, &out, row->prefix, NULL);
    add_system(saver, &out);
    text_adds(&out, "{% for message in loop_messages %}");
    add_content(saver, &out);
    text_adds(&out, "{% if message['role'] == 'user' %}");
    add_output(saver, &out, row->user, "content");
    if (row->observation) {
        text_adds(&out, "{% elif message['role'] == 'tool' %}");
        add_output(saver, &out, row->observation, "content");
    }
    text_adds(&out, "{% elif message['role'] == 'assistant' %}");
    add_output(saver, &out, row->assistant, "content");
    if (row->ends_with_eos && saver->eos[0]) {
        text_adds(&out, "{% if loop.last %}");
        add_output(saver, &out, SLOT_EOS, NULL);
        text_adds(&out, "{% endif %}");
    }
    text_adds(&out, "{% endif %}{% endfor %}");
    return text_detach(&out, NULL);
}

/* Ollama's Modelfile. */

static void go_literal(struct text *out, const char *data, size_t len)
{
    text_add(out, data, len);
}

static void go_content(struct text *out, const char *name)
{
    text_addf(out, "{{ %s }}", name);
}

static const struct slot_language go = { go_literal, go_content };

/* Slots of the model's own template, derived from what it renders, as LLaMA-Factory's
 * parse_template does. */
struct own_slots {
    char *system, *user, *assistant;
};

static bool render(const struct saver *saver, const struct message *messages,
                   size_t count, bool prompt, char **out)
{
    const struct template_options options = { .default_system = NULL };
    const struct template_request request = { saver->row, saver->tokenizer, &options,
                                              messages, count };
    struct text text;
    bool ok;

    text_init(&text, 0);
    ok = chat_render(&request, prompt, &text, NULL);
    *out = text_detach(&text, NULL);
    return ok;
}

static void own_slots_clear(struct own_slots *slots)
{
    free(slots->system);
    free(slots->user);
    free(slots->assistant);
}

/* Remove a prefix, if the text starts with it. */
static void cut_prefix(char *text, const char *prefix)
{
    size_t len = strlen(prefix);

    if (strncmp(text, prefix, len) == 0)
        memmove(text, text + len, strlen(text + len) + 1);
}

/* Return false if the template refuses a plain conversation. */
static bool find_own_slots(const struct saver *saver, struct own_slots *slots)
{
    static const struct message turns[] = { { ROLE_SYSTEM, SLOT_CONTENT, 1, 0, NULL },
                                            { ROLE_USER, SLOT_CONTENT, 1, 0, NULL },
                                            { ROLE_ASSISTANT, SLOT_CONTENT, 1, 1,
                                              NULL } };
    char *with_system = NULL;
    bool ok;

    *slots = (struct own_slots) { .system = NULL };
    ok = render(saver, turns, 1, false, &slots->system) &&
         render(saver, turns, 2, true, &with_system) &&
         render(saver, turns, 3, false, &slots->assistant);
    slots->user = ok ? memory_strdup(with_system) : NULL;
    if (ok) {
        cut_prefix(slots->user, slots->system);
        cut_prefix(slots->assistant, with_system);
        cut_prefix(slots->system, saver->bos); /* Ollama writes it */
    }
    free(with_system);
    return ok;
}

static void add_stops(const struct template_saving *saving, const struct saver *saver,
                      struct text *out)
{
    const char *eos = saving->eos_token ? saving->eos_token : saver->eos;

    if (eos[0])
        text_addf(out, "PARAMETER stop \"%s\"\n", eos);
    for (size_t i = 0; i < saving->stop_count; i++)
        text_addf(out, "PARAMETER stop \"%s\"\n", saving->stops[i]);
}

/* Three quotes end a text of a Modelfile; they cannot be escaped. */
static bool fits_quotes(const char *text)
{
    return !text || !strstr(text, "\"\"\"");
}

static char *make_modelfile(const struct saver *saver,
                            const struct template_saving *saving)
{
    const struct chat_template *row = saver->row;
    bool own = row->model_chat != NULL;
    struct own_slots slots = { .system = NULL };
    const char *system = row->system, *user = row->user, *assistant = row->assistant;
    struct text out, template;

    if (own && !find_own_slots(saver, &slots)) {
        own_slots_clear(&slots);
        return NULL;
    }
    if (own)
        system = slots.system, user = slots.user, assistant = slots.assistant;
    text_init(&template, 0);
    add_slot(saver, &go, row->prefix, NULL, &template);
    text_adds(&template, "{{ if .System }}");
    add_slot(saver, &go, system, ".System", &template);
    text_adds(&template, "{{ end }}{{ range .Messages }}{{ if eq .Role \"user\" }}");
    add_slot(saver, &go, user, ".Content", &template);
    text_adds(&template, "{{ else if eq .Role \"assistant\" }}");
    add_slot(saver, &go, assistant, ".Content", &template);
    text_adds(&template, "{{ end }}{{ end }}");
    own_slots_clear(&slots);
    text_init(&out, 0);
    text_addf(&out, "FROM .\n\nTEMPLATE \"\"\"%s\"\"\"\n\n", template.data);
    if (saver->system && saver->system[0])
        text_addf(&out, "SYSTEM \"\"\"%s\"\"\"\n\n", saver->system);
    add_stops(saving, saver, &out);
    text_adds(&out, "PARAMETER num_ctx 4096\n");
    if (!fits_quotes(template.data) || !fits_quotes(saver->system))
        text_reset(&out);
    text_clear(&template);
    if (out.len > 0)
        return text_detach(&out, NULL);
    text_clear(&out);
    return NULL;
}

/* Special tokens. */

static void add_stop(struct template_saving *saving, const struct tokenizer *tokenizer,
                     const char *stop)
{
    int64_t id = tokenizer_find(tokenizer, stop);

    if (id < 0 || id == saving->eos_id)
        return;
    saving->stop_ids[saving->stop_count] = id;
    saving->stops[saving->stop_count++] = memory_strdup(stop);
}

/* A stop that the tokenizer lacks is plain text for the model, and ends nothing. */
static void set_tokens(struct template_saving *saving, const struct saver *saver)
{
    const struct chat_template *row = saver->row;
    const struct tokenizer *tokenizer = saver->tokenizer;
    int64_t first = row->stops[0] ? tokenizer_find(tokenizer, row->stops[0]) : -1;

    saving->eos_id = tokenizer_eos(tokenizer);
    saving->pad_id = tokenizer_pad(tokenizer);
    if (row->replaces_eos && first >= 0 && first != saving->eos_id) {
        saving->eos_id = first;
        saving->eos_token = memory_strdup(row->stops[0]);
    }
    for (size_t i = 0; i < TEMPLATE_STOPS && row->stops[i]; i++)
        add_stop(saving, tokenizer, row->stops[i]);
    if (saving->pad_id < 0 && saving->eos_id >= 0) {
        saving->pad_id = saving->eos_id;
        saving->pad_token = token_text(tokenizer, saving->eos_id);
    }
}

/* Encode a question and its answer as the training would. */
static bool encode_probe(const struct saver *saver, const struct chat_template *row,
                         struct token_list *ids, struct error *err)
{
    static const struct message probe[] = { { ROLE_USER, "2+2?", 4, 0, NULL },
                                            { ROLE_ASSISTANT, "4", 1, 1, NULL } };
    const struct template_options options = { .default_system = saver->system };
    const struct template_request request = { row, saver->tokenizer, &options, probe, 2 };
    float *weights = NULL;
    bool ok = template_encode(&request, ids, &weights, err);

    free(weights);
    return ok;
}

/* Compare a short conversation in both templates; what follows the end of the answer does
 * not matter. A template that refuses the conversation differs. */
static bool conversations_differ(const struct saver *saver, const struct chat *own)
{
    struct token_list ours = { 0 }, theirs = { 0 };
    bool same = encode_probe(saver, saver->row, &ours, NULL) &&
                encode_probe(saver, chat_as_template(own), &theirs, NULL);
    size_t shorter = ours.count < theirs.count ? ours.count : theirs.count;

    same = same && (shorter == 0 ||
                    memcmp(ours.ids, theirs.ids, shorter * sizeof(*ours.ids)) == 0);
    token_list_clear(&ours);
    token_list_clear(&theirs);
    return !same;
}

void template_saving_make(const struct tokenizer *tokenizer, const char *name,
                          const char *system, struct template_saving *out)
{
    const struct chat *own = tokenizer_attached(tokenizer);
    struct saver saver = { .row = name ? template_find(name) : template_guess(tokenizer),
                           .tokenizer = tokenizer,
                           .bos = token_text(tokenizer, tokenizer_bos(tokenizer)),
                           .eos = token_text(tokenizer, tokenizer_eos(tokenizer)) };
    const struct chat_template *row = saver.row;

    *out = (struct template_saving) { .eos_id = -1, .pad_id = -1 };
    out->new_tokens = json_incref((json_t *)tokenizer_new_tokens(tokenizer));
    saver.system = system ? system : row->default_system;
    set_tokens(out, &saver);
    if (!row->model_chat && (!own || row->replaces_model_chat))
        out->chat_template = make_jinja(&saver);
    else if (!row->model_chat)
        out->conversations_differ = conversations_differ(&saver, own);
    out->modelfile = make_modelfile(&saver, out);
    free(saver.bos);
    free(saver.eos);
}

void template_saving_clear(struct template_saving *saving)
{
    free(saving->chat_template);
    free(saving->modelfile);
    free(saving->eos_token);
    free(saving->pad_token);
    json_decref(saving->new_tokens);
    for (size_t i = 0; i < saving->stop_count; i++)
        free(saving->stops[i]);
    *saving = (struct template_saving) { .eos_id = -1, .pad_id = -1 };
}
