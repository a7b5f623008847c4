/*
 * tests/emulation/emulation_fiber.h - coroutines with their own stacks. The switch is
 * assembly on x86-64 and ucontext elsewhere; AddressSanitizer is notified.
 */
#ifndef TESTS_EMULATION_EMULATION_FIBER_H
#define TESTS_EMULATION_EMULATION_FIBER_H

#include <stddef.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

struct fiber {
    char *stack; /* NULL: the one that starts the others */
    size_t bytes;
    void *fake; /* AddressSanitizer's */
#ifdef __x86_64__
    void *at;
#else
    ucontext_t at;
#endif
};

/* Make the fiber start at `run`, which must not return. `ended`: everything that it had
 * called before has returned. That is false if its stack is new, or was left by a thread
 * that failed. */
void fiber_prepare(struct fiber *fiber, void (*run)(void), bool ended);
/* Prefetch the state of a fiber that runs soon. Changes nothing else. */
void fiber_expect(const struct fiber *fiber);
/* Switch to another fiber; returns when a fiber switches back. `last`: none will. */
void fiber_switch(struct fiber *from, struct fiber *to, bool last);

#endif
