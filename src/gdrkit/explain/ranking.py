"""Rank the causes of a text: by what outputs prove, what people say, and how often a message means one.

The weights only order evidence of different kinds; they are not probabilities. Outputs that prove a cause
come before all words of people. A problem that closes one of the two direct paths alone, or none, is a note
about the machine, unless the text is about that path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.catalogue import rule_of
from gdrkit.evidence import Confidence
from gdrkit.explain.claims import HARDWARE_CODES, Claim, Stance
from gdrkit.explain.explanation import (
    SET,
    WENT_ON,
    EstablishedProblem,
    OpenLine,
    QuotedLine,
    Sureness,
    TextMachine,
)
from gdrkit.explain.subject import Topics
from gdrkit.messages.errors import EFAULT
from gdrkit.messages.verbs_failures import causes_of
from gdrkit.rules.capabilities import OF_ITS_OWN
from gdrkit.rules.rule import CauseTrait

BY_LINE, BY_RULE, SLOWER, NOTE = 20.0, 12.0, 5.0, 1.0
"""A cause that a failing line proves; one that outputs prove and that stops a path; one that stops none; and
a fact about the machine that does not matter here."""

ONLY_CAUSE, LEADING, FIRST_CAUSE = 7.0, 6.0, 3.0
"""The only possible cause of a failing line; one that is by far the likeliest; and the first of several. The
n-th counts 1/n of it."""

QUOTED = 0.7
"""A line that a person quotes counts this much of one that a machine printed."""

STANCES = {
    Stance.FOUND: 9.0,
    Stance.TITLE: 5.0,
    Stance.SAID: 4.0,
    Stance.REMEDY: 4.0,
    Stance.ASKED: 2.5,
    Stance.CONTEXT: 0.5,
    Stance.ADVISED: 1.0,
    Stance.DENIED: 0.0,
}
HARDWARE, BESIDE = 6.0, 2.0
"""Hardware that can never do it, in a text about it; a mere mention is enough, unless what fails there has
other causes."""

DENIED = 0.2
"""What a person denies counts this much, unless an output proves it, or shows that state."""

UNSEEN = {
    "peermem-not-loaded": ("nccl-misses-peermem", "nvshmem-misses-peermem", "ucx-misses-peermem"),
    "module-not-found": ("nccl-misses-peermem", "nvshmem-misses-peermem", "ucx-misses-peermem"),
}
"""By what a person denies: the causes that it makes by far the likeliest, where a line may have them."""

MISSES = frozenset(code for codes in UNSEEN.values() for code in codes)

CONTEXT = 2.5
"""What the setting, such as Secure Boot or a container, adds to the first cause of a line, or to a claim."""

OF_NVIDIA = frozenset((*causes_of("ibv_reg_mr", EFAULT), "peermem-stub", "memory-not-registrable"))
"""Causes that only NVIDIA's GPUs and drivers have: a text that mentions no GPU has none of them."""

FOR_DMABUF = ("net-plugin-replaced", "perftest-tests-other-path")
"""Problems that matter for dma-buf alone, although they stop no path."""

FOR_NETWORK = ("ib-disabled-by-env", "no-rdma-device")
"""Problems that matter only if a job needs the network."""

TURNED_OFF = (
    "ib-disabled-by-env", "gdr-disabled-by-env", "dmabuf-disabled-by-env", "mnnvl-disabled-by-env",
    "gdr-read-off", "gdr-level-too-low",
)  # fmt: skip
"""What a setting turns off, also to avoid a problem."""

UNNEEDED = NOTE / 4
"""What a job lacks for a network that it does not need: less than the remark that it needs none."""

AGAIN = 0.25
"""Each further sentence that says the same counts this much of its own weight."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A cause with its weight and its evidence."""

    code: str
    weight: float
    sureness: Sureness
    claimed: bool
    lines: tuple[QuotedLine, ...]
    subject: str = ""
    machine: str = ""
    context: bool = False
    said: bool = False  # a person names it; else a line shows or quotes an error
    printed: bool = False  # a line shows or quotes, as a program prints it, what it brings about


def ranked(
    machines: tuple[TextMachine, ...],
    claims: tuple[Claim, ...],
    topics: Topics,
    around: frozenset[int] = frozenset(),
) -> tuple[Candidate, ...]:
    """Every cause that a text proves, leaves open or names, the likeliest first. `around` are the numbers of
    the lines that avoid the problem: what they turn off is not its cause."""
    found: dict[str, list[Candidate]] = {}
    said: set[tuple[str, ...]] = {(claim.code,) for claim in claims}
    failing = [
        line for machine in machines for line in machine.open if line.printed or line.codes not in said
    ]
    denied = {claim.code for claim in claims if claim.stance is Stance.DENIED}
    for candidate in (
        *_of_machines(machines, said, topics, failing, denied),
        *(
            _of_claim(one, topics, failing)
            for one in claims
            if not is_foreign(one.code, topics)
            and not (one.stance is Stance.TITLE and one.code in denied)  # the text answers its title
        ),
    ):
        avoids = candidate.code in TURNED_OFF and all(line.line in around for line in candidate.lines)
        weighed = replace(candidate, weight=min(candidate.weight, UNNEEDED)) if avoids else candidate
        found.setdefault(candidate.code, []).append(weighed)
    merged = (
        _confirmed(_merged(some), failing) for some in found.values() if not all(one.context for one in some)
    )
    ordered = sorted((one for one in merged if one.weight > 0), key=lambda one: -one.weight)
    return tuple(_deepest_first(ordered))


def is_foreign(code: str, topics: Topics) -> bool:
    """Whether only GPUs of NVIDIA have a cause, and the text is about another maker's."""
    return bool(topics.foreign) and (
        code in OF_NVIDIA or code in MISSES or CauseTrait.NVIDIA_ONLY in rule_of(code).traits
    )


def _hardware_weight(code: str, topics: Topics, failing: Iterable[OpenLine]) -> float:
    """The weight of hardware that a text mentions: what fails there must fit it."""
    lines = [line for line in failing if line.codes != (code,)]
    if any(code in line.codes for line in lines):
        return HARDWARE
    if not (
        (topics.rdma and topics.direct)
        or (code == "wsl" and (topics.rdma or topics.collective or topics.gpu))
    ):
        return 0.0
    return BESIDE if lines else HARDWARE


BEHIND = {
    "operator-module-missing": ("module-not-found",),
    "operator-stub": ("peermem-stub",),
    "rdma-device-not-in-container": ("no-rdma-device",),
    "lockdown-blocks-module": ("module-unsigned", "module-unknown-key"),
    "gpu-integrated": ("peermem-stub", "peermem-not-loaded", "nccl-misses-peermem"),
    "module-wrong-kernel": ("driver-not-loaded",),
    "module-not-found": ("peermem-not-loaded",),
    "operator-ofed-changed": ("module-crc-mismatch",),
    "peermem-not-loaded": ("mooncake-forces-peermem",),
    "torch-expandable-segments": ("memory-not-registrable", "peermem-not-loaded"),
    "wsl": ("module-not-found", "driver-not-loaded", "no-gpu", "verbs-library-missing", "no-rdma-device"),
    "ucx-transport-excluded": ("ucx-lacks-cuda",),
    **dict.fromkeys(
        ("verbs-library-missing", "no-rdma-device", "rdma-device-not-in-container", "ib-disabled-by-env"),
        ("rdma-transport-not-chosen",),
    ),
}
"""Causes that bring others about: by each cause, those that it brings about."""

BEHIND_IF_FOUND = dict.fromkeys(("gid-index-wrong", "port-down", "rail-unreachable"), ("retry-exceeded",))
"""The same, where a person found the deeper cause: many others bring about what it does."""


def brings_about(deeper: str, code: str) -> bool:
    """Whether a cause brings another one about."""
    if code in BEHIND.get(deeper, ()) or code in BEHIND_IF_FOUND.get(deeper, ()):
        return True
    return (
        rule_of(deeper).loading is not None
        and deeper != code
        and CauseTrait.NOT_LOADED in rule_of(code).traits
    )


SUPPORTED = 1.5
"""Weight from which a cause is behind another: a line of its own points to it."""


def _deepest_first(ordered: list[Candidate]) -> list[Candidate]:
    """The candidates, but a cause that brings the first one about comes before it."""
    first = ordered[0].code if ordered else ""
    known = {line.line for line in ordered[0].lines} if ordered else set()
    for candidate in ordered[1:]:
        if _is_guess(candidate) and candidate.weight < ordered[0].weight:
            continue
        if _explains_in_words(candidate, ordered[0]):
            return [candidate, *(one for one in ordered if one is not candidate)]
        own = any(line.line not in known for line in candidate.lines)
        own = own or (candidate.said and candidate.weight >= ordered[0].weight)
        supported = first in BEHIND.get(candidate.code, ()) and candidate.weight >= SUPPORTED
        found = (
            first in BEHIND_IF_FOUND.get(candidate.code, ()) and candidate.weight >= STANCES[Stance.FOUND]
        )
        if own and (supported or found):
            deeper = replace(candidate, weight=max(candidate.weight, ordered[0].weight))
            return [deeper, *(one for one in ordered if one is not candidate)]
    return ordered


def _is_guess(candidate: Candidate) -> bool:
    """Whether people only suppose a cause. Hardware is none: to mention it is enough."""
    supposed = candidate.weight < STANCES[Stance.SAID] and candidate.code not in HARDWARE_CODES
    return supposed and candidate.said and not candidate.printed


def _explains_in_words(deeper: Candidate, first: Candidate) -> bool:
    """Whether the words that name a cause also say what brought it about: "not loaded: blacklisted". What
    a person only quotes of the first one counts as words."""
    if (first.printed and not first.claimed) or deeper.printed or not deeper.said:
        return False
    return brings_about(deeper.code, first.code) and 2 * deeper.weight >= first.weight


def _of_machines(
    machines: tuple[TextMachine, ...],
    said: set[tuple[str, ...]],
    topics: Topics,
    failing: list[OpenLine],
    denied: set[str],
) -> Iterator[Candidate]:
    """The causes that outputs prove or leave open, without those that they exclude."""
    for machine in machines:
        prints = any(not line.claimed for line in machine.open)
        for problem in machine.established:
            yield _of_problem(problem, machine.name, topics, failing=prints)
        for line in machine.open:
            if not line.printed and line.codes in said:
                continue
            left = [code for code in line.codes if code not in machine.cleared]
            for candidate in _of_line(line, topics, failing, denied, left):
                excluded = _is_of_other_gpus(candidate.code, topics) or (
                    candidate.code in OF_NVIDIA and not topics.gpu
                )
                excluded = excluded or is_foreign(candidate.code, topics)
                if not excluded and candidate.code not in machine.cleared:
                    yield candidate


CARDS = ("gpu-consumer", "gpu-integrated")
"""Kinds of GPUs: a text that names other ones does not mean them."""

OF_DATACENTER = ("gpu-vgpu", "gpu-confidential", "gpu-mig")
"""What neither a GeForce nor GB10 has. Sources: NVIDIA's lists of GPUs for vGPU and MIG; confidential
computing needs a GPU for data centres, Hopper or newer."""


def _is_of_other_gpus(code: str, topics: Topics) -> bool:
    """Whether a cause is one of GPUs that the text does not mean: it names others."""
    named = topics.hardware.intersection(CARDS)
    if code in CARDS:
        return code not in named and (topics.datacenter or bool(named))
    return code in OF_DATACENTER and not topics.datacenter and bool(named)


def _of_problem(problem: EstablishedProblem, machine: str, topics: Topics, *, failing: bool) -> Candidate:
    """A problem that outputs prove. One that stops nothing is not why another line fails."""
    if any(problem.seen == proof.text for proof in problem.proofs):
        weight = BY_LINE
    elif set(problem.blocks) & set(OF_ITS_OWN):
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
    line: OpenLine, topics: Topics, failing: list[OpenLine], denied: set[str], left: list[str]
) -> Iterator[Candidate]:
    """The causes of a line; `left` are those that no output excludes."""
    mentioned = line.claimed and len(line.codes) == 1 and line.codes[0] in HARDWARE_CODES
    first = ONLY_CAUSE if len(line.causes) == 1 and not line.ruled_out else FIRST_CAUSE
    likely = {code for other in denied & set(line.codes) for code in UNSEEN.get(other, ())}
    for index, code in enumerate(line.codes):
        leads = (line.leads and index == 0 and len(line.causes) > 1) or code in likely
        leads = leads or (left == [code] and len(line.codes) > 1)
        weight = LEADING if leads else first / (index + 1)
        shown = line.note and not line.claimed and len(line.causes) == 1  # a state, and no error
        doubted = code in denied and not shown
        weight *= (QUOTED if line.claimed else 1) * (DENIED if doubted else 1)
        if line.note in (WENT_ON, SET):
            others = any(one.note not in (WENT_ON, SET) and one.printed for one in failing)
            weight = NOTE if line.note == WENT_ON or others or topics.crash else STANCES[Stance.SAID]
        if _is_unneeded(line.codes, topics):
            weight = UNNEEDED
        yield Candidate(
            code=code,
            weight=_hardware_weight(code, topics, failing) if mentioned else weight,
            sureness=Sureness.LIKELY
            if first == ONLY_CAUSE and not line.claimed and line.note != SET
            else Sureness.POSSIBLE,
            claimed=line.claimed,
            lines=(QuotedLine(line.line, line.text),),
            printed=line.printed,
        )


def _is_unneeded(codes: tuple[str, ...], topics: Topics) -> bool:
    """Whether a line is about a network that no job of the text needs."""
    return (topics.one_host or topics.over_nvlink) and not set(FOR_NETWORK).isdisjoint(codes)


def _of_claim(claim: Claim, topics: Topics, failing: list[OpenLine]) -> Candidate:
    weight = STANCES[claim.stance]
    if claim.hardware and claim.stance not in (Stance.ADVISED, Stance.DENIED):
        matters = _hardware_weight(claim.code, topics, failing)
        weight = max(weight, matters) if matters >= HARDWARE else matters
    return Candidate(
        code=claim.code,
        weight=UNNEEDED if topics.over_nvlink and _is_unneeded((claim.code,), topics) else weight,
        sureness=Sureness.LIKELY if claim.stance is Stance.FOUND else Sureness.POSSIBLE,
        claimed=True,
        lines=(QuotedLine(claim.sentence.line, claim.sentence.text),),
        context=claim.stance is Stance.CONTEXT,
        said=True,
    )


def _merged(candidates: Iterable[Candidate]) -> Candidate:
    """One candidate of all evidence for a code: the strongest kind leads, the rest adds to its weight."""
    first, *rest = sorted(candidates, key=lambda one: -one.weight)
    lines = {line.line: line for one in (first, *rest) for line in one.lines if one.weight}
    sureness = first.sureness
    if first.claimed and first.code in HARDWARE_CODES and any(not one.claimed for one in rest):
        sureness = Sureness.LIKELY  # what fails fits the hardware that the text names
    weight = first.weight + AGAIN * sum(one.weight for one in rest[:4])
    other = max((one.weight for one in rest if one.said != first.said), default=0.0)
    weight += AGREED * other
    if first.weight >= FIRST_CAUSE * QUOTED and any(one.context for one in rest):
        weight += CONTEXT
    return Candidate(
        code=first.code,
        weight=weight,
        sureness=sureness,
        claimed=first.claimed,
        lines=tuple(lines.values())[:MAX_LINES],
        subject=first.subject,
        machine=first.machine,
        said=any(one.said and one.weight for one in (first, *rest)),
        printed=any(one.printed and one.weight for one in (first, *rest)),
    )


def _confirmed(candidate: Candidate, failing: Iterable[OpenLine]) -> Candidate:
    """The candidate; likely if it is hardware that a person names, and a program fails as it does there."""
    if candidate.code not in HARDWARE_CODES or candidate.sureness is not Sureness.POSSIBLE:
        return candidate
    shown = next(
        (
            QuotedLine(line.line, line.text)
            for line in failing
            if not line.claimed and any(brings_about(candidate.code, code) for code in line.codes[:1])
        ),
        None,
    )
    if shown is None:
        return candidate
    says, *more = candidate.lines
    return replace(candidate, sureness=Sureness.LIKELY, lines=(says, shown, *more)[:MAX_LINES])


AGREED = 0.5
"""What people say of a cause that a line may have, or a line of one that they name, counts so much more."""

MAX_LINES = 4
"""Lines that are quoted for one cause at most."""
