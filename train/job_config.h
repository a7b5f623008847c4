/*
 * train/job_config.h - the configuration of a job's model, with the encoder that it may train.
 */
#ifndef TRAIN_JOB_CONFIG_H
#define TRAIN_JOB_CONFIG_H

#include "train/model/model_config.h"
#include "train/plan.h"

/* As plan_config_read, and the tensors of its encoder. */
bool job_config_read(const struct plan *plan, const char *dir, struct arena *arena,
                     struct model_config *out, struct error *err);

#endif
