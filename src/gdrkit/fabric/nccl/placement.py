"""The tree that NCCL builds where it reads a topology file: the file's places, and the machine's details.

Source: NCCL src/graph/topo.cc, ncclTopoGetSystem(), and xml.cc, ncclTopoFillGpu(), ncclTopoFillNet() and
ncclTopoGetXmlFromSys(): a PCI function that the file has stays where it is and keeps the file's attributes;
one that it lacks is added with the bridges above it, until a bridge or processor that is there.
"""

from __future__ import annotations

from msgspec.structs import replace

from gdrkit.fabric.topology.from_nccl_xml import pci_address
from gdrkit.formats.xml_text import XmlNode


def placed(system: XmlNode, file: XmlNode) -> XmlNode:
    """The machine's tree with the PCI functions of the file at the file's places."""
    functions = {_address(node): node for node in system.walk() if node.name == "pci"}
    there = {_address(node) for node in file.walk() if node.name == "pci"}
    own = {cpu.get("numaid"): cpu for cpu in system.all("cpu")}
    cpus = [_filled(cpu, functions, own.get(cpu.get("numaid"))) for cpu in file.all("cpu")]
    named = {cpu.get("numaid") for cpu in cpus}
    for numa, cpu in own.items():
        left = tuple(kept for child in cpu.children for kept in _without(child, there))
        if numa in named:
            cpus = [
                replace(one, children=(*one.children, *left)) if one.get("numaid") == numa else one
                for one in cpus
            ]
        elif left:
            cpus.append(replace(cpu, children=left))
    return replace(file, children=tuple(cpus))


def _filled(element: XmlNode, functions: dict[str, XmlNode], own: XmlNode | None) -> XmlNode:
    """An element of the file, with what the machine knows and the file leaves out."""
    mine = functions.get(_address(element)) if element.name == "pci" else own
    children = tuple(_filled(child, functions, None) for child in element.children)
    if mine is None:
        return replace(element, children=children)
    have = {child.name for child in children}
    details = (child for child in mine.children if child.name not in ("pci", *have))
    return replace(
        element,
        attributes={**mine.attributes, **element.attributes},
        children=(*children, *(details if element.name == "pci" else ())),
    )


def _without(element: XmlNode, there: set[str]) -> tuple[XmlNode, ...]:
    """An element without the functions that the file has; () if nothing is left of it."""
    if element.name != "pci":
        return (element,)
    children = tuple(kept for child in element.children for kept in _without(child, there))
    if _address(element) in there:
        return tuple(child for child in children if child.name == "pci")
    is_bridge = any(child.name == "pci" for child in element.children)
    if is_bridge and not any(child.name == "pci" for child in children):
        return ()
    return (replace(element, children=children),)


def _address(node: XmlNode) -> str:
    return pci_address(node.get("busid"))
