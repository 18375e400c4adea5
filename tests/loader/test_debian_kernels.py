"""Debian's kernels for x86 and Arm: every module is predicted to load, without a taint."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gdrkit.facts.linkage import symbol_links
from gdrkit.facts.modules import kernel_symbol, module_layout_crc, vermagic
from gdrkit.loader import modprobe
from gdrkit.node import Node
from tests.debian_kernels import KERNELS, modules_of
from tests.memory_host import MemoryHost
from tests.system_programs import program

RDMA = (
    "ib_core",
    "ib_uverbs",
    "ib_umad",
    "rdma_ucm",
    "mlx5_core",
    "mlx5_ib",
    "rdma_rxe",
    "irdma",
)
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class PackageHost(MemoryHost):
    """A kernel's package as a machine on which only one module is loaded."""

    def __init__(self, modules: Path, machine: str, lists: Path) -> None:
        release = modules.name
        folder = f"lib/modules/{release}"
        files: dict[str, bytes | str] = {
            "proc/sys/kernel/osrelease": release,
            "proc/sys/kernel/arch": machine,
            "proc/sys/kernel/tainted": "0",
            "proc/sys/kernel/modules_disabled": "0",
            "proc/cmdline": "quiet",
            "proc/modules": "dummy 16384 0 - Live 0x0000000000000000\n",
            "sys/module/module/parameters/sig_enforce": "N",
            "sys/kernel/security/lockdown": "[none] integrity confidentiality",
            "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        }
        for path in lists.glob("modules.*"):
            files[f"{folder}/{path.name}"] = path.read_bytes()
        super().__init__(files, complete=True)
        self.modules, self.folder = modules, folder

    def read(self, path: str) -> bytes:
        if path.startswith(self.folder + "/kernel/"):
            file = self.modules / path[len(self.folder) + 1 :]
            if file.is_file():
                return file.read_bytes()
        return super().read(path)

    def exists(self, path: str) -> bool:
        if path.startswith(self.folder + "/kernel/"):
            return (self.modules / path[len(self.folder) + 1 :]).exists()
        return super().exists(path)


@pytest.fixture(params=KERNELS, ids=lambda kernel: "-".join(kernel), scope="module")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Node:
    version, architecture = request.param
    modules = modules_of(version, architecture)
    root = tmp_path_factory.mktemp("root")
    lists = root / "lib/modules" / modules.name
    lists.mkdir(parents=True)
    for path in modules.iterdir():
        (lists / path.name).symlink_to(path)
    subprocess.run([program("depmod"), "-b", root, modules.name], check=True, capture_output=True)
    return Node(PackageHost(modules, MACHINES[architecture], lists))


def test_a_loaded_module_identifies_the_kernel(node: Node) -> None:
    assert vermagic(node).startswith(node.text("proc/sys/kernel/osrelease") + " SMP ")
    assert module_layout_crc(node)
    assert kernel_symbol(node, "module_layout").crc == module_layout_crc(node)


@pytest.mark.parametrize("name", RDMA)
def test_an_in_tree_module_loads_without_a_taint(node: Node, name: str) -> None:
    found = modprobe(node, name)
    assert (found.loaded, found.stderr, found.reason) == (True, (), "")
    assert found.kernel_log == ()
    assert not symbol_links(node, name).problems
