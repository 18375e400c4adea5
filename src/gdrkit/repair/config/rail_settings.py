"""The variables of NCCL that depend on rails: which NICs reach which of the peer."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.facts.libraries import nccl_version
from gdrkit.facts.rdma import RdmaPort, roce_v2_gid
from gdrkit.node import Node
from gdrkit.programs.nccl.releases import VARIABLE_SINCE, release
from gdrkit.repair.config.env_forms import EnvSetting
from gdrkit.repair.config.request import ConfigRequest, ask, has_integrated_gpu

PREFIX_BITS = 24
"""How much of an IPv4 address names its subnet: the default of NCCL_IB_SUBNET_PREFIX_LEN, NCCL 2.30.7
net_ib/connect.cc. A GID does not show its netmask."""


def rail_settings(request: ConfigRequest, ports: tuple[RdmaPort, ...]) -> Iterator[EnvSetting]:
    """NCCL_CROSS_NIC by the subnets of RoCE ports; more of a DGX Spark, whose cables are rails."""
    roce = [port for port in ports if port.link_layer == "Ethernet"]
    name = "NCCL_CROSS_NIC"
    if len(ports) < 2:
        unknown = "no active port is known; 0 if rails have no route between them"
        yield EnvSetting(name, "", "it has no effect with one active port" if ports else unknown)
        return
    if not roce:
        why = "the default, 2, is right for one fabric; 0 if rails have no route between them"
        yield EnvSetting(name, "", why)
        return
    subnets = [ask(request, lambda node, port=port: _subnet(node, port)) for port in roce]  # type: ignore[misc]
    if None in subnets:
        why = "the subnets of the ports are not known; 0 if rails have no route between them"
        yield EnvSetting(name, "", why)
        return
    if len(set(subnets)) == 1:
        why = "all ports are in one subnet, so that every NIC reaches every one of the peer"
        yield EnvSetting(name, "", why)
        return
    words = f"the {len(roce)} ports are in {len(set(subnets))} subnets (by the first {PREFIX_BITS} bits)"
    why = f"{words}: a NIC reaches only its own, and 0 keeps each channel there; with a route, 2 is faster"
    yield EnvSetting(name, "0", why)
    if has_integrated_gpu(request):
        yield _subnet_aware(request)


def _subnet_aware(request: ConfigRequest) -> EnvSetting:
    """For cables that connect port 0 with port 1, as in a ring of DGX Sparks."""
    name = "NCCL_IB_SUBNET_AWARE_ROUTING"
    since = VARIABLE_SINCE[name]
    version = ask(request, nccl_version)
    if version and name not in release(version).variables:
        return EnvSetting(name, "", f"unknown to NCCL {version}; from {since} on, 1 allows crossed cables")
    return EnvSetting(name, "1", f"from {since} on, NCCL chooses the port in the peer's subnet")


def _subnet(node: Node, port: RdmaPort) -> int | None:
    """The first bits of a port's address; None without one."""
    found = roce_v2_gid(node, port.device, port.number)
    return found[1] >> (32 - PREFIX_BITS) if found else None
