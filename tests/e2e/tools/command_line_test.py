#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A wrong command line of any program is one line that names the option and says what to do, before anything is started
or written. Exit status 1; 2 where a file or the machine, not the words, are at fault."""
import os
import re
import shlex
import shutil
import subprocess

import spwtest
from spwtest import check, equal, spwlab

TOOLS = spwlab.TOOLS


def run_own(program):
    return lambda text: [spwlab.program(program), *shlex.split(text)]


def tool(name):
    return lambda text: [os.path.join(TOOLS, name), *shlex.split(text)]


def behind(program):
    """A program of EAL: its own words follow "--"."""
    return lambda text: [spwlab.program(program), "--no-huge", "--", *shlex.split(text)]


SPINWIRE, BARE = behind("spinwire"), run_own("spinwire")
GEN, DOCTOR, PERF = behind("spinwire-gen"), run_own("spinwire-doctor"), run_own("spinwire-perf")
RUN, PROFILE, TOP = tool("main_job"), tool("profile"), tool("spinwire-top")
EXPORTER, SOFTHCA, DRAW, TEST = tool("exporter"), tool("with-softhca"), tool("draw"), tool("run_tests")
PERF_REPORT, COLLECTIVES = tool("perf-report"), tool("perf-collectives")

CASES = [
    # options that there are not
    (SPINWIRE, "--port null --secons 1", "--secons: no such option, did you mean --seconds"),
    (SPINWIRE, "--port null --sloth=3", "--sloth: no such option, did you mean --slo"),
    (SPINWIRE, "--port null --versoin", "did you mean --version"),
    (SPINWIRE, "--port null --nothing-like-it 3", "--nothing-like-it: no such option"),
    (SPINWIRE, "null", "'null' is not an option"),
    (SPINWIRE, "--port null -s 3", "'-s' is not an option"),
    (SPINWIRE, "--port null -qv", "'-qv' is not an option"),
    (SPINWIRE, "--port null -q -v", "--quiet and --verbose exclude each other"),
    (GEN, "--port null -v --quiet", "--quiet and --verbose exclude each other"),
    (DOCTOR, "-q -v", "--quiet and --verbose exclude each other"),
    (PERF, "-q -v 127.0.0.1:1", "--quiet and --verbose exclude each other"),
    (BARE, "--replay /none -q -v", "--quiet and --verbose exclude each other"),
    (SPINWIRE, "--port null --quiet=1", "--quiet takes no value"),
    (GEN, "--port null --stats-period -1", "--stats-period: '-1' is not allowed"),
    (GEN, "--port null --rte 1Mpps", "--rte: no such option, did you mean --rate"),
    (GEN, "--port null --warmup 1s", "--warmup: no such option, did you mean --warm-up"),
    (DOCTOR, "--recipt x", "--recipt: no such option, did you mean --receipt"),
    (DOCTOR, "--fact", "--fact: no such option, did you mean --facts"),
    (PERF, "--tiem 40ms", "--tiem: no such option, did you mean --time"),
    (PERF, "--rail mlx5_0", "--rail: no such option, did you mean --rails"),
    (RUN, "--secons 3", "--secons: no such option, did you mean --seconds"),
    (RUN, "--memry host", "--memry: no such option, did you mean --memory"),
    (PROFILE, "--step 3", "--step: no such option, did you mean --steps"),
    (RUN, "--seconds 1 --port null", "--port: tools/run chooses spinwire's port itself; --device NAME names a card"),
    (PROFILE, "--config=config/try.yaml", "--config: tools/profile chooses spinwire's port itself"),
    (TOP, "--evry 2", "--evry: no such option, did you mean --every"),
    (EXPORTER, "--lisen 127.0.0.1:1", "--lisen: no such option, did you mean --listen"),
    (SOFTHCA, "--sped 100 true", "--sped: no such option, did you mean --speed"),
    # commands that there are not
    (DOCTOR, "paln", "'paln': no such command, did you mean plan"),
    (DOCTOR, "recrod x", "did you mean record"),
    (DOCTOR, "idle x", "idle takes 0 files, not 1"),
    (PERF, "serve again", "'again': serve was given already"),
    (SOFTHCA, "nosuch", "nosuch: no such command"),
    # values: missing, negative, without a unit, with the wrong one, out of range
    (SPINWIRE, "--port null --seconds", "--seconds needs a value"),
    (SPINWIRE, "--port null --seconds -1", "--seconds: '-1' is not allowed"),
    (SPINWIRE, "--port null --seconds 3parsecs", "--seconds: '3parsecs' has the unknown unit 'parsecs'"),
    (SPINWIRE, "--port null --slow-threshold 100", "--slow-threshold: '100' has no unit"),
    (SPINWIRE, "--port null --slot-size 2048", "--slot-size: '2048' has no unit: 2048B?"),
    (SPINWIRE, "--port null --slot-size 1000B",
     "--slot-size: '1000B' is not allowed; allowed: 64B .. 64MiB, a multiple of 64"),
    (SPINWIRE, "--port null --burst 65", "--burst: '65' is not allowed; allowed: 1 .. 64"),
    (SPINWIRE, "--port null --batches 48", "a power of 2"),
    (SPINWIRE, "--port null --memory hots", "--memory: 'hots' is not allowed; allowed: auto, host"),
    (SPINWIRE, "--port null --stamps maybe", "--stamps: 'maybe' is not allowed; allowed: yes, no"),
    (SPINWIRE, "--port null --lcores 4-2", "--lcores: '4-2' is not allowed; allowed: core numbers"),
    (SPINWIRE, "--port null --slo 20@p99", "--slo 20@p99: '20' has no unit: 20ms?"),
    (SPINWIRE, "--port null --slo 20us", "--slo 20us: a time and a percentile, such as 20us@p99.9"),
    (SPINWIRE, "--port null --handler x.so", "(./x.so)"),
    (SPINWIRE, "--port null --handler ehco", "--handler: handler ehco: there are null, sum, crc32c and echo"),
    (SPINWIRE, "--port null --help=all", "--help takes no value"),
    (GEN, "--port null --seconds -1", "--seconds: '-1' is not allowed"),
    (GEN, "--port null --linger 1", "--linger: '1' has no unit: 1ms?"),
    (GEN, "--port null --flows 0", "--flows: '0' is not allowed; allowed: 1 .. "),
    (GEN, "--port null --size 10", "--size: 10 is out of range; 64 to 9600 bytes"),
    (GEN, "--port null --schedule burst", "--schedule: 'burst' is not a schedule"),
    (DOCTOR, "--measure --expect 25", "--expect: '25' has no unit: 25Gbps?"),
    (DOCTOR, "idle --seconds -1", "--seconds: '-1' is not allowed"),
    (DOCTOR, "cores none", "cores none: how many lcores"),
    (DOCTOR, "--near x", "--near belongs to cores"),
    (PERF, "--time 40", "--time: '40' has no unit: 40ms?"),
    (PERF, "--time 5ms", "--time: '5ms' is not allowed; allowed: 20ms .. 60s"),
    (PERF, "--sizes 64Q", "--sizes: '64Q': a size is 2 to 16G"),
    (PERF, "--rows wrote", "--rows: wrote: no such row; there are write, send, read"),
    (PERF, "--port", "--port needs a value"),
    (RUN, "--seconds -1", "--seconds: "),
    (RUN, "--rate 3parsecs", "--rate: '3parsecs' has the unknown unit 'parsecs'"),
    (TOP, "--every 100", "--every: '100' is not allowed; allowed: 0.1s .. 60s"),
    (EXPORTER, "--listen 9711", "'9711' is no ADDRESS:PORT"),
    (SOFTHCA, "--speed", "--speed needs a value"),
    # ports
    (SPINWIRE, "--port mlx5_0", "did you mean mlx5:mlx5_0"),
    (SPINWIRE, "--port nul", "did you mean null"),
    (SPINWIRE, "--port lo", "did you mean ethdev:net_af_packet0,iface=lo"),
    (SPINWIRE, "--port 0", "a port has no number; name its device: ethdev:0000:01:00.0"),
    (SPINWIRE, "--port ethdev:0", "a port has no number; name its device: ethdev:0000:01:00.0"),
    (GEN, "--port fault:ethdev:1", "a port has no number"),
    (SPINWIRE, "--port 0000:01:00.0,mtu=9000", "did you mean ethdev:0000:01:00.0,mtu=9000"),
    (SPINWIRE, "--port 01:00.0", "did you mean ethdev:01:00.0"),
    (GEN, "--port net_memif0,role=server", "did you mean ethdev:net_memif0,role=server"),
    (GEN, "--port nul:size=64", "did you mean null:size=64"),
    # EAL's side of "--"
    (BARE, "--port null --seconds 1",
     '--port stands before "--", where EAL\'s arguments are: spinwire -- --port null --seconds 1'),
    (BARE, "-l 0 --no-huge --port null", "spinwire -l 0 --no-huge -- --port null"),
    (BARE, "-l 0", 'follow "--"'),
    (run_own("spinwire-gen"), "--rate 1Mpps", '--rate stands before "--"'),
    (BARE, "--proc-type=secondary -- --port null", "--proc-type: 'secondary' is not allowed"),
    (BARE, "--proc-type auto -- --port null", "--proc-type: 'auto' is not allowed"),
    (BARE, "--proc=secondary --no-huge -- --port null", "its own --file-prefix"),
    (run_own("spinwire-gen"), "--proc-type=secondary -- --port null", "--proc-type: 'secondary' is not allowed"),
    (BARE, "-l foo -- --port null", "-l: 'foo' is no list of cores, as 0-2,4"),
    (BARE, "-l 3-1 -- --port null", "-l: '3-1' is no list of cores"),
    (BARE, "-l 0-, -- --port null", "-l: '0-,' is no list of cores"),
    (BARE, "-l9999 -- --port null", "-l: '9999' is no list of cores"),
    (BARE, "--lcores (0,1 -- --port null", "--lcores: '(0,1' is no list of cores, as 0-2,4 or 0@8,1@9"),
    (BARE, "--lcores=0@x -- --port null", "--lcores: '0@x' is no list of cores"),
    (BARE, "-c zz -- --port null", "-c: 'zz' is no mask of cores, as 0x13"),
    (BARE, "-c 0x0 -- --port null", "-c: '0x0' is no mask of cores"),
    (BARE, "-l 0 --main-lcore 7 -- --port null", "--main-lcore: '7' is none of the lcores 0"),
    (BARE, "--main-lcore=x -- --port null", "--main-lcore: 'x' is none of the lcores"),
    (run_own("spinwire-gen"), "-l 0,1, -- --port null", "-l: '0,1,' is no list of cores"),
    # EAL's side of "--", and its arguments on the other one
    (SPINWIRE, "--port null -l 0",
     "-l is EAL's, whose arguments stand before \"--\": spinwire --no-huge -l 0 -- --port null"),
    (SPINWIRE, "--port null -l0-2 --burst 3", "spinwire --no-huge -l0-2 -- --port null --burst 3"),
    (SPINWIRE, "--port null --file-prefix x --burst 3", "spinwire --no-huge --file-prefix x -- --port null --burst 3"),
    (SPINWIRE, "--vdev=net_null0 --port ethdev:net_null0", "--no-huge --vdev=net_null0 -- --port ethdev:net_null0"),
    (SPINWIRE, "--port null --lcores auto", "--lcores is EAL's, whose arguments stand before"),
    (GEN, "--port null --no-huge --rate 1Mpps", "-- --port null --rate 1Mpps"),
    (BARE, "-l -- --port null", "-l needs a value; it is EAL's"),
    (BARE, "--file-prefix -- --port null", "--file-prefix needs a value"),
    (BARE, "--no-huge --sconds 1 -- --port null", "--sconds: no such option of EAL's; did you mean --seconds"),
    (run_own("spinwire-gen"), "--rte=1 -- --port null", "did you mean --rate, behind \"--\"?"),
    # what is empty, as of a script's variable that is not set; numbers that are none
    (SPINWIRE, "--port ''", "--port: '' is not allowed"),
    (SPINWIRE, "--port null --json ''", "--json: '' is not allowed"),
    (SPINWIRE, "--port null --seconds ''", "--seconds: '' is not a number"),
    (SPINWIRE, "--port null --seconds 1e3", "--seconds: '1e3' has the unknown unit 'e3'"),
    (SPINWIRE, "--port null --seconds 1,5", "--seconds: '1,5' has the unknown unit ',5'"),
    (SPINWIRE, "--port null --seconds 99999999999999999999", "is not allowed; allowed: 0 .. 31622400s"),
    (SPINWIRE, "--port null --burst 3.5", "--burst: '3.5' is not a whole number"),
    (SPINWIRE, "--port null --frames -5", "--frames: '-5' is not allowed"),
    (SPINWIRE, "--port null --slots 1T", "--slots: '1T' is not a whole number"),
    (SPINWIRE, "--port null --slow-threshold 10\u00b5s", "has the unknown unit '\u00b5s'; allowed: ns, us, ms"),
    (SPINWIRE, "--port null --s\u00e9conds 1", "--s\u00e9conds: no such option, did you mean --seconds"),
    (SPINWIRE, "--port null --slo 20us@p99,9", "--slo 20us@p99,9: p99,9 is not p1 .. p99.999"),
    (SPINWIRE, "--port null --executor gpu", "--executor: 'gpu' is not allowed; allowed: auto, inline, cpu"),
    (SPINWIRE, "--port null --lcores 1,1", "--lcores: 2 lcores for 1 queues"),
    (GEN, "--port null --json ''", "--json: '' is not allowed; it takes a FILE"),
    (GEN, "--port null --rate 0", "--rate: 0 frames/s is out of range"),
    (GEN, "--port null --rate 10Gbps", "--rate: '10Gbps' has the unknown unit 'Gbps'; allowed: pps"),
    (GEN, "--port null --rate 99999Mpps", "--rate: 9.9999e+10 frames/s is out of range"),
    (GEN, "--port null --dst-mac 02:00:00:00:00", "--dst-mac: '02:00:00:00:00' is not a MAC address"),
    (GEN, "--port null --dst-ip fe80::1", "--dst-ip: 'fe80::1' is not an IPv4 address"),
    (GEN, "--port null --seconds 1 --warm-up 2s", "--warm-up: must be shorter than --seconds"),
    (GEN, "--rate 1Mpps", "--port: is missing"),
    (DOCTOR, "idle --seconds 1h", "--seconds: '1h' has the unknown unit 'h'"),
    (DOCTOR, "idle --cores 3-1", "--cores: '3-1' is not allowed; allowed: core numbers"),
    (DOCTOR, "idle --cores 1023 --seconds 10ms", "--cores: core 1023: this process may not use it"),
    (DOCTOR, "--measure --expect 25GB", "--expect: '25GB' has the unknown unit 'GB'"),
    (DOCTOR, "cores", "cores N: how many lcores"),
    (DOCTOR, "cores 0", "cores 0: how many lcores, 1 to"),
    (DOCTOR, "plan --peer ''", "--peer: '' is not allowed; it takes a HOST"),
    (DOCTOR, "plan --peer a --peer b --peer c", "--peer: more than 2: a plan is for two machines, or three"),
    (DOCTOR, "--measure --peer a --peer b", "--measure is to one --peer"),
    (PERF, "--rows ''", "--rows: there is no row in it"),
    (PERF, "--time -1ms", "--time: '-1ms' is not allowed; allowed: 20ms .. 60s"),
    (PERF, "127.0.0.1:99999", "127.0.0.1:99999: '99999' is no TCP port, 0 .. 65535"),
    (PERF, "127.0.0.1:abc", "'abc' is no TCP port"),
    (PERF, "serve --port 99999", "--port: '99999' is not allowed; allowed: 0 .. 65533"),
    (PERF, "--ssh -oProxyCommand=x", "--ssh -oProxyCommand=x: is no name of a host"),
    (RUN, "--seconds", "--seconds needs a value: how long"),
    (RUN, "--out ''", "--out: '' is not allowed; it takes a DIR"),
    (RUN, "--ethdev=yes", "--ethdev takes no value"),
    (RUN, "--explain 3", "--explain: '3' is no FLOW:NUMBER, as in 3:1234"),
    (RUN, "--slot-size 2048", "--slot-size: '2048' has no unit: 2048B?"),
    (RUN, "--handler nosuch", "--handler: handler nosuch: there are null"),
    (RUN, "--slo 20@p99", "--slo 20@p99: '20' has no unit"),
    (PROFILE, "--seconds 1h", "--seconds: '1h' has the unknown unit 'h'"),
    (PROFILE, "--steps 2.5", "--steps: '2.5' is not a number"),
    (PROFILE, "--size 10", "--size: 10 is out of range; 64 to 9600"),
    (PROFILE, "--schedule burst", "--schedule: 'burst' is not a schedule"),
    (PROFILE, "--flows 0", "--flows: '0' is not allowed"),
    (PROFILE, "--carries 0", "--carries: '0' is not allowed"),
    (TOP, "--every", "--every needs a value: 0.1 to 60"),
    (EXPORTER, "--listen 999.1.1.1:9711", "--listen: '999.1.1.1' does not appear to be an IPv4 or IPv6 address"),
    (SOFTHCA, "--fault '' true", "--fault: '' is not allowed"),
    (SOFTHCA, "--devices 99 true", "--devices 99: want a number from 1 to 8"),
    (SOFTHCA, "--fault los=0.1 true", "fault \"los\": use loss dup"),
    (SOFTHCA, "--as nosuch true", "--as nosuch: want cx4lx, cx5"),
    (TEST, "--variant x", "--variant: 'x' is not allowed; allowed: 'plain'"),
    (COLLECTIVES, "abc h 1", "rank: 'abc' is not a number"),
    # words that are missing, or one too many
    (SPINWIRE, "--port null extra", "'extra' is not an option"),
    (SPINWIRE, "--config a.yaml --config b.yaml", "--config: is given twice"),
    (DOCTOR, "record", "record takes 1 file, not 0"),
    (DOCTOR, "diff a b c", "diff takes 2 files, not 3"),
    (DOCTOR, "plan", "plan is for two machines, or three: plan --peer HOST|FILE"),
    (DOCTOR, "measure", "'measure': no such command, did you mean --measure"),
    (PERF, "127.0.0.1 127.0.0.2", "a HOST was given already"),
    (RUN, "extra", "'extra' is not an option"),
    (TOP, "a b", "'b' is not an option"),
    (EXPORTER, "extra", "'extra' is not an option"),
    (SOFTHCA, "--devices 2", "COMMAND is missing"),
    (SOFTHCA, "-x true", "-x: no such option"),
    (DRAW, "extra", "'extra' belongs to --report HTML PNG"),
    (DRAW, "--chek", "--chek: no such option, did you mean --check"),
    (TEST, "--al", "--al: no such option, did you mean --all"),
    (TEST, "extra", "'extra' is not an option"),
    (PERF_REPORT, "", "JSON, HTML is missing"),
    (PERF_REPORT, "a b c", "'c' is not an option"),
    # what excludes, or belongs to, something else
    (DOCTOR, "--expect 25Gbps", "--expect belongs to --measure"),
    (DOCTOR, "--peer x", "--peer belongs to plan and --measure"),
    (PERF, "--ssh host 127.0.0.1", "HOST and --ssh exclude each other"),
    (PERF, "serve --json x", "serve measures for the other end"),
    (PERF, "--json - --csv -", "stdout can take one of them"),
    (RUN, "--device mlx5_0 --ethdev", "--ethdev and --device exclude each other"),
    (RUN, "--peer mlx5_1", "--peer is the other end of --device NAME"),
    (RUN, "--device nosuch0", "--device nosuch0: no such RDMA device"),
    (RUN, "-l 0", "-l is EAL's: tools/run gives those itself"),
    (PROFILE, "--render", "--render wants --out DIR"),
    (DRAW, "--check --report x", "exclude each other"),
    (SPINWIRE, "--replay x", "--replay: takes no \"--\" and no EAL arguments"),
    (BARE, "--replay empty --port null", "--port: not with --replay"),
    # ports
    (SPINWIRE, "--port null,size=64", "did you mean null:size=64"),
    (SPINWIRE, "--port ethdev:net_\u00fc0", "port 'ethdev:net_\u00fc0', character 12: not a printable ASCII"),
    (SPINWIRE, "--port null:seize=64", "key 'seize' is not known, did you mean 'size'?"),
    (SPINWIRE, "--port null:size=0", "size=0 is not in 46 .. 65535"),
    (SPINWIRE, "--port null:rate=10Mbps", "rate=10Mbps is no number (suffixes: k, M, G)"),
    (SPINWIRE, "--port fault:null,sise=64,fault_do=tx_spin", "key 'sise' is not known"),
    (GEN, "--port null:seize=64", "key 'seize' is not known"),
    (SPINWIRE, "--port rails:null", "1 rail: use rails:PORT+PORT"),
    (GEN, "--port mlx5_0", "did you mean mlx5:mlx5_0"),
    # files that are not there, a folder, empty, or no text of the kind
    (SPINWIRE, "--port null --handler ./nosuch.so:a=1", "--handler: ./nosuch.so: No such file or directory"),
    (SPINWIRE, "--port null --handler ./folder", "--handler: ./folder: is no file"),
    (RUN, "--handler ./nosuch.so", "--handler: ./nosuch.so: No such file or directory"),
    (SPINWIRE, "--port null --handler notes.md", "a plug-in is named by its path (./NAME.so)"),
    (SPINWIRE, "--config nosuch.yaml", "nosuch.yaml: No such file or directory"),
    (SPINWIRE, "--config folder", "folder: is a folder"),
    (SPINWIRE, "--config empty", "empty:1:1: the file is empty"),
    (SPINWIRE, "--config binary", "binary:1:1: control characters are not allowed"),
    (SPINWIRE, "--config run.toml", "run.toml:1:1: a list where a mapping (key: value, in YAML or JSON) is wanted"),
    (SPINWIRE, "--config typo.json", "typo.json:3:15: unknown key 'knid' in executor, did you mean 'kind'"),
    (SPINWIRE, "--config comma.json", "comma.json:3:2: did not find expected ',' or '}'"),
    (BARE, "--replay nosuch", "nosuch: No such file or directory"),
    (BARE, "--replay empty", "empty: no recording of spinwire --record"),
    (GEN, "--port null --schedule capture", "name the file with --capture FILE"),
    (GEN, "--port null --schedule capture --capture nosuch.pcap", "--capture nosuch.pcap: No such file or directory"),
    (DOCTOR, "plan --peer nosuch.json", "--peer: 'nosuch.json' is neither a file nor the name of a host"),
    (DOCTOR, "diff empty empty", "empty: is empty"),
    (DOCTOR, "replay nosuch", "nosuch: cannot read: No such file or directory", 2),
    (PERF, "serve --secret nosuch", "the secret nosuch: No such file or directory"),
    (RUN, "--config nosuch.yaml", "tools/run chooses spinwire's port itself"),
    (RUN, "--explain 1:2 --out folder", "--explain: folder has no report of a run", 2),
    (RUN, "--out empty", "--out empty: it is there, and no folder", 2),
    (PROFILE, "--out empty", "--out empty: it is there, and no folder"),
    (PROFILE, "--render --out folder", "--render: folder has no profile.json"),
    (PERF_REPORT, "nosuch page.html", "nosuch: No such file or directory", 2),
    (PERF_REPORT, "empty page.html", "empty: no JSON", 2),
    (PERF_REPORT, "typo.json page.html", "typo.json: is no spinwire.perf", 2),
    (DRAW, "--report nosuch.html", "nosuch.html: no such report"),
    (SOFTHCA, "./empty", "./empty: is a folder, or a file that may not be run"),
    # outputs that cannot be written
    (SPINWIRE, "--port null --json folder", "--json: folder: cannot write: Is a directory", 2),
    (SPINWIRE, "--port null --json /nosuch/x", "--json: /nosuch/x: cannot write: No such file or directory", 2),
    (SPINWIRE, "--port null --hdr -", "--hdr: -: this output does not go to stdout; name a file", 2),
    (SPINWIRE, "--port null --capture folder", "--capture: folder: cannot write: Is a directory", 2),
    (SPINWIRE, "--port null --record folder", "--record: folder: cannot write", 2),
    (SPINWIRE, "--port null --trail -", "--trail: -: this output does not go to stdout", 2),
    (GEN, "--port null --hdr folder", "--hdr: folder: cannot write: Is a directory", 2),
    (GEN, "--port null --json /nosuch/x", "--json: /nosuch/x: cannot write", 2),
    (DOCTOR, "record folder", "record: folder: cannot write: Is a directory", 2),
    (DOCTOR, "record /dev/full", "record: /dev/full: cannot write: No space left on device", 2),
    (DOCTOR, "--receipt /nosuch/x", "--receipt: /nosuch/x: cannot write", 2),
    (DOCTOR, "--json folder", "--json: folder: cannot write", 2),
    (PERF, "--html folder", "--html: folder: cannot write", 2),
    (PERF, "--csv /nosuch/x", "--csv: /nosuch/x: cannot write", 2),
    (RUN, "--json folder --out .", "cannot write folder: it is a folder", 2),
    (SOFTHCA, "--trail folder true", "--trail folder: is a folder"),
    (SOFTHCA, "--control /nosuch/x true", "--control /nosuch/x: the folder cannot be written"),
    (DRAW, "--report empty /nosuch/x.png", "cannot write /nosuch/x.png"),
]


if "mlx5" in spwlab.help_of("spinwire"):
    CASES += [
        (SPINWIRE, "--port mlx5:", "no device: use mlx5:mlx5_0,mode=eth (ibv_devices lists them)"),
        (SPINWIRE, "--port mlx5:mlx5_0,mode=eht", "mode=eht is not known: use mode=eth or mode=rc"),
        (SPINWIRE, "--port mlx5:mlx5_0,udp=99999", "udp=99999 is no number in 1 .. 65535"),
        (SPINWIRE, "--port mlx5:mlx5_0,mode=rc", "mode=rc needs listen=ADDR:PORT or connect=ADDR:PORT"),
        (GEN, "--port verbs:rxe0,mode=rc,listen=10.0.0.1,peers=0.0.0.0/0",
         "'10.0.0.1' is no address: use 10.0.0.1:7000"),
        (SPINWIRE, "--port rails:mlx5:a,mode=eht+mlx5:b", "mode=eht is not known"),
    ]
FILES = {"empty": b"", "binary": b"\0\1\2", "run.toml": b"[run]\nseconds = 1\n",
         "typo.json": b'{\n "ports": [{"spec": "null"}],\n "executor": {"knid": "cpu"}\n}\n',
         "comma.json": b'{\n "ports": [{"spec": "null"}]\n "run": {"seconds": 1}\n}\n'}


def refused(tools):
    with spwlab.scratch() as folder:
        os.mkdir(os.path.join(folder, "folder"))
        for name, data in FILES.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        before = sorted(os.listdir(folder))
        for command, text, words, *status in CASES:
            cmd = command(text)
            if cmd[0].startswith(TOOLS) != tools or not os.path.exists(cmd[0]):
                continue  # this build has not the program
            done = subprocess.run(cmd, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=60, check=False)
            where = f"{os.path.basename(cmd[0])} {text}: status {done.returncode}\n{done.stdout}{done.stderr}"
            equal((done.returncode, done.stderr.count("\n"), done.stdout), (*(status or (1,)), 1, ""), where)
            check(words in done.stderr, f"{words!r} is not in\n{where}")
        equal(sorted(os.listdir(folder)), before, "files that were written")


def test_wrong():
    refused(tools=False)


def test_wrong_tools():
    refused(tools=True)


def test_before_it_is_built():
    """In a tree that is not built a wrong option is refused before anything is installed or compiled."""
    with spwlab.scratch() as folder:
        shutil.copytree(TOOLS, os.path.join(folder, "tools"))
        for name in ("app", "lib", "meson.build"):
            os.symlink(os.path.join(TOOLS, "..", name), os.path.join(folder, name))
        builder = os.path.join(folder, "tools", "lib", "build_tree")
        with open(builder, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 99\n")
        env = {key: value for key, value in os.environ.items() if not key.startswith("SPINWIRE")}
        for name in ("run", "profile"):
            for words, status, says in (("--secons 3", 1, "--secons: no such option, did you mean --seconds; "),
                                        ("--memry host", 1, "--memry: no such option, did you mean --memory; "),
                                        ("--seconds 3 --slots 64", 99, "")):
                done = subprocess.run([os.path.join(folder, "tools", name), *words.split()], env=env, cwd=folder,
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
                says = says and f"tools/{name}: error: {says}tools/{name} --help lists them\n"
                equal((done.returncode, done.stderr), (status, says), f"tools/{name} {words}")


def test_options_in_the_sources():
    """What tools/run knows of spinwire's options before it is built is what spinwire has."""
    listed = subprocess.run([spwlab.program("spinwire"), "--help-all"], capture_output=True, text=True, timeout=60,
                            check=True).stdout
    common = {"--help", "--help-all", "--version"}
    equal(spwlab.source_options() - common, set(re.findall(r"^ *(?:-\w, )?(--[a-z-]+)", listed, re.M)) - common,
          "options in the sources, and of spinwire")


def test_check_starts_nothing():
    """--check is quick, says that a good command line is good, and leaves no file."""
    with spwlab.scratch() as folder:
        for command in (SPINWIRE("--port null --json x.json --check"), GEN("--port null --hdr x.hlog --check")):
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=60, check=False)
            name = os.path.basename(command[0])
            equal((done.returncode, done.stdout, done.stderr),
                  (0, f"{name}: the command line is good; nothing was started\n", ""), name)
        equal(os.listdir(folder), [], "files that were written")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
