#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""needs.py PLUGIN: what NCCL's process gets with the plugin: its tables, and no library that it would not expect:
no DPDK, no CUDA."""
import re
import subprocess
import sys

MAY_NEED = {'libibverbs', 'libmlx5', 'libnettle', 'libhwloc', 'libjansson', 'libdeflate', 'libnuma', 'libc',
            'libm', 'libpthread', 'libdl', 'ld-linux-x86-64', 'ld-linux-aarch64'}


def readelf(*args):
    return subprocess.run(['readelf', '--wide', *args, sys.argv[1]], capture_output=True, text=True, check=True).stdout


def main():
    needed = re.findall(r'\(NEEDED\).*\[([^]]+?)\.so[.\d]*\]', readelf('--dynamic'))
    assert needed and set(needed) <= MAY_NEED, f'needs {sorted(set(needed) - MAY_NEED)}'
    rows = [line.split() for line in readelf('--dyn-syms').splitlines()]
    exported = {row[7] for row in rows if len(row) >= 8 and row[4] in ('GLOBAL', 'WEAK') and row[6] != 'UND'}
    tables = {f'ncclNetPlugin_v{v}' for v in range(8, 13)} | {f'ncclProfiler_v{v}' for v in range(2, 7)}
    assert exported == tables, f'exports {sorted(exported)}'
    asked = {row[7] for row in rows if len(row) >= 8 and row[6] == 'UND'}
    foreign = sorted(name for name in asked if re.match(r'rte_|cuda|cu[A-Z]|exit|abort|printf', name)
                     and not name.startswith('__'))
    assert not foreign, f'asks for {foreign}'


main()
