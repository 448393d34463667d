# SPDX-License-Identifier: BSD-3-Clause
"""The strict rules of the software ConnectX (docs/060). Every program that a test starts, whoever starts it and wherever its output
goes, appends to one file what a card would not forgive; a test that imports this fails if something is there at its end."""
import atexit
import os
import tempfile

RULE = 'SPW_SOFTHCA_STRICT'
_folder = tempfile.TemporaryDirectory(prefix='spw-strict-')
os.chmod(_folder.name, 0o777)  # some programs run as another user
_path = os.environ[RULE] = os.path.join(_folder.name, 'said')
atexit.register(_folder.cleanup)


def forgive():
    """From here on programs may do what a card would not forgive: these are wrong on purpose."""
    os.environ.pop(RULE, None)


def hand_over(uid, gid):
    """Before this process becomes another user."""
    os.chown(_folder.name, uid, gid)


def said():
    """What was reported since the last call, or ''."""
    try:
        with open(_path, encoding='utf-8', errors='replace') as file:
            text = file.read()
        os.unlink(_path)
    except FileNotFoundError:
        return ''
    return text
