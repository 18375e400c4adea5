"""Commands that run on many machines at once, and the headers above what groups of them print.

A group of machines that printed the same is one machine here: gpu[498-500]. What it printed is an output of
the command that ran there, as if somebody had typed it at a prompt of that machine.

Sources: ClusterShell lib/ClusterShell/CLI/Display.py, and clush(1); pdsh(1), dshbak(1); srun(1); pssh(1);
ansible(1); xCAT's xdsh(1), psh(1); salt(1).
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping, Sequence

from gdrkit.formats.regex import regex

RULERS = ("-" * 15, "-" * 16)
"""Above and below the names of a group: of clush, and of dshbak."""
PART = r"[\w.-]{0,80}(?:\[[\d,-]{1,2000}\][\w.-]{0,80}){0,3}"
_GROUP = regex(rf"(?P<nodes>(?=\w){PART}(?:,(?=\w){PART}){{0,200}})(?: \(\d{{1,6}}\))?")
"""Names, folded as Slurm does, and how many they are."""
_HEADER = regex(
    rf"-{{3,40}} (?P<group>(?=\w){PART}) -{{3,40}}"
    r"|(?P<ansible>[A-Za-z][\w.-]{0,80}) \| (?:CHANGED|SUCCESS|FAILED) \| rc=\d{1,3} >>"
    r"|\[\d{1,6}\] \d\d:\d\d:\d\d \[(?:SUCCESS|FAILURE)\] (?P<pssh>[A-Za-z][\w.-]{0,80})(?: .{1,80})?"
)
"""Names in one line: folded as above, or of one machine, as ansible and pssh print them."""
_DOMAIN = regex(r"\.[A-Za-z][\w.-]*(?=,|$)")
_LABEL = regex(rf"(?P<nodes>(?=\w){PART}): ?(?P<rest>.*)")
"""What pdsh, `clush` and `clush -L` print before each line."""

_DRAINED = regex(
    r".{1,400}? {2,80}[\w.-]{1,40} {1,40}\d{4}-\d\d-\d\dT[\d:]{8} {1,40}"
    rf"(?P<nodes>(?=\w){PART}(?:,(?=\w){PART}){{0,200}})"
)
"""A row of `sinfo -R`: the reason, the user, the time and the nodes. Source: Slurm, sinfo(1)."""

PROGRAMS = ("clush", "pdsh")
VALUED = ("w", "x", "g", "X", "l", "f", "t", "u", "R", "o", "m", "O", "i")
"""Options of one letter that take a value, in the same word or the next."""
ELSEWHERE = {
    "srun": ("-w", "--nodelist"),
    "pdsh": ("-w",),
    "clush": ("-w", "--nodes"),
    "pssh": ("-H", "--host"),
    "ansible": (),
    "xdsh": (),
    "psh": (),
    "salt": (),
}
"""Programs that run a command on other machines, and the options that name them; without any, the first
word does, with the name of a machine or of a group."""
GATHERS = ("dshbak", "clubak", "sort")
"""Programs behind a pipe that leave the lines of every machine as they are."""


def group_headers(raw: Sequence[str]) -> Mapping[int, str]:
    """The names of each group, by the index of their line."""
    found: dict[int, str] = {}
    last = -1  # the ruler below the names before: one line of output may be between it and the next one
    headers = {at: one for at, line in enumerate(raw) if (one := _HEADER.fullmatch(line.rstrip()))}
    folded = any("[" in (one["group"] or "") for one in headers.values())
    for index, one in headers.items():
        if folded or not one["group"]:  # a name alone between dashes may head anything
            found[index] = names(next(filter(None, one.groups())))
    for index in range(len(raw) - 2):
        if index <= last or not is_ruler(raw[index]) or raw[index].rstrip() != raw[index + 2].rstrip():
            continue
        if group := _GROUP.fullmatch(raw[index + 1].strip()):
            found[index + 1], last = names(group["nodes"]), index + 2
    return found


def is_ruler(line: str) -> bool:
    """Whether a line is one of those above and below names."""
    return line.rstrip() in RULERS


def names(nodes: str) -> str:
    """Names of machines without their domains."""
    return _DOMAIN.sub("", nodes)


def labelled(text: str, command: str) -> tuple[str, str] | None:
    """The machines that a line of a command's output is labelled with, and the rest of the line; None for a
    line without a label. A name has a digit, or the command has it."""
    found = _LABEL.fullmatch(text)
    if found is None or found["nodes"] in PROGRAMS:  # which report their own errors so
        return None
    named = found["nodes"] in command or any(letter.isdigit() for letter in found["nodes"])
    return (names(found["nodes"]), found["rest"]) if named else None


def drained(text: str, command: str) -> str:
    """The nodes that a row of `sinfo -R` gives a reason for; "" for another line."""
    found = _DRAINED.fullmatch(text.rstrip()) if "sinfo" in command else None
    return names(found["nodes"]) if found else ""


def command_there(command: str) -> str:
    """What a command runs on every machine; "" if it runs here."""
    if not any(program in command for program in PROGRAMS):
        return ""
    words = _words(command)
    if not words or words[0].rpartition("/")[2] not in PROGRAMS:
        return ""
    end = words.index("|") if "|" in words else len(words)
    there = " ".join(_behind_options(words[1:end]))
    behind = words[end + 1 :]
    return there if not behind or behind[0] in GATHERS or not there else f"{there} | {' '.join(behind)}"


def _behind_options(words: Sequence[str]) -> Sequence[str]:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        valued = not words[at].startswith("--") and words[at].endswith(VALUED)
        at += 2 if valued else 1
    return words[at:]


def _words(command: str) -> Sequence[str]:
    """The words of a command without sudo and variables; () if a quotation has no end."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        return ()
    while words[:1] == ["sudo"] or ("=" in "".join(words[:1])):
        words = words[1:]
    return words


@functools.lru_cache(maxsize=16)
def machine_elsewhere(command: str) -> str | None:
    """The only machine on which a command runs, if it is another one; "" if the command names none, several
    or a group, None if it runs here."""
    if not any(program in command for program in ELSEWHERE):
        return None
    words = _words(command) or command.split()
    options = ELSEWHERE.get(words[0].rpartition("/")[2]) if words else None
    if options is None:
        return None
    named = _values(words[1:], options) if options else _behind_options(words[1:])[:1]
    name = named[0] if len(named) == 1 else ""
    whole = _NAME.fullmatch(name) and (options or any(letter.isdigit() for letter in name))
    return names(name) if whole else ""


_NAME = regex(r"(?!-)[\w.-]{1,80}")


def _values(words: Sequence[str], options: Sequence[str]) -> Sequence[str]:
    """The values that a command's own options give: `-w X`, `-wX`, `--nodelist=X`, `-bw X`."""
    found: list[str] = []
    for word, following in zip(words, (*words[1:], ""), strict=True):
        if word == "|":
            break
        for option in options:
            bundled = len(option) == 2 and _BUNDLE.fullmatch(word) and word.endswith(option[1])
            if word == option or bundled:
                found.append(following)
            elif word.startswith(f"{option}=" if option.startswith("--") else option):
                found.append(word.removeprefix(option).removeprefix("="))
    return found


_BUNDLE = regex(r"-[A-Za-z]{1,8}")
