"""What the machine configuration of Talos Linux asks for.

From Talos 1.14 on, each module has a document of its own. Source: siderolabs/talos
pkg/machinery/config/types/runtime/kernel_module.go."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.kubernetes import TALOS_KINDS, Manifest, manifests
from gdrkit.formats.module_name import canonical
from gdrkit.formats.yaml_values import Scalar, YamlMapping, items_at, text_at
from gdrkit.node import Node, fact


class ModuleEntry(Struct, frozen=True):
    """A module that the machine configuration loads, and where it says so, such as `mc.yaml:10`."""

    name: str
    place: str


@fact
def module_entries(node: Node) -> tuple[ModuleEntry, ...]:
    """The modules that the machine configuration loads. Raises EvidenceMissing if none was supplied with the
    node, which does not keep it as a file of its own."""
    supplied = [manifest for manifest in manifests(node) if manifest.kind in TALOS_KINDS]
    if not supplied:
        ask = "talosctl -n NODE get machineconfig"
        raise EvidenceMissing(Missing("machine configuration", MissingReason.NOT_COLLECTED, ask))
    return tuple(
        ModuleEntry(name, node.describe_line(manifest.source, line))
        for manifest in supplied
        for name, line in modules_of(manifest)
    )


def modules_of(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Each module that a document of a machine configuration loads, with its line."""
    if manifest.kind == "KernelModuleConfig":
        yield canonical(manifest.text("name")), manifest.line
    elif manifest.kind == "MachineConfiguration":
        for item in items_at(manifest.value, "machine", "kernel", "modules"):
            if isinstance(item, YamlMapping):
                yield canonical(text_at(item, "name")), item.line
            elif isinstance(item, Scalar):
                yield canonical(item.text), item.line
