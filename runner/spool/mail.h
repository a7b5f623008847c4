/* runner/spool/mail.h - the message that reports the end of a job. */
#ifndef RUNNER_SPOOL_MAIL_H
#define RUNNER_SPOOL_MAIL_H

#include "base/text.h"

/* Return whether a string is an address that can stand in a header and on a command line:
 * printable ASCII without spaces, one @, not an option, and at most 254 bytes (RFC 5321,
 * 4.5.3.1.3, with its brackets).  ERROR_USAGE. */
bool mail_check_address(const char *address, struct error *err);

struct mail {
    const char *address;              /* checked */
    const char *job, *state, *reason; /* any text; an empty reason is left out */
    const char *path;
};
/* Append a message with its headers (RFC 5322), with the line ends that sendmail reads.
 * No text of a job can begin a line of the header. */
bool mail_write(const struct mail *mail, struct text *out);

#endif
