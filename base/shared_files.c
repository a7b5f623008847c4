/* base/shared_files.c - knows shared file systems by their magic numbers. */
#include "config.h"

#include "base/shared_files.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/size.h"

static const double default_lease = 60;

/* f_type of statfs(2); linux/magic.h has those of the kernel's own file systems. */
static const uint32_t shared_types[] = {
    0x6969,     /* NFS */
    0x517b,     /* SMB 1, in old kernels */
    0xff534d42, /* CIFS */
    0xfe534d42, /* SMB 2 and 3 */
    0x65735546, /* FUSE: sshfs, GlusterFS, JuiceFS, virtiofs, and some that are local */
    0x01021997, /* 9p */
    0x00c36400, /* Ceph */
    0x0bd00bd0, /* Lustre */
    0x47504653, /* GPFS, also called Spectrum Scale */
    0x19830326, /* BeeGFS */
    0x18031977, /* WekaFS */
    0xaad7aaea, /* PanFS */
    0xbeefdead, /* StorNext */
    0x20030528, /* OrangeFS */
    0x7461636f, /* OCFS2 */
    0x01161970, /* GFS2 */
    0x5346414f, /* OpenAFS */
    0x6b414653, /* AFS of the kernel */
    0x73757245, /* Coda */
    0x786f4256, /* folders of a VirtualBox host */
    0xbacbacbc, /* folders of a VMware host */
};

/* Return the seconds of TRAINSPOOL_LEASE, or -1 if it is not set or not a number. */
static double lease_of_environment(void)
{
    const char *text = getenv("TRAINSPOOL_LEASE");
    char *end;
    double seconds;

    if (!text || !text[0])
        return -1;
    seconds = strtod(text, &end);
    return *end || !(seconds >= 0) || isinf(seconds) ? -1 : seconds;
}

bool shared_files(int fd)
{
    double chosen = lease_of_environment();
    struct statfs fs;
    int failed;

    if (chosen >= 0)
        return chosen > 0;
    do
        failed = fstatfs(fd, &fs);
    while (failed && errno == EINTR);
    for (size_t i = 0; !failed && i < TS_COUNT(shared_types); i++)
        if ((uint32_t)fs.f_type == shared_types[i])
            return true;
    return false;
}

bool shared_files_at(const char *name)
{
    int fd = open(name, O_PATH | O_CLOEXEC);
    bool shared;

    if (fd < 0)
        return false;
    shared = shared_files(fd);
    close(fd);
    return shared;
}

double shared_lease_seconds(void)
{
    double chosen = lease_of_environment();

    return chosen > 0 ? chosen : default_lease;
}
