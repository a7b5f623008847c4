/* runner/output/screen.c - termios, and the alternate screen. */
#include "config.h"

#include "runner/output/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/file.h"
#include "base/size.h"
#include "base/stop.h"

/* The rest of an escape sequence comes with its first byte. */
enum { SEQUENCE_MS = 50 };

/* Alternate screen, no cursor, no wrapping of long lines. */
static const char enter_text[] = "\033[?1049h\033[?25l\033[?7l",
                  leave_text[] = "\033[?7h\033[?25h\033[?1049l";

bool screen_is_possible(void)
{
    const char *term = getenv("TERM");

    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && term[0] &&
           strcmp(term, "dumb") != 0;
}

static void measure(struct screen *screen)
{
    struct winsize size;

    screen->rows = 24;
    screen->columns = 80;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 &&
        size.ws_col > 0) {
        screen->rows = size.ws_row;
        screen->columns = size.ws_col;
    }
}

static void print(const char *data, size_t len)
{
    file_write_all(STDOUT_FILENO, data, len, NULL);
}

static bool enter(struct screen *screen, struct error *err)
{
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, &screen->before) != 0)
        return error_errno(err, "cannot read the settings of the terminal");
    raw = screen->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0)
        return error_errno(err, "cannot change the settings of the terminal");
    print(enter_text, strlen(enter_text));
    measure(screen);
    return true;
}

static void leave(const struct screen *screen)
{
    print(leave_text, strlen(leave_text));
    tcsetattr(STDIN_FILENO, TCSADRAIN, &screen->before);
}

bool screen_open(struct screen *screen, struct error *err)
{
    sigset_t set;

    *screen = (struct screen) { .signals = -1 };
    stop_signals(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGTSTP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    screen->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (screen->signals < 0)
        return error_errno(err, "cannot wait for signals");
    if (enter(screen, err))
        return true;
    close(screen->signals);
    return false;
}

void screen_close(struct screen *screen)
{
    leave(screen);
    close(screen->signals);
}

/* Give the terminal back while the process is stopped. */
static void suspend(struct screen *screen)
{
    leave(screen);
    raise(SIGSTOP);
    enter(screen, NULL);
}

static int read_signal(struct screen *screen)
{
    struct signalfd_siginfo info;

    if (read(screen->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return SCREEN_NONE;
    if (info.ssi_signo == SIGTSTP) {
        suspend(screen);
    } else if (info.ssi_signo == SIGWINCH) {
        measure(screen);
    } else {
        screen->signal = info.ssi_signo == SIGHUP ? SIGTERM : (int)info.ssi_signo;
        return SCREEN_SIGNAL;
    }
    return SCREEN_CHANGED;
}

static bool wait_for_typing(int ms)
{
    struct pollfd fd = { STDIN_FILENO, POLLIN, 0 };

    return poll(&fd, 1, ms) > 0;
}

/* Read what was typed; false: the terminal is gone. */
static bool read_typed(struct screen *screen)
{
    ssize_t got = read(STDIN_FILENO, screen->typed + screen->typed_count,
                       sizeof(screen->typed) - screen->typed_count);

    if (got > 0)
        screen->typed_count += (size_t)got;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

static int take(struct screen *screen, size_t count, int key)
{
    screen->typed_count -= count;
    memmove(screen->typed, screen->typed + count, screen->typed_count);
    return key;
}

/* "\033[A" or "\033OA", "\033[5~"; an unknown sequence is no key. */
static int take_sequence(struct screen *screen)
{
    static const struct {
        const char *text;
        enum screen_key key;
    } keys[] = {
        { "A", SCREEN_UP },         { "B", SCREEN_DOWN },  { "H", SCREEN_HOME },
        { "F", SCREEN_END },        { "1~", SCREEN_HOME }, { "7~", SCREEN_HOME },
        { "4~", SCREEN_END },       { "8~", SCREEN_END },  { "5~", SCREEN_PAGE_UP },
        { "6~", SCREEN_PAGE_DOWN },
    };
    const char *rest = (const char *)screen->typed + 2;
    size_t len = 0;

    if (screen->typed_count < 2 || (screen->typed[1] != '[' && screen->typed[1] != 'O'))
        return take(screen, 1, SCREEN_ESCAPE);
    while (2 + len < screen->typed_count && (rest[len] < 0x40 || rest[len] > 0x7e))
        len++;
    len += 2 + len < screen->typed_count;
    for (size_t i = 0; i < TS_COUNT(keys); i++)
        if (strlen(keys[i].text) == len && memcmp(keys[i].text, rest, len) == 0)
            return take(screen, 2 + len, (int)keys[i].key);
    return take(screen, 2 + len, SCREEN_NONE);
}

static int take_key(struct screen *screen)
{
    if (screen->typed[0] != '\033')
        return take(screen, 1, screen->typed[0]);
    if (screen->typed_count < 3 && wait_for_typing(SEQUENCE_MS))
        read_typed(screen);
    return take_sequence(screen);
}

int screen_key(struct screen *screen, int ms)
{
    struct pollfd fds[] = { { STDIN_FILENO, POLLIN, 0 }, { screen->signals, POLLIN, 0 } };

    if (screen->typed_count > 0)
        return take_key(screen);
    if (poll(fds, 2, ms) <= 0)
        return SCREEN_NONE;
    if (fds[1].revents)
        return read_signal(screen);
    if (!read_typed(screen))
        return SCREEN_GONE;
    return screen->typed_count > 0 ? take_key(screen) : SCREEN_NONE;
}

/* Append as much of a line as has room; a character counts as one column. */
static void add_cut(struct text *out, const char *line, size_t len, size_t columns)
{
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        const char *end = line[i] == '\033' ? memchr(line + i, 'm', len - i) : NULL;

        if (end) { /* a color takes no room */
            text_add(out, line + i, (size_t)(end - line) - i + 1);
            i = (size_t)(end - line);
            continue;
        }
        used += ((unsigned char)line[i] & 0xc0) != 0x80;
        if (used <= columns)
            text_addc(out, line[i]);
    }
}

void screen_draw(const struct screen *screen, const struct text *lines)
{
    const char *at = lines->data, *end;
    struct text frame;
    size_t row = 0;

    text_init(&frame, 0);
    text_adds(&frame, "\033[H");
    for (; at && row < screen->rows && (end = strchr(at, '\n')); at = end + 1) {
        text_adds(&frame, row++ ? "\r\n" : "");
        add_cut(&frame, at, (size_t)(end - at), screen->columns);
        text_adds(&frame,
                  "\033[0m\033[K"); /* replaces the old line in place: no flicker */
    }
    text_adds(&frame, "\033[J");
    print(frame.data, frame.len);
    text_clear(&frame);
}
