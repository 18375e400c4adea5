"""Lines of a pasted text that report a failure, with their possible causes and the module that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gdrkit import catalogue
from gdrkit.catalogue import rule_of
from gdrkit.explain.explanation import NO_ERROR, STATE, WENT_ON
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.acs_ports import acs_readings
from gdrkit.explain.outputs.asked_outputs import asked_readings
from gdrkit.explain.outputs.bar1_lengths import bar1_readings
from gdrkit.explain.outputs.device_files import device_file_readings
from gdrkit.explain.outputs.device_numbers import number_readings
from gdrkit.explain.outputs.disk_listings import disk_readings
from gdrkit.explain.outputs.efa_mapping import CODE, efa_readings, shows_efa
from gdrkit.explain.outputs.link_flaps import plugged_again
from gdrkit.explain.outputs.module_symbols import symbol_readings
from gdrkit.explain.outputs.pcie_links import is_link, link_readings
from gdrkit.explain.outputs.rdma_files import devices
from gdrkit.explain.outputs.rdma_topo_outputs import rdma_topo_readings
from gdrkit.explain.outputs.readings import Reading, readings
from gdrkit.explain.outputs.settings import settings
from gdrkit.explain.outputs.topologies import dumped_nic, topology_readings
from gdrkit.explain.outputs.ucx_outputs import ucx_readings
from gdrkit.explain.outputs.xid_lines import xid_readings
from gdrkit.explain.unexplained import reports_failure
from gdrkit.facts.cable_halves import CABLES
from gdrkit.facts.modules import PEERMEM
from gdrkit.formats.regex import regex
from gdrkit.messages import errors, kernel, registration
from gdrkit.messages.driver import FORCE_PCIE
from gdrkit.messages.message import MessageTemplate
from gdrkit.messages.strerror import in_english
from gdrkit.programs.nccl.messages import DUMPED_NIC
from gdrkit.programs.nccl.settings import selects
from gdrkit.rules.capabilities import REGISTRATION

STUB = "peermem-stub"
"""By far the most frequent reason for EINVAL of nvidia_peermem: most kernels have no peer-memory API."""

NEARBY_LINES = 4
"""Distance in lines, at most, between a kernel message without a module name and the error of modprobe that
names it: a prompt, a command, and two kernel messages about taint may be between them."""


class LogEvent(Struct, frozen=True, kw_only=True):
    """A line that reports a failure."""

    line: TextLine
    position: int  # index among the lines of its machine
    codes: tuple[str, ...]
    module: str = ""  # empty if it names none
    decides: bool = True  # if it has a single possible cause, the line proves it
    from_loader: bool = False  # an error of modprobe, insmod or another loader
    from_kernel: bool = False  # a message of the kernel's module loader; all of these are in the catalogue
    needs_module: bool = False  # it is about a module, but does not name it
    leads: bool = False  # its first cause is by far the likeliest
    note: str = ""
    message: str = ""  # its name in the catalogue, if it has one
    is_reading: bool = False  # of an output, which may be a listing
    goes_on: bool = False  # the program goes on without what it lacks
    program: str = ""  # that printed it, if it is in the catalogue
    follows: str = ""  # the program whose earlier failure has its cause
    of_log: bool = False  # of NCCL: a log's analysis makes a record of it, or reports it as a warning


def is_of_nccl(text: str) -> bool:
    """Whether a line may be one of NCCL."""
    return "NCCL" in text or "NET/" in text


def events(lines: Iterable[TextLine]) -> tuple[LogEvent, ...]:
    """The lines of one machine that report a failure, in order."""
    own_lines = tuple(lines)
    found = [
        LogEvent(
            line=one.line,
            position=one.position,
            codes=one.codes,
            decides=one.decides,
            note=one.note,
            is_reading=True,
        )
        for one in (
            *readings(own_lines),
            *topology_readings(own_lines),
            *device_readings(own_lines),
            *ucx_readings(own_lines),
            *rdma_topo_readings(own_lines),
            *symbol_readings(own_lines),
            *xid_readings(own_lines),
            *asked_readings(own_lines),
            *disk_readings(own_lines),
            *number_readings(own_lines),
            *acs_readings(own_lines),
            *efa_readings(own_lines),
            *bar1_readings(own_lines),
        )
    ]
    for position, line in enumerate(own_lines):
        if line.kind == "machine" and not is_link(line.text):  # which link_readings() reads
            event = _event(line, position)
            if event is not None:
                found.append(_of_dump(_for_efa(event, own_lines), own_lines))
    back = plugged_again(own_lines)
    found = [
        _went_on(event, own_lines) if event.goes_on else event
        for event in found
        if not (event.follows and _follows(event, found)) and event.line.number not in back
    ]
    return tuple(sorted(found, key=lambda event: event.position))


def _for_efa(event: LogEvent, lines: tuple[TextLine, ...]) -> LogEvent:
    """A refused PCIe mapping with the cause that it has for an EFA, which no ACS setting gives a group."""
    return replace(event, codes=(CODE,)) if event.message == FORCE_PCIE.name and shows_efa(lines) else event


def _of_dump(event: LogEvent, lines: tuple[TextLine, ...]) -> LogEvent:
    """A NIC without GPUDirect RDMA in a topology that NCCL wrote, with what the rest of it leaves."""
    if event.message != DUMPED_NIC:
        return event
    codes, note = dumped_nic(event.line, event.codes, lines)
    return replace(event, codes=codes, note=note)


def _follows(event: LogEvent, others: Iterable[LogEvent]) -> bool:
    """Whether an earlier line of the program, or with the message, reports the failure from which an event
    follows."""
    return any(
        event.follows in (other.program, other.message) and not (other.follows or other.goes_on)
        for other in others
        if other.position < event.position
    )


CHANNEL_IS_DIRECT = "/GDRDMA"
"""In NCCL's line about a channel: transport/net.cc, sendSetup() and recvSetup()."""
MOST_LINES = 2000
"""Lines that are searched for another failure."""


def _went_on(event: LogEvent, lines: tuple[TextLine, ...]) -> LogEvent:
    """An event after which the program went on, with a note if a later line reports another failure, or that
    NCCL sends GPU memory directly all the same; of a state, if NCCL then chose a network that is not TCP."""
    later = lines[event.position + 1 :][:MOST_LINES]
    fails = any(reports_failure(line) and event.line.text[-20:] != line.text[-20:] for line in later)
    works = any(CHANNEL_IS_DIRECT in line.text for line in later)
    works = works or (event.note == STATE and any(_PATTERNS["chosen"].search(line.text) for line in later))
    return replace(event, note=WENT_ON) if fails or works else event


def _event(line: TextLine, position: int) -> LogEvent | None:
    match = catalogue.match(in_english(line.text))
    if match is None or not match.causes:
        codes = for_path(registration.causes(line.text), line)
        of_log = is_of_nccl(line.text)
        if not codes:
            return None
        return LogEvent(line=line, position=position, codes=codes, decides=False, of_log=of_log)
    message = match.message
    from_kernel = message.program == kernel.PROGRAM
    module = message.module or match.values.get("module", "")
    if not module and (from_kernel or message.loads):
        module = _module_in(match.values.get("file", ""), line.text)
    error = match.values.get("error")
    if error is not None:
        return _from_loader(line, position, module, error)
    if (line.cut and message.decides) or not (message.open_end or _ends_line(match.text, message)):
        return None
    codes = for_path(_for_module(match.causes, module), line)
    if not codes:
        return None
    return LogEvent(
        line=line,
        position=position,
        codes=codes,
        module=module,
        decides=message.decides,
        from_loader=message.loads,
        from_kernel=from_kernel,
        leads=message.leads,
        needs_module=not module and (message.loads or (from_kernel and _is_of_loading(match.causes))),
        message=message.name,
        note=NO_ERROR if message.hides_error else STATE if message.states else "",
        goes_on=message.goes_on,
        program=message.program,
        follows=message.follows,
        of_log=is_of_nccl(line.text) and (message.make is not None or "NCCL WARN " in line.text),
    )


def _is_of_loading(codes: Iterable[str]) -> bool:
    """Whether a message of the kernel is about a module: others are about a device or its port."""
    return any(rule_of(code).loading is not None for code in codes)


def _module_in(file: str, text: str) -> str:
    """The module of a file that insmod names, or nvidia-peermem if it printed the line."""
    if file:
        return file.rpartition("/")[2].partition(".ko")[0].replace("-", "_")
    return PEERMEM if re.search(r"\bnvidia-peermem \w+:\d+ |\bnv_mem_client_init\b", text) else ""


def _from_loader(line: TextLine, position: int, module: str, error: str) -> LogEvent | None:
    """The event of a modprobe error, by its text. A truncated error can have several continuations."""
    error = error.strip().strip("`'\"").rstrip(".")
    lower = error.lower()
    whole = max(
        (known for known in errors.tool_wording() if lower.startswith(known.lower())), key=len, default=""
    )
    note = ""
    if whole and not re.match(r"\s*\w", error[len(whole) :]):
        codes = errors.causes(whole)
    elif re.fullmatch(r"Unknown error \d+", error):
        codes = errors.causes(error)
    elif error and (continuations := errors.line_starts(error)):
        codes = tuple(dict.fromkeys(code for known in continuations for code in errors.causes(known)))
        note = "the line is truncated: several errors start like this"
    else:
        return None
    return LogEvent(
        line=line,
        position=position,
        codes=_for_module(codes, module),
        module=module,
        leads=module == PEERMEM and not note and codes[0] == STUB,
        from_loader=True,
        note=note,
    )


def _for_module(codes: tuple[str, ...], module: str) -> tuple[str, ...]:
    """The codes without those that only a different module can have."""
    if not module:
        return codes
    return tuple(code for code in codes if rule_of(code).module in ("", module))


_OF_HOST_MEMORY = regex(
    r"\b(?:ib_(?:write|read|send|atomic)_(?:bw|lat)|ibv_\w{1,12}_pingpong|rping)\b"
    r"(?!.*--use_(?:cuda|rocm|hl\b|neuron|mlu|opencl))"
)
"""A test of RDMA that takes a host's memory. Source: perftest src/perftest_parameters.c, whose options for
the memory of an accelerator these are; rdma-core libibverbs/examples, which have none."""


def for_path(codes: tuple[str, ...], line: TextLine) -> tuple[str, ...]:
    """The codes that the command of a line leaves: a run of perftest with dma-buf needs no module, and one
    with a host's memory nothing that a GPU's needs."""
    if _OF_HOST_MEMORY.search(line.command):
        return tuple(code for code in codes if not _is_of_gpu_memory(code))
    if "--use_cuda_dmabuf" not in line.command:
        return codes
    return tuple(code for code in codes if code != "peermem-not-loaded") or codes


def _is_of_gpu_memory(code: str) -> bool:
    """Whether a cause stops or slows what is registered of a GPU's memory, and nothing else."""
    rule = rule_of(code)
    return not set(REGISTRATION).isdisjoint((*rule.takes(""), *rule.slows))


def _ends_line(text: str, message: MessageTemplate) -> bool:
    """Whether the message ends the line; if words follow, a sentence quotes it."""
    if message.template.endswith("}"):
        return True
    tail = message.template.rpartition("}")[2]
    rest = text.rpartition(tail)[2].strip(" .`'\")")
    return not re.match(r"\w", rest)


def module_named_nearby(event: LogEvent, all_events: tuple[LogEvent, ...]) -> str:
    """The module of a line that names none, if all modprobe errors near it name the same one; else "".

    One of them must have a possible cause in common with the line."""
    nearby = [
        other
        for other in all_events
        if other.from_loader and other.module and abs(other.position - event.position) <= NEARBY_LINES
    ]
    names = {other.module for other in nearby}
    fits = any(set(event.codes) & set(other.codes) for other in nearby)
    return names.pop() if len(names) == 1 and fits else ""


# -- listings of devices ----------------------------------------------------------------------------


HCA = "NCCL_IB_HCA"

_PATTERNS = {
    "mapped": regex(r"\s*(?P<name>[a-z][\w.-]{1,40}) port \d{1,3} ==> "),  # a row of ibdev2netdev
    "chosen": regex(r"NCCL INFO Using network (?!Socket|FastSocket)\S"),
    "printed": regex(r"NCCL_IB_HCA set (?:by environment )?to (?P<value>[\w=^:,.-]{1,200}?)\.?\s*$"),
}


def device_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """Links that are slower than both their ends, and NICs in NCCL_IB_HCA that NCCL does not find."""
    yield from link_readings(lines)
    yield from _absent_nics(lines)
    yield from device_file_readings(lines, [value for _, value in _chosen_nics(lines)])
    yield from _half_ports(lines)


def _absent_nics(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """NCCL_IB_HCA that names none of the RDMA devices that the text lists, where NCCL finds no device.

    A list that leaves NICs out, after `^`, names none that it needs."""
    listed = listed_nics(lines)
    if not listed or not any("No device found" in line.text for line in lines if line.kind == "machine"):
        return
    for position, value in _chosen_nics(lines):
        if not value.startswith("^") and not any(selects(value, nic) for nic in listed):
            note = f"the text lists {', '.join(sorted(listed))}, and none is called {value}"
            yield Reading(lines[position], position, ("hca-not-selected",), note, decides=True)
            return


def _half_ports(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """NCCL_IB_HCA that names one of the two RDMA devices of a port, on a machine with GB10."""
    named = any("GB10" in line.text for line in lines if line.kind in EVIDENCE)
    if not named and not listed_nics(lines).issuperset(CABLES[0]):
        return
    for position, value in _chosen_nics(lines):
        chosen = [[selects(value, nic) for nic in port] for port in CABLES]
        halves = [(port, one) for port, one in zip(CABLES, chosen, strict=True) if one.count(True) == 1]
        missing = [port[one.index(False)] for port, one in halves]
        if missing and not value.startswith("^"):
            note = f"half of a port: the device of its other PCIe link is missing, {' and '.join(missing)}"
            yield Reading(lines[position], position, ("hca-not-selected",), note)
            return


def selects_listed_nic(lines: tuple[TextLine, ...]) -> bool:
    """Whether NCCL_IB_HCA names an RDMA device that the text lists, so that it left none out."""
    listed = listed_nics(lines)
    return any(selects(value, nic) for _, value in _chosen_nics(lines) for nic in listed)


def listed_nics(lines: tuple[TextLine, ...]) -> set[str]:
    """The RDMA devices that any listing shows: of ports, of devices, of GIDs, of their interfaces."""
    evidence = [line for line in lines if line.kind in EVIDENCE]
    matches = (_PATTERNS["mapped"].match(line.text) for line in evidence)
    return {found["name"] for found in matches if found} | devices(evidence)


def _chosen_nics(lines: tuple[TextLine, ...]) -> Iterator[tuple[int, str]]:
    """The values of NCCL_IB_HCA that lines set or print, each with the position of its line."""
    given = settings(lines)
    for position, line in enumerate(lines):
        for name, value in given.get(line.number, ()):
            if name == HCA:
                yield position, value
        if line.kind == "machine" and (printed := _PATTERNS["printed"].search(line.text)):
            yield position, printed["value"]
