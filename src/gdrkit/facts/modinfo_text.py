"""A module as `modinfo` prints it: second-best evidence, for bundles without the module's file.

Source of the format: kmod tools/modinfo.c, modinfo_do(): `key:`, blanks up to column 16, the value. A key
without a value is printed too, so an empty `depends:` shows that the module needs no other.
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
    """One module in an output of modinfo, or in a part of one. `fields` has only what was printed."""

    name: str
    fields: Mapping[str, str]  # the first value of each key
    lines: Mapping[str, int]  # its line in the output

    @property
    def depends(self) -> tuple[str, ...] | None:
        """The modules that it needs; None where the line was not printed."""
        value = self.fields.get("depends")
        return (
            None
            if value is None
            else tuple(canonical(name.strip()) for name in value.split(",") if name.strip())
        )

    @property
    def signed(self) -> bool:
        """Whether it shows a signature. False is not conclusive: the lines may have been left out."""
        return any(self.fields.get(key) for key in SIGNATURE)


def modinfo(name: str) -> Command:
    """The command that prints a module. sosreports have one file with the output for all loaded modules."""
    return Command(("modinfo", name.replace("_", "-")), ("sos_commands/kernel/modinfo_ALL_MODULES",))


def parse(text: str) -> tuple[PrintedModule, ...]:
    """Every module in an output. Raises FormatError if there is no field at all."""
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
        PrintedModule(_name(fields), fields, numbers) for fields, numbers in zip(found, lines, strict=True)
    )


def _name(fields: Mapping[str, str]) -> str:
    """From `name:`, which kmod prints since version 26, else from the file's name."""
    stem = fields.get("filename", "").rpartition("/")[2].partition(".ko")[0]
    return canonical(fields.get("name", "") or stem)


@fact
def printed_module(node: Node, name: str) -> PrintedModule:
    """A module as modinfo printed it. Raises EvidenceMissing where there is no such output."""
    command = modinfo(name)
    for module in parse(node.run(command)):
        if module.name in ("", canonical(name)):
            return module
    raise EvidenceMissing(Missing(command.line, MissingReason.NOT_COLLECTED, command.line))
