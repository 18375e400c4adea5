"""Configuration whose text is a file of templates/, called KIND.FORM.

A template is what is written, with lines between that begin with one of these marks after their indent:

    #: key: value   of the whole text: title, file, use, assumed, note, lead, or `comments: none`
    ## sentence     for who changes the template: sources, and why it is as it is
    #? reason       why the line below it is there: --explain shows it
    #+ KIND.FORM    the lines of another template, with their reasons
    #| KIND.FORM    the text of another template as it is written, for a block of YAML

The indent of the last two is that of the lines. @GDR@, @QUOTED_GDR@, @FOLDER@ and @ALSO@ are filled in.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib.resources import files

from gdrkit.formats.regex import regex
from gdrkit.repair.config.output import ConfigOutput, OutputLine
from gdrkit.repair.config.request import ConfigRequest

MARK = regex(r"( *)#([:#?+|]) (.*)")
KEYS = ("title", "file", "use", "assumed", "note", "lead", "comments")


def filled(kind: str, form: str, request: ConfigRequest) -> ConfigOutput:
    """A template, filled in for a request. Raises ValueError for one that is malformed."""
    places = {
        "@GDR@": request.gdr, "@QUOTED_GDR@": shlex.quote(request.gdr), "@FOLDER@": request.textfile_folder,
        "@ALSO@": "".join(f" {word}" for word in _also(request)),
    }  # fmt: skip
    template = Template(f"{kind}.{form}", places)
    also = [f"it also drains a node with {' or '.join(request.drain_on)}"] if request.drain_on else []
    (title,), (file,), (use,) = (template.head[key] for key in ("title", "file", "use"))
    return ConfigOutput(
        kind=kind,
        form=form,
        title=title,
        file=file,
        use=use,
        lines=tuple(template.lines),
        assumed=tuple(template.head["assumed"]),
        notes=(*template.head["note"], *also),
        lead="".join(template.head["lead"]),
        commentable=template.head["comments"] != ["none"],
    )


def _also(request: ConfigRequest) -> Iterator[str]:
    """The options of gdr doctor by which also a code drains a node."""
    if request.expect:
        yield f"--expect {shlex.quote(request.expect)}"
    yield from (f"--fail-on {code}" for code in request.drain_on)


class Template:
    """A template that has been read: what its head says, by key, and its lines."""

    def __init__(self, name: str, places: Mapping[str, str]) -> None:
        self.head: defaultdict[str, list[str]] = defaultdict(list)
        self.lines: list[OutputLine] = []
        self._places = places
        text = files(__package__).joinpath("templates", name).read_text("utf-8")
        why = ""
        for line in text.splitlines():
            if (found := MARK.fullmatch(line)) is None:
                self.lines.append(OutputLine(self._filled(line), why))
                why = ""
            elif found[2] == "?":
                why = found[3]
            else:
                self._marked(*found.groups())
        if why:
            raise ValueError(f"{name}: a reason without a line: {why}")

    def _marked(self, indent: str, mark: str, text: str) -> None:
        if mark == ":":
            key, _, value = text.partition(": ")
            if key not in KEYS:
                raise ValueError(f"not a key of a template: {key!r}")
            self.head[key].append(self._filled(value))
        elif mark in "+|":
            self.lines += self._included(text, indent, with_reasons=mark == "+")

    def _included(self, name: str, indent: str, *, with_reasons: bool) -> Iterator[OutputLine]:
        """The lines of another template at an indent."""
        other = Template(name, self._places)
        if not with_reasons:  # a comment in a block of YAML would be a part of the file in it
            yield from (OutputLine(f"{indent}{line}") for line in other.head["lead"])
        for line in other.lines:
            text = f"{indent}{line.text}" if line.text else ""
            yield OutputLine(text, line.why if with_reasons else "")

    def _filled(self, line: str) -> str:
        for place, value in self._places.items():
            line = line.replace(place, value)
        return line
