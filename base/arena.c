/* base/arena.c - an arena is a list of blocks; allocation advances in the newest
 * block. */
#include "config.h"

#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"

enum { ALIGNMENT = 16, BLOCK_BYTES = 64 << 10 };

struct block {
    struct block *next;
    size_t used, room; /* bytes of data */
    _Alignas(ALIGNMENT) unsigned char data[];
};

struct arena {
    struct block *first;
};

/* As an internal error, unless the program has a status of its own for it. */
static int exhausted_status = 3;

void memory_set_status(int status)
{
    exhausted_status = status;
}

static _Noreturn void out_of_memory(void)
{
    static const char message[] = "trainspool: out of memory\n";
    ssize_t ignored = write(STDERR_FILENO, message, sizeof(message) - 1);

    (void)ignored;
    _exit(exhausted_status);
}

void *memory_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);

    if (!memory)
        out_of_memory();
    return memory;
}

void *memory_resize(void *old, size_t count, size_t size)
{
    size_t bytes;
    void *memory;

    if (!size_mul(count, size, &bytes))
        out_of_memory();
    memory = realloc(old, bytes ? bytes : 1);
    if (!memory)
        out_of_memory();
    return memory;
}

char *memory_strdup(const char *string)
{
    char *copy = strdup(string);

    if (!copy)
        out_of_memory();
    return copy;
}

struct arena *arena_new(void)
{
    return memory_alloc(sizeof(struct arena));
}

void arena_free(struct arena *arena)
{
    struct block *block, *next;

    if (!arena)
        return;
    for (block = arena->first; block; block = next) {
        next = block->next;
        free(block);
    }
    free(arena);
}

static struct block *block_new(size_t room)
{
    size_t bytes;
    struct block *block;

    if (!size_add(sizeof(struct block), room, &bytes))
        out_of_memory();
    block = memory_alloc(bytes);
    block->room = room;
    return block;
}

/* Give the allocation a block to itself, used if it does not fit in a new standard block
 * or would waste most of one. Insert it after the newest block, so that the newest block
 * keeps filling up. */
static void *alloc_alone(struct arena *arena, size_t bytes)
{
    struct block *block = block_new(bytes);

    block->used = bytes;
    if (arena->first) {
        block->next = arena->first->next;
        arena->first->next = block;
    } else {
        arena->first = block;
    }
    return block->data;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    struct block *block = arena->first;
    void *memory;

    if (bytes > BLOCK_BYTES / 4)
        return alloc_alone(arena, bytes);
    bytes = size_round(bytes ? bytes : 1, ALIGNMENT);
    if (!block || block->room - block->used < bytes) {
        block = block_new(BLOCK_BYTES);
        block->next = arena->first;
        arena->first = block;
    }
    memory = block->data + block->used;
    block->used += bytes;
    return memory;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    size_t bytes;

    if (!size_mul(count, size, &bytes))
        out_of_memory();
    return arena_alloc(arena, bytes);
}

char *arena_copy(struct arena *arena, const char *data, size_t len)
{
    size_t bytes;
    char *copy;

    if (!size_add(len, 1, &bytes))
        out_of_memory();
    copy = arena_alloc(arena, bytes);
    if (len > 0)
        memcpy(copy, data, len);
    return copy;
}

char *arena_strdup(struct arena *arena, const char *string)
{
    return string ? arena_copy(arena, string, strlen(string)) : NULL;
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list args;
    char *string;
    int len;

    va_start(args, fmt);
    len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len < 0)
        out_of_memory();
    string = arena_alloc(arena, (size_t)len + 1);
    va_start(args, fmt);
    vsnprintf(string, (size_t)len + 1, fmt, args);
    va_end(args);
    return string;
}
