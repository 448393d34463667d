# SPDX-License-Identifier: BSD-3-Clause
"""Command lines of the tools, as lib/opt and app/common/opt have them in C: quantities with units, one line for an
error with the name that was probably meant, --version, and for the build a man page and completion (--help-man,
--help-bash, --help-zsh)."""
import argparse
import contextlib
import fractions
import os
import re
import subprocess
import sys

TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
UNITS = {  # the factor of each unit; what may be meant by a number without one
    "none": ({}, ""),
    "bytes": ({"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}, "B"),
    "time": ({"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}, "ms"),
    "rate": ({"pps": 1, "kpps": 10**3, "Mpps": 10**6, "Gpps": 10**9}, "kpps"),
    "bits": ({"bps": 1, "kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9}, "Gbps")}
NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)(?:\.([0-9]{1,12}))?(.*)", re.S)


def version():
    """Of the tree, or of what was installed (its file is written by meson.build)."""
    try:
        with open(os.path.join(TOOLS, "lib", "version"), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        with open(os.path.join(TOOLS, "..", "meson.build"), encoding="utf-8") as file:
            return re.search(r"version: '([^']+)'", file.read()).group(1)


def quantity(text, kind, bare=0):
    """A whole number of bytes, ns, frames/s or bit/s: spw_opt_quantity() of lib/opt. ValueError says what is wrong.
    bare: what a number without a unit counts in; 0: it needs one."""
    units, likely = UNITS[kind]
    match = NUMBER.fullmatch(text)
    if not match or (match.group(2) and match.group(1)[:2] in ("0x", "0X")):
        raise ValueError(f"'{text}' is not a number")
    whole, part, unit = match.group(1), match.group(2) or "", match.group(3)
    names = ", ".join(units)
    if not unit and not bare:
        raise ValueError(f"'{text}' has no unit: {text}{likely}? allowed: {names}")
    if unit and unit not in units:
        raise ValueError(f"'{text}' has the unknown unit '{unit}'; allowed: {names}" if units
                         else f"'{text}' is not a whole number")
    value = (fractions.Fraction(int(whole, 0) if whole[:2] in ("0x", "0X") else int(whole))
             + fractions.Fraction(int(part or 0), 10 ** len(part))) * (
        units[unit] if unit else bare)
    if value.denominator != 1:
        raise ValueError(f"'{text}' is finer than one unit" if units else f"'{text}' is not a whole number")
    if value >= 1 << 64:
        raise ValueError(f"'{text}' is too large")
    return int(value)


def _of(kind, bare, low, high, scale, shown):
    """For argparse: a quantity from low to high, divided by scale."""
    def take(text):
        try:
            value = quantity(text, kind, bare) / scale
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is not allowed; allowed: {low:g}{shown} .. {high:g}{shown}")
        return value
    return take


def seconds(low, high):
    """--seconds 10, 500ms: a number of seconds. Only for options whose name or help says that a number is seconds."""
    return _of("time", 10**9, low, high, 1e9, "s")


def duration_ms(low, high):
    """40ms: a number of milliseconds; it needs a unit."""
    return _of("time", 0, low, high, 1e6, "ms")


def rate(low, high):
    """200kpps, or a number of frames a second."""
    return _of("rate", 1, low, high, 1, "pps")


def _distance(a, b):
    """Fewest insertions, deletions and replacements between two words (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            corner, row[j] = row[j], min(corner + (letter != other), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def nearest(word, names):
    """The name that was probably meant, as in lib/opt: at most a third of the word, plus one letter, must change."""
    word = word.lstrip("-")
    best = min(names, key=lambda name: _distance(word, name.lstrip("-")), default=None)
    return best if best is not None and _distance(word, best.lstrip("-")) < len(word) // 3 + 2 else None


def no_such(word, names, program):
    """The line for an option that there is not."""
    name = word.partition("=")[0]
    meant = nearest(name, names)
    return f"{name}: no such option{f', did you mean {meant}' if meant else ''}; {program} --help lists them"


def _roff(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.M)


class Parser(argparse.ArgumentParser):
    """For the man page: summary: its first line; examples: [(command, what it does)]; sections: more such lists by
    heading; see: names for SEE ALSO."""

    def __init__(self, prog, summary, examples=(), see="spinwire(1)", sections=None, **more):
        super().__init__(prog=prog, allow_abbrev=False, **more)
        self.summary, self.see, self.words = summary, see, ()
        self.sections = {**(sections or {}), "EXAMPLES": examples}
        self.add_argument("--version", action="version", version=f"{prog} {version()}", help="print the version")

    def names(self):
        return [name for action in self._actions for name in action.option_strings if name.startswith("--")]

    def error(self, message):
        """One line: argparse's words, where they do not say what to do, in those of lib/opt."""
        message = re.sub(r"^argument ", "", message)
        name, _, what = message.partition(": ")
        unknown = [word for word in self.words if word.startswith("--") and word.partition("=")[0] not in self.names()]
        if what == "expected one argument":
            of = next(action for action in self._actions if name in "/".join(action.option_strings))
            message = f"{name} needs a value: {self._get_formatter()._expand_help(of)}"
        elif what.startswith("ignored explicit argument"):
            message = f"{name} takes no value"
        elif what.startswith("not allowed with argument"):
            message = f"{name} and {what.split()[-1]} exclude each other"
        elif what.startswith("invalid choice: "):
            message = re.sub(r"invalid choice: (.*) \(choose from (.*)\)", r"\1 is not allowed; allowed: \2", message)
        elif what.startswith("invalid ") and " value: " in what:
            message = f"{name}: {what.partition(' value: ')[2]} is not a number"
        elif name == "the following arguments are required" and not unknown:
            message = f"{what} is missing; {self.prog} --help lists what there is"
        elif name in ("unrecognized arguments", "the following arguments are required"):
            word = what.split()[0] if what.startswith("-") else unknown[0] if unknown else what.split()[0]
            message = no_such(word, self.names(), self.prog) if word.startswith("-") else (
                f"'{word}' is not an option; {self.prog} --help lists them")
        self.exit(1, f"{self.prog}: error: {message}\n")

    def parse_known_args(self, args=None, namespace=None):
        words = sys.argv[1:] if args is None else list(args)
        for name, write in (("--help-man", self.man), ("--help-bash", self.bash), ("--help-zsh", self.zsh)):
            if words == [name]:
                print(write())
                self.exit(0)
        self.words = words
        got, rest = super().parse_known_args(args, namespace)
        for action in self._actions:  # a script's variable that is not set
            if getattr(got, action.dest, None) == "":
                self.error(f"{'/'.join(action.option_strings) or action.dest}: '' is not allowed; it takes a "
                           f"{action.metavar or 'text'}")
        return got, rest

    def pass_on(self, rest, names, program):
        """What is not this tool's goes to a program that has those options; that program checks them, and starts
        nothing. program: None before it is built."""
        for word in rest if names else ():
            name = word.partition("=")[0]
            if name in ("--port", "--config"):
                self.error(f"{name}: {self.prog} chooses spinwire's port itself; --device NAME names a card")
            if word.startswith("--") and word != "--" and name not in names:
                self.error(no_such(word, self.names() + list(names), self.prog))
        if program:
            self.check(program, rest)

    def check(self, program, words):
        """Whether a program of EAL would take these words of its own."""
        with contextlib.suppress(OSError):
            done = subprocess.run([program, "--", "--port", "null", *words, "--check"], stdin=subprocess.DEVNULL,
                                  capture_output=True, encoding="utf-8", errors="replace", timeout=60, check=False)
            if done.returncode and "error: " in done.stderr:
                what = done.stderr.partition("error: ")[2].partition("\n")[0]
                self.error(re.sub(r"(is EAL's), whose.*", rf"\1: {self.prog} gives those itself", what))

    def _shown(self):
        """[(names, value, help)] of what --help lists."""
        form = self._get_formatter()
        return [(action.option_strings, "" if action.nargs == 0 else action.metavar
                 or ("" if not action.option_strings else action.dest.upper()),
                 form._expand_help(action) if action.help else "", action.dest) for action in self._actions
                if action.help != argparse.SUPPRESS]

    def man(self):
        name = os.path.basename(self.prog) if self.prog.startswith("tools/") else self.prog
        out = [f'.TH {name.upper()} 1 "" "spinwire {version()}" "User Commands"', ".SH NAME",
               f"{_roff(name)} \\- {_roff(self.summary)}", ".SH SYNOPSIS"]
        out += [_roff(" ".join(self.format_usage().split()[1:])), ".SH DESCRIPTION",
                _roff(self.description or self.summary + "."), ".SH OPTIONS"]
        for names, value, text, dest in self._shown():
            out += [".TP", f"\\fB{_roff(', '.join(names) or dest)}\\fR \\fI{_roff(str(value))}\\fR", _roff(text)]
        for heading, pairs in self.sections.items():
            out += [f".SH {heading}"] * bool(pairs)
            for name, what in pairs:
                out += [".TP", f"\\fB{_roff(name)}\\fR", _roff(what)]
        return "\n".join([*out, ".SH NOTES" if self.epilog else "", _roff(self.epilog or ""), ".SH SEE ALSO",
                          _roff(self.see)]).replace("\n\n", "\n")

    def bash(self):
        function = "_" + self.prog.replace("-", "_").replace("/", "_")
        paths = "".join(f"\t{'|'.join(names)}) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
                        for names, value, *_ in self._shown()
                        if value in ("FILE", "DIR"))
        return (f"# bash completion of {self.prog}\n{function}"
                f"()\n{{\n\tlocal word=${{COMP_WORDS[COMP_CWORD]}}\n\tCOMPREPLY=()\n"
                f"\tcase ${{COMP_WORDS[COMP_CWORD-1]}} in\n{paths}\tesac\n\tCOMPREPLY=($(compgen -W "
                f"'{' '.join(self.names())}' -- \"$word\"))\n}}\n"
                f"complete -o default -F {function} {self.prog}")

    def zsh(self):
        lines = []
        for names, value, text, _ in self._shown():
            text = re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")
            lines += [f"\t'*{name}[{text}]{f':{value}:' if value else ''}{'_files' if value in ('FILE', 'DIR') else ''}"
                      f"' \\" for name in names
                      if name.startswith("--")]
        return "\n".join([f"#compdef {self.prog}", "_arguments \\", *lines, "\t'*:file:_files'"])
