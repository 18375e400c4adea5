"""The picture of a node on a page, and the next step: what a reader of any report needs first."""

from __future__ import annotations

import re
from typing import Literal, TypedDict

from gdrkit.fabric.picture import Picture
from gdrkit.fabric.picture_svg import TALL, WIDE, Drawing, Form
from gdrkit.formats.plural import plural
from gdrkit.html.node_sections import plan_step
from gdrkit.html.page import command, rich, safe
from gdrkit.html.pairs import Kind
from gdrkit.report.answers import BELOW, now
from gdrkit.report.causes import deciding, first_cause
from gdrkit.report.document import Report

NARROW = 9
"""Widths of a device: where two pictures stand side by side, a wider one is drawn tall."""

ENLARGED = 1.2
"""Largest size of a picture, as a multiple of its own: words of 10.5 px become 12.6."""

PLACEHOLDER = r"\b(?:FILE|NAME|HOST|PATH|VERSION|TARGET)\b"
"""Placeholders that a reader must replace, so a button that copies the command would not help."""

LEGEND = (
    ("parted", "r-d", "the direct path of the chosen pair"),
    ("parted", "r-s", "through host memory"),
    ("shared", "r-d", "the path of the chosen pair, through memory that both share"),
)
"""The lines of the picture: the class for the kinds of pairs that have it, that of the line, its words."""


def next_step(report: Report, target: str) -> str:
    """What to do now; each command of it can be copied. `target` is the node as the user named it."""
    words = now(report, first_cause(report), target)
    found = dict.fromkeys(re.findall(r"(?:(?<=Run `)|(?<=`)(?=sudo |gdr ))([^`<>]+)`", words))
    commands = [one for one in found if not re.search(PLACEHOLDER, one)]
    if BELOW in words:
        commands = [*(finding.expected for finding in deciding(report)), *commands]
    words = re.sub(r" More: `[^`]*`$", "", words)  # the command is below
    title = "Nothing to fix" if words.startswith("Nothing") else "Do this next"
    steps = ""
    if report.plan:
        steps = f"<ol>{''.join(f'<li>{plan_step(step)}</li>' for step in report.plan[0].steps)}</ol>"
    copied = "".join(map(command, commands))
    ask = f"<p>Or ask the owner of the host:</p>{command(report.ask)}" if report.ask else ""
    return f'<div class="next"><h2>{title}</h2><p>{rich(words)}</p>{copied}{ask}{steps}</div>'


def figure(drawn: Picture | None, why_not: str, pair: DrawnPair | None = None, *, key: str = "") -> str:
    """The picture of a node with the path of a pair, drawn wide and tall; the page shows the one that fits.
    Without a picture, the reason. `key` distinguishes two narrow pictures on one page."""
    if drawn is None or not drawn.cpus:
        why = why_not or "no GPU and no NIC was found"
        return f'<figure class="pic"><p class="sub">No picture: {safe(why)}.</p></figure>'
    both = _svg(drawn, WIDE, "wide", pair, key) + _svg(drawn, TALL, "tall", pair, key)
    legend = "".join(
        f'<li class="{name}"><svg viewBox="0 0 30 8" aria-hidden="true"><path class="{style}" d="M2 4H28"/>'
        f"</svg>{words}</li>"
        for name, style, words in LEGEND
    )
    legend += "<li>The higher a path climbs, the farther the pair.</li>"
    kind = f' data-kind="{pair["kind"]}"' if pair else ""
    listed = f'<ul class="legend">{legend}</ul>' if pair else ""
    high = " high" if key and drawn.width > NARROW else ""
    return (
        f'<figure class="pic{high}"{kind}>{both}<figcaption>{listed}'
        f'<p class="hidden">{safe(_described(drawn))}</p></figcaption></figure>'
    )


def _svg(
    drawn: Picture, form: Form, shape: Literal["wide", "tall"], pair: DrawnPair | None, key: str
) -> str:
    drawing = Drawing(drawn, form, hatch=f"hatch-{shape}{key}")
    width, height = drawing.size
    direct, staged = pair[shape] if pair else ("", "")
    paths = f'<path class="r-s" d="{staged}"/><path class="r-d" d="{direct}"/>'
    return (
        f'<svg class="{shape}" viewBox="0 0 {width:g} {height:g}" width="{width * ENLARGED:g}" '
        f'role="img" aria-label="The node as a tree">{drawing.content(paths)}</svg>'
    )


def _described(drawn: Picture) -> str:
    """The picture in words: the number of each kind of box, and every fault."""
    boxes = list(drawn.walk())
    nouns = {
        "cpu": "processor", "bridge": "host bridge", "switch": "switch", "gpu": "GPU", "nic": "NIC port",
    }  # fmt: skip
    words = ", ".join(plural(sum(box.kind == kind for box in boxes), noun) for kind, noun in nouns.items())
    faults = [f"{box.name}: {mark}" for box in boxes for mark in box.marks]
    faults += [f"{box.name}: {box.unusable}" for box in boxes if box.unusable]
    faults += [f"{box.name}: port {box.net.state_words}" for box in boxes if box.net and box.net.is_down]
    return f"The node has {words}. {'; '.join(faults) or 'No fault is marked'}."


class DrawnPair(TypedDict):
    """The paths of a pair as SVG paths, in each form the direct and the staged one; the script reads it."""

    gpu: str
    net: str
    kind: Kind
    wide: tuple[str, str]
    tall: tuple[str, str]
