/* base/crc32c.c - CRC-32C, 4 bits at a time: events are short and few. */
#include "config.h"

#include "base/crc32c.h"

/* The remainders of 0 .. 15 modulo the polynomial 0x1edc6f41, bit-reversed. */
static const uint32_t remainders[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
    0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
    0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t crc32c(const void *data, size_t len)
{
    const unsigned char *bytes = data;
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ remainders[crc & 15];
        crc = crc >> 4 ^ remainders[crc & 15];
    }
    return ~crc;
}

uint32_t crc32c_masked(const void *data, size_t len)
{
    uint32_t crc = crc32c(data, len);

    return (crc >> 15 | crc << 17) + 0xa282ead8;
}
