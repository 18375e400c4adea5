"""What `nm` and `strings` of a module's file show: whether nvidia-peermem was built with the peer-memory
API, and whether a storage module has the symbol that nvidia-fs asks it for.

Sources: open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c, nv_mem_client_init(): it calls
ib_register_peer_memory_client() if the build found that, and else only returns -EINVAL; gds-nvidia-fs
src/nvfs-dma.c, modules_list, whose symbols are looked up by name; Linux kernel/kallsyms.c, s_show().
"""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.explain.lines.blocks import EVIDENCE, Block, blocks
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import Reading
from gdrkit.formats.regex import regex

STUB = "peermem-stub"
CALL = "ib_register_peer_memory_client"
_UNPACKER = r"(?:zcat|xzcat|zstdcat|(?:xz|zstd) -dc)"
_FOLDER = r"[^|]*(?:/usr)?/lib/modules/[^|]*/"
_LISTING = regex(
    rf"(?:sudo )?(?:(?:nm|strings)\b{_FOLDER}nvidia-peermem\.ko(?=[\s|]|$)"
    rf"|{_UNPACKER} {_FOLDER}nvidia-peermem\.ko\.(?:gz|xz|zst) *\| *(?:nm|strings)\b)"
)
"""The file where modprobe finds it, as it was built: in a compressed one, no program finds a name."""
_SEARCH = regex(
    rf"(?:(?:sudo )?{_UNPACKER} [^|]*\|)?[^|]*\|"
    r" *grep (?:-[iEFn]+ )?[\"']?(?P<text>ib_\w{0,40}|\w{0,40}peer_memory\w{0,40})[\"']? *"
)


def symbol_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """What symbols show of nvidia-peermem and nvidia-fs."""
    yield from _stubs(lines)
    yield from _storage(lines)


def _stubs(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """A whole list of the module's symbols, or an empty search in it, without the call of a working one."""
    positions = {line.number: position for position, line in enumerate(lines)}
    for block in _lists(lines):
        if not _calls(block) and _is_whole(block):
            position = positions[block.number]
            yield Reading(lines[position], position, (STUB,), f"the file does not name {CALL}", decides=True)
            return


def is_shown_to_register(lines: tuple[TextLine, ...]) -> bool:
    """Whether a list of the module's symbols has the call of a working one."""
    return any(_calls(block) for block in _lists(lines))


def _lists(lines: tuple[TextLine, ...]) -> Iterator[Block]:
    for block in blocks(lines):
        if _LISTING.match(block.command):
            yield block


def _calls(block: Block) -> bool:
    return any(CALL in line.text for line in block.lines)


def _is_whole(block: Block) -> bool:
    """Whether the call would be shown, if the file had it."""
    if any(line.cut for line in block.lines):
        return False
    if not block.filtered:
        return block.ended and any("init_module" in line.text for line in block.lines)
    found = _SEARCH.fullmatch(block.command)
    shows_errors = "2>" not in block.command
    return (
        found is not None and found["text"] in CALL and shows_errors and block.prompted and not block.lines
    )


# -- nvidia-fs -----------------------------------------------------------------------------------------


_OF_STORAGE = regex(r"\b(?P<symbol>(?P<module>\w{2,30}?)(?:_v\d{1,2})?_register_nvfs_dma_ops)\b")
_OFFERED = regex(r"\s*[0-9a-f]{8,16} [A-Za-z] \w{1,80}(?:\s+\[\w{1,60}\])?\s*")
"""A row of /proc/kallsyms."""
_OF_NVIDIA_FS = regex(r"\b(?:strings|nm)\b.*\bnvidia[-_]fs\.ko|\bnvidia[-_]fs\.ko\S* *\| *(?:strings|nm)\b")


def _storage(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """A symbol that nvidia-fs asks a storage module for, which has it under another version alone."""
    offered: dict[str, set[str]] = {}
    for line in lines:
        found = _OF_STORAGE.search(line.text) if line.kind in EVIDENCE else None
        if found and _OFFERED.fullmatch(line.text):
            offered.setdefault(found["module"], set()).add(found["symbol"])
    wanted: dict[str, dict[str, int]] = {}
    for block in blocks(lines):
        if _OF_NVIDIA_FS.search(block.command):
            for line in block.lines:
                if found := _OF_STORAGE.search(line.text):
                    wanted.setdefault(found["module"], {})[found["symbol"]] = line.number
    positions = {line.number: position for position, line in enumerate(lines)}
    for module, symbols in wanted.items():
        has = offered.get(module, set())
        if has and has.isdisjoint(symbols):
            symbol, number = next(iter(symbols.items()))
            note = f"nvidia-fs asks for {symbol}, and {module} has {min(has)}"
            position = positions[number]
            yield Reading(lines[position], position, ("nvidia-fs-symbols-missing",), note, decides=True)
            return
