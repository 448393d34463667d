# SPDX-License-Identifier: BSD-3-Clause
"""Each format of share/streams twice: its packets, and a model of what a receiver must make of a frame (streams.py,
Format). GVSP is in stream_gvsp.py."""
import struct

from stream_gvsp import Gvsp, GvspExtended
from streams import Format, Miss, Reader, demand, ethernet, payload, read_ethernet, read_udp, udp


class Counter(Format):
    name, settings = "counter", {"port": 4660, "packets": 8, "payload": 96}
    granule, object_bytes = 96, 8 * 96

    def frames(self, objects, first):
        for n in range(first * 8, (first + objects) * 8):
            n &= 2 ** 64 - 1
            data = payload(self.stream, n // 8, n % 8 * 96, 96)
            yield udp(struct.pack(">Q", n) + data, 4660)

    def read(self, frame):
        r = read_udp(frame, 4660)
        n = r.bits(64)
        if r.rest() < 96:
            raise Miss("cut")
        return n // 8, 0, False, self.piece(n % 8 * 96, r.at, 96)


def frame_mark(seq, flow=3):
    return struct.pack(">HBBHHIHI", 0x5357, 1, 0, 9, flow, seq, 0, seq)


class Mark(Format):
    name, settings = "mark", {"port": 5357, "flow": 3, "packets": 8, "payload": 100}
    granule, object_bytes = 100, 800

    def frames(self, objects, first):
        for n in range(first * 8, (first + objects) * 8):
            n &= 0xffffffff
            for flow in (3, 4):
                yield udp(frame_mark(n, flow) + payload(self.stream, n // 8, n % 8 * 100, 82), 5357)

    def read(self, frame):
        r = read_udp(frame, 5357)
        demand(r.bits(16) == 0x5357)
        demand(r.bits(8) == 1)
        r.bits(24)
        demand(r.bits(16) == 3)
        n = r.bits(32)
        r.bits(48)
        if r.end - r.begin < 100:
            raise Miss("cut")
        return n // 8, 0, False, self.piece(n % 8 * 100, r.begin, 100)


class Sampled(Format):
    """Objects of samples, beginning where the first packet does."""
    phase = None

    def sampled(self, number, pos_bytes, r, count, end=False):
        if number >= 2 ** 64:
            raise Miss("beyond")
        if count < 0:
            raise Miss("beyond")
        if self.phase is None:
            if count > r.rest():
                raise Miss("cut")
            self.phase = number % self.per
        number = (number - self.phase) % 2 ** 64
        pos = number % self.per * pos_bytes
        return number // self.per, 0, end, self.piece(pos, r.at, count, end=end)


class Vrt(Sampled):
    name, settings = "vrt", {"port": 4991, "rate": 1000, "samples": 256, "sample": 4, "payload": 128}
    granule, object_bytes, per = 128, 1024, 256
    tshark, decode = ("vrt.ts_int", "vrt.ts_frac_sample", "vrt.len", "vrt.seq"), "udp.port==4991,vrt"

    def frames(self, objects, first):
        for n in range(objects * 8):
            sample = (first * 256 + 17 + n * 32) & (2 ** 41 - 1)
            stream, klass, trailer = n & 1, n >> 1 & 1, n >> 2 & 1
            words = 1 + stream + 2 * klass + 1 + 2 + 32 + trailer
            flags = stream << 28 | klass << 27 | trailer << 26 | 1 << 22 | 1 << 20
            head = struct.pack(">I", flags | (n & 15) << 16 | words)
            head += struct.pack(">I", 7) * stream + bytes.fromhex("0012345600010002") * klass
            head += struct.pack(">IQ", sample // 1000, sample % 1000)
            yield udp(head + payload(self.stream, 0, n * 128, 128) + bytes(4 * trailer), 4991)
            if n % 5 == 0:  # a context packet
                head = 0x41600000 | (n & 15) << 16 | 6
                yield udp(struct.pack(">IIIQI", head, 7, sample // 1000, sample % 1000, 0), 4991)

    def read(self, frame):
        r = read_udp(frame, 4991)
        kind, klass, trailer, _, tsi, tsf = (r.bits(width) for width in (4, 1, 1, 2, 2, 2))
        demand(kind in (0, 1))
        demand(tsf == 1)
        r.bits(4)
        words = r.bits(16)
        if kind == 1:
            r.at += 4
        if klass:
            r.at += 8
        seconds = r.bits(32) if tsi else 0
        ticks = r.bits(64)
        r.bound(words * 4)
        count = r.rest() - 4 * trailer
        return self.sampled(seconds * 1000 + ticks, 4, r, count)

    def told(self, frame):
        r = read_udp(frame, 4991)
        kind, klass, _, tsi, _, seq, words = (r.bits(width) for width in (4, 1, 3, 2, 2, 4, 16))
        if kind == 4:
            return None  # tshark shows no ticks of a context packet
        r.at += 4 * (kind == 1) + 8 * klass
        return r.bits(32) if tsi else 0, r.bits(64), words, seq


class Difi(Sampled):
    name, settings = "difi", {"rate": 61440000, "samples": 256, "payload": 128}
    granule, object_bytes, per = 128, 1024, 256
    tshark, decode = ("vrt.ts_int", "vrt.ts_frac_picosecond", "vrt.oui"), "udp.port==50000,vrt"

    def frames(self, objects, first):
        for n in range(objects * 8):
            sample = first * 256 + 61440000 * 1700000000 + 5 + n * 32
            part = sample % 61440000
            picoseconds = (part * 10 ** 12 * 2 + 61440000) // (2 * 61440000)
            head = struct.pack(">II", 0x18600000 | (n & 15) << 16 | 39, 7) + bytes.fromhex("006a621e00000000")
            head += struct.pack(">IQ", sample // 61440000, picoseconds)
            yield udp(head + payload(self.stream, 0, n * 128, 128), 50000)

    def read(self, frame):
        r = read_udp(frame, 50000)
        demand(r.bits(4) == 1)
        demand(r.bits(1) == 1)
        trailer = r.bits(1)
        r.bits(2)
        demand(r.bits(2) in (1, 2, 3))
        demand(r.bits(2) == 2)
        r.bits(4)
        words = r.bits(16)
        r.bits(40)
        demand(r.bits(24) == 0x6a621e)
        r.bits(16)
        demand(r.bits(16) == 0)
        seconds, picoseconds = r.bits(32), r.bits(64)
        r.bound(words * 4)
        count = r.rest() - 4 * trailer
        if picoseconds > (2 ** 63 - 1) // 390625:  # 10^12 / 61440000 is 390625 / 24
            raise Miss("beyond")
        return self.sampled(seconds * 61440000 + (picoseconds * 24 * 2 + 390625) // (2 * 390625), 4, r, count)

    def told(self, frame):
        return struct.unpack_from(">IQ", frame, 58) + (0x6a621e,)


class Chdr(Sampled):
    name, settings = "chdr", {"ticks": 256, "payload": 128}
    granule, object_bytes, per = 128, 1024, 256

    def frames(self, objects, first):
        for n in range(objects * 8):
            tick, words = (first * 256 + 100 + n * 32) & (2 ** 64 - 1), n % 3
            kind = 6 if n % 7 == 6 else 7
            size = 8 + 8 * (kind == 7) + 8 * words + 128
            head = (n % 8 == 7) << 57 | kind << 53 | words << 48 | (n & 0xffff) << 32 | size << 16 | 5
            yield udp(struct.pack("<Q", head) + struct.pack("<Q", tick) * (kind == 7) + bytes(8 * words) +
                      payload(self.stream, 0, n * 128, 128), 49153)

    def read(self, frame):
        r = read_udp(frame, 49153)
        head = r.little(64)
        demand(head >> 53 & 7 == 7)
        tick = r.little(64)
        r.skip((head >> 48 & 31) * 8)
        r.bound(head >> 16 & 0xffff)
        return self.sampled(tick, 4, r, r.rest(), bool(head >> 57 & 1))


class Rfc4175(Format):
    name, settings = "rfc4175", {"lines": 6, "pitch": 50}
    granule, object_bytes = 5, 300
    tshark, decode = ("rtp.timestamp", "rtp.seq", "rtp.marker"), "udp.port==5004,rtp"

    def frames(self, objects, first):
        seq = 0
        for n in range(first, first + objects):
            stamp = n * 3003 & 0xffffffff
            for line in range(0, 6, 2):  # a line and a half, then what is left of the second
                for parts in ([(line, 0, 50), (line + 1, 0, 10), (line + 1, 10, 10)], [(line + 1, 20, 30)]):
                    sources = seq % 3
                    marker = line == 4 and len(parts) == 1
                    head = struct.pack(">BBHII", 0x80 | (seq & 1) << 4 | sources, marker << 7 | 96, seq, stamp, 1)
                    head += struct.pack(">I", 9) * sources
                    head += struct.pack(">HHI", 0xbede, 1, 0) * (seq & 1)
                    head += struct.pack(">H", seq >> 16)
                    for at, (row, byte, count) in enumerate(parts):
                        more = at < len(parts) - 1
                        head += struct.pack(">HHH", count, row, more << 15 | byte // 5 * 2)
                    yield udp(head + b"".join(payload(self.stream, stamp, row * 50 + byte, count)
                                              for row, byte, count in parts), 5004)
                    seq += 1

    def read(self, frame):
        r = read_udp(frame, 5004)
        demand(r.bits(2) == 2)
        r.bits(1)
        extension, sources, marker = r.bits(1), r.bits(4), r.bits(1)
        r.bits(23)
        stamp = r.bits(32)
        r.at += 4
        r.skip(sources * 4)
        if extension:
            r.bits(16)
            words = r.bits(16)
            r.skip(words * 4)
        r.at += 2
        r.rest()
        pieces, more = [], 1
        for _ in range(4):
            count = r.bits(16)
            demand(r.bits(1) == 0)
            line, more, x = r.bits(15), r.bits(1), r.bits(15)
            if x % 2:
                raise Miss("beyond")
            pieces += self.piece(line * 50 + x // 2 * 5, 0, count, end=marker)
            if not more:
                break
        if more:
            raise Miss("beyond")
        placed = []
        for pos, _, count in pieces:
            placed.append((pos, r.at, count))
            r.skip(count)
        r.rest()
        return stamp, 0, bool(marker), placed

    def told(self, frame):
        seq, stamp = struct.unpack_from(">HI", frame, 44)
        return stamp, seq, frame[43] >> 7


class Spead(Format):
    name, settings = "spead", {"heap": 512, "payload": 128}
    granule, object_bytes = 128, 512

    def size_of(self, key):
        return 500 if key % 3 == 0 else 512

    def frames(self, objects, first):
        def item(ident, value):
            return struct.pack(">Q", ident << 48 | value)
        for heap in range(first, first + objects):
            heap &= 2 ** 48 - 1
            size = self.size_of(heap)
            for offset in range(0, size, 128):
                count = min(128, size - offset)
                items = [item(0x8001, heap), item(0x8002, size), item(0x8003, offset), item(0x8004, count),
                         item(0x1234, 0), item(0x9600, offset)]
                if offset % 256:
                    items.reverse()
                yield udp(bytes.fromhex("5304020600000006") + b"".join(items) +
                          payload(self.stream, heap, offset, count), 7148)
            items = [item(0x8001, heap), item(0x8002, 0), item(0x8003, 0), item(0x8004, 8), item(0x0005, 0)]
            yield udp(bytes.fromhex("5304020600000005") + b"".join(items) + bytes(8), 7148)  # a descriptor

    def read(self, frame):
        r = read_udp(frame, 7148)
        for want in (0x53, 4, 2, 6):
            demand(r.bits(8) == want)
        r.bits(16)
        cnt = r.bits(16)
        demand(cnt <= 32)
        if cnt * 8 > r.rest():
            raise Miss("cut")
        items = dict((r.bits(16), r.bits(48)) for _ in range(cnt))
        demand(all(ident in items for ident in (0x8001, 0x8002, 0x8003, 0x8004)))
        demand(not any(ident in items for ident in (0x0005, 0x8005, 0x8006)))
        size, offset, count = items[0x8002], items[0x8003], items[0x8004]
        if size > 512:
            raise Miss("beyond")
        if count > r.rest():
            raise Miss("cut")
        return items[0x8001], size, False, self.piece(offset, r.at, count, size or 512)


class Hsb(Format):
    name = "hsb"
    settings = {"base": 0x1000, "page": 512, "pages": 2, "image": 400, "payload": 128}
    granule, object_bytes = 128, 400
    tshark, decode = ("infiniband.bth.psn", "infiniband.reth.va", "infiniband.reth.dmalen"), None

    def frames(self, objects, first):
        psn = 0
        for n in range(first, first + objects):
            for offset in range(0, 400, 128):
                count, last = min(128, 400 - offset), offset == 384
                data = payload(self.stream, n & 1, offset, count) + bytes(48 * last)
                head = struct.pack(">BBHII", 0x2b if last else 0x2a, 0, 0xffff, 0x12, psn & 0xffffff)
                head += struct.pack(">QII", 0x1000 + (n & 1) * 512 + offset, 0xbeef, len(data))
                head += struct.pack(">I", psn << 12 & 0xffffffff | (n & 1)) * last
                yield udp(head + data + bytes(4), 4791)
                psn += 1

    def read(self, frame):
        r = read_udp(frame, 4791)
        demand(r.bits(7) == 0x15)
        immediate = r.bits(1)
        r.bits(88)
        address = r.bits(64)
        r.bits(32)
        count = r.bits(32)
        if immediate:
            r.at += 4
        if address < 0x1000 or (address - 0x1000) // 512 > 1:
            raise Miss("beyond")
        key, part = divmod(address - 0x1000, 512)
        r.rest()
        if count < 48 * immediate:
            raise Miss("beyond")
        count -= 48 * immediate
        if count > r.rest():
            raise Miss("cut")
        return key, 0, bool(immediate), self.piece(part, r.at, count, end=immediate)

    def told(self, frame):
        return tuple(int.from_bytes(frame[at:at + count], "big") for at, count in ((51, 3), (54, 8), (66, 4)))


class Oran(Format):
    name, settings = "oran", {"eaxc": 5, "symbols": 3, "prbs": 12, "prb": 28, "symbol": 336}
    granule, object_bytes = 28, 3 * 12 * 28
    tshark = ("oran_fh_cus.frameId", "oran_fh_cus.subframe_id", "oran_fh_cus.slotId", "oran_fh_cus.startSymbolId")

    def frames(self, objects, first):
        seq = 0
        for n in range(first, first + objects):
            n &= 0x3ffff
            frame, subframe, slot = n >> 10 & 255, n >> 6 & 15, n & 63
            for symbol in range(3):
                for sections in ([(0, 0, 12)],) if symbol == 0 else ([(0, 0, 5), (1, 5, 3)], [(2, 8, 4)]):
                    body = struct.pack(">BBH", 0x90, frame, subframe << 12 | slot << 6 | symbol)
                    for ident, start, num in sections:
                        body += struct.pack(">I", ident << 20 | start << 8 | (0 if num == 12 else num))
                        body += payload(self.stream, n, symbol * 336 + start * 28, num * 28)
                    body = struct.pack(">HBB", 5, seq & 255, 0x80) + body
                    yield ethernet(struct.pack(">BBH", 0x10, 0, len(body)) + body + bytes(2), 0xaefe)
                    seq += 1

    def read(self, frame):
        r = read_ethernet(frame, 0xaefe)
        demand(r.bits(4) == 1)
        r.bits(3)
        demand(r.bits(1) == 0)
        demand(r.bits(8) == 0)
        size = r.bits(16)
        demand(r.bits(16) == 5)
        r.bits(24)
        number, subframe, slot, symbol = r.bits(8), r.bits(4), r.bits(6), r.bits(6)
        r.bound(size + 4)
        pieces = []
        r.rest()
        for _ in range(4):
            if r.at >= r.end:
                break
            r.bits(12)
            demand(r.bits(1) == 0)
            demand(r.bits(1) == 0)
            start, num = r.bits(10), r.bits(8)
            count = num * 28 or 336
            if count > r.rest():
                raise Miss("cut")
            pieces += self.piece(symbol * 336 + start * 28, r.at, count)
            r.at += count
        if r.at < r.end:
            raise Miss("beyond")
        return number << 10 | subframe << 6 | slot, 0, False, pieces

    def told(self, frame):
        r = Reader(frame, 22, len(frame))
        r.bits(8)
        return r.bits(8), r.bits(4), r.bits(6), r.bits(6)


FORMATS = {one.name: one for one in (Counter, Mark, Vrt, Difi, Chdr, Gvsp, GvspExtended, Rfc4175, Spead, Hsb, Oran)}
