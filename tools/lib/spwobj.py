# SPDX-License-Identifier: BSD-3-Clause
"""What the checks of machine code share: the functions of objects, alone or in libraries."""
import os
import re
import subprocess

_MEMBER, _FUNCTION = re.compile(r"^(\S+):\s+file format"), re.compile(r"^[0-9a-f]+ <([\w.]+)>:$")


def run(*command):
    """Lines of what it prints, in no language but that of the source."""
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout.splitlines()


def listing(library, *options):
    """(object, function, line) of each line that objdump prints; of an object's and a function's first line the line is
    None, and outside of functions the function is."""
    member = function = None
    for line in run("objdump", "--no-show-raw-insn", *options, library):
        begins, head = _MEMBER.match(line), _FUNCTION.match(line)
        if begins:
            member, function = os.path.basename(begins.group(1)), None
        elif head:
            function = head.group(1)
        yield member, function, None if begins or head else line
