"""Duplicate keys in a manifest."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import in_prose
from gdrkit.facts.kubernetes import UnreadableManifest, manifests, unreadable
from gdrkit.formats.yaml_values import Value, YamlMapping, at, duplicates
from gdrkit.node import Node
from gdrkit.rules.rule import Failed, Layer, Outcome, Status, rule


class RepeatedKey(Struct, frozen=True, order=True):
    """A key that occurs more than once in one mapping of a manifest."""

    source: str
    kind: str
    path: str  # spec.driver
    lines: tuple[int, ...]
    lost: tuple[str, ...]  # keys below it that the last one does not repeat


def repeated(node: Node) -> Iterable[RepeatedKey | UnreadableManifest]:
    """Every repeated key of every manifest, and the documents that could not be read."""
    found: list[RepeatedKey | UnreadableManifest] = []
    for manifest in manifests(node):
        for duplicate in duplicates(manifest.value):
            name = ".".join(duplicate.path)
            lost = keys_lost(manifest.value, duplicate.path)
            found.append(RepeatedKey(manifest.source, manifest.kind, name, duplicate.lines, lost))
    return (*found, *unreadable(node))


def keys_lost(value: Value, path: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of the earlier mappings at a repeated key that are not in the last one."""
    parent = at(value, *path[:-1])
    if not isinstance(parent, YamlMapping):
        return ()
    same = [entry.value for entry in parent.entries if entry.key == path[-1]]
    if not same:  # a key further up is repeated too, and `parent` is below the last one
        return ()
    kept = {entry.key for entry in same[-1].entries} if isinstance(same[-1], YamlMapping) else set()
    every = [entry.key for value in same if isinstance(value, YamlMapping) for entry in value.entries]
    return tuple(dict.fromkeys(key for key in every if key not in kept))


@rule(
    "policy-duplicate-key",
    Layer.APPLICATION,
    per=repeated,
    default_status=Status.WARNING,
    cost="Everything below the earlier key is silently dropped, or the whole file is rejected.",
    references=("https://yaml.org/spec/1.2.2/#3213-node-comparison",),
)
def policy_duplicate_key(node: Node, subject: RepeatedKey | UnreadableManifest) -> Outcome:
    """A manifest has the same key twice in one mapping.

    Cost: What only the first key sets is lost: with `enabled: true` below the first and
    `useHostMofed: false` below the second, only `useHostMofed: false` remains.

    How to tell: `spec:` has two `driver:` keys, as in recipes that show two alternatives in one text.
    yamllint and `kubectl apply --validate=strict` report the duplicate.

    What to do: Merge the two into one mapping with all keys.

    Why: YAML forbids duplicate keys. PyYAML and the parser of Helm and kubectl keep the last one; other
    parsers reject the file.

    Source: YAML 1.2.2, 3.2.1.3; sigs.k8s.io/yaml.
    """
    if isinstance(subject, UnreadableManifest):
        raise EvidenceMissing(
            Missing(
                node.describe_line(subject.source, subject.line),
                MissingReason.GARBLED,
                f"yamllint {in_prose(f'{subject.source}: {subject.fault}')}",
            )
        )
    lost = f"; lost: {', '.join(subject.lost)}" if subject.lost else ""
    *earlier, last = node.mark(subject.source, *subject.lines)
    lines = ", ".join(map(str, earlier))
    return Failed(
        seen=f"{subject.path} at lines {lines} and {last}: the last counts{lost}",
        expected="each key once",
        subject=node.describe_line(subject.source, subject.lines[0]),
    )
