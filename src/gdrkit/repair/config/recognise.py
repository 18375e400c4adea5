"""Recognises the kinds of objects in a file by its content, not its name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.facts.kubernetes import Manifest, objects
from gdrkit.facts.manifest_excerpts import excerpts, has_excerpt
from gdrkit.formats.yaml_text import Document, documents
from gdrkit.formats.yaml_values import Scalar, Value, YamlMapping, YamlSequence, at, items_at, text_at

VALUES = "values of the GPU Operator's chart"


class ConfigObject(Struct, frozen=True):
    """One object of a file. `whole` is False for a patch, in which no key is required."""

    manifest: Manifest
    whole: bool = True


class Recognised(Struct, frozen=True):
    """The objects of a text, and the documents that could not be parsed."""

    parts: tuple[ConfigObject, ...]
    unreadable: tuple[Document, ...]


def recognise(text: str) -> Recognised:
    """The objects in a YAML or JSON text, in order; or in examples within another text."""
    if not _is_yaml(text):
        return _excerpts(text)
    cloud = text.startswith("#cloud-config")
    parts: list[ConfigObject] = []
    unreadable = []
    for document in documents(text):
        if document.value is None:
            unreadable.append(document)
        else:
            parts += _parts(document.value, cloud)
    return Recognised(tuple(parts), tuple(unreadable))


def _is_yaml(text: str) -> bool:
    """Whether the first line that is not a comment is a key, item, brace, document start or directive."""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            return bool(re.match(r"---|%YAML|<<:|[{\[]|- |[\"']?[\w./$-]+[\"']?\s*:(\s|$)|\t", line))
    return False


def _excerpts(text: str) -> Recognised:
    """Manifests within an article or a README. What cannot be parsed there need not be a manifest."""
    if not has_excerpt(text):
        return Recognised((), ())
    lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
    stream = [""] * (text.count("\n") + 2)
    for first, excerpt in excerpts(lines).items():
        for number, line in excerpt:
            stream[number - 1] = line
        if first > 1:
            stream[first - 2] = "---"  # replaces prose, or the end of a code block
    parts: list[ConfigObject] = []
    for document in documents("\n".join(stream)):
        if document.value is not None:
            parts += _parts(document.value, cloud=False)
    return Recognised(tuple(parts), ())


def _parts(value: Value, cloud: bool) -> list[ConfigObject]:
    found = objects(value, "")
    if found:
        values = (ConfigObject(one, whole=False) for manifest in found for one in _values(manifest))
        return [*map(ConfigObject, found), *values]
    kind, whole = _kind(value, cloud)
    return [ConfigObject(Manifest(kind, text_at(value, "metadata", "name"), "", value.line, value), whole)]


MOST_SOURCES = 20
"""Sources of one Application that are looked at."""


def _values(manifest: Manifest) -> Iterator[Manifest]:
    """The values of the GPU Operator's chart in an object that installs it, as a mapping or as text.

    Sources: the CustomResourceDefinitions of Argo CD's Application, spec.source(s).helm; of Flux's
    HelmRelease, spec.values; of the HelmChart of k3s and RKE2, spec.valuesContent."""
    if manifest.kind not in ("Application", "HelmRelease", "HelmChart"):
        return
    spec = at(manifest.value, "spec")
    sources = (at(one, "helm") for one in items_at(spec, "sources")[:MOST_SOURCES])
    for place in (spec, at(spec, "source", "helm"), *sources):
        value = at(place, "valuesObject") or at(place, "values") or at(place, "valuesContent")
        if isinstance(value, Scalar):  # at the lines that it has in the file
            text = "\n" * (value.line - 1 + value.literal) + value.text
            value = next((found.value for found in documents(text)), None)
        known = ("rdma", "kernelModuleType")  # other charts have a `driver` too
        if value is not None and any(at(value, "driver", name) for name in known):
            yield Manifest(VALUES, manifest.name, "", value.line, value)


def _kind(value: Value, cloud: bool) -> tuple[str, bool]:
    """The kind of an object without `kind` ("" if unknown), and whether it is whole."""
    if cloud:
        return "cloud-config", True
    if at(value, "variant") is not None and at(value, "version") is not None:
        return "Butane", True
    if isinstance(at(value, "ignition"), YamlMapping):
        return "Ignition", True
    if isinstance(at(value, "spec", "driver"), YamlMapping):
        return "ClusterPolicy", False
    if isinstance(at(value, "spec", "ofedDriver"), YamlMapping):
        return "NicClusterPolicy", False
    if isinstance(at(value, "driver"), YamlMapping):
        return VALUES, False
    if isinstance(at(value, "spec", "containers"), YamlSequence):
        return "patch of a Pod", False
    if isinstance(at(value, "customization"), YamlMapping):
        return "Talos schematic", True
    return "", False
