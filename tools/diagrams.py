"""Draw the pictures that explain: two ways to register GPU memory, a decision of NCCL, where a fix leads.

tools/pictures.py writes them to docs/pictures/. What they say of a machine is what gdr says of a node of
tests/evidence. Sources of the two ways: Linux drivers/infiniband/core/umem_dmabuf.c, NVIDIA's
kernel-open/nvidia-peermem/nvidia-peermem.c and kernel-open/nvidia/nv-dmabuf.c, OFED's ib_core peer_mem.c.
"""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Iterable

from tools.shown import ran

from gdrkit.fabric.nccl.gdr_check import Condition
from gdrkit.fabric.nccl.view import WORDS
from gdrkit.fabric.picture_svg import STYLE
from gdrkit.fabric.topology.products import CONSUMER, INTEGRATED
from gdrkit.html.page import GLYPHS, Glyph

CHARACTER, LINE = 6.2, 15
"""Pixels: the width of a character of 10.5 px with some reserve, and the height of a line."""
MORE = (
    ".ok{color:#0b57c9}.bad{color:var(--bad)}.warning{color:var(--mark)}.impossible,.none{color:var(--dim)}"
    ".fill{fill:currentColor}.line{fill:none;stroke:currentColor;stroke-width:1.5}"
    ".on{fill:none;stroke:var(--bg);stroke-width:1.8}.arrow{stroke:var(--edge);fill:none;stroke-width:1.4}"
    "@media (prefers-color-scheme:dark){.ok{color:#7db3ff}}"
)


Step = tuple[str, str, Glyph | None]
"""A box: its title, its words, its sign."""


def _document(title: str, width: float, height: float, parts: Iterable[str]) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
        f' height="{height:g}" role="img" aria-labelledby="title"><title id="title">{title}</title>',
        f'<style>{STYLE}{MORE}</style><rect class="page" width="{width:g}" height="{height:g}"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _text(x: float, y: float, words: str, names: str = "") -> str:
    named = f' class="{names}"' if names else ""
    return f'<text{named} x="{x:g}" y="{y:g}">{html.escape(words)}</text>'


def _sign(x: float, y: float, name: Glyph) -> str:
    return f'<g class="{name}" transform="translate({x:g} {y:g}) scale(.8)">{GLYPHS[name]}</g>'


def _wrapped(words: str, width: float) -> list[str]:
    return textwrap.wrap(words, int(width / CHARACTER))


def _rows(words: str, width: float, sign: Glyph | None) -> list[str]:
    return textwrap.wrap(words, int((width - (34 if sign else 18)) / CHARACTER))


def _height(words: str, width: float, sign: Glyph | None = None) -> float:
    return 12 + LINE * (1 + len(_rows(words, width, sign)))


def _box(x: float, y: float, width: float, step: Step, height: float = 0) -> list[str]:
    """A box with a bold line and text below it; one with a sign has room for it at the left."""
    title, words, sign = step
    left = x + (26 if sign else 10)
    parts = [
        f'<rect class="bar" x="{x:g}" y="{y:g}" width="{width:g}" '
        f'height="{height or _height(words, width, sign):g}" rx="4"/>',
        _text(left, y + 17, title, "b"),
        *(_text(left, y + 17 + LINE * n, row, "dim") for n, row in enumerate(_rows(words, width, sign), 1)),
    ]
    return [*parts, _sign(x + 8, y + 7, sign)] if sign else parts


def _arrow(x: float, start: float, end: float) -> str:
    return f'<path class="arrow" d="M{x:g} {start:g}V{end:g}m-4 -5l4 5l4 -5"/>'


# -- the two ways ------------------------------------------------------------------------------------------

WAYS: dict[str, tuple[Step, ...]] = {
    "peermem": (
        ("a program", "ibv_reg_mr() with an address of GPU memory", None),
        ("RDMA core with the peer-memory API", "asks each of its clients whose address it is. OFED has it, "
         "and Ubuntu's kernels before 6.8", "warning"),
        ("nvidia-peermem", "answers, and takes the pages with nvidia_p2p_get_pages(). Built for one RDMA "
         "core and one driver", "warning"),
        ("NVIDIA's driver", "pins the pages, and gives their addresses on the bus, in BAR1", None),
    ),
    "dma-buf": (
        ("a program", "gets a file descriptor for GPU memory from CUDA, and calls ibv_reg_dmabuf_mr()",
         None),
        ("RDMA core", "imports the dma-buf. In Linux since 5.12, in some distributions earlier", None),
        ("the kernel's dma-buf", "asks the driver that exported it. No module between the two", None),
        ("NVIDIA's open modules", "pin the pages, and give their addresses on the bus, in BAR1. The "
         "proprietary modules export nothing", "warning"),
    ),
}  # fmt: skip
END: Step = ("the NIC's driver", "writes the addresses into the NIC's table: from now on the NIC reads and "
             "writes GPU memory by itself", "ok")  # fmt: skip


def two_ways() -> str:
    """peermem and dma-buf beside each other, from the program to the NIC."""
    width, gap, top = 340.0, 20.0, 34.0
    parts, y = [], top
    for number, name in enumerate(WAYS):
        parts.append(_text(10 + number * (width + gap), 20, name, "no"))
    for row in zip(*WAYS.values(), strict=True):
        height = max(_height(words, width, sign) for _, words, sign in row)
        for number, (title, words, sign) in enumerate(row):
            x = 10 + number * (width + gap)
            parts += [
                *_box(x, y, width, (title, words, sign), height),
                _arrow(x + width / 2, y + height, y + height + 16),
            ]
        y += height + 18
    whole = 2 * width + gap
    parts += _box(10, y, whole, END)
    return _document(
        "Two ways to register GPU memory", whole + 20, y + _height(END[1], whole, "ok") + 10, parts
    )


# -- a decision of NCCL ------------------------------------------------------------------------------------

QUESTIONS = {
    Condition.NIC: ("Is there a way to register GPU memory with this NIC?", "dma-buf or nvidia-peermem"),
    Condition.GPU: ("Does the GPU support it?", "CUDA attribute 116"),
    Condition.READ: ("May the NIC read this GPU? Asked for sends only", "NCCL_NET_GDR_READ, NVLink, or "
                     "compute capability 8.0"),
    Condition.DISTANCE: ("Is the NIC near enough?", "path type at most NCCL_NET_GDR_LEVEL, by default PXB"),
}  # fmt: skip
LASTING = (CONSUMER.sentence, INTEGRATED.sentence)
PAIRS = (
    ("ubuntu-6.8-h100", "an H100 and its own NIC", 0, 0),
    ("ubuntu-6.8-h100", "a NIC at the other socket, without PXN", 0, 7),
    ("zgx-3285", "a DGX Spark", 0, 1),
)
"""Nodes of tests/evidence, what the pair is, and the numbers of its GPU and its port."""


def nccl_decides() -> str:
    """What NCCL asks of a GPU and a NIC before it sends directly, and the answers for three real pairs."""
    first, column, top = 350.0, 170.0, 46.0
    parts: list[str] = []
    answers = [_asked(node, gpu, net) for node, _, gpu, net in PAIRS]
    for number, (_, about, *_rest) in enumerate(PAIRS):
        for line, words in enumerate(_wrapped(about, column - 8)):
            parts.append(_text(first + number * column, 18 + LINE * line, words, "b"))
    y = top
    for condition, (question, detail) in QUESTIONS.items():
        parts.append(f'<path class="link" d="M10 {y:g}H{first + 3 * column - 10:g}"/>')
        parts += [_text(10, y + 20, question, "b"), _text(10, y + 20 + LINE, detail, "dim")]
        for number, (refused, _, seen) in enumerate(answers):
            x = first + number * column
            if refused == condition:
                parts.append(_sign(x, y + 9, "bad"))
                lines = _wrapped(seen, column - 24)
                parts += [_text(x + 18, y + 20 + LINE * n, line, "dim") for n, line in enumerate(lines)]
            elif seen in LASTING:
                parts.append(_text(x + 18, y + 20, "does not matter", "dim"))
            elif refused is None or _before(condition, refused):
                parts += [_sign(x, y + 9, "ok"), _text(x + 18, y + 20, "yes")]
            else:
                parts.append(_text(x + 18, y + 20, "not asked", "dim"))
        y += 64
    parts.append(f'<path class="link" d="M10 {y:g}H{first + 3 * column - 10:g}"/>')
    parts.append(_text(10, y + 22, "NCCL sends", "b"))
    for number, (_, outcome, _) in enumerate(answers):
        parts.append(_text(first + number * column, y + 22, outcome, "b"))
    return _document("What NCCL asks before it sends directly", first + 3 * column, y + 38, parts)


def _before(one: Condition, other: Condition) -> bool:
    order = list(QUESTIONS)
    return order.index(one) < order.index(other)


def _asked(node: str, gpu: int, net: int) -> tuple[Condition | None, str, str]:
    """The condition that refuses a pair, None if none does; how NCCL sends; and what it saw."""
    found = json.loads(ran(node, "topo node.tar.gz --json --env NCCL_PXN_DISABLE=1"))  # which needs NVLink
    topology = found["topology"]
    ids = topology["gpus"][gpu]["id"], topology["nets"][net]["id"]
    send = next(pair["send"] for pair in found["pairs"] if (pair["gpu"], pair["net"]) == ids)
    if send["direct"]:
        return None, "directly", ""
    because = send["because"]
    known = {words: condition for condition, words in WORDS.items()} | dict.fromkeys(LASTING, Condition.GPU)
    return known.get(because, Condition.DISTANCE), "through host memory", because


# -- where a fix leads -------------------------------------------------------------------------------------


def leads(node: str, remedy: str) -> str:
    """The steps that follow an obvious fix on a node, what modprobe says after each, and the end."""
    found = json.loads(ran(node, "doctor node.tar.gz --json"))
    chain = next(chain for chain in found["what_then"] if chain[0]["remedy"] == remedy)
    parts: list[str] = []
    width, y = 640.0, 12.0
    for number, step in enumerate(chain, 1):
        says = (step.get("modprobe") or {}).get("stderr") or ""
        words = f"{step['effect']}. {says and f'Then modprobe says: {says}'}".strip()
        parts += _box(10, y, width, (f"{number}. {step['remedy']}", words, None))
        height = _height(words, width)
        parts.append(_arrow(30, y + height, y + height + 16))
        y += height + 18
    end = chain[-1]["then"]
    words = f"because of {', '.join(end['blocked_by'])}"
    parts += _box(10, y, width, (f"the verdict is {end['state']}", words, "impossible"))
    title = f"Where {remedy} leads on this machine"
    return _document(title, width + 20, y + _height(words, width, "impossible") + 10, parts)


def drawn() -> dict[str, str]:
    """Each picture by its name."""
    return {
        "two-ways": two_ways(),
        "nccl-decides": nccl_decides(),
        "sign-module": leads("zgx-3285", "sign-module"),
    }
