/* train/model/pissa_file.c - the initial adapters of PiSSA in a file, so that a run that
 * resumes does not compute them again. */
#include "config.h"

#include "train/model/pissa_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/walk.h"
#include "train/files/safetensors.h"

#define TOLERANCE 1e-4 /* of a singular value; the file has it in float32 */

static const float *find(const struct model *m, const struct parameter *p,
                         const char *side, size_t elements)
{
    struct text name;
    const struct stored_tensor *t;

    text_init(&name, 0);
    text_addf(&name, "%s.%s", p->name, side);
    t = safetensors_find(m->pissa_file, name.data);
    text_clear(&name);
    return t && t->format == FORMAT_FP32 && t->bytes == elements * sizeof(float) ? t->data
                                                                                 : NULL;
}

/* Return whether W a = s |a|^2 b for vector k of A and B, with the scale s: then a and b
 * belong to a singular value of W. */
static bool belongs(const struct parameter *p, const struct lora *lora,
                    const float *whole, const struct pissa *start, size_t k)
{
    const float *a = start->a + k * p->cols;
    double value = 0, off = 0, size = 0;

    for (size_t i = 0; i < p->cols; i++)
        value += (double)a[i] * a[i];
    value *= lora->scale;
    for (size_t o = 0; o < p->rows; o++) {
        double b = value * start->b[o * lora->rank + k], sum = 0;

        for (size_t i = 0; i < p->cols; i++)
            sum += (double)whole[o * p->cols + i] * a[i];
        off += (sum - b) * (sum - b);
        size += b * b;
    }
    return sqrt(off) <= TOLERANCE * sqrt(size);
}

bool pissa_file_read(const struct model *m, const struct parameter *p, const float *whole,
                     struct pissa *out)
{
    const struct lora *lora = &m->shapes.lora;
    size_t a_count = lora->rank * p->cols, b_count = p->rows * lora->rank;
    struct pissa found;

    if (!m->pissa_file)
        return false;
    found.a = (float *)find(m, p, "A", a_count);
    found.b = (float *)find(m, p, "B", b_count);
    if (!found.a || !found.b || !belongs(p, lora, whole, &found, 0) ||
        !belongs(p, lora, whole, &found, lora->rank - 1))
        return false;
    out->a = arena_alloc(m->arena, a_count * sizeof(float));
    out->b = arena_alloc(m->arena, b_count * sizeof(float));
    memcpy(out->a, found.a, a_count * sizeof(float));
    memcpy(out->b, found.b, b_count * sizeof(float));
    return true;
}

/* A file that cannot be read is one that does not exist. */
void model_keep_pissa(struct model *m, const char *name)
{
    struct error err = { 0 };

    if (m->shapes.lora.pissa && file_exists(name))
        m->pissa_file = safetensors_open(name, NULL, false, &err);
}

/* Tensor 2 i is A of parameter i, 2 i + 1 is B. */
static bool read_start(const void *context, size_t index, void *to, struct error *err)
{
    const struct model *m = context;
    const struct parameter *p = &m->parameters[index / 2];
    const struct pissa *start = &m->pissa[false][index / 2];
    size_t rank = m->shapes.lora.rank;

    (void)err;
    if (index % 2 == 0)
        memcpy(to, start->a, rank * p->cols * sizeof(float));
    else
        memcpy(to, start->b, p->rows * rank * sizeof(float));
    return true;
}

static size_t list_starts(const struct model *m, struct tensor_source *sources)
{
    size_t rank = m->shapes.lora.rank, count = 0;

    for (size_t i = 0; i < 2 * m->shapes.count; i++) {
        const struct parameter *p = &m->parameters[i / 2];
        bool is_a = i % 2 == 0;

        if (!m->pissa[false][i / 2].a)
            continue;
        sources[count++] = (struct tensor_source) {
            .name = arena_printf(m->arena, "%s.%s", p->name, is_a ? "A" : "B"),
            .format = FORMAT_FP32,
            .rank = 2,
            .shape = { is_a ? rank : p->rows, is_a ? p->cols : rank },
            .read = read_start,
            .context = m,
            .index = i,
        };
    }
    return count;
}

bool model_write_pissa(struct model *m, const char *name, struct error *err)
{
    struct tensor_source *sources;
    char *temporary;
    bool ok;

    if (m->pissa_progress.made == 0)
        return true;
    sources = arena_array(m->arena, 2 * m->shapes.count, sizeof(*sources));
    temporary = arena_printf(m->arena, "%s.new", name);
    remove(temporary); /* of a run that was killed */
    ok = safetensors_write(temporary, sources, list_starts(m, sources), err);
    if (ok && walk_rename(temporary, name) != 0)
        ok = error_errno(err, "cannot rename %s", temporary);
    if (!ok)
        remove(temporary);
    return ok;
}
