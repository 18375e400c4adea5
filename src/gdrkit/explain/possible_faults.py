"""What may be a fault where nothing fails: rates, ports and links that lag behind, and losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from gdrkit.explain.explanation import (
    NO_FAILURE_SHOWN,
    Answer,
    AnswerKind,
    KnownFact,
    QuotedLine,
    RankedCause,
    Sureness,
    plain,
)
from gdrkit.explain.outputs.flow_control import CARRIED_NOTHING, LOSSES
from gdrkit.explain.outputs.hot_plug import START_AGAIN
from gdrkit.explain.outputs.iperf_ports import OTHER_PORT
from gdrkit.explain.outputs.link_flaps import FLAPPING
from gdrkit.explain.outputs.measured import (
    BELOW_SPARKS,
    DOWN,
    NCCL_TESTS,
    SLOW,
    SLOW_HOST,
    WAITING,
)
from gdrkit.explain.ranking import BETWEEN_GPU_AND_NIC
from gdrkit.report.pages import code_page

COMPARE = (
    "Run `gdr estimate --measured FILE` on that machine, or `gdr estimate BUNDLE --measured FILE` with what"
    " `gdr collect` writes there: it says how near to the limit that is."
)
FIND_OUT = (
    "Name both RDMA devices of the cable in NCCL_IB_HCA (`gdr config nccl-env`), set MTU 9000 on both nodes,"
    " and run it again with NCCL_DEBUG=INFO: `gdr nccl LOG` shows which network NCCL took."
    f" If a cable was moved: {START_AGAIN[0].lower()}{START_AGAIN[1:]}."
)
TO_THE_CABLE = (
    "Run it to the address that the peer has in the network of the fast port, not to its name: ping that"
    " address first. A port without an address needs one, in a network of its own, at both ends."
)


def trouble(facts: Mapping[str, KnownFact]) -> Answer | None:
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


INACTIVE = {
    WAITING: "A port with a link waits to be set up",
    DOWN: "A port without a cable may be as it should",
}


def inactive(facts: Mapping[str, KnownFact]) -> Answer:
    """Ports that are not active, beside ports that are."""
    what = "; ".join(fact.value for fact in facts.values())
    why = ". ".join(INACTIVE[name] for name in facts)
    sentence = f"{NO_FAILURE_SHOWN}: {what}, beside ports that are active. {why}; the text does not show"
    sentence += " whether a job needs it."
    proofs = tuple(QuotedLine(fact.line or 1, fact.text) for fact in facts.values())
    other = RankedCause("port-down", code_page("port-down")[0], proofs[0].line)
    return plain(AnswerKind.SEVERAL, sentence, lines=proofs, others=(other,))


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


def slow_gpu(fact: KnownFact, cleared: Set[str]) -> Answer:
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
