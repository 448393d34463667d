#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""CHDR packets by UHD, as lines of JSON on stdin and stdout.

  uhd_chdr.py read    {"packet": HEX, "width": BITS} becomes its fields
  uhd_chdr.py make    fields become {"packet": HEX}, of "order" little or big"""
import json
import sys

import documents
from uhd import chdr

FIELDS = ("vc", "eob", "eov", "num_mdata", "seq_num", "length", "dst_epid")


def width(bits):
    return getattr(chdr.ChdrWidth, f"W{bits}")


def read(line):
    packet = chdr.ChdrPacket.deserialize(width(line["width"]), bytes.fromhex(line["packet"]))
    head = packet.get_header()
    return {**{name: int(getattr(head, name)) for name in FIELDS}, "type": head.pkt_type.name,
            "timestamp": packet.get_timestamp(), "metadata": packet.get_metadata(),
            "payload": bytes(packet.get_payload_bytes()).hex()}


def make(line):
    head = chdr.ChdrHeader()
    for name in ("vc", "seq_num", "dst_epid"):
        setattr(head, name, line[name])
    head.eob, head.pkt_type = bool(line["eob"]), getattr(chdr.PacketType, line["type"])
    # It makes a word of 64 bits of each byte of metadata.
    packet = chdr.ChdrPacket(width(line["width"]), head, bytes.fromhex(line["payload"]), line["timestamp"],
                             bytes(line["metadata"]))
    return {"packet": bytes(packet.serialize(getattr(chdr.Endianness, line["order"].upper()))).hex()}


for text in sys.stdin:
    print(json.dumps({"read": read, "make": make}[sys.argv[1]](documents.foreign(text))))
