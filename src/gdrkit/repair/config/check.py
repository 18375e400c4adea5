"""`gdr config check`: everything that is wrong in a file, with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from gdrkit.formats.yaml_text import CHARACTERS_LIMIT
from gdrkit.formats.yaml_values import Value, duplicates
from gdrkit.repair.config.fault import CheckedFile, ConfigFault, FoundDocument
from gdrkit.repair.config.recognise import ConfigObject, recognise
from gdrkit.repair.config.schema_check import BY_KIND, chosen, faults
from gdrkit.repair.config.semantic_check import judged, level
from gdrkit.rules.policy_duplicate_key import keys_lost

__all__ = ["CheckedFile", "check"]

MOST_FAULTS = 1000
"""Faults that are told of one file: nobody reads more, and a hostile file holds one in every line."""
LAST_WINS = "kubectl, Helm (sigs.k8s.io/yaml) and PyYAML"
REFUSING = "Talos, kustomize (go-yaml 3) and ruamel.yaml"
"""Readers by what they make of a key that stands twice. YAML 1.2.2, 3.2.1.3 forbids it; PyYAML and
ruamel.yaml are held to it by a test; for the others see kubernetes/kubernetes issue 14791 and go-yaml v3."""


def check(content: bytes, name: str, version: str = "") -> CheckedFile:
    """What is wrong in a file, worst and first things first. Any bytes give an answer."""
    if len(content) > CHARACTERS_LIMIT:
        return _unreadable(name, 1, f"{len(content)} bytes; no such file has more than {CHARACTERS_LIMIT}")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        return _unreadable(name, line, f"byte {error.start} is not UTF-8")
    found, last = recognise(text), text.count("\n") + 1
    out = [_garbled(document.fault, document.line, last) for document in found.unreadable]
    for part in found.parts:
        out += islice(_of(part, version), max(MOST_FAULTS - len(out), 0))
    out += _settings(text)
    parts = tuple(
        FoundDocument(part.manifest.line, part.manifest.kind, part.manifest.name)
        for part in found.parts
        if part.manifest.kind
    )
    if not parts and not out:
        return _unreadable(name, 1, "no manifest, configuration or NCCL setting that is known here")
    return CheckedFile(name, parts, tuple(sorted(out, key=lambda fault: (fault.line, fault.code))))


PLAIN = "plain YAML: no anchors, aliases, tags or tabs, at most 64 levels deep"


def _unreadable(name: str, line: int, seen: str) -> CheckedFile:
    fault = ConfigFault(
        line=line, code="unreadable", severity="unreadable", path="", seen=seen, expected="a file to judge"
    )
    return CheckedFile(name, (), (fault,))


def _garbled(why: str, start: int, last: int) -> ConfigFault:
    """A document that the reader refused, at the line that it named."""
    at = re.match(r"line (\d+): ", why)
    line = min(int(at[1]) if at else start, last)
    seen = why[at.end() :] if at else why
    return ConfigFault(
        line=line, code="unreadable", severity="unreadable", path="", seen=seen, expected=PLAIN
    )


def _of(part: ConfigObject, version: str) -> Iterator[ConfigFault]:
    manifest = part.manifest
    yield from _repeated(manifest.value)
    if manifest.kind in BY_KIND:
        wanted = chosen(manifest.kind, version)
        yield from faults(manifest.value, wanted, manifest.kind, whole=part.whole)
    if manifest.kind == "MachineConfig":
        config = manifest.at("spec", "config")
        if config is not None:
            for fault in faults(config, chosen("Ignition"), "Ignition", ("spec", "config")):
                if not fault.path.endswith("contents.inline"):  # told below, with what to write instead
                    yield fault
    yield from judged(manifest)


def _repeated(value: Value) -> Iterator[ConfigFault]:
    for duplicate in duplicates(value):
        lines = ", ".join(map(str, duplicate.lines[:-1]))
        lost = keys_lost(value, duplicate.path)
        gone = f", and {', '.join(lost)} of line {lines} is gone" if lost else ""
        yield ConfigFault(
            line=duplicate.lines[-1],
            code="duplicate-key",
            severity="error",
            path=".".join(duplicate.path),
            seen=f"stands at lines {lines} and {duplicate.lines[-1]}: for {LAST_WINS} line "
            f"{duplicate.lines[-1]} counts{gone}; {REFUSING} refuse the file",
            expected="each key once",
        )


_SETTING = re.compile(r"^\s*(?:export\s+|set\s+|-x\s+)?NCCL_NET_GDR_LEVEL=[\"']?([\w-]*)", re.MULTILINE)


def _settings(text: str) -> Iterator[ConfigFault]:
    """NCCL's level as a shell or /etc/nccl.conf sets it, anywhere in the text; once for each value."""
    told = set()
    for match in _SETTING.finditer(text):
        if match[1] not in told:
            told.add(match[1])
            yield from level(text.count("\n", 0, match.start(1)) + 1, match[1], "")
