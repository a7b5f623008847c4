/* train/tables/table_decimal.c - decimal fractions, which Parquet and Arrow store as an
 * integer of 4 to 32 bytes and a scale, as text: a double would lose digits. */
#include "config.h"

#include "train/tables/table_internal.h"

#define BYTES_MAX 32 /* of Arrow's decimal256 */
#define SCALE_MAX 76 /* digits of 32 bytes */

/* Divide a little-endian integer by 10; return the remainder. */
static unsigned divide_by_ten(uint8_t *bytes, size_t len)
{
    unsigned rest = 0;

    while (len-- > 0) {
        rest = rest << 8 | bytes[len];
        bytes[len] = (uint8_t)(rest / 10);
        rest %= 10;
    }
    return rest;
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
    while (len > 0 && bytes[len - 1] == 0)
        len--;
    return len == 0;
}

/* Negate a two's complement integer. */
static void negate(uint8_t *bytes, size_t len)
{
    unsigned carry = 1;

    for (size_t i = 0; i < len; i++) {
        carry += (uint8_t)~bytes[i];
        bytes[i] = (uint8_t)carry;
        carry >>= 8;
    }
}

void table_add_decimal(struct text *out, struct table_bytes value, bool big_endian,
                       int64_t scale)
{
    uint8_t bytes[BYTES_MAX];
    char digits[2 * SCALE_MAX + 8], *digit = digits + sizeof(digits);
    int64_t count = 0;
    bool negative;

    if (value.len == 0 || value.len > BYTES_MAX || scale < 0 || scale > SCALE_MAX) {
        text_addf(out, "{\"binary_bytes\": %zu}", value.len);
        return;
    }
    for (size_t i = 0; i < value.len; i++)
        bytes[i] = value.data[big_endian ? value.len - 1 - i : i];
    negative = bytes[value.len - 1] & 0x80;
    if (negative)
        negate(bytes, value.len);
    do {
        if (count == scale && count > 0)
            *--digit = '.';
        *--digit = (char)('0' + divide_by_ten(bytes, value.len));
        count++;
    } while (count <= scale || !is_zero(bytes, value.len));
    text_addf(out, "\"%s%.*s\"", negative ? "-" : "",
              (int)(digits + sizeof(digits) - digit), digit);
}
