"""Facts that a pasted text shows, and contradictions in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from gdrkit.catalogue import rule_of
from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.explain.explanation import TOPOLOGY, Cause, Contradiction, KnownFact
from gdrkit.explain.first_steps import FLAVOUR
from gdrkit.explain.lines.blocks import blocks
from gdrkit.explain.outputs.absent_modules import absent_modules
from gdrkit.explain.outputs.asked_outputs import exclusions
from gdrkit.explain.outputs.device_files import device_file_facts
from gdrkit.explain.outputs.gpus import gpu_label
from gdrkit.explain.outputs.link_flaps import flap_facts
from gdrkit.explain.outputs.measured import CONTIGUOUS, RULED_OUT, measured
from gdrkit.explain.outputs.pcie_links import idle_link_facts
from gdrkit.explain.outputs.text_host import TextHost, proofs_of, quote
from gdrkit.explain.outputs.topologies import is_as_built, lists_nics, topology_row
from gdrkit.explain.outputs.ucx_outputs import ucx_tables
from gdrkit.facts.cable_halves import AS_BUILT
from gdrkit.facts.contiguous_memory import contiguous_memory
from gdrkit.facts.driver import driver_flavour, driver_version
from gdrkit.facts.gpu import product_name
from gdrkit.facts.kernel import lockdown, release
from gdrkit.facts.modinfo_text import modinfo, printed_module
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.facts.secure_boot import secure_boot, signatures_enforced
from gdrkit.formats.module_name import canonical
from gdrkit.node import Fact, Node, if_missing
from gdrkit.programs import proofs
from gdrkit.programs.nccl import releases as nccl_releases
from gdrkit.programs.nccl.log import nccl_logs
from gdrkit.programs.nccl.log_records import NO_INDEX, NetDevice, Version
from gdrkit.rules.deciding_command import fill

FACTS: tuple[tuple[str, Callable[[Node], str]], ...] = (
    ("kernel", lambda node: release(node)),
    ("driver", lambda node: driver_version(node)),
    (FLAVOUR, lambda node: driver_flavour(node)),
    ("Secure Boot", lambda node: "on" if secure_boot(node) else "off"),
    ("signatures enforced", lambda node: "yes" if signatures_enforced(node) else "no"),
    ("lockdown", lambda node: lockdown(node)),
    ("nvidia_peermem", lambda node: "loaded" if is_loaded(node, PEERMEM) else "not loaded"),
    ("nvidia-peermem needs", lambda node: _needs(node)),
    (CONTIGUOUS, lambda node: _contiguous(node)),
)


_NCCL_XML = ('<system version="', "<pci busid=")
"""How lines of a topology begin: NCCL src/graph/xml.cc."""
MAX_GPUS = 8
"""GPUs that are listed by name: no machine has more, so more of them come from several machines."""


def known(node: Node, host: TextHost) -> tuple[KnownFact, ...]:
    """The facts that the text shows about a machine."""
    found = [fact for name, ask in FACTS if (fact := _known(node, host, name, ask)) is not None]
    for gpu in if_missing((), gpus, node)[:MAX_GPUS]:
        fact = _known(node, host, gpu_label(gpu.address), _name_of(gpu))
        if fact is not None:
            found.append(fact)
    return (
        *found,
        *_of_logs(node, host),
        *_of_topologies(host),
        *measured(host.own_lines),
        *device_file_facts(host.own_lines),
        *flap_facts(host.own_lines),
        *idle_link_facts(host.own_lines),
        *_of_programs(host),
        *_of_ucx(host),
        *_ruled_out(host),
    )


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


def _contiguous(node: Node) -> str:
    found = contiguous_memory(node)
    if found is None:
        raise EvidenceAbsent(Missing("CmaTotal", MissingReason.ABSENT, "grep Cma /proc/meminfo"))
    return f"{found.free} kB free of {found.total} kB for large allocations (CMA)"


def _of_topologies(host: TextHost) -> Iterable[KnownFact]:
    """That `gdr topo` reads the matrix in a text, or the topology that NCCL wrote."""
    xml = next((line for line in host.own_lines if line.text.startswith(_NCCL_XML)), None)
    if xml is not None:
        told = "`gdr topo FILE` reads this topology of NCCL, and says what each GPU can do"
        yield KnownFact(TOPOLOGY, told, xml.number, xml.text.strip())
    row = topology_row(host.own_lines)
    if row is not None:
        told = "`gdr topo` reads this matrix, and shows the nearest NIC of each GPU"
        if not lists_nics(host.own_lines):
            told = "this matrix has no NIC"
        elif is_as_built(host.own_lines):
            told = AS_BUILT
        yield KnownFact(TOPOLOGY, told, row.number, row.text.strip())


def _of_programs(host: TextHost) -> Iterable[KnownFact]:
    """What programs print about their use of GPU memory, each once."""
    found: dict[tuple[str, str], KnownFact] = {}
    for line in host.own_lines:
        match = proofs.matcher().match(line.text)
        if match is not None and match.message.make is not None:
            program, shown = match.message.program, str(match.message.make(match))
            found.setdefault((program, shown), KnownFact(program, shown, line.number, match.words))
    return found.values()


def _of_ucx(host: TextHost) -> Iterable[KnownFact]:
    """What the tables of UCX_PROTO_INFO show of GPU memory that goes to other nodes."""
    found = ucx_tables(host.own_lines)
    if found is not None and found.worst is not None:
        text = f"{found.worst.description}, {found.worst.config}"
        claim = f"{proofs.BY_TABLES}: {found.claim}" if found.direct else found.claim
        yield KnownFact("ucx", claim, found.worst.line, text)


def _ruled_out(host: TextHost) -> Iterable[KnownFact]:
    """The causes that outputs exclude."""
    for one in exclusions(host.own_lines):
        yield KnownFact(RULED_OUT, ", ".join(one.codes), one.line.number, one.line.text.strip())


def _of_logs(node: Node, host: TextHost) -> Iterable[KnownFact]:
    """The version of NCCL that a log names."""
    for log in nccl_logs(node):
        for found in log.all(Version)[:1]:
            name, version = found.record.library, found.record.text
            yield KnownFact(name, version, node.line_of(log.path, found.line), f"{name} version {version}")


# -- contradictions ------------------------------------------------------------------------------------


def contradictions(node: Node, host: TextHost) -> tuple[Contradiction, ...]:
    """Files and commands with different contents, and programs that disagree."""
    return (*_loaded_in_vain(host), *_answered_twice(host), *_nccl_and_lsmod(node, host))


def _loaded_in_vain(host: TextHost) -> Iterable[Contradiction]:
    """A module that modprobe loaded without an error, and that a later lsmod does not list."""
    shown = blocks(host.own_lines)
    for module, numbers in absent_modules(shown).items():
        for block in shown:
            if block.number < numbers[0] and not block.lines and _loads(block.argv) == module:
                yield Contradiction(
                    f"modprobe {module} reports no error, and lsmod does not list the module: an `install`"
                    " line (or, for modprobe -b, a blacklist) in modprobe's configuration made modprobe do"
                    " nothing, or one of the two ran on another host or in a container",
                    quote(host, (block.number, numbers[0])),
                )
                break


def _loads(argv: tuple[str, ...]) -> str:
    """The module that a command loads; "" for another command, such as `modprobe -r`."""
    program, *arguments = argv or ("",)
    if program != "modprobe" or any(re.match(r"-[rnRDcq]|--(?!verbose|use)", word) for word in arguments):
        return ""
    return canonical(next((word for word in arguments if not word.startswith("-")), ""))


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
        disabled = [
            found
            for found in devices
            if found.record.network == "IB" and not found.record.enabled and found.record.index != NO_INDEX
        ]
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
