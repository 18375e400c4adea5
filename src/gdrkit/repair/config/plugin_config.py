"""The JSON inside a NicClusterPolicy, with which a device plugin says what it offers to pods.

The API server takes it for a string. The operator's webhook, which a cluster need not have, checks its form;
the plugin itself ends at the first fault, so that no node offers the resource. Sources:
k8s-rdma-shared-dev-plugin pkg/resources/resources_manager.go, ReadConfig() and ValidateConfigs();
sriov-network-device-plugin cmd/sriovdp/manager.go, readConfig() and validConfigs(), pkg/auxnetdevice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.facts.kubernetes import Manifest
from gdrkit.formats.errors import FormatError
from gdrkit.formats.json_text import decode
from gdrkit.formats.regex import regex
from gdrkit.formats.yaml_text import documents
from gdrkit.formats.yaml_values import Scalar, Value, YamlMapping, YamlSequence, at, items_at, text_at
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.repair.config.schema_check import Schema, faults, schema

SHARED, SRIOV = "rdmaSharedDevicePlugin", "sriovDevicePlugin"
LISTS = {SHARED: "configList", SRIOV: "resourceList"}
PREFIXES = {SHARED: "rdma", SRIOV: "nvidia.com"}
"""The domain of a resource without `resourcePrefix`: the plugin's, and that of the operator's DaemonSet."""
NAMES = {SHARED: regex(r"[a-zA-Z0-9_]+"), SRIOV: regex(r"[a-zA-Z0-9_-]+")}
"""validResourceName() of both: the operator's webhook takes dots and hyphens, which the first refuses."""
ENDS = "the plugin ends, and no node offers the resource"
_ID = regex(r"[0-9a-f]{4}")
LINK_TYPES = ("ether", "infiniband")
"""The kernel's words: github.com/vishvananda/netlink, EncapType."""
SELECTORS_OF = {
    "accelerator": ("vendors", "devices", "drivers", "pciAddresses"),
    "auxNetDevice": ("vendors", "devices", "drivers", "pfNames", "rootDevices", "linkTypes", "isRdma",
                     "acpiIndexes", "needVhostNet", "auxTypes"),
}  # fmt: skip


class Resource(Struct, frozen=True):
    """A resource that a plugin is to offer, in the JSON, whose lines count from `line`."""

    plugin: str
    name: str
    path: str
    value: Value
    line: int


def resources(manifest: Manifest) -> Iterator[Resource]:
    """The resources of both plugins, as far as their JSON can be read; the selectors of each, one by one."""
    for plugin, key in LISTS.items():
        config = manifest.at("spec", plugin, "config")
        if not isinstance(config, Scalar):
            continue
        for document in documents(config.text.replace("\t", " ")):
            for number, item in enumerate(items_at(document.value, key)):
                path = f"spec.{plugin}.config.{key}.{number}"
                name = text_at(item, "resourceName")
                yield Resource(plugin, name, path, item, config.line if config.literal else config.line - 1)


def plugin_faults(manifest: Manifest) -> Iterator[ConfigFault]:
    """The faults in the configuration of both plugins, in a policy of the Network Operator."""
    for plugin in LISTS:
        config = manifest.at("spec", plugin, "config")
        if isinstance(config, Scalar):
            path = ("spec", plugin, "config")
            for fault in _config_faults(plugin, config.text, path):
                yield replace(fault, line=config.line + (fault.line if config.literal else 0))


def _config_faults(plugin: str, text: str, path: tuple[str, ...]) -> Iterator[ConfigFault]:
    """Its faults, with lines that count from the line above the text."""
    try:
        decode(text, object)
        (document,) = documents(text.replace("\t", " "))  # YAML, which JSON is, knows no tabs
    except (FormatError, ValueError) as error:
        seen = f"not JSON ({str(error)[:80]}): {ENDS}"
        yield fault_at(1, "wrong-value", ".".join(path), seen, "one JSON object")
        return
    if document.value is None:
        return
    yield from _form(document.value, schema(plugin), plugin, path)
    name = LISTS[plugin]
    listed = at(document.value, name)
    if isinstance(listed, YamlSequence) and not listed.items:
        yield fault_at(listed.line, "missing-key", ".".join((*path, name)), f"empty: {ENDS}", "a resource")
    seen_names: dict[str, int] = {}
    for number, item in enumerate(items_at(document.value, name)):
        here = (*path, name, str(number))
        yield from _name_faults(plugin, item, here, seen_names)
        yield from _shared_faults(item, here) if plugin == SHARED else _sriov_faults(item, here)


def _form(value: Value, known: Schema, plugin: str, path: tuple[str, ...]) -> Iterator[ConfigFault]:
    """The faults against a schema. Go reads a key in any case (encoding/json), the operator's webhook in
    one."""
    for fault in faults(value, known, plugin, path):
        key, wanted = fault.path.rpartition(".")[2], fault.expected.partition(" ")[0]
        if fault.code == "unknown-key" and key.lower() == wanted.lower():
            seen = "in another case: the plugin reads it, and the operator's webhook refuses the policy"
            fault = replace(fault, seen=seen, severity="warning")
        yield fault


def _name_faults(
    plugin: str, item: Value, path: tuple[str, ...], known: dict[str, int]
) -> Iterator[ConfigFault]:
    found = at(item, "resourceName")
    if not isinstance(found, Scalar):
        return
    where = ".".join((*path, "resourceName"))
    if not NAMES[plugin].fullmatch(found.text):
        letters = "letters, digits and _" + (" and -" if plugin == SRIOV else "")
        yield fault_at(found.line, "wrong-value", where, f"{found.text[:60]}: {ENDS}", letters)
    prefix = (text_at(item, "resourcePrefix") or PREFIXES[plugin]) if plugin == SRIOV else ""
    key = f"{prefix}/{found.text}"
    if key in known:
        seen = f"{found.text[:60]} again, as on line {known[key]} of the JSON: {ENDS}"
        yield fault_at(found.line, "duplicate-key", where, seen, "each name once")
    known.setdefault(key, found.line)


def _shared_faults(item: Value, path: tuple[str, ...]) -> Iterator[ConfigFault]:
    most = at(item, "rdmaHcaMax")
    where = ".".join((*path, "rdmaHcaMax"))
    if isinstance(most, Scalar) and re.fullmatch(r"-\d+", most.text):
        yield fault_at(most.line, "wrong-value", where, f"{most.text[:20]}: {ENDS}", "0 or more")
    elif isinstance(most, Scalar) and most.text == "0":
        yield fault_at(
            most.line, "wrong-value", where, "0: the nodes offer none of it", "1 or more", "warning"
        )
    selectors, devices = at(item, "selectors"), items_at(item, "devices")
    chosen = isinstance(selectors, YamlMapping) and any(
        isinstance(entry.value, YamlSequence) and entry.value.items for entry in selectors.entries
    )
    if not chosen and not devices:
        yield fault_at(
            item.line, "missing-key", ".".join(path), f"no selectors and no devices: {ENDS}", "selectors"
        )
    elif chosen and devices:
        yield fault_at(
            item.line, "wrong-value", ".".join(path), f"selectors and devices: {ENDS}", "selectors alone"
        )
    elif devices:
        seen, line = "deprecated: these are the names of interfaces", devices[0].line
        yield fault_at(
            line, "not-honoured", ".".join((*path, "devices")), seen, "selectors with ifNames", "note"
        )
    yield from _never_selected(selectors, (*path, "selectors"), ("vendors", "deviceIDs"))


def _sriov_faults(item: Value, path: tuple[str, ...]) -> Iterator[ConfigFault]:
    kind = text_at(item, "deviceType") or "netDevice"
    selectors = at(item, "selectors")
    every = selectors.items if isinstance(selectors, YamlSequence) else (selectors,) if selectors else ()
    if isinstance(selectors, YamlSequence) and not every:
        where = ".".join((*path, "selectors"))
        yield fault_at(
            selectors.line, "missing-key", where, "an empty list: the resource is left out", "one"
        )
    for number, one in enumerate(every):
        here = (*path, "selectors", *([str(number)] if isinstance(selectors, YamlSequence) else []))
        yield from _form(one, _selectors_of(kind), SRIOV, here)
        yield from _never_selected(one, here, ("vendors", "devices"))
        if kind == "auxNetDevice":
            given = [value.text for value in items_at(one, "auxTypes") if isinstance(value, Scalar)]
            if set(given) != {"sf"}:
                seen = f"{', '.join(given)[:60] or 'no auxTypes'}: {ENDS}"
                yield fault_at(one.line, "wrong-value", ".".join((*here, "auxTypes")), seen, '["sf"]')
        elif kind == "netDevice" and text_at(one, "isRdma") != "true":
            seen = "no isRdma: pods get the interface, and no RDMA device"
            yield fault_at(one.line, "missing-key", ".".join(here), seen, "isRdma: true", "note")


def _selectors_of(kind: str) -> Schema:
    """The selectors of a type of device; those of a net device are all but auxTypes."""
    whole = schema("sriovDevicePlugin-selectors")
    known = whole["properties"]
    names = SELECTORS_OF.get(kind, tuple(name for name in known if name != "auxTypes"))
    return {**whole, "properties": {name: known[name] for name in names}}


def _never_selected(
    selectors: Value | None, path: tuple[str, ...], ids: tuple[str, str]
) -> Iterator[ConfigFault]:
    """Values that no device has: plugins compare them with the kernel's, letter by letter."""
    for key in ids:
        for value in items_at(selectors, key):
            if isinstance(value, Scalar) and not _ID.fullmatch(value.text):
                seen = f"{value.text[:40]}: no device has it, ids are compared letter by letter"
                expected = "four digits of 0-9 and a-f, as lspci -n prints them"
                yield fault_at(value.line, "wrong-value", ".".join((*path, key)), seen, expected)
    for value in items_at(selectors, "linkTypes"):
        if isinstance(value, Scalar) and value.text not in LINK_TYPES:
            seen = f"{value.text[:40]}: not a type of the kernel's"
            where = ".".join((*path, "linkTypes"))
            yield fault_at(value.line, "wrong-value", where, seen, " or ".join(LINK_TYPES))
