"""A dashboard that is not Ray's: what it sends costs bounded time and memory, and no token is shown."""

import socket
import threading
import time
from contextlib import contextmanager

import pytest

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet import ray_api
from gdrkit.fleet.ray import Ray
from gdrkit.fleet.ray_api import RayApi, headers_of
from tests.fleet.ray_server import HOST, dashboard, node
from tests.work import within

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WAIT_S = 60.0
"""The most that a test waits for an answer."""


@contextmanager
def says(first, then=b"", pause_s=0.0):
    """A server that answers a request with some bytes, and then with others until the reader leaves."""

    def serve():
        try:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(first)
                while then:
                    connection.sendall(then)
                    time.sleep(pause_s)
        except OSError:
            return

    with socket.create_server((HOST, 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield RayApi(f"http://{HOST}:{server.getsockname()[1]}", {})


def reason(api):
    """Why nodes cannot be listed."""
    found = []

    def ask():
        try:
            found.append(api.nodes())
        except TargetError as error:
            found.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    return found[0] if found else "it hangs"


@pytest.mark.parametrize(
    ("first", "then", "pause_s"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0.0),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.05),
        (CHUNKED + b"0\r\n", b"X: x\r\n" * 100, 0.0),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n", b"x", 0.05),
    ],
    ids=["heads without an end", "a slow head", "trailers without an end", "a slow body"],
)
def test_an_answer_without_an_end_ends_at_its_limit(first, then, pause_s, monkeypatch):
    monkeypatch.setattr(ray_api, "ANSWER_S", 0.5)
    with says(first, then, pause_s) as api:
        assert reason(api).endswith("timed out")


def test_an_answer_and_a_stop_have_no_more_time_than_the_run(monkeypatch):
    monkeypatch.setattr(ray_api, "STOP_S", 0.5)
    with says(b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.05) as api, within(20):
        api.deadline = time.monotonic()
        assert reason(api).endswith("timed out")
    slow = says(b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.05)
    with slow as api, within(20), pytest.raises(TargetError, match="timed out"):
        api.stop("job")


@pytest.mark.parametrize("size", [b"-5", b"7fffffffffffffff"])
def test_a_chunk_of_an_impossible_size_is_read_up_to_the_limit(size, monkeypatch):
    monkeypatch.setattr(ray_api, "ANSWER_LIMIT_BYTES", 1 << 20)
    with says(CHUNKED + size + b"\r\n", b"x" * (1 << 16)) as api:
        assert reason(api).endswith("sent more than 1 MiB")


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"data":' * 50_000, b"1" * 100_000, b"\xff"])
def test_what_is_no_list_is_an_error(body):
    with says(b"HTTP/1.1 200 OK\r\n\r\n" + body) as api:
        assert "does not answer as Ray does" in reason(api)


@pytest.mark.parametrize(
    "nodes",
    [
        [{**node("10.0.0.1"), "node_id": "\x1b]0;owned\x07"}],
        [{**node("10.0.0.1"), "node_id": "a,gpu7"}],
        [node(f"10.0.{n >> 8}.{n & 255}") for n in range(10_001)],
    ],
    ids=["an escape sequence", "another node", "more nodes than are listed"],
)
def test_nodes_that_ray_would_not_list_are_an_error(nodes, monkeypatch):
    with dashboard() as ray:
        ray.nodes = nodes
        with pytest.raises(TargetError, match="does not list nodes as Ray does"):
            Ray(ray.address).nodes()


def test_nodes_that_take_the_names_of_others_take_none_away():
    """Three nodes of one address, two of them with numbers that begin alike."""
    with dashboard() as ray:
        ray.nodes = [{**node("10.0.0.1"), "node_id": f"abcdef01{n}"} for n in range(3)]
        names = ["10.0.0.1", "10.0.0.1.abcdef01", "10.0.0.1.abcdef012"]
        assert Ray(ray.address).nodes() == names
        ray.nodes *= 2
        with pytest.raises(TargetError, match="same name"):
            Ray(ray.address).nodes()


@pytest.mark.parametrize(
    "environment",
    [
        {"RAY_AUTH_TOKEN": "s3cret\nX: y"},
        {"RAY_AUTH_TOKEN": "s3cret\u20ac"},
        {"RAY_JOB_HEADERS": '{"X": "s3cret\\r\\n"}'},
        {"RAY_JOB_HEADERS": '{"": "s3cret"}'},
        {"RAY_JOB_HEADERS": '{"X": ["s3cret"]}'},
        {"RAY_JOB_HEADERS": '{"X": "s3cret'},
    ],
)
def test_a_token_that_http_does_not_take_is_not_shown(environment):
    with pytest.raises(TargetError) as error:
        headers_of(environment)
    assert "s3cret" not in f"{error.value} {error.value.hint}"


def test_a_token_is_sent_as_it_is():
    assert headers_of({"RAY_AUTH_TOKEN": " s3cr=t~ \n"}) == {"Authorization": "Bearer s3cr=t~"}
