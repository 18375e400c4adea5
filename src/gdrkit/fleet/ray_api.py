"""The interface of a Ray cluster over HTTP: jobs, nodes, files of logs. Needs no Ray here.

It talks to the address that the user named and to no other: it follows no redirect, and asks no proxy.
Source: Ray 2.60, dashboard/modules/job/job_head.py and dashboard/modules/state/state_head.py; the paths are
those of Ray 2.3 and later.
"""

from __future__ import annotations

import math
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import IO, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from gdrkit.evidence.errors import TargetError
from gdrkit.formats.errors import FormatError
from gdrkit.formats.json_text import decode
from gdrkit.formats.regex import regex

PORT = 8265
"""Of the dashboard: `ray start --help`."""
TIMEOUT_S = 30.0
"""Until the other end says anything: the dashboard waits as long for its own agents."""
ANSWER_S = 60.0
"""Of a request with its answer, and of each MiB of a file."""
STOP_S = 5.0
"""Of the request to stop a job, which may come after the deadline."""
ANSWER_LIMIT_BYTES = 64 << 20
NODES_LIMIT = 10_000
"""The most that the interface lists: RAY_MAX_LIMIT_FROM_API_SERVER in Ray's util/state/common.py."""
_BLOCK_BYTES = 1 << 20
_IDENTITY = regex(r"[\w.-]{1,100}", re.ASCII)
"""Of a node: 56 hexadecimal digits, kUniqueIDSize in Ray's src/ray/common/constants.h."""
_HINT = "write the address of the dashboard: --ray http://HOST:8265"
_TOKEN_HINT = "set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, or RAY_JOB_HEADERS for a proxy"

_HEADER = regex(r"[!#$%&'*+.^`|~\w-]+", re.ASCII)
_VALUE = regex(r"[ -~\t]*")
"""Of a header: RFC 9110, 5.1 and 5.5. http.client would quote an invalid value in its error, and with it a
token."""

T = TypeVar("T")


class RayNode(msgspec.Struct, frozen=True):
    """A node as Ray lists it; dead ones stay in the list for a while."""

    node_id: str
    node_ip: str = ""
    node_name: str | None = None
    state: str = ""
    state_message: str | None = None


class _Listed(msgspec.Struct):
    result: list[RayNode]
    total: int = 0


class _Data(msgspec.Struct):
    result: _Listed


class _RayNodes(msgspec.Struct):
    data: _Data


class JobState(msgspec.Struct, frozen=True):
    """Ray's record of a job."""

    status: str
    message: str | None = None

    @property
    def ended(self) -> bool:
        return self.status in ("SUCCEEDED", "FAILED", "STOPPED")


class _Log(msgspec.Struct):
    logs: str


class RayApi:
    """A Ray cluster by the address of its dashboard. Until a deadline, a time of time.monotonic(), every
    request has its answer or fails; one that begins later has a second."""

    def __init__(self, address: str, headers: Mapping[str, str], deadline: float = math.inf) -> None:
        """Raises TargetError for any other address."""
        self.address, self._headers, self.deadline = address, dict(headers), deadline
        try:
            url = urlsplit(address)
            self._host, port = url.hostname or "", url.port
        except ValueError:
            raise TargetError(f"not an address of Ray: {address!r}", _HINT) from None
        if (
            url.scheme not in ("http", "https")
            or not self._host
            or url.username
            or url.query
            or url.fragment
        ):
            raise TargetError(f"not an address of Ray: {address.rpartition('@')[2]!r}", _HINT)
        self._tls, self._path = url.scheme == "https", url.path.rstrip("/")
        self._port = port or (443 if self._tls else 80)

    def nodes(self) -> list[RayNode]:
        """The nodes of the cluster, also dead ones. Raises TargetError."""
        query = urlencode({"limit": NODES_LIMIT, "timeout": int(TIMEOUT_S)})
        listed = self._json("GET", f"/api/v0/nodes?{query}", _RayNodes).data.result
        if len(listed.result) > NODES_LIMIT or not all(
            _IDENTITY.fullmatch(n.node_id) for n in listed.result
        ):
            raise TargetError(f"{self.address} does not list nodes as Ray does", _HINT)
        if listed.total > len(listed.result):
            raise TargetError(f"Ray lists {len(listed.result)} of {listed.total} nodes", "name the nodes")
        return listed.result

    def upload(self, name: str, content: bytes) -> None:
        """Put a package into the cluster's store."""
        self._call("PUT", f"/api/packages/gcs/{quote(name, safe='')}", content)

    def submit(self, job: str, command: str, package: str) -> None:
        """Start a job under a name; its folder is the package."""
        body = {
            "entrypoint": command,
            "submission_id": job,
            "runtime_env": {"working_dir": f"gcs://{package}"},
            "metadata": {"name": "gdr fleet doctor"},
        }
        self._call("POST", "/api/jobs/", msgspec.json.encode(body))

    def state(self, job: str) -> JobState:
        return self._json("GET", f"/api/jobs/{job}", JobState)

    def log(self, job: str) -> str:
        """All that a job has printed."""
        return self._json("GET", f"/api/jobs/{job}/logs", _Log).logs

    def stop(self, job: str) -> None:
        with self._answer("POST", f"/api/jobs/{job}/stop", limit_s=STOP_S):
            return

    def download(self, node_id: str, file: str, size: int, stream: IO[bytes]) -> None:
        """Write a file in the folder of logs of a node to a stream.

        Raises TargetError also if it does not have this size."""
        query = {"node_id": node_id, "filename": file, "lines": -1, "timeout": int(TIMEOUT_S)}
        left = size
        limit_s = self._limit_s(ANSWER_S * (1 + size // _BLOCK_BYTES))
        with self._answer("GET", f"/api/v0/logs/file?{urlencode(query)}", limit_s=limit_s) as answer:
            while left >= 0 and (block := self._read(answer, _BLOCK_BYTES)):
                left -= len(block)
                stream.write(block)
        if left:
            raise TargetError(f"Ray sent {'more' if left < 0 else 'less'} than {size} bytes of a file")

    def _json(self, method: str, path: str, wanted: type[T]) -> T:
        try:
            return decode(self._call(method, path), wanted)
        except FormatError as error:
            raise TargetError(f"{self.address} does not answer as Ray does: {error}", _HINT) from None

    def _call(self, method: str, path: str, body: bytes = b"") -> bytes:
        with self._answer(method, path, body) as answer:
            content = self._read(answer, ANSWER_LIMIT_BYTES + 1)
        if len(content) > ANSWER_LIMIT_BYTES:
            raise TargetError(f"{self.address} sent more than {ANSWER_LIMIT_BYTES >> 20} MiB")
        return content

    @contextmanager
    def _answer(
        self, method: str, path: str, body: bytes = b"", limit_s: float = 0.0
    ) -> Iterator[HTTPResponse]:
        """The answer to a request, while it is read; it closes its connection. Raises TargetError unless it
        is 200 (OK), and if all of it takes longer than the limit."""
        headers = {**self._headers, "Connection": "close"}
        if body:
            headers["Content-Type"] = "application/octet-stream" if method == "PUT" else "application/json"
        with self._connected(limit_s or self._limit_s(ANSWER_S)) as connection:
            try:
                connection.request(method, self._path + path, body or None, headers)
                answer = connection.getresponse()
            except (OSError, HTTPException, ValueError) as error:
                raise self._unreachable(error) from None
            with answer:
                if answer.status != 200:
                    raise self._refused(answer.status, self._read(answer, 4096))
                yield answer

    @contextmanager
    def _connected(self, limit_s: float) -> Iterator[HTTPConnection]:
        """A connection that is cut at the limit: http.client reads heads and trailers without an end."""
        begun = time.monotonic()
        connection = self._connection(min(TIMEOUT_S, limit_s))
        try:
            connection.connect()
        except OSError as error:
            raise self._unreachable(error) from None
        late = threading.Event()
        left_s = limit_s - (time.monotonic() - begun)
        timer = threading.Timer(left_s, _cut, (connection.sock, late))
        timer.daemon = True
        timer.start()
        try:
            yield connection
        except TargetError:
            if not late.is_set():
                raise
        finally:
            timer.cancel()
            connection.close()
        if late.is_set():
            raise self._unreachable(TimeoutError("timed out"))

    def _limit_s(self, most_s: float) -> float:
        return min(most_s, max(1.0, self.deadline - time.monotonic()))

    def _connection(self, timeout_s: float) -> HTTPConnection:
        if not self._tls:
            return HTTPConnection(self._host, self._port, timeout=timeout_s)
        import ssl

        context = ssl.create_default_context()
        return HTTPSConnection(self._host, self._port, timeout=timeout_s, context=context)

    def _read(self, answer: HTTPResponse, size: int) -> bytes:
        """So many bytes, or a few more; fewer only at the end."""
        blocks, left = [], size
        try:
            while left > 0 and (block := answer.read1(left)):
                blocks.append(block)
                left -= len(block)  # below 0 if a chunk says that its size is
            return b"".join(blocks)
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> TargetError:
        why = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
        return TargetError(f"cannot talk to Ray at {self.address}: {why.lower()}", _HINT)

    def _refused(self, status: int, text: bytes) -> TargetError:
        lines = text.decode("utf-8", "replace").strip().splitlines()
        why = f"{self.address} answered {status}{f': {lines[-1][:200]}' if lines else ''}"
        if status in (401, 403):
            return TargetError(why, _TOKEN_HINT)
        if status == 404:
            return TargetError(why, "Ray's dashboard must run there, with ray[default] installed")
        return TargetError(why, _HINT if 300 <= status < 400 else "")


def _cut(connected: socket.socket, late: threading.Event) -> None:
    late.set()
    with suppress(OSError):  # it has ended
        socket.socket.shutdown(connected, socket.SHUT_RDWR)  # that of TLS would say goodbye first


def address_of(given: str, environment: Mapping[str, str]) -> str:
    """The address that the user named: as the value of --ray, else in Ray's own variables."""
    names = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
    text = given or next((environment[name] for name in names if environment.get(name)), "")
    if not text:
        raise TargetError("no address of a Ray cluster", f"{_HINT}, or set RAY_API_SERVER_ADDRESS")
    if "://" in text:
        return text
    if text == "auto":
        raise TargetError("not an address of Ray: 'auto'", _HINT)
    bare = text.rpartition("]")[2] if text.startswith("[") else text
    return f"http://{text}" if ":" in bare else f"http://{text}:{PORT}"


def headers_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The headers that authenticate the user, from Ray's own variables. Raises TargetError.

    RAY_AUTH_TOKEN wins over RAY_AUTH_TOKEN_PATH; RAY_JOB_HEADERS wins over both."""
    headers: dict[str, str] = {}
    if token := environment.get("RAY_AUTH_TOKEN", "") or _token_file(environment):
        headers["Authorization"] = f"Bearer {token.strip()}"
    if given := environment.get("RAY_JOB_HEADERS", ""):
        try:
            own = decode(given, dict[str, str])
        except FormatError as error:
            raise TargetError(f"RAY_JOB_HEADERS: {error}", 'write it as {"Name": "value"}') from None
        taken = {name.lower() for name in own}
        headers = {name: value for name, value in headers.items() if name.lower() not in taken} | own
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not _VALUE.fullmatch(value):
            raise TargetError(f"not a header of HTTP: the value of {name!r}, or that name")
    return headers


def _token_file(environment: Mapping[str, str]) -> str:
    if not (path := environment.get("RAY_AUTH_TOKEN_PATH", "")):
        return ""
    try:
        with open(os.path.expanduser(path), encoding="ascii") as file:
            return file.read(4096)
    except (OSError, UnicodeError) as error:
        raise TargetError(f"RAY_AUTH_TOKEN_PATH: {error}") from None


def job_log_lines(text: str, job: str, wanted: type[T]) -> list[T]:
    """The lines of a log that begin with the name of a job, decoded. An incomplete line is skipped."""
    found: list[T] = []
    for line in re.finditer(rf"^{re.escape(job)} (.*)\n", text, re.MULTILINE):
        try:
            found.append(decode(line[1], wanted))
        except FormatError:
            continue
    return found
