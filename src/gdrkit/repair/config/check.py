"""`gdr config check`: the faults in a file, each with its line."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from itertools import islice

from gdrkit.facts.assignments import NAME, settings_in
from gdrkit.formats.yaml_text import CHARACTERS_LIMIT
from gdrkit.formats.yaml_values import Value, duplicates
from gdrkit.repair.config.fault import CheckedFile, ConfigFault, FoundDocument
from gdrkit.repair.config.recognise import ConfigObject, recognise
from gdrkit.repair.config.schema_check import BY_KIND, faults, schema_for
from gdrkit.repair.config.semantic_check import semantic_faults, setting_faults
from gdrkit.rules.policy_duplicate_key import keys_lost

__all__ = ["CheckedFile", "check"]

MOST_FAULTS = 1000
"""Limit of reported faults per file: a malicious file can have one on every line."""
LAST_WINS = "kubectl, Helm (sigs.k8s.io/yaml) and PyYAML"
REJECTING = "Talos, kustomize (go-yaml 3) and ruamel.yaml"
"""Readers by what they do with a duplicate key, which YAML 1.2.2, 3.2.1.3 forbids. A test checks PyYAML and
ruamel.yaml; for the others see kubernetes/kubernetes issue 14791 and go-yaml v3."""


def check(content: bytes, name: str, version: str = "") -> CheckedFile:
    """The faults in a file, in the order of lines. Accepts any bytes."""
    if len(content) > CHARACTERS_LIMIT:
        return _unreadable(name, 1, f"{len(content)} bytes; the limit is {CHARACTERS_LIMIT}")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        return _unreadable(name, line, f"byte {error.start} is not valid UTF-8")
    found, last = recognise(text), text.count("\n") + 1
    out = [_unparsable(document.fault, document.line, last) for document in found.unreadable]
    for part in found.parts:
        out += islice(_object_faults(part, version), max(MOST_FAULTS - len(out), 0))
    settings = tuple(islice(_settings(text), MOST_FAULTS))
    known = {(fault.line, fault.code) for fault in out}
    for line, variable, value in settings:
        found_here = setting_faults(line, variable, value, "")
        out += (fault for fault in found_here if (line, fault.code) not in known)
    parts = tuple(
        FoundDocument(part.manifest.line, part.manifest.kind, part.manifest.name)
        for part in found.parts
        if part.manifest.kind
    )
    if not parts and settings:
        parts = (FoundDocument(settings[0][0], "settings", ""),)
    if not parts and not out:
        return _unreadable(name, 1, "no known manifest, configuration or NCCL setting")
    return CheckedFile(name, parts, tuple(sorted(out, key=lambda fault: (fault.line, fault.code))))


PLAIN = "plain YAML: no anchors, aliases, tags or tabs, at most 64 levels deep"


def _unreadable(name: str, line: int, seen: str) -> CheckedFile:
    fault = ConfigFault(
        line=line,
        code="unreadable",
        severity="unreadable",
        path="",
        seen=seen,
        expected="a file that gdrkit can check",
    )
    return CheckedFile(name, (), (fault,))


def _unparsable(why: str, start: int, last: int) -> ConfigFault:
    """The fault for a document that cannot be parsed, at the line that the parser names."""
    at = re.match(r"line (\d+): ", why)
    line = min(int(at[1]) if at else start, last)
    seen = why[at.end() :] if at else why
    return ConfigFault(
        line=line, code="unreadable", severity="unreadable", path="", seen=seen, expected=PLAIN
    )


def _object_faults(part: ConfigObject, version: str) -> Iterator[ConfigFault]:
    manifest = part.manifest
    yield from _duplicate_keys(manifest.value)
    if manifest.kind in BY_KIND:
        schema = schema_for(manifest.kind, version)
        yield from faults(manifest.value, schema, manifest.kind, whole=part.whole)
    if manifest.kind == "MachineConfig":
        config = manifest.at("spec", "config")
        if config is not None:
            for fault in faults(config, schema_for("Ignition"), "Ignition", ("spec", "config")):
                if not fault.path.endswith("contents.inline"):  # reported by semantic_faults, with a remedy
                    yield fault
    yield from semantic_faults(manifest)


def _duplicate_keys(value: Value) -> Iterator[ConfigFault]:
    for duplicate in duplicates(value):
        lines = ", ".join(map(str, duplicate.lines[:-1]))
        lost = keys_lost(value, duplicate.path)
        gone = f", and drop {', '.join(lost)} of line {lines}" if lost else ""
        yield ConfigFault(
            line=duplicate.lines[-1],
            code="duplicate-key",
            severity="error",
            path=".".join(duplicate.path),
            seen=f"appears on lines {lines} and {duplicate.lines[-1]}: {LAST_WINS} use only line "
            f"{duplicate.lines[-1]}{gone}; {REJECTING} reject the file",
            expected="each key once",
        )


def _settings(text: str) -> Iterator[tuple[int, str, str]]:
    """The variables of programs that lines of any file set: line, name and value, once for each value."""
    seen: set[tuple[str, str]] = set()
    for number, line in enumerate(text.split("\n"), 1):
        if _named().search(line) is None or line.lstrip().startswith("#"):
            continue
        for setting in settings_in(line):
            if setting not in seen:
                seen.add(setting)
                yield number, *setting


@functools.cache
def _named() -> re.Pattern[str]:
    return re.compile(NAME)
