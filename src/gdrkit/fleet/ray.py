"""Ray: one job that collects on every node of a cluster, with the cluster's own Ray and Python."""

from __future__ import annotations

import io
import math
import os
import secrets
import threading
import time
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import resources

import msgspec

from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.ssh import COLLECT_TIMEOUT_S, collector_program
from gdrkit.fleet.client import last_line
from gdrkit.fleet.hostlist import is_name
from gdrkit.fleet.launcher import Answered, Request
from gdrkit.fleet.ray_api import RayApi, address_of, headers_of, job_log_lines

BUNDLE_LIMIT_BYTES = 64 << 20
"""Of one node: Ray keeps results in its store in memory."""
WINDOW_BYTES = 256 << 20
"""Of bundles that wait on the disk of the head node."""
POLL_S = 0.5
SILENCE_S = 30.0
"""How long the dashboard may fail to answer: it is one process, which a large cluster keeps busy."""
STOPPED_S = 10.0
"""How long to wait until the job is stopped: Ray gives a driver 3 s."""
COMMAND = "exec python driver.py"


class _Line(msgspec.Struct, frozen=True):
    """A line of the driver."""

    begun: str = ""
    ended: bool = False
    node: str = ""
    error: str = ""
    parcel: int = -1
    nodes: tuple[tuple[str, int], ...] = ()


class Ray:
    """The nodes of a Ray cluster, all or some by name or address."""

    fanout = 1000  # each takes a process there, and none here

    def __init__(self, address: str, names: Sequence[str] = (), deadline: float = math.inf) -> None:
        """Takes the address from Ray's own variables if it is empty. The nodes are listed until a time of
        time.monotonic(). Raises TargetError."""
        self._api = RayApi(address_of(address, os.environ), headers_of(os.environ), deadline)
        self._names = names
        self._listed: tuple[dict[str, str], dict[str, str]] | None = None

    def nodes(self) -> Sequence[str]:
        alive, dead = self._list()
        return list(dict.fromkeys(self._names)) if self._names else [*alive, *dead]

    def down(self) -> Mapping[str, str]:
        alive, dead = self._list()
        strange = {name: "not a node of this Ray cluster" for name in self._names if name not in alive}
        return {**strange, **dead}

    def target(self, node: str) -> str:
        return f"ray://{node}"

    def ask(self, request: Request, answered: Answered) -> RayJob:
        alive, _ = self._list()
        nodes = {node: alive[node] for node in request.bundles}
        self._api.deadline = request.deadline
        return RayJob(self._api, nodes, self.words(request.sudo), request, answered)

    def words(self, sudo: bool) -> list[str]:
        """The words that run the collector from its standard input. The driver has the path of PYTHON."""
        return [*(["sudo", "-n"] if sudo else []), "PYTHON", "-I", "-", "-o", "-", "--no-probe"]

    def _list(self) -> tuple[dict[str, str], dict[str, str]]:
        """The identities of the living nodes by name, and why others are dead.

        A node that left as planned, or that is back under its address, is not part of the cluster."""
        if self._listed is None:
            listed = self._api.nodes()
            alive: dict[str, str] = {}
            dead: dict[str, str] = {}
            for node in listed:
                if node.state == "ALIVE":
                    name = _name(node.node_name or "", node.node_ip)
                    alternatives = (name, f"{name}.{node.node_id[:8]}", f"{name}.{node.node_id}")
                    free = next((one for one in alternatives if one not in alive), "")
                    if not is_name(free):
                        raise TargetError("two nodes of the Ray cluster have the same name and number")
                    alive[free] = node.node_id
            for node in listed:
                name, why = _name(node.node_name or "", node.node_ip), node.state_message or ""
                if node.state == "DEAD" and name not in alive and not why.startswith("Expected termination"):
                    dead[name] = f"Ray has it as dead: {why}"
            self._listed = alive, dead
        return self._listed


def _name(name: str, address: str) -> str:
    """How a node is called: Ray's own name for it, by default its address."""
    return next((text for text in (name, address) if is_name(text)), "unknown")


class RayJob:
    """The job of a run, in a separate thread."""

    def __init__(
        self,
        api: RayApi,
        nodes: Mapping[str, str],
        words: Sequence[str],
        request: Request,
        answered: Answered,
    ) -> None:
        self._api, self._nodes, self._words = api, nodes, words
        self._request, self._answered = request, answered
        self._job = f"gdr-fleet-{secrets.token_hex(8)}"
        self._left = dict(nodes)
        self._head, self._fetched = "", 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> str:
        """Stop the job, if a node did not answer yet; else it ends by itself."""
        self._ended.set()
        if self._left:
            self._stop()
        self._thread.join(STOPPED_S)
        return ""

    def _run(self) -> None:
        why = TargetError("no bundle came before the deadline of the run")
        try:
            self._submit()
            self._follow()
        except TargetError as error:
            why = error
        except OSError as error:  # of a file here
            why = TargetError(f"{error.strerror}: {error.filename}")
        finally:
            for node in list(self._left):
                self._answer(node, why)

    def _answer(self, node: str, why: TargetError | None = None) -> None:
        if self._left.pop(node, None) is not None:
            self._answered(node, why)

    def _submit(self) -> None:
        package = f"{self._job}.zip"
        left_s = self._request.deadline - time.monotonic()
        order = {
            "name": self._job,
            "nodes": list(self._nodes.items()),
            "words": self._words,
            "fanout": self._request.fanout,
            "timeout_s": min(COLLECT_TIMEOUT_S, left_s),
            "life_s": left_s + SILENCE_S,
            "limit_bytes": BUNDLE_LIMIT_BYTES,
            "window_bytes": WINDOW_BYTES,
        }
        self._api.upload(package, packed(order, collector_program()))
        self._api.submit(self._job, COMMAND, package)

    def _follow(self) -> None:
        """Take what the driver says, until all nodes answered or the deadline passed.

        Raises TargetError if the job ends before that, or if the dashboard falls silent."""
        seen, heard = 0, time.monotonic()
        while self._left and time.monotonic() < self._request.deadline and not self._ended.wait(POLL_S):
            try:
                state = self._api.state(self._job)  # first: a job that ended writes nothing any more
                for line in job_log_lines(self._api.log(self._job), self._job, _Line)[seen:]:
                    if self._ended.is_set():
                        return
                    self._take(line)
                    seen += 1
                heard = time.monotonic()
            except TargetError:
                if time.monotonic() - heard > SILENCE_S:
                    raise
            else:
                if state.ended:
                    why = last_line(state.message or "") or state.status.lower()
                    raise TargetError(f"the Ray job ended: {why}")
        if self._left:
            self._stop()

    def _take(self, line: _Line) -> None:
        if line.begun:
            self._head = line.begun
        elif line.error:
            self._answer(line.node, TargetError(line.error))
        elif line.parcel >= 0:
            self._fetch(line)

    def _fetch(self, line: _Line) -> None:
        """Take the bundles of a parcel, and acknowledge it. Raises TargetError and OSError."""
        sizes = [size for _, size in line.nodes]
        if min(sizes, default=0) < 0 or sum(sizes) > WINDOW_BYTES + BUNDLE_LIMIT_BYTES:
            raise TargetError("the driver of the Ray job announced a parcel of an impossible size")
        file = f"{self._job}/{line.parcel}"
        with open(next(iter(self._request.bundles.values())) + ".parcel", "w+b") as parcel:
            self._api.download(self._head, file, sum(sizes), parcel)
            parcel.seek(0)
            for node, size in line.nodes:
                content = parcel.read(size)
                if node in self._left:
                    with open(self._request.bundles[node], "wb") as bundle:
                        bundle.write(content)
                    self._answer(node)
        os.unlink(parcel.name)
        self._fetched = line.parcel + 1
        self._api.upload(f"{self._job}-done.zip", str(self._fetched).encode())

    def _stop(self) -> None:
        with suppress(TargetError):  # it ends by itself, after the deadline
            self._api.stop(self._job)


def packed(order: Mapping[str, object], program: bytes) -> bytes:
    """The package of a job: the driver, what it is to do, and the collector."""
    driver = resources.files("gdrkit.agent.fleet").joinpath("ray_driver.py").read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        # ZipInfo is of 1980: a zip has no time before that, which a clock without a battery shows.
        package.writestr(zipfile.ZipInfo("driver.py"), driver, zipfile.ZIP_DEFLATED)
        package.writestr(zipfile.ZipInfo("order.json"), msgspec.json.encode(order), zipfile.ZIP_DEFLATED)
        package.writestr(zipfile.ZipInfo("collector.py"), program, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
