/* runner/job/plan_media.c - images and sounds in what `plan` prints. */
#include "config.h"

#include "runner/job/plan_media.h"

#include <inttypes.h>
#include <math.h>

#include "runner/job/calibrations.h"
#include "runner/output/report.h"
#include "train/estimate.h"

/* The time that a calibrated device of this machine takes; 0: unknown. */
static double seconds_of(const struct inspection *inspection,
                         const struct model_config *config, double operations)
{
    const struct plan *plan = &inspection->patch.plan;
    const struct device *device = inspection->device;
    struct calibration calibration;
    struct error ignored = { 0 };
    double rate;

    if (!device || !device->here || !calibrations_find(device, &calibration, &ignored))
        return 0;
    /* encoders are about as wide as text models, for the rate of their matmuls */
    rate = calibration_rate(&calibration, plan->precision.compute,
                            (double)config->hidden_size);
    return rate > 0 ? operations / rate : 0;
}

void plan_media_find(const struct inspection *inspection,
                     const struct model_config *config, const struct steps *steps,
                     struct plan_media *out)
{
    const struct estimate_media media = steps_data(steps).media;

    *out = (struct plan_media) { .items = media.items, .rows = media.rows };
    out->encodes = estimate_encoder(&inspection->patch.plan, config, &media, &out->cost);
    if (!out->encodes || media.largest == 0)
        return;
    out->operations = out->cost.operations * (double)media.rows / (double)media.largest;
    out->seconds = seconds_of(inspection, config, out->operations);
}

/* The weights of an encoder that is trained are counted with those of the model. */
static uint64_t memory_of(const struct plan_media *media)
{
    const struct tower_cost *cost = &media->cost;

    return (cost->trained > 0 ? 0 : cost->weights) + cost->buffers;
}

json_t *plan_media_json(const struct plan_media *media)
{
    json_t *object, *encoder;

    if (media->items == 0)
        return json_null();
    object = json_object();
    json_object_set_new(object, "items", json_integer((json_int_t)media->items));
    json_object_set_new(object, "rows", json_integer((json_int_t)media->rows));
    encoder = media->encodes ? json_object() : json_null();
    json_object_set_new(object, "encoder", encoder);
    if (!media->encodes)
        return object;
    json_object_set_new(encoder, "memory", json_integer((json_int_t)memory_of(media)));
    json_object_set_new(encoder, "trained",
                        json_integer((json_int_t)media->cost.trained));
    json_object_set_new(encoder, "operations", json_number(media->operations));
    json_object_set_new(encoder, "seconds",
                        media->seconds > 0 ? json_number(media->seconds) : json_null());
    return object;
}

static void add_cost(struct text *out, const struct plan_media *media)
{
    const bool trains = media->cost.trained > 0;
    char bytes[16];

    if (trains)
        text_addf(out, "; trains the encoder: %" PRIu64 " parameters",
                  media->cost.trained);
    else
        text_adds(out, "; the encoder computes them once, before training");
    memory_text(memory_of(media), bytes);
    text_addf(out, trains ? ", %s of activations and " : ", in %s and ", bytes);
    if (media->seconds > 0)
        text_addf(out, "about %.0f s", fmax(1, media->seconds));
    else
        text_addf(out, media->operations < 1e15 ? "%.3g TFLOP" : "%.0f TFLOP",
                  media->operations / 1e12);
    if (trains)
        text_adds(out, " per epoch");
}

void plan_media_text(struct text *out, const struct plan *plan,
                     const struct plan_media *media)
{
    const char *what = !media->encodes     ? "images or sounds"
                       : media->cost.sound ? "sounds"
                                           : "images";

    if (media->items == 0)
        return;
    text_addf(out, "  media       %zu %s with %zu rows of features", media->items, what,
              media->rows);
    if (media->encodes) {
        add_cost(out, media);
    } else if (plan->features) {
        text_adds(out, ", from ");
        report_visible(out, plan->features);
    }
    text_addc(out, '\n');
}
