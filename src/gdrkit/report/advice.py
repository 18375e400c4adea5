"""What a person can do about a blocker that no step of `gdr fix` cures: cables, switches, cards."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.facts.driver_files import has_driver_container
from gdrkit.facts.rdma import RdmaDevice, RdmaPort, ports
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.action import AskPerson
from gdrkit.repair.platforms.operator import change_policy
from gdrkit.report.pages import sections
from gdrkit.rules.engine import CheckResult
from gdrkit.verdict import Verdict
from gdrkit.verdict.path_state import State


def advice(node: Node, verdict: Verdict, consumer: str) -> tuple[AskPerson, ...]:
    """For a node that is blocked: each blocker without a remedy. Promises nothing about the verdict."""
    state = verdict.of(consumer)
    if state.state is not State.BLOCKED:
        return ()
    blockers = dict.fromkeys(result for judgement in state.judgements for result in judgement.blocked_by)
    texts = (text for result in blockers if not result.rule.remedies for text in _about(node, result))
    found = tuple(AskPerson(what=text) for text in dict.fromkeys(texts))
    return (*found, change_policy(node)) if has_driver_container(node) else found


def _about(node: Node, result: CheckResult) -> Iterator[str]:
    code = result.rule.code
    if code == "port-down" and isinstance(result.subject, RdmaDevice):
        for port in if_missing((), ports, node, result.subject.name):
            yield f"port {port.number} of {port.device} is {port.state}: {_port(port)}"
        return
    first, *_ = sections(result.rule)[1]["What to do"].split("\n\n")
    yield f"{code}: {' '.join(first.split())}"


def _port(port: RdmaPort) -> str:
    """What a port in this state waits for. Source: InfiniBand specification, 14.2.5.6, PortState."""
    if port.state in ("INIT", "ARMED"):
        return (
            "the cable works, but no subnet manager has set the port up; start one in the switch or on one "
            "host (opensm), then `sudo sminfo` finds it"
        )
    if port.physical_state == "Disabled":
        if port.link_layer == "Ethernet":
            names = f"/sys/class/infiniband/{port.device}/device/net"
            return f"it is turned off; `sudo ip link set NAME up` with the name in {names} starts it"
        command = f"sudo ibportstate -C {port.device} -D 0 {port.number} enable"
        return f"it is turned off; `{command}` starts it"
    return (
        "there is no link; check the cable and the port at its other end: "
        f"`sudo mlxlink -d {port.device}` says what is wrong"
    )
