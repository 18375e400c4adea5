"""One collection: the commands, their results in the manifest, and which kernel a tree is of."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gdrkit.agent.collect import collector
from gdrkit.agent.collect.collector import Collection, CollectOptions, CollectSummary
from gdrkit.agent.collect.progress import CollectorProgress
from gdrkit.agent.collect.source_rows import CommandSource
from tests.agent.collect.conftest import Opened

TOOLS = {
    "log": "echo 'Linux version 6.1'",
    "late": "echo '[ 99.0] late'",
    "again": "echo again",
    "counts": "printf 'rx_discards: 1\\nrx_ok: 2\\n'",
    "long": "echo 0123456789; exec sleep 60",
    "fails": "echo out; echo 'password=hunter2' >&2; exit 3",
    "cards": "echo ec:0d:9a:44:b2:c4",
}
ROWS = (
    CommandSource(("log",), "log", "kernel"),
    CommandSource(("again", "a"), "instead of a log that is whole", instead_of="sos_commands/kernel/log"),
    CommandSource(("late",), "log", "kernel"),
    CommandSource(("again", "b"), "of one that is not", instead_of="sos_commands/kernel/late"),
    CommandSource(("again", "c"), "of one that is missing", instead_of="sos_commands/kernel/none"),
    CommandSource(("counts",), "reduced", reduce="statistics"),
    CommandSource(("long",), "cut off", limit_bytes=4, reduce="statistics"),
    CommandSource(("fails",), "failed"),
    CommandSource(("none",), "not installed"),
    CommandSource(("cards",), "names alone", addresses=False),
    CommandSource(("cards", "x"), "addresses"),
)


@pytest.fixture
def collection(monkeypatch, tmp_path):
    """A collection of this machine's root with those commands alone."""
    for name, text in TOOLS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("FILES", "FOLDERS", "LIBRARY_NOTES"):
        monkeypatch.setattr(collector, name, ())
    for name in ("MODULE_FOLDERS", "SYMBOL_TABLES", "LIBRARY_FOLDERS"):
        monkeypatch.setattr(f"gdrkit.agent.collect.module_collector.{name}", ())
    monkeypatch.setattr(collector, "COMMANDS", ROWS)

    def made(**options: bool) -> Collection:
        chosen = CollectOptions(probe=False, search_path=str(tmp_path), **options)
        return Collection(chosen, CollectorProgress(io.StringIO()))

    return made


def opened(found: Collection, path: Path) -> tuple[Opened, CollectSummary]:
    with path.open("wb") as stream:
        summary = found.write(stream)
    return Opened(path), summary


def test_every_command_its_result_and_the_summary(collection, tmp_path):
    found = collection(anonymize=True)
    bundle, summary = opened(found, tmp_path / "b.tar.gz")

    assert [tuple(row.values()) for row in bundle.manifest["commands"]] == [
        (["log"], "sos_commands/kernel/log", 0, "found", ""),
        (["late"], "sos_commands/kernel/late", 0, "found", ""),
        (["counts"], "sos_commands/gdr/counts", 0, "found", ""),
        (["long"], "sos_commands/gdr/long", None, "truncated", ""),
        (["fails"], "sos_commands/gdr/fails", 3, "failed", "password=(dropped)"),
        (["none"], "sos_commands/gdr/none", None, "not-installed", ""),
        (["cards"], "sos_commands/gdr/cards", 0, "found", ""),
        (["cards", "x"], "sos_commands/gdr/cards_x", 0, "found", ""),
        (["gdr", "ps", "--record"], "sos_commands/gdr/running", 0, "found", ""),
        (["again", "b"], "sos_commands/gdr/again_b", 0, "found", ""),
        (["again", "c"], "sos_commands/gdr/again_c", 0, "found", ""),
    ]
    outputs = {path[13:]: data for path, data in bundle.files.items() if path.startswith("sos_commands/")}
    assert outputs.pop("gdr/cards_x").startswith(b"02:00:00:00:")  # the host has cards of its own
    assert outputs.pop("gdr/running").startswith(b'{"schema": "gdrkit.running/1"')
    assert outputs == {
        "kernel/log": b"Linux version 6.1\n", "kernel/late": b"[ 99.0] late\n", "gdr/again_b": b"again\n",
        "gdr/again_c": b"again\n", "gdr/counts": b"rx_discards: 1\n", "gdr/long": b"",
        "gdr/cards": b"ec:0d:9a:44:b2:c4\n",
    }  # fmt: skip
    assert bundle.status("sos_commands/gdr/long") == "truncated"
    assert summary.commands == {"found": 8, "truncated": 1, "failed": 1, "not-installed": 1}
    assert summary.files["found"] == 8 and summary.files["truncated"] == 1
    said = found.progress._stream._stream.getvalue()
    assert [line[11:] for line in said.splitlines()] == [
        "files", "libraries", "modules", "tables of symbols", "commands",
    ]  # fmt: skip


def test_of_another_tree_no_command_is_run(collection, tmp_path):
    (tmp_path / "root").mkdir()
    bundle, summary = opened(collection(root=str(tmp_path / "root")), tmp_path / "b.tar.gz")
    assert (bundle.manifest["commands"], summary.commands) == ([], {})


def test_a_command_has_its_own_time_and_no_more_than_what_is_left_of_all(collection, tmp_path):
    (tmp_path / "hangs").write_text("#!/bin/sh\nsleep 60\n")
    (tmp_path / "hangs").chmod(0o755)
    found = collection()
    row = CommandSource(("hangs",), "", timeout_s=0.2)
    assert found._run(row, row.argv).status == "timed-out"
    found._started += 0.3 - collector.COMMANDS_LIMIT_S
    row = CommandSource(("hangs",), "", timeout_s=600.0)
    assert found._run(row, row.argv).status == "timed-out"
    found._started = float("-inf")
    late = (CommandSource(("log",), ""), "timed-out", None, b"", "other commands took all the time")
    assert (late[0], *found._run(late[0], ("log",))) == late


def test_probes_are_run_unless_they_are_not_wanted(collection):
    """The record of running processes asks no more than nvidia-smi, so it is taken in any case."""
    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(3) as probes:
        started = [row.argv for row, _ in collection()._start(pool, probes)]
    assert started == [*(row.argv for row in collection().commands()), ("gdr", "ps", "--record")]
    assert len(started) == 9


@pytest.mark.parametrize(
    ("there", "release"),
    [
        ({}, "unknown"),
        ({"proc/sys/kernel/osrelease": "6.1\n", "lib/modules/6.8/x": ""}, "6.1"),
        ({"proc/sys/kernel/osrelease": "\n", "lib/modules/6.8/x": ""}, "6.8"),
        ({"lib/modules/6.1/x": "", "lib/modules/6.8/x": "", "usr/lib/modules/7.0/x": ""}, "6.8"),
        ({"usr/lib/modules/7.0/x": ""}, "7.0"),
        ({"lib/modules": "a file", "usr/lib/modules/7.0/x": ""}, "7.0"),
        ({"lib/x": "", "etc/hostname": "x"}, "unknown"),
    ],
)
def test_the_kernel_of_a_tree_is_that_of_its_proc_or_the_last_that_has_modules(tmp_path, there, release):
    for path, text in there.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert Collection(CollectOptions(str(tmp_path)), CollectorProgress(io.StringIO())).release == release


def test_an_empty_folder_of_modules_says_nothing(tmp_path):
    (tmp_path / "lib/modules").mkdir(parents=True)
    (tmp_path / "usr/lib/modules/7.0").mkdir(parents=True)
    assert Collection(CollectOptions(str(tmp_path)), CollectorProgress(io.StringIO())).release == "7.0"


@pytest.mark.parametrize(
    ("hostname", "name"),
    [("zgx-3285", "zgx-3285"), ("a b/c.d_e", "a_b_c.d_e"), ("...", "node"), (".x.", "x"), ("é~1", "é_1")],
)
def test_the_top_folder_is_named_after_the_host(tmp_path, hostname, name):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text(hostname)
    top = Collection(CollectOptions(str(tmp_path)), CollectorProgress(io.StringIO())).top
    assert top.startswith(f"gdr-{name}-20") and top.endswith("Z")


def test_commands_are_run_for_64_interfaces_at_most(tmp_path):
    for number in range(70):
        (tmp_path / f"sys/class/infiniband/mlx5_0/device/net/ens{number:02}").mkdir(parents=True)
    rows = Collection(CollectOptions(str(tmp_path)), CollectorProgress(io.StringIO())).commands()
    named = [row.argv[2] for row in rows if row.argv[:2] == ("ethtool", "-a")]
    assert named == [f"ens{number:02}" for number in range(64)]
    assert all(not row.instead_of for row in rows)


def test_what_an_anonymized_collection_knows_of_this_machine_alone(tmp_path, monkeypatch):
    """The environment belongs to the user who collects, not to a tree."""
    monkeypatch.setenv("SUDO_USER", "wilhelmina")
    for path in ("sys/class/net/zeus-77", "sys/module/hera-77", "sys/class/infiniband/ares-77"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hosts").write_text("10.0.0.1 zeus-77 hera-77 ares-77 apollo-77\n")
    text = b"wilhelmina zeus-77 hera-77 ares-77 apollo-77"
    of_tree = Collection(CollectOptions(str(tmp_path), anonymize=True), CollectorProgress(io.StringIO()))
    assert of_tree.anonymizer is not None
    assert of_tree.anonymizer.content(text) == b"wilhelmina zeus-77 hera-77 ares-77 host00001"
    here = Collection(CollectOptions(anonymize=True), CollectorProgress(io.StringIO()))
    assert here.anonymizer is not None and b"wilhelmina" not in here.anonymizer.content(text)
    assert here.release == os.uname().release
