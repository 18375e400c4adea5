"""The picture of a node as SVG: `gdr topo --svg`. One file, without scripts or anything from elsewhere.

A state has a shape of its own and never only a colour: a port that is down is a square with a cross, below
a dashed line; a link that is narrower than it could be says so; where ACS redirects there is a triangle,
and the switch is hatched; a NIC behind an IOMMU that translates has a triangle at its corner.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from gdrkit.agent.streams import visible
from gdrkit.fabric.picture import Box, Picture

UNIT, BOX = 38.0, 34.0  # a device with the gap beside it, and without, in pixels
LEFT, RIGHT = 84.0, 14.0  # the margin with the names of the layers, and the other one
CPU, BRIDGE, DEVICE, PORT = (30.0, 58.0), (112.0, 132.0), (290.0, 336.0), (360.0, 374.0)
"""Upper and lower edge of each layer, in pixels; switches share the space between bridges and devices."""
SWITCH_HEIGHT = 22.0
HEIGHT = 424.0

# Words have a contrast of at least 4.5, marks of 3 (WCAG 2.2, 1.4.3 and 1.4.11); blue-grey and orange are
# different also for people who are colour-blind.
STYLE = """
:root{--bg:#fff;--area:#f5f6f8;--bar:#eaedf1;--ink:#14171c;--dim:#535b69;--edge:#7f8898;--gpu:#3b4554;
--bad:#b3330a;--warn:#7a4f00;--mark:#b87a00;--tint:#fdf2d5}
@media (prefers-color-scheme:dark){:root{--bg:#101317;--area:#181c22;--bar:#232932;--ink:#e8ebf0;
--dim:#a4adbb;--edge:#768293;--gpu:#c3ccd8;--bad:#ff8f66;--warn:#f0bd4e;--mark:#c99417;--tint:#352808}}
text{font:10.5px system-ui,sans-serif;fill:var(--ink)}.dim{fill:var(--dim)}.b{font-weight:600}
.code{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:9.2px}.mid{text-anchor:middle}
.halo{paint-order:stroke;stroke:var(--area);stroke-width:4px}
.no{font-size:14px;font-weight:650}.page{fill:var(--bg)}.area{fill:var(--area)}
.bar{fill:var(--bar);stroke:var(--edge);stroke-width:.8}.acs{stroke:var(--mark);stroke-width:1.6}
.gpu rect{fill:var(--gpu)}.gpu text{fill:var(--bg)}.nic rect{fill:var(--bg);stroke:var(--edge)}
.link{stroke:var(--edge);opacity:.7}.short{stroke:var(--mark);stroke-dasharray:5 3;opacity:1}
.port{fill:var(--bg);stroke:var(--edge)}.down{stroke:var(--bad);stroke-width:1.7;fill:none}
.cut{stroke:var(--bad);stroke-width:1.7;stroke-dasharray:2 3}.hatch{stroke:var(--mark);stroke-width:1.5}
.tint{fill:var(--tint)}.sign{fill:var(--mark)}.bad{fill:var(--bad);font-weight:700}
.warn{fill:var(--warn);font-weight:600}
"""


def svg(picture: Picture, source: str) -> str:
    """A picture as an SVG document of some 1 KB for each device. `source` is its title."""
    width = LEFT + picture.width * UNIT + RIGHT
    drawing = _Drawing(picture)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {HEIGHT:g}" width="{width:g}"'
        f' height="{HEIGHT:g}" role="img" aria-labelledby="title">',
        f'<title id="title">{_safe(source)}</title>',
        f"<style>{STYLE}</style>",
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"'
        ' patternTransform="rotate(45)"><rect class="tint" width="6" height="6"/>'
        '<path class="hatch" d="M0 0V6"/></pattern></defs>',
        f'<rect class="page" width="{width:g}" height="{HEIGHT:g}"/>',
        *drawing.layers(),
        *(line for cpu in picture.cpus for line in drawing.tree(cpu)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


class _Drawing:
    """Draws the boxes of one picture."""

    def __init__(self, picture: Picture) -> None:
        self._levels = picture.switch_levels
        self._kinds = {box.kind for box in picture.walk()}

    def layers(self) -> Iterator[str]:
        """The names of the layers that the source shows, with the path types that turn round there."""
        rows = [(CPU, "CPU", "NODE, SYS"), (DEVICE, "device", "")]
        if "bridge" in self._kinds:
            rows.append((BRIDGE, "host bridge", "PHB"))
        if self._levels:
            edges = self._switch(0)[0], self._switch(self._levels - 1)[1]
            rows.append((edges, "switch", "PIX" if self._levels == 1 else "PIX, PXB"))
        if "nic" in self._kinds:
            rows.append((PORT, "port", ""))
        for (upper, lower), name, types in rows:
            middle = (upper + lower) / 2
            yield f'<text class="b" x="4" y="{middle:g}">{name}</text>'
            yield f'<text class="dim" x="4" y="{middle + 13:g}">{types}</text>' if types else ""

    def tree(self, cpu: Box) -> Iterator[str]:
        """A processor and all below it: the area, then links, then the boxes upon them."""
        left, width = _x(cpu.left) - 8, (cpu.right - cpu.left) * UNIT + 12
        yield (
            f'<rect class="area" x="{left:g}" y="4" width="{width:g}" height="{DEVICE[1] + 8:g}" rx="8"/>'
            f'<text class="b" x="{_x(cpu.left):g}" y="21">{_safe(_fitting(cpu.about, width))}</text>'
        )
        for box in cpu.walk():
            for below in box.below:
                yield self._link(box, below)
        for box in cpu.walk():
            yield self._device(box) if box.kind in ("gpu", "nic") else self._bar(box)

    def _switch(self, level: int) -> tuple[float, float]:
        """Upper and lower edge of the switches of a level."""
        gap = (DEVICE[0] - BRIDGE[1]) / (self._levels + 1)
        height = min(SWITCH_HEIGHT, gap / 2)
        middle = BRIDGE[1] + gap * (level + 1)
        return middle - height / 2, middle + height / 2

    def _edges(self, box: Box) -> tuple[float, float]:
        match box.kind:
            case "cpu":
                return CPU
            case "bridge":
                return BRIDGE
            case "switch":
                return self._switch(box.level)
            case _:
                return DEVICE

    def _link(self, above: Box, below: Box) -> str:
        x, top, end = _x(below.middle) - 2, self._edges(above)[1], self._edges(below)[0]
        thick = 1 + (below.lanes or 4) / 8
        line = (
            f'<path class="link{" short" if below.link else ""}" stroke-width="{thick:g}"'
            f' d="M{x:g} {top:g}V{end:g}"/>'
        )
        if below.link:
            line += f'<text class="warn mid" x="{x:g}" y="{end - 6:g}">{_safe(below.link)}</text>'
        if below.redirects:
            line += f'<path class="sign" d="M{x:g} {top + 2:g}l6 11h-12z"/>'
        return line

    def _bar(self, box: Box) -> str:
        """A processor, a host bridge, a switch."""
        upper, lower = self._edges(box)
        acs = any(below.redirects for below in box.below)
        x, width = _x(box.left), (box.right - box.left) * UNIT - (UNIT - BOX)
        hatched = ' fill="url(#hatch)"' if acs else ""
        rect = (
            f'<rect class="{"acs" if acs else "bar"}" x="{x:g}" y="{upper:g}" width="{width:g}"'
            f' height="{lower - upper:g}" rx="3"{hatched}/>'
        )
        name = f"{box.name} ACS" if acs else box.name
        words = (
            f'<text class="halo {"warn" if acs else "dim"}" x="{x:g}" y="{upper - 4:g}">{_safe(name)}</text>'
        )
        return f"<g><title>{_safe(box.about)}</title>{rect}{words if name else ''}</g>"

    def _device(self, box: Box) -> str:
        x, (upper, lower) = _x(box.left), DEVICE
        first, last = _parts(box.name)
        middle = x + BOX / 2
        words = f'<text class="code mid" x="{middle:g}" y="{upper + 16:g}">{_safe(first)}</text>'
        if last:
            size = "no" if last.isdecimal() else "code"
            words += f'<text class="{size} mid" x="{middle:g}" y="{upper + 35:g}">{_safe(last)}</text>'
        corner = f'<path class="sign" d="M{x + BOX:g} {upper - 7:g}l6 11h-12z"/>'
        mark = corner if box.translates else ""
        return (
            f'<g class="{box.kind}"><title>{_safe(box.about)}</title><rect x="{x:g}" y="{upper:g}"'
            f' width="{BOX:g}" height="{lower - upper:g}" rx="4"/>{words}</g>{mark}{self._port(box, middle)}'
        )

    def _port(self, box: Box, x: float) -> str:
        """Below a NIC its port, with the rate; below a GPU its links besides PCIe."""
        below = PORT[1] + 16
        if box.gpu is not None:
            links = sum(link.count for link in box.gpu.nvlinks or ())
            name = "C2C" if box.gpu.c2c is not None else f"NV{links}" if links else ""
            return f'<text class="dim mid" x="{x:g}" y="{PORT[0]:g}">{name}</text>' if name else ""
        net = box.net
        if net is None or not net.device:
            return ""
        upper, lower = PORT
        if net.state not in ("", "ACTIVE"):
            a, b = upper + 3, lower - 3
            return (
                f'<path class="cut" d="M{x:g} {DEVICE[1]:g}V{upper:g}"/><path class="down" d="M{x - 7:g}'
                f' {upper:g}h14v14h-14zM{x - 4:g} {a:g}l8 {b - a:g}M{x + 4:g} {a:g}l-8 {b - a:g}"/>'
                f'<text class="bad mid" x="{x:g}" y="{below:g}">{_safe(net.state)}</text>'
            )
        rate = f"{net.rate_gbit_per_s:g}" if net.rate_gbit_per_s is not None else ""
        layer = {"InfiniBand": "IB", "Ethernet": "Eth"}.get(net.link_layer, "")
        return (
            f'<path class="link" stroke-width="1.4" d="M{x:g} {DEVICE[1]:g}V{upper:g}"/><rect class="port"'
            f' x="{x - 7:g}" y="{upper:g}" width="14" height="14" rx="2"/>'
            f'<text class="mid" x="{x:g}" y="{below:g}">{rate}</text>'
            f'<text class="dim mid" x="{x:g}" y="{below + 13:g}">{layer}</text>'
        )


def _x(units: float) -> float:
    return LEFT + units * UNIT


def _parts(name: str) -> tuple[str, str]:
    """A name on two lines of a box: `mlx5_` and `0`, `rocep1` and `s0f0`; longer ones are cut."""
    match = re.fullmatch(r"(.+?)(s\d+f\d+\S*|(?<=[A-Za-z_])\d+(?:/\d+)?)", name)
    first, last = match.groups() if match else (name, "")
    return (first if len(first) <= 6 else f"{first[:5]}\N{HORIZONTAL ELLIPSIS}"), last[:6]


CHARACTER = 5.9
"""Mean width of a character of 10.5 px, in pixels: enough for bold letters of Arial and DejaVu Sans."""


def _fitting(words: str, width: float) -> str:
    """As many words as fit into a width."""
    while len(words) * CHARACTER > width and " " in words:
        words = words.rpartition(" ")[0]
    return words


def _safe(words: str) -> str:
    """Words of a stranger as text of XML: no markup, no control characters."""
    return html.escape(visible(words))
