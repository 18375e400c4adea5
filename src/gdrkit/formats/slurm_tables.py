"""States of nodes and jobs as Slurm's commands print them: sinfo, sacct, scontrol show node and show job.

Sources: SchedMD/slurm src/sinfo/opts.c, the formats of -R, -N, -l and none; src/sacct/sacct.c; sacct(1),
ExitCode; src/api/node_info.c, slurm_sprint_node_table(); src/api/job_info.c, slurm_sprint_job_info().
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gdrkit.formats.regex import regex

_LIST = r"[\w.,\[\]-]{1,200}"
_STATE = r"[a-z_]{2,20}[*~#!%$@^+-]{0,2}"
ROW = (
    rf"(?P<why>\S.{{0,200}}?) ++[\w.()-]{{1,40}} ++(?:\d{{4}}-\d\d-\d\dT[\d:]{{8}}|Unknown) ++"
    rf"(?:{_STATE} ++)??(?P<nodes>{_LIST})$"
    rf"|(?P<node>[\w.-]{{1,80}}) ++\d{{1,6}} ++[\w.-]{{1,80}}\*? ++(?P<of_node>{_STATE})"
    r"(?: ++\d+ ++[\d:]{5,20}(?: ++\d+){3} ++\S+ ++(?P<reason>\S.{0,300}))?$"
    r"|[\w.-]{1,80}\*? ++(?:up|down|drain|inact) ++(?:[\d:-]{1,12}|infinite) ++\d{1,6} ++"
    rf"(?P<of_some>{_STATE}) ++(?P<some>{_LIST})$"
    r"|(?P<job>\d{1,10}(?:[_+]\d{1,10})?(?:\.\w{1,20})?)[ |].{0,300}?(?<![A-Z])"
    r"(?P<ended>(?:COMPLETED|FAILED|NODE_FAIL|OUT_OF_ME|TIMEOUT|CANCELLED|BOOT_FAIL|PREEMPTED|DEADLINE)\w*\+?)"
    r"(?: by \d{1,10})?[ |].{0,200}?(?<!\d)(?P<code>\d{1,3}):(?P<signal>\d{1,3})(?:[ |]|$)"
)
"""A row of sinfo -R, of sinfo -N, of sinfo, or of sacct."""
HEAD = (
    r"REASON +USER +TIMESTAMP |NODELIST +NODES +PARTITION +STATE\b|PARTITION +AVAIL +TIMELIMIT +NODES +STATE"
    r"|JobID(?:Raw)?[ |].{0,200}\bExitCode\b"
)
"""The titles of such a table."""
RECORD = r"NodeName=\S+ (?:Arch|CoresPerSocket)=|JobId=\d+ (?:ArrayJobId=\S+ .{0,80})?JobName="
"""How what scontrol shows of a node or a job begins."""
_PATTERNS = {
    "head": regex(rf"\s{{0,20}}(?:{HEAD})"),
    "row": regex(rf"\s{{0,20}}(?:{ROW})"),
    "record": regex(rf"\s{{0,20}}(?:{RECORD})"),
    "name": regex(rf"\bNodeName=(?P<node>{_LIST})"),
    "state": regex(r"\bState=(?P<state>[A-Z_]{2,20}[A-Z_+*~#!%$@^-]{0,80})"),
    "reason": regex(r"\bReason=(?P<reason>\S.{0,300}?)(?: \[[\w.-]{1,40}@[\dT:-]{10,25}\]|$)"),
    "job": regex(r"\bJobState=(?P<ended>[A-Z_]{2,20})"),
    "exit": regex(r"\bExitCode=(?P<code>\d{1,3}):(?P<signal>\d{1,3})"),
}


class NodeState(Struct, frozen=True):
    """The state of nodes, as a line shows it, and why Slurm gives them no jobs; "" if it does not say."""

    line: int
    nodes: str  # a list as Slurm writes it: gpu[017-018]
    state: str
    reason: str

    @property
    def works(self) -> bool:
        """Whether Slurm gives these nodes jobs."""
        state = self.state.lower()
        return not self.reason and state.startswith(WORKING) and not any(one in state for one in BARRED)


WORKING = ("idle", "mix", "alloc", "comp", "plnd", "planned", "resv", "reserved")
BARRED = ("drain", "drng", "fail", "down", "inval", "not_responding", "maint", "*")
"""Parts of states by which a node gets jobs, and by which it does not: sinfo(1), Node State Codes."""
NO_REASON = ("none", "(null)")


class JobEnd(Struct, frozen=True):
    """How a job, or a step of one, ended."""

    line: int
    state: str
    code: int
    signal: int


def slurm_states(lines: Iterable[tuple[int, str]]) -> Iterator[NodeState | JobEnd]:
    """The states that numbered lines of a text show, if it has the titles of a table, or a whole record."""
    shown = tuple(lines)
    if any(_PATTERNS["head"].match(text) for _, text in shown):
        for number, text in shown:
            yield from _of_row(number, text)
    if any(_PATTERNS["record"].match(text) for _, text in shown):
        yield from _of_records(shown)


def _of_row(number: int, text: str) -> Iterator[NodeState | JobEnd]:
    found = _PATTERNS["row"].match(text.rstrip())
    if found is None:
        return
    if found["job"]:
        yield JobEnd(number, found["ended"], int(found["code"]), int(found["signal"]))
    else:
        nodes = found["nodes"] or found["node"] or found["some"]
        reason = (found["why"] or found["reason"] or "").strip()
        state = found["of_node"] or found["of_some"] or "drain"
        yield NodeState(number, nodes, state, "" if reason in NO_REASON else reason)


def _of_records(lines: Iterable[tuple[int, str]]) -> Iterator[NodeState | JobEnd]:
    """What scontrol shows, in one line for each record, or in several."""
    node = ended = ""
    for number, text in lines:
        if found := _PATTERNS["name"].search(text):
            node = found["node"]
        if found := _PATTERNS["job"].search(text):
            node, ended = "", found["ended"]
        if ended and (found := _PATTERNS["exit"].search(text)):
            yield JobEnd(number, ended, int(found["code"]), int(found["signal"]))
        if node and (found := _PATTERNS["state"].search(text)):
            yield NodeState(number, node, found["state"], "")
        if node and (found := _PATTERNS["reason"].search(text)):
            yield NodeState(number, node, "DRAIN", found["reason"])
