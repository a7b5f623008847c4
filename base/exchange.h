/*
 * base/exchange.h - several transfers over links at the same time, so that no order of
 * sends and receives can block two processes that send to each other.
 */
#ifndef BASE_EXCHANGE_H
#define BASE_EXCHANGE_H

#include <stddef.h>

#include "base/error.h"

/* `to` or `from` is set. A link has at most one transfer in each direction. */
struct transfer {
    int end; /* of a link */
    const void *from;
    void *to;
    size_t bytes;
    size_t done; /* 0 before */
};

/* Complete all transfers, however long their peers compute. False: a peer has ended, and
 * the transfers are in an unknown state. */
bool exchange(struct transfer list[], size_t count, struct error *err);

#endif
