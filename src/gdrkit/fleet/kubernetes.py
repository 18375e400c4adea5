"""Kubernetes: a Pod on each node, through the user's own kubectl. The Pods are removed at the end."""

from __future__ import annotations

import math
import secrets
import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from gdrkit.agent.launch import program_path
from gdrkit.agent.pipes import kill_group
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.ssh import COLLECTOR
from gdrkit.fleet.client import call, last_line
from gdrkit.fleet.hostlist import is_name
from gdrkit.fleet.launcher import Answered, Request
from gdrkit.fleet.pods import CONTAINER, HOST, IMAGE, MARGIN_S, RUN_LABEL, ClusterNode, Pod, manifest
from gdrkit.fleet.processes import PerNode, Processes
from gdrkit.formats.errors import FormatError
from gdrkit.formats.json_text import decode
from gdrkit.formats.regex import regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

CALL_S = 60.0
"""Of one call of kubectl, unless it creates Pods: a thousand take it a minute."""
END_S, POD_S = 10.0, 0.06
"""Of the end of a run, which is after its deadline, and for each Pod. What is left then ends by itself,
MARGIN_S after the deadline."""
START_S = 180.0
"""How long a Pod may take to run: an image of 50 MB is pulled meanwhile."""
POLL_S = 1.0
EXEC_ENDED = "command terminated with exit code"
"""The last line of `kubectl exec` if the command fails; its own error is above."""
_REFUSED = regex(r'\b[Pp]ods? "([a-z0-9.-]{1,253})" (?:is|already|was)?\s?(.{1,2000})')

T = TypeVar("T")


class _ClusterNodes(msgspec.Struct):
    items: tuple[ClusterNode, ...]


class _Pods(msgspec.Struct):
    items: tuple[Pod, ...]


class Kubectl:
    """The user's kubectl: its path, and the words that every call has."""

    def __init__(self, context: str = "", namespace: str = "") -> None:
        """Raises TargetError if there is none."""
        try:
            self._words = [program_path("kubectl")]
        except FileNotFoundError:
            hint = "run it where kubectl reaches the cluster"
            raise TargetError("kubectl is not installed here", hint) from None
        self._words += [f"--context={context}"] if context else []
        self._words += [f"--namespace={namespace}"] if namespace else []
        self._running: set[subprocess.Popen[bytes]] = set()

    def words(self, *words: str) -> list[str]:
        return [*self._words, *words]

    def call(self, *words: str, given: bytes = b"", limit_s: float = CALL_S) -> tuple[int, bytes, str]:
        """The exit code, the output and the errors of a call. Raises TargetError if it does not end."""
        running: list[subprocess.Popen[bytes]] = []

        def started(child: subprocess.Popen[bytes]) -> None:
            running.append(child)
            self._running.add(child)

        try:
            return call(self.words(*words), f"kubectl {words[0]}", limit_s, given=given, started=started)
        finally:
            self._running.difference_update(running)

    def listed(self, wanted: type[T], *words: str, limit_s: float = CALL_S) -> T:
        """What `kubectl get` lists. Raises TargetError."""
        words = ("get", *words, "--output=json", "--request-timeout=30s")
        code, output, errors = self.call(*words, limit_s=limit_s)
        if code:
            raise TargetError(f"kubectl get {words[1]} failed: {last_line(errors) or f'exit code {code}'}")
        try:
            return decode(output, wanted)
        except FormatError as error:
            raise TargetError(f"kubectl get {words[1]} printed something else: {error}") from None

    def interrupt(self) -> None:
        """End the calls that run."""
        for child in list(self._running):
            kill_group(child)


class Kubernetes(PerNode):
    """The nodes of a cluster, all or those that a selector or their names choose."""

    def __init__(
        self,
        names: Sequence[str] = (),
        *,
        namespace: str = "",
        selector: str = "",
        context: str = "",
        image: str = "",
        deadline: float = math.inf,
    ) -> None:
        """The nodes are listed until a time of time.monotonic(). Raises TargetError."""
        self._kubectl = Kubectl(context, namespace)
        self._names, self._selector, self._image = names, selector, image or IMAGE
        self._deadline = deadline
        self._down: dict[str, str] | None = None
        self.pods: dict[str, str] = {}  # node -> the name of its Pod

    def nodes(self) -> Sequence[str]:
        return list(dict.fromkeys(self._names)) if self._names else list(self._states())

    def down(self) -> Mapping[str, str]:
        states = self._states()
        strange = {name: "not a node of this cluster" for name in self._names if name not in states}
        return {**strange, **{node: why for node, why in states.items() if why}}

    def _states(self) -> dict[str, str]:
        if self._down is None:
            words = [f"--selector={self._selector}"] if self._selector else []
            limit_s = min(CALL_S, max(1.0, self._deadline - time.monotonic()))
            listed = self._kubectl.listed(_ClusterNodes, "nodes", *words, limit_s=limit_s)
            named = [node for node in listed.items if is_name(node.metadata.name)]
            self._down = {node.metadata.name: node.why_down for node in named}
        return self._down

    def target(self, node: str) -> str:
        return f"kubernetes://{node}"

    def command(self, node: str, program: str) -> list[str]:
        return self._kubectl.words(
            "exec", "--stdin", self.pods[node], f"--container={CONTAINER}", "--",
            *program.removeprefix("sudo -n ").split(), "--root", HOST,
        )  # fmt: skip

    def failure(self, node: str, code: int, lines: Sequence[str], program: str = COLLECTOR) -> TargetError:
        said = [line for line in lines if not line.startswith(EXEC_ENDED)]
        return TargetError(f"{program} failed in its Pod: {said[-1] if said else f'exit code {code}'}")

    def clean(self) -> None:
        """Nothing: the Pods are deleted with what runs in them."""

    def ask(self, request: Request, answered: Answered) -> PodsOfRun:
        return PodsOfRun(self, self._kubectl, self._image, request, answered)


class PodsOfRun:
    """The Pods of one run, in a thread that creates them and waits until they run."""

    def __init__(
        self, launcher: Kubernetes, kubectl: Kubectl, image: str, request: Request, answered: Answered
    ) -> None:
        self._launcher, self._kubectl, self._image = launcher, kubectl, image
        self._request, self._answered = request, answered
        self._run_name = f"gdr-fleet-{secrets.token_hex(4)}"
        self._pods = {f"{self._run_name}-{n}": node for n, node in enumerate(request.bundles)}
        launcher.pods = {node: pod for pod, node in self._pods.items()}
        self._waiting = dict(self._pods)
        self._ended = threading.Event()
        self._processes = Processes(request.fanout, launcher.clean)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> str:
        """Remove the Pods; returns the command for it if that failed."""
        end = time.monotonic() + END_S + POD_S * len(self._pods)
        self._ended.set()
        self._processes.end()
        self._kubectl.interrupt()
        self._thread.join(max(0.0, end - time.monotonic()) / 2)
        words = ("delete", "pods", f"--selector={RUN_LABEL}={self._run_name}", "--ignore-not-found")
        with suppress(TargetError):
            left_s = max(1.0, end - time.monotonic())
            code, _, _ = self._kubectl.call(*words, "--now", "--wait=false", limit_s=left_s)
            if not code:
                return ""
        return shlex.join(self._kubectl.words(*words))

    def _run(self) -> None:
        why = TargetError("its Pod did not run before the deadline")
        try:
            self._create()
            self._watch()
        except TargetError as error:
            why = error
        finally:
            for pod in list(self._waiting):
                self._fail(pod, why)

    def _fail(self, pod: str, why: TargetError) -> None:
        if (node := self._waiting.pop(pod, None)) is not None:
            self._answered(node, why)

    def _create(self) -> None:
        """Create the Pods. Raises TargetError if none was created."""
        left_s = max(1.0, self._request.deadline - time.monotonic())
        listed = manifest(
            self._pods,
            self._run_name,
            image=self._image,
            seconds=int(left_s) + MARGIN_S,
            privileged=self._request.sudo,
        )
        given = msgspec.json.encode(listed)
        code, output, errors = self._kubectl.call(
            "create", "--filename=-", "--output=name", given=given, limit_s=left_s
        )
        if not code:
            return
        created = {line.partition("/")[2] for line in output.decode("utf-8", "replace").splitlines()}
        for match in _REFUSED.finditer(errors):
            self._fail(match[1], TargetError(f"its Pod was refused: {match[2].strip()}"))
        for pod in [pod for pod in self._waiting if pod not in created]:
            self._fail(
                pod, TargetError(f"its Pod was not created: {last_line(errors) or f'exit code {code}'}")
            )

    def _watch(self) -> None:
        """Ask in each Pod as soon as it runs. Raises TargetError if kubectl fails for long."""
        begun = heard = time.monotonic()
        while self._waiting and (now := time.monotonic()) < self._request.deadline:
            try:
                listed = self._kubectl.listed(_Pods, "pods", f"--selector={RUN_LABEL}={self._run_name}")
                heard = time.monotonic()
            except TargetError:
                if self._ended.is_set() or time.monotonic() - heard > CALL_S:
                    raise
            else:
                self._look(listed.items, late=now - begun > START_S)
            if self._ended.wait(max(POLL_S, 2 * (time.monotonic() - now))):
                return

    def _look(self, pods: Sequence[Pod], late: bool) -> None:
        found = {pod.metadata.name: pod for pod in pods}
        for name in list(self._waiting):
            pod = found.get(name)
            if pod is None:
                self._fail(name, TargetError("its Pod was removed during the run"))
            elif pod.why_failed:
                self._fail(name, TargetError(pod.why_failed))
            elif pod.runs:
                node = self._waiting.pop(name)
                self._launcher.collect(self._processes, self._request, node, self._answered)
            elif late:
                self._fail(name, TargetError(f"its Pod did not run within {START_S:g} s"))
