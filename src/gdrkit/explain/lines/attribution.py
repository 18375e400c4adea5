"""Attribute the lines of a pasted text: to machines by prompts, logs and headings, to authors by posts."""

from __future__ import annotations

import re

from gdrkit.explain.lines.fan_out import ELSEWHERE, machine_elsewhere
from gdrkit.formats.month import MONTH
from gdrkit.formats.regex import regex

_SYSLOG = (
    rf"(?:(?:{MONTH} [ \d]\d [\d:]{{8}}(?:\.\d+)?|\d{{4}}-\d\d-\d\dT\S+) "
    r"(?=\S+ [\w.@()/-]+(?:\[\d+\])?: )|\[ *\d+\.\d+\] (?=\S+ kernel: ))(?P<host>[\w.-]+) "
)
_NCCL = r"(?:^|.*?[\s:>)])(?P<host>[A-Za-z][\w.-]*):\d+(?: NCCL DIAG |:\d+ \[-?\d+\] (?:\S+ )?NCCL )"
_NOUN = r"(?:node|host|server|machine|box|worker|rank|system|vm|spark|instance|laptop|workstation)"
_WHICH = r"(?:first|second|third|other|1st|2nd|3rd|working|failing|good|bad|remote|head)"
_NUMBER = r"(?:\d+|one|two|three|[A-F]\b)"
_PATTERNS = {
    "syslog": regex(_SYSLOG),
    "nccl": regex(_NCCL),
    "markdown": regex(r"\s{0,3}(?P<marks>#{1,6})\s+(?P<text>.+?)(?<!\s)\s*+#{0,80}$"),
    "underlined": regex(r"\s*(?:[-=*_]{2,}\s*)(?P<text>[^-=*_].*?)\s*[-=*_:]*$"),
    "title": regex(r"\s*(?P<text>[^.?!]{1,60}?)\s*:?\*{0,2}\s*$", re.IGNORECASE),
    "machine": regex(
        rf"\b(?:{_WHICH} {_NOUN}|{_NOUN}[- #]?{_NUMBER}|{_NOUN} \(?[\w-]*\d[\w-]*\)?)\b", re.IGNORECASE
    ),
    "name": regex(r"\*{0,2}(?P<name>[a-z][a-z-]*[-_]?\d[\w-]*)\*{0,2}:?"),
    "introduced": regex(
        rf"\b(?:on|from|at|{_WHICH}) (?:the |my )?(?:{_NOUN} )?"
        rf"\(?(?P<name>[a-z][\w-]*\d[\w-]*|{_NOUN}[- #]?{_NUMBER})\b",
        re.IGNORECASE,
    ),
    # GitHub's page and its exports, mail, Discourse
    "post": regex(
        r"(?:(?P<who>@?[\w.-]{2,40}) (?:\u00b7 (?:comment|description|review|reply)\b|commented\b"
        r"|wrote:|said:|replied\b)|\d+ Likes?$)"
    ),
    "sent": regex(
        r"(?:sudo )?(?:ssh (?:-[FIiJLlop] \S+ |-\S+ )*(?P<ssh>[\w.@-]+) \S"
        r"|(?:kubectl|oc) (?:.* )?(?:exec|(?P<logs>logs)|rsh|debug) (?P<in_pod>.*)"
        r"|talosctl (?:.* )?(?:-n|--nodes)[ =](?P<talos>[\w.:-]+))"
    ),
    # a row of `kubectl get pods -o wide`: name, ready, status, restarts, age, address, node
    "pod": regex(
        r"\s{0,8}(?P<pod>[a-z][\w.-]{1,80})\s+\d{1,3}/\d{1,3}\s+[A-Z][\w:]{1,40}\s+\d[^|]{0,40}?\s"
        r"(?:[\da-f.:]{3,45}|<none>)\s+(?P<node>[a-z][\w.-]{1,80})(?:\s|$)"
    ),
}
_NOT_MACHINES = {
    "step", "layer", "part", "case", "test", "issue", "option", "attempt", "try", "cuda", "nccl",
    "ubuntu", "rhel", "rocky", "debian", "kernel", "driver", "h100", "h200", "a100", "b200", "b300",
    "gb10", "gb200", "gb300", "gh200", "rtx", "v100", "l40", "l40s", "l4", "t4", "ofed", "mlx5",
    "python", "version", "r5", "phase", "q", "a", "note", "fig", "figure", "table", "section", "chapter",
    "update", "edit", "mofed", "doca", "rocm", "ib", "ipv4", "ipv6", "fp8", "fp16", "x86",
}  # fmt: skip
"""Words that are rarely part of a machine name, even with a number after them."""
DRIVER_PODS = ("nvidia-driver-daemonset", "nvidia-gpu-driver")
"""How names of the GPU Operator's pods begin that load the driver: gpu-operator, state-driver."""

QUOTED_POST = "a quoted post"
"""The author of the outputs that a post quotes: it may be another one than who quotes them."""

MOST_WORDS, MOST_CHARACTERS = 6, 200
"""Size of a heading without Markdown at most."""
WITHOUT_LEVEL = 7
"""The level of a heading without Markdown; those of Markdown are 1 to 6."""


class Attribution:
    """The machine and the author of the current line, derived from the lines before it.

    A heading applies until the next one of the same or a higher level. A prompt or a log prefix names a
    machine for certain; a heading such as "second node" shows that there are two. An author does
    not name a machine; machines.py decides which authors share one.
    """

    def __init__(self) -> None:
        self.machine = ""  # the current machine; "" if it has no name
        self.author = ""  # the current author; "" before the first post with a name
        self.authors: dict[str, dict[str, str]] = {"": {}}  # the machines that each author names, and how
        self._scope = self._level = WITHOUT_LEVEL
        self._driver_pod = ""
        self._entered = self._outside = ""  # the machine of a shell that a command opened; the one before

    def name_of(self, author: str, prose: bool) -> str:
        """The machine of an author's unattributed lines: the only one that prompts and NCCL lines name.

        A syslog may be from another machine, unless the text has no prose."""
        named = self.authors[author]
        if "heading" in named.values() or not (prose or len(self.authors) == 1):
            return ""
        candidates = _certain(named, prose)
        return candidates[0] if len(candidates) == 1 else ""

    def home(self, prose: bool) -> str:
        """The only machine that all authors together name; "" if they name none, or several."""
        if any("heading" in named.values() for named in self.authors.values()):
            return ""
        candidates = {name for named in self.authors.values() for name in _certain(named, prose)}
        return candidates.pop() if len(candidates) == 1 else ""

    def of_quotation(self) -> Attribution:
        """The attribution of lines that the current author quotes."""
        found = Attribution()
        found.author, found.authors = QUOTED_POST, {QUOTED_POST: self.authors.get(QUOTED_POST, {})}
        return found

    def quotes(self, quotation: Attribution) -> None:
        """Count the author of a quotation that holds an output."""
        self.authors.setdefault(QUOTED_POST, quotation.authors[QUOTED_POST])

    def prompt(self, host: str, command: str) -> None:
        """Set the machine from a prompt, and from its command if that opens or leaves a shell elsewhere."""
        if _BARE_SHELL.fullmatch(host):
            self.machine = self._entered or self.machine
        elif host:
            self._name(_short(host), "prompt", self._level)
        if command in LEAVES and self.machine == self._entered:
            self.machine = self._outside
        elif name := self._opens_shell(command):
            if self.machine != self._entered:
                self._outside = self.machine
            self._entered = name
            self._name(name, "prompt", self._level)

    def _opens_shell(self, command: str) -> str:
        """The node or pod in which `oc debug` or `kubectl exec` opens a shell; "" for another command."""
        _, _, there = command.partition(" -- ")
        if there.rpartition("/")[2] not in ("", *SHELLS):
            return ""
        found = _PATTERNS["sent"].match(command)
        return (self.sent_to(command) or "") if found and found["in_pod"] and not found["logs"] else ""

    def group(self, name: str) -> None:
        """Count a group of machines that a header names: lines that name none are of another one."""
        self.authors[self.author].setdefault(name, "heading")

    def of_line(self, text: str, wrapped_by: str = "") -> str:
        """The machine that a log line or its wrapper names in its prefix; "" if it names none."""
        if wrapped_by:
            self.authors[self.author].setdefault(_short(wrapped_by), "log")
            return _short(wrapped_by)
        if self._driver_pod and text.lstrip().startswith(self._driver_pod):
            self._runs_on(text)
        if ": " not in text and "NCCL" not in text:
            return ""
        how, found = "log", _PATTERNS["syslog"].match(text.lstrip())
        if found is None and "NCCL " in text:
            how, found = "nccl", _PATTERNS["nccl"].match(text)
        if found is None:
            return ""
        name = _short(found["host"])
        self.authors[self.author].setdefault(name, how)
        return name

    def heading(self, text: str) -> bool:
        """Whether a line is a heading or starts a post; if so, set the machine or the author."""
        post = _PATTERNS["post"].match(text.strip())
        if post is not None:
            who = post["who"] or f"post {len(self.authors) + 1}"
            self.author, self.machine = who.lstrip("@"), ""
            self._scope = self._level = WITHOUT_LEVEL
            self.authors.setdefault(self.author, {})
            return True
        markdown = _PATTERNS["markdown"].match(text)
        if markdown is not None:
            self._level = len(markdown["marks"])
            if self._level <= self._scope:
                self.machine = ""
            name = _machine(markdown["text"])
            if name:
                self._name(name, "heading", self._level)
            return True
        words = text.split()
        if len(words) > MOST_WORDS or sum(map(len, words)) > MOST_CHARACTERS:
            return False
        plain = " ".join(words)
        title = _PATTERNS["underlined"].match(plain) or _PATTERNS["title"].match(plain)
        if title is None:
            return False
        name = _machine(title["text"]) if text.rstrip(" *").endswith(":") or len(text.split()) < 4 else ""
        if name:
            self._name(name, "heading", self._level)
        return bool(name)

    def introduced(self, text: str) -> None:
        """Set the machine from a sentence with a colon at its end, if it names one."""
        if not text.rstrip("* ").endswith(":"):
            return
        found = _PATTERNS["introduced"].search(text)
        if found is not None and not _is_no_machine(found["name"]):
            self._name(found["name"].lower(), "heading", self._level)

    def sent_to(self, command: str) -> str | None:
        """The machine or pod that a command reaches by ssh, kubectl, srun or the like; "" if it is another
        one that the command does not name, None if the command runs locally, or in the first pod with the
        driver: it loads modules into the kernel whose log is pasted with it."""
        if not command or not any(word in command for word in _SENDERS):
            return None
        found = _PATTERNS["sent"].match(command)
        if found is None:
            return self._elsewhere(machine_elsewhere(command))
        name = found["ssh"] or _pod(found["in_pod"] or "") or found["talos"] or ""
        if name.startswith(DRIVER_PODS):
            self._driver_pod = self._driver_pod or name
            if name == self._driver_pod and not self.machine:
                return None
        return self._elsewhere(_short(name.rpartition("@")[2]))

    def _elsewhere(self, name: str | None) -> str | None:
        """Count a machine without a name that is not the one of the prompt."""
        if name == "" and self.machine:
            self.authors[self.author].setdefault("", "heading")
        return name

    def _runs_on(self, text: str) -> None:
        """Name the node of the pod with the driver, by its row in a table of kubectl."""
        found = _PATTERNS["pod"].match(text)
        if found is not None and found["pod"] == self._driver_pod:
            self.authors[self.author][_short(found["node"])] = "pod"

    def _name(self, name: str, how: str, scope: int) -> None:
        self.authors[self.author].setdefault(name, how)
        self.machine, self._scope = name, scope


SHELLS, LEAVES = ("sh", "bash", "ash", "dash", "zsh"), ("exit", "logout")
_BARE_SHELL = regex(r"(?:ba|a|da|k|z)?sh-\d[\d.]*")
"""The prompt of a shell without a profile, as `oc debug` has it: PS1='\\s-\\v\\$ ', bash(1)."""
_SENDERS = ("ssh ", "kubectl", "oc ", "talosctl", *ELSEWHERE)
WITH_VALUE = (
    "-n", "-c", "-l", "--namespace", "--container", "--selector", "--context", "--tail", "--since",
    "--image",
)  # fmt: skip
"""Options of kubectl, before a pod's name, whose value is the next word."""


def _pod(arguments: str) -> str:
    """The pod that the arguments of `kubectl exec` or `kubectl logs` name, by its own name or by that of
    what it is of, such as a Job: job/NAME; "" if none is named."""
    words = iter(arguments.split())
    for word in words:
        if word in ("--", "|"):
            break
        if word in WITH_VALUE:
            next(words, "")
        elif not word.startswith("-"):
            return word.rpartition("/")[2]
    return ""


def _certain(named: dict[str, str], prose: bool) -> list[str]:
    """The machines that an author names by more than the prefix of a log, which may be about another one."""
    return [name for name, how in named.items() if how != "log" or not prose]


def _machine(title: str) -> str:
    """The machine that a heading names; "" if it names none."""
    name = _PATTERNS["name"].fullmatch(title.strip(" *:"))
    if name is not None and not _is_no_machine(name["name"]):
        return name["name"]
    found = _PATTERNS["machine"].search(title)
    return found[0].lower() if found else ""


def _is_no_machine(name: str) -> bool:
    word = name.lower()
    return word in _NOT_MACHINES or word.rstrip("0123456789.-_") in _NOT_MACHINES


def _short(host: str) -> str:
    """A host name without its domain; an IP address unchanged."""
    return host if host.replace(".", "").isdigit() else host.partition(".")[0]
