"""gdrkit.transport over rdma_rxe in a guest: messages, direct access, failures, a thousand connections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.cache import LabError, say
from lab.doctor import gdrkit_files
from lab.kernels import Kernel
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
    program = Path(__file__).parent / "guest/transport.py"
    scripts: list[dict[str, Any]] = [{"name": "setup", "argv": ["/bin/sh", "-c", SETUP], "seconds": 60}]
    for scenario in scenarios:
        argv = ["/usr/bin/python3", "-S", "-E", "/lab/transport.py", *scenario.split()]
        scripts.append({"name": scenario, "argv": argv, "seconds": limit_s})
    files = {**gdrkit_files(), "lab/transport.py": program.read_bytes()}
    session = boot(kernel, profile("plain"), (), seed=0, packages=RDMA, scripts=scripts, files=files)
    say(f"transport guest: {session.transcript.seconds:.1f} s")
    found = {}
    for event in session.transcript.of("script"):
        if event["exit_code"] != 0:
            output = f"{event['stdout']}\n{event['stderr']}"
            raise LabError(f"{event['name']}: exit {event['exit_code']}\n{output}")
        if event["name"] != "setup":
            found[event["name"]] = json.loads(event["stdout"])
    return found
