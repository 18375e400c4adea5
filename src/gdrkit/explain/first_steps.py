"""What to do about a cause: the steps of its page, and before them where they are not needed at all."""

from __future__ import annotations

import re

from gdrkit.catalogue import rule_of
from gdrkit.explain.explanation import EstablishedProblem, Sureness, TextMachine
from gdrkit.explain.failing import needs_path
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.slurm_limits import is_of_submitter
from gdrkit.explain.products import CARDS, DATACENTER
from gdrkit.explain.ranking import Candidate
from gdrkit.explain.subject import Topics
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.formats.regex import regex
from gdrkit.messages.errors import EFAULT
from gdrkit.messages.operator import OFED_POD_LOG
from gdrkit.messages.verbs_failures import causes_of
from gdrkit.report.pages import IN_A_POD, IN_SLURM, code_page, sections
from gdrkit.rules.rule import ADDRESS

IGNORE_IT = (
    "Often nothing: a DGX Spark or another GB10 does not need nvidia-peermem, nor does a machine whose open"
    " kernel modules and RDMA stack give dma-buf; ignore it there. `gdr doctor` decides in a second."
)
NOT_ON_A_SPARK = (
    "Often nothing: a machine whose open kernel modules and RDMA stack give dma-buf does not need"
    " nvidia-peermem; ignore it there. `gdr doctor` decides in a second."
)
ON_A_SPARK = (
    "If the module is nvidia-peermem, and the machine a DGX Spark or another GB10, ignore it: nothing is to"
    " be fixed there."
)
DECIDES = "`gdr doctor` decides in a second whether the other direct path serves this machine."

OLD_NAME = (
    "nv_peer_mem is the old module, which nvidia-peermem replaced with driver 470: run `sudo modprobe"
    " nvidia-peermem`, which the driver's packages bring. With open kernel modules and an RDMA stack that"
    " gives dma-buf, neither is needed: `gdr doctor` decides in a second."
)
"""Source: the page of legacy-nv-peer-mem."""

OF_OFED_POD = (
    f"The text shows a pod that installs an OFED: read why it is not ready with {OFED_POD_LOG}, and paste"
    " that into `gdr explain`. Or set rdma.enabled: false and use dma-buf, which needs no OFED."
)
_OFED_POD = regex(r"\bmofed-[\w.]+-[\w.-]*ds-\w|^\s*\[\d\d-[A-Z][a-z]{2}-\d\d_[\d:]{8}\] ")
"""The name of a pod of the Network Operator: manifests/state-ofed-driver."""
_DRIVER_MANAGER = "Waiting for MOFED to be installed"
_HOST_OFED = regex(r"\b(?:useHostMofed|USE_HOST_MOFED)\b\W{1,6}true\b")
"""A setting by which the GPU Operator takes the OFED of the host, and waits for no pod's."""

FLAVOUR = "kernel module"
"""The fact of a text that says whether the driver is the open one."""
INTEGRATED = frozenset(("gpu-integrated",))
"""The products of a text that names a DGX Spark or another GB10, and no other."""


def first_steps(
    steps: tuple[str, ...],
    first: Candidate,
    machines: tuple[TextMachine, ...],
    lines: tuple[TextLine, ...],
    about: Topics,
) -> tuple[str, ...]:
    """The steps of the first cause, and before them on which machines they are of no use."""
    if first.code == "operator-waits-for-ofed":
        of_host = tuple(step for step in steps if step.startswith("With useHostMofed: true"))
        if any(_HOST_OFED.search(line.text) for line in lines):
            return of_host
        if any(_OFED_POD.search(line.text) for line in lines):
            return (OF_OFED_POD,)
        if any(_DRIVER_MANAGER in line.text for line in lines):
            return (" ".join((*of_host, f"Else: {steps[0]}")),)
    for label, is_here in ((IN_A_POD, about.in_pod), (IN_SLURM, is_of_submitter(lines))):
        own = paragraphs(sections(rule_of(first.code))[1].get(label, ""))
        if own and is_here:
            return (*own, *(step for step in steps if step not in own))
    if first.code == "module-not-found" and _is_legacy(first, machines):
        return (OLD_NAME,)
    if _is_open_for_peermem(first, machines) and not needs_path(lines):
        if (closed := _closed_dmabuf(machines)) is not None:
            shown = f" (line {closed.proofs[0].line})" if closed.proofs else ""
            return (f"{code_page(closed.code)[0].rstrip('.')}{shown}. {steps[0]}", *steps[1:])
        other_gpus = about.products & {*CARDS, DATACENTER} and not about.products >= INTEGRATED
        harmless = NOT_ON_A_SPARK if other_gpus else IGNORE_IT
        return (f"{harmless} Where it is needed: {steps[0]}", *steps[1:])
    unnamed = rule_of(first.code).loading is not None and not modules_of(first, machines)
    if unnamed and about.named == INTEGRATED:
        return (f"{ON_A_SPARK} Else: {steps[0]}", *steps[1:])
    return steps


OTHER_PATH = "perftest-tests-other-path"
TEST_DMABUF = (
    " dma-buf, which needs no nvidia-peermem: add `--use_cuda_dmabuf` to the same command. If perftest"
    " does not know this option, it was built without it."
)


def with_other_path(
    steps: tuple[str, ...], first: Candidate, machines: tuple[TextMachine, ...]
) -> tuple[str, ...]:
    """The steps, and how to test dma-buf, where perftest could register no GPU memory without it."""
    tested = any(found.code == OTHER_PATH for one in machines for found in (*one.established, *one.notes))
    if not tested or first.code not in causes_of("ibv_reg_mr", EFAULT) or _closed_dmabuf(machines):
        return steps
    return (f"{steps[0]} Or test{TEST_DMABUF}" if steps else f"Test{TEST_DMABUF}", *steps[1:])


def _is_open_for_peermem(first: Candidate, machines: tuple[TextMachine, ...]) -> bool:
    """Whether a cause that is open, or that a driver with dma-buf may not mind, closes the peermem path
    alone."""
    flavours = {fact.value for machine in machines for fact in machine.known if fact.name == FLAVOUR}
    is_open = first.sureness is Sureness.POSSIBLE or flavours == {"open"}
    return is_open and _closes_peermem_alone(first) and not _is_legacy(first, machines)


def _closed_dmabuf(machines: tuple[TextMachine, ...]) -> EstablishedProblem | None:
    """What the text proves to close the other path, so that peermem is needed."""
    proven = (found for one in machines for found in (*one.established, *one.notes))
    return next((found for found in proven if "dmabuf" in found.blocks), None)


def _is_legacy(first: Candidate, machines: tuple[TextMachine, ...]) -> bool:
    """Whether a cause is one of nv_peer_mem, which comes with drivers and kernels that have no dma-buf."""
    return LEGACY in modules_of(first, machines)


def modules_of(first: Candidate, machines: tuple[TextMachine, ...]) -> set[str]:
    """The modules that the lines of a cause name."""
    numbers = {line.line for line in first.lines}
    opened = (line for machine in machines for line in machine.open)
    subjects = (line.subject for line in opened if line.line in numbers)
    return {module for module in (first.subject, *subjects) if module}


def _closes_peermem_alone(cause: Candidate) -> bool:
    rule = rule_of(cause.code)
    return rule.loading is not None and rule.takes(cause.subject or PEERMEM) == (ADDRESS,)


def paragraphs(todo: str) -> tuple[str, ...]:
    """The paragraphs of a section, and each item of a list in it."""
    parts = (part for paragraph in todo.split("\n\n") for part in re.split(r"\n(?=- |\d\. )", paragraph))
    return tuple(" ".join(part.split()) for part in parts if part)
