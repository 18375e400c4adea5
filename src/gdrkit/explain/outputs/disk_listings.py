"""What listings of NVIDIA's modules on disk show: who signed them, and for what they were built.

Sources: kmod tools/modinfo.c; dkms(8), whose rows are `MODULE/VERSION, KERNEL, ARCHITECTURE: STATE`, and
`MODULE, VERSION, ...` before dkms 3.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gdrkit.explain.explanation import STATE
from gdrkit.explain.lines.blocks import EVIDENCE, Block, blocks
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import Reading
from gdrkit.formats.module_name import canonical
from gdrkit.formats.regex import regex

OF_DRIVER = ("nvidia", "nvidia_peermem", "nvidia_uvm", "nvidia_modeset", "nvidia_drm")


class Signer(Struct, frozen=True):
    """Who signed a module, "" for nobody, and the line that shows it."""

    module: str
    name: str
    number: int


def disk_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """Modules of the driver that differ in their signer, and those that only other kernels have."""
    positions = {line.number: position for position, line in enumerate(lines)}
    for number, codes, note in (*_unlike(lines), *_for_other_kernels(lines)):
        position = positions[number]
        yield Reading(lines[position], position, codes, note)


# -- signers -------------------------------------------------------------------------------------------


_Found = tuple[int, tuple[str, ...], str]
"""The number of a line, its causes, and a note."""


def _unlike(lines: tuple[TextLine, ...]) -> Iterator[_Found]:
    """The first module of the driver whose signer is not that of another one."""
    shown = [one for one in signers(blocks(lines)) if one.module in OF_DRIVER]
    names = {one.name for one in shown}
    if len(names) < 2:
        return
    odd = next((one for one in shown if not one.name), shown[-1])
    enforced = any(line.text.strip() == "SecureBoot enabled" for line in lines if line.kind in EVIDENCE)
    if enforced and not odd.name:
        yield (
            odd.number,
            ("module-unsigned",),
            f"Secure Boot is on, and {odd.module} is unsigned",
        )
    else:
        yield odd.number, ("mixed-signers",), STATE


def signers(every: tuple[Block, ...]) -> Iterator[Signer]:
    """The signers that `modinfo -F signer` prints for one module, for several, or in a loop over them."""
    for block in every:
        if any(line.cut for line in block.lines):
            continue
        if block.argv[:3] == ("modinfo", "-F", "signer"):
            modules = [_module(word) for word in block.argv[3:]]
            if len(modules) == len(block.lines):
                for module, line in zip(modules, block.lines, strict=True):
                    yield Signer(module, line.text.strip(), line.number)
            elif len(modules) == 1 and not block.lines and block.ended:
                yield Signer(modules[0], "", block.number)
        elif "modinfo -F signer" in block.command:
            for line in block.lines:
                if row := _SIGNED.fullmatch(line.text.strip()):
                    yield Signer(canonical(row["module"]), row["name"], line.number)


def _module(word: str) -> str:
    return canonical(word.rpartition("/")[2].partition(".ko")[0])


_SIGNED = regex(r"(?P<module>[a-z][\w-]{1,40})(?:\.ko\S{0,4})?(?:: ?|[ \t]+)(?P<name>.{0,120})")
"""A module and its signer, as people print both in a loop."""


# -- kernels -------------------------------------------------------------------------------------------


def _for_other_kernels(lines: tuple[TextLine, ...]) -> Iterator[_Found]:
    """The driver's builds in DKMS, or its files in all folders of modules, if none is for the kernel that
    runs."""
    every = blocks(lines)
    kernel = next((block.lines[0].text.strip() for block in every if _names_kernel(block)), "")
    rows = [(line, row) for line in lines if line.kind in EVIDENCE and (row := _BUILT.match(line.text))]
    for block in every:
        if kernel and block.argv[:1] in (("ls",), ("find",)) and "/lib/modules/*/" in block.command:
            rows += [(line, row) for line in block.lines if (row := _FILE.search(line.text))]
    if kernel and rows and all(row["kernel"] != kernel for _, row in rows):
        line, row = rows[0]
        note = f"NVIDIA's modules are for {row['kernel']}, and this kernel is {kernel}"
        yield line.number, ("module-not-found",), note


def _names_kernel(block: Block) -> bool:
    return block.argv == ("uname", "-r") and len(block.lines) == 1


_BUILT = regex(r"\s*nvidia(?:-\w+)?(?:/|, )[\d.]+, (?P<kernel>[\w.+~-]+), \w+: installed")
_FILE = regex(r"/lib/modules/(?P<kernel>[\w.+~-]+)/\S*/nvidia(?:[-_]peermem)?\.ko")
