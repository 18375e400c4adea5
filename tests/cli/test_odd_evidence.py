"""Evidence that is odd, cut or not collected is unknown or refused in a line: never a fault in gdrkit."""

import gzip
import random
import shutil
from pathlib import Path

import pytest
from tools.fuzz.commands import run

from tests.evidence_nodes import laid_down
from tests.seed import SEED

NODE = "rhel-9-mofed"
COMMANDS = (
    ("doctor",), ("doctor", "--json"), ("topo",), ("estimate",), ("modprobe", "nvidia"),
    ("modprobe", "nvidia_peermem"), ("fix",), ("config", "nccl-env"),
)  # fmt: skip
VERDICTS = {0, 1, 2, 3}


@pytest.fixture
def node(tmp_path):
    """A folder with the evidence of a node, to be altered."""
    return shutil.copytree(laid_down(NODE), tmp_path / "node", symlinks=True)


def commands(path: Path, count: int = len(COMMANDS)) -> None:
    """Some of the commands, others each day, end with a verdict."""
    for command in random.Random(f"{SEED} {path.parent.name}").sample(COMMANDS, count):
        code, _, error = run((*command, str(path)))
        assert code in VERDICTS, (f"GDRKIT_SEED={SEED}", command, code, error)
        assert "Traceback" not in error and "internal error" not in error


def written(node: Path, pattern: str, content: str) -> None:
    files = list(node.glob(pattern))
    assert files
    for path in files:
        path.write_text(content)


@pytest.mark.parametrize("minor", ["", "-1", "zz", "../../..", "²", "1" * 5000, None])
def test_an_odd_minor_number_of_a_gpu(node, minor):
    files = list(node.glob("proc/driver/nvidia/gpus/*/information"))
    assert files
    for path in files:
        lines = [line for line in path.read_text().splitlines() if not line.startswith("Device Minor")]
        path.write_text(
            "\n".join([*lines, *([] if minor is None else [f"Device Minor: \t {minor}"])]) + "\n"
        )
    commands(node, 3)


@pytest.mark.parametrize("number", ["", "0xzz", "²", "0x" + "f" * 6000, "-0x1", "0x10de0x10de"])
@pytest.mark.parametrize("file", ["vendor", "device", "class", "resource"])
def test_an_odd_hexadecimal_number(node, file, number):
    written(node, f"sys/bus/pci/devices/*/{file}", number)
    commands(node, 3)


@pytest.mark.parametrize(
    "release", ["", "²", "6", "x.y.z", "..", "../../etc", "a/b", "6.8.0\n6.9", "6." + "1" * 5000, "-r", "\0"]
)
def test_an_odd_release(node, release):
    written(node, "proc/sys/kernel/osrelease", release)
    commands(node, 3)


def test_an_index_of_modules_that_was_not_collected(node):
    (node / "gdr_manifest.json").unlink()  # it would say that the file was collected
    shutil.rmtree(node / "proc" / "1")  # a whole machine would have it
    for path in node.glob("lib/modules/*/modules.*"):
        path.unlink()
    for module in ("nvidia", "nvidia_peermem"):
        code, out, error = run(("modprobe", module, str(node)))
        assert code == 3 and ("not collected" in error or "unknown" in out)
    commands(node)


def test_a_folder_that_is_a_dangling_link(node):
    for folder in (node / "lib" / "modules", node / "etc" / "modprobe.d", node / "sys" / "bus"):
        shutil.rmtree(folder)
        folder.symlink_to("../does-not-exist")
        commands(node)


@pytest.mark.parametrize("end", ["", "\n*** /proc/version\n\0\xff"])
def test_a_bug_report_does_not_answer_modprobe(tmp_path, end):
    line = "_" * 44
    start = f"{line}\n\nStart of NVIDIA bug report log file.\n\n"
    report = f"{start}{line}\n\n*** /proc/cmdline\n*** ls: x\nquiet\n"
    at = tmp_path / "nvidia-bug-report.log.gz"
    at.write_bytes(gzip.compress((report + end).encode("latin-1")))
    for module in ("nvidia", "nvidia_peermem"):
        code, out, error = run(("modprobe", module, str(at)))
        assert code == 3 and not out and len(error.splitlines()) <= 3, (code, out, error)
    commands(at)
