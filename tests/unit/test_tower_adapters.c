/* tests/unit/test_tower_adapters.c - adapters of encoders: rows and gradients are those of an
 * encoder whose weights contain them, and with dropout, gradients are the slopes of the loss. */
#include "config.h"

#include "train/tower/tower_adapters.h"

#include "tests/unit/unit_tower_gradients.h"
#include "train/tower/tower_state.h"

enum { RANK = 3 };

#define SCALE 0.75

/* fp32 on both sides: only the order of sums differs. */
#define CLOSE 2e-5

/* The adapters of all parts of all linear layers of an encoder, on the host and in the backend's
 * memory. */
struct adapted {
    struct unit_tower *u;
    const struct unit_tower_case *one;
    struct tower_adapter list[512];
    float *a[512], *b[512];
    struct tower_adapters all;
};

static struct tensor put(struct adapted *d, const char *name, size_t rows, size_t cols,
                         float **values)
{
    struct backend *be = d->u->be;
    struct error err = { 0 };
    struct tensor t = tensor_of(NULL, FORMAT_FP32, rows, cols);

    *values = arena_array(d->u->arena, rows * cols, sizeof(float));
    for (size_t i = 0; i < rows * cols; i++)
        (*values)[i] = (float)hashed(name, i) * 0.3f;
    t.data = be->ops->alloc(be, tensor_bytes(t), &err);
    unit_tower_must(t.data != NULL, &err);
    be->ops->upload(be, t.data, *values, tensor_bytes(t));
    return t;
}

static struct tensor zeros(struct adapted *d, struct tensor like)
{
    struct backend *be = d->u->be;
    struct error err = { 0 };

    like.data = be->ops->alloc(be, tensor_bytes(like), &err);
    unit_tower_must(like.data != NULL, &err);
    be->ops->zero(be, &(struct op_zero) { .out = like });
    return like;
}

/* Every second part of a layer has no adapter, if `some`. */
static void make(struct adapted *d, bool some)
{
    const struct tower_parameters *list = tower_parameters_of(d->u->tower);

    assert_true(list->count * TOWER_PARTS_MAX <= TS_COUNT(d->list));
    for (size_t i = 0; i < list->count; i++) {
        const struct tower_parameter *p = &list->list[i];

        for (size_t part = some; part < p->parts; part += 1 + some) {
            const size_t at = i * TOWER_PARTS_MAX + part;
            struct tower_adapter *l = &d->list[at];

            if (p->bias || !tower_layer_adapts(p->layer))
                continue;
            l->a =
                put(d, arena_printf(d->u->arena, "A %zu", at), RANK, p->cols, &d->a[at]);
            l->b = put(d, arena_printf(d->u->arena, "B %zu", at), p->rows / p->parts,
                       RANK, &d->b[at]);
            l->da = zeros(d, l->a);
            l->db = zeros(d, l->b);
        }
    }
    d->all = (struct tower_adapters) { .rank = RANK, .scale = SCALE, .list = d->list };
}

static void release(struct adapted *d)
{
    struct backend *be = d->u->be;

    for (size_t i = 0; i < TS_COUNT(d->list); i++) {
        if (!d->list[i].a.data)
            continue;
        be->ops->free(be, d->list[i].a.data);
        be->ops->free(be, d->list[i].b.data);
        be->ops->free(be, d->list[i].da.data);
        be->ops->free(be, d->list[i].db.data);
    }
}

static float *fetched(const struct adapted *d, struct tensor t)
{
    float *out = arena_array(d->u->arena, t.rows * t.cols + 1, sizeof(*out));
    struct error err = { 0 };

    d->u->be->ops->download(d->u->be, out, t.data, tensor_bytes(t));
    unit_tower_must(d->u->be->ops->sync(d->u->be, &err), &err);
    return out;
}

/* W += scale B A */
static void merge(const struct adapted *d)
{
    const struct tower_pass *pass = &d->u->tower->pass;
    const struct tower_parameters *list = pass->parameters;

    for (size_t i = 0; i < list->count; i++) {
        const struct tower_parameter *p = &list->list[i];
        const struct tensor w =
            tensor_of(pass->block + p->at, FORMAT_FP32, p->rows, p->cols);
        const size_t rows = p->rows / p->parts;
        float *values;

        if (!d->a[i * TOWER_PARTS_MAX] && !d->a[i * TOWER_PARTS_MAX + 1])
            continue;
        values = fetched(d, w);
        for (size_t r = 0; r < p->rows; r++) {
            const float *a = d->a[i * TOWER_PARTS_MAX + r / rows];
            const float *b = d->b[i * TOWER_PARTS_MAX + r / rows];

            for (size_t k = 0; a && k < RANK; k++)
                for (size_t c = 0; c < p->cols; c++)
                    values[r * p->cols + c] +=
                        (float)SCALE * b[r % rows * RANK + k] * a[k * p->cols + c];
        }
        d->u->be->ops->upload(d->u->be, w.data, values, tensor_bytes(w));
    }
}

static void compare(const struct adapted *d, const char *what, const float *got,
                    const double *want, size_t count)
{
    double most = 0, far = 0;

    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs(want[i]));
        far = fmax(far, fabs(got[i] - want[i]));
    }
    if (!(most > 0 && far <= CLOSE * most))
        fail_msg("%s: %s differ by %g of %g", d->one->name, what, far, most);
}

/* dB = scale dW A^T and dA = scale B^T dW, with the gradient of the merged matrix. */
static void compare_gradients(const struct adapted *d, const struct unit_tower *merged)
{
    const struct tower_parameters *list = tower_parameters_of(merged->tower);

    for (size_t at = 0; at < list->count * TOWER_PARTS_MAX; at++) {
        const struct tower_parameter *p = &list->list[at / TOWER_PARTS_MAX];
        const size_t rows = p->rows / p->parts, cols = p->cols;
        const float *a = d->a[at], *b = d->b[at], *dw;
        double *da, *db;

        if (!a)
            continue;
        dw = unit_tower_gradient(merged, at / TOWER_PARTS_MAX) +
             at % TOWER_PARTS_MAX * rows * cols;
        da = arena_array(d->u->arena, RANK * cols, sizeof(*da));
        db = arena_array(d->u->arena, RANK * rows, sizeof(*db));
        for (size_t k = 0; k < RANK; k++)
            for (size_t i = 0; i < rows * cols; i++) {
                da[k * cols + i % cols] +=
                    SCALE * (double)b[i / cols * RANK + k] * (double)dw[i];
                db[i / cols * RANK + k] +=
                    SCALE * (double)a[k * cols + i % cols] * (double)dw[i];
            }
        compare(d, "gradients of A", fetched(d, d->list[at].da), da, RANK * cols);
        compare(d, "gradients of B", fetched(d, d->list[at].db), db, RANK * rows);
    }
}

static void compare_rows(struct adapted *d, struct unit_tower *merged, size_t item)
{
    struct media_input in = unit_tower_input(d->u, d->one, item);
    struct tower_output got, want;
    struct error err = { 0 };
    double *expected;

    unit_tower_must(tower_run(d->u->tower, &in, &got, &err), &err);
    unit_tower_must(tower_run(merged->tower, &in, &want, &err), &err);
    expected = arena_array(d->u->arena, want.count * want.width, sizeof(*expected));
    for (size_t i = 0; i < want.count * want.width; i++)
        expected[i] = ((const float *)want.rows)[i];
    compare(d, "rows", got.rows, expected, want.count * want.width);
    tower_output_clear(&got);
    tower_output_clear(&want);
    free(in.values);
    free(in.heard);
}

static void check(const struct unit_tower_case *one, struct unit_tower *u, bool some)
{
    struct adapted d = { .u = u, .one = one };
    struct unit_tower merged = *u;

    unit_tower_open(u, one,
                    (struct tower_options) { .trains = true, .adapters = &d.all });
    make(&d, some);
    unit_tower_open(&merged, one, (struct tower_options) { .trains = true });
    d.u = &merged;
    merge(&d);
    d.u = u;
    for (size_t k = 0; k < one->items; k++) {
        compare_rows(&d, &merged, k);
        unit_tower_pass_back(u, one, k);
        unit_tower_pass_back(&merged, one, k);
    }
    compare_gradients(&d, &merged);
    release(&d);
    unit_tower_close(u);
    unit_tower_close(&merged);
}

#ifdef UNIT_EMULATED
/* On the emulated GPU that has most. */
static void choose(struct unit_tower *u)
{
    static struct device gpus[8];
    char note[256];
    const size_t count =
        backend_cuda.devices("cuda", gpus, TS_COUNT(gpus), note, sizeof(note));

    assert_true(count > 0);
    u->ops = &backend_cuda;
    u->device = &gpus[0];
    for (size_t i = 1; i < count; i++)
        if (gpus[i].major > u->device->major)
            u->device = &gpus[i];
}
#else
static void choose(struct unit_tower *u)
{
    (void)u;
}
#endif

static void test_tower_adapters_are_as_merged_weights(void **state)
{
    struct unit_tower u = unit_tower_setup();

    (void)state;
    choose(&u);
    for (size_t i = 0; i < unit_tower_models(&u); i++)
        if (unit_tower_trains(unit_tower_case(&u, i)))
            for (int some = 0; some < 2; some++)
                check(unit_tower_case(&u, i), &u, some);
    unit_tower_teardown(&u);
}

/* ---- Dropout ---- */

/* Of a difference quotient in fp32. */
#define SLOPE_CLOSE 5e-3
#define STEP        4e-3

/* Return the sum of the rows of an item, times the gradients that unit_tower_pass_back gives. */
static double loss_of(const struct adapted *d, size_t item)
{
    struct media_input in = unit_tower_input(d->u, d->one, item);
    struct tower_output out;
    struct error err = { 0 };
    double sum = 0;
    const float *given;

    unit_tower_must(tower_run(d->u->tower, &in, &out, &err), &err);
    given = unit_tower_given(d->u, d->one, item, "read", out.count * out.width);
    for (size_t i = 0; i < out.count * out.width; i++)
        sum += (double)((const float *)out.rows)[i] * given[i];
    for (size_t k = 0; k < out.deep; k++) {
        given =
            unit_tower_given(d->u, d->one, item, arena_printf(d->u->arena, "deep%zu", k),
                             out.count * out.deep_width);
        for (size_t i = 0; i < out.count * out.deep_width; i++)
            sum += (double)((const float *)out.deep_rows[k])[i] * given[i];
    }
    tower_output_clear(&out);
    free(in.values);
    free(in.heard);
    return sum;
}

/* Move A, or B, of all adapters by `step` in a direction; return the slope that their gradients
 * have in it. */
static double move(struct adapted *d, bool b, float step)
{
    double slope = 0;

    for (size_t at = 0; at < TS_COUNT(d->list); at++) {
        const struct tensor to = b ? d->list[at].b : d->list[at].a;
        float *values = b ? d->b[at] : d->a[at], *moved;
        const float *gradients;

        if (!values)
            continue;
        moved = arena_array(d->u->arena, to.rows * to.cols, sizeof(*moved));
        gradients = fetched(d, b ? d->list[at].db : d->list[at].da);
        for (size_t i = 0; i < to.rows * to.cols; i++) {
            const float direction =
                (float)hashed(arena_printf(d->u->arena, "to %zu", at), i);

            moved[i] = values[i] + step * direction;
            slope += (double)direction * gradients[i];
        }
        d->u->be->ops->upload(d->u->be, to.data, moved, tensor_bytes(to));
    }
    return slope;
}

static void compare_slopes(struct adapted *d)
{
    for (int b = 0; b < 2; b++) {
        const double slope = move(d, b, STEP), above = loss_of(d, 0);
        double below, quotient;

        move(d, b, -STEP);
        below = loss_of(d, 0);
        move(d, b, 0);
        quotient = (above - below) / (2 * STEP);
        if (!(fabs(quotient - slope) <= SLOPE_CLOSE * fmax(fabs(slope), fabs(quotient))))
            fail_msg("%s: the slope of %s is %g, not %g", d->one->name, b ? "B" : "A",
                     quotient, slope);
    }
}

/* Other masks give other rows: those of another batch, of another item, and none. */
static void compare_masks(struct adapted *d)
{
    const struct tower_draw draw = d->all.draw;
    const double first = loss_of(d, 0);
    double other;

    assert_true(loss_of(d, 0) == first);
    d->all.draw.index++;
    other = loss_of(d, 0);
    assert_true(other != first);
    d->all.draw = draw;
    d->all.draw.seed++;
    assert_true(loss_of(d, 0) != first && loss_of(d, 0) != other);
    d->all.draw.dropout = 0;
    assert_true(loss_of(d, 0) != first);
    d->all.draw = draw;
    assert_true(loss_of(d, 0) == first);
}

static void test_tower_dropout_has_the_slopes_of_its_loss(void **state)
{
    struct unit_tower u = unit_tower_setup();

    (void)state;
    choose(&u);
    for (size_t i = 0; i < unit_tower_models(&u); i++) {
        const struct unit_tower_case *one = unit_tower_case(&u, i);
        struct adapted d = { .u = &u, .one = one };

        if (!unit_tower_trains(one))
            continue;
        unit_tower_open(&u, one,
                        (struct tower_options) { .trains = true, .adapters = &d.all });
        make(&d, false);
        d.all.draw = (struct tower_draw) { .dropout = 0.3, .seed = 5, .index = 7 };
        unit_tower_pass_back(&u, one, 0);
        compare_slopes(&d);
        compare_masks(&d);
        release(&d);
        unit_tower_close(&u);
    }
    unit_tower_teardown(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tower_adapters_are_as_merged_weights),
        cmocka_unit_test(test_tower_dropout_has_the_slopes_of_its_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
