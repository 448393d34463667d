# SPDX-License-Identifier: BSD-3-Clause
"""Streams of objects by script: payload that checks itself, packets around it, what happens to frames on the way, and
captures of them. stream_formats.py has the formats."""
import random
import struct


class Miss(Exception):
    """Why a frame is no part of an object; the word is that of spw_obj_plan.h."""


def payload(stream, key, offset, count):
    """Bytes that are a function of where they belong, so that whoever has an object can check all of it. Two that
    are swapped, moved or of another object differ."""
    base = (stream * 0x9e3779b1 + key * 0x85ebca6b) & 0xffffffff
    return bytes(((base + at * 0xc2b2ae35) >> 13 ^ at) & 0xff for at in range(offset, offset + count))


# ---- packets ----

def ethernet(inside, ethertype=0x0800):
    return bytes.fromhex("020000000002020000000001") + struct.pack(">H", ethertype) + inside


def udp(inside, port):
    segment = struct.pack(">HHHH", 40000, port, 8 + len(inside), 0) + inside
    head = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(segment), 0, 0x4000, 64, 17, 0, 0x0a000001, 0x0a000002)
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xffff) + (total >> 16)
    total = (total & 0xffff) + (total >> 16)
    return ethernet(head[:10] + struct.pack(">H", ~total & 0xffff) + head[12:] + segment)


# ---- reading them, as the standards draw them ----

class Reader:
    """Bits of frame[at:end], one after the other."""
    def __init__(self, frame, at, end):
        self.frame, self.begin, self.at, self.end, self.bit = frame, at, at, end, 0

    def bits(self, count):
        last = self.at * 8 + self.bit + count
        if (last + 7) // 8 > self.end:
            raise Miss("cut")
        first = self.at * 8 + self.bit
        word = int.from_bytes(self.frame[first // 8:(last + 7) // 8], "big")
        self.at, self.bit = divmod(last, 8)
        return word >> (-last % 8) & ((1 << count) - 1)

    def little(self, count):
        return int.from_bytes(self.bits(count).to_bytes(count // 8, "big"), "little")

    def skip(self, count):
        if self.at > self.end or count > self.end - self.at:
            raise Miss("cut")
        self.at += count

    def bound(self, count):
        """The packet has that many bytes from its header on."""
        if count > self.end - self.begin:
            raise Miss("cut")
        self.end = self.begin + count

    def rest(self):
        if self.at > self.end:
            raise Miss("cut")
        return self.end - self.at


def demand(holds):
    if not holds:
        raise Miss("not_object")


def read_ethernet(frame, want=None):
    """Behind the Ethernet type and up to two tags."""
    for at in (14, 18, 22):
        if len(frame) < at:
            raise Miss("cut")
        ethertype = int.from_bytes(frame[at - 2:at], "big")
        if ethertype not in (0x8100, 0x88a8) or at == 22:
            break
    if want is not None:
        demand(ethertype == want)
        return Reader(frame, at, len(frame))
    return at, ethertype


def read_udp(frame, port):
    at, ethertype = read_ethernet(frame)
    if len(frame) - at < 20:
        raise Miss("cut")
    if ethertype == 0x86dd:
        demand(frame[at] >> 4 == 6 and frame[at + 6] == 17)
        at += 40
    else:
        demand(ethertype == 0x0800 and frame[at] >> 4 == 4 and frame[at] & 15 >= 5 and frame[at + 9] == 17)
        demand(int.from_bytes(frame[at + 6:at + 8], "big") & 0x3fff == 0)  # no fragment
        at += (frame[at] & 15) * 4
    if len(frame) < at + 8:
        raise Miss("cut")
    dport, count = struct.unpack_from(">HH", frame, at + 2)
    demand(dport == port and count >= 8)
    if at + count > len(frame):
        raise Miss("cut")
    return Reader(frame, at + 8, at + count)


# ---- formats ----

class Format:
    """A format's packets, and a model of what a receiver must make of a frame. Both are written from the standards (the
    heads of share/streams name them) and know nothing of descriptions and plans.

    `settings` is what its description sets; `frames(objects, first)` makes packets; `read(frame)` returns (key, size,
    end, [(position, skip, length)]) or raises Miss. `tshark` names a dissector's fields, and `told` says what they must
    be."""
    stream, granule, tshark, decode, extra = 1, 1, (), None, ""

    def description(self):
        pairs = ", ".join(f"{name}: {value}" for name, value in self.settings.items())
        return f"format: {self.name}\nset: {{ {pairs} }}\n{self.extra}"

    def size_of(self, _key):
        """Bytes of an object, of which the rest of the shape is fill."""
        return self.object_bytes

    def piece(self, pos, skip, count, limit=None, end=False):
        """Whole granules, but at the object's end, and where a mark ends it."""
        limit = self.object_bytes if limit is None else limit
        if count == 0:
            return []
        if pos + count > limit or pos % self.granule or (count % self.granule and pos + count != limit and not end):
            raise Miss("beyond")
        return [(pos, skip, count)]


# ---- what happens on the way ----

def drop(frames, rng):
    return [frame for frame in frames if rng.random() > 0.1]


def double(frames, rng):
    return [frame for one in frames for frame in [one] * (1 + (rng.random() < 0.1))]


def swap(frames, rng):
    return [frame for _, frame in sorted(enumerate(frames), key=lambda pair: pair[0] + rng.uniform(0, 6))]


def cut(frames, rng):
    return [frame[:rng.randrange(len(frame) + 1)] if rng.random() < 0.5 else frame for frame in frames]


def restart(frames, rng):
    at = rng.randrange(1, len(frames))
    return frames[:at] + frames


def flip(frames, rng):
    """A bit each of most frames, mostly in the headers."""
    out = []
    for frame in frames:
        frame = bytearray(frame)
        if rng.random() < 0.8:
            bit = rng.randrange(min(len(frame), 110 if rng.random() < 0.9 else len(frame)) * 8)
            frame[bit // 8] ^= 1 << bit % 8
        out.append(bytes(frame))
    return out


def noise(frames, rng):
    """Bytes of headers that are anything."""
    out = []
    for frame in frames:
        frame = bytearray(frame)
        for _ in range(rng.randrange(1, 5)):
            frame[rng.randrange(min(len(frame), 110))] = rng.choice((0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))
        out.append(bytes(frame))
    return out


def tag(frames, rng):
    """One to three VLAN tags; three are more than a receiver looks behind."""
    return [frame[:12] + b"".join(rng.choice((b"\x81\0", b"\x88\xa8")) + b"\0\5" for _ in range(rng.randrange(1, 4))) +
            frame[12:] for frame in frames]


def layer(frames, rng):
    """IPv4 with options, or IPv6, in place of plain IPv4."""
    out = []
    for frame in frames:
        if frame[12:15] == b"\x08\0\x45":
            words = rng.randrange(4)
            if words:
                frame = frame[:14] + bytes([0x45 + words]) + frame[15:34] + b"\1" * 4 * words + frame[34:]
            else:
                frame = (frame[:12] + b"\x86\xdd\x60\0\0\0" + struct.pack(">HBB", len(frame) - 34, 17, 64) + bytes(32) +
                         frame[34:])
        out.append(frame)
    return out


def pad(frames, rng):
    """Bytes behind the packet, as Ethernet pads short frames."""
    return [frame + bytes(rng.randrange(20)) for frame in frames]


MUTATORS = {"none": lambda frames, rng: frames, "drop": drop, "double": double, "swap": swap, "cut": cut,
            "restart": restart, "flip": flip, "noise": noise, "tag": tag, "layer": layer, "pad": pad}


def mutate(frames, name, seed):
    return MUTATORS[name](frames, random.Random(seed))


def write_pcap(path, frames):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for at, frame in enumerate(frames):
            out.write(struct.pack("<IIII", at // 1000000, at % 1000000, len(frame), len(frame)) + frame)
