"""Calls, transfers and steps that failed: their number, first line, meaning and possible causes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gdrkit.jobs.gather import GatheredRanks, JobProcess
from gdrkit.jobs.gpu_names import left_by
from gdrkit.jobs.job import JobError
from gdrkit.jobs.line_counts import TallyEntry
from gdrkit.messages.process_ends import STOPPED
from gdrkit.messages.torch_watchdog import Lagging, Operation, Progress, WatchdogRecord, stalled
from gdrkit.messages.verbs_failures import FailureMeaning, failing
from gdrkit.programs.mnnvl.rules import CUMEM, ENABLE, mnnvl_cumem_off, mnnvl_disabled_by_env
from gdrkit.programs.nccl.bootstrap import unreached, why_unreached
from gdrkit.programs.nccl.log_records import (
    OWN_END,
    REGISTRATION,
    Bootstrap,
    CallFailed,
    Clique,
    Fabric,
    Failure,
    Variable,
    Warned,
)
from gdrkit.programs.nccl.network_messages import (
    FAILED_STEPS,
    NO_CHANNEL,
    NO_FABRIC_MEMORY,
    NO_IMEX,
    NO_MNNVL,
    NO_PLUGIN,
)
from gdrkit.report.pages import code_page

COMPLETION = "completion"
BLOCKING = ("ibv_reg_mr", "ibv_reg_dmabuf_mr", REGISTRATION)
"""Calls without which there is no direct path."""


def errors(gathered: GatheredRanks) -> list[JobError]:
    """Every kind of failure by its first line; those that only follow from others last."""
    fabric = _needs_fabric_memory(gathered)
    found: dict[_Kind, list[tuple[str, Failure, TallyEntry]]] = defaultdict(list)
    for process in gathered.processes.values():
        for failure, entry in process.all(Failure).items():
            if failure.call == NO_FABRIC_MEMORY and not fabric:
                continue
            kind = failure.call, failure.number, failure.vendor_error, _meaning(failure)
            found[kind].append((process.name, failure, entry))
    made: list[tuple[bool, JobError]] = []
    for (call, number, vendor, known), seen in found.items():
        first = min((entry for _, _, entry in seen), key=lambda entry: entry.position)
        products = [gathered.products(gathered.processes[name]) for name, _, _ in seen]
        codes = left_by(known.causes, frozenset().union(*products) if all(products) else ())
        error = JobError(
            call=call, number=number, vendor_error=vendor, meaning=known.meaning, codes=codes,
            ranks=len({name for name, _, _ in seen}),
            count=sum(max(1, entry.count) for _, _, entry in seen),
            line=gathered.where(first.position), words=first.words,
            todo=OF_OWN_NETWORK if call == NO_PLUGIN and _demands_ib(gathered, seen) else known.todo,
        )  # fmt: skip
        made.append((known.follows, error))
    made += _warned(gathered)
    made += ((False, error) for error in _fabric(gathered))
    made += _stalled(gathered)
    if not any(follows or error.call == COMPLETION for follows, error in made):
        made = [one for one in made if one[1].call != OWN_END]  # nothing shows that the job ended by it
    order = sorted(made, key=lambda one: (one[0], one[1].call != OWN_END, one[1].line))
    return _first_first(gathered, [error for _, error in order])


def _first_first(gathered: GatheredRanks, found: list[JobError]) -> list[JobError]:
    """The failures, headed by that of the process that torchrun names as the first. Where its table does not
    say why that one ended, other lines do, and it comes last."""
    for failure in gathered.tally.failures.first():
        error = JobError(
            call=OWN_END, number=None, vendor_error=None, meaning=failure.words, codes=(), ranks=1, count=1,
            line=gathered.where(failure.line), words=gathered.tally.failures.lines[failure.line].strip(),
            todo=failure.todo,
        )  # fmt: skip
        if not failure.by_itself:
            return [*found, error]
        return [error, *(one for one in found if one.meaning != STOPPED.words)]
    return found


OF_OWN_NETWORK = (
    "NCCL_NET=IB demands NCCL's own network for RDMA, which needs no plugin: give the process an RDMA "
    "device, which `ibv_devinfo` shows there, or unset NCCL_NET"
)


def _demands_ib(gathered: GatheredRanks, seen: list[tuple[str, Failure, TallyEntry]]) -> bool:
    """Whether NCCL_NET names NCCL's own network in the processes of a failure."""
    found = (
        gathered.processes[name].variable("NCCL_NET") or gathered.around.variable("NCCL_NET")
        for name, _, _ in seen
    )
    return all(value is not None and value[0].upper() == "IB" for value in found)


_Kind = tuple[str, int | None, int | None, FailureMeaning]
"""Failures of one kind: call, errno or status, vendor error, meaning."""


def _meaning(failure: Failure) -> FailureMeaning:
    if failure.number is None:
        return FAILED_STEPS.get(failure.call, FailureMeaning(""))
    return failing(failure.call, failure.number, routable=failure.routable)


def _warned(gathered: GatheredRanks) -> Iterator[tuple[bool, JobError]]:
    """Warnings of which the messages of programs know the causes or the meaning, each with whether it
    follows from another error."""
    found: dict[Warned, list[tuple[str, TallyEntry]]] = defaultdict(list)
    for process in gathered.processes.values():
        for warned, entry in process.all(Warned).items():
            if warned.program != OWN_END or not process.name:  # these lines have no frame
                found[warned].append((process.name, entry))
    interfaces = _interfaces(gathered)
    for warned, seen in found.items():
        first = min((entry for _, entry in seen), key=lambda entry: entry.position)
        known = why_unreached(unreached(first.words), interfaces) or warned.meaning
        if known is not None:
            words = known.words
        elif warned.decides and len(warned.causes) == 1:
            words = code_page(warned.causes[0])[0]
        else:
            words = "a warning that does not prove its cause"
        error = JobError(
            call=warned.program, number=None, vendor_error=None, meaning=words,
            codes=warned.causes, ranks=len({name for name, _ in seen}),
            count=sum(max(1, entry.count) for _, entry in seen), line=gathered.where(first.position),
            words=first.words, decides=warned.decides or known is not None,
            todo="" if known is None else known.todo,
        )  # fmt: skip
        yield known is not None and known.effect == "follows", error


def _interfaces(gathered: GatheredRanks) -> dict[str, dict[str, str]]:
    """By address, the hosts that others are to reach by it, and its interface."""
    found: dict[str, dict[str, str]] = {}
    for process in gathered.processes.values():
        for one in process.all(Bootstrap):
            found.setdefault(one.address, {}).setdefault(process.host, one.interface)
    return found


def has_ended(gathered: GatheredRanks, found: list[JobError]) -> bool:
    """Whether lines show that the job, or a part of it, ended by the first of these errors."""
    failed = any(process.records.get(CallFailed) for process in gathered.processes.values())
    return bool(found) and (failed or found[0].call == OWN_END)


def _stalled(gathered: GatheredRanks) -> Iterator[tuple[bool, JobError]]:
    """What the watchdogs of PyTorch's ranks show together."""
    lines: dict[int, WatchdogRecord] = {}
    words: dict[int, str] = {}
    for process in gathered.processes.values():
        some = (process.all(Operation), process.all(Progress), process.all(Lagging))
        for found, entry in (one for records in some for one in records.items()):
            lines[entry.position], words[entry.position] = found, entry.words
    stall = stalled(lines.items())
    if stall is not None:
        error = JobError(
            call="watchdog", number=None, vendor_error=None, meaning=stall.words, codes=(),
            ranks=len({one.process for one in lines.values() if not isinstance(one, Lagging)}) or 1,
            count=len(lines), line=gathered.where(stall.position), words=words[stall.position],
            todo=stall.todo,
        )  # fmt: skip
        yield stall.effect == "follows", error


# -- NVLink between hosts --------------------------------------------------------------------------------

COMPLETED = 3
"""nvml.h, NVML_GPU_FABRIC_STATE_COMPLETED."""


def _needs_fabric_memory(gathered: GatheredRanks) -> bool:
    """Whether NCCL uses NVLink between hosts, and does not name what is missing for it."""
    processes = gathered.processes.values()
    if any(
        failure.call in (NO_CHANNEL, NO_IMEX, NO_MNNVL) for one in processes for failure in one.all(Failure)
    ):
        return False
    return any(one.records.get(Clique) or any(f.cluster for f in one.all(Fabric)) for one in processes)


def _fabric(gathered: GatheredRanks) -> Iterator[JobError]:
    """What keeps GPUs of NVLink fabrics apart without a warning from NCCL."""
    cliques: dict[str, tuple[int, str]] = {}
    for process in gathered.processes.values():
        for fabric, entry in process.all(Fabric).items():
            if fabric.cluster:
                cliques.setdefault(fabric.clique, (entry.position, entry.words))
            if fabric.cluster and fabric.state != COMPLETED:
                yield _of_fabric(
                    gathered, "NVLink fabric",
                    f"a GPU has not joined its fabric (state {fabric.state}), so that NCCL uses the NICs",
                    "mnnvl-fabric-incomplete", entry.position, entry.words,
                )  # fmt: skip
        yield from _switched_off(gathered, process)
        for clique, entry in process.all(Clique).items():
            cliques.setdefault(clique.identifier, (entry.position, entry.words))
    if len(cliques) > 1:
        names = ", ".join(sorted(cliques))
        meaning = f"{len(cliques)} NVLink cliques ({names}): between them NCCL uses the NICs"
        code = "mnnvl-clique-differs"
        yield _of_fabric(gathered, "NVLink cliques", meaning, code, *min(cliques.values()))


_SWITCHES = ((CUMEM, mnnvl_cumem_off), (ENABLE, mnnvl_disabled_by_env))


def _switched_off(gathered: GatheredRanks, process: JobProcess) -> Iterator[JobError]:
    """The variables that turn NVLink between hosts off, for a GPU that has it."""
    if not any(fabric.cluster for fabric in process.all(Fabric)) or process.records.get(Clique):
        return
    for switch, rule in _SWITCHES:
        for variable, entry in process.all(Variable).items():
            if variable.name == switch.name and switch.off(variable.value):
                meaning = f"{variable.name}={variable.value}, so that NCCL uses the NICs between hosts"
                yield _of_fabric(gathered, "NVLink setting", meaning, rule.code, entry.position, entry.words)


def _of_fabric(
    gathered: GatheredRanks, call: str, meaning: str, code: str, position: int, words: str
) -> JobError:
    return JobError(
        call=call, number=None, vendor_error=None, meaning=meaning, codes=(code,), ranks=1, count=1,
        line=gathered.where(position), words=words,
    )  # fmt: skip
