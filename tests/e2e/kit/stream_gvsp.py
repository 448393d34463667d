# SPDX-License-Identifier: BSD-3-Clause
"""GigE Vision's images, with block ids of 16 and of 64 bits, for stream_formats.py."""
import struct

from streams import Format, Miss, demand, payload, read_udp, udp


class Gvsp(Format):
    """Images of the whole shape, of a part of it that the leader says, and in one packet with leader and trailer."""
    name, settings = "gvsp", {"width": 40, "height": 10, "payload": 64}
    granule, object_bytes = 64, 400
    tshark, decode = ("gvsp.blockid16", "gvsp.packetid24", "gvsp.format", "gvsp.sizex"), "udp.port==20202,gvsp"

    def size_of(self, key):
        return (400, 34 * 7 + 7 * 2 + 3, 38)[key % 3]

    def head(self, block, kind, packet):
        return struct.pack(">HHI", 0, block & 0xffff, kind << 24 | packet)

    def frames(self, objects, first):
        for block in range(first, first + objects):
            key = block & self.key_mask
            columns, rows, pad, more = ((40, 10, 0, 0), (34, 7, 2, 3), (19, 2, 0, 0))[key % 3]
            leader = struct.pack(">HHQIIIIIHH", 0, 1, 1000 * key & (2 ** 64 - 1), 0x01080001, columns, rows, 0, 0, pad,
                                 more)
            trailer, size = struct.pack(">HHI", 0, 1, rows), self.size_of(key)
            if key % 3 == 2:
                yield udp(self.head(block, 4, 0) + leader + trailer + payload(self.stream, key, 0, size), 20202)
                continue
            yield udp(self.head(block, 1, 0) + leader, 20202)
            for at in range(0, size, 64):
                data = payload(self.stream, key, at, min(64, size - at))
                yield udp(self.head(block, 3, at // 64 + 1) + data, 20202)
            yield udp(self.head(block, 2, (size + 63) // 64 + 1) + trailer, 20202)

    key_mask = 0xffff

    def fields(self, r):
        demand(r.bits(1) == 0)
        r.bits(15)
        block = r.bits(16)
        demand(r.bits(1) == 0)
        kind = r.bits(7)
        demand(kind in (1, 2, 3, 4))
        return block, kind, r.bits(24)

    def size(self, r):
        """Of the image, by its leader."""
        r.at += 2
        demand(r.bits(16) == 1)
        r.at += 9
        bits = r.bits(8)
        r.at += 2
        columns, rows = r.bits(32), r.bits(32)
        r.at += 8
        pad, more = r.bits(16), r.bits(16)
        if bits * columns * rows >= 2 ** 64 or bits * columns * rows % 8:
            raise Miss("beyond")
        size = bits * columns * rows // 8 + pad * rows + more
        if size > self.object_bytes:
            raise Miss("beyond")
        return size

    def read(self, frame):
        r = read_udp(frame, 20202)
        block, kind, packet = self.fields(r)
        size = self.size(r) if kind in (1, 4) else 0
        if kind == 4:
            r.at += 8
        if kind in (1, 2):
            return block, size, kind == 2, []
        pos = packet * 64 - (64 if kind == 3 else 0)
        count = r.rest()
        if pos < 0 or pos + count > (size or 400) or pos % 64:
            raise Miss("beyond")
        return block, size, kind == 4, [(pos, r.at, count)] if count else []

    def told(self, frame):
        r = read_udp(frame, 20202)
        block, kind, packet = self.fields(r)
        wide = (int.from_bytes(frame[r.at + 16:r.at + 20], "big"),) if kind in (1, 4) else ()
        return (block, packet, kind | frame[46] & 0x80, *wide)  # tshark's format has the bit of extended ids


class GvspExtended(Gvsp):
    name = "gvsp_extended"
    tshark = ("gvsp.blockid64", "gvsp.packetid32", "gvsp.format", "gvsp.sizex")
    key_mask = 2 ** 64 - 1

    def head(self, block, kind, packet):
        return struct.pack(">HHIQI", 0, 0, 0x80000000 | kind << 24, block & (2 ** 64 - 1), packet)

    def fields(self, r):
        demand(r.bits(1) == 0)
        r.bits(31)
        demand(r.bits(1) == 1)
        kind = r.bits(7)
        demand(kind in (1, 2, 3, 4))
        r.bits(24)
        return r.bits(64), kind, r.bits(32)
