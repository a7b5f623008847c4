/* base/digest.h - SHA-256 (nettle) as 64 hexadecimal digits. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include "base/heartbeat.h"

#define DIGEST_TEXT 65

void digest_bytes(const void *data, size_t len, char out[DIGEST_TEXT]);
/* Incremental version; digest_end frees the digest. */
struct digest;
struct digest *digest_new(void);
void digest_add(struct digest *digest, const void *data, size_t len);
void digest_end(struct digest *digest, char out[DIGEST_TEXT]);
bool digest_file(const char *name, char out[DIGEST_TEXT], struct error *err);
/* The same for a large file; a stop is ERROR_STOPPED. */
bool digest_large_file(const char *name, struct heartbeat *heartbeat,
                       char out[DIGEST_TEXT], struct error *err);

#endif
