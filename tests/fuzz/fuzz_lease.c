/*
 * tests/fuzz/fuzz_lease.c - the file of a lease, which another machine wrote: it is no lease, or
 * one that is written again with the same bytes.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "base/lease_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct lease lease;
    struct text text;

    if (!lease_read((const char *)data, len, &lease))
        return 0;
    FUZZ_HOLDS(lease.host[0] && lease.boot[0] && lease.count >= 0);
    FUZZ_HOLDS(strlen(lease.host) < sizeof(lease.host));
    FUZZ_HOLDS(strlen(lease.boot) < sizeof(lease.boot));
    text_init(&text, LEASE_BYTES);
    lease_write(&lease, &text);
    FUZZ_HOLDS(text.len == len && memcmp(text.data, data, len) == 0);
    text_clear(&text);
    return 0;
}
