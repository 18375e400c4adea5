"""Modules that a text shows to be not loaded: `lsmod`, or a search in it, that does not list them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping

from gdrkit.explain.lines.blocks import Block
from gdrkit.explain.lines.line import is_machine
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.formats.regex import regex

SOUGHT = (PEERMEM, LEGACY)
"""The modules that provide the peermem path."""

NOTHING = regex(
    r"[(<\[#\s]*(?:there is |prints? |returns? )?(?:no|nothing|empty|none|blank)"
    r"(?: (?:output|result|match)s?| returned| shown| printed| here)?[)>\]\s.]*",
    re.IGNORECASE,
)
"""What people write in place of an output that is empty."""

NONE_COUNTED = "0"
COUNTS = regex(r"grep (?:-\w+ )*-\w*c\w* |\| *wc -l\b")
"""`grep -c` or `wc -l`, and what they print where nothing matches."""

PATTERN_CHARACTERS = 60
"""Length of a search pattern that is understood at most."""


def absent_modules(blocks: Iterable[Block]) -> Mapping[str, tuple[int, ...]]:
    """The modules that are not loaded, with the lines that show it.

    An output without lines counts only between two prompts, in a text where other commands have outputs, or
    a prompt has no command: a list of commands to run has neither."""
    shown = tuple(blocks)
    transcript = any(block.lines or not block.command for block in shown)
    found: dict[str, tuple[int, ...]] = {}
    for block in shown:
        if _PATTERNS["lists"].search(block.command) is None:
            continue
        names = {line.text.split()[0] for line in block.lines if line.text.strip()} - {NONE_COUNTED}
        for line in block.lines:
            if not line.cut and (row := _PATTERNS["driver"].match(line.text)):
                users = names.union(row["users"].split(","))
                found.update((module, (line.number,)) for module in SOUGHT if module not in users)
        lists = _listing(block.command)
        if lists is None or not _is_whole(block, transcript):
            continue
        for module in SOUGHT:
            if lists.search(f"{module} 16384 0") and module not in names:
                numbers = (block.number, *(line.number for line in block.lines[:1]))
                found.setdefault(module, numbers)
    return found


def whole_listing(blocks: Iterable[Block]) -> int:
    """The line of an `lsmod` whose output is shown completely; 0 if there is none."""
    whole = (block for block in blocks if block.argv == ("lsmod",) and not block.filtered and block.lines)
    return next((block.number for block in whole if _is_whole(block, transcript=True)), 0)


def is_empty(block: Block, transcript: bool) -> bool:
    """Whether a command is shown to have printed nothing."""
    texts = [line.text.strip() for line in block.lines]
    if not texts:
        return block.prompted and transcript
    return len(texts) == 1 and NOTHING.fullmatch(texts[0]) is not None


def _is_whole(block: Block, transcript: bool) -> bool:
    """Whether an output of lsmod is shown completely."""
    texts = [line.text.strip() for line in block.lines]
    if is_empty(block, transcript):
        return True
    if COUNTS.search(block.command):
        return texts == [NONE_COUNTED]
    listed = [line for line in block.lines if not line.text.strip().startswith("Module ")]
    rows = list(itertools.takewhile(lambda line: _PATTERNS["row"].match(line.text.strip()), listed))
    rest = listed[len(rows) :]
    # what another program printed behind the rows ends them as a prompt does
    ended = is_machine(rest[0].text) if rest else block.ended
    headed = len(listed) < len(texts) or "grep" in block.command
    return bool(rows) and headed and ended and not any(line.cut for line in block.lines)


def _listing(command: str) -> re.Pattern[str] | None:
    """What a command shows of the list of modules: rows that the pattern matches; None for another
    command."""
    found = _PATTERNS["lsmod"].search(command) or _PATTERNS["modules"].search(command)
    if found is None:
        return None
    words = f" {found['pattern'] or ''}".split(" -e ")
    pattern = "|".join(word.strip("'\" ") for word in words if word).replace("\\?", "?").replace("\\|", "|")
    if (
        len(pattern) > PATTERN_CHARACTERS
        or pattern.count("?") > 2
        or not _PATTERNS["plain"].fullmatch(pattern)
    ):
        return None
    return re.compile(pattern, re.IGNORECASE if "i" in (found["options"] or "") else 0)


_WORD = r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"-][^\s'\"]*)"
_GREP = (
    r"(?:sudo )?[ez]?grep (?:--colou?r\S* )?(?P<options>(?:-[iEwFc]{1,5} ){0,3})"
    rf"(?P<pattern>(?:-e )?{_WORD}(?: -e {_WORD}){{0,5}})"
)
_PATTERNS = {
    "lists": regex(r"\blsmod\b|/proc/modules\b"),
    # It names every module that uses it, as those do that import nvidia_p2p_get_pages(): so it decides in a
    # part of the list, too. Linux kernel/module/procfs.c, print_unload_info().
    "driver": regex(r"nvidia +\d{3,} +\d+ +(?P<users>\w+(?:,\w+)*),?(?: Live .*)?$"),
    "lsmod": regex(rf"(?:\blsmod|\bcat /proc/modules)(?:\s*\|\s*{_GREP})?(?:\s*\| *wc -l)?\s*['\"]?$"),
    "modules": regex(rf"^{_GREP} /proc/modules\s*$"),
    "plain": regex(r"(?:\w|[|.^$-]|(?<=\w)\?)*"),
    "row": regex(r"[a-z]\w* +\d{3,} +-?\d+(?: |$)"),
}
