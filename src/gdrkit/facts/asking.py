"""Commands that find out what is missing, in the words of the node's platform."""

from __future__ import annotations

from gdrkit.evidence.quoting import quoted
from gdrkit.facts.kubernetes import is_talos
from gdrkit.formats.regex import regex
from gdrkit.node import Node, if_missing

_TALOS = (
    (regex(r"(?:sudo )?cat (/\S+)"), r"talosctl -n NODE read \1"),
    (regex(r"(?:sudo )?ls(?: -\w+)? (/\S+)"), r"talosctl -n NODE list -l \1"),
    (regex(r"(?:sudo )?dmesg\b(.*)"), r"talosctl -n NODE dmesg\1"),
)
"""Commands of a shell, and what does the same on a machine without one.
Source: siderolabs/talos cmd/talosctl/cmd/talos, read.go, list.go (alias ls; -l) and dmesg.go."""

_ANYWHERE = ("kubectl ", "talosctl ")
IN_A_POD = "kubectl debug node/NODE -it --profile=sysadmin --image=IMAGE -- "
"""Runs a command in a privileged container of the node; source: kubectl debug --help, --profile."""
_HOST_FILE = regex(r"(?<![\w/.-])/(?=(?:boot|etc|lib|opt|run|usr|var)/)")
"""A file of the node, which the container has below /host; its /proc and /sys are those of the node."""


def as_asked(node: Node, command: str) -> str:
    """The command, or what does the same on Talos, where nothing has a shell to run it in: in a pod of the
    node, whose image has to have the programs, if talosctl has no such command."""
    if not command or command.startswith(_ANYWHERE) or not if_missing(False, is_talos, node):
        return command
    for pattern, replaced in _TALOS:
        if pattern.fullmatch(command):
            return pattern.sub(replaced, command)
    return f"{IN_A_POD}sh -c {quoted(_HOST_FILE.sub('/host/', command))}"
