# SPDX-License-Identifier: BSD-3-Clause
"""What the source checks share: which files there are, and their text without comments and strings."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
C_LIKE = (".c", ".h", ".cu", ".cuh", ".cc", ".cpp")
_TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


def files(suffixes, folders=("lib", "app", "examples", "tests", "tools")):
    """Paths under ROOT, sorted, that git tracks or would track; a source tree without git is walked."""
    cmd = ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "--", *folders]
    got = subprocess.run(cmd, capture_output=True, text=True, timeout=120)
    if got.returncode == 0:
        names = got.stdout.split("\n")
    else:
        names = [os.path.relpath(os.path.join(top, name), ROOT)
                 for folder in folders for top, _, found in os.walk(os.path.join(ROOT, folder)) for name in found]
    return sorted(n for n in set(names) if n.endswith(suffixes) and os.path.isfile(os.path.join(ROOT, n)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def blank(text, keep_strings=False):
    """Comments (and strings) become spaces; line numbers stay."""
    def spaces(match):
        token = match.group(0)
        if keep_strings and token[0] in "\"'":
            return token
        return re.sub(r"[^\n]", " ", token)
    return _TOKEN.sub(spaces, text)


def finish(name, faults, looked_at):
    """Prints what is wrong, one line each, and exits; a check that saw nothing has failed."""
    for fault in faults:
        print(fault)
    if not looked_at:
        print(f"{name}: found nothing to check")
    print(f"{name}: {looked_at} files, {len(faults)} faults")
    sys.exit(1 if faults or not looked_at else 0)
