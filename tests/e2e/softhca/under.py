#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""under.py [--fault F]... [--option O=V]... [--says REGEX] PROGRAM [ARGS]: one program under tools/with-softhca.
--says: what its output must hold. The program may break strict rules."""
import argparse
import re

import peers
import strict


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--fault', action='append', default=[])
    parser.add_argument('--option', action='append', default=[], help='of with-softhca: NAME=VALUE')
    parser.add_argument('--seconds', type=float, default=280)
    parser.add_argument('--says', default='')
    parser.add_argument('program', nargs=argparse.REMAINDER)
    opt = parser.parse_args()
    strict.forgive()
    extra = [word for o in opt.option for word in ('--' + o.split('=', 1)[0], o.split('=', 1)[1])]
    text = peers.run(peers.Fabric(opt.fault, extra).argv(opt.program), opt.seconds)
    print(text)
    if not re.search(opt.says, text):
        raise peers.Failed(f'{opt.says!r} is not in the output')


peers.main(main)
