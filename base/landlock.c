/*
 * base/landlock.c - Landlock by system call: the C library has no functions for it.
 *
 * Numbers and structures are those of include/uapi/linux/landlock.h of Linux 6.12, which
 * never change; the installed header may be older than the kernel.
 */
#include "config.h"

#include "base/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 }; /* on all machines */
enum { ASK_VERSION = 1, RULE_PATH = 1 };
enum { VERSION_REFER = 2, VERSION_TRUNCATE = 3, VERSION_TCP = 4, VERSION_SCOPE = 6 };

enum {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_DIR = 1 << 4,
    REMOVE_FILE = 1 << 5,
    MAKE_CHAR = 1 << 6,
    MAKE_DIR = 1 << 7,
    MAKE_REG = 1 << 8,
    MAKE_SOCK = 1 << 9,
    MAKE_FIFO = 1 << 10,
    MAKE_BLOCK = 1 << 11,
    MAKE_SYM = 1 << 12,
    REFER = 1 << 13,
    TRUNCATE = 1 << 14,
    ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE,
    ALL = (1 << 15) - 1
};
enum { TCP_BIND = 1 << 0, TCP_CONNECT = 1 << 1 };
enum { SCOPE_SIGNAL = 1 << 1 };

struct ruleset {
    uint64_t files, network, scoped;
};

struct path_rule {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

static const uint64_t rights[] = {
    [LANDLOCK_READ] = READ_FILE | READ_DIR,
    [LANDLOCK_RUN] = READ_FILE | READ_DIR | EXECUTE,
    [LANDLOCK_USE] = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE,
    [LANDLOCK_WRITE] = ALL & ~(EXECUTE | MAKE_CHAR | MAKE_BLOCK | MAKE_SOCK | MAKE_FIFO),
};

/* The rights that a version of the interface knows. */
static uint64_t known(int version)
{
    return version < VERSION_TRUNCATE ? ALL & ~TRUNCATE : ALL;
}

int landlock_version(void)
{
    long version = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);

    return version < VERSION_REFER ? 0 : (int)version;
}

bool landlock_open(struct landlock *out, bool network, struct error *err)
{
    struct ruleset set = { 0 };
    size_t size = sizeof(set.files);

    *out = (struct landlock) { .version = landlock_version(), .fd = -1 };
    if (out->version == 0)
        return error_set(err, ERROR_SYSTEM, "the kernel has no Landlock");
    set.files = known(out->version);
    if (out->version >= VERSION_TCP) {
        set.network = network ? 0 : TCP_BIND | TCP_CONNECT;
        size += sizeof(set.network);
    }
    if (out->version >= VERSION_SCOPE) {
        set.scoped = SCOPE_SIGNAL;
        size += sizeof(set.scoped);
    }
    out->fd = (int)syscall(CREATE_RULESET, &set, size, 0);
    return out->fd >= 0 || error_errno(err, "cannot use Landlock");
}

bool landlock_allow(const struct landlock *list, const char *path,
                    enum landlock_access access, struct error *err)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    struct path_rule rule = { rights[access] & known(list->version), fd };
    struct stat st;
    bool ok;

    if (fd < 0) /* what cannot be reached needs no permission */
        return !fault_is(errno) || error_errno(err, "cannot open %s", path);
    if (fstat(fd, &st) != 0) {
        error_errno(err, "cannot examine %s", path);
        close(fd);
        return false;
    }
    if (!S_ISDIR(st.st_mode))
        rule.allowed &= ON_FILES;
    ok = syscall(ADD_RULE, list->fd, RULE_PATH, &rule, 0) == 0 ||
         error_errno(err, "cannot allow %s with Landlock", path);
    close(fd);
    return ok;
}

bool landlock_enter(struct landlock *list, struct error *err)
{
    bool ok = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
              syscall(RESTRICT_SELF, list->fd, 0) == 0;

    if (!ok)
        error_errno(err, "cannot use Landlock");
    landlock_close(list);
    return ok;
}

void landlock_close(struct landlock *list)
{
    if (list->fd >= 0)
        close(list->fd);
    list->fd = -1;
}
