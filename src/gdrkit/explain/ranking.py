"""Rank the causes of a text: by what outputs prove, and by how often a message means each cause.

The weights only order evidence of different kinds; they are not probabilities. Outputs that prove a cause
come before lines that people quote, and these before a product that people name. A problem that closes one
of the two direct paths alone, or none, is a note about the machine, unless the text is about that path.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.catalogue import every_consumer, rule_of
from gdrkit.evidence import Confidence
from gdrkit.explain.chains import BEHIND, brings_about, fails_by, needs_no_module, refuses_peermem
from gdrkit.explain.explanation import (
    ASKED,
    FAR_AWAY,
    NO_ERROR,
    ONE_END,
    SET,
    STATE,
    UNDECIDED,
    WENT_ON,
    EstablishedProblem,
    OpenLine,
    QuotedLine,
    Sureness,
    TextMachine,
)
from gdrkit.explain.products import CARDS, DATACENTER, HARDWARE_CODES
from gdrkit.explain.subject import Topics
from gdrkit.facts.modules import PEERMEM
from gdrkit.rules.capabilities import OF_ITS_OWN, REGISTRATION, Capability
from gdrkit.verdict.cells import programs_of
from gdrkit.verdict.makers import OF_NVIDIA, needs_nvidia

BY_LINE, BY_RULE, SLOWER, NOTE = 20.0, 12.0, 5.0, 1.0
"""A cause that a failing line proves; one that outputs prove and that stops a path; one that stops none; and
a fact about the machine that does not matter here."""

ONLY_CAUSE, LEADING, FIRST_CAUSE = 7.0, 6.0, 3.0
"""The only possible cause of a failing line; one that is by far the likeliest; and the first of several. The
n-th counts 1/n of it, so the likeliest cause of each of two lines precedes the second cause of either."""

QUOTED = 0.7
"""A line that a person quotes counts this much of one that a machine printed: it opens causes and proves
none. The only cause of a quoted line (4.9) still precedes the first of several of a printed one (3)."""

SETTING = 4.0
"""A setting that turns a path off, where nothing else fails: between the first of several causes of a line
that fails and its only cause."""

LISTED = ("acs-redirect",)
"""What lspci lists without saying whether it matters: a bridge that need not be between GPU and NIC."""

HARDWARE, BESIDE = 6.0, 2.0
"""A product that can never do it, named by people alone: where what fails is what fails there, and beside a
failure that has other causes. The first is that of a leading cause; the second is below FIRST_CAUSE, because
nothing printed shows the product."""

HANGS = ("acs-redirect", "iommu-translating")
"""What makes the direct path hang without an error: NCCL user guide, Troubleshooting, PCI Access Control
Services."""

BETWEEN_GPU_AND_NIC = ("pair-distant", "pair-cross-socket", *HANGS)
"""What slows traffic between a GPU and a NIC, and none between host memory and that NIC."""

NO_FAILURE = (ASKED, SET, STATE, NO_ERROR, ONE_END)
"""How notes end of lines that suggest their only cause no more than as possible."""

FOR_DMABUF = ("net-plugin-replaced", "perftest-tests-other-path")
"""Problems that matter for dma-buf alone, although they stop no path."""

FOR_NETWORK = ("ib-disabled-by-env", "no-rdma-device")
"""Problems that matter only if a job needs the network."""

NO_NIC, NOT_IN_POD = "no-rdma-device", "rdma-device-not-in-container"
NO_NETWORK = frozenset((*FOR_NETWORK, "verbs-library-missing"))
"""Causes of lines that report that there is no network of RDMA."""

UNNEEDED = NOTE / 4
"""What a job lacks for a network that it does not need: less than the remark that it needs none."""

AGAIN = 0.25
"""Each further line that shows the same counts this much of its own weight."""

MOST_AGAIN = 4
"""Further lines that count: a message that a log repeats a thousand times weighs at most twice as much as
once."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A cause with its weight and its evidence."""

    code: str
    weight: float
    sureness: Sureness
    claimed: bool
    lines: tuple[QuotedLine, ...]
    subject: str = ""
    machine: str = ""
    printed: bool = False  # a line shows or quotes, as a program prints it, what it brings about
    fails: bool = False  # a line reports a failure that it may have brought about
    shown: bool = False  # an output shows it as a state of the machine


def ranked(
    machines: tuple[TextMachine, ...], topics: Topics, blameless: Container[str] = ()
) -> tuple[Candidate, ...]:
    """Every cause that a text proves or leaves open, the likeliest first. `blameless`: limits of hardware by
    which nothing fails, although something does."""
    found: dict[str, list[Candidate]] = {}
    for candidate in _of_machines(machines, topics, blameless):
        found.setdefault(candidate.code, []).append(candidate)
    merged = (_merged(some) for some in found.values())
    ordered = sorted((one for one in merged if one.weight > 0), key=lambda one: -one.weight)
    elsewhere = topics.in_pod or topics.over_ipoib
    if elsewhere and ordered and ordered[0].code == NO_NIC and not ordered[0].shown:
        # a pod sees no device that it does not ask for, and an interface of InfiniBand has a device
        ordered.sort(key=lambda one: one.code != NOT_IN_POD)
    return tuple(_deepest_first(ordered))


def is_foreign(code: str, topics: Topics) -> bool:
    """Whether only GPUs of NVIDIA have a cause, and the text is about another maker's."""
    return bool(topics.foreign) and needs_nvidia(code)


def _hardware_weight(
    code: str, topics: Topics, opened: Iterable[OpenLine], *, proven: bool, refused: bool
) -> float:
    """The weight of a product that people name: it must fit what fails, and follows what is proven; the
    distance to a NIC matters only to hardware that has a direct path. `refused`: outputs prove why
    nvidia-peermem does not load."""
    lines = [line for line in opened if line.codes != (code,)]
    moot = refused or any(line.note.startswith(FAR_AWAY) for line in lines)
    if (moot and needs_no_module(code, PEERMEM)) or any(
        fails_by(code, line.codes, line.subject) for line in lines
    ):
        return HARDWARE
    if not (
        (topics.rdma and topics.direct)
        or (code == "wsl" and (topics.rdma or topics.collective or topics.gpu))
    ):
        return 0.0
    return BESIDE if lines or proven else HARDWARE


SUPPORTED = 1.5
"""Weight from which a cause is behind another: a separate line suggests it. That of the second cause of a
printed line; a third one is too weak to take the first place."""


def _deepest_first(ordered: list[Candidate]) -> list[Candidate]:
    """The candidates, but a cause that brings the first one about comes before it."""
    if ordered and ordered[0].code == "module-not-found" and ordered[0].subject == "nvidia":
        return ordered  # which is why the driver is not loaded, and not the other way round
    first = ordered[0].code if ordered else ""
    known = {line.line for line in ordered[0].lines} if ordered else set()
    for candidate in ordered[1:]:
        # a line that the first cause explains as well is not evidence for a deeper one; a rule's proof is
        own = candidate.sureness is Sureness.CERTAIN
        own = own or any(line.line not in known for line in candidate.lines)
        if ordered[0].sureness is Sureness.CERTAIN and candidate.sureness is Sureness.POSSIBLE:
            own = own and candidate.machine == ordered[0].machine  # else nothing joins the two
        if own and first in BEHIND.get(candidate.code, ()) and candidate.weight >= SUPPORTED:
            deeper = replace(candidate, weight=max(candidate.weight, ordered[0].weight))
            return [deeper, *(one for one in ordered if one is not candidate)]
    return ordered


def _of_machines(
    machines: tuple[TextMachine, ...], topics: Topics, blameless: Container[str]
) -> Iterator[Candidate]:
    """The causes that outputs prove or leave open, without those that they exclude."""
    opened = [line for machine in machines for line in machine.open]
    proven = any(machine.established for machine in machines)
    refused = any(map(refuses_peermem, _problems(machines)))
    named = [line.codes[0] for line in opened if _is_named(line)]
    for machine in machines:
        fails = any(line.fails for line in machine.open)
        closed = any(needs_no_module(problem.code, PEERMEM) for problem in machine.established)
        in_vain = closed or any(needs_no_module(code, PEERMEM) for code in named)
        for problem in machine.established:
            if problem.code not in blameless:
                found = _of_problem(problem, machine.name, topics, failing=fails)
                vain = (in_vain and refuses_peermem(problem)) or _is_refused(problem, machine)
                yield replace(found, weight=NOTE) if vain else found
        for line in machine.open:
            if closed and line.note.startswith(FAR_AWAY):
                continue  # of a path that there is not
            left = [code for code in line.codes if code not in machine.cleared]
            for candidate in _of_line(line, topics, opened, left, proven=proven, refused=refused):
                excluded = _is_of_other_gpus(candidate.code, topics) or is_foreign(candidate.code, topics)
                # where no line mentions a GPU, its causes are open only if the failure has no other ones
                excluded = excluded or (
                    not topics.gpu and candidate.code in OF_MEMORY and not _is_about_gpus(line.codes)
                )
                if not excluded and candidate.code not in machine.cleared:
                    yield candidate if line.claimed else replace(candidate, machine=machine.name)


OF_GPU_PROGRAMS = frozenset(("mooncake-forces-peermem", "torch-expandable-segments", "peermem-stub"))
"""Causes of failures that only a GPU's memory or a GPU's module has, besides those of NVIDIA."""


def _problems(machines: Iterable[TextMachine]) -> Iterator[EstablishedProblem]:
    return (problem for machine in machines for problem in machine.established)


def _is_refused(problem: EstablishedProblem, machine: TextMachine) -> bool:
    """Whether a line reports that the module did not load that is not loaded: why is then the cause."""
    return any(
        line.fails and not line.claimed and line.subject == problem.subject
        and any(brings_about(code, problem.code) for code in line.codes)
        for line in machine.open
    )  # fmt: skip


def _is_named(line: OpenLine) -> bool:
    """Whether a line is the only product that people name."""
    return line.claimed and not line.printed and set(line.codes) <= HARDWARE_CODES


def _is_about_gpus(codes: Iterable[str]) -> bool:
    """Whether a failure has no cause that memory of a host may have."""
    return all(code in OF_NVIDIA | OF_GPU_PROGRAMS for code in codes)


OF_MEMORY = OF_NVIDIA - OF_GPU_PROGRAMS
"""Causes that a failed registration of memory has only if the memory is a GPU's."""


OF_DATACENTER = ("gpu-vgpu", "gpu-confidential", "gpu-mig")
"""What neither a GeForce nor GB10 has. Sources: NVIDIA's lists of GPUs for vGPU and MIG; confidential
computing needs a GPU for data centres, Hopper or newer."""


def _is_of_other_gpus(code: str, topics: Topics) -> bool:
    """Whether a cause is one of other GPUs than those that the outputs show."""
    shown = topics.products.intersection(CARDS)
    datacenter = DATACENTER in topics.products
    if code in CARDS:
        return code not in shown and (datacenter or bool(shown))
    return code in OF_DATACENTER and not datacenter and bool(shown)


def _of_problem(problem: EstablishedProblem, machine: str, topics: Topics, *, failing: bool) -> Candidate:
    """A problem that outputs prove. One that stops nothing is not why another line fails."""
    if any(problem.seen == proof.text for proof in problem.proofs):
        weight = BY_LINE  # the line itself is the failure; a rule only found a state that would cause one
    elif set(problem.blocks) & set(OF_ITS_OWN):
        # without dma-buf alone peermem may serve: that stops a job only if the text is about dma-buf
        weight = BY_RULE if topics.dmabuf or problem.blocks != ("dmabuf",) else NOTE
    else:
        weight = NOTE if failing else SLOWER
    return Candidate(
        code=problem.code,
        weight=weight,
        sureness=Sureness.CERTAIN if problem.confidence is Confidence.CERTAIN else Sureness.LIKELY,
        claimed=False,
        lines=problem.proofs,
        subject=problem.subject if problem.subject != "node" else "",
        machine=machine,
        printed=True,
    )


def _of_line(
    line: OpenLine,
    topics: Topics,
    opened: list[OpenLine],
    left: list[str],
    *,
    proven: bool,
    refused: bool,
) -> Iterator[Candidate]:
    """The causes of a line; `left` are not excluded. `proven`: outputs prove a cause; `refused`: one for
    which nvidia-peermem does not load."""
    named = _is_named(line)
    only = len(line.causes) == 1 and not line.ruled_out and line.note != UNDECIDED
    first = ONLY_CAUSE if only else FIRST_CAUSE
    for index, code in enumerate(_named_first(line.codes, topics)):
        leads = line.leads and index == 0 and len(line.causes) > 1
        leads = leads or (left == [code] and len(line.codes) > 1 and line.note != NO_ERROR)
        weight = LEADING if leads else first / (index + 1)
        weight *= QUOTED if line.claimed else 1
        listed = line.note == STATE or (code in LISTED and not line.note)
        if only and listed:
            weight = min(weight, FIRST_CAUSE)
        if line.states:
            weight = _state_weight(line, opened, weight)
        if line.note == ASKED:
            weight = NOTE
        if line.note in (WENT_ON, SET):
            # what a program went on without did not stop it, and a setting that turns a path off is no
            # reason for another failure or for a crash
            others = any(one.note not in (WENT_ON, SET) and one.printed for one in opened)
            weight = NOTE if line.note == WENT_ON or others or topics.crash else SETTING
        unneeded = is_unneeded(line.codes, topics)
        weight = UNNEEDED if unneeded else weight
        yield Candidate(
            code=code,
            weight=_hardware_weight(code, topics, opened, proven=proven, refused=refused)
            if named
            else weight,
            sureness=Sureness.LIKELY
            if only and not (line.claimed or listed) and not line.note.endswith(NO_FAILURE)
            else Sureness.POSSIBLE,
            claimed=line.claimed,
            lines=(QuotedLine(line.line, line.text),),
            printed=line.printed or (named and (refused or _fails_as_there(code, opened))),
            fails=line.fails and not unneeded and not _closes_one_of_two(code, line.codes),
            shown=line.note == STATE and line.printed and len(line.codes) == 1 and code not in LISTED,
        )


def _named_first(codes: tuple[str, ...], topics: Topics) -> tuple[str, ...]:
    """The causes of a line, where the kinds of cards that the text names take the places before those that
    it does not. A text that names several kinds may compare them: none is more than possible."""
    cards = iter(
        sorted((code for code in codes if code in CARDS), key=lambda code: code not in topics.named)
    )
    return tuple(next(cards) if code in CARDS else code for code in codes)


def _closes_one_of_two(code: str, codes: tuple[str, ...]) -> bool:
    """Whether a cause closes one direct path alone, of a failure that needs both closed."""
    closed = _closed(code)
    return len(closed) == 1 and any(_closed(other) == set(REGISTRATION) - closed for other in codes)


def _closed(code: str) -> set[Capability]:
    """The ways to register GPU memory that a cause takes away from every program."""
    takes = rule_of(code).takes("")
    return {one for one in REGISTRATION if one in takes}


def _state_weight(line: OpenLine, opened: Iterable[OpenLine], weight: float) -> float:
    """The weight of a state that need not matter: a note where a line fails that it does not explain. A
    distance fails at nothing: there it does not count, and elsewhere it keeps the order of its causes."""
    failing = {code for one in opened if one.fails for code in one.codes}
    explains = any(own == code or brings_about(own, code) for own in line.codes for code in failing)
    if failing and not explains:
        return NOTE if line.note == STATE else 0.0
    return FIRST_CAUSE if line.note == STATE else weight


def _fails_as_there(code: str, opened: Iterable[OpenLine]) -> bool:
    """Whether a program fails with what a product brings about, or with what matters nowhere there."""
    return any(
        brings_about(code, line.codes[0]) or needs_no_module(code, line.subject)
        for line in opened
        if line.printed and line.codes
    )


def is_unneeded(codes: Iterable[str], topics: Topics) -> bool:
    """Whether a line is about a network that no job of the text needs."""
    return (topics.one_host or topics.over_nvlink) and not NO_NETWORK.isdisjoint(codes)


MAX_LINES = 4
"""Lines that are quoted for one cause at most."""


def _merged(candidates: Iterable[Candidate]) -> Candidate:
    """One candidate of all evidence for a code: the strongest kind leads, the rest adds to its weight."""
    first, *rest = sorted(candidates, key=lambda one: (-one.weight, not one.machine))
    lines = {line.line: line for one in (first, *rest) for line in one.lines if one.weight}
    weight = first.weight + AGAIN * sum(one.weight for one in rest[:MOST_AGAIN])
    sureness = first.sureness
    if any(one.fails for one in (first, *rest)) and any(one.shown for one in (first, *rest)):
        # a failure that has this cause, and an output that shows it: each alone leaves it open
        weight = max(weight, LEADING)
        sureness = Sureness.LIKELY if sureness is Sureness.POSSIBLE else sureness
    return Candidate(
        code=first.code,
        weight=weight,
        sureness=sureness,
        claimed=first.claimed,
        lines=tuple(lines.values())[:MAX_LINES],
        subject=first.subject,
        machine=first.machine,
        printed=any(one.printed and one.weight for one in (first, *rest)),
    )


def is_of_a_program(found: EstablishedProblem) -> bool:
    """Whether a problem matters only for programs that not every job uses."""
    programs = programs_of(rule_of(found.code).takes(found.subject))
    return bool(programs) and programs.isdisjoint(one.name for one in every_consumer() if one.common)
