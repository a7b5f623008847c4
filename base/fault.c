/* base/fault.c - the first fault of each thread, kept as errno is. */
#include "config.h"

#include "base/fault.h"

#include <errno.h>

#include "base/size.h"

/* A disk, a limit of processes, descriptors or memory, a network file system. Not EACCES,
 * EISDIR and the like: they last until someone changes a file. ETXTBSY: a program that is
 * being replaced. EUCLEAN and EBADMSG: a damaged file system (ext4, xfs, btrfs). */
static const int faults[] = {
    ENOSPC, EDQUOT, EROFS,     EIO,       EINTR,    EMFILE,    ENFILE,  ENOMEM,  EAGAIN,
    ENOLCK, ESTALE, EREMOTEIO, ETIMEDOUT, ENOTCONN, EHOSTDOWN, ETXTBSY, EUCLEAN, EBADMSG,
};

/* As errno, which says no more either. */
static _Thread_local struct error first, unanswered;

bool fault_is(int number)
{
    for (size_t i = 0; i < TS_COUNT(faults); i++)
        if (faults[i] == number)
            return true;
    return false;
}

void fault_note(const char *what, const char *name)
{
    if (!fault_is(errno))
        return;
    error_errno(&first, "%s %s", what, name);
    error_errno(&unanswered, "%s %s", what, name);
}

void fault_keep(const struct error *err)
{
    if (err->code == ERROR_FAULT && first.code == ERROR_NONE)
        first = *err;
}

void fault_keep_question(const struct error *err)
{
    fault_keep(err);
    if (err->code == ERROR_FAULT && unanswered.code == ERROR_NONE)
        unanswered = *err;
}

void fault_clear(void)
{
    error_clear(&first);
    error_clear(&unanswered);
}

bool fault_none(struct error *err)
{
    return first.code == ERROR_NONE || error_set(err, ERROR_FAULT, "%s", first.text);
}

bool fault_answered(struct error *err)
{
    return unanswered.code == ERROR_NONE ||
           error_set(err, ERROR_FAULT, "%s", unanswered.text);
}

bool fault_doubt(struct error *err)
{
    struct error why = *err;
    bool doubtful = why.code == ERROR_JOB || why.code == ERROR_DATA ||
                    why.code == ERROR_SYSTEM || why.code == ERROR_DEVICE;

    if (!doubtful || first.code == ERROR_NONE)
        return false;
    error_clear(err);
    error_set(err, ERROR_FAULT, "%s; it may be the reason why %s", first.text, why.text);
    return true;
}
