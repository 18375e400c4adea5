"""What is compared between nodes: each trait with how it is read, and where it matters.

A trait has the same value on two nodes that are set up alike: no name, address or serial number of one node
is in it, and devices are counted, or named as all such nodes name them. The rows about what must match
follow NCCL's own checks; the symptoms are those of its sources (src/init.cc, src/transport/net_ib/) and of
NVIDIA/nccl issues 306, 378, 820, 1524, 1957, 2428.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gdrkit.agent.collect.kernel_arguments import READ
from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.evidence.errors import TargetError
from gdrkit.facts import kernel, machine
from gdrkit.facts.acs_redirects import bridges_between, redirect_control
from gdrkit.facts.driver import disk_driver_version, driver_flavour, driver_version
from gdrkit.facts.driver_files import peermem_path
from gdrkit.facts.expected_devices import counted_nics, kind, model, version
from gdrkit.facts.libraries import memlock_limit_bytes, nccl_version
from gdrkit.facts.loaded_modules import loaded
from gdrkit.facts.module_files import information
from gdrkit.facts.pci import gpus, iommu_type
from gdrkit.facts.pci_registers import bar1_bytes, link
from gdrkit.facts.rdma import nic_address
from gdrkit.facts.secure_boot import secure_boot
from gdrkit.fleet import port_traits
from gdrkit.fleet.port_traits import counted
from gdrkit.formats.plural import plural
from gdrkit.node import Node, if_missing
from gdrkit.programs.environment import NCCL_CONF, SYSTEM, environment
from gdrkit.programs.nccl.facts import net_plugins
from gdrkit.programs.ucx.facts import ucx_version
from gdrkit.report.document import Report

VALUE_LIMIT = 300
"""Characters of a value: what a node says is shown in a line."""

PEERMEM = "nvidia_peermem"


class JobMismatch(NamedTuple):
    """How it shows that two nodes of a job differ in a trait."""

    shows_as: str
    versions: str = ""  # of NCCL; "" for all


class NodeTrait(NamedTuple):
    name: str
    read: Callable[[Node], str]  # raises EvidenceMissing
    absent: str | None = "none"  # the value where evidence is absent; None: not known then
    drifts: bool = False  # a version, which a fleet should share
    mismatch: JobMismatch | None = None


def traits_of(node: Node, report: Report) -> dict[str, str]:
    """The traits of a node, without those that are not known."""
    found = {}
    for trait in TRAITS:
        try:
            value = trait.read(node)
        except EvidenceAbsent:
            if trait.absent is None:
                continue
            value = trait.absent
        except (EvidenceMissing, TargetError):
            continue
        found[trait.name] = _bounded(value)
    return found | {name: _bounded(value) for name, value in _judged(report).items()}


def _bounded(value: str) -> str:
    value = " ".join("".join(c if c.isprintable() else " " for c in value[: 4 * VALUE_LIMIT]).split())
    return value if len(value) <= VALUE_LIMIT else value[: VALUE_LIMIT - 3] + "..."


# -- what was judged --------------------------------------------------------------------------------------

NOT_CHECKED = "not checked"
OF_FINDINGS = {"failed": "failed", "warnings": "warning", "notes": "note", NOT_CHECKED: "unknown"}
"""Traits that list codes, with the status of those."""
PATHS = "paths"
RAILS = "NICs in the order of the GPUs"


def _judged(report: Report) -> dict[str, str]:
    """The findings by status, and the paths of the GPUs, so that any fault with a code makes a node odd."""
    found = {
        name: counted(f.code for f in report.findings if f.status == status) or "none"
        for name, status in OF_FINDINGS.items()
    }
    found[PATHS] = counted(f"{gpu.path} {gpu.state}".strip() for gpu in report.gpus) or "none"
    found[RAILS] = " ".join(gpu.device or "-" for gpu in report.gpus) or "none"
    return found


# -- devices ----------------------------------------------------------------------------------------------


def _gpus(node: Node) -> str:
    return counted(model(node, gpu) for gpu in gpus(node)) or "none"


def _gpu_links(node: Node) -> str:
    """Widths only: a GPU lowers its speed when it is idle."""
    return counted(f"x{link(node, gpu.address).current_width}" for gpu in gpus(node)) or "none"


def _bar1(node: Node) -> str:
    return counted(f"{bar1_bytes(node, gpu.address) >> 20} MiB" for gpu in gpus(node)) or "none"


def _nics(node: Node) -> str:
    return counted(kind(node, nic) or "unknown kind" for nic in counted_nics(node)) or "none"


def _nic_links(node: Node) -> str:
    links = (link(node, nic_address(node, nic.name)) for nic in counted_nics(node))
    return counted(f"{found.current_gt_per_s:g} GT/s x{found.current_width}" for found in links) or "none"


def _firmware(node: Node) -> str:
    """Each version once: how many NICs there are is another trait, and no version."""
    return port_traits.distinct(f"{kind(node, nic)} {nic.firmware}".strip() for nic in counted_nics(node))


def _acs(node: Node) -> str:
    redirecting = [bridge for bridge in bridges_between(node) if redirect_control(node, bridge)]
    return f"{plural(len(redirecting), 'port')} redirecting between a GPU and its NIC"


def _iommu(node: Node) -> str:
    return counted({if_missing("", iommu_type, node, gpu.address) or "none" for gpu in gpus(node)}) or "none"


# -- software ---------------------------------------------------------------------------------------------


def _loaded_peermem(node: Node) -> str:
    if PEERMEM not in loaded(node):
        return "not loaded"
    return if_missing("", lambda: node.text(f"sys/module/{PEERMEM}/version").strip()) or "loaded"


def _peermem_on_disk(node: Node) -> str:
    return information(node, peermem_path(node)).version or "without a version"


def _boot_options(node: Node) -> str:
    found = (word for word in kernel.command_line(node) if READ.fullmatch(word.partition("=")[0].encode()))
    return " ".join(sorted(found)) or "none"


def _settings(node: Node) -> str:
    """Settings of NCCL that the node's files make for every job."""
    found = {s.name: s.value for path in (SYSTEM, NCCL_CONF) for s in environment(node, path).settings}
    return " ".join(f"{name}={value}" for name, value in sorted(found.items())) or "none"


def _plugin(node: Node) -> str:
    return "libnccl-net.so" if net_plugins(node) else "none"


def _memlock(node: Node) -> str:
    limit = memlock_limit_bytes(node)
    return "unlimited" if limit is None else f"{limit >> 10} KiB"


def _bios(node: Node) -> str:
    return node.text("sys/class/dmi/id/bios_version")


def _product(node: Node) -> str:
    found = machine.product(node)
    return f"{found.vendor} {found.name}"


LOSSY = JobMismatch(
    "no message: a fraction of the bandwidth while out_of_sequence and packet_seq_err rise, then work "
    "completions with status 12 and vendor error 129"
)
"""Where one side takes another priority, packets are lost: github.com/NVIDIA/nccl issues 306, 378."""

TRAITS = (
    NodeTrait("product", _product),
    NodeTrait("BIOS", _bios, drifts=True),
    NodeTrait("GPUs", _gpus),
    NodeTrait("GPU links", _gpu_links),
    NodeTrait("GPU BAR1", _bar1),
    NodeTrait("NICs", _nics),
    NodeTrait("NIC links", _nic_links),
    NodeTrait("NIC firmware", _firmware, drifts=True),
    NodeTrait("ports", port_traits.ports),
    NodeTrait("ACS", _acs),
    NodeTrait("IOMMU", _iommu),
    NodeTrait("boot options", _boot_options),
    NodeTrait("distribution", lambda node: machine.distribution(node).name, drifts=True),
    NodeTrait("kernel", kernel.release, drifts=True),
    NodeTrait("driver", driver_version, drifts=True),
    NodeTrait("driver on disk", disk_driver_version, drifts=True),
    NodeTrait("driver modules", driver_flavour, drifts=True),
    NodeTrait("nvidia-peermem", _loaded_peermem, drifts=True),
    NodeTrait("nvidia-peermem on disk", _peermem_on_disk, drifts=True),
    NodeTrait("RDMA stack", lambda node: version(node, "ofed"), drifts=True),
    NodeTrait("UCX", ucx_version, drifts=True),
    NodeTrait("Secure Boot", lambda node: "on" if secure_boot(node) else "off"),
    NodeTrait("locked memory", _memlock),
    NodeTrait(
        "NCCL",
        nccl_version,
        drifts=True,
        mismatch=JobMismatch(
            "`Mismatched NCCL version detected` and ncclInvalidUsage since 2.23.4; before, a hang or "
            "wrong data"
        ),
    ),
    NodeTrait(
        "NCCL network plugin",
        _plugin,
        mismatch=JobMismatch("connections hang or fail with 22 or 9; compare `Using network` of all hosts"),
    ),
    NodeTrait(
        "NCCL settings",
        _settings,
        mismatch=JobMismatch("hangs without a message; since 2.31.2 `NCCL environment: mismatch`"),
    ),
    NodeTrait(
        "link layer",
        port_traits.link_layers,
        mismatch=JobMismatch(
            "`Attempted to connect incompatible devices` since 2.26.2; before, connections "
            "fail with 22 or 110"
        ),
    ),
    NodeTrait(
        "RDMA devices in use",
        port_traits.nic_count,
        mismatch=JobMismatch(
            "`Detected mixed local Net device counts` and ncclSystemError", "2.30.3 and newer"
        ),
    ),
    NodeTrait(
        "MTU",
        port_traits.mtus,
        mismatch=JobMismatch(
            "local access violations, LOC_LEN_ERR or a hang: the receiver does not take the smaller MTU",
            "2.20.3 to 2.28.9",
        ),
    ),
    NodeTrait(
        "GIDs",
        port_traits.gid_kinds,
        mismatch=JobMismatch("ibv_modify_qp fails with 22 or 110, or work completions with status 12"),
    ),
    NodeTrait(
        "GID index",
        port_traits.gid_indexes,
        mismatch=JobMismatch(
            "with one NCCL_IB_GID_INDEX for all nodes, ibv_modify_qp fails with 22 or 110; without it, "
            "NCCL finds each node's own since 2.21.5"
        ),
    ),
    NodeTrait(
        "HCA names",
        port_traits.names,
        mismatch=JobMismatch(
            "`NET/IB : No device found` on the node that lacks what NCCL_IB_HCA names, or another cable is "
            "used"
        ),
    ),
    NodeTrait(
        "networks",
        port_traits.networks,
        absent=None,
        mismatch=JobMismatch(
            "ibv_modify_qp fails with 101, `Network is unreachable`, or 110, `Connection timed out`"
        ),
    ),
    NodeTrait(
        "order of the networks",
        port_traits.network_order,
        absent=None,
        mismatch=JobMismatch(
            "ibv_modify_qp fails with 110: NIC 0 of one node is not in the network of NIC 0 of the other"
        ),
    ),
    NodeTrait(
        "partition keys",
        port_traits.partition_keys,
        absent=None,
        mismatch=JobMismatch(
            "work completions with status 12 and vendor error 129, or ibv_modify_qp fails with 110; "
            "`not found in PKey table` since 2.31"
        ),
    ),
    *(
        NodeTrait(name, read, absent=None, mismatch=LOSSY)
        for name, read in (
            ("traffic class", port_traits.traffic_class),
            ("flow control", port_traits.pfc),
            ("priorities", port_traits.priorities),
            ("pause frames", port_traits.pause),
            ("ECN", port_traits.ecn),
        )
    ),
    NodeTrait("lost packets", port_traits.lost_packets, absent=None),
    NodeTrait("link errors", port_traits.link_errors, absent=None),
)
MUST_MATCH = {
    **{trait.name: trait.mismatch for trait in TRAITS if trait.mismatch},
    RAILS: JobMismatch(
        "traffic crosses rails: ibv_modify_qp fails with 110, or it is only as fast as the spine"
    ),
    PATHS: JobMismatch(
        "the side without a direct path loses GDRDMA in its lines `via NET/IB`; the channel works, slower"
    ),
}
"""What must be the same on all nodes of a job, by trait."""
DRIFTING = tuple(trait.name for trait in TRAITS if trait.drifts)
