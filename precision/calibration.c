/* precision/calibration.c - measured rates to and from JSON, and interpolation between
 * them. */
#include "config.h"

#include "precision/calibration.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

/* The formats that can be measured; JSON uses the format's name. */
static const enum format formats[] = { FORMAT_FP32, FORMAT_TF32, FORMAT_FP16,
                                       FORMAT_BF16 };

static json_t *rates_array(const double rates[CALIBRATION_WIDTHS])
{
    json_t *list = json_array();

    for (int i = 0; i < CALIBRATION_WIDTHS; i++)
        json_array_append_new(list, json_number(rates[i]));
    return list;
}

json_t *calibration_object(const struct calibration *calibration)
{
    json_t *object = json_object(), *products = json_object();

    json_object_set_new(object, "device", json_string(calibration->device));
    json_object_set_new(object, "threads", json_integer(calibration->threads));
    json_object_set_new(object, "build", json_string(calibration->build));
    json_object_set_new(object, "date", json_string(calibration->date));
    for (size_t i = 0; i < TS_COUNT(formats); i++)
        if (calibration->products[formats[i]][0] > 0)
            json_object_set_new(products, format_info(formats[i])->name,
                                rates_array(calibration->products[formats[i]]));
    json_object_set_new(object, "operations_per_second", products);
    json_object_set_new(object, "bytes_per_second",
                        json_number(calibration->bytes_per_second));
    json_object_set_new(object, "seconds_per_operation",
                        json_number(calibration->seconds_per_operation));
    return object;
}

static bool is_rate(double value)
{
    return isfinite(value) && value > 0;
}

static bool read_rates(const json_t *list, double out[CALIBRATION_WIDTHS])
{
    if (json_array_size(list) != CALIBRATION_WIDTHS)
        return false;
    for (int i = 0; i < CALIBRATION_WIDTHS; i++) {
        out[i] = json_number_value(json_array_get(list, (size_t)i));
        if (!is_rate(out[i]))
            return false;
    }
    return true;
}

static bool read_text(const json_t *object, const char *key, const char *where, char *out,
                      size_t room, struct error *err)
{
    const char *text = json_get_string(object, key, "", where, err);

    return snprintf(out, room, "%s", text) < (int)room && *text;
}

static bool read_products(const json_t *object, struct calibration *out)
{
    const json_t *products = json_object_get(object, "operations_per_second");

    for (size_t i = 0; i < TS_COUNT(formats); i++) {
        const json_t *list = json_object_get(products, format_info(formats[i])->name);

        if (list && !read_rates(list, out->products[formats[i]]))
            return false;
    }
    return out->products[FORMAT_FP32][0] > 0;
}

bool calibration_read(const json_t *object, const char *where, struct calibration *out,
                      struct error *err)
{
    struct error first = { 0 };
    bool ok;

    *out = (struct calibration) { 0 };
    ok = read_text(object, "device", where, out->device, sizeof(out->device), &first) &&
         read_text(object, "build", where, out->build, sizeof(out->build), &first) &&
         read_text(object, "date", where, out->date, sizeof(out->date), &first) &&
         read_products(object, out);
    out->threads = (int)json_get_int(object, "threads", 0, where, &first);
    out->bytes_per_second = json_get_real(object, "bytes_per_second", 0, where, &first);
    out->seconds_per_operation =
        json_get_real(object, "seconds_per_operation", 0, where, &first);
    if (ok && first.code == ERROR_NONE && is_rate(out->bytes_per_second) &&
        is_rate(out->seconds_per_operation))
        return true;
    return error_set(err, ERROR_DATA,
                     "%s: not a valid calibration; run trainspool devices --calibrate to "
                     "measure again",
                     where);
}

double calibration_rate(const struct calibration *calibration, enum format format,
                        double width)
{
    const double *rates = calibration->products[format];
    double at, part;
    int below;

    if (rates[0] <= 0)
        rates = calibration->products[FORMAT_FP32];
    at = log2(width > 0 ? width : 1) - log2((double)CALIBRATION_WIDTH(0));
    if (at <= 0)
        return rates[0] * exp2(at); /* half the width: half the rate */
    if (at >= CALIBRATION_WIDTHS - 1)
        return rates[CALIBRATION_WIDTHS - 1];
    below = (int)at;
    part = at - below;
    return rates[below] * pow(rates[below + 1] / rates[below], part);
}
