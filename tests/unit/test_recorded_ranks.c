/* tests/unit/test_recorded_ranks.c - the passes of a model in several processes are
 * recorded between reductions, and replayed. */
#include "config.h"

#include "train/model/model.h"

#include "tests/unit/unit_model_ranks.h"

/* The backend calls of a window: B: a recording begins and its operations are issued; p:
 * a recording is replayed; a: attention backward pass; S: reductions; in stage 3, G:
 * weights are sent; !: either inside a recording. */
static const struct backend_ops *real;
static struct backend_ops other;
static char calls[128];
static bool begun;

static void note(char what)
{
    size_t len = strlen(calls);

    if (strchr("SG", what) && len > 0 && calls[len - 1] == what)
        return;
    if (len + 1 < sizeof(calls))
        calls[len] = what;
}

static bool begin(struct backend *be, const void *key, size_t bytes)
{
    bool issue = real->begin(be, key, bytes);

    note(issue ? 'B' : 'p');
    begun = issue;
    return issue;
}

static void end(struct backend *be)
{
    begun = false;
    real->end(be);
}

static void reduce(struct backend *be, float *data, size_t count, int root)
{
    note(begun ? '!' : 'S');
    real->reduce(be, data, count, root);
}

static void broadcast(struct backend *be, void *data, size_t bytes, int root)
{
    note(begun ? '!' : 'G');
    real->broadcast(be, data, bytes, root);
}

static void attention_backward(struct backend *be, const struct op_attention_backward *op)
{
    note('a');
    real->attention_backward(be, op);
}

struct recorded {
    struct kind kind;
    bool checkpointing;
    double dropout;
    size_t batches;           /* of a rank and window */
    const char *window_calls; /* of the first window */
};

/* Reductions follow every block of a Llama, but every second block with an adapter's A
 * matrices.  The last norm is recorded with the first block. */
static struct recorded recordings[] = {
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, llama, 1 },
      .batches = 1,
      .window_calls = "BBaSBaSBaSBaSBaSBS" },
    { .kind = { METHOD_FULL, "adamw_torch", FORMAT_BF16, llama, 1 },
      .checkpointing = true,
      .batches = 2,
      .window_calls = "BBaaaaaBBaSBaSBaSBaSBaSBS" },
    { .kind = { METHOD_LORA, "adamw_torch", FORMAT_FP32, llama, 1 },
      .checkpointing = true,
      .dropout = 0.25,
      .batches = 1,
      .window_calls = "BBaaSBaaSBaS" },
    { .kind = { METHOD_FREEZE, "sgd", FORMAT_FP32, llama, 1 },
      .batches = 1,
      .window_calls = "BBaSBaS" },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, headed, 1 },
      .batches = 1,
      .window_calls = "BSBaSBaSBS" },
    { .kind = { METHOD_FULL, "sgd", FORMAT_FP32, gpt_neox, 1 },
      .batches = 1,
      .window_calls = "BBaSBaSBaSBaSBS" },
    { .kind = { METHOD_FULL, "adamw_torch", FORMAT_BF16, llama, 2 },
      .checkpointing = true,
      .batches = 2,
      .window_calls = "BSBaSBaSBaSBaSBaSBSBSBaSBaSBaSBaSBaSBS" },
    { .kind = { METHOD_LORA, "adamw_torch", FORMAT_FP32, llama, 2 },
      .dropout = 0.25,
      .batches = 1,
      .window_calls = "BBaSBaSBaSBaSBaS" },
    /* two blocks are gathered before the first computes; the backward pass finds the
     * last two in the windows; the end of a step sends what is not divided */
    { .kind = { METHOD_FULL, "adamw_torch", FORMAT_BF16, llama, 3 },
      .batches = 1,
      .window_calls = "GBGBGBGBBSBaSGBaSGBaSGBaSBaSBSG" },
    { .kind = { METHOD_LORA, "adamw_torch", FORMAT_FP32, llama, 3 },
      .checkpointing = true,
      .batches = 1,
      .window_calls = "GBGBGBGBBBaSGBaSGBaSGBaSBaS" },
};

/* Convert the calls of a recorded window to those of a replayed one. */
static void all_replayed(const char *window_calls, char *out)
{
    for (; *window_calls; window_calls++)
        if (*window_calls != 'a')
            *out++ = *window_calls == 'B' ? 'p' : *window_calls;
    *out = '\0';
}

struct course {
    double norms[STEPS + 1];
    uint64_t weights, gradients;
};

static bool is_asked(const struct unit_ranks *ranks, int64_t step, const char *expected)
{
    if (strcmp(calls, expected) == 0)
        return true;
    fprintf(stderr, "# rank %d, step %d: %s, expected %s\n", ranks->group.rank, (int)step,
            calls, expected);
    return false;
}

static struct plan recorded_plan(const struct recorded *r, const char *base)
{
    struct plan plan = plan_of(&r->kind, RANKS);

    plan.model_name_or_path = base;
    plan.gradient_checkpointing = r->checkpointing;
    plan.lora_dropout = r->dropout;
    return plan;
}

/* The first window is issued, the second recorded, all others replayed. */
static bool run_recorded(const struct recorded *r, const struct unit_ranks *ranks,
                         const char *base, bool records, struct course *out)
{
    char played[sizeof(calls)];
    struct unit_model u;
    bool ok = true;

    start_plan(&u, r->kind.model, recorded_plan(r, base), ranks);
    real = u.be->ops;
    other = *real;
    other.begin = begin;
    other.end = end;
    other.reduce = reduce;
    other.reduce_shards = NULL; /* as on a GPU */
    if (r->kind.zero_stage == 3)
        other.broadcast = broadcast;
    other.attention_backward = attention_backward;
    u.be->ops = &other;
    all_replayed(r->window_calls, played);
    *out = (struct course) { 0 };
    for (int64_t step = 1; step <= STEPS + 1; step++) {
        memset(calls, 0, sizeof(calls));
        out->norms[step - 1] = train_window(&u, ranks, step, RANKS * r->batches).norm;
        if (step != 2)
            ok = is_asked(ranks, step, records && step > 2 ? played : r->window_calls) &&
                 ok;
    }
    out->gradients = hash_of(&u, model_gradients(u.model));
    for (size_t i = 0; i < model_trained_parameters(u.model); i++)
        out->weights = out->weights * 31 + hash_of_trained(&u, i);
    u.be->ops = real;
    unit_model_stop(&u);
    return ok;
}

/* The same bits with and without recordings. */
static void test_recorded_ranks_replay_between_reductions(void **state)
{
    const struct recorded *r = *state;
    struct course played, issued;
    struct unit_ranks ranks;
    char *base;
    bool ok;

    if (!unit_ranks_ops->begin)
        skip();
    unit_ranks_fork(&ranks, RANKS);
    base = base_new(llama);
    ok = run_recorded(r, &ranks, base, true, &played);
    setenv("TRAINSPOOL_NO_GRAPHS", "1", 1);
    ok = run_recorded(r, &ranks, base, false, &issued) && ok;
    unsetenv("TRAINSPOOL_NO_GRAPHS");
    ok = ok && memcmp(&played, &issued, sizeof(played)) == 0;
    unit_dir_free(base);
    if (ranks.group.rank > 0)
        _exit(!ok);
    unit_ranks_join(&ranks);
    assert_true(ok && played.norms[STEPS] > 0);
}

#define RECORDED(name, i)                                                        \
    unit_ranks_test_of("test_recorded_ranks_play_what_lies_between_sums: " name, \
                       test_recorded_ranks_replay_between_reductions, &recordings[i])

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        RECORDED("full", 0),
        RECORDED("windows of two", 1),
        RECORDED("lora", 2),
        RECORDED("frozen 16-bit", 3),
        RECORDED("a large head", 4),
        RECORDED("gpt_neox", 5),
        RECORDED("sharded gradients", 6),
        RECORDED("sharded gradients, lora", 7),
        RECORDED("sharded blocks", 8),
        RECORDED("sharded blocks, lora", 9),
    };

    unit_ranks_main(argc, argv, tests);
    return unit_ranks_fit() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
