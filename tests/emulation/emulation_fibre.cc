/* tests/emulation/emulation_fibre.cc - the switch between stacks. */
#include "tests/emulation/emulation_fibre.h"

#include <stdint.h>
#include <string.h>

#ifdef EMULATION_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

static struct fibre *left; /* where the switch under way comes from */

static void before(struct fibre *from, struct fibre *to, bool last)
{
    left = from;
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake, to->stack, to->bytes);
}

/* Only now is it known where the first stack of all lies. */
static void after(struct fibre *self)
{
    const void *stack;
    size_t bytes;

    __sanitizer_finish_switch_fiber(self ? self->fake : NULL, &stack, &bytes);
    if (!left->stack) {
        left->stack = (char *)const_cast<void *>(stack);
        left->bytes = bytes;
    }
}

/* What returns leaves nothing on a stack, and the frames that never do are a page's. */
static void clean(struct fibre *fibre, bool ended)
{
    size_t bytes = ended ? 4096 : fibre->bytes;

    __asan_unpoison_memory_region(fibre->stack + fibre->bytes - bytes, bytes);
    fibre->fake = NULL;
}
#else
static void before(struct fibre *, struct fibre *, bool)
{
}
static void after(struct fibre *)
{
}
static void clean(struct fibre *, bool)
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

/* void swap(void **from, void *to): what the ABI has a call keep is on the stack. */
extern "C" void emulation_fibre_swap(void **from, void *to);
asm(".text\n"
    ".type emulation_fibre_swap, @function\n"
    "emulation_fibre_swap:\n"
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
    ".size emulation_fibre_swap, . - emulation_fibre_swap\n"
    ".section .note.GNU-stack,\"\",@progbits\n"
    ".text\n");

void fibre_prepare(struct fibre *fibre, void (*run)(void), bool ended)
{
    void **top = (void **)(fibre->stack + fibre->bytes);

    starting = run;
    clean(fibre, ended);
    *--top = NULL; /* begin() has no caller, and finds the stack as a call leaves it */
    *--top = (void *)begin;
    top -= 6;
    memset(top, 0, 6 * sizeof(*top));
    fibre->at = top;
}

void fibre_expect(const struct fibre *fibre)
{
    __builtin_prefetch(fibre->at);
}

static void swap(struct fibre *from, struct fibre *to)
{
    emulation_fibre_swap(&from->at, to->at);
}

#else

void fibre_prepare(struct fibre *fibre, void (*run)(void), bool ended)
{
    starting = run;
    clean(fibre, ended);
    getcontext(&fibre->at);
    fibre->at.uc_stack.ss_sp = fibre->stack;
    fibre->at.uc_stack.ss_size = fibre->bytes;
    fibre->at.uc_link = NULL;
    makecontext(&fibre->at, begin, 0);
}

void fibre_expect(const struct fibre *)
{
}

static void swap(struct fibre *from, struct fibre *to)
{
    swapcontext(&from->at, &to->at);
}

#endif

void fibre_switch(struct fibre *from, struct fibre *to, bool last)
{
    before(from, to, last);
    swap(from, to);
    after(from);
}
