"""The picture of a node in characters: a frame for each processor, host bridge and switch, one in another.

The smaller the frame around a GPU and a NIC, the nearer they are. Frames that do not fit beside each other
follow below, so that it is right from 60 columns. Faults have a sign and a word, and never only a colour.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gdrkit.agent.streams import visible
from gdrkit.fabric.picture import Box, Picture

MARK, DIM, PLAIN = "\x1b[31m", "\x1b[2m", "\x1b[0m"
NAME_LIMIT = 15
"""IBDEV names may have 63 characters; those of mlx5, irdma and bnxt_re have at most 15."""


class Signs(NamedTuple):
    """What a picture is drawn with: corners and sides of a frame, of one with ACS, and a dead port."""

    frame: str
    acs: str
    cross: str


BOXES = Signs("┌─┐│└┘", "╔═╗║╚╝", "\N{MULTIPLICATION SIGN}")
ASCII = Signs("+-+|++", "######", "x")

Piece = tuple[str, str]  # text, and its colour
Line = tuple[Piece, ...]


class TextBlock(NamedTuple):
    """A rectangle of text; each line has `width` columns."""

    width: int
    lines: list[Line]


def picture_text(
    picture: Picture, *, width: int, encoding: str | None = "utf-8", colour: bool = False
) -> str:
    """A picture as lines of at most `width` columns; of ASCII only if `encoding` cannot write boxes."""
    drawing = _TextDrawing(_signs(encoding))
    shown = _flow([drawing.frame(cpu, width) for cpu in picture.cpus], width)
    return "".join(_written(line, colour) + "\n" for line in shown.lines)


def _signs(encoding: str | None) -> Signs:
    try:
        "".join(BOXES).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BOXES


def _written(line: Line, colour: bool) -> str:
    words = "".join(text for text, _ in line).rstrip()
    if not colour:
        return words
    return "".join(f"{style}{text}{PLAIN}" if style else text for text, style in line).rstrip()


class _TextDrawing:
    """Draws boxes with some signs."""

    def __init__(self, signs: Signs) -> None:
        self._signs = signs

    def frame(self, box: Box, room: int) -> TextBlock:
        """The frame of a processor, a host bridge or a switch, with all that is in it."""
        titles = [_title(box)]
        while box.kind == "bridge" and [below.kind for below in box.below] == ["switch"]:
            (box,) = box.below  # one frame for both: nothing lies between them
            titles.append(_title(box))
        acs = any(below.redirects for below in box.below)
        faults = [*(["! ACS"] if acs else []), *([f"! {box.link}"] if box.link else [])]
        devices = [below for below in box.below if below.kind in ("gpu", "nic")]
        parts = [self.frame(below, room - 4) for below in box.below if below not in devices]
        inside = _flow([*parts, *([self._grid(devices, room - 4)] if devices else [])], room - 4)
        return _framed(
            inside, ", ".join(titles), " ".join(faults), self._signs.acs if acs else self._signs.frame, room
        )

    def _grid(self, devices: list[Box], room: int) -> TextBlock:
        """Devices in columns of one width, in rows of one length."""
        cells = [list(self._device(box)) for box in devices]
        width = max(len(text) for cell in cells for text, _ in cell)
        at_most = max(1, (room + 1) // (width + 1))
        rows = -(-len(cells) // at_most)
        count = -(-len(cells) // rows)
        blocks = [
            TextBlock(width, [((text.ljust(width), style),) for text, style in cell]) for cell in cells
        ]
        return _stacked([_beside(blocks[at : at + count]) for at in range(0, len(blocks), count)])

    def _device(self, box: Box) -> Iterator[Piece]:
        yield _short(box.name), ""
        if box.link:  # "x4 of x16", in two lines
            running, _, expected = box.link.partition(" of ")
            yield f"! {running}", MARK
            if expected:
                yield f"of {expected}", MARK
        elif box.lanes:
            yield f"x{box.lanes}", DIM
        yield from self._port(box)
        if box.redirects:
            yield "! ACS", MARK
        if box.translates:
            yield "! IOMMU", MARK

    def _port(self, box: Box) -> Iterator[Piece]:
        if box.unusable:
            yield f"{self._signs.cross} {box.unusable}", MARK
        elif box.besides_pcie:
            yield box.besides_pcie, DIM
        elif box.net is not None and box.is_down:
            yield f"{self._signs.cross} {_short(box.net.state)}", MARK
        elif box.rate[0]:
            yield " ".join(box.rate).rstrip(), DIM


def _title(box: Box) -> str:
    names = {"bridge": "bridge ", "switch": "switch "}
    return names[box.kind] + _plain(box.name) if box.kind in names else re.sub(" +", " ", _plain(box.about))


def _framed(inside: TextBlock, title: str, faults: str, signs: str, room: int) -> TextBlock:
    """A block in a frame with a title, which is shortened to the width of the frame."""
    left, across, right, side, low_left, low_right = tuple(signs)
    spare = max(room - 5 - len(faults) - bool(faults), 0)
    title = title if len(title) <= spare else title[: max(spare - 2, 0)].rstrip(" ,") + ".."
    width = max(inside.width, len(title) + len(faults) + bool(faults) + 1)
    fill = width - len(title) - len(faults) - bool(faults)
    named = (f"{left} {title} ", ""), *(((faults, MARK), (" ", "")) if faults else ())
    gap = " " * (width - inside.width)
    return TextBlock(
        width + 4,
        [
            (*named, (across * fill + right, "")),
            *(((f"{side} ", ""), *line, (f"{gap} {side}", "")) for line in inside.lines),
            ((low_left + across * (width + 2) + low_right, ""),),
        ],
    )


def _flow(blocks: Iterable[TextBlock], room: int) -> TextBlock:
    """Blocks beside each other as far as there is room, then below."""
    rows: list[list[TextBlock]] = []
    for block in blocks:
        if rows and sum(one.width + 1 for one in rows[-1]) + block.width <= room:
            rows[-1].append(block)
        else:
            rows.append([block])
    return _stacked([_beside(row) for row in rows])


def _beside(blocks: list[TextBlock]) -> TextBlock:
    height = max(len(block.lines) for block in blocks)
    padded = [
        [*block.lines, *([((" " * block.width, ""),)] * (height - len(block.lines)))] for block in blocks
    ]
    lines: list[Line] = []
    for row in zip(*padded, strict=True):
        first, *others = row
        lines.append((*first, *(piece for line in others for piece in ((" ", ""), *line))))
    return TextBlock(sum(block.width + 1 for block in blocks) - 1, lines)


def _stacked(blocks: list[TextBlock]) -> TextBlock:
    width = max((block.width for block in blocks), default=0)
    return TextBlock(
        width, [(*line, (" " * (width - block.width), "")) for block in blocks for line in block.lines]
    )


def _short(name: str) -> str:
    name = _plain(name)
    return name if len(name) <= NAME_LIMIT else f"{name[: NAME_LIMIT - 1]}~"


def _plain(words: str) -> str:
    """A stranger's words in characters of one column each; others are `?`, and the tree has them."""
    return visible(words).encode("ascii", "replace").decode()
