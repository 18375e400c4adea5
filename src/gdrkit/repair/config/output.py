"""The configuration that `gdr config` writes: lines, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class OutputLine(Struct, frozen=True):
    """One line, and why it is there; "" for lines of structure only."""

    text: str
    why: str = ""


class ConfigOutput(Struct, frozen=True, kw_only=True):
    """What `gdr config KIND` writes."""

    kind: str
    form: str
    title: str
    file: str  # the path to install it to, or a file name
    use: str  # how to use it: a command or a sentence
    lines: tuple[OutputLine, ...]
    assumed: tuple[str, ...] = ()  # what the evidence does not show
    notes: tuple[str, ...] = ()  # what to know before applying it
    lead: str = ""  # a line that must precede all comments: #!/bin/sh
    commentable: bool = True  # JSON has no comments
    always_explained: bool = False


TARGET = "TARGET"
"""In what to do instead: what was judged, as the user named it."""


class ConfigRefused(Struct, frozen=True, kw_only=True):
    """Why a configuration would not help here, and what to do instead, whose commands name TARGET."""

    kind: str
    why: str
    instead: str = ""


def head(output: ConfigOutput) -> tuple[str, ...]:
    """Lines on the whole text: title, use, assumptions and notes."""
    return (
        output.title,
        f"use: {output.use}",
        *(f"assumed: {text}" for text in output.assumed),
        *(f"note: {text}" for text in output.notes),
    )


def rendered(output: ConfigOutput, *, explain: bool = False) -> str:
    """The text, with head() as comments and, with `explain`, each line's reason above it."""
    if not output.commentable:
        return "".join(f"{line.text}\n" for line in output.lines)
    text = [output.lead] if output.lead else []
    text += [f"# {_one_line(line)}" for line in head(output)]
    explain = explain or output.always_explained
    for line in output.lines:
        if explain and line.why:
            indent = line.text[: len(line.text) - len(line.text.lstrip())]
            text.append(f"{indent}# {_one_line(line.why)}")
        text.append(line.text)
    return "\n".join(text) + "\n"


def _one_line(text: str) -> str:
    """A comment ends with its line: what evidence says in one must not become a setting."""
    return " ".join(text.split()) if not text.isprintable() else text


def explained(output: ConfigOutput) -> str:
    """head(), and each line with its reason, for forms without comments."""
    lines = [
        *head(output),
        *(f"{line.text.strip().rstrip(',')}: {line.why}" for line in output.lines if line.why),
    ]
    return "".join(f"{line}\n" for line in lines)


def annotated(text: str, reasons: Mapping[str, str]) -> tuple[OutputLine, ...]:
    """The lines of a text, each with the reason of the first matching prefix.

    Leading comments are dropped: an output has its own head."""
    lines = text.rstrip("\n").split("\n")
    while lines and lines[0].startswith("#"):
        lines.pop(0)
    return tuple(OutputLine(line, _reason(line, reasons)) for line in lines)


def _reason(line: str, reasons: Mapping[str, str]) -> str:
    return next((why for start, why in reasons.items() if line.startswith(start)), "")
