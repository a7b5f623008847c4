/* patcher/history/previous_steps.c - the steps that a run logged, and signs of trouble in
 * them. */
#include "config.h"

#include "patcher/history/previous_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRACE = 10, IN_A_ROW = 3, LEAST_NORMS = 8 };

/* A loss of 0 with a smaller gradient than this is a memorized text, as Hugging Face
 * rounds it. */
static const double small_norm = 0.1;
/* A dynamic scale starts at 2^16 and is halved on overflow; later it overflows about
 * every 2000 steps. */
static const double skips_at_start = 16, steps_between_skips = 1000;

struct step {
    int64_t step;
    double loss, norm; /* NAN with has_norm false if it is missing */
    double scale;      /* loss scale; 0: missing */
    int64_t skipped;
    bool has_norm;
    bool rewarded; /* of stage grpo, whose loss is 0 whenever its advantages cancel out */
    bool searching; /* for a loss scale: within the first steps after a start */
};

struct steps {
    struct step *list;
    size_t count, room;
    int64_t until; /* the search for a loss scale lasts up to this step */
    int searches;
};

/* ---- JSON as Python writes it ---- */

static const char *const bare_words[] = { "-Infinity", "Infinity", "NaN" };

static size_t bare_word(const char *at, size_t left)
{
    for (size_t i = 0; i < sizeof(bare_words) / sizeof(bare_words[0]); i++) {
        size_t len = strlen(bare_words[i]);

        if (len <= left && memcmp(at, bare_words[i], len) == 0)
            return len;
    }
    return 0;
}

json_t *previous_json(const char *data, size_t len)
{
    struct text quoted;
    bool inside = false;
    json_t *value;

    if (!memmem(data, len, "NaN", 3) && !memmem(data, len, "Infinity", 8))
        return json_read_loose(data, len, "log", 1, NULL);
    text_init(&quoted, 2 * len + 16);
    for (size_t i = 0; i < len;) {
        size_t word = inside ? 0 : bare_word(data + i, len - i);

        if (word > 0) {
            text_addc(&quoted, '"');
            text_add(&quoted, data + i, word);
            text_addc(&quoted, '"');
            i += word;
            continue;
        }
        if (inside && data[i] == '\\' && i + 1 < len)
            text_addc(&quoted, data[i++]);
        else if (data[i] == '"')
            inside = !inside;
        text_addc(&quoted, data[i++]);
    }
    value =
        quoted.overflow ? NULL : json_read_loose(quoted.data, quoted.len, "log", 1, NULL);
    text_clear(&quoted);
    return value;
}

/* Read a number, or the words for values that JSON cannot represent.  Return false
 * otherwise. */
static bool read_number(const json_t *object, const char *key, double *out)
{
    const json_t *value = json_object_get(object, key);
    const char *word = json_string_value(value);

    if (json_is_number(value))
        *out = json_number_value(value);
    else if (word && strcmp(word, "NaN") == 0)
        *out = NAN;
    else if (word && (strcmp(word, "Infinity") == 0 || strcmp(word, "-Infinity") == 0))
        *out = *word == '-' ? -INFINITY : INFINITY;
    else
        return false;
    return true;
}

/* Return a count of 0 or more; -1 if it is missing. */
static int64_t read_count(const json_t *object, const char *key)
{
    double number;

    return read_number(object, key, &number) && number >= 0 && number < 1e15
               ? (int64_t)number
               : -1;
}

/* A scale grows by a factor of 2.  A larger jump means that the search restarted, after a
 * resume without the scale. */
static void update_search(struct steps *steps, struct step *step)
{
    const struct step *last = steps->count ? &steps->list[steps->count - 1] : NULL;

    if (!last || (last->scale > 0 && step->scale > 2 * last->scale)) {
        steps->until = last ? step->step + GRACE : GRACE;
        steps->searches++;
    }
    step->searching = step->step <= steps->until;
}

/* Add a step.  Evaluations and summaries have no loss of a step. */
static void add_step(struct steps *steps, const json_t *object)
{
    struct step step = { .norm = NAN };

    step.step = read_count(object, "step");
    if (step.step < 0 || !read_number(object, "loss", &step.loss))
        return;
    step.has_norm = read_number(object, "grad_norm", &step.norm);
    step.rewarded = json_object_get(object, "reward") != NULL;
    read_number(object, "loss_scale", &step.scale);
    step.skipped = read_count(object, "skipped");
    update_search(steps, &step);
    if (steps->count == steps->room) {
        steps->room = steps->room ? 2 * steps->room : 256;
        steps->list = memory_resize(steps->list, steps->room, sizeof(*steps->list));
    }
    steps->list[steps->count++] = step;
}

/* ---- Signs of trouble ---- */

static bool is_bad_norm(const struct step *step)
{
    return step->has_norm && !isfinite(step->norm);
}

static bool is_zero(const struct steps *steps, size_t at)
{
    const struct step *step = &steps->list[at];

    if (step->loss != 0 || step->rewarded)
        return false;
    if (step->has_norm)
        return !(fabs(step->norm) < small_norm);
    return at > 0 && steps->list[at - 1].loss > small_norm;
}

/* Count the consecutive bad norms up to here, up to IN_A_ROW. */
static size_t count_row(const struct steps *steps, size_t at)
{
    size_t row = 0;

    while (row < IN_A_ROW && row <= at && is_bad_norm(&steps->list[at - row]))
        row++;
    return row;
}

/* Return whether the search for a loss scale does not explain a bad norm. */
static bool is_trouble_norm(const struct steps *steps, size_t at)
{
    const struct step *step = &steps->list[at];

    if (!is_bad_norm(step))
        return false;
    if (step->scale > 0 && step->scale <= 1)
        return true;
    if (step->searching)
        return false;
    return count_row(steps, at) == IN_A_ROW ||
           (step->scale == 0 && at + 1 == steps->count);
}

/* Return whether the run ended during the search, without one good step. */
static bool is_all_bad(const struct steps *steps)
{
    size_t bad = 0;

    for (size_t i = 0; i < steps->count; i++)
        bad += is_bad_norm(&steps->list[i]);
    return steps->count >= IN_A_ROW && bad == steps->count;
}

static bool has_many_skips(const struct steps *steps)
{
    const struct step *first = &steps->list[0], *last = &steps->list[steps->count - 1];
    double steps_made = (double)(last->step - first->step);

    if (steps_made < 0)
        return false; /* not a log of this program */
    return (double)(last->skipped - first->skipped) >
           skips_at_start * steps->searches + steps_made / steps_between_skips;
}

static const char *number_text(double value, struct arena *arena)
{
    return isnan(value)   ? "NaN"
           : isinf(value) ? (value > 0 ? "inf" : "-inf")
                          : arena_printf(arena, "%.4g", value);
}

static void find_trouble(const struct steps *steps, struct arena *arena,
                         struct previous_steps *out)
{
    bool all_bad = is_all_bad(steps);

    for (size_t i = 0; i < steps->count && !out->trouble; i++) {
        const struct step *step = &steps->list[i];
        double value = step->loss;

        if (!isfinite(step->loss))
            out->trouble = TROUBLE_LOSS;
        else if (is_zero(steps, i))
            out->trouble = TROUBLE_ZERO;
        else if (is_trouble_norm(steps, i) || (all_bad && i + 1 == steps->count))
            out->trouble = TROUBLE_NORM, value = step->norm;
        if (out->trouble)
            out->what = arena_printf(arena, "%s %s at step %" PRId64,
                                     out->trouble == TROUBLE_NORM ? "grad_norm" : "loss",
                                     number_text(value, arena), step->step);
    }
    if (!out->trouble && steps->count > 0 && has_many_skips(steps)) {
        out->trouble = TROUBLE_SKIPS;
        out->what = arena_printf(arena, "%" PRId64 " steps skipped by step %" PRId64,
                                 steps->list[steps->count - 1].skipped,
                                 steps->list[steps->count - 1].step);
    }
}

static bool ends_well(const struct steps *steps)
{
    for (size_t i = 1; i <= IN_A_ROW; i++)
        if (i > steps->count || !isfinite(steps->list[steps->count - i].loss) ||
            is_bad_norm(&steps->list[steps->count - i]) ||
            is_zero(steps, steps->count - i))
            return false;
    return true;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

static void measure_norms(const struct steps *steps, struct previous_steps *out)
{
    double *norms = memory_alloc((steps->count + 1) * sizeof(*norms));
    size_t count = 0;
    double largest = 0;

    for (size_t i = 0; i < steps->count; i++) {
        const struct step *step = &steps->list[i];

        if (!step->has_norm || !isfinite(step->norm))
            continue;
        norms[count++] = step->norm;
        if (step->searching || step->norm <= largest)
            continue;
        largest = step->norm;
        out->largest_step = step->step;
    }
    if (count >= LEAST_NORMS) {
        qsort(norms, count, sizeof(*norms), by_size);
        out->median = norms[count / 2];
        out->largest = largest;
    }
    free(norms);
}

static void summarize(struct steps *steps, struct arena *arena,
                      struct previous_steps *out)
{
    out->count = steps->count;
    find_trouble(steps, arena, out);
    out->recovered = ends_well(steps);
    measure_norms(steps, out);
    free(steps->list);
}

void previous_read_lines(const struct text *text, struct arena *arena,
                         struct previous_steps *out)
{
    const char *line = text->data, *end = text->data + text->len;
    struct steps steps = { .count = 0 };

    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        json_t *object;

        if (!stop)
            break; /* being written, or truncated */
        object = previous_json(line, (size_t)(stop - line));
        add_step(&steps, object);
        json_decref(object);
        line = stop + 1;
    }
    summarize(&steps, arena, out);
}

void previous_read_history(const json_t *state, struct arena *arena,
                           struct previous_steps *out)
{
    const json_t *entry;
    struct steps steps = { .count = 0 };
    size_t i;

    json_array_foreach(json_object_get(state, "log_history"), i, entry)
        add_step(&steps, entry);
    summarize(&steps, arena, out);
}
