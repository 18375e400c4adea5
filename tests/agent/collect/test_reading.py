"""Reading below a root: links, limits, timeouts, patterns."""

from __future__ import annotations

import io
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gdrkit.agent.collect import collector, source_rows
from gdrkit.agent.collect.bundle import Bundle
from gdrkit.agent.collect.patterns import alternatives, expression, folders, select, unfold
from gdrkit.agent.collect.progress import CollectorProgress
from gdrkit.agent.collect.timeouts import TimeLimitedCalls
from gdrkit.agent.collect.tree import Tree, outcome
from gdrkit.agent.collect.walker import Walker
from tests.agent.collect.commands import covers_command


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/file").write_text("inside")
    return Tree(str(tmp_path))


def test_an_absolute_link_is_followed_inside_the_root(tree, tmp_path):
    (tmp_path / "etc/link").symlink_to("/etc/file")

    assert tree.resolve("etc/link") == "etc/file"
    assert tree.links == {"etc/link": "file"}


def test_a_link_cannot_climb_out(tree, tmp_path):
    (tmp_path / "etc/link").symlink_to("../../../../etc/file")

    assert tree.resolve("etc/link") == "etc/file"
    assert tree.links == {"etc/link": "file"}


def test_a_loop_of_links_is_an_error(tree, tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(OSError, match="Too many levels"):
        tree.resolve("a/x")


def test_a_missing_path_is_resolved_as_far_as_it_exists(tree, tmp_path):
    (tmp_path / "lib").symlink_to("usr/lib")

    assert tree.resolve("lib/modules/x") == "usr/lib/modules/x"


def test_no_more_than_the_limit_is_read(tree):
    content = tree.read("etc/file", 3)

    assert (content.data, content.whole) == (b"ins", False)
    assert tree.read("etc/file", 6).whole


def test_a_pipe_does_not_block(tree, tmp_path):
    os.mkfifo(tmp_path / "etc/pipe")

    with pytest.raises(OSError, match="not a regular file"):
        tree.read("etc/pipe", 10)


def test_errors_become_statuses_of_the_manifest():
    assert outcome(FileNotFoundError(2, "No such file or directory")) == ("absent", "")
    assert outcome(PermissionError(13, "Permission denied")) == ("denied", "Permission denied")
    assert outcome(TimeoutError("no answer within 5 s")) == ("timed-out", "no answer within 5 s")
    assert outcome(OSError(22, "Invalid argument")) == ("unreadable", "Invalid argument")


def test_a_call_that_hangs_times_out():
    patience = TimeLimitedCalls(limit_s=0.05)

    with pytest.raises(TimeoutError):
        patience.call(time.sleep, 0.5)
    assert patience.call(len, "abc") == 3
    patience.close()


def test_calls_that_hang_again_and_again_get_less_and_less_time(monkeypatch):
    """A driver that hangs does so for each of its files."""
    monkeypatch.setattr("gdrkit.agent.collect.timeouts.TOTAL_LIMIT_S", 0.3)
    calls = TimeLimitedCalls(limit_s=0.2)
    said = []
    for _ in range(4):
        with pytest.raises(TimeoutError) as caught:
            calls.call(time.sleep, 2)
        said.append(str(caught.value))

    assert said == ["timed out after 0.2 s", *["timed out after 0.1 s"] * 3]


def test_errors_of_a_call_are_raised():
    with pytest.raises(FileNotFoundError):
        TimeLimitedCalls().call(os.listdir, "/does/not/exist")


# -- patterns --------------------------------------------------------------------------------------


def test_choices_are_expanded():
    assert alternatives("a{b,c}d{,e}") == ["abd", "abde", "acd", "acde"]
    assert unfold("{usr/,}lib/x{1,2}") == ["usr/lib/x{1,2}", "lib/x{1,2}"]


def test_names_are_selected_in_their_own_order():
    assert select(["a", "b1", "c", "b2"], ["c", "b*"]) == ["b1", "c", "b2"]


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("sys/*/x", "sys/a/x", True),
        ("sys/*/x", "sys/a/b/x", False),
        ("sys/{a,b*}/x", "sys/bcd/x", True),
        ("sys/{a,b*}/x", "sys/c/x", False),
        ("boot/config-<release>", "boot/config-6.1.0", True),
        ("boot/config-<release>", "boot/config-", False),
        ("a.b", "axb", False),
        ("{usr/,}lib", "usr/lib", True),
    ],
)
def test_patterns_as_regular_expressions(pattern, path, fits):
    assert bool(expression(pattern).match(path)) is fits


def test_folders_that_are_listed_for_a_pattern():
    assert folders("sys/*/x/{a,b}") == ["sys", "sys/*/x"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("etc/{file,missing}", ["etc/file", "etc/missing"]),
        ("etc/{missing,fi*}", ["etc/file"]),
        ("etc/fi*", ["etc/file"]),
    ],
)
def test_a_folder_that_is_not_listed_is_asked_for_names_unless_one_is_a_pattern(tree, pattern, found):
    walker = Walker(tree, Bundle(io.BytesIO(), "top", None), "6.1")
    assert walker.matches(pattern, listed=False) == found


# -- commands that hang ----------------------------------------------------------------------------


def test_commands_and_probes_that_hang_take_a_limited_time(monkeypatch):
    """Four probes that hang, behind a dozen commands that hang: each has its own time, and all together."""
    rows = tuple(source_rows.CommandSource(("sleep", f"{60 + number}"), "hangs") for number in range(12))
    monkeypatch.setattr(collector, "COMMANDS", rows)
    monkeypatch.setattr(collector, "COMMANDS_LIMIT_S", 1.5)
    monkeypatch.setattr(collector, "program", lambda script: "import time; time.sleep(60)")
    collection = collector.Collection(
        collector.CollectOptions(), CollectorProgress(io.StringIO(), quiet=True)
    )

    with ThreadPoolExecutor(4) as pool, ThreadPoolExecutor(3) as probes:
        jobs = collection._start(pool, probes)
        statuses = [job.result().status for _, job in jobs]

    assert statuses == ["timed-out"] * 16  # of 60 s each


def test_a_probe_that_prints_without_end_is_cut_off(monkeypatch):
    """A libcuda that prints: what it fills is bounded, and the others are not held up."""
    monkeypatch.setattr(collector, "COMMANDS", ())
    endless = "import os\nwhile True: os.write(1, b'x' * 65536)"
    monkeypatch.setattr(
        collector, "program", lambda script: endless if script == "cuda_probe" else "print(1)"
    )
    collection = collector.Collection(
        collector.CollectOptions(), CollectorProgress(io.StringIO(), quiet=True)
    )

    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(3) as probes:
        results = [(row, job.result()) for row, job in collection._start(pool, probes)]

    assert [result.status for _, result in results] == ["truncated", "found", "found", "found"]
    assert all(len(result.output) <= row.limit_bytes for row, result in results)


def test_commands_about_interfaces_are_run_for_those_of_rdma_devices(tmp_path):
    """A name that a command would take for an option is left out."""
    for device, net in (("mlx5_1", "ens1"), ("mlx5_0", "ens0"), ("odd_0", "-x")):
        (tmp_path / f"sys/class/infiniband/{device}/device/net/{net}").mkdir(parents=True)
    (tmp_path / "sys/class/net/eno1").mkdir(parents=True)
    options = collector.CollectOptions(root=str(tmp_path))
    commands = collector.Collection(options, CollectorProgress(io.StringIO(), quiet=True)).commands()

    files = [row.file for row in commands if row.argv[:2] == ("ethtool", "-a")]
    assert files == [f"sos_commands/networking/ethtool_-a_{net}" for net in ("ens0", "ens1")]
    assert all(covers_command(row.argv) for row in commands)
    assert not covers_command(("ethtool", "-a"))
    assert not covers_command(("ethtool", "-e", "ens0"))


@pytest.mark.parametrize("executable", [True, False])
def test_probes_run_in_the_python_that_runs_or_in_any_if_it_is_not_known(monkeypatch, tmp_path, executable):
    for name in ("ours", "python3"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(collector, "COMMANDS", ())
    monkeypatch.setattr("sys.executable", str(tmp_path / "ours") if executable else "")
    options = collector.CollectOptions(search_path=str(tmp_path))
    collection = collector.Collection(options, CollectorProgress(io.StringIO(), quiet=True))

    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(3) as probes:
        outputs = {job.result().output for _, job in collection._start(pool, probes)}

    assert outputs == {b"ours\n" if executable else b"python3\n"}
