"""What `modinfo` printed of a module: second-best evidence, where nobody kept the module's file.

Source of the form: kmod tools/modinfo.c, modinfo_do(): `key:`, blanks up to column 16, the value. A key
whose value is empty is printed all the same, so an empty `depends:` says that the module needs no other.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gdrkit.evidence import Command, EvidenceMissing, Missing, MissingReason
from gdrkit.formats.errors import FormatError
from gdrkit.formats.module_name import canonical
from gdrkit.node import Node, fact

SIGNATURE = ("sig_id", "signer", "sig_key", "sig_hashalgo")


class PrintedModule(Struct, frozen=True):
    """An output of modinfo, or a part of one. What was not printed is not in `fields`."""

    name: str
    fields: Mapping[str, str]  # the first value of each key
    lines: Mapping[str, int]  # where it stands in the output

    @property
    def depends(self) -> tuple[str, ...] | None:
        """The modules that it needs; None where the line was not shown."""
        value = self.fields.get("depends")
        return (
            None
            if value is None
            else tuple(canonical(name.strip()) for name in value.split(",") if name.strip())
        )

    @property
    def signed(self) -> bool:
        """Whether it shows a signature. False proves nothing: the lines may have been left out."""
        return any(self.fields.get(key) for key in SIGNATURE)


def modinfo(name: str) -> Command:
    """The command that prints a module; sosreports keep those of all loaded modules in one file."""
    return Command(("modinfo", name.replace("_", "-")), ("sos_commands/kernel/modinfo_ALL_MODULES",))


def parse(text: str) -> tuple[PrintedModule, ...]:
    """Every module of an output. Raises FormatError where none is named by file, name or otherwise."""
    found: list[dict[str, str]] = []
    lines: list[dict[str, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        key, colon, value = line.partition(":")
        if not colon or not key.replace("_", "").isalnum():
            continue
        if key == "filename" or not found:
            found.append({})
            lines.append({})
        found[-1].setdefault(key, value.strip())
        lines[-1].setdefault(key, number)
    if not found:
        complaint = " ".join(text.split())[:120]
        raise FormatError(f"no field in the output of modinfo: {complaint or 'empty'}")
    return tuple(
        PrintedModule(_name(fields), fields, places) for fields, places in zip(found, lines, strict=True)
    )


def _name(fields: Mapping[str, str]) -> str:
    """By `name:`, which kmod prints since 26; by the file before."""
    stem = fields.get("filename", "").rpartition("/")[2].partition(".ko")[0]
    return canonical(fields.get("name", "") or stem)


@fact
def printed_module(node: Node, name: str) -> PrintedModule:
    """What modinfo printed of a module. Raises EvidenceMissing where no such output came with the node."""
    command = modinfo(name)
    for module in parse(node.run(command)):
        if module.name in ("", canonical(name)):
            return module
    raise EvidenceMissing(Missing(command.line, MissingReason.NOT_COLLECTED, command.line))
