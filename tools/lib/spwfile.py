# SPDX-License-Identifier: BSD-3-Clause
"""Files that are there whole or not at all: written beside their place, then renamed. app/common/app_json.c does the same."""
import contextlib
import os


def _in_place(path):
    """What is no ordinary file (a pipe, /dev/stdout) cannot be renamed over."""
    return os.path.exists(path) and (not os.path.isfile(path) or (path.startswith(("/dev/", "/proc/")) and os.path.islink(path)))


def _beside(path):
    return f"{path}.{os.getpid()}.tmp"


def try_path(path):
    """OSError, with the path, if nothing can be written there: it is better known before a run than after it."""
    if _in_place(path):
        if os.path.isdir(path) or not os.access(path, os.W_OK):
            raise OSError(f"cannot write {path}: {'it is a folder' if os.path.isdir(path) else 'no permission'}")
        return
    _write(path, "", keep=False)


def write(path, text):
    """OSError, with the path, and what was there before stays."""
    _write(path, text, keep=True)


def _write(path, text, keep):
    place = path if _in_place(path) else _beside(path)
    try:
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)
        if place != path and keep:
            os.replace(place, path)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror}") from None
    finally:
        if place != path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
