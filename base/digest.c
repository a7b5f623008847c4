/* base/digest.c - SHA-256 with nettle, which uses the processor's SHA instructions. */
#include "config.h"

#include "base/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"

enum { READ_BYTES = 256 << 10 };

static void digest_text(struct sha256_ctx *sha, char out[DIGEST_TEXT])
{
    static const char hex[] = "0123456789abcdef";
    uint8_t bytes[SHA256_DIGEST_SIZE];

    sha256_digest(sha, sizeof(bytes), bytes);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        out[2 * i] = hex[bytes[i] >> 4];
        out[2 * i + 1] = hex[bytes[i] & 15];
    }
    out[2 * sizeof(bytes)] = 0;
}

void digest_bytes(const void *data, size_t len, char out[DIGEST_TEXT])
{
    struct sha256_ctx sha;

    sha256_init(&sha);
    sha256_update(&sha, len, data);
    digest_text(&sha, out);
}

struct digest {
    struct sha256_ctx sha;
};

struct digest *digest_new(void)
{
    struct digest *digest = memory_alloc(sizeof(*digest));

    sha256_init(&digest->sha);
    return digest;
}

void digest_add(struct digest *digest, const void *data, size_t len)
{
    sha256_update(&digest->sha, len, data);
}

void digest_end(struct digest *digest, char out[DIGEST_TEXT])
{
    digest_text(&digest->sha, out);
    free(digest);
}

static bool add_file(struct sha256_ctx *sha, int fd, const char *name,
                     struct heartbeat *heartbeat, struct error *err)
{
    uint8_t *buffer;
    struct stat st;
    ssize_t got = -1;
    bool ok;

    if (fstat(fd, &st) != 0)
        return error_errno(err, "cannot stat %s", name);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERROR_DATA, "%s is not a regular file", name);
    buffer = memory_alloc(READ_BYTES);
    while ((ok = heartbeat_continue(heartbeat, "reading files", err)) &&
           ((got = read(fd, buffer, READ_BYTES)) > 0 || (got < 0 && errno == EINTR)))
        if (got > 0)
            sha256_update(sha, (size_t)got, buffer);
    if (ok && got < 0)
        ok = error_errno(err, "cannot read %s", name);
    free(buffer);
    return ok;
}

bool digest_large_file(const char *name, struct heartbeat *heartbeat,
                       char out[DIGEST_TEXT], struct error *err)
{
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct sha256_ctx sha;
    bool ok;

    if (fd < 0)
        return error_errno(err, "cannot open %s", name);
    sha256_init(&sha);
    ok = add_file(&sha, fd, name, heartbeat, err);
    if (ok)
        digest_text(&sha, out);
    close(fd);
    return ok;
}

bool digest_file(const char *name, char out[DIGEST_TEXT], struct error *err)
{
    return digest_large_file(name, NULL, out, err);
}
