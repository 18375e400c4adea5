"""Whether a bundle reports a missing path as absent, denied or not collected."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import Command, EvidenceMissing, MissingReason, foreign, manifest
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.foreign import parse_sos
from gdrkit.evidence.manifest import parse
from gdrkit.evidence.target import open_host

MANIFEST = {
    "schema": "gdrkit.bundle/1",
    "files": {
        "proc/modules": {"status": "found"},
        "proc/keys": {"status": "denied", "why": "Permission denied"},
        "proc/slow": {"status": "timed-out"},
        "proc/kallsyms": {"status": "truncated"},
        "boot/config": {"status": "absent"},
        "sys/broken": {"status": "unreadable", "why": "Invalid argument"},
        "etc/skipped": {"status": "not-collected"},
        "etc/lost": {"status": "found"},
    },
    "folders": {
        "sys/module": {"status": "listed", "names": ["nvidia", "ib_core"]},
        "sys/class/infiniband": {"status": "absent"},
        "sys/kernel/debug": {"status": "denied"},
        "sys/bus/pci/devices": {"status": "listed", "names": ["0000:1b:00.0"]},
        "sys/devices/pci0000:1a/0000:1b:00.0": {"status": "listed", "names": ["vendor", "numa_node"]},
    },
    "commands": [
        {"argv": ["dmesg"], "file": "sos_commands/kernel/dmesg", "exit_code": 0, "status": "found"},
        {"argv": ["lsmod"], "file": "sos_commands/kernel/lsmod", "exit_code": 1, "status": "failed",
         "stderr": "cannot open /proc/modules"},
        {"argv": ["ibstat"], "status": "not-installed"},
        {"argv": ["slow"], "status": "timed-out"},
        {"argv": ["half"], "file": "sos_commands/kernel/dmesg", "exit_code": 1, "status": "failed",
         "stderr": "killed"},
    ],
}  # fmt: skip


@pytest.fixture
def host(tmp_path):
    (tmp_path / "gdr_manifest.json").write_text(json.dumps(MANIFEST))
    for path, content in {
        "proc/modules": "nvidia 1 0 - Live 0x0\n",
        "sos_commands/kernel/dmesg": "[    0.000000] Linux version 6.1\n",
        "sos_commands/kernel/lsmod": "",
        "sys/devices/pci0000:1a/0000:1b:00.0/vendor": "0x10de\n",
        "sys/module/nvidia/version": "580.1\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    link = tmp_path / "sys/bus/pci/devices/0000:1b:00.0"
    link.symlink_to("../../../devices/pci0000:1a/0000:1b:00.0")
    return open_host(str(tmp_path))


def why_not(ask, *args) -> MissingReason:
    with pytest.raises(EvidenceMissing) as error:
        ask(*args)
    return error.value.missing.why


def test_a_bundle_is_recognised_by_its_manifest(host):
    assert host.source == "bundle"
    assert host.record.manifest.schema == "gdrkit.bundle/1"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("boot/config", MissingReason.ABSENT),
        ("proc/keys", MissingReason.DENIED),
        ("proc/slow", MissingReason.TIMED_OUT),
        ("proc/kallsyms", MissingReason.TRUNCATED),
        ("etc/lost", MissingReason.TRUNCATED),  # recorded as found, but not in the bundle
        ("etc/never", MissingReason.NOT_COLLECTED),
        ("etc/skipped", MissingReason.NOT_COLLECTED),
        ("sys/broken", MissingReason.UNDECIDED),
        (
            "sys/module/nvidia_peermem/version",
            MissingReason.ABSENT,
        ),  # the listing of sys/module does not have it
        ("sys/module/ib_core/version", MissingReason.NOT_COLLECTED),  # sys/module lists it
        ("sys/class/infiniband/mlx5_0/node_guid", MissingReason.ABSENT),
        ("sys/kernel/debug/x", MissingReason.DENIED),
        ("sys/bus/pci/devices/0000:1b:00.0/resource", MissingReason.ABSENT),  # listed at its resolved path
        ("sys/bus/pci/devices/0000:1b:00.0/numa_node", MissingReason.NOT_COLLECTED),
        ("sys/bus/pci/devices/0000:9b:00.0/vendor", MissingReason.ABSENT),
    ],
)
def test_the_manifest_gives_the_reason(host, path, why):
    assert why_not(host.read, path) is why


def test_links_are_followed_to_collected_files(host):
    assert host.read("sys/bus/pci/devices/0000:1b:00.0/vendor") == b"0x10de\n"
    assert host.list("sys/bus/pci/devices/0000:1b:00.0") == ("numa_node", "vendor")


def test_a_listing_comes_from_the_manifest_not_from_the_tree(host):
    assert host.list("sys/module") == ("ib_core", "nvidia")
    assert why_not(host.list, "sys/module/nvidia") is MissingReason.NOT_COLLECTED
    assert why_not(host.list, "sys/class/infiniband") is MissingReason.ABSENT
    assert why_not(host.list, "sys/kernel/debug") is MissingReason.DENIED


def test_a_path_can_exist_without_its_content(host):
    assert host.exists("sys/module/ib_core")
    assert host.exists("proc/keys")
    assert not host.exists("sys/module/nvidia_peermem")
    assert not host.exists("boot/config")
    assert not host.exists("sys/class/infiniband/mlx5_0/ports/1")
    assert host.exists("sys/broken")
    for path in ("etc/never", "etc/skipped"):
        assert why_not(host.exists, path) is MissingReason.NOT_COLLECTED


def test_commands_are_found_by_their_arguments(host):
    assert host.run(Command(("dmesg",), ())).startswith(b"[    0.0")
    assert why_not(host.run, Command(("slow",), ())) is MissingReason.TIMED_OUT
    for argv in (("lsmod",), ("ibstat",), ("never",)):
        assert (
            why_not(host.run, Command(argv, ("sos_commands/kernel/lsmod",))) is MissingReason.NOT_COLLECTED
        )
    with pytest.raises(EvidenceMissing, match="cannot open /proc/modules"):
        host.run(Command(("lsmod",), ("sos_commands/kernel/lsmod",)))
    with pytest.raises(EvidenceMissing, match="killed"):  # what it printed before is not its answer
        host.run(Command(("half",), ()))


DEEP = pytest.param("[" * 100_000, id="deep")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "other/1"}', '{"schema": 1}', DEEP])
def test_a_damaged_manifest_is_refused_with_a_one_line_error(tmp_path, text):
    (tmp_path / "gdr_manifest.json").write_text(text)
    with pytest.raises(TargetError) as error:
        open_host(str(tmp_path))
    assert "\n" not in str(error.value)


def test_a_manifest_that_is_too_large_is_not_parsed(tmp_path):
    (tmp_path / "gdr_manifest.json").write_bytes(b'{"schema": "gdrkit.bundle/1"}' + b" " * (17 << 20))
    with pytest.raises(TargetError, match="larger than"):
        open_host(str(tmp_path))


def test_a_manifest_of_sos_may_be_as_large_as_the_limit(monkeypatch):
    data = json.dumps({"components": {"report": {"plugins": {}}}}).encode()
    monkeypatch.setattr(foreign, "MANIFEST_LIMIT_BYTES", len(data))
    assert parse_sos(data) == {}
    with pytest.raises(ValueError, match="larger than"):
        parse_sos(data + b" ")


@given(st.binary())
def test_any_bytes_are_a_manifest_or_an_error(data):
    for parser in (parse, parse_sos):
        with contextlib.suppress(ValueError):
            parser(data)


def test_the_limits():
    assert manifest.MANIFEST_LIMIT_BYTES == 16 << 20
