"""Build a tree from a node's page of TOML. One module writes each part of the machine."""

from __future__ import annotations

import copy
import functools
import gzip
import posixpath
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.evidence_builder import (
    driver,
    kernel,
    library,
    log,
    lspci,
    modinfo,
    modules,
    pack,
    packages,
    pci,
    rdma,
    stock,
    trust,
    verbs,
)
from tests.evidence_builder import install as installed
from tests.evidence_builder.install import Build
from tests.evidence_builder.modules import Kernel
from tests.evidence_builder.tree import Tree
from tests.module_builder import make_key

NOT_EVIDENCE = {"node.toml", "expected.toml", "NOTE.md"}
FORMATS = {
    "bundle": pack.bundle,
    "tree": pack.plain,
    "sosreport": pack.sosreport,
    "bug-report": pack.bug_report,
}


def load(folder: Path) -> dict[str, Any]:
    """A node's description, merged with the presets that it uses."""
    spec = tomllib.loads((folder / "node.toml").read_text())
    presets = tomllib.loads((folder.parent / "presets.toml").read_text())
    merged: dict[str, Any] = {}
    for name in spec.get("use", []):
        merged = merge(merged, presets[name])
    return merge(merged, spec)


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """`high` merged over `low`: tables key by key, anything else is replaced."""
    merged = dict(low)
    for key, value in high.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def make(folder: Path) -> tuple[Tree, dict[str, Any]]:
    """The whole tree: generated files, replaced by the node's own."""
    spec = load(folder)
    spec["key_ids"] = {name: make_key(name).key_id for name in spec.get("trust", {}).get("builtin", [])}
    tree = Tree()
    devices = pci.parse(pci.outline(spec.get("pci", {})))
    user_is_root = spec.get("bundle", {}).get("user", "root") == "root"
    kernel.write(tree, spec)
    trust.write(tree, spec.get("trust", {}))
    pci.write(tree, devices, spec.get("pci", {}), root=user_is_root)
    rdma.write(tree, devices, spec.get("rdma", {}))
    builds, running = stock.builds(spec)
    shape = stock.kernel_of(spec)
    installed.write(tree, builds, shape, spec["kernel"])
    _headers(tree, spec, builds, shape)
    if "nvidia" in running:
        driver.write(tree, devices, {"arch": shape.architecture, **spec["driver"]})
    tree.file("sos_commands/kernel/dmesg", log.text(spec, [build for build in builds if build.loaded]))
    _libraries(tree, spec)
    if spec.get("bundle", {}).get("format") in ("sosreport", "bug-report"):
        _texts(tree, devices, spec.get("pci", {}))
        tree.file("sos_commands/kernel/modinfo_ALL_MODULES", modinfo.text(builds, shape))
    packages.write(tree, spec)
    for path in spec.get("drop", []):
        tree.drop(path)
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.is_file() and name not in NOT_EVIDENCE:
            tree.file(name, file.read_bytes())
    for path, target in spec.get("links", {}).items():
        tree.links[path] = target
    for path, why in spec.get("bundle", {}).get("denied", {}).items():
        tree.drop(path)
        tree.denied[path] = why
    for path in spec.get("bundle", {}).get("failed_commands", {}):
        tree.drop(path)
    return tree, spec


def write(folder: Path, to: Path) -> Path:
    """Write a node in its format; returns the path that a user would give to `gdr doctor`."""
    tree, spec = copy.deepcopy(_made(folder))
    for path in spec.get("bundle", {}).get("unseen", []):
        tree.drop(path)
        tree.folder(posixpath.dirname(path) or "etc")  # this folder is listed, but not what is below it
    return FORMATS[spec.get("bundle", {}).get("format", "bundle")](tree, spec, to)


@functools.cache
def _made(folder: Path) -> tuple[Tree, dict[str, Any]]:
    """A node, cached: dozens of tests write the same one, and RSA signatures are slow."""
    return make(folder)


def _texts(tree: Tree, devices: tuple[pci.Device, ...], spec: Mapping[str, Any]) -> None:
    """Write the command output that other collectors have instead of sysfs."""
    dumps = {device.address: tree.files[f"{device.folder}/config"] for device in devices}
    tree.file("sos_commands/pci/lspci_-nnvv", lspci.text(devices, spec))
    tree.file("sos_commands/pci/lspci_-nnDvvvxxxx", lspci.text(devices, spec, dumps=dumps))
    tree.file("sos_commands/infiniband/ibv_devinfo_-v", verbs.text(devices))


def _headers(tree: Tree, spec: Mapping[str, Any], builds: list[Build], shape: Kernel) -> None:
    """Write the kernel's and OFED's Module.symvers where conftest looks for them."""
    headers = spec["kernel"].get("headers", "")
    if headers:
        own = [build for build in builds if build.folder.startswith("kernel/drivers")]
        tree.file(f"{headers}/Module.symvers", installed.symvers(own, modules.vmlinux_exports(shape)))
        tree.link(f"lib/modules/{shape.release}/build", headers)
    packed = spec["kernel"].get("symvers", "")
    if packed:
        own = [build for build in builds if build.folder.startswith("kernel/drivers")]
        table = installed.symvers(own, modules.vmlinux_exports(shape))
        tree.file(packed, gzip.compress(table.encode(), mtime=0))
    for place in spec.get("rdma", {}).get("symvers", []):
        built = [build for build in builds if build.build.startswith("ofed-")]
        tree.file(f"{place}/Module.symvers", installed.symvers(built))


def _libraries(tree: Tree, spec: Mapping[str, Any]) -> None:
    held = spec.get("libraries", {})
    arch = spec["kernel"].get("arch", "x86_64")
    place = held.get("folder", f"usr/lib/{arch}-linux-gnu")
    verbs = held.get("verbs", "")  # the library's own version: 1.14.50.0 is rdma-core 50
    if verbs:
        names = (*library.VERBS, library.DMABUF) if held.get("verbs_dmabuf", True) else library.VERBS
        tree.file(f"{place}/libibverbs.so.{verbs}", library.shared_object("libibverbs.so.1", names, arch))
        tree.links[f"{place}/libibverbs.so.1"] = f"libibverbs.so.{verbs}"
    driver_version = spec.get("driver", {}).get("version", "")
    if driver_version and held.get("cuda", True):
        name = f"libcuda.so.{driver_version}"
        tree.file(f"{place}/{name}", library.shared_object("libcuda.so.1", library.CUDA, arch))
        tree.links[f"{place}/libcuda.so.1"] = name
    nccl = held.get("nccl", "")
    if nccl:
        said = f"NCCL version {nccl}+cuda12.8\0".encode()
        tree.file(
            f"{place}/libnccl.so.{nccl}", library.shared_object("libnccl.so.2", library.NCCL, arch, said)
        )
        tree.links[f"{place}/libnccl.so.2"] = f"libnccl.so.{nccl}"
