# One line a file, sorted.  Everything but the two main()s is in librunner.a, so that tests reach it.

noinst_LIBRARIES += librunner.a

librunner_a_SOURCES =
librunner_a_SOURCES += %D%/about.c %D%/about.h
librunner_a_SOURCES += %D%/attempt.c %D%/attempt.h
librunner_a_SOURCES += %D%/calibrate.c %D%/calibrate.h
librunner_a_SOURCES += %D%/calibrations.c %D%/calibrations.h
librunner_a_SOURCES += %D%/chart.c %D%/chart.h
librunner_a_SOURCES += %D%/chart_scale.c %D%/chart_scale.h
librunner_a_SOURCES += %D%/child.c %D%/child.h
librunner_a_SOURCES += %D%/claim.c %D%/claim.h
librunner_a_SOURCES += %D%/cmd_backups.c
librunner_a_SOURCES += %D%/cmd_cancel.c
librunner_a_SOURCES += %D%/cmd_check.c
librunner_a_SOURCES += %D%/cmd_completion.c
librunner_a_SOURCES += %D%/cmd_devices.c
librunner_a_SOURCES += %D%/cmd_explain.c
librunner_a_SOURCES += %D%/cmd_generate.c
librunner_a_SOURCES += %D%/cmd_import.c
librunner_a_SOURCES += %D%/cmd_logs.c
librunner_a_SOURCES += %D%/cmd_patch.c
librunner_a_SOURCES += %D%/cmd_plan.c
librunner_a_SOURCES += %D%/cmd_report.c
librunner_a_SOURCES += %D%/cmd_review.c
librunner_a_SOURCES += %D%/cmd_run.c
librunner_a_SOURCES += %D%/cmd_schema.c
librunner_a_SOURCES += %D%/cmd_status.c
librunner_a_SOURCES += %D%/cmd_submit.c
librunner_a_SOURCES += %D%/cmd_watch.c
librunner_a_SOURCES += %D%/commands.c %D%/commands.h
librunner_a_SOURCES += %D%/count.c %D%/count.h
librunner_a_SOURCES += %D%/drop.c %D%/drop.h
librunner_a_SOURCES += %D%/facts.c %D%/facts.h
librunner_a_SOURCES += %D%/forecast.c %D%/forecast.h
librunner_a_SOURCES += %D%/html.c %D%/html.h
librunner_a_SOURCES += %D%/generation.c %D%/generation.h
librunner_a_SOURCES += %D%/generation_lines.c %D%/generation_parts.h
librunner_a_SOURCES += %D%/generation_target.c %D%/generation_target.h
librunner_a_SOURCES += %D%/inspect.c %D%/inspect.h
librunner_a_SOURCES += %D%/intake.c %D%/intake.h
librunner_a_SOURCES += %D%/job.c %D%/job.h
librunner_a_SOURCES += %D%/machine.c %D%/machine.h
librunner_a_SOURCES += %D%/meter.c %D%/meter.h
librunner_a_SOURCES += %D%/names.c %D%/names.h
librunner_a_SOURCES += %D%/options.c %D%/options.h
librunner_a_SOURCES += %D%/pace.c %D%/pace.h
librunner_a_SOURCES += %D%/page.c %D%/page.h
librunner_a_SOURCES += %D%/page_charts.c %D%/page_parts.h
librunner_a_SOURCES += %D%/page_data.c %D%/page_data.h
librunner_a_SOURCES += %D%/page_parts.c
librunner_a_SOURCES += %D%/page_style.c
librunner_a_SOURCES += %D%/page_trouble.c
librunner_a_SOURCES += %D%/plan_json.c %D%/plan_json.h
librunner_a_SOURCES += %D%/queue.c %D%/queue.h
librunner_a_SOURCES += %D%/ranks.c %D%/ranks.h
librunner_a_SOURCES += %D%/report.c %D%/report.h
librunner_a_SOURCES += %D%/report_excerpt.c %D%/report_excerpt.h
librunner_a_SOURCES += %D%/report_json.c %D%/report_json.h
librunner_a_SOURCES += %D%/report_sarif.c %D%/report_sarif.h
librunner_a_SOURCES += %D%/review.c %D%/review.h
librunner_a_SOURCES += %D%/selection.c %D%/selection.h
librunner_a_SOURCES += %D%/spool.c %D%/spool.h
librunner_a_SOURCES += %D%/steps.c %D%/steps.h
librunner_a_SOURCES += %D%/watch.c %D%/watch.h
librunner_a_SOURCES += %D%/worker.c %D%/worker.h

bin_PROGRAMS += trainspool trainspool-train

# The daemon links no CUDA library: a process that does holds 100 MB before it does anything.
trainspool_SOURCES = %D%/main.c
trainspool_LDADD = $(LAYERS) $(LIBRARY_LIBS)

trainspool_train_SOURCES = %D%/train_main.c
trainspool_train_LDADD = $(LAYERS) $(LIBRARY_LIBS) $(CUDA_LIBS)
