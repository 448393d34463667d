# SPDX-License-Identifier: BSD-3-Clause
"""The strict rules of the software ConnectX (docs/060). Every program that a test starts, whoever starts it and
wherever its output goes, appends to one file what a card would not forgive; a test that imports this fails if something
is there at its end."""
import atexit
import os
import shutil
import tempfile

RULE = 'SPW_SOFTHCA_STRICT'
_folder = tempfile.mkdtemp(prefix='spw-strict-')
os.chmod(_folder, 0o777)  # some programs run as another user
_path = os.environ[RULE] = os.path.join(_folder, 'said')
atexit.register(shutil.rmtree, _folder, ignore_errors=True)


def forgive():
    """From here on programs may do what a card would not forgive: these are wrong on purpose."""
    os.environ.pop(RULE, None)


def hand_over(uid, gid):
    """Before this process becomes another user."""
    os.chown(_folder, uid, gid)
    tempfile.tempdir = None  # that user may not write where this one does


def said():
    """What was reported since the last call, or ''."""
    try:
        with open(_path, encoding='utf-8', errors='replace') as file:
            text = file.read()
        os.unlink(_path)
    except FileNotFoundError:
        return ''
    return text
