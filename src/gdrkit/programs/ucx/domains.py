"""What `ucx_info -d` shows: the memory domains of UCX, and what each can register.

Source: openucx/ucx src/tools/info/tl_info.c, print_md_info(), at the tags from v1.15.0 to v1.22.0. The NIC's
domain lists a GPU's memory if one of the files of peer memory exists, which a stub has, too
(src/uct/ib/base/ib_md.c); its `dmabuf` is that the verbs library and the kernel answer the call.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.formats.regex import regex


class MemoryDomain(Struct, frozen=True, kw_only=True):
    """One memory domain."""

    line: int  # of the line that decides about GPU memory: its memory types, or else its name
    name: str
    component: str
    registers_dmabuf: bool
    memory: dict[str, tuple[str, ...]]  # flags by type: {"host": ("access", "reg", "cache")}


_DOMAIN = regex(r"#? ?Memory domain: (\S{1,100})")
_FIELD = regex(r"#?\s+(?P<name>Component|register|memory types):\s*(?P<value>.*)")
_TYPE = regex(r"(?P<type>[a-z-]{2,20}) \((?P<flags>[a-z_, ]{2,80})\)")
_MOST_DOMAINS = 4096


def memory_domains(text: str) -> tuple[MemoryDomain, ...]:
    """The memory domains in a text, in its order."""
    found: list[dict[str, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if (domain := _DOMAIN.match(line)) is not None and len(found) < _MOST_DOMAINS:
            found.append({"name": domain[1], "line": str(number)})
        elif found and (field := _FIELD.match(line)) is not None and field["name"] not in found[-1]:
            found[-1][field["name"]] = field["value"]
            if field["name"] == "memory types":
                found[-1]["line"] = str(number)
    return tuple(
        MemoryDomain(
            line=int(one["line"]),
            name=one["name"],
            component=one.get("Component", ""),
            registers_dmabuf="dmabuf" in one.get("register", ""),
            memory={
                entry["type"]: tuple(re.split(r", *", entry["flags"]))
                for entry in _TYPE.finditer(one.get("memory types", ""))
            },
        )
        for one in found
    )


def can_register(domains: tuple[MemoryDomain, ...], nic: MemoryDomain) -> str:
    """How a NIC's domain can register a GPU's memory: as `dma-buf`, by `peer memory`, or `` for not at all.
    That it can does not show that UCX chooses it."""
    exports = any(
        "dmabuf" in flags for one in domains for kind, flags in one.memory.items() if "cuda" in kind
    )
    if exports and nic.registers_dmabuf:
        return "dma-buf"
    return "peer memory" if "reg" in nic.memory.get("cuda", ()) else ""
