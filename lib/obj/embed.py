#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The shipped formats as one C file, so that `format: NAME` needs no path: embed.py OUT FILE.yaml..."""
import os
import sys

with open(sys.argv[1], "w", encoding="utf-8") as out:
    out.write("/* Made of share/streams by lib/obj/embed.py. */\n")
    for path in sys.argv[2:]:
        name = os.path.splitext(os.path.basename(path))[0]
        with open(path, "rb") as file:
            text = ", ".join(str(byte) for byte in file.read())
        out.write(f"static const unsigned char format_{name}[] = {{{text}}};\n")
    out.write("#define FORMAT_LIST(X)")
    for path in sys.argv[2:]:
        out.write(f" X({os.path.splitext(os.path.basename(path))[0]})")
    out.write("\n")
