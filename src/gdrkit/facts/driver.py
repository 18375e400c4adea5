"""The NVIDIA kernel driver: which one is loaded, which one is on disk, how it was built and configured."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.facts import kernel_log, modules
from gdrkit.facts.commands import NVIDIA_SMI
from gdrkit.facts.driver_files import DRIVER, driver_path, peermem_path
from gdrkit.facts.modinfo_text import printed_module
from gdrkit.facts.peer_memory import (
    LegacyPeerMem,
    MemoryPeer,
    PeermemLinkage,
    legacy_peer_mem,
    memory_peers,
    peer_api_exporter,
    peermem_linkage,
)
from gdrkit.facts.symvers import PEER_API, Symvers, symvers_seen_by_driver_build
from gdrkit.formats.errors import FormatError
from gdrkit.formats.whole_number import integer
from gdrkit.node import Node, fact, first_collected, first_of, if_missing, likely

__all__ = [
    "DRIVER",
    "PEER_API",
    "DriverBuild",
    "LegacyPeerMem",
    "MemoryPeer",
    "PeermemLinkage",
    "Symvers",
    "disk_driver_flavour",
    "disk_driver_version",
    "driver_build",
    "driver_flavour",
    "driver_parameters",
    "driver_path",
    "driver_version",
    "gpu_information",
    "legacy_peer_mem",
    "memory_peers",
    "peer_api_exporter",
    "peermem_linkage",
    "peermem_path",
    "registry_dwords",
    "symvers_seen_by_driver_build",
]  # fmt: skip

PROC_VERSION = "proc/driver/nvidia/version"
PROC_PARAMETERS = "proc/driver/nvidia/params"


class DriverBuild(Struct, frozen=True):
    """What the driver prints about itself when it loads.

    `builder` is the account that built the resource manager. `dvs-builder@...` is NVIDIA; any other account
    built it from source, as distributions do too. It is "" where none is printed, as by proprietary modules.
    Source: open-gpu-kernel-modules utils.mk, NV_BUILD_USER and NV_BUILD_HOST.
    """

    version: str
    flavour: str  # open, proprietary
    builder: str = ""


def parse_banner(text: str) -> DriverBuild:
    """The line that starts with `NVRM version:`, or the kernel's `NVRM: loading ...`.

        NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22)
        NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c, nv_procfs_read_version().
    """
    found = re.search(
        r"NVIDIA UNIX (?:(?P<open>Open Kernel Module for \S+)|\S+ Kernel Module)"
        r"\s+(?P<version>\d+\.\d[\d.]*)(?P<rest>.*)",
        text,
    )
    if found is None:
        raise FormatError("no line names an NVIDIA kernel module")
    builder = re.search(r"\((?P<account>[^()\s]*@[^()]*)\)", found["rest"])
    return DriverBuild(
        found["version"], "open" if found["open"] else "proprietary", builder["account"] if builder else ""
    )


@fact
def driver_build(node: Node) -> DriverBuild:
    """What the loaded driver printed about itself. Raises EvidenceAbsent if none is loaded."""

    def proc() -> DriverBuild:
        return parse_banner(node.text(PROC_VERSION))

    def kernel_message() -> DriverBuild:
        """Printed at load. If the driver was loaded several times in this boot, the last line counts."""
        log = kernel_log.lines(node)
        banners = [line for line in log.lines if "NVIDIA UNIX" in line.text and "loading" in line.text]
        if not banners:
            raise EvidenceMissing(Missing(PROC_VERSION, MissingReason.NOT_COLLECTED, f"cat /{PROC_VERSION}"))
        node.cite(log.source, "", banners[-1].text, Confidence.LIKELY, banners[-1].number)
        return parse_banner(banners[-1].text)

    return first_of(proc, likely(node, kernel_message))


@fact
def driver_version(node: Node) -> str:
    """The version of the loaded nvidia module, e.g. "580.126.09". Raises EvidenceAbsent if none is
    loaded."""

    def module_version() -> str:
        return _word(node.text("sys/module/nvidia/version"))

    def banner() -> str:
        return driver_build(node).version

    def nvidia_smi() -> str:
        found = re.search(r"Driver Version\s*: *(\d+\.[\d.]+)", node.run(NVIDIA_SMI))
        if found is None:
            raise FormatError("no driver version found")
        node.mark(NVIDIA_SMI.line, found.string.count("\n", 0, found.start()) + 1)
        return found[1]

    return first_collected(module_version, banner, nvidia_smi)


@fact
def driver_flavour(node: Node) -> str:
    """Whether the loaded nvidia module is "open" or "proprietary". Raises EvidenceAbsent if none is loaded.

    A proprietary licence taints the kernel with P: Linux kernel/module/main.c, Documentation/admin-guide/
    tainted-kernels.rst. Raises EvidenceMissing where the banner and the taint contradict each other.
    """

    def banner() -> str:
        return driver_build(node).flavour

    def taint() -> str:
        letters = modules.loaded(node)[DRIVER].taint if DRIVER in modules.loaded(node) else ""
        if not letters:
            raise EvidenceMissing(Missing(PROC_VERSION, MissingReason.UNDECIDED, f"cat /{PROC_VERSION}"))
        return "proprietary" if "P" in letters else "open"

    def module_license() -> str:
        if not modules.is_loaded(node, DRIVER):
            raise EvidenceAbsent(Missing(PROC_VERSION, MissingReason.ABSENT, f"cat /{PROC_VERSION}"))
        return disk_driver_flavour(node)

    found = first_of(banner, taint, likely(node, module_license))
    if found != if_missing(found, taint):
        ask = f"cat /{PROC_VERSION}; grep ^{DRIVER} /proc/modules"
        raise EvidenceMissing(Missing(f"{PROC_VERSION}, proc/modules", MissingReason.UNDECIDED, ask))
    return found


@fact
def disk_driver_version(node: Node) -> str:
    """The version of the nvidia module that modprobe would load. Raises EvidenceAbsent if there is none."""
    return modules.information(node, driver_path(node)).version


@fact
def disk_driver_flavour(node: Node) -> str:
    """Whether the module file that modprobe would load is "open" or "proprietary", by its licence.

    Open modules are `Dual MIT/GPL`, proprietary ones `NVIDIA`: kernel-open/nvidia/nv-frontend.c,
    MODULE_LICENSE.
    """

    def by_file() -> str:
        return modules.information(node, driver_path(node)).license

    def printed() -> str:
        shown = printed_module(node, DRIVER).fields.get("license", "")
        if not shown:
            raise EvidenceMissing(
                Missing("modinfo nvidia", MissingReason.UNDECIDED, "modinfo -F license nvidia")
            )
        return shown

    return "open" if "GPL" in first_collected(by_file, printed) else "proprietary"


@fact
def driver_parameters(node: Node) -> Mapping[str, str]:
    """The registry keys of the loaded driver and their values, without the prefix NVreg_.

    One `Name: value` per line, strings in quotes. Source: kernel-open/nvidia/nv-procfs.c,
    nv_procfs_read_params(). Raises EvidenceAbsent if no driver is loaded.
    """
    found = {}
    for line in node.text(PROC_PARAMETERS).splitlines():
        name, colon, value = line.partition(":")
        if not colon or not name.isidentifier():
            raise FormatError(f"not a line `Name: value`: {line[:40]!r}")
        found[name] = value.strip().strip('"')
    if not found:
        raise FormatError("no parameters listed")
    return found


PEER_MAPPING = "PeerMappingOverride"


@fact
def registry_dwords(node: Node) -> Mapping[str, int]:
    """The keys of the resource manager that NVreg_RegistryDwords sets, for all devices or for one.

    `Name=number` joined by semicolons, spaces left out, numbers as strtoul with base 0 reads them. Source:
    kernel-open/nvidia/os-registry.c, os_registry_init().
    """
    found = {}
    given = driver_parameters(node)
    both = (given.get("RegistryDwordsPerDevice", ""), given.get("RegistryDwords", ""))
    for entry in ";".join(both).replace(" ", "").split(";"):
        name, equals, value = entry.partition("=")
        number = integer(value)
        if name and equals and number is not None:
            found[name] = number
    return found


@fact
def gpu_information(node: Node, address: str) -> Mapping[str, str]:
    """What the driver prints about one GPU: Model, IRQ, GPU UUID, Bus Location, GPU Firmware, GPU Excluded,
    ...

    Source: kernel-open/nvidia/nv-procfs.c, nv_procfs_read_gpu_info().
    """
    found = {}
    for line in node.text(f"proc/driver/nvidia/gpus/{address}/information").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip()] = value.strip()
    if "Model" not in found:
        raise FormatError("no line `Model:`")
    return found


def _word(text: str) -> str:
    words = text.split()
    if len(words) != 1:
        raise FormatError(f"expected one word, found {len(words)}")
    return words[0]
