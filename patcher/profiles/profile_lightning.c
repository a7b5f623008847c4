/*
 * patcher/profiles/profile_lightning.c - the keys of Lightning 2.0.0 to 2.6.6.
 * Written by make_profile.py from the releases; not edited by hand.
 */
#include "config.h"

#include "patcher/profiles/profile.h"

#include "base/size.h"

/* clang-format off */
static const char *const versions[] = {
    "2.0.0", "2.0.1", "2.0.2", "2.0.3", "2.0.4", "2.0.5", "2.0.6", "2.0.7", "2.0.8",
    "2.0.9", "2.1.0", "2.1.1", "2.1.2", "2.1.3", "2.1.4", "2.2.0", "2.2.1", "2.2.2",
    "2.2.3", "2.2.4", "2.2.5", "2.3.0", "2.3.1", "2.3.2", "2.3.3", "2.4.0", "2.5.0",
    "2.5.1", "2.5.2", "2.5.3", "2.5.4", "2.5.5", "2.5.6", "2.6.0", "2.6.1", "2.6.4",
    "2.6.5", "2.6.6"
};

static const char *const programs[] = {
    "Trainer"
};

/* name, types, default, values, deprecated, programs, first and last version */
static const struct profile_key keys[] = {
    { "trainer.accelerator", 0x08, "auto", NULL, NULL, 0x1, 0, 37 },
    { "trainer.accumulate_grad_batches", 0x02, "1", NULL, NULL, 0x1, 0, 37 },
    { "trainer.barebones", 0x01, "false", NULL, NULL, 0x1, 0, 37 },
    { "trainer.benchmark", 0x41, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.callbacks", 0x50, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.check_val_every_n_epoch", 0x42, "1", NULL, NULL, 0x1, 0, 37 },
    { "trainer.default_root_dir", 0x40, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.detect_anomaly", 0x01, "false", NULL, NULL, 0x1, 0, 37 },
    { "trainer.deterministic", 0x41, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.devices", 0x1a, "auto", NULL, NULL, 0x1, 0, 37 },
    { "trainer.enable_autolog_hparams", 0x01, "true", NULL, NULL, 0x1, 33, 37 },
    { "trainer.enable_checkpointing", 0x41, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.enable_model_summary", 0x41, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.enable_progress_bar", 0x41, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.fast_dev_run", 0x03, "false", NULL, NULL, 0x1, 0, 37 },
    { "trainer.gradient_clip_algorithm", 0x48, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.gradient_clip_val", 0x46, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.inference_mode", 0x01, "true", NULL, NULL, 0x1, 0, 37 },
    { "trainer.limit_predict_batches", 0x46, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.limit_test_batches", 0x46, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.limit_train_batches", 0x46, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.limit_val_batches", 0x46, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.log_every_n_steps", 0x42, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.logger", 0x41, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.max_epochs", 0x42, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.max_steps", 0x02, "-1", NULL, NULL, 0x1, 0, 37 },
    { "trainer.max_time", 0x68, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.min_epochs", 0x42, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.min_steps", 0x42, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.model_registry", 0x48, "null", NULL, NULL, 0x1, 27, 37 },
    { "trainer.num_nodes", 0x02, "1", NULL, NULL, 0x1, 0, 37 },
    { "trainer.num_sanity_val_steps", 0x42, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.overfit_batches", 0x06, "0.0", NULL, NULL, 0x1, 0, 37 },
    { "trainer.plugins", 0x50, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.precision", 0x00, "32-true", NULL, NULL, 0x1, 0, 9 },
    { "trainer.precision", 0x40, "null", NULL, NULL, 0x1, 10, 37 },
    { "trainer.profiler", 0x48, "null", NULL, NULL, 0x1, 0, 37 },
    { "trainer.reload_dataloaders_every_n_epochs", 0x02, "0", NULL, NULL, 0x1, 0, 37 },
    { "trainer.strategy", 0x08, "auto", NULL, NULL, 0x1, 0, 37 },
    { "trainer.sync_batchnorm", 0x01, "false", NULL, NULL, 0x1, 0, 37 },
    { "trainer.use_distributed_sampler", 0x01, "true", NULL, NULL, 0x1, 0, 37 },
    { "trainer.val_check_interval", 0x46, "null", NULL, NULL, 0x1, 0, 32 },
    { "trainer.val_check_interval", 0x6e, "null", NULL, NULL, 0x1, 33, 37 },
};
/* clang-format on */

const struct profile_table profile_lightning_table = {
    .versions = versions,
    .version_count = TS_COUNT(versions),
    .programs = programs,
    .program_count = TS_COUNT(programs),
    .keys = keys,
    .key_count = TS_COUNT(keys),
};
