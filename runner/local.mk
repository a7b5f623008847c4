# One line per module, by room, sorted.  librunner.a has everything except the two main()s, so that tests can link it.

noinst_LIBRARIES += librunner.a

librunner_a_SOURCES =
librunner_a_SOURCES += %D%/attempt.c %D%/attempt.h
librunner_a_SOURCES += %D%/calibrate.c %D%/calibrate.h
librunner_a_SOURCES += %D%/count_steps.c %D%/count_steps.h
librunner_a_SOURCES += %D%/ending.c %D%/ending.h

librunner_a_SOURCES += %D%/commands/announce.c %D%/commands/announce.h
librunner_a_SOURCES += %D%/commands/cmd_backups.c
librunner_a_SOURCES += %D%/commands/cmd_cancel.c
librunner_a_SOURCES += %D%/commands/cmd_check.c
librunner_a_SOURCES += %D%/commands/cmd_clean.c
librunner_a_SOURCES += %D%/commands/cmd_completion.c
librunner_a_SOURCES += %D%/commands/cmd_devices.c
librunner_a_SOURCES += %D%/commands/cmd_explain.c
librunner_a_SOURCES += %D%/commands/cmd_generate.c
librunner_a_SOURCES += %D%/commands/cmd_hold.c
librunner_a_SOURCES += %D%/commands/cmd_import.c
librunner_a_SOURCES += %D%/commands/cmd_logs.c
librunner_a_SOURCES += %D%/commands/cmd_patch.c
librunner_a_SOURCES += %D%/commands/cmd_pause.c
librunner_a_SOURCES += %D%/commands/cmd_plan.c
librunner_a_SOURCES += %D%/commands/cmd_release.c
librunner_a_SOURCES += %D%/commands/cmd_report.c
librunner_a_SOURCES += %D%/commands/cmd_requeue.c
librunner_a_SOURCES += %D%/commands/cmd_retry.c
librunner_a_SOURCES += %D%/commands/cmd_review.c
librunner_a_SOURCES += %D%/commands/cmd_run.c
librunner_a_SOURCES += %D%/commands/cmd_schema.c
librunner_a_SOURCES += %D%/commands/cmd_status.c
librunner_a_SOURCES += %D%/commands/cmd_submit.c
librunner_a_SOURCES += %D%/commands/cmd_undo.c
librunner_a_SOURCES += %D%/commands/cmd_unpause.c
librunner_a_SOURCES += %D%/commands/cmd_watch.c
librunner_a_SOURCES += %D%/commands/commands.c %D%/commands/commands.h
librunner_a_SOURCES += %D%/commands/job_change.c %D%/commands/job_change.h
librunner_a_SOURCES += %D%/commands/status_view.c %D%/commands/status_view.h
librunner_a_SOURCES += %D%/commands/queue_again.c %D%/commands/queue_again.h
librunner_a_SOURCES += %D%/commands/watch_log.c %D%/commands/watch_log.h

librunner_a_SOURCES += %D%/generation/generation.c %D%/generation/generation.h
librunner_a_SOURCES += %D%/generation/generation_output.c %D%/generation/generation_internal.h
librunner_a_SOURCES += %D%/generation/generation_target.c %D%/generation/generation_target.h

librunner_a_SOURCES += %D%/job/admit.c %D%/job/admit.h
librunner_a_SOURCES += %D%/job/calibrations.c %D%/job/calibrations.h
librunner_a_SOURCES += %D%/job/child.c %D%/job/child.h
librunner_a_SOURCES += %D%/job/child_environment.c %D%/job/child_environment.h
librunner_a_SOURCES += %D%/job/contained_paths.c %D%/job/contained_paths.h
librunner_a_SOURCES += %D%/job/containment.c %D%/job/containment.h
librunner_a_SOURCES += %D%/job/eta.c %D%/job/eta.h
librunner_a_SOURCES += %D%/job/forecast.c %D%/job/forecast.h
librunner_a_SOURCES += %D%/job/gate.c %D%/job/gate.h
librunner_a_SOURCES += %D%/job/heal.c %D%/job/heal.h
librunner_a_SOURCES += %D%/job/inspect.c %D%/job/inspect.h
librunner_a_SOURCES += %D%/job/job.c %D%/job/job.h
librunner_a_SOURCES += %D%/job/job_variables.c %D%/job/job_variables.h
librunner_a_SOURCES += %D%/job/machine.c %D%/job/machine.h
librunner_a_SOURCES += %D%/job/note.c %D%/job/note.h
librunner_a_SOURCES += %D%/job/obstacle.c %D%/job/obstacle.h
librunner_a_SOURCES += %D%/job/old_checkpoints.c %D%/job/old_checkpoints.h
librunner_a_SOURCES += %D%/job/old_files.c %D%/job/old_files.h
librunner_a_SOURCES += %D%/job/outputs.c %D%/job/outputs.h
librunner_a_SOURCES += %D%/job/plan_alternatives.c %D%/job/plan_alternatives.h
librunner_a_SOURCES += %D%/job/plan_json.c %D%/job/plan_json.h
librunner_a_SOURCES += %D%/job/ranks.c %D%/job/ranks.h
librunner_a_SOURCES += %D%/job/recent.c %D%/job/recent.h
librunner_a_SOURCES += %D%/job/record.c %D%/job/record.h
librunner_a_SOURCES += %D%/job/record_scan.c %D%/job/record_scan.h
librunner_a_SOURCES += %D%/job/repository.c %D%/job/repository.h
librunner_a_SOURCES += %D%/job/room.c %D%/job/room.h
librunner_a_SOURCES += %D%/job/run_manifest.c %D%/job/run_manifest.h
librunner_a_SOURCES += %D%/job/run_summary.c %D%/job/run_summary.h
librunner_a_SOURCES += %D%/job/steps.c %D%/job/steps.h
librunner_a_SOURCES += %D%/job/sweep_jobs.c %D%/job/sweep_jobs.h
librunner_a_SOURCES += %D%/job/sweep_summary.c %D%/job/sweep_summary.h
librunner_a_SOURCES += %D%/job/trial.c %D%/job/trial.h

librunner_a_SOURCES += %D%/options/names.c %D%/options/names.h
librunner_a_SOURCES += %D%/options/options.c %D%/options/options.h
librunner_a_SOURCES += %D%/options/options_help.c %D%/options/options_help.h
librunner_a_SOURCES += %D%/options/program.c %D%/options/program.h
librunner_a_SOURCES += %D%/options/selection.c %D%/options/selection.h

librunner_a_SOURCES += %D%/output/line_changes.c %D%/output/line_changes.h
librunner_a_SOURCES += %D%/output/meter.c %D%/output/meter.h
librunner_a_SOURCES += %D%/output/report.c %D%/output/report.h
librunner_a_SOURCES += %D%/output/report_excerpt.c %D%/output/report_excerpt.h
librunner_a_SOURCES += %D%/output/report_json.c %D%/output/report_json.h
librunner_a_SOURCES += %D%/output/report_sarif.c %D%/output/report_sarif.h
librunner_a_SOURCES += %D%/output/report_similar.c %D%/output/report_similar.h
librunner_a_SOURCES += %D%/output/screen.c %D%/output/screen.h
librunner_a_SOURCES += %D%/output/review.c %D%/output/review.h

librunner_a_SOURCES += %D%/page/chart.c %D%/page/chart.h
librunner_a_SOURCES += %D%/page/chart_scale.c %D%/page/chart_scale.h
librunner_a_SOURCES += %D%/page/html.c %D%/page/html.h
librunner_a_SOURCES += %D%/page/page.c %D%/page/page.h
librunner_a_SOURCES += %D%/page/page_charts.c %D%/page/page_sections.h
librunner_a_SOURCES += %D%/page/page_data.c %D%/page/page_data.h
librunner_a_SOURCES += %D%/page/page_failure.c
librunner_a_SOURCES += %D%/page/page_sections.c
librunner_a_SOURCES += %D%/page/page_style.c
librunner_a_SOURCES += %D%/page/spool_page.c %D%/page/spool_page.h

librunner_a_SOURCES += %D%/spool/arrivals.c %D%/spool/arrivals.h
librunner_a_SOURCES += %D%/spool/claim.c %D%/spool/claim.h
librunner_a_SOURCES += %D%/spool/cleaner.c %D%/spool/cleaner.h
librunner_a_SOURCES += %D%/spool/cleaning.c %D%/spool/cleaning.h
librunner_a_SOURCES += %D%/spool/clerk.c %D%/spool/clerk.h
librunner_a_SOURCES += %D%/spool/drop.c %D%/spool/drop.h
librunner_a_SOURCES += %D%/spool/examiner.c %D%/spool/examiner.h
librunner_a_SOURCES += %D%/spool/fleet.c %D%/spool/fleet.h
librunner_a_SOURCES += %D%/spool/guard.c %D%/spool/guard.h
librunner_a_SOURCES += %D%/spool/fleet_view.c %D%/spool/fleet_view.h
librunner_a_SOURCES += %D%/spool/intake.c %D%/spool/intake.h
librunner_a_SOURCES += %D%/spool/items.c %D%/spool/items.h
librunner_a_SOURCES += %D%/spool/listing.c %D%/spool/listing.h
librunner_a_SOURCES += %D%/spool/pause.c %D%/spool/pause.h
librunner_a_SOURCES += %D%/spool/placement.c %D%/spool/placement.h
librunner_a_SOURCES += %D%/spool/mail.c %D%/spool/mail.h
librunner_a_SOURCES += %D%/spool/notify.c %D%/spool/notify.h
librunner_a_SOURCES += %D%/spool/overview.c %D%/spool/overview.h
librunner_a_SOURCES += %D%/spool/placement_names.c
librunner_a_SOURCES += %D%/spool/prober.c %D%/spool/prober.h
librunner_a_SOURCES += %D%/spool/queue.c %D%/spool/queue.h
librunner_a_SOURCES += %D%/spool/spool.c %D%/spool/spool.h
librunner_a_SOURCES += %D%/spool/spool_folder.c %D%/spool/spool_folder.h
librunner_a_SOURCES += %D%/spool/spool_metrics.c %D%/spool/spool_metrics.h
librunner_a_SOURCES += %D%/spool/status_table.c %D%/spool/status_table.h
librunner_a_SOURCES += %D%/spool/submission.c %D%/spool/submission.h
librunner_a_SOURCES += %D%/spool/supervisor.c %D%/spool/supervisor.h
librunner_a_SOURCES += %D%/spool/waiters.c %D%/spool/waiters.h
librunner_a_SOURCES += %D%/spool/watch.c %D%/spool/watch.h
librunner_a_SOURCES += %D%/spool/worker.c %D%/spool/worker.h
librunner_a_SOURCES += %D%/spool/workers.c %D%/spool/workers.h

bin_PROGRAMS += trainspool trainspool-train

# The daemon links no CUDA library: a process that links one uses 100 MB before it does any work.
trainspool_SOURCES = %D%/main.c
trainspool_LDADD = $(LAYERS) $(LIBRARY_LIBS)

trainspool_train_SOURCES = %D%/train_main.c
trainspool_train_LDADD = $(LAYERS) $(LIBRARY_LIBS) $(CUDA_LIBS)
