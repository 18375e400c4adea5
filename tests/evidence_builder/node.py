"""A node's page of TOML made into a tree: each part of the machine written by the module that knows it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.evidence_builder import driver, kernel, library, log, modules, pack, pci, rdma, trust
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
    """A node's description, over the presets that it uses."""
    spec = tomllib.loads((folder / "node.toml").read_text())
    presets = tomllib.loads((folder.parent / "presets.toml").read_text())
    merged: dict[str, Any] = {}
    for name in spec.get("use", []):
        merged = merge(merged, presets[name])
    return merge(merged, spec)


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key; anything else is replaced."""
    merged = dict(low)
    for key, value in high.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def make(folder: Path) -> tuple[Tree, dict[str, Any]]:
    """The whole tree, with the node's own files laid over what is generated."""
    spec = load(folder)
    spec["key_ids"] = {name: make_key(name).key_id for name in spec.get("trust", {}).get("builtin", [])}
    tree = Tree()
    devices = pci.parse(pci.outline(spec.get("pci", {})))
    user_is_root = spec.get("bundle", {}).get("user", "root") == "root"
    kernel.write(tree, spec)
    trust.write(tree, spec.get("trust", {}))
    pci.write(tree, devices, spec.get("pci", {}), root=user_is_root)
    rdma.write(tree, devices, spec.get("rdma", {}))
    builds, running = _builds(spec)
    shape = _kernel(spec)
    installed.write(tree, builds, shape, spec["kernel"])
    _headers(tree, spec, builds, shape)
    if "nvidia" in running:
        driver.write(tree, devices, {"arch": shape.architecture, **spec["driver"]})
    tree.file("sos_commands/kernel/dmesg", log.text(spec, [build for build in builds if build.loaded]))
    _libraries(tree, spec)
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
    """Make a node and lay it down in its own format; the path that a user would give to `gdr doctor`."""
    tree, spec = make(folder)
    for path in spec.get("bundle", {}).get("unseen", []):
        tree.drop(path)
    return FORMATS[spec.get("bundle", {}).get("format", "bundle")](tree, spec, to)


def _kernel(spec: Mapping[str, Any]) -> Kernel:
    held = spec["kernel"]
    return Kernel(
        held["release"],
        held.get("arch", "x86_64"),
        held.get("dmabuf", True),
        held.get("odp", True),
        held.get("namespaces", True),
    )


def _builds(spec: Mapping[str, Any]) -> tuple[list[Build], set[str]]:
    """Every module file of the node, and the names of those that are loaded."""
    shape = _kernel(spec)
    held, stack, gpu = spec["kernel"], spec.get("rdma", {}), spec.get("driver", {})
    running = {*stack.get("loaded", []), *gpu.get("loaded", [])}
    inbox = modules.rdma_shapes(shape, stack.get("inbox_peer_api", ""))
    builds = installed.intree(inbox, shape, held.get("signer", ""), held.get("compress", ""))
    client = stack.get("inbox_peer_api", "")
    if stack.get("ofed"):
        client = stack["peer_api"]
        shapes = modules.rdma_shapes(shape._replace(dmabuf=True, odp=True), client, stack["ofed"])
        layout = stack["layout"]
        builds += [
            Build(
                made,
                layout if layout == "updates/dkms" else f"{layout}/{_ofed_folder(name)}",
                f"ofed-{stack['ofed']}",
                stack.get("signer", ""),
                stack.get("compress", ""),
            )
            for name, made in shapes.items()
        ]
    if gpu:
        builds += _nvidia(shape, gpu, gpu.get("peermem_client", client))
    for extra in spec.get("module", []):
        builds.append(_extra(shape, extra, client, gpu))
        if extra.get("loaded"):
            running.add(extra["name"])
    ours = stack.get("loaded_from", "ofed" if stack.get("ofed") else "inbox")
    return [_mark(build, running, ours, inbox, spec) for build in builds], running


def _ofed_folder(name: str) -> str:
    if name == "mlx_compat":
        return "compat"
    return installed.INTREE.get(name, "kernel/drivers/infiniband/core").removeprefix("kernel/")


def _mark(
    build: Build, running: set[str], ours: str, inbox: Mapping[str, Any], spec: Mapping[str, Any]
) -> Build:
    """Whether this copy is the one that is loaded, and whether the kernel trusts its signer."""
    trusted = {*spec.get("trust", {}).get("builtin", []), *spec.get("trust", {}).get("mok", [])}
    untrusted = build.signer not in trusted
    loaded = build.shape.name in running
    if build.shape.name in inbox or build.shape.name == "mlx_compat":
        is_ofed = build.build.startswith("ofed-")
        loaded = loaded and is_ofed == (ours == "ofed")
    users = spec.get("users", {}).get(build.shape.name, 0)
    return build._replace(loaded=loaded, trusted=not untrusted, users=users)


def _nvidia(shape: Kernel, gpu: Mapping[str, Any], client: str) -> list[Build]:
    version = gpu["version"]
    shapes = modules.nvidia_shapes(shape, version, gpu["flavour"], gpu.get("peermem", "stub"), client)
    skipped = set(gpu.get("without", []))
    prefix = gpu.get("file_prefix", "")
    builds = []
    for name, made in shapes.items():
        if name in skipped:
            continue
        build = Build(
            made,
            gpu["folder"],
            gpu.get("build", f"nvidia-{version}"),
            gpu.get("signer", ""),
            gpu.get("compress", ""),
            file_name=prefix + name.removeprefix("nvidia").removeprefix("_").replace("_", "-") + ".ko"
            if prefix
            else "",
        )
        if name == "nvidia_peermem":
            build = build._replace(
                signer=gpu.get("peermem_signer", build.signer),
                against=gpu.get("peermem_against", {}),
                shape=made._replace(version=gpu.get("peermem_version", version)),
                broken=gpu.get("peermem_broken", ""),
                release=gpu.get("peermem_release", ""),
            )
        builds.append(build)
    return builds


def _extra(shape: Kernel, extra: Mapping[str, Any], client: str, gpu: Mapping[str, Any]) -> Build:
    made = modules.legacy_shape(shape, extra["version"], client)
    return Build(
        made,
        extra["folder"],
        f"{extra['name']}-{extra['version']}",
        extra.get("signer", ""),
        extra.get("compress", ""),
    )


def _headers(tree: Tree, spec: Mapping[str, Any], builds: list[Build], shape: Kernel) -> None:
    """Kernel headers and OFED's, where conftest looks for Module.symvers."""
    headers = spec["kernel"].get("headers", "")
    if headers:
        own = [build for build in builds if build.folder.startswith("kernel/drivers")]
        tree.file(f"{headers}/Module.symvers", installed.symvers(own, modules.vmlinux_exports(shape)))
        tree.link(f"lib/modules/{shape.release}/build", headers)
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
    nccl = held.get("nccl", "")
    if nccl:
        said = f"NCCL version {nccl}+cuda12.8\0".encode()
        tree.file(
            f"{place}/libnccl.so.{nccl}", library.shared_object("libnccl.so.2", library.NCCL, arch, said)
        )
        tree.links[f"{place}/libnccl.so.2"] = f"libnccl.so.{nccl}"
