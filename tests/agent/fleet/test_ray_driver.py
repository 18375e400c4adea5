"""What the Ray driver runs on a node. The whole driver is tried in tests/fleet/test_ray_cluster.py."""

from __future__ import annotations

import ast
import inspect
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from gdrkit.agent.fleet import ray_driver
from gdrkit.agent.fleet.ray_driver import collect, reason
from tests.agent.fleet.ray_model import Ray, RayError

PYTHON = ["PYTHON", "-I", "-"]
MIB = 1 << 20


def test_the_program_gets_its_standard_input_and_its_output_comes_back():
    output, code, line = collect(PYTHON, b"print('a bundle', end='')", 60.0, MIB)

    assert (output, code, line) == (b"a bundle", 0, "")


def test_the_last_line_of_errors_comes_back_with_the_exit_code():
    program = b"import sys; print('first', file=sys.stderr); sys.exit('gdr-collect needs Python 3.8')"

    assert collect(PYTHON, program, 60.0, MIB)[1:] == (1, "gdr-collect needs Python 3.8")


def test_a_program_that_hangs_is_ended_with_its_children():
    program = b"import os, time; os.fork(); print(os.getpid(), flush=True); time.sleep(600)"
    output, code, line = collect(PYTHON, program, 1.0, MIB)

    assert (output, code) == (b"", -1) and line == "timed out: no bundle within 1 s"


def test_a_program_that_prints_without_end_is_ended():
    output, code, line = collect(["yes"], b"", 60.0, MIB)

    assert (output, code, line) == (b"", -1, "its bundle has more than 1 MiB")


def test_errors_without_end_take_no_memory():
    program = b"import sys; sys.stderr.write('x' * 10_000_000 + '\\nlast')"

    assert collect(PYTHON, program, 60.0, MIB) == (b"", 0, "last")


def test_a_program_that_is_not_installed_is_an_error_that_the_driver_words():
    with pytest.raises(FileNotFoundError) as error:
        collect(["no-such-sudo"], b"", 60.0, MIB)

    error.value.cause = error.value
    assert reason(error.value).startswith("gdr collect cannot be started: [Errno 2]")
    assert reason(RuntimeError("a\n  b")) == "RuntimeError: a b"


def test_the_driver_is_python_3_8_and_imports_what_python_and_ray_have():
    tree = ast.parse(inspect.getsource(ray_driver), feature_version=(3, 8))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert {name.partition(".")[0] for name in names} - sys.stdlib_module_names == {"ray"}


def test_a_program_that_was_ended_is_waited_for(tmp_path):
    """Otherwise it stays in the node's table of processes for as long as the worker of Ray lives."""
    program = (
        f"import os, time; open({str(tmp_path)!r} + '/id', 'w').write('%d' % os.getpid()); time.sleep(600)"
    )
    collect(PYTHON, program.encode(), 1.0, MIB)
    with pytest.raises(ChildProcessError):
        os.waitpid(int((tmp_path / "id").read_text()), os.WNOHANG)


def test_what_comes_back_of_errors_is_short():
    program = b"import sys; sys.exit('first\\n' + 'x' * 400)"
    assert collect(PYTHON, program, 60.0, MIB) == (b"", 1, "x" * 300)
    assert reason(RuntimeError("a\n  b " * 100)) == "RuntimeError: " + "a b " * 75


@pytest.mark.parametrize(("size", "error"), [(MIB, ""), (MIB + 1, "its bundle has more than 1 MiB")])
def test_a_bundle_up_to_the_limit_comes_back(size, error):
    output, code, line = collect(PYTHON, b"print('x' * %d, end='')" % size, 60.0, MIB)
    assert (len(output), code, line) == ((0, -1, error) if error else (size, 0, ""))


# -- the whole driver, on a model of Ray -----------------------------------------------------------


class Job:
    """The driver, run for some nodes, with its lines and its parcels."""

    def __init__(self, monkeypatch, capfd, tmp_path, answers, **order):
        self.ray = Ray(answers)
        self.ray.install(monkeypatch)
        nodes = [[f"node-{name}", name] for name in order.pop("nodes", sorted(answers))]
        self.order = {
            "name": "gdr-1", "nodes": nodes, "words": ["PYTHON", "-"], "fanout": 2, "timeout_s": 60.0,
            "limit_bytes": MIB, "window_bytes": 64, "life_s": 60.0, **order,
        }  # fmt: skip
        self.parcels: list[bytes] = []
        self.at_once = 0
        self.folder = tmp_path / "gdr-1"
        monkeypatch.setattr(os, "readlink", lambda path: str(tmp_path / path.replace("/", "_")))
        self.ray.store["gcs://gdr-1-done.zip"] = None
        get = self.ray._get
        self.ray._get = lambda key: self.fetched(get(key))
        self.ray.install(monkeypatch)
        try:
            ray_driver.run(self.order, b"the program")
        finally:
            self.lines = capfd.readouterr().out.splitlines()
        assert all(line.startswith("gdr-1 {") for line in self.lines)
        self.said = [json.loads(line.partition(" ")[2]) for line in self.lines]

    def fetched(self, _):
        """What a client does meanwhile: it fetches a parcel, and counts it."""
        there = sorted(int(path.name) for path in self.folder.iterdir())
        self.at_once = max(self.at_once, sum((self.folder / str(n)).stat().st_size for n in there))
        assert (self.folder.stat().st_mode & 0o777, there[0]) == (0o700, len(self.parcels))
        path = self.folder / str(there[0])
        assert path.stat().st_mode & 0o777 == 0o600
        self.parcels.append(path.read_bytes())
        return str(len(self.parcels)).encode()


@pytest.fixture
def job(monkeypatch, capfd, tmp_path):
    monkeypatch.setattr(ray_driver, "ACKNOWLEDGED_S", 0.0)
    monkeypatch.setattr(ray_driver, "WAIT_S", 0.01)
    return partial(Job, monkeypatch, capfd, tmp_path)


def test_every_node_is_asked_on_itself_and_its_bundle_is_handed_over(job):
    answers = {name: (name.encode() * 4, 0, "") for name in "abcde"}
    found = job(answers)

    assert found.said[0] == {"begun": "head"} and found.said[-1] == {"ended": True}
    rows = [row for said in found.said[1:-1] for row in said["nodes"]]
    assert sorted(rows) == [[f"node-{name}", 4] for name in "abcde"]
    assert b"".join(found.parcels) == b"".join(node[5:].encode() * 4 for node, _ in rows)
    assert [said["parcel"] for said in found.said[1:-1]] == [*range(len(found.parcels))]
    words = (["PYTHON", "-"], ("put", b"the program"), 60.0, MIB)
    assert found.ray.started == [(name, words) for name in "abcde"]
    assert found.ray.options[0] == {"log_to_driver": False, "logging_level": "error"}
    assert found.ray.options[1] == {"num_cpus": 0, "max_retries": 0}
    assert not found.folder.exists() and not found.ray.store
    assert set(found.ray.asked) == {"gcs://gdr-1-done.zip"}


@pytest.mark.parametrize("fanout", [1, 3])
def test_no_more_nodes_are_asked_at_once_than_the_order_says(job, fanout):
    found = job(dict.fromkeys("abcdef", (b"x", 0, "")), fanout=fanout)
    assert found.ray.most == fanout


def test_the_disk_holds_no_more_than_a_window_and_one_round_of_bundles(job):
    found = job(dict.fromkeys("abcdefghij", (b"x" * 10, 0, "")), window_bytes=20)
    assert 10 <= found.at_once <= 20
    assert len(b"".join(found.parcels)) == 100


@pytest.mark.parametrize(("window", "parcels"), [(64, [b"abc"]), (2, [b"ab", b"c"])])
def test_bundles_wait_for_those_of_all_nodes_and_for_no_more(job, monkeypatch, window, parcels):
    monkeypatch.setattr(ray_driver, "PARCEL_S", 600.0)
    answers = {name: (name.encode(), 0, "") for name in "abc"}
    assert job(answers, fanout=1 if window > 3 else 3, window_bytes=window, life_s=20.0).parcels == parcels


def test_a_node_that_fails_says_why_and_the_others_go_on(job):
    started = OSError(2, "No such file")
    started.cause = OSError(13, "Permission denied")
    answers = {
        "a": (b"half", 3, "gdr collect: no"), "b": (b"", 0, ""), "c": (b"", 7, ""),
        "d": RayError("the node  died.\nTraceback"), "e": started, "f": (b"whole", 0, "a warning"),
    }  # fmt: skip
    found = job(answers)
    errors = {said["node"][5:]: said["error"] for said in found.said if "error" in said}
    assert errors == {
        "a": "gdr collect failed: gdr collect: no", "b": "gdr collect failed: exit code 0",
        "c": "gdr collect failed: exit code 7", "d": "RayError: the node died. Traceback",
        "e": "gdr collect cannot be started: [Errno 13] Permission denied",
    }  # fmt: skip
    assert found.parcels == [b"whole"]


def test_a_node_where_nothing_starts_is_given_up_when_its_time_is_over(job, monkeypatch):
    monkeypatch.setattr(ray_driver, "GRACE_S", 0.1)
    found = job({"a": (b"x", 0, "")}, nodes=["a", "b"], timeout_s=0.1)
    late = "timed out: Ray started nothing there, or its result did not come"
    assert {"node": "node-b", "error": late} in found.said
    assert found.parcels == [b"x"]


def test_a_node_is_given_its_time_and_the_grace(job):
    """The life of the job ends first: nothing is said of the node, and what the job had is removed."""
    found = job({}, nodes=["a"], timeout_s=0.0, life_s=0.3)
    assert found.said == [{"begun": "head"}, {"ended": True}]
    assert not found.folder.exists()


def test_bundles_wait_for_others_until_a_parcel_is_large_or_old_or_the_last(monkeypatch, capfd, tmp_path):
    assert (ray_driver.PARCEL_BYTES, ray_driver.PARCEL_S) == (4 << 20, 0.3)
    monkeypatch.setattr(ray_driver, "PARCEL_BYTES", 10)
    parcels = ray_driver.Parcels(str(tmp_path), "gdr-1", 30)
    assert parcels.empty and not parcels.full
    parcels.add("a", b"x" * 10)
    parcels.move(last=False)
    assert (parcels.empty, [*parcels._sizes]) == (False, [])
    parcels.add("b", b"y")
    Ray({}).install(monkeypatch)
    parcels.move(last=False)
    assert (tmp_path / "gdr-1/0").read_bytes() == b"x" * 10 + b"y"
    parcels.add("c", b"z" * 18)
    assert not parcels.full
    parcels.add("d", b"z")
    assert parcels.full and not parcels.empty  # 11 on the disk, and 19 that wait
    parcels.move(last=True)
    assert (tmp_path / "gdr-1/1").read_bytes() == b"z" * 19
    parcels.add("e", b"old")
    parcels._since -= 1.0
    parcels.move(last=False)
    assert (tmp_path / "gdr-1/2").read_bytes() == b"old"
    assert [json.loads(line[6:]) for line in capfd.readouterr().out.splitlines()] == [
        {"parcel": 0, "nodes": [["a", 10], ["b", 1]]}, {"parcel": 1, "nodes": [["c", 18], ["d", 1]]},
        {"parcel": 2, "nodes": [["e", 3]]},
    ]  # fmt: skip


def test_only_the_parcels_that_arrived_are_removed(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_driver, "ACKNOWLEDGED_S", 0.0)
    ray = Ray({})
    ray.install(monkeypatch)
    parcels = ray_driver.Parcels(str(tmp_path), "gdr-1", 30)
    for number, left in enumerate((["0"], ["0", "1"], ["0", "1", "2"])):
        parcels.add("a", b"x")
        parcels.move(last=True)
        assert sorted(path.name for path in parcels_of(parcels)) == left, number
    ray.store["gcs://gdr-1-done.zip"] = b"2"
    parcels._asked = 0.0
    parcels.move(last=False)
    assert [path.name for path in parcels_of(parcels)] == ["2"] and not parcels.empty
    ray.store["gcs://gdr-1-done.zip"] = b"3"
    parcels._asked = 0.0
    parcels.move(last=False)
    assert parcels.empty and not parcels_of(parcels)


def parcels_of(parcels):
    return [*Path(parcels.folder).iterdir()]


def test_main_reads_the_order_and_the_program_beside_it(job, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.json").write_text(json.dumps({**job({}).order, "life_s": 1.0}))
    (tmp_path / "collector.py").write_bytes(b"the program")
    ray = Ray({})
    ray.install(monkeypatch)
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray_driver.main()
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (ray.kept, ended.value.code) == ([b"the program"], 0)
