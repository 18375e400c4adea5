"""Files that count when a machine starts: modules-load.d, modprobe.d, and ACS by systemd or udev."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.machine import distribution
from gdrkit.facts.pci_registers import acs
from gdrkit.facts.rdma import below_common_bridge, hardware_pairs, nic_address
from gdrkit.node import Node
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused, OutputLine, annotated
from gdrkit.repair.config.request import (
    ConfigRequest,
    ask,
    asked_for,
    blockers_of,
    choose,
    failed,
    permanent,
    state_of,
    verdict,
)
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.fabric import REDIRECTS, set_acs
from gdrkit.rules.data_direct_missing import data_direct_functions
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict.path_state import State

LOADS_IT = frozenset((RemedyName.LOAD_PEERMEM, RemedyName.PERSIST_PEERMEM))
"""What the file itself does."""


# -- modules-load.d ----------------------------------------------------------------------------------


def modules_load(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """nvidia-peermem at each boot. dma-buf needs no module by name."""
    choice = choose(request) if request.node is not None or request.path else None
    if choice is not None and choice.path == "dmabuf":
        if never_peermem(request, "peermem") and state_of_dmabuf(request) is State.IMPOSSIBLE:
            return impossible("modules-load", request)
        return ConfigRefused(
            kind="modules-load",
            why="dma-buf needs no module by name: the GPU's and the NIC's drivers load for their devices",
            instead="--path peermem writes the file for nvidia-peermem",
        )
    notes: tuple[str, ...] = ()
    if never_peermem(request, "peermem"):
        return impossible("modules-load", request)
    if request.node is not None:
        blockers = blockers_of(request.node, "peermem")
        codes = [rule.code for rule in blockers if LOADS_IT.isdisjoint(rule.remedies)]
        if codes:
            notes = (f"it cannot load here yet: {', '.join(codes)}; see gdr doctor and gdr fix",)
    assumed = () if choice is not None else ("the peermem path is wanted; dma-buf needs no such file",)
    return ConfigOutput(
        kind="modules-load",
        form="file",
        title="nvidia-peermem at each boot: modules-load.d(5)",
        file=file_contents.MODULES_LOAD,
        use=f"install as {file_contents.MODULES_LOAD}; systemd-modules-load reads it at boot",
        lines=annotated(
            file_contents.modules_load(file_contents.PEERMEM_MODULE),
            {file_contents.PEERMEM_MODULE: WHY_PEERMEM},
        ),
        assumed=assumed,
        notes=(*notes, *_beside_ofed(request)),
    )


WHY_PEERMEM = "nothing else loads it; modprobe loads nvidia and ib_core before it, so they need no line"


def _beside_ofed(request: ConfigRequest) -> tuple[str, ...]:
    if ask(request, lambda node: node.exists("etc/init.d/openibd")):
        return ("openibd restart takes it out and does not bring it back; gdr fix adds a unit for that",)
    return ()


def never_peermem(request: ConfigRequest, path: str) -> bool:
    """Whether peermem is wanted on a node where nothing makes it work."""
    if path != "peermem" or request.node is None:
        return False
    return state_of(request.node, path) is State.IMPOSSIBLE


def impossible(kind: str, request: ConfigRequest) -> ConfigRefused:
    """That nothing makes nvidia-peermem work on the node."""
    codes = permanent(request.node, "peermem") if request.node else ""
    return ConfigRefused(kind=kind, why=f"nvidia-peermem is impossible on this node: {codes}")


def state_of_dmabuf(request: ConfigRequest) -> State:
    """What dma-buf is good for on the node; unknown without one."""
    return State.UNKNOWN if request.node is None else state_of(request.node, "dmabuf")


# -- modprobe.d --------------------------------------------------------------------------------------

REASONS = {
    (
        "nvidia",
        "NVreg_EnableResizableBar",
    ): "the driver enlarges BAR1 as far as the firmware lets it",
    ("nvidia", "NVreg_GrdmaPciTopoCheckOverride"): (
        "the driver maps for a NIC whatever lies between; NVIDIA distrusts this chipset, data is at risk"
    ),
    ("nvidia", "NVreg_EnablePCIERelaxedOrderingMode"): "PCIe may reorder the GPU's writes",
    ("nvidia", "NVreg_DmaRemapPeerMmio"): "peers' BARs are mapped through the IOMMU (the default, 1)",
    ("nvidia", "NVreg_CoherentGPUMemoryMode"): "driver keeps the GPU's memory out of the kernel's (CDMM)",
    ("nvidia-peermem", "persistent_api_support"): (
        "0 registers nv_mem_nc beside nv_mem, for MIG instances that refuse persistent mappings"
    ),
    ("nvidia-peermem", "peerdirect_support"): "1 is the API of OFED 4.9 and 5.0 alone; else 0, the default",
}
"""Parameters that GPUDirect RDMA knows. Source: open-gpu-kernel-modules kernel-open/nvidia/nv-reg.h,
kernel-open/nvidia-peermem/nvidia-peermem.c."""

_BY_REMEDY = {
    RemedyName.ENLARGE_BAR1: ("nvidia", "NVreg_EnableResizableBar", "1"),
    RemedyName.OVERRIDE_TOPOLOGY_CHECK: ("nvidia", "NVreg_GrdmaPciTopoCheckOverride", "1"),
}


def parameters(request: ConfigRequest) -> tuple[tuple[str, str, str], ...]:
    """The parameters that were wished, and those that a finding on the node asks for."""
    found = dict.fromkeys(request.parameters)
    if request.node is not None:
        for remedy, parameter in _BY_REMEDY.items():
            if asked_for(request.node, remedy):
                found[parameter] = None
    return tuple(found)


def modprobe(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """Module parameters, and nv_peer_mem kept out where peermem is wanted."""
    chosen = parameters(request)
    by_module: dict[str, dict[str, str]] = {}
    for module, name, value in chosen:
        by_module.setdefault(module, {})[name] = value
    lines: list[OutputLine] = []
    for module, values in by_module.items():
        for name, value in values.items():
            why = REASONS.get((module, name), "wished for on the command line")
            lines += annotated(file_contents.modprobe_options(module, {name: value}), {"options": why})
    if request.node is not None and failed(request.node, "legacy-nv-peer-mem"):
        why = "it registers under the name that nvidia-peermem wants; gdr fix removes its package"
        lines.append(OutputLine("blacklist nv_peer_mem", why))
    if not lines:
        return ConfigRefused(
            kind="modprobe",
            why="no parameter needs setting: the driver's defaults are right for both paths",
            instead="--parameter nvidia:NVreg_EnableResizableBar=1 sets one; --explain --list names those "
            "that matter",
        )
    return ConfigOutput(
        kind="modprobe",
        form="file",
        title="parameters of NVIDIA's modules: modprobe.d(5)",
        file="/etc/modprobe.d/gdrkit.conf",
        use="install as /etc/modprobe.d/gdrkit.conf; it counts when the module loads next, so reboot; "
        "refresh the initramfs where it holds the driver",
        lines=tuple(lines),
    )


# -- ACS at boot -------------------------------------------------------------------------------------


def redirecting(node: Node) -> dict[str, str]:
    """The bridges below a switch that GPU and NIC share, that send their traffic to the CPU, and for whom.

    Only those: ports above the common switch keep their isolation. Raises EvidenceMissing where registers
    that need root were not read."""
    found: dict[str, str] = {}
    for pair in hardware_pairs(node):
        shared, to_gpu, to_nic = below_common_bridge(node, pair.gpu, nic_address(node, pair.device))
        for bridge in (*to_gpu, *to_nic) if shared else ():
            capability = acs(node, bridge)
            if capability is not None and capability.control & REDIRECTS:
                found.setdefault(bridge, f"between GPU {pair.gpu} and {pair.device}")
    return found


def _bridges(kind: str, request: ConfigRequest) -> dict[str, str] | ConfigRefused:
    if request.node is None:
        return ConfigRefused(
            kind=kind,
            why="ACS is changed on exact bridges, which only the node's evidence names",
            instead="give a TARGET whose PCI registers were read by root: sudo gdr collect",
        )
    if ask(request, data_direct_functions):
        return ConfigRefused(
            kind=kind,
            why="Data Direct needs certain ACS bits on",
            instead="sudo rdma_topo check; sudo rdma_topo write-grub-acs",
        )
    try:
        found = redirecting(request.node)
    except EvidenceMissing as lacks:
        missing = lacks.missing
        return ConfigRefused(
            kind=kind, why=f"{missing.source} is not known ({missing.why})", instead=missing.ask
        )
    if not hardware_pairs(request.node):
        return ConfigRefused(kind=kind, why="there is no GPU with an RDMA device beside it")
    return found or ConfigRefused(kind=kind, why="no bridge between a GPU and a NIC redirects their traffic")


RISK = "devices below these bridges are no longer kept apart: not on a host that gives them to guests"
THE_BITS = "each line clears Request Redirect, Completion Redirect and Upstream Forwarding, and no other bit"
MOVES = "the addresses are this machine's: they may change when a card is added or moved"
ACS_REASONS = {
    "Description=": "what systemctl shows",
    "DefaultDependencies=no": "it must not wait for the services that it has to precede",
    "After=": "the bridges must have been found",
    "Before=": "nothing may use the GPUs before",
    "Type=oneshot": "the commands end by themselves",
    "RemainAfterExit=yes": "so that systemctl status tells that they ran",
    "WantedBy=": "at every boot: the register does not outlast one",
}


def setpci(request: ConfigRequest) -> str:
    """Where setpci lies: pciutils is in /usr/bin on Debian's family, in /usr/sbin on the others."""
    found = ask(request, distribution)
    return "/usr/sbin/setpci" if found is not None and not {"debian", "ubuntu"} & found.family else (
        "/usr/bin/setpci"
    )  # fmt: skip


def acs_systemd(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """A unit that clears ACS redirection at boot."""
    bridges = _bridges("systemd", request)
    if isinstance(bridges, ConfigRefused):
        return bridges
    commands = {f"ExecStart={setpci(request)} -s {bridge} ": between for bridge, between in bridges.items()}
    return ConfigOutput(
        kind="systemd",
        form="unit",
        title="ACS redirection off between GPUs and NICs, at each boot",
        file=file_contents.ACS_UNIT,
        use=f"install as {file_contents.ACS_UNIT}; systemctl daemon-reload; "
        "systemctl enable --now gdrkit-acs",
        lines=annotated(acs_unit_text(request, tuple(bridges)), {**ACS_REASONS, **commands}),
        notes=(RISK, MOVES, THE_BITS),
    )


def acs_unit_text(request: ConfigRequest, bridges: tuple[str, ...]) -> str:
    """The unit's text, which other kinds carry too."""
    return file_contents.acs_unit(tuple((setpci(request), *set_acs(bridge, 0)[1:]) for bridge in bridges))


def acs_udev(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """A rule of udev's that clears ACS redirection whenever a bridge appears."""
    bridges = _bridges("udev", request)
    if isinstance(bridges, ConfigRefused):
        return bridges
    program = setpci(request)
    lines = tuple(
        OutputLine(
            f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{bridge}", '
            f'RUN+="{program} -s %k {set_acs(bridge, 0)[-1]}"',
            f"{between}, at boot and whenever the bridge appears anew",
        )
        for bridge, between in bridges.items()
    )
    names = " ".join(f"--sysname-match={bridge}" for bridge in bridges)
    return ConfigOutput(
        kind="udev",
        form="rules",
        title="ACS redirection off between GPUs and NICs: udev(7)",
        file="/etc/udev/rules.d/90-gdrkit-acs.rules",
        use="install as /etc/udev/rules.d/90-gdrkit-acs.rules; udevadm control --reload; "
        f"udevadm trigger --action=add {names}",
        lines=lines,
        notes=(RISK, MOVES, THE_BITS),
    )


def needs_passthrough(request: ConfigRequest) -> bool | None:
    """Whether the IOMMU translates for a GPU; None where nobody can tell."""
    if request.node is None:
        return None
    verdict(request.node)
    return bool(failed(request.node, "iommu-translating"))
