"""Why a leg over the network is not direct, as far as the log shows it.

The order is NCCL's own: src/graph/paths.cc, ncclTopoCheckGdr(). A missing line does not prove anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from gdrkit.formats.regex import regex
from gdrkit.formats.whole_number import integer
from gdrkit.jobs.gather import GatheredRanks, JobProcess
from gdrkit.jobs.gpu_names import CONSUMER, OF_HARDWARE, left_by
from gdrkit.jobs.job import Leg, LegDirection, LegReason, LogPosition, Rank
from gdrkit.messages.verbs_failures import OPEN_DEVICE
from gdrkit.programs.aws_ofi_nccl.messages import NO_EFA, NO_GDR
from gdrkit.programs.nccl import log_records as nccl_records
from gdrkit.programs.nccl.messages import NO_IB_DEVICE, NO_NET_GDR, OF_ONE_NIC
from gdrkit.programs.nccl.network_messages import FAILED_STEPS
from gdrkit.programs.nccl.releases import release
from gdrkit.programs.nccl.settings import gdr_level, types_of_lines
from gdrkit.verdict.makers import needs_nvidia

_EC2 = regex(r"NET/OFI Running on \S{1,60} platform")
"""aws/aws-ofi-nccl src/platform-aws.cpp: of EC2 alone, by the type of the instance."""
_OVER_IP = regex(r"NET/OFI Selected [Pp]rovider is (tcp|sockets|udp)\b")
"""aws/aws-ofi-nccl src/nccl_ofi_ofiutils.cpp: without EFA, libfabric offers providers that copy."""
ITS_DEVICE = "\N{REPLACEMENT CHARACTER}"
"""Stands for the name of a device, in the text of reasons that differ in nothing else."""
LOCAL_ID = (1 << 56) - 1
"""The bits of an id that number a device within its host; those above are the host: src/graph/topo.h,
NCCL_TOPO_LOCAL_ID_MASK, since 2.21."""

ASK = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH"
OF_VERBS = ("IB", "UCX", "gIB")
"""How the names of networks begin that register memory with libibverbs: IB, IBext_v10, IBP, IB-CAST, ..."""
NO_GPU_SIDE = ("gpu-integrated", "gpu-consumer", "gpu-unsupported")
DISTANCES = ("pair-distant", "pair-cross-socket")
OF_NET_IB = frozenset((nccl_records.NetDevice, nccl_records.Hcas, nccl_records.GpuName))
"""Records of a process in a log that `grep NET/IB` left, beside its channels and names of GPUs."""
GPU_FIRST = ("gpu-unsupported", "gpu-consumer", "peermem-not-loaded")
MODULE_FIRST = ("peermem-not-loaded", "gpu-consumer", "gpu-unsupported")
"""Why releases up to 2.3 cannot register GPU memory: one refusal, which they word in two ways."""

UNTIL_2_5 = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Distances by their numbers up to 2.5, where the level is the first that is refused: src/include/topo.h of
2.4.2."""
DEFAULT = "PXB"
"""The level from 2.6 on, but P2C on coherent GPUs: src/graph/paths.cc, ncclTopoCheckGdr()."""
WITHIN_DEFAULT = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C")
"""Distances that the default level allows, of any release: a setting alone refuses these."""


def without_nvidia(codes: tuple[str, ...]) -> tuple[str, ...]:
    """The causes that a machine without a GPU of NVIDIA can have."""
    return tuple(code for code in codes if not needs_nvidia(code))


class ReasonFinder:
    """Finds the reasons for the legs of one job."""

    def __init__(self, gathered: GatheredRanks, version: str) -> None:
        self.gathered, self.version = gathered, version

    def of(self, rank: Rank, leg: Leg) -> tuple[LegReason, ...]:
        """All known reasons why a leg is not direct, certain ones first. Never empty."""
        process = self.gathered.processes[rank.process]
        if leg.carried is nccl_records.Carrier.SOCKET:
            found = list(self._socket(process, leg))
        else:
            found = [*self._settings(process, leg), *self._lines(process, rank, leg)]
        if not found:
            found = [self._not_printed(process, rank, leg)]
        found = [self._left(process, reason) for reason in found]
        return tuple(sorted(dict.fromkeys(found), key=lambda reason: not reason.sure))

    def _left(self, process: JobProcess, reason: LegReason) -> LegReason:
        """A reason with the causes that the GPUs have: those of AMD, or those that the log names."""
        if self.gathered.is_rccl:
            return replace(reason, codes=without_nvidia(reason.codes))
        products = self.gathered.products(process)
        codes = left_by(reason.codes, products)
        text = reason.text
        if codes != reason.codes and codes[0] in OF_HARDWARE:
            text = f"{text}; the log names {', '.join(sorted(products))}"
        return replace(reason, text=text, codes=codes)

    def refused(self, process: JobProcess) -> Iterator[LegReason]:
        """What lines refuse for a process, with or without a channel that shows the result."""
        for pair, entry in process.all(nccl_records.PairLine).items():
            if not pair.allowed:
                reason = self._refused(process, pair, self.gathered.where(entry.position))
                yield LegReason(
                    f"GPU {pair.gpu} and HCA {pair.hca}: {reason.text}", reason.codes, reason.line
                )
        yield from self.refused_devices(process)
        yield from self._without_device(process)

    def refused_devices(self, process: JobProcess) -> Iterator[LegReason]:
        """Why network devices of a process have no GPUDirect RDMA, regardless of the GPU."""
        alike: dict[tuple[str, tuple[str, ...]], tuple[LegReason, list[str]]] = {}
        for device, entry in process.all(nccl_records.NetDevice).items():
            if not device.enabled and device.network not in nccl_records.TCP:
                reason = self._no_nic_side(process, device, self.gathered.where(entry.position))
                reason = self._left(process, reason)
                text = re.sub(rf"(?<![\w.-]){re.escape(device.device)}(?![\w-])", ITS_DEVICE, reason.text)
                alike.setdefault((text, reason.codes), (reason, []))[1].append(device.device)
        for (text, _), (reason, some) in alike.items():
            yield replace(reason, text=text.replace(ITS_DEVICE, ", ".join(some)))
        for remark, entry in process.all(nccl_records.Remark).items():
            if remark.form == "ofi-without-gdr":
                yield LegReason(remark.text, NO_GDR, self.gathered.where(entry.position))

    # -- sockets -----------------------------------------------------------------------------------------

    def _socket(self, process: JobProcess, leg: Leg) -> Iterator[LegReason]:
        if leg.how:
            text = "a topology file states support for the socket, but TCP has no direct path"
            yield LegReason(text)
        for name, off in (("NCCL_IB_DISABLE", not_zero), ("NCCL_NET", _is_socket)):
            value, position = self.variable(process, name)
            if value is not None and off(value):
                yield LegReason(f"{name}={value} keeps NCCL from RDMA", ("ib-disabled-by-env",), position)
        networks = process.all(nccl_records.Network).items()
        devices = process.all(nccl_records.NetDevice).items()
        named = [(one.name, entry) for one, entry in networks]
        named += [(one.network, entry) for one, entry in devices]
        for name, entry in named:
            if name == nccl_records.FAST_SOCKET:
                text = f"the plugin {name} sends over TCP, which has no direct path"
                yield LegReason(text, ("net-plugin-replaced",), self.gathered.where(entry.position))
                return
        yield from self._without_device(process)

    def _without_device(self, process: JobProcess) -> Iterator[LegReason]:
        """Why a process finds no RDMA device."""
        for no_verbs, entry in process.all(nccl_records.VerbsUnavailable).items():
            # dlopen() fails by the library alone, whatever devices there are: src/misc/ibvsymbols.cc
            yield LegReason(no_verbs.text, ("verbs-library-missing",), self.gathered.where(entry.position))
        for failure, entry in process.all(nccl_records.Failure).items():
            if failure.call == OPEN_DEVICE:  # which is why it finds none
                text = f"NCCL cannot open {failure.device}"
                yield LegReason(text, FAILED_STEPS[OPEN_DEVICE].causes, self.gathered.where(entry.position))
                return
        no_device = process.all(nccl_records.NoIbDevice)
        if no_device and (efa := list(self._without_efa(process))):
            yield from efa
            return
        for entry in no_device.values():
            chosen, _ = self.variable(process, "NCCL_IB_HCA")
            # a setting need not be printed: NCCL_DEBUG_SUBSYS may leave ENV out
            causes = (NO_IB_DEVICE[-1], *NO_IB_DEVICE[:-1]) if chosen else NO_IB_DEVICE
            text = "NET/IB finds no device" + (f" with NCCL_IB_HCA={chosen}" if chosen else "")
            yield LegReason(text, causes, self.gathered.where(entry.position))

    def _without_efa(self, process: JobProcess) -> Iterator[LegReason]:
        """Why a process on EC2 finds no EFA: NET/IB takes none, so that its own reasons do not apply."""
        printed = [one.text for one in process.all(nccl_records.Plugin)]
        if not printed and self.gathered.tally.failures.efa:
            remarks = process.all(nccl_records.Remark).items()
            missing = [entry for remark, entry in remarks if remark.form == "no-plugin"]
            entry = (*missing, *process.all(nccl_records.NoIbDevice).values())[0]
            text = "NCCL loads no aws-ofi-nccl (libnccl-net.so), and its own code does not use EFA"
            # a log without the line about the plugin may lack those of the plugin, too
            codes = ("nccl-skips-efa", *(() if missing else NO_EFA))
            yield LegReason(text, codes, self.gathered.where(entry.position))
        if not any(map(_EC2.search, printed)):
            return
        for warned, entry in process.all(nccl_records.Warned).items():
            if "no-efa-device" in warned.causes:
                text = "aws-ofi-nccl finds no EFA on this EC2 instance, and NET/IB no device"
                yield LegReason(text, warned.causes, self.gathered.where(entry.position))
                return

    # -- settings ----------------------------------------------------------------------------------------

    def variable(self, process: JobProcess, name: str) -> tuple[str | None, LogPosition | UnsetType]:
        """The value and position of a variable: of a process, or given in text around NCCL's lines."""
        found = process.variable(name) or self.gathered.around.variable(name)
        return (None, UNSET) if found is None else (found[0], self.gathered.where(found[1]))

    def _settings(self, process: JobProcess, leg: Leg) -> Iterator[LegReason]:
        value, position = self.variable(process, "NCCL_NET_GDR_LEVEL")
        if value is not None and gdr_level(value, self.version) == "LOC":
            text = f"NCCL_NET_GDR_LEVEL={value} allows no distance"
            yield LegReason(text, ("gdr-level-too-low",), position)
        value, position = self.variable(process, "NCCL_NET_GDR_READ")
        if leg.direction is LegDirection.SEND and value is not None and integer(value) == 0:
            yield LegReason(
                "NCCL_NET_GDR_READ=0 keeps NICs from reading GPU memory", ("gdr-read-off",), position
            )

    # -- lines about pairs and devices -------------------------------------------------------------------

    def _lines(self, process: JobProcess, rank: Rank, leg: Leg) -> Iterator[LegReason]:
        for pair, entry in process.all(nccl_records.PairLine).items():
            if not pair.allowed and self._is(pair, rank, leg):
                yield self._refused(process, pair, self.gathered.where(entry.position))
        for device, entry in process.all(nccl_records.NetDevice).items():
            refused = not device.enabled and device.network not in nccl_records.TCP
            if refused and _is_leg_of(process, device, leg):
                yield self._no_nic_side(process, device, self.gathered.where(entry.position))
        for remark, entry in process.all(nccl_records.Remark).items():
            if remark.form == "ofi-without-gdr":
                yield LegReason(remark.text, NO_GDR, self.gathered.where(entry.position))
        for plugin, entry in process.all(nccl_records.Plugin).items():
            if provider := _OVER_IP.match(plugin.text):
                text = f"libfabric finds no EFA device: its provider is {provider[1]}, over the kernel"
                yield LegReason(text, NO_EFA, self.gathered.where(entry.position))

    def _is(self, pair: nccl_records.PairLine, rank: Rank, leg: Leg) -> bool:
        """Whether a line about a pair is about this GPU, device and direction.

        A GPU is a bus id up to 2.23, then a rank; a device is an index up to 2.20, then an id."""
        gpu = pair.gpu in (rank.gpu, str(rank.rank)) or self._means_any(pair, rank)
        return gpu and _is_at(pair, leg)

    def _means_any(self, pair: nccl_records.PairLine, rank: Rank) -> bool:
        """Whether a line names its GPU by the bus id, which no line gives for the rank's GPU, and all lines
        about this NIC say the same of every GPU: so they do of the rank's."""
        if not _is_bus_id(pair.gpu) or _is_bus_id(rank.gpu):
            return False
        others = self.gathered.processes[rank.process].all(nccl_records.PairLine)
        return all(replace(one, gpu=pair.gpu) == pair for one in others if one.hca == pair.hca)

    def _refused(self, process: JobProcess, pair: nccl_records.PairLine, position: LogPosition) -> LegReason:
        if pair.distance is None:
            words = "the pair is refused, and the line shows no distance"
        else:
            words = f"distance {pair.distance} exceeds level {pair.level}"
        kinds, levels = self._types(process, pair)
        by_default = () if kinds else self._types(process, pair, default=True)[0]
        if kinds and levels:
            words += f": {' or '.join(kinds)}, but {' or '.join(levels)} is the farthest allowed"
        elif by_default:
            words += f": {' or '.join(by_default)}, if the level is NCCL's default"
        elif pair.distance is not None:
            words += " (the meaning of the numbers depends on the version, which the log does not show)"
        is_set = self.variable(process, "NCCL_NET_GDR_LEVEL")[0] is not None
        if is_set and (not kinds or any(kind in WITHIN_DEFAULT for kind in kinds)):
            return LegReason(words, ("gdr-level-too-low",), position)
        if kinds == ("SYS",):
            return LegReason(words, ("pair-cross-socket",), position)
        if kinds and "SYS" not in kinds:
            return LegReason(words, ("pair-distant",), position)
        codes = DISTANCES[::-1] if by_default == ("SYS",) else DISTANCES
        return LegReason(words, codes, position)

    def _types(
        self, process: JobProcess, pair: nccl_records.PairLine, *, default: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The path types that a line's distance and level can mean; () if too much is open.

        Without a version the level decides, if NCCL printed its name: it gave this number to it. `default`:
        as if it had printed that of its default."""
        if pair.distance is None or pair.level is None:
            return (), ()
        if pair.excludes and max(pair.distance, pair.level - 1) < len(UNTIL_2_5):
            return (UNTIL_2_5[pair.distance],), UNTIL_2_5[max(0, pair.level - 1) : pair.level]
        set_level = process.variable("NCCL_NET_GDR_LEVEL", resolved=True)
        name = set_level[0] if set_level else DEFAULT * default
        if not self.version and not name:
            return (), ()
        tables = types_of_lines(self.version, name, pair.level, modes=bool(pair.mode))
        found = [
            (types[pair.distance], types[pair.level])
            for types in tables
            if max(pair.distance, pair.level) < len(types)
        ]
        kinds, levels = (tuple(dict.fromkeys(one[i] for one in found)) for i in (0, 1))
        return kinds, levels

    def _no_nic_side(
        self, process: JobProcess, device: nccl_records.NetDevice, position: LogPosition
    ) -> LegReason:
        if not device.network.startswith(OF_VERBS):
            text = f"the plugin of {device.network} reports no GPUDirect RDMA for {device.device}"
            return LegReason(text, NO_GDR if "Libfabric" in device.network else (), position)
        if device.index == nccl_records.NO_INDEX:
            text = f"NCCL could not register GPU memory with {device.device} ({device.how})"
            of_gpu = device.how.startswith("not supported")
            return LegReason(text, GPU_FIRST if of_gpu else MODULE_FIRST, position)
        value, set_at = self.variable(process, "NCCL_DMABUF_ENABLE")
        if value is not None and integer(value) == 0:
            text = f"NCCL_DMABUF_ENABLE={value}, and NCCL does not find nvidia-peermem for {device.device}"
            return LegReason(text, ("dmabuf-disabled-by-env", "peermem-not-loaded"), set_at)
        if self.gathered.is_rccl:
            return LegReason(f"RCCL reports no GPUDirect RDMA for {device.device}", (), position)
        known = release(self.version)
        excluded = {"nccl-misses-peermem" if known.sees_module else "", "nccl-lacks-dmabuf"}
        causes = tuple(code for code in NO_NET_GDR if not self.version or code not in excluded)
        text = f"NCCL finds neither nvidia-peermem nor dma-buf for {device.device}"
        if device.no_module or (self.version and not known.has_dmabuf):
            causes = ("nccl-misses-peermem", "nccl-lacks-dmabuf", "peermem-not-loaded")
            nccl = f"NCCL {self.version or 'of this release'}"
            text = f"{nccl} has no dma-buf and does not find nvidia-peermem for {device.device}"
        elif works := self._another_works(process, device):
            causes = OF_ONE_NIC
            text = f"NCCL finds GPUDirect RDMA for {works}, and not for {device.device}"
        return LegReason(text, causes, position)

    def _another_works(self, process: JobProcess, device: nccl_records.NetDevice) -> str:
        """A NIC of the same process that has GPUDirect RDMA; "" if none is known to have it."""
        others = process.all(nccl_records.NetDevice)
        return next((one.device for one in others if one.enabled and one.network == device.network), "")

    # -- reasons that are not printed --------------------------------------------------------------------

    def _not_printed(self, process: JobProcess, rank: Rank, leg: Leg) -> LegReason:
        if leg.carried is nccl_records.Carrier.SOCKET:
            return LegReason("the log does not show why NCCL uses the socket")
        other = next(
            (r for r in rank.legs if r.direction != leg.direction and r.index == leg.index and r.how),
            None,
        )
        if leg.direction is LegDirection.SEND and other is not None:
            old = self.version and release(self.version).reads_need_nvlink
            if old:
                which = "without NVLink"
            elif self.version:
                which = "older than Ampere"
            else:
                which = "older than Ampere, or without NVLink up to NCCL 2.18"
            text = f"receiving is direct: NCCL does not let NICs read the memory of a GPU {which}"
            return LegReason(text, (), other.line)
        devices = process.all(nccl_records.NetDevice).items()
        enabled = [entry for device, entry in devices if device.index == leg.index and device.enabled]
        if enabled:
            silent = release(self.version).silent_pairs
            rest = "this version does not print the distance" if silent else "no line refuses the distance"
            text = f"the NIC's side is enabled, and {rest}: the GPU's side is not known"
            if process.records and process.records.keys() <= OF_NET_IB:
                text = "the NIC's side is enabled, and the log has NET/IB lines alone, none of the distance"
                return LegReason(text, (*DISTANCES, *NO_GPU_SIDE), self.gathered.where(enabled[0].position))
            return LegReason(text, NO_GPU_SIDE, self.gathered.where(enabled[0].position))
        named = left_by(NO_GPU_SIDE, self.gathered.products(process))
        text = f"the log does not show why: it has no NET lines about it ({ASK})"
        return LegReason(text, named if named[:1] == (CONSUMER,) else ())


def _is_at(pair: nccl_records.PairLine, leg: Leg) -> bool:
    """Whether a line about a pair is about the NIC and the direction of a leg."""
    if pair.read is not None and pair.read != (leg.direction is LegDirection.SEND):
        return False
    number = int(pair.hca.rpartition("-")[2], 16)
    return leg.index in (number, number & LOCAL_ID)


BUS_ID_DIGITS = 4
"""The fewest digits of a bus id without colons: b000 is 0000:0b:00.0. Source: src/misc/utils.cc,
int64ToBusId()."""


def _is_bus_id(gpu: str) -> bool:
    return len(gpu) >= BUS_ID_DIGITS


def _is_leg_of(process: JobProcess, device: nccl_records.NetDevice, leg: Leg) -> bool:
    """Whether a leg uses a device. A lone name without an index fits a leg without a name."""
    if device.index != nccl_records.NO_INDEX:
        return device.index == leg.index
    return leg.device == device.device if leg.device else len(process.all(nccl_records.NetDevice)) == 1


def not_zero(value: str) -> bool:
    return integer(value) not in (None, 0)


def _is_socket(value: str) -> bool:
    return value.lower() == "socket"
