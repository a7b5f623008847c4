/*
 * base/crc32c.h - CRC with the Castagnoli polynomial, as in iSCSI (RFC 3720, appendix
 * B.4) and TensorFlow's records.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t len);
/* Return the masked CRC that records store, so that the CRC of data that contain CRCs is
 * still good: rotated right by 15 bits, plus a constant
 * (tensorflow/core/lib/hash/crc32c.h). */
uint32_t crc32c_masked(const void *data, size_t len);

#endif
