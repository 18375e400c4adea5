"""What the checks of RAS show about the nodes of a job: GPUs, drivers, IOMMU, ACS, kernel logs.

Source: NCCL src/ras/diagnostics_{gpu,pci,xid,paths,net}.cc. On x86 GPU and NIC are in different IOMMU groups
wherever ACS isolates the ports above them, with and without translation; only a PCIe mapping of a coherent
GPU fails for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from gdrkit.formats.rdma_topo_check import faults, read_checks
from gdrkit.formats.regex import regex
from gdrkit.programs.nccl.diagnostic_records import RANKS, rank_set
from gdrkit.programs.nccl.diagnostic_statements import CheckLine, Effect, HostNames, Statement

COHERENT = regex(r"\bG[HBR]\d{3}\b")
"""Names of GPUs with NVLink-C2C: GH200, GB200, GB300."""

GPUS, GROUPS, MODE, ATS = "GPU inventory", "IOMMU groups", "IOMMU mode", "ATS state"
TOPOLOGY, PATHS, NET_DEVICE = "rdma_topo check", "Paths", "Net device"
VERSIONS = ("CUDA driver version", "NVIDIA graphics driver version")


_INVENTORY = regex(r"(?P<words>(?:(?P<count>\d{1,3})x )?(?P<name>.{1,80}?)) per node consistent")


class NodeGpus(Struct, frozen=True):
    """The GPUs of each node."""

    words: str  # 8x NVIDIA H100 80GB HBM3; "" if they differ, or no line shows them
    per_node: int | None
    coherent: bool | None  # None: not known


def gpus_of(lines: Iterable[CheckLine]) -> NodeGpus:
    """The GPUs of each node, as the inventory shows them."""
    for line in lines:
        if line.record.check == GPUS:
            found = _INVENTORY.match(line.record.text)
            if found is not None:
                count = int(found["count"]) if found["count"] else None
                return NodeGpus(found["words"], count, COHERENT.search(found["name"]) is not None)
    return NodeGpus("", None, None)


QUOTED = 240
AGAIN = "ask again, with a longer timeout: `timeout 30`, then `diagnostics`, on the port of RAS"
_INCOMPLETE = regex(r"diagnostics incomplete, gathered|^incomplete for comm")


def node_checks(lines: list[CheckLine], names: HostNames, gpus: NodeGpus) -> Iterator[Statement]:
    """Statements about the nodes, from the checks of RAS."""
    reader = _NodeChecks(names, gpus)
    for line in lines:
        read = reader.readers.get(line.record.check)
        if read is None and "Xid" in line.record.check:
            read = reader.xid
        if "incomplete" in line.record.text and _INCOMPLETE.search(line.record.text):
            yield reader.made(Effect.OPEN, line, line.record.text[:QUOTED], todo=AGAIN)
        elif read is not None:
            yield from read(line)


_FIRST = regex(
    r"first rank (?P<rank>\d{1,7})(?: device (?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.\d))?"
)


ATS_DETAILS = ("ATSCtl", "PCIe capabilities inaccessible", "lspci", "network device selection")
"""Beginnings of the lines that repeat one before them, for single ranks."""


class _NodeChecks:
    """Reads the checks of one report."""

    def __init__(self, names: HostNames, gpus: NodeGpus) -> None:
        self.names, self.gpus = names, gpus
        self.readers: dict[str, Callable[[CheckLine], Iterator[Statement]]] = {
            MODE: self.iommu_mode, GROUPS: self.iommu_groups, ATS: self.ats, TOPOLOGY: self.rdma_topo,
            GPUS: self.gpu_inventory, "ECC": self.health, "NVLink": self.nvlink, PATHS: self.paths,
            "Xid/SXid": self.kernel_log, NET_DEVICE: self.net_device,
            **dict.fromkeys(VERSIONS, self.version),
        }  # fmt: skip

    def made(
        self, effect: Effect, line: CheckLine, text: str, codes: tuple[str, ...] = (), *,
        ranks: tuple[int, ...] = (), host: str = "", todo: str = "",
    ) -> Statement:  # fmt: skip
        if not host and ranks:
            hosts = {self.names.of(line.record.communicator, rank) for rank in ranks}
            host = hosts.pop() if len(hosts) == 1 else ""
        return Statement(
            effect=effect, check=line.record.check, text=text, line=line.line, codes=codes, ranks=ranks,
            host=host, todo=todo,
        )  # fmt: skip

    def _where(self, line: CheckLine, rank: int) -> str:
        """A rank and, as far as known, its host."""
        host = self.names.of(line.record.communicator, rank)
        if host:
            return f"rank {rank} ({host})"
        other = self.names.other_host()
        if other and self.gpus.per_node and rank >= self.gpus.per_node:
            return f"rank {rank} (likely {other}: {self.names.printing[0]} printed the report)"
        return f"rank {rank}"

    # -- IOMMU -------------------------------------------------------------------------------------------

    def iommu_mode(self, line: CheckLine) -> Iterator[Statement]:
        text = line.record.text
        found = re.match(
            r"(?P<mode>disabled|passthrough|enabled \(DMA remapping\)|unavailable) (?:for|on) "
            r"(?P<count>\d{1,7}) (?:relevant )?device\(s\)", text,
        )  # fmt: skip
        if found is None:
            if text.startswith(("unable", "incomplete", "unavailable")):
                yield self.made(Effect.OPEN, line, f"the IOMMU's mode is not known: {text[:QUOTED]}")
            return
        first = _FIRST.search(text)
        ranks = (int(first["rank"]),) if first else ()
        device = f" device {first['device']}" if first and first["device"] else ""
        at = f", first {self._where(line, ranks[0])}{device}" if ranks else ""
        count = found["count"]
        if found["mode"].startswith("enabled"):
            normal = f"; normal on {'Grace' if self.gpus.coherent else 'a host that passes GPUs to VMs'}"
            words = f"the IOMMU translates the addresses of {count} GPUs and NICs{at}{normal}"
            yield self.made(
                Effect.POSSIBLE, line, words, ("iommu-translating",), ranks=ranks,
                todo="run gdr doctor on that host: it reads the IOMMU's mode and what translates",
            )  # fmt: skip
        elif found["mode"] == "unavailable":
            yield self.made(Effect.OPEN, line, f"the IOMMU's mode is not readable for {count} devices{at}")
        elif line.record.ok:
            mode = "off" if found["mode"] == "disabled" else "in passthrough mode"
            words = f"the IOMMU is {mode} for all {count} GPUs and NICs: it translates nothing"
            yield self.made(Effect.EXCLUDED, line, words, ("iommu-translating",))
        else:
            other = "off" if found["mode"] == "disabled" else "in passthrough mode"
            words = f"the IOMMU is {other} for {count} devices{at}: hosts differ, or not all were read"
            yield self.made(Effect.NOTE, line, words, ranks=ranks)

    def iommu_groups(self, line: CheckLine) -> Iterator[Statement]:
        text = line.record.text
        found = re.match(r"GPU and NIC groups differ on (?P<count>\d{1,7}) pair\(s\)", text)
        first = _FIRST.search(text)
        ranks = (int(first["rank"]),) if first else ()
        if found is None:
            if "unavailable" in text:
                yield self.made(Effect.OPEN, line, f"IOMMU groups are not readable: {text[:QUOTED]}")
            elif "groups match" in text and self.gpus.coherent and line.record.ok:
                words = "each GPU is in the IOMMU group of its NIC"
                yield self.made(Effect.EXCLUDED, line, words, ("iommu-groups-differ",))
            return
        where = f"{found['count']} pairs of GPU and NIC are in different IOMMU groups"
        where += f", first {self._where(line, ranks[0])}" if ranks else ""
        if self.gpus.coherent:
            words = f"{where}: a PCIe mapping of a coherent GPU then fails"
            yield self.made(Effect.POSSIBLE, line, words, ("iommu-groups-differ",), ranks=ranks)
        else:
            unless = "" if self.gpus.coherent is False else " unless the GPUs are coherent (Grace)"
            words = (
                f"{where}: no cause by itself{unless}; under one switch it shows that ACS isolates the "
                "ports, and lspci as root shows whether ACS redirects them"
            )
            todo = "sudo lspci -vvv, or gdr doctor as root"
            yield self.made(Effect.OPEN, line, words, ("acs-redirect",), ranks=ranks, todo=todo)

    def ats(self, line: CheckLine) -> Iterator[Statement]:
        """ATS matters only with a translating IOMMU, and is off on most x86 machines."""
        text = line.record.text
        if text.startswith(ATS_DETAILS):
            return
        if text.startswith(("disabled", "enabled")):
            yield self.made(Effect.NOTE, line, f"ATS is {text.split()[0]}: no cause by itself")
        else:
            yield self.made(Effect.OPEN, line, f"ATS is not readable ({_cut(text)}): no cause by itself")

    # -- rdma_topo ---------------------------------------------------------------------------------------

    def rdma_topo(self, line: CheckLine) -> Iterator[Statement]:
        text = line.record.text
        if text.startswith("passed"):
            words = f"rdma_topo {_cut(text)}: ACS and IOMMU groups are as its layout needs"
            codes = ("iommu-groups-differ",) if line.record.ok else ()
            yield self.made(Effect.EXCLUDED if line.record.ok else Effect.NOTE, line, words, codes)
        elif failed := re.match(
            rf"failed on rank\(s\) (?P<ranks>{RANKS}) across .*?; first rank (?P<first>\d{{1,7}}) exit "
            r"\d{1,3}: (?P<sample>.{1,255})", text,
        ):  # fmt: skip
            yield self._topology_fault(line, failed["ranks"], int(failed["first"]), failed["sample"])
        elif text.startswith("not usable"):
            yield self.made(Effect.OPEN, line, _not_usable(text))

    def _topology_fault(self, line: CheckLine, shown: str, first: int, sample: str) -> Statement:
        found = rank_set(shown)
        ranks = found.shown if found else (first,)
        where = f"on {found or 'some ranks'}, first {self._where(line, first)}"
        fault = " ".join(sample.split())
        words = f"rdma_topo reports {where}: {fault} (only the first fault of the first rank)"
        for one in faults(read_checks(((line.line, sample),))):
            if one.codes:
                effect = Effect.CAUSE if len(one.codes) == 1 else Effect.POSSIBLE
                todo = "`rdma_topo check` on those hosts shows every fault; only a boot changes groups"
                return self.made(effect, line, words, one.codes, ranks=ranks, todo=todo)
        return self.made(Effect.FAULT, line, words, ranks=ranks, todo="`rdma_topo check` on those hosts")

    # -- GPUs, drivers and kernel logs -------------------------------------------------------------------

    def gpu_inventory(self, line: CheckLine) -> Iterator[Statement]:
        found = re.match(r"(?P<what>count|model) mismatch", line.record.text)
        if found is not None:
            codes = ("gpu-missing", "expected-gpu-missing") if found["what"] == "count" else ()
            effect = Effect.POSSIBLE if codes else Effect.FAULT
            ranks, words = _differing_ranks(line.record.text)
            text = f"nodes have different {'numbers' if codes else 'models'} of GPUs: {words}"
            yield self.made(effect, line, text, codes, ranks=ranks)

    def version(self, line: CheckLine) -> Iterator[Statement]:
        text = line.record.text
        what = "NVIDIA driver" if line.record.check.startswith("NVIDIA") else "CUDA driver"
        if text.startswith("mismatch"):
            ranks, words = _differing_ranks(text)
            note = "; the same CUDA driver does not mean the same NVIDIA driver"
            yield self.made(
                Effect.FAULT, line, f"hosts have different versions of the {what}: {words}{note}",
                ranks=ranks, todo="install one driver on all hosts; the version of NCCL is another matter",
            )  # fmt: skip
        elif not line.record.ok:
            yield self.made(Effect.OPEN, line, f"the version of the {what} is not readable: {_cut(text)}")

    def health(self, line: CheckLine) -> Iterator[Statement]:
        if "volatile errors on rank" in line.record.text or "at or above threshold" in line.record.text:
            yield self.made(Effect.FAULT, line, f"GPU memory: {line.record.text[:QUOTED]}")

    def nvlink(self, line: CheckLine) -> Iterator[Statement]:
        if not line.record.ok:
            words = f"NVLink inside a host, not the network: {line.record.text[:QUOTED]}"
            yield self.made(Effect.FAULT, line, words, ranks=_ranks(line.record.text))

    def paths(self, line: CheckLine) -> Iterator[Statement]:
        text = line.record.text
        if not line.record.ok:
            yield self.made(Effect.FAULT, line, f"paths between GPUs, not to NICs: {text[:QUOTED]}")
        elif "NET" not in text.partition(" across")[0]:
            yield self.made(Effect.NOTE, line, "no pair of GPUs uses the network")

    def xid(self, line: CheckLine) -> Iterator[Statement]:
        """An error of the driver. OK: it needs no action."""
        found = re.search(r"on host (?P<host>[\w.-]{1,255}?)\.?(?:\s|$)", line.record.text)
        times = re.match(r"(?P<times>(?:at least )?\d{1,10} times?)", line.record.text)
        host = found["host"] if found else ""
        count = f" {times['times']}" if times else ""
        words = f"{line.record.check.removesuffix(' detected')}{count} on {host or 'a host'}"
        effect = Effect.NOTE if line.record.ok else Effect.FAULT
        todo = "" if line.record.ok else f"look at the kernel log of {host or 'that host'}: NVRM: Xid"
        yield self.made(effect, line, f"{words}; the line does not name the GPU", host=host, todo=todo)

    def kernel_log(self, line: CheckLine) -> Iterator[Statement]:
        found = re.match(
            r"(?P<what>no kernel-log source|recent-event scan).* on host (?P<host>\S{1,255})",
            line.record.text,
        )
        if found is not None:
            words = f"Xid errors are not known for {found['host']}: {_cut(line.record.text)}"
            yield self.made(Effect.OPEN, line, words, host=found["host"])

    def net_device(self, line: CheckLine) -> Iterator[Statement]:
        """A check of a release after 2.32.3, of which only the source is known."""
        text = line.record.text
        name = text.partition(": ")[0][:64]
        if "(port is not active)" in text:
            words, todo = f"the port of {name} is not active", "`ibstat` on that host; then cable and switch"
            yield self.made(Effect.CAUSE, line, words, ("port-down",), todo=todo)
        elif " differ from rank " in text:
            words = f"{name} differs between hosts: {_cut(text.partition(': ')[2])}"
            codes = ("port-down", "data-direct-missing", "expected-rail-differs")
            yield self.made(Effect.POSSIBLE, line, words, codes, ranks=_ranks(text))
        elif "reported on only" in text:
            words = f"{name} is missing on some hosts: {_cut(text.partition(': ')[2])}"
            yield self.made(Effect.POSSIBLE, line, words, ("nic-missing", "hca-not-selected", "port-down"))
        elif ", Data Direct" in text:
            yield self.made(Effect.NOTE, line, f"NCCL uses {name} through its Data Direct function")


def _not_usable(text: str) -> str:
    state = re.search(r"\((?P<state>[\w ]{1,40})\)\s*$", text)
    reasons = {
        "not applicable": "no machine has a layout that rdma_topo judges, as on every HGX",
        "unavailable": "the tool is missing in the containers, or did not answer",
        "needs root": "the tool needs root",
        "inconclusive": "its output is longer than NCCL reads",
    }
    words = state["state"] if state else "mixed results"
    return f"rdma_topo was not usable ({words}): {reasons.get(words, 'it gave no result')}"


def _differing_ranks(text: str) -> tuple[tuple[int, ...], str]:
    """The ranks of a mismatch, and how they differ from the rank that NCCL compares with."""
    found = re.search(
        rf"rank\(s\) (?P<ranks>{RANKS}) differ from rank (?P<first>\d{{1,7}}) \((?P<value>.{{1,80}})\)", text
    )
    ranks = rank_set(found["ranks"]) if found else None
    if found is None or ranks is None:
        return (), _cut(text)
    return ranks.shown, f"{ranks} differ from rank {found['first']} ({found['value']})"


def _ranks(text: str) -> tuple[int, ...]:
    found = re.search(RANKS, text)
    ranks = rank_set(found[0]) if found else None
    return ranks.shown if ranks else ()


def _cut(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= QUOTED else words[:QUOTED] + "..."
