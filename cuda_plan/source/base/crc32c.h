/*
 * base/crc32c.h - the CRC of the Castagnoli polynomial, as iSCSI has it (RFC 3720,
 * appendix B.4), which is also that of TensorFlow's records.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t len);
/* As records store it, so that the CRC of data that hold CRCs is still a good one: turned
 * right by 15 bits, plus a constant (tensorflow/core/lib/hash/crc32c.h). */
uint32_t crc32c_masked(const void *data, size_t len);

#endif
