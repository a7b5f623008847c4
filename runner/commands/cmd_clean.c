/* runner/commands/cmd_clean.c - clean: removes old files of jobs that have ended, once. */
#include "config.h"

#include "runner/commands/commands.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/file.h"
#include "precision/memory.h"
#include "runner/output/report.h"
#include "runner/spool/cleaning.h"

static int cmd_clean(const struct options *options);

const struct command command_clean = {
    .name = "clean",
    .operands = "DIR|JOB...",
    .min_operands = 1,
    .max_operands = -1,
    .options = (const enum option_id[]) { OPTION_KEEP_DAYS, OPTION_MAX_BYTES,
                                          OPTION_DRY_RUN, OPTION_END },
    .help = "remove old backups, event files and checkpoints of ended jobs",
    .details =
        "Only what exceeds --keep-days, --max-bytes or the limits of its job goes, and only "
        "what trainspool made and that is unchanged: backups between the first and the newest, TensorBoard files "
        "of earlier attempts, checkpoints other than the last and the best.",
    .run = cmd_clean,
};

static void print_line(void *context, bool bad, const char *line)
{
    const struct options *options = context;
    struct error err = { .code = ERROR_SYSTEM };
    struct text text;

    if (bad) {
        snprintf(err.text, sizeof(err.text), "%s", line);
        report_error(options->program, &err);
        return;
    }
    if (options->quiet)
        return;
    text_init(&text, 0);
    report_visible(&text, line);
    puts(text.data);
    text_clear(&text);
}

static bool add_operands(const struct options *options, struct listing *listing,
                         struct error *err)
{
    for (size_t i = 0; i < options->operand_count; i++) {
        const char *operand = options->operands[i];

        if (!file_exists(operand))
            return error_set(err, ERROR_USAGE, "there is no %s", operand);
        if (!file_is_dir(operand))
            listing_add_job(listing, operand);
        else if (!listing_add_folder(listing, operand, err))
            return false;
    }
    return true;
}

static int cmd_clean(const struct options *options)
{
    struct cleaning cleaning = { .dry_run = options->dry_run,
                                 .report = print_line,
                                 .context = (void *)options };
    struct listing listing = { 0 };
    struct error err = { 0 };
    char size[16];

    if (cleaning_limits_read(options, &cleaning.limits, &err) &&
        add_operands(options, &listing, &err)) {
        cleaning_run(&cleaning, &listing);
        memory_text((uint64_t)cleaning.bytes, size);
        if (!options->quiet)
            printf("%zu %s %s, %s\n", cleaning.removed,
                   cleaning.removed == 1 ? "file or folder" : "files and folders",
                   options->dry_run ? "would be removed" : "removed", size);
    } else {
        report_error(options->program, &err);
    }
    listing_clear(&listing);
    if (err.code != ERROR_NONE)
        return report_exit(err.code);
    return cleaning.failed > 0 ? EXIT_SYSTEM : EXIT_FINE;
}
