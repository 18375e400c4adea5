"""Holds a YAML document against a schema, with the line of each fault.

The schemas beside this module are written for this: names, types and required fields of the parts that
GPUDirect RDMA touches; what they leave open is not judged. The keywords are those of JSON Schema that
Kubernetes' structural schemas use: type, enum, required, properties, items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gdrkit.formats.yaml_values import Scalar, Value, YamlMapping, YamlSequence
from gdrkit.repair.config.fault import ConfigFault

Schema = Mapping[str, Any]

BY_KIND = {
    "ClusterPolicy": ("ClusterPolicy-v25.3.4", "ClusterPolicy-v26.7.0"),
    "NVIDIADriver": ("NVIDIADriver-v25.3.4", "NVIDIADriver-v26.7.0"),
    "NicClusterPolicy": ("NicClusterPolicy-v25.7.0", "NicClusterPolicy-v26.4.1"),
    "MachineConfig": ("MachineConfig",),
    "Ignition": ("Ignition",),
    "Butane": ("Butane",),
    "MachineConfiguration": ("MachineConfiguration",),
    "KernelModuleConfig": ("KernelModuleConfig",),
}
"""The schemas of each kind that is judged, oldest first."""


@cache
def schema(name: str) -> Schema:
    """A schema of this package, by the name of its file."""
    from importlib.resources import files

    import msgspec

    text = files("gdrkit.repair.config").joinpath("schemas", f"{name}.json").read_bytes()
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


def chosen(kind: str, version: str = "") -> Schema:
    """The schema of a kind for an operator's version: the newest that is not newer. "" is the newest."""
    from gdrkit.formats.versions import numbers

    names = BY_KIND[kind]
    if version:
        wished = numbers(version.removeprefix("v"))
        older = [n for n in names if numbers(n.partition("-v")[2]) <= wished]
        return schema((older or names[:1])[-1])
    return schema(names[-1])


def faults(
    value: Value, wanted: Schema, kind: str, path: tuple[str, ...] = (), *, whole: bool = True
) -> Iterator[ConfigFault]:
    """Everything in which a value differs from a schema. A part, such as a patch, lacks nothing."""
    if _is_empty(value):
        return
    kind_of_value = wanted.get("type")
    if kind_of_value and not _is(value, kind_of_value):
        yield _fault(value.line, path, "wrong-type", f"{_shown(value)}", _article(kind_of_value))
        return
    if "enum" in wanted and isinstance(value, Scalar) and value.text not in wanted["enum"]:
        yield _fault(value.line, path, "wrong-value", value.text, " or ".join(wanted["enum"]))
    if isinstance(value, YamlSequence) and "items" in wanted:
        for number, item in enumerate(value.items):
            yield from faults(item, wanted["items"], kind, (*path, str(number)), whole=whole)
    if isinstance(value, YamlMapping) and "properties" in wanted:
        yield from _mapping(value, wanted, kind, path, whole)


def _mapping(
    value: YamlMapping, wanted: Schema, kind: str, path: tuple[str, ...], whole: bool
) -> Iterator[ConfigFault]:
    lacking = [key for key in wanted.get("required", ()) if value.entry(key) is None]
    if lacking and whole:
        seen = f"lacks {', '.join(lacking)}"
        yield _fault(value.line, path, "missing-key", seen, _whole(kind, path))
    for entry in value.entries:
        if entry.key in wanted["properties"]:
            below = wanted["properties"][entry.key]
            yield from faults(entry.value, below, kind, (*path, entry.key), whole=whole)
            continue
        code, expected = _instead(kind, entry.key, wanted["properties"], path)
        yield _fault(entry.line, (*path, entry.key), code, "is not known here and is dropped", expected)


def _instead(kind: str, key: str, known: Mapping[str, Any], path: tuple[str, ...]) -> tuple[str, str]:
    """A code and what was meant: a key spelt like it, the place where it belongs, or what is known here."""
    from difflib import get_close_matches

    alike = [name for name in known if name.lower() == key.lower()]
    alike = alike or get_close_matches(key, known, n=1, cutoff=0.8)
    homes = [home for home in _homes(kind, key) if home != ".".join((*path, key))]
    if alike:
        return "unknown-key", f"{alike[0]}, if that is what is meant"
    if homes:
        return "wrong-place", f"it at {' or '.join(homes)}"
    return "unknown-key", f"one of {_some(known)}"


def _whole(kind: str, path: tuple[str, ...]) -> str:
    if kind == "ClusterPolicy" and path == ("spec",):
        return "all of them, or a patch of the object that is there (gdr config gpu-operator)"
    versions = "; --operator-version chooses another than the newest" if len(BY_KIND[kind]) > 1 else ""
    return f"all that is required{versions}"


def _some(properties: Mapping[str, Any]) -> str:
    names = list(properties)
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:8])} and {len(names) - 8} more"


def _homes(kind: str, key: str) -> list[str]:
    """Where a key belongs: in this kind, else in another; [] for what stands in more than two places."""
    own = [".".join(place) for place in _places(chosen(kind), key)]
    if own:
        return own if len(own) <= 2 else []
    others = [
        f"{other} {'.'.join(place)}"
        for other in BY_KIND
        if other != kind
        for place in _places(chosen(other), key)
    ]
    return others if len(others) <= 2 else []


def _places(wanted: Schema, key: str, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, below in wanted.get("properties", {}).items():
        if name == key:
            yield (*path, name)
        yield from _places(below, key, (*path, name))
    if "items" in wanted:
        yield from _places(wanted["items"], key, (*path, "[]"))


def _is(value: Value, kind: str) -> bool:
    if kind == "object":
        return isinstance(value, YamlMapping)
    if kind == "array":
        return isinstance(value, YamlSequence)
    if not isinstance(value, Scalar):
        return False
    if kind == "boolean":
        return not value.quoted and value.text in ("true", "false", "True", "False", "TRUE", "FALSE")
    if kind == "integer":
        return not value.quoted and re.fullmatch(r"[-+]?\d+|0o[0-7]+|0x[0-9a-fA-F]+", value.text) is not None
    return value.quoted or not re.fullmatch(r"[-+]?\d+(\.\d+)?|true|false|null|~", value.text)


def _is_empty(value: Value) -> bool:
    """A key without a value is null: as if it were not there."""
    return isinstance(value, Scalar) and not value.quoted and value.text in ("", "~", "null")


def _shown(value: Value) -> str:
    if isinstance(value, Scalar):
        return f'"{value.text[:40]}"' if value.quoted else value.text[:40]
    return "a mapping" if isinstance(value, YamlMapping) else "a sequence"


def _article(kind: str) -> str:
    return {
        "object": "a mapping",
        "array": "a sequence",
        "boolean": "true or false, without quotation marks",
        "integer": "an integer, without quotation marks",
        "string": "a string: quote it",
    }[kind]


def _fault(line: int, path: tuple[str, ...], code: str, seen: str, expected: str) -> ConfigFault:
    return ConfigFault(
        line=line, code=code, severity="error", path=".".join(path), seen=seen, expected=expected
    )
