/* precision/device.c - the features of a device, by compute capability. */
#include "config.h"

#include "precision/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

void device_normalize_name(const char *text, char *out, size_t room)
{
    size_t len = 0;

    for (; *text != '\0' && len + 1 < room; text++)
        if (isalnum((unsigned char)*text))
            out[len++] = (char)tolower((unsigned char)*text);
    out[len] = '\0';
}

static int capability_order(int major, int minor)
{
    return major * 10 + minor;
}

const struct capability_row *device_capability(const struct device *device)
{
    const struct capability_row *rows, *found = NULL;
    size_t count = capability_rows(&rows);

    if (device->kind != DEVICE_CUDA)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (capability_order(rows[i].major, rows[i].minor) <=
            capability_order(device->major, device->minor))
            found = &rows[i];
    return found;
}

void device_recognize(struct device *device)
{
    /* chips TU116 and TU117, by their product names */
    static const char *const without[] = { "gtx16", "t400",  "t500",  "t550",  "t600",
                                           "t1000", "t1200", "t2000", "mx450", "mx550" };
    char name[96];

    device_normalize_name(device->name, name, sizeof(name));
    device->no_tensor_cores = false;
    for (size_t i = 0; i < TS_COUNT(without); i++)
        if (device->kind == DEVICE_CUDA && device->major == 7 && device->minor == 5 &&
            strstr(name, without[i]))
            device->no_tensor_cores = true;
}

bool device_has_bf16(const struct device *device)
{
    const struct capability_row *row = device_capability(device);

    if (device->accelerator)
        return device->accelerator->bf16 == KNOWN_YES;
    return device->kind == DEVICE_CPU || (row && row->bf16);
}

bool device_has_tf32(const struct device *device)
{
    const struct capability_row *row = device_capability(device);

    return row && row->tf32;
}

bool device_has_fp8(const struct device *device)
{
    const struct capability_row *row = device_capability(device);

    return device->accelerator ? device->accelerator->fp8 == KNOWN_YES : row && row->fp8;
}

bool device_has_fp16_tensor_cores(const struct device *device)
{
    const struct capability_row *row = device_capability(device);

    return row && row->fp16_tensor_cores && !device->no_tensor_cores;
}

void device_capability_text(const struct device *device, char out[16])
{
    if (device->kind != DEVICE_CUDA)
        out[0] = '\0';
    else
        snprintf(out, 16, "%d.%d", device->major, device->minor);
}

bool device_parse_bytes(const char *text, uint64_t *out)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {
        { "", 1 },         { "b", 1 },        { "kib", 0x1p10 }, { "mib", 0x1p20 },
        { "gib", 0x1p30 }, { "tib", 0x1p40 }, { "k", 0x1p10 },   { "m", 0x1p20 },
        { "g", 0x1p30 },   { "t", 0x1p40 },   { "kb", 1e3 },     { "mb", 1e6 },
        { "gb", 1e9 },     { "tb", 1e12 },
    };
    char *end, unit[8];
    double value;

    if (!isdigit((unsigned char)*text) && *text != '.')
        return false;
    value = strtod(text, &end);
    while (*end == ' ')
        end++;
    device_normalize_name(end, unit, sizeof(unit));
    if (strlen(unit) != strlen(end))
        return false;
    for (size_t i = 0; i < TS_COUNT(units); i++)
        if (strcmp(unit, units[i].unit) == 0 && value * units[i].bytes < 0x1p63) {
            *out = (uint64_t)(value * units[i].bytes);
            return true;
        }
    return false;
}
