#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""with-softhca refuses what cannot be before it starts COMMAND: one line that names the option, exit status 1."""
import peers

WRONG = [('--fault', 'lost=1'), ('--fault', 'loss=2'), ('--fault', 'delay=1'), ('--cable', 'shm:'),
         ('--cable', 'shm:a/b'),
         ('--cable', 'afpacket:nosuch0'), ('--netdev', 'nosuch0'), ('--clock', 'ppm=9999'), ('--clock', 'what=1'),
         ('--control', '/nonexistent/c'), ('--trace', '/nonexistent/t'), ('--fault', 'at=1s:nosuch'),
         ('--fault', 'at=1s:link-down=2'),
         ('--fault', 'at=1s:qp-error'), ('--fault', 'at=1s:kill=9'), ('--fault', 'at=soon:kill'),
         ('--cable', 'unix:/tmp/only'),
         ('--cable', 'unix:/nonexistent/a,/tmp/b'), ('--cable', 'unix:/etc/passwd,/tmp/b'),
         ('--cable', f"unix:/tmp/{'a' * 120},/tmp/b"),
         ('--cable', 'udp:'), ('--cable', 'udp:127.0.0.1:65536'), ('--cable', 'udp:no-such-host.invalid'),
         ('--as', 'cx9'), ('--rate', '0'), ('--rate', 'port=0'), ('--rate', 'pcie=-1'), ('--rate', 'card,port=1'),
         ('--rate', 'pause=off'), ('--rate', 'pcie=1,pause=on'),
         ('--fault', 'link-speed=30'), ('--fault', 'port-rate=0'), ('--fault', 'flap=1s'), ('--fault', 'flap=soon:1s'),
         ('--fault', 'flap=1ms:1s')]


def main():
    for option, value in WRONG:
        text = peers.run(peers.Fabric().argv(['echo', 'started'], option, value), 30, status=1)
        if 'started' in text or len(text.strip().splitlines()) != 1 or not text.startswith(f'with-softhca: {option}'):
            raise peers.Failed(f'{option} {value}: {text}')


peers.main(main)
