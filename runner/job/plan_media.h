/* runner/job/plan_media.h - images and sounds in what `plan` prints: how many rows of features
 * they have, and what computing these takes. */
#ifndef RUNNER_JOB_PLAN_MEDIA_H
#define RUNNER_JOB_PLAN_MEDIA_H

#include "base/json.h"
#include "runner/job/inspect.h"
#include "train/model/model_config.h"

struct plan_media {
    size_t items, rows; /* 0: the data are text, or unknown */
    /* the encoder of the model computes the rows; cost: of the largest item */
    bool encodes;
    struct tower_cost cost;
    double operations; /* for all items once: in an epoch, if it is trained */
    double seconds;    /* by a calibration of the device; 0: unknown */
};

void plan_media_find(const struct inspection *inspection,
                     const struct model_config *config, const struct steps *steps,
                     struct plan_media *out);
/* Return an object, or null without images and sounds. */
json_t *plan_media_json(const struct plan_media *media);
/* Add a line, if there are some. */
void plan_media_text(struct text *out, const struct plan *plan,
                     const struct plan_media *media);

#endif
