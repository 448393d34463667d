# SPDX-License-Identifier: BSD-3-Clause
"""Frames as a network has them that is not a benchmark's: tags, tunnels, IPv6, fragments, control protocols, group
addresses, runts."""
import struct

from spwtest import ip_checksum

DST, SRC = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")
ANY4 = b"\xc6\x12\0\2"
PAYLOAD = bytes(range(64))


def eth(ether_type, body, dst=DST, src=SRC):
    return dst + src + struct.pack("!H", ether_type) + body


def udp(body=PAYLOAD, to=4000, checksum=0, length=None):
    return struct.pack("!HHHH", 1000, to, 8 + len(body) if length is None else length, checksum) + body


def ip4(body, proto=17, frag=0, options=b"", ihl=None, total=None, dst=ANY4):
    words = 5 + len(options) // 4 if ihl is None else ihl
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, 20 + len(options) + len(body) if total is None else total, 7,
                       frag, 64, proto, 0,
                       b"\xc6\x12\0\1", dst) + options
    return head[:10] + struct.pack("!H", ip_checksum(head)) + head[12:] + body


def ip6(body, follows=17, length=None):
    ends = bytes.fromhex("20010db8000000000000000000000001" "20010db8000000000000000000000002")
    return struct.pack("!IHBB", 0x60000000, len(body) if length is None else length, follows, 64) + ends + body


def tagged(*words):
    return struct.pack(f"!{len(words)}H", *words) + ip4(udp())


def odd():
    """[(name, frame, the reason that echo gives, None: it is echoed)]."""
    plain = ip4(udp())
    return [
        ("plain", eth(0x800, plain), None),
        ("VLAN", eth(0x8100, tagged(0x2005, 0x800)), "not_ipv4"),
        ("priority tag", eth(0x8100, tagged(0xE000, 0x800)), "not_ipv4"),
        ("QinQ", eth(0x88A8, tagged(10, 0x8100, 20, 0x800)), "not_ipv4"),
        ("QinQ of old", eth(0x9100, tagged(10, 0x8100, 20, 0x800)), "not_ipv4"),
        ("MPLS", eth(0x8847, tagged(0x0001, 0x0140)), "not_ipv4"),
        ("PPPoE", eth(0x8864, struct.pack("!BBHHH", 0x11, 0, 1, len(plain) + 2, 0x21) + plain), "not_ipv4"),
        ("IPv6", eth(0x86DD, ip6(udp())), "not_ipv4"),
        ("IPv6, hop by hop", eth(0x86DD, ip6(bytes([17, 0, 1, 4, 0, 0, 0, 0]) + udp(), 0)), "not_ipv4"),
        ("IPv6, a fragment", eth(0x86DD, ip6(struct.pack("!BBHI", 17, 0, 1, 9) + udp(), 44)), "not_ipv4"),
        ("IPv6, a jumbogram", eth(0x86DD, ip6(bytes([17, 0, 0xC2, 4, 0, 1, 0, 0]) + udp(), 0, 0)), "not_ipv4"),
        ("ARP", eth(0x806, bytes(46), b"\xff" * 6), "not_ipv4"),
        ("LLC", eth(46, b"\x42\x42\x03" + bytes(43), bytes.fromhex("0180c2000000")), "not_ipv4"),
        ("pause", eth(0x8808, struct.pack("!HH", 1, 0xFFFF) + bytes(42), bytes.fromhex("0180c2000001")), "not_ipv4"),
        ("LLDP", eth(0x88CC, bytes(46), bytes.fromhex("0180c200000e")), "not_ipv4"),
        ("PTP", eth(0x88F7, bytes(46), bytes.fromhex("011b19000000")), "not_ipv4"),
        ("first fragment", eth(0x800, ip4(udp(length=3000), frag=0x2000)), "not_udp"),
        ("last fragment", eth(0x800, ip4(PAYLOAD, frag=0x10)), "not_udp"),
        ("wrong UDP checksum", eth(0x800, ip4(udp(checksum=0x1234))), None),
        ("options", eth(0x800, ip4(udp(), options=b"\1" * 40)), None),
        ("header of 16 bytes", eth(0x800, ip4(udp(), ihl=4)), "ip_length"),
        ("length 0, as TSO leaves it", eth(0x800, ip4(udp(), total=0)), "ip_length"),
        ("length beyond the frame", eth(0x800, ip4(udp(), total=1500)), "ip_length"),
        ("UDP length 0", eth(0x800, ip4(udp(length=0))), "udp_length"),
        ("no payload", eth(0x800, ip4(udp(b""))), None),
        ("GRE", eth(0x800, ip4(struct.pack("!HH", 0, 0x800) + plain, 47)), "not_udp"),
        ("IP in IP", eth(0x800, ip4(plain, 4)), "not_udp"),
        ("ESP", eth(0x800, ip4(PAYLOAD, 50)), "not_udp"),
        ("TCP", eth(0x800, ip4(bytes(20), 6)), "not_udp"),
        ("VXLAN", eth(0x800, ip4(udp(struct.pack("!II", 0x08000000, 0x100) + eth(0x800, plain), 4789))), None),
        ("broadcast", eth(0x800, ip4(udp(), dst=b"\xff" * 4), b"\xff" * 6), "handler"),
        ("multicast", eth(0x800, ip4(udp(), dst=b"\xe8\1\2\3"), bytes.fromhex("01005e010203")), "handler"),
        ("broadcast by MAC alone", eth(0x800, plain, b"\xff" * 6), "handler"),
        ("multicast by IP alone", eth(0x800, ip4(udp(), dst=b"\xe0\0\0\1")), "handler"),
        ("14 bytes", eth(0x800, b""), "short_frame"),
        ("33 bytes", eth(0x800, plain[:19]), "short_frame"),
    ]
