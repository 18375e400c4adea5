"""Variables that a text sets for a job: in commands, scripts, Dockerfiles, manifests and listings."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.manifests import manifests
from gdrkit.facts.assignments import NAME, OPTIONS, assigned, declared, is_filled_in
from gdrkit.facts.kubernetes import settings_of
from gdrkit.formats.regex import regex
from gdrkit.formats.yaml_text import documents

Setting = tuple[str, str]
"""The name of a variable, and its value."""

_PATTERNS = {
    "any": regex(NAME),
    "named": regex(
        rf"(?:-\s+)?[\"']?name[\"']?:\s*[\"']?(?P<name>{NAME})[\"']?,?"
    ),  # Kubernetes, before its value
    "value": regex(r"[\"']?value[\"']?:\s*(?P<value>\"[^\"]{0,400}\"|'[^']{0,400}'|[^\s,;}#\"']{1,400})"),
}


@functools.lru_cache(maxsize=8)
def settings(lines: tuple[TextLine, ...]) -> Mapping[int, tuple[Setting, ...]]:
    """What lines set, by line number. Sentences are left out, also those that quote an assignment."""
    found = dict(_of_manifests(lines))
    named = ""  # by the line before, in a Kubernetes list
    for line in lines:
        if line.kind == "quoted" or line.number in found:
            continue
        text = line.text.strip()
        value = _PATTERNS["value"].fullmatch(text) if named else None
        if value is not None:
            found[line.number] = ((named, value["value"].strip("\"'")),)
        mentioned = _PATTERNS["any"].search(text) is not None
        name = _PATTERNS["named"].fullmatch(text) if mentioned else None
        named = name["name"] if name is not None else ""
        if mentioned and (given := _of_line(line, text)):
            found[line.number] = given
    return {number: literal for number, given in found.items() if (literal := _literal(given))}


def _literal(given: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """The settings whose value the text shows, and that nothing fills in later."""
    return tuple((name, value) for name, value in given if not is_filled_in(value))


def _of_manifests(lines: tuple[TextLine, ...]) -> Mapping[int, tuple[Setting, ...]]:
    found: dict[int, tuple[Setting, ...]] = {}
    for first, text in manifests(lines).items():
        if _PATTERNS["any"].search(text) is None:
            continue
        for document in documents(text):
            for number, name, value, _ in settings_of(document.value) if document.value else ():
                here = first + number - 1
                found[here] = (*found.get(here, ()), (name, value))
    return found


def _of_line(line: TextLine, text: str) -> tuple[Setting, ...]:
    if found := declared(text):
        return found
    if text.startswith(OPTIONS):  # a line of a command that a backslash continues
        text = f" {text}"
    elif line.kind == "machine" or (line.kind == "prose" and not text.startswith("export ")):
        return ()
    return tuple(assigned(text))


def as_line(settings: Iterable[Setting]) -> str:
    """Settings in the form in which facts/assignments.py reads them again."""
    return "".join(f' -x {name}="{value}"' for name, value in settings)
