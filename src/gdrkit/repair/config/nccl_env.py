"""NCCL's environment for a node: which variables to set, and which to leave to NCCL."""

from __future__ import annotations

from gdrkit.facts.cable_halves import CABLES, halves_down, interface_of
from gdrkit.facts.driver import driver_flavour
from gdrkit.facts.libraries import nccl_version
from gdrkit.facts.rdma import NEAR, RdmaPort, roce_v2_gid
from gdrkit.facts.virtual import virtual_machine
from gdrkit.programs.nccl.releases import first_release_with, release
from gdrkit.programs.nccl.settings import path_type
from gdrkit.programs.nccl.variables import COMPARED as VARIABLE_COMPARED
from gdrkit.programs.nccl.variables import COMPARISON, DIAGNOSTICS, ON_ALL_RANKS
from gdrkit.repair.config.env_forms import EnvSetting, env_lines
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused
from gdrkit.repair.config.rail_settings import rail_settings
from gdrkit.repair.config.request import (
    ConfigRequest,
    ask,
    blockers_of,
    choose,
    has_coherent_gpu,
    has_integrated_gpu,
    known_nearest,
    known_ports,
)
from gdrkit.repair.platforms import file_contents

FORMS = ("shell", "conf", "kubernetes", "slurm")


SET_INTERFACE = "`gdr config nccl-env --interface NAME` sets it"
SPARK_INTERFACE = "enP7s7"
"""The 10 GbE port of a DGX Spark. In NVIDIA/dgx-spark-playbooks at 0db7c14 bootstrap uses it where a network
joins all nodes (multi-sparks-through-switch, spark_cluster_setup.py), and between two Sparks the interface
of their cable (nccl)."""


def settings(request: ConfigRequest) -> tuple[EnvSetting, ...]:
    """Every variable that may depend on the topology, in the order of NCCL's guide."""
    path = choose(request).path
    ports = known_ports(request)
    near = _near(request, ports) if ports else ()
    found = [_interface(request, near), *_hcas(request, ports, near), *_gid_index(request, near)]
    found += [_queue_pairs(near), *rail_settings(request, near), _level(request)]
    if path == "peermem":
        found.append(_dmabuf(request))
    found += _diagnostics(request)
    return tuple(found)


def _diagnostics(request: ConfigRequest) -> tuple[EnvSetting, ...]:
    """What a job can be run with once, to examine it; never set for all jobs."""
    version = ask(request, nccl_version) or ""
    if version and not release(version).has_diagnostics:
        return ()
    which = "" if version else f"NCCL {first_release_with('has_diagnostics')} and newer: "
    return (
        EnvSetting(DIAGNOSTICS, "", f"{which}1 for one run tests NICs with ib_write_bw; {ON_ALL_RANKS}"),
        EnvSetting(COMPARISON, "", f"{which}1 for one run {VARIABLE_COMPARED}"),
    )


def _dmabuf(request: ConfigRequest) -> EnvSetting:
    """Turned off only if NCCL might use it: with the open kernel modules, or if their flavour is unknown."""
    name = "NCCL_DMABUF_ENABLE"
    if ask(request, driver_flavour) == "proprietary":
        return EnvSetting(name, "", "the proprietary driver has no dma-buf, so NCCL uses peermem")
    blockers = blockers_of(request.node, "dmabuf") if request.node is not None else ()
    detected = [rule.code for rule in blockers if not rule.at_registration]
    if detected and not request.path:
        return EnvSetting(name, "", f"NCCL detects that dma-buf is not available: {', '.join(detected)}")
    return EnvSetting(name, "0", "NCCL prefers dma-buf, and does not fall back to peermem if it fails")


def _interface(request: ConfigRequest, ports: tuple[RdmaPort, ...]) -> EnvSetting:
    name = "NCCL_SOCKET_IFNAME"
    if request.interface:
        return EnvSetting(
            name, f"={request.interface}", "used for bootstrap between ranks; = means exactly this name"
        )
    if has_integrated_gpu(request):
        cable = next((one[0] for one in CABLES if any(port.device in one for port in ports)), CABLES[0][0])
        why = (
            "bootstrap needs one interface over which all nodes reach each other: between two DGX Sparks "
            f"that of the cable, {interface_of(cable)}, or {SPARK_INTERFACE} if a network joins them; "
            f"{SET_INTERFACE}"
        )
        return EnvSetting(name, "", why)
    why = f"NCCL prefers ib*, then any interface but lo, docker* and virbr*; {SET_INTERFACE}"
    return EnvSetting(name, "", why)


def _hcas(
    request: ConfigRequest, ports: tuple[RdmaPort, ...], chosen: tuple[RdmaPort, ...]
) -> tuple[EnvSetting, ...]:
    name = "NCCL_IB_HCA"
    if not ports:
        return (EnvSetting(name, "", "no active port is known: NCCL uses every active one"),)
    value = "=" + ",".join(f"{port.device}:{port.number}" for port in chosen)
    left = sorted({port.device for port in ports} - {port.device for port in chosen})
    why = f"active ports nearest to a GPU; = matches whole names, so not mlx5_10 for mlx5_1{_left(left)}"
    if has_integrated_gpu(request) and len(chosen) > 1:
        why = f"a cable shows as two devices, on two PCIe links; one alone carries half{_left(left)}"
    down = [port.device for port in ask(request, halves_down) or ()]
    if down:  # a job needs as many devices on both nodes, and its other half is only turned off
        why = f"bring {' and '.join(down)} up first: the other half of a cable is up"
        return (EnvSetting(name, "", why),)
    return (EnvSetting(name, value, why),)


def _left(devices: list[str]) -> str:
    return f"; left out: {', '.join(devices)}" if devices else ""


def _near(request: ConfigRequest, ports: tuple[RdmaPort, ...]) -> tuple[RdmaPort, ...]:
    """Ports of the devices nearest to a GPU that have the fastest rate among them.

    A slower port beside fast ones is for management, but NCCL would use it too."""
    near = {pair.device for pair, _ in known_nearest(request)}
    candidates = [port for port in ports if port.device in near] or list(ports)
    fastest = max(port.rate_gbit_per_s for port in candidates)
    return tuple(port for port in candidates if port.rate_gbit_per_s == fastest)


def _gid_index(request: ConfigRequest, ports: tuple[RdmaPort, ...]) -> tuple[EnvSetting, ...]:
    """Set only for RoCE, and only if this NCCL does not choose the index itself."""
    name, since = "NCCL_IB_GID_INDEX", first_release_with("chooses_gid")
    roce = [port for port in ports if port.link_layer == "Ethernet"]
    if not roce:
        return ()
    version = ask(request, nccl_version)
    if version and release(version).chooses_gid:
        return (EnvSetting(name, "", f"NCCL {version} finds the RoCE v2 GID itself (since {since})"),)
    gids = ask(request, lambda node: [roce_v2_gid(node, port.device, port.number) for port in roce]) or []
    indexes = {gid[0] for gid in gids if gid}
    if len(indexes) != 1 or None in gids:
        differ = "differs between ports" if len(indexes) > 1 else "is not known for every port"
        why = f"the index of the RoCE v2 GID {differ}: use NCCL {since} or newer, which chooses it"
        return (EnvSetting(name, "", why),)
    index = indexes.pop()
    if version:
        why = f"NCCL {version} does not choose it; RoCE v2 with IPv4 has index {index} on all ports"
        return (EnvSetting(name, str(index), why),)
    return (EnvSetting(name, "", f"NCCL {since} and newer choose it; older versions need {index} here"),)


def _queue_pairs(ports: tuple[RdmaPort, ...]) -> EnvSetting:
    name = "NCCL_IB_QPS_PER_CONNECTION"
    bonds = sorted({port.device for port in ports if "bond" in port.device})
    if bonds:
        why = f"{', '.join(bonds)} bonds two links, and a queue pair uses only one of them"
        return EnvSetting(name, "2", why)
    if any(port.link_layer == "Ethernet" for port in ports):
        return EnvSetting(name, "", "1 is enough, unless switches spread flows over several paths (ECMP)")
    why = ", since no port is a bond" if ports else ", unless a port is a bond of two links"
    return EnvSetting(name, "", f"the default, 1, is enough{why}")


def _level(request: ConfigRequest) -> EnvSetting:
    """Set only if a GPU's nearest NIC is behind the CPU's host bridge."""
    name = "NCCL_NET_GDR_LEVEL"
    if has_coherent_gpu(request):
        why = "NCCL 2.27 and newer use C2C by default; from 2.29.2 on, PIX and PXB would forbid it"
        return EnvSetting(name, "", why)
    if has_integrated_gpu(request):
        return EnvSetting(name, "", "no level enables GPUDirect RDMA for a GPU without its own memory")
    pairs = known_nearest(request)
    if not pairs:
        return EnvSetting(name, "", "the default, PXB, is right if GPU and NIC share a PCIe switch")
    far = {path_type(distance) for _, distance in pairs} - set(NEAR)
    if not far:
        return EnvSetting(name, "", "the default, PXB, covers every GPU's nearest NIC")
    if ask(request, virtual_machine) not in ("none", None):
        why = "a virtual machine does not show real distances; set NCCL_TOPO_FILE instead"
        return EnvSetting(name, "", why)
    if "SYS" in far:
        why = "a GPU's nearest NIC is on another socket: SYS allows it, but may be slower; measure first"
        return EnvSetting(name, "", why)
    return EnvSetting(
        name, "PHB", "a GPU's nearest NIC is behind the CPU's host bridge, which the default, PXB, excludes"
    )


_FORMS = {
    "shell": (
        "NCCL's environment, for a shell", "nccl-env.sh", "source it on every rank: . nccl-env.sh", ""
    ),
    "conf": (
        "NCCL settings for all jobs on this node", file_contents.NCCL_CONF,
        f"install as {file_contents.NCCL_CONF}; a job's own environment takes precedence", "",
    ),
    "kubernetes": (
        "NCCL's environment, for a container", "env.yaml",
        "merge it into spec.containers[].env of each worker's pod", "",
    ),
    "slurm": (
        "NCCL's environment, for a Slurm TaskProlog", "/etc/slurm/task_prolog.sh",
        "set TaskProlog= in slurm.conf to it; Slurm sets each printed `export NAME=value` for the task",
        "#!/bin/sh",
    ),
}  # fmt: skip
"""Title, file, use, and first line of each form. Source of the last: slurm.conf(5), TaskProlog."""


def nccl_env(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """The environment in one of its forms."""
    form = request.form or "shell"
    choice = choose(request)
    found = settings(request)
    assumed: tuple[str, ...] = ()
    if request.saved is not None:
        assumed = ("a topology shows neither the driver nor addresses: GIDs and subnets are unknown",)
    elif request.node is None:
        assumed = ("no node is given: GPUs and NICs are unknown",)
    title, file, use, lead = _FORMS[form]
    return ConfigOutput(
        kind="nccl-env",
        form=form,
        title=title,
        file=file,
        use=use,
        lead=lead,
        lines=env_lines(found, form),
        assumed=(*assumed, *choice.assumed),
        notes=(*choice.notes, *_node_notes(request)),
        always_explained=True,
    )


def _node_notes(request: ConfigRequest) -> tuple[str, ...]:
    own = "the device names are valid for machines built like this one"
    if request.node is None:
        return (own,) if request.saved is not None else ()
    version = ask(request, nccl_version)
    return (own, *((f"written for NCCL {version}, the oldest found on the node",) if version else ()))


def conf_text(request: ConfigRequest) -> str:
    """The content of /etc/nccl.conf; "" if no variable has to be set."""
    chosen = {setting.name: setting.value for setting in settings(request) if setting.value}
    return file_contents.nccl_conf(chosen) if chosen else ""
