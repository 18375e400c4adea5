"""Ray: which nodes there are, and how a job ends. Here the dashboard is a stand-in on loopback."""

import json
import signal
import time

import pytest

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.document import INTERRUPTED, Standing
from gdrkit.fleet.ray import Ray
from gdrkit.fleet.ray_api import RayApi, address_of, headers_of, job_log_lines
from gdrkit.fleet.run import Run
from tests.fleet.ray_server import HOST, dashboard, node
from tests.work import within


@pytest.fixture
def ray(monkeypatch):
    for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS", "RAY_JOB_HEADERS", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with dashboard() as made:
        yield made


def ask(ray, folder, *names, timeout_s=20.0, sudo=False):
    launcher, rows = Ray(ray.address, names), []
    complete = Run(launcher, str(folder), timeout_s=timeout_s, sudo=sudo).ask(launcher.nodes(), rows.append)
    return complete, {row.name: row for row in rows}


def test_bundles_of_a_parcel_are_judged_and_it_is_acknowledged(ray, tmp_path, bundle):
    ray.noise = "a warning of Ray\n"
    packed = bundle.read_bytes()
    ray.parcels["0"] = packed + packed
    ray.says = [
        {"begun": "id-10.0.0.1"},
        {"parcel": 0, "nodes": [["10.0.0.2", len(packed)], ["10.0.0.1", len(packed)]]},
    ]
    complete, rows = ask(ray, tmp_path)

    assert complete and list(tmp_path.iterdir()) == []
    assert {name: (row.standing, row.target) for name, row in rows.items()} == {
        "10.0.0.1": ("ready", "ray://10.0.0.1"),
        "10.0.0.2": ("ready", "ray://10.0.0.2"),
    }
    assert ray.packages[f"{ray.name}-done.zip"] == b"1"
    assert "node_id=id-10.0.0.1" in next(asked for asked in ray.asked if "/logs/file" in asked)


def test_the_job_collects_on_each_node_that_is_asked_with_the_python_of_the_cluster(ray, tmp_path):
    ray.says = [{"node": "10.0.0.2", "error": "it died"}]
    _, rows = ask(ray, tmp_path, "10.0.0.2", "10.0.0.9", sudo=True)

    assert rows["10.0.0.9"].summary == "not a node of this Ray cluster"
    assert rows["10.0.0.2"].summary == "it died" and rows["10.0.0.2"].standing is Standing.UNREACHABLE
    order = ray.order()
    assert order["nodes"] == [["10.0.0.2", "id-10.0.0.2"]]
    assert order["words"] == ["sudo", "-n", "PYTHON", "-I", "-", "-o", "-", "--no-probe"]
    assert ray.job["entrypoint"] == "exec python driver.py" and order["name"] == ray.name


def test_a_dead_node_is_a_row_unless_it_left_as_planned_or_came_back(ray, tmp_path):
    ray.nodes = [
        node("10.0.0.1", "DEAD", state_message="Unexpected termination: no heartbeats"),
        node("10.0.0.2", "DEAD", state_message="Expected termination: received SIGTERM"),
        node("10.0.0.3", "DEAD", state_message="Unexpected termination: it was restarted"),
        node("10.0.0.3"),
        node("10.0.0.4", node_name="rack1-gpu4"),
    ]
    launcher = Ray(ray.address)

    assert launcher.nodes() == ["10.0.0.3", "rack1-gpu4", "10.0.0.1"]
    assert launcher.down() == {"10.0.0.1": "Ray has it as dead: Unexpected termination: no heartbeats"}


def test_no_job_is_started_for_nodes_that_are_all_down(ray, tmp_path):
    complete, rows = ask(ray, tmp_path, "10.0.0.9")

    assert complete and list(rows) == ["10.0.0.9"] and ray.job == {}


def test_two_raylets_under_one_address_are_two_nodes(ray):
    ray.nodes = [node("10.0.0.1"), {**node("10.0.0.1"), "node_id": "abcdef0123456789"}]

    assert Ray(ray.address).nodes() == ["10.0.0.1", "10.0.0.1.abcdef01"]


@pytest.mark.parametrize(
    ("status", "message", "why"),
    [
        ("FAILED", "exit code 1, last logs:\nsh: 1: python: not found\n", "python: not found"),
        ("STOPPED", "", "the Ray job ended: stopped"),
        ("SUCCEEDED", "", "the Ray job ended: succeeded"),
    ],
)
def test_a_job_that_ends_early_leaves_rows_with_its_reason(ray, tmp_path, status, message, why):
    ray.status, ray.message = status, message
    ray.says = [{"node": "10.0.0.1", "error": "it died"}]
    _, rows = ask(ray, tmp_path)

    assert rows["10.0.0.1"].summary == "it died" and why in rows["10.0.0.2"].summary


def test_a_node_that_hangs_costs_its_row_and_the_job_is_stopped_at_the_deadline(
    ray, tmp_path, bundle, monkeypatch
):
    monkeypatch.setattr("gdrkit.fleet.pool.GRACE_S", 120.0)  # what came is judged on any machine
    monkeypatch.setattr("gdrkit.fleet.pool.LEAST_S", 120.0)
    ray.parcels["0"] = packed = bundle.read_bytes()
    ray.says = [{"begun": "id"}, {"parcel": 0, "nodes": [["10.0.0.1", len(packed)]]}]
    _, rows = ask(ray, tmp_path, timeout_s=2.0)

    assert rows["10.0.0.1"].standing is Standing.READY
    assert rows["10.0.0.2"].summary == "no bundle came before the deadline of the run"
    assert ray.status == "STOPPED"


def test_an_interrupt_keeps_what_came_and_stops_the_job(ray, tmp_path):
    ray.says = [{"node": "10.0.0.1", "error": "it died"}]
    launcher, rows = Ray(ray.address), []

    def arrived(row):
        rows.append((row.name, row.summary))
        if len(rows) == 1:
            signal.raise_signal(signal.SIGINT)

    assert not Run(launcher, str(tmp_path)).ask(launcher.nodes(), arrived)
    assert rows == [("10.0.0.1", "it died"), ("10.0.0.2", INTERRUPTED)] and ray.status == "STOPPED"


@pytest.mark.parametrize(
    "line",
    [
        {"parcel": 0, "nodes": [["10.0.0.1", -5]]},
        {"parcel": 0, "nodes": [["10.0.0.1", 1 << 40]]},
        {"parcel": 0, "nodes": [["10.0.0.1", 7]]},
        {"parcel": 0, "nodes": [["10.0.0.1", 3]]},
    ],
)
def test_a_parcel_that_is_not_as_announced_gives_no_row(ray, tmp_path, line, monkeypatch):
    monkeypatch.setattr("gdrkit.fleet.ray.SILENCE_S", 0.0)
    ray.parcels["0"], ray.says = b"abcde", [line]
    _, rows = ask(ray, tmp_path)

    assert {row.standing for row in rows.values()} == {Standing.UNREACHABLE}
    assert "parcel" in rows["10.0.0.1"].summary or "bytes of a file" in rows["10.0.0.1"].summary


def test_a_log_without_an_end_is_left_at_the_end_of_the_run(ray, tmp_path, monkeypatch):
    """Each of its lines names a parcel, and each of them is downloaded."""
    monkeypatch.setattr("gdrkit.fleet.pool.GRACE_S", 0.5)
    monkeypatch.setattr("gdrkit.fleet.run.GRACE_S", 0.5)
    ray.parcels["0"] = b"abcde"
    ray.says = [{"parcel": 0, "nodes": [["stranger", 5]]}] * 20_000
    launcher = Ray(ray.address)
    asked = Run(launcher, str(tmp_path), timeout_s=2.0)
    with within(30):
        asked.ask(launcher.nodes(), lambda row: None)
    downloads = len(ray.asked)
    time.sleep(0.5)
    assert downloads < 20_000 and len(ray.asked) - downloads < 5


def test_a_node_that_sends_something_else_is_a_row(ray, tmp_path, bundle):
    packed = bundle.read_bytes()
    ray.parcels["0"] = b"Welcome" + packed
    ray.says = [{"parcel": 0, "nodes": [["10.0.0.1", 7], ["10.0.0.2", len(packed)]]}]
    _, rows = ask(ray, tmp_path)

    assert "not a bundle: ray://10.0.0.1 sent: Welcome" in rows["10.0.0.1"].summary
    assert rows["10.0.0.2"].standing is Standing.READY


def test_lines_of_a_log_that_are_cut_off_or_strange_are_none():
    text = 'job {"a":1}\nother {"a":2}\njob nonsense\n job {"a":3}\njob {"a":4}\njob {"a":5}'

    assert job_log_lines(text, "job", dict[str, int]) == [{"a": 1}, {"a": 4}]


@pytest.mark.parametrize(
    ("answer", "why", "hint"),
    [
        ((401, b"Unauthorized: Missing authentication token", {}), "answered 401: Unauth", "RAY_AUTH_TOKEN"),
        ((403, b"Forbidden", {}), "answered 403: Forbidden", "RAY_AUTH_TOKEN"),
        ((404, b"", {}), "answered 404", "ray[default]"),
        ((500, b"Traceback\nKeyError: 1", {}), "answered 500: KeyError: 1", ""),
        ((200, b"<html>", {}), "does not answer as Ray does", "address of the dashboard"),
        ((200, b'{"data": {"result": {"result": [], "total": 20000}}}', {}), "0 of 20000 nodes", "name"),
        ((200, b"{", {"Content-Length": "5"}), "does not answer as Ray does", "address of the dashboard"),
    ],
)
def test_a_dashboard_that_refuses_is_an_error_with_its_reason(ray, answer, why, hint):
    ray.answer = answer
    with pytest.raises(TargetError) as error:
        Ray(ray.address).nodes()

    assert why in str(error.value) and hint in error.value.hint


def test_no_other_address_is_asked_than_the_one_that_was_named(ray, monkeypatch):
    with dashboard() as other:
        monkeypatch.setenv("http_proxy", other.address)
        monkeypatch.setenv("HTTP_PROXY", other.address)
        assert Ray(ray.address).nodes()
        ray.answer = (302, b"", {"Location": f"{other.address}/api/v0/nodes"})
        with pytest.raises(TargetError, match="answered 302"):
            Ray(ray.address).nodes()
    assert other.asked == []


def test_more_than_the_limit_is_not_read(ray, monkeypatch):
    monkeypatch.setattr("gdrkit.fleet.ray_api.ANSWER_LIMIT_BYTES", 100)
    with pytest.raises(TargetError, match="sent more than"):
        Ray(ray.address).nodes()


def test_nobody_there_is_an_error():
    with pytest.raises(TargetError, match=rf"cannot talk to Ray at http://{HOST}:1: connection refused"):
        Ray(f"http://{HOST}:1").nodes()


def test_the_headers_of_the_user_are_sent_and_none_else(ray, monkeypatch):
    monkeypatch.setenv("RAY_JOB_HEADERS", json.dumps({"X-Gate": "open"}))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    Ray(ray.address).nodes()

    assert ray.headers[0]["Authorization"] == "Bearer secret" and ray.headers[0]["X-Gate"] == "open"


def test_headers_come_from_the_variables_of_ray(tmp_path):
    file = tmp_path / "token"
    file.write_text("of a file\n")

    assert headers_of({}) == {}
    assert headers_of({"RAY_AUTH_TOKEN_PATH": str(file)}) == {"Authorization": "Bearer of a file"}
    own = {"RAY_AUTH_TOKEN": "t", "RAY_JOB_HEADERS": '{"authorization": "Basic x"}'}
    assert headers_of(own) == {"authorization": "Basic x"}
    for wrong in ({"RAY_JOB_HEADERS": "[]"}, {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "none")}):
        with pytest.raises(TargetError, match=next(iter(wrong))):
            headers_of(wrong)


@pytest.mark.parametrize(
    ("given", "address"),
    [("http://head:8265", "http://head:8265"), ("head", "http://head:8265"), ("head:80", "http://head:80"),
     ("[::1]", "http://[::1]:8265"), ("[::1]:99", "http://[::1]:99"), ("https://example.org/a", "https://example.org/a")],
)  # fmt: skip
def test_an_address_is_one_of_the_dashboard(given, address):
    assert address_of(given, {}) == address
    assert RayApi(address, {}).address == address


def test_without_an_address_those_of_ray_count():
    both = {"RAY_ADDRESS": "http://a:1", "RAY_API_SERVER_ADDRESS": "http://b:2"}
    assert address_of("", both) == "http://b:2" and address_of("http://c:3", both) == "http://c:3"
    assert address_of("", {"RAY_ADDRESS": "http://a:1"}) == "http://a:1"
    for environment in ({}, {"RAY_ADDRESS": "auto"}):
        with pytest.raises(TargetError):
            address_of("", environment)


@pytest.mark.parametrize(
    "address", ["ray://head:10001", "http://", "http://a:b", "http://u:pass@a:1", "http://a?x"]
)
def test_what_is_no_address_of_a_dashboard_is_refused_without_its_password(address):
    with pytest.raises(TargetError, match="not an address of Ray") as error:
        RayApi(address, {})

    assert "pass" not in str(error.value)
