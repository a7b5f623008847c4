/* train/follower.h - a rank other than 0. */
#ifndef TRAIN_FOLLOWER_H
#define TRAIN_FOLLOWER_H

#include "train/run.h"

/* Run one optimizer step. */
typedef bool follower_step(struct run *run, struct error *err);

/* Carry out the orders of rank 0 until it ends. */
bool follower_run(struct run *run, follower_step *step, struct error *err);

#endif
