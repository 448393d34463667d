#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""under.py [--fault F]... [--option O=V]... PROGRAM [ARGS]: one program under tools/with-softhca."""
import argparse

import peers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--fault', action='append', default=[])
    parser.add_argument('--option', action='append', default=[], help='of with-softhca: NAME=VALUE')
    parser.add_argument('--seconds', type=float, default=280)
    parser.add_argument('program', nargs=argparse.REMAINDER)
    opt = parser.parse_args()
    extra = [word for o in opt.option for word in ('--' + o.split('=', 1)[0], o.split('=', 1)[1])]
    print(peers.run(peers.Fabric(opt.fault, extra).argv(opt.program), opt.seconds))


peers.main(main)
