# SPDX-License-Identifier: BSD-3-Clause
"""What a tool prints, made safe: text from files, peers and other programs must not steer the terminal, and no
terminal, locale or reader that leaves may end a tool with a traceback. lib/base/spw_text.h is the same filter for the
programs in C, and has its rules."""
import contextlib
import io
import os
import re
import sys

# A file must not become stdout because that was closed (app/common/app_program.c).
for _fd in range(3):
    try:
        os.fstat(_fd)
    except OSError:
        os.open(os.devnull, os.O_RDONLY if _fd else os.O_WRONLY)


def _quiet(kind, error, trace):
    """Ctrl-C while a tool loads its parts is no fault of the tool."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _quiet

# C0, DEL, C1, surrogates, separators of lines, and Bidi_Control of Unicode's PropList.
_CONTROL = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_LINE = re.compile(f"[{_CONTROL}]")
_STREAM = re.compile(f"(?![\n\t])[{_CONTROL}]")


def _escape(match):
    code = ord(match.group())
    # the first: a byte that was no UTF-8
    return f"\\x{code & 0xff:02x}" if 0xdc80 <= code <= 0xdcff else f"\\u{code:04x}"


def shown(text):
    """Text as one line that a terminal may have. Bytes are read as UTF-8."""
    return _LINE.sub(_escape, text.decode(errors="surrogateescape") if isinstance(text, bytes) else text)


class _Shown(io.TextIOWrapper):
    """A stream that lets no control character through but newline and tab, and that goes on when its reader has
    left."""

    def _without_reader(self, act, *args):
        try:
            return act(*args)
        except BrokenPipeError:
            with open(os.devnull, "wb") as null:
                os.dup2(null.fileno(), self.fileno())
            return None

    def write(self, text):
        self._without_reader(super().write, _STREAM.sub(_escape, text))
        return len(text)

    def flush(self):
        self._without_reader(super().flush)


def stream(binary):
    """A stream of that kind for a report."""
    return _Shown(binary, encoding="utf-8", errors="backslashreplace")


def start():
    """The first call of every tool: replaces stdout and stderr. A character that the terminal's encoding lacks is shown
    by its number."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, _Shown):
            continue
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
        line = stream.line_buffering or name == "stderr"
        new = _Shown(stream.detach(), encoding=stream.encoding, errors="backslashreplace", line_buffering=line)
        for of in (name, f"__{name}__"):  # curses asks the second for the descriptor
            setattr(sys, of, new)
