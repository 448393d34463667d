#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The checker is judged on litmus tests whose outcome under Arm is published: by Pulte et al. (POPL 2018) and their
companion pages, in herdtools' catalogue for AArch64, in Alglave et al., "Herding cats" (TOPLAS 2014), and in Arm ARM's
appendix on barriers. The programs are written here anew.

  Wx=1     store 1 to x          WLx=1    stlr           Wx=1#a  with data that depends on a    Wx=1@a  at an address
  that does
  Ra=x     load x into a         RAa=x    ldar           RQa=x   ldapr                          Ra=x@b  at an address
  that depends on b
  Xa=x,1   exchange, exclusives  XALa=x,1 ldaxr, stlxr   SALa=x,1 swpal                         +a=x,1  add, exclusives
  ?a       a branch on a"""
import re
import sys
import time

from arm_model import find

FENCE = {"dmb": "dmb sy", "dmb.st": "dmb st", "dmb.ld": "dmb ld", "isb": "isb"}
ACCESS = re.compile(r"([WRXS+])([ALQ]*)([a-z])=([a-z0-9]),?(\d?)(?:@([a-z]))?(?:#([a-z]))?$")
ALLOWED, FORBIDDEN = True, False

LITMUS = [
    # coherence: one location
    ("CoRR", "Wx=1 | Ra=x Rb=x", "a=1 b=0", FORBIDDEN),
    ("CoWW", "Wx=1 Wx=2", "[x]=1", FORBIDDEN),
    ("CoRW1", "Ra=x Wx=1", "a=1", FORBIDDEN),
    ("CoRW2", "Ra=x Wx=1 | Wx=2", "a=2 [x]=2", FORBIDDEN),
    ("CoWR", "Wx=1 Ra=x | Wx=2", "a=2 [x]=1", FORBIDDEN),
    ("CoWR0", "Wx=1 Ra=x", "a=0", FORBIDDEN),
    # message passing
    ("MP", "Wx=1 Wy=1 | Ra=y Rb=x", "a=1 b=0", ALLOWED),
    ("MP+dmbs", "Wx=1 dmb Wy=1 | Ra=y dmb Rb=x", "a=1 b=0", FORBIDDEN),
    ("MP+dmb.st+dmb.ld", "Wx=1 dmb.st Wy=1 | Ra=y dmb.ld Rb=x", "a=1 b=0", FORBIDDEN),
    ("MP+dmb.st+addr", "Wx=1 dmb.st Wy=1 | Ra=y Rb=x@a", "a=1 b=0", FORBIDDEN),
    ("MP+dmb+po", "Wx=1 dmb Wy=1 | Ra=y Rb=x", "a=1 b=0", ALLOWED),
    ("MP+po+dmb", "Wx=1 Wy=1 | Ra=y dmb Rb=x", "a=1 b=0", ALLOWED),
    ("MP+dmb.ld+dmb", "Wx=1 dmb.ld Wy=1 | Ra=y dmb Rb=x", "a=1 b=0", ALLOWED),
    ("MP+dmb+dmb.st", "Wx=1 dmb Wy=1 | Ra=y dmb.st Rb=x", "a=1 b=0", ALLOWED),
    ("MP+dmb+ctrl", "Wx=1 dmb Wy=1 | Ra=y ?a Rb=x", "a=1 b=0", ALLOWED),
    ("MP+dmb+isb", "Wx=1 dmb Wy=1 | Ra=y isb Rb=x", "a=1 b=0", ALLOWED),
    ("MP+dmb+ctrlisb", "Wx=1 dmb Wy=1 | Ra=y ?a isb Rb=x", "a=1 b=0", FORBIDDEN),
    ("MP+rel+acq", "Wx=1 WLy=1 | RAa=y Rb=x", "a=1 b=0", FORBIDDEN),
    ("MP+rel+acqpc", "Wx=1 WLy=1 | RQa=y Rb=x", "a=1 b=0", FORBIDDEN),
    ("MP+rel+po", "Wx=1 WLy=1 | Ra=y Rb=x", "a=1 b=0", ALLOWED),
    ("MP+po+acq", "Wx=1 Wy=1 | RAa=y Rb=x", "a=1 b=0", ALLOWED),
    ("MP+rel1st+acq", "WLx=1 Wy=1 | RAa=y Rb=x", "a=1 b=0", ALLOWED),  # a release orders what is before it
    ("MP+rel+acq2nd", "Wx=1 WLy=1 | Ra=y RAb=x", "a=1 b=0", ALLOWED),  # an acquire what is after it
    # store buffering
    ("SB", "Wx=1 Ra=y | Wy=1 Rb=x", "a=0 b=0", ALLOWED),
    ("SB+dmbs", "Wx=1 dmb Ra=y | Wy=1 dmb Rb=x", "a=0 b=0", FORBIDDEN),
    ("SB+dmb+po", "Wx=1 dmb Ra=y | Wy=1 Rb=x", "a=0 b=0", ALLOWED),
    ("SB+dmb.sts", "Wx=1 dmb.st Ra=y | Wy=1 dmb.st Rb=x", "a=0 b=0", ALLOWED),
    ("SB+dmb.lds", "Wx=1 dmb.ld Ra=y | Wy=1 dmb.ld Rb=x", "a=0 b=0", ALLOWED),
    ("SB+rel-acq", "WLx=1 RAa=y | WLy=1 RAb=x", "a=0 b=0", FORBIDDEN),  # RCsc
    ("SB+rel-acqpc", "WLx=1 RQa=y | WLy=1 RQb=x", "a=0 b=0", ALLOWED),  # RCpc
    ("SB+rfi-addrs", "Wx=1 Rc=x Ra=y@c | Wy=1 Rd=y Rb=x@d", "c=1 d=1 a=0 b=0", ALLOWED),
    # load buffering
    ("LB", "Ra=x Wy=1 | Rb=y Wx=1", "a=1 b=1", ALLOWED),
    ("LB+data+po", "Ra=x Wy=1#a | Rb=y Wx=1", "a=1 b=1", ALLOWED),
    ("LB+datas", "Ra=x Wy=1#a | Rb=y Wx=1#b", "a=1 b=1", FORBIDDEN),
    ("LB+addrs", "Ra=x Wy=1@a | Rb=y Wx=1@b", "a=1 b=1", FORBIDDEN),
    ("LB+ctrls", "Ra=x ?a Wy=1 | Rb=y ?b Wx=1", "a=1 b=1", FORBIDDEN),
    ("LB+acqs", "RAa=x Wy=1 | RAb=y Wx=1", "a=1 b=1", FORBIDDEN),
    ("LB+rels", "Ra=x WLy=1 | Rb=y WLx=1", "a=1 b=1", FORBIDDEN),
    ("LB+dmb.lds", "Ra=x dmb.ld Wy=1 | Rb=y dmb.ld Wx=1", "a=1 b=1", FORBIDDEN),
    ("LB+dmb.sts", "Ra=x dmb.st Wy=1 | Rb=y dmb.st Wx=1", "a=1 b=1", ALLOWED),
    ("LB+addrpo+data", "Ra=x Rc=z@a Wy=1 | Rb=y Wx=1#b", "a=1 b=1", FORBIDDEN),  # addr;po;[W]
    ("LB+datapo+data", "Ra=x Wz=1#a Wy=1 | Rb=y Wx=1#b", "a=1 b=1", ALLOWED),
    ("LB+data-rfi-data+data", "Ra=x Wz=1#a Rc=z Wy=1#c | Rb=y Wx=1#b", "a=1 c=1 b=1", FORBIDDEN),
    # S, R, 2+2W
    ("S", "Wx=2 Wy=1 | Ra=y Wx=1", "a=1 [x]=2", ALLOWED),
    ("S+dmb+po", "Wx=2 dmb Wy=1 | Ra=y Wx=1", "a=1 [x]=2", ALLOWED),
    ("S+dmb.st+data", "Wx=2 dmb.st Wy=1 | Ra=y Wx=1#a", "a=1 [x]=2", FORBIDDEN),
    ("S+dmb+ctrl", "Wx=2 dmb Wy=1 | Ra=y ?a Wx=1", "a=1 [x]=2", FORBIDDEN),
    ("S+rel+acq", "Wx=2 WLy=1 | RAa=y Wx=1", "a=1 [x]=2", FORBIDDEN),
    ("R", "Wx=1 Wy=1 | Wy=2 Ra=x", "a=0 [y]=2", ALLOWED),
    ("R+dmbs", "Wx=1 dmb Wy=1 | Wy=2 dmb Ra=x", "a=0 [y]=2", FORBIDDEN),
    ("R+dmb.st+dmb", "Wx=1 dmb.st Wy=1 | Wy=2 dmb Ra=x", "a=0 [y]=2", FORBIDDEN),
    ("R+dmb+dmb.st", "Wx=1 dmb Wy=1 | Wy=2 dmb.st Ra=x", "a=0 [y]=2", ALLOWED),
    ("2+2W", "Wx=1 Wy=2 | Wy=1 Wx=2", "[x]=1 [y]=1", ALLOWED),
    ("2+2W+dmb.st+po", "Wx=1 dmb.st Wy=2 | Wy=1 Wx=2", "[x]=1 [y]=1", ALLOWED),
    ("2+2W+dmb.sts", "Wx=1 dmb.st Wy=2 | Wy=1 dmb.st Wx=2", "[x]=1 [y]=1", FORBIDDEN),
    ("2+2W+rels", "Wx=1 WLy=2 | Wy=1 WLx=2", "[x]=1 [y]=1", FORBIDDEN),
    # several observers: Armv8 is multi-copy atomic
    ("WRC", "Wx=1 | Ra=x Wy=1 | Rb=y Rc=x", "a=1 b=1 c=0", ALLOWED),
    ("WRC+addrs", "Wx=1 | Ra=x Wy=1@a | Rb=y Rc=x@b", "a=1 b=1 c=0", FORBIDDEN),
    ("WRC+data+addr", "Wx=1 | Ra=x Wy=1#a | Rb=y Rc=x@b", "a=1 b=1 c=0", FORBIDDEN),
    ("WRC+po+addr", "Wx=1 | Ra=x Wy=1 | Rb=y Rc=x@b", "a=1 b=1 c=0", ALLOWED),
    ("WRC+rel+acq", "Wx=1 | Ra=x WLy=1 | RAb=y Rc=x", "a=1 b=1 c=0", FORBIDDEN),
    ("ISA2+dmb+addrs", "Wx=1 dmb Wy=1 | Ra=y Wz=1@a | Rb=z Rc=x@b", "a=1 b=1 c=0", FORBIDDEN),
    ("ISA2+rel+addr+po", "Wx=1 WLy=1 | Ra=y Wz=1@a | Rb=z Rc=x", "a=1 b=1 c=0", ALLOWED),
    ("RWC+addr+dmb", "Wx=1 | Ra=x Rb=y@a | Wy=1 dmb Rc=x", "a=1 b=0 c=0", FORBIDDEN),
    ("RWC+addr+po", "Wx=1 | Ra=x Rb=y@a | Wy=1 Rc=x", "a=1 b=0 c=0", ALLOWED),
    ("IRIW", "Wx=1 | Wy=1 | Ra=x Rb=y | Rc=y Rd=x", "a=1 b=0 c=1 d=0", ALLOWED),
    ("IRIW+addrs", "Wx=1 | Wy=1 | Ra=x Rb=y@a | Rc=y Rd=x@c", "a=1 b=0 c=1 d=0", FORBIDDEN),
    ("IRIW+dmbs", "Wx=1 | Wy=1 | Ra=x dmb Rb=y | Rc=y dmb Rd=x", "a=1 b=0 c=1 d=0", FORBIDDEN),
    ("IRIW+acqpcs", "Wx=1 | Wy=1 | RQa=x Rb=y | RQc=y Rd=x", "a=1 b=0 c=1 d=0", FORBIDDEN),
    ("IRIW+addr+po", "Wx=1 | Wy=1 | Ra=x Rb=y@a | Rc=y Rd=x", "a=1 b=0 c=1 d=0", ALLOWED),
    # a thread's own store, read before others see it
    ("PPOCA", "Wx=1 dmb Wy=1 | Ra=y ?a Wz=1 Rb=z Rc=x@b", "a=1 b=1 c=0", ALLOWED),
    ("PPODA", "Wx=1 dmb Wy=1 | Ra=y Wz=1#a Rb=z Rc=x@b", "a=1 b=1 c=0", FORBIDDEN),
    ("PPOAA", "Wx=1 dmb Wy=1 | Ra=y Wz=1@a Rb=z Rc=x@b", "a=1 b=1 c=0", FORBIDDEN),
    ("RSW", "Wx=1 dmb Wy=1 | Ra=y Rb=z@a Rc=z Rd=x@c", "a=1 d=0", ALLOWED),
    ("RDW", "Wx=1 dmb Wy=1 | Ra=y Rb=z@a Rc=z Rd=x@c | Wz=1", "a=1 b=0 c=1 d=0", FORBIDDEN),
    ("MP+dmb+addr-po-ctrlisb", "Wx=1 dmb Wy=1 | Ra=y Rb=z@a isb Rc=x", "a=1 c=0", FORBIDDEN),  # addr;po;[ISB]
    # atomic operations
    ("two adds", "+a=x,1 | +b=x,1", "[x]=1", FORBIDDEN),
    ("two exchanges", "Xa=x,1 | Xb=x,2", "a=0 b=0", FORBIDDEN),
    ("MP+exchangeAL+acq", "Wx=1 XALc=y,1 | RAa=y Rb=x", "a=1 b=0", FORBIDDEN),
    ("MP+exchangeAL first", "XALc=x,1 Wy=1 | RAa=y Rb=x", "a=1 b=0", ALLOWED),  # ldaxr, stlxr: the store may come later
    ("MP+swpal first", "SALc=x,1 Wy=1 | RAa=y Rb=x", "a=1 b=0", FORBIDDEN),  # one instruction: it may not
    ("SB+exchangeALs", "XALc=x,1 Ra=y | XALd=y,1 Rb=x", "a=0 b=0", ALLOWED),
    ("SB+swpals", "SALc=x,1 Ra=y | SALd=y,1 Rb=x", "a=0 b=0", FORBIDDEN),
    ("exclusive's rfi", "Wx=1 dmb Wy=1 | +a=y,1 RAb=y Rc=x", "a=1 b=2 c=0", FORBIDDEN),  # range(rmw);rfi;[A]
]


def step(thread, regs, token):
    if token in FENCE:
        thread.fence(FENCE[token])
        return
    if token[0] == "?":
        bool(regs[token[1]] == 1)
        return
    kind, order, left, right, val, addr, data = ACCESS.match(token).groups()
    if kind == "W":
        thread.store(left, int(right), order, addr=regs.get(addr), data=regs.get(data))
        return
    if kind == "R":
        regs[left] = thread.load(right, order, addr=regs.get(addr))
    elif kind == "+":
        regs[left] = thread.fetch_add(right, int(val), order)
    else:
        regs[left] = thread.exchange(right, int(val), order, amo=kind == "S")
    thread.reg(left, regs[left])


def thread_of(text):
    def run(thread):
        regs = {}
        for token in text.split():
            step(thread, regs, token)
    return run


def allowed(program, outcome):
    words = [word.split("=") for word in outcome.split()]
    regs = {name: int(val) for name, val in words if name[0] != "["}
    final = {name[1]: int(val) for name, val in words if name[0] == "["}
    return find([thread_of(text) for text in program.split("|")], lambda r: all(r[n] == v for n, v in regs.items()),
                final) is not None


def main():
    begin, wrong = time.monotonic(), []
    for name, program, outcome, published in LITMUS:
        if allowed(program, outcome) != published:
            wrong.append(f"{name}: {program}: {outcome} is {'allowed' if published else 'forbidden'}, the checker "
                         f"disagrees")
    print("\n".join(wrong + [f"{len(LITMUS)} litmus tests, {len(wrong)} wrong, {time.monotonic() - begin:.1f} s"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
