"""Variables that a text sets for a job: in commands, scripts, Dockerfiles, manifests and listings."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

from gdrkit.explain.transcript import TextLine
from gdrkit.facts import nccl_lines

_QUOTED = r"\"[^\"]{0,400}\"|'[^']{0,400}'"
_VALUE = rf"(?P<value>{_QUOTED}|[^\s,;}}#\"']{{1,400}})"
_NAME = r"[\"']?(?P<name>(?:OFI_)?NCCL_[A-Z0-9_]{1,60})[\"']?"
_PATTERNS = {
    "dockerfile": rf"ENV\s+{_NAME}[= ]\s*{_VALUE}.*",
    "mapping": rf"(?:-\s+)?{_NAME}\s*[:=]\s*{_VALUE},?(?:\s+(?:#.*|\\))?",  # YAML, JSON, compose, env
    "flow": rf"[-\s]*\{{\s*[\"']?name[\"']?:\s*{_NAME},\s*[\"']?value[\"']?:\s*{_VALUE}\s*\}},?",
    "python": rf"os\.environ\[{_NAME}\]\s*=\s*(?:str\()?{_VALUE}\)?",
    "named": rf"(?:-\s+)?[\"']?name[\"']?:\s*{_NAME},?",  # Kubernetes, with the value in the next line
    "value": rf"[\"']?value[\"']?:\s*{_VALUE}",
}
FORMS = ("dockerfile", "mapping", "flow", "python")
"""The forms of a line that sets one variable, and has nothing else."""


def settings(lines: Iterable[TextLine]) -> Mapping[int, str]:
    """The lines that set variables of NCCL, by number, in a form that facts/nccl_lines.py reads.

    Sentences are left out, also those that quote an assignment."""
    found: dict[int, str] = {}
    named = ""  # by the line before, in a Kubernetes list
    for line in lines:
        if line.kind == "quoted":
            continue
        text = line.text.strip()
        value = _compiled("value").fullmatch(text) if named else None
        if value is not None:
            found[line.number] = f"{named}={_bare(value['value'])}"
        name = _compiled("named").fullmatch(text) if "NCCL_" in text else None
        named = name["name"] if name is not None else ""
        if "NCCL_" in text and (setting := _of_line(line, text)):
            found[line.number] = setting
    return found


def _of_line(line: TextLine, text: str) -> str:
    """What a line sets; "" if it sets nothing."""
    for form in FORMS:
        found = _compiled(form).fullmatch(text)
        if found is not None:
            return f"{found['name']}={_bare(found['value'])}"
    if text.startswith(OPTIONS):  # a line of a command that a backslash continues
        text = f" {text}"
    elif line.kind == "machine" or (line.kind == "prose" and not text.startswith("export ")):
        return ""
    return text if any(nccl_lines.given(text)) else ""


OPTIONS = ("-x ", "-e ", "--env", "-genv ")
"""Options of launchers and container runtimes that set a variable."""


def _bare(value: str) -> str:
    return value.strip("\"'")


@functools.cache
def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[name])
