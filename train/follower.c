/* train/follower.c - carries out the orders of rank 0. */
#include "config.h"

#include "train/follower.h"

#include <stdlib.h>

#include "train/evaluation.h"
#include "train/methods.h"
#include "train/model/parallel.h"
#include "train/preflight.h"
#include "train/step.h"

/* Load the weights of a checkpoint: a rank may have parts that no other has. */
static bool load_step(struct run *run, int64_t step, struct error *err)
{
    char *name = checkpoint_name(run->plan->output_dir, step);
    bool ok = checkpoint_load_weights(run->model, name, run->options->group, err);

    free(name);
    return ok;
}

static bool save_step(struct run *run, int64_t step, struct error *err)
{
    struct checkpoint_saving saving = { .model = run->model,
                                        .plan = run->plan,
                                        .group = run->options->group };

    return checkpoint_follow(&saving, step, err);
}

/* Rank 0, which ends for the same reason, may search for it first. */
static void follow_autopsy(struct run *run)
{
    struct parallel_order order;

    if (model_shards_blocks(run->model) &&
        parallel_receive_order(run->options->group, &order, NULL) &&
        order.work == PARALLEL_FOLLOW)
        model_follow_rank_0(run->model, NULL);
}

bool follower_run(struct run *run, struct error *err)
{
    const struct backend_group *group = run->options->group;
    struct parallel_order order = { 0 };
    bool ok = true;

    while (ok && parallel_receive_order(group, &order, err)) {
        switch (order.work) {
        case PARALLEL_STEP:
            run->ordered_rate = order.rate;
            ok = step_begin(run, err);
            break;
        case PARALLEL_END_STEP:
            ok = step_end(run, err);
            break;
        case PARALLEL_EVALUATE:
            ok = evaluation_follow(run, err);
            break;
        case PARALLEL_METHODS:
            ok = methods_reply(run, err);
            break;
        case PARALLEL_FETCH:
            ok = parallel_serve_fetch(group, run->model, &order.span, err);
            break;
        case PARALLEL_SAVE_STATE:
            ok = preflight_save_state(run, err);
            break;
        case PARALLEL_RESTORE_STATE:
            ok = preflight_restore_state(run, err);
            break;
        case PARALLEL_CUT: /* this rank had ended its share */
            break;
        case PARALLEL_LOAD_BEST:
            ok = load_step(run, (int64_t)order.span.first, err);
            break;
        case PARALLEL_SAVE:
            ok = save_step(run, (int64_t)order.span.first, err);
            break;
        case PARALLEL_FOLLOW:
            ok = model_follow_rank_0(run->model, err);
            break;
        case PARALLEL_END:
            return true;
        }
    }
    if (err->code == ERROR_DIVERGED)
        follow_autopsy(run);
    return false;
}
