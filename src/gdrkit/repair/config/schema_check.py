"""Checks a YAML document against a schema, with the line of each fault.

The schemas beside this module are written for it: names, types and required fields of the parts that affect
GPUDirect RDMA. Other parts are not checked. The keywords are those of JSON Schema that Kubernetes'
structural schemas use: type, enum, required, properties, items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gdrkit.facts.assignments import is_filled_in
from gdrkit.formats.yaml_values import Scalar, Value, YamlMapping, YamlSequence
from gdrkit.repair.config.fault import ConfigFault, not_shown

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
    "rdmaSharedDevicePlugin": ("rdmaSharedDevicePlugin",),  # JSON inside a NicClusterPolicy
    "sriovDevicePlugin": ("sriovDevicePlugin",),
}
"""The schemas of each checked kind, oldest first."""


@cache
def schema(name: str) -> Schema:
    """A schema of this package, by its file name without .json."""
    from importlib.resources import files

    import msgspec

    text = files("gdrkit.repair.config").joinpath("schemas", f"{name}.json").read_bytes()
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


def schema_for(kind: str, version: str = "") -> Schema:
    """The newest schema of a kind that is not newer than an operator's version; "" gives the newest."""
    from gdrkit.formats.versions import numbers

    names = BY_KIND[kind]
    if version:
        limit = numbers(version.removeprefix("v"))
        older = [n for n in names if numbers(n.partition("-v")[2]) <= limit]
        return schema((older or names[:1])[-1])
    return schema(names[-1])


def faults(
    value: Value, expected: Schema, kind: str, path: tuple[str, ...] = (), *, whole: bool = True
) -> Iterator[ConfigFault]:
    """The faults of a value against a schema. In a patch (not `whole`), no key is required."""
    if _is_empty(value):
        return
    kind_of_value = expected.get("type")
    if isinstance(value, Scalar) and not value.quoted and is_filled_in(value.text):
        if kind_of_value in ("boolean", "integer", "number") or "enum" in expected:
            yield not_shown(value.line, ".".join(path), value.text)
        return
    if kind_of_value and not _is(value, kind_of_value):
        yield _fault(value.line, path, "wrong-type", _shown(value), _description(kind_of_value))
        return
    if "enum" in expected and isinstance(value, Scalar) and value.text not in expected["enum"]:
        yield _fault(value.line, path, "wrong-value", value.text, " or ".join(expected["enum"]))
    if isinstance(value, YamlSequence) and "items" in expected:
        for number, item in enumerate(value.items):
            yield from faults(item, expected["items"], kind, (*path, str(number)), whole=whole)
    if isinstance(value, YamlMapping) and "properties" in expected:
        yield from _mapping(value, expected, kind, path, whole)


def _mapping(
    value: YamlMapping, schema: Schema, kind: str, path: tuple[str, ...], whole: bool
) -> Iterator[ConfigFault]:
    missing = [key for key in schema.get("required", ()) if value.entry(key) is None]
    if missing and whole:
        seen = f"missing keys: {', '.join(missing)}"
        yield _fault(value.line, path, "missing-key", seen, _required(kind, path))
    for entry in value.entries:
        if entry.key in schema["properties"]:
            below = schema["properties"][entry.key]
            yield from faults(entry.value, below, kind, (*path, entry.key), whole=whole)
            continue
        code, expected = _expected_key(kind, entry.key, schema["properties"], path)
        yield _fault(entry.line, (*path, entry.key), code, "unknown key (it is dropped)", expected)


def _expected_key(kind: str, key: str, known: Mapping[str, Any], path: tuple[str, ...]) -> tuple[str, str]:
    """A code and what to write: a similar key, the path where the key belongs, or the known keys."""
    from difflib import get_close_matches

    alike = [name for name in known if name.lower() == key.lower()]
    alike = alike or get_close_matches(key, known, n=1, cutoff=0.8)
    paths = [path_of_key for path_of_key in _paths_of(kind, key) if path_of_key != ".".join((*path, key))]
    if alike:
        return "unknown-key", f"{alike[0]} (a similar key)"
    if paths:
        return "wrong-place", f"the key at {' or '.join(paths)}"
    return "unknown-key", f"one of {_some(known)}"


def _required(kind: str, path: tuple[str, ...]) -> str:
    if kind == "ClusterPolicy" and path == ("spec",):
        return "all of them, or a patch of the existing object (gdr config gpu-operator)"
    versions = " (--operator-version selects another version)" if len(BY_KIND[kind]) > 1 else ""
    return f"all required keys{versions}"


def _some(properties: Mapping[str, Any]) -> str:
    names = list(properties)
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:8])} and {len(names) - 8} more"


def _paths_of(kind: str, key: str) -> list[str]:
    """Paths where a key belongs, in this kind or else in another; [] if there are more than two."""
    own = [".".join(found) for found in _find_key(schema_for(kind), key)]
    if own:
        return own if len(own) <= 2 else []
    others = [
        f"{other} {'.'.join(found)}"
        for other in BY_KIND
        if other != kind
        for found in _find_key(schema_for(other), key)
    ]
    return others if len(others) <= 2 else []


def _find_key(schema: Schema, key: str, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, below in schema.get("properties", {}).items():
        if name == key:
            yield (*path, name)
        yield from _find_key(below, key, (*path, name))
    if "items" in schema:
        yield from _find_key(schema["items"], key, (*path, "[]"))


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
    """Whether a value is null, which means the same as an absent key."""
    return isinstance(value, Scalar) and not value.quoted and value.text in ("", "~", "null")


def _shown(value: Value) -> str:
    if isinstance(value, Scalar):
        return f'"{value.text[:40]}"' if value.quoted else value.text[:40]
    return "a mapping" if isinstance(value, YamlMapping) else "a sequence"


def _description(kind: str) -> str:
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
