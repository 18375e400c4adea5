"""What one setting of a program brings about wherever it stands: in a file, a script, a manifest, a post."""

from __future__ import annotations

from gdrkit.formats.regex import regex
from gdrkit.programs.consumer import Consumer
from gdrkit.programs.disabled_by_env import turned_off_by
from gdrkit.programs.mnnvl.consumer import MNNVL
from gdrkit.programs.nccl.distance_rules import NAME as GDR_LEVEL
from gdrkit.programs.nccl.settings import gdr_level
from gdrkit.programs.ucx.consumer import leaves_out_cuda
from gdrkit.rules.capabilities import Path

OF_LIBFABRIC = {"FI_EFA_USE_DEVICE_RDMA": "0", "FI_HMEM_DISABLE_P2P": "1"}
"""By variable, the value that turns libfabric's direct path off: ofiwg/libfabric
prov/efa/src/efa_prov_info.c, efa_user_info.c; src/hmem.c."""

OF_MNNVL = dict(
    zip(
        (switch.name for switch in MNNVL.switches), ("mnnvl-cumem-off", "mnnvl-disabled-by-env"), strict=True
    )
)


_INTERFACE = regex(r"(?:eth|en[ops]|bond|docker)\w{1,12}|ib\d{1,3}|lo")


def is_interface(name: str) -> bool:
    """Whether a name is that of a network interface, which UCX uses with TCP, and not of an RDMA device."""
    return _INTERFACE.fullmatch(name) is not None


HCA = "NCCL_IB_HCA"


def _names_interfaces(value: str) -> bool:
    """Whether a list of RDMA devices has names of network interfaces alone, which select none. Devices can
    be renamed to ib0, but not to eth0: those names are of the kernel's interfaces."""
    names = [entry.partition(":")[0] for entry in value.removeprefix("=").split(",")]
    return all(is_interface(name) and not name.startswith("ib") for name in names)


def codes_of(programs: tuple[Consumer, ...], name: str, value: str) -> tuple[str, ...]:
    """The codes of what a setting causes on any machine; () if it is harmless or unknown."""
    if name == GDR_LEVEL:
        level = gdr_level(value, "")
        return ("gdr-level-ignored",) if level is None else ("gdr-level-too-low",) * (level == "LOC")
    found = [turned_off_by(programs, name, value)]
    interfaces = name == "UCX_NET_DEVICES" and all(map(is_interface, value.split(",")))
    if interfaces or (name == "UCX_TLS" and leaves_out_cuda(value)):
        found.append("ucx-transport-excluded")
    elif name == HCA and _names_interfaces(value):
        found.append("hca-not-selected")
    elif OF_LIBFABRIC.get(name) == value:
        found.append("gdr-disabled-by-env")
    elif any(switch.name == name and switch.off(value) for switch in MNNVL.switches):
        found.append(OF_MNNVL[name])
    return tuple(code for code in found if code)


def leaves_another_path(programs: tuple[Consumer, ...], name: str) -> bool:
    """Whether what a variable turns off is one of several paths of a NIC: all else is as it was."""
    closed = {path for one in programs for switch in one.switches if switch.name == name
              for path in switch.closes}  # fmt: skip
    return bool(closed) and closed <= {Path.DMABUF, Path.NVLINK}
