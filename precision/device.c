/* precision/device.c - the tables of devices and compute capabilities. */
#include "config.h"

#include "precision/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

#define HARDWARE "huggingface.js packages/tasks/src/hardware.ts"
#define DATA_SHEET "NVIDIA data sheet"
#define GUIDE "NVIDIA CUDA programming guide; CUDA 13.0 release notes; TransformerEngine matrix"

/* By compute capability, lowest first. */
static const struct capability_row capabilities[] = {
    { .major = 6, .minor = 0, .family = "Pascal P100", .fp16_rate = 2, .source = GUIDE },
    { .major = 6, .minor = 1, .family = "Pascal", .fp16_rate = 1.0 / 64, .source = GUIDE },
    { .major = 7, .minor = 0, .family = "Volta", .fp16_tensor_cores = true, .fp16_rate = 2,
      .source = GUIDE },
    { .major = 7, .minor = 2, .family = "Xavier", .fp16_tensor_cores = true, .fp16_rate = 2,
      .source = GUIDE },
    { .major = 7, .minor = 5, .family = "Turing", .fp16_tensor_cores = true, .fp16_rate = 2,
      .cuda13 = true, .source = GUIDE },
    { .major = 8, .minor = 0, .family = "Ampere A100", .fp16_tensor_cores = true,
      .bf16 = true, .tf32 = true, .flash_attention_2 = true, .fp16_rate = 4,
      .cuda13 = true, .source = GUIDE },
    { .major = 8, .minor = 6, .family = "Ampere", .fp16_tensor_cores = true, .bf16 = true,
      .tf32 = true, .flash_attention_2 = true, .fp16_rate = 1, .cuda13 = true,
      .source = GUIDE },
    { .major = 8, .minor = 7, .family = "Orin", .fp16_tensor_cores = true, .bf16 = true,
      .tf32 = true, .flash_attention_2 = true, .fp16_rate = 2, .cuda13 = true,
      .source = GUIDE },
    { .major = 8, .minor = 9, .family = "Ada", .fp16_tensor_cores = true, .bf16 = true,
      .tf32 = true, .fp8 = true, .flash_attention_2 = true, .fp16_rate = 1, .cuda13 = true,
      .source = GUIDE },
    { .major = 9, .minor = 0, .family = "Hopper", .fp16_tensor_cores = true, .bf16 = true,
      .tf32 = true, .fp8 = true, .flash_attention_2 = true, .fp16_rate = 4, .cuda13 = true,
      .source = GUIDE },
    { .major = 10, .minor = 0, .family = "Blackwell B200", .fp16_tensor_cores = true,
      .bf16 = true, .tf32 = true, .fp8 = true, .flash_attention_2 = true, .fp16_rate = 2,
      .cuda13 = true, .source = GUIDE },
    { .major = 10, .minor = 3, .family = "Blackwell B300", .fp16_tensor_cores = true,
      .bf16 = true, .tf32 = true, .fp8 = true, .flash_attention_2 = true, .fp16_rate = 2,
      .cuda13 = true, .source = GUIDE },
    { .major = 11, .minor = 0, .family = "Thor", .fp16_tensor_cores = true, .bf16 = true,
      .tf32 = true, .fp8 = true, .flash_attention_2 = true, .fp16_rate = 2, .cuda13 = true,
      .source = GUIDE },
    { .major = 12, .minor = 0, .family = "Blackwell", .fp16_tensor_cores = true,
      .bf16 = true, .tf32 = true, .fp8 = true, .flash_attention_2 = true, .fp16_rate = 1,
      .cuda13 = true, .source = GUIDE },
    { .major = 12, .minor = 1, .family = "GB10", .fp16_tensor_cores = true, .bf16 = true,
      .tf32 = true, .fp8 = true, .flash_attention_2 = true, .fp16_rate = 1, .cuda13 = true,
      .source = GUIDE },
};

/* One name's sizes stand together, the smallest first: a bare name means that. */
static const struct device_row devices[] = {
    { "P100", "12GB", 6, 0, 12, false, DATA_SHEET },
    { "P100", "16GB", 6, 0, 16, false, HARDWARE },
    { "P4", "", 6, 1, 8, false, DATA_SHEET },
    { "P40", "", 6, 1, 24, false, HARDWARE },
    { "GTX 1060", "", 6, 1, 6, false, DATA_SHEET },
    { "GTX 1070", "", 6, 1, 8, false, DATA_SHEET },
    { "GTX 1080", "", 6, 1, 8, false, DATA_SHEET },
    { "GTX 1080 Ti", "", 6, 1, 11, false, HARDWARE },
    { "TITAN V", "", 7, 0, 12, false, DATA_SHEET },
    { "V100", "16GB", 7, 0, 16, false, HARDWARE },
    { "V100", "32GB", 7, 0, 32, false, HARDWARE },
    { "GV100", "", 7, 0, 32, false, DATA_SHEET },
    { "Xavier", "", 7, 2, 16, false, DATA_SHEET },
    { "T4", "", 7, 5, 16, false, HARDWARE },
    { "TITAN RTX", "", 7, 5, 24, false, HARDWARE },
    { "RTX 2060", "6GB", 7, 5, 6, false, HARDWARE },
    { "RTX 2060", "12GB", 7, 5, 12, false, HARDWARE },
    { "RTX 2070", "", 7, 5, 8, false, HARDWARE },
    { "RTX 2080", "", 7, 5, 8, false, HARDWARE },
    { "RTX 2080 Ti", "", 7, 5, 11, false, HARDWARE },
    { "Quadro RTX 5000", "", 7, 5, 16, false, DATA_SHEET },
    { "Quadro RTX 6000", "", 7, 5, 24, false, DATA_SHEET },
    { "Quadro RTX 8000", "", 7, 5, 48, false, DATA_SHEET },
    { "GTX 1650", "", 7, 5, 4, true, HARDWARE },
    { "GTX 1660", "", 7, 5, 6, true, HARDWARE },
    { "A100", "40GB", 8, 0, 40, false, HARDWARE },
    { "A100", "80GB", 8, 0, 80, false, HARDWARE },
    { "A30", "", 8, 0, 24, false, HARDWARE },
    { "A2", "", 8, 6, 16, false, DATA_SHEET },
    { "A10", "", 8, 6, 24, false, HARDWARE },
    { "A16", "", 8, 6, 16, false, DATA_SHEET },
    { "A40", "", 8, 6, 48, false, HARDWARE },
    { "RTX A2000", "6GB", 8, 6, 6, false, DATA_SHEET },
    { "RTX A2000", "12GB", 8, 6, 12, false, DATA_SHEET },
    { "RTX A4000", "", 8, 6, 16, false, HARDWARE },
    { "RTX A5000", "", 8, 6, 24, false, HARDWARE },
    { "RTX A6000", "", 8, 6, 48, false, HARDWARE },
    { "RTX 3050", "", 8, 6, 8, false, DATA_SHEET },
    { "RTX 3060", "", 8, 6, 12, false, HARDWARE },
    { "RTX 3060 Ti", "", 8, 6, 8, false, HARDWARE },
    { "RTX 3070", "", 8, 6, 8, false, HARDWARE },
    { "RTX 3070 Ti", "", 8, 6, 8, false, HARDWARE },
    { "RTX 3080", "10GB", 8, 6, 10, false, HARDWARE },
    { "RTX 3080", "12GB", 8, 6, 12, false, HARDWARE },
    { "RTX 3080 Ti", "", 8, 6, 12, false, HARDWARE },
    { "RTX 3090", "", 8, 6, 24, false, HARDWARE },
    { "RTX 3090 Ti", "", 8, 6, 24, false, HARDWARE },
    { "Orin", "", 8, 7, 32, false, DATA_SHEET },
    { "L4", "", 8, 9, 24, false, HARDWARE },
    { "L40", "", 8, 9, 48, false, HARDWARE },
    { "L40S", "", 8, 9, 48, false, HARDWARE },
    { "RTX 6000 Ada", "", 8, 9, 48, false, HARDWARE },
    { "RTX 4060", "", 8, 9, 8, false, HARDWARE },
    { "RTX 4060 Ti", "8GB", 8, 9, 8, false, HARDWARE },
    { "RTX 4060 Ti", "16GB", 8, 9, 16, false, HARDWARE },
    { "RTX 4070", "", 8, 9, 12, false, HARDWARE },
    { "RTX 4070 Super", "", 8, 9, 12, false, HARDWARE },
    { "RTX 4070 Ti", "", 8, 9, 12, false, HARDWARE },
    { "RTX 4070 Ti Super", "", 8, 9, 16, false, HARDWARE },
    { "RTX 4080", "", 8, 9, 16, false, HARDWARE },
    { "RTX 4080 Super", "", 8, 9, 16, false, HARDWARE },
    { "RTX 4090", "", 8, 9, 24, false, HARDWARE },
    { "H100", "80GB", 9, 0, 80, false, HARDWARE },
    { "H100", "94GB", 9, 0, 94, false, DATA_SHEET },
    { "H100", "96GB", 9, 0, 96, false, DATA_SHEET },
    { "H200", "", 9, 0, 141, false, HARDWARE },
    { "GH200", "96GB", 9, 0, 96, false, DATA_SHEET },
    { "GH200", "144GB", 9, 0, 144, false, DATA_SHEET },
    { "B200", "180GB", 10, 0, 180, false, DATA_SHEET },
    { "B200", "192GB", 10, 0, 192, false, HARDWARE },
    { "GB200", "", 10, 0, 186, false, DATA_SHEET },
    { "B300", "", 10, 3, 288, false, DATA_SHEET },
    { "GB300", "", 10, 3, 288, false, DATA_SHEET },
    { "Thor", "", 11, 0, 128, false, DATA_SHEET },
    { "RTX 5060", "", 12, 0, 8, false, HARDWARE },
    { "RTX 5060 Ti", "8GB", 12, 0, 8, false, HARDWARE },
    { "RTX 5060 Ti", "16GB", 12, 0, 16, false, HARDWARE },
    { "RTX 5070", "", 12, 0, 12, false, HARDWARE },
    { "RTX 5070 Ti", "", 12, 0, 16, false, HARDWARE },
    { "RTX 5080", "", 12, 0, 16, false, HARDWARE },
    { "RTX 5090", "", 12, 0, 32, false, HARDWARE },
    { "RTX PRO 6000", "", 12, 0, 96, false, HARDWARE },
    { "GB10", "", 12, 1, 128, false, DATA_SHEET },
};

size_t device_rows(const struct device_row **rows)
{
    *rows = devices;
    return TS_COUNT(devices);
}

size_t capability_rows(const struct capability_row **rows)
{
    *rows = capabilities;
    return TS_COUNT(capabilities);
}

static int capability_order(int major, int minor)
{
    return major * 10 + minor;
}

const struct capability_row *device_capability(const struct device *device)
{
    const struct capability_row *found = NULL;

    if (device->kind != DEVICE_CUDA)
        return NULL;
    for (size_t i = 0; i < TS_COUNT(capabilities); i++)
        if (capability_order(capabilities[i].major, capabilities[i].minor) <=
            capability_order(device->major, device->minor))
            found = &capabilities[i];
    return found;
}

/* Letters and digits alone, in lower case: "V100 32GB" and "v100-32gb" are one. */
static void fold(const char *text, char *out, size_t room)
{
    size_t len = 0;

    for (; *text != '\0' && len + 1 < room; text++)
        if (isalnum((unsigned char)*text))
            out[len++] = (char)tolower((unsigned char)*text);
    out[len] = '\0';
}

static void cut(char *text, size_t at, size_t len)
{
    memmove(text + at, text + at + len, strlen(text + at + len) + 1);
}

/* "NVIDIA A100-SXM4-80GB", folded, is "a10080gb": names as nvidia-smi and torch print them. */
static void cut_vendor(char *folded)
{
    static const char *const makers[] = { "nvidia", "geforce", "tesla" };
    static const char *const forms[] = { "sxm2", "sxm3", "sxm4", "sxm5", "pcie", "hbm3e", "hbm3" };

    for (size_t i = 0; i < TS_COUNT(makers); i++)
        if (strncmp(folded, makers[i], strlen(makers[i])) == 0)
            cut(folded, 0, strlen(makers[i]));
    for (size_t i = 0; i < TS_COUNT(forms); i++) {
        char *found = strstr(folded, forms[i]);

        if (found != NULL)
            cut(folded, (size_t)(found - folded), strlen(forms[i]));
    }
}

static void fill(const struct device_row *row, struct device *out)
{
    *out = (struct device){ .kind = DEVICE_CUDA,
                            .major = row->major,
                            .minor = row->minor,
                            .memory = (uint64_t)row->gib << 30,
                            .available = (uint64_t)row->gib << 30,
                            .ordinal = -1,
                            .no_tensor_cores = row->no_tensor_cores };
    snprintf(out->name, sizeof out->name, "%s%s%s", row->name, *row->size ? " " : "",
             row->size);
}

/* "sm_75", "sm_75:24GiB" */
static bool find_capability(const char *text, struct device *out, struct error *err)
{
    int digits, used = 0;
    uint64_t memory = 0;

    if (sscanf(text, "sm_%d%n", &digits, &used) != 1 || digits < 10 || digits > 999)
        return error_set(err, ERROR_USAGE, "'%s' is no capability; write it as sm_75:24GiB",
                         text);
    if (text[used] == ':' && !device_parse_bytes(text + used + 1, &memory))
        return error_set(err, ERROR_USAGE, "'%s' is no size; write it as 24GiB",
                         text + used + 1);
    if (text[used] != ':' && text[used] != '\0')
        return error_set(err, ERROR_USAGE, "'%s' is no capability; write it as sm_75:24GiB",
                         text);
    *out = (struct device){ .kind = DEVICE_CUDA,
                            .major = digits / 10,
                            .minor = digits % 10,
                            .memory = memory,
                            .available = memory,
                            .ordinal = -1 };
    snprintf(out->name, sizeof out->name, "%s", text);
    return true;
}

/* Rows whose folded name begins with, ends with or holds what was asked for. */
static bool no_such_device(const char *text, const char *folded, struct error *err)
{
    char names[200] = "", other[64];
    int listed = 0;

    for (size_t i = 0; i < TS_COUNT(devices) && listed < 4; i++) {
        fold(devices[i].name, other, sizeof other);
        if (*folded == '\0' ||
            (strstr(other, folded) == NULL && strstr(folded, other) == NULL))
            continue;
        size_t len = strlen(names);

        snprintf(names + len, sizeof names - len, "%s%s%s%s", listed++ ? ", " : "",
                 devices[i].name, *devices[i].size ? " " : "", devices[i].size);
    }
    if (listed == 0)
        return error_set(err, ERROR_USAGE,
                         "no device '%s' in the table; `trainspool devices --known` lists "
                         "it, or name a capability: sm_75:24GiB",
                         text);
    return error_set(err, ERROR_USAGE, "no device '%s' in the table; near it: %s", text,
                     names);
}

bool device_find(const char *text, struct device *out, struct error *err)
{
    char folded[64], name[64], whole[96];

    if (strncmp(text, "sm_", 3) == 0)
        return find_capability(text, out, err);
    fold(text, folded, sizeof folded);
    cut_vendor(folded);
    if (strcmp(folded, "cpu") == 0) {
        *out = (struct device){ .kind = DEVICE_CPU, .ordinal = -1, .runnable = true };
        snprintf(out->name, sizeof out->name, "cpu");
        return true;
    }
    for (size_t i = 0; i < TS_COUNT(devices); i++) {
        fold(devices[i].name, name, sizeof name);
        snprintf(whole, sizeof whole, "%s", name);
        fold(devices[i].size, whole + strlen(whole), sizeof whole - strlen(whole));
        if (strcmp(folded, name) == 0 || strcmp(folded, whole) == 0) {
            fill(&devices[i], out);
            return true;
        }
    }
    return no_such_device(text, folded, err);
}

void device_recognise(struct device *device)
{
    char name[96];

    fold(device->name, name, sizeof name);
    device->no_tensor_cores = device->kind == DEVICE_CUDA && device->major == 7 &&
                              device->minor == 5 && strstr(name, "gtx16") != NULL;
}

bool device_has_bf16(const struct device *device)
{
    const struct capability_row *row = device_capability(device);

    return device->kind == DEVICE_CPU || (row != NULL && row->bf16);
}

bool device_has_tf32(const struct device *device)
{
    const struct capability_row *row = device_capability(device);

    return row != NULL && row->tf32;
}

bool device_has_fp8(const struct device *device)
{
    const struct capability_row *row = device_capability(device);

    return row != NULL && row->fp8;
}

bool device_has_fp16_tensor_cores(const struct device *device)
{
    const struct capability_row *row = device_capability(device);

    return row != NULL && row->fp16_tensor_cores && !device->no_tensor_cores;
}

void device_capability_text(const struct device *device, char out[16])
{
    if (device->kind == DEVICE_CPU)
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
        { "", 1 },       { "b", 1 },
        { "kib", 0x1p10 }, { "mib", 0x1p20 }, { "gib", 0x1p30 }, { "tib", 0x1p40 },
        { "k", 0x1p10 }, { "m", 0x1p20 }, { "g", 0x1p30 }, { "t", 0x1p40 },
        { "kb", 1e3 },   { "mb", 1e6 },   { "gb", 1e9 },   { "tb", 1e12 },
    };
    char *end, unit[8];
    double value;

    if (!isdigit((unsigned char)*text) && *text != '.')
        return false;
    value = strtod(text, &end);
    while (*end == ' ')
        end++;
    fold(end, unit, sizeof unit);
    if (strlen(unit) != strlen(end))
        return false;
    for (size_t i = 0; i < TS_COUNT(units); i++)
        if (strcmp(unit, units[i].unit) == 0 && value * units[i].bytes < 0x1p63) {
            *out = (uint64_t)(value * units[i].bytes);
            return true;
        }
    return false;
}
