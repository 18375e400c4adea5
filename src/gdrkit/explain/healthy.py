"""The answer to a text in which nothing fails for a known cause: what it shows to work, or to be healthy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

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
from gdrkit.explain.outputs.flow_control import CARRIED_NOTHING, LOSSES, PRIORITIES
from gdrkit.explain.outputs.gpus import CUT
from gdrkit.explain.outputs.hot_plug import START_AGAIN
from gdrkit.explain.outputs.iperf_ports import AS_A_PORT, OTHER_PORT
from gdrkit.explain.outputs.kubernetes_states import OBJECTS, OFFERED, PODS
from gdrkit.explain.outputs.link_flaps import FLAPPING
from gdrkit.explain.outputs.measured import (
    BELOW_SPARKS,
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
    SLOW,
    SLOW_GPU,
    SLOW_HOST,
    STOPPED,
    UNLIKE,
    WAITING,
)
from gdrkit.explain.outputs.pcie_links import IDLE
from gdrkit.explain.ranking import BETWEEN_GPU_AND_NIC, HANGS
from gdrkit.facts import gpu_ids
from gdrkit.facts.cable_halves import AS_BUILT, CABLES, interface_of
from gdrkit.formats.regex import regex
from gdrkit.programs import proofs
from gdrkit.programs.ucx.proto_tables import CHOSEN
from gdrkit.report.pages import code_page
from gdrkit.rules.capabilities import REGISTRATION

COMPARE = (
    "Run `gdr estimate --measured FILE` on that machine, or `gdr estimate BUNDLE --measured FILE` with what"
    " `gdr collect` writes there: it says how near to the limit that is."
)


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


FIND_OUT = (
    "Name both RDMA devices of the cable in NCCL_IB_HCA (`gdr config nccl-env`), set MTU 9000 on both nodes,"
    " and run it again with NCCL_DEBUG=INFO: `gdr nccl LOG` shows which network NCCL took."
    f" If a cable was moved: {START_AGAIN[0].lower()}{START_AGAIN[1:]}."
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
TO_THE_CABLE = (
    "Run it to the address that the peer has in the network of the fast port, not to its name: ping that"
    " address first. A port without an address needs one, in a network of its own, at both ends."
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
    if (trouble := _trouble(facts)) is not None:
        return trouble
    if SLOW_GPU in facts:
        return _slow_gpu(facts[SLOW_GPU], {code for machine in machines for code in machine.cleared})
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
    elif inactive := {name: facts[name] for name in INACTIVE if name in facts}:
        return _inactive(inactive)
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
    what = NO_PROBLEM
    if benchmarks and LIKE_SPARKS not in words:
        what = "The text shows no failure, but not whether the rate is good"
    elif words.endswith(UNLIKE):
        what = "The text shows no failure"
    works = PERFTEST in facts and any(of in facts[PERFTEST].value for of in (OF_A_GPU, OF_ANOTHER))
    return plain(
        AnswerKind.WORKING if works else AnswerKind.NO_PROBLEM,
        f"{what}: {words}.",
        sureness=Sureness.CERTAIN,
        lines=quoted,
        now=now,
    )


INACTIVE = {
    WAITING: "A port with a link waits to be set up",
    DOWN: "A port without a cable may be as it should",
}


def _inactive(facts: Mapping[str, KnownFact]) -> Answer:
    """Ports that are not active, beside ports that are."""
    what = "; ".join(fact.value for fact in facts.values())
    why = ". ".join(INACTIVE[name] for name in facts)
    sentence = f"{NO_FAILURE_SHOWN}: {what}, beside ports that are active. {why}; the text does not show"
    sentence += " whether a job needs it."
    proofs = tuple(QuotedLine(fact.line or 1, fact.text) for fact in facts.values())
    other = RankedCause("port-down", code_page("port-down")[0], proofs[0].line)
    return plain(AnswerKind.SEVERAL, sentence, lines=proofs, others=(other,))


def _trouble(facts: Mapping[str, KnownFact]) -> Answer | None:
    """What may be a fault although nothing failed; None if there is none."""
    if SLOW_HOST in facts:
        return _slow_host(facts[SLOW_HOST])
    if SLOW in facts:
        return _slow(facts[SLOW])
    if OTHER_PORT in facts:
        return _perhaps(facts[OTHER_PORT], "another port than the fast one. iperf measured ", TO_THE_CABLE)
    if FLAPPING in facts:
        return _flapping(facts[FLAPPING])
    if LOSSES in facts:
        return _lossy(facts[LOSSES])
    if NCCL_TESTS in facts and facts[NCCL_TESTS].value.endswith(BELOW_SPARKS):
        return _below(facts[NCCL_TESTS])
    return None


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


def _perhaps(fact: KnownFact, what: str, *now: str, others: Iterable[RankedCause] = ()) -> Answer:
    """Nothing that failed, but what may be a fault: what a fact shows, what to do, and which codes it may
    have."""
    line = QuotedLine(fact.line or 1, fact.text)
    sentence = f"{NO_FAILURE_SHOWN}: {what}{fact.value}."
    return plain(AnswerKind.SEVERAL, sentence, lines=(line,), now=now, others=tuple(others))


def _slow(fact: KnownFact) -> Answer:
    """A port that is slower than those that it may be compared with: it may be so on purpose."""
    code = "port-slower-than-others"
    title, todo = code_page(code)
    return _perhaps(fact, "", " ".join(todo.split()), others=(RankedCause(code, title, fact.line),))


def _slow_host(fact: KnownFact) -> Answer:
    """Machines that are slower than the others: whether they, their peers or the way between is the reason,
    their rates do not show."""
    return _perhaps(
        fact,
        "a machine that is slower than the others: ",
        "Repeat its run with another peer: if it stays slow, run `gdr doctor` on it. `gdr fleet doctor"
        " FOLDER` names what differs from the others, such as a port's rate, a link or its errors.",
    )


def _flapping(fact: KnownFact) -> Answer:
    """A link that the kernel saw go down several times: who took it down, its lines do not show."""
    return _perhaps(
        fact,
        "a link that did not stay up: ",
        "If nobody moved its cable or restarted its switch: `sudo mlxlink -d <device> -m -c` shows the"
        " module and its errors. Clean or exchange the cable, then the module, then use another port of"
        " the switch, and see whether it goes on. A job that meets it may end with retry-exceeded.",
    )


def _slow_gpu(fact: KnownFact, cleared: Set[str]) -> Answer:
    """GPU memory that a NIC reaches, but far more slowly than the host's."""
    left = [code for code in BETWEEN_GPU_AND_NIC if code not in cleared]
    return _perhaps(
        fact,
        "the direct path works, but slowly. perftest measured ",
        "Run `gdr doctor` on that machine: it judges the way between the GPU and this NIC, and"
        " `gdr topo` names the nearest NIC of each GPU.",
        others=(RankedCause(code, code_page(code)[0], None) for code in left),
    )


def _below(fact: KnownFact) -> Answer:
    """A run that is slower than such machines are; its GPUs are theirs."""
    what = "a low rate, of which the GPU is not the cause. nccl-tests measured "
    return _perhaps(fact, what, f"{COMPARE} {FIND_OUT}")


def _lossy(fact: KnownFact) -> Answer:
    """Packets that were lost without flow control. Where the priorities with flow control carried nothing,
    what was to have it does not get there; else whose packets they are is open."""
    decided = fact.value.endswith(CARRIED_NOTHING)
    whose = "The traffic that is to have flow control does not get it: received packets were lost"
    return plain(
        AnswerKind.ELSEWHERE if decided else AnswerKind.SEVERAL,
        f"{whose if decided else f'{NO_FAILURE_SHOWN}: received packets were lost'}, {fact.value}.",
        sureness=Sureness.LIKELY if decided else Sureness.POSSIBLE,
        lines=(QuotedLine(fact.line or 1, fact.text),),
        now=(
            "If these are the packets of RDMA, give them a priority that has flow control on the NIC"
            " (`mlnx_qos -i INTERFACE --pfc 0,0,0,1,0,0,0,0`) and on the switch: NCCL takes the"
            " traffic class from NCCL_IB_TC, which is the DSCP value times 4; other programs take that of"
            " cma_roce_tos or of /sys/class/infiniband/<device>/tc/1/traffic_class.",
        ),
    )
