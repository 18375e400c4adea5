"""Commands in configuration without the words that no rule reads: any of them may be a secret. What loads a
module keeps its words, any other program its name: `curl (dropped)`. Runs on Python 3.8, alone.
"""

from __future__ import annotations

import re

from .kernel_arguments import DROPPED

_FILES = re.compile(
    r"(?:etc|run|usr/local/lib|usr/lib|lib)/modprobe\.d/[^/]+|etc/rc(?:\.d/rc)?\.local"
    r"|(?:etc|usr/lib|lib)/systemd/system/[^/]+"
)
_LINE = re.compile(
    rb"(?m)^(?P<name>[ \t]*(?:(?:install|remove)[ \t]+\S+[ \t]+|Exec\w{1,16}=[-@:+!|]*))"
    rb"(?P<command>(?:[^\\\n]|\\[^\n]|\\\n)+)"
)
_SCRIPT = re.compile(rb"(?m)^(?P<name>[ \t]*)(?P<command>[^#\s][^\n]*)")

_QUOTED = rb"""\\.|"(?:[^"\\]|\\.)*(?:"|\Z)|'[^']*(?:'|\Z)"""
_SIMPLE = re.compile(rb"(?:" + _QUOTED + rb"""|[^;&|\n"'\\])+""", re.DOTALL)
"""A command up to what separates it from the next: sh(1)."""

_LOADS = re.compile(rb"modprobe|insmod|rmmod|kmod|nvidia|peer.?mem|mlx|rdma|openibd")
_BEGINNING = re.compile(
    rb"[\s({!]*(?:(?:if|then|else|elif|while|until|do|sudo|exec|nohup|command|time|env)\s+)*"
)
_VARIABLE = re.compile(rb"([\w-]{1,64}=)(?:" + _QUOTED + rb"""|[^\s"'\\])+\s*""", re.DOTALL)
_PROGRAM = re.compile(rb"""[^\s"'<>]+""")
_PLAIN = re.compile(
    rb"""(?:.*/)?(?:true|false|exit|return|:|\[|\[\[|test|sleep|fi|done|esac|systemctl|udevadm|sysctl)"""
)
"""Programs whose words decide what the line does, and hold no secrets."""


def commands_in_file(path: str, data: bytes) -> bytes:
    """The content of a file, without such words if it has commands."""
    if not _FILES.fullmatch(path):
        return data
    lines = _SCRIPT if "/rc" in path else _LINE
    return lines.sub(lambda line: line["name"] + _SIMPLE.sub(_reduced, line["command"]), data)


def _reduced(simple: "re.Match[bytes]") -> bytes:
    text = simple[0]
    if _LOADS.search(text):
        return text
    at = _BEGINNING.match(text).end()  # type: ignore[union-attr]  # matches the empty text
    names = [text[:at]]
    while variable := _VARIABLE.match(text, at):
        names.append(variable[1] + DROPPED + b" ")
        at = variable.end()
    kept = b"".join(names)
    program = _PROGRAM.match(text, at)
    if program is None or _PLAIN.fullmatch(program[0]):
        return kept + text[at:]
    rest = text[program.end() :]
    return kept + program[0] + (b" " + DROPPED + rest[len(rest.rstrip()) :] if rest.strip() else rest)
