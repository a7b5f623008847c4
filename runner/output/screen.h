/*
 * runner/output/screen.h - the whole terminal: keys without Enter, and frames that replace
 * each other. The terminal is restored when the screen is closed, and while the process is
 * stopped (Ctrl-Z). Control sequences are those of ECMA-48 and xterm, which every terminal
 * in use understands.
 */
#ifndef RUNNER_OUTPUT_SCREEN_H
#define RUNNER_OUTPUT_SCREEN_H

#include <stddef.h>
#include <termios.h>

#include "base/text.h"

enum screen_key {
    SCREEN_NONE = 0, /* time is up */
    /* from 1 on: bytes as typed */
    SCREEN_UP = 256,
    SCREEN_DOWN,
    SCREEN_PAGE_UP,
    SCREEN_PAGE_DOWN,
    SCREEN_HOME,
    SCREEN_END,
    SCREEN_ESCAPE,  /* alone */
    SCREEN_CHANGED, /* its size, or the process continues: draw again */
    SCREEN_SIGNAL,  /* the process was asked to end; see `signal` */
    SCREEN_GONE     /* the terminal was closed */
};

struct screen {
    struct termios before;
    int signals; /* signalfd */
    int signal;  /* that asks to end; 0: none */
    size_t rows, columns;
    unsigned char typed[64]; /* not returned yet */
    size_t typed_count;
};

/* Return whether standard input and output are a terminal that can show frames. */
bool screen_is_possible(void);
bool screen_open(struct screen *screen, struct error *err);
void screen_close(struct screen *screen);

/* Wait for a key for at most so many milliseconds. */
int screen_key(struct screen *screen, int ms);
/* Draw a frame: lines that end in '\n', of which those that fit are shown, each cut at the
 * right edge. They may have escape sequences of colors (m), and no other control
 * characters. */
void screen_draw(const struct screen *screen, const struct text *lines);

#endif
