"""The answer to a text in which nothing fails for a known cause: what it shows to work, or to be healthy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdrkit.catalogue import rule_of
from gdrkit.explain.explanation import (
    NO_FAILURE_SHOWN,
    NO_PROBLEM,
    TOPOLOGY,
    Answer,
    AnswerKind,
    KnownFact,
    QuotedLine,
    RankedCause,
    Sureness,
    TextMachine,
    plain,
)
from gdrkit.explain.logged_job import LoggedJob
from gdrkit.explain.outputs.flow_control import PRIORITIES
from gdrkit.explain.outputs.gpus import CUT
from gdrkit.explain.outputs.iperf_ports import AS_A_PORT
from gdrkit.explain.outputs.kubernetes_states import OBJECTS, OFFERED, PODS
from gdrkit.explain.outputs.measured import (
    BENCHMARKS,
    CONTIGUOUS,
    DCGM,
    DIRECT_ALL_THE_SAME,
    DOWN,
    ESTIMATED,
    IPERF,
    LIKE_SPARKS,
    NCCL_TESTS,
    OF_A_GPU,
    OF_ANOTHER,
    ONE_CABLE,
    PEERS,
    PERFTEST,
    PORTS,
    RAS,
    RATES,
    RULED_OUT,
    SLOW_GPU,
    STOPPED,
    UNLIKE,
    WAITING,
)
from gdrkit.explain.outputs.pcie_links import IDLE
from gdrkit.explain.possible_faults import COMPARE, INACTIVE, inactive, slow_gpu, trouble
from gdrkit.explain.ranking import HANGS
from gdrkit.facts import gpu_ids
from gdrkit.facts.cable_halves import AS_BUILT, CABLES, interface_of
from gdrkit.formats.regex import regex
from gdrkit.programs import proofs
from gdrkit.programs.ucx.proto_tables import CHOSEN
from gdrkit.report.pages import code_page
from gdrkit.rules.capabilities import REGISTRATION


def working(
    job: LoggedJob | None, machines: tuple[TextMachine, ...], failing: QuotedLine | None
) -> Answer | None:
    """That NCCL accesses GPU memory directly, if that is what carries the traffic of a job; what fails all
    the same is something else, and is quoted."""
    legs = job.legs if job else None
    if job and job.is_direct and legs is not None and legs.line is not None:
        shown = "What fails here is none of the failures whose cause gdr knows, but"
        if failing is None:
            shown = f"{NO_PROBLEM}, and"
        kind, value, rate = AnswerKind.WORKING, legs.value, _rate(machines)
        if rate is not None and failing is None:
            shown = "The text shows no failure, but not whether the rate is good."
            value = f"{value}; nccl-tests measured {rate.value}"
        if job.state != "active":  # ranks are missing
            kind = AnswerKind.NO_PROBLEM if failing is None else AnswerKind.NOTHING
            value = f"{value}; of the job, {job.summary}"
        return plain(
            kind,
            f"{shown} NCCL accesses GPU memory directly: {value}.",
            sureness=Sureness.CERTAIN,
            lines=(QuotedLine(legs.line, legs.text), *(() if failing is None else (failing,))),
            now=() if rate is None else (COMPARE,),
        )
    found = _in_use(machines, failing)
    measures = any(fact.name in BENCHMARKS for machine in machines for fact in machine.known)
    return None if measures and found is not None and found.kind is AnswerKind.NOTHING else found


def _rate(machines: Iterable[TextMachine]) -> KnownFact | None:
    """The best rate of nccl-tests in a text: a direct path may be slow all the same."""
    facts = (fact for machine in machines for fact in machine.known)
    return next((fact for fact in facts if fact.name == NCCL_TESTS), None)


def _in_use(machines: Iterable[TextMachine], failing: QuotedLine | None) -> Answer | None:
    """What lines of programs show to be in use, where nothing else decides: a proof of the path first."""
    shown = [fact for machine in machines for fact in machine.known if fact.name in proofs.PROGRAMS]
    proof = min(shown, key=lambda fact: not proofs.proves_direct(fact.value), default=None)
    if proof is None or proof.line is None:
        return None
    direct = proofs.proves_direct(proof.value)
    words = "The text shows no failure" if failing is None else "gdr knows no cause of what fails here"
    return plain(
        AnswerKind.WORKING if direct else AnswerKind.NOTHING,
        f"{words}; line {proof.line} shows of {proof.name}: {proof.value}.",
        # what UCX chose need not have been used
        sureness=Sureness.LIKELY if CHOSEN in proof.value else Sureness.CERTAIN,
        lines=(*((QuotedLine(proof.line, proof.text),) * direct), *(() if failing is None else (failing,))),
    )


def rate_there(machines: tuple[TextMachine, ...], code: str) -> Answer | None:
    """What nccl-tests measured where all that the text proves is a GPU without a direct path: NCCL goes
    through host memory there, which is why no test failed, and no reason for a low rate. None if a line
    shows a failure, or if nothing was measured."""
    known = [fact for machine in machines for fact in machine.known]
    measures = any(fact.name == NCCL_TESTS or fact.value == AS_BUILT for fact in known)
    fails = any(line.fails for machine in machines for line in machine.open)
    return healthy(machines, None) if measures and not fails and rule_of(code).permanent else None


NOTHING_TO_SET = (
    "Nothing is to be set for it, NCCL_NET_GDR_LEVEL neither: a GB10 has no GPUDirect RDMA at any distance,"
    " and NCCL copies through host memory. For speed, name both RDMA devices of the cable in NCCL_IB_HCA"
    " (`gdr config nccl-env`): NODE is between them, too, and PIX between two ports."
)
WHICH_PORT = (
    "If a faster port was to carry it: `ip route get PEER` names the interface that did, and `ip -br addr`"
    " the addresses of all. Run it to the address that the peer has on the faster one."
)
HEALTHY = (PORTS, DCGM, RAS, PRIORITIES, CONTIGUOUS, PEERS, IDLE, PODS, OBJECTS, OFFERED)
OF_KUBERNETES = frozenset((PODS, OBJECTS, OFFERED))
"""What shows that something is as it should be, if nothing else is to be said."""
OF_NODES = "`gdr fleet doctor --kubernetes` judges each node."
OF_JOB = "Run a job with NCCL_DEBUG=INFO on two nodes: `gdr nccl LOG` says what carried its data."


def _as_it_should_be(facts: Mapping[str, KnownFact], shown: Iterable[KnownFact]) -> str:
    words = "; ".join(fact.value for fact in shown)
    if PORTS in facts and RATES not in facts:
        words += "; the text does not show their rates"
    elif PORTS in facts and facts[RATES].value.endswith(UNLIKE):
        words += f"; {facts[RATES].value}"
    if not OF_KUBERNETES.isdisjoint(facts):
        words += "; the text does not show whether a job uses the direct path"
    return words


def _for_nccl(facts: Mapping[str, KnownFact]) -> tuple[str, ...]:
    """The names that NCCL needs, where the ports are both devices of one cable of a DGX Spark."""
    ports = facts[PORTS].value if PORTS in facts else ""
    if not ports.endswith(ONE_CABLE):
        return ()
    first, second = next(one for one in CABLES if one[0] in ports or interface_of(one[0]) in ports)
    return (
        "For NCCL on both nodes, with the cable in the same port of both:",
        f"- `NCCL_IB_HCA={first},{second}`: both devices of the cable; one alone is half of it. The"
        " interface of each needs an address in a network of its own.",
        f"- `NCCL_SOCKET_IFNAME={interface_of(first)}`: the interface of the cable, which has to have such"
        " an address. Another one serves if all nodes reach each other over it.",
    )


def healthy(machines: tuple[TextMachine, ...], failing: QuotedLine | None) -> Answer | None:
    """What a text without a failure shows: rates, distances or ports. None for one that shows none."""
    facts = {fact.name: fact for machine in machines for fact in machine.known if fact.line is not None}
    if failing is not None:
        return None
    benchmarks = [facts[name] for name in BENCHMARKS if name in facts]
    if {fact.name for fact in benchmarks} == {IPERF} and not facts.keys().isdisjoint((WAITING, DOWN)):
        benchmarks = []  # sockets may use another NIC
    now: tuple[str, ...] = ()
    if (fault := trouble(facts)) is not None:
        return fault
    if SLOW_GPU in facts:
        return slow_gpu(facts[SLOW_GPU], {code for machine in machines for code in machine.cleared})
    if benchmarks:
        words = "; ".join(f"{fact.name.split()[0]} measured {fact.value}" for fact in benchmarks)
        if any(name in facts for name in ESTIMATED):
            now = (COMPARE,)
        elif AS_A_PORT in words:
            now = (WHICH_PORT,)
        shown = benchmarks
    elif TOPOLOGY in facts and facts[TOPOLOGY].value == AS_BUILT:
        words, now = AS_BUILT, (NOTHING_TO_SET,)
        shown = [facts[TOPOLOGY]]
    elif TOPOLOGY in facts and "`" in facts[TOPOLOGY].value:
        words = "no GPU of this matrix is far from its nearest NIC"
        now = ("Run `gdr topo FILE`: it shows the nearest NIC of each GPU.",)
        shown = [facts[TOPOLOGY]]
    elif waiting := {name: facts[name] for name in INACTIVE if name in facts}:
        return inactive(waiting)
    elif names := [name for name in HEALTHY if name in facts]:
        shown = [facts[name] for name in names]
        words = _as_it_should_be(facts, shown)
        now = _for_nccl(facts) if OF_KUBERNETES.isdisjoint(facts) else (f"{OF_JOB} {OF_NODES}",)
    elif RULED_OUT in facts:
        shown = [facts[RULED_OUT]]
        words = f"it rules out {facts[RULED_OUT].value}"
    else:
        return None
    quoted = tuple(QuotedLine(fact.line, fact.text) for fact in shown if fact.line is not None)
    works = PERFTEST in facts and any(of in facts[PERFTEST].value for of in (OF_A_GPU, OF_ANOTHER))
    return plain(
        AnswerKind.WORKING if works else AnswerKind.NO_PROBLEM,
        f"{_how_good(words, is_measured=bool(benchmarks))}: {words}.",
        sureness=Sureness.CERTAIN,
        lines=quoted,
        now=now,
    )


def _how_good(words: str, *, is_measured: bool) -> str:
    """What a text without a failure says of its health: of a rate, nothing."""
    if is_measured and LIKE_SPARKS not in words:
        return "The text shows no failure, but not whether the rate is good"
    return "The text shows no failure" if words.endswith(UNLIKE) else NO_PROBLEM


def _is_supported(name: str) -> bool:
    """Whether NVIDIA supports boards of a name, or all whose names begin like one that is cut."""
    cut = len(name) >= CUT and any(known.startswith(name) for known in gpu_ids.SUPPORTED.values())
    return cut or gpu_ids.supported_name(name) != ""


GPU_LABEL = regex(r"(?:GPU|CUDA device) \d{1,3}|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def mixed_gpus(machine: TextMachine, code: str) -> Answer | None:
    """Which GPUs of a list can never have a direct path, where others may; None where the code is about
    something else."""
    names = {fact.name: fact.value for fact in machine.known if GPU_LABEL.fullmatch(fact.name)}
    never = {
        one.subject: one for one in machine.notes if one.code == code and GPU_LABEL.fullmatch(one.subject)
    }
    if not never or not rule_of(code).permanent >= set(REGISTRATION):
        return None
    others = {label: name for label, name in names.items() if label not in never}
    supported = all(map(_is_supported, others.values()))
    can = "of product lines that NVIDIA supports" if supported else "not known to be supported"
    listed = ", ".join(f"{label} ({name})" for label, name in others.items())
    return plain(
        AnswerKind.NO_PROBLEM,
        f"The text shows no failure. GPUs that can use neither direct path: {', '.join(never)}. The others"
        f" count, and are {can}: {listed}.",
        machine=machine.name,
        sureness=Sureness.LIKELY,
        lines=tuple(proof for one in never.values() for proof in one.proofs[:1]),
        now=(
            "For what goes over the network, take the others (CUDA_VISIBLE_DEVICES). `gdr doctor` judges"
            " each of them, and `gdr topo` shows its nearest NIC.",
        ),
    )


def of_another(machines: Iterable[TextMachine], failing: QuotedLine | None) -> Answer | None:
    """That a NIC sent the memory of another maker's accelerator, where nothing fails; None if none did. The
    text shows that of any maker."""
    facts = (fact for machine in machines for fact in machine.known)
    sent = next((fact for fact in facts if fact.name == PERFTEST and OF_ANOTHER in fact.value), None)
    if sent is None or sent.line is None or failing is not None:
        return None
    return plain(
        AnswerKind.WORKING,
        f"The text shows no failure, but not whether the rate is good: perftest measured {sent.value}.",
        sureness=Sureness.CERTAIN,
        lines=(QuotedLine(sent.line, sent.text),),
    )


def without_result(machines: Iterable[TextMachine], failing: QuotedLine | None) -> Answer | None:
    """That a benchmark printed no result, where no line says why; None if none did."""
    facts = (fact for machine in machines for fact in machine.known)
    fact = next((fact for fact in facts if fact.name == STOPPED), None)
    if fact is None or failing is not None:
        return None
    direct = fact.value.endswith(DIRECT_ALL_THE_SAME)
    return plain(
        AnswerKind.SEVERAL if direct else AnswerKind.NOTHING,
        f"{NO_FAILURE_SHOWN}: a run of nccl-tests without a result, {fact.value}. It may hang, or its end"
        " is not shown.",
        lines=(QuotedLine(fact.line or 1, fact.text),),
        others=tuple(RankedCause(code, code_page(code)[0], None) for code in HANGS * direct),
    )
