"""Direct paths that a text shows to be closed, where nothing failed by it; and facts that decide nothing."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from gdrkit.catalogue import rule_of
from gdrkit.explain.chains import is_on_every_path, needs_no_module
from gdrkit.explain.explanation import (
    NO_FAILURE_SHOWN,
    Answer,
    AnswerKind,
    EstablishedProblem,
    Sureness,
    TextMachine,
    plain,
)
from gdrkit.explain.first_steps import DECIDES, IGNORE_IT, NOT_ON_A_SPARK, paragraphs
from gdrkit.explain.healthy import mixed_gpus
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.efa_mapping import shows_efa
from gdrkit.explain.ranking import Candidate, is_of_a_program
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.report.pages import code_page
from gdrkit.rules.capabilities import DIRECT, OF_ITS_OWN
from gdrkit.rules.rule import ADDRESS, CauseTrait


def closed_paths(machines: tuple[TextMachine, ...], lines: tuple[TextLine, ...]) -> Answer | None:
    """One of the two direct paths is closed, where nothing shows that the other is, or that anything
    failed; None if the text shows none closed. The deepest cause comes first. The driver of an EFA never
    uses nvidia-peermem: amzn-drivers kernel/linux/efa/src/efa_verbs.c."""
    notes = ((found, one) for one in machines for found in one.notes if not is_of_a_program(found))
    unused = ("peermem",) if shows_efa(lines) else ()
    closed = [(found, one) for found, one in notes if set(found.blocks) & set(OF_ITS_OWN) - set(unused)]
    if not closed:
        return None
    found, machine = closed[0]
    if (mixed := mixed_gpus(machine, found.code)) is not None:
        return mixed
    own = [found for found, one in closed if one is machine]
    paths = [set(one.blocks) for one in own]
    if set.union(*paths).issuperset(DIRECT) and not any(one.issuperset(DIRECT) for one in paths):
        return _both_closed(own, machine)
    title, steps = code_page(found.code)
    loads = CauseTrait.NOT_LOADED in rule_of(found.code).traits
    installed = found.subject.endswith(".ko")  # the name of its file, which an output shows
    what = "not whether that matters"
    if loads and not installed:
        what = "neither whether it is installed nor whether that matters"
    elif loads:
        title = f"{found.subject.removesuffix('.ko')} is installed, but not loaded."
    sentence = f"{title} The text shows {what}."
    of_peermem = NOT_ON_A_SPARK if _is_x86(machine) else IGNORE_IT
    todo = of_peermem if ADDRESS in rule_of(found.code).takes(found.subject or PEERMEM) else DECIDES
    if loads and installed:
        first = paragraphs(steps)[0]
        if found.subject == f"{LEGACY}.ko":  # of drivers that have no dma-buf
            todo = first.replace("nvidia-peermem", LEGACY)
        else:
            todo = f"{todo} Where it is needed: {first}"
    if contradictions := [one.text for one in machine.contradictions]:
        sentence = f"{contradictions[0]}."
        todo = (
            "Run `modprobe --show-depends nvidia_peermem`: a line that starts with `install` is what it"
            " ran in place of loading the module. Then run lsmod on the host itself."
        )
    return plain(AnswerKind.SEVERAL, sentence, machine=machine.name, lines=found.proofs, now=(todo,))


def _is_x86(machine: TextMachine) -> bool:
    """Whether an output, such as the driver's banner, names a CPU that no DGX Spark has."""
    return any("x86_64" in fact.text for fact in machine.known)


def _both_closed(own: list[EstablishedProblem], machine: TextMachine) -> Answer:
    """Each of the two direct paths is closed on a machine, by problems that are notes one by one. Opening
    one of them is enough."""
    codes = dict.fromkeys(one.code for one in own)
    titles = " ".join(code_page(code)[0] for code in codes)
    return plain(
        AnswerKind.SEVERAL,
        f"Both direct paths are closed: {titles} The text shows not whether a program needs one of them.",
        machine=machine.name,
        sureness=Sureness.CERTAIN,
        lines=tuple(proof for one in own for proof in one.proofs[:1]),
        now=(
            "Each of these can open one of them:",
            *(f"- {paragraphs(code_page(code)[1])[0]}" for code in codes),
        ),
    )


def changeable_first(found: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The causes, but where the first is hardware that nobody can change, one that matters there as well,
    and that somebody can change, comes before it."""
    if not found or not needs_no_module(found[0].code, PEERMEM):
        return found
    sure = (one for one in found if one.sureness is not Sureness.POSSIBLE)
    first = next((one for one in sure if is_on_every_path(one.code)), found[0])
    return (structs.replace(first, weight=found[0].weight), *(one for one in found if one is not first))


APART = "Paste the outputs of each machine under its name, or of one machine alone: gdr explain reads each."


def unless_contradicted(found: Answer, machines: Iterable[TextMachine]) -> Answer:
    """The answer; where it says that nothing is wrong, although the text has two contents of one file or
    command, that these decide nothing."""
    torn = [(one, machine.name) for machine in machines for one in machine.contradictions]
    if found.kind is not AnswerKind.NO_PROBLEM or not torn:
        return found
    first, name = torn[0]
    return structs.replace(
        found,
        kind=AnswerKind.SEVERAL,
        sentence=f"{NO_FAILURE_SHOWN}: {first.text}.",
        machine=name,
        sureness=Sureness.POSSIBLE,
        lines=first.proofs,
        now=(APART,),
    )
