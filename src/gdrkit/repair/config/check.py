"""`gdr config check`: the faults in a file, each with its line."""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise

from msgspec.structs import replace

from gdrkit.facts.assignments import NAME, literal, settings_in
from gdrkit.facts.gpu import has_gb10
from gdrkit.facts.kubernetes import Manifest, settings_of
from gdrkit.facts.modprobe_config import directives
from gdrkit.facts.object_owner import owner_of
from gdrkit.facts.shell_variables import assigned, with_values
from gdrkit.formats.utf_16 import MARKS as UTF_16
from gdrkit.formats.yaml_text import CHARACTERS_LIMIT
from gdrkit.formats.yaml_values import Value, YamlMapping, duplicates
from gdrkit.node import Node, if_missing
from gdrkit.repair.config import node_check as on_node
from gdrkit.repair.config.boot_check import NCCL, boot_faults, kind_of, unread_lines
from gdrkit.repair.config.fault import CheckedFile, ConfigFault, FoundDocument, fault_at
from gdrkit.repair.config.job_scripts import limit_faults
from gdrkit.repair.config.node_check import Setting, module_faults
from gdrkit.repair.config.node_effects import effect_faults, without_direct_path
from gdrkit.repair.config.node_plugins import plugin_faults
from gdrkit.repair.config.operator_check import operator_faults
from gdrkit.repair.config.pod_settings import runs_mpi
from gdrkit.repair.config.pods_compared import offered_faults
from gdrkit.repair.config.recognise import VALUES, ConfigObject, Recognised, recognise
from gdrkit.repair.config.schema_check import BY_KIND, faults, schema_for
from gdrkit.repair.config.semantic_check import (
    as_meant,
    has_meaning,
    semantic_faults,
    setting_faults,
)
from gdrkit.repair.config.unread_settings import active_lines, own_line, unread_faults
from gdrkit.repair.config.workload_check import workload_faults
from gdrkit.repair.config.workloads import pods_of
from gdrkit.rules.policy_duplicate_key import keys_lost

__all__ = ["CheckedFile", "check", "check_together"]

MOST_FAULTS = 1000
"""Limit of reported faults per file: a malicious file can have one on every line."""
LAST_WINS = "kubectl, Helm (sigs.k8s.io/yaml) and PyYAML"
REJECTING = "Talos, kustomize (go-yaml 3) and ruamel.yaml"
"""Readers by what they do with a duplicate key, which YAML 1.2.2, 3.2.1.3 forbids. A test checks PyYAML and
ruamel.yaml; for the others see kubernetes/kubernetes issue 14791 and go-yaml v3."""


def check_together(
    contents: Mapping[str, bytes], version: str = "", node: Node | None = None
) -> tuple[CheckedFile, ...]:
    """The faults of files for one cluster, by their names: each is judged with the objects of the others."""
    objects = {name: _objects(content) for name, content in contents.items()} if len(contents) > 1 else {}
    beside = {
        name: tuple(one for other in objects if other != name for one in objects[other]) for name in objects
    }
    return tuple(
        check(content, name, version, node, beside.get(name, ())) for name, content in contents.items()
    )


def _objects(content: bytes) -> tuple[Manifest, ...]:
    """The objects of a file; () of one that is not read."""
    try:
        text = _decoded(content) if len(content) <= CHARACTERS_LIMIT else ""
    except UnicodeDecodeError:
        return ()
    return tuple(part.manifest for part in recognise(text).parts)


IN_UTF_16 = "UTF-16, as PowerShell writes it, which many programs do not read"
ZERO_BYTES = "zero bytes: not text, or UTF-16 without a byte order mark"


def check(
    content: bytes, name: str, version: str = "", node: Node | None = None,
    beside: tuple[Manifest, ...] = (), *, integrated: bool = False,
) -> CheckedFile:  # fmt: skip
    """The faults in a file, in the order of lines; with a node, also what it lacks. Accepts any bytes. The
    objects of other files are `beside` it. `integrated`: it is for GPUs without memory of their own."""
    if len(content) > CHARACTERS_LIMIT:
        return _unreadable(name, 1, f"{len(content)} bytes; the limit is {CHARACTERS_LIMIT}")
    try:
        text = _decoded(content).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        return _unreadable(name, line, f"byte {error.start} is not valid {error.encoding.upper()}")
    if "\0" in text:
        return _unreadable(name, text[: text.index("\0")].count("\n") + 1, ZERO_BYTES)
    if kind := kind_of(name, text):
        return _boot_file(kind, text, content, name, node)
    variables = assigned(text)
    text = with_values(text)
    found, last = recognise(text), text.count("\n") + 1
    expected = f"{PLAIN}; or {RENDERED}" if "{{" in text else PLAIN
    out = [_unparsable(document.fault, document.line, last, expected) for document in found.unreadable]
    if content.startswith(UTF_16):
        out.append(fault_at(1, "wrong-value", "", IN_UTF_16, "UTF-8", "warning"))
    every = (one for part in found.parts for one in settings_of(part.manifest.value))
    shown = variables | {name: value for _, name, value, _ in literal(every)}
    for part in found.parts:
        out += islice(_object_faults(part, version, shown), max(MOST_FAULTS - len(out), 0))
    out += operator_faults((part.manifest for part in found.parts), node, beside)
    out += offered_faults((part.manifest for part in found.parts), beside)
    out = list(_at_their_lines(out, text.split("\n")))
    settings = tuple(islice(_settings(text), MOST_FAULTS))
    if any(part.manifest.kind for part in found.parts):
        out += _of_settings(text, settings, out, shown)
    elif settings:
        given = tuple(literal(settings))
        out += _of_settings(text, given, out, shown)
        read = {(name, value) for _, name, value in given}
        out += chain(islice(unread_faults(text, read, variables), MOST_FAULTS), limit_faults(text))
    if node is not None:
        out = list(_with_node(out, found, settings, node, text))
        integrated = integrated or if_missing(False, has_gb10, node)
    out = list(without_direct_path(out, settings)) if integrated else out
    out += _owned(out, found, text.split("\n"))
    parts = _documents(found, settings)
    if not parts and not out:
        is_mapping = any(isinstance(part.manifest.value, YamlMapping) for part in found.parts)
        hint = f"{CHECKED}; or {RENDERED}" if is_mapping else CHECKED
        return _unreadable(name, 1, "no known manifest, configuration or NCCL setting", hint)
    return CheckedFile(name, parts, tuple(sorted(out, key=lambda fault: (fault.line, fault.code))))


def _owned(out: Iterable[ConfigFault], found: Recognised, lines: Sequence[str]) -> Iterator[ConfigFault]:
    """For each object with a fault: what would revert its repair."""
    bad = sorted(fault.line for fault in out if fault.severity in ("error", "warning"))
    begins = sorted({part.manifest.line for part in found.parts if part.manifest.kind})
    for first, end in pairwise((*begins, len(lines) + 1)):
        if bisect_left(bad, first) < bisect_left(bad, end):
            owner = owner_of(lines[first - 1 : end - 1])
            if owner is not None:
                seen, expected = f"managed by {owner.who}", f"the change {owner.where}"
                yield fault_at(first + owner.at, "managed-elsewhere", "metadata", seen, expected, "note")


def _documents(found: Recognised, settings: tuple[Setting, ...]) -> tuple[FoundDocument, ...]:
    """The objects of a file that have a kind; of one without any, its settings."""
    parts = tuple(
        FoundDocument(part.manifest.line, part.manifest.kind, part.manifest.name, _is_judged(part))
        for part in found.parts
        if part.manifest.kind
    )
    return parts or tuple(FoundDocument(setting[0], "settings", "") for setting in settings[:1])


def _decoded(content: bytes) -> str:
    """The text of a file without its byte order mark. Raises UnicodeDecodeError."""
    return content.decode("utf-16" if content.startswith(UTF_16) else "utf-8-sig")


CHECKED = "a file that gdrkit can check"
RENDERED = "the output of helm template CHART -f VALUES, which gdr config check - reads"
PLAIN = "plain YAML: no anchors, aliases, tags or tabs, at most 64 levels deep"


def _unreadable(name: str, line: int, seen: str, expected: str = CHECKED) -> CheckedFile:
    fault = ConfigFault(
        line=line,
        code="unreadable",
        severity="unreadable",
        path="",
        seen=seen,
        expected=expected,
    )
    return CheckedFile(name, (), (fault,))


def _unparsable(why: str, start: int, last: int, expected: str) -> ConfigFault:
    """The fault for a document that cannot be parsed, at the line that the parser names."""
    at = re.match(r"line (\d+): ", why)
    line = min(int(at[1]) if at else start, last)
    seen = why[at.end() :] if at else why
    return ConfigFault(
        line=line, code="unreadable", severity="unreadable", path="", seen=seen, expected=expected
    )


def _object_faults(part: ConfigObject, version: str, shown: Mapping[str, str]) -> Iterator[ConfigFault]:
    manifest = part.manifest
    if manifest.kind == VALUES and not _is_judged(part):
        seen = "values, of which driver.rdma and driver.kernelModuleType alone are judged"
        yield fault_at(manifest.line, "unreadable", "", seen, RENDERED, "unreadable")
    yield from _duplicate_keys(manifest.value)
    if manifest.kind in BY_KIND:
        schema = schema_for(manifest.kind, version)
        # the API server has checked what has a status: people cut what they paste of it
        whole = part.whole and manifest.at("status") is None
        yield from faults(manifest.value, schema, manifest.kind, whole=whole)
    if manifest.kind == "MachineConfig":
        config = manifest.at("spec", "config")
        if config is not None:
            for fault in faults(config, schema_for("Ignition"), "Ignition", ("spec", "config")):
                if not fault.path.endswith("contents.inline"):  # reported by semantic_faults, with a remedy
                    yield fault
    yield from semantic_faults(manifest, shown)
    yield from workload_faults(manifest, whole=part.whole)


def _is_judged(part: ConfigObject) -> bool:
    """Whether anything of an object is judged: its kind, the pods that it runs, or settings in it."""
    kind, value = part.manifest.kind, part.manifest.value
    known = kind in BY_KIND or has_meaning(part.manifest)
    return known or any(True for _ in pods_of(value)) or any(True for _ in settings_of(value))


def _boot_file(kind: str, text: str, content: bytes, name: str, node: Node | None) -> CheckedFile:
    """The faults of a file of modprobe.d, or of NCCL's."""
    out = list(_of_encoding(content, text))
    text = "" if content.startswith(UTF_16) else _without_marked_line(content, text)
    out += islice(boot_faults(kind, text), MOST_FAULTS)
    if kind == NCCL:
        if b"\r\n" in content:
            seen = "lines end in a carriage return, which becomes a part of each value"
            out.append(_fault_of_line(content[: content.index(b"\r\n")].count(b"\n") + 1, seen))
        unread = unread_lines(text)
        found = islice(_settings(text), MOST_FAULTS)
        settings = tuple(literal(one for one in found if one[0] not in unread))
        out += _of_settings(text, settings, out, {})
        if node is not None:
            out += on_node.setting_faults(node, settings, on_host=True)
            out = list(_with_effects(out, settings, node, text))
            if if_missing(False, has_gb10, node):
                out = list(without_direct_path(out, settings))
    elif node is not None:
        out += islice(module_faults(node, directives(text)), MOST_FAULTS)
    out.sort(key=lambda fault: (fault.line, fault.code))
    return CheckedFile(name, (FoundDocument(1, kind),), tuple(out))


def _of_encoding(content: bytes, text: str) -> Iterator[ConfigFault]:
    """What the encoding hides from modprobe and NCCL, which read lines of bytes, as strings of C."""
    first = text.partition("\n")[0].strip()
    if content.startswith(UTF_16):
        seen = "UTF-16: its zero bytes end each line for modprobe and NCCL, so that none counts"
        yield fault_at(1, "wrong-value", "", seen, "UTF-8")
    elif content.startswith(BOM_UTF8) and first and not first.startswith("#"):
        seen = f"{first[:60]}: a byte order mark is part of its first word, so that the line does not count"
        yield fault_at(1, "wrong-value", "", seen, "UTF-8 without a byte order mark")


def _without_marked_line(content: bytes, text: str) -> str:
    """The text with an empty line in place of one that a byte order mark spoils."""
    return "\n" + text.partition("\n")[2] if content.startswith(BOM_UTF8) else text


def _fault_of_line(line: int, seen: str) -> ConfigFault:
    return ConfigFault(
        line=line, code="wrong-value", severity="error", path="", seen=seen, expected="line feeds alone"
    )


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


def _with_node(
    out: list[ConfigFault], found: Recognised, settings: tuple[Setting, ...], node: Node, text: str
) -> Iterator[ConfigFault]:
    """The faults, and what the node lacks: of each object's settings by what its pods see of the node."""
    new: list[ConfigFault] = []
    every: list[Setting] = []
    for part in found.parts:
        new += on_node.pod_faults(node, part.manifest)
        new += plugin_faults(node, part.manifest)
        own = tuple((line, name, value) for line, name, value, _ in settings_of(part.manifest.value))
        every += own
        if on_node.sees_host_devices(part.manifest):
            on_host = on_node.is_on_host(part.manifest)
            new += on_node.setting_faults(node, own, on_host=on_host)
    if not any(part.manifest.kind for part in found.parts):
        new += on_node.setting_faults(node, settings, on_host=True)
        every += settings
    yield from _with_effects([*out, *_at_their_lines(new, text.split("\n"))], every, node, text)


def _with_effects(
    out: list[ConfigFault], settings: Iterable[Setting], node: Node, text: str
) -> Iterator[ConfigFault]:
    """The faults, and what settings bring about on the node. That is said once: not of a line that has a
    warning already, and in place of a note."""
    effects = _at_their_lines(list(effect_faults(node, literal(settings))), text.split("\n"))
    told = {fault.line for fault in out if fault.severity != "note"}
    new = {fault.line: fault for fault in effects if fault.line not in told}
    yield from islice((fault for fault in out if fault.line not in new), MOST_FAULTS)
    yield from new.values()


def _at_their_lines(found: list[ConfigFault], lines: list[str]) -> Iterator[ConfigFault]:
    """The faults, those of a setting in a command of several lines at the line of the setting."""
    for fault in found:
        name = fault.path.rpartition(".")[2]
        if _named().fullmatch(name) and not any(name in line for line in lines[fault.line - 2 : fault.line]):
            later = lines[fault.line : fault.line + COMMAND_LINES]
            ahead = (number for number, line in enumerate(later, 1) if f"{name}=" in line)
            fault = replace(fault, line=fault.line + next(ahead, 0))
        yield fault


COMMAND_LINES = 200
"""Lines of a command in a manifest in which a setting is looked for."""


def _of_settings(
    text: str, settings: tuple[Setting, ...], found: list[ConfigFault], shown: Mapping[str, str]
) -> tuple[ConfigFault, ...]:
    """The faults of settings in any file, but for those that were found at their lines."""
    known, of_mpi = {(fault.line, fault.code) for fault in found}, runs_mpi(text)
    return tuple(
        fault
        for line, variable, value in settings
        for fault in as_meant(setting_faults(line, variable, value, "", shown), variable, of_mpi=of_mpi)
        if (line, fault.code) not in known
    )


def _settings(text: str) -> Iterator[tuple[int, str, str]]:
    """The variables of programs that lines of any file set: line, name and value, once for each value."""
    seen: set[tuple[str, str]] = set()
    lines = text.split("\n")
    for number, line in active_lines(text) if _named().search(text) else ():
        if _named().search(line) is None:
            continue
        for setting in settings_in(line):
            if setting not in seen:
                seen.add(setting)
                yield own_line(lines, number, setting[0]), *setting


@functools.cache
def _named() -> re.Pattern[str]:
    return re.compile(NAME)
