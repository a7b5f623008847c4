/* train/model/model_pass.c - micro-batches: check them, upload them, run them, and
 * collect their results. */
#include "config.h"

#include "train/model/model.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/size.h"
#include "train/model/model_cross.h"
#include "train/model/model_exchange.h"
#include "train/model/model_internal.h"
#include "train/chat/template.h"
#include "train/model/model_loss.h"

/* Row counts are rounded up to one of sixteen values between a power of two and the next,
 * and to whole tiles of matmul and attention, because a partial tile takes as long as a
 * whole one. Padding adds at most 256 rows: with thousands of rows, launch overhead is
 * negligible, but the time of extra rows is not. */
enum { ROW_SHARES = 16, ROW_TILE = 64, ROW_STEP_MAX = 256 };

/* Token ids outside the vocabulary and batches larger than planned must not reach the
 * device. */
static bool check_batch(const struct model *m, const struct batch *batch,
                        struct error *err)
{
    if (batch->rows == 0 || batch->rows > m->shapes.rows ||
        batch->sequences > m->shapes.sequences)
        return error_set(
            err, ERROR_SYSTEM,
            "a batch of %zu rows in %zu sequences, but memory was planned for %zu in %zu",
            batch->rows, batch->sequences, m->shapes.rows, m->shapes.sequences);
    for (size_t i = 0; i < batch->rows; i++) {
        int32_t token = batch->tokens[i], target = batch->targets[i];

        if (token < 0 || (size_t)token >= model_config_tokens(m->config))
            return error_set(
                err, ERROR_DATA,
                "token %d is not in the model's vocabulary of %zu; does the tokenizer "
                "belong to this model?",
                token, m->config->vocab_size);
        if (target >= 0 && (size_t)target >= m->config->vocab_size)
            return error_set(err, ERROR_DATA,
                             "label %d is not in the model's vocabulary of %zu", target,
                             m->config->vocab_size);
        if (batch->positions[i] < 0 || (size_t)batch->positions[i] >= batch->rows)
            return error_set(err, ERROR_SYSTEM, "position %d is outside the batch",
                             batch->positions[i]);
        if (!model_config_check_positions(m->config, (size_t)batch->positions[i] + 1,
                                          err))
            return false;
    }
    return true;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t round_rows(size_t rows)
{
    size_t unit = ROW_TILE;

    while (unit < ROW_STEP_MAX && 2 * unit * ROW_SHARES <= rows)
        unit *= 2;
    return size_round(rows, unit);
}

/* Return the pairs, or the sampled answers, of a batch before it is padded. */
static size_t pairs_of(const struct model *m, const struct batch *batch)
{
    return m->plan->stage == STAGE_GRPO ? batch->sequences : batch->sequences / 2;
}

/* The memory of a teacher or a reference may limit the rows. */
static size_t rows_for(const struct model *m, const struct batch *batch)
{
    size_t rows = least(round_rows(batch->rows), m->shapes.rows);

    if (m->teacher)
        rows = least(rows, m->teacher->shapes.rows);
    if (m->reference)
        rows = least(rows, m->reference->shapes.rows);
    return rows > batch->rows ? rows : batch->rows;
}

/*
 * Pad a batch for the device. A recording fits one number of rows and sequences, as the
 * plan of a matmul fits one number of rows, and batches rarely repeat these numbers. If
 * passes are recorded, rows without a target, in a sequence of their own, round up the
 * rows, and empty sequences fill up to the planned number.
 *
 * Losses and gradients of padding rows are zero. Each is a copy of the batch's first row,
 * including its position: attention gives it the same result, so it overflows only if a
 * row of the batch does. A padded batch is not padded again.
 */
static const struct batch *pad_batch(struct model *m, const struct batch *batch)
{
    struct batch *to = &m->padded;
    size_t rows = batch->rows, bytes = rows * sizeof(int32_t);

    if (!m->be->ops->begin || batch->sequences >= m->shapes.sequences)
        return batch;
    to->rows = rows_for(m, batch);
    to->sequences = m->shapes.sequences;
    to->weights = batch->weights ? m->row_weights : NULL;
    memcpy(to->tokens, batch->tokens, bytes);
    memcpy(to->positions, batch->positions, bytes);
    memcpy(to->targets, batch->targets, bytes);
    memcpy(to->offsets, batch->offsets, (batch->sequences + 1) * sizeof(int32_t));
    for (size_t i = rows; i < to->rows; i++) {
        to->tokens[i] = batch->tokens[0];
        to->positions[i] = batch->positions[0];
        to->targets[i] = LABEL_NONE;
    }
    if (to->weights) {
        memcpy(to->weights, batch->weights, bytes);
        memset(to->weights + rows, 0, (to->rows - rows) * sizeof(float));
    }
    for (size_t i = batch->sequences + 1; i <= to->sequences; i++)
        to->offsets[i] = (int32_t)to->rows;
    to->media = batch->media;
    to->media_at = batch->media_at;
    to->media_count = batch->media_count;
    to->media_rows = batch->media_rows;
    return to;
}

/* Return the length of the longest sequence, as far as its angles depend on it. */
static size_t positions_of(const struct batch *batch)
{
    size_t most = 0;

    for (size_t i = 0; i < batch->rows; i++)
        if ((size_t)batch->positions[i] > most)
            most = (size_t)batch->positions[i];
    return most + 1;
}

static bool upload_batch(const struct pass *pass, const struct batch *batch,
                         struct error *err)
{
    const struct {
        enum buffer to;
        const void *from; /* 4-byte elements; NULL: none */
        size_t count;
    } rows[] = {
        { BUFFER_TOKENS, batch->tokens, batch->rows },
        { BUFFER_POSITIONS, batch->positions, batch->rows },
        { BUFFER_TARGETS,
          pass->model->config->scores ? model_score_targets(pass->model, batch)
                                      : batch->targets,
          batch->rows },
        { BUFFER_WEIGHTS, batch->weights, batch->rows },
        { BUFFER_OFFSETS, batch->offsets, batch->sequences + 1 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].from)
            pass->ops->upload(pass->be, pass_buffer(pass, rows[i].to, 0).data,
                              rows[i].from, rows[i].count * sizeof(int32_t));
    model_upload_chunks(pass, batch->offsets);
    model_rope_reach(pass->model, positions_of(batch));
    return model_media_upload(pass, batch, err);
}

/* Rounded up, but at most the rows of the batch. */
static size_t count_labeled(const struct batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->rows; i++)
        count += batch->targets[i] >= 0;
    return least(round_rows(count), batch->rows);
}

static size_t longest_expected(const struct model *m)
{
    size_t bound = (size_t)m->plan->cutoff_len;

    return bound < ROW_STEP_MAX ? ROW_STEP_MAX : bound;
}

/* Return an upper bound of the length of a sequence: the job's limit, which all batches
 * share, or the padding step; all rows if a sequence is longer. */
static size_t longest_sequence(const struct model *m, const struct batch *batch)
{
    size_t bound = longest_expected(m);

    for (size_t i = 0; i < batch->sequences; i++)
        if ((size_t)(batch->offsets[i + 1] - batch->offsets[i]) > bound)
            return batch->rows;
    return least(bound, batch->rows);
}

static struct pass pass_of(struct model *m, const struct batch *batch)
{
    return (struct pass) { .model = m,
                           .be = m->be,
                           .ops = m->be->ops,
                           .batch = batch,
                           .rows = batch->rows,
                           .sequences = batch->sequences,
                           .longest = longest_sequence(m, batch),
                           .labeled = count_labeled(batch),
                           .weighted = batch->weights != NULL,
                           .media = batch->media_rows > 0,
                           .scalars = model_step_scalars(m) };
}

void model_expect_attention(struct model *m)
{
    const struct pass pass = { .model = m,
                               .be = m->be,
                               .ops = m->be->ops,
                               .rows = m->shapes.rows,
                               .sequences = m->shapes.sequences,
                               .longest = least(longest_expected(m), m->shapes.rows),
                               .training = true,
                               .scalars = model_step_scalars(m) };
    struct op_attention op;

    if (!m->be->ops->attention_expect)
        return;
    op = model_attention_op(&pass, 0);
    m->be->ops->attention_expect(m->be, &op);
}

bool pass_open(struct model *model, const struct batch *batch, struct pass *out,
               struct error *err)
{
    size_t pairs = pairs_of(model, batch);

    if (!check_batch(model, batch, err))
        return false;
    batch = pad_batch(model, batch);
    *out = pass_of(model, batch);
    out->pairs = pairs;
    out->announced = model->shapes.shards_blocks;
    return upload_batch(out, batch, err);
}

/* from 0: the forward pass */
static bool begin(const struct pass *pass, size_t from, size_t to)
{
    const bool fills = from == 0 && pass->fills;
    const size_t key[] = {
        pass->rows,
        pass->sequences,
        pass->longest,
        pass->training,
        pass->decoding,
        pass->skip_adapters,
        pass->second,
        from > 0 && pass->first,
        fills,
        fills && pass->fills_frozen,
        pass->media,
        pass->media || pass->decoding ? model_cross_parts(pass->model) : 0,
        from,
        to
    };

    return !pass->ops->begin || pass->ops->begin(pass->be, key, sizeof(key));
}

bool pass_begin(const struct pass *pass)
{
    return begin(pass, 0, 0);
}

bool pass_begin_levels(const struct pass *pass, size_t from, size_t to)
{
    return begin(pass, from, to);
}

void pass_end(const struct pass *pass)
{
    if (pass->ops->end)
        pass->ops->end(pass->be);
}

/* model_evaluate for preferences. */
static bool evaluate_pairs(const struct pass *pass, double *loss_sum, struct error *err)
{
    struct model *m = pass->model;
    float *pairs = m->results[0].pairs;

    if (!model_run_reference(pass, err))
        return false;
    model_run_forward(pass);
    model_preference_loss(pass);
    pass->ops->download(pass->be, pairs, pass_buffer(pass, BUFFER_PAIRS, 0).data,
                        pass->pairs * PREFERENCE_VALUES * sizeof(float));
    m->rewards = (struct rewards) { 0 };
    if (!pass->ops->sync(pass->be, err))
        return false;
    model_sum_pairs(m, pairs, pass->pairs, loss_sum);
    return true;
}

bool model_evaluate(struct model *model, const struct batch *batch, double *loss_sum,
                    struct error *err)
{
    struct pass pass;
    const struct window *w = &model->results[0];
    float *losses = w->losses;
    const uint64_t counted = batch->rows;

    if (!pass_open(model, batch, &pass, err))
        return false;
    if (plan_prefers(model->plan))
        return evaluate_pairs(&pass, loss_sum, err);
    model_experts_expect_rows(&pass, counted);
    model_run_forward(&pass);
    model_classifier_loss(&pass);
    model_experts_download(&pass);
    pass.ops->download(pass.be, losses, pass_buffer(&pass, BUFFER_LOSSES, 0).data,
                       pass.rows * sizeof(float));
    if (model->correct)
        pass.ops->download(pass.be, model->correct,
                           pass_buffer(&pass, BUFFER_CORRECT, 0).data,
                           pass.rows * sizeof(float));
    if (!pass.ops->sync(pass.be, err))
        return false;
    for (size_t i = 0; i < pass.rows; i++)
        *loss_sum += losses[i];
    *loss_sum +=
        batch->weight * model_experts_loss(model, w->expert_counts, w->expert_sums);
    return true;
}

void model_accuracy(const struct model *model, const struct batch *batch, double *sum,
                    size_t *sequences)
{
    for (size_t sequence = 0; model->correct && sequence < batch->sequences; sequence++) {
        double hits = 0;
        size_t targets = 0;

        for (int32_t i = batch->offsets[sequence]; i < batch->offsets[sequence + 1];
             i++) {
            hits += model->correct[i];
            targets += batch->targets[i] >= 0;
        }
        *sum += targets > 0 ? hits / (double)targets : 0;
        *sequences += targets > 0;
    }
}

/* ---- Windows ---- */

/* Return the window that is being issued. */
static struct window *window_now(struct model *m)
{
    return &m->results[m->posted % WINDOWS];
}

void model_begin(struct model *model, const struct step_scalars *scalars)
{
    bool follows = model->posted > model->ended;
    size_t bytes = follows ? offsetof(struct step_scalars, halted) : sizeof(*scalars);

    window_now(model)->batch_count = 0;
    model->issued_step = scalars->step;
    model->be->ops->upload(model->be, model_step_scalars(model), scalars, bytes);
}

/* Per micro-batch results of a window, on the device and on the host; data NULL: end of
 * list. */
struct window_results {
    enum buffer buffer;
    float *data;
};

static struct window_results results_of(const struct window *w, size_t index)
{
    const struct window_results all[] = {
        { w->pairs ? BUFFER_PAIRS : BUFFER_LOSSES, w->pairs ? w->pairs : w->losses },
        { BUFFER_KD_LOSSES, w->kd_losses },
        { BUFFER_EXPERT_COUNTS, w->expert_counts },
        { BUFFER_EXPERT_SUMS, w->expert_sums },
    };

    for (size_t i = 0; i < TS_COUNT(all); i++)
        if (all[i].data && index-- == 0)
            return all[i];
    return (struct window_results) { 0 };
}

/* Return row `index` of these results; a micro-batch writes row 0. */
static struct tensor result_row(const struct model *m, enum buffer losses, size_t index)
{
    const struct shape_buffer *b = &m->shapes.buffers[losses];

    return tensor_rows(tensor_of(m->buffers + b->at, b->format, b->rows, b->cols), index,
                       1);
}

/* alpha / sqrt(L C) of transformers' neftune_post_forward_hook.  L is the length of the
 * padded sequences there: LLaMA-Factory pads to the longest, to a multiple of 8, or packs
 * into cutoff_len. */
static float noise_magnitude(const struct model *m, const struct batch *batch)
{
    const struct plan *plan = m->plan;
    bool packs = plan->packing == CHOICE_YES || plan->neat_packing ||
                 (plan->packing == CHOICE_AUTO && plan->stage == STAGE_PT);
    size_t length = 0;

    for (size_t i = 0; i < batch->sequences; i++) {
        size_t rows = (size_t)(batch->offsets[i + 1] - batch->offsets[i]);

        length = rows > length ? rows : length;
    }
    length = packs ? (size_t)plan->cutoff_len : size_round(length, 8);
    return (float)(plan->neftune_alpha /
                   sqrt((double)length * (double)m->config->hidden_size));
}

/* Move the results of the previous micro-batch out of row 0. */
static void save_previous(const struct pass *pass)
{
    struct model *m = pass->model;
    struct window *w = window_now(m);
    struct window_results results;

    for (size_t i = 0; w->batch_count > 0 && (results = results_of(w, i)).data; i++)
        pass->ops->convert(
            pass->be,
            &(struct op_convert) { .out = result_row(m, results.buffer, w->batch_count),
                                   .x = result_row(m, results.buffer, 0) });
    w->batch_items[w->batch_count++] = w->pairs ? pass->pairs : pass->rows;
}

/* What selects and scales the random numbers of a micro-batch, as in struct
 * step_scalars. */
static void upload_draw(const struct pass *pass, const struct batch *batch, uint64_t draw)
{
    struct step_scalars drawn = { .draw = draw,
                                  .rows = batch->rows,
                                  .noise = noise_magnitude(pass->model, batch) };
    size_t bytes =
        offsetof(struct step_scalars, grad_scale) - offsetof(struct step_scalars, draw);

    pass->ops->upload(pass->be, &model_step_scalars(pass->model)->draw, &drawn.draw,
                      bytes);
}

bool model_train(struct model *model, const struct batch *batch, uint64_t draw,
                 struct error *err)
{
    const struct batch *given = batch;
    struct pass pass, teacher_pass;
    size_t pairs = pairs_of(model, batch);
    size_t planned = model->shapes.buffers[BUFFER_LOSSES].rows;
    const struct window *window = window_now(model);
    bool is_last;

    if (!check_batch(model, batch, err))
        return false;
    if (window->batch_count == planned)
        return error_set(err, ERROR_SYSTEM,
                         "memory was planned for windows of %zu micro-batches", planned);
    batch = pad_batch(model, batch);
    pass = pass_of(model, batch);
    pass.pairs = pairs;
    pass.training = true;
    pass.draw = draw;
    pass.temperature = model_loss_temperature(model);
    pass.first = window->batch_count == 0 || model->shapes.shards_gradients;
    pass.fills = window->batch_count == 0 && model->shapes.rounds_once[ROUNDED_W];
    pass.fills_frozen = !model->rounded_frozen;
    model->rounded_frozen = true;
    save_previous(&pass);
    if (!upload_batch(&pass, batch, err))
        return false;
    upload_draw(&pass, given, draw);
    is_last = window->batch_count == model->expected_batches;
    pass.reduces = model_ranks(model) > 1 &&
                   (is_last || model->shapes.shards_gradients) &&
                   model->expected_batches != SIZE_MAX;
    if (model->teacher) {
        if (!pass_open(model->teacher, batch, &teacher_pass, err))
            return false;
        teacher_pass.announced = false;
        teacher_pass.second = true;
        pass.teacher = &teacher_pass;
    }
    if (window->pairs && !model_run_reference(&pass, err))
        return false;
    model_run_forward(&pass);
    model_compute_loss(&pass);
    model_backward(&pass);
    if (pass.reduces && is_last && !model->reduces_late)
        model_reduce_others(model);
    return true;
}

void model_expect_late_gradients(struct model *model)
{
    model->expects_late = true;
}

void model_reduce_late(struct model *model)
{
    if (!model->reduces_late)
        return;
    model->reduces_late = false;
    model_reduce_remaining(model);
    if (window_now(model)->batch_count == model->expected_batches)
        model_reduce_others(model);
}

/* Results of micro-batch i of the window, from 1; the newest is in row 0. */
static const float *window_row(const struct model *m, const struct window *w,
                               const struct window_results *results, size_t i)
{
    return results->data + i % w->batch_count * m->shapes.buffers[results->buffer].cols;
}

/* Sum in the order of the window's tokens. */
static double sum_window(const struct model *m, const struct window *w, size_t index)
{
    const struct window_results results = results_of(w, index);
    double sum = 0;

    for (size_t i = 1; i <= w->batch_count; i++) {
        const float *row = window_row(m, w, &results, i);

        for (size_t j = 0; j < w->batch_items[i - 1]; j++)
            sum += row[j];
    }
    return sum;
}

static double sum_pairs(struct model *m, const struct window *w)
{
    const struct window_results results = results_of(w, 0);
    double sum = 0;

    m->rewards = (struct rewards) { 0 };
    for (size_t i = 1; i <= w->batch_count; i++)
        model_sum_pairs(m, window_row(m, w, &results, i), w->batch_items[i - 1], &sum);
    return sum;
}

void model_post(struct model *model)
{
    const struct backend_ops *ops = model->be->ops;
    struct window *w = window_now(model);
    struct window_results results;

    for (size_t i = 0; (results = results_of(w, i)).data; i++)
        ops->download(model->be, results.data, result_row(model, results.buffer, 0).data,
                      w->batch_count * model->shapes.buffers[results.buffer].cols *
                          sizeof(float));
    ops->download(model->be, &w->scalars, model_step_scalars(model), sizeof(w->scalars));
    if (ops->fence)
        ops->fence(model->be);
    model->posted++;
}

bool model_end(struct model *model, struct step_scalars *scalars, double *loss_sum,
               struct error *err)
{
    const struct backend_ops *ops = model->be->ops;
    const struct window *w = &model->results[model->ended % WINDOWS];
    double ratio = model->plan->kd.ratio;

    if (model->posted == model->ended)
        model_post(model);
    model->ended++;
    if (!(ops->reach ? ops->reach : ops->sync)(model->be, err))
        return false;
    *scalars = w->scalars;
    *loss_sum = w->pairs ? sum_pairs(model, w)
                         : sum_window(model, w, 0) + model_experts_window_loss(model, w);
    model->loss_parts.data = *loss_sum;
    if (w->kd_losses) {
        model->loss_parts.teacher = sum_window(model, w, 1);
        *loss_sum = (1 + model->plan->anchor) * ((1 - ratio) * model->loss_parts.data +
                                                 ratio * model->loss_parts.teacher);
    }
    return true;
}

bool model_discard(struct model *model, struct error *err)
{
    model->ended = model->posted;
    return model->be->ops->sync(model->be, err);
}
