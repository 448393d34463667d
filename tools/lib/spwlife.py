# SPDX-License-Identifier: BSD-3-Clause
"""Signs of life, on stderr: what a tool does and how far it is. One line that is rewritten on a terminal, a line every
REPORT_S elsewhere; and what is printed when Ctrl-C ends it. app/common/show/app_life.h is the same for programs in C.

As a program: spwlife.py TEXT LOG COMMAND...   runs COMMAND, its output to LOG; what ninja counts is the progress."""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import spwtext

REWRITE_S = 0.5
REPORT_S = 10
INTERRUPTED = 130  # the exit status of what Ctrl-C ended
PASSED = re.compile(rb"\[(\d+)/(\d+)\]")


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Line:
    """The line. first_s: where it is no terminal, how long nothing is printed: what is done by then needs no sign."""

    def __init__(self, out=None, first_s=None):
        self.out = out or sys.stderr
        self.terminal = self.out.isatty()
        self.due = 0.0 if self.terminal else time.monotonic() + (REPORT_S if first_s is None else first_s)

    def _put(self, text):
        """Past the filter of spwtext, which lets no cursor move; what it would filter has been made one line."""
        try:
            self.out.flush()
            os.write(self.out.fileno(), text.encode(errors="replace"))
        except (AttributeError, OSError, ValueError):  # no file behind it, or its reader has left
            self.out.write(text)
            self.out.flush()

    def show(self, text):
        """Prints text() if it is time to."""
        now = time.monotonic()
        if now < self.due:
            return
        self.due = now + (REWRITE_S if self.terminal else REPORT_S)
        line = spwtext.shown(text())
        if self.terminal:
            self._put("\r\x1b[K" + line[:shutil.get_terminal_size().columns - 1])
        else:
            self._put(line + "\n")

    def clear(self):
        if self.terminal:
            self._put("\r\x1b[K")


class Life:
    """The phases of one tool, shown by a thread of its own while the tool waits for others. name: prints what Ctrl-C
    ended."""

    def __init__(self, name=None):
        self.name, self.line = name, Line()
        self.text, self.of_s, self.begin = "", None, time.monotonic()
        self.parts_begin = self.begin
        self.lock, self.ended = threading.Lock(), threading.Event()

    def _state(self):
        took = time.monotonic() - self.begin
        of_s = f" of {self.of_s:g}" if self.of_s and took <= self.of_s else ", ending" if self.of_s else ""
        return f"{self.text}: {took:.1f} s{of_s}"

    def _run(self):
        while not self.ended.wait(REWRITE_S / 2):
            with self.lock:
                if self.text:
                    self.line.show(self._state)

    def say(self, text):
        """A line of output, with the line of progress out of its way."""
        with self.lock:
            self.line.clear()
            print(text, flush=True)

    def phase(self, text, of_s=None):
        """What is done from now on, and how long it takes where that is known."""
        with self.lock:
            self.text, self.of_s, self.begin = text, of_s, time.monotonic()

    def part(self, at, of):
        """A phase() for the steps of part at of so many alike, with what the others will take by those that are
        done."""
        if at == 1:
            self.parts_begin = time.monotonic()
        took = time.monotonic() - self.parts_begin
        left = f", about {clock(took / (at - 1) * (of - at + 1))} left" if at > 1 else ""
        return lambda text, of_s=None: self.phase(f"{at} of {of}{left}: {text}", of_s)

    def __enter__(self):
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        """A phase that Ctrl-C ended is named, with how far it was."""
        self.ended.set()
        self.thread.join()
        self.line.clear()
        if kind is KeyboardInterrupt and self.name:
            print(interrupted(self.name, time.monotonic() - self.begin, self.of_s, self.text), file=sys.stderr)


def interrupted(name, took_s, of_s=None, text=""):
    """The line of a tool that Ctrl-C ended."""
    whole, what = (f" of {of_s:g}" if of_s else ""), (f": {text}" if text else "")
    return f"{name}: interrupted after {took_s:.1f} s{whole}{what}"


# ---- a command whose output goes to a file -------------------------------------------------------------

def _state_of(text, begin, log):
    """How many of how many, if the command counts as ninja does, and about how long the rest will take."""
    took = time.monotonic() - begin
    with contextlib.suppress(OSError), open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - 4096))
        counts = PASSED.findall(file.read())
        if counts:
            done, whole = map(int, counts[-1])
            left = f", about {clock(took / done * (whole - done))} left" if done else ""
            return f"{text}: {done} of {whole}, {clock(took)}{left}"
    return f"{text}: {clock(took)}"


def run_logged(text, log, command, name="tools/run", limit_s=None):
    """Runs it in the folder that this is in; its exit status, 124 if it took longer than limit_s."""
    line, begin, process = Line(), time.monotonic(), None
    try:
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out)
        while True:
            line.show(lambda: _state_of(text, begin, log))
            if limit_s and time.monotonic() - begin > limit_s:
                process.kill()
                process.wait()
                return 124
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(REWRITE_S / 2)
    except KeyboardInterrupt:
        line.clear()
        print(interrupted(name, time.monotonic() - begin, text=_state_of(text, begin, log)), file=sys.stderr)
        if process:
            process.wait()  # it got the signal too
        return INTERRUPTED
    finally:
        line.clear()


if __name__ == "__main__":
    spwtext.start()
    sys.exit(run_logged(sys.argv[1], sys.argv[2], sys.argv[3:]))
