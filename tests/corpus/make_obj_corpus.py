#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_obj_corpus.py DESC_FOLDER PLAN_FOLDER: descriptions for fuzz_obj_desc, frames for fuzz_obj_plan."""
import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../e2e/kit"))
import stream_formats  # noqa: E402  (found by the line above)

desc, plan = (os.path.join(folder, "seeds") for folder in sys.argv[1:3])
os.makedirs(desc, exist_ok=True)
os.makedirs(plan, exist_ok=True)
names = sorted(os.path.splitext(os.path.basename(path))[0]
               for path in glob.glob(os.path.join(HERE, "../../share/streams/*.yaml")))
for idx, name in enumerate(names):
    with open(os.path.join(HERE, "../../share/streams", name + ".yaml"), "rb") as file:
        lines = [line for line in file.read().split(b"\n") if not line.startswith(b"#")]
    fmt = stream_formats.FORMATS[name]()
    frames = list(fmt.frames(1, 3))
    with open(os.path.join(desc, name), "wb") as out:
        out.write(b"\n".join(lines) + b"\0" + frames[0])
    with open(os.path.join(desc, name + "-set"), "wb") as out:
        out.write(fmt.description().encode() + b"\0" + frames[-1])
    for at in {0, len(frames) // 2, len(frames) - 1}:
        with open(os.path.join(plan, f"{name}-{at}"), "wb") as out:
            out.write(bytes([idx]) + frames[at])
# fuzz_obj_plan's own description, behind the shipped ones: a frame with every id that it names.
header = bytes([8] + 30 * [0])
items = b"".join((idx << 48 | idx).to_bytes(8, "big") for idx in range(1, 9))
with open(os.path.join(plan, "full-none"), "wb") as out:
    out.write(bytes([len(names)]) + header + items + bytes(64))
with open(os.path.join(plan, "full-item"), "wb") as out:
    out.write(bytes([len(names), 1]) + header[1:] + items[:8] + bytes(64))
