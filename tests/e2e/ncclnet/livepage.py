# SPDX-License-Identifier: BSD-3-Clause
"""The live pages of processes, read by the offsets that lib/hang/spw_hang_page.h asserts, not by its code."""
import fcntl
import mmap
import os
import struct

LINK = '/memfd:spinwire-live (deleted)'
BYTES = 128 + 32 * 384 + 512 * 768
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
STATES = ('free', 'listening', 'connecting', 'ready', 'failed')


def text(raw):
    return raw.split(b'\0')[0].decode()


def descriptors(pid):
    """Paths of the descriptors of a process that are pages."""
    found = []
    for fd in os.listdir(f'/proc/{pid}/fd'):
        path = f'/proc/{pid}/fd/{fd}'
        try:
            if os.readlink(path) == LINK:
                found.append(path)
        except FileNotFoundError:
            pass
    return found


def rail(raw):
    row = dict(zip(('state', 'qpn', 'mbps'), struct.unpack_from('<3I', raw)))
    row.update(zip(('open_bytes', 'acked_bytes', 'resent_chunks', 'outages', 'down_tsc'),
                   struct.unpack_from('<5Q', raw, 16)))
    return {**row, 'device': text(raw[56:80]), 'why': text(raw[80:128])}


def conn(raw):
    row = dict(zip(('mark', 'calls', 'begun', 'ended', 'ended_tsc', 'called_tsc'), struct.unpack_from('<6Q', raw)))
    state, row['is_send'], row['tid'], row['error'] = struct.unpack_from('<3Ii', raw, 64)
    row.update(zip(('comm_hash', 'pair', 'state_tsc', 'taken_tsc', 'taken_calls', 'taken_begun', 'taken_ended',
                    'oldest_tsc', 'moved_tsc'), struct.unpack_from('<9Q', raw, 80)))
    row.update(zip(('waiting', 'granted', 'posted', 'acked', 'receiving', 'received', 'flushing', 'rail_cnt'),
                   struct.unpack_from('<8I', raw, 152)))
    return {**row, 'state': STATES[state], 'peer': text(raw[184:256]),
            'rails': [rail(raw[256 + i * 128:384 + i * 128]) for i in range(row['rail_cnt'])]}


def operation(raw):
    row = dict(zip(('sequence', 'count', 'begun_tsc', 'root'), struct.unpack_from('<3Qi', raw)))
    return {**row, 'function': text(raw[32:56]), 'datatype': text(raw[56:72]), 'algorithm': text(raw[72:88]),
            'protocol': text(raw[88:96])}


def comm(raw):
    row = dict(zip(('mark', 'colls', 'p2ps', 'sends_begun', 'sends_ended', 'recvs_begun', 'recvs_ended'),
                   struct.unpack_from('<7Q', raw)))
    row.update(zip(('used', 'api', 'rank', 'rank_cnt', 'node_cnt'), struct.unpack_from('<2I3i', raw, 64)))
    row['comm_hash'], row['opened_tsc'] = struct.unpack_from('<2Q', raw, 88)
    return {**row, 'name': text(raw[104:192]), 'coll': operation(raw[192:288]), 'p2p': operation(raw[288:384])}


def parse(raw):
    page = dict(zip(('magic', 'version', 'bytes', 'pid'), struct.unpack_from('<Q3I', raw)))
    page['tsc_hz'], page['start_tsc'] = struct.unpack_from('<2Q', raw, 24)
    page['release'] = text(raw[40:64])
    page.update(zip(('nets_opened', 'nets_closed', 'conns_left_out', 'comms_left_out'),
                    struct.unpack_from('<4Q', raw, 64)))
    comms = [comm(raw[at:at + 384]) for at in range(128, 128 + 32 * 384, 384)]
    conns = [conn(raw[at:at + 768]) for at in range(128 + 32 * 384, BYTES, 768)]
    return {**page, 'comms': [c for c in comms if c['used']], 'conns': [c for c in conns if c['state'] != 'free']}


def read(path):
    """The page of a descriptor, as a reader may open it. A torn entry is read again by the caller's next look."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        assert os.fstat(fd).st_size == BYTES, f'{os.fstat(fd).st_size} bytes'
        assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS == SEALS, 'it is not sealed'
        with mmap.mmap(fd, BYTES, prot=mmap.PROT_READ) as raw:
            page = parse(raw[:])
    finally:
        os.close(fd)
    assert page['magic'] == 0x6576696c777073 and page['version'] == 1, f'{page["magic"]:x} {page["version"]}'
    return page


def of(pid):
    """The page of a process; None: it has none."""
    found = descriptors(pid)
    assert len(found) < 2, f'{found}'
    return read(found[0]) if found else None
