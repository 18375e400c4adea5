"""Which possible causes are still open, and which the text excludes for certain: of a line, and at all."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.catalogue import rule_of
from gdrkit.evidence import Confidence
from gdrkit.explain.chains import LEFT_ALONE
from gdrkit.explain.explanation import QuotedLine, RuledOut
from gdrkit.explain.failing import reports
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.log_events import LogEvent, is_of_nccl, listed_nics, selects_listed_nic
from gdrkit.explain.outputs.asked_outputs import excluded
from gdrkit.explain.outputs.module_symbols import STUB, is_shown_to_register
from gdrkit.explain.outputs.readings import port_states
from gdrkit.explain.outputs.text_host import TextHost, proofs_of
from gdrkit.explain.outputs.used_gpus import is_judged
from gdrkit.facts import kernel_log
from gdrkit.facts.driver import driver_version
from gdrkit.facts.linkage import gpl_compatible
from gdrkit.facts.loader_log import silent
from gdrkit.facts.modinfo_text import printed_module
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.formats.regex import regex
from gdrkit.formats.versions import numbers
from gdrkit.messages.errors import EFAULT
from gdrkit.messages.verbs_failures import causes_of
from gdrkit.node import Node, if_missing
from gdrkit.programs.nccl.messages import MODULE_UNSEEN
from gdrkit.programs.nvshmem.messages import SEES_NO_MODULE, UNSEEN_BY_NVSHMEM
from gdrkit.programs.verbs.perftest_log import perftest_run, runs
from gdrkit.rules.engine import judge
from gdrkit.rules.rule import Layer, NotApplicable, Passed, Rule
from gdrkit.rules.topology_refused import FIRST_WITH_CHECK
from gdrkit.verdict.check_results import check_results, trail_of


def open_causes(node: Node, event: LogEvent, module: str) -> tuple[tuple[str, ...], tuple[RuledOut, ...]]:
    """The causes of a line that are still open, and those that the text excludes, each with the reason.

    If the text excludes all of them, a part of it was printed at another time: then none is excluded."""
    excluded = {code: why for code in event.codes if (why := _why_not(node, event, code, module))}
    open_codes = tuple(code for code in event.codes if code not in excluded)
    if not open_codes:
        return event.codes, ()
    return open_codes, tuple(RuledOut(code, why) for code, why in excluded.items())


def decides(node: Node, event: LogEvent) -> bool:
    """Whether a line with a single possible cause proves that cause on this machine."""
    if event.message != "map-enotsupp":
        return event.decides
    # -524 from the mapping means the topology only in drivers that check the topology
    return numbers(if_missing("", driver_version, node)) >= FIRST_WITH_CHECK


def _why_not(node: Node, event: LogEvent, code: str, module: str) -> str:
    """Why a cause is excluded; "" if it is not. Only an answer of confidence `certain` excludes."""
    if event.message in ("hca-disabled", SEES_NO_MODULE):
        unseen = UNSEEN_BY_NVSHMEM if event.message == SEES_NO_MODULE else MODULE_UNSEEN
        if code in unseen or not is_loaded_for_sure(node, PEERMEM):
            return ""
        return "nvidia_peermem is loaded, and one of the two direct paths is enough"
    if not module or is_loaded_for_sure(node, module):  # the failure is from another time
        return ""
    return (
        _by_modinfo(node, code, module)
        or _by_silence(node, event, code, module)
        or _by_rule(node, code, module)
    )


def _by_modinfo(node: Node, code: str, module: str) -> str:
    printed = if_missing(None, printed_module, node, module)
    if printed is None:
        return ""
    license = printed.fields.get("license", "")
    if code == "module-unsigned" and printed.signed:
        return f"modinfo shows a signature, by {printed.fields.get('signer') or 'an unnamed key'}"
    if code == "module-symbol-gpl-only" and gpl_compatible(license):
        return f"its licence is {license}"
    return ""


def _by_silence(node: Node, event: LogEvent, code: str, module: str) -> str:
    """The reason, if a complete kernel log that ends after the attempt lacks the message of this cause."""
    if not rule_of(code).logged or not event.from_loader:
        return ""
    log = if_missing(None, kernel_log.lines, node)
    if log is None or node.line_of(log.source, log.lines[-1].number) <= event.line.number:
        return ""
    if not if_missing(False, silent, node, module):
        return ""
    return "the kernel log is complete and has no such message"


def _by_rule(node: Node, code: str, module: str) -> str:
    rule = rule_of(code)
    if rule.loading is None:
        return ""
    outcome = judge(node, rule, module)
    if not isinstance(outcome, Passed | NotApplicable):
        return ""
    return outcome.why if node.trail(judge, rule, module).confidence is Confidence.CERTAIN else ""


# -- excluded by the text as a whole -------------------------------------------------------------------


def only_of_log(proofs: tuple[QuotedLine, ...]) -> bool:
    """Whether there is no proof but lines of NCCL, about which the analysis of the log decides."""
    return all(is_of_nccl(proof.text) for proof in proofs)


def cleared(
    node: Node, host: TextHost, rules: Iterable[Rule], all_events: Iterable[LogEvent]
) -> tuple[str, ...]:
    """Codes of the problems that lines of the text exclude for certain, for every subject."""
    results = tuple(check_results(node, rules, is_judged(node, host.own_lines)))
    kept = {result.rule.code for result in results if not isinstance(result.outcome, Passed)}
    found: dict[str, None] = {}
    for result in results:
        if isinstance(result.outcome, Passed) and result.rule.code not in kept:
            trail = trail_of(node, result)
            proofs = proofs_of(trail.sources, host)
            if trail.confidence is Confidence.CERTAIN and not only_of_log(proofs):
                found[result.rule.code] = None
    if selects_listed_nic(host.own_lines):
        found["hca-not-selected"] = None
    if listed_nics(host.own_lines):
        found["no-rdma-device"] = None
    if (ports := tuple(port_states(host.own_lines))) and all(port.state == "active" for port in ports):
        found["port-down"] = None
    if any("NVRM: Xid (" in line.text for line in host.own_lines if line.kind == "machine"):
        found.update(dict.fromkeys(LEFT_ALONE))  # the driver has that GPU
    if is_shown_to_register(host.own_lines):
        found[STUB] = None
    found.update(dict.fromkeys(code for code in excluded(host.own_lines) if _holds_for_job(code, host)))
    if _registered_gpu_memory(node):
        found.update(dict.fromkeys(causes_of("ibv_reg_mr", EFAULT)))
    # a rule judges the devices that outputs name in full: another line may show what it does not find there
    shown = {code for event in all_events if event.is_reading and reports(event) for code in event.codes}
    return tuple(code for code in found if code not in shown)


_ALIKE = (Layer.KERNEL, Layer.DRIVER, Layer.RDMA, Layer.LIBRARY)
"""What all ranks of a host share that use one of its NICs: not the GPU, the distance, or the environment."""
_BY_NIC = regex(
    r"NET/IB : GPU Direct RDMA (?P<on>\(DMABUF\) enabled|Disabled) for HCA \d{1,3} '(?P<nic>[\w.-]{1,60})'"
)


def shared_by_ranks(lines: Iterable[TextLine], codes: Iterable[str]) -> tuple[str, ...]:
    """Of the possible causes of a machine's lines, those that ranks share of which one uses dma-buf at each
    NIC at which another one does not. NCCL says that of a NIC that registered a dma-buf of this driver: its
    src/transport/net_ib.cc, ncclIbDmaBufSupport(), and src/init.cc, dmaBufSupported()."""
    nics: dict[bool, set[str]] = {True: set(), False: set()}
    for line in lines:
        if line.kind == "machine" and (found := _BY_NIC.search(line.text)):
            nics[found["on"] != "Disabled"].add(found["nic"])
    if not nics[False] or not nics[False] <= nics[True]:
        return ()
    return tuple(code for code in codes if rule_of(code).layer in _ALIKE)


_LAUNCHED = regex(r"\b(?:mpirun|mpiexec|srun|prterun|kubectl|docker|podman|ray)\b")


def _holds_for_job(code: str, host: TextHost) -> bool:
    """Whether what a shell excludes is excluded for the job: one that a launcher starts has other limits."""
    return code != "memlock-limit" or not any(
        line.kind == "typed" and _LAUNCHED.search(line.text) for line in host.own_lines
    )


def _registered_gpu_memory(node: Node) -> bool:
    """Whether a run of perftest that worked registered GPU memory by its address."""
    found = (if_missing(None, perftest_run, node, path) for path in if_missing((), runs, node))
    return any(
        run.uses_gpu and run.bandwidth_shown and not run.uses_dmabuf and not run.integrated_gpu
        for run in found
        if run is not None
    )
