"""`gdr config check FILE --node TARGET`: what a file names, and the node does not have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts.assignments import is_filled_in
from gdrkit.facts.driver_files import has_driver_container
from gdrkit.facts.kernel import hostname
from gdrkit.facts.kubernetes import Manifest, manifests
from gdrkit.facts.modprobe_config import ModprobeConfig
from gdrkit.facts.module_arguments import reading
from gdrkit.facts.module_index import module_path
from gdrkit.facts.pci import gpus
from gdrkit.facts.rdma import ports, rdma_devices
from gdrkit.formats.plural import plural
from gdrkit.formats.regex import regex
from gdrkit.formats.whole_number import whole_number
from gdrkit.formats.yaml_values import Scalar, YamlMapping, at
from gdrkit.node import Node, if_missing
from gdrkit.programs.nccl.settings import selects
from gdrkit.programs.setting_codes import is_interface
from gdrkit.repair.config.fault import ConfigFault, fault_at
from gdrkit.repair.config.workloads import GPU, Container, Pod, pods_of

DEVICE_LISTS = ("NCCL_IB_HCA", "NVSHMEM_HCA_LIST", "UCX_NET_DEVICES")
INTERFACE_LISTS = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME")
EXACT = ("UCX_NET_DEVICES", "NVSHMEM_HCA_LIST", "GLOO_SOCKET_IFNAME")
"""Lists of whole names. In those of NCCL a name is a prefix, unless `=` begins the list."""
OF_DIRECT_PATH = regex(r"nvidia\w*|mlx\d?\w*|ib_\w+|rdma_\w+|gdrdrv|irdma|bnxt_re|efa")
Setting = tuple[int, str, str]
"""The line, name and value of a variable."""


def setting_faults(node: Node, settings: tuple[Setting, ...], *, on_host: bool) -> Iterator[ConfigFault]:
    """Lists of RDMA devices, and of network interfaces where a program sees those of the host."""
    for line, name, value in settings:
        if name in DEVICE_LISTS:
            what = "RDMA device"
            yield from _known(line, name, lambda: tuple(one.name for one in rdma_devices(node)), value, what)
        elif name in INTERFACE_LISTS and on_host:
            what = "network interface"
            yield from _known(line, name, lambda: tuple(node.list("sys/class/net")), value, what)


def _known(
    line: int, name: str, names: Callable[[], tuple[str, ...]], value: str, what: str
) -> Iterator[ConfigFault]:
    """The entries of a list that select nothing on the node."""
    sign = re.match(r"\^?=?", value)
    entries = [one.strip() for one in value[sign.end() if sign else 0 :].split(",") if one.strip()]
    if value.startswith("^") or value in ("", "all") or is_filled_in(value):
        return  # leaving out what is not there does no harm
    if name == "UCX_NET_DEVICES":
        entries = [entry for entry in entries if not is_interface(entry)]
    try:
        found = names()
    except EvidenceMissing as error:
        yield _unknown(line, name, error)
        return
    exact = "=" if name in EXACT or value.startswith("=") else ""
    lost = [entry for entry in entries if not any(selects(exact + entry, one) for one in found)]
    if lost:
        has = ", ".join(sorted(found)[:16]) or "none"
        seen = f"the node has no {what} {', '.join(lost)[:200]}"
        severity = "error" if len(lost) == len(entries) else "warning"
        code = "hca-not-selected" if what == "RDMA device" else "interface-missing"
        yield fault_at(line, code, name, seen, f"names of the node: {has}", severity)


def _unknown(line: int, path: str, error: EvidenceMissing) -> ConfigFault:
    seen = f"not compared: {error.missing.source[:200]} is not known of the node"
    return fault_at(
        line, "not-collected", path, seen, f"the output of {error.missing.ask[:200]}", "unreadable"
    )


# -- the pods of an object ---------------------------------------------------------------------------


def sees_host_devices(manifest: Manifest) -> bool:
    """Whether the pods of an object see the RDMA devices of the node by their names: a virtual function, or
    a device that moves into the pod, need not be among them."""
    return all(
        container.is_privileged or all(name.startswith("rdma/") for name in container.other_devices)
        for pod in pods_of(manifest.value)
        for container in pod.containers()
    )


def is_on_host(manifest: Manifest) -> bool:
    """Whether all pods of an object have the network interfaces of the node; False for one without pods."""
    pods = tuple(pods_of(manifest.value))
    return bool(pods) and all(pod.has_host_network for pod in pods)


def pod_faults(node: Node, manifest: Manifest) -> Iterator[ConfigFault]:
    """Resources that no plugin offers on the node, more GPUs than it has, and RoCE in pods without its
    interfaces."""
    for pod in pods_of(manifest.value):
        yield from _gpus(node, pod)
        for container in pod.containers():
            yield from _resources(node, container)
            yield from _network(node, pod, container)


def _resources(node: Node, container: Container) -> Iterator[ConfigFault]:
    offered = if_missing(None, _offered, node)
    if offered is None:
        return
    given = {**container.resources("requests"), **container.resources("limits")}
    for name in container.devices:
        if offered.get(name, "0") == "0":
            number = "0 of it" if name in offered else "no such resource"
            known = ", ".join(sorted(one for one in offered if "/" in one)[:16]) or "none"
            path = f"{container.path}.resources.limits.{name}"
            seen = f"the node offers {number}, so that no pod starts there"
            yield fault_at(given[name].line, "resource-missing", path, seen, f"one of {known}", "error")


def _gpus(node: Node, pod: Pod) -> Iterator[ConfigFault]:
    """More whole GPUs than the node offers, or than PCI lists: then only shared ones would be enough."""
    asking = [one for one in pod.containers() if one.resources("limits").get(GPU) is not None]
    started = [one for one in asking if ".initContainers." not in one.path]  # the others end before
    wanted = max((sum(one.gpus for one in started), *(one.gpus for one in asking)), default=0)
    if not asking or not wanted:
        return
    shown = (if_missing(None, _offered, node) or {}).get(GPU, "")
    count = whole_number(shown) if shown else if_missing(None, lambda: len(gpus(node)))
    if count is None or wanted <= count or shown == "0":  # no plugin offers one: reported as such
        return
    seen = f"{plural(wanted, 'GPU')} for one pod, and the node {'offers' if shown else 'has'} {count}"
    seen += ": no pod starts there" + ("" if shown else ", unless a plugin offers each as several")
    most = max(asking, key=lambda one: one.gpus)
    line, path = most.resources("limits")[GPU].line, f"{most.path}.resources.limits.{GPU}"
    yield fault_at(line, "resource-missing", path, seen, f"at most {count}", "error" if shown else "warning")


def _offered(node: Node) -> dict[str, str] | None:
    """What the kubelet offers, by the Node object supplied with the node; None without one."""
    nodes = [one for one in manifests(node) if one.kind == "Node"]
    own = [one for one in nodes if one.name == if_missing("", hostname, node)] or nodes
    found = own[0].at("status", "allocatable") if len(own) == 1 else None
    if not isinstance(found, YamlMapping):
        return None
    return {entry.key: entry.value.text for entry in found.entries if isinstance(entry.value, Scalar)}


def _network(node: Node, pod: Pod, container: Container) -> Iterator[ConfigFault]:
    """A RoCE device needs the interface whose addresses are its GIDs: the device alone connects nowhere."""
    if not container.is_given_rdma or pod.has_host_network or pod.has_more_networks:
        return
    if not if_missing(False, _has_only_roce, node):
        return
    limits = at(container.value, "resources", "limits") or container.value
    seen = "an RDMA device without a network: the ports of the node are RoCE, whose GIDs need interfaces"
    expected = "a second network (k8s.v1.cni.cncf.io/networks), or hostNetwork: true"
    yield fault_at(limits.line, "roce-without-network", container.path, seen, expected, "warning")


def _has_only_roce(node: Node) -> bool:
    layers = {port.link_layer for one in rdma_devices(node) for port in ports(node, one.name)
              if port.state == "ACTIVE"}  # fmt: skip
    return layers == {"Ethernet"}


# -- modprobe.d --------------------------------------------------------------------------------------


def module_faults(node: Node, config: ModprobeConfig) -> Iterator[ConfigFault]:
    """Options of modules of the direct path that the node lacks, and parameters that its module has not."""
    for entry in config.options:
        if not OF_DIRECT_PATH.fullmatch(entry.name):
            continue
        try:
            module_path(node, entry.name)
            found = reading(node, entry.name, entry.value)
        except EvidenceAbsent:
            inside = if_missing(False, has_driver_container, node) and entry.name.startswith("nvidia")
            expected = "gdr config gpu-operator --form configmap" if inside else "a module of the node"
            seen = "the driver is in the GPU Operator's container, which does not read the host's modprobe.d"
            seen = seen if inside else f"the node's kernel has no module {entry.name}"
            yield fault_at(entry.line, "module-not-found", entry.name, seen, expected, "warning")
            continue
        except EvidenceMissing as error:
            yield _unknown(entry.line, entry.name, error)
            continue
        for complaint in found.complaints:
            argument = complaint.argument
            path = f"{entry.name}:{argument.name[:60]}"
            if complaint.errno:
                seen = f"{argument.shown[:60]}: the module of the node refuses it, and is not loaded"
                yield fault_at(
                    entry.line, "module-bad-parameter", path, seen, "a value of its type", "error"
                )
            else:
                seen = "the module of the node has no such parameter: the kernel ignores it"
                expected = f"one that modinfo -p {entry.name} lists"
                yield fault_at(entry.line, "unknown-key", path, seen, expected, "warning")
