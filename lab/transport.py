"""gdrkit.transport over rdma_rxe in a guest: messages, direct access, failures, a thousand connections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.cache import LabError, say
from lab.doctor import gdrkit_files
from lab.kernels import Kernel
from lab.machine import Transcript
from lab.profiles import profile
from lab.rdma import SETUP
from lab.rootfs import RDMA
from lab.session import boot

SCENARIOS = (
    "messages", "one_sided", "bench", "prove", "peer_killed", "wrong_key", "queue_full", "link_down",
    "no_device",
)  # fmt: skip


def answers(kernel: Kernel, *, scenarios: tuple[str, ...] = SCENARIOS, limit_s: int = 60) -> dict[str, Any]:
    """The answer of each scenario of lab/guest/transport.py; a scenario's arguments follow it after a space.

    Raises LabError if a scenario failed.
    """
    setup = {"name": "setup", "argv": ["/bin/sh", "-c", SETUP], "seconds": 60}
    session = boot(
        kernel,
        profile("plain"),
        (),
        seed=0,
        packages=RDMA,
        scripts=[setup, *scripts(scenarios, limit_s)],
        files=guest_files(),
    )
    say(f"transport guest: {session.transcript.seconds:.1f} s")
    return found(session.transcript, scenarios)


def scripts(scenarios: tuple[str, ...], limit_s: int) -> list[dict[str, Any]]:
    """The scenarios, as a guest with `guest_files()` and a device rxe0 runs them."""
    return [
        {
            "name": scenario,
            "argv": ["/usr/bin/python3", "-S", "-E", "/lab/transport.py", *scenario.split()],
            "seconds": limit_s,
        }
        for scenario in scenarios
    ]


def guest_files() -> dict[str, bytes]:
    """What the scenarios run in a guest."""
    program = Path(__file__).parent / "guest/transport.py"
    return {**gdrkit_files(), "lab/transport.py": program.read_bytes()}


def found(transcript: Transcript, scenarios: tuple[str, ...]) -> dict[str, Any]:
    """The answer of each scenario. Raises LabError if one failed, or the set-up."""
    answers = {}
    for event in transcript.of("script"):
        if event["name"] not in ("setup", *scenarios):
            continue
        if event["exit_code"] != 0:
            output = f"{event['stdout']}\n{event['stderr']}"
            raise LabError(f"{event['name']}: exit {event['exit_code']}\n{output}")
        if event["name"] in scenarios:
            answers[event["name"]] = json.loads(event["stdout"])
    return answers
