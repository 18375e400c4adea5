"""What UCX's own outputs in a text decide: the tables of UCX_PROTO_INFO, and `ucx_info -d`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import Reading
from gdrkit.explain.outputs.settings import settings
from gdrkit.formats.regex import regex
from gdrkit.programs.setting_codes import is_interface
from gdrkit.programs.ucx.consumer import UCX, leaves_out_rdma
from gdrkit.programs.ucx.domains import can_register, memory_domains
from gdrkit.programs.ucx.proto_tables import UcxPath, UcxVerdict
from gdrkit.rules.capabilities import DIRECT, Path

OFF = "dmabuf-disabled-by-env"
NO_PEERMEM = ("ucx-misses-peermem", "peermem-not-loaded")
STAGED = (*NO_PEERMEM, "ucx-lacks-dmabuf", "driver-proprietary")
"""Why UCX copies GPU memory that goes over RDMA: it found neither peer memory nor dma-buf (openucx/ucx
src/uct/ib/base/ib_md.c), as far as no setting asks for it."""

OVER_TCP = ("ucx-transport-excluded", "ucx-lacks-verbs", "no-rdma-device", "rdma-device-not-in-container")
"""Why UCX uses TCP between nodes: it has, or may use, no transport over RDMA."""

NO_DOMAIN = ("ucx-lacks-verbs", "no-rdma-device", "rdma-device-not-in-container")
"""Why `ucx_info -d`, which no setting of transports changes, lists no NIC."""


EXCLUDED = "ucx-transport-excluded"
_GIVEN = regex(r"\bUCX_\* env variables?: (?P<given>UCX_.*)")
"""What UCX prints at level info of its variables: openucx/ucx src/ucs/config/parser.c,
ucs_config_parser_print_env_vars(). Those of ucx.conf are not among them."""
_LANES = regex(r"\binter-node cfg#\d+ +(?P<lanes>(?:\w+\([^()]{0,400}\) *)+)$")
"""The lanes of an endpoint: openucx/ucx src/ucp/core/ucp_worker.c, ucp_worker_print_used_tls()."""
_CAUSES = {UcxPath.STAGED: STAGED, UcxPath.MIXED: OVER_TCP, UcxPath.TCP: OVER_TCP}


@functools.lru_cache(maxsize=8)  # of a machine, for its facts and for its readings
def ucx_tables(lines: tuple[TextLine, ...]) -> UcxVerdict | None:
    """The verdict on the tables of one machine; None if its lines show none."""
    text = _text_with("cfg", lines)
    if not text:
        return None
    from gdrkit.formats.ucx_proto import read_tables
    from gdrkit.programs.ucx.proto_tables import verdict

    return verdict(read_tables(text))


def ucx_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """The row that shows GPU memory copied, and the domains of NICs that cannot register it."""
    positions = {line.number: position for position, line in enumerate(lines)}
    found = ucx_tables(lines)
    if found is not None and found.worst is not None:
        codes, position = _CAUSES.get(found.worst.path), positions[found.worst.line]
        off = _switched_off(lines) if codes is STAGED else None
        if off is not None and set(off.closes) >= set(DIRECT):
            shown = f"{off.seen}, and line {found.worst.line} shows GPU memory copied through host memory"
            yield Reading(lines[off.position], off.position, (OFF,), shown)
        elif codes is OVER_TCP:
            yield _over_tcp(lines, position, found.claim)
        elif codes is not None:
            left = codes if off is None else (OFF, *NO_PEERMEM)
            yield Reading(lines[position], position, left, found.claim)
    elif (lanes := _lanes_of_tcp(lines)) is not None:
        yield _over_tcp(lines, lanes, "UCX reaches the other node over TCP alone")
    domains = memory_domains(_text_with("Memory domain: ", lines))
    nics = [one for one in domains if one.component == "ib"]
    # a list without its beginning or without another network is an excerpt: what it leaves out is not known
    if not nics and {"self", "tcp"} <= {one.component for one in domains}:
        position = positions[domains[0].line]
        yield Reading(lines[position], position, NO_DOMAIN, "ucx_info lists no NIC: no `Component: ib`")
    for nic in nics:
        if any(one.component == "cuda_cpy" for one in domains) and not can_register(domains, nic):
            position = positions[nic.line]
            yield Reading(
                lines[position], position, STAGED, f"UCX cannot register GPU memory with {nic.name}"
            )


def _lanes_of_tcp(lines: tuple[TextLine, ...]) -> int | None:
    """The position of an endpoint on another node whose lanes are all of TCP; None if there is none."""
    for position, line in enumerate(lines):
        found = _LANES.search(line.text.rstrip()) if line.kind in EVIDENCE else None
        lanes = re.findall(r"([\w.]+)/", found["lanes"]) if found is not None else []
        if lanes and set(lanes) == {"tcp"}:
            return position
    return None


def _over_tcp(lines: tuple[TextLine, ...], position: int, claim: str) -> Reading:
    """Why UCX uses TCP: the setting that it prints, if one leaves out RDMA. If it prints none of transports
    or devices, only ucx.conf may have one, which is the last to look at."""
    given = [(at, found["given"]) for at, line in enumerate(lines)
             if line.kind in EVIDENCE and (found := _GIVEN.search(line.text)) is not None]  # fmt: skip
    choices = [(at, name, value) for at, text in given
               for name, value in re.findall(r"(UCX_TLS|UCX_NET_DEVICES)=(\S+)", text)]  # fmt: skip
    for at, name, value in choices:
        if leaves_out_rdma(value) if name == "UCX_TLS" else all(map(is_interface, value.split(","))):
            shown = f"{name}={value} leaves out RDMA, and line {lines[position].number} shows TCP"
            return Reading(lines[at], at, (EXCLUDED,), shown)
    codes = OVER_TCP if choices or not given else (*OVER_TCP[1:], EXCLUDED)
    return Reading(lines[position], position, codes, claim)


class _SwitchedOff(Struct, frozen=True):
    """A setting that turns direct paths of UCX off."""

    seen: str
    position: int
    closes: tuple[Path, ...]


def _switched_off(lines: tuple[TextLine, ...]) -> _SwitchedOff | None:
    """The setting of a machine that turns most of UCX's direct paths off; None if there is none."""
    given = settings(lines)
    found = [
        _SwitchedOff(f"{name}={value}", position, switch.closes)
        for position, line in enumerate(lines)
        for name, value in given.get(line.number, ())
        for switch in UCX.switches
        if switch.name == name and switch.off(value) and not switch.network
    ]
    return max(found, key=lambda one: len(one.closes), default=None)


def _text_with(words: str, lines: tuple[TextLine, ...]) -> str:
    """What programs printed in the lines, each at its number in the text; "" if no line has the words."""
    printed = [line for line in lines if line.kind in EVIDENCE]
    if not any(words in line.text for line in printed):
        return ""
    text: list[str] = []
    for line in printed:
        text += [""] * (line.number - 1 - len(text))
        text.append(line.text)
    return "\n".join(text)
