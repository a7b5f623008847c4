/* train/model/model_average.c - weights and their average, which an optimizer keeps next to
 * them (train/model/optimizer_table.h): schedule-free AdamW.  One rank. */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_internal.h"
#include "train/model/optimizer_table.h"

static struct tensor flat(const struct parameter *p)
{
    return tensor_of(p->weight.data, p->weight.format, 1, p->rows * p->cols);
}

static struct tensor moment(const struct model *m, enum moment which,
                            const struct parameter *p)
{
    return model_moment(m, which, p, p->at, p->rows * p->cols);
}

void model_start_average(struct model *m)
{
    for (size_t i = 0; i < m->trained_count; i++)
        for (enum moment which = MOMENT_2; which <= MOMENT_3; which++) {
            const struct parameter *p = m->trained[i];

            m->be->ops->convert(
                m->be, &(struct op_convert) { .out = moment(m, which, p), .x = flat(p) });
        }
    m->has_moments = true;
}

void model_use_average(struct model *m, bool average)
{
    if (!optimizer_of(m->plan)->averages || !m->has_moments || m->is_average == average)
        return;
    for (size_t i = 0; i < m->trained_count; i++) {
        const struct parameter *p = m->trained[i];

        m->be->ops->exchange(m->be,
                             &(struct op_exchange) { flat(p), moment(m, MOMENT_3, p) });
    }
    m->is_average = average;
    model_update_copies(m);
}

void model_loaded_average(struct model *m)
{
    m->is_average = true;
}
