"""The driver of a Ray job that collects a bundle on each node: one task for each, bound to it.

It is sent to the cluster and runs there with the cluster's own Python and Ray, beside two files:
`order.json` and `collector.py`. Bundles of several nodes are written into one parcel, a file in the folder
of the log of the job, where the dashboard serves it; a line in the log says whose they are. A parcel is
removed when the key of acknowledgements in the store of Ray counts it, so the disk holds no more than a
window of bundles. A line of this driver begins with the name of the job, since Ray writes into the same log.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from typing import Any, Deque, Dict, List, Tuple

PARCEL_BYTES = 4 << 20
PARCEL_S = 0.3
"""A parcel is written when it has so many bytes, or when its oldest bundle has waited so long."""
ACKNOWLEDGED_S = 0.3
WAIT_S = 0.2
GRACE_S = 30.0
"""How long a node may take beyond the time of its collector: to start a process, and to send the bundle."""

Result = Tuple[bytes, int, str]  # the bundle, the exit code, the last line of errors


def collect(words: List[str], program: bytes, timeout_s: float, limit_bytes: int) -> Result:
    """Run the collector on the node of this task. Raises OSError if it cannot be started."""
    words = [sys.executable if word == "PYTHON" else word for word in words]
    with tempfile.TemporaryFile() as given:
        given.write(program)
        given.seek(0)
        pipe = subprocess.PIPE
        child = subprocess.Popen(words, stdin=given, stdout=pipe, stderr=pipe, start_new_session=True)
    try:
        output, errors = receive(child, time.monotonic() + timeout_s, limit_bytes)
        code = child.wait(10.0)
    except (TimeoutError, subprocess.TimeoutExpired):
        return b"", -1, "timed out: no bundle within %.3g s" % timeout_s
    except OverflowError:
        return b"", -1, "its bundle has more than %d MiB" % (limit_bytes >> 20)
    finally:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel
            child.wait(1.0)
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return output, code, lines[-1][:300] if lines else ""


def receive(child: Any, deadline: float, limit_bytes: int) -> Tuple[bytes, bytes]:
    """Standard output and the end of standard error. Raises TimeoutError and OverflowError."""
    output, errors, left = [], b"", limit_bytes
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        selector.register(child.stderr, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                block = os.read(key.fd, 1 << 16)
                if not block:
                    selector.unregister(key.fileobj)
                elif key.fileobj is child.stderr:
                    errors = (errors + block)[-4096:]
                else:
                    output.append(block)
                    left -= len(block)
            if left < 0:
                raise OverflowError
    return b"".join(output), errors


class Parcels:
    """Bundles that wait to be fetched by the client of the job."""

    def __init__(self, folder: str, name: str, window_bytes: int) -> None:
        self.folder = os.path.join(folder, name)
        os.mkdir(self.folder, 0o700)
        self._key, self._name, self._window = "gcs://%s-done.zip" % name, name, window_bytes
        self._sizes: Dict[int, int] = {}  # of the parcels on the disk
        self._bundles: List[Tuple[str, bytes]] = []
        self._since, self._asked, self._count = 0.0, 0.0, 0

    def say(self, **words: Any) -> None:
        print(self._name, json.dumps(words, separators=(",", ":")), flush=True)

    def add(self, node: str, bundle: bytes) -> None:
        self._since = self._since if self._bundles else time.monotonic()
        self._bundles.append((node, bundle))

    @property
    def full(self) -> bool:
        """Whether the window has no room for another bundle."""
        return sum(self._sizes.values()) + self._waiting() >= self._window

    @property
    def empty(self) -> bool:
        return not self._sizes and not self._bundles

    def _waiting(self) -> int:
        return sum(len(bundle) for _, bundle in self._bundles)

    def move(self, last: bool) -> None:
        """Write a parcel if it is time, and remove those that arrived."""
        now = time.monotonic()
        if self._bundles and (last or now - self._since > PARCEL_S or self._waiting() > PARCEL_BYTES):
            path = os.path.join(self.folder, str(self._count))
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.writelines(bundle for _, bundle in self._bundles)
            self.say(parcel=self._count, nodes=[[node, len(bundle)] for node, bundle in self._bundles])
            self._sizes[self._count] = self._waiting()
            self._count, self._bundles = self._count + 1, []
        if self._sizes and now - self._asked > ACKNOWLEDGED_S:
            self._asked = now
            from ray.experimental.internal_kv import _internal_kv_get

            arrived = int(_internal_kv_get(self._key) or 0)
            for number in [number for number in self._sizes if number < arrived]:
                os.unlink(os.path.join(self.folder, str(number)))
                del self._sizes[number]

    def close(self) -> None:
        from ray.experimental.internal_kv import _internal_kv_del

        shutil.rmtree(self.folder, ignore_errors=True)
        _internal_kv_del(self._key)


class Tasks:
    """The tasks of the job: some at once."""

    def __init__(self, ray: Any, order: Dict[str, Any], program: bytes) -> None:
        self._ray, self._order = ray, order
        self._task = ray.remote(num_cpus=0, max_retries=0)(collect)
        self._program = ray.put(program)
        self._waiting: Deque[List[str]] = deque(order["nodes"])
        self._running: Dict[Any, Tuple[str, float]] = {}

    @property
    def left(self) -> int:
        return len(self._waiting) + len(self._running)

    def start(self) -> None:
        """Start as many as may run at once."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        order = self._order
        while self._waiting and len(self._running) < order["fanout"]:
            node, identity = self._waiting.popleft()
            task = self._task.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(identity, soft=False), name="gdr collect"
            )
            reference = task.remote(order["words"], self._program, order["timeout_s"], order["limit_bytes"])
            self._running[reference] = (node, time.monotonic())

    def done(self) -> List[Tuple[str, Any]]:
        """The nodes that are done, with the reference of the result; None if it took too long."""
        running, wait = list(self._running), self._ray.wait
        if not running:
            return []
        # Until one is done, then all that are. The results stay on their nodes until they are read.
        if not wait(running, timeout=WAIT_S, fetch_local=False)[0]:
            return self._late()
        ready, _ = wait(running, num_returns=len(running), timeout=0, fetch_local=False)
        return [(self._running.pop(reference)[0], reference) for reference in ready]

    def _late(self) -> List[Tuple[str, Any]]:
        late = time.monotonic() - self._order["timeout_s"] - GRACE_S
        old = [reference for reference, (_, since) in self._running.items() if since < late]
        return [(self._running.pop(reference)[0], None) for reference in old]


def deliver(ray: Any, parcels: Parcels, node: str, reference: Any) -> None:
    """Hand over what a node answered, or why it did not."""
    if reference is None:
        parcels.say(node=node, error="timed out: Ray started nothing there, or its result did not come")
        return
    try:
        bundle, code, line = ray.get(reference, timeout=GRACE_S)
    except (ray.exceptions.RayError, OSError) as error:
        parcels.say(node=node, error=reason(error))
        return
    if code or not bundle:
        parcels.say(node=node, error="gdr collect failed: " + (line or "exit code %d" % code))
    else:
        parcels.add(node, bundle)


def reason(error: Exception) -> str:
    """An error of Ray in one line: what a task raised, else its first sentence with its type."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, OSError):
        return "gdr collect cannot be started: %s" % cause
    text = " ".join(str(error).split())
    return "%s: %s" % (type(error).__name__, text[:300])


def run(order: Dict[str, Any], program: bytes) -> None:
    """Collect from every node, and wait until the results were fetched or the deadline has passed."""
    import ray

    end = time.monotonic() + order["life_s"]
    ray.init(log_to_driver=False, logging_level="error")
    # Ray's supervisor of jobs writes the standard output into the folder of logs that the dashboard serves.
    parcels = Parcels(os.path.dirname(os.readlink("/proc/self/fd/1")), order["name"], order["window_bytes"])
    try:
        parcels.say(begun=ray.get_runtime_context().get_node_id())
        tasks = Tasks(ray, order, program)
        ready: Deque[Tuple[str, Any]] = deque()
        while (tasks.left or ready or not parcels.empty) and time.monotonic() < end:
            tasks.start()
            ready.extend(tasks.done())
            while ready and not parcels.full:
                deliver(ray, parcels, *ready.popleft())
            parcels.move(last=not tasks.left)
            if not tasks.left:
                time.sleep(WAIT_S / 2)
        parcels.say(ended=True)
    finally:
        parcels.close()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))  # the job is stopped
    with open("order.json", "rb") as order, open("collector.py", "rb") as program:
        run(json.load(order), program.read())


if __name__ == "__main__":
    main()
