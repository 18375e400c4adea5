"""Lines as container runtimes store them, after a time, a stream and a tag; in a box; and as one of several.

Source: Kubernetes pkg/kubelet/kuberuntime/logs (`time stream P|F text`, CRI).
"""

from __future__ import annotations

CRI = r"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF]) ?"
"""The beginning of a line; P: the runtime split a long line, and the rest follows."""


_BAR = "(?:\u2502|\u2503|\u2551)"
BOX_START, BOX_END = rf"^[ \t]*+{_BAR} ?", rf"(?<![ \t])[ \t]*+{_BAR}[ \t\r]*+$"
"""The sides of the box that k9s and other terminal programs draw around a log; a tree has only one."""


REPEATED = (
    r"(?m)(?: \[repeated (?P<times>\d{1,9})x across cluster\](?: \(Ray deduplicates logs by default\..*)?"
    r"|\bmessage repeated \d{1,9} times: \[ ?(?P<line>.*)\])[ \t\r]*$"
)
"""What is added to the last of several lines that are alike. Ray drops the others, of which any word with a
digit may differ: GDRDMA and the NIC too. Those of rsyslog are equal. Sources: Ray
python/ray/_private/ray_logging, _canonicalise_log_line() and formatted(); rsyslog runtime/msg.c,
MsgGetMSG() of $RepeatedMsgReduction."""
