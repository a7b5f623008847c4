/* tests/emulation/emulation_fiber.cc - switches between stacks. */
#include "tests/emulation/emulation_fiber.h"

#include <stdint.h>
#include <string.h>

#ifdef EMULATION_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

static struct fiber *left; /* the fiber that the current switch leaves */

static void before(struct fiber *from, struct fiber *to, bool last)
{
    left = from;
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake, to->stack, to->bytes);
}

/* The bounds of the first stack are known only here. */
static void after(struct fiber *self)
{
    const void *stack;
    size_t bytes;

    __sanitizer_finish_switch_fiber(self ? self->fake : NULL, &stack, &bytes);
    if (!left->stack) {
        left->stack = (char *)const_cast<void *>(stack);
        left->bytes = bytes;
    }
}

/* A function that returned leaves nothing poisoned; frames that never return fit in a
 * page. */
static void clean(struct fiber *fiber, bool ended)
{
    size_t bytes = ended ? 4096 : fiber->bytes;

    __asan_unpoison_memory_region(fiber->stack + fiber->bytes - bytes, bytes);
    fiber->fake = NULL;
}
#else
static void before(struct fiber *, struct fiber *, bool)
{
}
static void after(struct fiber *)
{
}
static void clean(struct fiber *, bool)
{
}
#endif

static void (*starting)(void);

static void begin(void)
{
    after(NULL);
    starting();
    __builtin_trap();
}

#ifdef __x86_64__

/* void swap(void **from, void *to): registers that the ABI preserves are on the stack. */
extern "C" void emulation_fiber_swap(void **from, void *to);
asm(".text\n"
    ".type emulation_fiber_swap, @function\n"
    "emulation_fiber_swap:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n"
    ".size emulation_fiber_swap, . - emulation_fiber_swap\n"
    ".section .note.GNU-stack,\"\",@progbits\n"
    ".text\n");

void fiber_prepare(struct fiber *fiber, void (*run)(void), bool ended)
{
    void **top = (void **)(fiber->stack + fiber->bytes);

    starting = run;
    clean(fiber, ended);
    *--top = NULL; /* begin() has no caller and expects the stack as after a call */
    *--top = (void *)begin;
    top -= 6;
    memset(top, 0, 6 * sizeof(*top));
    fiber->at = top;
}

void fiber_expect(const struct fiber *fiber)
{
    __builtin_prefetch(fiber->at);
}

static void swap(struct fiber *from, struct fiber *to)
{
    emulation_fiber_swap(&from->at, to->at);
}

#else

void fiber_prepare(struct fiber *fiber, void (*run)(void), bool ended)
{
    starting = run;
    clean(fiber, ended);
    getcontext(&fiber->at);
    fiber->at.uc_stack.ss_sp = fiber->stack;
    fiber->at.uc_stack.ss_size = fiber->bytes;
    fiber->at.uc_link = NULL;
    makecontext(&fiber->at, begin, 0);
}

void fiber_expect(const struct fiber *)
{
}

static void swap(struct fiber *from, struct fiber *to)
{
    swapcontext(&from->at, &to->at);
}

#endif

void fiber_switch(struct fiber *from, struct fiber *to, bool last)
{
    before(from, to, last);
    swap(from, to);
    after(from);
}
