"""A text to write somewhere, line by line, with the reason of each line."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class OutputLine(Struct, frozen=True):
    """One line of a text, and why it is there; "" for lines that only hold others together."""

    text: str
    why: str = ""


class ConfigOutput(Struct, frozen=True, kw_only=True):
    """What `gdr config KIND` writes."""

    kind: str
    form: str
    title: str
    file: str  # where it goes, or a name for it
    use: str  # how it is put to use: a command or a sentence
    lines: tuple[OutputLine, ...]
    assumed: tuple[str, ...] = ()  # what nobody could tell from the evidence
    notes: tuple[str, ...] = ()  # what whoever applies it should know
    lead: str = ""  # a line that must stand first, before any comment: #!/bin/sh
    commentable: bool = True  # JSON has no comments
    always_explained: bool = False


class ConfigRefused(Struct, frozen=True, kw_only=True):
    """That a text would do no good here, why, and what to do instead."""

    kind: str
    why: str
    instead: str = ""


def head(output: ConfigOutput) -> tuple[str, ...]:
    """What is said of the whole text: its purpose, its use, what was assumed."""
    return (
        output.title,
        f"use: {output.use}",
        *(f"assumed: {words}" for words in output.assumed),
        *(f"note: {words}" for words in output.notes),
    )


def rendered(output: ConfigOutput, *, explain: bool = False) -> str:
    """The text, with what is said of it as comments, and with `explain` each line's reason above it."""
    if not output.commentable:
        return "".join(f"{line.text}\n" for line in output.lines)
    text = [output.lead] if output.lead else []
    text += [f"# {words}" for words in head(output)]
    explain = explain or output.always_explained
    for line in output.lines:
        if explain and line.why:
            indent = line.text[: len(line.text) - len(line.text.lstrip())]
            text.append(f"{indent}# {line.why}")
        text.append(line.text)
    return "\n".join(text) + "\n"


def explained(output: ConfigOutput) -> str:
    """Each line with its reason, for a form that takes no comments."""
    told = [
        *head(output),
        *(f"{line.text.strip().rstrip(',')}: {line.why}" for line in output.lines if line.why),
    ]
    return "".join(f"{words}\n" for words in told)


def annotated(text: str, reasons: Mapping[str, str]) -> tuple[OutputLine, ...]:
    """The lines of a text that is written elsewhere, each with the reason of the first beginning that fits.

    Comments that the text starts with are left out: an output has a head of its own."""
    lines = text.rstrip("\n").split("\n")
    while lines and lines[0].startswith("#"):
        lines.pop(0)
    return tuple(OutputLine(line, _reason(line, reasons)) for line in lines)


def _reason(line: str, reasons: Mapping[str, str]) -> str:
    return next((why for start, why in reasons.items() if line.startswith(start)), "")
