"""The lines of a long log that can tell something: all but repetitions.

A log of many megabytes has few kinds of lines, which differ in their numbers. Of each kind that no message,
setting or listing can be in, the first lines stand for all. Of the others five hundred do, the first with
their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gdrkit.explain.lines import line as lines_of
from gdrkit.explain.lines.shapes import digits_alike, kind, may_be_message, shape
from gdrkit.explain.lines.wrappers import unwrap
from gdrkit.formats.regex import regex

SHORT_LINES = 2000
"""Lines of a text that is read whole: what people paste is shorter, and takes less than half a second."""

MOST_ALIKE = 5
"""Lines of a kind that tells nothing, from the first."""

MOST_TELLING, MOST_WITH_NEIGHBOURS = 500, 20
"""Lines of a kind that may tell something, from the first; and those whose neighbours are kept."""

AROUND, OUTPUT_LINES = 12, 400
"""Lines before and after a line that may tell something; and lines below a command, which may be its
output: `lsmod` prints about 200."""

TELLING = regex(
    r"\b(?:nvidia|nv_|NVRM|mlx|ib_|ibv_|ib\d|roce|rdma|irdma|bnxt|efa|fi_|hns_|GPUs? ?\d|NIC\d|CA ')"
    r"|peer_?mem|gdr|GDR|dma[-_ ]?buf|infiniband|[Ll]ockdown|[Ss]ecure ?[Bb]oot|tainting|Xid|IOMMU|iommu"
    r"|DMAR|AMD-Vi|Linux version|[Cc]ommand line|UNIX|segfault|core dumped|nranks 0|nNodes|MNNVL"
    r"|regist|\bMR\b|cfg#|max locked|locked-in|modprobe|insmod|blacklist|/(?:proc|sys|dev|etc|lib)/"
    r"|Lnk(?:Cap|Sta)|ACSCtl|LOWER_UP|RUNNING|lugin|Error: |Exception: "
    r"|(?:NCCL|UCX|NVSHMEM|FI|OFI|MC|PYTORCH|CUDA|GLOO|TORCH)_[A-Z]"
)
"""What readers of outputs other than messages look for."""

_FORM = regex(
    r"[\s>*]*(?:[|+]|\d|[\d.]+(?:\s+[\d.]+){3,}|#)"  # tables
    r"|(?:\s.*|-? ?[\w.\"'-]+ ?):(?:\s|$)"  # a field of a listing, a key of YAML
    r"|.*:\s*$|.{0,50}(?:commented|wrote:|said:|replied\b|Likes?$)"  # a heading, a post
)
_STAMPED = regex(r"[\s>*]*\d[\d:.,TZ/ -]*[A-Za-z\[(]|[\s\[]*\[?\d")
"""A line that begins with a time."""


class _Kind(Struct):
    tells: bool
    typed: bool = False
    met: int = 0


def novel(raw: Sequence[str]) -> Sequence[int]:
    """The indices of the lines that are kept, in order."""
    if len(raw) <= SHORT_LINES:
        return range(len(raw))
    kept = bytearray(len(raw))
    by_digits: dict[str, _Kind] = {}
    by_name: dict[str, _Kind] = {}
    for index, line in enumerate(digits_alike("\n".join(raw)).split("\n")):
        found = by_digits.get(line)
        if found is None:
            found = by_digits[line] = _kind_of(line, by_name)
        found.met += 1
        if found.met > (MOST_TELLING if found.tells else MOST_ALIKE):
            continue
        before, below = _neighbours(found)
        first = max(0, index - before)
        kept[first : index + below + 1] = b"\1" * (index + below + 1 - first)
    kept[len(raw) - AROUND :] = b"\1" * AROUND
    return [index for index, keep in enumerate(kept[: len(raw)]) if keep]


def _neighbours(found: _Kind) -> tuple[int, int]:
    """The lines before and after a line of this kind that are kept with it."""
    if found.typed:
        return AROUND, OUTPUT_LINES
    if found.tells:
        return (AROUND, AROUND) if found.met <= MOST_WITH_NEIGHBOURS else (0, 0)
    return 1, 0  # whether the line before is blank tells where an output ends


def _kind_of(line: str, known: dict[str, _Kind]) -> _Kind:
    own = shape(line)
    name = kind(own)
    if name not in known:
        known[name] = _judged(own[: lines_of.LINE_CHARACTERS])
    return known[name]


def _judged(line: str) -> _Kind:
    """What lines of a shape may be."""
    text = lines_of.clean(line)
    if not text.strip():
        return _Kind(False)
    if lines_of.typed(text) is not None:
        return _Kind(True, typed=True)
    inner = unwrap(text).text
    return _Kind(
        lines_of.is_fence(text)
        or lines_of.without_quotation_mark(text) is not None
        or lines_of.opens_listing(inner)
        or lines_of.lists_domains(inner)
        or TELLING.search(inner) is not None
        or may_be_message(text)
        or may_be_message(inner)
        or (_FORM.match(text) is not None and _STAMPED.match(text) is None)
    )
