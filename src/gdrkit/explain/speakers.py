"""Whose words a pasted text holds: machines by prompts, logs, headings, and people by their posts."""

from __future__ import annotations

import functools
import re

_SYSLOG = (
    r"(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}(?:\.\d+)?|\d{4}-\d\d-\d\dT\S+) "
    r"(?P<host>[\w.-]+) [\w.@()/-]+(?:\[\d+\])?: "
)
_NCCL = r"(?:^|.*?[\s:>)])(?P<host>[A-Za-z][\w.-]*):\d+:\d+ \[-?\d+\] (?:\S+ )?NCCL "
_NOUN = r"(?:node|host|server|machine|box|worker|rank|system|vm|spark|instance|laptop|workstation)"
_WHICH = r"(?:first|second|third|other|1st|2nd|3rd|working|failing|good|bad|remote|head)"
_NUMBER = r"(?:\d+|one|two|three|[A-F]\b)"
_PATTERNS = {
    "syslog": _SYSLOG,
    "nccl": _NCCL,
    "markdown": r"\s{0,3}(?P<marks>#{1,6})\s+(?P<text>.+?)\s*#*$",
    "underlined": r"\s*(?:[-=*_]{2,}\s*)(?P<text>[^-=*_].*?)\s*[-=*_:]*$",
    "title": r"\s*(?P<text>[^.?!]{1,60}?)\s*:?\*{0,2}\s*$",
    "machine": rf"\b(?:{_WHICH} {_NOUN}|{_NOUN}[- #]?{_NUMBER}|{_NOUN} \(?[\w-]*\d[\w-]*\)?)\b",
    "name": r"\*{0,2}(?P<name>[a-z][a-z-]*[-_]?\d[\w-]*)\*{0,2}:?",
    "introduced": (
        rf"\b(?:on|from|at|{_WHICH}) (?:the |my )?(?:{_NOUN} )?"
        rf"\(?(?P<name>[a-z][\w-]*\d[\w-]*|{_NOUN}[- #]?{_NUMBER})\b"
    ),
    # GitHub's page and its exports, mail, Discourse
    "post": (
        r"(?:(?P<who>@?[\w.-]{2,40}) (?:\u00b7 (?:comment|description|review|reply)\b|commented\b"
        r"|wrote:|said:|replied\b)|\d+ Likes?$)"
    ),
    "sent": (
        r"(?:sudo )?(?:ssh (?:-[FIiJLlop] \S+ |-\S+ )*(?P<ssh>[\w.@-]+) \S"
        r"|(?:kubectl|oc) (?:.* )?(?:exec|logs) (?:-\S+(?: \S+)? )*(?P<pod>[a-z][\w.-]*)"
        r"|talosctl (?:.* )?(?:-n|--nodes)[ =](?P<talos>[\w.:-]+))"
    ),
}
_NOT_MACHINES = {
    "step", "layer", "part", "case", "test", "issue", "option", "attempt", "try", "cuda", "nccl",
    "ubuntu", "rhel", "rocky", "debian", "kernel", "driver", "h100", "h200", "a100", "b200", "b300",
    "gb10", "gb200", "gb300", "gh200", "rtx", "v100", "l40", "l40s", "l4", "t4", "ofed", "mlx5",
    "python", "version", "r5", "phase", "q", "a", "note", "fig", "figure", "table", "section", "chapter",
    "update", "edit", "mofed", "doca", "rocm", "ib", "ipv4", "ipv6", "fp8", "fp16", "x86",
}  # fmt: skip
"""Words with a number behind them that are mostly no machine's name."""
WITHOUT_LEVEL = 7
"""The level of a heading that is no heading of Markdown, whose levels are 1 to 6."""


@functools.cache
def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[name], re.IGNORECASE if name in ("machine", "introduced", "title") else 0)


class Speakers:
    """Who speaks at a line, told from the lines before it.

    A heading holds until the next one of its level or above. A prompt and a log's prefix name a machine for
    certain; a heading ("second node") tells that there are two. Each post of a thread is another person's,
    who has a machine of his own.
    """

    def __init__(self) -> None:
        self.now = ""  # the machine; "" if nobody names one
        self.group = ""  # the person; "" before the first post that has a name
        self.groups: dict[str, dict[str, str]] = {"": {}}  # the machines that each names, and how
        self._scope = self._level = WITHOUT_LEVEL

    def name_of(self, group: str, prose: bool) -> str:
        """The machine that a person's unnamed lines are of: the only one that prompts and NCCL name.

        A log of the system may be of another machine, unless nobody wrote a word about it. Where there are
        several and nothing tells them apart, the lines are of the person's own."""
        named = self.groups[group]
        spreads = [name for name, how in named.items() if how != "log" or not prose]
        if len(spreads) == 1 and "heading" not in named.values() and (prose or len(self.groups) == 1):
            return spreads[0]
        return group

    def prompt(self, host: str) -> None:
        """A prompt names the machine on which everything after it is typed."""
        self._name(_short(host), "prompt", self._level)

    def of_line(self, text: str) -> str:
        """The machine that a log's own line names; "" if it names none."""
        if ": " not in text and "NCCL" not in text:
            return ""
        how, found = "log", _compiled("syslog").match(text.lstrip())
        if found is None and "NCCL " in text:
            how, found = "nccl", _compiled("nccl").match(text)
        if found is None:
            return ""
        name = _short(found["host"])
        self.groups[self.group].setdefault(name, how)
        return name

    def heading(self, text: str) -> bool:
        """Whether a line is a heading or the start of somebody's post; if so, who speaks from here on."""
        post = _compiled("post").match(text.strip())
        if post is not None:
            who = post["who"] or f"post {len(self.groups) + 1}"
            self.group, self.now = who.lstrip("@"), ""
            self._scope = self._level = WITHOUT_LEVEL
            self.groups.setdefault(self.group, {})
            return True
        markdown = _compiled("markdown").match(text)
        if markdown is not None:
            self._level = len(markdown["marks"])
            if self._level <= self._scope:
                self.now = ""
            name = _machine(markdown["text"])
            if name:
                self._name(name, "heading", self._level)
            return True
        title = _compiled("underlined").match(text) or _compiled("title").match(text)
        if title is None or len(text.split()) > 6:
            return False
        name = _machine(title["text"]) if text.rstrip(" *").endswith(":") or len(text.split()) < 4 else ""
        if name:
            self._name(name, "heading", self._level)
        return bool(name)

    def introduced(self, text: str) -> None:
        """A sentence that ends with a colon may name the machine whose output follows."""
        if not text.rstrip("* ").endswith(":"):
            return
        found = _compiled("introduced").search(text)
        if found is not None and not _is_no_machine(found["name"]):
            self._name(found["name"].lower(), "heading", self._level)

    def sent_to(self, command: str) -> str:
        """The machine or pod that a command was sent to from here; "" if it was run here."""
        if not command or not any(word in command for word in ("ssh ", "kubectl", "oc ", "talosctl")):
            return ""
        found = _compiled("sent").match(command)
        name = (found["ssh"] or found["pod"] or found["talos"] or "") if found else ""
        return _short(name.rpartition("@")[2])

    def _name(self, name: str, how: str, scope: int) -> None:
        self.groups[self.group].setdefault(name, how)
        self.now, self._scope = name, scope


def _machine(title: str) -> str:
    """The machine that a heading names; "" if it names none."""
    name = _compiled("name").fullmatch(title.strip(" *:"))
    if name is not None and not _is_no_machine(name["name"]):
        return name["name"]
    found = _compiled("machine").search(title)
    return found[0].lower() if found else ""


def _is_no_machine(name: str) -> bool:
    word = name.lower()
    return word in _NOT_MACHINES or word.rstrip("0123456789.-_") in _NOT_MACHINES


def _short(host: str) -> str:
    """The name of a host without its domain; an address stays whole."""
    return host if host.replace(".", "").isdigit() else host.partition(".")[0]
