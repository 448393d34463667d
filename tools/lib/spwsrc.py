# SPDX-License-Identifier: BSD-3-Clause
"""What the source checks share: which files there are, their text without comments and strings, their functions."""
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
C_LIKE = (".c", ".h", ".cu", ".cuh", ".cc", ".cpp")
SKIP = 77
# comments, strings and characters
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


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
    return TOKEN.sub(spaces, text)


def functions(check, paths):
    """(path, line, name, lines, parameters) of each function, by universal-ctags; without it the check is skipped."""
    if not shutil.which("ctags"):
        print(f"{check}: skipped, no ctags (package universal-ctags)")
        sys.exit(SKIP)
    cmd = ["ctags", "--output-format=json", "--fields=+neS", "--kinds-C=f", "--kinds-C++=f", "--langmap=C++:+.cu.cuh",
           "--languages=C,C++", "-I", "SPW_INLINE,SPW_COLD,SPW_HD", "-f", "-", *paths]
    out = subprocess.run(cmd, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    for line in out.splitlines():
        tag = json.loads(line)
        if "end" in tag:
            lines = tag["end"] - tag["line"] + 1
            yield tag["path"], tag["line"], tag["name"], lines, _parameters(tag.get("signature", ""))


def _parameters(signature):
    """How many a signature such as "(int a, void (*b)(int, int))" has."""
    depth, cnt = 0, 0 if signature.strip("() ") in ("", "void") else 1
    for char in signature:
        depth += (char in "([{") - (char in ")]}")
        cnt += char == "," and depth == 1
    return cnt


def finish(name, faults, looked_at):
    """Prints what is wrong, one line each, and exits; a check that saw nothing has failed."""
    for fault in faults:
        print(fault)
    if not looked_at:
        print(f"{name}: found nothing to check")
    print(f"{name}: {looked_at} files, {len(faults)} faults")
    sys.exit(1 if faults or not looked_at else 0)
