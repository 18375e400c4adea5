"""Problems without a code: messages about something else, a misspelt setting, nodes that are not alike."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gdrkit import catalogue
from gdrkit.explain.misspelt import misspelt
from gdrkit.explain.ranking import BY_LINE, NOTE, QUOTED
from gdrkit.explain.transcript import TextLine
from gdrkit.explain.unexplained import is_raised


class OtherLine(Struct, frozen=True):
    """A line about something else: what it means, what to do, and its weight among the causes."""

    line: TextLine
    means: str
    todo: str
    weight: float
    harmless: bool = False


def other_line(lines: tuple[TextLine, ...], *, one_host: bool = False) -> OtherLine | None:
    """The line about something else that weighs most; None if there is none. Of several that weigh the same
    an error precedes a warning; then the first counts: later errors often follow from it. `one_host`: all
    ranks of the jobs are on one host."""
    found = (
        *_messages(lines),
        *_misspelt(lines),
        *_unequal_plugins(lines),
        *(_needs_no_network(lines) if one_host else ()),
    )
    return max(found, key=lambda other: (other.weight, not _warns(other.line.text)), default=None)


def _is_printed(line: TextLine) -> bool:
    return line.kind in ("machine", "shown") or is_raised(line.text)


def _warns(text: str) -> bool:
    """Whether a program says that a line is a warning or less. NCCL calls its errors WARN."""
    return "NCCL WARN" not in text and _WARNING.search(text) is not None


_WARNING = re.compile(r"\b(?:WARN(?:ING)?|Warning|warning|INFO|info|DIAG|DEBUG)\b|^(?:[WI]\d{4} )")


WEIGHTS = {"failure": BY_LINE, "follows": NOTE, "harmless": NOTE / 2}


def _messages(lines: Iterable[TextLine]) -> Iterator[OtherLine]:
    for line in lines:
        match = catalogue.match(line.text)
        meaning = match.message.meaning if match is not None else None
        if meaning is not None:
            shown = 1 if _is_printed(line) else QUOTED
            harmless = meaning.effect == "harmless"
            yield OtherLine(line, meaning.words, meaning.todo, WEIGHTS[meaning.effect] * shown, harmless)


def _needs_no_network(lines: Iterable[TextLine]) -> Iterator[OtherLine]:
    """That NCCL finds no RDMA device, in a job that needs none."""
    for line in lines:
        if "NET/IB : No device found" in line.text and line.kind == "machine":
            yield OtherLine(
                line,
                "This line is harmless: all ranks of the job are on one host, where NCCL needs no network",
                "Nothing has to be done for this job; one over several hosts needs an RDMA device",
                WEIGHTS["harmless"],
                harmless=True,
            )


def _misspelt(lines: Iterable[TextLine]) -> Iterator[OtherLine]:
    for line in lines:
        if (names := misspelt(line.text)) is not None:
            name, meant = names
            yield OtherLine(
                line,
                f"{name} is misspelt: no program reads it, so the setting {meant} is not made",
                f"Write {meant}",
                BY_LINE * QUOTED,
            )


def _unequal_plugins(lines: Iterable[TextLine]) -> Iterator[OtherLine]:
    """NCCL loads a network plugin on some hosts of the text, and finds none on others."""
    have: dict[str, TextLine] = {}
    lack: dict[str, TextLine] = {}
    for line in lines:
        if "lugin" not in line.text or (host := _host().search(line.text)) is None:
            continue
        if _LACKS.search(line.text):
            lack.setdefault(host[1], line)
        elif _HAS.search(line.text):
            have.setdefault(host[1], line)
    without = [host for host in lack if host not in have]
    if have and without:
        yield OtherLine(
            lack[without[0]],
            f"The NCCL network plugin is on some hosts only: {_some(list(have))} loads it,"
            f" {_some(without)} does not; ranks with different networks cannot connect",
            "Use one image on all hosts, or set NCCL_NET_PLUGIN=none on all of them",
            BY_LINE * QUOTED,
        )


_LACKS = re.compile(r"NET/Plugin ?: ?(?:Could not find|No plugin found)")
_HAS = re.compile(r"Plugin Path ?: ?\S|NET/Plugin ?: ?Loaded net plugin|P2P plugin ")


@functools.cache
def _host() -> re.Pattern[str]:
    return re.compile(r"(?<![\w.-])([A-Za-z][\w.-]{0,80}):\d{1,10}:\d{1,10} \[")


def _some(hosts: list[str]) -> str:
    return hosts[0] if len(hosts) == 1 else f"{hosts[0]} and {len(hosts) - 1} more"
