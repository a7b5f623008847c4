"""Run a command on a terminal of a given size, type keys, and print what its screen shows.

    follow.py COLUMNS ROWS COMMAND... < SCRIPT

Each line of the script is `wait TEXT` (until the screen has it, at most 20 s), `gone TEXT` (until
it has not), `type KEYS` (with escapes as in Python), `size COLUMNS ROWS`, `show`, `kill NUMBER` or
`shell COMMAND`.  At the end the exit status is printed, and whether the settings of the terminal
are restored.  Status 1: a text never came.
"""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time


class Screen:
    """The part of a terminal that the view uses."""

    def __init__(self, columns, rows):
        self.resize(columns, rows)
        self.alternate = self.wraps = False
        self.cursor = True
        self.clears = 0

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines = [" " * columns for _ in range(rows)]
        self.x = self.y = 0

    def put(self, char):
        if self.x < self.columns:
            line = self.lines[self.y]
            self.lines[self.y] = line[:self.x] + char + line[self.x + 1:]
        self.x = min(self.x + 1, self.columns)

    def sequence(self, arguments, kind):
        if kind == "H":
            self.x = self.y = 0
        elif kind == "K":
            self.lines[self.y] = self.lines[self.y][:self.x].ljust(self.columns)
        elif kind == "J":
            self.clears += arguments == "2"
            for y in range(self.y + 1, self.rows):
                self.lines[y] = " " * self.columns
        elif kind in "hl" and arguments == "?1049":
            self.alternate = kind == "h"
        elif kind in "hl" and arguments == "?25":
            self.cursor = kind == "h"

    def feed(self, text):
        for sequence, arguments, kind, char in re.findall(
                r"(\x1b\[([?0-9;]*)([A-Za-z]))|(.)", text, re.DOTALL):
            if sequence:
                self.sequence(arguments, kind)
            elif char == "\r":
                self.x = 0
            elif char == "\n":
                self.y = min(self.y + 1, self.rows - 1)
            else:
                self.put(char)

    def text(self):
        return "\n".join(line.rstrip() for line in self.lines)


def set_size(fd, columns, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main():
    columns, rows = int(sys.argv[1]), int(sys.argv[2])
    master, slave = pty.openpty()
    set_size(slave, columns, rows)
    before = termios.tcgetattr(slave)
    child = subprocess.Popen(sys.argv[3:], stdin=slave, stdout=slave, stderr=slave,
                             start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    screen = Screen(columns, rows)

    def read(seconds):
        if select.select([master], [], [], seconds)[0]:
            screen.feed(os.read(master, 1 << 16).decode(errors="replace"))
            return True
        return False

    def wait(condition):
        end = time.monotonic() + 20
        while not condition():
            read(0.05)
            if time.monotonic() > end:
                print("the screen never came to this:", line, "\n" + screen.text())
                child.kill()
                sys.exit(1)

    for line in sys.stdin:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "wait":
            wait(lambda: rest in screen.text())
        elif word == "gone":
            wait(lambda: rest not in screen.text())
        elif word == "type":
            os.write(master, rest.encode().decode("unicode_escape").encode())
        elif word == "size":
            columns, rows = map(int, rest.split())
            screen.resize(columns, rows)
            set_size(slave, columns, rows)
        elif word == "show":
            print(screen.text())
        elif word == "kill":
            child.send_signal(int(rest))
        elif word == "shell":
            subprocess.run(rest, shell=True, check=True)
        elif word == "clears":
            print("the screen was cleared", screen.clears, "times")
    end = time.monotonic() + 20
    while child.poll() is None and time.monotonic() < end:
        read(0.05)
    while read(0.1):
        pass
    print("status", child.poll())
    restored = termios.tcgetattr(slave) == before and screen.cursor and not screen.alternate
    print("restored" if restored else "not restored")


main()
