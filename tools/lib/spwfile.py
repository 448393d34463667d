# SPDX-License-Identifier: BSD-3-Clause
"""Files that are there whole or not at all: written beside their place, then renamed; no link is followed.
lib/base/spw_file.h does the same."""
import contextlib
import os
import stat
import sys

import spwtext

_FLAGS = os.O_WRONLY | os.O_CLOEXEC


def _is_own(path):
    """A descriptor of this process: nobody else can put such a link there."""
    return path in ("/dev/stdout", "/dev/stderr") or path.startswith(("/dev/fd/", "/proc/self/fd/"))


def _in_place(path):
    """What is no ordinary file (a pipe, /dev/stdout) cannot be renamed over."""
    if _is_own(path):
        return True
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISLNK(mode)


def _open(path, place):
    if place == path:
        return os.open(path, _FLAGS | (0 if _is_own(path) else os.O_NOFOLLOW))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place)  # of an earlier process with this number
    return os.open(place, _FLAGS | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)


def try_path(path):
    """OSError, with the path, if nothing can be written there: it is better known before a run than after it."""
    if path == "-":
        raise OSError("cannot write -: this output does not go to stdout; name a file (./- is one called -)")
    if _in_place(path):
        if os.path.isdir(path) or not os.access(path, os.W_OK):
            raise OSError(f"cannot write {path}: {'it is a folder' if os.path.isdir(path) else 'no permission'}")
        return
    _write(path, "", keep=False)


_report = None  # stdout, once an output has taken it


def take(path):
    """As try_path, for an output that "-" sends to stdout: what is printed from here on goes to stderr.
    app/common/app_file.h does the same."""
    global _report
    if path != "-":
        try_path(path)
        return
    if _report:
        raise OSError("two outputs to -: stdout can take one of them")
    sys.stdout.flush()
    _report = spwtext.stream(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)


def folder(option, path):
    """Makes the folder that an option names. OSError with both."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        why = "it is there, and no folder" if isinstance(error, FileExistsError) else error.strerror
        raise OSError(f"{option} {path}: {why}; name a folder that can be made and written") from None


def why(error):
    """An error in words: "x.json: No such file or directory"."""
    return f"{error.filename}: {error.strerror}" if getattr(error, "filename", None) else str(error)


def write(path, text):
    """OSError, with the path, and what was there before stays."""
    if path == "-":
        _report.write(text)
        _report.flush()
    else:
        _write(path, text, keep=True)


def _write(path, text, keep):
    place = path if _in_place(path) else f"{path}.{os.getpid()}.tmp"
    try:
        with os.fdopen(_open(path, place), "w", encoding="utf-8") as file:
            file.write(text)
        if place != path and keep:
            os.replace(place, path)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror}") from None
    finally:
        if place != path:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(place)
