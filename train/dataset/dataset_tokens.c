/* train/dataset/dataset_tokens.c - files to records, conversations and tokens. */
#include "config.h"

#include "train/dataset/dataset_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/dataset/dataset_expand.h"
#include "train/dataset/dataset_left_out.h"
#include "train/dataset/dataset_pair.h"
#include "train/dataset/dataset_plan.h"
#include "train/dataset/dataset_reader.h"
#include "train/dataset/dataset_record.h"
#include "train/dataset/dataset_trial.h"

/* Sample numbers have 32 bits. */
#define MAX_SAMPLES ((size_t)UINT32_MAX - 1)

/* Reads records and encodes them as samples. */
struct encoder {
    const struct dataset_reading *reading;
    const struct plan *plan;
    struct template_options options;
    struct dataset_tokens *out;
    struct conversation conversation;
    struct message rejected; /* stage dpo: the other answer to its question */
    struct token_list ids;
    float *weights;
    struct dataset_pair_member members[2];
    struct dataset_expand *expand;
    bool lost; /* the cut leaves out a medium of the record, or a part of one */
    struct dataset_left_out left_out;
    int64_t document_end;
    const struct dataset_source *source;
    const char *path; /* the source's file that is being read */
    struct dataset_prompts prompts;
    struct template_tally tally;
    struct dataset_position position; /* of the record */
    bool good;                        /* the record of stage kto */
};

static bool is_plain(const struct encoder *encoder)
{
    return encoder->plan->stage == STAGE_PT;
}

static bool has_pairs(const struct encoder *encoder)
{
    return encoder->plan->stage == STAGE_DPO || encoder->plan->stage == STAGE_RM;
}

/* Append the position of a record: its number, if a line may have several. */
static void describe_position(const struct encoder *encoder,
                              const struct dataset_record *record, char *out, size_t size)
{
    if (record->in_list)
        snprintf(out, size, "record %zu of %s (line %u)", record->number, encoder->path,
                 record->at.line);
    else
        snprintf(out, size, "%s:%u", encoder->path, record->at.line);
}

static void skip_record(struct encoder *encoder, const struct dataset_record *record,
                        const char *why)
{
    char position[DATASET_POSITION];

    describe_position(encoder, record, position, sizeof(position));
    dataset_left_out_record(&encoder->left_out, position, why);
}

/* Report what the template does not write, and the answers that it does not train. */
static void note_left_out(struct encoder *encoder)
{
    const struct template_tally *tally = &encoder->tally;
    const struct chat_template *chat = encoder->reading->chat;
    const char *other = NULL;
    struct text note;
    bool learned;

    text_init(&note, 0);
    if (tally->unlearned > 0) {
        other = template_match(template_model_chat(chat), NULL);
        text_addf(&note,
                  "%zu of %zu answers are not trained: the template renders them "
                  "differently%s%s%s",
                  tally->unlearned, tally->answers, other ? "; template: " : "",
                  other ? other : "", other ? " trains all" : "");
        dataset_notes_add(&encoder->out->notes, note.data);
        text_reset(&note);
    }
    if (tally->left_count > 0) {
        text_addf(&note, "%s does not write: ", template_row_name(chat));
        learned = template_tally_describe(tally, &note);
        (learned ? dataset_notes_add : dataset_notes_add_info)(&encoder->out->notes,
                                                               note.data);
    }
    text_clear(&note);
}

/* Add the position to the message of a deeper function. */
static bool fail_at(struct error *err, const char *path, struct mark at,
                    const struct error *why)
{
    return error_at(err, why->code, path, at, "%s", why->text);
}

/* Add a document, or a part of one. A single token has no target. */
static void add_document(struct encoder *encoder, const uint32_t *ids,
                         const float *weights, size_t len)
{
    if (len >= 2 || dataset_is_packed(encoder->plan))
        dataset_store_add(&encoder->out->store, ids, weights, len);
}

/* A medium's token has no logits if the model reads its rows next to the text. */
static void leave_out_media(const struct template_media *media, const uint32_t *ids,
                            float *weights, size_t count)
{
    for (size_t i = 0; media && media->family->beside && i < count; i++)
        if (ids[i] == (uint32_t)media->token)
            weights[i] = 0;
}

/* Add a text of stage pt with media, which is not cut where one would lose a part. */
static bool add_text_with_media(struct encoder *encoder, struct error *err)
{
    struct template_media *media = dataset_expand_media(encoder->expand);
    size_t cutoff = (size_t)encoder->plan->cutoff_len, count;
    struct token_list *ids = &encoder->ids;
    const struct media_span *spans;
    float *weights;

    if (dataset_is_packed(encoder->plan))
        return error_set(
            err, ERROR_DATA,
            "the text has media, which the blocks of stage: pt would divide; "
            "set packing: false");
    if (!template_media_fill(media, ids, err))
        return false;
    if (ids->count > cutoff && media->spans[media->span_count - 1].start +
                                       media->spans[media->span_count - 1].len >
                                   cutoff) {
        encoder->lost = true;
        return true;
    }
    spans = dataset_expand_spans(encoder->expand, &count);
    weights = memory_resize(NULL, ids->count, sizeof(*weights));
    for (size_t i = 0; i < ids->count; i++)
        weights[i] = 1;
    leave_out_media(media, ids->ids, weights, ids->count);
    add_document(encoder, ids->ids, weights, ids->count > cutoff ? cutoff : ids->count);
    free(weights);
    dataset_store_add_media(&encoder->out->store, spans, count);
    return true;
}

/* Add a text of stage pt, with its end token. A continuous text is cut immediately, so
 * that evaluation can take a share of it and max_samples counts its blocks. */
static bool add_text(struct encoder *encoder, const char *text, size_t len,
                     bool continuous, struct error *err)
{
    size_t cutoff = (size_t)encoder->plan->cutoff_len;
    struct token_list *ids = &encoder->ids;
    bool packed = dataset_is_packed(encoder->plan);
    int64_t blocks_left =
        encoder->plan->max_samples > 0 ? encoder->plan->max_samples : -1;

    ids->count = 0;
    if (!packed && tokenizer_adds_bos(encoder->reading->tokenizer) &&
        tokenizer_bos(encoder->reading->tokenizer) >= 0)
        token_list_add(ids, (uint32_t)tokenizer_bos(encoder->reading->tokenizer));
    if (!tokenizer_encode(encoder->reading->tokenizer, text, len, false, ids, err))
        return false;
    if (encoder->document_end >= 0)
        token_list_add(ids, (uint32_t)encoder->document_end);
    if (encoder->conversation.media_count > 0)
        return add_text_with_media(encoder, err);
    if (!continuous) {
        add_document(encoder, ids->ids, NULL,
                     !packed && ids->count > cutoff ? cutoff : ids->count);
        return true;
    }
    for (size_t at = 0; at < ids->count && blocks_left-- != 0; at += cutoff)
        add_document(encoder, ids->ids + at, NULL,
                     ids->count - at < cutoff ? ids->count - at : cutoff);
    return true;
}

static bool has_target(const struct encoder *encoder)
{
    for (size_t i = 1; i < encoder->ids.count; i++)
        if (encoder->weights[i] != 0)
            return true;
    return false;
}

static struct template_request request_of(const struct encoder *encoder)
{
    return (struct template_request) { .chat = encoder->reading->chat,
                                       .tokenizer = encoder->reading->tokenizer,
                                       .options = &encoder->options,
                                       .messages = encoder->conversation.messages,
                                       .count = encoder->conversation.count };
}

static bool encode(struct encoder *encoder, size_t cutoff_len,
                   struct template_tally *tally, struct error *err)
{
    struct template_options options = encoder->options;
    struct template_request request = request_of(encoder);

    options.cutoff_len = cutoff_len;
    options.variables = encoder->conversation.variables;
    options.tally = tally;
    options.media = dataset_expand_media(encoder->expand);
    request.options = &options;
    encoder->ids.count = 0;
    if (!template_encode(&request, &encoder->ids, &encoder->weights, err))
        return false;
    leave_out_media(options.media, encoder->ids.ids, encoder->weights,
                    encoder->ids.count);
    return true;
}

static bool mark(struct encoder *encoder, struct error *err)
{
    struct conversation *conversation = &encoder->conversation;

    return dataset_expand_mark(encoder->expand, &encoder->position, conversation,
                               conversation->messages, conversation->count, err);
}

static bool is_lost(const struct encoder *encoder)
{
    const struct template_media *media = dataset_expand_media(encoder->expand);

    return media && media->lost;
}

static void store_media(struct encoder *encoder)
{
    size_t count;
    const struct media_span *spans = dataset_expand_spans(encoder->expand, &count);

    dataset_store_add_media(&encoder->out->store, spans, count);
}

/* Set *added if the sample has a target, and all media of its turns. */
static bool add_conversation(struct encoder *encoder, bool *added, struct error *err)
{
    if (!mark(encoder, err) ||
        !encode(encoder, (size_t)encoder->plan->cutoff_len, &encoder->tally, err))
        return false;
    encoder->lost = is_lost(encoder);
    *added = !encoder->lost && has_target(encoder);
    if (encoder->plan->stage == STAGE_KTO && !encoder->good) /* dataset_feedback.h */
        for (size_t i = 0; i < encoder->ids.count; i++)
            encoder->weights[i] = -encoder->weights[i];
    if (*added && encoder->reading->whole && !encode(encoder, 0, NULL, err))
        return false;
    if (*added) {
        dataset_store_add(&encoder->out->store, encoder->ids.ids, encoder->weights,
                          encoder->ids.count);
        store_media(encoder);
    }
    return true;
}

/* Encode the conversation with its present last answer, without truncation. */
static bool encode_member(struct encoder *encoder, struct dataset_pair_member *member,
                          struct template_tally *tally, struct error *err)
{
    struct template_options options = encoder->options;
    struct template_request request;
    const struct media_span *spans;
    size_t count;

    if (!mark(encoder, err))
        return false;
    request = request_of(encoder);
    options.variables = encoder->conversation.variables;
    options.tally = tally;
    options.media = dataset_expand_media(encoder->expand);
    request.options = &options;
    member->ids.count = 0;
    if (!template_encode(&request, &member->ids, &member->weights, err))
        return false;
    spans = dataset_expand_spans(encoder->expand, &count);
    if (count > member->span_room) {
        member->span_room = count;
        member->spans = memory_resize(member->spans, count, sizeof(*spans));
    }
    member->span_count = count;
    if (count > 0)
        memcpy(member->spans, spans, count * sizeof(*spans));
    return true;
}

/* Add both samples, or none. */
static bool add_pair(struct encoder *encoder, bool *added, struct error *err)
{
    struct dataset_pair_member *members = encoder->members;
    struct conversation *conversation = &encoder->conversation;
    size_t bytes = conversation->count * sizeof(*conversation->messages);
    struct message *given = memory_alloc(bytes); /* with their placeholders */
    bool ok;

    memcpy(given, conversation->messages, bytes);
    ok = encode_member(encoder, &members[0], &encoder->tally, err);
    memcpy(conversation->messages, given, bytes);
    free(given);
    conversation->messages[conversation->count - 1] = encoder->rejected;
    if (!ok || !encode_member(encoder, &members[1], NULL, err)) /* messages are counted */
        return false;
    *added = dataset_pair_cut(members, (size_t)encoder->plan->cutoff_len, &encoder->lost);
    *added = *added && !encoder->lost;
    for (size_t i = 0; *added && i < 2; i++) {
        dataset_store_add(&encoder->out->store, members[i].ids.ids, members[i].weights,
                          members[i].ids.count);
        dataset_store_add_media(&encoder->out->store, members[i].spans,
                                members[i].span_count);
    }
    return true;
}

/* Return advice for a record that is not valid JSON, based on its first bytes or on the
 * parser's message. */
static const char *json_remedy(const struct dataset_record *record,
                               const struct error *cause)
{
    static const struct {
        const char *part, *remedy;
    } rows[] = {
        { "decode byte", "the file is not UTF-8: iconv -t utf-8 converts it" },
        { "NaN", "JSON has no NaN: remove the record" },
        { "end of", "the record is truncated: fix or remove it" },
        { "duplicate", "a key occurs twice: remove one" },
    };

    if (record->len > 1 && memcmp(record->data, "{'", 2) == 0)
        return "JSON requires double quotes, as json.dumps of Python writes them";
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        if (strstr(cause->text, rows[i].part))
            return rows[i].remedy;
    return record->len > 0 && record->data[0] != '{' ? "a record is an object in braces"
                                                     : "fix or remove the record";
}

static enum record_kind read_json(struct encoder *encoder, const json_t *json,
                                  const char **why, struct error *err)
{
    if (encoder->plan->stage == STAGE_KTO)
        return dataset_record_read_feedback(encoder->source, json, &encoder->conversation,
                                            &encoder->good, why, err);
    if (encoder->plan->stage == STAGE_GRPO)
        return dataset_record_read_prompt(encoder->source, json, &encoder->conversation,
                                          why, err);
    return has_pairs(encoder)
               ? dataset_record_read_pair(encoder->source, json, &encoder->conversation,
                                          &encoder->rejected, why, err)
               : dataset_record_read(encoder->source, json, is_plain(encoder),
                                     &encoder->conversation, why, err);
}

/* Return whether reading can continue after a record whose media cannot be used. */
static bool add_fault(struct encoder *encoder, enum record_kind kind,
                      const struct dataset_record *record, const struct error *cause)
{
    struct error fault = { 0 };

    if (!encoder->reading->trial || kind == RECORD_BROKEN || cause->code != ERROR_DATA ||
        !dataset_expand_blames_record(encoder->expand))
        return false;
    fail_at(&fault, encoder->path, record->at, cause);
    dataset_faults_add(&encoder->reading->trial->faults, &fault);
    return true;
}

static bool add_json(struct encoder *encoder, const struct dataset_record *record,
                     struct error *err)
{
    const char *why = NULL;
    struct error cause = { 0 };
    enum record_kind kind;
    bool ok = true, added = true;
    json_t *json = json_read_loose(record->data, record->len, encoder->path,
                                   record->at.line, &cause);

    if (!json)
        return error_at(err, cause.code, cause.file, cause.at, "%s; %s", cause.text,
                        json_remedy(record, &cause));
    dataset_prompts_note(&encoder->prompts, encoder->source, json);
    kind = read_json(encoder, json, &why, &cause);
    if (kind == RECORD_CONVERSATION || kind == RECORD_TEXT)
        dataset_left_out_columns(&encoder->left_out, &encoder->conversation, json);
    encoder->left_out.with_numbers += encoder->conversation.has_numbers;
    encoder->lost = false;
    encoder->position = (struct dataset_position) { encoder->path, record->at.line };
    switch (kind) {
    case RECORD_BROKEN:
        ok = false;
        break;
    case RECORD_CONVERSATION:
        ok = has_pairs(encoder) ? add_pair(encoder, &added, &cause)
                                : add_conversation(encoder, &added, &cause);
        break;
    case RECORD_TEXT:
        ok = mark(encoder, &cause) &&
             add_text(encoder, encoder->conversation.messages[0].text,
                      encoder->conversation.messages[0].len, false, &cause);
        break;
    case RECORD_SKIPPED:
        skip_record(encoder, record, why);
        break;
    }
    if (encoder->lost)
        skip_record(encoder, record,
                    "whose media do not fit in cutoff_len tokens with their text");
    else if (!added)
        skip_record(
            encoder, record,
            has_pairs(encoder)
                ? "with no token left to train on in an answer (cutoff_len is too "
                  "short)"
                : "with no token left to train on (cutoff_len is too short, or the "
                  "answer has loss_weight 0)");
    json_decref(json);
    return ok || add_fault(encoder, kind, record, &cause) ||
           fail_at(err, encoder->path, record->at, &cause);
}

static bool add_record(struct encoder *encoder, const struct dataset_record *record,
                       struct error *err)
{
    struct error cause = { 0 };

    if (encoder->out->store.count >= MAX_SAMPLES)
        return error_set(err, ERROR_DATA, "more than %zu samples", MAX_SAMPLES);
    if (!record->is_text)
        return add_json(encoder, record, err);
    if (!is_plain(encoder))
        return error_at(err, ERROR_DATA, encoder->path, record->at,
                        "the file is plain text, which is for stage: pt; %s",
                        has_pairs(encoder)
                            ? "stages dpo and rm require questions with a chosen and "
                              "a rejected answer each"
                            : "the other stages require questions and answers");
    conversation_clear(&encoder->conversation);
    return add_text(encoder, record->data, record->len, !encoder->source->lines,
                    &cause) ||
           fail_at(err, encoder->path, record->at, &cause);
}

/* Read at most *remaining records of a file and subtract their number; negative: all. */
static bool read_file(struct encoder *encoder, int64_t *remaining, struct error *err)
{
    struct dataset_reader *reader =
        dataset_reader_open(encoder->path, encoder->source->lines, err);
    struct dataset_record record;
    struct error cause = { 0 };
    bool ok = reader;

    if (ok)
        dataset_reader_set_heartbeat(reader,
                                     tokenizer_heartbeat(encoder->reading->tokenizer));
    encoder->prompts = (struct dataset_prompts) { 0 };
    while (ok && *remaining != 0 && dataset_reader_next(reader, &record, &cause)) {
        ok = add_record(encoder, &record, err);
        --*remaining;
    }
    dataset_reader_close(reader);
    if (ok && cause.code != ERROR_NONE)
        return fail_at(err, cause.file[0] ? cause.file : encoder->path, cause.at, &cause);
    return ok &&
           dataset_prompts_check(&encoder->prompts, encoder->source, encoder->path, err);
}

static bool read_source(struct encoder *encoder, const struct dataset_source *source,
                        size_t *samples, struct error *err)
{
    size_t before = encoder->out->store.count, count = 0;
    const char *const *files;
    int64_t remaining;

    encoder->source = source;
    remaining = dataset_plan_limit(encoder->plan, source);
    if (!dataset_source_files(source, encoder->reading->arena, &files, &count, err))
        return false;
    for (size_t i = 0; i < count; i++) {
        encoder->path = files[i];
        if (!read_file(encoder, &remaining, err))
            return false;
    }
    *samples = encoder->out->store.count - before;
    return true;
}

static struct encoder reader_new(const struct dataset_reading *reading,
                                 struct dataset_tokens *out)
{
    const struct plan *plan = reading->plan;
    bool pairs = plan->stage >= STAGE_DPO; /* only the last answers are compared */

    return (struct encoder) {
        .reading = reading,
        .plan = plan,
        .out = out,
        .options = { .default_system = plan->default_system,
                     .thinking = plan->enable_thinking ? CHAT_THINKING_DEFAULT
                                                       : CHAT_THINKING_OFF,
                     .train_on_prompt = plan->train_on_prompt && !pairs,
                     .mask_history = plan->mask_history || pairs },
        .document_end = template_document_end(reading->chat, reading->tokenizer),
    };
}

bool dataset_tokens_read(const struct dataset_reading *reading,
                         struct dataset_tokens *out, struct error *err)
{
    const struct dataset_sources *sources = &reading->sources;
    struct encoder encoder = reader_new(reading, out);
    bool ok = true;

    encoder.expand = dataset_expand_new(reading, &out->store);
    out->parts = memory_alloc((sources->count + 1) * sizeof(size_t));
    for (size_t i = 0; ok && i < sources->count; i++)
        ok = read_source(&encoder, &sources->list[i], &out->parts[i], err);
    if (ok && reading->trial && reading->trial->faults.count > 0) {
        *err = reading->trial->faults.first;
        ok = false;
    }
    dataset_left_out_note_records(&encoder.left_out, &out->notes);
    note_left_out(&encoder);
    dataset_left_out_note_columns(&encoder.left_out, &out->notes);
    dataset_expand_note(encoder.expand, &out->notes);
    dataset_expand_free(encoder.expand);
    conversation_free(&encoder.conversation);
    token_list_clear(&encoder.ids);
    free(encoder.weights);
    for (size_t i = 0; i < 2; i++) {
        token_list_clear(&encoder.members[i].ids);
        free(encoder.members[i].weights);
        free(encoder.members[i].spans);
    }
    return ok;
}

void dataset_tokens_clear(struct dataset_tokens *tokens)
{
    dataset_store_clear(&tokens->store);
    dataset_notes_clear(&tokens->notes);
    free(tokens->parts);
    *tokens = (struct dataset_tokens) { 0 };
}
