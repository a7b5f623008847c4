/* patcher/rules/rules_media.c - TS730: settings of images and sound. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>

#include "base/size.h"

/* WhisperFeatureExtractor refuses another rate than its own; all published encoders have this
 * one. */
enum { ENCODER_RATE = 16000 };

static void rule_sampling_rate(struct rule_context *context)
{
    const int64_t rate = context->plan->audio_sampling_rate;

    if (rate == ENCODER_RATE || (context->model && !context->model->multimodal))
        return;
    rule_propose(context,
                 &(struct finding) { .rule = "TS730",
                                     .severity = SEVERITY_ERROR,
                                     .apply = APPLY_SAFE,
                                     .message = arena_printf(
                                         context->arena,
                                         "audio_sampling_rate must be 16000, the rate "
                                         "of encoders of sound, not %" PRId64,
                                         rate),
                                     .note = "files of any rate are converted to it" },
                 "audio_sampling_rate", "16000", NULL);
}

static const struct rule rows[] = {
    { .id = "TS730",
      .title = "another sampling rate than the encoder's",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .apply = APPLY_SAFE,
      .run = rule_sampling_rate,
      .explain =
          "Encoders of sound read 16000 samples per second. audio_sampling_rate is the "
          "rate to which LLaMA-Factory converts every sound before the encoder's feature "
          "extractor, which refuses any other rate than its own: the run would fail at "
          "its first batch. It is not the rate of the files, which may have any. The "
          "patch sets it to 16000.",
      .source = "LLaMA-Factory data/mm_plugin.py: _regularize_audios; transformers "
                "models/whisper/feature_extraction_whisper.py" },
};

const struct rules rules_media = { rows, TS_COUNT(rows) };
