#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""record_traces.py [--build BUILD] [CASE...]: makes tests/unit/port/mlx5/traces anew, from real runs under the software
ConnectX.

CASE.cq is what the receiving NIC wrote into its completion ring, byte by byte. CASE.txt is what must come out of it,
and comes from elsewhere: frames and their lengths from the trace of the NIC that sent them, what each completion stands
for from the receiving NIC's own trace, which it writes before it compresses. Both formats:
tests/unit/port/mlx5/eth/cq_trace.h."""
import argparse
import glob
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..', '..', '..')
CASES = {'latency': [], 'compressed': [], 'compressed_enhanced': ['--cqe-layout', 'enhanced'],
         'striding_compressed': [],
         'striding_compressed_enhanced': ['--cqe-layout', 'enhanced'], 'errors': [], 'errors_compressed': [], 'rc': [],
         'rc_compressed': []}
SEND, SEND_IMM, RESP_ERR = 2, 3, 14
FLUSHED = 5
# of enum mlx5_flag (STAMP: of mlx5_rc_flag as well); a key that only RC's shape has
STAMP, STRIDING, RC = 1, 8, 'credits'


def packets(path):
    """(interface, outbound, bytes, comment) of each packet of a trace of the software ConnectX."""
    with open(path, 'rb') as f:
        data = f.read()
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from('<II', data, at)
        if kind == 6:
            iface, _, _, kept, _ = struct.unpack_from('<5I', data, at + 8)
            option, out, comment = at + 28 + (kept + 3) // 4 * 4, False, ''
            while option < at + size - 4:
                code, length = struct.unpack_from('<HH', data, option)
                value = data[option + 4:option + 4 + length]
                if code == 2:
                    out = value[0] & 3 == 2
                elif code == 1:
                    comment = value.decode()
                elif code == 0:
                    break
                option += 4 + (length + 3) // 4 * 4
            yield iface, out, data[at + 28:at + 28 + kept], comment
        at += size


class Completion:
    """A completion entry as the NIC made it."""

    def __init__(self, cqe, shape):
        self.opcode = cqe[63] >> 4
        self.hash, self.imm, self.cnt = (struct.unpack_from('>I', cqe, at)[0] for at in (12, 36, 44))
        self.stamp, self.csum = struct.unpack_from('>Q', cqe, 48)[0], cqe[28] >> 1 & 3
        self.drops, self.syndrome = cqe[56], cqe[55]
        self.strides, self.filler = 1, False
        if shape['flags'] & STRIDING and RC not in shape:
            self.filler, self.strides, self.cnt = self.cnt >> 31, self.cnt >> 16 & 0x7fff, self.cnt & 0xffff


def line_of(c, shape):
    if c.opcode == RESP_ERR:
        return f'error {c.syndrome}'
    stamp = f' {c.stamp}' if shape['flags'] & STAMP else ''
    if RC in shape:
        return f'message {c.cnt} {c.imm if c.opcode == SEND_IMM else 0}' + stamp
    if c.filler:
        return f'filler {c.strides}'
    if c.strides > 1:
        return f'long {c.strides} {c.cnt}'
    return f'frame {c.cnt} {c.hash} {c.csum}' + stamp


def expect(batches, shape, sent, completions):
    """The lines of each batch. Every frame that was sent has a completion of its length or was dropped for want of a
    receive, and which it was is checked against both ends."""
    lines, at, dropped, counted = [], 0, 0, 0
    completions = list(completions)
    for cnt in batches:
        lines.append(f'batch {cnt}')
        frames, broken = sent[at:at + cnt], False
        at += cnt
        # an error costs a frame, its flushes none
        while completions and (frames or broken and completions[0].opcode == RESP_ERR):
            c = completions[0]
            if c.opcode == RESP_ERR:
                broken = True
                if c.syndrome != FLUSHED:
                    frames = frames[1:]
            elif broken or (not c.filler and c.cnt != frames[0]):
                break
            elif not c.filler:
                frames = frames[1:]
                counted += c.drops
            lines.append(line_of(completions.pop(0), shape))
        dropped += 0 if broken else len(frames)
    assert not completions, f'{len(completions)} completions that no frame explains'
    lines.append(f'missed {counted}')
    assert counted <= dropped, (counted, dropped)
    return lines


def run_case(name, extra, build, folder):
    control, ring = os.path.join(folder, 'c'), os.path.join(folder, name + '.cq')
    argv = [os.path.join(ROOT, 'tools', 'with-softhca'), '--devices', '2', '--cable', f'shm:record{os.getpid()}',
            '--control', control,
            '--trace', folder] + extra + [os.path.join(build, 'tests', 'port', 'mlx5', 'mlx5_cq_record'), name, ring]
    done = subprocess.run(argv, env=dict(os.environ, SPW_TEST_CONTROL=control), stdout=subprocess.PIPE, text=True,
                          timeout=120)
    if done.returncode:
        sys.exit(f'{name}: {done.stdout}')
    rows = [line.split() for line in done.stdout.splitlines()]
    shape = {k: int(v) for words in rows if words[:1] == ['shape'] for k, v in (w.split('=') for w in words[1:])}
    cqn = next(int(words[1]) for words in rows if words[:1] == ['cqn'])
    batches = [int(words[1]) for words in rows if words[:1] == ['batch']]
    trace = {i: list(packets(glob.glob(os.path.join(folder, f'mlx5_{i}-*.pcapng'))[0])) for i in (0, 1)}
    ours = [Completion(data, shape) for iface, _, data, text in trace[1] if iface == 2
            and text.startswith(f'cqn=0x{cqn:x} ')]
    if RC in shape: # what was asked for stands in the sender's WQEs; control messages have no bytes
        ours = [c for c in ours if c.opcode in (SEND, SEND_IMM)]
        sent = [int(w) for w in message_lengths(trace[0])]
    else:
        sent = [len(data) for iface, out, data, _ in trace[0] if iface == 0 and out]
    text = ['shape ' + ' '.join(f'{k}={v}' for k, v in shape.items())] + expect(batches, shape, sent, ours)
    return text, ring


def message_lengths(packets_of_sender):
    """Bytes of each message, from the sender's WQEs: control segment, data segment."""
    for iface, _, wqe, _ in packets_of_sender:
        if iface == 1 and wqe[3] in (0x0a, 0x0b) and len(wqe) >= 32:
            yield struct.unpack_from('>I', wqe, 16)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--build', default=os.path.join(ROOT, 'build'))
    parser.add_argument('--out', default=os.path.join(ROOT, 'tests', 'unit', 'port', 'mlx5', 'traces'))
    parser.add_argument('case', nargs='*', default=list(CASES))
    args = parser.parse_args()
    for name in args.case:
        with tempfile.TemporaryDirectory(prefix='spw-') as folder:
            text, ring = run_case(name, CASES[name], args.build, folder)
            with open(ring, 'rb') as f, open(os.path.join(args.out, name + '.cq'), 'wb') as to:
                to.write(f.read())
        with open(os.path.join(args.out, name + '.txt'), 'w') as to:
            to.write('\n'.join(text) + '\n')
        print(f'{name}: {len(text)} lines')


main()
