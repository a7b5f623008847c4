/* precision/format.c - the table of number formats, and conversions that are exact for
 * every bit pattern. */
#include "config.h"

#include "precision/format.h"

#include <assert.h>
#include <string.h>

/* IEEE 754-2019 (binary32, binary16); bfloat16 and TF32 from NVIDIA's CUDA programming
 * guide; fp8 from Micikevicius et al., "FP8 Formats for Deep Learning", 2022. */
static const struct format_info formats[FORMAT_COUNT] = {
    [FORMAT_FP32] = { .name = "fp32",
                      .torch = "float32",
                      .safetensors = "F32",
                      .bytes = 4,
                      .max = 0x1.fffffep127,
                      .min_normal = 0x1p-126,
                      .min_subnormal = 0x1p-149,
                      .epsilon = 0x1p-23 },
    [FORMAT_TF32] = { .name = "tf32",
                      .bytes = 4,
                      .max = 0x1.ffcp127,
                      .min_normal = 0x1p-126,
                      .min_subnormal = 0x1p-136,
                      .epsilon = 0x1p-10 },
    [FORMAT_FP16] = { .name = "fp16",
                      .torch = "float16",
                      .safetensors = "F16",
                      .bytes = 2,
                      .max = 65504,
                      .min_normal = 0x1p-14,
                      .min_subnormal = 0x1p-24,
                      .epsilon = 0x1p-10 },
    [FORMAT_BF16] = { .name = "bf16",
                      .torch = "bfloat16",
                      .safetensors = "BF16",
                      .bytes = 2,
                      .max = 0x1.fep127,
                      .min_normal = 0x1p-126,
                      .min_subnormal = 0x1p-133,
                      .epsilon = 0x1p-7 },
    [FORMAT_FP8_E4M3] = { .name = "fp8_e4m3",
                          .torch = "float8_e4m3fn",
                          .safetensors = "F8_E4M3",
                          .bytes = 1,
                          .max = 448,
                          .min_normal = 0x1p-6,
                          .min_subnormal = 0x1p-9,
                          .epsilon = 0x1p-3 },
    [FORMAT_FP8_E5M2] = { .name = "fp8_e5m2",
                          .torch = "float8_e5m2",
                          .safetensors = "F8_E5M2",
                          .bytes = 1,
                          .max = 57344,
                          .min_normal = 0x1p-14,
                          .min_subnormal = 0x1p-16,
                          .epsilon = 0x1p-2 },
    [FORMAT_CODES] = { .name = "codes", .safetensors = "U8", .bytes = 1 },
};

const struct format_info *format_info(enum format format)
{
    assert(format < FORMAT_COUNT);
    return &formats[format];
}

const char *format_dtype(enum format format)
{
    const struct format_info *info = format_info(format);

    return info->torch ? info->torch : info->name;
}

bool format_find(const char *name, enum format *out)
{
    for (int i = 0; i < FORMAT_COUNT; i++) {
        const struct format_info *info = &formats[i];

        if (strcmp(name, info->name) == 0 ||
            (info->torch && strcmp(name, info->torch) == 0) ||
            (info->safetensors && strcmp(name, info->safetensors) == 0)) {
            *out = (enum format)i;
            return true;
        }
    }
    return false;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

float format_from_bf16(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

uint16_t format_to_bf16(float value)
{
    uint32_t bits = bits_of(value);

    if ((bits & 0x7fffffff) > 0x7f800000) /* NaN: made quiet, never rounded to inf */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float format_from_fp16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t rest = half & 0x7fff;

    if (rest >= 0x7c00) /* inf, NaN (made quiet) */
        return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13 |
                        (rest > 0x7c00 ? 0x400000 : 0));
    if (rest < 0x400) { /* zero and subnormals: an integer times 2^-24, exact in fp32 */
        float value = (float)rest * 0x1p-24f;

        return float_of(sign | bits_of(value));
    }
    return float_of(sign | ((rest << 13) + ((127 - 15) << 23)));
}

uint16_t format_to_fp16(float value)
{
    uint32_t bits = bits_of(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t rest = bits & 0x7fffffff;

    if (rest > 0x7f800000) /* NaN: quiet */
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) /* 65520 and above rounds to inf */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) {
        /* Below 2^-14: adding 0.5 leaves the 10 bits of a subnormal at the end of the
         * mantissa; the addition itself rounds to nearest even. */
        float shifted = float_of(rest) + 0.5f;

        return (uint16_t)(sign | (bits_of(shifted) - 0x3f000000));
    }
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rest - ((127 - 15) << 23)) >> 13));
}

float format_from_e4m3(uint8_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x80) << 24;
    uint32_t rest = bits & 0x7f;

    if (rest == 0x7f)
        return float_of(sign | 0x7fc00000);
    if (rest < 0x08) /* zero and subnormals */
        return float_of(sign | bits_of((float)rest * 0x1p-9f));
    return float_of(sign | ((rest << 20) + ((127 - 7) << 23)));
}

uint8_t format_to_e4m3(float value)
{
    uint32_t bits = bits_of(value);
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    uint32_t rest = bits & 0x7fffffff;

    if (rest >= 0x7f800000)
        return sign | 0x7f;
    if (rest >= 0x43e00000) /* 448 */
        return sign | 0x7e;
    if (rest < 0x3c800000) /* below 2^-6: as in format_to_fp16 */
        return (uint8_t)(sign | (bits_of(float_of(rest) + 0x1p14f) - 0x46800000));
    rest += 0x7ffff + (rest >> 20 & 1);
    return (uint8_t)(sign | (rest - ((127 - 7) << 23)) >> 20);
}

/* E5M2 is the upper byte of an fp16. */
float format_from_e5m2(uint8_t bits)
{
    return format_from_fp16((uint16_t)(bits << 8));
}

uint8_t format_to_e5m2(float value)
{
    uint32_t bits = bits_of(value);
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    uint32_t rest = bits & 0x7fffffff;

    if (rest > 0x7f800000)
        return sign | 0x7e;
    if (rest >= 0x47700000) /* 61440 and above rounds to inf */
        return sign | 0x7c;
    if (rest < 0x38800000) /* below 2^-14 */
        return (uint8_t)(sign | (bits_of(float_of(rest) + 0x1p7f) - 0x43000000));
    rest += 0xfffff + (rest >> 21 & 1);
    return (uint8_t)(sign | (rest - ((127 - 15) << 23)) >> 21);
}

/* Read through memcpy: tensors of a mapped file start at any byte. */
static float load(const void *in, enum format format, size_t index)
{
    const char *at = (const char *)in + index * formats[format].bytes;
    uint16_t half;
    float value;

    switch (format) {
    case FORMAT_FP16:
        memcpy(&half, at, sizeof(half));
        return format_from_fp16(half);
    case FORMAT_BF16:
        memcpy(&half, at, sizeof(half));
        return format_from_bf16(half);
    default:
        assert(format == FORMAT_FP32);
        memcpy(&value, at, sizeof(value));
        return value;
    }
}

static void store(void *out, enum format format, size_t index, float value)
{
    switch (format) {
    case FORMAT_FP16:
        ((uint16_t *)out)[index] = format_to_fp16(value);
        break;
    case FORMAT_BF16:
        ((uint16_t *)out)[index] = format_to_bf16(value);
        break;
    default:
        assert(format == FORMAT_FP32);
        ((float *)out)[index] = value;
        break;
    }
}

void format_convert(void *out, enum format to, const void *in, enum format from,
                    size_t count)
{
    if (to == from) {
        memmove(out, in, count * formats[to].bytes);
        return;
    }
    for (size_t i = 0; i < count; i++)
        store(out, to, i, load(in, from, i));
}
