"""What listings show: ports in `ibstat` and the like, GIDs in `show_gids`, limits, settings.

A listing may leave devices out, so it decides nothing alone: it opens a cause where everything that it shows
is down, or far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gdrkit.catalogue import every_consumer
from gdrkit.explain.explanation import SET, STATE
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.rdma_files import asked_device, rdma_files
from gdrkit.explain.outputs.settings import settings
from gdrkit.facts.gpu import VGPU_NAME
from gdrkit.formats.regex import regex
from gdrkit.messages import registration
from gdrkit.programs.setting_codes import OF_MNNVL, codes_of

MAY_SHOW = ("machine", "shown", "prose")
"""Kinds of lines that a matrix can have: it is often pasted without a command or a code block."""


class Reading(Struct, frozen=True):
    """What a listing shows, and the line that shows it."""

    line: TextLine
    position: int  # index of the line among those of its machine
    codes: tuple[str, ...]
    note: str
    decides: bool = False  # it proves its only cause, however much the text leaves out


def readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """Listings with every port down, GPUs without a near NIC, GPUs named as vGPUs, a GID index that a job
    sets and a NIC lacks, and the settings of a job."""
    yield from _ports(lines)
    yield from _gid_indices(lines)
    yield from _empty_gids(lines)
    yield from _vgpus(lines)
    yield from _limits(lines)
    yield from _configured(lines)
    yield from _transports(lines)
    yield from _switched_off(lines)


# -- ports -----------------------------------------------------------------------------------------------


LINE_CHARACTERS = 400
"""How much of a line is searched for a port: a row that names one is short."""


UNNAMED = "an unnamed device"
"""The device of a port's state where neither the output nor its command names one: it may be any."""


class PortState(Struct, frozen=True):
    """The state of a port, as a listing names it."""

    device: str
    state: str  # active, down, init, armed, polling
    position: int


def port_states(lines: Sequence[TextLine]) -> Iterator[PortState]:
    """The ports that ibstat, ibstatus, ibv_devinfo, ibdev2netdev, `rdma link` and grep in sysfs list, and
    the interfaces of RDMA NICs that `ip link`, ifconfig and ethtool list: one that is up without RUNNING, or
    LOWER_UP, has no link.

    Sources: infiniband-diags ibstat.c, ibstatus; rdma-core libibverbs/examples/devinfo.c; MLNX_OFED's
    ibdev2netdev; iproute2 rdma/link.c, ip/ipaddress.c; net-tools lib/interface.c; names of interfaces:
    systemd.net-naming-scheme(7), whose np0 is a port of mlx5 or bnxt_en."""
    device, typed_at = "", 0
    for position, line in enumerate(lines):
        if line.typed_at not in (0, typed_at):
            (device, _), typed_at = asked_device(line.command), line.typed_at
        if found := _PATTERNS["interface"].match(line.text):
            linked = found["flags"] == "UP" or {"RUNNING", "LOWER_UP"} & set(found["flags"].split(","))
            yield PortState(found["netdev"], "active" if linked else "down", position)
        if line.kind not in EVIDENCE:
            continue
        if found := _PATTERNS["device"].match(line.text):
            device = found["old"] or found["new"] or found["verbs"] or found["settings"]
        elif found := _PATTERNS["one_line"].search(line.text, 0, LINE_CHARACTERS):
            state = found["state"] or found["netdev"] or found["link"] or found["shown"]
            yield PortState(found["name"] or found["linked"] or found["file"], _word(state), position)
        elif (found := _PATTERNS["state"].match(line.text)) and (device or _is_of_port(lines, position)):
            yield PortState(device or UNNAMED, _word(found["state"] or found["detected"]), position)


def _is_of_port(lines: Sequence[TextLine], position: int) -> bool:
    """Whether a state without its device is of a port of RDMA: a line beside it has another field of one."""
    beside = lines[max(position - 1, 0) : position + 2]
    return any(_PATTERNS["beside"].match(line.text) for line in beside)


def _word(state: str) -> str:
    word = state.lower().removeprefix("port_")
    return {"up": "active", "yes": "active", "no": "down", "initializing": "init"}.get(word, word)


def _ports(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    states = tuple(port_states(lines))
    if not states or any(port.state == "active" for port in states):
        yield from _flapping(lines)
        return
    first = states[0]
    names = ", ".join(dict.fromkeys(f"{port.device} ({port.state})" for port in states))
    note = f"no port that is shown is up: {names}"
    yield Reading(lines[first.position], first.position, ("port-down",), note)


def _flapping(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """Ports that one listing shows as down and a later one as active."""
    positions = {line.number: position for position, line in enumerate(lines)}
    down: dict[str, int] = {}
    for shown in rdma_files(line for line in lines if line.kind in EVIDENCE):
        if not shown.path.endswith("/state"):
            continue
        if not shown.content.endswith("ACTIVE"):
            down.setdefault(shown.path, shown.line)
        elif (number := down.pop(shown.path, 0)) in positions:
            device = shown.path.split("/")[3]
            note = f"{device} was down, and is active in line {shown.line}: its link may be flapping"
            yield Reading(lines[positions[number]], positions[number], ("port-down",), note)


# -- addresses -------------------------------------------------------------------------------------------


def _gid_indices(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """The index that a job sets, where a NIC's listed GIDs lack it, or have an address there that is of one
    link alone (fe80::/10, RFC 4291, 2.5.6) beside one that is not, or of RoCE v1 beside one of v2."""
    listed = _listed_gids(lines)
    wanted = _gid_index(lines) if listed else None
    if wanted is None:
        return
    index, line = wanted
    for device, gids in listed.items():
        routed = [number for number, gid in gids.items() if gid.is_v2 and not gid.is_link_local]
        have = routed or [number for number, gid in gids.items() if gid.is_v2]
        gid = gids.get(index)
        if have and (gid is None or (routed and gid.is_link_local) or not gid.is_v2):
            numbers = ", ".join(map(str, have))
            note = f"the RoCE v2 addresses of {device} have index {numbers}, and the job asks for {index}"
            if gid is not None:
                # hosts of one subnet that all use RoCE v1 reach each other
                note = f"{note}, the address of its link alone" if gid.is_v2 else STATE
            yield Reading(line, lines.index(line), ("gid-index-wrong",), note)
            return


class ListedGid(Struct, frozen=True):
    """An address of a port, as a listing shows it."""

    is_v2: bool
    is_link_local: bool


def _listed_gids(lines: tuple[TextLine, ...]) -> Mapping[str, Mapping[int, ListedGid]]:
    """The GIDs of each device by index: rows of show_gids and, of the device named before them, of
    `ibv_devinfo -v`."""
    listed: dict[str, dict[int, ListedGid]] = {}
    device = ""
    for line in lines:
        if line.kind == "typed":
            device, _ = asked_device(line.text)
        elif line.kind in EVIDENCE and (title := _PATTERNS["hca_id"].match(line.text)):
            device = title[1]
        elif line.kind in EVIDENCE and (found := _PATTERNS["gid"].match(line.text)):
            name, index = found["device"] or device, int(found["index"] or found["number"])
            gid = ListedGid(found["version"] == "v2", (found["gid"] or found["printed"]).startswith("fe8"))
            listed.setdefault(name, {})[index] = gid
    listed.pop("", None)
    return listed


def _empty_gids(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """An empty GID that perftest read at its index, where it then cannot connect."""
    if any(line.kind in MAY_SHOW and _PATTERNS["not_connected"].match(line.text) for line in lines):
        for position, line in enumerate(lines):
            if line.kind in EVIDENCE and _PATTERNS["empty_gid"].fullmatch(line.text):
                yield Reading(line, position, ("gid-index-wrong",), "the index that was used has no GID")
                return


GID_INDEX, MOST_DIGITS = "NCCL_IB_GID_INDEX", 4


def _gid_index(lines: tuple[TextLine, ...]) -> tuple[int, TextLine] | None:
    """The value of NCCL_IB_GID_INDEX, and the line that sets or prints it; None if none does."""
    given = settings(lines)
    for line in lines:
        for name, value in given.get(line.number, ()):
            if name == GID_INDEX and value.isdecimal() and len(value) <= MOST_DIGITS:
                return int(value), line
        found = _PATTERNS["gid_index"].search(line.text) if line.kind == "machine" else None
        if found is not None:
            return int(found[1]), line
    return None


# -- names -----------------------------------------------------------------------------------------------


def _vgpus(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """The first vGPU that is listed. Whether its profile allows GPUDirect RDMA, no name shows."""
    for position, line in enumerate(lines):
        found = _PATTERNS["listed_gpu"].search(line.text) if line.kind in EVIDENCE else None
        if found is not None and VGPU_NAME.search(found["name"]):
            yield Reading(line, position, ("gpu-vgpu",), STATE)
            return


# -- limits ----------------------------------------------------------------------------------------------


LOCKED_BYTES = 64 << 20
"""Containers of containerd and docker get 64 MiB, and the kernel gives less: systemd.exec(5), LimitMEMLOCK;
a job of NCCL registers more."""


def _limits(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """A limit of locked memory that is too low for RDMA, as `ulimit -a`, `ulimit -l` and /proc/PID/limits
    print it."""
    for position, line in enumerate(lines):
        alone = _PATTERNS["alone"].search(line.command) is not None
        found = _PATTERNS["kbytes" if alone else "limit"].match(line.text) if line.kind in EVIDENCE else None
        if found is not None:
            given = found.groupdict()
            size = int(given["kbytes"] or given.get("pages") or 0) << 10 or int(given.get("bytes") or 0)
            if size <= LOCKED_BYTES:
                yield Reading(line, position, ("memlock-limit",), f"{size >> 10} KiB may be locked")
            return


# -- configurations --------------------------------------------------------------------------------------


MOST_WORDS = 3
"""Words of a line of modprobe's configuration, without a code block, at most."""


def _configured(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """Lines of modprobe's configuration that keep NVIDIA's modules from loading; and PyTorch's allocator
    whose memory older versions cannot register, where that failed."""
    unregistered = any(registration.causes(line.text) for line in lines)
    for position, line in enumerate(lines):
        if line.kind == "prose" and len(line.text.split()) > MOST_WORDS:
            continue
        if _PATTERNS["override"].fullmatch(line.text):
            yield Reading(line, position, ("install-override",), "a line of modprobe's configuration")
        elif _PATTERNS["blacklist"].fullmatch(line.text):
            yield Reading(line, position, ("module-blacklisted",), "a line of modprobe's configuration")
        elif unregistered and _PATTERNS["segments"].search(line.text):
            yield Reading(line, position, ("torch-expandable-segments",), "set for PyTorch")


def _transports(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """A list of UCX's transports without one for GPU memory, where UCX takes GPU memory for the host's."""
    if not any(_PATTERNS["taken_for_host"].search(line.text) for line in lines):
        return
    for position, line in enumerate(lines):
        found = _PATTERNS["transports"].search(line.text)
        if found is not None and line.kind == "prose" and not _PATTERNS["command"].search(line.text):
            continue
        if found is not None and not _PATTERNS["for_gpus"].search(found[1]):
            yield Reading(line, position, ("ucx-transport-excluded",), f"{found[1]} has none for GPU memory")
            return


def _switched_off(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """Settings in commands, scripts and manifests that turn RDMA or a direct path off, or that NCCL ignores.

    What turns NVLink between hosts off is read in sentences alone: most jobs never have it."""
    given = settings(lines)
    for position, line in enumerate(lines):
        for name, value in given.get(line.number, ()):
            for code in codes_of(every_consumer(), name, value):
                if code not in OF_MNNVL.values():
                    note = f"{value!r} is not a level" if code == "gdr-level-ignored" else SET
                    yield Reading(line, position, (code,), note)


_STATE = r"(?:PORT_)?(?:ACTIVE|DOWN|INIT|ARMED|Active|Down|Initializing|Armed|Polling)"
_NAME = r"[a-z][\w.-]{1,40}"
_DEVICE = (
    rf"(?:CA '(?P<old>{_NAME})'|Infiniband device '(?P<new>{_NAME})' port|hca_id:\s*(?P<verbs>{_NAME})"
    r"|Settings for (?P<settings>en\w{1,12}np\d{1,2}|ib[ps]?\d\w{0,12}):)"
)
_PATTERNS = {
    "device": regex(rf"\s*{_DEVICE}"),
    "state": regex(
        rf"\s+(?:[Ss]tate:\s+(?:\d: )?(?P<state>{_STATE})|Link detected: (?P<detected>yes|no))\b"
    ),
    "one_line": regex(
        rf"(?<![\w.-])(?:(?P<name>{_NAME})\b.{{0,160}}? port \d+ (?:\((?P<state>{_STATE})\) )?"
        r"==> \S+ \((?P<netdev>Up|Down)\)"
        rf"|link (?P<linked>{_NAME})/\d+ .{{0,80}}?\bstate (?P<link>{_STATE})\b"
        rf"|infiniband/(?P<file>{_NAME})/ports/\d+/state:(?:\d: )?(?P<shown>{_STATE})\b)"
    ),
    "interface": regex(
        r"\s{0,8}(?:\d{1,4}: )?(?P<netdev>en\w{1,12}np\d{1,2}|ib[ps]?\d\w{0,12})(?:@\w{1,15})?"
        r"(?:: (?:flags=\d{1,6})?<| {1,20}(?=(?:UP|DOWN)\b))(?P<flags>[A-Z_,0-9-]{1,120})"
    ),
    "beside": regex(r"\s+(?:[Pp]hys(?:ical)?[ _]state|link_layer|max_mtu|Base lid|SM lid):"),
    "gid": regex(
        rf"\s*(?:(?P<device>{_NAME})\s+\d{{1,3}}\s+(?P<index>\d{{1,4}})\s+(?P<gid>[0-9a-f:]{{39}})\s+"
        r"(?:[\d.]+\s+)?|GID\[ {0,3}(?P<number>\d{1,4})\]:\s+(?P<printed>[0-9a-f:.]{2,45}), RoCE )"
        r"(?P<version>v[12])\b"
    ),
    "hca_id": regex(rf"hca_id:\s*({_NAME})\s*$"),
    "not_connected": regex(r"\s*(?:Failed to modify QP \d+ to RTR|Unable to Connect the HCA's)"),
    "empty_gid": regex(r"\s*GID: 00?(?::00?){15}\s*"),
    "override": regex(
        r"\s*(?:alias (?:nvidia|nv)[\w-]* off"
        r"|install (?:nvidia|nv)[\w-]* /(?:usr/)?s?bin/(?:true|false))\s*"
    ),
    "blacklist": regex(r"\s*blacklist (?:nvidia|nv_)[\w-]*\s*"),
    "segments": regex(r"PYTORCH_(?:CUDA_)?ALLOC_CONF\W{1,6}.{0,80}expandable_segments\W{1,3}[Tt]rue"),
    "transports": regex(r"\bUCX_TLS=[\"']?([a-z][\w,]{0,80})"),
    "for_gpus": regex(r"\ball\b|cuda|gdr_copy"),
    "taken_for_host": regex(
        r"UCX CUDA support was not found|memory is detected as host"
        r"|invalid permissions for mapped object"
    ),
    "command": regex(r"\b(?:mpirun|mpiexec|prterun|srun|export|env) |-x UCX_TLS="),
    "limit": regex(
        r"\s*(?:max locked memory\s+\(kbytes, -l\)|-l: locked-in-memory size \(kbytes\))"
        r"\s+(?P<kbytes>\d{1,12})"
        r"|Max locked memory\s+(?P<bytes>\d{1,15})\s+\S+\s+bytes"
    ),
    "alone": regex(r"\bulimit (?:-[HS] )?-[HS]?l\b"),
    "kbytes": regex(r"\s*(?:\d{1,4}: )?(?P<kbytes>\d{1,12})\s*$"),
    "gid_index": regex(rf"{GID_INDEX}(?: set by environment to |=)(\d{{1,4}})\b"),
    "listed_gpu": regex(
        r"(?:GPU \d+: |Product Name\s*: |\|\s+\d+\s+|device name = \[)"
        r"(?P<name>(?:NVIDIA|GRID|Tesla) [\w -]{2,40}?)(?= \(|\]|\s{2,}|\s*$)"
    ),
}
