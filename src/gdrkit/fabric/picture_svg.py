"""The picture of a node as SVG, for `gdr topo --svg` and reports; nothing in it is from elsewhere.

A state has a shape of its own and never only a colour: a port that is down is a square with a cross, below
a dashed line; a device that no program can use has a dashed outline; a link that is narrower than it could
be says so; where ACS redirects there is a triangle, and the switch is hatched; a NIC behind an IOMMU that
translates has a triangle at its corner.

A picture is wide, with the processors above, or tall, for narrow screens, with the processors at the left.
Below, *depth* runs from the processors to the ports and *along* from device to device.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gdrkit.agent.streams import visible
from gdrkit.fabric.picture import Box, Picture
from gdrkit.fabric.picture_paths import DrawnPath, Lane, points, rounded

Edges = tuple[float, float]

GAP = 4.0
"""Between two devices, in pixels."""
WORD = 9
"""Characters of a word below a device: of `Disabled` and `rail 1023`."""
RIGHT = 14.0
"""The margin after the last device."""


@dataclass(frozen=True)
class Form:
    """The measures of a picture, in pixels: where each layer begins and ends in depth. Switches share the
    space between bridges and devices."""

    unit: float  # a device with the gap beside it
    first: float  # where the first device begins
    cpu: Edges
    bridge: Edges
    device: Edges
    port: Edges
    depth: float
    switch: float
    tall: bool = False


WIDE = Form(38.0, 84.0, (30.0, 58.0), (112.0, 132.0), (290.0, 336.0), (360.0, 374.0), 424.0, 22.0)
TALL = Form(33.0, 10.0, (16.0, 38.0), (66.0, 84.0), (160.0, 236.0), (258.0, 272.0), 350.0, 20.0, tall=True)

# Words have a contrast of at least 4.5, marks of 3 (WCAG 2.2, 1.4.3 and 1.4.11); blue-grey and orange are
# different also for people who are colour-blind.
LIGHT = (
    "--bg:#fff;--area:#f5f6f8;--bar:#eaedf1;--ink:#14171c;--dim:#535b69;--edge:#7f8898;--gpu:#3b4554;"
    "--bad:#b3330a;--warn:#7a4f00;--mark:#b87a00;--tint:#fdf2d5"
)
DARK = (
    "--bg:#101317;--area:#181c22;--bar:#232932;--ink:#e8ebf0;--dim:#a4adbb;--edge:#768293;--gpu:#c3ccd8;"
    "--bad:#ff8f66;--warn:#f0bd4e;--mark:#c99417;--tint:#352808"
)
RULES = """text{font:10.5px system-ui,sans-serif;fill:var(--ink)}
.dim{fill:var(--dim)}
.b{font-weight:600}
.code{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:9.2px}
.mid{text-anchor:middle}
.halo{paint-order:stroke;stroke:var(--area);stroke-width:4px}
.no{font-size:14px;font-weight:650}
.page{fill:var(--bg)}
.area{fill:var(--area)}
.bar{fill:var(--bar);stroke:var(--edge);stroke-width:.8}
.acs{stroke:var(--mark);stroke-width:1.6}
.gpu rect{fill:var(--gpu)}
.gpu text{fill:var(--bg)}
.nic rect{fill:var(--bg);stroke:var(--edge)}
.gone rect{fill:var(--bg);stroke:var(--bad);stroke-width:1.7;stroke-dasharray:2 3}
.gone text{fill:var(--bad)}
.link{stroke:var(--edge);opacity:.7}
.short{stroke:var(--mark);stroke-dasharray:5 3;opacity:1}
.port{fill:var(--bg);stroke:var(--edge)}
.down{stroke:var(--bad);stroke-width:1.7;fill:none}
.cut{stroke:var(--bad);stroke-width:1.7;stroke-dasharray:2 3}
.hatch{stroke:var(--mark);stroke-width:1.5}
.tint{fill:var(--tint)}
.sign{fill:var(--mark)}
.bad{fill:var(--bad);font-weight:700}
.warn{fill:var(--warn);font-weight:600}
"""
PALETTE = f":root{{{LIGHT}}}@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}\n"
"""The colours of the pictures, and of the pages that hold them."""
STYLE = PALETTE + RULES


def svg(picture: Picture, source: str) -> str:
    """A picture as an SVG document of some 1 KB for each device. `source` is its title."""
    drawing = Drawing(picture)
    width, height = drawing.size
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
        f' height="{height:g}" role="img" aria-labelledby="title">',
        f'<title id="title">{_safe(source)}</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{width:g}" height="{height:g}"/>',
        drawing.content(),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


CHARACTER = 7.2
"""Mean width of a character of 10.5 px, in pixels: enough for bold letters and capitals of DejaVu Sans."""
CODE, NAME = 5.6, 8
"""A device's name, 9.2 px: the width of a character in pixels, and characters of a line: `roceP2p1`."""


def _fitted(form: Form, picture: Picture) -> Form:
    """The measures of a picture without room for layers that are not in it."""
    boxes = list(picture.walk())
    near = 0.0
    if not picture.switch_levels:
        near = form.device[0] - form.bridge[1] - form.unit * (1 if form.tall else 2)
    if all(box.kind != "bridge" for box in boxes):
        near += form.bridge[1] - form.cpu[1]
    lines = max((len(box.port_words or _below_gpu(box)) for box in boxes), default=0)
    longest = max((len(" ".join(map(_short, box.port_words[:2]))) for box in boxes), default=0)
    end = form.port[1] + 24 + 13 * (lines - 1)
    if form.tall:
        end = max(form.depth, form.port[1] + 8 + CHARACTER * longest + RIGHT)
    else:
        name = max((len(part) for box in boxes if box.of for part in _parts(box.name)), default=0)
        form = replace(form, unit=max(form.unit, CODE * name + GAP + 3))
    return replace(
        form,
        device=(form.device[0] - near, form.device[1] - near),
        port=(form.port[0] - near, form.port[1] - near),
        depth=(end if lines else form.device[1] + 20) - near,
    )


class Drawing:
    """Draws the boxes of one picture. `hatch` is the id of the pattern of switches that redirect, unique
    within a page."""

    def __init__(self, picture: Picture, form: Form = WIDE, *, hatch: str = "hatch") -> None:
        self._picture, self._form, self._hatch = picture, _fitted(form, picture), hatch
        self._levels = picture.switch_levels
        self._kinds = {box.kind for box in picture.walk()}

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in pixels."""
        length = self._form.first + self._picture.width * self._form.unit + RIGHT
        return (self._form.depth, length) if self._form.tall else (length, self._form.depth)

    def content(self, over_links: str = "") -> str:
        """All elements; `over_links` lies on the boxes and links, and below the signs of devices."""
        lines = [
            f'<defs><pattern id="{self._hatch}" width="6" height="6" patternUnits="userSpaceOnUse"'
            ' patternTransform="rotate(45)"><rect class="tint" width="6" height="6"/>'
            '<path class="hatch" d="M0 0V6"/></pattern></defs>',
            *(() if self._form.tall else self._layers()),
            *(line for cpu in self._picture.cpus for line in self._tree(cpu)),
            over_links,
            *(self._device(box) for box in self._picture.walk() if box.kind in ("gpu", "nic")),
        ]
        return "\n".join(line for line in lines if line)

    def path(self, drawn: DrawnPath, lane: Lane) -> str:
        """A path as the `d` of an SVG path, with round corners; it ends where nothing goes on."""
        parts = [points(drawn, lane, self._middle, self._edges, self._form.device[0])]
        end = parts[0][-1][1]
        port = self._form.port
        reaches = port[0] - 4 if drawn.nic.is_down else port[1] + 2
        if drawn.nic.net is not None and drawn.nic.net.device:
            parts.append([(self._form.device[1], end), (reaches, end)])
        return "".join(self._rounded(part) for part in parts)

    def _rounded(self, line: list[tuple[float, float]]) -> str:
        first, *turns, last = rounded(line)
        words = "M{:.1f} {:.1f}".format(*self._xy(*first[0]))
        for enter, here, leave in turns:
            words += "L{:.1f} {:.1f}".format(*self._xy(*enter))
            words += "Q{:.1f} {:.1f} {:.1f} {:.1f}".format(*self._xy(*here), *self._xy(*leave))
        return words + "L{:.1f} {:.1f}".format(*self._xy(*last[0]))

    # -- measures --------------------------------------------------------------------------------------

    def _at(self, units: float) -> float:
        return self._form.first + units * self._form.unit

    def _middle(self, box: Box) -> float:
        return self._at(box.middle) - GAP / 2

    def _xy(self, depth: float, along: float) -> tuple[float, float]:
        return (depth, along) if self._form.tall else (along, depth)

    def _edges(self, box: Box) -> Edges:
        """Where the layer of a box begins and ends, in depth."""
        match box.kind:
            case "cpu":
                return self._form.cpu
            case "bridge":
                return self._form.bridge
            case "switch":
                return self._switch(box.level)
            case _:
                return self._form.device

    def _switch(self, level: int) -> Edges:
        gap = (self._form.device[0] - self._form.bridge[1]) / (self._levels + 1)
        height = min(self._form.switch, gap / 2)
        middle = self._form.bridge[1] + gap * (level + 1)
        return middle - height / 2, middle + height / 2

    # -- elements --------------------------------------------------------------------------------------

    def _rect(self, names: str, depth: Edges, along: Edges, radius: float, more: str = "") -> str:
        (x, y), (right, lower) = self._xy(depth[0], along[0]), self._xy(depth[1], along[1])
        named = f' class="{names}"' if names else ""
        return (
            f'<rect{named} x="{x:g}" y="{y:g}" width="{right - x:g}"'
            f' height="{lower - y:g}" rx="{radius:g}"{more}/>'
        )

    def _line(self, names: str, start: float, end: float, along: float, more: str = "") -> str:
        (x, y), (right, lower) = self._xy(start, along), self._xy(end, along)
        to = f"H{right:g}" if self._form.tall else f"V{lower:g}"
        return f'<path class="{names}"{more} d="M{x:g} {y:g}{to}"/>'

    def _beside(self, names: str, depth: float, along: Edges, words: str) -> str:
        """Words along a bar, on the side of the processors: at its beginning, or turned if they fit."""
        if not self._form.tall:
            return f'<text class="{names}" x="{along[0]:g}" y="{depth:g}">{_safe(words)}</text>'
        fitting = _fitting(words, along[1] - along[0])
        if len(fitting) * CHARACTER > along[1] - along[0]:
            return ""
        middle = (along[0] + along[1]) / 2
        turn = f' transform="rotate(-90 {depth:g} {middle:g})"'
        return f'<text class="{names} mid" x="{depth:g}" y="{middle:g}"{turn}>{_safe(fitting)}</text>'

    def _layers(self) -> Iterator[str]:
        """The names of the layers that the source shows, with the path types that turn round there."""
        form = self._form
        rows = [(form.cpu, "CPU", "NODE, SYS"), (form.device, "device", "")]
        if "bridge" in self._kinds:
            rows.append((form.bridge, "host bridge", "PHB"))
        if self._levels:
            edges = self._switch(0)[0], self._switch(self._levels - 1)[1]
            rows.append((edges, "switch", "PIX" if self._levels == 1 else "PIX, PXB"))
        if "nic" in self._kinds:
            rows.append((form.port, "port", ""))
        for (upper, lower), name, types in rows:
            middle = (upper + lower) / 2
            yield f'<text class="b" x="4" y="{middle:g}">{name}</text>'
            yield f'<text class="dim" x="4" y="{middle + 13:g}">{types}</text>' if types else ""

    def _tree(self, cpu: Box) -> Iterator[str]:
        """A processor and all below it: the area, then links, then the bars upon them."""
        form = self._form
        along = self._at(cpu.left) - 8, self._at(cpu.right) + 4
        yield self._rect("area", (4, form.device[1] + 12), along, 8)
        words = cpu.name if form.tall else _fitting(cpu.name, along[1] - along[0])
        yield self._beside("b", form.cpu[0] - (4 if form.tall else 9), (self._at(cpu.left), along[1]), words)
        for box in cpu.walk():
            for below in box.below:
                yield self._link(box, below)
        for box in cpu.walk():
            if box.kind not in ("gpu", "nic"):
                yield self._bar(box)

    def _link(self, above: Box, below: Box) -> str:
        along, start, end = self._middle(below), self._edges(above)[1], self._edges(below)[0]
        thick = 1 + (below.lanes or 4) / 8
        line = self._line(
            f"link{' short' if below.link else ''}", start, end, along, f' stroke-width="{thick:g}"'
        )
        if below.link:
            x, y = self._xy(end - 6, along)
            where = "warn halo" if self._form.tall else "warn mid"
            anchor = ' text-anchor="end"' if self._form.tall else ""
            line += f'<text class="{where}" x="{x:g}" y="{y:g}"{anchor}>{_safe(below.link)}</text>'
        if below.redirects:
            x, y = self._xy(start + 2, along)
            line += f'<path class="sign" d="M{x:g} {y:g}l6 11h-12z"/>'
        return line

    def _bar(self, box: Box) -> str:
        """A processor, a host bridge, a switch."""
        edges = self._edges(box)
        acs = any(below.redirects for below in box.below)
        along = self._at(box.left), self._at(box.right) - GAP
        hatched = f' fill="url(#{self._hatch})"' if acs else ""
        rect = self._rect("acs" if acs else "bar", edges, along, 3, hatched)
        name = f"{box.name} ACS" if acs else box.name
        names = f"halo {'warn' if acs else 'dim'}"
        words = self._beside(names, edges[0] - 4, along, name) if box.kind != "cpu" else ""
        return f"<g><title>{_safe(box.about)}</title>{rect}{words}</g>"

    def _device(self, box: Box) -> str:
        form = self._form
        along = self._at(box.left), self._at(box.left + 1) - GAP
        middle = sum(along) / 2
        if form.tall:
            x, y = form.device[0] + 6, middle + 4
            words = f'<text class="code" x="{x:g}" y="{y:g}">{_safe(box.name[:12])}</text>'
        else:
            first, last = _parts(box.name)
            upper = form.device[0]
            words = f'<text class="code mid" x="{middle:g}" y="{upper + 16:g}">{_safe(first)}</text>'
            if last:
                size = "no" if last.isdecimal() else "code"
                words += f'<text class="{size} mid" x="{middle:g}" y="{upper + 35:g}">{_safe(last)}</text>'
        mark = ""
        if box.translates:
            x, y = self._xy(form.device[0], along[1])
            mark = f'<path class="sign" d="M{x:g} {y - 7:g}l6 11h-12z"/>'
        rect = self._rect("", form.device, along, 4)
        names = f"{box.kind} dev{' gone' if box.unusable else ''}"
        return (
            f'<g class="{names}" data-device="{_safe(box.of)}"><title>{_safe(box.about)}</title>'
            f"{rect}{words}</g>{mark}{self._port(box, middle)}"
        )

    def _port(self, box: Box, along: float) -> str:
        """Below a NIC its port, with the rate; below a GPU its links besides PCIe."""
        form = self._form
        if box.gpu is not None:
            return self._below("bad" if box.unusable else "dim", form.port[0], along, *_below_gpu(box))
        net = box.net
        if net is None or not net.device:
            return ""
        start, end = form.port
        x, y = self._xy(start, along)
        left, top = (x, y - 7) if form.tall else (x - 7, y)
        below = end + 16
        if box.is_down:
            cross = f"M{left + 3:g} {top + 3:g}l8 8M{left + 11:g} {top + 3:g}l-8 8"
            return (
                self._line("cut", form.device[1], start, along)
                + f'<path class="down" d="M{left:g} {top:g}h14v14h-14z{cross}"/>'
                + self._below("bad", below, along, *box.port_words)
            )
        return (
            self._line("link", form.device[1], start, along, ' stroke-width="1.4"')
            + f'<rect class="port" x="{left:g}" y="{top:g}" width="14" height="14" rx="2"/>'
            + self._below("", below, along, *box.port_words)
        )

    def _below(self, names: str, depth: float, along: float, *lines: str) -> str:
        """Words after a device or a port, one below the other, or side by side in a tall picture."""
        lines = tuple(_short(line) for line in lines)
        if self._form.tall:
            words = " ".join(line for line in lines[: 2 if names == "bad" else 3] if line)
            return (
                f'<text class="{names}" x="{depth - 8:g}" y="{along + 4:g}">{_safe(words)}</text>'
                if words
                else ""
            )
        return "".join(
            f'<text class="{"dim" if number and names != "bad" else names} mid" x="{along:g}"'
            f' y="{depth + 13 * number:g}">{_safe(line)}</text>'
            for number, line in enumerate(lines)
            if line or (number == 0 and any(lines))
        )


def _below_gpu(box: Box) -> tuple[str, ...]:
    """The words below a GPU: why no program can use it, else its links besides PCIe."""
    return tuple(box.unusable.split()) or ((box.besides_pcie,) if box.besides_pcie else ())


def _short(word: str) -> str:
    return word if len(word) <= WORD else f"{word[: WORD - 1]}\N{HORIZONTAL ELLIPSIS}"


def _parts(name: str) -> tuple[str, str]:
    """A name on two lines of a box: `GPU` and `7`, `mlx5_` and `0`, `rocep1` and `s0f0`; else cut."""
    match = re.fullmatch(r"(.+?)(s\d+f\d+\S*|(?<=[A-Za-z_ ])\d+(?:/\d+)?)", name)
    first, last = (match[1].rstrip(), match[2]) if match else (name, "")
    return (first if len(first) <= NAME else f"{first[: NAME - 1]}\N{HORIZONTAL ELLIPSIS}"), last[:NAME]


def _fitting(words: str, width: float) -> str:
    """As many words as fit into a width."""
    while len(words) * CHARACTER > width and " " in words:
        words = words.rpartition(" ")[0]
    return words


def _safe(words: str) -> str:
    """Words of a stranger as text of XML: no markup, no control characters."""
    return html.escape(visible(words))


def scoped(rules: str, to: str) -> str:
    """Rules of CSS, one a line, that hold only inside of elements with a selector."""
    return "".join(f"{to} {rule}" for rule in rules.splitlines(keepends=True) if rule.strip())
