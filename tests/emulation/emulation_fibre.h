/*
 * tests/emulation/emulation_fibre.h - coroutines: a stack each, and one switch.  By hand
 * on x86-64, by ucontext elsewhere; AddressSanitizer is told.
 */
#ifndef TESTS_EMULATION_EMULATION_FIBRE_H
#define TESTS_EMULATION_EMULATION_FIBRE_H

#include <stddef.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

struct fibre {
    char *stack; /* NULL: the one that starts the others */
    size_t bytes;
    void *fake; /* AddressSanitizer's */
#ifdef __x86_64__
    void *at;
#else
    ucontext_t at;
#endif
};

/* It will begin at `run`, which must not return.  `ended`: all that it had called before
 * has returned; so it has not when its stack is new, or was left by somebody who
 * failed. */
void fibre_prepare(struct fibre *fibre, void (*run)(void), bool ended);
/* It is the next but few: what it goes on with is fetched.  Changes nothing. */
void fibre_expect(const struct fibre *fibre);
/* To another; returns when somebody switches back.  `last`: nobody will. */
void fibre_switch(struct fibre *from, struct fibre *to, bool last);

#endif
