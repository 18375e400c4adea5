"""Nothing is imported, read or started without need; benchmarks measure what that saves."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tools.architecture import SOURCE

from gdrkit.diagnosis import diagnose
from gdrkit.evidence import Command, Host, TextOrigin
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import WRITTEN
from gdrkit.programs.names import NAMES
from gdrkit.rules.remedy_names import RemedyName
from tests.evidence_nodes import laid_down, names

HEAVY = {
    "cryptography", "asn1crypto", "rich", "subprocess", "hashlib", "ctypes", "pathlib", "tempfile", "shutil",
    "yaml", "dataclasses", "html",
}  # fmt: skip
RUN = """
import json, sys
started = []
children = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system")
sys.addaudithook(lambda event, more: started.append(event) if event in children else None)
output, sys.stdout = sys.stdout, open("/dev/null", "w")
from gdrkit.cli import main
main(sys.argv[1:])
print(json.dumps({"modules": sorted(sys.modules), "started": started}), file=output)
"""


@functools.cache
def traces(*arguments: str) -> dict[str, list[str]]:
    """The modules that a command imported, and the child processes that it started."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=True, env=os.environ
    )
    traces: dict[str, list[str]] = json.loads(done.stdout)
    return traces


@pytest.fixture(scope="module")
def node():
    """A function that builds a node by name and returns its path."""
    return lambda name: str(laid_down(name))


@pytest.mark.parametrize("name", ["no-gpu", "ubuntu-6.8-h100", "zgx-3285", "mixed-signers", "wsl2"])
@pytest.mark.parametrize("form", ["--json", "--line"])
def test_a_report_without_a_signature_to_check_imports_nothing_heavy(node, name, form):
    assert not HEAVY & set(traces("doctor", node(name), form)["modules"])


def test_cryptography_is_imported_where_there_is_a_certificate(node):
    """The altered module's signer is enrolled, so its signature is verified, and found to be wrong."""
    imported = set(traces("doctor", node("signature-altered"), "--json")["modules"])
    assert {"cryptography", "hashlib"} <= imported


def test_a_yaml_library_is_imported_where_there_is_a_manifest(node):
    assert "yaml" in traces("doctor", node("gpu-operator-stub"), "--json")["modules"]
    assert "yaml" not in traces("doctor", node("signature-altered"), "--json")["modules"]


def test_a_report_loads_the_remedies_of_its_findings_alone(node):
    files = {f"gdrkit.repair.remedies.{name.replace('-', '_')}": name for name in RemedyName}
    loaded = {
        files[name] for name in traces("doctor", node("zgx-3285"), "--json")["modules"] if name in files
    }
    assert RemedyName.SIGN_MODULE in loaded
    assert not loaded & {RemedyName.RAISE_MEMLOCK, RemedyName.POWER_CYCLE, RemedyName.MOONCAKE_USE_DMABUF}

    assert not files.keys() & set(traces("doctor", node("ubuntu-6.8-h100"), "--json")["modules"])


def test_a_text_report_without_colours_imports_nothing_heavy(node):
    """Here it is written to no terminal. A picture of a node has characters that are not ASCII."""
    assert not HEAVY & set(traces("doctor", node("geforce-desktop"), "--consumer", "ucx")["modules"])


BARE = """
import sys
from gdrkit.diagnosis import diagnose
from tests.memory_host import MemoryHost

bridge = {"class": "0x060000", "vendor": "0x8086", "device": "0x1237"}
files = {f"sys/bus/pci/devices/0000:00:00.0/{name}": text for name, text in bridge.items()}
files |= {"proc/modules": "ext4 1 0 - Live 0x0", "etc/os-release": "ID=ubuntu"}
report = diagnose(MemoryHost(files, complete=True))
print(*report.consumers, *sys.modules)
"""
MOST_MODULES = 190
"""Of gdrkit, for a machine that has neither GPU nor NIC; each takes 0.2 ms where Python starts in 10."""
FOR_DEVICES = {
    "facts.linkage", "facts.module_state", "facts.nvidia_smi", "facts.pci_text", "facts.trust",
    "programs.nccl.log_records", "repair.remedies.plan", "rules.expectation", "rules.iommu",
    "rules.module_symbols",
}  # fmt: skip


def test_a_machine_without_devices_loads_what_it_calls_for_alone():
    """Every program is judged there too: no path of any is open."""
    done = subprocess.run(
        [sys.executable, "-c", BARE], capture_output=True, text=True, check=True, cwd=SOURCE.parent.parent,
        env={**os.environ, "PYTHONPATH": "."},
    )  # fmt: skip
    names = set(done.stdout.split())
    assert set(NAMES) <= names
    loaded = {name.removeprefix("gdrkit.") for name in names if name.startswith("gdrkit.")}
    assert len(loaded) <= MOST_MODULES
    assert not FOR_DEVICES & loaded


COMPILES = """
import pkgutil, re, sys
compiled, compile = [], re.compile
def seen(*arguments, **more):
    caller = sys._getframe(1)
    if caller.f_code.co_name == "<module>" and caller.f_globals["__name__"].startswith("gdrkit."):
        compiled.append(caller.f_globals["__name__"])
    return compile(*arguments, **more)
re.compile = seen
import gdrkit
for module in pkgutil.walk_packages(gdrkit.__path__, "gdrkit."):
    if not module.name.endswith("__main__"):
        __import__(module.name)
print(*compiled)
"""
COMPILED_ON_IMPORT = ("gdrkit.agent.", "gdrkit.transport.")
"""What runs alone on other nodes has no other module of gdrkit."""


def test_no_import_compiles_an_expression():
    done = subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert modules  # those of the agent: the count sees what it looks for
    assert [name for name in modules if not name.startswith(COMPILED_ON_IMPORT)] == []


def test_help_imports_no_package_of_the_core():
    imported = set(traces("--help")["modules"])
    assert not {"msgspec", "argparse", "gdrkit.node", "gdrkit.rules"} & imported


def test_help_imports_nothing_that_python_has_not_imported_already():
    program = "import sys; sys.path.append(sys.argv.pop(1)); from gdrkit.cli import main; main(['--help'])"
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"{program}; print(*sys.modules, file=sys.stderr)",
        str(SOURCE.parent),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    imported = set(done.stderr.split())
    assert "gdrkit.cli" in imported
    assert not {"re", "typing", "contextlib", "functools", "json"} & imported


@pytest.mark.parametrize("name", ["no-gpu", "ubuntu-6.8-h100", "rhel-9-mofed", "geforce-desktop"])
def test_no_child_is_started_for_collected_evidence(node, name):
    assert traces("doctor", node(name), "--json")["started"] == []


def test_no_child_is_started_on_a_machine_whose_files_are_enough():
    """The machine has dpkg's files, a readable kernel log, and no GPU, since a GPU needs nvidia-smi."""
    for needed in ("/var/lib/dpkg/status", "/dev/kmsg"):
        if not os.access(needed, os.R_OK):
            pytest.skip(f"needs a readable {needed}: run it as root on Debian or Ubuntu")
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("nvidia-smi is started here: run it on a machine without an NVIDIA GPU")
    seen = traces("doctor", "--json")
    assert seen["started"] == []
    assert not HEAVY & set(seen["modules"])


class CountingHost:
    """A host that counts how often it is asked for each source."""

    def __init__(self, host: Host) -> None:
        self._host, self.source = host, host.source
        self.asked: Counter[tuple[str, str]] = Counter()

    def read(self, path: str) -> bytes:
        self.asked["read", path] += 1
        return self._host.read(path)

    def map(self, path: str) -> memoryview:
        self.asked["map", path] += 1
        return self._host.map(path)

    def list(self, path: str) -> tuple[str, ...]:
        self.asked["list", path] += 1
        return self._host.list(path)

    def exists(self, path: str) -> bool:
        self.asked["exists", path] += 1
        return self._host.exists(path)

    def resolve(self, path: str) -> str:
        self.asked["resolve", path] += 1
        return self._host.resolve(path)

    def run(self, command: Command) -> bytes:
        self.asked["run", command.line] += 1
        return self._host.run(command)

    def origin(self, name: str) -> TextOrigin | None:
        return self._host.origin(name)


@pytest.mark.parametrize("name", names())
def test_nothing_is_read_twice_in_a_whole_diagnosis(node, name):
    """What-then chains and plans are included: after a supposed step, no file is read again."""
    host = CountingHost(open_host(node(name)))
    diagnose(host)

    assert {source: times for source, times in host.asked.items() if times > 1} == {}


NOT_IN_FILES = {
    "dmesg",  # the kernel's log is not in a file
    "lsinitramfs /boot/initrd.img",  # what it holds; on a live machine only if its time leaves that open
    "lsinitrd",
    WRITTEN.line,  # times of files: a host has none
    "nvidia-smi -q -d MEMORY",  # how much of BAR1 is in use
    "nvidia-smi topo -m",  # NVLink, where a GPU and a NIC are far apart
    "nvidia-smi -q",  # whether a GPU needs a reset; not on a live machine whose kernel log is clean
    "gdr probe cuda --json",  # run on a machine only with --probe
    "gdr probe verbs --json",
    "gdr probe memory --json",
    "gdr probe rm --json",
}


@pytest.mark.parametrize("name", ["ubuntu-6.8-h100", "zgx-3285", "acs-redirect", "signature-altered"])
def test_no_command_is_run_for_what_files_show(node, name):
    host = CountingHost(open_host(node(name)))
    diagnose(host)
    asked = {line for method, line in host.asked if method == "run"}

    assert asked <= NOT_IN_FILES | NOT_COLLECTED


NOT_COLLECTED = {"ucx_info -v", "uname -a"}
"""These nodes have no file of UCX, and kernels before 6.1 no file with the architecture."""
