"""PCIe links in a text: what they carry, and whether the slot or the link is at fault, as an answer."""

from __future__ import annotations

from msgspec import structs

from gdrkit.explain.explanation import NO_FAILURE_SHOWN, AnswerMeaning, Explanation, Question
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.explain.outputs.pcie_links import DEGRADED, LINKS, NARROW, ShownLink, shown_links
from gdrkit.facts.pci_path import kernel_gbit_per_s
from gdrkit.report.pages import code_page


def with_link(explanation: Explanation, text: PastedHost) -> Explanation:
    """The explanation of a text; if it is about a link, with what that carries, and how to tell a slot
    without more lanes from a link that lost some."""
    answer = explanation.answer
    first = answer.cause or next((other.code for other in answer.others), "")
    if first not in LINKS or not answer.lines:
        return explanation
    found = (
        link
        for host in text.machines()
        for link in shown_links(host.own_lines)
        if host.own_lines[link.position].number == answer.lines[0].line
    )
    link = next(found, None)
    if link is None:
        return explanation
    if answer.cause is None:
        words = f"{NO_FAILURE_SHOWN}: {_why(link)} {_rate(link)}"
        explanation = structs.replace(explanation, question=_question(link, answer.machine))
    else:
        words = f"{answer.sentence} {_rate(link)}"
    now = answer.now if first == DEGRADED or link.why == "open" else (_slot(),)
    return structs.replace(explanation, answer=structs.replace(answer, sentence=words, now=now))


def _slot() -> str:
    """The step of the page for a card in a slot."""
    return " ".join(code_page(NARROW)[1].split()).partition(" On a Spark")[0]


def _why(link: ShownLink) -> str:
    name = f"the link of {link.address}" if link.address else "a PCIe link"
    if link.why == "slot":
        return f"{name} runs at {link.runs}, and the port above it, {link.port}, can do no more."
    return f"{name} runs at {link.seen}; either its slot has no more lanes, or the link lost some."


def _rate(link: ShownLink) -> str:
    """What a link carries at most, as the kernel prints it."""
    of_port = "a faster port is not filled"
    if link.slowest_port > link.raw_gbit_per_s:
        of_port = f"the port has {link.slowest_port:g} Gb/s"
    return f"{link.runs} carries at most {_carried(link)} Gb/s, packet headers included: {of_port}."


def _carried(link: ShownLink) -> str:
    return f"{kernel_gbit_per_s(link.runs.gt_per_s, link.runs.width):.3f}"


def _question(link: ShownLink, machine: str) -> Question:
    """The command that decides."""
    command, meanings = (
        "cat /sys/class/infiniband/*/ports/*/rate",
        {NARROW: f"a rate above {_carried(link)} Gb/sec"},
    )
    if link.why != "slot":
        command = f"sudo lspci -vv{f' -s {link.port}' if link.port else ''}"
        port = "" if link.port else "for the port above it "
        meanings = {NARROW: f"no more than {link.runs} {port}in `LnkCap`", DEGRADED: f"more {port}there"}
    answers = tuple(AnswerMeaning(shows, (code,)) for code, shows in meanings.items())
    return Question(command=command, machine=machine, answers=answers, otherwise=())
