#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""aravis' own receiver of a GigE Vision camera: prints the UDP port of its stream, waits for a line, then writes each
frame, behind its id in 8 bytes, into the file.

  aravis_receiver.py CAMERA WIDTH HEIGHT FRAMES FILE"""
import sys

import gi
gi.require_version("Aravis", "0.8")
from gi.repository import Aravis  # noqa: E402  (its version is chosen first)


def main():
    name, width, height, count, path = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
    camera = Aravis.Camera.new(name)
    camera.set_region(0, 0, width, height)
    camera.gv_set_packet_size(1400)
    camera.set_frame_rate(200)
    stream = camera.create_stream(None, None)
    for _ in range(count):
        stream.push_buffer(Aravis.Buffer.new_allocate(camera.get_payload()))
    print(stream.get_port(), flush=True)
    sys.stdin.readline()
    camera.start_acquisition()
    with open(path, "wb") as out:
        for _ in range(count):
            buffer = stream.timeout_pop_buffer(5000000)
            if buffer and buffer.get_status() == Aravis.BufferStatus.SUCCESS:
                out.write(buffer.get_frame_id().to_bytes(8, "big") + buffer.get_data())
    camera.stop_acquisition()


main()
