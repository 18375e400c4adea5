"""`python -m tools.fuzz.slowness`: for each parser, the input that costs the most work per byte.

An input repeats a part of a real file (a line, some lines, a word, some bytes, an element) where it stands,
or a short line, or an opening that nothing closes; as it is, or each time with another number. The worst
inputs are printed in seconds of processor time, for a MiB in pieces of 64 KiB and for one whole MiB: what a
reader does once for each text, and where it stops reading, make these differ. A parser fails whose whole MiB
takes more than --limit, or that takes more than GROWTH times as long for twice as much.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.fuzz.corpus import Corpus
from tools.fuzz.parsers import parsers
from tools.fuzz.target import Parser, Sample, TooLong, limited

TRIED_BYTES, LONG_BYTES, HEAD_BYTES, SHOWN_BYTES = 1 << 16, 1 << 19, 4096, 40
SLOWEST_S = 5.0
"""An input that takes longer counts as this much."""
GROWTH, MEASURABLE_S = 2.5, 0.05
"""Work in proportion to the size doubles. Processor time is counted in ticks of some milliseconds."""
LINES = (
    b"\n",
    b" \n",
    b"a\n",
    b"1\n",
    b"#\n",
    b":\n",
    b"=\n",
    b"a b\n",
    b"a=1\n",
    b"a: 1\n",
    b"\r",
    b"\xff\n",
)
OPENINGS = (b"[", b"{", b"(", b"<", b"<a>", b"<!--", b'"', b"'", b"\\", b"$(", b"${", b'{"a":', b"[{", b"- ")
LETTERS = (b" ", b"\t", b"a", b"0", b"-", b".", b",", b":", b"/", b"\x1b[", b"0,", b"a ", b"0-1,", b"a[")
ELEMENT = re.compile(rb'[{\[][^{}\[\]]{0,400}[}\]],?|<[^<>]{1,400}>|"[^"]{0,80}"[:,] ?|[^\s,;:]{1,64}[,;:]')
NUMBER = re.compile(rb"\d+|(?<=\w)\b")
CALIBRATING = re.compile(r"^\s*(\w+)\s*=")


class Repeated(NamedTuple):
    """An input: a part of it is repeated."""

    head: bytes
    unit: bytes
    tail: bytes = b""
    numbered: tuple[int, int] | None = None
    """The part of the unit that is another number each time."""

    def content(self, size_bytes: int) -> bytes:
        count = max(1, (size_bytes - len(self.head) - len(self.tail)) // len(self.unit))
        if self.numbered is None:
            return self.head + self.unit * count + self.tail
        begin, end = self.numbered
        units = (b"%b%d%b" % (self.unit[:begin], number, self.unit[end:]) for number in range(count))
        return self.head + b"".join(units) + self.tail


class Worst(NamedTuple):
    """The most expensive input of a parser so far."""

    seconds_per_mib: float
    parser: str
    unit: bytes
    whole_mib_s: float = 0.0
    growth: float = 1.0
    """How many times as long it takes for twice as much, if both can be measured."""


def drawn(content: bytes, draw: random.Random) -> Iterator[Repeated]:
    """Inputs that repeat a part of a file where it stands: as it is, with numbers, and with a run of one
    letter in it."""
    begin, end = draw.choice(_parts(content, draw) or [(0, len(content))])
    unit = content[begin:end] or b"\n"
    head, tail = draw.choice(((content[:begin], content[end:]), (content[:begin], b""), (b"", b"")))
    yield Repeated(head, unit, tail)
    if numbers := [match.span() for match in NUMBER.finditer(unit)]:
        yield Repeated(head, unit, tail, draw.choice(numbers))
    at = draw.randrange(len(unit) + 1)
    yield Repeated(head, unit[:at] + draw.choice(LETTERS) * draw.choice((8, 200, 900)) + unit[at:], tail)


def _parts(content: bytes, draw: random.Random) -> list[tuple[int, int]]:
    """Where the parts of one kind are: lines, up to four lines, words, elements, or a few bytes."""
    lines = [match.span() for match in re.finditer(rb"[^\n]*\n?", content) if match[0]]
    match draw.randrange(6):
        case 0 | 1:
            return lines
        case 2:
            ends = [end for _, end in lines]
            return [(at, ends[min(first + 3, len(lines) - 1)]) for first, (at, _) in enumerate(lines)]
        case 3:
            return [match.span() for match in re.finditer(rb"\S+\s?", content)]
        case 4:
            return [match.span() for match in ELEMENT.finditer(content)]
    at = draw.randrange(len(content) + 1)
    return [(at, at + draw.randint(1, 8))]


def inputs(samples: Sequence[Sample], draw: random.Random) -> Iterator[tuple[Sample, Repeated]]:
    """What is tried on a parser, without end: each short unit alone and inside a real file, then draws."""
    short = [(draw.choice(samples), unit) for unit in (*LINES, *OPENINGS, *LETTERS)]
    yield from ((sample, Repeated(b"", unit)) for sample, unit in short)
    for sample, unit in draw.sample(short, len(short)):
        content = sample.content[:HEAD_BYTES]
        at = draw.randrange(len(content) + 1)
        yield sample, Repeated(content[:at], unit, content[at:])
    while True:
        sample = draw.choice(samples)
        yield from ((sample, one) for one in drawn(sample.content[:HEAD_BYTES], draw))


def seconds_of(parser: Parser, sample: Sample, content: bytes) -> float:
    """The processor time of an input."""
    began = time.process_time()
    with contextlib.suppress(*parser.documented, TooLong), limited(SLOWEST_S):
        sample.read(content)
    return time.process_time() - began


def growth(parser: Parser, sample: Sample, repeated: Repeated) -> float:
    """How many times as long an input takes for twice as much: the lesser of two doublings, as there is
    other work on the machine. 1.0 if it cannot be measured."""
    size, times = TRIED_BYTES, [0.0]
    while times[0] < MEASURABLE_S and size <= LONG_BYTES:
        times = [seconds_of(parser, sample, repeated.content(size))]
        size *= 2
    times += [seconds_of(parser, sample, repeated.content(longer)) for longer in (size, 2 * size)]
    return min(times[1] / times[0], times[2] / times[1]) if min(times) >= MEASURABLE_S else 1.0


def worst_of(parser: Parser, seed: int, seconds: float) -> Worst:
    """The worst of the inputs that were tried in some seconds. One in eight is long: work that grows faster
    than the input shows there."""
    draw, found, at = random.Random(f"{seed}:{parser.name}"), Worst(0.0, parser.name, b""), None
    end = time.process_time() + seconds
    for sample, repeated in inputs(parser.samples, draw) if parser.samples else ():
        content = repeated.content(draw.choice((*[TRIED_BYTES] * 7, LONG_BYTES)))
        took = seconds_of(parser, sample, content) * (1 << 20) / len(content)
        if took > found.seconds_per_mib:
            found, at = Worst(took, parser.name, repeated.unit), (sample, repeated)
        if time.process_time() > end:
            break
    if at is None:
        return found
    sample, repeated = at
    whole_s = seconds_of(parser, sample, repeated.content(1 << 20))
    return found._replace(whole_mib_s=whole_s, growth=growth(parser, sample, repeated))


def calibration() -> float:
    """Seconds that a regex takes that fails at each of a million empty lines: what this machine is worth
    now."""
    began = time.process_time()
    sum(CALIBRATING.match(line) is not None for line in ("\n" * (1 << 20)).splitlines())
    return time.process_time() - began


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz.slowness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seconds", type=float, default=900, help="of processor time, after its start (900)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (0)")
    parser.add_argument("--target", default="", metavar="REGEX", help="only parsers whose name matches")
    parser.add_argument("--limit", type=float, default=1.0, metavar="S", help="seconds per MiB (1)")
    parser.add_argument("--shown", type=int, default=10, metavar="N", help="how many parsers to print (10)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="gdrkit-fuzz-") as folder:
        corpus = Corpus(Path(folder), ())
        chosen = [one for one in parsers(corpus) if re.search(options.target, one.name)]
        if not chosen:
            parser.error(f"no target matches {options.target!r}")
        for one in chosen:
            one.prepare()
        gc.freeze()
        found = [worst_of(one, options.seed, options.seconds / len(chosen)) for one in chosen]
    over = [row for row in found if row.whole_mib_s > options.limit or row.growth > GROWTH]
    shown = sorted(found, reverse=True)[: options.shown]
    print("| parser | s per MiB, 64 KiB | whole MiB | for twice as much | repeated |\n|---|---|---|---|---|")
    for row in [*shown, *(row for row in over if row not in shown)]:
        unit = ascii(row.unit[:SHOWN_BYTES])[1:]
        times = f"{row.seconds_per_mib:.2f} | {row.whole_mib_s:.2f} | x {row.growth:.1f}"
        print(f"| {row.parser} | {times} | {unit} |")
    print(
        f"{len(found)} parsers; {len(over)} take more than {options.limit:g} s for a MiB, or more than "
        f"{GROWTH} times as long for twice as much; a million failing regexes: {calibration():.2f} s"
    )
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
