/* train/model/model_decode.c - generation: sequences grow by one token at a time.  The
 * keys and values of previous rows are cached; the blocks are those of the forward
 * pass. */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_internal.h"

/* Copy the rows of the only sequence of a batch to its slot. */
static void cache_rows(const struct pass *pass, enum buffer buffer, size_t layer,
                       struct tensor x)
{
    size_t first = pass->slot * pass->model->shapes.slot_rows;
    struct tensor cache = tensor_columns(pass_buffer(pass, buffer, layer), 0, x.cols);

    pass->ops->convert(pass->be, &(struct op_convert) {
                                     .out = tensor_rows(cache, first, x.rows), .x = x });
}

/* A layer that attends to the keys of another appends them to that one's cache again: the same
 * rows, at the same position. */
static void run_decode(const struct pass *pass, size_t layer,
                       const struct op_attention *a)
{
    const struct parameter *sinks = pass->model->blocks[layer].sinks;
    const struct op_decode op = {
        .out = a->out,
        .q = a->q,
        .k = a->k,
        .v = a->v,
        .keys = tensor_columns(pass_buffer(pass, BUFFER_KEYS, layer), 0, a->k.cols),
        .values = tensor_columns(pass_buffer(pass, BUFFER_VALUES, layer), 0, a->v.cols),
        /* the position of a row is the number of rows before it */
        .lengths = pass_buffer(pass, BUFFER_POSITIONS, 0).data,
        .room = pass->model->shapes.slot_rows,
        .heads = a->heads,
        .kv_heads = a->kv_heads,
        .head_size = a->head_size,
        .window = a->window,
        .chunk = pass->model->blocks[layer].chunk,
        .scale = a->scale,
        .softcap = a->softcap,
        .slopes = a->slopes,
        .sinks = sinks ? pass_bias(pass, sinks->weight).data : NULL,
    };

    pass->ops->decode(pass->be, &op);
}

void model_run_attention(const struct pass *pass, size_t layer)
{
    const struct op_attention attention = model_attention_op(pass, layer);
    const struct parameter *sinks = pass->model->blocks[layer].sinks;

    if (pass->decoding) {
        run_decode(pass, layer, &attention);
        return;
    }
    pass->ops->attention(pass->be, &attention);
    if (sinks)
        pass->ops->sink(pass->be,
                        &(struct op_sink) { .out = attention.out,
                                            .lse = attention.lse,
                                            .sinks = pass_bias(pass, sinks->weight),
                                            .heads = attention.heads });
    if (!pass->prefill || pass->model->blocks[layer].borrows_keys)
        return;
    cache_rows(pass, BUFFER_KEYS, layer, attention.k);
    cache_rows(pass, BUFFER_VALUES, layer, attention.v);
}

void model_sink_backward(const struct pass *pass, size_t layer,
                         const struct op_attention_backward *op)
{
    const struct parameter *sinks = pass->model->blocks[layer].sinks;

    if (sinks && sinks->grad.data)
        pass->ops->sink_backward(pass->be, &(struct op_sink_backward) {
                                               .dsinks = sinks->grad,
                                               .dout = op->dout,
                                               .out = op->forward.out,
                                               .lse = op->forward.lse,
                                               .sinks = pass_bias(pass, sinks->weight),
                                               .heads = op->forward.heads });
}

size_t model_slots(const struct model *model)
{
    return model->shapes.slots;
}

size_t model_slot_rows(const struct model *model)
{
    return model->shapes.slot_rows;
}

size_t model_vocabulary(const struct model *model)
{
    return model->config->vocab_size;
}

static struct pass pass_of(struct model *m, size_t rows, size_t sequences)
{
    return (struct pass) { .model = m,
                           .be = m->be,
                           .ops = m->be->ops,
                           .rows = rows,
                           .sequences = sequences,
                           .announced = m->shapes.shards_blocks,
                           .scalars = model_step_scalars(m) };
}

static void upload_ids(const struct pass *pass, enum buffer buffer, const int32_t *from,
                       size_t count)
{
    pass->ops->upload(pass->be, pass_buffer(pass, buffer, 0).data, from,
                      count * sizeof(*from));
}

static bool check_tokens(const struct model *m, const int32_t *tokens, size_t count,
                         struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= model_config_tokens(m->config))
            return error_set(err, ERROR_DATA,
                             "token %d is not in the model's vocabulary of %zu; does "
                             "the tokenizer belong to this model?",
                             tokens[i], m->config->vocab_size);
    return true;
}

bool model_prefill(struct model *model, size_t slot, const int32_t *tokens, size_t count,
                   float *logits, struct error *err)
{
    return model_prefill_media(model, slot, tokens, count, &(struct question_media) { 0 },
                               logits, err);
}

bool model_prefill_media(struct model *model, size_t slot, const int32_t *tokens,
                         size_t count, const struct question_media *media, float *logits,
                         struct error *err)
{
    struct pass pass = pass_of(model, count, 1);
    int32_t offsets[] = { 0, (int32_t)count };
    const struct batch batch = { .rows = count,
                                 .sequences = 1,
                                 .offsets = offsets,
                                 .media = media->media,
                                 .media_at = media->media_at,
                                 .media_count = media->media_count,
                                 .media_rows = media->media_rows };
    struct tensor h;

    if (count == 0 || count > model->shapes.rows || count > model->shapes.slot_rows ||
        slot >= model->shapes.slots)
        return error_set(err, ERROR_SYSTEM,
                         "a prompt of %zu tokens, but memory was planned for 1 to %zu",
                         count, model->shapes.rows);
    if (!check_tokens(model, tokens, count, err) ||
        !model_config_check_positions(model->config, count, err))
        return false;
    pass.prefill = true;
    pass.slot = slot;
    pass.media = media->media_rows > 0;
    for (size_t i = 0; i < count; i++)
        model->position_ids[i] = (int32_t)i;
    upload_ids(&pass, BUFFER_TOKENS, tokens, count);
    upload_ids(&pass, BUFFER_POSITIONS, model->position_ids, count);
    upload_ids(&pass, BUFFER_OFFSETS, offsets, 2);
    model_upload_chunks(&pass, offsets);
    model_rope_reach(model, count);
    if (!model_media_upload(&pass, &batch, err))
        return false;
    model_media_started(&pass, &batch);
    model_forward(&pass);
    h = pass_buffer(&pass, BUFFER_H_LAST, 0);
    pass_logits(&pass, tensor_rows(h, count - 1, 1), logits);
    return pass_finish_logits(&pass, logits, 1, err);
}

/* Linear attention continues each sequence by one row. */
static void upload_ones(const struct pass *pass)
{
    struct model *m = pass->model;

    if (!m->config->linear && m->config->ssm.heads == 0)
        return;
    for (size_t i = 0; i <= pass->sequences; i++)
        m->position_ids[i] = (int32_t)i;
    upload_ids(pass, BUFFER_OFFSETS, m->position_ids, pass->sequences + 1);
}

bool model_decode_step(struct model *model, const int32_t *tokens, const int32_t *lengths,
                       float *logits, struct error *err)
{
    size_t slots = model->shapes.slots;
    struct pass pass = pass_of(model, slots, slots);

    if (!check_tokens(model, tokens, slots, err))
        return false;
    for (size_t i = 0; i < slots; i++)
        if (lengths[i] < 0 || (size_t)lengths[i] >= model->shapes.slot_rows)
            return error_set(err, ERROR_SYSTEM,
                             "position %d, but memory was planned for %zu", lengths[i],
                             model->shapes.slot_rows);
        else if (!model_config_check_positions(model->config, (size_t)lengths[i] + 1,
                                               err))
            return false;
    pass.decoding = true;
    upload_ids(&pass, BUFFER_TOKENS, tokens, slots);
    upload_ids(&pass, BUFFER_POSITIONS, lengths, slots);
    model_media_decode(&pass, lengths);
    upload_ones(&pass);
    model_rope_reach(model, 1);
    model_run_forward(&pass);
    pass_logits(&pass, pass_buffer(&pass, BUFFER_H_LAST, 0), logits);
    return pass_finish_logits(&pass, logits, slots, err);
}
