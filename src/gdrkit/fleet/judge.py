"""From the evidence of one node to its row: small, so that it can travel between processes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gdrkit.diagnosis import job_paths, node_of, report_on
from gdrkit.evidence import EvidenceMissing, Host
from gdrkit.evidence.errors import TargetError
from gdrkit.facts import networks
from gdrkit.facts.expectation import Supplied
from gdrkit.facts.expected_devices import counted_nics
from gdrkit.facts.gpu import is_integrated
from gdrkit.facts.pci import gpus
from gdrkit.facts.pci_path import raw_gbit_per_s
from gdrkit.facts.pci_registers import link
from gdrkit.facts.rdma import RdmaPort, nic_address, phys_port_name, ports, roce_v2_gid
from gdrkit.facts.soldered_link import full_link
from gdrkit.fleet.document import SILENT, WELL, CabledPort, NodeRow, NodeSetting, Standing
from gdrkit.fleet.hostlist import NAME_LIMIT, is_own_name, is_same_name, means_one_node
from gdrkit.fleet.launcher import KUBERNETES, is_target_of
from gdrkit.fleet.port_traits import interface
from gdrkit.fleet.traits import traits_of
from gdrkit.formats.regex import regex
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, if_missing
from gdrkit.repair.config.nccl_env import settings
from gdrkit.repair.config.request import ConfigRequest
from gdrkit.report.answers import in_words
from gdrkit.report.boot_words import boot_sentence, lost_at_boot, repair_before_boot
from gdrkit.report.causes import deciding, failed_all_the_same, missing_of
from gdrkit.report.document import Report
from gdrkit.report.here import ends_in_reboot
from gdrkit.report.pages import advice
from gdrkit.rules.expectation import COMPARISONS
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict.findings import Finding
from gdrkit.verdict.path_state import GOOD, State

# The ports of a machine that is cabled to another one as it is, such as a DGX Spark, and its settings.

PORTS_LIMIT = 16
"""Such machines have four; what claims to have many more is compared by its traits alone."""


def port_rows(node: Node) -> tuple[CabledPort, ...]:
    """The ports of a machine with an integrated GPU; () for any other, or if they are not known."""
    if not _is_small(node):
        return ()
    found = if_missing((), _ports, node)
    return tuple(_row(node, port) for port in found[:PORTS_LIMIT])


def _ports(node: Node) -> tuple[RdmaPort, ...]:
    return tuple(port for nic in counted_nics(node) for port in ports(node, nic.name))


def settings_of(node: Node) -> tuple[NodeSetting, ...]:
    """What `gdr config nccl-env` says about such a machine."""
    if not _is_small(node):
        return ()
    try:
        found = settings(ConfigRequest(node=node))
    except (EvidenceMissing, TargetError):
        return ()
    return tuple(NodeSetting(name=one.name, value=one.value, why=one.why) for one in found)


def _is_small(node: Node) -> bool:
    return any(if_missing(False, is_integrated, node, gpu) for gpu in if_missing((), gpus, node))


def _row(node: Node, port: RdmaPort) -> CabledPort:
    net = if_missing("", interface, node, port)
    card = if_missing(None, networks.card, node, net)
    address = if_missing("", nic_address, node, port.device)
    speed = if_missing(None, link, node, address) if address else None
    gid = if_missing(None, roce_v2_gid, node, port.device, port.number)
    return CabledPort(
        device=port.device,
        interface=net,
        name=if_missing("", phys_port_name, node, port.device, port.number),
        state=port.state,
        rate_gbit_per_s=port.rate_gbit_per_s,
        link=f"{speed.current_gt_per_s:g} GT/s x{speed.current_width}" if speed else "",
        link_gbit_per_s=raw_gbit_per_s(speed.current_gt_per_s, speed.current_width) if speed else None,
        full_link=if_missing("", full_link, node, address) if address else "",
        bus=address.rpartition(".")[0],
        mtu=if_missing(None, lambda: whole_number(node.text(f"sys/class/net/{net}/mtu").strip())),
        gid=gid[0] if gid else None,
        mac=card.mac if card else "",
        addresses=tuple(map(str, networks.interface_addresses(card))) if card else None,
        neighbours=None
        if networks.addresses_replaced(node)
        else if_missing(None, networks.neighbours, node, net),
    )


STANDINGS = {
    State.BLOCKED: Standing.BLOCKED,
    State.UNKNOWN: Standing.UNKNOWN,
    State.IMPOSSIBLE: Standing.IMPOSSIBLE,
    State.READY: Standing.READY,
    State.ACTIVE: Standing.READY,
}
_COMPARISONS = frozenset(rule.code for rule in COMPARISONS)
REASON_LIMIT = 200


def judged(host: Host, target: str, name: str = "", expected: Supplied | None = None) -> NodeRow:
    """The row of the node that a host shows. Without a name, it is called as it calls itself."""
    node = node_of(host, expected)
    return row_of(node, report_on(node, brief=True), target, name)


def row_of(node: Node, report: Report, target: str, name: str = "") -> NodeRow:
    """The row of a node that was judged already."""
    standing = _standing(report)
    causes = _causes(report, standing)
    steps = report.plan[0].steps if report.plan and standing is Standing.BLOCKED else ()
    by_hand = standing is Standing.BLOCKED and not steps
    remedies, reboot = _by_hand(node, report, causes) if by_hand else ((), False)
    after = lost_at_boot(report) if standing is Standing.NEXT_BOOT else None
    return NodeRow(
        name=name or called(report.node.hostname, target),
        target=target,
        standing=standing,
        causes=causes,
        rails=_rails(report),
        summary=boot_sentence(report, after) if after else report.verdict.summary,
        remedies=after.remedies if after else tuple(step.remedy for step in steps) or remedies,
        needs_reboot=any(step.needs_reboot for step in steps) or reboot,
        by_hand=by_hand,
        to_find_out=tuple(dict.fromkeys(finding.expected for finding in _undecided(report))),
        advice=repair_before_boot(after) if after else _advice(report, causes),
        traits=traits_of(node, report),
        ports=port_rows(node),
        settings=settings_of(node),
        calls_itself=_calls_itself(node, report, target, name) if name else "",
        jobs=job_paths(node),
    )


def _by_hand(node: Node, report: Report, causes: tuple[str, ...]) -> tuple[tuple[RemedyName, ...], bool]:
    """The remedies of the first cause, which no plan cures, and whether what is to be done ends in a
    reboot."""
    found = next((f for f in report.findings if f.code in causes[:1] and f.status == "failed"), None)
    if found is None:
        return (), False
    remedies = tuple(map(RemedyName, found.remedies))
    return remedies, ends_in_reboot(node, found.advice or advice(found.code), remedies)


def _advice(report: Report, causes: tuple[str, ...]) -> str:
    """What the finding about the first cause says to do on this node."""
    return next((f.advice for f in report.findings if f.code in causes[:1] and f.advice), "")


def without_answer(target: str, name: str, error: BaseException | str, standing: Standing) -> NodeRow:
    """The row of a node that could not be judged, with the reason and, where the error has one, its hint."""
    reason = in_a_line(error if isinstance(error, str) else reason_of(error))
    advice = in_a_line(error.hint) if isinstance(error, TargetError) else ""
    name = name or called("", target)
    cause = cause_of(reason, {target, basename(target), name})
    return NodeRow(
        name=name, target=target, standing=standing, causes=(cause,), summary=reason, advice=advice
    )


def in_a_line(reason: str) -> str:
    """A reason as one line of bounded length, for any input from a node."""
    words = reason[: 2 * REASON_LIMIT]
    if not words.isprintable():
        words = "".join(c if c.isprintable() else " " for c in words)
    return " ".join(words.split())[:REASON_LIMIT]


_TIME_LEFT = regex(r"(?<=^timed out: no bundle )within [\d.]{1,8}(?:e\+\d{1,3})? s\b")
"""What collect() says of its time."""


_MARKED = regex(
    r"(?<![\w.\0-\x1f-])(?:(?P<hostname>hostname )|host )?(?P<name>[\0-\x1f])(?P<port> port(?= \d))?"
    r"(?![\w\0-\x1f-])"
)
"""A node's own name, for which a control character stands, which no reason has: a pattern with the names
would be compiled for each node, a tenth of a millisecond that 100,000 nodes do not have."""


_ALONE = regex(r": it(?=: |$)")
"""What is left of a name to which a reason only points, as in `not a bundle or sosreport: NAME`."""


def cause_of(reason: str, own: Iterable[str]) -> str:
    """A reason without a node's own names and its share of the deadline, so that it is equal for nodes that
    fail alike: who is asked last has the least time left.

    A name of letters only may also be a word of the reason, as in "empty is empty": only its first
    occurrence is the node, besides those in ssh's "host NAME port 22" and "hostname NAME".
    """
    names = sorted((name for name in own if name and name in reason), key=len, reverse=True)
    seen: set[str] = set()

    def replaced(match: re.Match[str]) -> str:
        if match["port"]:
            return "its port"
        if match["hostname"]:
            return "its hostname"
        word = names[ord(match["name"])]
        if word in seen and word.isalpha():
            return match[0]
        seen.add(word)
        return "it"

    words = _TIME_LEFT.sub("in time", reason)
    if not names:
        return words
    for mark, name in enumerate(names):
        words = words.replace(name, chr(mark))
    words = _MARKED.sub(replaced, words)
    for mark, name in enumerate(names):
        words = words.replace(chr(mark), name)
    return _ALONE.sub("", words).removeprefix("it: ")


def reason_of(error: BaseException) -> str:
    """An error in words: those of ours as they are, any other with its type."""
    if isinstance(error, TargetError):
        return str(error)
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    if isinstance(error, MemoryError):
        return "judging it takes too much memory"
    return f"internal error: {type(error).__name__}: {error}"


def _calls_itself(node: Node, report: Report, target: str, asked: str) -> str:
    """The node's own name if it differs from the one it was addressed by; "" also if it is not known.

    In a Pod, the kernel's name is the Pod's; that of the node is in its file."""
    by_kernel = "" if target.startswith(f"{KUBERNETES}://") else report.node.hostname
    own = in_a_line(by_kernel or if_missing("", node.text, "etc/hostname"))
    return "" if not own or is_same_name(asked, own) else own


def called(hostname: str, target: str) -> str:
    """A name for a node that a hostlist can hold: its host name if that means this node alone, else the name
    of its file or folder."""
    if is_own_name(hostname.strip()):
        return hostname.strip()
    name = basename(target)
    return name if means_one_node(name) else made_up(target)


def made_up(target: str) -> str:
    """A name for a node that has no usable one."""
    letters = (letter if letter.isascii() and letter.isalnum() else "_" for letter in basename(target))
    return ("node_" + "".join(letters))[:NAME_LIMIT]


_FILES = regex(r"\.(?:t?[gx]z|bz2|zst|tar|log)(?:-\d+)?\Z", re.ASCII)
"""The end of the name of a bundle, a sosreport or a bug report, and of several of one name."""


def is_of_a_file(row: NodeRow) -> bool:
    """Whether the name of a row is that of its evidence, and no node is known by it: it has none that is
    usable, or the evidence cannot be read."""
    if is_target_of(row.target, row.name):
        return False
    return row.standing in SILENT or row.name == made_up(row.target) or bool(_FILES.search(row.name))


def is_of_shared_name(row: NodeRow) -> bool:
    """Whether a row of evidence is called as its file because others have its host name too."""
    return bool(row.calls_itself) and not is_target_of(row.target, row.name)


def answers_by_another_name(row: NodeRow) -> bool:
    """Whether a node that was asked calls itself otherwise."""
    return bool(row.calls_itself) and is_target_of(row.target, row.name)


def basename(target: str) -> str:
    """The last part of a path or of ssh://[user@]host."""
    return target.rstrip("/").rpartition("/")[2]


def _standing(report: Report) -> Standing:
    standing = STANDINGS[report.verdict.state]
    differs = report.expectation is not None and report.expectation.met == "no"
    if differs and standing is Standing.IMPOSSIBLE:
        return Standing.WARNINGS
    if report.expectation is not None and report.expectation.met == "unknown" and standing in WELL:
        return Standing.UNKNOWN
    if standing is Standing.READY and lost_at_boot(report) is not None:
        return Standing.NEXT_BOOT
    if standing is Standing.READY and any(f.status == "warning" for f in report.findings):
        return Standing.WARNINGS
    return standing


def _causes(report: Report, standing: Standing) -> tuple[str, ...]:
    """What a group of nodes shares: codes; for missing evidence the sources and why, behind what fails
    whatever the evidence shows."""
    if standing is Standing.UNKNOWN:
        known = failed_all_the_same(report)
        missing = {f"{finding.code}: {in_words(missing_of(finding)[1])}" for finding in _undecided(report)}
        return (*((known.code,) if known else ()), *sorted(missing))
    after = lost_at_boot(report)
    if standing is Standing.NEXT_BOOT and after is not None:
        return (after.cause,) if after.cause else ()
    if standing is Standing.WARNINGS:
        return tuple(dict.fromkeys(f.code for f in report.findings if f.status == "warning"))
    first = (report.verdict.cause,) if report.verdict.cause else ()
    worst = (code for gpu in report.gpus if gpu.state == report.verdict.state for code in gpu.blocked_by)
    return tuple(dict.fromkeys((*first, *sorted(worst)))) if standing is not Standing.READY else ()


def _undecided(report: Report) -> list[Finding]:
    """The findings whose evidence is missing and matters: for the verdict, else for the expectation."""
    compared = [f for f in report.findings if f.status == "unknown" and f.code in _COMPARISONS]
    return deciding(report) or (compared if report.expectation is not None else [])


def _rails(report: Report) -> tuple[int, ...]:
    """The GPUs that do not reach their NIC, by their order; () if it is all of them, or none."""
    counted = [number for number, gpu in enumerate(report.gpus) if gpu.counts]
    bad = [number for number in counted if report.gpus[number].state not in GOOD]
    return tuple(bad) if len(bad) < len(counted) else ()
