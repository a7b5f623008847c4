/* base/error.h - one type carries every failure: a code, a sentence, and a position in a
 * file. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TS_PRINTF(at, args) __attribute__((format(printf, at, args)))

enum error_code {
    ERROR_NONE,
    ERROR_USAGE,    /* the command line */
    ERROR_JOB,      /* the job file asks for something that cannot be done */
    ERROR_DATA,     /* a model, tokenizer, dataset or checkpoint is broken or missing */
    ERROR_SYSTEM,   /* a file in the way, a missing permission, a held lock, a bug */
    ERROR_FAULT,    /* the machine cannot for now (base/fault.h): trying again may help */
    ERROR_DEVICE,   /* a device failed or is missing */
    ERROR_CARD,     /* a device does not work: it hangs, is lost, or its memory failed */
    ERROR_CONTEXT,  /* this process can no longer use a device; another process can */
    ERROR_DIVERGED, /* training diverged, for example by too many overflows in a row */
    ERROR_MEMORY,   /* the host or a device has too little memory for the job */
    ERROR_STOPPED,  /* stopped on request */
    ERROR_CODES
};

/* A position in a text.  line and column count from 1; line 0 means "no position". */
struct mark {
    size_t byte;
    uint32_t line, column; /* column counts characters (code points), byte counts bytes */
};

struct error {
    enum error_code code;
    char file[256]; /* the file the mark is in, or "" */
    struct mark at;
    char text[512]; /* a sentence without a final period; may end in a remedy */
};

/* Each fills *err unless it already holds an error (the first one wins), and returns
 * false. err may be NULL: the function then only returns false. */
bool error_set(struct error *err, enum error_code code, const char *fmt, ...)
    TS_PRINTF(3, 4);
bool error_at(struct error *err, enum error_code code, const char *file, struct mark at,
              const char *fmt, ...) TS_PRINTF(5, 6);
/* ERROR_FAULT or else ERROR_SYSTEM, as errno says; adds ": " and strerror(errno).  errno
 * is read before anything else, and preserved. A fault is also noted (base/fault.h). */
bool error_errno(struct error *err, const char *fmt, ...) TS_PRINTF(2, 3);
/* The same for a file that a job names: ERROR_FAULT or else ERROR_DATA. */
bool error_errno_data(struct error *err, const char *fmt, ...) TS_PRINTF(2, 3);

/* Return whether memory ran out: ERROR_MEMORY, or ENOMEM from a system call. */
bool error_is_memory(const struct error *err);

/* Reset *err so that it can be used again. */
void error_clear(struct error *err);

#endif
