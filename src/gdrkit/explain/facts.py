"""Facts that a pasted text shows, and contradictions in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gdrkit.catalogue import rule_of
from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.explain.explanation import Cause, Contradiction, KnownFact
from gdrkit.explain.gpus import gpu_label
from gdrkit.explain.readings import topology_row
from gdrkit.explain.text_host import TextHost, proofs_of, quote
from gdrkit.facts.driver import driver_flavour, driver_version
from gdrkit.facts.gpu import product_name
from gdrkit.facts.kernel import lockdown, release
from gdrkit.facts.modinfo_text import modinfo, printed_module
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.facts.secure_boot import secure_boot, signatures_enforced
from gdrkit.node import Fact, Node, if_missing
from gdrkit.programs import proofs
from gdrkit.programs.nccl import releases as nccl_releases
from gdrkit.programs.nccl.log import nccl_logs
from gdrkit.programs.nccl.log_records import Carrier, Leg, NetDevice, Version
from gdrkit.rules.deciding_command import fill

FACTS: tuple[tuple[str, Callable[[Node], str]], ...] = (
    ("kernel", lambda node: release(node)),
    ("driver", lambda node: driver_version(node)),
    ("kernel module", lambda node: driver_flavour(node)),
    ("Secure Boot", lambda node: "on" if secure_boot(node) else "off"),
    ("signatures enforced", lambda node: "yes" if signatures_enforced(node) else "no"),
    ("lockdown", lambda node: lockdown(node)),
    ("nvidia_peermem", lambda node: "loaded" if is_loaded(node, PEERMEM) else "not loaded"),
    ("nvidia-peermem needs", lambda node: _needs(node)),
)


def known(node: Node, host: TextHost) -> tuple[KnownFact, ...]:
    """The facts that the text shows about a machine."""
    found = [fact for name, ask in FACTS if (fact := _known(node, host, name, ask)) is not None]
    for gpu in if_missing((), gpus, node)[:MAX_GPUS]:
        fact = _known(node, host, gpu_label(gpu.address), _name_of(gpu))
        if fact is not None:
            found.append(fact)
    return (*found, *_of_logs(node), *_of_topologies(host), *_of_programs(host))


MAX_GPUS = 8
"""GPUs that are listed by name: no machine has more, so more of them come from several machines."""


def _name_of(gpu: PciGpu) -> Callable[[Node], str]:
    return lambda node: product_name(node, gpu)


def _known(node: Node, host: TextHost, name: str, ask: Callable[[Node], str]) -> KnownFact | None:
    question = Fact(ask)
    value = if_missing(None, question, node)
    if value is None:
        return None
    proofs = proofs_of(node.trail(question).sources, host)
    return (
        KnownFact(name, value, proofs[0].line, proofs[0].text)
        if proofs
        else KnownFact(name, value, None, "")
    )


def _needs(node: Node) -> str:
    printed = printed_module(node, PEERMEM)
    depends = printed.depends
    if depends is None:
        raise EvidenceMissing(
            Missing("depends of nvidia-peermem", MissingReason.NOT_COLLECTED, "modinfo nvidia-peermem")
        )
    node.mark(modinfo(PEERMEM).line, printed.lines["depends"])
    return ", ".join(depends) or "nothing"


def _of_topologies(host: TextHost) -> Iterable[KnownFact]:
    """That `gdr topo` reads the matrix in a text."""
    row = topology_row(host.own_lines)
    if row is not None:
        told = "`gdr topo` reads this matrix, and shows the nearest NIC of each GPU"
        yield KnownFact("topology", told, row.number, row.text.strip())


def _of_programs(host: TextHost) -> Iterable[KnownFact]:
    """What programs print about their use of GPU memory, each once."""
    found: dict[tuple[str, str], KnownFact] = {}
    for line in host.own_lines:
        match = proofs.matcher().match(line.text)
        if match is not None and match.message.make is not None:
            program, shown = match.message.program, str(match.message.make(match))
            found.setdefault((program, shown), KnownFact(program, shown, line.number, match.words))
    return found.values()


def _of_logs(node: Node) -> Iterable[KnownFact]:
    """What the lines of NCCL prove: its version, and how many legs accessed GPU memory directly."""
    for log in nccl_logs(node):
        for found in log.all(Version)[:1]:
            version = found.record.text
            yield KnownFact("NCCL", version, node.line_of(log.path, found.line), f"NCCL version {version}")
        if legs := log.legs:
            direct = [leg for leg in legs if leg.record.via.carried is Carrier.DIRECT]
            leg = (direct or legs)[0]
            words = "GDRDMA" if direct else "TCP" if leg.record.via.gdr else "no GDRDMA"
            text = f"{len(direct)} of {len(legs)} network legs access GPU memory directly"
            yield KnownFact("NCCL channels", text, node.line_of(log.path, leg.line), words)
        elif between := [leg for leg in log.all(Leg) if leg.record.via.carried is Carrier.NVLINK]:
            number = "1 leg" if len(between) == 1 else f"{len(between)} legs"
            text = f"{number} over NVLink between hosts (MNNVL), none over a NIC"
            yield KnownFact("NCCL channels", text, node.line_of(log.path, between[0].line), "MNNVL")


# -- contradictions ------------------------------------------------------------------------------------


def contradictions(node: Node, host: TextHost) -> tuple[Contradiction, ...]:
    """Files and commands with different contents, and programs that disagree."""
    return (*_answered_twice(host), *_nccl_and_lsmod(node, host))


def _answered_twice(host: TextHost) -> Iterable[Contradiction]:
    for source, numbers in host.contradicted():
        yield Contradiction(
            f"{source} has different contents, from two machines or two times; neither is used",
            quote(host, numbers)[:4],
        )


def _nccl_and_lsmod(node: Node, host: TextHost) -> Iterable[Contradiction]:
    """nvidia_peermem is loaded, but NCCL reports GPU Direct RDMA as disabled."""
    if not is_loaded_for_sure(node, PEERMEM):
        return
    loaded = host.origin(f"sys/module/{PEERMEM}")
    for log in nccl_logs(node):
        devices = log.all(NetDevice)
        disabled = [found for found in devices if found.record.network == "IB" and not found.record.enabled]
        if not disabled:
            continue
        line = node.line_of(log.path, disabled[0].line)
        yield Contradiction(
            f"nvidia_peermem is loaded, but NCCL reports Disabled. {_nccl_check(log.version)}",
            quote(host, (*(loaded.lines[:1] if loaded else ()), line)),
        )


def _nccl_check(version: str) -> str:
    """Which files an NCCL version checks, and what its `Disabled` therefore means."""
    blind = (
        "check /sys/module/nvidia_peermem, only /sys/kernel/mm/memory_peers, which newer kernels do not"
        " have: its Disabled does not show what the kernel can do"
    )
    since = nccl_releases.first_release_with("sees_module")
    if not version:
        return (
            f"NCCL before {since} does not {blind}. NCCL {since} and newer do. The log does not show the"
            " version; set NCCL_DEBUG=VERSION to see it"
        )
    if not nccl_releases.release(version).sees_module:
        return f"NCCL {version} does not {blind}. NCCL {since} and newer do"
    return (
        f"NCCL {version} does check /sys/module/nvidia_peermem: the module was loaded later, or the job ran"
        " on another machine or in a container whose /sys does not show it"
    )


def cause_of(code: str, module: str) -> Cause:
    """A cause, with the first command that would show it for this module."""
    command = next(iter(rule_of(code).reported_by), None)
    if command is None:
        return Cause(code, "", "")
    return Cause(code, fill(command.command, module), fill(command.shows, module))
