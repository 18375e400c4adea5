"""Files that are read at boot: modules-load.d, modprobe.d, and ACS by systemd or udev."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.acs_layout import layout_needs, wrong_ports
from gdrkit.facts.acs_redirects import bridges_between, redirect_control
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.rdma import hardware_pairs
from gdrkit.facts.running_files import OPENIBD
from gdrkit.node import Node, if_missing
from gdrkit.repair.config.output import TARGET, ConfigOutput, ConfigRefused, OutputLine, annotated
from gdrkit.repair.config.request import (
    ConfigRequest,
    ask,
    blockers_of,
    choose,
    failed_subjects,
    is_remedy_needed,
    permanent_blockers,
    state_of,
)
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.driver_options import arguments
from gdrkit.repair.platforms.families import setpci
from gdrkit.repair.remedies import every_remedy
from gdrkit.repair.remedies.clear_acs_redirect import acs_unit, set_acs
from gdrkit.rules.data_direct_missing import data_direct_functions
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict.path_state import State

LOADS_IT = frozenset((RemedyName.LOAD_PEERMEM, RemedyName.PERSIST_PEERMEM))
"""What a file in modules-load.d does by itself."""


# -- modules-load.d ----------------------------------------------------------------------------------


WHY_PEERMEM = "nothing else loads it; modprobe also loads nvidia and ib_core, so they need no entry"


def modules_load(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """A file for modules-load.d that loads nvidia-peermem. Refused for dma-buf, which does not need it."""
    choice = choose(request) if request.node is not None or request.path else None
    if choice is not None and choice.path == "dmabuf":
        if never_peermem(request, "peermem") and state_of_dmabuf(request) is State.IMPOSSIBLE:
            return impossible("modules-load", request)
        return ConfigRefused(
            kind="modules-load",
            why="dma-buf needs no entry: the drivers of GPU and NIC load automatically for their devices",
            instead="--path peermem writes the file for nvidia-peermem",
        )
    notes: tuple[str, ...] = ()
    if never_peermem(request, "peermem"):
        return impossible("modules-load", request)
    if request.node is not None:
        blockers = blockers_of(request.node, "peermem")
        codes = [rule.code for rule in blockers if LOADS_IT.isdisjoint(rule.remedies)]
        if codes:
            notes = (
                f"nvidia-peermem cannot load on this node yet: {', '.join(codes)}; see gdr doctor, gdr fix",
            )
    assumed = () if choice is not None else ("you want the peermem path; dma-buf does not need this file",)
    return ConfigOutput(
        kind="modules-load",
        form="file",
        title="load nvidia-peermem at boot: modules-load.d(5)",
        file=file_contents.MODULES_LOAD,
        use=f"install as {file_contents.MODULES_LOAD}; systemd-modules-load reads it at boot",
        lines=annotated(
            file_contents.modules_load(file_contents.PEERMEM_MODULE),
            {file_contents.PEERMEM_MODULE: WHY_PEERMEM},
        ),
        assumed=assumed,
        notes=(*notes, *_ofed_notes(request)),
    )


def _ofed_notes(request: ConfigRequest) -> tuple[str, ...]:
    if ask(request, lambda node: node.exists(OPENIBD)):
        return ("openibd restart unloads it and does not load it again; gdr fix adds a unit that does",)
    return ()


def never_peermem(request: ConfigRequest, path: str) -> bool:
    """Whether `path` is peermem, and it is impossible on the node."""
    if path != "peermem" or request.node is None:
        return False
    return state_of(request.node, path) is State.IMPOSSIBLE


def impossible(kind: str, request: ConfigRequest) -> ConfigRefused:
    """The refusal for a node where nvidia-peermem is impossible."""
    codes = permanent_blockers(request.node, "peermem") if request.node else ""
    return ConfigRefused(kind=kind, why=f"nvidia-peermem is impossible on this node: {codes}")


def state_of_dmabuf(request: ConfigRequest) -> State:
    """The state of dma-buf on the node; unknown without a node."""
    return State.UNKNOWN if request.node is None else state_of(request.node, "dmabuf")


# -- modprobe.d --------------------------------------------------------------------------------------

REASONS = {
    (
        "nvidia",
        "NVreg_EnableResizableBar",
    ): "the driver enlarges BAR1 as far as the firmware allows",
    ("nvidia", "NVreg_GrdmaPciTopoCheckOverride"): (
        "the driver maps GPU memory for a NIC on any topology; NVIDIA does not trust this chipset with it: "
        "risk of data corruption; drivers from 595.91.07 on ignore it"
    ),
    ("nvidia", "NVreg_RegistryDwords"): (
        "keys of the resource manager; PeerMappingOverride=1 lets any user's GPUs ring a NIC's doorbell"
    ),
    ("nvidia", "NVreg_EnableStreamMemOPs"): "NVSHMEM's guide asks for it beside PeerMappingOverride",
    ("nvidia", "NVreg_CreateImexChannel0"): (
        "1 makes IMEX channel 0 at load, with which jobs use NVLink between hosts; every user may open it"
    ),
    ("nvidia", "NVreg_EnablePCIERelaxedOrderingMode"): "PCIe may reorder the GPU's writes",
    ("nvidia", "NVreg_DmaRemapPeerMmio"): "peers' BARs are mapped through the IOMMU (the default, 1)",
    ("nvidia", "NVreg_CoherentGPUMemoryMode"): "the driver, not the kernel, manages the GPU's memory (CDMM)",
    ("nvidia-peermem", "persistent_api_support"): (
        "0 also registers nv_mem_nc beside nv_mem, for MIG instances that reject persistent mappings"
    ),
    (
        "nvidia-peermem",
        "peerdirect_support",
    ): "1 only for the API of OFED 4.9 and 5.0; otherwise 0, the default",
}
"""What each parameter that affects GPUDirect RDMA does. Source: open-gpu-kernel-modules
kernel-open/nvidia/nv-reg.h, kernel-open/nvidia-peermem/nvidia-peermem.c."""

_RESIZABLE = ("nvidia", "NVreg_EnableResizableBar", "1")
"""What the driver can do for a small BAR1; the remedy is in the firmware's setup."""


def module_parameters(request: ConfigRequest) -> tuple[tuple[str, str, str], ...]:
    """The requested parameters, and those that fix a finding on the node: module, parameter, value."""
    found = dict.fromkeys(request.parameters)
    if (node := request.node) is not None:
        if is_remedy_needed(node, RemedyName.ENLARGE_BAR1):
            found[_RESIZABLE] = None
        for remedy in every_remedy():
            options = remedy.driver_options
            if options is not None and is_remedy_needed(node, remedy.name, request.consumer):
                given = if_missing({}, arguments, node, options)
                found.update({(DRIVER, name, value): None for name, value in given.items()})
    return tuple(found)


def modprobe(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """A file for modprobe.d with module parameters, and a blacklist line for nv_peer_mem if it conflicts."""
    chosen = module_parameters(request)
    by_module: dict[str, dict[str, str]] = {}
    for module, name, value in chosen:
        by_module.setdefault(module, {})[name] = value
    lines: list[OutputLine] = []
    for module, values in by_module.items():
        for name, value in values.items():
            why = REASONS.get((module, name), "requested with --parameter")
            lines += annotated(file_contents.modprobe_options(module, {name: value}), {"options": why})
    if request.node is not None and failed_subjects(request.node, "legacy-nv-peer-mem"):
        why = "it registers under the name that nvidia-peermem needs; gdr fix removes its package"
        lines.append(OutputLine("blacklist nv_peer_mem", why))
    if not lines:
        return ConfigRefused(
            kind="modprobe",
            why="no parameter needs to be set: the driver's defaults work for both paths",
            instead="set one with --parameter nvidia:NVreg_EnableResizableBar=1; list relevant ones with "
            "--list --explain",
        )
    return ConfigOutput(
        kind="modprobe",
        form="file",
        title="parameters of NVIDIA's modules: modprobe.d(5)",
        file="/etc/modprobe.d/zz-gdrkit.conf",
        use="install as /etc/modprobe.d/zz-gdrkit.conf; rebuild the initramfs if it contains the driver; "
        "reboot, since parameters take effect when a module loads",
        lines=tuple(lines),
    )


# -- ACS at boot -------------------------------------------------------------------------------------


def pairs_redirected(node: Node) -> dict[str, str]:
    """Bridges that redirect the traffic between a GPU and a NIC, by address; the value names the two.

    Raises EvidenceMissing if registers that need root were not read."""
    return {
        bridge: f"between GPU {pair.gpu} and {pair.device}"
        for bridge, pair in bridges_between(node).items()
        if redirect_control(node, bridge)
    }


_OTHERS = {"systemd": "; for metrics, --form export-service and --form export-timer"}
"""Forms of the same kind that need no node."""


def _bridges(kind: str, request: ConfigRequest) -> dict[str, str] | ConfigRefused:
    if request.node is None:
        return ConfigRefused(
            kind=kind,
            why="the bridges to change depend on the node",
            instead=f"name a node that was collected by root: sudo gdr collect{_OTHERS.get(kind, '')}",
        )
    if (refused := _of_layout(kind, request)) is not None:
        return refused
    try:
        found = pairs_redirected(request.node)
    except EvidenceMissing as error:
        missing = error.missing
        return ConfigRefused(
            kind=kind, why=f"{missing.source} is not known ({missing.why})", instead=missing.ask
        )
    if not hardware_pairs(request.node):
        return ConfigRefused(kind=kind, why="no GPU-NIC pairs on this node")
    return found or ConfigRefused(kind=kind, why="no bridge between a GPU and a NIC redirects their traffic")


def _of_layout(kind: str, request: ConfigRequest) -> ConfigRefused | None:
    """Why a layout that needs certain bits gets no file: setpci comes after the boot, which alone decides
    the groups. None for an ordinary switch."""
    needs = ask(request, layout_needs)
    if needs is None:
        if not ask(request, data_direct_functions):
            return None
        why, instead = "Data Direct needs certain ACS bits set", "sudo rdma_topo check"
    elif (wrong := ask(request, wrong_ports)) is None:
        why = (
            f"this layout ({needs.layout}) needs certain ACS bits set, and those of its ports are not known"
        )
        instead = "sudo rdma_topo check"
    elif wrong:
        ports = ", ".join(port.address for port, _ in wrong)
        why = f"this layout ({needs.layout}) needs certain ACS bits set, from the boot on: {ports} differ"
        instead = f"gdr fix --steps {RemedyName.SET_ACS_BITS} {TARGET}"
    else:
        why, instead = f"the ports already have the ACS bits that this layout ({needs.layout}) needs", ""
    return ConfigRefused(kind=kind, why=why, instead=instead)


RISK = "devices below these bridges lose their isolation: do not use it on a host that passes them to guests"
THE_BITS = "each line clears only Request Redirect, Completion Redirect and Upstream Forwarding"
MOVES = "the addresses are valid for this machine; they may change when a card is added or moved"
ACS_REASONS = {
    "Description=": "shown by systemctl",
    "DefaultDependencies=no": "run early: do not wait for basic.target",
    "After=": "wait until the bridges are detected",
    "Before=": "finish before anything uses the GPUs",
    "Type=oneshot": "the commands run once and exit",
    "RemainAfterExit=yes": "systemctl status then shows that they ran",
    "WantedBy=": "run at every boot: a reboot resets the registers",
}


def acs_systemd(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """A unit that clears ACS redirection at boot."""
    bridges = _bridges("systemd", request)
    if isinstance(bridges, ConfigRefused):
        return bridges
    commands = {f"ExecStart={setpci(request.node)} -s {bridge} ": pair for bridge, pair in bridges.items()}
    return ConfigOutput(
        kind="systemd",
        form="acs",
        title="clear ACS redirection between GPUs and NICs at boot",
        file=file_contents.ACS_UNIT,
        use=f"install as {file_contents.ACS_UNIT}; systemctl daemon-reload; "
        "systemctl enable --now gdrkit-acs",
        lines=annotated(acs_unit(request.node, bridges), {**ACS_REASONS, **commands}),
        notes=(RISK, MOVES, THE_BITS),
    )


def acs_udev(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """A udev rule that clears ACS redirection whenever a bridge is added."""
    bridges = _bridges("udev", request)
    if isinstance(bridges, ConfigRefused):
        return bridges
    program = setpci(request.node)
    lines = tuple(
        OutputLine(
            f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{bridge}", '
            f'RUN+="{program} -s %k {set_acs(bridge, 0)[-1]}"',
            f"{pair}, at boot and whenever the bridge is added again",
        )
        for bridge, pair in bridges.items()
    )
    names = " ".join(f"--sysname-match={bridge}" for bridge in bridges)
    return ConfigOutput(
        kind="udev",
        form="rules",
        title="clear ACS redirection between GPUs and NICs: udev(7)",
        file="/etc/udev/rules.d/90-gdrkit-acs.rules",
        use="install as /etc/udev/rules.d/90-gdrkit-acs.rules; udevadm control --reload; "
        f"udevadm trigger --action=add {names}",
        lines=lines,
        notes=(RISK, MOVES, THE_BITS),
    )


def needs_passthrough(request: ConfigRequest) -> bool | None:
    """Whether the IOMMU translates for a NIC; None without a node."""
    if request.node is None:
        return None
    return bool(failed_subjects(request.node, "iommu-translating"))
