/* train/follower.h - a rank other than 0. */
#ifndef TRAIN_FOLLOWER_H
#define TRAIN_FOLLOWER_H

#include "train/run.h"

/* Carry out the orders of rank 0 until it ends. */
bool follower_run(struct run *run, struct error *err);

#endif
