/* train/model/model_distill.c - head and loss of a student, with its teacher's logits. */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_internal.h"
#include "train/model/model_loss.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Return how many logits are kept per row of a teacher with this vocabulary. */
static size_t kept_per_row(const struct model *m, size_t vocabulary)
{
    return least(m->shapes.buffers[BUFFER_TEACHER_LOGITS].cols, vocabulary);
}

void model_set_teacher(struct model *student, struct model *teacher)
{
    student->teacher = teacher;
    student->shared_tokens =
        least(student->config->vocab_size, teacher->config->vocab_size);
    student->kept_logits = kept_per_row(student, student->shared_tokens);
}

void model_set_teacher_logits(struct model *student, size_t rows, const int32_t *ids,
                              const float *values, size_t vocabulary)
{
    const struct shape_buffer *b = student->shapes.buffers;
    struct backend *be = student->be;
    size_t bytes;

    student->shared_tokens = least(student->config->vocab_size, vocabulary);
    student->kept_logits = kept_per_row(student, student->shared_tokens);
    bytes = rows * student->kept_logits * sizeof(float);
    be->ops->upload(be, student->buffers + b[BUFFER_TEACHER_LOGITS].at, values, bytes);
    be->ops->upload(be, student->buffers + b[BUFFER_TEACHER_IDS].at, ids, bytes);
}

/* Return a buffer (N, k) with only the columns that are kept. */
static struct tensor kept_buffer(const struct pass *pass, enum buffer buffer, size_t kept)
{
    struct tensor whole = pass_buffer(pass, buffer, 0);

    return kept > 0 ? tensor_of(whole.data, whole.format, whole.rows, kept)
                    : (struct tensor) { 0 };
}

/* Return the rows of the head for tokens that both models have. */
static struct tensor shared_head(const struct pass *teacher, size_t vocabulary)
{
    return tensor_rows(pass_weight(teacher, teacher->model->head_weight), 0, vocabulary);
}

static struct tensor shared_bias(const struct pass *teacher, size_t vocabulary)
{
    struct tensor bias = pass_head_bias(teacher);

    return bias.data ? tensor_columns(bias, 0, vocabulary) : bias;
}

static struct tensor shared_logits(const struct pass *teacher, size_t vocabulary)
{
    return tensor_columns(pass_buffer(teacher, BUFFER_LOGITS, 0), 0, vocabulary);
}

/* Write the teacher's largest logits to the buffers of `to`. */
static void keep_top_logits(const struct pass *teacher, const struct pass *to,
                            size_t vocabulary, size_t kept)
{
    const struct op_topk op = {
        .values = kept_buffer(to, BUFFER_TEACHER_LOGITS, kept),
        .x = pass_buffer(teacher, BUFFER_H_LAST, 0),
        .w = shared_head(teacher, vocabulary),
        .bias = shared_bias(teacher, vocabulary),
        .logits = shared_logits(teacher, vocabulary),
        .gathered = pass_buffer(teacher, BUFFER_GATHERED, 0),
        .ids = kept_buffer(to, BUFFER_TEACHER_IDS, kept).data,
        .targets = pass_buffer(teacher, BUFFER_TARGETS, 0).data,
        .rows = pass_buffer(teacher, BUFFER_LABELED_ROWS, 0).data,
        .labeled = teacher->labeled,
        .softcap = (float)teacher->model->config->logit_softcap,
    };

    teacher->ops->topk(teacher->be, &op);
}

void model_distill_loss(const struct pass *pass)
{
    const struct model *m = pass->model;
    const struct distillation_settings *kd = &m->plan->kd;
    const struct pass *teacher = pass->teacher;
    struct op_distill op = {
        .student = model_classifier_op(pass),
        .kd_losses = tensor_rows(pass_buffer(pass, BUFFER_KD_LOSSES, 0), 0, 1),
        .words = m->shared_tokens,
        .ratio = (float)kd->ratio,
        .temperature = (float)kd->temperature,
        .beta = (float)kd->beta,
    };

    if (m->kept_logits > 0) {
        if (teacher)
            keep_top_logits(teacher, pass, m->shared_tokens, m->kept_logits);
        op.values = kept_buffer(pass, BUFFER_TEACHER_LOGITS, m->kept_logits);
        op.ids = kept_buffer(pass, BUFFER_TEACHER_IDS, m->kept_logits).data;
    } else {
        op.x = pass_buffer(teacher, BUFFER_H_LAST, 0);
        op.w = shared_head(teacher, m->shared_tokens);
        op.bias = shared_bias(teacher, m->shared_tokens);
        op.logits = shared_logits(teacher, m->shared_tokens);
        op.gathered = pass_buffer(teacher, BUFFER_GATHERED, 0);
        op.softcap = (float)teacher->model->config->logit_softcap;
    }
    pass->ops->distill(pass->be, &op);
}

bool model_top_logits(struct model *teacher, const struct batch *batch, size_t vocabulary,
                      int32_t *ids, float *values, struct error *err)
{
    size_t kept = kept_per_row(teacher, vocabulary),
           bytes = batch->rows * kept * sizeof(float);
    struct pass pass;

    if (!pass_open(teacher, batch, &pass, err))
        return false;
    model_forward(&pass);
    keep_top_logits(&pass, &pass, vocabulary, kept);
    pass.ops->download(pass.be, values, pass_buffer(&pass, BUFFER_TEACHER_LOGITS, 0).data,
                       bytes);
    pass.ops->download(pass.be, ids, pass_buffer(&pass, BUFFER_TEACHER_IDS, 0).data,
                       bytes);
    return pass.ops->sync(pass.be, err);
}

struct model_losses model_losses(const struct model *student)
{
    return student->loss_parts;
}
