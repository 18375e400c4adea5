"""NCCL's environment for a node: what has to be said, and what is better left to NCCL."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.consumers.nccl_levels import path_type
from gdrkit.consumers.nccl_releases import release
from gdrkit.facts.driver import driver_flavour
from gdrkit.facts.libraries import nccl_version
from gdrkit.facts.rdma import RdmaPort, gids
from gdrkit.facts.virtual import virtual_machine
from gdrkit.node import Node
from gdrkit.repair.config import request as of
from gdrkit.repair.config.output import ConfigOutput, ConfigRefused, OutputLine
from gdrkit.repair.config.request import ConfigRequest, ask, choose
from gdrkit.repair.config.yaml_writer import Field, Items, lines
from gdrkit.repair.platforms import file_contents

FORMS = ("shell", "conf", "kubernetes", "slurm")
NEAR = ("PIX", "PXB")
"""Distances that NCCL allows by default: src/graph/paths.cc, PATH_PXB (P2C where CPU and GPU are joined)."""


class EnvSetting(Struct, frozen=True):
    """A variable and why it is set; with no value, why it is left alone."""

    name: str
    value: str
    why: str


def settings(request: ConfigRequest) -> tuple[EnvSetting, ...]:
    """Every variable that a topology may ask for, in the order of NCCL's guide."""
    path = choose(request).path
    ports = ask(request, of.active_ports) or ()
    near = _near(request, ports) if ports else ()
    found = [_interface(request), *_hcas(ports, near), *_gid_index(request, near), _queue_pairs(near)]
    found.append(_level(request))
    if path == "peermem":
        found.append(_dmabuf(request))
    return tuple(found)


def _dmabuf(request: ConfigRequest) -> EnvSetting:
    """Off only where NCCL would take it: with the open kernel modules, or where nobody knows which."""
    name = "NCCL_DMABUF_ENABLE"
    if ask(request, driver_flavour) == "proprietary":
        return EnvSetting(
            name, "", "the proprietary driver offers no dma-buf, so NCCL takes peermem by itself"
        )
    blockers = of.blockers_of(request.node, "dmabuf") if request.node is not None else ()
    if not request.path and not any(rule.at_registration for rule in blockers):
        codes = ", ".join(rule.code for rule in blockers)
        why = f"NCCL sees by itself that dma-buf is not to be had: {codes}"
        return EnvSetting(name, "", why)
    return EnvSetting(name, "0", "NCCL takes dma-buf where it can, and does not fall back if that fails")


def _interface(request: ConfigRequest) -> EnvSetting:
    name = "NCCL_SOCKET_IFNAME"
    if request.interface:
        return EnvSetting(
            name, f"={request.interface}", "for the first contact between ranks; = means this name alone"
        )
    why = "NCCL takes ib* first, then any that is not lo, docker* or virbr*; --interface sets it"
    return EnvSetting(name, "", why)


def _hcas(ports: tuple[RdmaPort, ...], chosen: tuple[RdmaPort, ...]) -> tuple[EnvSetting, ...]:
    name = "NCCL_IB_HCA"
    if not ports:
        return (EnvSetting(name, "", "no active port is known: NCCL takes every active one"),)
    value = "=" + ",".join(f"{port.device}:{port.number}" for port in chosen)
    left = sorted({port.device for port in ports} - {port.device for port in chosen})
    why = f"active ports nearest to a GPU; = compares whole names, else mlx5_1 is mlx5_10 too{_left(left)}"
    return (EnvSetting(name, value, why),)


def _left(devices: list[str]) -> str:
    return f"; not {', '.join(devices)}" if devices else ""


def _near(request: ConfigRequest, ports: tuple[RdmaPort, ...]) -> tuple[RdmaPort, ...]:
    """Ports of the devices that are nearest to a GPU; of those, the ones of the fastest rate.

    A slower port beside fast ones is for management: NCCL would send over it all the same."""
    near = {pair.device for pair, _ in ask(request, of.nearest) or ()}
    here = [port for port in ports if port.device in near] or list(ports)
    fastest = max(port.rate_gbit_per_s for port in here)
    return tuple(port for port in here if port.rate_gbit_per_s == fastest)


def _gid_index(request: ConfigRequest, ports: tuple[RdmaPort, ...]) -> tuple[EnvSetting, ...]:
    """Only for RoCE, and only for an NCCL that does not choose by itself."""
    name = "NCCL_IB_GID_INDEX"
    roce = [port for port in ports if port.link_layer == "Ethernet"]
    if not roce:
        return ()
    version = ask(request, nccl_version)
    if version and release(version).chooses_gid:
        return (EnvSetting(name, "", f"NCCL {version} finds the RoCE v2 address by itself (since 2.21)"),)
    slots = {ask(request, lambda node, port=port: _roce_v2(node, port)) for port in roce}  # type: ignore[misc]
    if len(slots) > 1 or None in slots:
        why = "the RoCE v2 address is in no one slot on all ports: use NCCL 2.21 or newer, which chooses"
        return (EnvSetting(name, "", why),)
    slot = slots.pop()
    if version:
        why = f"NCCL {version} does not choose by itself; RoCE v2 with IPv4 is in slot {slot} on all ports"
        return (EnvSetting(name, str(slot), why),)
    return (
        EnvSetting(name, "", f"NCCL 2.21 and newer choose by themselves; an older one needs {slot} here"),
    )


def _roce_v2(node: Node, port: RdmaPort) -> int | None:
    """The first slot of a RoCE v2 address made of an IPv4 one (RFC 4291, 2.5.5.2)."""
    for index, value, kind in gids(node, port.device, port.number):
        if kind == "RoCE v2" and value.startswith("0000:0000:0000:0000:0000:ffff:"):
            return index
    return None


def _queue_pairs(ports: tuple[RdmaPort, ...]) -> EnvSetting:
    name = "NCCL_IB_QPS_PER_CONNECTION"
    bonds = sorted({port.device for port in ports if "bond" in port.device})
    if bonds:
        why = f"{', '.join(bonds)} joins two links, and one queue pair uses one of them"
        return EnvSetting(name, "2", why)
    if any(port.link_layer == "Ethernet" for port in ports):
        return EnvSetting(
            name, "", "1 is enough unless switches spread flows over several ways (ECMP): then more"
        )
    why = "no port is a bond" if ports else "unless a port is a bond of two links"
    return EnvSetting(name, "", f"1, the default, is enough: {why}")


def _level(request: ConfigRequest) -> EnvSetting:
    """Only where the nearest NIC of a GPU is behind the CPU's host bridge."""
    name = "NCCL_NET_GDR_LEVEL"
    if of.coherent(request):
        why = "NCCL 2.27 and newer go over C2C by themselves; PIX or PXB would forbid it from 2.29.2"
        return EnvSetting(name, "", why)
    if of.integrated(request):
        return EnvSetting(name, "", "no level brings GPUDirect RDMA to a GPU without memory of its own")
    pairs = ask(request, of.nearest)
    if not pairs:
        return EnvSetting(name, "", "the default, PXB, is right where GPU and NIC share a PCIe switch")
    far = {path_type(place) for _, place in pairs} - set(NEAR)
    if not far:
        return EnvSetting(name, "", "the default, PXB, covers every GPU's nearest NIC here")
    if ask(request, virtual_machine) not in ("none", None):
        why = "a virtual machine shows no true distances: give NCCL a topology (NCCL_TOPO_FILE) instead"
        return EnvSetting(name, "", why)
    if "SYS" in far:
        why = "a GPU's nearest NIC is on another socket: SYS allows it, and may be slower; measure first"
        return EnvSetting(name, "", why)
    return EnvSetting(
        name, "PHB", "a GPU's nearest NIC is behind the CPU's host bridge, which PXB leaves out"
    )


def nccl_env(request: ConfigRequest) -> ConfigOutput | ConfigRefused:
    """The environment in one of its forms."""
    form = request.form or "shell"
    choice = choose(request)
    found = settings(request)
    assumed = () if request.node is not None else ("nothing is known of the node's cards",)
    title, file, use, lead = _FORMS[form]
    return ConfigOutput(
        kind="nccl-env",
        form=form,
        title=title,
        file=file,
        use=use,
        lead=lead,
        lines=_kubernetes(found) if form == "kubernetes" else _plain(found, form),
        assumed=(*assumed, *choice.assumed),
        notes=(*choice.notes, *_of_the_node(request)),
        always_explained=True,
    )


def _of_the_node(request: ConfigRequest) -> tuple[str, ...]:
    if request.node is None:
        return ()
    version = ask(request, nccl_version)
    own = "the device names are this machine's: for ranks on machines built like it"
    return (own, *((f"for NCCL {version}, the oldest seen on the node",) if version else ()))


_FORMS = {
    "shell": (
        "NCCL's environment, as shell", "nccl-env.sh", "source it, on every rank alike: . nccl-env.sh", ""
    ),
    "conf": (
        "NCCL's settings for every job of this node", file_contents.NCCL_CONF,
        f"install as {file_contents.NCCL_CONF}; a job's own environment outranks it", "",
    ),
    "kubernetes": (
        "NCCL's environment of a container", "env.yaml",
        "merge into the container: spec.containers[].env of each worker's pod", "",
    ),
    "slurm": (
        "NCCL's environment, by Slurm", "/etc/slurm/task_prolog.sh",
        "TaskProlog= in slurm.conf: each line `export NAME=value` on its standard output reaches the task",
        "#!/bin/sh",
    ),
}  # fmt: skip
"""Title, file, use, and the line that stands first. Source of the last: slurm.conf(5), TaskProlog."""


def _plain(found: tuple[EnvSetting, ...], form: str) -> tuple[OutputLine, ...]:
    out = []
    for setting in found:
        if not setting.value:
            out.append(OutputLine(f"# {setting.name} is not set: {setting.why}"))
        elif form == "slurm":
            out.append(OutputLine(f"echo 'export {setting.name}={setting.value}'", setting.why))
        elif form == "shell":
            out.append(OutputLine(f"export {setting.name}='{setting.value}'", setting.why))
        else:
            out.append(OutputLine(f"{setting.name}={setting.value}", setting.why))
    return tuple(out)


def _kubernetes(found: tuple[EnvSetting, ...]) -> tuple[OutputLine, ...]:
    unset = tuple(OutputLine(f"# {s.name} is not set: {s.why}") for s in found if not s.value)
    values = tuple(
        (Field("name", setting.name, setting.why), Field("value", setting.value))
        for setting in found
        if setting.value
    )
    if not values:
        return (*unset, OutputLine("env: []"))
    return (*unset, *lines((Field("env", Items(values)),)))


def conf_text(request: ConfigRequest) -> str:
    """The lines of /etc/nccl.conf that set something; "" if nothing has to be set."""
    chosen = {setting.name: setting.value for setting in settings(request) if setting.value}
    return file_contents.nccl_conf(chosen) if chosen else ""
