/*
 * runner/job/run_manifest.h - NAME.run/run.json: the inputs of the last attempt of a run,
 * for later readers: the plan as decided, the model and the data as counted, the machine
 * and the programs.
 *
 *   {"schema":1,"version":"0.1.0","program_sha256":"...","started":"2026-11-20T14:08:48Z",
 *    "job":"gsm8k.yaml",
 *    "model":{"path":..,"method":"lora","parameters":..,"trainable":..},
 *    "data":{"samples":..,"eval_samples":..,"tokens":..,"longest":..},
 *    "precision":{..},"batch":{..},                         as in plan --json
 *    "steps":{"per_epoch":..,"total":..,"first":..},
 *    "evaluation":{"metric":"eval_loss","greater_is_better":false},
 *    "memory":{"weights":..,..,"total":..,"limit":..},
 *    "environment":{"device":..,"backend":..,"driver":..,"cpu":..,"system":..,"threads":..}}
 */
#ifndef RUNNER_JOB_RUN_MANIFEST_H
#define RUNNER_JOB_RUN_MANIFEST_H

#include "runner/job/job.h"
#include "train/trainer.h"

bool run_manifest_write(const struct job *job, const struct plan *plan,
                        const struct run_info *facts, struct error *err);

#endif
