"""The path of a byte through the picture of a node: up from the GPU to where it turns, down to the NIC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gdrkit.fabric.picture import Box, Picture

Point = tuple[float, float]
"""Depth and position along, in pixels."""


@dataclass(frozen=True)
class Lane:
    """How far a path keeps from the middle of links and of bars, in pixels, so that two paths stay apart."""

    link: float
    bar: float
    device: float


DIRECT = Lane(2.6, 3.5, 0)
STAGED = Lane(7.4, -3.5, 5)


@dataclass(frozen=True)
class DrawnPath:
    """A path from a GPU to a NIC. `up` are the boxes above the GPU to the one where it turns, `down` those
    from there to the NIC; across processors the two end in different ones."""

    gpu: Box
    nic: Box
    up: tuple[Box, ...]
    down: tuple[Box, ...]


class DrawnPaths:
    """The paths between the devices of a picture, by the ids of GPU and port."""

    def __init__(self, picture: Picture) -> None:
        self._above: dict[str, tuple[Box, ...]] = {}
        self._boxes: dict[str, Box] = {}
        for cpu in picture.cpus:
            for chain in _chains(cpu, ()):
                if of := chain[-1].of:
                    self._boxes[of], self._above[of] = chain[-1], chain[-2::-1]

    def direct(self, gpu: str, nic: str, *, detour: bool = False) -> DrawnPath | None:
        """The path that turns where the two first meet; by a detour at a host bridge or above it. None if
        one of the two is not in the picture."""
        if gpu not in self._boxes or nic not in self._boxes:
            return None
        there = {id(box) for box in self._above[nic]}
        for box in self._above[gpu]:
            if id(box) in there and (not detour or box.kind != "switch"):
                return self._path(gpu, nic, box)
        return self._path(gpu, nic, None)

    def staged(self, gpu: str, nic: str) -> DrawnPath | None:
        """The path through host memory, up to the processor."""
        if gpu not in self._boxes or nic not in self._boxes:
            return None
        return self._path(gpu, nic, None)

    def _path(self, gpu: str, nic: str, turn: Box | None) -> DrawnPath:
        up, down = (_until(self._above[of], turn) for of in (gpu, nic))
        return DrawnPath(self._boxes[gpu], self._boxes[nic], up, down)


def _chains(box: Box, above: tuple[Box, ...]) -> Iterator[tuple[Box, ...]]:
    """Each box that has none below it, with all above it, the processor first."""
    here = (*above, box)
    if not box.below:
        yield here
    for below in box.below:
        yield from _chains(below, here)


def _until(boxes: tuple[Box, ...], turn: Box | None) -> tuple[Box, ...]:
    """The boxes up to the one where a path turns; all of them, to the processor, for None."""
    end = next((number for number, box in enumerate(boxes) if box is turn), len(boxes) - 1)
    return boxes[: end + 1]


def points(
    path: DrawnPath,
    lane: Lane,
    middle: Callable[[Box], float],
    edges: Callable[[Box], Point],
    device: float,
) -> list[Point]:
    """The corners of a path, from the upper edge of the GPU, at depth `device`, to that of the NIC."""
    side = 1 if middle(path.nic) > middle(path.gpu) else -1
    start = (device, middle(path.gpu) + side * lane.device)
    up = _climb(start, path.up, lane, -side, middle, edges)
    end = (device, middle(path.nic) - side * lane.device)
    down = _climb(end, path.down, lane, side, middle, edges)
    turn = up[-1][0]
    return [*up, (turn, down[-1][1]), *down[-2::-1]] if len(down) > 1 else [*up, end]


def rounded(line: list[Point], radius: float = 6) -> list[tuple[Point, ...]]:
    """A line with round corners: its first point, then for each corner where it begins, the corner and where
    it ends, then the last point."""
    turned = [point for i, point in enumerate(line) if i == 0 or _far(point, line[i - 1]) > 0.2]
    parts: list[tuple[Point, ...]] = [(turned[0],)]
    for before, here, after in zip(turned, turned[1:], turned[2:], strict=False):
        least = min(radius, _far(before, here) / 2, _far(here, after) / 2)
        parts.append((_toward(here, before, least), here, _toward(here, after, least)))
    return [*parts, (turned[-1],)]


def _far(one: Point, other: Point) -> float:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _toward(start: Point, end: Point, far: float) -> Point:
    """The point that far from `start` on the way to `end`; one of the two coordinates is the same."""
    whole = _far(start, end) or 1
    return start[0] + (end[0] - start[0]) * far / whole, start[1] + (end[1] - start[1]) * far / whole


def _climb(
    start: Point,
    boxes: tuple[Box, ...],
    lane: Lane,
    side: int,
    middle: Callable[[Box], float],
    edges: Callable[[Box], Point],
) -> list[Point]:
    """From a device up into the last of the boxes, beside the middle of each link."""
    found, along = [start], start[1]
    for number, box in enumerate(boxes):
        depth = sum(edges(box)) / 2 + lane.bar
        if number == len(boxes) - 1:
            found.append((depth, along))
            break
        beside = middle(box) + side * lane.link
        found += [(depth, along), (depth, beside)]
        along = beside
    return found
