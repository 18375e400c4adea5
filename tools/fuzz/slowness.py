"""`python -m tools.fuzz.slowness`: for each parser, the input that costs the most work per byte.

An input repeats a part of a real file: a line, a word, or some bytes, behind the beginning of the file.
Each parser has the same time; the worst inputs are printed in seconds of processor time per MiB, and a
parser that takes more than --limit fails.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tools.fuzz.corpus import Corpus
from tools.fuzz.parsers import parsers
from tools.fuzz.target import Parser, Sample, TooLong, limited

TRIED_BYTES, SHOWN_BYTES = 1 << 17, 40
SLOWEST_S = 5.0
"""An input that takes longer counts as this much."""


class Worst(NamedTuple):
    """The most expensive input of a parser so far."""

    seconds_per_mib: float
    parser: str
    unit: bytes


def repeated(content: bytes, draw: random.Random) -> tuple[bytes, bytes]:
    """An input of about TRIED_BYTES, and what it repeats."""
    lines = content.splitlines(keepends=True) or [b"\n"]
    match draw.randrange(4):
        case 0:
            unit = draw.choice(lines)
        case 1:
            unit = (draw.choice(re.findall(rb"\S+", content) or [b"a"]))[:64] + draw.choice(
                (b"", b" ", b"\n")
            )
        case 2:
            at = draw.randrange(len(content) + 1)
            unit = content[at : at + draw.randint(1, 8)] or b"\n"
        case _:
            at = draw.randrange(len(lines))
            unit = b"".join(lines[at : at + draw.randint(1, 4)])
    head = b"".join(lines[: draw.choice((0, 0, 1, 3))])[:4096]
    return head + unit * max(1, TRIED_BYTES // len(unit)), unit


def cost(parser: Parser, sample: Sample, content: bytes) -> float:
    """Seconds per MiB."""
    began = time.process_time()
    with contextlib.suppress(*parser.documented, TooLong), limited(SLOWEST_S):
        sample.read(content)
    return (time.process_time() - began) * (1 << 20) / len(content)


def worst_of(parser: Parser, seed: int, seconds: float) -> Worst:
    """The worst of the inputs that were tried in some seconds."""
    draw, found = random.Random(f"{seed}:{parser.name}"), Worst(0.0, parser.name, b"")
    end = time.monotonic() + seconds
    while time.monotonic() < end and parser.samples:
        sample = draw.choice(parser.samples)
        content, unit = repeated(sample.content[:4096], draw)
        found = max(found, Worst(cost(parser, sample, content), parser.name, unit))
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz.slowness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=300, help="how long to go on (300)")
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
        found = [worst_of(one, options.seed, options.seconds / len(chosen)) for one in chosen]
    print("| parser | s per MiB | repeated |\n|---|---|---|")
    for row in sorted(found, reverse=True)[: options.shown]:
        print(f"| {row.parser} | {row.seconds_per_mib:.2f} | {ascii(row.unit[:SHOWN_BYTES])[1:]} |")
    over = sum(row.seconds_per_mib > options.limit for row in found)
    print(f"{len(found)} parsers; {over} take more than {options.limit:g} s per MiB")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
